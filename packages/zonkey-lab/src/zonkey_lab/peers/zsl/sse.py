"""SSE: the semantic similarity embedding of Zhang and Saligrama."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from zonkey.arrays import Array
from zonkey.blocks import row_blocks
from zonkey.inference.scorer import LinearScores
from zonkey.parameters import Count, Interval
from zonkey.prototypes import Prototypes

from ..base import attribute, parameter
from ..convex import descent
from .base import PeerTask, SamplePeer, refuse_method

_TOL = 1e-3  # of the objective
_MIXED = 1e-12  # largest change of a mixture in the last step
_MOST_STEPS = 20_000


class SSE(SamplePeer):
    """Semantic similarity embedding: classes and samples as mixtures of the seen classes.

    The mixture of a class with prototype y is the point of the simplex (z >= 0, sum_s z_s = 1)

        z(y) = argmin_z  gamma / 2 ||z||^2 + 1/2 ||y - sum_s z_s y_s||^2

    over the prototypes y_s of the seen classes. The similarity of a sample x to seen class s is the
    intersection with a vector v_s,

        f_s(x) = sum_k w_k (min(x_k, v_sk) - v_sk / 2).

    The class with the largest f(x)'z(y) is predicted; `decision_function` returns these values. w
    and the v_s minimize

        mean_i sum_{j != c} max(0, D_cj - f(x_i)'(z_c - z_j))^2 + lam / 2 (||w||^2 + d ||V - M||^2),

    where c is the class of sample i, D_cj = 1 - z_c'z_j, d the number of features, and M has the
    means of the seen classes as rows. Features are first scaled to a mean squared length of 1.

    The other form of the reference, max(0, x_k - v_sk), is x_k - min(x_k, v_sk). Mixtures sum to
    one, so x_k is the same for all classes, and the form is the same model with -w.

    Differences from the reference: it has no v_sk / 2. With it, f_s(x) is half of minus the
    weighted L1 distance of x and v_s, up to a term of x; for histograms, which have equal sums, it
    changes little, and without it one class may be above another for every x. The hinge is squared.
    w and V are learned together by L-BFGS, instead of in turn by a linear support vector machine
    and a concave-convex procedure. V is pulled to the means of the classes, where it starts,
    instead of to zero. Margins of class means are omitted: those of the samples suffice. A few
    samples of each class take part, because a step compares each of them with all v_s.

    Parameters
    ----------
    gamma : float, default=1.0
        Penalty > 0 that spreads a mixture over more classes; the reference chooses it by
        cross-validation. The default, chosen on held-out training classes of CUB, suits prototypes
        of unit length.
    lam : float, default=0.001
        Ridge penalty > 0, relative to a mean over samples; chosen as gamma.
    n_samples : int, default=3
        Samples of each class that take part; all of them if there are fewer. None: all.
    max_iter : int, default=15
        Largest number of steps.

    Attributes
    ----------
    weights_ : ndarray of shape (n_features,)
        Weights w of the scaled features, divided by their scale.
    bounds_ : ndarray of shape (n_seen_classes, n_features)
        Vectors v_s in the scale of the samples.
    n_iter_ : int
        Number of steps.

    See Also
    --------
    ConSE : Probabilities of seen classes instead of learned similarities.
    SynC : Mixtures of classifiers.

    References
    ----------
    Z. Zhang, V. Saligrama. Zero-shot learning via semantic similarity embedding. ICCV 2015.

    Examples
    --------
    >>> from zonkey_lab.peers.zsl import SSE
    >>> prototypes = {"horse": [0, 1], "tiger": [1, 0], "snail": [-1, -1], "zebra": [0.6, 0.6]}
    >>> X = [[0, 1], [1, 0], [-1, -1]]
    >>> model = SSE(prototypes, gamma=0.01).fit(X, ["horse", "tiger", "snail"])
    >>> model.with_candidates(["snail", "zebra"]).predict([[0.6, 0.6], [-1, -1]])
    array(['zebra', 'snail'], dtype='<U5')
    """

    gamma: float = parameter(default=1.0, within=Interval(0, open_below=True))
    lam: float = parameter(default=0.001, within=Interval(0, open_below=True))
    n_samples: int | None = parameter(default=3, within=Count(1, (None,)))
    max_iter: int = parameter(default=15, within=Count())

    _compares_distances = False
    project = refuse_method("A mixture of seen classes is not a point in the feature space.")
    embed = refuse_method("Similarities to seen classes are not a point in the semantic space.")

    weights_: np.ndarray = attribute()
    bounds_: np.ndarray = attribute()
    _seen_matrix: np.ndarray = attribute()
    _spread: float = attribute()

    n_iter_: int = attribute()

    def _learn(self, task: PeerTask) -> dict[str, Any]:
        X, dtype = task.X.astype(np.float64), task.X.dtype
        length = float(np.sqrt(np.mean(np.sum(X * X, axis=1)))) or 1.0
        M = (task.means / length).astype(np.float32)
        rows = np.concatenate(
            [np.flatnonzero(task.codes == j)[: self.n_samples] for j in range(task.n_classes)]
        )
        Z = mixtures(task.Y, task.Y, float(self.gamma))
        samples = (X[rows] / length).astype(np.float32)
        margin = MixtureMargin(samples, task.codes[rows], Z.astype(np.float32), M, float(self.lam))
        found, n_iter = descent(margin, margin.start(), tol=_TOL, max_iter=int(self.max_iter))
        w, V = margin.parts(found)
        return {
            "n_iter_": n_iter,
            "weights_": (w / length).astype(dtype),
            "bounds_": (V * length).astype(dtype),
            "_seen_matrix": task.Y,
            "_spread": float(self.gamma),
        }

    def _map_samples(self, X: Array) -> Array:
        """Return the similarities f(x)."""
        X = np.asarray(X)
        w, V = (part.astype(X.dtype, copy=False) for part in (self.weights_, self.bounds_))
        blocks = row_blocks(0, len(X), V.size, X)
        shared = [np.minimum(X[block, None, :], V) @ w for block in blocks]
        return np.concatenate(shared) - V @ w / 2

    def _linear_scores(self, known: Prototypes, dtype: Any) -> LinearScores:
        Z = mixtures(known.matrix.astype(np.float64), self._seen_matrix, self._spread)
        return LinearScores(Z.astype(dtype) / 2, np.zeros(len(Z), dtype))

    def _get_learned(self) -> np.ndarray:
        return self.bounds_


@dataclass(frozen=True, eq=False)
class MixtureMargin:
    """The objective of w and V, as a function of one vector: w, then sqrt(d) (V - M).

    X (n x d) are samples, `codes` their classes, Z (m x m) the mixtures of the seen classes, and
    M (m x d) their means, all in float32.
    """

    X: np.ndarray
    codes: np.ndarray
    Z: np.ndarray
    M: np.ndarray
    lam: float

    def start(self) -> np.ndarray:
        """Return w = 1 and V = M."""
        d = self.X.shape[1]
        return np.concatenate([np.ones(d), np.zeros(self.M.size)])

    def parts(self, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return w and V."""
        d = self.X.shape[1]
        moved = flat[d:].reshape(self.M.shape) / np.sqrt(d)
        return flat[:d].astype(np.float32), self.M + moved.astype(np.float32)

    def __call__(self, flat: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the value and the gradient."""
        (n, d), (w, V) = self.X.shape, self.parts(flat)
        margins = 1 - self.Z @ self.Z.T
        loss, of_w, of_V = 0.0, np.zeros_like(w), np.zeros_like(V)
        part, pulls = np.empty_like(V), np.zeros(len(V), np.float32)
        half = V @ w / 2
        for block in row_blocks(0, n, V.size, self.X):
            X, own = self.X[block], self.codes[block]
            rows = np.arange(len(X))
            shared = np.minimum(X[:, None, :], V)
            S = (shared @ w - half) @ self.Z.T
            missing = np.maximum(margins[own] + S - S[rows, own][:, None], 0)
            missing[rows, own] = 0
            loss += float(np.sum(missing * missing, dtype=np.float64))
            missing[rows, own] = -missing.sum(axis=1)
            pull = (2 * missing) @ self.Z  # the gradient with respect to f(x)
            pulls += pull.sum(axis=0)
            of_w += pull.ravel() @ shared.reshape(-1, d)
            for x, weights in zip(X, pull, strict=True):
                np.multiply(x > V, weights[:, None], out=part)
                of_V += part
        of_w -= pulls @ V / 2
        of_V -= pulls[:, None] / 2
        slope = np.concatenate([of_w, (of_V * w).ravel() / np.sqrt(d)]) / n + self.lam * flat
        return loss / n + self.lam / 2 * float(flat @ flat), slope


def mixtures(Y: np.ndarray, B: np.ndarray, gamma: float) -> np.ndarray:
    """Return z(y) for the rows of Y, mixtures of the rows of B, by accelerated projected gradients.

    Rows do not affect each other.
    """
    center = B.mean(axis=0)  # mixtures sum to one, so it drops out
    Y, B = Y - center, B - center
    Q, C = B @ B.T + gamma * np.eye(len(B)), Y @ B.T
    step = 1 / float(np.linalg.eigvalsh(Q)[-1])
    Z = np.full(C.shape, 1 / len(B))
    ahead, t = Z, np.ones((len(Y), 1))
    for _ in range(_MOST_STEPS):
        following = _project_to_simplex(ahead - step * (ahead @ Q - C))
        move = following - Z
        # Momentum that points uphill is dropped, per row.
        t = np.where(np.sum((ahead - following) * move, axis=1, keepdims=True) > 0, 1.0, t)
        longer = (1 + np.sqrt(1 + 4 * t * t)) / 2
        ahead, Z, t = following + (t - 1) / longer * move, following, longer
        if np.abs(move).max(initial=0) <= _MIXED:
            break
    return Z


def _project_to_simplex(P: np.ndarray) -> np.ndarray:
    """Return the nearest points of the simplex to the rows of P."""
    sorted_ = -np.sort(-P, axis=1)
    over = (np.cumsum(sorted_, axis=1) - 1) / np.arange(1, P.shape[1] + 1)
    last = (sorted_ > over).sum(axis=1) - 1
    return np.maximum(P - np.take_along_axis(over, last[:, None], axis=1), 0)
