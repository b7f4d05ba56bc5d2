"""Limit the threads of matrix products: one by default, several for a large product.

Threads of BLAS wait for each other in a busy loop. If other processes keep the cores busy, a
thread that is waited for does not run: thousands of small products, or one decomposition into
eigenvalues, then take ten times as long as on one thread. One large product hardly waits. So all
public methods run under `limit_threads`, by `LimitThreadsMixin`; inside, `multiply` lifts the limit
for a product that is large enough.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, wraps
from inspect import isfunction, isgeneratorfunction
from pathlib import Path
from threading import Lock, local
from typing import Any, TypeVar, cast

import numpy as np
from threadpoolctl import LibController, ThreadpoolController

from .arrays import Array
from .config import get_config

Method = TypeVar("Method", bound=Callable[..., Any])

# Operations of one thread of a product: about 15 ms, several times what a thread waits for another
# that has been displaced by a process.
_PER_THREAD = 2**29


class LimitThreadsMixin:
    """Products of matrices inside public methods have one thread unless they are large."""

    def __init_subclass__(cls, **options: Any) -> None:
        for name, method in list(vars(cls).items()):
            if name.startswith("_"):
                continue
            if isfunction(method) and not isgeneratorfunction(method):
                setattr(cls, name, limit_calls(method))
            elif isinstance(method, classmethod):
                setattr(cls, name, classmethod(limit_calls(method.__func__)))
        super().__init_subclass__(**options)


@contextmanager
def limit_threads() -> Iterator[None]:
    """Limit matrix products to one thread; only `multiply` may use several.

    May be nested, and entered by many threads at once. In most libraries the number of threads
    belongs to the process, so the last one to leave restores what the first one found.
    """
    _limit.enter()
    try:
        yield
    finally:
        _limit.leave()


def limit_calls(method: Method) -> Method:
    """Return a function that runs under `limit_threads`."""

    # Not `limit_threads()(method)`: a frame of contextlib would be named in warnings.
    @wraps(method)
    def call_method(*args: Any, **options: Any) -> Any:
        _limit.enter()
        try:
            return method(*args, **options)
        finally:
            _limit.leave()

    return cast(Method, call_method)


def multiply(A: Array, B: Array) -> Array:
    """Return A @ B, on several threads if it is large and they are free."""
    n_threads = _count_useful(A, B)
    if n_threads < 2:
        return A @ B
    with limit_threads():
        _limit.lift(min(n_threads, available_threads()))
        try:
            return A @ B
        finally:
            _limit.lower()


def free_threads() -> int:
    """Return the number of threads that the caller may start: one if other threads are at work.

    Never more than BLAS had before `limit_threads`: a limit set by the user applies here too.
    """
    return _limit.count_free(available_threads())


def available_threads() -> int:
    """Return the number of cores that this process may use, or less if `set_config` says so.

    Honors the affinity of the process and the CPU quota of its container.
    """
    chosen = get_config()["threads"]
    return _count_cores() if chosen is None else min(chosen, _count_cores())


def _count_useful(A: Array, B: Array) -> int:
    """Return the number of threads that a product of this size can use."""
    # Products with vectors wait for memory; stacks are multiplied matrix by matrix.
    if not isinstance(A, np.ndarray) or min(A.ndim, B.ndim) < 2:
        return 1
    return 2 * A.shape[-2] * A.shape[-1] * B.shape[-1] // _PER_THREAD


class _Here(local):
    """State of the calling thread."""

    def __init__(self) -> None:
        self.depth = 0
        self.n_modules = 0
        self.found: dict[LibController, int] = {}


class _Limit:
    """One thread for each library of linear algebra while any thread is inside.

    A library on OpenMP has a number of threads for each thread that calls it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._n_inside = 0
        self._is_lifted = False
        self._found: dict[LibController, int] = {}  # numbers of threads to restore
        self._here = _Here()

    def enter(self) -> None:
        here, n_modules = self._here, len(sys.modules)
        here.depth += 1
        if here.depth > 1 and here.n_modules == n_modules:
            return
        here.n_modules = n_modules  # with more modules, there may be more libraries
        of_process, of_thread = _find_libraries(n_modules)
        with self._lock:
            self._n_inside += here.depth == 1
            if self._is_lifted:  # by another thread, whose product continues
                self._lower()
            _set_one(of_process, self._found)
        _set_one(of_thread, here.found)

    def leave(self) -> None:
        self._here.depth -= 1
        if self._here.depth:
            return
        _restore(self._here.found)
        with self._lock:
            self._n_inside -= 1
            if not self._n_inside:
                _restore(self._found)

    def lift(self, n_threads: int) -> None:
        """Allow several threads unless another thread is inside."""
        with self._lock:
            if self._n_inside > 1 or n_threads < 2:
                return
            self._is_lifted = True
            for found in (self._found, self._here.found):
                for library, before in found.items():
                    _set_threads(library, min(before, n_threads))

    def lower(self) -> None:
        with self._lock:
            if self._is_lifted:
                self._lower()
        for library in self._here.found:
            _set_threads(library, 1)

    def _lower(self) -> None:
        self._is_lifted = False
        for library in self._found:
            _set_threads(library, 1)

    def count_free(self, at_most: int) -> int:
        with self._lock:
            if self._n_inside > (self._here.depth > 0):
                return 1
            libraries, _ = _find_libraries(len(sys.modules))
            before = [self._found.get(library, library.num_threads) for library in libraries]
            return min([at_most, *filter(None, before)])


def _set_one(libraries: list[LibController], found: dict[LibController, int]) -> None:
    for library in libraries:
        if library not in found:
            found[library] = library.num_threads or 1
            _set_threads(library, 1)


def _restore(found: dict[LibController, int]) -> None:
    while found:
        _set_threads(*found.popitem())


def _set_threads(library: LibController, n_threads: int) -> None:
    if library.num_threads == n_threads:
        return
    # OpenBLAS obeys one thread only; here, the last to leave need not be the first to enter.
    free = getattr(library, "clear_controlling_thread", lambda **_: None)
    free(force=True)
    library.set_num_threads(n_threads)
    free(force=True)


_limit = _Limit()
_controllers: dict[str, LibController] = {}  # one for each file, so that it can be a key


@lru_cache(maxsize=1)
def _find_libraries(n_modules: int) -> tuple[list[LibController], list[LibController]]:  # noqa: ARG001
    """Return libraries with a number of threads for the process, and those with one per thread.

    Finding them takes a millisecond, and they change only if modules are imported.
    """
    for library in ThreadpoolController().select(user_api="blas").lib_controllers:
        _controllers.setdefault(library.filepath, library)
    libraries = [library for library in _controllers.values() if library.num_threads]
    of_thread = [x for x in libraries if getattr(x, "threading_layer", None) == "openmp"]
    return [library for library in libraries if library not in of_thread], of_thread


@lru_cache(maxsize=1)
def _count_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        n_cores = len(os.sched_getaffinity(0))
    else:
        n_cores = os.cpu_count() or 1
    return max(1, min(n_cores, _read_quota(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))))


def _read_quota(groups: Path, root: Path) -> int:
    """Return the CPU quota of this process in cores, rounded up; cgroups of version 1 and 2."""
    quotas = [2**31]
    try:
        lines = [line.split(":", 2) for line in groups.read_text().splitlines()]
    except OSError:  # not Linux
        return quotas[0]
    for _, kinds, path in lines:
        if kinds and "cpu" not in kinds.split(","):
            continue
        # A quota of a parent applies too; in a container, its own group may be the root.
        for folder in [Path(path), *Path(path).parents]:
            place = root / ("cpu" if kinds else "") / folder.relative_to("/")
            quotas += _quota_of(place)
    return min(quotas)


def _quota_of(folder: Path) -> list[int]:
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota, period = (
                (folder / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period")
            )
        return [math.ceil(int(quota) / int(period))] if int(quota) > 0 else []
    except (OSError, ValueError):  # no file, or "max"
        return []
