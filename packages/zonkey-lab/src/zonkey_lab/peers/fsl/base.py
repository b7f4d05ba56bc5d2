"""The base classes of the few-shot peers, and the base samples that they learn from.

`FewShotPeer` learns from a support set and optionally from samples of base classes. `BaseSamples`
caches what a peer has learned from base classes, for all later support sets.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any, Self, TypeVar
from weakref import WeakValueDictionary

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state, check_X_y

from zonkey.arrays import Array
from zonkey.constraints import check_classes, validate_labeled
from zonkey.hashing import hash_object
from zonkey.inference.predict import ScoresMixin
from zonkey.labels import as_labels, check_count, format_labels, format_value
from zonkey.samples import sample_blocks

from ..base import CheckedMixin, attribute, sort_samples, unit_rows

_MOST_KEPT = 64  # results of learning from base samples: a search and its folds reuse them

T = TypeVar("T")


class BaseSamples:
    """Labeled samples of base classes, and what few-shot peers have learned from them.

    A peer learns from base classes at its first fit; its later fits, and fits of clones with the
    same parameters, reuse the result. The 64 most recently used results are kept.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Samples of base classes.
    y : array-like of shape (n_samples,)
        Labels.
    validation : tuple (X, y), default=None
        Samples of validation classes, which are neither base nor novel classes. Peers that are
        trained stop early on them. None: they hold out some of the base classes.
    random_state : int, default=0
        Seed of everything learned from base classes, independent of the seed of a peer: the result
        must not depend on which fit came first.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        Samples, in an order that depends on their values only, class by class.
    codes : ndarray of shape (n_samples,)
        Position of the class of each sample in `classes`.
    classes : ndarray
        Labels of the base classes, sorted.
    validation : BaseSamples or None
        Samples of validation classes.

    See Also
    --------
    zonkey.BaseClasses : The base classes of `FewShotClassifier`: moments, without samples.

    Examples
    --------
    >>> from zonkey_lab.peers.fsl import BaseSamples, SimpleShot
    >>> base = BaseSamples([[3, 0], [5, 0], [4, 1], [4, 3]], ["cow", "cow", "pig", "pig"])
    >>> SimpleShot(base=base).fit([[5, 1], [4, 2]], ["zebra", "okapi"]).predict([[9, 1]])
    array(['zebra'], dtype='<U5')
    """

    def __init__(self, X: Any, y: Any, *, validation: Any = None, random_state: int = 0) -> None:
        floats: Any = [np.float64, np.float32]
        X, labels = check_X_y(X, as_labels(y), dtype=floats)
        check_classes(labels)
        self.X, self.codes, self.classes = sort_samples(np.asarray(X), labels)
        self.validation: BaseSamples | None = None
        if validation is not None:
            if not isinstance(validation, tuple | list) or len(validation) != 2:
                raise TypeError(
                    f"`validation` must be a tuple (X, y) or None; got {format_value(validation)}. "
                    "Pass samples and labels of validation classes."
                )
            self.validation = BaseSamples(*validation)
            self._check_validation(self.validation)
        self.seed = check_count("random_state", random_state, 0)
        self._kept: OrderedDict[str, tuple[Any]] = OrderedDict()
        self._make_locks()

    def _check_validation(self, other: BaseSamples) -> None:
        if other.X.shape[1] != self.X.shape[1]:
            raise ValueError(
                f"Validation samples must have the {self.X.shape[1]} features of base samples; "
                f"got {other.X.shape[1]}. Use the same encoder for both."
            )
        both = np.intersect1d(other.classes, self.classes)
        if both.size:
            raise ValueError(
                f"Validation classes must not be base classes; {format_labels(both)} came in both. "
                "Leave them out of one."
            )

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.X.shape[1]

    @cached_property
    def counts(self) -> np.ndarray:
        """Number of samples of each class."""
        return np.bincount(self.codes)

    @cached_property
    def mean(self) -> np.ndarray:
        """Mean of all samples (d), float64."""
        return self.X.mean(axis=0, dtype=np.float64)

    def of_classes(self, kept: np.ndarray) -> BaseSamples:
        """Return the samples of some of the classes.

        Parameters
        ----------
        kept : ndarray of int
            Positions of the classes in `classes`.

        Returns
        -------
        BaseSamples
            Their samples, without validation classes.
        """
        rows = np.isin(self.codes, kept)
        return BaseSamples(self.X[rows], self.classes[self.codes[rows]], random_state=self.seed)

    def fingerprint(self) -> str:
        """Return a hash of samples, labels and seed.

        Returns
        -------
        str
            The same for equal base samples.
        """
        return hash_object(self.X, self.codes, self.classes, self.seed, self.validation)

    def learn_once(self, key: str, learn: Callable[[], T]) -> T:
        """Return the cached result of `learn` for this key.

        Parameters
        ----------
        key : str
            Identifies what is learned: the system and its parameters.
        learn : callable
            Called without arguments if nothing is kept for the key, once even if fits run in
            threads.

        Returns
        -------
        object
            Shared by all fits; it must not be changed.
        """
        with self._lock:
            lock = self._learning.setdefault(key, Lock())
        with lock:  # trials run in threads; only those that need the same result wait
            with self._lock:
                found = self._kept.get(key)
            found = found or (learn(),)
            with self._lock:
                self._kept[key] = found
                self._kept.move_to_end(key)
                while len(self._kept) > _MOST_KEPT:
                    self._kept.popitem(last=False)
            return found[0]

    def __repr__(self) -> str:
        n, d = self.X.shape
        return f"BaseSamples({n} samples of {len(self.classes)} classes, {d} features)"

    def __deepcopy__(self, memo: Any) -> BaseSamples:
        return self  # large, and shared by clones

    def __getstate__(self) -> dict[str, Any]:
        # A copy: other threads may continue to learn while this one is pickled.
        with self._lock:
            state = {**vars(self), "_kept": self._kept.copy()}
        del state["_lock"], state["_learning"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._make_locks()

    def _make_locks(self) -> None:
        self._lock = Lock()  # of the two dictionaries
        self._learning: WeakValueDictionary[str, Lock] = WeakValueDictionary()


@dataclass(frozen=True, eq=False)
class Support:
    """The support set of a fit, class by class, in an order that depends on values only."""

    X: np.ndarray
    codes: np.ndarray  # positions in `classes`, which are sorted
    classes: np.ndarray
    seed: int
    base: BaseSamples | None

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @property
    def counts(self) -> np.ndarray:
        """Number of samples of each class."""
        return np.bincount(self.codes)

    @property
    def base_or_own(self) -> BaseSamples:
        """Samples of base classes; without, those of the support set."""
        if self.base is not None:
            return self.base
        return BaseSamples(self.X, self.classes[self.codes], random_state=self.seed)


class FewShotPeer(CheckedMixin, ScoresMixin, BaseEstimator):
    """A few-shot system; it adds `_learn`, `_scores`, and its parameters.

    The first parameter is `base=None`; in systems with texts, `prototypes` comes before it.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels in sorted order.
    n_features_in_ : int
        Number of features.
    """

    base: BaseSamples | None = field(default=None, kw_only=False)

    classes_: Any = attribute()

    def fit(self, X: Any, y: Any) -> Self:
        """Learn novel classes from a support set.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            A few samples of novel classes.
        y : array-like of shape (n_samples,)
            Labels, none of them a base class.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._restore_on_failure():
            self._check_parameters()
            X, y = validate_labeled(self, X, y)
            labels = as_labels(y)
            check_classes(labels)
            X, codes, classes = sort_samples(np.asarray(X), labels)
            base = self._check_base(X, classes)
            given = getattr(self, "random_state", 0)  # a peer without chance lacks the parameter
            seed = int(check_random_state(given).randint(2**31 - 1))
            vars(self).update(self._learn(Support(X, codes, classes, seed, base)))
            self.classes_ = classes
            return self

    def _check_base(self, X: np.ndarray, classes: np.ndarray) -> BaseSamples | None:
        base = self.base
        if base is None:
            return None
        if not isinstance(base, BaseSamples):
            raise TypeError(
                f"`base` must be BaseSamples or None; got {format_value(base)}. Pass "
                "BaseSamples(X_base, y_base)."
            )
        if base.n_features != X.shape[1]:
            raise ValueError(
                f"The support set must have the {base.n_features} features of the base samples; "
                f"got {X.shape[1]}. Use the same encoder for both."
            )
        both = np.intersect1d(base.classes, classes)
        if both.size:
            raise ValueError(
                f"Novel classes must not be among the base classes; {format_labels(both)} came in "
                "both. Leave them out of the base samples, or out of the support set."
            )
        return base

    def _learn(self, support: Support) -> dict[str, Any]:
        """Return the fitted attributes by name, arrays in the dtype of the samples."""
        raise NotImplementedError

    def _scores(self, X: np.ndarray) -> np.ndarray:
        """Return the scores of samples (rows) for the classes (columns)."""
        raise NotImplementedError

    def _score_blocks(self, form: Any, X: Array) -> Iterator[Array]:  # noqa: ARG002
        X = np.asarray(X)
        for rows in sample_blocks(X, copies=8):
            block = X[rows]
            # Weights keep the dtype of the support set, which may be another one.
            yield self._scores(block).astype(block.dtype, copy=False)


def center_of(support: Support) -> np.ndarray:
    """Return the mean that features are centered by: of the base samples, if there are any."""
    return np.zeros(support.X.shape[1]) if support.base is None else support.base.mean


def center_rows(X: np.ndarray, center: np.ndarray) -> np.ndarray:
    """Return features less the center, scaled to length 1, in the dtype of X.

    It is what `SimpleShot` compares, and the input of the trained peers.
    """
    return unit_rows(X - center.astype(X.dtype, copy=False))


def negative_distances(X: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """Return minus the squared distances of samples (rows) from centers (columns)."""
    centers = centers.astype(X.dtype, copy=False)
    origin = centers.mean(axis=0)  # far from the origin, digits of distances would be lost
    X, centers = X - origin, centers - origin
    squares = np.einsum("ij,ij->i", X, X)[:, None] + np.einsum("ij,ij->i", centers, centers)
    return 2 * X @ centers.T - squares
