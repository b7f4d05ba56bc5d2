"""DEM: the deep embedding model of Zhang, Xiang and Gong, from prototypes to features."""

from __future__ import annotations

from typing import Any

import numpy as np

from zonkey.arrays import Array
from zonkey.inference.scorer import LinearScores
from zonkey.parameters import Count, Interval
from zonkey.prototypes import Prototypes

from ..base import attribute, load_torch, parameter
from ..networks import BatchLearner, apply_layers, arrays_of, layers, seed_networks
from ..training import Training
from .base import NetworkPeer, PeerTask, ProjectingPeer, ZeroShotLearner


class DEM(ProjectingPeer, NetworkPeer):
    """Deep embedding model: a network of two layers maps prototypes to the feature space.

    With the prototype y_i of the class of sample x_i, the network f minimizes

        mean_i ||x_i - f(y_i)||^2 + weight_decay / 2 ||W||^2,     f(y) = relu(W2 relu(W1 y)),

    where W are all weights. The class with the nearest f(y) is predicted; `decision_function`
    returns ||x||^2 - ||x - f(y)||^2. The feature space is the space of comparison, because hubs,
    classes that are near to many samples, are less frequent in it.

    Differences from the publication:

    - The output is linear instead of a ReLU if a training feature is negative. Pooled features of
      networks that end with a ReLU are not.
    - Only the model of one semantic space is built, not those that fuse attributes and text.
    - The bias of the output begins at the mean feature. From a random one, some units of a
      last ReLU stay 0 for all classes.
    - The number of epochs is chosen on held-out classes.

    Parameters
    ----------
    n_hidden : int, default=700
        Number of hidden ReLU units. 700 as in the authors' code for attributes of CUB.
    weight_decay : float, default=1e-4
        Penalty >= 0 of all weights. The authors' code has 1e-2 for features that are many times
        longer; 1e-4 is chosen here for unit length.
    training : Training, default=None
        The publication has batches of 64 to 100, learning rates of 1e-5 to 1e-4 and far more
        epochs.

    Attributes
    ----------
    weights_ : dict of ndarray
        Weights of both layers: W0, b0, W1 and b1.

    See Also
    --------
    CMT : Maps samples to the semantic space instead.
    ExemplarRegression : Kernel regression from prototypes to class means, in closed form.

    References
    ----------
    L. Zhang, T. Xiang, S. Gong. Learning a deep embedding model for zero-shot learning. CVPR 2017.

    Examples
    --------
    >>> from zonkey_lab.peers import Training
    >>> from zonkey_lab.peers.zsl import DEM
    >>> seen = {"horse": [0, 1], "tiger": [1, 0], "snail": [-0.8, -0.6]}
    >>> unseen = {"zebra": [0.8, 0.6], "whale": [-0.6, 0.8]}
    >>> training = Training(learning_rate=0.02)
    >>> model = DEM({**seen, **unseen}, n_hidden=32, training=training, random_state=0)
    >>> model = model.fit(list(seen.values()), list(seen))
    >>> model.predict([[0.8, 0.6], [-0.6, 0.8]])
    array(['zebra', 'whale'], dtype='<U5')
    """

    n_hidden: int = parameter(default=700, within=Count())
    weight_decay: float = parameter(default=1e-4, within=Interval(0))

    _output: str = attribute()

    _own = Training(max_iter=100, n_iter_no_change=5, batch_size=256, learning_rate=1e-3)

    def _learner(self, task: PeerTask) -> ZeroShotLearner:
        return _DEMLearner(self, task)

    def _project(self, prototypes: Prototypes) -> Array:
        return self._centers(prototypes, self._get_learned().dtype)

    def _centers(self, known: Prototypes, dtype: Any) -> np.ndarray:
        return apply_layers(self.weights_, ("relu", self._output), known.matrix.astype(dtype))

    def _linear_scores(self, known: Prototypes, dtype: Any) -> LinearScores:
        return LinearScores.from_distances(self._centers(known, dtype))


class _DEMLearner(BatchLearner, ZeroShotLearner):
    def __init__(self, peer: DEM, task: PeerTask) -> None:
        super().__init__(*load_torch(peer), task.X, peer.schedule.batch_size)
        self.codes, self.Y = task.codes, self.tensor(task.Y)
        # Features of either sign cannot be reached through a last ReLU.
        self.activations = ("relu", "relu" if task.X.min() >= 0 else "linear")
        sizes = (task.Y.shape[1], peer.n_hidden, task.X.shape[1])
        with seed_networks(self.torch, task.seed):
            self.networks = {"f": layers(self.torch, sizes, self.activations).to(self.device)}
        # From the mean feature, no unit of a last ReLU begins dead.
        *_, last, _ = self.networks["f"]
        last.bias.data.copy_(self.X.mean(dim=0))
        options = {"learning_rate": peer.schedule.learning_rate, "weight_decay": peer.weight_decay}
        self.optimizers = {"f": self.adam("f", **options)}

    def step(self, rows: np.ndarray, rng: np.random.Generator) -> Any:  # noqa: ARG002
        # The network maps each class of the batch once.
        classes, places = np.unique(self.codes[rows], return_inverse=True)
        centers = self.networks["f"](self.Y[self.positions(classes)])
        errors = self.X[self.positions(rows)] - centers[self.positions(places)]
        return self.descend("f", errors.square().sum(dim=1).mean())

    def scores(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        C = apply_layers(arrays_of(self.networks["f"]), self.activations, Y.astype(X.dtype))
        return 2 * X @ C.T - np.sum(C * C, axis=1)

    def export(self) -> dict[str, Any]:
        return {"weights_": arrays_of(self.networks["f"]), "_output": self.activations[-1]}
