"""Joint spaces: whether samples and prototypes share one, and the gap between the two kinds."""

from __future__ import annotations

import numpy as np

from ..arrays import Array, namespace, place_like, sums_by_code, to_numpy
from ..prototypes import Prototypes
from .survey import KeptSamples

_LEAST_CLASSES = 3  # with prototype and samples, to tell a joint space from a separate one
_SIGNIFICANT = 5.0  # standard errors


def find_shift(
    space: str, kept: KeptSamples, given: Prototypes | None, labels: np.ndarray
) -> np.ndarray | None:
    """Return what places prototypes among raw samples, None in separate spaces.

    Samples and prototypes of one space often lie apart, such as pictures and texts of CLIP. The
    shift between them is the mean of the samples less that of the prototypes of their classes.
    """
    d = kept.X.shape[1]
    if space == "joint":
        require_joint(given, d)
    if given is None or space == "separate" or given.n_dimensions != d:
        return None
    described = np.isin(labels, given.labels)
    means, counts = _class_means(kept, len(labels))
    used = described & (counts > 0)
    Y = given.matrix[given.positions(labels[used])].astype(np.float64)
    M, n = means[used], counts[used]
    lie_along = len(M) >= _LEAST_CLASSES and share_along(M, Y, n) >= 1
    if space == "auto" and not lie_along:
        return None
    return np.average(M, axis=0, weights=n) - np.average(Y, axis=0, weights=n)


def place_among(labels: np.ndarray, known: Prototypes, shift: np.ndarray) -> np.ndarray:
    """Return the prototypes of classes among raw samples, zero for classes without one."""
    placed = np.zeros((len(labels), known.n_dimensions))
    described = np.isin(labels, known.labels)
    placed[described] = known.matrix[known.positions(labels[described])] + shift
    return placed


def require_joint(given: Prototypes | None, n_features: int | None) -> None:
    """Refuse prototypes that cannot be in the space of the samples; None fits any."""
    if given is None:
        raise ValueError(
            'space="joint" needs prototypes, with which samples are compared; got none. Pass '
            'vectors of the names of classes, or space="separate".'
        )
    if n_features not in (None, given.n_dimensions):
        raise ValueError(
            f'space="joint" needs prototypes with the {n_features} features of the samples; got '
            f"{given.n_dimensions} dimensions. Encode both with one encoder, or pass "
            'space="separate".'
        )


def _class_means(kept: KeptSamples, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of the kept samples of each class, and the sums of their weights."""
    counts = np.bincount(kept.codes, kept.weights, minlength=n_classes)
    xp = namespace(kept.X)
    weights = xp.astype(place_like(kept.weights, kept.X), xp.float64)
    X = xp.astype(kept.X, xp.float64)
    sums = to_numpy(sums_by_code(X, place_like(kept.codes, X), n_classes, weights))
    return sums / np.maximum(counts, 1e-300)[:, None], counts


def share_along(M: np.ndarray, Y: np.ndarray, n: np.ndarray) -> float:
    """Return how surely class means M lie along their own prototypes Y, from 0 to 1.

    1: their cosines are higher than others by five standard errors.
    """
    if len(M) < _LEAST_CLASSES:
        return 0.5  # no others tell
    M, Y = (_normalize(A - np.average(A, axis=0, weights=n)) for A in (M, Y))
    cosines = M @ Y.T
    own = np.diagonal(cosines)
    others = cosines[~np.eye(len(M), dtype=bool)]
    error = np.std(others) / len(own) ** 0.5
    gain = max(0.0, float(own.mean() - others.mean()))
    return min(1.0, gain / (_SIGNIFICANT * error)) ** 2 if error > 0 else float(gain > 0)


def measure_names(
    means: Array, prior: Array, counts: np.ndarray, squared: float
) -> tuple[float, float]:
    """Return how surely class means lie along their names, and how long these are.

    The first is a share from 0 to 1; the length is that of priors relative to samples, whose mean
    square is `squared`.
    """
    M, P = (to_numpy(part).astype(np.float64) for part in (means, prior))
    squares = float(np.mean(np.sum(P**2, axis=1))) if len(P) else 0.0
    if not squares > 0:
        return 0.0, 0.0
    return share_along(M, P, counts), (squares / squared) ** 0.5


def _normalize(A: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(A, axis=1, keepdims=True)
    return A / np.where(lengths > 0, lengths, 1.0)
