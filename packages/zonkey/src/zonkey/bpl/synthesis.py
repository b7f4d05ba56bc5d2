"""Semantic feature synthesis by perturbation (SFSP): unseen features from seen ones.

Eq. 1 (generate) moves a sample of a semantically close seen class j' toward the projected
prototype of the unseen class j:

    x_i^(g) = x_i^(s) + rho W (y_j^(u) - y_j'^(s)) / ||W||_F^2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..arrays import Array, find_nearest, namespace, one_hot, place_like, squared_norm, to_numpy
from ..blocks import row_blocks


@dataclass(frozen=True, eq=False)
class Synthesized:
    """The set X_g (N_g x d), and the origin of each sample.

    `targets` (N_g) are rows of Y_u, the unseen classes that samples were made for. They are not the
    labels: in the paper, classes compete for the samples. `sources` (N_g) are rows of Y_s, the seen
    classes that the raw samples belong to.
    """

    features: Array
    targets: Array
    sources: Array


def synthesize(
    W: Array,
    Y_u: Array,
    Y_s: Array,
    samples: Sequence[Array],
    *,
    rho: float,
    n_neighbors: int,
    n_synthetic: int,
    per: str = "class",
    scaling: str | None = "squared-norm",
    rng: np.random.Generator,
) -> Synthesized:
    """Synthesize features for every unseen class, Eq. 1 (generate).

    W (d x k) is the initial projection; Y_u (q x k) and Y_s (p x k) are the prototypes of the
    unseen and of the seen classes. `samples` are p arrays (n_j x d), raw samples of each seen
    class, at least one each. `n_neighbors` is k_g, the number of seen classes used per unseen
    class, at most all of them.

    The paper asks for 15 samples "from each seen class in the neighborhood" (``per="neighbor"``)
    and for N_g = 15 q in all (``per="class"``). ``scaling="squared-norm"`` divides the perturbation
    by ||W||_F^2 as printed.
    """
    raw = raw_material(
        to_numpy(Y_u),
        to_numpy(Y_s),
        samples,
        n_neighbors=n_neighbors,
        n_synthetic=n_synthetic,
        per=per,
        rng=rng,
    )
    xp = namespace(W)
    raw = replace(raw, features=xp.astype(raw.features, W.dtype))
    return perturb(raw, W, Y_u, Y_s, rho=rho, scaling=scaling)


def raw_material(
    Y_u: np.ndarray,
    Y_s: np.ndarray,
    samples: Sequence[Array],
    *,
    n_neighbors: int,
    n_synthetic: int,
    per: str,
    rng: np.random.Generator,
) -> Synthesized:
    """Draw the seen samples x_i^(s) of Eq. 1 (generate).

    They depend neither on W nor on `rho`, so one draw serves a whole grid of parameters.
    """
    xp = namespace(samples[0])
    neighbors = to_numpy(find_nearest(Y_u, Y_s, min(n_neighbors, len(Y_s))))  # q x k_g
    counts = samples_per_neighbor(n_synthetic, neighbors.shape[1], per)
    sizes = [own.shape[0] for own in samples]
    firsts = np.cumsum([0, *sizes])
    drawn = [
        firsts[source] + draw(sizes[source], count, rng)
        for own in neighbors.tolist()
        for source, count in zip(own, counts, strict=True)
    ]
    # One take for all: on a device, thousands of small ones would take longer than all other work.
    pool = xp.concat(list(samples), axis=0)
    of_target = np.repeat(np.arange(len(neighbors)), sum(counts))
    of_source = np.repeat(neighbors.reshape(-1), np.tile(counts, len(neighbors)))
    rows, targets, sources = (
        place_like(M.astype(np.int64), pool) for M in (np.concatenate(drawn), of_target, of_source)
    )
    return Synthesized(xp.take(pool, rows, axis=0), targets, sources)


def perturb(
    raw: Synthesized, W: Array, Y_u: Array, Y_s: Array, *, rho: float, scaling: str | None
) -> Synthesized:
    """Move raw samples toward their target classes, Eq. 1 (generate)."""
    xp = namespace(W)
    moved = [raw.features[:0, :]]
    for rows in row_blocks(0, raw.features.shape[0], W.shape[1], W):
        of_target = xp.take(Y_u, raw.targets[rows], axis=0)
        direction = of_target - xp.take(Y_s, raw.sources[rows], axis=0)
        offsets = perturbation(W, direction, rho=rho, scaling=scaling)
        moved.append(raw.features[rows, :] + offsets)
    return replace(raw, features=xp.concat(moved, axis=0))


def synthesize_from_support(
    W: Array,
    Y_u: Array,
    X_u: Array,
    codes: Array,
    epsilon: Array,
    *,
    rho: float,
    scaling: str | None = "squared-norm",
) -> Synthesized:
    """Synthesize features from a few labeled ones, Eq. 19 (generate1).

    A real sample contributes its deviation from the mean of its class; the center is the projected
    prototype with the noise epsilon_i:

        x_i^(g) = (x_i^(u) - mean_j^(u)) + rho W (y_j^(u) + epsilon_i) / ||W||_F^2

    X_u (..., N_u, d) are support samples, and `codes` (..., N_u) the row of Y_u (..., q, k) of
    each. Leading axes are separate tasks. `epsilon` (..., m, N_u, k) has m synthesized samples per
    real one. Further axes, after those of the tasks, are episodes.
    """
    xp = namespace(W)
    members = one_hot(codes, Y_u.shape[-2], like=X_u)  # N_u x q
    counts = xp.sum(members, axis=-2)
    sums = xp.matrix_transpose(members) @ X_u
    means = sums / xp.where(counts > 0, counts, xp.ones_like(counts))[..., None]
    deviations = X_u - members @ means
    *front, m, n_u, k = epsilon.shape
    episodes = (1,) * (epsilon.ndim - Y_u.ndim)
    tasks = tuple(X_u.shape[:-2])
    of_classes = xp.reshape(members @ Y_u, (*tasks, *episodes, n_u, k))
    flat = xp.reshape(of_classes + epsilon, (*front, m * n_u, k))
    apart = xp.reshape(deviations, (*tasks, *episodes, n_u, X_u.shape[-1]))
    apart = xp.broadcast_to(apart, (*front, m, n_u, X_u.shape[-1]))
    X_g = xp.reshape(apart, (*front, m * n_u, X_u.shape[-1]))
    X_g = X_g + perturbation(W, flat, rho=rho, scaling=scaling)
    targets = xp.reshape(codes, (*tasks, *episodes[1:], n_u))
    targets = xp.concat([targets] * m, axis=-1) if m else targets[..., :0]
    return Synthesized(X_g, targets, targets)


def perturbation(W: Array, direction: Array, *, rho: float, scaling: str | None) -> Array:
    """Return rho W v / ||W||_F^2 for each row v of `direction`, part of Eq. 1 (generate)."""
    size = squared_norm(W) if scaling == "squared-norm" else 1.0
    if size == 0:  # W = 0 moves nothing
        size = 1.0
    return (rho / size) * (direction @ namespace(W).matrix_transpose(W))


def samples_per_neighbor(n_synthetic: int, n_neighbors: int, per: str) -> list[int]:
    """Distribute the samples of one unseen class; the nearest neighbors get the remainder."""
    if per == "neighbor":
        return [n_synthetic] * n_neighbors
    share, rest = divmod(n_synthetic, n_neighbors)
    return [share + (i < rest) for i in range(n_neighbors)]


def draw(n_available: int, n_wanted: int, rng: np.random.Generator) -> np.ndarray:
    """Draw positions without replacement, as long as there are enough.

    If a class has fewer samples than wanted, each is used equally often, up to one: small classes
    give as many synthesized samples as large ones.
    """
    rounds = [rng.permutation(n_available) for _ in range(-(-n_wanted // n_available))]
    return np.concatenate([np.empty(0, np.intp), *rounds])[:n_wanted].astype(np.intp)
