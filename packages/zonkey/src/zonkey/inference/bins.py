"""Answers with bins: names for unions of classes, which may overlap and need not hold all."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from ..arrays import Array, namespace, sum_columns, to_numpy
from ..labels import as_labels, format_labels, format_value, require_same_kind
from ..streaming.accept import accept_chunks
from ..threads import LimitThreadsMixin
from .scorer import Rejection, labels_at


class BinClassifier(LimitThreadsMixin, ClassifierMixin, BaseEstimator):
    """A fitted classifier that answers with bins of its classes.

    The probability of a bin is the sum over its classes. Bins may overlap and need not hold every
    class, so probabilities of bins need not add up to 1.

    Parameters
    ----------
    model : estimator or Pipeline
        Fitted classifier with `predict_proba`.
    bins : mapping
        The classes of each bin, ``{bin: [label, ...]}``.
    reject_below : float, default=None
        `predict` returns `reject_label` if the highest probability of a bin is below this number.
    reject_label : label, default=None
        Label of rejected samples. None: "unknown" for text, -1 for numbers.

    Attributes
    ----------
    classes_ : ndarray of shape (n_bins,)
        Names of the bins, sorted.

    See Also
    --------
    AnyShotClassifier.with_bins : Makes one of a fitted model.
    Tree : Nodes that do not overlap, at several levels.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from zonkey import BinClassifier
    >>> model = GaussianNB().fit([[0], [1], [4], [5], [9], [8]], list("ccddoo"))
    >>> bins = {"animal": ["c", "d"], "plant": ["o"]}
    >>> BinClassifier(model, bins).predict([[2.4], [9.0]]).tolist()
    ['animal', 'plant']
    """

    def __init__(
        self, model: Any, bins: Any, reject_below: float | None = None, reject_label: Any = None
    ) -> None:
        self.model = model
        self.bins = bins
        self.reject_below = reject_below
        self.reject_label = reject_label

    def fit(self, X: Any = None, y: Any = None) -> Self:  # noqa: ARG002
        """Return the estimator; the model is fitted already.

        Parameters
        ----------
        X, y : None
            Ignored; present for API consistency.

        Returns
        -------
        BinClassifier
            The estimator itself.
        """
        check_is_fitted(self.model)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    @property
    def classes_(self) -> np.ndarray:
        """Names of the bins, sorted."""
        if not hasattr(self.bins, "items") or not self.bins:
            raise TypeError(
                "`bins` must be a nonempty mapping {bin: [label, ...]}; got "
                f"{format_value(self.bins)}. Pass a dict of lists."
            )
        return np.unique(as_labels([*self.bins], "Names of bins"))

    @property
    def members_(self) -> sparse.csr_array:
        """Which classes of the model each bin holds: 1 per pair, shape (n_bins, n_classes)."""
        check_is_fitted(self.model)
        names, labels = self.classes_, to_numpy(self.model.classes_)
        rows, columns = [], []
        for name, members in self.bins.items():
            below = np.unique(as_labels(members, f"Classes of the bin {format_value(name)}"))
            require_same_kind(bins=below, classes=labels)
            unknown = np.setdiff1d(below, labels)
            if unknown.size or not below.size:
                got = format_labels(unknown) if unknown.size else "none"
                raise ValueError(
                    f"A bin must hold classes that the model chooses from; {format_value(name)} "
                    f"holds {got}, and the classes are {format_labels(labels)}. Correct the bin."
                )
            columns += np.searchsorted(labels, below).tolist()
            rows += [int(np.searchsorted(names, name))] * len(below)
        return sparse.csr_array((np.ones(len(rows)), (rows, columns)), (len(names), len(labels)))

    @accept_chunks
    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each bin.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_bins)
            Sums of probabilities, columns in the order of `classes_`.
        """
        return sum_columns(self.model.predict_proba(X), self.members_)

    @accept_chunks
    def predict(self, X: Any) -> Array:
        """Predict the most probable bin of each sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Names of bins, or `reject_label` if no bin is probable enough.
        """
        P = self.predict_proba(X)
        xp, names = namespace(P), self.classes_
        predicted = labels_at(names, xp.argmax(P, axis=1))
        if self.reject_below is None:
            return predicted
        rejection = Rejection(self.reject_below, self.reject_label)
        return rejection.apply(predicted, xp.max(P, axis=1) < self.reject_below, names)

    def bins_of(self, labels: Any, answers: Any = None) -> np.ndarray:
        """Return a bin of each class, to compare with answers; "" or -1 for classes in none.

        Parameters
        ----------
        labels : array-like of shape (n,)
            Classes.
        answers : array-like of shape (n,), default=None
            Bins to return where they hold the class; else the smallest bin that does is returned.

        Returns
        -------
        ndarray of shape (n,)
            Names of bins.
        """
        names, labels, known = self.classes_, as_labels(labels), to_numpy(self.model.classes_)
        holds = self.members_.toarray() > 0
        sizes = holds.sum(axis=1)
        columns = np.minimum(np.searchsorted(known, labels), len(known) - 1)
        inside = holds[:, columns] & (known[columns] == labels)
        order = np.argsort(sizes, kind="stable")
        best = order[inside[order].argmax(axis=0)]
        found = np.where(inside.any(axis=0), names[best], "" if names.dtype.kind == "U" else -1)
        if answers is None:
            return found
        answers = as_labels(to_numpy(answers))
        rows = np.minimum(np.searchsorted(names, answers), len(names) - 1)
        right = (names[rows] == answers) & inside[rows, np.arange(len(labels))]
        return np.where(right, answers, found)
