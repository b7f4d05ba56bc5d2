"""Time and peak memory of fit and predict against n, d, k and q, varied one at a time.

Every point runs in its own process on one thread. Processor time excludes other work and gains from
threads, so that slopes reflect the algorithm. Memory is the peak resident set during the work minus
the resident set before it. It includes the workspace of LAPACK, which tracemalloc does not see, but
not the samples, which exist before. When moments are computed from chunks, there is no matrix of
samples, and one chunk is included.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np
from rich.progress import track
from threadpoolctl import threadpool_limits

from recording import HERE, save, save_markdown, show
from zonkey import Moments, Prototypes, ZeroShotClassifier
from zonkey_lab.paper.bench.runner import peak_memory_mb, reset_peak_memory

REPEATS, AT_LEAST_S, CHUNK = 3, 0.3, 2_048
LEAST_MB = 5.0  # smaller values depend on the page allocation of the system


@dataclass(frozen=True)
class Size:
    """Samples n, features d, semantic dimensions k, seen classes p, unseen classes q."""

    n: int = 10_000
    d: int = 512
    k: int = 85
    p: int = 40
    q: int = 10


GRIDS = {
    "n": (10_000, 20_000, 40_000, 80_000, 160_000),
    "d": (128, 256, 512, 1_024, 2_048),
    "k": (64, 128, 256, 512, 1_024),
    "q": (20, 40, 80, 160, 320),
}
MEANING = {
    "n": "samples n",
    "d": "features d",
    "k": "semantic dimensions k",
    "q": "unseen classes q",
}
WHAT = ("fit", "fit from chunks", "predict")


class Measured(NamedTuple):
    """Best time and additional peak memory."""

    seconds: float
    megabytes: float


class Source:
    """Rectified, unit-length features around projected attributes, generated in chunks."""

    def __init__(self, size: Size) -> None:
        rng = np.random.default_rng(0)
        self.size = size
        Y = rng.random((size.p + size.q, size.k))
        self.Y = Y / np.linalg.norm(Y, axis=1, keepdims=True)
        self.centers = self.Y @ rng.standard_normal((size.k, size.d))
        self.y = np.arange(size.n) % size.p

    @property
    def prototypes(self) -> Prototypes:
        """Prototypes of seen and unseen classes."""
        return Prototypes(np.arange(len(self.Y)), self.Y)

    def rows(self, start: int, stop: int) -> np.ndarray:
        """Return a chunk of samples; deterministic for a given `start`."""
        rng = np.random.default_rng([1, start])
        X = self.centers[self.y[start:stop]]
        X += rng.standard_normal(X.shape)
        np.maximum(X, 0, out=X)
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        return X

    def everything(self) -> np.ndarray:
        """Return all samples, generated in place to keep peak memory low."""
        X = np.empty((self.size.n, self.size.d))
        for start in range(0, len(X), CHUNK):
            X[start : start + CHUNK] = self.rows(start, min(start + CHUNK, len(X)))
        return X


def measured(work: Callable[[], float]) -> Measured:
    """Measure work that returns its own time: first run for memory, further runs for time."""
    reset_peak_memory()
    before = peak_memory_mb() or 0.0
    work()
    memory = (peak_memory_mb() or 0.0) - before
    seconds: list[float] = []
    while len(seconds) < REPEATS or sum(seconds) < AT_LEAST_S:
        seconds.append(work())
    return Measured(min(seconds), max(memory, 0.1))


def timed(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def from_chunks(source: Source) -> float:
    """Compute moments and fit; return the time without generating samples."""
    moments, seconds = Moments(source.prototypes), 0.0
    for start in range(0, source.size.n, CHUNK):
        stop = min(start + CHUNK, source.size.n)
        X, y = source.rows(start, stop), source.y[start:stop]
        seconds += timed(lambda: moments.update(X, y))  # noqa: B023
    return seconds + timed(lambda: ZeroShotClassifier(random_state=0).fit_moments(moments))


def point(what: str, size: Size, model: ZeroShotClassifier | None) -> tuple[Measured, Any]:
    """Measure one point in a new process; also return the model if it is a fit."""
    threadpool_limits(1)
    small = Source(Size(n=200, d=16, k=8, p=4, q=2))
    ZeroShotClassifier(small.prototypes).fit(small.everything(), small.y).predict(small.rows(0, 2))
    source = Source(size)
    if what == "fit from chunks":
        return measured(lambda: from_chunks(source)), None
    X = source.everything()
    if model is not None:
        return measured(lambda: timed(lambda: model.predict(X))), None
    fresh = ZeroShotClassifier(source.prototypes, random_state=0)
    return measured(lambda: timed(lambda: fresh.fit(X, source.y))), fresh


def measure(size: Size) -> dict[str, Measured]:
    found, models = {}, {}
    context = get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as pool:
        for what in WHAT:
            model = models.get("fit") if what == "predict" else None
            found[what], models[what] = pool.submit(point, what, size, model).result()
    return found


def slope(values: tuple[int, ...], figures: list[float], least: float = 0.0) -> str:
    """Return the exponent of growth over the upper half, or a dash if figures are too small."""
    half = len(values) // 2
    if min(figures[half:]) < least:
        return "-"
    found = np.polyfit(np.log(values[half:]), np.log(figures[half:]), 1)[0]
    return f"{round(found, 2) + 0.0:.2f}"


FIELDS = (("seconds", "s", 0.0), ("megabytes", "MB", LEAST_MB))


def table(results: dict[str, list[dict[str, Measured]]]) -> list[dict[str, Any]]:
    rows = []
    for name, points in results.items():
        for value, found in zip(GRIDS[name], points, strict=True):
            row: dict[str, Any] = {"varied": name, "value": str(value)}
            for what, (seconds, megabytes) in found.items():
                row[f"{what} (s)"] = float(f"{seconds:.3g}")
                row[f"{what} (MB)"] = float(f"{megabytes:.3g}")
            rows.append(row)
        row = {"varied": name, "value": "slope"}
        for what in WHAT:
            for field, unit, least in FIELDS:
                figures = [getattr(found[what], field) for found in points]
                row[f"{what} ({unit})"] = slope(GRIDS[name], figures, least)
        rows.append(row)
    return rows


def draw(results: dict[str, list[dict[str, Measured]]]) -> None:
    from matplotlib.ticker import NullLocator

    from zonkey.display.drawing import add_grid, file_bytes, line_style, new_figure

    figure = new_figure(14, 7)
    axes = figure.subplots(2, len(GRIDS), sharex="col", sharey="row")
    for column, (name, points) in enumerate(results.items()):
        values = GRIDS[name]
        for row, (field, unit, least) in enumerate(FIELDS):
            axis = axes[row, column]
            slopes = []
            for number, what in enumerate(WHAT):
                figures = [getattr(found[what], field) for found in points]
                axis.plot(values, figures, label=what, **line_style(number))
                slopes.append(f"{what} {slope(values, figures, least)}")
            axis.set_title("slopes: " + ", ".join(slopes), fontsize=9)
            axis.set_xscale("log", base=2)
            axis.set_yscale("log")
            axis.set_xticks(values, [f"{value:,}" for value in values])
            axis.xaxis.set_minor_locator(NullLocator())
            add_grid(axis)
            if column == 0:
                axis.set_ylabel("seconds, one thread" if row == 0 else f"peak {unit}")
        axes[1, column].set_xlabel(MEANING[name])
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    fixed = ", ".join(f"{name} = {value:,}" for name, value in asdict(Size()).items())
    figure.suptitle(
        f"Growth of time and peak memory, with slopes of the upper half; fixed values: {fixed}"
    )
    (HERE / "results" / "growth.png").write_bytes(file_bytes(figure)["png"])


NOTES = f"""
Fixed values are {", ".join(f"{name} = {value:,}" for name, value in asdict(Size()).items())};
features are float64. "slope" is the exponent of growth over the upper half of the values: 1 is
linear; a dash marks memory below {LEAST_MB:g} MB, which is too small to tell. "fit" is
`ZeroShotClassifier().fit` with the paper's defaults, including synthesis and competition. "fit from
chunks" is `Moments.update` over chunks of {CHUNK:,} samples, then `fit_moments`, without the time
to generate chunks. "predict" predicts n samples among q classes. Times are processor times on one
thread, the best of at least {REPEATS}. MB are the peak resident set during the work minus the
resident set before, in a separate process. They exclude the matrix of samples, if there is one.

![Time and peak memory, log-log](growth.png)
"""


def main() -> None:
    results: dict[str, list[dict[str, Measured]]] = {}
    for name, values in track(GRIDS.items(), "Measuring"):
        results[name] = [measure(replace(Size(), **{name: value})) for value in values]
    rows = table(results)
    title = "Growth of time and peak memory with n, d, k and q"
    show(title, rows)
    save("growth", {"rows": rows, "fixed": asdict(Size())})
    save_markdown("growth", title, "python benchmarks/growth.py", rows, below=NOTES)
    draw(results)


if __name__ == "__main__":
    main()
