"""TIM, alpha-TIM: weights that maximize mutual information (Boudiaf et al., Veilleux et al.)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from zonkey.labels import format_value
from zonkey.parameters import Count, Interval, Options

from ..base import attribute, parameter, unit_rows
from .base import Support, center_rows, negative_distances
from .transductive import TransductivePeer, center_support, start_means

_METRICS = ("euclidean", "cosine")
_SOLVERS = {"gd": 1000, "adm": 150}  # and their numbers of steps in the authors' code
_TINY = 1e-12  # added to probabilities before their logarithm
_DECAYS, _EPSILON = (0.9, 0.999), 1e-8  # of Adam


class TIM(TransductivePeer):
    """Transductive information maximization; with `alpha`, alpha-TIM.

    Transductive: `adapt` also learns from unlabeled samples. Class weights w_j, starting from the
    means of the support set, give p_ij = softmax_j(-temperature / 2 ||z_i - w_j||^2) for features z
    of unit length, or softmax_j(temperature cos(z_i, w_j)). They minimize

        -support_weight mean_s log p_s,y(s) - H(mean_u p_u) + conditional_weight mean_u H(p_u)

    over support samples s and unlabeled samples u, where H(p) = -sum_j p_j log p_j: predictions
    should be certain, and classes of similar size. `alpha` replaces H by H(p) = (1 - sum_j p_j^
    alpha) / (alpha - 1), which punishes unequal sizes less, for unlabeled samples that are not
    balanced. `decision_function` returns the argument of the softmax.

    Differences from the publications: features come from a fixed backbone and are centered by the
    base mean. Differences of centered features are larger, so that the default of `temperature` is
    smaller.

    Parameters
    ----------
    alpha : float, default=None
        Order > 1 of the entropies. None: TIM, with Shannon's entropy. The publication has 2 for one
        shot and 7 for five or more.
    support_weight : float, default=None
        Positive weight of the support set. None: 0.1, or 1 with `alpha`, as in the authors' code.
    conditional_weight : float, default=None
        Weight >= 0 of the entropies of single samples. None: 0.1, or 1 with `alpha`, as there.
    metric : {"euclidean", "cosine"}, default="euclidean"
        Comparison of samples with weights; the publication has distances.
    temperature : float, default=5.0
        Positive factor of the distances or cosines. The publications have 15, without centering;
        with it, 5 was better on validation classes of mini-ImageNet.
    solver : {"gd", "adm"}, default="gd"
        Gradient descent (Adam), or the alternating direction method, which has closed-form steps
        and is several times faster, but not for `alpha` or cosines.
    n_steps : int, default=None
        Number of steps. None: 1000 of "gd" and 150 of "adm", as in the authors' code.
    learning_rate : float, default=1e-4
        Positive step size of "gd", that of the authors' code.

    Attributes
    ----------
    weights_ : ndarray of shape (n_classes, n_features)
        The weights w_j.

    See Also
    --------
    PTMAP : Requires equal sizes of the classes instead of preferring them.

    References
    ----------
    M. Boudiaf, I. M. Ziko, J. Rony, J. Dolz, P. Piantanida, I. Ben Ayed. Transductive information
    maximization for few-shot learning. NeurIPS 2020.

    O. Veilleux, M. Boudiaf, P. Piantanida, I. Ben Ayed. Realistic evaluation of transductive
    few-shot learning. NeurIPS 2021.

    Examples
    --------
    >>> from zonkey_lab.peers.fsl import TIM
    >>> model = TIM(solver="adm").fit([[9, 1], [4, 6]], ["cat", "owl"])
    >>> X_new = [[1, 9], [2, 9], [7, 4.5], [7, 5]]
    >>> model.predict(X_new)
    array(['owl', 'owl', 'owl', 'owl'], dtype='<U3')
    >>> model.adapt(X_new).predict(X_new)
    array(['owl', 'owl', 'cat', 'cat'], dtype='<U3')
    """

    alpha: float | None = parameter(default=None, within=Interval(1, open_below=True, also=(None,)))
    support_weight: float | None = parameter(
        default=None, within=Interval(0, open_below=True, also=(None,))
    )
    conditional_weight: float | None = parameter(default=None, within=Interval(0, also=(None,)))
    metric: str = parameter(default="euclidean", within=Options(*_METRICS))
    temperature: float = parameter(default=5.0, within=Interval(0, open_below=True))
    solver: str = parameter(default="gd", within=Options(*_SOLVERS))
    n_steps: int | None = parameter(default=None, within=Count(1, (None,)))
    learning_rate: float = parameter(default=1e-4, within=Interval(0, open_below=True))

    weights_: np.ndarray = attribute()

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.solver == "adm" and (self.alpha is not None or self.metric != "euclidean"):
            raise ValueError(
                'solver="adm" must have alpha=None and metric="euclidean", for which its steps are '
                f"known; got alpha={format_value(self.alpha)}, metric={format_value(self.metric)}. "
                'Use solver="gd".'
            )

    def _learn(self, support: Support) -> dict[str, Any]:
        usual = 0.1 if self.alpha is None else 1.0
        given = self.support_weight, self.conditional_weight
        support_weight, conditional_weight = (usual if w is None else float(w) for w in given)
        start = center_support(
            support,
            alpha=None if self.alpha is None else float(self.alpha),
            support_weight=support_weight,
            conditional_weight=conditional_weight,
            metric=self.metric,
            temperature=float(self.temperature),
            solver=self.solver,
            n_steps=_SOLVERS[self.solver] if self.n_steps is None else int(self.n_steps),
            learning_rate=float(self.learning_rate),
        )
        return {"_start": start, "weights_": start_means(start).astype(support.X.dtype)}

    def _adapt(self, X: np.ndarray) -> dict[str, Any]:
        start, dtype = self._start, self.weights_.dtype
        Z = center_rows(X.astype(dtype, copy=False), start["center"])
        names = ("alpha", "support_weight", "conditional_weight", "metric", "temperature")
        targets = np.eye(len(self.weights_), dtype=dtype)[start["codes"]]
        task = Information(
            np.concatenate([start["X"], Z]), targets, **{name: start[name] for name in names}
        )
        W = start_means(start).astype(dtype)
        if start["solver"] == "gd":
            W = descend(task.gradient, W, start["n_steps"], start["learning_rate"])
            return {"weights_": W}
        for _ in range(start["n_steps"]):
            W = task.alternate(W)
        return {"weights_": W}

    def _scores(self, X: np.ndarray) -> np.ndarray:
        Z = center_rows(X, self._start["center"])
        if self._start["metric"] == "cosine":
            W = unit_rows(self.weights_.astype(X.dtype, copy=False))
            return self._start["temperature"] * (Z @ W.T)
        return self._start["temperature"] / 2 * negative_distances(Z, self.weights_)


@dataclass(frozen=True, eq=False)
class Information:
    """The objective of a task, as a function of the weights W (m x d), and the parameters of `TIM`.

    Z are normalized samples, those of the support set first; `targets` (n_support x m) its one-hot
    labels.
    """

    Z: np.ndarray
    targets: np.ndarray
    alpha: float | None
    support_weight: float
    conditional_weight: float
    metric: str
    temperature: float

    def probabilities(self, W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return p of all samples, and a view of the rows of unlabeled ones."""
        if self.metric == "cosine":
            P = self.Z @ unit_rows(W).T
        else:
            P = self.Z @ W.T
            P -= np.einsum("ij,ij->i", W, W) / 2  # ||z||^2 is the same for all classes
        P *= self.temperature
        P -= P.max(axis=1, keepdims=True)
        np.exp(P, out=P)
        P /= P.sum(axis=1, keepdims=True)
        return P, P[len(self.targets) :]

    def value(self, W: np.ndarray) -> float:
        """Return the objective."""
        P, unlabeled = self.probabilities(W)
        right = np.sum(P[: len(self.targets)] * self.targets, axis=1)
        value = -self.support_weight * np.log(right + _TINY).mean()
        value -= self._entropies(unlabeled.mean(axis=0))
        return float(value + self.conditional_weight * self._entropies(unlabeled).mean())

    def gradient(self, W: np.ndarray) -> np.ndarray:
        """Return the derivative of the objective with respect to W."""
        P, unlabeled = self.probabilities(W)
        slopes = self.conditional_weight * self._slopes(unlabeled)
        slopes -= self._slopes(unlabeled.mean(axis=0))
        slopes -= np.einsum("ij,ij->i", unlabeled, slopes)[:, None]  # softmax
        unlabeled *= slopes
        unlabeled /= len(unlabeled)
        labeled = P[: len(self.targets)]
        labeled -= self.targets
        labeled *= self.support_weight / len(labeled)
        slopes = self.temperature * (P.T @ self.Z)  # P holds the derivatives for the logits
        if self.metric == "euclidean":
            return slopes - self.temperature * P.sum(axis=0)[:, None] * W
        lengths = np.linalg.norm(W, axis=1, keepdims=True) + _TINY
        directions = W / lengths
        along = np.einsum("ij,ij->i", slopes, directions)[:, None]
        return (slopes - along * directions) / lengths

    def alternate(self, W: np.ndarray) -> np.ndarray:
        """Return W after one step of the alternating direction method.

        Auxiliary assignments q of the unlabeled samples are found for fixed W, then W for fixed q.
        """
        P, unlabeled = self.probabilities(W)
        Q = unlabeled ** (1 + self.conditional_weight)
        Q /= np.sqrt(Q.sum(axis=0) + _TINY)
        Q /= Q.sum(axis=1, keepdims=True)
        n = len(self.targets)
        wanted = np.concatenate([self.targets, Q])
        weights = np.full((len(P), 1), n / len(Q), P.dtype)
        weights[:n] = self.support_weight / (1 + self.conditional_weight)
        P, wanted = weights * P, weights * wanted
        moved = (wanted - P).T @ self.Z + P.sum(axis=0)[:, None] * W
        return moved / wanted.sum(axis=0)[:, None]

    def _entropies(self, P: np.ndarray) -> Any:
        if self.alpha is None:
            return -np.sum(P * np.log(P + _TINY), axis=-1)
        return (1 - np.sum(P**self.alpha, axis=-1)) / (self.alpha - 1)

    def _slopes(self, P: np.ndarray) -> np.ndarray:
        """Return derivatives of the entropy, up to a number that is the same for all classes."""
        if self.alpha is None:
            return -np.log(P + _TINY)
        return self.alpha / (1 - self.alpha) * P ** (self.alpha - 1)


def descend(
    gradient: Callable[[np.ndarray], np.ndarray], W: np.ndarray, n_steps: int, rate: float
) -> np.ndarray:
    """Return W after some steps of Adam."""
    W, first, second = W.copy(), np.zeros_like(W), np.zeros_like(W)
    slow, slower = _DECAYS
    for step in range(1, n_steps + 1):
        G = gradient(W)
        first += (1 - slow) * (G - first)
        second += (1 - slower) * (G * G - second)
        lengths = np.sqrt(second / (1 - slower**step)) + _EPSILON
        W -= rate / (1 - slow**step) * first / lengths
    return W
