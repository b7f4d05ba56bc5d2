"""From records to the rows of a leaderboard: figures, intervals and paired differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from zlib import crc32

import numpy as np

from zonkey.metrics import mean_confidence_interval
from zonkey.metrics.intervals import sample_bootstrap

from ..paper.experiments import RECOMMENDED
from ..paper.records import Record, unpack
from .running import DONE, TaskOutcome
from .systems import ZERO, System

N_DRAWS, _CONFIDENCE = 2000, 0.95
UNSEEN, SEEN_OF_ALL, UNSEEN_OF_ALL, HARMONIC = "zsl", "acc_s", "acc_u", "hm"
SHOTS = "accuracy"


@dataclass(frozen=True)
class Figure:
    """A share with the ends of its 95 % interval, if there is one, and its spread over seeds."""

    value: float
    low: float | None = None
    high: float | None = None
    spread: float | None = None  # standard deviation over seeds, of several


@dataclass(frozen=True, eq=False)
class Standing:
    """A row of the leaderboard."""

    system: System
    figures: dict[str, Figure]
    costs: dict[str, float | None]  # seconds and MB by name
    choices: list[Record]  # one for each split
    runs: list[list[Record]]  # by split and seed
    draws: dict[str, np.ndarray] = field(default_factory=dict)
    gap: Figure | None = None  # to the reference; None for itself and where it cannot be paired

    @property
    def n_points(self) -> int | None:
        """Points that were scored to choose from; None if the system chooses by itself."""
        found = [len(choice["results"]["points"]) for choice in self.choices]
        is_own = not max(found) and bool(self.choices[0]["results"]["chosen"])
        return None if is_own else max(found)


def rank_outcomes(outcomes: Sequence[TaskOutcome], n_shot: int = 0) -> list[Standing]:
    """Return the systems that have run on all of their splits, best first.

    Figures are means over splits; the last ones are of systems that know seen classes only. `gap`
    is the difference to the recommended system, or to the best one if it has not run.
    """
    by_system: dict[System, list[TaskOutcome]] = {}
    for outcome in outcomes:
        by_system.setdefault(outcome.system, []).append(outcome)
    found = []
    for system, parts in by_system.items():
        if all(part.status == DONE and part.records.get(n_shot) for part in parts):
            parts = sorted(parts, key=lambda part: part.split)
            runs = [part.records[n_shot] for part in parts]
            found.append(_stand(system, [part.choices[n_shot] for part in parts], runs))
    measure = main_measure(n_shot)
    known = {one: one.figures[measure].value if measure in one.figures else -1.0 for one in found}
    found.sort(key=lambda one: (-known[one], one.system.name))
    reference = find_reference(found)
    return [_with_gap(one, reference, measure) for one in found]


def main_measure(n_shot: int) -> str:
    """Return the figure that systems are sorted by."""
    return SHOTS if n_shot else UNSEEN


def find_reference(found: Sequence[Standing]) -> Standing | None:
    """Return the recommended system, or the best one if it has not run."""
    own = (one for one in found if one.system.name == RECOMMENDED)
    return next(own, found[0] if found else None)


def _stand(system: System, choices: list[Record], runs: list[list[Record]]) -> Standing:
    draws = [_draw(split, i) for i, split in enumerate(runs)]
    names = dict.fromkeys(name for each in draws for name in each)
    joined = {name: np.mean([each[name] for each in draws], axis=0) for name in names}
    if system.task != ZERO:
        joined = {SHOTS: np.concatenate([_accuracies(split) for split in runs])}
    figures = {}
    for name in _NAMES:
        values = [[run["results"].get(name) for run in split] for split in runs]
        if any(value is None for split in values for value in split):
            continue
        figures[name] = _figure(np.array(values, dtype=float), joined.get(name))
    if system.task != ZERO:
        mean, half = mean_confidence_interval(joined[SHOTS])
        spread = _figure(np.array([_means(split) for split in runs]), None).spread
        figures[SHOTS] = Figure(mean, max(0.0, mean - half), min(1.0, mean + half), spread)
    return Standing(system, figures, _costs(choices, runs), choices, runs, joined)


_NAMES = (
    UNSEEN, "hit@5", SEEN_OF_ALL, UNSEEN_OF_ALL, HARMONIC, "ausuc", "among_seen", "ece", "brier",
    "ece_seen", "brier_seen",
)  # fmt: skip


def _figure(values: np.ndarray, draws: np.ndarray | None) -> Figure:
    """Return the mean over splits and seeds (columns), with an interval if there are draws."""
    mean = float(values.mean())
    spread = None
    if values.shape[1] > 1:
        spread = float(values.mean(axis=0).std(ddof=1))
    if draws is None:
        return Figure(mean, spread=spread)
    low, high = _ends(mean, draws)
    return Figure(mean, max(0.0, low), min(1.0, high), spread)


def _ends(value: float, draws: np.ndarray) -> tuple[float, float]:
    """Return percentiles of draws, moved so that the mean draw lies at the value."""
    tails = np.quantile(draws, [(1 - _CONFIDENCE) / 2, (1 + _CONFIDENCE) / 2])
    low, high = value + tails - draws.mean()
    return float(low), float(high)


def _draw(runs: list[Record], split: int) -> dict[str, np.ndarray]:
    """Return resampled figures of one split, the same resamples for all systems.

    Samples are resampled within their classes, which stay, and seeds are resampled too.
    """
    results = [run["results"] for run in runs]
    if "truth_unseen" not in results[0]:
        return {}
    # Seeds of two systems have nothing in common, unlike their samples.
    seeds = np.random.default_rng([split, crc32(runs[0]["model"].encode())])
    n = len(results)
    counts = seeds.multinomial(n, np.full(n, 1 / n), N_DRAWS) / n
    shares = 1 / n + np.sqrt(n / max(1, n - 1)) * (counts - 1 / n)

    def resample(truth: str, predicted: str, seed: int) -> np.ndarray:
        known = unpack(results[0][truth])
        right = np.stack([unpack(each[predicted]) == known for each in results]).astype(float)
        _, class_of = np.unique(known, return_inverse=True)
        sizes = np.bincount(class_of)
        worth = right / (len(sizes) * sizes[class_of])
        of_seeds = worth.sum(axis=1)
        found = [block @ worth.mean(axis=0) for block in sample_bootstrap(class_of, N_DRAWS, seed)]
        return np.concatenate(found) + shares @ of_seeds - of_seeds.mean()

    found = {}
    if "predicted_unseen" in results[0]:
        found[UNSEEN] = resample("truth_unseen", "predicted_unseen", 2 * split)
    if "all_seen" in results[0]:
        s = resample("truth_seen", "all_seen", 2 * split + 1)
        u = resample("truth_unseen", "all_unseen", 2 * split)
        s, u = np.clip(s, 0, 1), np.clip(u, 0, 1)
        total = s + u
        hm = 2 * s * u / np.where(total > 0, total, 1)
        found |= {SEEN_OF_ALL: s, UNSEEN_OF_ALL: u, HARMONIC: hm}
    return found


def _accuracies(runs: list[Record]) -> np.ndarray:
    """Return the accuracy of every draw of shots, the mean over seeds."""
    return np.mean([unpack(run["results"]["accuracies"]) for run in runs], axis=0)


def _means(runs: list[Record]) -> list[float]:
    """Return the mean accuracy of every seed."""
    return [float(np.mean(unpack(run["results"]["accuracies"]))) for run in runs]


def _costs(choices: list[Record], runs: list[list[Record]]) -> dict[str, float | None]:
    every = [run for split in runs for run in split]
    found: dict[str, float | None] = {
        "choosing": float(np.mean([choice["seconds"] for choice in choices])),
        "training": float(np.mean([run["results"]["training_seconds"] for run in every])),
    }
    for name, source in (("prediction", "prediction_seconds"), ("draw", "draw_seconds")):
        known = [run["results"][source] for run in every if source in run["results"]]
        found[name] = float(np.mean(known)) if known else None
    peaks = [record.get("peak_memory_mb") for record in (*choices, *every)]
    sizes = [peak for peak in peaks if peak is not None]
    found["memory"] = max(sizes) if sizes else None
    return found


def _with_gap(one: Standing, reference: Standing | None, measure: str) -> Standing:
    """Return a row with its difference to the reference, on the same resamples or draws."""
    if reference is None or one is reference or measure not in one.draws:
        return one
    if measure not in reference.draws:
        return one
    values = [each.figures[measure].value for each in (one, reference)]
    difference = values[0] - values[1]
    draws = one.draws[measure] - reference.draws[measure]
    if one.system.task == ZERO:
        gap = Figure(difference, *_ends(difference, draws))
    else:
        mean, half = mean_confidence_interval(draws)
        gap = Figure(mean, mean - half, mean + half)
    return replace(one, gap=gap)


def sort_of(gap: Figure | None) -> int:
    """Return 1 if a system is ahead of the reference, -1 if behind, 0 if the interval has 0."""
    if gap is None or gap.low is None or gap.high is None:
        return 0
    return 1 if gap.low > 0 else -1 if gap.high < 0 else 0
