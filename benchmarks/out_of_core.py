"""Learning from a file larger than memory: speed, peak memory, and growth with the samples.

The pass over the file is compared with the bare product that it cannot do without: blocks of
samples in memory, converted to float64 and multiplied by themselves. Both are measured in one run,
each in a process of its own. Peak memory is that of the process of the pass, with Python and all
libraries. The growth is the slope of log time against log n; processor times on one thread exclude
other work, and small sizes are repeated.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from rich.progress import track
from threadpoolctl import threadpool_limits

from recording import save, save_page, show
from zonkey import AnyShotClassifier, Chunks, Moments, Prototypes
from zonkey_lab.paper.bench.runner import peak_memory_mb

BLOCK, IN_MEMORY = 8_192, 65_536  # rows
SHARE, MEMORY_MB, SLOPE = 0.70, 1_500, 0.05
AT_LEAST_S, MOST_REPEATS = 1.0, 30


@dataclass(frozen=True)
class Size:
    """Samples n, features d, semantic dimensions k, classes p."""

    n: int
    d: int = 2_048
    k: int = 85
    p: int = 1_000


def prototypes(size: Size) -> Prototypes:
    return Prototypes(np.arange(size.p), np.random.default_rng(0).random((size.p, size.k)))


def labels(size: Size) -> np.ndarray:
    return np.random.default_rng(1).integers(0, size.p, size.n)


def write(path: Path, size: Size) -> None:
    """Write random samples, never all in memory."""
    X = np.lib.format.open_memmap(path, "w+", np.float32, (size.n, size.d))
    rng = np.random.default_rng(2)
    for start in track(range(0, size.n, BLOCK), f"Writing {size.n:,} x {size.d:,}"):
        X[start : start + BLOCK] = rng.standard_normal(X[start : start + BLOCK].shape, np.float32)
    X.flush()


def opened(path: Path, size: Size) -> np.memmap:
    """Return the first n samples of a file that may have more, as a map of its own."""
    with path.open("rb") as file:
        np.lib.format.read_magic(file)
        np.lib.format.read_array_header_1_0(file)
        offset = file.tell()
    return np.memmap(path, np.float32, "r", offset, (size.n, size.d))


# Ways to learn from a memory map X and labels y; each is compared and its growth measured.


def moments(X: np.ndarray, y: np.ndarray, size: Size) -> Any:
    return Moments(prototypes(size)).update(X, y)


PASSES: dict[str, Callable[[np.ndarray, np.ndarray, Size], Any]] = {"Moments.update": moments}


def product(X: np.ndarray) -> None:
    total = np.zeros((X.shape[1], X.shape[1]))
    for start in range(0, len(X), BLOCK):
        block = X[start : start + BLOCK].astype(np.float64)
        total += block.T @ block


def timed(work: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> float:
    start = clock()
    work()
    return clock() - start


def time_product(path: Path, size: Size) -> float:
    """Return seconds per row of the bare product in memory."""
    X = np.array(opened(path, Size(min(size.n, IN_MEMORY), size.d)))
    product(X[:BLOCK])
    return timed(lambda: product(X)) / len(X)


def time_in_memory(path: Path, size: Size, name: str) -> float:
    """Return seconds per row of a pass over samples in memory."""
    part = Size(min(size.n, IN_MEMORY), size.d, size.k, size.p)
    X, y = np.array(opened(path, part)), labels(part)
    PASSES[name](X[:BLOCK], y[:BLOCK], part)
    return timed(lambda: PASSES[name](X, y, part)) / len(X)


def time_pass(path: Path, size: Size, name: str) -> tuple[float, float]:
    """Return seconds per row of a pass over the file, and the peak memory in MB."""
    X, y = opened(path, size), labels(size)
    seconds = timed(lambda: PASSES[name](X, y, size)) / size.n
    return seconds, peak_memory_mb() or 0.0


def time_growth(path: Path, size: Size, name: str) -> tuple[float, int]:
    """Return the least processor time of repeated passes on one thread, and their number."""
    threadpool_limits(1)
    X, y = opened(path, size), labels(size)
    PASSES[name](opened(path, Size(64, size.d, size.k, size.p)), y[:64], size)
    seconds: list[float] = []
    while sum(seconds) < AT_LEAST_S and len(seconds) < MOST_REPEATS:
        seconds.append(timed(lambda: PASSES[name](X, y, size), time.process_time))
    return min(seconds), len(seconds)


def alone(work: Callable[..., Any], *args: Any) -> Any:
    """Run a function in a new process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, *args).result()


def speeds(folder: Path, size: Size) -> list[dict[str, Any]]:
    path = folder / "speed.npy"
    write(path, size)
    rows = []
    for name in PASSES:
        before = alone(time_product, path, size)
        seconds, megabytes = alone(time_pass, path, size, name)
        in_memory = alone(time_in_memory, path, size, name)
        bare = (before + alone(time_product, path, size)) / 2
        for what, found in (("bare product", bare), (f"{name}, in memory", in_memory)):
            rows.append({"what": what, **speed(found, bare), "peak (MB)": "-", "bar": "-"})
        met = bare / seconds >= SHARE and megabytes < MEMORY_MB
        bar = f"{SHARE:.0%}, {MEMORY_MB:,} MB: {'met' if met else 'MISSED'}"
        found = {**speed(seconds, bare), "peak (MB)": f"{megabytes:,.0f}", "bar": bar}
        rows.append({"what": f"{name}, from the file", **found})
    path.unlink()
    return rows


def speed(seconds: float, bare: float) -> dict[str, Any]:
    return {"rows per s": f"{1 / seconds:,.0f}", "of the product": f"{bare / seconds:.0%}"}


def time_recommended(path: Path, size: Size) -> dict[str, Any]:
    """Return seconds of each pass of the recommended model, of the choice, and peak memory."""
    ends: dict[str, float] = {}
    starts: dict[str, float] = {}

    def progress(name: str, n_rows: int, n_total: int | None) -> None:  # noqa: ARG001
        now = time.perf_counter()
        starts.setdefault(name, now)
        ends[name] = now

    begin = time.perf_counter()
    chunks = Chunks(opened(path, size), labels(size), progress=progress)
    AnyShotClassifier(prototypes(size), candidates="all").fit(chunks)
    end = time.perf_counter()
    passes = {name: ends[name] - starts[name] for name in ends}  # without their first chunk
    rest = end - begin - sum(passes.values())
    return {"passes": passes, "rest": rest, "peak": peak_memory_mb() or 0.0}


def recommended(folder: Path, size: Size) -> list[dict[str, Any]]:
    path = folder / "recommended.npy"
    write(path, size)
    bare = alone(time_product, path, size) * size.n
    found = alone(time_recommended, path, size)
    path.unlink()
    rows = [
        {"what": f"pass {i}: {name}", "s": f"{seconds:.1f}", "products": f"{seconds / bare:.2f}"}
        for i, (name, seconds) in enumerate(found["passes"].items(), 1)
    ]
    total = sum(found["passes"].values()) + found["rest"]
    for what, seconds in (("choice of parameters, decompositions", found["rest"]), ("fit", total)):
        rows.append({"what": what, "s": f"{seconds:.1f}", "products": f"{seconds / bare:.2f}"})
    rows.append({"what": "peak memory", "s": f"{found['peak']:,.0f} MB", "products": "-"})
    return rows


def growth(folder: Path, sizes: list[Size]) -> list[dict[str, Any]]:
    path = folder / "growth.npy"
    write(path, sizes[-1])
    rows = []
    for name in PASSES:
        found = [alone(time_growth, path, size, name) for size in track(sizes, f"{name}, growth")]
        for size, (seconds, n) in zip(sizes, found, strict=True):
            row = {"what": name, "samples": f"{size.n:,}", "s": f"{seconds:.3g}", "best of": str(n)}
            rows.append({**row, "bar": "-"})
        n, seconds = [size.n for size in sizes], [seconds for seconds, _ in found]
        slope = float(np.polyfit(np.log(n), np.log(seconds), 1)[0])
        bar = f"1.0 +- {SLOPE}: {'met' if abs(slope - 1) <= SLOPE else 'MISSED'}"
        rows.append(
            {"what": name, "samples": "slope", "s": f"{slope:.3f}", "best of": "", "bar": bar}
        )
    path.unlink()
    return rows


NOTES = f"""
"bare product" is `X.T @ X` of blocks of {BLOCK:,} rows in memory, converted to float64, the mean of
a run before and one after; it and the pass in memory are measured on {IN_MEMORY:,} rows and scaled.
"from the file" is the pass over `np.load(path, mmap_mode="r")`, whose pages the system may have in
its cache. Peak memory is that of the whole process. "products" are multiples of the time of the
bare product of all samples. Growth is in processor time on one thread, the
best of as many passes as take {AT_LEAST_S:g} s, at most {MOST_REPEATS}.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="samples of the speed test")
    parser.add_argument("--most", type=int, default=4_000_000, help="samples of the growth test")
    parser.add_argument("--folder", type=Path, help="where to write the samples for a while")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results")
    options = parser.parse_args()
    size = Size(options.rows)
    counts = [round(options.most * 10 ** (-3 + i / 2)) for i in range(7)]
    sizes = [Size(n, d=256, k=32, p=20) for n in counts]
    with TemporaryDirectory(dir=options.folder) as folder:
        part = Size(options.rows // 5)
        tables = {
            f"Speed and memory, {size.n:,} x {size.d:,}, {size.p:,} classes": speeds(
                Path(folder), size
            ),
            f"Fit of the recommended model, {part.n:,} samples": recommended(Path(folder), part),
            f"Growth with the samples, {sizes[0].d} features, {sizes[0].p} classes": growth(
                Path(folder), sizes
            ),
        }
    for title, rows in tables.items():
        show(title, rows)
    save("out_of_core", {"tables": tables, "size": asdict(size)})
    if options.write:
        title = "Learning from a file larger than memory"
        command = "python benchmarks/out_of_core.py --write"
        save_page("out_of_core", title, command, tables, below=NOTES)


if __name__ == "__main__":
    main()
