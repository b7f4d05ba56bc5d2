"""MAML: initial weights from which a few gradient steps learn new classes (Finn et al.)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from zonkey.arrays import namespace
from zonkey.parameters import Count, Flag, Interval

from ..base import attribute, convert_dtype, load_torch, parameter
from ..networks import seed_networks
from ..training import Training
from .base import BaseSamples, Support
from .meta import EpisodeLearner, MetaPeer, arrays_from

LENGTH = 20.0  # of samples; steps of the published size would not move scores of unit vectors


class MAML(MetaPeer):
    """Model-agnostic meta-learning: weights that a few gradient steps adapt to new classes.

    The model is a network of one hidden layer beside an identity, and a softmax over classes:

        z(x) = x + W1' relu(W0' x + b0),     p(j | x) ~ exp(w_j' z(x) + b_j).

    From initial weights t = (W0, b0, W1, W, b), `n_steps` steps on the support set S adapt all of
    them,

        t <- t - inner_learning_rate * gradient of L(t, S),

    with the mean cross-entropy L, in which all classes have equal weight. Training minimizes the
    mean of L(t adapted to S, Q) over random episodes (S, Q) of base classes with respect to the
    initial t. Its gradient passes through the inner steps, which takes second derivatives of L.
    With `first_order`, it is the gradient of L(., Q) at the adapted weights, as if their distance
    from t were a constant. `decision_function` returns w_j' z(x) + b_j of the adapted weights.

    As in the publication, each output has initial weights w_j and b_j of its own. The classes of an
    episode get its outputs at random, those of a support set in sorted order.

    Differences from the publication:

    - The network sees fixed features instead of images. They are centered by the mean of the base
      samples and scaled to length 20, so that inner steps of the published size matter.
    - W1, W and b begin at zero, not at random. The first step then sets the w_j to multiples of
      class means. So an untrained model (`max_iter` = 0, or `n_iter_` = 0) is close to
      `SimpleShot`: the linear model that `n_steps` gradient steps from zero reach.
    - As many steps adapt the weights to a support set as in training. The publication takes 5, and
      10 for new classes.

    Parameters
    ----------
    n_hidden : int, default=32
        Number of hidden units; 32 filters in the publication.
    n_way : int or None, default=None
        Number of classes in an episode of base classes, or all of them if there are fewer, and of
        outputs. Support sets may have fewer classes, but not more. None: the number of classes of
        the support set.
    n_steps : int, default=5
        Number of inner steps. 5 as in the publication.
    inner_learning_rate : float, default=0.01
        Size of inner steps. 0.01 as in the publication.
    first_order : bool, default=False
        Whether second derivatives are left out, which takes less time and memory.
    n_query : int, default=15
        Largest number of queries per class in an episode. 15 as in the authors' code.
    training : Training, default=None
        4 episodes per step as in the authors' code. The publication has a learning rate of 1e-3,
        for a network that begins at random weights.

    Attributes
    ----------
    weights_ : dict of ndarray
        Initial weights: W0 (n_features x n_hidden), b0, W1 (n_hidden x n_features), W with w_j as
        columns (n_features x n_way) and b.
    head_ : dict of ndarray
        Weights after the steps on the support set, with the outputs of its classes.

    See Also
    --------
    MetaLearnerLSTM : Learns the steps, too.
    PrototypicalNetwork : Learns a space in which class means are compared.

    References
    ----------
    C. Finn, P. Abbeel, S. Levine. Model-agnostic meta-learning for fast adaptation of deep
    networks. ICML 2017.

    Examples
    --------
    >>> from zonkey_lab.peers import Training
    >>> from zonkey_lab.peers.fsl import MAML, BaseSamples
    >>> from zonkey.testing import shots_problem
    >>> problem = shots_problem()
    >>> base = BaseSamples(problem.X_base, problem.y_base)
    >>> model = MAML(base, n_hidden=4, n_episodes=8, training=Training(max_iter=2))
    >>> model = model.fit(problem.X_support, problem.y_support)
    >>> model.score(problem.X_query, problem.y_query)
    1.0
    """

    n_hidden: int = parameter(default=32, within=Count())
    n_steps: int = parameter(default=5, within=Count())
    inner_learning_rate: float = parameter(default=0.01, within=Interval(0, open_below=True))
    first_order: bool = parameter(default=False, within=Flag("Use False, as in the publication."))

    head_: dict[str, np.ndarray] = attribute()

    _own = Training(max_iter=50, n_iter_no_change=5, batch_size=4, learning_rate=1e-4)
    _has_outputs = True

    @classmethod
    def __zonkey_upgrade__(cls, parts: dict[str, Any]) -> dict[str, Any]:
        """Repeat the vector `w` of older files, where all outputs began, once per output."""
        parts = super().__zonkey_upgrade__(parts)
        state = dict(parts["state"])
        if "w" in state.get("weights_", {}):
            n_way = state["head_"]["W"].shape[1]
            weights = dict(state["weights_"])
            weights["W"] = np.stack([weights.pop("w")] * n_way, axis=1)
            no_bias = {"b": np.zeros(n_way, weights["W"].dtype)}
            state |= {"weights_": weights | no_bias, "head_": state["head_"] | no_bias}
        return {**parts, "state": state}

    def _learner(self, base: BaseSamples) -> EpisodeLearner:
        return _MAMLLearner(self, base)

    def _adapt(self, support: Support) -> dict[str, Any]:
        X, Y = self._inputs(support.X), one_hot(support)
        head = initial_head(convert_dtype(self.weights_, X.dtype), np.arange(support.n_classes))
        for _ in range(self.n_steps):
            head = take_step(head, gradient(head, X, Y), self.inner_learning_rate)
        return {"head_": head}

    def _inputs(self, X: np.ndarray) -> np.ndarray:
        return LENGTH * super()._inputs(X)

    def _scores(self, X: np.ndarray) -> np.ndarray:
        return scores(convert_dtype(self.head_, X.dtype), self._inputs(X))


class _MAMLLearner(EpisodeLearner):
    def __init__(self, peer: MAML, base: BaseSamples) -> None:
        super().__init__(*load_torch(peer), base, peer)
        self.maml, torch = peer, self.torch
        sizes, n_way = (base.n_features, peer.n_hidden), peer.episode_sizes.n_way
        with seed_networks(torch, base.seed):
            first = torch.nn.Linear(*sizes)
        begin = {
            "W0": first.weight.detach().T.contiguous(),
            "b0": first.bias.detach(),
            "W1": torch.zeros(sizes[::-1]),
            "W": torch.zeros(sizes[0], n_way),
            "b": torch.zeros(n_way),
        }
        self.networks = {"head": torch.nn.ParameterDict(begin).to(self.device)}
        self.optimizers = {"all": self.optimize_all()}

    def samples(self, base: BaseSamples) -> Any:
        return LENGTH * super().samples(base)

    def loss(self, support: Any, query: Any, rng: np.random.Generator) -> Any:
        found = self.adapt(support, query, self.draw_outputs(support, rng))
        return self.cross_entropy(found, self.targets(query))

    def logits(self, support: Any, query: Any) -> Any:
        return self.adapt(support, query, self.first_outputs(support))

    def adapt(self, support: Any, query: Any, outputs: Any) -> Any:
        """Return the scores of queries after the steps; classes begin at `outputs` (e x n_way)."""
        n_way = support.shape[1]
        Y = self.torch.nn.functional.one_hot(self.targets(support), n_way).to(support.dtype)
        X = support.flatten(1, 2)
        head = initial_head(dict(self.networks["head"].items()), outputs)
        for _ in range(self.maml.n_steps):
            at = head
            if self.maml.first_order:
                at = {name: w.detach() for name, w in head.items()}
            head = take_step(head, gradient(at, X, Y), self.maml.inner_learning_rate)
        return scores(head, query.flatten(1, 2))

    def export(self) -> dict[str, np.ndarray]:
        return arrays_from(dict(self.networks["head"].items()))


# The rest is written for NumPy and torch, and for one support set or a batch of them, whose arrays
# have one axis more. Derivatives of the gradient, which torch takes, are the second ones.


def initial_head(weights: Mapping[str, Any], outputs: Any) -> dict[str, Any]:
    """Return weights whose columns are those of these outputs, one per class (m, or e x m)."""
    transposed = namespace(weights["W"]).matrix_transpose
    W = transposed(transposed(weights["W"])[outputs])
    return {**weights, "W": W, "b": weights["b"][outputs]}


def scores(head: Mapping[str, Any], X: Any) -> Any:
    """Return the scores of samples (n x d) for the classes (n x m)."""
    A = X @ head["W0"] + head["b0"][..., None, :]
    return (X + (A * (A > 0)) @ head["W1"]) @ head["W"] + head["b"][..., None, :]


def gradient(head: Mapping[str, Any], X: Any, Y: Any) -> dict[str, Any]:
    """Return the gradient of the mean cross-entropy; rows of Y are one-hot (n x m)."""
    xp = namespace(X)
    transposed = xp.matrix_transpose
    A = X @ head["W0"] + head["b0"][..., None, :]  # n x h
    H = A * (A > 0)
    Z = X + H @ head["W1"]  # n x d
    D = softmax_errors(Z @ head["W"] + head["b"][..., None, :], Y)
    by_Z = D @ transposed(head["W"])
    by_A = (by_Z @ transposed(head["W1"])) * (A > 0)
    return {
        "W0": transposed(X) @ by_A,
        "b0": xp.sum(by_A, axis=-2),
        "W1": transposed(H) @ by_Z,
        "W": transposed(Z) @ D,
        "b": xp.sum(D, axis=-2),
    }


def take_step(head: Mapping[str, Any], along: Mapping[str, Any], rate: float) -> dict[str, Any]:
    """Return the weights after a step against the gradient."""
    return {name: w - rate * along[name] for name, w in head.items()}


def softmax_errors(found: Any, Y: Any) -> Any:
    """Return the gradient of the mean cross-entropy of classes by the scores: w_i (p_i - Y_i)."""
    xp = namespace(found)
    powers = xp.exp(found - xp.max(found, axis=-1, keepdims=True))
    return sample_weights(Y)[..., None] * (powers / xp.sum(powers, axis=-1, keepdims=True) - Y)


def sample_weights(Y: Any) -> Any:
    """Return weights (n) of sum 1, the same in all classes, of which each needs a row of Y."""
    xp = namespace(Y)
    return xp.sum(Y / xp.sum(Y, axis=-2, keepdims=True), axis=-1) / Y.shape[-1]


def one_hot(support: Support) -> np.ndarray:
    """Return the classes of the support samples as one-hot rows (n x m)."""
    return np.eye(support.n_classes, dtype=support.X.dtype)[support.codes]
