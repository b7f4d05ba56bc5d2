"""How often classes occur: known shares, or those that unlabeled samples tell.

Scores s_j compare classes as if each were equally frequent. With shares p_j of K candidates and the
temperature T, Bayes' rule adds T log(K p_j): softmax(s / T) becomes p_j exp(s_j / T) / sum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import check_is_fitted

from ..arrays import is_device_array, to_numpy
from ..constraints import require_memory
from ..inference.scorer import Scorer
from ..labels import as_labels, format_labels, format_value, require_same_kind
from ..parameters import check_option
from ..persistence.checks import require_labels, require_shape, require_that
from .posterior import SHARE_SMOOTHING, likely_shares

_EVEN, BALANCED = "uniform", "balanced"
_TOLERANCE = 0.01  # of the sum of shares, which users round
_MOST_NUMBERS = 2**25  # probabilities that are held to estimate shares


@dataclass(frozen=True, eq=False)
class ClassValues:
    """A positive number of each class; classes that are not named have 1."""

    labels: np.ndarray  # sorted
    values: np.ndarray

    def __zonkey_validate__(self) -> None:
        require_labels("labels", self.labels)
        require_shape("values", self.values, len(self.labels))
        fits = bool((np.isfinite(self.values) & (self.values >= 0)).all())
        require_that(fits, "Numbers of classes must not be negative.")

    def of(self, labels: np.ndarray) -> np.ndarray:
        """Return the numbers of some classes."""
        if not len(self.labels):
            return np.ones(len(labels))
        places = np.minimum(np.searchsorted(self.labels, labels), len(self.labels) - 1)
        return np.where(self.labels[places] == labels, self.values[places], 1.0)


def read_priors(given: Any, candidates: np.ndarray) -> ClassValues | None:
    """Return shares of candidates relative to even ones; None if none are given."""
    if given is None:
        return None
    n, keys = len(candidates), getattr(given, "keys", None)
    if isinstance(given, str):
        check_option("priors", given, (_EVEN, None))
        return ClassValues(candidates, np.ones(n))
    if keys is None:
        shares = np.asarray(to_numpy(given) if is_device_array(given) else given, object)
        if shares.shape != (n,):
            raise ValueError(
                f"`priors` must have a share for each of the {n} candidates; got shape "
                f"{shares.shape}. Pass them in the order of `classes_`, or by label."
            )
        shares = _read_numbers("priors", shares)
    else:
        shares = _fill_shares(dict(given), candidates)
    if abs(shares.sum() - 1) > _TOLERANCE:
        raise ValueError(
            f"`priors` must sum to 1; they sum to {shares.sum():.4g}. Divide them by their sum."
        )
    if not (shares > 0).all():
        raise ValueError(
            "`priors` must be above 0; got none for the class "
            f"{format_labels(candidates[~(shares > 0)])}. Leave out classes that do not occur: "
            "with_candidates."
        )
    return ClassValues(candidates, shares / shares.mean())


def _read_numbers(name: str, values: Any) -> np.ndarray:
    try:
        found = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        found = np.full(1, np.nan)
    if not (np.isfinite(found) & (found >= 0)).all():
        raise ValueError(
            f"`{name}` must be numbers of classes, not below 0; got {format_value(values)}. Pass "
            "{label: number}."
        )
    return found


def _fill_shares(given: Mapping[Any, Any], candidates: np.ndarray) -> np.ndarray:
    """Return the shares of all candidates: those that are not named share the rest evenly."""
    labels = _read_names("priors", given, candidates)
    shares = np.full(len(candidates), np.nan)
    shares[np.searchsorted(candidates, labels)] = _read_numbers("priors", [*given.values()])
    rest = np.isnan(shares)
    if rest.any():
        shares[rest] = max(0.0, 1 - np.nansum(shares)) / rest.sum()
    return shares


def _read_names(name: str, given: Mapping[Any, Any], known: np.ndarray) -> np.ndarray:
    """Return the labels of a mapping; refuse those that are not known."""
    labels = as_labels([*given], f"Labels of `{name}`")
    require_same_kind(**{name: labels, "candidates": known})
    missing = np.setdiff1d(labels, known)
    if missing.size:
        raise ValueError(
            f"`{name}` must name candidates; {format_labels(missing)} is none of the {len(known)}: "
            f"{format_labels(known)}. Correct the label."
        )
    return labels


def split_kinds(seen: Any, is_seen: np.ndarray, ratios: np.ndarray) -> np.ndarray:
    """Return ratios under which classes with samples have together this share."""
    if isinstance(seen, bool) or not isinstance(seen, Real) or not 0 < float(seen) < 1:
        raise ValueError(
            f"`seen` must be a share of samples between 0 and 1; got {format_value(seen)}. Pass "
            "0.9, for example."
        )
    _require_both(is_seen)
    of_seen, of_unseen = ratios[is_seen].sum(), ratios[~is_seen].sum()
    found = np.where(is_seen, seen / of_seen, (1 - seen) / of_unseen) * ratios
    return found / found.mean()


def _require_both(is_seen: np.ndarray) -> None:
    if is_seen.all() or not is_seen.any():
        kind = "with" if is_seen.all() else "without"
        raise ValueError(
            "Shares of seen and unseen classes need candidates of both kinds; got "
            f'{len(is_seen)}, all {kind} samples. Use candidates="all", or shares of classes.'
        )


def read_class_weight(given: Any, labels: np.ndarray) -> Any:
    """Return "balanced", None, or the weights of classes; refuse classes that are not known."""
    if given is None or isinstance(given, str):
        check_option("class_weight", given, (BALANCED, None))
        return given
    if not hasattr(given, "keys"):
        raise TypeError(
            '`class_weight` must be "balanced", None or {label: weight}; got '
            f"{format_value(given)}. Pass a weight by label."
        )
    given = dict(given)
    values = _read_numbers("class_weight", [*given.values()])
    if not (values > 0).all():
        raise ValueError(
            f"`class_weight` must be above 0; got {values.min():g}. Leave out samples that do not "
            "count."
        )
    named = _read_names("class_weight", given, labels)
    weights = dict(zip(named.tolist(), values.tolist(), strict=True))
    return ClassValues(labels, compute_class_weight(weights, classes=labels, y=labels))


def find_masses(class_weight: Any, labels: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return what classes with these numbers of samples count, relative to their mean."""
    masses = np.ones(len(labels))
    if class_weight is None:
        masses = np.asarray(counts, np.float64)
    elif not isinstance(class_weight, str):
        masses = counts * class_weight.of(labels)
    return masses / masses.mean() if len(masses) else masses


def store_values(given: Any) -> Any:
    """Return a mapping of classes to numbers in a form that a file holds; see `restore_values`."""
    if isinstance(given, str) or given is None:
        return given
    if not hasattr(given, "keys"):
        return np.asarray(to_numpy(given)).tolist()
    given = dict(given)  # of a Series, whose iterator has its values
    return {"labels": as_labels([*given]), "values": np.asarray([*given.values()], float)}


def restore_values(stored: Any) -> Any:
    """Return what `store_values` was given."""
    if not isinstance(stored, Mapping):
        return stored
    return dict(zip(stored["labels"].tolist(), stored["values"].tolist(), strict=True))


def _list_shares(state: Any) -> dict[Any, float]:
    """Return the shares of the candidates by label."""
    labels = state.find_candidates()
    ratios = state.ratios_of(labels)
    return dict(zip(labels.tolist(), (ratios / ratios.sum()).tolist(), strict=True))


class PriorsMixin:
    """Shares of the candidates among the samples to classify."""

    state_: Any
    priors: Any
    scorer_: Scorer
    _copy_with: Callable[..., Any]
    _validate: Callable[[Any], Any]

    def _copy_among(self, state: Any, **parameters: Any) -> Any:
        """Return a copy with other candidates, whose parameter `priors` are their shares."""
        if state.priors is not None and not isinstance(self.priors, str):
            parameters["priors"] = _list_shares(state)
        return self._copy_with(state, **parameters)

    @property
    def priors_(self) -> np.ndarray:
        """Shares of the candidates that probabilities assume, in the order of `classes_`."""
        ratios = self.state_.ratios_of(self.scorer_.labels)
        return ratios / ratios.sum()

    def with_priors(self, priors: Any, *, seen: float | None = None) -> Any:
        """Return a fitted copy for samples of which classes have other shares.

        Nothing is learned: probabilities follow Bayes' rule, and predictions with them.

        Parameters
        ----------
        priors : mapping, array-like of shape (n_candidates,), "uniform" or None
            Shares as for the parameter `priors`, for example of `estimate_priors`.
        seen : float, default=None
            Share of all samples that are of classes with samples; `priors` then compare classes of
            the same kind. None: as `priors` say.

        Returns
        -------
        AnyShotClassifier
            The copy. Its parameter `priors` are the shares.
        """
        check_is_fitted(self)
        labels, state = self.scorer_.labels, self.state_
        found = read_priors(priors, labels)
        if seen is not None:
            ratios = state.ratios_of(labels) if found is None else found.values
            ratios = split_kinds(seen, np.isin(labels, state.seen), ratios)
            found = ClassValues(labels, ratios)
        state = replace(state, priors=found)
        return self._copy_with(state, priors=priors if seen is None else _list_shares(state))

    def estimate_priors(self, X: Any, *, by: str = "class") -> np.ndarray:
        """Estimate the shares of the candidates from samples without labels.

        They are the most likely ones under the probabilities of the model, found by expectation
        maximization [1]_. Twenty samples of each class are added (of each kind), so that few
        samples move shares little. A model that confuses classes cannot tell their shares: with
        less than about ten labeled samples per class, probabilities are better without them, unless
        shares differ much.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples without labels, of the candidates only: those to classify, or drawn as these
            are. Of many samples and classes, evenly spaced ones are used.
        by : {"class", "kind"}, default="class"
            "kind" estimates only how many are of classes with samples, and how many of classes
            without: those of a kind have even shares. It needs far fewer samples.

        Returns
        -------
        ndarray of shape (n_candidates,)
            Shares in the order of `classes_`, to be passed to `with_priors`.

        References
        ----------
        .. [1] M. Saerens, P. Latinne, C. Decaestecker. Adjusting the outputs of a classifier to new
           a priori probabilities. Neural Computation 14, 2002.
        """
        check_option("by", by, ("class", "kind"))
        require_memory(X)
        X = self._validate(X)
        state, labels = self.state_, self.scorer_.labels
        groups = np.arange(len(labels))
        if by == "kind":
            is_seen = np.isin(labels, state.seen)
            _require_both(is_seen)
            groups = is_seen.astype(np.intp)
        even = ClassValues(labels, np.ones(len(labels)))
        scorer = replace(state, priors=even).make_scorer()
        step = -(-X.shape[0] * len(labels) // _MOST_NUMBERS)
        blocks = [to_numpy(scores) for scores in scorer.finite_blocks(X[::step, :])]
        return likely_shares(np.concatenate(blocks) / scorer.temperature, groups, SHARE_SMOOTHING)
