"""Blocks cover all rows once, and threads change nothing but the time."""

from threading import Barrier

import numpy as np
import pytest
from libraries import TORCH
from threadpoolctl import threadpool_limits

from zonkey import blocks, threads
from zonkey.blocks import row_blocks, run_in_parts
from zonkey.config import config_context, get_config

HOST = np.zeros(0)


@pytest.mark.parametrize(
    ("start", "stop", "width", "sizes"),
    [
        (0, 10, 4, [3, 3, 3, 1]),
        (2, 10, 4, [3, 3, 2]),
        (0, 3, 12, [1, 1, 1]),
        (0, 2, 1000, [1, 1]),  # a row never fits: one at a time
        (0, 5, 0, [5]),
        (4, 4, 3, []),
    ],
)
def test_blocks_cover_every_row_once(start, stop, width, sizes):
    with config_context(working_memory=12 / 2**12):
        found = list(row_blocks(start, stop, width, HOST))
    assert [block.stop - block.start for block in found] == sizes
    rows = [i for block in found for i in range(block.start, block.stop)]
    assert rows == list(range(start, stop))


def parts_of(monkeypatch, n_parts, n_threads=2):
    """Let every problem have a number of parts and of threads."""
    monkeypatch.setattr(blocks, "_MANY", 0)
    monkeypatch.setattr(blocks, "_PARTS", n_parts)
    monkeypatch.setattr(blocks, "free_threads", lambda: n_threads)


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_parts_cover_every_row_once_in_order(monkeypatch, n_threads):
    parts_of(monkeypatch, 3, n_threads)
    for n in (0, 1, 2, 3, 10):
        parts = run_in_parts(lambda *part: list(range(*part)), n, 5, HOST)
        assert len(parts) == 3
        assert [row for part in parts for row in part] == list(range(n))
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_small_problems_large_results_and_devices_are_one_part(monkeypatch):
    parts_of(monkeypatch, 3)
    monkeypatch.setattr(blocks, "_MANY", 50)
    monkeypatch.setenv("ZONKEY_WORKING_MEMORY", str(160 / 2**20))
    assert run_in_parts(lambda *part: part, 10, 4, HOST) == [(0, 10)]
    assert len(run_in_parts(lambda *part: part, 10, 5, HOST)) == 3
    assert len(run_in_parts(lambda *part: part, 10, 5, HOST, kept=10)) == 2
    assert run_in_parts(lambda *part: part, 10, 5, HOST, kept=100) == [(0, 10)]
    assert run_in_parts(lambda *part: part, 10, 5, TORCH(HOST)) == [(0, 10)]


def test_the_work_is_divided_among_threads_of_the_same_settings(monkeypatch):
    parts_of(monkeypatch, 2)
    both = Barrier(2, timeout=10)  # one thread alone would wait for ever
    assert sorted(run_in_parts(lambda *_: both.wait(), 10, 5, HOST)) == [0, 1]
    with config_context(working_memory=3):
        found = run_in_parts(lambda *_: get_config()["working_memory"], 10, 5, HOST)
    assert found == [3, 3]


@pytest.mark.parametrize("limit", [1, 2])
def test_there_are_as_many_threads_as_blas_may_use(monkeypatch, limit):
    monkeypatch.setattr(blocks, "_MANY", 0)
    monkeypatch.setattr(threads, "_count_cores", lambda: 3)
    with threadpool_limits(limit, "blas"):
        barrier = Barrier(limit, timeout=10)
        run_in_parts(lambda *_: barrier.wait(), 16, 5, HOST)  # never reached by fewer threads


def test_errors_inside_parts_are_raised(monkeypatch):
    parts_of(monkeypatch, 2)

    def work(start, stop):
        raise ValueError(f"{start} to {stop}")

    with pytest.raises(ValueError, match="0 to 5"):
        run_in_parts(work, 10, 5, HOST)
    assert run_in_parts(lambda *part: part, 10, 5, HOST) == [(0, 5), (5, 10)]
