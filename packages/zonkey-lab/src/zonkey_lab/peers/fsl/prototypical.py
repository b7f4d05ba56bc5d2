"""Prototypical networks: class means in a space that is learned on episodes (Snell et al.)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..base import attribute, class_means, load_torch
from ..networks import to_array
from ..training import Training
from .base import BaseSamples, Support, negative_distances
from .meta import EpisodeLearner, MetaPeer

_SCALE = 10.0  # of squared distances at the beginning


class PrototypicalNetwork(MetaPeer):
    """Nearest class mean after a linear map of the features, learned from base classes.

    A sample x belongs to class j with probability

        p(j | x) ~ exp(-||W x - c_j||^2),     c_j = mean of W x_i over the shots of class j,

    and training minimizes the mean of -log p(y | x) over the queries of random episodes of base
    classes. `decision_function` returns -||W x - c_j||^2.

    Differences from the publication:

    - A linear map of fixed features takes the place of a convolutional network. Features are
      centered by the mean of the base samples and have unit length.
    - W begins at a multiple of the identity, so that an untrained model (`max_iter` = 0, or
      `n_iter_` = 0) predicts as `SimpleShot`: nearest mean of centered features of unit length. The
      multiple takes the role of a temperature: squared distances of unit vectors, which are at
      most 4, would hardly change p.
    - Adam keeps its step size, because training stops early on validation classes. The publication
      halves it every 2,000 episodes.

    Parameters
    ----------
    n_way : int or None, default=None
        Number of classes in an episode of base classes, or all of them if there are fewer. None:
        the number of classes of the support set, at most 60. The publication gains by more, such
        as 20.
    n_query : int, default=15
        Largest number of queries per class in an episode. 15 as in the publication.
    n_episodes : int, default=100
        Number of episodes in an epoch. 100 as in the authors' code.
    training : Training, default=None
        The publication has one episode per step; the mean of four gradients is steadier. It has a
        learning rate of 1e-3, for networks that begin at random weights.

    Attributes
    ----------
    weights_ : dict of ndarray
        The map: W (n_features x n_features), applied to rows from the right.
    centers_ : ndarray of shape (n_classes, n_features)
        Means of the mapped support samples.

    See Also
    --------
    SimpleShot : The same without training.
    MatchingNetwork : Compares with every support sample, by cosines.
    RelationNetwork : Learns to compare.

    References
    ----------
    J. Snell, K. Swersky, R. Zemel. Prototypical networks for few-shot learning. NeurIPS 2017.

    Examples
    --------
    >>> from zonkey_lab.peers import Training
    >>> from zonkey_lab.peers.fsl import BaseSamples, PrototypicalNetwork
    >>> from zonkey.testing import shots_problem
    >>> problem = shots_problem()
    >>> base = BaseSamples(problem.X_base, problem.y_base)
    >>> model = PrototypicalNetwork(base, n_episodes=8, training=Training(max_iter=2))
    >>> model = model.fit(problem.X_support, problem.y_support)
    >>> model.score(problem.X_query, problem.y_query)
    1.0
    """

    centers_: np.ndarray = attribute()

    _own = Training(max_iter=50, n_iter_no_change=5, batch_size=4, learning_rate=1e-4)

    def _learner(self, base: BaseSamples) -> EpisodeLearner:
        return PrototypicalLearner(*load_torch(self), base, self)

    def _adapt(self, support: Support) -> dict[str, Any]:
        centers = class_means(self._embed(support.X), support.codes)
        return {"centers_": centers.astype(support.X.dtype)}

    def _embed(self, X: np.ndarray) -> np.ndarray:
        return self._inputs(X) @ self.weights_["W"].astype(X.dtype, copy=False)

    def _scores(self, X: np.ndarray) -> np.ndarray:
        return negative_distances(self._embed(X), self.centers_)


class PrototypicalLearner(EpisodeLearner):
    """Trains a map in which the nearest mean of shots wins."""

    def __init__(self, torch: Any, device: str, base: BaseSamples, peer: MetaPeer) -> None:
        super().__init__(torch, device, base, peer)
        self.networks = {"embedding": identity_layer(torch, self.n_inputs, _SCALE**0.5, device)}
        self.optimizers = {"all": self.optimize_all()}

    def logits(self, support: Any, query: Any) -> Any:
        """Return minus squared distances, up to a number for each query."""
        embed = self.networks["embedding"]
        centers = embed(support.mean(dim=2))  # e x n_way x d; the map is linear
        queries = embed(query.flatten(1, 2))  # e x n_way n_query x d
        # ||query||^2 is the same for all classes.
        return 2 * queries @ centers.mT - centers.square().sum(dim=2)[:, None]

    def export(self) -> dict[str, np.ndarray]:
        """Return the map."""
        return {"W": matrix_of(self.networks["embedding"])}


def identity_layer(torch: Any, d: int, scale: float, device: str) -> Any:
    """Return a linear layer without bias that multiplies by `scale`."""
    layer = torch.nn.utils.skip_init(torch.nn.Linear, d, d, bias=False)  # draws no random numbers
    with torch.no_grad():
        layer.weight.copy_(scale * torch.eye(d))
    return layer.to(device)


def matrix_of(layer: Any) -> np.ndarray:
    """Return the weights of a linear layer (in x out)."""
    return np.ascontiguousarray(to_array(layer.weight).T)
