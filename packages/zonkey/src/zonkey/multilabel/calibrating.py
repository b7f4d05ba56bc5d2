"""Probabilities and thresholds of labels, from scores of samples that were left out.

The score s of a label becomes a probability by a scale g and an offset v of its own,

    p = sigmoid(g s + v),

of which those of labels with few samples stay near common ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

_STEPS, _MOST = 30, 2.0
_LEAST_SCALE = 0.05
# How far labels differ in scale, relative, and offset: as common as a standard deviation.
SCALE_SPREAD, OFFSET_SPREAD = 0.25, 0.5
# Probabilities that are tried as thresholds; typical positives that the common curve is worth.
GRID = np.concatenate([np.linspace(0.01, 0.1, 10), np.linspace(0.12, 0.9, 40), [0.95, 0.98]])
_WORTH = 10.0
NEVER = 0.999  # the threshold of labels that reach a wanted precision nowhere
_SURE = 0.9  # quantile of the probabilities of marked samples that are surely true


def sigmoid(scores: np.ndarray) -> np.ndarray:
    """Return 1 / (1 + exp(-scores)) without overflow."""
    small = np.exp(-np.abs(scores))
    return np.where(scores > 0, 1, small) / (1 + small)


def log_odds(p: Any) -> Any:
    """Return log(p / (1 - p))."""
    return np.log(p) - np.log1p(-p)


def fit_sigmoids(
    S: np.ndarray,
    Y: np.ndarray,
    weights: np.ndarray,
    start: tuple[np.ndarray, np.ndarray],
    precision: tuple[np.ndarray | float, np.ndarray | float],
    base: np.ndarray | float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Return scale g and offset v of each column of S, the most likely ones a posteriori.

    They minimize sum_i w_ij loss(g_j S_ij + base_j + v_j, y_ij), plus squared distances from
    `start` times half of `precision`. `weights` (n x m) are zero for unknown pairs.
    """
    g0, v0 = (np.array(part, np.float64) for part in start)
    g, v = g0.copy(), v0.copy()
    best, step = np.full(g.shape, np.inf), (np.zeros_like(g), np.zeros_like(v))
    share = np.ones_like(g)
    for _ in range(_STEPS):
        at_g, at_v = g - share * step[0], v - share * step[1]
        odds = at_g * S + (base + at_v)
        small = np.exp(-np.abs(odds))
        p = np.where(odds > 0, 1, small) / (1 + small)
        loss = np.maximum(odds, 0) + np.log1p(small) - Y * odds
        value = (weights * loss).sum(axis=0)
        value += (precision[0] * (at_g - g0) ** 2 + precision[1] * (at_v - v0) ** 2) / 2
        is_lower = value <= best
        share = np.where(is_lower, 1.0, share / 2)
        g, v = np.where(is_lower, at_g, g), np.where(is_lower, at_v, v)
        done = is_lower & (np.abs(best - value) <= 1e-10 * np.abs(value))
        best = np.minimum(best, value)
        if done.all():
            break
        slant, bend = weights * (p - Y), weights * (p * (1 - p))
        grad = (
            (slant * S).sum(axis=0) + precision[0] * (at_g - g0),
            slant.sum(axis=0) + precision[1] * (at_v - v0),
        )
        H = (
            (bend * S * S).sum(axis=0) + precision[0],
            (bend * S).sum(axis=0),
            bend.sum(axis=0) + precision[1],
        )
        new = _solve(H, grad)
        step = tuple(np.where(is_lower, a, b) for a, b in zip(new, step, strict=True))
    return np.maximum(g, _LEAST_SCALE * np.abs(g0)), v


def _solve(H: tuple[np.ndarray, ...], grad: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """Return the steps of Newton's method of many problems of two unknowns."""
    a, b, c = H
    a = a + 1e-12
    c = c + 1e-12
    area = np.maximum(a * c - b * b, 1e-12 * a * c)
    return (c * grad[0] - b * grad[1]) / area, (a * grad[1] - b * grad[0]) / area


def fit_common(
    S: np.ndarray,
    Y: np.ndarray,
    weights: np.ndarray,
    start: tuple[float, float],
    precision: tuple[float, float],
    base: np.ndarray | float = 0.0,
) -> tuple[float, float]:
    """Return one scale and offset for all columns."""
    shape = (-1, 1)
    flat = np.broadcast_to(base, S.shape).reshape(shape)
    s, y, w = (part.reshape(shape) for part in (S, Y, weights))
    starts = np.array([start[0]]), np.array([start[1]])
    found = fit_sigmoids(s, y, w, starts, precision, flat)
    return float(found[0][0]), float(found[1][0])


def relative_surprise(
    odds: np.ndarray, Y: np.ndarray, weights: np.ndarray, used: np.ndarray
) -> float:
    """Return the mean surprise of labels, each relative to that of its share of samples alone."""
    loss = np.maximum(odds, 0) + np.log1p(np.exp(-np.abs(odds))) - Y * odds
    found = (weights * loss).sum(axis=0)[used] * surprise_weights(Y, weights)[used]
    return float(found.mean()) if used.any() else float("inf")


def surprise_weights(Y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return one over the surprise of each column if its share of positives is all one knows."""
    total = np.maximum(weights.sum(axis=0), 1e-12)
    share = np.clip((weights * Y).sum(axis=0) / total, 1e-6, 1 - 1e-6)
    surprise = -(share * np.log(share) + (1 - share) * np.log1p(-share))
    return 1 / (total * surprise)


@dataclass(frozen=True, eq=False)
class Curve:
    """What typical labels give at each threshold of `GRID`, per positive sample.

    `found` is the share of positives above the threshold, `answered` how many samples are above it
    for each positive one.
    """

    found: np.ndarray
    answered: np.ndarray

    @classmethod
    def measure(cls, P: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> Curve:
        """Return the mean over labels, which weigh as the square root of their positives.

        With equal weights, rare labels lower the thresholds of all, which costs micro F1; with
        weights by positives, those of frequent labels are for all, which costs macro F1.
        """
        positives, hits, answers = _count(P, Y, weights)
        shares = 1 / np.sqrt(np.maximum(positives, 1e-12)) * (positives > 0)
        total = max(float(shares @ positives), 1e-12)
        return cls(hits @ shares / total, answers @ shares / total)


def choose_thresholds(
    P: np.ndarray,
    Y: np.ndarray,
    weights: np.ndarray,
    curve: Curve,
    chances: np.ndarray,
    precision: float | None,
) -> np.ndarray:
    """Return the threshold of each column: of the best F1, or of a wanted precision.

    The curve of typical labels joins the samples of a label, as ten positives. `chances` are those
    that a true label is marked: 1 if all are.
    """
    positives, hits, answers = _count(P, Y, weights)
    hits = (hits + _WORTH * curve.found[:, None]) / chances
    answers = answers + _WORTH * curve.answered[:, None]
    positives = (positives + _WORTH) / chances
    if precision is None:
        quality = 2 * hits / (answers + positives)
        return GRID[np.argmax(quality, axis=0)]
    return lowest_with(hits / np.maximum(answers, 1e-12), precision)


def lowest_with(precisions: np.ndarray, wanted: float) -> np.ndarray:
    """Return the lowest threshold that has the precision; 0.999 if none has.

    Higher ones need not have it: hardly any sample reaches these, or none where few true labels are
    marked, so that they tell little.
    """
    enough = precisions >= wanted
    return np.where(enough.any(axis=0), GRID[np.argmax(enough, axis=0)], NEVER)


def typical_threshold(curve: Curve, chance: float, precision: float | None) -> float:
    """Return the threshold of a label without samples."""
    found, answered = curve.found / chance, curve.answered
    if precision is None:
        return float(GRID[np.argmax(2 * found / (answered + 1 / chance))])
    return float(lowest_with((found / np.maximum(answered, 1e-12))[:, None], precision)[0])


def _count(
    P: np.ndarray, Y: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return positives per column, and hits and answers per threshold and column."""
    marked = weights * Y
    places = np.searchsorted(GRID, P, side="right")  # thresholds that are reached
    m = P.shape[1]
    flat = (places * m + np.arange(m)).ravel()
    size = (len(GRID) + 1) * m
    counted = [
        np.bincount(flat, part.ravel(), minlength=size).reshape(-1, m) for part in (marked, weights)
    ]
    above = [part[::-1].cumsum(axis=0)[::-1][1:] for part in counted]
    return marked.sum(axis=0), above[0], above[1]


def estimate_chances(P: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the chance of each label to be marked where it is true, and the typical one.

    Marked samples of which a model is most sure are almost surely true ones, so the probability to
    be marked is there the chance itself (Elkan and Noto's idea, whose mean over all marked samples
    is too low where labels overlap). Few samples move the chance little from the typical one.
    """
    found, counts = np.ones(P.shape[1]), (weights * Y).sum(axis=0)
    for j in np.flatnonzero(counts > 0):
        rows = (weights[:, j] * Y[:, j]) > 0
        found[j] = np.quantile(P[rows, j], _SURE)
    used = counts > 0
    if not used.any():
        return found, 1.0
    typical = float(np.average(found[used], weights=np.minimum(counts[used], 10 * _WORTH)))
    chances = (counts * found + _WORTH * typical) / (counts + _WORTH)
    return np.clip(chances, 0.05, 1.0), float(np.clip(typical, 0.05, 1.0))
