"""Meta-Learner LSTM: an LSTM that takes the place of gradient descent (Ravi and Larochelle)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from zonkey.arrays import namespace
from zonkey.parameters import Count

from ..base import attribute, convert_dtype, load_torch, parameter
from ..networks import seed_networks
from ..training import Training
from .base import BaseSamples, Support
from .maml import LENGTH, one_hot, sample_weights, softmax_errors
from .meta import EpisodeLearner, MetaPeer, arrays_from

_P = 10.0  # of the preprocessing: sizes from exp(-_P) are seen as logarithms
_FORGET, _INPUT = 5.0, -4.5  # first biases of the gates: keep the weights, take small steps


class MetaLearnerLSTM(MetaPeer):
    """An LSTM whose cell state holds the weights of a classifier, and whose input its gradients.

    The classifier is a softmax over classes, p(j | x) ~ exp(w_j' x). With the gradient g of its
    mean cross-entropy L on the support set, in which all classes have equal weight, each
    coordinate c of its weights is updated by

        c <- f c - i g,     f = s(a' [h, c, f] + a0),     i = s(b' [h, c, i] + b0),

    `n_steps` times. s is the logistic function, f and i on the right are those of the step before,
    and h is the output of an ordinary LSTM of `n_hidden` units that sees g and L. All coordinates
    share the weights of both layers, and each has a state of its own. A number v is seen as
    (log|v| / 10, sign v) if |v| >= exp(-10), and as (-1, exp(10) v) otherwise. Training minimizes
    the mean cross-entropy of the queries after the last step, over random episodes of base classes,
    with respect to both layers and the first weights. g and L count as constants.
    `decision_function` returns w_j' x.

    Differences from the publication:

    - The classifier is linear on fixed features instead of a convolutional network, because each
      of its weights has a state of `n_hidden` numbers. Features are centered by the mean of the
      base samples and scaled to length 20.
    - One learned vector, which begins at zero, is the beginning of all w_j. So the model suits any
      number of classes. An untrained model (`max_iter` = 0, or `n_iter_` = 0) has gates that keep
      the weights and take small steps: it is near to `n_steps` steps of gradient descent from zero,
      and so close to `SimpleShot`.
    - Each step sees the whole support set, also with five shots per class.
    - Gradients of the training are not clipped; they pass through few steps.

    Parameters
    ----------
    n_hidden : int, default=20
        Number of units of the first layer. 20 as in the authors' code.
    n_steps : int, default=5
        Number of updates. The publication has 12 for one shot and 5 for five shots.
    n_query : int, default=15
        Largest number of queries per class in an episode. 15 as in the publication.
    training : Training, default=None
        The publication has one episode per step; the mean of four gradients is steadier. The
        learning rate is that of the publication.

    Attributes
    ----------
    weights_ : dict of ndarray
        First layer W0 ((4 + n_hidden) x 4 n_hidden) and b0, of which the columns belong to input,
        forget and output gate and to the candidate; gates f (n_hidden + 3) and i of the second,
        with the bias last; and the first weights w of every class.
    coef_ : ndarray of shape (n_classes, n_features)
        Weights w_j of the classifier after the last update.

    See Also
    --------
    MAML : Learns where gradient descent begins, not its steps.

    References
    ----------
    S. Ravi, H. Larochelle. Optimization as a model for few-shot learning. ICLR 2017.

    Examples
    --------
    >>> from zonkey_lab.peers import Training
    >>> from zonkey_lab.peers.fsl import BaseSamples, MetaLearnerLSTM
    >>> from zonkey.testing import shots_problem
    >>> problem = shots_problem()
    >>> base = BaseSamples(problem.X_base, problem.y_base)
    >>> model = MetaLearnerLSTM(base, n_hidden=4, n_episodes=8, training=Training(max_iter=2))
    >>> model = model.fit(problem.X_support, problem.y_support)
    >>> model.score(problem.X_query, problem.y_query)
    1.0
    """

    n_hidden: int = parameter(default=20, within=Count())
    n_steps: int = parameter(default=5, within=Count())

    coef_: np.ndarray = attribute()

    _own = Training(max_iter=20, n_iter_no_change=5, batch_size=4, learning_rate=1e-3)

    def _learner(self, base: BaseSamples) -> EpisodeLearner:
        return _MetaLSTMLearner(self, base)

    def _adapt(self, support: Support) -> dict[str, Any]:
        X, Y = self._inputs(support.X), one_hot(support)
        W = classifier(convert_dtype(self.weights_, X.dtype), X[None], Y, self.n_steps)
        return {"coef_": np.ascontiguousarray(W[0].T)}

    def _inputs(self, X: np.ndarray) -> np.ndarray:
        return LENGTH * super()._inputs(X)

    def _scores(self, X: np.ndarray) -> np.ndarray:
        return self._inputs(X) @ self.coef_.T.astype(X.dtype, copy=False)


class _MetaLSTMLearner(EpisodeLearner):
    def __init__(self, peer: MetaLearnerLSTM, base: BaseSamples) -> None:
        super().__init__(*load_torch(peer), base, peer)
        torch, h = self.torch, int(peer.n_hidden)
        self.n_steps = int(peer.n_steps)
        with seed_networks(torch, base.seed):
            first = torch.nn.Linear(4 + h, 4 * h)
            gates = [0.01 * (2 * torch.rand(h + 3) - 1) for _ in range(2)]
        for gate, bias in zip(gates, (_FORGET, _INPUT), strict=True):
            gate[-1] = bias
        begin = {
            "W0": first.weight.detach().T.contiguous(),
            "b0": first.bias.detach(),
            "f": gates[0],
            "i": gates[1],
            "w": torch.zeros(base.n_features),
        }
        self.networks = {"lstm": torch.nn.ParameterDict(begin).to(self.device)}
        self.optimizers = {"all": self.optimize_all()}

    def samples(self, base: BaseSamples) -> Any:
        return LENGTH * super().samples(base)

    def logits(self, support: Any, query: Any) -> Any:
        Y = self.torch.nn.functional.one_hot(self.targets(support), support.shape[1])
        weights = dict(self.networks["lstm"].items())
        W = classifier(weights, support.flatten(1, 2), Y.to(support.dtype), self.n_steps)
        return query.flatten(1, 2) @ W

    def export(self) -> dict[str, np.ndarray]:
        return arrays_from(dict(self.networks["lstm"].items()))


# The rest is written for NumPy and torch. Axes of states: episode, feature, class, unit.


def classifier(weights: Mapping[str, Any], X: Any, Y: Any, n_steps: int) -> Any:
    """Return the weights (e x d x m) that the LSTM learns from support sets X (e x n x d).

    Y (n x m) are their classes, the same in all sets, as one-hot rows.
    """
    xp = namespace(X)
    shape = X.shape[0], X.shape[2], Y.shape[1]
    W = xp.zeros_like(X[:, 0, :])[:, :, None] + xp.stack([weights["w"]] * shape[2], axis=-1)
    forget = take = 0 * W
    hidden = cell = xp.stack([0 * W] * (weights["b0"].shape[0] // 4), axis=-1)
    for _ in range(n_steps):
        losses, gradients = constants(X, Y, W)
        seen = xp.concat([preprocess(gradients), preprocess(losses + 0 * gradients)], axis=-1)
        hidden, cell = lstm_layer(weights, seen, hidden, cell)
        before = forget, take
        forget, take = (
            logistic(hidden @ gate[:-3] + gate[-3] * W + gate[-2] * last + gate[-1])
            for gate, last in zip((weights["f"], weights["i"]), before, strict=True)
        )
        W = forget * W - take * gradients
    return W


def constants(X: Any, Y: Any, W: Any) -> tuple[Any, Any]:
    """Return the losses (e x 1 x 1) and gradients (e x d x m), which are not differentiated."""
    W = W.detach() if hasattr(W, "detach") else W
    xp = namespace(X)
    found = X @ W
    top = xp.max(found, axis=-1, keepdims=True)
    norms = top[..., 0] + xp.log(xp.sum(xp.exp(found - top), axis=-1))
    losses = xp.sum(sample_weights(Y) * (norms - xp.sum(found * Y, axis=-1)), axis=-1)
    return losses[:, None, None], xp.matrix_transpose(X) @ softmax_errors(found, Y)


def preprocess(values: Any) -> Any:
    """Return size and sign of numbers, on a new last axis of length 2."""
    xp = namespace(values)
    sizes = xp.abs(values)
    is_large = sizes >= math.exp(-_P)
    # The logarithm is taken of large ones only: zero has none.
    logs = xp.log(xp.where(is_large, sizes, xp.ones_like(sizes))) / _P
    first = xp.where(is_large, logs, -xp.ones_like(logs))
    second = xp.where(is_large, xp.sign(values), math.exp(_P) * values)
    return xp.stack([first, second], axis=-1)


def lstm_layer(weights: Mapping[str, Any], seen: Any, hidden: Any, cell: Any) -> tuple[Any, Any]:
    """Return the output and the state of an ordinary LSTM after one more input."""
    xp = namespace(seen)
    h = hidden.shape[-1]
    sums = xp.concat([seen, hidden], axis=-1) @ weights["W0"] + weights["b0"]
    take, forget, show = (logistic(sums[..., n * h : (n + 1) * h]) for n in range(3))
    cell = forget * cell + take * xp.tanh(sums[..., 3 * h :])
    return show * xp.tanh(cell), cell


def logistic(values: Any) -> Any:
    """Return 1 / (1 + exp(-values)), without overflow."""
    return 0.5 * (1 + namespace(values).tanh(0.5 * values))
