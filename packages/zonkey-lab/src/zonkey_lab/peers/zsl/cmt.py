"""CMT: the two-layer regression of Socher, Ganjoo, Manning and Ng into the semantic space."""

from __future__ import annotations

from typing import Any

import numpy as np

from zonkey.arrays import Array
from zonkey.inference.scorer import LinearScores
from zonkey.parameters import Count
from zonkey.prototypes import Prototypes

from ..base import load_torch, parameter
from ..networks import BatchLearner, apply_layers, arrays_of, layers, seed_networks
from ..training import Training
from .base import EmbeddingPeer, NetworkPeer, PeerTask, ZeroShotLearner

_ACTIVATIONS = ("tanh", "linear")


class CMT(EmbeddingPeer, NetworkPeer):
    """Cross-modal transfer: a network of two layers maps samples to the semantic space.

    With the prototype y_i of the class of sample x_i, the network f minimizes

        mean_i ||y_i - f(x_i)||^2,     f(x) = theta2 tanh(theta1 x).

    The class with the prototype nearest to f(x) is predicted; `decision_function` returns
    ||f(x)||^2 - ||f(x) - y||^2.

    Differences from the publication:

    - Its second part is left out: it detects samples of unseen classes as outliers, and gives seen
      and unseen classes different classifiers. Here all candidates compete by distance;
      `seen_penalty` shifts the balance between seen and unseen ones.
    - Both layers have a bias, because features need not have the mean 0.
    - Adam on batches replaces L-BFGS, and the number of epochs is chosen on held-out classes.

    Parameters
    ----------
    n_hidden : int, default=512
        Number of tanh units. Chosen here: the publication maps to word vectors of 50 dimensions,
        attribute vectors have hundreds.
    training : Training, default=None
        The publication has no batches.

    Attributes
    ----------
    weights_ : dict of ndarray
        Weights of both layers: W0, b0, W1 and b1.

    See Also
    --------
    DEM : Maps prototypes to features instead, which suffers less from hubs.
    SAE : Linear encoder to the semantic space, in closed form.

    References
    ----------
    R. Socher, M. Ganjoo, C. D. Manning, A. Y. Ng. Zero-shot learning through cross-modal transfer.
    NIPS 2013.

    Examples
    --------
    >>> from zonkey_lab.peers import Training
    >>> from zonkey_lab.peers.zsl import CMT
    >>> seen = {"horse": [0, 1], "tiger": [1, 0], "snail": [-0.8, -0.6]}
    >>> unseen = {"zebra": [0.8, 0.6], "whale": [-0.6, 0.8]}
    >>> training = Training(learning_rate=0.05)
    >>> model = CMT({**seen, **unseen}, n_hidden=8, training=training, random_state=0)
    >>> model = model.fit(list(seen.values()), list(seen))
    >>> model.predict([[0.8, 0.6], [-0.6, 0.8]])
    array(['zebra', 'whale'], dtype='<U5')
    """

    n_hidden: int = parameter(default=512, within=Count())

    _own = Training(max_iter=100, n_iter_no_change=5, batch_size=256, learning_rate=1e-3)

    def _learner(self, task: PeerTask) -> ZeroShotLearner:
        return _CMTLearner(self, task)

    def _embed(self, X: Array) -> Array:
        return self._map_samples(X)

    def _map_samples(self, X: Array) -> Array:
        return apply_layers(self.weights_, _ACTIVATIONS, np.asarray(X))

    def _linear_scores(self, known: Prototypes, dtype: Any) -> LinearScores:
        return LinearScores.from_distances(known.matrix.astype(dtype))


class _CMTLearner(BatchLearner, ZeroShotLearner):
    def __init__(self, peer: CMT, task: PeerTask) -> None:
        super().__init__(*load_torch(peer), task.X, peer.schedule.batch_size)
        self.targets = self.tensor(task.Y[task.codes])
        sizes = (task.X.shape[1], peer.n_hidden, task.Y.shape[1])
        with seed_networks(self.torch, task.seed):
            self.networks = {"f": layers(self.torch, sizes, _ACTIVATIONS).to(self.device)}
        self.optimizers = {"f": self.adam("f", learning_rate=peer.schedule.learning_rate)}

    def step(self, rows: np.ndarray, rng: np.random.Generator) -> Any:  # noqa: ARG002
        places = self.positions(rows)
        errors = self.targets[places] - self.networks["f"](self.X[places])
        return self.descend("f", errors.square().sum(dim=1).mean())

    def scores(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        Z = apply_layers(arrays_of(self.networks["f"]), _ACTIVATIONS, X)
        return 2 * Z @ Y.T - np.sum(Y * Y, axis=1)

    def export(self) -> dict[str, Any]:
        return {"weights_": arrays_of(self.networks["f"])}
