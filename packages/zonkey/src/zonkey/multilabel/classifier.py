"""MultiLabelClassifier: any number of labels per sample, from a name alone to many samples."""

from __future__ import annotations

import copy
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from ..arrays import namespace, to_numpy
from ..constraints import check_top
from ..inference.predict import ExplainedMixin
from ..inference.scorer import Scorer, best_columns, labels_at
from ..labels import format_labels
from ..parameters import Constraint, Interval, Options
from ..persistence.checks import require_that
from ..persistence.model import Learned
from ..prototypes import Prototypes
from ..streaming.accept import accept_chunks, as_chunks
from .calibrating import sigmoid
from .fitting import fit_names, fit_state
from .marks import check_separable, join_marks, read_marks
from .state import MultiLabelState


class MultiLabelClassifier(  # pyright: ignore[reportIncompatibleVariableOverride]
    ExplainedMixin, BaseEstimator
):
    """Several labels per sample, zero-shot, few-shot and many-shot, with a probability each.

    Features are preprocessed as by `AnyShotClassifier`. There, the center of a label has a prior
    that follows from its prototype and is worth some positive samples. Logistic regression, one per
    label, starts at the linear discriminant of that center and is pulled back to it: the fewer
    positives, the more the name decides. Each label has a calibrated probability and a threshold of
    its own, those of rare labels near common ones.

    Parameters
    ----------
    prototypes : mapping, DataFrame or Prototypes, default=None
        Semantic vectors of labels, with or without positive samples, as for `AnyShotClassifier`.
        Labels that only prototypes name are columns of the answers, too.
    space : {"auto", "joint", "separate"}, default="auto"
        Whether samples and prototypes are vectors of one space, as those of one encoder of texts.
        With "joint", `fit` needs no samples. "auto": joint if they are of equal length and the
        means of labels lie along their prototypes.
    preprocessing : transformer, "auto" or None, default="auto"
        Transformer of features, fitted on the training samples without their labels. "auto"
        chooses the shrinkage of a whitening of what labels leave unexplained. None: features are
        used as they are.
    missing : {"negative", "unknown"}, default="negative"
        What it means that a label is not marked: that it does not apply, or that nobody knows. With
        "unknown", the probability to be marked is divided by the chance that a true label is
        marked, which is estimated on marked samples that were left out. It holds if chance alone
        decides which true labels are marked.
    threshold : {"f1"} or float, default="f1"
        Probability in [0, 1] above which a label is predicted. "f1": for each label the one of the
        highest F1 on samples that were left out; few positives move it little from that of typical
        labels.
    precision : float, default=None
        Wanted share, in (0, 1], of right predictions of each label: the lowest threshold that
        reaches it on samples that were left out. A label that never reaches it is not predicted
        below a probability of 0.999. With too few samples to leave some out, it is the threshold.
    random_state : int, RandomState or None, default=0
        Seed of what is chosen of very many samples or labels.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        All labels, sorted: the columns of all answers.
    seen_classes_ : ndarray
        Labels with positive samples.
    unseen_classes_ : ndarray
        Labels that only their prototypes describe.
    prototypes_ : Prototypes or None
        Prototypes of the labels that have one.
    thresholds_ : ndarray of shape (n_labels,)
        Probabilities from which on labels are predicted.
    chances_ : ndarray of shape (n_labels,)
        Estimated chances that a true label is marked; 1 with ``missing="negative"``.
    preprocessing_ : transformer or None
        Fitted transformer of features.
    best_params_ : dict
        What was chosen: power, shrinkage, the worth of a prior in positive samples, the trust in
        what prototypes say of labels with samples, the scale of the discriminants, and the strength
        of the pull to them.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if `X` has names that are all strings.

    See Also
    --------
    AnyShotClassifier : One class per sample.
    zonkey.evaluate : Measures, with intervals, also of several labels.

    Notes
    -----
    A score is the log odds of a label less those of its threshold, so it is positive where the
    label is predicted. Labels are fitted in blocks: memory grows with the number of labels times
    that of features, and time with that of samples as well. 10,000 labels with prototypes, 5,000
    samples and 384 features took 2 GB and 36 s of one core; a weak pull to the discriminants takes
    several times as long.

    Examples
    --------
    >>> import numpy as np
    >>> from zonkey import MultiLabelClassifier
    >>> rng = np.random.default_rng(0)
    >>> Y = rng.random((60, 2)) < 0.5
    >>> X = Y @ [[3.0, 0.0, 0.0], [0.0, 3.0, 0.0]] + rng.normal(size=(60, 3))
    >>> labels = [[name for name, on in zip(("cheap", "fast"), row) if on] for row in Y]
    >>> model = MultiLabelClassifier(preprocessing=None).fit(X, labels)
    >>> model.predict([[3.0, 3.0, 0.0], [0.0, 3.0, 0.0]])
    array([[1, 1],
           [0, 1]])
    >>> model.predict_sets([[3.0, 3.0, 0.0], [0.0, 3.0, 0.0]])
    [('cheap', 'fast'), ('fast',)]
    """

    __constraints__: ClassVar[dict[str, Constraint]] = {
        "space": Options("auto", "joint", "separate"),
        "missing": Options("negative", "unknown"),
        "threshold": Interval(0, 1, also=("f1",)),
        "precision": Interval(0, 1, open_below=True, also=(None,)),
    }

    __zonkey_fields__ = ("_state",)

    n_features_in_: int
    _state: MultiLabelState
    _scorer: Scorer

    def __init__(
        self,
        prototypes: Any = None,
        *,
        space: str = "auto",
        preprocessing: Any = "auto",
        missing: str = "negative",
        threshold: Any = "f1",
        precision: float | None = None,
        random_state: Any = 0,
    ) -> None:
        self.prototypes = prototypes
        self.space = space
        self.preprocessing = preprocessing
        self.missing = missing
        self.threshold = threshold
        self.precision = precision
        self.random_state = random_state

    def fit(self, X: Any = None, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from samples with their labels, or in a joint space from names alone.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples, in memory. With ``space="joint"`` and without labels, samples tell
            only how far they lie from the prototypes; None compares by cosines.
        y : array-like or sparse matrix of shape (n_samples, n_labels), or list of n_samples
            Indicator matrix of 0 and 1, with NaN or -1 where nobody knows; the columns of a
            DataFrame are the labels, those of other matrices are numbered from 0. Or a list of
            sets, lists or tuples of labels, or one text ``a|b`` per sample, "" without any.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples: 2 counts as two samples, 0 as none. None weights all equally.

        Returns
        -------
        MultiLabelClassifier
            The fitted estimator.
        """
        if self.space == "joint" and y is None and sample_weight is None:
            self._settle(fit_names(self, X))
        else:
            self._settle(fit_state(self, X, y, sample_weight))
        return self

    def with_classes(self, prototypes: Any) -> Self:
        """Return a fitted copy that also knows further labels, by their prototypes.

        Parameters
        ----------
        prototypes : mapping, DataFrame or Prototypes
            Prototypes of labels that are not known yet.

        Returns
        -------
        MultiLabelClassifier
            The copy.
        """
        check_is_fitted(self)
        other = copy.copy(self)
        state = self._state.add_labels(Prototypes.coerce(prototypes))
        other.prototypes = state.prototypes
        other._settle(state)
        return other

    @accept_chunks
    def predict(self, X: Any) -> np.ndarray:
        """Predict which labels apply to each sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            1 where a label applies, else 0; columns in the order of `classes_`.
        """
        return (self.decision_function(X) > 0).astype(int)

    @accept_chunks
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each label, independent of the others.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            Probabilities, columns in the order of `classes_`.
        """
        X, scorer = self._validate(X), self.scorer_
        return namespace(X).concat([scorer.probabilities(S) for S in scorer.finite_blocks(X)])

    @accept_chunks
    def decision_function(self, X: Any) -> np.ndarray:
        """Return the log odds of each label less those of its threshold.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            Scores, positive where a label is predicted.
        """
        X = self._validate(X)
        return namespace(X).concat(list(self.scorer_.finite_blocks(X)))

    @accept_chunks
    def predict_top(self, X: Any, k: int | None = None) -> np.ndarray:
        """Return the `k` most probable labels of each sample, best first.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Samples.
        k : int, default=None
            Number of labels. None: five, or all of them if there are fewer.

        Returns
        -------
        ndarray of shape (n_samples, k)
            Labels in descending order of their probabilities, predicted or not.
        """
        X, scorer = self._validate(X), self.scorer_
        k = check_top(k, len(scorer.labels))
        blocks = (scorer.probabilities(S) for S in scorer.finite_blocks(X))
        found = namespace(X).concat([best_columns(P, k) for P in blocks])
        return to_numpy(labels_at(scorer.labels, found))

    def predict_sets(self, X: Any) -> list[tuple[Any, ...]]:
        """Predict the labels of each sample as a tuple.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Samples.

        Returns
        -------
        list of tuple
            The labels that apply, sorted; empty where none does.
        """
        names = self.classes_.tolist()
        return [tuple(names[j] for j in np.flatnonzero(row)) for row in self.predict(X)]

    def predict_texts(self, X: Any) -> np.ndarray:
        """Predict the labels of each sample as one text.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            The labels that apply, such as "a|b"; empty text where none does.
        """
        check_separable(self.classes_, "Labels")
        return np.asarray([join_marks(names) for names in self.predict_sets(X)], dtype=str)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the share of samples all of whose labels are right, as everywhere in scikit-learn.

        That is a hard measure: use `zonkey.evaluate` for F1, average precision and more.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples, n_labels), or list of n_samples
            True labels, in any form that `fit` takes.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples.

        Returns
        -------
        float
            Subset accuracy.
        """
        check_is_fitted(self)
        if as_chunks(X) is not None and not isinstance(X, np.ndarray):
            raise TypeError(
                f"X must be in memory to be scored; got {type(X).__name__}. Pass arrays."
            )
        predicted = self.predict(X)
        truth = self.read_labels(y)
        if truth.min() < 0:
            raise ValueError(
                f"y must be known to be scored; {(truth < 0).sum()} of {truth.size} entries are "
                "NaN or -1. Leave these samples out, or use zonkey.evaluate."
            )
        return float(accuracy_score(truth, predicted, sample_weight=sample_weight))

    def read_labels(self, y: Any) -> np.ndarray:
        """Return true labels, in any form that `fit` takes, as an indicator matrix.

        Parameters
        ----------
        y : array-like of shape (n_samples, n_labels), or list of n_samples
            Labels of samples, all of which must be known to the model. An indicator matrix without
            names has the columns of `classes_`.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            1 where a label applies, -1 where nobody knows, else 0; columns in the order of
            `classes_`.
        """
        classes = to_numpy(self.classes_)
        marks = read_marks(y, known=classes)
        others = np.setdiff1d(marks.list_used(), classes)
        if others.size:
            raise ValueError(
                f"Labels must be known to the model; got {format_labels(others)}. Add them by "
                "with_classes, or leave them out."
            )
        return marks.widen(classes).truth()

    @property
    def state_(self) -> MultiLabelState:
        """Everything that was learned."""
        check_is_fitted(self)
        return self._state

    @property
    def scorer_(self) -> Scorer:
        """Everything that prediction reads."""
        check_is_fitted(self)
        return self._scorer

    @property
    def classes_(self) -> np.ndarray:  # pyright: ignore[reportIncompatibleVariableOverride]
        """All labels, sorted."""
        return self.scorer_.labels

    @property
    def seen_classes_(self) -> np.ndarray:
        """Labels with positive samples."""
        return self.state_.seen

    @property
    def unseen_classes_(self) -> np.ndarray:
        """Labels that only their prototypes describe."""
        return self.state_.unseen

    @property
    def prototypes_(self) -> Prototypes | None:
        """Prototypes of the labels that have one."""
        return self.state_.prototypes

    @property
    def thresholds_(self) -> np.ndarray:
        """Probabilities from which on labels are predicted."""
        state = self.state_
        return np.minimum(1.0, sigmoid(state.thresholds) / state.chances)

    @property
    def chances_(self) -> np.ndarray:
        """Estimated chances that a true label is marked."""
        return self.state_.chances

    @property
    def preprocessing_(self) -> Any:
        """Fitted transformer of features."""
        return self.state_.preprocessing

    @property
    def best_params_(self) -> dict[str, Any]:
        """What was chosen."""
        choice = self.state_.choice
        names = ("power", "shrinkage", "worth", "trust", "scale", "strength")
        return {name: getattr(choice, name) for name in names}

    def __sklearn_is_fitted__(self) -> bool:
        return "_scorer" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.multi_class = False
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        return tags

    def __zonkey_learned__(self) -> Learned:
        evidence = self.state_.evidence
        n = float(self.state_.totals.max()) if evidence.counts.any() else 0.0
        return Learned(evidence.sums, self.state_.seen, n, self._state, self._state)

    def __zonkey_validate__(self) -> None:
        """Set what prediction reads; parts must be of one space."""
        self._settle(self._state)
        if self._state.preprocessing is None:
            fits = self._state.W.shape[1] == self.n_features_in_
            require_that(fits, "Labels and samples must have as many features.")

    def _settle(self, state: MultiLabelState) -> None:
        self._scorer = state.make_scorer()
        self._state = state
