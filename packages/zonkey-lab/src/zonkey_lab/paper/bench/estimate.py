"""Time and memory of runs, estimated before they start.

Operations are counted from the sizes of the data, and divided by the speed of a matrix product on
this machine. To this are added the recorded seconds of the same model on emoji (`costs.json`), in
proportion to what else grows: scores, training steps and networks. Sums over many runs are within
a factor of about 3 of the truth; single runs may be farther off.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from joblib import cpu_count
from sklearn.model_selection import ParameterGrid

from zonkey.files.dataset import Dataset
from zonkey.files.readers import total_memory

from ..experiments import (
    FULL,
    RANDOM_PEERS,
    TORCH_PEERS,
    Scale,
    is_selection,
    is_zero_shot,
    shots_of,
)
from ..records import Key
from .models import AnyShotModel, as_dicts, model_of, sensitivity_grid

WITHIN = 3  # the factor that estimates of time are meant to be within
_BYTES = 4  # of a feature in memory
_COPIES = 5.5  # features, preprocessed ones, and those of a fold, in units of all features
_SQUARES = 10  # matrices of d x d doubles at a time
_BASE = 300e6  # bytes of Python and the libraries, when nothing was recorded
_DEFAULT = (30.0, None)  # seconds and peak of a model without a record, such as a new one
_DECOMPOSITION = 25.0  # operations of a symmetric eigenproblem, in units of d^3
_OF_PAIRS = ("SSE", "EXEM", "SynC")  # their time grows with the square of the number of classes
_PROBE = 768  # side of the matrices whose product measures the speed


@dataclass(frozen=True)
class Sizes:
    """What time and memory depend on: samples, features, semantic dimensions, classes."""

    n: int
    n_train: int
    n_test: int
    d: int
    k: int
    seen: int
    unseen: int

    @classmethod
    def of(cls, data: Dataset) -> Sizes:
        """Return the sizes of a data set; its features are not read."""
        n, d = data.shape
        test = len(data.split.test_seen) + len(data.split.test_unseen)
        k = data.prototypes.n_dimensions
        return cls(n, len(data.split.train), test, d, k, *map(len, _classes(data)))

    @property
    def feature_bytes(self) -> int:
        """Size of the features in memory."""
        return _BYTES * self.n * self.d


def _classes(data: Dataset) -> tuple[np.ndarray, np.ndarray]:
    return data.seen_classes, data.unseen_classes


EMOJI = Sizes(n=6680, n_train=4004, n_test=2676, d=256, k=384, seen=1001, unseen=335)


@dataclass(frozen=True)
class Estimate:
    """Runs to do and recorded ones; seconds, and bytes of all processes together."""

    n_runs: int
    n_recorded: int
    seconds: float
    n_bytes: float
    least_bytes: float  # of features and libraries alone
    memory: float  # of the machine
    n_jobs: int

    def text(self) -> str:
        """Return the estimate in one line."""
        if not self.n_runs:
            return f"Nothing to do: all {self.n_recorded} runs are recorded."
        found = f" ({self.n_recorded} are recorded)" if self.n_recorded else ""
        processes = f" in {self.n_jobs} processes" if self.n_jobs > 1 else ""
        return (
            f"{self.n_runs} runs to do{found}: roughly {format_seconds(self.seconds)} (may be a "
            f"third of it or {WITHIN} times as long), about {self.n_bytes / 1e9:.1f} GB of memory"
            f"{processes}; the machine has {self.memory / 1e9:.1f} GB."
        )

    def problem(self) -> str:
        """Return a warning if the memory may not suffice; "" if it should."""
        if not self.n_runs or self.n_bytes <= self.memory:
            return ""
        fewer = f"--jobs {self.n_jobs // 2}" if self.n_jobs > 1 else "a machine with more memory"
        return (
            f"The runs may need more memory than the {self.memory / 1e9:.1f} GB of the machine. If "
            f"they fail, use {fewer}, or one data set at a time (--data)."
        )

    def require_memory(self) -> None:
        """Refuse runs whose features alone do not fit into memory."""
        if self.n_runs and self.least_bytes > self.memory:
            remedy = "Use --jobs 1" if self.n_jobs > 1 else "Use a machine with more memory"
            raise ValueError(
                f"Features must fit into memory; those of {self.n_jobs} processes need at least "
                f"{self.least_bytes / 1e9:.1f} GB, and the machine has {self.memory / 1e9:.1f} GB. "
                f"{remedy}, or other data sets (--data)."
            )


def estimate_runs(
    pending: Iterable[tuple[Key, Sizes]],
    scale: Scale,
    *,
    n_recorded: int = 0,
    n_jobs: int = 1,
    speed: float | None = None,
    memory: float | None = None,
) -> Estimate:
    """Return what the runs take.

    `speed` is in operations per second, `memory` in bytes; None: those of this machine.
    """
    runs = list(pending)
    speed = measure_speed() if speed is None and runs else speed or 1.0
    n_jobs = max(1, min(n_jobs, len(runs)))
    seconds = sum(seconds_of(key, sizes, scale, speed) for key, sizes in runs)
    # A process keeps the features of several data sets.
    features = sum({key.data: sizes.feature_bytes for key, sizes in runs}.values())
    extra = max((extra_bytes(key, sizes) for key, sizes in runs), default=0.0)
    return Estimate(
        n_runs=len(runs),
        n_recorded=n_recorded,
        seconds=seconds / min(n_jobs, cpu_count()),
        n_bytes=n_jobs * (features + extra),
        least_bytes=n_jobs * (features + _BASE),
        memory=total_memory() if memory is None else memory,
        n_jobs=n_jobs,
    )


def seconds_of(key: Key, sizes: Sizes, scale: Scale, speed: float) -> float:
    """Return the seconds of one run."""
    recorded, _ = _costs_of(key)
    n_passes = passes_of(key, scale)
    share = n_passes / passes_of(key, FULL)
    products = n_folds_of(key, scale) * _products(key, sizes) / speed
    return recorded * share * growth_of(key, sizes) + products


def extra_bytes(key: Key, sizes: Sizes) -> float:
    """Return the peak memory of one run beyond the features: libraries, copies, matrices."""
    _, recorded = _costs_of(key)
    base = _BASE if recorded is None else recorded * 1e6
    return base + (_COPIES - 1) * sizes.feature_bytes + 8 * _SQUARES * sizes.d**2


def passes_of(key: Key, scale: Scale) -> int:
    """Return how often a run fits a model: points times folds, trials, or repetitions."""
    if is_selection(key):
        n_points = _count_points(key, scale)
        if is_zero_shot(key.protocol):
            return n_points * scale.n_folds
        in_trials = not key.protocol.startswith("selection-all")
        return n_points * (scale.n_selection_trials if in_trials else 2)
    if shots_of(key.protocol) is not None:
        return scale.n_trials
    if key.protocol == "all-classes":
        return scale.n_repeats * scale.most_shots
    return scale.most_shots * scale.n_timings if key.protocol == "runtime" else 1


def n_folds_of(key: Key, scale: Scale) -> int:
    """Return how often a run multiplies and decomposes matrices of all features."""
    if is_selection(key) and is_zero_shot(key.protocol):
        return scale.n_folds
    if key.protocol == "runtime":  # end to end, each time
        return passes_of(key, scale)
    return 9 if key.protocol == "convergence" else 1


def growth_of(key: Key, sizes: Sizes, reference: Sizes = EMOJI) -> float:
    """Return the operations besides products of all features, relative to the reference."""
    return _operations(key, sizes) / _operations(key, reference)


def measure_speed() -> float:
    """Return the operations per second of a product of two matrices, of doubles."""
    A = np.ones((_PROBE, _PROBE))
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        _ = A @ A
        seconds.append(time.perf_counter() - start)
    return 2 * _PROBE**3 / min(seconds[1:])  # the first starts the threads


def format_seconds(seconds: float) -> str:
    """Return "40 seconds", "12 minutes", "3.5 hours" or "2.1 days"."""
    for unit, length, most in (("seconds", 1, 90), ("minutes", 60, 5400), ("hours", 3600, 172800)):
        if seconds < most:
            value = seconds / length
            return f"{value:.1f} {unit}" if value < 10 and length > 60 else f"{value:.0f} {unit}"
    return f"{seconds / 86400:.1f} days"


def _operations(key: Key, sizes: Sizes) -> float:
    s = sizes
    if key.model in _OF_PAIRS:
        return s.seen**2 * (s.n_train if key.model == "SSE" else s.d)
    if key.model in RANDOM_PEERS:  # steps over samples: prototypes to features, scores of classes
        return s.n_train * s.k * (s.d + s.seen)
    if key.model in TORCH_PEERS or getattr(model_of(key), "uses_torch", False):
        return s.n_train * (s.d + s.k)
    if is_zero_shot(key.protocol):
        return s.n_test * (s.seen + s.unseen) * s.d + s.d * s.k * (s.seen + s.k)
    if shots_of(key.protocol) is not None or key.protocol.startswith("selection"):
        return s.d * (s.k + 500)  # five ways, whatever the number of classes
    return s.d * s.unseen * (s.unseen + s.k)


def _products(key: Key, sizes: Sizes) -> float:
    """Return the operations of products and decompositions of all features, if there are any."""
    model: Any = model_of(key)
    base = getattr(model, "base", "moments")
    if key.model in (*RANDOM_PEERS, *TORCH_PEERS) or base != "moments":
        return 0.0
    times = 3.0 if isinstance(model, AnyShotModel) else 1.0  # whitening, folds of its own
    return times * (2 * sizes.n_train * sizes.d**2 + _DECOMPOSITION * sizes.d**3)


def _count_points(key: Key, scale: Scale) -> int:
    """Return the most points that a search may score, at least 1."""
    if key.protocol == "sensitivity":
        return len(ParameterGrid(sensitivity_grid(quick=scale.quick)))
    model = model_of(key)
    grid = as_dicts(model.grid)
    if not grid:
        return 1
    n_more = scale.n_points_more if getattr(model, "walks", True) else 0
    return min(len(ParameterGrid(grid)), scale.n_points) + n_more


def _costs_of(key: Key) -> tuple[float, float | None]:
    """Return the seconds, and the peak of memory in MB, of the same run on emoji."""
    of_model = recorded_costs().get(key.protocol, {})
    if key.model in of_model:
        return of_model[key.model]
    others = [seconds for seconds, _ in of_model.values()]
    return (float(np.median(others)), None) if others else _DEFAULT


@cache
def recorded_costs() -> dict[str, dict[str, tuple[float, float | None]]]:
    """Return seconds and peak memory by protocol and model, from records on emoji."""
    return json.loads(Path(__file__).with_name("costs.json").read_text(encoding="utf-8"))
