"""Work through the rows of a large product in blocks, so that the product is never stored.

A block of an n x m product stays in the cache of a core while it is computed, searched and summed.
On the host the rows are divided among as many threads as BLAS may use; each computes its blocks
alone. Several threads at one small product would spend most of their time waiting for each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from itertools import pairwise
from typing import TypeVar

import numpy as np

from .arrays import Array, is_device_array
from .config import rows_per_block
from .threads import free_threads, limit_threads

T = TypeVar("T")

ON_ACCELERATOR = 16  # times the working memory: it has much of its own, and prefers long blocks
_MANY = 2**20  # numbers in all blocks for which several threads pay off
_PARTS = 16  # enough for the threads of most machines
# Bytes for each number of a block: on the host, all parts hold a block and a copy at once, so one
# has 2 of 64 MB and stays in the cache of a core. A device holds one block and three copies.
_ON_HOST, _ON_DEVICE = 8 * 2 * _PARTS, 8 * 4 / ON_ACCELERATOR
_FREED = 2**21  # numbers


def row_blocks(start: int, stop: int, width: int, like: Array) -> Iterator[slice]:
    """Yield consecutive slices of the rows from `start` to `stop`, each of `width` numbers.

    The size of a block depends on the device of `like`.
    """
    size = rows_per_block((_ON_DEVICE if is_device_array(like) else _ON_HOST) * width)
    for first in range(start, stop, size):
        yield slice(first, min(first + size, stop))


def run_in_parts(
    work: Callable[[int, int], T], n: int, width: int, like: Array, *, kept: int = 0
) -> list[T]:
    """Return `work(start, stop)` for consecutive ranges that cover n rows of `width` numbers.

    A result has `kept` numbers. The ranges do not depend on the number of threads, so neither does
    the order of sums over them. Small problems and arrays on a device are one range.
    """
    if is_device_array(like):
        return [work(0, n)]
    # The C library of Linux hands freed blocks back to the system, and new pages for each block
    # would take longer than the work on it, unless it has freed something larger before.
    np.empty(_FREED)
    n_parts = 1 if n * width < _MANY else rows_per_block(8 * kept, at_most=_PARTS)
    parts = list(pairwise(n * i // n_parts for i in range(n_parts + 1)))
    n_threads = min(free_threads(), n_parts)
    if n_threads == 1:
        return [work(*part) for part in parts]
    settings = [copy_context() for _ in parts]  # a context is entered by one thread at a time

    def work_on(part: tuple[int, int], context: Context) -> T:
        with limit_threads():
            return context.run(work, *part)

    with limit_threads(), ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(work_on, parts, settings))
