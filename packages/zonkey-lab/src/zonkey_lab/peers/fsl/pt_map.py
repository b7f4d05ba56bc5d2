"""PT-MAP: a power transform, then class centers by optimal transport (Hu, Gripon, Pateux)."""

from __future__ import annotations

from typing import Any

import numpy as np

from zonkey.labels import format_value
from zonkey.parameters import Count, Interval, Options

from ..base import attribute, parameter, unit_rows
from .base import Support, negative_distances
from .transductive import TransductivePeer, start_means

_NORMALIZATIONS = ("centered", "unit", None)
_MOST_STEPS = 1000  # of one transport problem, as in the authors' code
_TOLERANCE = 1e-6  # on sums of the plan, as there


class PTMAP(TransductivePeer):
    """Power transform and maximum a posteriori: samples are transported to class centers.

    Transductive: `adapt` also learns from unlabeled samples. Features become z = x^power, scaled to
    unit length, less the mean of their set (support or unlabeled), and scaled to unit length again.
    With centers c_j, starting from the means of the support set, every step solves

        min sum_ij p_ij ||z_i - c_j||^2 + sum_ij p_ij log p_ij / sharpness

    over plans p >= 0 whose rows, one per unlabeled sample, sum to 1 and whose columns sum to the
    number of samples that each class is to have. Then c_j moves by `step_size` toward the mean of
    its support samples and of all z_i with weights p_ij. The solution has the form p_ij =
    softmax_j(b_j - sharpness ||z_i - c_j||^2): this argument is what `decision_function` returns,
    with b = 0 before `adapt`.

    The publication assumes that all classes have equally many unlabeled samples. Where they have
    not, accuracy suffers: pass their proportions or None as `priors`.

    Differences from the publication: b is found by Newton's method instead of Sinkhorn steps, of
    which hundreds can be needed. Negative features keep their sign, -|x|^power; the publication
    has none.

    Parameters
    ----------
    base : BaseSamples, default=None
        Samples of base classes. They are not used: the system centers by the samples of a task.
    power : float, default=0.5
        Positive exponent of the features, that of the authors' code.
    normalization : {"centered", "unit"} or None, default="centered"
        "centered" is that of the authors' code, "unit" omits means, None is the power alone.
    sharpness : float, default=10.0
        Positive weight of distances against entropy, that of the authors' code.
    step_size : float, default=0.2
        Share in [0, 1] of the way that centers move in a step, that of the authors' code.
    n_steps : int, default=20
        Number of steps, that of the authors' code.
    priors : "uniform", None or array-like of shape (n_classes,), default="uniform"
        Proportions of the classes among unlabeled samples, in sorted order of the labels. None:
        unknown; nothing is required of the columns, so that b = 0.

    Attributes
    ----------
    centers_ : ndarray of shape (n_classes, n_features)
        Class centers in the space of the transformed features.
    offsets_ : ndarray of shape (n_classes,)
        The numbers b_j.

    See Also
    --------
    TIM : Prefers equal proportions instead of requiring them.
    zonkey.AnyShotClassifier : Its method `adapt` estimates proportions.

    References
    ----------
    Y. Hu, V. Gripon, S. Pateux. Leveraging the feature distribution in transfer-based few-shot
    learning. ICANN 2021.

    Examples
    --------
    >>> from zonkey_lab.peers.fsl import PTMAP
    >>> model = PTMAP(normalization="unit").fit([[9, 1], [3, 4]], ["cat", "owl"])
    >>> X_new = [[1, 8], [1, 9], [4, 5], [5, 6]]
    >>> model.predict(X_new)
    array(['owl', 'owl', 'owl', 'owl'], dtype='<U3')
    >>> model.adapt(X_new).predict(X_new)
    array(['owl', 'owl', 'cat', 'cat'], dtype='<U3')
    """

    power: float = parameter(default=0.5, within=Interval(0, open_below=True))
    normalization: str | None = parameter(default="centered", within=Options(*_NORMALIZATIONS))
    sharpness: float = parameter(default=10.0, within=Interval(0, open_below=True))
    step_size: float = parameter(default=0.2, within=Interval(0, 1))
    n_steps: int = parameter(default=20, within=Count())
    priors: Any = "uniform"

    centers_: np.ndarray = attribute()
    offsets_: np.ndarray = attribute()
    _transform: dict[str, Any] = attribute()

    def _learn(self, support: Support) -> dict[str, Any]:
        dtype, m = support.X.dtype, support.n_classes
        transform = {"power": float(self.power), "normalization": self.normalization}
        Z, center = transform_power(support.X, **transform)
        start = {
            "X": Z,
            "codes": support.codes,
            "priors": _check_priors(self.priors, m),
            "sharpness": float(self.sharpness),
            "step_size": float(self.step_size),
            "n_steps": int(self.n_steps),
        }
        return {
            "_start": start,
            "_transform": {**transform, "center": center},
            "centers_": start_means(start).astype(dtype),
            "offsets_": np.zeros(m, dtype),
        }

    def _adapt(self, X: np.ndarray) -> dict[str, Any]:
        start, dtype = self._start, self.centers_.dtype
        transform = {name: self._transform[name] for name in ("power", "normalization")}
        Z, center = transform_power(X.astype(np.float64, copy=False), **transform)
        counts = None if start["priors"] is None else len(Z) * start["priors"]
        n_shots = np.bincount(start["codes"])[:, None]
        centers, offsets = start_means(start), np.zeros(len(n_shots))
        sums, doubled = centers * n_shots, 2 * start["sharpness"] * Z
        for _ in range(start["n_steps"]):
            plan, offsets = transport(_compare_centers(doubled, centers, start), counts, offsets)
            means = (plan.T @ Z + sums) / (plan.sum(axis=0)[:, None] + n_shots)
            centers += start["step_size"] * (means - centers)
        _, offsets = transport(_compare_centers(doubled, centers, start), counts, offsets)
        return {
            "_transform": {**transform, "center": center.astype(dtype)},
            "centers_": centers.astype(dtype),
            "offsets_": offsets.astype(dtype),
        }

    def _scores(self, X: np.ndarray) -> np.ndarray:
        Z, _ = transform_power(X, **self._transform)
        scores = self._start["sharpness"] * negative_distances(Z, self.centers_)
        return scores + self.offsets_.astype(X.dtype, copy=False)


def transform_power(
    X: np.ndarray, power: float, normalization: str | None, center: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return features after the power transform, and their center: that of X if None is given."""
    Z = np.sign(X) * np.abs(X) ** power
    if normalization is None:
        return Z, np.zeros_like(Z[0])
    Z = unit_rows(Z)
    if normalization == "unit":
        return Z, np.zeros_like(Z[0])
    mean = Z.mean(axis=0) if center is None else center.astype(Z.dtype, copy=False)
    return unit_rows(Z - mean), mean


def _compare_centers(doubled: np.ndarray, centers: np.ndarray, start: dict[str, Any]) -> np.ndarray:
    """Return minus sharpness times squared distances, but for a number per sample."""
    return doubled @ centers.T - start["sharpness"] * np.einsum("ij,ij->i", centers, centers)


def transport(
    scores: np.ndarray, counts: np.ndarray | None, offsets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the plan softmax_j(s_ij + b_j) whose columns sum to `counts`, and b.

    The search starts from `offsets`. b minimizes the convex function sum_i log sum_j
    exp(s_ij + b_j) - counts'b, whose gradient is the error of the column sums. Newton's step counts
    if it halves this error. Otherwise it is shortened: a step of range r, times log(1 + r) / r,
    decreases every function of this kind. Without `counts`, b = 0.
    """
    if counts is None:
        return _softmax(scores.copy()), np.zeros_like(offsets)
    plan = _softmax(scores + offsets)
    sums = plan.sum(axis=0)
    error = np.abs(sums - counts).sum()
    for _ in range(_MOST_STEPS):
        if error < _TOLERANCE:
            break
        # Adding a number to all offsets changes nothing: 1 / m makes the matrix regular.
        curvature = np.diag(sums + 1e-9 * len(plan)) - plan.T @ plan + 1 / len(sums)
        step = np.linalg.solve(curvature, counts - sums)
        plan = _softmax(scores + (offsets + step))
        found = plan.sum(axis=0)
        if not 2 * np.abs(found - counts).sum() < error:
            r = np.ptp(step)
            step *= np.log1p(r) / r
            plan = _softmax(scores + (offsets + step))
            found = plan.sum(axis=0)
        offsets, sums, error = offsets + step, found, np.abs(found - counts).sum()
    return plan, offsets - offsets.mean()


def _softmax(scores: np.ndarray) -> np.ndarray:
    """Return exp(scores), each row scaled to sum 1, in place: plans are small and many."""
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return scores


def _check_priors(priors: Any, n_classes: int) -> np.ndarray | None:
    """Return proportions with sum 1, or None."""
    if priors is None:
        return None
    if isinstance(priors, str) and priors == "uniform":
        return np.full(n_classes, 1 / n_classes)
    try:
        shares = np.asarray(priors, dtype=np.float64)
        is_valid = shares.shape == (n_classes,) and bool(np.all((shares > 0) & np.isfinite(shares)))
    except (TypeError, ValueError):
        shares, is_valid = np.empty(0), False
    if not is_valid:
        raise ValueError(
            f'`priors` must be "uniform", None or a positive number for each of the {n_classes} '
            f"classes; got {format_value(priors)}. Use None if proportions are unknown."
        )
    return shares / shares.sum()
