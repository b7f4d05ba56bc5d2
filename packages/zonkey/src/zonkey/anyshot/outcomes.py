"""What samples of held-out classes and of the others say: a penalty, a score and a temperature.

Penalties are subtracted from the scores of classes with samples. A high one lets classes without
samples answer more often.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from ..arrays import Array, to_numpy

_DECIMALS = 6
_PENALTIES = 201  # evenly spaced quantiles of the margins
_SPREAD = 0.7  # doublings from the usual temperature: as common as a standard deviation
_WIDEST, _EXACT = 8.0, 1e-3  # doublings
_MOST_SCORED = 1000  # samples per fold whose likelihood chooses the temperature
LARGE_SHARE = 0.25  # of unseen classes, from which on they count as much as the seen ones


Scored = tuple[Array, np.ndarray, np.ndarray]  # scores, codes, weights


@dataclass(frozen=True, eq=False)
class Outcome:
    """Predictions of one fold among seen and unseen classes.

    `of_new` and `of_old` are what a sample adds to the accuracy of new or old classes when its best
    new or old class is predicted: zero where that is wrong or the sample is of the other kind.
    """

    # Penalties at which samples go to a new class: best old score less best new one.
    margins: np.ndarray
    of_new: np.ndarray
    of_old: np.ndarray

    def harmonic_mean(self, penalty: float) -> float:
        """Return the harmonic mean of both accuracies under a penalty."""
        is_new = self.margins <= penalty
        new, old = self.of_new[is_new].sum(), self.of_old[~is_new].sum()
        return float(2 * new * old / max(new + old, 1e-12))


def weight_of_unseen(share: float) -> float:
    """Return what unseen classes count in the harmonic mean, given their share of all classes.

    From a quarter on they count half. A smaller share makes samples of them rarer than wrong
    answers among the seen classes, which therefore count more.
    """
    return min(0.5, 0.5 * share / LARGE_SHARE)


def best_penalty(outcomes: list[Outcome], weight: float = 0.5) -> tuple[float, float]:
    """Return the highest harmonic mean over folds, and the penalty of old classes that gives it.

    `weight` is that of new classes.
    """
    pooled = np.concatenate([outcome.margins for outcome in outcomes])
    # Distinct values, so that copies of a sample do not shift the grid.
    distinct = np.unique(np.round(pooled.astype(np.float64), _DECIMALS))
    penalties = np.unique(np.quantile(distinct, np.linspace(0, 1, _PENALTIES)))
    total = np.zeros(len(penalties))
    for outcome in outcomes:
        order = np.argsort(outcome.margins)
        place = np.searchsorted(outcome.margins[order], penalties, side="right")
        new = np.concatenate([[0.0], np.cumsum(outcome.of_new[order])])[place]
        old = np.concatenate([[0.0], np.cumsum(outcome.of_old[order])])
        old = old[-1] - old[place]
        total += new * old / np.maximum((1 - weight) * new + weight * old, 1e-12)
    total /= len(outcomes)
    # A plateau of equal means has its middle as the most stable choice.
    best = np.flatnonzero(total >= total.max() - 1e-12)
    return float(total.max()), float(penalties[best[len(best) // 2]])


def guard_penalty(
    margins: np.ndarray, weights: np.ndarray, n: float, most: float, usual: float
) -> float:
    """Return the highest penalty under which new classes take at most a share of samples.

    Weights count as `n` samples. One more, with the usual margin, stands for those that few samples
    do not show.
    """
    weights = np.append(weights, weights.sum() / n if n else 1.0)
    margins = np.round(np.append(margins, usual).astype(np.float64), _DECIMALS)
    margins, places = np.unique(margins, return_inverse=True)
    taken = np.cumsum(np.bincount(places, weights)) / weights.sum()
    first = int(np.searchsorted(taken, most, side="right"))
    if first:
        return float((margins[first - 1] + margins[first]) / 2)
    return float(margins[0] - (margins[-1] - margins[0]) / (2 * (n + 1)))


def likely_temperature(
    folds: list[Scored], usual: float, n: float, spread: float = _SPREAD
) -> tuple[float, float]:
    """Return the most likely temperature, and the mean surprise of samples under it.

    The surprise is minus the logarithm of the probability of the own class. Few samples move the
    temperature little from the usual one: `n` distinct ones were scored, and `spread` doublings
    are as common as a standard deviation. Without any error, likelihood alone would be highest at
    zero.
    """
    if not folds or usual <= 0:
        return usual if usual > 0 else 1.0, float("inf")
    parts, total = [], 0.0
    for scores, codes, weights in folds:
        S = to_numpy(scores).astype(np.float64)
        away = S - S[np.arange(len(S)), codes][:, None]
        most = away.max(axis=1)
        parts.append((away - most[:, None], most, weights))
        total += float(weights.sum())

    def surprise(doublings: float) -> float:
        T, found = usual * 2.0**doublings, 0.0
        for away, most, weights in parts:
            found += float(weights @ (most / T + np.log(np.exp(away / T).sum(axis=1))))
        return found / total + (doublings / spread) ** 2 / 2 / n

    bounds, options = (-_WIDEST, _WIDEST), {"xatol": _EXACT}
    found = minimize_scalar(surprise, bounds=bounds, method="bounded", options=options)
    doublings = round(float(found.x), 2)
    return round_digits(usual * 2.0**doublings), surprise(doublings)


def mean_right(
    right: list[np.ndarray], held: list[np.ndarray], without: np.ndarray | None
) -> float:
    """Return the mean accuracy over folds, given what each held-out class adds to it."""
    if without is None:
        return float(np.mean([each.sum() for each in right]))
    found = []
    for each, classes in zip(right, held, strict=True):
        stays = ~np.isin(classes, without)
        if stays.any():
            found.append(each[stays].sum() * len(classes) / stays.sum())
    return float(np.mean(found)) if found else 0.0


def thin_samples(scores: Array, codes: np.ndarray, weights: np.ndarray) -> Scored:
    """Return evenly spaced samples on the host, few enough to find a temperature quickly."""
    some = slice(None, None, 1 + len(codes) // _MOST_SCORED)
    kept = weights[some]
    # Folds weigh as before.
    return to_numpy(scores[some, :]), codes[some], kept * (weights.sum() / (kept.sum() or 1.0))


def round_digits(value: float) -> float:
    """Return four digits: the others are rounding errors of float32, not information."""
    return float(f"{value:.4g}")
