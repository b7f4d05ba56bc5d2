"""f-CLSWGAN: the feature-generating network of Xian, Lorenz, Schiele and Akata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from zonkey.parameters import Count, Interval, Options
from zonkey.prototypes import Prototypes

from ..base import parameter
from ..networks import layers, seed_networks, to_array
from ..training import Training, train
from .ale import ALE
from .base import PeerTask
from .bilinear import RankingLearner
from .generative import GenerativeLearner, GenerativePeer, Kept, Networks, softmax_regression

_GENERATOR = ("leaky_relu", "relu")
_CRITIC = ("leaky_relu", "linear")
_SLOPE = 10.0  # weight of the penalty of slopes, lambda in the publication
_SMALLEST = 1e-12  # squared slope
_DOUBT = 3e-4  # ridge of P: where it has no doubt, it has no gradient to learn from
_CLASSIFIERS = ("ale", "softmax")
_RANKING = Training(max_iter=20, learning_rate=1.0)  # of ALE; there is nothing to stop early on
_CRITIC_STEPS = 5  # per step of the generator


class AdversarialLearner(GenerativeLearner):
    """A generator and a critic in training; a subclass sets the networks and adds `generator_loss`.

    Every step of the generator follows `_CRITIC_STEPS` steps of the critic on random batches.
    """

    betas = (0.5, 0.999)

    def critic(self, x: Any, y: Any) -> Any:
        """Return how real the critic holds samples of these prototypes."""
        return self.networks["critic"](self.torch.cat([x, y], dim=1))[:, 0]

    def critic_loss(self, x: Any, y: Any, fake: Any, share: Any) -> Any:
        """Return the negative distance that the critic finds, plus the penalty of its slopes.

        `share` is the position between the synthesized and the real sample.
        """
        between = (share * x + (1 - share) * fake).requires_grad_()
        slopes = self.torch.autograd.grad(
            self.critic(between, y).sum(), between, create_graph=True
        )[0]
        lengths = ((slopes * slopes).sum(dim=1) + _SMALLEST).sqrt()  # has a gradient at 0
        penalty = ((lengths - 1) ** 2).mean()
        return self.critic(fake, y).mean() - self.critic(x, y).mean() + _SLOPE * penalty

    def fake(self, x: Any, y: Any, rng: np.random.Generator) -> Any:
        """Return synthesized samples for a batch."""
        raise NotImplementedError

    def generator_loss(self, rows: np.ndarray, rng: np.random.Generator) -> Any:
        """Return the loss of the generator on a batch."""
        raise NotImplementedError

    def step(self, rows: np.ndarray, rng: np.random.Generator) -> Any:
        """Let the critic learn from other batches, then the generator from this one."""
        for _ in range(_CRITIC_STEPS):
            self.critic_step(rng.integers(len(self.X), size=len(rows)), rng)
        return self.descend("generator", self.generator_loss(rows, rng))

    def critic_step(self, rows: np.ndarray, rng: np.random.Generator) -> None:
        """Let the critic learn from a batch."""
        x, y = self.batch(rows)
        with self.torch.no_grad():
            fake = self.fake(x, y, rng)
        share = self.tensor(rng.random((len(rows), 1), np.float32))
        self.descend("critic", self.critic_loss(x, y, fake, share))


class _FCLSWGANLearner(AdversarialLearner):
    """Generator and critic in training."""

    kept: ClassVar[Kept] = {"generator": _GENERATOR}

    def __init__(self, torch: Any, device: str, task: PeerTask, peer: FCLSWGAN) -> None:
        super().__init__(torch, device, task, peer)
        d, k, n_hidden = self.X.shape[1], self.Y.shape[1], peer.n_hidden
        self.n_noise, self.cls_weight, self.final = k, peer.cls_weight, peer.classifier
        with seed_networks(torch, task.seed):
            generator = layers(torch, [self.n_noise + k, n_hidden, d], _GENERATOR)
            critic = layers(torch, [d + k, n_hidden, 1], _CRITIC)
        self.networks = {"generator": generator.to(device), "critic": critic.to(device)}
        self.optimizers = {
            name: self.adam(name, learning_rate=peer.schedule.learning_rate, betas=self.betas)
            for name in self.networks
        }
        W, b = softmax_regression(torch, self.X, task.codes, task.n_classes, ridge=_DOUBT)
        self.W, self.b = self.tensor(W), self.tensor(b)

    @staticmethod
    def synthesize(torch: Any, networks: Networks, Y: Any, noise: Any) -> Any:
        """Return generated features."""
        return networks["generator"](torch.cat([noise, Y], dim=1))

    def fake(self, x: Any, y: Any, rng: np.random.Generator) -> Any:
        """Return synthesized samples for a batch."""
        noise = self.noise(rng, len(x), self.n_noise)
        return self.synthesize(self.torch, self.networks, y, noise)

    def generator_loss(self, rows: np.ndarray, rng: np.random.Generator) -> Any:
        """Return how far the critic and the classifier of seen classes are from being fooled."""
        x, y = self.batch(rows)
        fake, codes = self.fake(x, y, rng), self.codes[self.positions(rows)]
        wrong = self.torch.nn.functional.cross_entropy(fake @ self.W.T + self.b, codes)
        return self.cls_weight * wrong - self.critic(fake, y).mean()

    def classify(self, Z: Any, codes: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return weights and biases of the classifier that the peer uses."""
        if self.final == "softmax":
            return super().classify(Z, codes, Y)
        return _rank(to_array(Z), codes, Y, self.scales, self.seed)


class FCLSWGAN(GenerativePeer):
    """Wasserstein GAN of features with a classification loss; ALE or softmax on synthesized ones.

    The generator G maps noise z from N(0, I) and a prototype y to features, the critic D rates
    features of a class. With the real samples x and the synthesized x~ = G(z, y), D maximizes

        E[D(x, y)] - E[D(x~, y)] - 10 E[(||grad D(x^, y)|| - 1)^2],

    where x^ is a random point between x and x~, and G minimizes -E[D(x~, y)] - cls_weight
    E[log P(c | x~)], where c is the class, and P a softmax regression of the seen classes, learned
    before. A classifier of synthesized samples, and of real ones of candidates that are seen,
    predicts; `decision_function` returns its scores. "GAN+ALE" in the paper of this project.

    Differences from the publication and the authors' code:

    - Features are shifted by their minima and scaled to mean square 1, all alike, instead of to
      [0, 1] each. Prototypes have mean square 1, as the noise, instead of unit length.
    - Batches are larger and steps longer, since a GPU takes the same time for small batches: up to
      2,000 steps of 512 samples at 5e-4, instead of 56 epochs of 111 steps of 64 at 1e-4 for CUB.
    - The number of epochs is chosen on held-out classes, by the final classifier, learned from ten
      samples per class. The authors report the best epoch on the test classes.
    - Weights start as torch starts them, instead of with deviations of 0.02.
    - ALE makes 20 passes over the synthesized samples, with steps of size 1.
    - Both softmax regressions are solved with a small ridge penalty instead of by early stopping.

    Parameters
    ----------
    classifier : {"ale", "softmax"}, default="ale"
        Final classifier: the bilinear ranking of `ALE`, which is the better one among the unseen
        classes of CUB in the publication, or a softmax regression.
    cls_weight : float, default=0.01
        Weight >= 0 of the classification loss (beta in the publication, 0.01).
    n_hidden : int, default=4096
        Number of hidden units of each network. The default of the publication.
    n_synthetic : int, default=300
        Synthesized samples of an unseen class, and most real samples of a seen one. The
        publication has 300 for CUB.
    training : Training, default=None
        A step is one of the generator, after five of the critic. The publication has batches of
        64 and a learning rate of 1e-4.

    Attributes
    ----------
    weights_ : dict of ndarray
        Weights of the generator (generator/W0, generator/b0, ...), and the scales of the inputs.

    See Also
    --------
    TFVAEGAN : Adds an encoder, a decoder of prototypes, and feedback.
    CVAE : A generator that is learned without a critic.

    References
    ----------
    Y. Xian, T. Lorenz, B. Schiele, Z. Akata. Feature generating networks for zero-shot learning.
    CVPR 2018.

    Examples
    --------
    >>> from zonkey_lab.peers import Training
    >>> from zonkey_lab.peers.zsl import FCLSWGAN
    >>> from zonkey.testing import linear_problem
    >>> problem = linear_problem()
    >>> training = Training(max_iter=1, n_iter_no_change=None, batch_size=36, learning_rate=0.02)
    >>> model = FCLSWGAN(n_hidden=32, min_steps=20, training=training)
    >>> problem.fit_clone(model).score(problem.X_new, problem.y_new) > 0.7
    True
    """

    classifier: str = parameter(default="ale", within=Options(*_CLASSIFIERS))
    cls_weight: float = parameter(default=0.01, within=Interval(0))
    n_hidden: int = parameter(default=4096, within=Count())

    _kind = _FCLSWGANLearner

    _own = Training(max_iter=20, n_iter_no_change=5, batch_size=512, learning_rate=5e-4)

    def _learn(self, task: PeerTask) -> dict[str, Any]:
        learned = super()._learn(task)
        learned["_synthesis"]["classifier"] = self.classifier
        return learned

    def _classifier(
        self, torch: Any, Z: Any, codes: np.ndarray, known: Prototypes
    ) -> tuple[np.ndarray, np.ndarray]:
        if self._synthesis["classifier"] == "softmax":
            return super()._classifier(torch, Z, codes, known)
        return _rank(to_array(Z), codes, known.matrix, self.weights_, self._synthesis["seed"])


def _rank(
    Z: np.ndarray, codes: np.ndarray, Y: np.ndarray, scales: Mapping[str, np.ndarray], seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return weights and biases of classes with prototypes Y, by ALE on scaled features Z.

    Without a bias it matters where zero is: ranking is learned on unscaled features.
    """
    low, size = (scales[name].astype(np.float32) for name in ("low", "size"))
    Y, peer = Y.astype(np.float64), ALE(training=_RANKING)
    learner = RankingLearner(PeerTask(Z * size + low, codes, Y, seed), peer)
    train(learner, max_iter=peer.schedule.max_iter, seed=seed)
    W = Y @ learner.export()["projection_"].T
    return W * size, W @ low
