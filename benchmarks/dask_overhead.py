"""Two Dask workers against one process with two threads: moments of the same file on disk.

Workers are processes with one BLAS thread each, and read row ranges of the file themselves. The
process reads the same chunks ahead while it multiplies. Both start with the file in the page cache.
Also measured: seconds of each kind of task, bytes between workers, and the scheduler's share per
task, which is the time of a graph of as many chunks with one sample each.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from recording import environment, save, save_markdown, show
from zonkey import Chunks, Moments

D, CLASSES, K, BAR = 2_048, 40, 85, 0.25


def prototypes() -> dict[int, list[float]]:
    Y = np.random.default_rng(1).random((CLASSES, K))
    return dict(enumerate(Y.tolist()))


def written(path: Path, n: int) -> np.ndarray:
    """Write features of unit variance in blocks; return their labels."""
    X = np.lib.format.open_memmap(path, "w+", np.float32, (n, D))
    for start in range(0, n, 8_192):
        rng = np.random.default_rng([2, start])
        rows = min(8_192, n - start)
        X[start : start + rows] = rng.standard_normal((rows, D), np.float32)
    X.flush()
    return np.arange(n) % CLASSES


def read(block: np.ndarray, path: str, offset: int, rows: int) -> np.ndarray:
    """Return the rows of one chunk, read by the worker itself."""
    start = offset + int(block[0]) * rows * D * 4
    return np.fromfile(path, np.float32, rows * D, offset=start).reshape(-1, D)


def lazy(path: Path, n: int, rows: int) -> Any:
    import dask.array as da

    sizes = tuple(min(rows, n - start) for start in range(0, n, rows))
    numbers, offset = da.arange(len(sizes), chunks=1), np.load(path, mmap_mode="r").offset
    form: Any = {"new_axis": 1, "chunks": (sizes, (D,)), "meta": np.empty((0, 0), np.float32)}
    return numbers.map_blocks(read, path=str(path), offset=offset, rows=rows, **form)


def best(work: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    seconds, found = [], None
    for _ in range(repeats):
        start = time.perf_counter()
        found = work()
        seconds.append(time.perf_counter() - start)
    return min(seconds), found


def task_seconds(client: Any, since: float) -> dict[str, list[float]]:
    """Return how long tasks of each kind ran, and how long they waited for data."""
    found: dict[str, list[float]] = {"chunk": [], "merge": [], "transfer": []}
    for task in client.get_task_stream(start=since):
        key = str(task["key"])
        kind = "merge" if "('zonkey-merge" in key else "chunk" if "_reduce" in key else None
        if kind is None:
            continue
        for step in task["startstops"]:
            name = kind if step["action"] == "compute" else step["action"]
            found.setdefault(name, []).append(step["stop"] - step["start"])
    return found


def bytes_moved(client: Any) -> int:
    """Return the bytes that workers have received from each other."""

    def incoming(dask_worker: Any) -> int:
        return sum(int(one["total"]) for one in dask_worker.transfer_incoming_log)

    return sum(client.run(incoming).values())


def measure(path: Path, n: int, rows: int, repeats: int) -> dict[str, Any]:
    import dask
    import dask.array as da

    from distributed import Client, LocalCluster

    y, known = written(path, n), prototypes()
    X = np.load(path, mmap_mode="r")

    def here() -> Moments:
        return Moments(known).update(Chunks(X, y, rows=rows))

    def there() -> Moments:
        return Moments(known).update(lazy(path, n, rows), y)

    with threadpool_limits(2):
        here()  # the page cache, and the threads of BLAS
        alone, expected = best(here, repeats)
    memory = {"distributed.worker.memory.pause": False, "distributed.worker.memory.spill": False}
    options: dict[str, Any] = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": 0}
    folder = tempfile.mkdtemp(dir=path.parent)
    cluster = LocalCluster(dashboard_address=":0", local_directory=folder, **options)
    with dask.config.set(memory), cluster, Client(cluster) as client:
        there()
        before = bytes_moved(client)
        client.get_task_stream()  # from now on, tasks are recorded
        since = time.time()
        together, found = best(there, repeats)
        moved = (bytes_moved(client) - before) / repeats
        tasks = task_seconds(client, since)
        n_chunks = -(-n // rows)
        small = da.ones((n_chunks, 2), chunks=(1, 2)), np.zeros(n_chunks, int)
        tiny, _ = best(lambda: Moments({0: [1.0], 1: [2.0]}).update(*small), repeats)
    np.testing.assert_allclose(found.A0, expected.A0, rtol=1e-10, atol=1e-8)
    n_tasks = n_chunks + len(tasks["merge"]) / repeats
    return {
        "rows": n,
        "rows_per_chunk": rows,
        "features": D,
        "chunks": n_chunks,
        "seconds_one_process": alone,
        "seconds_two_workers": together,
        "overhead": together / alone - 1,
        "bytes_between_workers": moved,
        "bytes_of_one_state": 8 * D * (D + CLASSES),
        "seconds_per_chunk": statistics.median(tasks["chunk"]),
        "seconds_per_merge": statistics.median(tasks["merge"]),
        "seconds_per_transfer": statistics.median(tasks["transfer"] or [0.0]),
        "scheduler_seconds_per_task": tiny / n_tasks,
        "task_seconds": tasks,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--chunk", type=int, default=12_500, help="rows per chunk")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", help="for the file of features, rows x 8 KiB")
    parser.add_argument("--json", help="file for all figures")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        found = measure(Path(folder) / "X.npy", given.rows, given.chunk, given.repeats)
    rows = [
        {"": "one process, two threads (s)", "figure": round(found["seconds_one_process"], 2)},
        {"": "two workers, one thread each (s)", "figure": round(found["seconds_two_workers"], 2)},
        {"": f"overhead (%), at most {BAR:.0%}", "figure": round(100 * found["overhead"], 1)},
        {"": "chunks", "figure": found["chunks"]},
        {"": "task of a chunk, median (s)", "figure": round(found["seconds_per_chunk"], 4)},
        {"": "merge of up to 4, median (s)", "figure": round(found["seconds_per_merge"], 4)},
        {"": "transfer, median (s)", "figure": round(found["seconds_per_transfer"], 4)},
        {
            "": "client and scheduler per task (ms)",
            "figure": round(1e3 * found["scheduler_seconds_per_task"], 2),
        },
        {
            "": f"between workers (MB), the file has {4e-6 * found['rows'] * D:,.0f} MB",
            "figure": round(1e-6 * found["bytes_between_workers"], 1),
        },
    ]
    title = f"Moments of {given.rows:,} x {D:,} float32 on two cores, best of {given.repeats}"
    show(title, rows)
    if given.json:
        Path(given.json).write_text(json.dumps({**environment(), **found}, indent=2) + "\n")
    if given.rows == parser.get_default("rows"):
        save("dask_overhead", found)
        save_markdown("dask_overhead", title, "python benchmarks/dask_overhead.py", rows)


if __name__ == "__main__":
    main()
