"""PPA: parameters of novel classes, predicted from their activations (Qiao et al.)."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np

from zonkey.parameters import Count, Interval

from ..base import attribute, class_means, load_torch, parameter, unit_rows
from ..networks import apply_layers, arrays_of, seed_networks, zero_layers
from ..training import Training, batches
from .base import BaseSamples, Support
from .meta import EpisodeLearner, EpisodeSizes, MetaPeer

_ACTIVATIONS = ("relu", "linear")
_SCALE = 10.0  # of the cosines in training
_JUDGED_BY = EpisodeSizes(n_way=5, n_shot=1, n_query=15)


class PPA(MetaPeer):
    """Parameter prediction from activations: a network maps samples of a class to its weights.

    Let a be the features of a sample, centered and of unit length. The weights of class j are an
    expectation over statistics s of its samples,

        w_j = E_s[phi(s)] = mean_weight phi(mean_i a_i) + (1 - mean_weight) mean_i phi(a_i),

    and the class with the largest w_j'a is predicted (`decision_function`). The network phi
    minimizes the cross-entropy of samples among all base classes, whose weights it predicts,

        -log softmax_j(10 phi(s_j)'a)_y + weight_decay / 2 ||W||^2,

    where s_j is the mean of samples of class j with probability `mean_weight`, else one of them.
    It learns from all base classes at once, and so suits hundreds of novel classes.

    Differences from the publication:

    - phi(a) = u / ||u|| with u = a + W2 relu(W1 a + b1) + b2, and W2 = 0 at the beginning. So an
      untrained model (`max_iter` = 0, or `n_iter_` = 0) predicts by products with class means, in
      part scaled to unit length; with one shot, as `SimpleShot`. In the authors' code both layers
      begin at the identity, which needs nonnegative features.
    - Cosines are multiplied by 10 in the loss. The softmax of cosines among many classes is nearly
      uniform otherwise, whether samples are classified well or not.
    - In each epoch, or in each step with `n_batches`, half of the samples of a class give the
      statistics and the others are classified, as it is for novel classes. A base class may have
      few samples.
    - The number of epochs is chosen on held-out classes. Only novel classes are predicted.

    Parameters
    ----------
    base : BaseSamples, default=None
        Samples of base classes. None: the support set takes their place; if fewer than two of its
        classes have two samples, phi is the identity.
    mean_weight : float, default=0.5
        Probability in [0, 1] that the mean is the statistic of a class. 0.5 is chosen here, with
        one shot of validation classes of mini-ImageNet.
    weight_decay : float, default=5e-4
        Penalty >= 0 of all weights. 5e-4 as in the authors' code.
    n_batches : int or None, default=None
        Number of steps in an epoch, each of which classifies one sample of every class. The
        authors' code for mini-ImageNet has 250, and 50 epochs. None: a pass over half of the
        samples, `batch_size` per step.
    training : Training, default=None
        Accuracies are those of one-shot episodes. The authors' code has learning rates of 1e-3 to
        1e-5, for gradients with momentum.

    Attributes
    ----------
    weights_ : dict of ndarray
        Weights of phi: W0, b0, W1 and b1; empty if it is the identity.
    coef_ : ndarray of shape (n_classes, n_features)
        Predicted weights of the novel classes.

    See Also
    --------
    SimpleShot : Class means, without a network.
    LSL : Also learns from all base classes at once, to hallucinate samples.

    References
    ----------
    S. Qiao, C. Liu, W. Shen, A. Yuille. Few-shot image recognition by predicting parameters from
    activations. CVPR 2018.

    Examples
    --------
    >>> from zonkey_lab.peers import Training
    >>> from zonkey_lab.peers.fsl import PPA, BaseSamples
    >>> from zonkey.testing import shots_problem
    >>> problem = shots_problem()
    >>> base = BaseSamples(problem.X_base, problem.y_base)
    >>> model = PPA(base, training=Training(max_iter=3)).fit(problem.X_support, problem.y_support)
    >>> model.score(problem.X_query, problem.y_query)
    1.0
    """

    mean_weight: float = parameter(default=0.5, within=Interval(0, 1))
    weight_decay: float = parameter(default=5e-4, within=Interval(0))
    n_batches: int | None = parameter(default=None, within=Count(1, (None,)))

    # Training is on all base classes; episodes only decide when to stop.
    n_way: int | None = field(default=None, init=False)
    n_shot: int | None = field(default=None, init=False)
    n_query: int = field(default=_JUDGED_BY.n_query, init=False)
    n_episodes: int = field(default=1, init=False)

    coef_: np.ndarray = attribute()

    _own = Training(max_iter=100, n_iter_no_change=5, batch_size=256, learning_rate=3e-4)

    def _learner(self, base: BaseSamples) -> EpisodeLearner:
        return _PPALearner(*load_torch(self), base, self)

    def _choose_sizes(self, support: Support, own: bool) -> EpisodeSizes:  # noqa: ARG002
        return _JUDGED_BY  # what is learned serves any number of classes and shots

    def _learn(self, support: Support) -> dict[str, Any]:
        if support.base is not None or np.sum(support.counts > 1) > 1:
            return super()._learn(support)
        vars(self).update(weights_={}, _center=np.zeros(support.X.shape[1]))
        untrained = {"n_iter_": 0, "loss_curve_": [], "validation_scores_": []}
        return {**untrained, **self._adapt(support)}

    def _adapt(self, support: Support) -> dict[str, Any]:
        inputs = self._inputs(support.X)
        means = class_means(inputs, support.codes).astype(support.X.dtype)
        singles = class_means(self._phi(inputs), support.codes)
        share = float(self.mean_weight)
        coef = share * self._phi(means) + (1 - share) * singles
        return {"coef_": coef.astype(support.X.dtype)}

    def _phi(self, A: np.ndarray) -> np.ndarray:
        return unit_rows(A + apply_layers(self.weights_, _ACTIVATIONS, A) if self.weights_ else A)

    def _scores(self, X: np.ndarray) -> np.ndarray:
        return self._inputs(X) @ self.coef_.T.astype(X.dtype, copy=False)


class _PPALearner(EpisodeLearner):
    peer: PPA

    def __init__(self, torch: Any, device: str, base: BaseSamples, peer: PPA) -> None:
        super().__init__(torch, device, base, peer)
        self.codes = base.codes
        d = base.n_features
        with seed_networks(torch, base.seed):
            self.networks = {"phi": zero_layers(torch, (d, d, d), _ACTIVATIONS).to(device)}
        self.optimizers = {"phi": self.optimize_all(weight_decay=peer.weight_decay)}

    def phi(self, A: Any) -> Any:
        return self.torch.nn.functional.normalize(A + self.networks["phi"](A), dim=-1)

    def epoch(self, rng: np.random.Generator) -> float:
        """Classify half of the samples of each class by statistics of the other half."""
        if self.peer.n_batches is not None:
            steps = [self.classify_one_of_each(rng) for _ in range(int(self.peer.n_batches))]
            return float(sum(steps)) / len(steps)
        kept, classified = halves(self.counts, rng)
        means = self.means(kept)
        total: Any = 0.0
        for some in batches(len(classified), self.peer.schedule.batch_size, rng):
            rows = classified[some]
            loss = self.base_loss(self.statistics(means, kept, rng), rows)
            total = total + len(rows) * self.descend("phi", loss)
        return float(total) / max(len(classified), 1)

    def classify_one_of_each(self, rng: np.random.Generator) -> Any:
        """Take a step that classifies one sample of each class with at least two; its loss."""
        kept, classified = halves(self.counts, rng)
        rows = classified[draw_one(self.counts // 2, rng)]
        return self.descend(
            "phi", self.base_loss(self.statistics(self.means(kept), kept, rng), rows)
        )

    def means(self, kept: np.ndarray) -> Any:
        codes = self.positions(self.codes[kept])
        sums = self.torch.zeros(len(self.counts), self.X.shape[1], device=self.device)
        sums.index_add_(0, codes, self.X[self.positions(kept)])
        return sums / self.torch.bincount(codes)[:, None]

    def statistics(self, means: Any, kept: np.ndarray, rng: np.random.Generator) -> Any:
        """Return one statistic of each class (m x d): its mean, or one of its samples."""
        sizes = np.bincount(self.codes[kept])
        drawn = draw_one(sizes, rng)
        is_mean = rng.random(len(sizes)) < self.peer.mean_weight
        singles = self.X[self.positions(kept[drawn])]
        chosen = self.torch.as_tensor(is_mean, device=self.device)[:, None]
        return self.torch.where(chosen, means, singles)

    def base_loss(self, statistics: Any, rows: np.ndarray) -> Any:
        scores = _SCALE * self.X[self.positions(rows)] @ self.phi(statistics).T
        return self.torch.nn.functional.cross_entropy(scores, self.positions(self.codes[rows]))

    def logits(self, support: Any, query: Any) -> Any:
        share = self.peer.mean_weight
        weights = share * self.phi(support.mean(dim=2))
        weights = weights + (1 - share) * self.phi(support).mean(dim=2)
        return query.flatten(1, 2) @ weights.mT

    def export(self) -> dict[str, np.ndarray]:
        return arrays_of(self.networks["phi"])


def draw_one(sizes: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw the position of a sample of each class that has any; samples are class by class."""
    drawn = np.cumsum(sizes) - sizes + (rng.random(len(sizes)) * sizes).astype(int)
    return drawn[sizes > 0]


def halves(counts: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Split the samples of each class at random; the first half has the odd one, class by class."""
    codes = np.repeat(np.arange(len(counts)), counts)
    order = np.lexsort((rng.random(len(codes)), codes))
    place = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
    is_first = 2 * place < counts[codes]
    return order[is_first], order[~is_first]
