"""The order of runs: each starts when those that it needs are done, the longest first."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from threading import Lock
from typing import Any, Generic, TypeVar

from joblib import Parallel, delayed

from ..records import Key

Work = TypeVar("Work")
_REST = 0.2  # seconds until a process that found nothing to start asks again


class Waiting:
    """Runs that wait for others."""

    def __init__(self, needed: Mapping[Key, Iterable[Key]]) -> None:
        self._needed = {key: set(others) for key, others in needed.items()}
        self._users: dict[Key, list[Key]] = {key: [] for key in self._needed}
        for key, others in self._needed.items():
            for other in others:
                self._users[other].append(key)

    def start(self) -> list[Key]:
        """Return the runs that need no other."""
        return [key for key, others in self._needed.items() if not others]

    def finish(self, key: Key) -> list[Key]:
        """Return the runs that waited for this one last."""
        for user in self._users[key]:
            self._needed[user].discard(key)
        return [user for user in self._users[key] if not self._needed[user]]


@dataclass(frozen=True)
class Rank:
    """What starts first: runs that others wait for, then the longest."""

    is_awaited: bool
    seconds: float  # infinite if it is not known

    @property
    def order(self) -> tuple[bool, float]:
        """Return what ascends from first to last."""
        return (not self.is_awaited, -self.seconds)


class Queue(Generic[Work]):
    """Work that is ready, and the number of runs that are still to come; safe between threads."""

    def __init__(self, n_expected: int) -> None:
        self._n_expected = n_expected
        self._ready: list[tuple[tuple[bool, float], int, Work]] = []
        self._numbers = count()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._ready)

    def push(self, work: Work, rank: Rank) -> None:
        """Add work."""
        with self._lock:
            heapq.heappush(self._ready, (rank.order, next(self._numbers), work))

    def expect_less(self) -> None:
        """Note that a run needs no work."""
        with self._lock:
            self._n_expected -= 1

    def pop(self) -> Work | None:
        """Return the work to start next; None if all that is to come still waits."""
        with self._lock:
            if not self._ready:
                return None
            self._n_expected -= 1
            return heapq.heappop(self._ready)[2]

    @property
    def is_over(self) -> bool:
        """Whether all work has started."""
        return self._n_expected <= 0

    def run(self, execute: Callable[[Work], Any], n_jobs: int) -> Iterator[Any]:
        """Yield the results of all work, `n_jobs` at a time, in the order in which it ends.

        Work may be pushed while results are read: a process without work rests for a moment.
        """
        options: dict[str, Any] = {"pre_dispatch": n_jobs, "batch_size": 1}
        pool: Any = Parallel(n_jobs=n_jobs, return_as="generator_unordered", **options)
        for result in pool(self._tasks(execute)):
            if result is not None:
                yield result

    def _tasks(self, execute: Callable[[Work], Any]) -> Iterator[Any]:
        while not self.is_over:
            work = self.pop()
            yield delayed(_rest)() if work is None else delayed(execute)(work)


def _rest() -> None:
    time.sleep(_REST)
