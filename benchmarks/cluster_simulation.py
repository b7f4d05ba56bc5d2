"""A cluster that reduces chunks in a tree: when each task starts, where, and what has to travel.

Tasks are those of `zonkey.streaming.dask`: one per chunk, and merges of `FAN_IN` neighbors. A
worker runs one task at a time. Like Dask's scheduler, the model prefers merges to new chunks, runs
a merge where most of its input is, and hands out tasks one after the other.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

from zonkey.streaming.dask import FAN_IN


@dataclass(frozen=True)
class Cluster:
    """Workers, and what joins them.

    Attributes
    ----------
    workers : int
        Number of workers.
    bandwidth : float
        Bytes per second that a worker receives.
    per_task : float
        Seconds that the scheduler needs per task.
    """

    workers: int
    bandwidth: float = 1.25e9
    per_task: float = 1e-3


@dataclass(frozen=True)
class Pass:
    """One pass over the data.

    Attributes
    ----------
    n_chunks : int
        Number of chunks.
    chunk_s : float
        Seconds that a worker needs to read a chunk and to take it up.
    state_bytes : callable
        Size of the state of that many chunks.
    merge_rate : float
        Bytes per second that merging takes up.
    """

    n_chunks: int
    chunk_s: float
    state_bytes: Callable[[int], float]
    merge_rate: float


@dataclass
class Outcome:
    """Seconds of a pass, bytes over the network, and states that the fullest worker held."""

    seconds: float = 0.0
    moved: float = 0.0
    peak: float = 0.0


@dataclass
class _Node:
    n_chunks: int
    children: tuple[int, ...] = ()
    parent: int | None = None
    waiting: int = 0
    place: int = -1
    size: float = 0.0


@dataclass
class _Run:
    work: Pass
    cluster: Cluster
    nodes: list[_Node] = field(default_factory=list)
    outcome: Outcome = field(default_factory=Outcome)

    def __post_init__(self) -> None:
        level = [self._add(1, ()) for _ in range(self.work.n_chunks)]
        while len(level) > 1:
            groups = [tuple(level[i : i + FAN_IN]) for i in range(0, len(level), FAN_IN)]
            level = [
                self._add(sum(self.nodes[c].n_chunks for c in group), group) for group in groups
            ]
        self.held = [0.0] * self.cluster.workers
        self.leaves = iter(range(self.work.n_chunks))
        self.merges: dict[int, list[int]] = {w: [] for w in range(self.cluster.workers)}
        self.n_merges = 0
        self.scheduler_free = 0.0
        self.events: list[tuple[float, int, int]] = []  # when, worker, node

    def _add(self, n_chunks: int, children: tuple[int, ...]) -> int:
        number = len(self.nodes)
        size = self.work.state_bytes(n_chunks)
        self.nodes.append(_Node(n_chunks, children, waiting=len(children), size=size))
        for child in children:
            self.nodes[child].parent = number
        return number

    def run(self) -> Outcome:
        idle, now = list(range(self.cluster.workers)), 0.0
        while True:
            idle = [worker for worker in idle if not self._start(worker, now)]
            if not self.events:
                self.outcome.seconds = now
                return self.outcome
            now, worker, number = heapq.heappop(self.events)
            self._finish(worker, number)
            idle.append(worker)

    def _start(self, worker: int, now: float) -> bool:
        """Give a worker its next task; tell whether there was one."""
        number = self._next(worker)
        if number is None:
            return False
        self.scheduler_free = max(self.scheduler_free, now) + self.cluster.per_task
        node, seconds = self.nodes[number], self.work.chunk_s
        if node.children:
            there = [self.nodes[c] for c in node.children]
            moved = sum(child.size for child in there if child.place != worker)
            self.outcome.moved += moved
            self.held[worker] += moved
            taken_up = sum(child.size for child in there)
            seconds = moved / self.cluster.bandwidth + taken_up / self.work.merge_rate
        self.held[worker] += node.size
        self.outcome.peak = max(self.outcome.peak, self.held[worker])
        heapq.heappush(self.events, (self.scheduler_free + seconds, worker, number))
        return True

    def _next(self, worker: int) -> int | None:
        if self.merges[worker]:
            self.n_merges -= 1
            return self.merges[worker].pop()
        leaf = next(self.leaves, None)
        if leaf is not None or not self.n_merges:
            return leaf
        # All chunks are given out: help the one with the most merges to do.
        busiest = max(self.merges, key=lambda w: len(self.merges[w]))
        self.n_merges -= 1
        return self.merges[busiest].pop()

    def _finish(self, worker: int, number: int) -> None:
        node = self.nodes[number]
        node.place = worker
        for child in (self.nodes[c] for c in node.children):
            self.held[child.place] -= child.size
            if child.place != worker:
                self.held[worker] -= child.size  # the copy that was sent
        if node.parent is None:
            return
        parent = self.nodes[node.parent]
        parent.waiting -= 1
        if not parent.waiting:
            sizes: dict[int, float] = {}
            for child in (self.nodes[c] for c in parent.children):
                sizes[child.place] = sizes.get(child.place, 0.0) + child.size
            self.merges[max(sizes, key=lambda w: sizes[w])].append(node.parent)
            self.n_merges += 1


def simulated(work: Pass, cluster: Cluster) -> Outcome:
    """Return what a pass costs on a cluster."""
    return _Run(work, cluster).run()
