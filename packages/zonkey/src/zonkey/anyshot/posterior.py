"""Posterior center of a class: its prototype and any number of samples, labeled or not.

Kernel ridge regression predicts the mean of a class from its prototype. With class means M
(p x d), the kernel K between their prototypes, a ridge Lambda and G = (K + Lambda)^-1,

    f(y) = k(y)' G M,           f without the classes F, at F:  M_F - (G_FF)^-1 (G M)_F.

The second form needs no refit. It serves every fold of a cross-validation, and, with one class at
a time, the prior of classes that have samples: their own samples must not count twice.

A prior is worth n0 samples. With the sum S and number n of labeled samples, and responsibilities
r_i of unlabeled samples x_i that weigh w each, the center is

    c = (n0 f + S + w sum_i r_i x_i) / (n0 + n + w sum_i r_i).

So classes without samples, with a few and with thousands differ in n only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arrays import (
    Array,
    epsilon,
    identity_like,
    namespace,
    one_hot,
    place_like,
    softmax,
    take_rows,
    to_numpy,
)
from ..bpl.symmetric import symmetric_inverse
from ..threads import multiply

# The mean of n samples is itself uncertain: its ridge is larger by this number over n.
_NOISE_OF_MEANS = 8.0
_LARGEST_WORTH = 1e6  # of a prior without measurable error
_LEAST_WORTH = 1e-6
_NEAR = 0.1  # the origin: squared length of the mean, relative to that of class means
_MANY = 1500  # classes, from which on one inverse is taken instead of a decomposition
_SAFE_RIDGE = 1e-3  # below it, rounding may make the kernel indefinite
_TEMPERATURES = tuple(2.0**i for i in range(-6, 3))
_LEAST_BETWEEN = 0.02  # variance between classes, relative to that within
SHARE_SMOOTHING = 20.0  # samples added to each class before shares are taken
_MOST_STEPS, _EXACT = 200, 1e-6  # of estimated shares; how much they may still change


class KernelRidge:
    """Kernel ridge regression of class means; one eigendecomposition serves all ridges.

    K (p x p) is the kernel between prototypes, and `counts` are the samples behind each mean.
    """

    def __init__(self, K: Array, counts: np.ndarray) -> None:
        xp = namespace(K)
        p = K.shape[0]
        # Ridges are relative to the diagonal of the kernel.
        self._unit = float(xp.linalg.trace(K)) / p or 1.0
        root = 1 / np.sqrt(ridge_factors(counts))
        self._root = xp.astype(place_like(root, K), K.dtype)
        values, vectors = xp.linalg.eigh(K * self._root[:, None] * self._root[None, :])
        self._values = xp.where(values > 0, values, xp.zeros_like(values))
        self._vectors = vectors * self._root[:, None]

    def inverse(self, ridge: float) -> Array:
        """Return G = (K + Lambda)^-1; Lambda is `ridge` times the unit, more for few samples."""
        xp = namespace(self._values)
        tiny = float(xp.finfo(self._values.dtype).eps) * self._values.shape[0] * self._unit
        levels = self._values + max(float(ridge) * self._unit, tiny)
        return multiply(self._vectors / levels[None, :], self._vectors.T)


def ridge_inverse(K: Array, counts: np.ndarray, ridge: float) -> Array:
    """Return G for one ridge; for many classes this is faster than `KernelRidge`.

    K may be overwritten: of many classes, only one matrix fits into memory.
    """
    p = K.shape[0]
    if p < _MANY or ridge < _SAFE_RIDGE:
        return KernelRidge(K, counts).inverse(ridge)
    xp = namespace(K)
    unit = float(xp.linalg.trace(K)) / p or 1.0
    levels = xp.astype(place_like(ridge * unit * ridge_factors(counts), K), K.dtype)
    if isinstance(K, np.ndarray):
        own = K.diagonal().copy()
        np.fill_diagonal(K, own + levels)
        try:
            return symmetric_inverse(K)
        except np.linalg.LinAlgError:  # a given kernel may be indefinite beyond the ridge
            np.fill_diagonal(K, own)
            return KernelRidge(K, counts).inverse(ridge)
    G = xp.linalg.inv(K + levels[:, None] * identity_like(K))
    return (G + G.T) / 2


def ridge_factors(counts: np.ndarray) -> np.ndarray:
    """Return by how much the ridge of each class is larger: 1 + 8 / n."""
    return 1 + _NOISE_OF_MEANS / np.asarray(counts, np.float64)


def held_out_weights(G: Array, held: Array) -> Array:
    """Return the weights that predict held-out classes, at these positions, from the others.

    f of the held-out classes is this matrix (h x p) times M; their own columns are zero.
    """
    xp = namespace(G)
    of_held = xp.take(G, held, axis=0)
    weights = -xp.linalg.solve(xp.take(of_held, held, axis=1), of_held)
    return weights + one_hot(held, G.shape[0], like=G)


def inverse_without(G: Array, held: Array, weights: Array) -> Array:
    """Return (K + Lambda)^-1 of the other classes, given `held_out_weights`.

    Its rows and columns of held-out classes are zero.
    """
    of_held = namespace(G).take(G, held, axis=0)
    return G + of_held.T @ (weights - one_hot(held, G.shape[0], like=G))


def left_out_weights(G: Array) -> Array:
    """Return the weights that predict each class from all others: I - diag(G)^-1 G.

    Rows of classes that G leaves out are the identity.
    """
    return identity_like(G) - G / _own_entries(G)[:, None]


def left_out_means(G: Array, M: Array) -> Array:
    """Return `left_out_weights(G) @ M`, without another matrix of the size of G."""
    return M - (G @ M) / _own_entries(G)[:, None]


# What is predicted from some classes moves along with the mean of their samples. Centered samples
# have a mean of zero only if all classes count. The mean of the others, seen from there, lies on
# the other side of those that are left out. Among few classes, these would seem to be opposite to
# their own samples.


def middle_of_rest(M: Array, counts: np.ndarray, held: np.ndarray) -> Array:
    """Return the mean sample of the classes that are not held out, relative to that of all.

    Zero for samples that are not centered, whose origin does not depend on them.
    """
    n = np.asarray(counts, np.float64)
    rest = n.copy()
    rest[held] = 0.0
    gaps = _is_centered(M, n) * (rest / (rest.sum() or 1.0) - n / n.sum())
    return namespace(M).astype(place_like(gaps, M), M.dtype) @ M


def own_shares(M: Array, counts: np.ndarray, held: np.ndarray | None = None) -> np.ndarray:
    """Return the shares of class means M in their own prediction, each from the others.

    Without a class, the mean of the rest is at -n_i m_i / (N - n_i). So n_i / (N - n_i) times m_i
    is added to the prediction, times its reach: the sum of the weights of the others. Zero for
    samples that are not centered.
    """
    n = np.asarray(counts, np.float64)
    total = n.sum() - (0.0 if held is None else n[held].sum())
    return _is_centered(M, n) * n / np.where(total > n, total - n, np.inf)


def _is_centered(M: Array, n: np.ndarray) -> bool:
    """Return whether the mean of all samples, whose class means are M, is near the origin."""
    xp = namespace(M)
    shares = xp.astype(place_like(n / (n.sum() or 1.0), M), M.dtype)
    middle = shares @ M
    return float(middle @ middle) <= _NEAR * float(shares @ xp.sum(M * M, axis=1))


def _own_entries(G: Array) -> Array:
    """Return the diagonal of G, infinity for classes that G leaves out."""
    xp = namespace(G)
    own = xp.linalg.diagonal(G)
    # After `held_out_weights`, held-out classes have nothing but rounding errors.
    is_out = own <= epsilon(G) * G.shape[0] * xp.max(own)
    return xp.where(is_out, xp.full_like(own, xp.inf), own)


def placed_scale(M: Array, Q: Array, is_out: np.ndarray) -> float:
    """Return s, how far class means M lie along their prototypes Q among the samples: not below 0.

    Classes that are out do not take part.
    """
    xp, used = namespace(M), place_like(np.flatnonzero(~is_out), M)
    along = float(xp.sum(xp.take(xp.sum(M * Q, axis=1), used, axis=0)))
    length = float(xp.sum(xp.take(xp.sum(Q * Q, axis=1), used, axis=0)))
    return max(0.0, along / length) if length > 0 else 0.0


def slope(M: Array, F: Array) -> float:
    """Return the factor in [0, 1] under which predictions F are nearest to class means M."""
    xp = namespace(M)
    length = float(xp.sum(F * F))
    return float(np.clip(float(xp.sum(M * F)) / length, 0.0, 1.0)) if length > 0 else 0.0


def worth_of_prior(within: float, error: float) -> float:
    """Return n0, the number of samples that a prior is worth.

    `within` is the mean squared distance of samples from the mean of their class, and `error` that
    of the prior from it.
    """
    if error <= 0:
        return _LARGEST_WORTH
    # Above zero: without samples, the prior is all that a center has.
    return min(_LARGEST_WORTH, max(_LEAST_WORTH, within / error))


def posterior_centers(prior: Array, sums: Array, counts: Array, worth: Array | float) -> Array:
    """Return (n0 f + S) / (n0 + n) for each class.

    All arguments have one row per class; `worth` may be one number for all.
    """
    n0 = worth if isinstance(worth, float | int) else worth[:, None]
    return (n0 * prior + sums) / (n0 + counts[:, None])


def even_lengths(centers: Array, is_described: np.ndarray, is_used: np.ndarray) -> Array:
    """Return centers of which those without a prior are as long as the others on average.

    The mean of few samples is longer than the mean of its class, and a posterior center is not.
    Scores favor short centers.
    """
    xp = namespace(centers)
    squares = to_numpy(xp.sum(centers * centers, axis=1))
    named, others = is_described & is_used, ~is_described & is_used
    if not named.any() or not squares[others].sum() > 0:
        return centers
    factor = min(1.0, float(squares[named].mean() / squares[others].mean()) ** 0.5)
    factors = place_like(np.where(others, factor, 1.0), centers)
    return centers * xp.astype(factors, centers.dtype)[:, None]


def pull_uneven(centers: Array, counts: np.ndarray, is_plain: np.ndarray, within: float) -> Array:
    """Return centers of which means of few samples are pulled to the mean of all.

    The mean of n samples is farther from it than its class, by `within` / n in squares; distances
    then favor frequent classes. With the common mean as the prior of classes that have no other
    (`is_plain`), centers are posterior ones. The most frequent class stays.
    """
    used = counts > 0
    n = counts[is_plain & used]
    if len(n) < 2 or n.max() <= n.min() or not within > 0:
        return centers
    xp = namespace(centers)
    middle = xp.mean(take_rows(centers, np.flatnonzero(used)), axis=0)
    apart = to_numpy(xp.sum((centers - middle) ** 2, axis=1))[is_plain & used]
    # Weights by what is known of each class; the noise of its mean is subtracted.
    between = float(np.sum(n * apart - within) / n.sum())
    worth = within / max(between, _LEAST_BETWEEN * within)
    factors = np.ones(len(counts))
    factors[is_plain & used] = (n / (n + worth)) / (n.max() / (n.max() + worth))
    placed = xp.astype(place_like(factors, centers), centers.dtype)
    return middle + (centers - middle) * placed[:, None]


def left_out_worth(
    X: Array,
    codes: Array,
    weights: Array,
    prior: Array,
    sums: Array,
    counts: Array,
    worths: tuple[float, ...],
) -> float:
    """Return the n0 under which samples, each left out of its class in turn, are most likely.

    X are some of the samples behind `sums` and `counts`, and `codes` their classes, as rows of
    these and of `prior`. Each of `worths` is tried at several temperatures.
    """
    xp = namespace(X)
    nothing = xp.zeros_like(counts)
    own_counts = xp.take(counts, codes, axis=0) - weights
    own_sums = xp.take(sums, codes, axis=0) - weights[:, None] * X
    shares = weights / xp.sum(weights)
    is_own = one_hot(codes, counts.shape[0], like=X)
    best, found = -np.inf, worths[0]
    for n0 in worths:
        scores = class_scores(X, posterior_centers(prior, sums, counts, n0), nothing)
        own = posterior_centers(xp.take(prior, codes, axis=0), own_sums, own_counts, n0)
        left_out = 2 * xp.vecdot(X, own) - xp.vecdot(own, own)
        scores = scores + is_own * (left_out - xp.sum(scores * is_own, axis=1))[:, None]
        away = scores - left_out[:, None]  # of the true class
        scale = float(xp.mean(xp.abs(away))) or 1.0
        for temperature in _TEMPERATURES:
            away_t = away / (temperature * scale)
            top = xp.max(away_t, axis=1)
            odds = top + xp.log(xp.sum(xp.exp(away_t - top[:, None]), axis=1))
            likelihood = -float(xp.sum(shares * odds))
            if likelihood > best:
                best, found = likelihood, n0
    return found


@dataclass(frozen=True, eq=False)
class SoftShots:
    """Centers (k x d) after the last step, and smoothed proportions of the classes."""

    centers: Array
    shares: Array


def soft_shots(
    X: Array,
    centers: Array,
    worth: Array,
    *,
    offsets: Array,
    temperature: float,
    weight: float,
    smoothing: float,
    n_steps: int,
    shift: bool = False,
    fixed: Array | None = None,
) -> SoftShots:
    """Let unlabeled samples move the centers, by steps of expectation maximization.

    Responsibilities are softmax(scores / temperature + log proportions). Both centers and
    proportions are anchored: the former to where they start, the latter to equal shares.

    Parameters
    ----------
    X : array of shape (n, d)
        Unlabeled samples.
    centers : array of shape (k, d)
        Centers from prototypes and labeled samples.
    worth : array of shape (k,)
        Number of samples that each of these centers is worth, above 0.
    offsets : array of shape (k,)
        Subtracted from the scores.
    temperature : float
        Divisor of the scores.
    weight : float
        Weight w of an unlabeled sample.
    smoothing : float
        Samples added to the count of each class before proportions are taken.
    n_steps : int
        Number of steps.
    shift : bool, default=False
        Whether the centers that anchor others first move together, so that their mean under the
        responsibilities is that of the samples: the difference between these samples and the
        training samples is mostly the same in all classes.
    fixed : array of shape (k,), default=None
        Known proportions, which are not estimated.
    """
    xp = namespace(X)
    start, mean, n = centers, xp.mean(X, axis=0), X.shape[0]
    known = n / (n + xp.mean(worth))  # of the common vector, whose prior is zero
    shares = xp.full_like(worth, 1 / worth.shape[0]) if fixed is None else fixed
    for _ in range(n_steps):
        scores = class_scores(X, centers, offsets)
        scores /= temperature
        scores += xp.log(shares)[None, :]
        r = softmax(scores)
        found = xp.sum(r, axis=0)
        gained = weight * found
        anchor = start + (known * (mean - found @ start / n))[None, :] if shift else start
        centers = (worth[:, None] * anchor + weight * (r.T @ X)) / (worth + gained)[:, None]
        shares = smooth_shares(found, smoothing) if fixed is None else fixed
    return SoftShots(centers, shares)


def smooth_shares(found: Array, smoothing: float) -> Array:
    """Return the shares of classes with these numbers of samples, after some more of each."""
    more = found + smoothing
    return more / namespace(more).sum(more)


def likely_shares(logits: np.ndarray, groups: np.ndarray, smoothing: float) -> np.ndarray:
    """Return the most likely shares of classes among samples, by expectation maximization.

    `logits` are those of even shares, one row per sample. Classes of a group have the same share;
    `smoothing` samples per group are added, evenly to all classes.
    """
    smoothing *= (groups.max() + 1) / len(groups)
    P = np.exp(logits - logits.max(axis=1, keepdims=True))
    P /= P.sum(axis=1, keepdims=True)
    sizes = np.bincount(groups)
    shares = np.full(P.shape[1], 1 / P.shape[1])
    for _ in range(_MOST_STEPS):
        found = shares * (P.T @ (1 / (P @ shares)))
        evened = (np.bincount(groups, found) / sizes)[groups]
        before, shares = shares, np.asarray(smooth_shares(evened, smoothing))
        if np.abs(shares - before).sum() < _EXACT:
            break
    return shares


def class_scores(X: Array, centers: Array, offsets: Array) -> Array:
    """Return ||x||^2 - ||x - c||^2 - offset for every sample and class."""
    xp = namespace(X)
    scores = multiply(X, (2 * centers).T)
    scores -= (xp.sum(centers * centers, axis=1) + offsets)[None, :]
    return scores
