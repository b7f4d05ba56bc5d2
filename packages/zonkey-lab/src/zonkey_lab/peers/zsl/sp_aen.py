"""SP-AEN: the semantics-preserving adversarial embedding network of Chen et al."""

from __future__ import annotations

from typing import Any

import numpy as np

from zonkey.arrays import Array
from zonkey.inference.scorer import LinearScores
from zonkey.parameters import Count, Interval
from zonkey.prototypes import Prototypes

from ..base import load_torch, parameter, unit_rows
from ..networks import (
    BatchLearner,
    apply_layers,
    arrays_of,
    layers,
    scale_to_unit,
    seed_networks,
)
from ..training import Training
from .base import EmbeddingPeer, NetworkPeer, PeerTask, ZeroShotLearner

_ACTIVATIONS = ("leaky_relu", "linear")


class SPAEN(EmbeddingPeer, NetworkPeer):
    """Semantics-preserving adversarial embedding: a classifying and a reconstructing branch.

    E and F map samples to the semantic space, G maps back to features, and D distinguishes the two
    embeddings apart. With the class y_i of sample x_i, E, F and G minimize

        mean_i  R(E(x_i), y_i) + R(F(x_i), y_i) - adversarial log D(E(x_i))
                + reconstruction ||x_i - G(F(x_i))||^2 / mean ||x||^2,

        R(e, y) = sum over seen classes c other than y of max(0, margin - e's_y + e's_c),

    while D maximizes the mean of log D(F(x')) + log(1 - D(E(x))), x' drawn independently of x. So E
    learns to classify, but has to keep what F needs to reconstruct. The class with the largest
    E(x)'s is predicted; `decision_function` returns it. E(x), F(x) and the prototypes s are scaled
    to unit length, so that these are cosines, and a penalty has the same effect on every sample.

    Differences from the publication and the authors' code:

    - It starts from images, and reconstructs pixels by a deconvolutional network with perceptual
      loss, and F has features of another network than E. Here samples are features, both have the
      same, and features are reconstructed.
    - F has a ranking loss, too. Without it, nothing ties the coordinates of F(x) to those of the
      prototypes, so that E gains little from resembling F.
    - F, G and E are trained together. The code trains F and G first, for 200,000 steps, then E and
      D as long, with a tenth of the learning rate in the second half.
    - D has the logistic loss of the publication, and as many steps as E. The code has a Wasserstein
      critic with gradient penalty, whose values pass through a sigmoid, and five steps of it.
    - The ranking loss sums over all classes, as printed; the code draws one of those that violate
      the margin. Its weight is 1; the code has 1000 beside 50 for the adversary.
    - E(x) and F(x) are scaled to unit length, and so are neither samples nor, where they enter G,
      other codes. The code compares E(x)'s without it, scales samples to unit length, and draws the
      length of F(x) to 1 by a penalty of weight 2.
    - The output layers are linear, with leaky ReLU in the code. D has `n_hidden` hidden units, in
      the code as many as there are semantic dimensions.
    - No dropout (one half in the code), no penalty of weights (5e-6) and no limit of gradients
      (10); the number of epochs is chosen on held-out classes.

    Parameters
    ----------
    n_hidden : int, default=1024
        Number of hidden units, leaky ReLU, of each network; as in the authors' code.
    margin : float, default=0.2
        Margin >= 0 of the ranking loss, in cosines; as in the authors' code.
    reconstruction : float, default=10.0
        Weight >= 0 of the relative squared error. Chosen here.
    adversarial : float, default=1.0
        Weight >= 0 of the adversarial loss. Chosen here.
    training : Training, default=None
        The authors' code has batches of 128 and a learning rate of 1e-4, for many more steps; beta1
        is 0.5 as there.

    Attributes
    ----------
    weights_ : dict of ndarray
        Weights of E: W0, b0, W1 and b1.

    See Also
    --------
    SAE : Linear autoencoder through the semantic space, in closed form.
    CMT : Regression to the semantic space, without ranking or reconstruction.

    References
    ----------
    L. Chen, H. Zhang, J. Xiao, W. Liu, S.-F. Chang. Zero-shot visual recognition using
    semantics-preserving adversarial embedding networks. CVPR 2018.

    Examples
    --------
    >>> from zonkey_lab.peers import Training
    >>> from zonkey_lab.peers.zsl import SPAEN
    >>> seen = {"horse": [0, 1], "tiger": [1, 0], "snail": [-0.8, -0.6]}
    >>> unseen = {"zebra": [0.8, 0.6], "whale": [-0.6, 0.8]}
    >>> training = Training(learning_rate=0.01)
    >>> model = SPAEN({**seen, **unseen}, n_hidden=32, training=training, random_state=0)
    >>> model = model.fit(list(seen.values()), list(seen))
    >>> model.predict([[0.8, 0.6], [-0.6, 0.8]])
    array(['zebra', 'whale'], dtype='<U5')
    """

    n_hidden: int = parameter(default=1024, within=Count())
    margin: float = parameter(default=0.2, within=Interval(0))
    reconstruction: float = parameter(default=10.0, within=Interval(0))
    adversarial: float = parameter(default=1.0, within=Interval(0))

    _compares_distances = False

    _own = Training(max_iter=100, n_iter_no_change=5, batch_size=256, learning_rate=3e-4)

    def _learner(self, task: PeerTask) -> ZeroShotLearner:
        return _SPAENLearner(self, task)

    def _embed(self, X: Array) -> Array:
        return self._map_samples(X)

    def _map_samples(self, X: Array) -> Array:
        return unit_rows(apply_layers(self.weights_, _ACTIVATIONS, np.asarray(X)))

    def _linear_scores(self, known: Prototypes, dtype: Any) -> LinearScores:
        centers = unit_rows(known.matrix.astype(dtype))
        return LinearScores(centers / 2, np.zeros(len(centers), dtype))


class _SPAENLearner(BatchLearner, ZeroShotLearner):
    def __init__(self, peer: SPAEN, task: PeerTask) -> None:
        super().__init__(*load_torch(peer), task.X, peer.schedule.batch_size)
        self.codes, self.Y = self.positions(task.codes), self.tensor(unit_rows(task.Y))
        self.margin, self.adversarial = float(peer.margin), float(peer.adversarial)
        # Relative to the length of the samples, as the cosines are.
        square = float(np.mean(np.sum(np.square(task.X, dtype=np.float64), axis=1)))
        self.reconstruction = float(peer.reconstruction) / (square or 1.0)
        d, k, hidden = task.X.shape[1], task.Y.shape[1], peer.n_hidden
        sizes = {"E": (d, hidden, k), "F": (d, hidden, k), "G": (k, hidden, d), "D": (k, hidden, 1)}
        with seed_networks(self.torch, task.seed):
            self.networks = {
                name: layers(self.torch, size, _ACTIVATIONS).to(self.device)
                for name, size in sizes.items()
            }
        rate = {"learning_rate": peer.schedule.learning_rate, "betas": (0.5, 0.999)}
        self.optimizers = {"EFG": self.adam("E", "F", "G", **rate), "D": self.adam("D", **rate)}

    def step(self, rows: np.ndarray, rng: np.random.Generator) -> Any:
        E, F, G, D = (self.networks[name] for name in "EFGD")
        places, others = self.positions(rows), rng.integers(len(self.X), size=len(rows))
        X, codes = self.X[places], self.codes[places]
        embedded, coded = scale_to_unit(E(X)), scale_to_unit(F(X))
        softplus = self.torch.nn.functional.softplus
        with self.torch.no_grad():
            real = scale_to_unit(F(self.X[self.positions(others)]))
        self.descend("D", softplus(-D(real)).mean() + softplus(D(embedded.detach())).mean())
        errors = (X - G(coded)).square().sum(dim=1)
        loss = self._ranking(embedded, codes) + self._ranking(coded, codes)
        loss = loss + (self.reconstruction * errors).mean()
        return self.descend("EFG", loss + self.adversarial * softplus(-D(embedded)).mean())

    def _ranking(self, embedded: Any, codes: Any) -> Any:
        cosines = embedded @ self.Y.T
        own = cosines.gather(1, codes[:, None])
        hinges = (self.margin + cosines - own).relu()
        return hinges.sum(dim=1).mean() - self.margin

    def scores(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        embedded = unit_rows(apply_layers(arrays_of(self.networks["E"]), _ACTIVATIONS, X))
        return embedded @ unit_rows(Y).T

    def export(self) -> dict[str, Any]:
        return {"weights_": arrays_of(self.networks["E"])}
