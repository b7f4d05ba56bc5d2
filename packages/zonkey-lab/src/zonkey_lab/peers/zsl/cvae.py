"""CVAE: the conditional variational autoencoder of Mishra, Krishna Reddy, Mittal and Murthy."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from zonkey.parameters import Count

from ..base import parameter
from ..networks import layers, seed_networks
from ..training import Training
from .base import PeerTask
from .generative import (
    GenerativeLearner,
    GenerativePeer,
    Kept,
    Networks,
    divergence,
    normal_samples,
)


class _CVAELearner(GenerativeLearner):
    """Encoder and decoder in training."""

    kept: ClassVar[Kept] = {"decoder": ("relu", "linear")}

    def __init__(self, torch: Any, device: str, task: PeerTask, peer: CVAE) -> None:
        super().__init__(torch, device, task, peer)
        d, k, n_hidden = self.X.shape[1], self.Y.shape[1], peer.n_hidden
        self.n_noise = peer.n_latent
        with seed_networks(torch, task.seed):
            encoder = layers(torch, [d + k, n_hidden, 2 * self.n_noise], ("relu", "linear"))
            decoder = layers(torch, [self.n_noise + k, n_hidden, d], self.kept["decoder"])
        self.networks = {"encoder": encoder.to(device), "decoder": decoder.to(device)}
        adam = self.adam("encoder", "decoder", learning_rate=peer.schedule.learning_rate)
        self.optimizers = {"both": adam}
        self.variance = self.within_variance()

    @staticmethod
    def synthesize(torch: Any, networks: Networks, Y: Any, noise: Any) -> Any:
        """Return decoded noise."""
        return networks["decoder"](torch.cat([noise, Y], dim=1))

    def loss(self, x: Any, y: Any, noise: Any) -> Any:
        """Return the mean of the negative evidence bounds, up to constants."""
        torch, networks = self.torch, self.networks
        moments = networks["encoder"](torch.cat([x, y], dim=1))
        decoded = self.synthesize(torch, networks, y, normal_samples(torch, moments, noise))
        error = ((x - decoded) ** 2).sum(dim=1).mean() / (2 * self.variance)
        return error + divergence(torch, moments)

    def step(self, rows: np.ndarray, rng: np.random.Generator) -> Any:
        """Learn from a batch."""
        return self.descend(
            "both", self.loss(*self.batch(rows), self.noise(rng, len(rows), self.n_noise))
        )


class CVAE(GenerativePeer):
    """Conditional variational autoencoder of features; a classifier on synthesized ones.

    The encoder maps a sample x and the prototype y of its class to a normal distribution
    q(z | x, y) of latent vectors, and the decoder f maps z and y back. Both minimize the mean of

        E_q ||x - f(z, y)||^2 / (2 s^2) + KL(q(z | x, y) || N(0, I)).

    Samples of an unseen class are f(z, y) with z from N(0, I). A softmax regression on them, and on
    real samples of candidates that are seen, predicts; `decision_function` returns its logits.

    Differences from the publication:

    - The final classifier is a softmax regression instead of a linear support vector machine,
      whose scores of classes are not comparable. Seen classes have their real samples in it.
    - s^2 is the mean variance of a feature within classes, so that the two terms have the same
      balance in every unit of the features. Features are shifted by their minima; features and
      prototypes are scaled to mean square 1.
    - Encoder and decoder have one hidden layer each, without dropout. The number of epochs is
      chosen on held-out classes.

    Parameters
    ----------
    n_latent : int, default=50
        Dimension of z. Chosen here.
    n_hidden : int, default=512
        Number of hidden units of each network. Chosen here.
    n_synthetic : int, default=300
        Synthesized samples of an unseen class, and most real samples of a seen one. The more, the
        longer the classifier takes. Chosen here, as for `FCLSWGAN`.
    training : Training, default=None
        Chosen here.

    Attributes
    ----------
    weights_ : dict of ndarray
        Weights of the decoder (decoder/W0, decoder/b0, ...), and the scales of the inputs.

    See Also
    --------
    CADAVAE : Two aligned autoencoders; classifies in their latent space.
    FCLSWGAN : An adversarial generator.

    References
    ----------
    A. Mishra, S. Krishna Reddy, A. Mittal, H. A. Murthy. A generative model for zero shot learning
    using conditional variational autoencoders. CVPR workshops 2018.

    Examples
    --------
    >>> from zonkey_lab.peers import Training
    >>> from zonkey_lab.peers.zsl import CVAE
    >>> from zonkey.testing import linear_problem
    >>> problem = linear_problem()
    >>> training = Training(max_iter=2, n_iter_no_change=None, batch_size=36, learning_rate=0.02)
    >>> model = CVAE(n_latent=2, n_hidden=32, min_steps=20, training=training)
    >>> problem.fit_clone(model).score(problem.X_new, problem.y_new) > 0.7
    True
    """

    n_latent: int = parameter(default=50, within=Count())
    n_hidden: int = parameter(default=512, within=Count())

    _kind = _CVAELearner

    _own = Training(max_iter=20, n_iter_no_change=3, batch_size=256, learning_rate=1e-3)
