"""The steps of `MultiLabelClassifier.fit`, which returns the fitted state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from ..anyshot.choice import JOINT_START, Point, learn_kernel, steps_of
from ..anyshot.evidence import Evidence, Regression
from ..anyshot.spaces import require_joint, share_along
from ..constraints import check_weights, chunks_of, plain_samples, validate_samples
from ..labels import format_labels, format_value
from ..parameters import check_parameters, is_auto
from ..preprocessing import FeatureNormalizer
from ..prototypes import Prototypes
from ..samples import require_scale
from ..streaming.priorities import row_priorities
from .choosing import LabelChoice, choose
from .learning import LabelNames, LearnedLabels, MarkedSamples, fit_preprocessing
from .marks import Marks, check_names, read_marks
from .settling import Common, WantedAnswers, match_number, settle, settle_names, usual_base
from .state import MultiLabelState

_MANY_LABELS, _LANDMARKS = 4000, 2000
_LEAST_LABELS = 3  # with prototype and samples, to tell a joint space from a separate one


def fit_state(model: Any, X: Any, Y: Any, sample_weight: Any) -> MultiLabelState:
    """Fit a model to samples with labels; return its state."""
    wanted, given, seed = _check_all(model)
    if chunks_of(X, in_memory=True) is not None:
        raise TypeError(
            "X must be in memory, because labels are learned from all samples many times; got "
            f"{type(X).__name__}. Pass an array of some of them."
        )
    X, marks = _check_samples(model, X, Y, given)
    weights = _check_weights(sample_weight, X)
    wide = marks.widen(check_names(marks.labels, given))
    is_asked = np.isin(wide.labels, marks.labels)
    samples = _sort_samples(MarkedSamples(X, wide, weights, is_asked), seed)
    shift = _find_shift(model.space, samples, given)
    names = _learn_names(given, shift, len(wide.labels), seed)
    auto = is_auto(model.preprocessing)
    transformer = None if auto else model.preprocessing
    choice = choose(samples, names, transformer, is_auto=auto, joint=shift is not None, seed=seed)
    fitted = fit_preprocessing(samples, choice.way, transformer)
    learned = LearnedLabels.learn(samples, fitted, names)
    settled, common = settle(samples, learned, names, choice, transformer, wanted, seed)
    seen = learned.evidence.counts > 0
    typical = learned.typical if seen.any() else usual_base(len(seen))
    return _start(learned, names, choice, wanted, typical).settle(settled, common)


def fit_names(model: Any, X: Any) -> MultiLabelState:
    """Learn from prototypes alone, in the space of the samples, or also from unlabeled samples."""
    wanted, given, _ = _check_all(model)
    require_joint(given, None)
    assert given is not None
    if len(given) == 1:  # names are compared with their mean, from which one does not differ
        raise ValueError(
            "Names alone need at least two labels to be compared; got "
            f"{format_labels(given.labels)}. Pass labels of samples, or prototypes of further ones."
        )
    Q = given.matrix.astype(np.float64)
    X = Q if X is None else validate_samples(model, plain_samples(X), reset=True)
    if X is Q:
        model.n_features_in_ = Q.shape[1]
    require_joint(given, X.shape[1])
    shift = X.mean(axis=0, dtype=np.float64) - Q.mean(axis=0)
    names = _learn_names(given, shift, len(given), 0)
    m = len(given)
    nothing = Marks(given.labels, sparse.csr_array((len(X), m)))
    samples = MarkedSamples(X, nothing, np.ones(len(X)), np.zeros(m, bool))
    transformer, choice = model.preprocessing, LabelChoice(None, None, strength=float("inf"))
    if is_auto(transformer):
        transformer = FeatureNormalizer(center=X is not Q)
    fitted = fit_preprocessing(samples, None, transformer)
    learned = LearnedLabels.learn(samples, fitted, names)
    if X is Q:  # prototypes alone may lie around another point than samples
        learned = replace(learned, mean=np.zeros_like(learned.mean))
    typical = usual_base(m)
    vars(learned)["base"] = np.full(m, typical)
    common = Common.usual(wanted)
    if X is not Q:
        common = match_number(learned, common, learned.prepare(X))
    settled = settle_names(learned, common, wanted)
    return _start(learned, names, choice, wanted, typical).settle(settled, common)


def _check_all(model: Any) -> tuple[WantedAnswers, Prototypes | None, int]:
    check_parameters(model)
    value = model.preprocessing
    if value is not None and not is_auto(value) and not hasattr(value, "transform"):
        raise TypeError(
            f'`preprocessing` must be a scikit-learn transformer, "auto" or None; got {value!r}. '
            "Use for instance FeatureNormalizer(power=0.5)."
        )
    is_number = not isinstance(model.threshold, str)
    if is_number and model.precision is not None:
        raise ValueError(
            '`threshold` must be "f1" with a wanted `precision`; got '
            f"{format_value(model.threshold)} and {format_value(model.precision)}. Pass one."
        )
    seed = check_random_state(model.random_state).randint(2**31 - 1)
    given = None if model.prototypes is None else Prototypes.coerce(model.prototypes)
    threshold = float(model.threshold) if is_number else None
    return WantedAnswers(threshold, model.precision, model.missing == "unknown"), given, seed


def _check_samples(model: Any, X: Any, Y: Any, given: Prototypes | None) -> tuple[Any, Marks]:
    if Y is None:
        read_marks(Y)
    X = validate_data(model, plain_samples(X), dtype=[np.float64, np.float32])
    require_scale(X)
    return X, read_marks(Y, len(X), None if given is None else given.labels)


def _check_weights(sample_weight: Any, X: np.ndarray) -> np.ndarray:
    weights = check_weights(sample_weight, X)
    return np.ones(len(X)) if weights is None else np.asarray(weights, np.float64)


def _sort_samples(samples: MarkedSamples, seed: int) -> MarkedSamples:
    """Return samples sorted by a hash of their values, copies with equal marks as one.

    So neither the order of samples nor copies instead of weights change anything.
    """
    marks, weights = samples.marks, samples.weights
    priorities = np.asarray(row_priorities(samples.X, seed))
    of_marks = _hash_rows(marks)
    used = np.flatnonzero(weights > 0)
    order = used[np.lexsort((of_marks[used], priorities[used]))]
    is_new = np.ones(len(order), bool)
    is_new[1:] = (priorities[order][1:] != priorities[order][:-1]) | (
        of_marks[order][1:] != of_marks[order][:-1]
    )
    place = np.cumsum(is_new) - 1
    rows = order[is_new]
    return replace(samples.take(rows), weights=np.bincount(place, weights[order]))


def _hash_rows(marks: Marks) -> np.ndarray:
    """Return a random sum of the labels of each sample."""
    rng = np.random.default_rng(0)
    keys = rng.random((2, len(marks.labels)))
    found = marks.matrix @ keys[0]
    return found if marks.unknown is None else found + 2 * (marks.unknown @ keys[1])


def _find_shift(space: str, samples: MarkedSamples, given: Prototypes | None) -> np.ndarray | None:
    """Return what places prototypes among raw samples, None in separate spaces.

    As for one class per sample, means of labels have to lie along their prototypes.
    """
    d = samples.X.shape[1]
    if space == "joint":
        require_joint(given, d)
    if given is None or space == "separate" or given.n_dimensions != d:
        return None
    labels, n = samples.marks.labels, samples.positives()
    used = np.isin(labels, given.labels) & (n > 0)
    if not used.any():
        return None if space == "auto" else _center(samples) - given.matrix.mean(axis=0)
    weighted = sparse.csr_array(samples.marks.matrix * samples.weights[:, None])[:, used]
    M = (weighted.T @ samples.X.astype(np.float64)) / n[used, None]
    Y = given.matrix[given.positions(labels[used])].astype(np.float64)
    lie_along = len(M) >= _LEAST_LABELS and share_along(M, Y, n[used]) >= 1
    if space == "auto" and not lie_along:
        return None
    return np.average(M, axis=0, weights=n[used]) - np.average(Y, axis=0, weights=n[used])


def _center(samples: MarkedSamples) -> np.ndarray:
    return samples.weights @ samples.X.astype(np.float64) / samples.n


def _learn_names(
    given: Prototypes | None, shift: np.ndarray | None, n_labels: int, seed: int
) -> LabelNames:
    """Return the map of prototypes, with the usual parameters of its kernel."""
    if given is None:
        return LabelNames()
    point = Point() if shift is None else JOINT_START
    steps = steps_of(point, {"preprocessing": None})
    Y = given.matrix.astype(np.float64)
    _, transformer, kernel = learn_kernel(Y, steps)
    landmarks = _LANDMARKS if n_labels > _MANY_LABELS else None
    parts = transformer, kernel, float(point.ridge), landmarks, seed
    return LabelNames(Regression(given, given.labels, *parts), shift)


def _start(
    learned: LearnedLabels,
    names: LabelNames,
    choice: LabelChoice,
    wanted: WantedAnswers,
    typical: float,
) -> MultiLabelState:
    evidence: Evidence = learned.evidence
    m, d = evidence.sums.shape
    return MultiLabelState(
        evidence=evidence,
        totals=learned.totals,
        mean=learned.mean,
        preprocessing=learned.preprocessing,
        regression=names.regression,
        shift=names.shift,
        choice=choice,
        common=Common(),
        typical=typical,
        W=np.zeros((m, d)),
        b=np.zeros(m),
        thresholds=np.zeros(m),
        chances=np.ones(m),
        scales=np.ones(m),
        wanted_threshold=wanted.threshold,
        wanted_precision=wanted.precision,
        is_unknown=wanted.is_unknown,
    )
