"""The contract checks themselves: each one catches an estimator that breaks what it is about."""

import sys
from functools import partial, wraps

import numpy as np
import pytest
from scipy.special import softmax

from zonkey import ZeroShotClassifier
from zonkey.testing import parametrize_with_zero_shot_checks, zero_shot_checks


class Fast(ZeroShotClassifier):
    """Keeps the contract; the others differ from it in one point each."""

    def _synthesizes(self):
        return False

    def predict_proba(self, X):
        return softmax(np.concatenate(list(self.scorer_.blocks(self._validate(X)))), axis=1)

    def moved(self, by):
        """Move the projection after a fit, and what is predicted with it."""
        self.projection_ = self.projection_ + by
        self._set_known(self.prototypes_, self.seen_classes_)
        return self


class ChangesSamples(Fast):
    def fit(self, X, y):
        super().fit(X, y)
        X *= 2
        return self


class ChangesAParameter(Fast):
    def fit(self, X, y):
        self.rho = 0.25
        return super().fit(X, y)


class Remembers(Fast):
    def embed(self, X):
        self.last_ = X
        return super().embed(X)


class ChangesNewSamples(Fast):
    def predict(self, X):
        labels = super().predict(X)
        X += 1
        return labels


class HidesItsCandidates(Fast):
    def with_candidates(self, candidates):
        other = super().with_candidates(candidates)
        other.candidates = self.candidates
        return other


class StartsFromItsLastFit(Fast):
    def fit(self, X, y):
        before = getattr(self, "projection_", 0)
        return super().fit(X, y).moved(0.01 * before)


class ForgetsInPickles(Fast):
    def __setstate__(self, state):
        super().__setstate__(state)
        self.moved(-2 * self.projection_)


class TwoColumns(Fast):
    def decision_function(self, X):
        scores = super().decision_function(X)
        return scores if scores.ndim == 2 else np.stack([-scores, scores], axis=1)


class LeavesTiesToChance(Fast):
    def predict_top(self, X, k=5):
        top = np.argpartition(-self.decision_function(X), k - 1, axis=1)[:, :k]
        return self.classes_[top]


class HidesOneOfTwo(Fast):
    def predict_proba(self, X):
        probabilities = super().predict_proba(X)
        return probabilities[:, 1] if len(self.classes_) == 2 else probabilities


class Penalizes(Fast):
    """Subtracts another penalty than the one it was given."""

    factor_of_seen, factor_of_unseen = 1.0, 0.0

    def decision_function(self, X):
        is_seen = np.isin(self.classes_, self.seen_classes_)
        factors = np.where(is_seen, self.factor_of_seen - 1, self.factor_of_unseen)
        return super().decision_function(X) - self.seen_penalty_ * factors


class WithWorth(Penalizes):
    """Keeps the contract of estimators with a parameter `worth`: half of the penalty is enough."""

    factor_of_seen = 0.5

    def __init__(self, prototypes=None, *, candidates="unseen", seen_penalty=0.0, worth=1.0):
        super().__init__(prototypes, candidates=candidates, seen_penalty=seen_penalty)
        self.worth = worth

    def fit(self, X, y):
        known = np.isin(y, list(self.prototypes))
        if known.any() and not known.all():
            described = np.stack([self.prototypes[label] for label in y[known]])
            map_back = np.linalg.lstsq(X[known], described)[0]
            guesses = {label: X[y == label].mean(axis=0) @ map_back for label in set(y[~known])}
            self.prototypes = {**self.prototypes, **guesses}
        return super().fit(X, y)


class DropsUnknownLabelsWithWorth(WithWorth):
    def fit(self, X, y):
        known = np.isin(y, list(self.prototypes))
        return super().fit(X[known], y[known])


class NeedsNoPrototypeWithWorth(WithWorth):
    def fit(self, X, y):
        if not np.isin(y, list(self.prototypes)).any():
            return self
        return super().fit(X, y)


def penalizing(kind, of_seen, of_unseen):
    """Return a class that multiplies its penalty by these factors."""
    factors = {"factor_of_seen": of_seen, "factor_of_unseen": of_unseen}
    return type(f"{kind.__name__}By{of_seen}And{of_unseen}", (kind,), factors)


class TakesAnyPenalty(Fast):
    def fit(self, X, y):
        if isinstance(self.seen_penalty, str) or not np.isfinite(self.seen_penalty):
            self.seen_penalty = 0.0
        return super().fit(X, y)


class LearnsAnew(Fast):
    def with_classes(self, prototypes):
        wider = super().with_classes(prototypes)
        wider.projection_ = 1.01 * wider.projection_
        return wider


class AcceptsAClassTwice(Fast):
    def with_classes(self, prototypes):
        return (
            self if set(prototypes) <= set(self.prototypes_) else super().with_classes(prototypes)
        )


class DropsUnknownLabels(Fast):
    def fit(self, X, y):
        known = np.isin(y, list(self.prototypes))
        return super().fit(X[known], np.asarray(y)[known])


class ConvertsLabels(Fast):
    def fit(self, X, y):
        if np.asarray(y).dtype.kind == "i":
            y = np.take(sorted(self.prototypes), y)
        return super().fit(X, y)


def differing(method, changed):
    """Return a class of which one method is `changed`, a function of the model and the original."""
    original = getattr(Fast, method)

    @wraps(original)
    def other(self, *args, **options):
        return changed(self, partial(original, self), *args, **options)

    return type(f"Other{method}", (Fast,), {method: other})


DIFFERENCES = [
    # A check, a method, and what it does in place of the original.
    ("inference_changes_nothing", "project", lambda _, project, Y: project(Y) + draw()),
    (
        "parameters_wait_for_refit",
        "decision_function",
        lambda m, scores, X: scores(X) + m.seen_penalty_ - m.seen_penalty,
    ),
    (
        "parameters_wait_for_refit",
        "predict",
        lambda model, _, X: Fast.predict(model.with_candidates(model.candidates), X),
    ),
    (
        "predicts_candidates_only",
        "predict",
        lambda model, _, X: np.full(len(X), model.seen_classes_[0]),
    ),
    ("with_candidates_equals_fit", "with_candidates", lambda model, *_: model),
    ("label_types", "predict", lambda _, predict, X: predict(X).astype(str)),
    (
        "order_does_not_matter",
        "fit",
        lambda _, fit, X, y: fit(X, y).moved(0.01 * np.asarray(X)[0][:, None]),
    ),
    (
        "order_does_not_matter",
        "fit",
        lambda model, fit, X, y: fit(X, y).moved(0.01 * next(iter(model.prototypes.values()))),
    ),
    ("same_seed_same_model", "fit", lambda _, fit, X, y: fit(X, y).moved(0.001 * draw())),
    ("float32", "fit", lambda _, fit, X, y: fit(np.asarray(X, np.float64), y)),
    ("decision_function", "decision_function", lambda _, scores, X: -scores(X)),
    ("predict_top", "predict_top", lambda _, top, X, k=5: top(X, k)[:, ::-1]),
    ("predict_proba", "predict_proba", lambda _, proba, X: 2 * proba(X)),
    ("predict_proba", "predict_proba", lambda _, proba, X: proba(X)[:, ::-1]),
    ("predict_proba", "predict_proba", lambda _, proba, X: proba(X).astype(np.float64)),
    (
        "unseen_accuracy",
        "predict",
        lambda model, _, X: model.classes_[np.arange(len(X)) % len(model.classes_)],
    ),
    ("non_finite_refused", "fit", lambda _, fit, X, y: fit(fill_gaps(X), y)),
    ("non_finite_refused", "predict", lambda _, predict, X: predict(fill_gaps(X))),
]


def draw():
    return np.random.default_rng().normal()


def fill_gaps(X):
    return np.nan_to_num(X, posinf=0, neginf=0)


BREACHES = [
    *((differing(method, changed), f"check_{name}") for name, method, changed in DIFFERENCES),
    (ChangesSamples, "check_fit_leaves_inputs_untouched"),
    (ChangesAParameter, "check_fit_leaves_inputs_untouched"),
    (Remembers, "check_inference_changes_nothing"),
    (ChangesNewSamples, "check_inference_changes_nothing"),
    (HidesItsCandidates, "check_with_candidates_equals_fit"),
    (StartsFromItsLastFit, "check_same_seed_same_model"),
    (ForgetsInPickles, "check_clone_and_pickle"),
    (TwoColumns, "check_decision_function"),
    (LeavesTiesToChance, "check_predict_top"),
    (HidesOneOfTwo, "check_predict_proba"),
    # No penalty, a bonus, half of it, and one for all classes; of those with `worth`, twice of it.
    *(
        (penalizing(*factors), "check_seen_penalty")
        for factors in [
            (Penalizes, 0.0, 0.0),
            (Penalizes, -1.0, 0.0),
            (Penalizes, 0.5, 0.0),
            (Penalizes, 1.0, 1.0),
            (WithWorth, 0.0, 0.0),
            (WithWorth, 2.0, 0.0),
            (WithWorth, 0.5, 0.5),
        ]
    ),
    (TakesAnyPenalty, "check_seen_penalty"),
    (LearnsAnew, "check_with_classes"),
    (AcceptsAClassTwice, "check_with_classes"),
    (DropsUnknownLabels, "check_bad_labels_refused"),
    (ConvertsLabels, "check_bad_labels_refused"),
    (DropsUnknownLabelsWithWorth, "check_bad_labels_refused"),
    (NeedsNoPrototypeWithWorth, "check_bad_labels_refused"),
]


@pytest.mark.parametrize(("broken", "name"), BREACHES)
def test_a_breach_is_noticed(broken, name):
    with pytest.raises(AssertionError):
        dict(zero_shot_checks(broken()))[name](broken())


def test_what_they_are_variations_of_passes():
    for _, check in zero_shot_checks(Fast()):
        check(Fast())


@pytest.mark.parametrize("name", ["check_seen_penalty", "check_bad_labels_refused"])
def test_a_part_of_the_penalty_and_a_missing_prototype_pass_with_worth(name):
    dict(zero_shot_checks(WithWorth()))[name](WithWorth())


def test_every_check_has_a_breach():
    assert {name for name, _ in zero_shot_checks(Fast())} == {name for _, name in BREACHES}


def test_checks_of_missing_methods_are_left_out():
    class Plain:
        def fit(self, X, y): ...

        def predict(self, X): ...

    names = {name for name, _ in zero_shot_checks(Plain())}
    assert "check_label_types" in names
    assert not names & {
        "check_predict_proba",
        "check_predict_top",
        "check_with_classes",
        "check_with_candidates_equals_fit",
    }


def test_the_decorator_pairs_every_estimator_with_its_checks():
    estimators = [Fast(), Fast(rho=0.25)]
    mark = parametrize_with_zero_shot_checks(estimators).mark
    assert mark.name == "parametrize"
    pairs = [(case.values[0], case.values[1]) for case in mark.args[1]]
    assert pairs == [(e, check) for e in estimators for _, check in zero_shot_checks(e)]
    assert len({case.id for case in mark.args[1]}) == len(pairs)


def test_without_pytest_the_decorator_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "pytest", None)
    with pytest.raises(ImportError, match=r"needs pytest.*loop over zero_shot_checks"):
        parametrize_with_zero_shot_checks([Fast()])
