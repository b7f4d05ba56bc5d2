"""CADA-VAE: the aligned variational autoencoders of Schoenfeld, Ebrahimi, Sinha and others."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from zonkey.parameters import Count, Interval, Options

from ..base import parameter
from ..networks import apply_layers, layers, part_of, root_mean_square, seed_networks
from ..training import Training
from .base import PeerTask
from .generative import (
    GenerativeLearner,
    GenerativePeer,
    Kept,
    Networks,
    divergence,
    means_and_logs,
    normal_samples,
)

_ENCODER = ("relu", "linear")
# Parts of the training in which the weights of the losses grow, from 0 to their value: epochs of
# 100 in the publication.
_WARM_UP = {"divergence": (0.0, 0.9), "cross": (0.21, 0.75), "distribution": (0.06, 0.22)}
_GAIN = 0.5  # of the first weights
_TINY = 1e-12  # a square root has no slope at 0


class _CADAVAELearner(GenerativeLearner):
    """Two encoders and two decoders in training."""

    kept: ClassVar[Kept] = {"features": _ENCODER, "prototypes": _ENCODER}

    def __init__(self, torch: Any, device: str, task: PeerTask, peer: CADAVAE) -> None:
        super().__init__(torch, device, task, peer)
        sizes = {"features": self.X.shape[1], "prototypes": self.Y.shape[1]}
        n_hidden, self.n_noise = peer.n_hidden, peer.n_latent
        with seed_networks(torch, task.seed):
            encoders = {
                name: layers(torch, [size, n_hidden, 2 * self.n_noise], _ENCODER)
                for name, size in sizes.items()
            }
            decoders = {
                f"to {name}": layers(torch, [self.n_noise, n_hidden, size], ("relu", "linear"))
                for name, size in sizes.items()
            }
            networks = {**encoders, **decoders}
            for step in (step for network in networks.values() for step in network[::2]):
                # Biases would outweigh prototypes of unit length.
                torch.nn.init.xavier_uniform_(step.weight, _GAIN)
                torch.nn.init.zeros_(step.bias)
        self.networks = {name: network.to(device) for name, network in networks.items()}
        adam = self.adam(*networks, learning_rate=peer.schedule.learning_rate, amsgrad=True)
        self.optimizers = {"all": adam}
        self.final = {
            "divergence": peer.beta,
            "cross": peer.gamma,
            "distribution": peer.delta,
        }
        self.max_iter, self.n_done = peer.schedule.max_iter, 0

    @staticmethod
    def measure_prototypes(Y: np.ndarray) -> np.ndarray:
        """Return the root of the mean squared length: the weights are for unit prototypes."""
        return root_mean_square(Y) * np.sqrt(np.float32(Y.shape[1]))

    @staticmethod
    def synthesize(torch: Any, networks: Networks, Y: Any, noise: Any) -> Any:
        """Return draws from the latent distributions of prototypes."""
        return normal_samples(torch, networks["prototypes"](Y), noise)

    @staticmethod
    def encode(torch: Any, networks: Networks, X: Any, noise: Any = None) -> Any:
        """Return draws from the latent distributions of samples; without noise, their means."""
        moments = networks["features"](X)
        return (
            moments.chunk(2, dim=1)[0] if noise is None else normal_samples(torch, moments, noise)
        )

    def weight(self, name: str) -> float:
        """Return the weight of a loss in this epoch."""
        start, stop = _WARM_UP[name]
        share = (self.n_done / self.max_iter - start) / (stop - start)
        return self.final[name] * min(max(share, 0.0), 1.0)

    def loss(self, x: Any, y: Any, noise_x: Any, noise_y: Any) -> Any:
        """Return the mean loss of a batch."""
        torch, networks = self.torch, self.networks
        of_x, of_y = networks["features"](x), networks["prototypes"](y)
        z_x, z_y = normal_samples(torch, of_x, noise_x), normal_samples(torch, of_y, noise_y)

        def error(z: Any, name: str, target: Any) -> Any:
            return (target - networks[f"to {name}"](z)).abs().sum(dim=1).mean()

        own = error(z_x, "features", x) + error(z_y, "prototypes", y)
        crossed = error(z_y, "features", x) + error(z_x, "prototypes", y)
        apart = divergence(torch, of_x) + divergence(torch, of_y)
        (mean_x, log_x), (mean_y, log_y) = means_and_logs(of_x), means_and_logs(of_y)
        squares = (mean_x - mean_y) ** 2 + (torch.exp(log_x / 2) - torch.exp(log_y / 2)) ** 2
        between = torch.sqrt(squares.sum(dim=1) + _TINY).mean()
        loss = own + self.weight("divergence") * apart + self.weight("cross") * crossed
        return loss + self.weight("distribution") * between

    def step(self, rows: np.ndarray, rng: np.random.Generator) -> Any:
        """Learn from a batch."""
        noise = [self.noise(rng, len(rows), self.n_noise) for _ in range(2)]
        return self.descend("all", self.loss(*self.batch(rows), *noise))

    def epoch(self, rng: np.random.Generator) -> float:
        """Make one pass over the training samples; return the mean loss."""
        loss = super().epoch(rng)
        self.n_done += 1
        return loss

    def state(self) -> dict[str, Any]:
        """Return weights, the state of the optimizer, and the number of epochs."""
        return {**super().state(), "n_done": self.n_done}

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to a state."""
        super().restore(state)
        self.n_done = state["n_done"]


class CADAVAE(GenerativePeer):
    """Two variational autoencoders, of features and of prototypes, with aligned latent spaces.

    Encoders map a sample x and the prototype y of its class to normal distributions q_x and q_y of
    latent vectors z_x and z_y, and decoders f and g map them back. They minimize the mean of

        |x - f(z_x)| + |y - g(z_y)| + beta (KL(q_x) + KL(q_y))
        + gamma (|x - f(z_y)| + |y - g(z_x)|) + delta W(q_x, q_y),

    with sums of absolute values, the divergences KL from N(0, I), and the distance of Wasserstein
    W^2 = ||mu_x - mu_y||^2 + ||sigma_x - sigma_y||^2. A softmax regression is learned from draws of
    q_y of unseen classes and of q_x of samples of seen ones. It predicts from the mean of q_x;
    `decision_function` returns its logits.

    The three weights grow from 0 in parts of the training, as in the publication: beta in the first
    90 % of `max_iter`, gamma from 21 % to 75 %, delta from 6 % to 22 %. Features are scaled into
    [0, 1], and prototypes to mean squared length 1, as there, so that the weights have the same
    meaning. The errors are sums over features, of which there are 2048 in the publication: with a
    few hundred they are small beside the other terms, and the latent vectors may lose what
    distinguishes classes. Decrease `beta` and `delta` then.

    Differences from the publication and the authors' code:

    - All networks have the same number of hidden units; the publication has 1560, 1660, 1450 and
      660.
    - Batches are larger and steps longer, since a GPU takes the same time for small batches: 2,000
      steps of 256 samples at 1e-3, instead of 100 epochs of 142 steps of 50 at 1.5e-4 for CUB.
    - The authors' code draws one number per sample, the same for all latent coordinates, and
      multiplies it by their variances; here every coordinate has its own, times its deviation, as
      printed. The code lets beta grow for 93 % of the epochs, and scales test samples by their own
      ranges; here those of the training samples count.
    - The final softmax regression is solved with a small ridge penalty instead of by early
      stopping.

    Parameters
    ----------
    beta : float, default=0.25
        Weight >= 0 of the divergences. The default of the publication.
    gamma : float, default=2.37
        Weight >= 0 of the cross alignment. The default of the publication.
    delta : float, default=8.13
        Weight >= 0 of the alignment of distributions. The default of the publication.
    n_latent : int, default=64
        Dimension of the latent space. The default of the publication.
    n_hidden : int, default=1560
        Number of hidden units of each network. The publication has it for features.
    scaling : {"each", "all"}, default="each"
        Whether each feature is divided by its own range, as in the authors' code, or all by the
        largest one. Principal components differ in size, and dividing them by their ranges would
        make those without information as large as the others: "all" is for them.
    n_synthetic : int, default=400
        Latent vectors of an unseen class. A seen class has half as many, as in the publication,
        from at most `n_synthetic` real samples.
    training : Training, default=None
        The weights of the losses grow with the share of epochs that is done. Before they have
        grown, the latent spaces are not aligned, so training does not stop early, as in the
        publication.

    Attributes
    ----------
    weights_ : dict of ndarray
        Weights of both encoders (features/W0, ..., prototypes/W0, ...), and the scales of the
        inputs.

    See Also
    --------
    CVAE : One autoencoder, conditioned on prototypes.

    References
    ----------
    E. Schoenfeld, S. Ebrahimi, S. Sinha, T. Darrell, Z. Akata. Generalized zero- and few-shot
    learning via aligned variational autoencoders. CVPR 2019.

    Examples
    --------
    >>> from zonkey_lab.peers import Training
    >>> from zonkey_lab.peers.zsl import CADAVAE
    >>> from zonkey.testing import linear_problem
    >>> problem = linear_problem()
    >>> training = Training(max_iter=30, n_iter_no_change=None, batch_size=36, learning_rate=0.02)
    >>> settings = {"beta": 0.01, "delta": 1.0, "n_latent": 8, "n_hidden": 64, "min_steps": 3}
    >>> model = CADAVAE(**settings, training=training)
    >>> problem.fit_clone(model).score(problem.X_new, problem.y_new) > 0.7
    True
    """

    beta: float = parameter(default=0.25, within=Interval(0))
    gamma: float = parameter(default=2.37, within=Interval(0))
    delta: float = parameter(default=8.13, within=Interval(0))
    n_latent: int = parameter(default=64, within=Count())
    n_hidden: int = parameter(default=1560, within=Count())
    scaling: str = parameter(default="each", within=Options("each", "all"))
    n_synthetic: int = parameter(default=400, within=Count())

    _kind = _CADAVAELearner
    _seen_share = 0.5

    _own = Training(max_iter=20, n_iter_no_change=None, batch_size=256, learning_rate=1e-3)

    def _map(self, X: np.ndarray) -> np.ndarray:
        """Return the means of the latent distributions."""
        moments = apply_layers(part_of(self.weights_, "features"), _ENCODER, X)
        return moments[:, : moments.shape[1] // 2]
