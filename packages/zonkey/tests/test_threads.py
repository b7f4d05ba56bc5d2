"""One thread for small products, several for large ones, and the user's number afterwards."""

import inspect
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from threading import Event

import numpy as np
import pytest
from libraries import TORCH
from sklearn.base import BaseEstimator
from threadpoolctl import threadpool_info, threadpool_limits

import zonkey
from zonkey import AnyShotClassifier, threads
from zonkey.config import config_context
from zonkey.threads import (
    LimitThreadsMixin,
    available_threads,
    free_threads,
    limit_calls,
    limit_threads,
    multiply,
)


class Library:
    """A library of linear algebra with a number of threads."""

    def __init__(self, n_threads):
        self.num_threads = n_threads

    def set_num_threads(self, n_threads):
        self.num_threads = n_threads


class Watched(np.ndarray):
    """Its products return what `watch` sees meanwhile."""

    def __matmul__(self, other):
        return self.watch()


def product(watch, n=2**12):
    """Return what `watch` sees while two square matrices are multiplied."""
    M = np.broadcast_to(np.zeros(1), (n, n)).view(Watched)
    M.watch = watch
    return multiply(M, M)


@pytest.fixture
def libraries(monkeypatch):
    """Return two libraries with one number of threads for the process; there are 16 cores."""
    found = [Library(8), Library(4)]
    monkeypatch.setattr(threads, "_limit", threads._Limit())
    monkeypatch.setattr(threads, "_find_libraries", lambda _: (found, []))
    monkeypatch.setattr(threads, "_count_cores", lambda: 16)
    return found


@pytest.fixture
def see(libraries):
    """Return a function that returns the numbers of threads."""
    return lambda: [library.num_threads for library in libraries]


def test_one_thread_inside_and_the_old_number_afterwards(see):
    with limit_threads():
        with limit_threads():
            assert see() == [1, 1]
        assert see() == [1, 1]
    assert see() == [8, 4]
    with pytest.raises(KeyError), limit_threads():
        raise KeyError
    assert see() == [8, 4]


def test_the_last_thread_to_leave_restores(see):
    entered, left = Event(), Event()

    @limit_calls
    def stay():
        entered.set()
        assert left.wait(10)
        return see()

    with ThreadPoolExecutor(1) as pool:
        with limit_threads():
            other = pool.submit(stay)
            assert entered.wait(10)
        assert see() == [1, 1]
        left.set()
        assert other.result() == [1, 1]
    assert see() == [8, 4]


def test_a_library_that_is_loaded_inside_is_limited_too(libraries, see, monkeypatch):
    with limit_threads():
        libraries.append(Library(6))
        monkeypatch.setitem(threads.sys.modules, "a_module_with_a_library", None)
        with limit_threads():
            assert see() == [1, 1, 1]
    assert see() == [8, 4, 6]


def test_only_large_products_have_several_threads(libraries, see):
    """2 n^3 operations, 2^29 for each thread, and no more threads than the libraries had."""
    for n, n_threads in ((2**9, [1, 1]), (2**10, [4, 4]), (2**12, [8, 4])):
        with limit_threads():
            assert product(see, n) == n_threads
            assert see() == [1, 1]
        assert n == 2**9 or product(see, n) == n_threads
        assert see() == [8, 4]


def test_settings_and_cores_bound_the_threads_of_a_product(see, monkeypatch):
    with config_context(threads=3):
        assert available_threads() == 3
        assert product(see) == [3, 3]
    with config_context(threads=1):
        assert product(see) == [1, 1]
    monkeypatch.setattr(threads, "_count_cores", lambda: 2)
    assert product(see) == [2, 2]
    assert available_threads() == 2


def test_a_product_beside_other_threads_has_one(see):
    with ThreadPoolExecutor(1) as pool, limit_threads():
        assert pool.submit(product, see).result() == [1, 1]
    with ThreadPoolExecutor(1) as pool:
        seen = product(lambda: [see(), pool.submit(limit_calls(see)).result()])
        assert seen == [[8, 4], [1, 1]], "who enters during a large product still has one thread"
    assert see() == [8, 4]


def test_vectors_stacks_and_devices_do_not_lift_the_limit(libraries):
    wide, vector = np.zeros((2**10, 2**10)), np.zeros(2**10)
    for A, B in [
        (wide, vector),
        (vector, wide),
        (np.zeros((2**12, 8, 8)), np.zeros((2**12, 8, 8))),
        (TORCH(wide), TORCH(wide)),
    ]:
        assert threads._count_useful(A, B) <= 1
    assert threads._count_useful(wide, wide) == 4
    np.testing.assert_array_equal(multiply(np.eye(2), np.ones((2, 3))), np.ones((2, 3)))


def test_free_threads_are_those_nobody_uses(libraries):
    assert free_threads() == 4
    with limit_threads():
        assert free_threads() == 4, "as before the limit"
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(free_threads).result() == 1


def test_a_library_on_openmp_is_limited_in_each_thread(monkeypatch):
    library = Library(8)
    monkeypatch.setattr(threads, "_limit", threads._Limit())
    monkeypatch.setattr(threads, "_find_libraries", lambda _: ([], [library]))
    monkeypatch.setattr(threads, "_count_cores", lambda: 16)

    def enter():
        library.num_threads = 5  # what the library says in this thread
        with limit_threads():
            found = library.num_threads
        return found, library.num_threads

    with limit_threads(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(enter).result() == (1, 5)
        library.num_threads = 1  # again in the first thread
    assert library.num_threads == 8
    assert product(lambda: library.num_threads) == 8
    assert library.num_threads == 8


def test_the_libraries_of_numpy_are_limited_by_any_thread():
    def limits():
        found = [lib for lib in threadpool_info() if lib["user_api"] == "blas"]
        return [lib["num_threads"] for lib in found if lib.get("threading_layer") != "openmp"]

    class Model(LimitThreadsMixin):
        def see(self):
            return limits()

        @classmethod
        def see_before(cls):
            return limits()

    with threadpool_limits(2, "blas"):
        before = limits()
        assert Model().see() == Model.see_before() == [1] * len(before)
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(Model().see).result() == [1] * len(before)
        assert limits() == before


def test_iterators_are_left_alone(see):
    class Model(LimitThreadsMixin):
        def rows(self):
            yield see()

        @property
        def number(self):
            return see()

        def _hidden(self):
            return see()

    assert [*Model().rows()] == [Model().number] == [Model()._hidden()] == [[8, 4]]


def test_all_estimators_are_limited():
    for module in walk_packages(zonkey.__path__, "zonkey."):
        if not any(part in module.name for part in ("__main__", ".cli", ".demo")):
            import_module(module.name)

    def subclasses(cls):
        return {cls}.union(*map(subclasses, cls.__subclasses__()))

    ours = {cls for cls in subclasses(BaseEstimator) if cls.__module__.startswith("zonkey.")}
    free = {cls.__name__ for cls in ours if not issubclass(cls, LimitThreadsMixin)}
    assert free == {"ImageEncoder", "TextEncoder"}, "encoders have threads of their own"
    assert len(ours) >= 8


def test_fit_and_predict_have_one_thread(see, monkeypatch):
    seen = []
    eigh = np.linalg.eigh
    monkeypatch.setattr(np.linalg, "eigh", lambda M: seen.append(see()) or eigh(M))
    X = np.random.default_rng(0).normal(size=(40, 4))
    y = np.arange(40) % 4
    model = AnyShotClassifier({k: [k + 1, k % 2] for k in range(5)}).fit(X, y)
    assert seen
    assert set(map(tuple, seen)) == {(1, 1)}
    assert see() == [8, 4]
    assert "X" in inspect.signature(model.predict).parameters


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({}, 2**31),
        ({"cpu.max": "max 100000"}, 2**31),
        ({"cpu.max": "100000 100000"}, 1),
        ({"cpu.max": "150000 100000"}, 2),
        ({"cpu.max": "20000 100000"}, 1),
        ({"cpu.max": "800000 100000", "pod/cpu.max": "300000 100000"}, 3),
        ({"pod/box/cpu.max": "200000 100000"}, 2),
        ({"cpu.max": "damaged"}, 2**31),
        ({"cpu/pod/cpu.cfs_quota_us": "250000", "cpu/pod/cpu.cfs_period_us": "100000"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 2**31),
    ],
)
def test_the_quota_of_a_container_is_honored(tmp_path, files, cores):
    groups = tmp_path / "cgroup"
    is_new = not any(name.startswith("cpu/") for name in files)
    groups.write_text("0::/pod/box\n" if is_new else "3:memory:/x\n2:cpu,cpuacct:/pod/box\n")
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert threads._read_quota(groups, tmp_path) == cores
    assert threads._read_quota(Path("/missing"), tmp_path) == 2**31


def test_the_number_of_cores_is_that_of_the_process(monkeypatch):
    monkeypatch.setattr(threads, "_read_quota", lambda *_: 2**31)
    monkeypatch.setattr(threads.os, "sched_getaffinity", lambda _: {0, 3, 5}, raising=False)
    threads._count_cores.cache_clear()
    assert available_threads() == 3
    monkeypatch.delattr(threads.os, "sched_getaffinity")
    monkeypatch.setattr(threads.os, "cpu_count", lambda: None)
    threads._count_cores.cache_clear()
    assert available_threads() == 1
    threads._count_cores.cache_clear()
