"""Time of fits and predictions with one thread of BLAS, with ours, and with two everywhere.

Each is measured alone and beside two processes that keep their cores busy. The ways take turns, so
that other work on the machine slows all of them alike: compare ratios, not seconds.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from recording import save_markdown, show
from zonkey import ZeroShotClassifier, presets, threads
from zonkey.config import config_context
from zonkey.files.emoji import load_emoji
from zonkey_lab.datasets.xlsa17 import load_xlsa17

HERE = Path(__file__).parent
DATA = Path(os.environ.get("ZONKEY_DATA", HERE.parent.parent / "shared" / "data"))
N, D, K, CLASSES = 10_000, 1_024, 85, 40  # generated
N_BUSY = 2
SHORT = 15.0  # seconds in which further turns are taken
COMMAND = "python benchmarks/threads.py --write"
BELOW = """
One thread: a limit set by the caller. Ours: one thread for small products, several for those of at
least 2^30 operations. Two everywhere: what BLAS does by itself. The ratio is to one thread under
the same load, medians of at least {repeats} turns. Load average at the start: {load:.1f}.
"""


@contextmanager
def two_everywhere() -> Iterator[None]:
    """Let every product have two threads: the limit of zonkey does nothing."""
    limit, threads._limit = threads._limit, _NoLimit()
    try:
        with threadpool_limits(2, "blas"):
            yield
    finally:
        threads._limit = limit


class _NoLimit(threads._Limit):
    def enter(self) -> None:
        """Leave the libraries as they are."""

    leave = lower = enter

    def lift(self, n_threads: int) -> None:
        """Leave the libraries as they are."""


WAYS: dict[str, Callable[[], AbstractContextManager]] = {
    "one thread": lambda: config_context(threads=1),
    "ours": config_context,
    "two everywhere": two_everywhere,
}


@contextmanager
def busy_cores() -> Iterator[None]:
    """Start processes that never wait."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(N_BUSY)]
    try:
        time.sleep(0.5)
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def problems() -> dict[str, Callable[[], object]]:
    """Return what is measured: research data only where it is present."""
    found: dict[str, Callable[[], object]] = {}
    rng = np.random.default_rng(0)
    cub = DATA / "xlsa17" / "data" / "CUB"
    if cub.is_dir():
        data = load_xlsa17(cub, features="efficientnet_lite0")
        found |= _recommended("CUB, 7,057 x 1,280", data.X_train, data.y_train, data.prototypes)
    emoji = load_emoji()
    kept = np.isin(emoji.y_train, np.unique(emoji.y_train)[:300])
    X, y = emoji.X_train[kept], emoji.y_train[kept]
    found |= _recommended(f"300 emoji, {len(X):,} x 256", X, y, emoji.prototypes.subset(set(y)))
    X, y = rng.random((N, D)), rng.integers(CLASSES, size=N)
    prototypes = dict(enumerate(rng.random((CLASSES + 10, K))))
    paper = ZeroShotClassifier(prototypes, random_state=0)
    found[f"paper fit, generated {N:,} x {D:,}"] = lambda: paper.fit(X, y)
    return found


def _recommended(name: str, X, y, prototypes) -> dict[str, Callable[[], object]]:
    model = presets.recommended(prototypes, candidates="all").fit(X, y)
    again = presets.recommended(prototypes, candidates="all")
    return {
        f"recommended fit, {name}": lambda: again.fit(X, y),
        f"recommended predict, {name}": lambda: model.predict(X),
    }


def measure(run: Callable[[], object], repeats: int) -> dict[str, float]:
    """Return the median time of each way; they take turns, more of them if they are short."""
    seconds: dict[str, list[float]] = {name: [] for name in WAYS}
    end = time.perf_counter() + SHORT
    while len(seconds["ours"]) < repeats or time.perf_counter() < end:
        for name, way in WAYS.items():
            with way():
                start = time.perf_counter()
                run()
                seconds[name].append(time.perf_counter() - start)
    return {name: float(np.median(found)) for name, found in seconds.items()}


def as_row(name: str, load: str, found: dict[str, float]) -> dict[str, str | float]:
    """Return a row of the table."""
    one = found["one thread"]
    return {
        "problem": name,
        "beside": load,
        **{f"{way} (s)": float(f"{seconds:.3g}") for way, seconds in found.items()},
        "ours : one": round(found["ours"] / one, 2),
        "two : one": round(found["two everywhere"] / one, 2),
    }


def main() -> None:
    """Measure all problems."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/threads.md")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    load, rows = os.getloadavg()[0], []
    for name, run in problems().items():
        rows.append(as_row(name, "nothing of ours", measure(run, arguments.repeats)))
        with busy_cores():
            rows.append(as_row(name, f"{N_BUSY} busy", measure(run, arguments.repeats)))
        show(name, rows[-2:])
    if arguments.write:
        below = BELOW.format(repeats=arguments.repeats, load=load)
        save_markdown("threads", "Threads of BLAS, idle and busy cores", COMMAND, rows, below=below)


if __name__ == "__main__":
    main()
