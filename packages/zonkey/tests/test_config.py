"""Settings: where they hold, blocks that fit into working memory, the folder of the cache."""

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from zonkey import config
from zonkey.config import cache_folder, config_context, get_config, rows_per_block, set_config


@pytest.fixture(autouse=True)
def _own_settings(monkeypatch):
    monkeypatch.setattr(config, "_process", {})
    monkeypatch.delenv("ZONKEY_WORKING_MEMORY", raising=False)


def memory():
    return get_config()["working_memory"]


def test_settings_hold_where_they_were_made():
    get_config()["working_memory"] = 1  # of a copy
    assert memory() == 64
    set_config(working_memory=32)
    with config_context(working_memory=8):
        with config_context(working_memory=2):
            assert memory() == 2
            with config_context(working_memory=None):
                assert memory() == 2
        assert memory() == 8
        set_config(working_memory=16)
        set_config()
        assert memory() == 8, "the context overrides the process until it ends"
    assert memory() == 16
    with pytest.raises(KeyError), config_context(working_memory=1):
        raise KeyError
    assert memory() == 16


def test_a_context_belongs_to_its_thread_and_set_config_to_all():
    with ThreadPoolExecutor(1) as pool:
        with config_context(working_memory=1):
            assert pool.submit(memory).result() == 64
        set_config(working_memory=3)
        assert pool.submit(memory).result() == 3


def test_contexts_of_interleaved_tasks_stay_apart():
    async def task(size, barrier):
        with config_context(working_memory=size):
            await barrier.wait()
            assert memory() == size
            await barrier.wait()
        assert memory() == 64

    async def both():
        barrier = asyncio.Barrier(2)
        await asyncio.gather(task(1, barrier), task(2, barrier))

    asyncio.run(both())


def test_the_environment_gives_the_default(monkeypatch):
    monkeypatch.setenv("ZONKEY_WORKING_MEMORY", "0.5")
    assert memory() == 0.5
    assert rows_per_block(2**10) == 512
    set_config(working_memory=2)
    assert memory() == 2


@pytest.mark.parametrize("value", [0, -1, 1.5, "2"])
def test_threads_are_counted(value):
    with pytest.raises(
        ValueError, match=f"threads must be an integer of at least 1; got {value!r}"
    ):
        set_config(threads=value)
    assert get_config()["threads"] is None


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), "64"])
def test_a_working_memory_must_be_positive(value, monkeypatch):
    rule = f"working_memory must be a positive number of MiB; got {value!r}"
    for change in (set_config, lambda **given: config_context(**given).__enter__()):
        with pytest.raises(ValueError, match=rule):
            change(working_memory=value)
    assert memory() == 64
    if value != "64":
        monkeypatch.setenv("ZONKEY_WORKING_MEMORY", str(value))
        with pytest.raises(ValueError, match=f"ZONKEY_WORKING_MEMORY .* got '{value}'"):
            get_config()


@pytest.mark.parametrize(
    ("size", "limits", "n_rows"),
    [
        (2**20, {}, 64),
        (3 * 2**20, {}, 21),
        (2**27, {}, 1),
        (2**10, {"at_most": 100}, 100),
        (0, {"at_most": 7}, 7),
    ],
)
def test_a_block_of_rows_fits_into_the_working_memory(size, limits, n_rows):
    assert rows_per_block(size, **limits) == n_rows


def test_the_cache_is_in_the_folder_of_the_user(tmp_path, monkeypatch):
    monkeypatch.setenv("ZONKEY_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    assert cache_folder("features", "x") == tmp_path / "features" / "x"
    monkeypatch.delenv("ZONKEY_CACHE")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder("features") == tmp_path / "xdg" / "zonkey" / "features"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == tmp_path / ".cache" / "zonkey"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache_folder() == tmp_path / "Library" / "Caches" / "zonkey"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert cache_folder() == tmp_path / "local" / "zonkey"
