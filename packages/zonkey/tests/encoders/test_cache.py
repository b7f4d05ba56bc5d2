"""The cache of features: exact, shared by processes, and never the reason of a failure."""

import os
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from zonkey.encoders import cache as module
from zonkey.encoders.cache import FeatureCache, content_key, file_place

D = 5


def key(i):
    return content_key(str(i).encode())


def row(i):
    return np.random.default_rng(i).standard_normal(D).astype(np.float32)


def rows(numbers):
    return np.array([row(i) for i in numbers], np.float32).reshape(-1, D)


def put(cache, numbers):
    cache.put_many([key(i) for i in numbers], rows(numbers))


def opened(folder, **changed):
    options = {"encoder_name": "encoder", "revision": "1", "n_features": D}
    return FeatureCache(folder, **(options | changed))


def assert_holds(cache, numbers):
    found, X = cache.get_many([key(i) for i in numbers])
    assert found.all()
    np.testing.assert_array_equal(X, rows(numbers))


@pytest.mark.parametrize("reopen", [False, True])
def test_rows_come_back_exactly_and_in_the_order_asked_for(tmp_path, reopen):
    cache = opened(tmp_path)
    put(cache, range(10))
    put(cache, range(10, 13))
    if reopen:
        cache = opened(tmp_path)
    assert len(cache) == 13
    found, X = cache.get_many([key(12), None, key(99), key(3)])
    assert found.tolist() == [True, False, False, True]
    assert X.dtype == np.float32
    np.testing.assert_array_equal(X, rows([12, 3]))
    special = np.array([[np.nan, np.inf, -0.0, np.finfo("f4").smallest_subnormal, 1e38]], "f4")
    cache.put_many([key(13)], special)
    assert cache.get_many([key(13)])[1].tobytes() == special.tobytes()


@pytest.mark.parametrize(
    "other", [{"encoder_name": "other"}, {"revision": "2"}, {"n_features": D + 1}]
)
def test_another_encoder_or_revision_sees_nothing(tmp_path, other):
    put(opened(tmp_path), range(3))
    assert not opened(tmp_path, **other).get_many([key(0)])[0].any()


def test_names_of_encoders_cannot_leave_the_folder(tmp_path):
    name = "onnx:/some/where/../../etc/model.onnx"
    put(opened(tmp_path, encoder_name=name), range(2))
    assert opened(tmp_path, encoder_name=name).path.parent == tmp_path
    assert_holds(opened(tmp_path, encoder_name=name), range(2))


def test_places_lead_to_keys_written_earlier(tmp_path):
    cache = opened(tmp_path)
    put(cache, range(3))
    cache.put_many([], np.zeros((0, D)), {b"p" * 16: key(1)})
    for found in (cache, opened(tmp_path)):
        assert found.keys_of([b"p" * 16, b"q" * 16, None]) == [key(1), None, None]


def test_another_opened_cache_sees_what_was_written_since(tmp_path):
    cache, other = opened(tmp_path), opened(tmp_path)
    assert len(other) == 0
    put(cache, range(2))
    assert_holds(other, range(2))
    put(other, range(2, 4))
    assert_holds(cache, range(4))
    cache.close()  # opens again when it is used
    assert_holds(cache, range(4))


def test_clear_and_size(tmp_path):
    cache, other = opened(tmp_path), opened(tmp_path, revision="2")
    put(cache, range(999))
    put(other, range(1))
    assert cache.size() > other.size() > 4 * D
    cache.clear()
    assert len(cache) == 0
    assert cache.size() < 60_000  # empty tables, and the memory that processes share
    assert_holds(other, range(1))


# Damage


def damage(cache, change):
    cache.close()
    cache.path.write_bytes(change(bytearray(cache.path.read_bytes())))


def test_one_changed_bit_costs_one_row(tmp_path):
    cache = opened(tmp_path)
    put(cache, range(4))

    def change(content):
        content[content.index(row(3).tobytes()) + 2] ^= 1
        return content

    damage(cache, change)
    with pytest.warns(UserWarning, match="are damaged. They are computed again"):
        found, X = cache.get_many([key(i) for i in range(4)])
    assert found.tolist() == [True, True, True, False]
    np.testing.assert_array_equal(X, rows(range(3)))
    put(cache, [3])
    assert_holds(opened(tmp_path), range(4))


@pytest.mark.parametrize(
    "change",
    [
        lambda content: b"no database" + content[:99],
        lambda content: content[:10],
        lambda content: content[:5000],
        lambda content: b"x" + content[1:],
        lambda content: content[:4096] + bytes(len(content) - 4096),
    ],
    ids=["foreign", "cut-in-head", "cut", "head", "zeroed"],
)
def test_a_damaged_file_is_replaced_with_one_warning(tmp_path, change):
    cache = opened(tmp_path)
    put(cache, range(200))
    damage(cache, change)
    cache = opened(tmp_path)
    with pytest.warns(UserWarning, match="damaged") as told:
        found, _ = cache.get_many([key(i) for i in range(10, 200)])
    assert not found.any()
    assert len(told) == 1
    put(cache, range(4))
    assert_holds(cache, range(4))
    assert_holds(opened(tmp_path), range(4))


# Folders that cannot be written to


def test_a_full_disk_warns_once_and_reading_goes_on(tmp_path):
    cache = opened(tmp_path)
    put(cache, range(2))
    cache.close()
    put(cache, [])
    pages = sqlite3.connect(cache.path).execute("PRAGMA page_count").fetchone()[0]

    class Full(sqlite3.Connection):
        def executescript(self, script):
            super().executescript(script)
            self.execute(f"PRAGMA max_page_count = {pages}")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module.sqlite3, "connect", partial(sqlite3.connect, factory=Full))
        with pytest.warns(UserWarning, match="full"):
            cache.put_many([key(i) for i in range(2, 999)], rows(range(2, 999)))
    put(cache, range(4, 6))  # no further warning
    assert_holds(cache, range(2))
    assert len(cache) == 2  # all or none


def test_a_folder_that_cannot_be_made_is_told_once(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    cache = opened(tmp_path / "file")
    with pytest.warns(UserWarning, match="should be writable; it is not"):
        put(cache, range(2))
    put(cache, range(2))  # no further warning
    assert not cache.get_many([key(0)])[0].any()


def test_a_read_only_folder_is_read(tmp_path, monkeypatch):
    put(opened(tmp_path), range(2))
    monkeypatch.setattr(os, "access", lambda _, mode: mode != os.W_OK)  # root may write anyway
    cache = opened(tmp_path)
    with pytest.warns(UserWarning, match="readonly"):
        put(cache, range(2, 4))
    assert_holds(cache, range(2))
    assert not list(tmp_path.glob("*-wal"))


# Several at once

_WRITER = """
import sys
import numpy as np
sys.path.insert(0, sys.argv[1])
from test_cache import opened, put, assert_holds
found = opened(sys.argv[2])
first = int(sys.argv[3])
for i in range(first, first + 60, 2):
    put(found, [i, i + 1])
    assert_holds(found, range(first, i + 2))
"""


def test_two_processes_write_to_one_folder(tmp_path):
    here = str(Path(__file__).parent)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([p for p in sys.path if p])}
    started = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", _WRITER, here, str(tmp_path), str(first)],
            stderr=subprocess.PIPE,
            env=environment,
        )
        for first in (0, 30)  # they also write the same keys
    ]
    for process in started:
        _, told = process.communicate(timeout=60)
        assert process.returncode == 0, told.decode()
    assert_holds(opened(tmp_path), range(90))


def test_threads_read_while_one_writes(tmp_path):
    cache, stop = opened(tmp_path), threading.Event()
    put(cache, range(3))

    def read():
        while not stop.is_set():
            assert_holds(cache, range(3))

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        for i in range(3, 60):
            put(cache, [i])
        stop.set()
    for reader in readers:
        reader.result()
    assert_holds(cache, range(60))


# Keys and places


def _aged(path, content=b"content", seconds=100.5):
    path.write_bytes(content)
    past = time.time_ns() - int(seconds * 1e9)
    os.utime(path, ns=(past, past))
    return path


def test_the_place_of_a_file_changes_with_it(tmp_path):
    path = _aged(tmp_path / "a.jpg")
    place = file_place(path)
    assert place is not None
    assert file_place(path) == place
    assert file_place(path, "member") != place
    assert file_place(_aged(tmp_path / "b.jpg")) != place
    status = path.stat()
    path.write_bytes(b"another")  # of the same length
    time.sleep(0.02)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    if os.name == "posix":  # the time of change of the entry gives it away
        assert file_place(path) != place
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1_000_000))
    assert file_place(path) != place


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")
def test_a_link_to_another_file_of_the_same_size_and_time_is_another_place(tmp_path):
    files, link = [_aged(tmp_path / name) for name in ("a.jpg", "b.jpg")], tmp_path / "link.jpg"
    for file in files:
        os.utime(file, ns=(10**18, 10**18))
    places = set()
    for file in files:
        link.symlink_to(file)
        places.add(file_place(link))
        link.unlink()
    assert len(places) == 2


def test_a_file_that_may_still_change_has_no_place(tmp_path):
    path = tmp_path / "a.jpg"
    path.write_bytes(b"content")
    now = time.time_ns() + 10**9
    os.utime(path, ns=(now, now))
    assert file_place(path) is None
    whole_second = time.time_ns() // 10**9 * 10**9
    os.utime(path, ns=(whole_second, whole_second))
    assert file_place(path) is None
    assert file_place(tmp_path / "missing.jpg") is None


def test_lookups_take_microseconds(tmp_path):
    cache = FeatureCache(tmp_path, "encoder", "1", 1280)
    keys = [key(i) for i in range(2_000)]
    for i in range(0, 2_000, 500):
        cache.put_many(keys[i : i + 500], np.zeros((500, 1280), np.float32))
    best = np.inf
    for _ in range(3):
        started = time.perf_counter()
        for i in range(0, 2_000, 32):
            assert cache.get_many(keys[i : i + 32])[0].all()
        best = min(best, time.perf_counter() - started)
    assert best / len(keys) < 500e-6  # about 20 on an idle machine
