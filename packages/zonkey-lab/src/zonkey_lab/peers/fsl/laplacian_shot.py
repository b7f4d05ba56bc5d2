"""LaplacianShot: neighbors among unlabeled samples should share a class (Ziko et al.)."""

from __future__ import annotations

from typing import Any

import numpy as np

from zonkey.arrays import softmax, squared_distances
from zonkey.parameters import Count, Interval

from ..base import attribute, parameter
from .base import Support, center_rows, negative_distances
from .bd_cspn import rectify
from .transductive import TransductivePeer, center_support, start_means

_TOLERANCE = 1e-6  # relative change of the bound that ends the updates, as in the authors' code
_SAME = 1e-10  # squared distance of unit vectors below which they are one sample


class LaplacianShot(TransductivePeer):
    """Nearest class centers, smoothed over the nearest neighbors of unlabeled samples.

    Transductive: `adapt` also learns from unlabeled samples u. Their assignments y_u, in the
    simplex of the classes, decrease

        sum_u y_u'(a_u + log y_u) - smoothness / 2 sum_uv w_uv y_u'y_v

    by updates y_u = softmax(-a_u + smoothness sum_v w_uv y_v) of a concave-convex bound, all u at
    the same time. a_uj is the squared distance of u from the center of class j, and w_uv = 1 if v
    is one of the nearest neighbors of u, otherwise 0. The centers are those of `BDCSPN`, with
    temperature 1. `decision_function` returns the argument of the softmax: a sample is predicted by
    one more update, from its neighbors among the unlabeled samples other than itself. For the
    unlabeled samples this is the last update of the publication.

    Differences from the publication: features come from a fixed backbone and are centered by the
    base mean. w is not symmetric, as in the authors' code.

    Parameters
    ----------
    n_neighbors : int, default=2
        Number of neighbors >= 0 of a sample; the authors' code has 3, including the sample itself.
    smoothness : float, default=0.7
        Weight >= 0 of the neighbors, for which the authors' scripts try 0.1 to 1; 0.7 is what
        Veilleux et al. (see `TIM`) use for mini-ImageNet, balanced queries and one shot.
    n_steps : int, default=20
        Largest number of updates, as in the authors' code.

    Attributes
    ----------
    centers_ : ndarray of shape (n_classes, n_features)
        Class means of normalized samples; after `adapt`, rectified ones.

    See Also
    --------
    BDCSPN : The centers, without neighbors.

    References
    ----------
    I. M. Ziko, J. Dolz, E. Granger, I. Ben Ayed. Laplacian regularized few-shot learning. ICML
    2020.

    Examples
    --------
    >>> from zonkey_lab.peers.fsl import LaplacianShot
    >>> model = LaplacianShot(smoothness=1.5).fit([[9, 1], [1, 9]], ["cat", "owl"])
    >>> model.predict([[5, 5.2]])
    array(['owl'], dtype='<U3')
    >>> model.adapt([[5, 5.1], [5.5, 5], [6, 4], [1, 8], [0, 9]]).predict([[5, 5.2]])
    array(['cat'], dtype='<U3')
    """

    n_neighbors: int = parameter(default=2, within=Count(0))
    smoothness: float = parameter(default=0.7, within=Interval(0))
    n_steps: int = parameter(default=20, within=Count())

    centers_: np.ndarray = attribute()
    _others: dict[str, np.ndarray] = attribute()  # unlabeled samples and their assignments

    def _learn(self, support: Support) -> dict[str, Any]:
        start = center_support(
            support,
            n_neighbors=int(self.n_neighbors),
            smoothness=float(self.smoothness),
            n_steps=int(self.n_steps),
        )
        centers = start_means(start).astype(support.X.dtype)
        nobody = {"X": start["X"][:0], "assignments": np.empty((0, len(centers)), centers.dtype)}
        return {"_start": start, "centers_": centers, "_others": nobody}

    def _adapt(self, X: np.ndarray) -> dict[str, Any]:
        start, dtype = self._start, self.centers_.dtype
        X = center_rows(X.astype(np.float64, copy=False), start["center"])
        centers = rectify(start, X, 1.0)
        distances = np.asarray(squared_distances(X, X))
        np.fill_diagonal(distances, np.inf)
        neighbors = _find_nearest(distances, start["n_neighbors"])
        scores = negative_distances(X, centers)
        assignments = smooth(scores, neighbors, start["smoothness"], start["n_steps"])
        others = {"X": X.astype(dtype), "assignments": assignments.astype(dtype)}
        return {"centers_": centers.astype(dtype), "_others": others}

    def _scores(self, X: np.ndarray) -> np.ndarray:
        Z = center_rows(X, self._start["center"])
        scores = negative_distances(Z, self.centers_)
        others = self._others["X"].astype(X.dtype, copy=False)
        if not len(others):
            return scores
        distances = np.asarray(squared_distances(Z, others))
        best = distances.argmin(axis=1)
        gaps = Z - others[best]  # exact, unlike the distances
        rows = np.flatnonzero(np.einsum("ij,ij->i", gaps, gaps) < _SAME)
        distances[rows, best[rows]] = np.inf
        neighbors = _find_nearest(distances, self._start["n_neighbors"])
        assignments = self._others["assignments"].astype(X.dtype, copy=False)
        return scores + self._start["smoothness"] * assignments[neighbors].sum(axis=1)


def smooth(
    scores: np.ndarray, neighbors: np.ndarray, smoothness: float, n_steps: int
) -> np.ndarray:
    """Return the assignments (n x m) before the last update, which prediction makes.

    `scores` (n x m) are minus the squared distances, `neighbors` (n x k) positions of samples.
    """
    before = assignments = np.asarray(softmax(scores))
    pulls, bound = smoothness * assignments[neighbors].sum(axis=1), np.inf
    for step in range(n_steps):
        before, assignments = assignments, np.asarray(softmax(scores + pulls))
        pulls = smoothness * assignments[neighbors].sum(axis=1)
        last = bound
        logarithms = np.log(np.maximum(assignments, 1e-20))
        bound = float(np.sum(assignments * (logarithms - scores - pulls)))
        if step > 1 and abs(bound - last) <= _TOLERANCE * abs(last):
            break
    return before


def _find_nearest(distances: np.ndarray, k: int) -> np.ndarray:
    """Return the positions of the k nearest columns per row, fewer if there are not as many."""
    k = min(k, distances.shape[1] - 1)  # a sample is not a neighbor of itself
    return np.argsort(distances, axis=1, kind="stable")[:, :k]
