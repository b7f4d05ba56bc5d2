"""mAP-SSVM: an embedding that ranks samples of the own class first (Triantafillou et al.)."""

from __future__ import annotations

from typing import Any

import numpy as np

from zonkey.parameters import Interval

from ..base import attribute, class_means, load_torch, parameter, unit_rows
from ..networks import apply_layers, arrays_of, seed_networks, zero_layers
from ..training import Training
from .base import BaseSamples, Support
from .meta import EpisodeLearner, MetaPeer

_ACTIVATIONS = ("linear",)


class MAPSSVM(MetaPeer):
    """Mean average precision by a structured SVM: each sample ranks all others of its episode.

    With e(x) = u / ||u||, u = x + V x + b, the score of a ranking r of the other samples by query
    q, P of its class and N of others, is

        F_q(r) = 1 / (|P| |N|) sum_{i in P, j in N} r_ij (e_q'e_i - e_q'e_j),

    where r_ij = 1 if i comes before j, else -1. Training minimizes the mean over queries of

        max_r [F_q(r) + ap_weight (1 - AP(r))] - F_q(r*),

    where r* puts P first and AP is the average precision. The maximum is exact: if P and N are
    sorted by score, the best place of each sample of N among P does not depend on the others, and
    all places are found by cumulative sums.

    A sample x belongs to the class whose samples, ranked first among the support set, have the
    largest F_x(r*): the mean cosine with them, less the mean cosine with all others
    (`decision_function`).

    Differences from the publication:

    - A linear map of fixed features takes the place of a convolutional network. Features are
      centered by the mean of the base samples and have unit length. V and b begin at 0: an
      untrained model (`max_iter` = 0, or `n_iter_` = 0) compares cosines of centered features with
      all shots of a class, without learning. With equally many shots per class, that is the largest
      product with the class mean; with one shot, `SimpleShot`.
    - The publication also has direct loss minimization; here, only the structured SVM is built.
    - Batches are episodes of the size of the task, not of 128 samples of 16 classes.

    Parameters
    ----------
    ap_weight : float, default=3.0
        Weight >= 0 of the loss 1 - AP against scores, which are from -2 to 2: the margin by which
        a ranking without relevant samples at its top must be worse than the right one. 3 is
        chosen here, with one shot of validation classes of mini-ImageNet.
    n_query : int, default=15
        Largest number of queries per class in an episode. Shots and queries alike rank all
        others.
    training : Training, default=None
        The publication has a learning rate of 1e-3, for a network that begins at random weights.

    Attributes
    ----------
    weights_ : dict of ndarray
        The map: W0, which is V transposed, and b0.
    coef_ : ndarray of shape (n_classes, n_features)
        Mean embedding of the support samples of a class, less that of all others.

    See Also
    --------
    PrototypicalNetwork : Learns distances from class means instead of rankings.
    MatchingNetwork : Also compares samples by cosines.

    References
    ----------
    E. Triantafillou, R. Zemel, R. Urtasun. Few-shot learning through an information retrieval
    lens. NeurIPS 2017.

    Y. Yue, T. Finley, F. Radlinski, T. Joachims. A support vector method for optimizing average
    precision. SIGIR 2007.

    Examples
    --------
    >>> from zonkey_lab.peers import Training
    >>> from zonkey_lab.peers.fsl import MAPSSVM, BaseSamples
    >>> from zonkey.testing import shots_problem
    >>> problem = shots_problem()
    >>> base = BaseSamples(problem.X_base, problem.y_base)
    >>> model = MAPSSVM(base, n_episodes=8, training=Training(max_iter=2))
    >>> model = model.fit(problem.X_support, problem.y_support)
    >>> model.score(problem.X_query, problem.y_query)
    1.0
    """

    ap_weight: float = parameter(default=3.0, within=Interval(0))

    coef_: np.ndarray = attribute()

    _own = Training(max_iter=50, n_iter_no_change=5, batch_size=4, learning_rate=1e-4)

    def _learner(self, base: BaseSamples) -> EpisodeLearner:
        return _MAPSSVMLearner(*load_torch(self), base, self)

    def _adapt(self, support: Support) -> dict[str, Any]:
        means = class_means(self._embed(support.X), support.codes)
        sums = means * support.counts[:, None]
        n_others = np.maximum(len(support.X) - support.counts, 1)  # none if there is one class
        others = (sums.sum(axis=0) - sums) / n_others[:, None]
        return {"coef_": (means - others).astype(support.X.dtype)}

    def _embed(self, X: np.ndarray) -> np.ndarray:
        inputs = self._inputs(X)
        return unit_rows(inputs + apply_layers(self.weights_, _ACTIVATIONS, inputs))

    def _scores(self, X: np.ndarray) -> np.ndarray:
        return self._embed(X) @ self.coef_.T.astype(X.dtype, copy=False)


class _MAPSSVMLearner(EpisodeLearner):
    peer: MAPSSVM

    def __init__(self, torch: Any, device: str, base: BaseSamples, peer: MAPSSVM) -> None:
        super().__init__(torch, device, base, peer)
        d = base.n_features
        with seed_networks(torch, base.seed):
            self.networks = {"map": zero_layers(torch, (d, d), _ACTIVATIONS).to(device)}
        self.optimizers = {"map": self.optimize_all()}

    def embed(self, X: Any) -> Any:
        return self.torch.nn.functional.normalize(X + self.networks["map"](X), dim=-1)

    def logits(self, support: Any, query: Any) -> Any:
        # With equally many shots, the mean cosine with the others changes no order of classes.
        return self.embed(query.flatten(1, 2)) @ self.embed(support).mean(dim=2).mT

    def loss(self, support: Any, query: Any, rng: np.random.Generator) -> Any:  # noqa: ARG002
        torch = self.torch
        points = self.embed(torch.cat([support, query], dim=2))
        _, n_way, n, _ = points.shape
        points = points.flatten(1, 2)
        codes = torch.arange(n_way, device=self.device).repeat_interleave(n)
        is_own = codes[:, None] == codes
        is_other = ~is_own
        is_own.fill_diagonal_(False)  # a query does not rank itself
        cosines = points @ points.mT  # e x n_way n x n_way n
        positives = cosines[:, is_own].reshape(-1, n - 1)
        negatives = cosines[:, is_other].reshape(-1, (n_way - 1) * n)
        return hinge(torch, positives, negatives, self.peer.ap_weight).mean()

    def export(self) -> dict[str, np.ndarray]:
        return arrays_of(self.networks["map"])


def hinge(torch: Any, positives: Any, negatives: Any, ap_weight: float) -> Any:
    """Return max_r [F(r) + ap_weight (1 - AP(r))] - F(r*) of each query.

    Let i count the positives and j the negatives in descending order of scores s. A negative that
    comes before the i-th positive, after j - 1 other negatives, lowers AP by i / ((i + j - 1)
    (i + j)) / |P|, and F by 2 (s_i - s_j) / (|P| |N|). So the maximum is a sum over negatives, each
    with its own best number of positives before it; the better negatives have fewer of them.
    `positives` (q x p) and `negatives` (q x n) are scores of samples of the class of each query,
    and of others.
    """
    p, n = positives.shape[1], negatives.shape[1]
    positives = positives.sort(dim=1, descending=True).values
    negatives = negatives.sort(dim=1, descending=True).values
    like = {"dtype": positives.dtype, "device": positives.device}
    i = torch.arange(1, p + 1, **like)[:, None]
    j = torch.arange(1, n + 1, **like)
    gains = ap_weight * i / ((i + j - 1) * (i + j)) / p  # of a negative before a positive
    gains = gains - 2 / (p * n) * (positives[:, :, None] - negatives[:, None, :])
    # Sums over all positives that come after a negative: none, the last, the last two, ...
    after = gains.flip(1).cumsum(dim=1).amax(dim=1)
    return after.clamp(min=0).sum(dim=1)
