"""Relation networks: a learned comparison of a sample with a class mean (Sung et al.)."""

from __future__ import annotations

from typing import Any

import numpy as np

from zonkey.parameters import Count

from ..base import attribute, class_means, load_torch, parameter
from ..networks import arrays_of, layers, seed_networks
from ..training import Training
from .base import BaseSamples, Support
from .meta import EpisodeLearner, MetaPeer

_SCALE = 10.0  # of distances at the beginning
_MARGIN = 1.2  # distance of unit vectors at which the first relation score is one half


class RelationNetwork(MetaPeer):
    """A small network compares a class mean and a sample, and scores whether they match.

    With the mean c_j of the shots of class j, the relation score of sample x is

        r_j(x) = sigmoid(w' relu(W [c_j, x] + a) + b),

    and training minimizes the mean of (r_j(x) - [y = j])^2 over the queries x and the classes j
    of random episodes of base classes. `decision_function` returns the score before the sigmoid,
    which orders classes in the same way and does not saturate.

    Differences from the publication:

    - The embedding is that of fixed features, centered by the mean of the base samples and of
      unit length; the comparison is a layer of hidden units instead of two convolutional blocks
      and a layer.
    - Several shots of a class are averaged instead of summed, so that the network sees vectors of
      the same length for any number of shots.
    - The weights begin where r_j(x) falls with ||x - c_j||: hidden units are the two signs of
      orthogonal random projections of x - c_j, whose absolute values are added. So an untrained
      model (`max_iter` = 0, or `n_iter_` = 0) is close to `SimpleShot`. From random
      weights, training yields a comparison that fails for novel classes, because the features of
      base classes are separated almost perfectly.
    - Adam keeps its step size, because training stops early on validation classes.

    Parameters
    ----------
    n_hidden : int, default=1024
        Number of hidden ReLU units, rounded up to an even number. The publication has two blocks
        of 64 channels and 8 units for images; more are needed to compare features from the
        beginning.
    n_way : int or None, default=None
        Number of classes in an episode of base classes, or all of them if there are fewer. None:
        the number of classes of the support set, as in the publication, but at most 60.
    n_query : int, default=15
        Largest number of queries per class in an episode. The publication has 15 for one shot and
        10 for five.
    training : Training, default=None
        The publication has one episode per step; the mean of four gradients is steadier. It has a
        learning rate of 1e-3, for networks that begin at random weights.

    Attributes
    ----------
    weights_ : dict of ndarray
        W0 (first the rows of the class mean, then those of the sample), b0, W1 and b1.
    centers_ : ndarray of shape (n_classes, n_features)
        Means of the support samples, centered and scaled.

    See Also
    --------
    PrototypicalNetwork : Compares by distances in a learned space.

    References
    ----------
    F. Sung, Y. Yang, L. Zhang, T. Xiang, P. H. S. Torr, T. M. Hospedales. Learning to compare:
    relation network for few-shot learning. CVPR 2018.

    Examples
    --------
    >>> from zonkey_lab.peers import Training
    >>> from zonkey_lab.peers.fsl import BaseSamples, RelationNetwork
    >>> from zonkey.testing import shots_problem
    >>> problem = shots_problem()
    >>> base = BaseSamples(problem.X_base, problem.y_base)
    >>> model = RelationNetwork(base, n_hidden=32, n_episodes=8, training=Training(max_iter=2))
    >>> model = model.fit(problem.X_support, problem.y_support)
    >>> model.score(problem.X_query, problem.y_query)
    1.0
    """

    n_hidden: int = parameter(default=1024, within=Count())

    centers_: np.ndarray = attribute()

    _own = Training(max_iter=50, n_iter_no_change=5, batch_size=4, learning_rate=1e-4)

    def _learner(self, base: BaseSamples) -> EpisodeLearner:
        return RelationLearner(*load_torch(self), base, self)

    def _adapt(self, support: Support) -> dict[str, Any]:
        centers = class_means(self._inputs(support.X), support.codes)
        return {"centers_": centers.astype(support.X.dtype)}

    def _scores(self, X: np.ndarray) -> np.ndarray:
        W0, b0, W1, b1 = (self.weights_[n].astype(X.dtype, copy=False) for n in _NAMES)
        d = X.shape[1]
        of_classes = self.centers_.astype(X.dtype, copy=False) @ W0[:d] + b0
        of_samples = self._inputs(X) @ W0[d:]
        scores = np.empty((len(X), len(of_classes)), X.dtype)
        hidden = np.empty_like(of_samples)
        for j, of_class in enumerate(of_classes):  # all pairs at once would not fit into memory
            np.maximum(np.add(of_samples, of_class, out=hidden), 0, out=hidden)
            scores[:, j] = hidden @ W1[:, 0] + b1[0]
        return scores


_NAMES = ("W0", "b0", "W1", "b1")


class RelationLearner(EpisodeLearner):
    """Trains a comparison of class means with samples by squared errors."""

    def __init__(self, torch: Any, device: str, base: BaseSamples, peer: Any) -> None:
        super().__init__(torch, device, base, peer)
        with seed_networks(torch, base.seed):
            self.networks = {"relation": self.make_comparison(peer).to(device)}
        self.optimizers = {"all": self.optimize_all()}

    def make_comparison(self, peer: Any) -> Any:
        """Return the network that scores pairs of a class mean and a sample."""
        d, n_pairs = self.n_inputs, -(-peer.n_hidden // 2)
        network = layers(self.torch, (2 * d, 2 * n_pairs, 1), ("relu", "linear"))
        _begin_at_distances(self.torch, network, d, n_pairs)
        return network

    def logits(self, support: Any, query: Any) -> Any:
        """Return the scores before the sigmoid."""
        first, relu, second, _ = self.networks["relation"]
        d = support.shape[3]
        # The first layer is linear: pairs need not be put side by side before it.
        of_classes = support.mean(dim=2) @ first.weight[:, :d].T + first.bias
        of_samples = query.flatten(1, 2) @ first.weight[:, d:].T
        return second(relu(of_samples[:, :, None] + of_classes[:, None]))[..., 0]

    def loss(self, support: Any, query: Any, rng: np.random.Generator) -> Any:  # noqa: ARG002
        """Return the mean squared error of relation scores."""
        scores = self.logits(support, query).sigmoid()
        belong = self.torch.nn.functional.one_hot(self.targets(query), scores.shape[2])
        return (scores - belong).square().mean()

    def export(self) -> dict[str, np.ndarray]:
        """Return both layers."""
        return arrays_of(self.networks["relation"])


def _begin_at_distances(torch: Any, network: Any, d: int, n_pairs: int) -> None:
    """Let the score be `_SCALE` times (`_MARGIN` - distance), up to chance.

    The mean of |p'z| over random directions p of unit length is ||z|| times a number near
    sqrt(2 / (pi d)).
    """
    first, _, second, _ = network
    blocks = [torch.linalg.qr(torch.randn(d, d))[0] for _ in range(-(-n_pairs // d))]
    P = torch.cat(blocks)[:n_pairs]
    slope = _SCALE * (np.pi * d / 2) ** 0.5 / n_pairs
    with torch.no_grad():
        # Both layers share the slope, so that a step changes both alike.
        first.weight.copy_(slope**0.5 * torch.cat([torch.cat([P, -P]), torch.cat([-P, P])], dim=1))
        first.bias.zero_()
        second.weight.fill_(-(slope**0.5))
        second.bias.fill_(_SCALE * _MARGIN)
