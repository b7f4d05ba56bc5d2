"""Meta-learning: episodes drawn from base classes, and the parent of systems trained on them."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from zonkey.hold_out import draw_classes
from zonkey.parameters import Count

from ..base import TrainedMixin, attribute, identify_training, load_torch, parameter
from ..networks import NetworkLearner, fast_products, to_array
from ..training import History, batches
from .base import BaseSamples, FewShotPeer, Support, center_rows

_HELD_OUT = 0.2  # share of the base classes that decides when to stop, without validation classes
_LEAST_CLASSES = 10  # with fewer base classes none is held out
_JUDGES = 200  # episodes of held-out classes
_MOST_WAYS = 60  # the most classes in an episode of a publication; memory grows by their square


@dataclass(frozen=True)
class EpisodeSizes:
    """Number of classes in an episode, and of support and query samples per class."""

    n_way: int
    n_shot: int
    n_query: int

    def within(self, base: BaseSamples) -> EpisodeSizes:
        """Return the sizes that the base classes have samples for."""
        counts = base.counts[base.counts > self.n_shot]
        if len(counts) < 2:
            raise ValueError(
                f"Episodes need more than one class with at least {self.n_shot + 1} samples, as "
                f"shots and queries; got {len(counts)}. Pass base classes with more samples as "
                "`base`."
            )
        n_query = min(self.n_query, int(counts.min()) - self.n_shot)
        return EpisodeSizes(min(self.n_way, len(counts)), self.n_shot, n_query)


def draw_episodes(
    counts: np.ndarray, n_episodes: int, sizes: EpisodeSizes, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the classes of each episode, then disjoint shots and queries of each class.

    Samples are stored class by class. The positions of shots (e x n_way x n_shot) and of queries
    (e x n_way x n_query) are returned.
    """
    starts, n = np.cumsum(counts) - counts, sizes.n_shot + sizes.n_query
    eligible = np.flatnonzero(counts >= n)
    keys = rng.random((n_episodes, len(eligible)))
    ways = eligible[np.argsort(keys, axis=1)[:, : sizes.n_way]]
    keys = rng.random((*ways.shape, int(counts.max())))
    keys[np.arange(keys.shape[2]) >= counts[ways][:, :, None]] = np.inf
    rows = starts[ways][:, :, None] + np.argsort(keys, axis=2)[:, :, :n]
    return rows[:, :, : sizes.n_shot], rows[:, :, sizes.n_shot :]


class EpisodeLearner(NetworkLearner):
    """Networks in training on episodes.

    A subclass sets `networks` and `optimizers` in `__init__` and adds `logits`. Samples are
    centered by the mean of the base samples and have unit length.
    """

    def __init__(self, torch: Any, device: str, base: BaseSamples, peer: MetaPeer) -> None:
        self.torch, self.device, self.peer = torch, device, peer
        self.center, self.n_inputs = base.mean, self.count_inputs(base)
        self.X, self.counts = self.samples(base), base.counts
        self.sizes = peer.episode_sizes.within(base)

    def samples(self, base: BaseSamples) -> Any:
        """Return the samples as the networks see them."""
        return self.tensor(center_rows(base.X.astype(np.float32), self.center))

    def count_inputs(self, base: BaseSamples) -> int:
        """Return the number d of features that `logits` takes."""
        return base.n_features

    def encode(
        self,
        support: Any,
        query: Any,
        rng: np.random.Generator | None = None,  # noqa: ARG002
    ) -> tuple[Any, Any]:
        """Return samples of episodes as `logits` takes them; with `rng`, to learn from them."""
        return support, query

    @abstractmethod
    def logits(self, support: Any, query: Any) -> Any:
        """Return the scores of queries in episodes (e x n_way n_query x n_way).

        Parameters
        ----------
        support : tensor of shape (e, n_way, n_shot, d)
        query : tensor of shape (e, n_way, n_query, d)
            Queries, class by class; the n-th class of an episode is that of column n.
        """

    @abstractmethod
    def export(self) -> dict[str, np.ndarray]:
        """Return the weights for `weights_`: arrays by name."""

    def loss(self, support: Any, query: Any, rng: np.random.Generator) -> Any:  # noqa: ARG002
        """Return the mean loss of episodes: by default the cross-entropy of their queries."""
        return self.cross_entropy(self.logits(support, query), self.targets(query))

    def cross_entropy(self, found: Any, targets: Any) -> Any:
        """Return the mean cross-entropy of queries, with targets of all episodes or of each."""
        targets = targets.expand(found.shape[:2]).flatten()
        return self.torch.nn.functional.cross_entropy(found.flatten(0, 1), targets)

    def draw_outputs(self, support: Any, rng: np.random.Generator) -> Any:
        """Draw an output for each class of episodes (e x n_way), of systems that have outputs."""
        keys = rng.random((len(support), self.peer.episode_sizes.n_way))
        return self.positions(np.argsort(keys, axis=1)[:, : support.shape[1]])

    def first_outputs(self, support: Any) -> Any:
        """Return the first outputs for the classes of episodes (e x n_way), in order."""
        return self.torch.arange(support.shape[1], device=self.device).expand(len(support), -1)

    def targets(self, query: Any) -> Any:
        """Return the position of the class of each query of an episode."""
        return self.torch.arange(query.shape[1], device=self.device).repeat_interleave(
            query.shape[2]
        )

    def epoch(self, rng: np.random.Generator) -> float:
        """Learn from `n_episodes` new episodes; return the mean loss."""
        n = self.peer.n_episodes
        support, query = map(self.positions, draw_episodes(self.counts, n, self.sizes, rng))
        total: Any = 0.0
        for rows in batches(n, self.peer.schedule.batch_size, rng):
            of = self.positions(rows)
            episodes = self.encode(self.X[support[of]], self.X[query[of]], rng)
            total = total + len(rows) * self.step(*episodes, rng)
        return float(total) / n

    def optimize_all(self, **options: Any) -> Any:
        """Return an optimizer of the weights of all networks."""
        rate = self.peer.schedule.learning_rate
        return self.adam(*self.networks, learning_rate=rate, **options)

    def step(self, support: Any, query: Any, rng: np.random.Generator) -> Any:
        """Let the only optimizer take one step; return the mean loss without its graph."""
        (name,) = self.optimizers
        return self.descend(name, self.loss(support, query, rng))

    @property
    def judged_at_once(self) -> int:
        """Number of episodes of held-out classes that are scored together."""
        return self.peer.schedule.batch_size

    def accuracy(self, held: BaseSamples, seed: int) -> Any:
        """Return a function that gives the accuracy in fixed episodes of held-out classes."""
        X, sizes = self.samples(held), self.peer.episode_sizes.within(held)
        drawn = draw_episodes(held.counts, _JUDGES, sizes, np.random.default_rng(seed))
        support, query = map(self.positions, drawn)

        def found() -> float:
            n_right = 0
            size = self.judged_at_once
            for start in range(0, _JUDGES, size):
                some = slice(start, start + size)
                with self.torch.no_grad():
                    scores = self.logits(*self.encode(X[support[some]], X[query[some]]))
                is_right = scores.argmax(dim=2) == self.targets(query[some])
                n_right += int(is_right.sum())
            return n_right / query.numel()

        return found


class MetaPeer(TrainedMixin, FewShotPeer):
    """A system that is trained on episodes of base classes; it adds `_learner` and `_adapt`.

    With validation classes (`BaseSamples.validation`) the state that is best on them is kept, which
    may be that before training (`n_iter_` = 0). The documentation of each system says what it is
    then; most begin at nearest class means.
    Without, the number of epochs is chosen on a fifth of the base classes, and the model is
    trained again on all. Without base classes, episodes are drawn from the support set.

    Parameters
    ----------
    base : BaseSamples, default=None
        Samples of base classes, from which episodes are drawn. None: they are drawn from the
        support set, with half of its shots, so that it needs two samples per class.
    n_way : int or None, default=None
        Number of classes in an episode of base classes, or all of them if there are fewer. None:
        the number of classes of the support set, at most 60.
    n_shot : int or None, default=None
        Number of support samples per class in an episode. None: the number of samples in the
        smallest class of the support set, as in the publication.
    n_episodes : int, default=100
        Number of episodes in an epoch.
    random_state : int, RandomState or None, default=None
        Seed without base samples; `BaseSamples` have their own.

    Attributes
    ----------
    n_iter_ : int
        Number of epochs; 0 if held-out classes gained by none.
    loss_curve_ : list of float
        Mean loss of each epoch of the last training.
    validation_scores_ : list of float
        Accuracy on held-out classes after each epoch; empty without such classes.
    """

    uses_torch = True
    _least_iter = 0  # the initial state may be the best one
    _has_outputs: ClassVar[bool] = False  # one per class of an episode, with weights of its own

    n_way: int | None = parameter(default=None, within=Count(2, (None,)))
    n_shot: int | None = parameter(default=None, within=Count(1, (None,)))
    n_query: int = parameter(default=15, within=Count())
    n_episodes: int = parameter(default=100, within=Count())

    weights_: dict[str, np.ndarray] = attribute()
    episode_sizes: EpisodeSizes = field(init=False)  # during a fit
    _center: np.ndarray = attribute()

    n_iter_: int = attribute()
    loss_curve_: list[float] = attribute()
    validation_scores_: list[float] = attribute()

    def _learner(self, base: BaseSamples) -> EpisodeLearner:
        """Return the networks before training."""
        raise NotImplementedError

    def _adapt(self, support: Support) -> dict[str, Any]:
        """Return attributes computed from a support set by the networks (`weights_`, `_center`)."""
        raise NotImplementedError

    def _learn(self, support: Support) -> dict[str, Any]:
        base = support.base_or_own
        self.episode_sizes = self._choose_sizes(support, own=support.base is None)
        key = identify_training(self, vars(self.episode_sizes))
        vars(self).update(base.learn_once(key, lambda: self._meta_train(base)))
        del self.episode_sizes  # of the training; a fitted model does not need it
        return self._adapt(support)

    def _choose_sizes(self, support: Support, own: bool) -> EpisodeSizes:
        # One class is a support set, but no episode.
        usual = max(2, support.n_classes)
        usual = usual if self._has_outputs else min(usual, _MOST_WAYS)
        n_way = usual if self.n_way is None else int(self.n_way)
        if self._has_outputs and support.n_classes > n_way:
            raise ValueError(
                f"The support set must have at most the {n_way} classes of an episode; got "
                f"{support.n_classes}. Pass n_way={support.n_classes}, or None."
            )
        n_shot = int(support.counts.min()) if self.n_shot is None else int(self.n_shot)
        if own and self.n_shot is None:  # half of the samples are needed as queries
            n_shot = max(1, n_shot // 2)
        return EpisodeSizes(n_way, n_shot, int(self.n_query))

    def _meta_train(self, base: BaseSamples) -> dict[str, Any]:
        """Return the fitted attributes that depend on base classes only."""
        with fast_products(*load_torch(self)):
            learner, n_epochs, history, scores = self._train_on(base)
        return {
            **self._keep(learner),
            "_center": base.mean,
            "n_iter_": n_epochs,
            "loss_curve_": history.losses,
            "validation_scores_": scores,
        }

    def _keep(self, learner: EpisodeLearner) -> dict[str, Any]:
        """Return the fitted attributes that hold what the networks have learned."""
        return {"weights_": learner.export()}

    def _train_on(self, base: BaseSamples) -> tuple[EpisodeLearner, int, History, list[float]]:
        n_epochs, scores, held = int(self.schedule.max_iter), [], None
        if self.schedule.n_iter_no_change is not None:
            held = base.validation
            if held is None and len(self._find_eligible(base)) >= _LEAST_CLASSES:
                n_epochs, scores = self._search_epochs(base)
        learner = self._learner(base)
        score = None if held is None else learner.accuracy(held, base.seed)
        at_start = 0.0 if score is None else score()
        history = self._train(learner, base.seed, n_epochs, score=score)
        best = _find_best(history, at_start)
        if best == 0:
            learner = self._learner(base)
        return learner, best, history, scores or history.scores

    def _search_epochs(self, base: BaseSamples) -> tuple[int, list[float]]:
        """Return the best number of epochs on held-out base classes, and the scores of all."""
        held = draw_classes(self._find_eligible(base), _HELD_OUT, base.seed)
        learner = self._learner(base.of_classes(np.setdiff1d(base.codes, held)))
        score = learner.accuracy(base.of_classes(held), base.seed)
        at_start, options = score(), {"score": score, "keeps_best": False}
        history = self._train(learner, base.seed, int(self.schedule.max_iter), **options)
        return _find_best(history, at_start), history.scores

    def _find_eligible(self, base: BaseSamples) -> np.ndarray:
        """Return the positions of the classes that have samples for an episode."""
        return np.flatnonzero(base.counts > self.episode_sizes.n_shot)

    def _inputs(self, X: np.ndarray) -> np.ndarray:
        """Return samples as the networks see them."""
        return center_rows(X, self._center)


def _find_best(history: History, at_start: float) -> int:
    """Return the number of epochs after which the score was best, 0 if it was before training."""
    is_better = not history.scores or max(history.scores) > at_start
    return history.best if is_better else 0


def arrays_from(tensors: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return tensors as arrays on the host."""
    return {name: to_array(value) for name, value in tensors.items()}
