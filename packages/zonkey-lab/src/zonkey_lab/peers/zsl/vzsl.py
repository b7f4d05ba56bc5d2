"""VZSL: the variational autoencoder of Wang et al., whose priors depend on the class."""

from __future__ import annotations

from typing import Any

import numpy as np

from zonkey.arrays import Array
from zonkey.inference.scorer import LinearScores
from zonkey.parameters import Count, Interval
from zonkey.prototypes import Prototypes

from ..base import load_torch, parameter
from ..networks import (
    Arrays,
    BatchLearner,
    apply_layers,
    arrays_of,
    layers,
    root_mean_square,
    seed_networks,
    to_array,
)
from ..training import Training
from .base import NetworkPeer, PeerTask, ZeroShotLearner

_ACTIVATIONS = ("relu", "linear")


class VZSL(NetworkPeer):
    """Variational autoencoder of features whose prior depends on the class.

    A class with prototype y has the prior p(z | y) = N(M y, diag(exp(S y))) of the latent vector z.
    Encoder q(z | x) = N(m(x), diag(s^2(x))), decoder g, M and S minimize the mean over samples x
    of a class with prototype y of

        KL(q(z | x), p(z | y)) + lam log sum_c exp(-KL(q(z | x), p(z | y_c)))
        + reconstruction ||x - g(z)||^2 / mean ||x||^2,     z drawn from q(z | x).

    The second term sums over the seen classes c. It is a soft form of minus the smallest KL, so
    it pushes the nearest priors away. The class with the least KL(q(z | x), p(z | y)) is predicted;
    `decision_function` returns minus the KL, up to a number that all classes of a sample share.

    Differences from the publication:

    - The publication derives the second term from the smallest KL to the *other* classes. The sum
      here always has the own class, too: without it, the loss has no lower bound; with it, it is
      at least (1 - lam) KL(q(z | x), p(z | y)) >= 0.
    - The variance of p(x | z) is the same for all features, and `reconstruction` represents it.
    - M and S begin at 0. What random numbers would add in directions that no seen prototype has
      would stay, and harm unseen classes.
    - Features and prototypes are divided by their root mean square; the weights absorb it.
    - The transductive and the few-shot form are left out.

    Parameters
    ----------
    n_hidden : int, default=512
        Number of hidden ReLU units of encoder and of decoder. Chosen here.
    n_latent : int, default=100
        Dimension of z. Chosen here.
    lam : float, default=0.9
        Weight of the margin (lambda in the publication) in [0, 1]. With 1 only the order of the
        distances counts, and q(z | x) leaves the priors.
    reconstruction : float, default=10.0
        Weight >= 0 of the relative squared error. Chosen here.
    training : Training, default=None
        Chosen here.

    Attributes
    ----------
    weights_ : dict of ndarray
        Weights of the encoder, W0, b0, W1 and b1, and `prior`: M and S side by side, transposed.

    See Also
    --------
    DEM : Maps a prototype to a point, not to a distribution.
    zonkey.AnyShotClassifier : Gaussian prior of each class in the feature space, in closed form.

    References
    ----------
    W. Wang, Y. Pu, V. K. Verma, K. Fan, Y. Zhang, C. Chen, P. Rai, L. Carin. Zero-shot learning via
    class-conditioned deep generative models. AAAI 2018.

    Examples
    --------
    >>> from zonkey_lab.peers import Training
    >>> from zonkey_lab.peers.zsl import VZSL
    >>> seen = {"horse": [0, 1], "tiger": [1, 0], "snail": [-0.8, -0.6]}
    >>> unseen = {"zebra": [0.8, 0.6], "whale": [-0.6, 0.8]}
    >>> settings = {"n_hidden": 32, "n_latent": 4, "random_state": 0}
    >>> model = VZSL({**seen, **unseen}, **settings, training=Training(learning_rate=0.01))
    >>> model = model.fit(list(seen.values()), list(seen))
    >>> model.predict([[0.8, 0.6], [-0.6, 0.8]])
    array(['zebra', 'whale'], dtype='<U5')
    """

    n_hidden: int = parameter(default=512, within=Count())
    n_latent: int = parameter(default=100, within=Count())
    lam: float = parameter(default=0.9, within=Interval(0, 1))
    reconstruction: float = parameter(default=10.0, within=Interval(0))

    _compares_distances = False

    _own = Training(max_iter=100, n_iter_no_change=5, batch_size=256, learning_rate=3e-4)

    def _learner(self, task: PeerTask) -> ZeroShotLearner:
        return _VZSLLearner(self, task)

    def _map_samples(self, X: Array) -> Array:
        return _moments(self.weights_, np.asarray(X))

    def _linear_scores(self, known: Prototypes, dtype: Any) -> LinearScores:
        return _prior_scores(self.weights_, known.matrix.astype(dtype))


def _moments(weights: Arrays, X: np.ndarray) -> np.ndarray:
    """Return the first two moments of z under q(z | x), m and m^2 + s^2 (n x 2 l)."""
    means, logs = np.split(apply_layers(weights, _ACTIVATIONS, X), 2, axis=1)
    return np.concatenate([means, means * means + np.exp(logs)], axis=1)


def _prior_scores(weights: Arrays, Y: np.ndarray) -> LinearScores:
    """Return the expected log densities under q of the priors of prototypes Y.

    They are E[log p(z | y)] = sum_r (E[z_r] mu_r / t_r - E[z_r^2] / (2 t_r)) - constant, where
    mu_r and t_r are means and variances. So they are linear in the moments of z.
    """
    means, logs = np.split(Y @ weights["prior"].astype(Y.dtype, copy=False), 2, axis=1)
    precisions = np.exp(-logs)
    centers = np.concatenate([means * precisions / 2, -precisions / 4], axis=1)
    constants = np.sum(means * means * precisions + logs, axis=1) / 2
    return LinearScores(centers, constants)


class _VZSLLearner(BatchLearner, ZeroShotLearner):
    def __init__(self, peer: VZSL, task: PeerTask) -> None:
        # Vectors of unit length have tiny entries, on which networks start slowly.
        self.scales = root_mean_square(task.X), root_mean_square(task.Y)
        super().__init__(*load_torch(peer), task.X / self.scales[0], peer.schedule.batch_size)
        torch = self.torch
        self.lam, self.reconstruction = float(peer.lam), float(peer.reconstruction)
        self.codes, self.Y = self.positions(task.codes), self.tensor(task.Y / self.scales[1])
        d, k, hidden, latent = task.X.shape[1], task.Y.shape[1], peer.n_hidden, peer.n_latent
        with seed_networks(torch, task.seed):
            self.networks = {
                "encoder": layers(torch, (d, hidden, 2 * latent), _ACTIVATIONS).to(self.device),
                "decoder": layers(torch, (latent, hidden, d), _ACTIVATIONS).to(self.device),
                "prior": torch.nn.Linear(k, 2 * latent, bias=False).to(self.device),
            }
        # From random weights, the part that no seen prototype reaches would stay as noise.
        torch.nn.init.zeros_(self.networks["prior"].weight)
        self.optimizers = {
            "all": self.adam(*self.networks, learning_rate=peer.schedule.learning_rate)
        }

    def step(self, rows: np.ndarray, rng: np.random.Generator) -> Any:
        torch, places = self.torch, self.positions(rows)
        X, codes = self.X[places], self.codes[places]
        means, logs = self.networks["encoder"](X).chunk(2, dim=1)
        noise = self.noise(rng, *means.shape)
        decoded = self.networks["decoder"](means + noise * (logs / 2).exp())
        errors = (X - decoded).square().mean(dim=1)
        distances = self._divergences(means, logs)
        own = distances.gather(1, codes[:, None])[:, 0]
        margin = torch.logsumexp(-distances, dim=1)
        loss = own + self.lam * margin + self.reconstruction * errors
        return self.descend("all", loss.mean())

    def _divergences(self, means: Any, logs: Any) -> Any:
        """Return KL(q(z | x_i), p(z | y_j)) of the samples i and all seen classes j."""
        centers, spreads = self.networks["prior"](self.Y).chunk(2, dim=1)
        precisions = (-spreads).exp()
        squares = (means.square() + logs.exp()) @ precisions.T
        squares = squares - 2 * means @ (centers * precisions).T
        constants = (centers.square() * precisions + spreads).sum(dim=1)
        return (squares + constants - (1 + logs).sum(dim=1, keepdim=True)) / 2

    def scores(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        weights = self.export()["weights_"]
        form = _prior_scores(weights, Y.astype(X.dtype))
        return np.concatenate([np.asarray(block) for block in form.blocks(_moments(weights, X))])

    def export(self) -> dict[str, Any]:
        weights, (of_X, of_Y) = arrays_of(self.networks["encoder"]), self.scales
        prior = np.ascontiguousarray(to_array(self.networks["prior"].weight).T)
        return {"weights_": {**weights, "W0": weights["W0"] / of_X, "prior": prior / of_Y}}
