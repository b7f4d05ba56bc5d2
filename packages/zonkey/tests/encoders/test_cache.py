"""The cache of features: exact, shared by processes, and never the reason of a failure."""

import errno
import os
import subprocess
import sys
import threading
import time
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


def files(cache):
    return sorted(cache.folder.glob("*.features"))


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


def test_special_values_are_kept(tmp_path):
    values = np.array([[np.nan, np.inf, -0.0, np.finfo(np.float32).smallest_subnormal, 1e38]], "f4")
    opened(tmp_path).put_many([key(0)], values)
    found, X = opened(tmp_path).get_many([key(0)])
    assert found[0]
    assert X.tobytes() == values.tobytes()


@pytest.mark.parametrize(
    "other", [{"encoder_name": "other"}, {"revision": "2"}, {"n_features": D + 1}]
)
def test_another_encoder_or_revision_sees_nothing(tmp_path, other):
    put(opened(tmp_path), range(3))
    found, _ = opened(tmp_path, **other).get_many([key(0)])
    assert not found[0]


def test_names_of_encoders_cannot_leave_the_folder(tmp_path):
    cache = opened(tmp_path, encoder_name="onnx:/some/where/../../etc/model.onnx")
    assert cache.folder.parent == tmp_path
    put(cache, range(2))
    assert_holds(opened(tmp_path, encoder_name="onnx:/some/where/../../etc/model.onnx"), range(2))


def test_places_lead_to_keys_written_earlier(tmp_path):
    cache = opened(tmp_path)
    put(cache, range(3))
    cache.put_many([], np.zeros((0, D)), {b"p" * 16: key(1)})
    for found in (cache, opened(tmp_path)):
        assert found.keys_of([b"p" * 16, b"q" * 16, None]) == [key(1), None, None]


def test_nothing_to_write_makes_no_file(tmp_path):
    cache = opened(tmp_path / "new")
    cache.put_many([], np.zeros((0, D)))
    assert not (tmp_path / "new").exists()


def test_small_files_are_joined_and_nothing_is_lost(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_MOST_SMALL", 4)
    cache = opened(tmp_path)
    before = opened(tmp_path)
    for i in range(11):
        cache.put_many([key(i)], rows([i]), {bytes([i]) * 16: key(i)})
        assert_holds(cache, range(i + 1))
        if i == 1:
            before = opened(tmp_path)
    assert len(files(cache)) <= 4
    again = opened(tmp_path)
    assert_holds(again, range(11))
    places = [bytes([i]) * 16 for i in range(11)]
    assert again.keys_of(places) == [key(i) for i in range(11)]
    # An index of before does not know the new names of files.
    assert_holds(before, range(2))


def test_large_files_are_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_MOST_SMALL", 4)
    monkeypatch.setattr(module, "_SMALL", 200)
    cache = opened(tmp_path)
    for i in range(6):
        put(cache, range(10 * i, 10 * i + 10))
    assert len(files(cache)) == 6


def test_clear_and_size(tmp_path):
    cache, other = opened(tmp_path), opened(tmp_path, revision="2")
    put(cache, range(4))
    put(other, range(1))
    assert cache.size() > other.size() > 4 * D
    cache.clear()
    assert cache.size() == len(cache) == 0
    assert_holds(other, range(1))


# Damage


def test_one_changed_bit_costs_one_row(tmp_path):
    cache = opened(tmp_path)
    put(cache, range(4))
    (path,) = files(cache)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1  # of row 3
    path.write_bytes(content)
    cache = opened(tmp_path)
    with pytest.warns(UserWarning, match="are damaged. They are computed again"):
        found, X = cache.get_many([key(i) for i in range(4)])
    assert found.tolist() == [True, True, True, False]
    np.testing.assert_array_equal(X, rows(range(3)))
    put(cache, [3])
    assert_holds(cache, range(4))
    assert_holds(opened(tmp_path), range(4))  # the newest entry counts: no warning again


@pytest.mark.parametrize("position", [0, 9, 30, 50])
def test_a_damaged_head_drops_the_file_with_one_warning(tmp_path, position):
    cache = opened(tmp_path)
    put(cache, range(4))
    put(cache, range(4, 6))
    path = files(cache)[0]
    content = bytearray(path.read_bytes())
    content[position] ^= 255
    path.write_bytes(content)
    with pytest.warns(UserWarning, match="damaged") as told:
        cache = opened(tmp_path)
    assert len(told) == 1
    found, _ = cache.get_many([key(i) for i in range(6)])
    assert found.tolist() == [False] * 4 + [True] * 2
    assert_holds(opened(tmp_path), [4, 5])


@pytest.mark.parametrize("kept", [0, 10, 60, -1])
def test_a_file_cut_short_is_dropped(tmp_path, kept):
    cache = opened(tmp_path)
    put(cache, range(4))
    (path,) = files(cache)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.warns(UserWarning, match="damaged"):
        cache = opened(tmp_path)
    assert len(cache) == 0
    put(cache, range(4))
    assert_holds(opened(tmp_path), range(4))


def test_a_file_of_another_cache_is_not_taken_for_its_own(tmp_path):
    put(opened(tmp_path, n_features=D), range(2))
    other = opened(tmp_path, n_features=D + 1)
    other.folder.mkdir()
    (path,) = files(opened(tmp_path))
    path.rename(other.folder / path.name)
    with pytest.warns(UserWarning, match="damaged"):
        assert len(opened(tmp_path, n_features=D + 1)) == 0


def test_old_unfinished_files_are_removed_and_new_ones_kept(tmp_path):
    cache = opened(tmp_path)
    put(cache, range(1))
    old, new = cache.folder / "a.features.0.part", cache.folder / "b.features.1.part"
    for path in (old, new):
        path.write_bytes(b"half")
    before = time.time() - 100_000
    os.utime(old, (before, before))
    assert_holds(opened(tmp_path), range(1))
    assert not old.exists()
    assert new.exists()


# Folders that cannot be written to


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_failing_write_warns_once_and_reading_goes_on(tmp_path, monkeypatch, code):
    cache = opened(tmp_path)
    put(cache, range(2))

    def fail(path):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(module, "whole_file", fail)
    with pytest.warns(UserWarning, match=os.strerror(code)):
        put(cache, range(2, 4))
    put(cache, range(4, 6))  # no further warning
    assert_holds(cache, range(2))
    assert not cache.get_many([key(2)])[0][0]


def test_a_full_disk_leaves_no_part_of_a_file(tmp_path, monkeypatch):
    cache = opened(tmp_path)
    put(cache, range(1))
    original = module.whole_file

    class Full:
        def __init__(self, path):
            self.opened = original(path)

        def __enter__(self):
            self.file = self.opened.__enter__()
            return self

        def __exit__(self, *raised):
            return self.opened.__exit__(*raised)

        def write(self, content):
            self.file.write(bytes(content)[:3])
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, "whole_file", Full)
    with pytest.warns(UserWarning, match="No space left"):
        put(cache, range(1, 3))
    assert len(list(cache.folder.iterdir())) == 1


def test_a_folder_that_cannot_be_made_is_told_once(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.warns(UserWarning, match="should be readable; it is not"):
        cache = opened(tmp_path / "file")
    with pytest.warns(UserWarning, match="should be writable; it is not"):
        put(cache, range(2))
    put(cache, range(2))  # no further warning
    assert not cache.get_many([key(0)])[0].any()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write")
def test_a_read_only_folder_is_read(tmp_path):
    put(opened(tmp_path), range(2))
    cache = opened(tmp_path)
    cache.folder.chmod(0o500)
    try:
        with pytest.warns(UserWarning, match="writable"):
            put(cache, range(2, 4))
        assert_holds(cache, range(2))
    finally:
        cache.folder.chmod(0o700)


# Several at once

_WRITER = """
import sys
import numpy as np
sys.path.insert(0, sys.argv[1])
from zonkey.encoders import cache
from test_cache import opened, put, assert_holds
cache._MOST_SMALL = 5
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
        for first in (0, 30, 90)  # the first two also write the same keys
    ]
    for process in started:
        _, told = process.communicate(timeout=60)
        assert process.returncode == 0, told.decode()
    cache = opened(tmp_path)
    assert_holds(cache, range(150))
    assert len(files(cache)) < 30


def test_threads_read_while_one_writes(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_MOST_SMALL", 3)
    cache = opened(tmp_path)
    put(cache, range(3))
    stop, failures = threading.Event(), []

    def read():
        try:
            while not stop.is_set():
                assert_holds(cache, range(3))
        except Exception as error:
            failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for i in range(3, 60):
        put(cache, [i])
    stop.set()
    for reader in readers:
        reader.join()
    assert not failures
    assert_holds(cache, range(60))


# Keys and places


def test_content_keys_tell_content_and_form_apart():
    keys = {content_key(b"ab"), content_key(b"ac"), content_key(b"ab", (1, 2)), content_key(b"")}
    assert len(keys | {content_key(b"ab", (2, 1))}) == 5
    assert {len(found) for found in keys} == {16}


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
