"""The base classes of the zero-shot peers: the parts that do not depend on what a peer learns.

`Peer` settles the candidates and the penalty, `SamplePeer` learns from samples in memory, and
`TrainedPeer` learns by passes over them. Peers in closed form are in closed_form.py.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from zonkey.arrays import Array
from zonkey.bpl.calibration import calibrate
from zonkey.constraints import (
    check_classes,
    check_semantics,
    validate_labeled,
)
from zonkey.hold_out import draw_classes
from zonkey.inference.projection import NearestPrototypeMixin
from zonkey.labels import as_labels
from zonkey.metrics import per_class_accuracy
from zonkey.parameters import Interval, is_auto
from zonkey.prototypes import Prototypes

from ..base import (
    CheckedMixin,
    TrainedMixin,
    attribute,
    class_means,
    convert_dtype,
    load_torch,
    parameter,
    sort_samples,
)
from ..networks import fast_products
from ..training import History, Learner

_HELD_OUT = 0.2  # share of the seen classes that decides when to stop
_LEAST_CLASSES = 4  # with fewer seen classes none can be held out


def refuse_method(reason: str) -> Any:
    """Return a replacement for an inherited method that a peer lacks: `hasattr` is False."""

    def refuse(_: object) -> Any:
        raise AttributeError(reason)

    return property(refuse, doc=reason)


class Peer(CheckedMixin, NearestPrototypeMixin, BaseEstimator):
    """The parameters that all peers have, and the end of every fit.

    Parameters
    ----------
    prototypes : mapping, DataFrame or Prototypes, default=None
        Semantic vector of every class, seen and unseen. None: one-hot vectors.
    candidates : {"unseen", "all"} or list of labels, default="unseen"
        Classes that `predict` chooses from.
    seen_penalty : float or "auto", default=0.0
        Value subtracted from the scores of seen classes. "auto" chooses it on held-out classes.

    Attributes
    ----------
    classes_ : ndarray
        Candidates, in the order of the columns of `decision_function`.
    seen_classes_, unseen_classes_ : ndarray
        Classes with and without training samples.
    prototypes_ : Prototypes
        Prototypes of all classes.
    seen_penalty_ : float
        Penalty in use.
    n_features_in_ : int
        Number of features.
    """

    prototypes: Any = field(default=None, kw_only=False)
    candidates: Any = "unseen"
    seen_penalty: Any = parameter(default=0.0, within=Interval(also=("auto",)))

    def _penalty(self, X: Any, labels: Any) -> float:
        """Return the penalty of seen classes, before the model is learned: it may be refused."""
        given = self.seen_penalty
        return float(calibrate(self, X, labels) if is_auto(given) else given)

    def _settle(
        self, known: Prototypes, seen: np.ndarray, learned: dict[str, Any], penalty: float
    ) -> Self:
        """Set the fitted attributes."""
        self.seen_penalty_ = penalty
        vars(self).update(learned)
        self._set_known(known, seen)
        return self


class ProjectingPeer(Peer):
    """A peer with centers f(y) that are not linear in the prototype y; it adds `_project`."""

    def project(self, prototypes: Any) -> Array:
        """Map prototypes to the feature space.

        Parameters
        ----------
        prototypes : mapping, DataFrame, Prototypes or array-like of shape (m, n_dimensions)
            What the parameter `prototypes` accepts, or a plain matrix.

        Returns
        -------
        ndarray of shape (m, n_features)
            Center of each class, in sorted order of the labels if there are labels.
        """
        return NearestPrototypeMixin.project(self, prototypes)


class EmbeddingPeer(Peer):
    """A peer with points f(x) that are not linear in the sample x; it adds `_embed`."""

    def embed(self, X: Any) -> Array:
        """Map samples to the semantic space.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_dimensions)
            Point f(x) of each sample x, which is compared with the prototypes.
        """
        return NearestPrototypeMixin.embed(self, X)


@dataclass(frozen=True, eq=False)
class PeerTask:
    """Training samples in an order that depends on their values only."""

    X: np.ndarray
    codes: np.ndarray  # row of Y of each sample
    Y: np.ndarray  # prototypes of the seen classes (m x k), float64
    seed: int
    has_semantics: bool = True  # one-hot prototypes say nothing about other classes

    @classmethod
    def from_samples(
        cls, X: np.ndarray, labels: np.ndarray, Y: np.ndarray, **options: Any
    ) -> PeerTask:
        """Return the task of labeled samples; rows of Y are in the order of the labels."""
        X, codes, _ = sort_samples(X, labels)
        return cls(X, codes, Y, **options)

    @property
    def n_classes(self) -> int:
        """Number of seen classes."""
        return len(self.Y)

    @property
    def means(self) -> np.ndarray:
        """Means of the seen classes (m x d), float64."""
        return class_means(self.X, self.codes)

    def divide(self) -> tuple[PeerTask, PeerTask] | None:
        """Return the tasks of most classes and of the held-out ones; None if there are too few."""
        if not self.has_semantics or self.n_classes < _LEAST_CLASSES:
            return None
        held = draw_classes(self.n_classes, _HELD_OUT, self.seed)
        kept = np.setdiff1d(np.arange(self.n_classes), held)
        return self.of_classes(kept), self.of_classes(np.sort(held))

    def of_classes(self, kept: np.ndarray) -> PeerTask:
        """Return the task of some of the classes."""
        rows = np.isin(self.codes, kept)
        codes = np.searchsorted(kept, self.codes[rows])
        return replace(self, X=self.X[rows], codes=codes, Y=self.Y[kept])


class SamplePeer(Peer):
    """A peer that learns from samples in memory; it adds `_learn`, and its parameters."""

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from labeled samples of the seen classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples.
        y : array-like of shape (n_samples,)
            Labels. Classes that have a prototype but no sample are the unseen ones.

        Returns
        -------
        self
            Fitted estimator.
        """
        with self._restore_on_failure():
            return self._fit(X, y)

    def _fit(self, X: Any, y: Any) -> Self:
        self._check_parameters()
        X, y = validate_labeled(self, X, y)
        labels = as_labels(y)  # scikit-learn rejects integers in an object array
        check_classes(labels)
        one_hot = self.prototypes is None
        known = Prototypes.one_hot(labels) if one_hot else Prototypes.coerce(self.prototypes)
        seen = np.unique(labels)
        check_semantics(known, seen, self._candidate_labels(known, seen))
        Y = known.subset(seen).matrix.astype(np.float64)
        given = getattr(self, "random_state", 0)  # a peer without chance lacks the parameter
        seed = int(check_random_state(given).randint(2**31 - 1))
        task = PeerTask.from_samples(np.asarray(X), labels, Y, seed=seed, has_semantics=not one_hot)
        penalty = self._penalty(X, labels)
        return self._settle(known, seen, self._learn(task), penalty)

    def _learn(self, task: PeerTask) -> dict[str, Any]:
        """Return the fitted attributes by name, arrays in the dtype of the samples."""
        raise NotImplementedError


class ZeroShotLearner(Learner):
    """A zero-shot model in training."""

    @abstractmethod
    def scores(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """Return the scores of samples (rows) for classes with prototypes Y (columns).

        They decide when to stop; so they must rank as those of the fitted model, or nearly so.
        """

    @abstractmethod
    def export(self) -> dict[str, Any]:
        """Return the fitted attributes by name."""


class TrainedPeer(TrainedMixin, SamplePeer):
    """A peer that learns by passes over the samples; it adds `_learner`, and its parameters.

    The number of epochs is chosen on a fifth of the seen classes, which are held out. The model is
    then trained again, on all classes, for that number of epochs. Training is in float32, so that
    samples of either precision give the same model.

    Attributes
    ----------
    n_iter_ : int
        Number of epochs.
    loss_curve_ : list of float
        Mean loss of each epoch of the last training.
    validation_scores_ : list of float
        Accuracy on held-out classes after each epoch of the first training; empty without one.
    """

    n_iter_: int = attribute()
    loss_curve_: list[float] = attribute()
    validation_scores_: list[float] = attribute()

    def _learner(self, task: PeerTask) -> ZeroShotLearner:
        """Return the model before training. `task.X` is float32."""
        raise NotImplementedError

    def _learn(self, task: PeerTask) -> dict[str, Any]:
        dtype, task = task.X.dtype, replace(task, X=task.X.astype(np.float32))
        learner, history, searched = self._train_on(task)
        learned = {name: convert_dtype(value, dtype) for name, value in learner.export().items()}
        curves = {"loss_curve_": history.losses, "validation_scores_": searched.scores}
        return {**learned, "n_iter_": len(history.losses), **curves}

    def _train_on(self, task: PeerTask) -> tuple[ZeroShotLearner, History, History]:
        """Return the model trained on all classes, its history, and that on most of them."""
        n_epochs, searched = int(self.schedule.max_iter), History()
        parts = None if self.schedule.n_iter_no_change is None else task.divide()
        if parts is not None:
            rest, held = parts
            learner = self._learner(rest)

            def score() -> float:
                found = learner.scores(held.X, held.Y).argmax(axis=1)
                return float(per_class_accuracy(held.codes, found))

            options: Any = {"score": score, "keeps_best": False}
            searched = self._train(learner, task.seed, n_epochs, **options)
            n_epochs = searched.best
        learner = self._learner(task)
        history = self._train(learner, task.seed, n_epochs)
        return learner, history, searched


class NetworkPeer(TrainedPeer):
    """A peer whose `_learner` is a `NetworkLearner`; it keeps its weights as arrays."""

    uses_torch = True

    weights_: dict[str, np.ndarray] = attribute()

    # A peer that maps prototypes to features, or samples to semantics, overrides it.
    project = refuse_method("This system maps no prototype to the feature space.")
    embed = refuse_method("This system maps no sample to the semantic space.")

    def _learn(self, task: PeerTask) -> dict[str, Any]:
        with fast_products(*load_torch(self)):
            return super()._learn(task)

    def _get_learned(self) -> np.ndarray:
        return next(iter(self.weights_.values()))
