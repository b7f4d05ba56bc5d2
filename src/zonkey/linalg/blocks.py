"""Work through the rows of a large product in blocks, so that the product is never stored.

A block of an n x m product stays in the cache of a core while it is computed, searched and summed.
On the host the rows are divided among as many threads as BLAS may use; each computes its blocks
alone. Several threads at one small product would spend most of their time waiting for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from .arrays import Array, is_device_array

T = TypeVar("T")

# Numbers in a block: 2 MB on the host, 256 MB on a device.
_ON_HOST, _ON_DEVICE = 2**18, 2**25
_MANY = 2**20  # numbers in all blocks for which several threads pay off
_KEPT = 2**25  # numbers in the results of all threads: 256 MB


def row_blocks(start: int, stop: int, width: int, like: Array) -> Iterator[slice]:
    """Yield consecutive slices of the rows from `start` to `stop`, each of `width` numbers.

    The size of a block depends on the device of `like`.
    """
    size = max(1, (_ON_DEVICE if is_device_array(like) else _ON_HOST) // max(1, width))
    for first in range(start, stop, size):
        yield slice(first, min(first + size, stop))


def in_parts(
    work: Callable[[int, int], T], n: int, width: int, like: Array, *, kept: int = 0
) -> list[T]:
    """Return `work(start, stop)` for consecutive ranges that cover n rows of `width` numbers.

    There is one range per thread, so the results are few. Small problems and arrays on a device
    are one range, and so are those whose results, of `kept` numbers each, take too much memory.
    """
    if is_device_array(like):
        return [work(0, n)]
    # The C library of Linux hands freed blocks back to the system, and new pages for each block
    # would take longer than the work on it, unless it has freed something larger before.
    np.empty(8 * _ON_HOST)
    n_threads = 1 if n * width < _MANY else min(_blas_threads(), _KEPT // max(1, kept))
    if n_threads <= 1:
        return [work(0, n)]
    bounds = [n * i // n_threads for i in range(n_threads + 1)]
    with _libraries().limit(limits=1, user_api="blas"), ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(lambda part: work(*part), pairwise(bounds)))


def _blas_threads() -> int:
    """Return the number of threads that BLAS may use: a limit set by the caller holds here too."""
    blas = _libraries().select(user_api="blas").info()
    return min((library["num_threads"] for library in blas), default=1)


@cache
def _libraries() -> ThreadpoolController:
    # Finding the loaded libraries takes as long as a small problem.
    return ThreadpoolController()
