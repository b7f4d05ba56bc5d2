"""Semantic feature synthesis by perturbation (SFSP): unseen features from seen ones.

Eq. generate moves a sample of a semantically close seen class j' towards the projected
prototype of the unseen class j:

    x_i^(g) = x_i^(s) + rho W (y_j^(u) - y_j'^(s)) / ||W||_F^2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from array_api_compat import device

from ..linalg.arrays import Array, namespace, squared_norm
from ..linalg.distances import nearest
from .assignment import assigned


@dataclass(frozen=True, eq=False)
class Synthesized:
    """The set X_g, and where each of its samples comes from.

    Attributes
    ----------
    features : array of shape (N_g, d)
    targets : integer array of shape (N_g,)
        Row of Y_u, the unseen class that a sample was made for. The paper does not take
        it for the label: which class the sample belongs to is settled in competition.
    sources : integer array of shape (N_g,)
        Row of Y_s, the seen class that the raw sample belongs to.
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
    """Synthesise features for every unseen class (Eq. generate).

    Parameters
    ----------
    W : array of shape (d, k)
        Initial projection.
    Y_u, Y_s : arrays of shape (q, k) and (p, k)
        Prototypes of the unseen and of the seen classes, one a row.
    samples : sequence of p arrays of shape (n_j, d)
        Raw samples of each seen class, at least one each.
    rho : float
        Length of the perturbation.
    n_neighbors : int
        k_g, how many seen classes serve an unseen one; all of them if there are fewer.
    n_synthetic, per : int, {"class", "neighbor"}
        The paper asks for 15 samples "from each seen class in the neighbourhood"
        (``per="neighbor"``) and for N_g = 15 q in all (``per="class"``).
    scaling : {"squared-norm", None}
        Divide the perturbation by ||W||_F^2 as printed, or not at all.
    rng : numpy Generator
    """
    xp = namespace(W)
    neighbors = nearest(Y_u, Y_s, min(n_neighbors, Y_s.shape[0]))
    counts = samples_per_neighbor(n_synthetic, neighbors.shape[1], per)

    def positions(values: Sequence[int] | np.ndarray) -> Array:
        return xp.asarray(values, dtype=xp.int64, device=device(W))

    features, targets, sources = [], [], []
    for j in range(neighbors.shape[0]):
        for rank, count in enumerate(counts):
            source = int(neighbors[j, rank])
            pool = samples[source]
            drawn = draw(pool.shape[0], count, rng)
            features.append(xp.take(pool, positions(drawn), axis=0))
            targets += [j] * count
            sources += [source] * count
    of_target, of_source = positions(targets), positions(sources)
    direction = xp.take(Y_u, of_target, axis=0) - xp.take(Y_s, of_source, axis=0)
    offsets = perturbation(W, direction, rho=rho, scaling=scaling)
    X_g = xp.astype(xp.concat(features, axis=0), W.dtype) + offsets
    return Synthesized(X_g, of_target, of_source)


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
    """Synthesise features from a few labelled ones (Eq. generate1).

    What is kept of a real sample is its deviation from the mean of its class; the centre is the
    projected prototype, blurred by epsilon_i:

        x_i^(g) = (x_i^(u) - mean_j^(u)) + rho W (y_j^(u) + epsilon_i) / ||W||_F^2

    Parameters
    ----------
    W : array of shape (d, k)
    Y_u : array of shape (q, k)
    X_u, codes : arrays of shape (N_u, d) and (N_u,)
        Support samples, and the row of Y_u of each.
    epsilon : array of shape (m, N_u, k)
        Random vectors: m synthesised samples for each real one.
    """
    xp = namespace(W)
    members = assigned(codes, Y_u.shape[0], like=X_u)  # N_u x q
    counts = xp.sum(members, axis=0)
    sums = members.T @ X_u
    means = sums / xp.where(counts > 0, counts, xp.ones_like(counts))[:, None]
    deviations = X_u - xp.take(means, codes, axis=0)
    directions = xp.take(Y_u, codes, axis=0)[None, :, :] + epsilon
    m = epsilon.shape[0]
    flat = xp.reshape(directions, (m * X_u.shape[0], W.shape[1]))
    X_g = xp.tile(deviations, (m, 1)) + perturbation(W, flat, rho=rho, scaling=scaling)
    targets = xp.tile(codes, (m,))
    return Synthesized(X_g, targets, targets)


def perturbation(W: Array, direction: Array, *, rho: float, scaling: str | None) -> Array:
    """Return rho W v / ||W||_F^2 for each row v of `direction` (second term of Eq. generate)."""
    size = squared_norm(W) if scaling == "squared-norm" else 1.0
    if size == 0:  # W = 0 moves nothing, whatever it is divided by
        size = 1.0
    return (rho / size) * (direction @ W.T)


def samples_per_neighbor(n_synthetic: int, n_neighbors: int, per: str) -> list[int]:
    """Share out the samples of one unseen class; a remainder goes to the nearest ones."""
    if per == "neighbor":
        return [n_synthetic] * n_neighbors
    share, rest = divmod(n_synthetic, n_neighbors)
    return [share + (i < rest) for i in range(n_neighbors)]


def draw(n_available: int, n_wanted: int, rng: np.random.Generator) -> np.ndarray:
    """Draw positions without repetition while they last.

    Where a class has fewer samples than wanted, every one is used equally often, up to
    one: a small class still gives as many synthesised samples as a large one.
    """
    rounds = [rng.permutation(n_available) for _ in range(-(-n_wanted // n_available))]
    return np.concatenate([np.empty(0, np.intp), *rounds])[:n_wanted].astype(np.intp)
