"""How long passes over very large data take on 1, 16 and 256 workers, from measured task times.

One core of this machine runs the tasks of each pass: reading a chunk, taking it up, merging states.
The sizes of states are known. `cluster_simulation` then plays the schedule of a cluster.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from cluster_simulation import Cluster, Pass, simulated
from recording import save, save_page, show
from zonkey.anyshot.choice import preprocessing
from zonkey.anyshot.choosing import POWERS
from zonkey.anyshot.evidence import Evidence, Regression
from zonkey.anyshot.survey import Survey
from zonkey.bpl.kernels import PrototypeKernel
from zonkey.prototypes import Prototypes
from zonkey.streaming.accept import as_chunks
from zonkey.streaming.chunks import apply_transforms
from zonkey.streaming.reduce import ClassSums
from zonkey.streaming.sources import check_chunk

D, K = 2_048, 300
WORKERS = (1, 16, 256)
BANDWIDTH, STORAGE = 1.25e9, 1e9  # bytes per second of a worker: 10 Gbit/s, and its disk
PER_TASK = 1e-3  # of the scheduler; Dask's own documentation says about 1 ms
GB = 1e9


@dataclass(frozen=True)
class Task:
    """A data set: rows, classes, rows per chunk, bytes per number in its files."""

    name: str
    n: int
    classes: int
    rows: int
    item: int


TASKS = (
    Task("ImageNet-21k, float16", 14_000_000, 21_000, 32_768, 2),
    Task("A billion samples, float16", 1_000_000_000, 21_000, 32_768, 2),
)


def best(work: Callable[[], Any], repeats: int = 2) -> float:
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


def passes(n_classes: int) -> dict[str, tuple[Callable[[], Any], tuple[Any, ...]]]:
    """Return what `fit` reduces in each pass: an empty reduction, and transforms of samples."""
    rng = np.random.default_rng(0)
    few = rng.standard_normal((4 * D, D), np.float32)
    steps = preprocessing().fit(few, np.arange(len(few)) % 16)
    rough = np.arange(n_classes), rng.standard_normal((n_classes, D)) / D
    return {
        "survey": (lambda: Survey(0, POWERS), ()),
        "scatter": (lambda: ClassSums(scatter=True, shift=rough), (steps[0].transform,)),
        "sums": (ClassSums, (steps.transform,)),
    }


def measured(rows: int, n_classes: int, dtype: Any) -> dict[str, Any]:
    """Return seconds of the tasks on one core, and sizes of states."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, D), np.float32).astype(dtype)
    y = rng.integers(0, n_classes, rows)
    found: dict[str, Any] = {"rows": rows, "classes": n_classes}
    with threadpool_limits(1):
        for name, (make, transforms) in passes(n_classes).items():

            def take_up(number: int = 0, make: Any = make, transforms: Any = transforms) -> Any:
                state = make()
                chunk = check_chunk(X, y, number)
                state.update(replace(chunk, X=apply_transforms(chunk.X, transforms)))
                return state

            one, other = take_up(), take_up(1)
            size = state_bytes(one)
            found[name] = {
                "chunk_s": best(take_up),
                "merge_rate": size / best(lambda a=one, b=other, make=make: merged(make(), a, b)),
                "bytes": size,
            }
    return found


def merged(whole: Any, *parts: Any) -> Any:
    for part in parts:
        whole.merge(part)
    return whole


def state_bytes(state: Any) -> float:
    arrays = [v for v in _flat(state.parts()) if isinstance(v, np.ndarray)]
    return float(sum(array.nbytes for array in arrays))


def _flat(parts: Any) -> list[Any]:
    if isinstance(parts, dict):
        return [leaf for value in parts.values() for leaf in _flat(value)]
    return [parts]


def on_client(n_classes: int) -> dict[str, float]:
    """Return seconds of what one machine does between the passes, with all its cores."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((2 * D, D))
    found = {"eigendecomposition": best(lambda: np.linalg.eigh(A.T @ A), 1)}
    Y = Prototypes(np.arange(n_classes), rng.standard_normal((n_classes, K)))
    evidence = Evidence.make_empty(Y.labels, np.zeros((1, D)))
    sums = rng.standard_normal((n_classes, D))
    evidence = evidence.add(Y.labels, sums, np.full(n_classes, 10.0), np.full(n_classes, 1e4))
    kernel = PrototypeKernel.from_vectors(Y.matrix, "rbf", 0.5)
    few = 2_000 if n_classes > 2_000 else None
    regression = Regression(Y, Y.labels, None, kernel, 0.03, few)
    found[f"regression{f', {few} landmarks' if few else ''}"] = best(
        lambda: regression.priors(evidence), 1
    )
    return found


def sizes(name: str, task: Task) -> Callable[[int], float]:
    """Return the bytes of the state of that many chunks, if classes come in random order."""

    def seen(n_rows: float) -> float:
        return task.classes * (1 - (1 - 1 / task.classes) ** n_rows)

    def kept(n_rows: float) -> float:
        main = min(task.classes, 2_000)
        most = max(16, min(100, 2**15 // main))
        per_class = n_rows / task.classes
        return main * min(most, per_class) + (task.classes - main) * min(4.0, per_class)

    if name == "survey":
        return lambda n: kept(n * task.rows) * D * 4
    scatter = D * D * 8 if name == "scatter" else 0
    return lambda n: seen(n * task.rows) * D * 8 + scatter


def table(task: Task, found: dict[str, Any], client: dict[str, float]) -> list[dict[str, Any]]:
    rows = []
    n_chunks = -(-task.n // task.rows)
    read_s = task.rows * D * task.item / STORAGE
    totals = dict.fromkeys(WORKERS, 0.0)
    # What every worker needs before it starts: rough class means, and the whitening.
    needed = {"survey": 0.0, "scatter": task.classes * D * 8.0, "sums": D * D * 8.0}
    for name in ("survey", "scatter", "sums"):
        chunk_s = found[name]["chunk_s"] + read_s  # one task reads a chunk and takes it up
        size = sizes(name, task)
        work = Pass(n_chunks, chunk_s, size, found[name]["merge_rate"])
        row: dict[str, Any] = {"step": name, "one chunk": f"{chunk_s:.2f} s"}
        for workers in WORKERS:
            outcome = simulated(work, Cluster(workers, BANDWIDTH, PER_TASK))
            # Workers that have it pass it on, so twice as many have it after each round.
            handed = needed[name] / BANDWIDTH * math.ceil(math.log2(workers + 1))
            seconds = outcome.seconds + handed
            totals[workers] += seconds
            row[f"{workers} worker{'s' * (workers > 1)}"] = spoken(seconds)
            if workers > 1:
                moved = outcome.moved + needed[name] * workers
                row[f"moved ({workers})"] = f"{moved / GB:.0f} GB"
                row[f"on one ({workers})"] = f"{(outcome.peak + needed[name]) / GB:.1f} GB"
        rows.append(row)
    for name, seconds in client.items():
        row = dict.fromkeys(rows[0], "-") | {"step": f"{name} (client)"}
        for workers in WORKERS:
            totals[workers] += seconds
            row[f"{workers} worker{'s' * (workers > 1)}"] = spoken(seconds)
        rows.append(row)
    last = dict.fromkeys(rows[0], "-") | {"step": "fit, without the choice of parameters"}
    for workers in WORKERS:
        last[f"{workers} worker{'s' * (workers > 1)}"] = spoken(totals[workers])
    return [*rows, last]


def spoken(seconds: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def real(workers: int, n_chunks: int, rows: int, n_classes: int) -> dict[str, Any]:
    """Compare the simulation of the second pass with that pass on a cluster of processes here."""
    import dask.array as da

    from distributed import Client, LocalCluster

    make, transforms = passes(n_classes)["scatter"]
    with (
        TemporaryDirectory() as folder,
        LocalCluster(
            workers,
            threads_per_worker=1,
            dashboard_address=None,
            local_directory=folder,
            memory_limit=0,
        ) as cluster,
        Client(cluster),
    ):
        path = Path(folder) / "x.npy"
        np.save(path, np.random.default_rng(0).standard_normal((rows, D), np.float32))
        blocks = da.zeros((n_chunks * rows, 1), chunks=(rows, 1))
        X = blocks.map_blocks(_loaded, path=str(path), chunks=(blocks.chunks[0], (D,)), dtype="f4")
        y = np.random.default_rng(1).integers(0, n_classes, n_chunks * rows)
        chunks: Any = as_chunks(X, y)
        for transform in transforms:
            chunks = chunks.map(transform)
        chunks.reduce(make(), "scatter")
        seconds = best(lambda: chunks.reduce(make(), "scatter"), 2)
    found = measured(rows, n_classes, np.float32)["scatter"]
    task = Task("", n_chunks * rows, n_classes, rows, 4)
    read_s = rows * D * 4 / STORAGE
    work = Pass(n_chunks, found["chunk_s"] + read_s, sizes("scatter", task), found["merge_rate"])
    expected = simulated(work, Cluster(workers, BANDWIDTH, PER_TASK)).seconds
    return {
        "workers": str(workers),
        "chunks": str(n_chunks),
        "measured": f"{seconds:.1f} s",
        "simulated": f"{expected:.1f} s",
        "ratio": f"{seconds / expected:.2f}",
    }


def _loaded(block: np.ndarray, path: str) -> np.ndarray:  # noqa: ARG001
    return np.load(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results")
    parser.add_argument("--quick", action="store_true", help="small chunks, to try the script")
    options = parser.parse_args()
    tables: dict[str, list[dict[str, Any]]] = {}
    record: dict[str, Any] = {}
    tasks = [Task("quick", 400_000, 1_000, 2_048, 4)] if options.quick else TASKS
    for task in tasks:
        key = f"{task.rows} rows, {task.classes} classes, {8 * task.item} bits"
        if key not in record:
            record[key] = {
                "tasks": measured(task.rows, task.classes, f"f{task.item}"),
                "client": on_client(task.classes),
            }
        title = f"{task.name}: {task.n:,} x {D:,}, {task.classes:,} classes"
        tables[title] = table(task, record[key]["tasks"], record[key]["client"])
    rows = 2_048 if options.quick else 8_192
    title = (
        f"Pass 2 of 12 chunks of {rows:,} rows, 1,000 classes: simulated, and run on this machine"
    )
    tables[title] = [real(workers, 12, rows, 1_000) for workers in (1, 2)]
    for title, shown in tables.items():
        show(title, shown)
    save("scale_simulation", {"measured": record, "tables": tables})
    print(json.dumps(record, indent=1))
    if options.write:
        notes = f"""
Measured: seconds per chunk and per merged byte on one core of this machine. Assumed: 10 Gbit/s
between workers, files at {STORAGE / GB:g} GB/s per worker, {PER_TASK * 1e3:g} ms of the scheduler
per task. "moved" are states between workers, and what each worker needs before it starts. "on one"
is what the fullest worker holds at a time, besides its chunk.
"""
        save_page(
            "scale_simulation",
            "Very large data on many workers, simulated",
            "python benchmarks/scale_simulation.py --write",
            tables,
            below=notes,
        )


if __name__ == "__main__":
    main()
