"""TF-VAEGAN: the feedback network of Narayan, Gupta, Khan, Snoek and Shao."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from zonkey.parameters import Count, Interval, Options

from ..base import parameter, unit_rows
from ..networks import apply_layers, layers, part_of, scale_to_unit, seed_networks
from ..training import Training
from .base import PeerTask
from .f_clswgan import AdversarialLearner
from .generative import GenerativePeer, Kept, Networks, divergence, normal_samples

_DECODER = ("leaky_relu", "linear")
_PLAIN = ("leaky_relu", "linear")
_ENCODER = ("leaky_relu", "leaky_relu", "linear")
_SMALLEST = 1e-12  # length of an error
_OF_ENCODER = (0.9, 0.999)  # Adam's betas; the other networks have those of the critic
_FEEDBACK_RATE = 0.1  # learning rate of the feedback, relative to that of the other networks


class _TFVAEGANLearner(AdversarialLearner):
    """Encoder, generator, critic, decoder of prototypes, and feedback in training."""

    kept: ClassVar[Kept] = {
        "generator": ("leaky_relu", "sigmoid"),
        "decoder": _DECODER,
        "feedback": ("leaky_relu", "leaky_relu"),
    }

    def __init__(self, torch: Any, device: str, task: PeerTask, peer: TFVAEGAN) -> None:
        super().__init__(torch, device, task, peer)
        d, k, n = self.X.shape[1], self.Y.shape[1], peer.n_hidden
        self.n_noise, self.gan_weight, self.cycle_weight = k, peer.gan_weight, peer.cycle_weight
        with seed_networks(torch, task.seed):
            networks = {
                "encoder": layers(torch, [d + k, n, 2 * k, 2 * k], _ENCODER),
                "generator": layers(torch, [2 * k, n, d], self.kept["generator"]),
                "critic": layers(torch, [d + k, n, 1], _PLAIN),
                "decoder": layers(torch, [d, n, k], _DECODER),
                "feedback": layers(torch, [n, n, n], self.kept["feedback"]),
            }
        self.networks = {name: network.to(device) for name, network in networks.items()}
        rate = peer.schedule.learning_rate
        rates = {"encoder": rate, "generator": rate, "feedback": _FEEDBACK_RATE * rate}
        groups = [
            {"params": [*self.networks[name].parameters()], "lr": own}
            for name, own in rates.items()
        ]
        groups[0]["betas"] = _OF_ENCODER
        self.optimizers = {
            "generator": torch.optim.Adam(groups, betas=self.betas),
            "critic": self.adam("critic", learning_rate=rate, betas=self.betas),
            "decoder": self.adam("decoder", learning_rate=rate, betas=self.betas),
        }

    @staticmethod
    def generate(torch: Any, networks: Networks, Y: Any, noise: Any, feedback: bool = True) -> Any:
        """Return generated features; with feedback, the second attempt.

        The feedback is what the decoder made of the first attempt. It is added to the hidden layer
        of the generator.
        """
        first, activation, *rest = networks["generator"]
        hidden = activation(first(torch.cat([noise, Y], dim=1)))
        last = torch.nn.Sequential(*rest)
        if not feedback:
            return last(hidden)
        with torch.no_grad():
            hint = _decode(networks, last(hidden))[0]
        return last(hidden + networks["feedback"](hint))

    @staticmethod
    def synthesize(torch: Any, networks: Networks, Y: Any, noise: Any) -> Any:
        """Return generated features, beside what the decoder makes of them."""
        X = _TFVAEGANLearner.generate(torch, networks, Y, noise)
        return torch.cat([X, *_decode(networks, X)], dim=1)

    @staticmethod
    def encode(torch: Any, networks: Networks, X: Any, noise: Any = None) -> Any:
        """Return features, beside what the decoder makes of them."""
        del noise
        return torch.cat([X, *_decode(networks, X)], dim=1)

    def cycle_loss(self, X: Any, Y: Any) -> Any:
        """Return the mean distance of decoded prototypes from the true ones.

        Errors are weighted by their own squares, relative to the length of all.
        """
        errors = (_decode(self.networks, X)[1] - scale_to_unit(Y)).abs()
        lengths = errors.norm(dim=1, keepdim=True).clamp_min(_SMALLEST)
        return (errors**3 / lengths).sum(dim=1).mean()

    def fake(self, x: Any, y: Any, rng: np.random.Generator) -> Any:
        """Return samples that are encoded and generated again, half of the times with feedback."""
        noise = self.noise(rng, len(x), self.n_noise)
        return self.reconstruct(x, y, noise, rng.random() < 0.5)[0]

    def reconstruct(self, x: Any, y: Any, noise: Any, feedback: bool) -> tuple[Any, Any]:
        """Return samples that are encoded and generated again, and their latent distributions."""
        torch, networks = self.torch, self.networks
        moments = networks["encoder"](torch.cat([x, y], dim=1))
        latent = normal_samples(torch, moments, noise)
        return self.generate(torch, networks, y, latent, feedback), moments

    def generator_loss(self, rows: np.ndarray, rng: np.random.Generator) -> Any:
        """Return the loss of encoder, generator and feedback on a batch."""
        x, y = self.batch(rows)
        noise, feedback = self.noise(rng, len(rows), self.n_noise), rng.random() < 0.5
        return self.vaegan_loss(x, y, noise, feedback)

    def vaegan_loss(self, x: Any, y: Any, noise: Any, feedback: bool) -> Any:
        """Return the negative evidence bound, less the critic's verdict, plus the cycle loss."""
        fake, moments = self.reconstruct(x, y, noise, feedback)
        error = self.torch.nn.functional.binary_cross_entropy(fake, x, reduction="sum") / len(x)
        loss = error + divergence(self.torch, moments)
        loss = loss - self.gan_weight * self.critic(fake, y).mean()
        return loss + self.cycle_weight * self.cycle_loss(fake, y)

    def critic_step(self, rows: np.ndarray, rng: np.random.Generator) -> None:
        """Let the critic, and the decoder, learn from a batch."""
        super().critic_step(rows, rng)
        # Weighted as in the loss of the generator, from which the decoder learns as well.
        weight = self.cycle_weight or 1.0
        self.descend("decoder", weight * self.cycle_loss(*self.batch(rows)))

    def descend(self, name: str, loss: Any) -> Any:
        """Let the optimizer of this name take one step; return the loss without its graph.

        With the generator, the decoder learns from synthesized samples.
        """
        if name != "generator" or not self.cycle_weight:
            return super().descend(name, loss)
        self.optimizers["decoder"].zero_grad()
        loss = super().descend(name, loss)
        self.optimizers["decoder"].step()
        return loss


class TFVAEGAN(GenerativePeer):
    """VAE-GAN of features with a decoder of prototypes, whose hidden layer feeds back and helps.

    An encoder maps a sample x and the prototype y of its class to a normal distribution q of latent
    vectors z, and the generator G maps z and y back. A critic D rates features of a class, as in
    `FCLSWGAN`. A decoder maps features to prototypes: a = Dec(x), with the hidden layer h(x).
    Encoder and generator minimize the mean of

        H(x, G(z, y)) + KL(q || N(0, I)) - gan_weight D(G(z, y), y)
        + cycle_weight R(y, Dec(G(z, y))),

    with the binary cross-entropy H of features, which are scaled into [0, 1], and the weighted
    error R(y, a) = sum_r |y_r - a_r|^3 / ||y - a|| of unit vectors. The decoder minimizes R(y,
    Dec(x)) for real samples, and for synthesized ones, and the critic its own loss. Feedback: a
    network F maps h of a first attempt G(z, y), as a constant, and the result is added to the
    hidden layer of G for a second one. A softmax regression of [x, h(x), Dec(x)], on second
    attempts for unseen classes and real samples of seen ones, predicts; `decision_function` returns
    its logits.

    Differences from the publication and the authors' code:

    - Prototypes have mean square 1, as the noise, instead of unit length, where they are inputs.
    - A step has feedback with probability 1/2; the authors make passes with and without in turn.
    - The penalty of slopes has a constant weight, 10, which the authors' code adapts.
    - Batches are larger and steps longer, since a GPU takes the same time for small batches: up to
      2,000 steps of 512 samples at 5e-4, instead of 300 epochs of two passes of 111 steps of 64 at
      1e-4 for CUB.
    - The number of epochs is chosen on held-out classes, by the final classifier, learned from ten
      samples per class. The authors' code reports the best epoch on the test classes.
    - Weights start as torch starts them, instead of with deviations of 0.02. The logarithms of
      variances are limited to [-10, 10].
    - The final softmax regression is solved with a small ridge penalty instead of by early
      stopping.

    Parameters
    ----------
    gan_weight : float, default=10.0
        Weight >= 0 of the critic (gamma in the code of the authors, 10).
    cycle_weight : float, default=0.01
        Weight >= 0 of the error of decoded prototypes (beta in the publication, 0.01).
    n_hidden : int, default=4096
        Number of hidden units of each network. The default of the publication.
    scaling : {"each", "all"}, default="each"
        Whether each feature is divided by its own range, as in the authors' code, or all by the
        largest one, which keeps the relative size of principal components.
    n_synthetic : int, default=300
        Synthesized samples of an unseen class, and most real samples of a seen one. The
        publication has 300 for CUB.
    training : Training, default=None
        A step is one of the generator, after five of the critic. The feedback has a tenth of the
        learning rate, as in the publication, which has 1e-4 and batches of 64.

    Attributes
    ----------
    weights_ : dict of ndarray
        Weights of generator, decoder and feedback (generator/W0, ...), and the scales of the
        inputs.

    See Also
    --------
    FCLSWGAN : Generator and critic only.
    CVAE : Encoder and generator only.

    References
    ----------
    S. Narayan, A. Gupta, F. S. Khan, C. G. M. Snoek, L. Shao. Latent embedding feedback and
    discriminative features for zero-shot classification. ECCV 2020.

    Examples
    --------
    >>> from zonkey_lab.peers import Training
    >>> from zonkey_lab.peers.zsl import TFVAEGAN
    >>> from zonkey.testing import linear_problem
    >>> problem = linear_problem()
    >>> training = Training(max_iter=1, n_iter_no_change=None, batch_size=36, learning_rate=0.02)
    >>> model = TFVAEGAN(n_hidden=32, min_steps=60, training=training)
    >>> problem.fit_clone(model).score(problem.X_new, problem.y_new) > 0.7
    True
    """

    gan_weight: float = parameter(default=10.0, within=Interval(0))
    cycle_weight: float = parameter(default=0.01, within=Interval(0))
    n_hidden: int = parameter(default=4096, within=Count())
    scaling: str = parameter(default="each", within=Options("each", "all"))

    _kind = _TFVAEGANLearner

    _own = Training(max_iter=20, n_iter_no_change=5, batch_size=512, learning_rate=5e-4)

    @classmethod
    def __zonkey_upgrade__(cls, parts: dict[str, Any]) -> dict[str, Any]:
        """Refuse models of older versions: their networks mean something else."""
        parts = super().__zonkey_upgrade__(parts)
        scales = parts["state"].get("weights_")
        if scales is not None and len(scales["size"]) != len(scales["low"]):
            raise ValueError(
                "A file of TFVAEGAN must hold features scaled to [0, 1] each; got an older model, "
                "with one scale for all. Fit it again."
            )
        return parts

    def _map(self, X: np.ndarray) -> np.ndarray:
        """Return features, beside what the decoder makes of them."""
        arrays = part_of(self.weights_, "decoder")
        hidden = apply_layers(arrays, _DECODER[:1], X)
        last = {"W0": arrays["W1"], "b0": arrays["b1"]}
        decoded = apply_layers(last, _DECODER[1:], hidden)
        return np.concatenate([X, hidden, unit_rows(decoded)], axis=1)


def _decode(networks: Networks, X: Any) -> tuple[Any, Any]:
    """Return the hidden layer of the decoder, and the unit prototypes that it makes of samples."""
    first, activation, *rest = networks["decoder"]
    hidden = activation(first(X))
    found = hidden
    for step in rest:
        found = step(found)
    return hidden, scale_to_unit(found)
