"""The base class of peers that learn a bilinear compatibility by ranking.

F(x, y) = x'W y is learned by stochastic gradient descent. In every batch all classes are compared
with the own class of each sample. A peer only says how the violations become weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import get_blas_funcs

from zonkey.inference.scorer import LinearScores
from zonkey.prototypes import Prototypes

from ..training import batches
from .base import PeerTask, TrainedPeer, ZeroShotLearner, refuse_method
from .closed_form import reduce_to_span

(_gemm,) = get_blas_funcs(("gemm",), dtype=np.float32)
_EVERY = 8  # steps between two terms of the mean of W: each step would take longer, to no avail


class BilinearPeer(TrainedPeer):
    """A peer that ranks the own class of a sample above the others by a margin.

    The loss of a sample x of class c is sum_j a_j v_j with the violations

        v_j = max(0, margin + F(x, y_j) - F(x, y_c))     for j != c,     v_c = 0,

    and weights a_j >= 0 that `_weights` makes of them and that count as constants. The gradient
    with respect to W is then x (sum_j a_j (y_j - y_c))'. Steps have a constant size;
    the fitted W is the mean of W over the training in which the n-th term has a weight in
    proportion to n (Lacoste-Julien, Schmidt and Bach, 2012). The last W alone depends on the last
    few batches, and so would the number of epochs.

    Parameters
    ----------
    random_state : int, RandomState or None, default=None
        Seed of the order of samples and of the choice of held-out classes.
    """

    _compares_distances = False
    project = refuse_method(
        "W y is not a point in the feature space; classes are compared by x'W y."
    )

    margin = 1.0

    def _weights(self, violations: np.ndarray) -> np.ndarray:
        """Return the weights a of violations (n x m, float32), zero where there is none.

        By default every violating class has equal weight.
        """
        return (violations > 0).astype(violations.dtype)

    def _learner(self, task: PeerTask) -> RankingLearner:
        return RankingLearner(task, self)

    def _linear_scores(self, known: Prototypes, dtype: Any) -> LinearScores:
        W, Y = self.projection_.astype(dtype, copy=False), known.matrix.astype(dtype)
        return LinearScores(Y / 2, np.zeros(len(Y), dtype), W)  # 2 z'(y / 2) = x'W y


class RankingLearner(ZeroShotLearner):
    """Matrices W_1, ..., W_K in training; F(x, y) is the maximum of x'W_i y, mostly with K = 1.

    Every gradient is in the span of the seen prototypes, and so is the start. With more dimensions
    than classes, W is therefore held in an orthonormal basis of that span, where steps are the
    same and cheaper. `W` (d x K r) has the matrices side by side, `R` (m x r) the prototypes.

    Steps are divided by the mean squared lengths of samples and prototypes, so that F takes the
    same course in any unit of theirs.
    """

    def __init__(self, task: PeerTask, peer: BilinearPeer) -> None:
        self.X, self.codes, self.peer = task.X, task.codes, peer
        self.schedule = peer.schedule
        R, self.basis = reduce_to_span(task.Y)
        self.R = R.astype(np.float32)
        squares = np.einsum("ij,ij->", task.X, task.X, dtype=np.float64) / len(task.X)
        self.size = float(squares * np.mean(np.sum(task.Y**2, axis=1))) or 1.0
        self.W = self._start(np.random.default_rng(task.seed))
        self.mean, self.n_terms = np.zeros_like(self.W), 0

    def _start(self, rng: np.random.Generator) -> np.ndarray:  # noqa: ARG002
        """Return W before training."""
        return np.zeros((self.X.shape[1], self.R.shape[1]), np.float32)

    def epoch(self, rng: np.random.Generator) -> float:
        """Make one pass over the samples; return the mean loss."""
        loss, parts = 0.0, list(batches(len(self.X), self.schedule.batch_size, rng))
        for number, rows in enumerate(parts, 1 - len(parts)):  # up to 0: the last W always counts
            loss += self._descend(self.X[rows], self.codes[rows])
            if number % _EVERY == 0:
                self.n_terms += 1
                self.mean += np.float32(2 / (self.n_terms + 1)) * (self.W - self.mean)
        return loss / len(self.X)

    def _descend(self, X: np.ndarray, codes: np.ndarray) -> float:
        """Make the step of one batch; return its total loss."""
        rows = np.arange(len(X))
        parts = _compatibilities(X, self.W, self.R)
        is_single = parts.shape[1] == 1
        F = parts[:, 0] if is_single else parts.max(axis=1)
        V = np.maximum(F - F[rows, codes][:, None] + np.float32(self.peer.margin), 0)
        V[rows, codes] = 0
        A = self.peer._weights(V)
        loss = float(np.vdot(A, V))
        A[rows, codes] = -A.sum(axis=1)
        # Only the matrix that gave F is changed.
        shares = A if is_single else (parts == F[:, None]) * A[:, None]
        Z = (shares.reshape(-1, len(self.R)) @ self.R).reshape(len(X), -1)
        step = self.schedule.learning_rate / (self.size * len(X))
        # W -= step X'Z in place: another array of the size of W would take as long again.
        self.W = _gemm(-step, Z.T, X.T, 1.0, self.W.T, trans_b=1, overwrite_c=1).T
        return loss

    def state(self) -> dict[str, Any]:
        """Return copies of W and of its mean."""
        return {"W": self.W.copy(), "mean": self.mean.copy(), "n_terms": self.n_terms}

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to a state."""
        self.W, self.mean = (np.array(state[name]) for name in ("W", "mean"))
        self.n_terms = int(state["n_terms"])

    def scores(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """Return F(x, y)."""
        Y = Y if self.basis is None else Y @ self.basis
        return _compatibilities(X, self.mean, Y.astype(np.float32)).max(axis=1)

    def export(self) -> dict[str, Any]:
        """Return W (d x k)."""
        return {"projection_": self.matrices()[0]}

    def matrices(self) -> np.ndarray:
        """Return the matrices in all dimensions of the prototypes (K x d x k)."""
        W = self.mean.reshape(len(self.mean), -1, self.R.shape[1]).transpose(1, 0, 2)
        return np.ascontiguousarray(W if self.basis is None else W @ self.basis.T)


def _compatibilities(X: np.ndarray, W: np.ndarray, R: np.ndarray) -> np.ndarray:
    """Return x'W_i y for all samples, matrices and classes (n x K x m)."""
    return ((X @ W).reshape(-1, R.shape[1]) @ R.T).reshape(len(X), -1, len(R))
