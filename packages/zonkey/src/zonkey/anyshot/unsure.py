"""Answers that are not sure enough: a wanted precision instead of a threshold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..arrays import is_device_array, to_numpy
from ..constraints import require_memory
from ..inference.nodes import list_answers
from ..inference.scorer import Scorer
from ..labels import as_labels, format_labels, require_same_kind
from ..metrics import PrecisionThreshold, precision_threshold
from ..metrics.accuracy import check_same_length
from ..metrics.selective import choose_threshold
from ..tree import Tree


class UnsureMixin:
    """Thresholds of probabilities that are chosen by the precision of accepted answers."""

    state_: Any
    scorer_: Scorer
    reject_below: float | None
    reject_label: Any
    predict_proba: Callable[[Any], Any]
    _copy_with: Callable[..., Any]

    @property
    def precision_(self) -> PrecisionThreshold | None:
        """What `with_precision` has chosen; None if threshold or probabilities are others now."""
        chosen = self.state_.precision
        return chosen if chosen is not None and chosen.threshold == self.reject_below else None

    def with_precision(
        self,
        precision: float,
        X: Any = None,
        y: Any = None,
        *,
        certainty: float = 0.8,
        label: Any = None,
    ) -> Any:
        """Return a fitted copy whose accepted answers have a wanted precision.

        `predict` returns `label` for the others: those whose highest probability is below a
        threshold. The lowest one is taken at which labeled samples show the precision. In a tree of
        classes, `predict` answers as deep as it is sure instead, and a node above the true class is
        a right answer.

        Parameters
        ----------
        precision : float
            Wanted share of right answers among the accepted ones, between 0 and 1.
        X : array-like of shape (n_samples, n_features), default=None
            Labeled samples that were not in `fit`, drawn as those to classify: some hundred. Of
            classes that are no candidates, all answers are wrong. None: samples that `fit` has left
            out to choose parameters, if all candidates have some, and without a tree. These are
            like the training samples, and know nothing of samples of other classes.
        y : array-like of shape (n_samples,), default=None
            Labels, none of them an inner node of a tree.
        certainty : float, default=0.8
            How certain the precision should be, see `zonkey.metrics.precision_threshold`.
        label : label, default=None
            Label of rejected samples. None: as `reject_label`.

        Returns
        -------
        AnyShotClassifier
            The copy: `reject_below` is the threshold, and `precision_` says how it was chosen:
            precision, interval and coverage.
        """
        check_is_fitted(self)
        if (X is None) != (y is None):
            raise ValueError(
                f"Labeled samples need X and y; got {'y' if X is None else 'X'} alone. Pass both, "
                "or neither for samples that `fit` has left out."
            )
        if X is None:
            found = self._read_left_out(precision, certainty)
        else:
            require_memory(X)
            labels = self.scorer_.labels
            true = as_labels(to_numpy(y) if is_device_array(y) else y, "y")
            require_same_kind(y=true, candidates=labels)
            P, tree = to_numpy(self.predict_proba(X)), self.scorer_.tree
            if tree is None:
                answers, sure = labels[P.argmax(axis=1)], P.max(axis=1)
                found = precision_threshold(true, answers, sure, precision, certainty=certainty)
            else:
                found = _choose_in_tree(tree, P, true, precision, certainty)
        state = replace(self.state_, precision=found)
        label = self.reject_label if label is None else label
        return self._copy_with(state, reject_below=found.threshold, reject_label=label)

    def _read_left_out(self, precision: float, certainty: float) -> PrecisionThreshold:
        """Return the threshold that answers to samples show which `fit` has left out."""
        state, labels = self.state_, self.scorer_.labels
        left_out, temperature = state.choice.left_out, float(self.scorer_.temperature or 0.0)
        if left_out is None or state.refined is None or not state.refined.covers(labels):
            reason = "`fit` leaves some out if each candidate has several, best five or more"
        elif state.adapted is not None:
            reason = "`adapt` has changed the probabilities since"
        elif np.ptp(state.ratios_of(labels)):
            reason = "shares of classes change the probabilities"
        elif self.scorer_.tree is not None and len(self.scorer_.tree.inner):
            reason = "answers may be nodes of the tree, but those left out were classes"
        else:
            reason = left_out.explain_mismatch(temperature, len(labels))
        if left_out is None or reason is not None:
            raise ValueError(
                f"A precision needs labeled samples of this model; {reason}. Pass samples that "
                "were not in `fit`: X and y, or `held_out`."
            )
        return left_out.choose(precision, certainty)


def keep_precision(state: Any, before: Scorer, after: Scorer) -> Any:
    """Return a state that no longer tells a precision that was shown for other probabilities."""
    if state.precision is None or _answers_alike(before, after):
        return state
    return replace(state, precision=None)


def _answers_alike(a: Any, b: Any) -> bool:
    """Whether two scorers have the same probabilities of the same answers."""
    pairs = [(a.labels, b.labels), (a.form.centers, b.form.centers)]
    pairs += [(a.form.constants, b.form.constants)]
    same = all(np.array_equal(to_numpy(one), to_numpy(other)) for one, other in pairs)
    return same and a.temperature == b.temperature and a.tree == b.tree


def _choose_in_tree(
    tree: Tree, P: Any, true: Any, precision: float, certainty: float
) -> PrecisionThreshold:
    """Return the threshold at which answers, as deep as they are sure, have the precision."""
    check_same_length(true, P, "X")
    inner = np.intersect1d(true, tree.inner)
    if inner.size:
        raise ValueError(
            "Samples that show a precision must be labeled by classes without children; got "
            f"{format_labels(inner)}. Leave those samples out."
        )
    thresholds, right, n = list_answers(tree, P, true)
    return choose_threshold((thresholds, right, n, n), len(true), precision, certainty)
