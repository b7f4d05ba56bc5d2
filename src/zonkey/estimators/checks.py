"""The contract of a zero-shot estimator, as checks to run on any class that claims to keep it.

They stand beside scikit-learn's own checks, which know nothing of prototypes and unseen classes.
An estimator takes part if it has the parameters `prototypes` and `candidates`; a check of a
method or a parameter that it does not offer is left out.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from .check_problem import (
    assert_refused,
    assert_same_scores,
    containers,
    fingerprint,
    linear_problem,
    state,
    state_of,
)

__all__ = ["parametrize_with_zero_shot_checks", "zero_shot_checks"]

Check = Callable[[Any], None]


def zero_shot_checks(estimator: Any) -> Iterator[tuple[str, Check]]:
    """Yield the name and the function of every check that applies to an unfitted estimator.

    Examples
    --------
    >>> from zonkey import ZeroShotClassifier
    >>> for name, check in zero_shot_checks(ZeroShotClassifier()):
    ...     check(ZeroShotClassifier())
    """
    for check, methods in _CHECKS.items():
        if all(hasattr(estimator, method) for method in methods):
            yield check.__name__, check


def parametrize_with_zero_shot_checks(estimators: Iterable[Any]) -> Any:
    """Return a pytest decorator that runs every check on every one of these estimators.

    The test takes `estimator` and `check`, and calls ``check(estimator)``.
    """
    try:
        import pytest
    except ImportError as error:
        raise ImportError(
            "parametrize_with_zero_shot_checks needs pytest, which is not installed. Install it, "
            "or loop over zero_shot_checks(estimator)."
        ) from error
    cases = [
        pytest.param(estimator, check, id=f"{''.join(str(estimator).split())}-{name}")
        for estimator in estimators
        for name, check in zero_shot_checks(estimator)
    ]
    return pytest.mark.parametrize(("estimator", "check"), cases)


def check_fit_leaves_inputs_untouched(estimator: Any) -> None:
    """Require that `fit` changes neither X nor y nor the prototypes nor the parameters."""
    p = linear_problem()
    model = p.prepared(estimator)
    before = fingerprint((p.X, p.y, p.prototypes)), state(model.get_params())
    model.fit(p.X, p.y)
    after = fingerprint((p.X, p.y, p.prototypes)), state(model.get_params())
    assert before == after, "fit changed X, y, the prototypes or a parameter"


def check_inference_changes_nothing(estimator: Any) -> None:
    """Require that no method but `fit` changes its arguments or the fitted state."""
    p = linear_problem()
    model = p.fitted(estimator)
    new_class = {"class new": np.ones(len(p.prototypes[p.seen[0]]))}
    calls: dict[str, tuple[Any, ...]] = {
        "predict": (p.X_new,),
        "predict_top": (p.X_new, 2),
        "decision_function": (p.X_new,),
        "score": (p.X_new, p.y_new),
        "project": (p.prototypes,),
        "embed": (p.X_new,),
        "with_classes": (new_class,),
        "with_candidates": ("all",),
    }
    for method, arguments in calls.items():
        if hasattr(model, method):
            before = state(vars(model)), fingerprint(arguments)
            first, second = (getattr(model, method)(*arguments) for _ in range(2))
            assert before == (state(vars(model)), fingerprint(arguments)), f"{method} changes"
            assert state_of(first) == state_of(second), f"{method} differs when called again"


def check_predicts_candidates_only(estimator: Any) -> None:
    """Require that predictions and `classes_` are what `candidates` says."""
    p = linear_problem()
    X = np.concatenate([p.X, p.X_new])
    chosen = [p.unseen[2], p.seen[1], p.unseen[0]]
    for candidates, expected in [
        ("unseen", p.unseen),
        ("all", list(p.prototypes)),
        (chosen, sorted(chosen)),
        ([p.seen[0]], [p.seen[0]]),
    ]:
        model = p.fitted(estimator, candidates=candidates)
        assert_array_equal(model.classes_, expected)
        assert set(model.predict(X).tolist()) <= set(expected), f"candidates={candidates!r}"


def check_with_candidates_equals_fit(estimator: Any) -> None:
    """Require that candidates chosen afterwards act like those chosen before the fit."""
    p = linear_problem()
    model = p.fitted(estimator)
    for candidates in ["all", "unseen", [p.unseen[1], p.seen[2], p.seen[0]]]:
        other = model.with_candidates(candidates)
        fitted = p.fitted(estimator, candidates=candidates)
        assert_array_equal(other.classes_, fitted.classes_)
        assert_same_scores(other, fitted, p)


def check_label_types(estimator: Any) -> None:
    """Require the same predictions for strings and integers, in whatever container."""
    p = linear_problem()
    expected = p.fitted(estimator).predict(p.X_new)
    for y in containers(p.y.tolist()):
        assert_array_equal(p.prepared(estimator).fit(p.X, y).predict(p.X_new), expected)
    number = {label: 10 * j for j, label in enumerate(p.prototypes)}  # the same sorted order
    numbered = {number[label]: vector for label, vector in p.prototypes.items()}
    for y in containers([number[label] for label in p.y]):
        model = p.prepared(estimator, prototypes=numbered).fit(p.X, y)
        assert_array_equal(model.predict(p.X_new), [number[label] for label in expected])


def check_order_of_samples(estimator: Any) -> None:
    """Require that the order of the samples has no influence, in training or in prediction."""
    p = linear_problem()
    order = np.random.default_rng(1).permutation(len(p.y))
    model, other = p.fitted(estimator), p.prepared(estimator).fit(p.X[order], p.y[order])
    assert_same_scores(model, other, p)
    order = order[order < len(p.y_new)]
    assert_array_equal(model.predict(p.X_new)[order], model.predict(p.X_new[order]))


def check_order_of_prototypes(estimator: Any) -> None:
    """Require that the order of the prototypes has no influence."""
    p = linear_problem()
    backwards = dict(reversed(p.prototypes.items()))
    assert_same_scores(p.fitted(estimator), p.fitted(estimator, prototypes=backwards), p)


def check_same_seed_same_model(estimator: Any) -> None:
    """Require that two models of one `random_state` agree, and so do two calls of `fit`."""
    p = linear_problem()
    model = p.fitted(estimator)
    assert_same_scores(model, p.fitted(estimator), p)
    assert_same_scores(p.fitted(estimator), model.fit(p.X, p.y), p)


def check_float32(estimator: Any) -> None:
    """Require that float32 stays float32, and gives the scores of float64 to its precision."""
    p = linear_problem()
    model = p.fitted(estimator, candidates="all")
    narrow = p.prepared(estimator, candidates="all").fit(p.X.astype(np.float32), p.y)
    if hasattr(narrow, "projection_"):
        assert narrow.projection_.dtype == np.float32, f"got {narrow.projection_.dtype}"
    scores = narrow.decision_function(p.X_new.astype(np.float32))
    assert scores.dtype == np.float32, f"scores of float32 samples are {scores.dtype}"
    expected = model.decision_function(p.X_new)
    assert_allclose(scores, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


def check_clone_and_pickle(estimator: Any) -> None:
    """Require that a clone fitted anew and a pickle read back predict the same."""
    p = linear_problem()
    model = p.fitted(estimator)
    assert_same_scores(model, p.fitted(model), p)
    assert_same_scores(model, pickle.loads(pickle.dumps(model)), p)


def check_decision_function(estimator: Any) -> None:
    """Require a score for each candidate, the largest predicted; for two, their difference."""
    p = linear_problem()
    model = p.fitted(estimator, candidates="all")
    scores = model.decision_function(p.X_new)
    assert scores.shape == (len(p.X_new), len(model.classes_))
    assert_array_equal(model.classes_[scores.argmax(axis=1)], model.predict(p.X_new))
    model = p.fitted(estimator, candidates=p.unseen[:2])
    difference = model.decision_function(p.X_new)
    assert difference.shape == (len(p.X_new),)
    assert_array_equal(model.classes_[(difference > 0).astype(int)], model.predict(p.X_new))


def check_predict_top(estimator: Any) -> None:
    """Require the k largest scores, best first, also where some are equal."""
    p = linear_problem()
    twins = {f"twin {j}": p.prototypes[p.unseen[0]] for j in range(20)}
    model = p.fitted(estimator, prototypes={**p.prototypes, **twins}, candidates="all")
    scores = model.decision_function(p.X_new)
    ranking = np.argsort(-scores, axis=1, kind="stable")
    for k in (1, 3, len(model.classes_)):
        top = model.predict_top(p.X_new, k)
        assert_array_equal(top, model.classes_[ranking[:, :k]])
        assert_array_equal(top[:, 0], model.predict(p.X_new))
    assert_refused(lambda: model.predict_top(p.X_new, len(model.classes_) + 1), "`k`")


def check_predict_proba(estimator: Any) -> None:
    """Require probabilities that sum to 1, rank as the scores do, and keep float32."""
    p = linear_problem()
    for candidates in ("all", p.unseen[:2]):
        model = p.fitted(estimator, candidates=candidates)
        for X in (p.X_new, p.X_new.astype(np.float32)):
            shares = model.predict_proba(X)
            assert shares.shape == (len(X), len(model.classes_))
            assert shares.dtype == X.dtype, f"probabilities of {X.dtype} samples are {shares.dtype}"
            assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-5)
            assert_array_equal(model.classes_[shares.argmax(axis=1)], model.predict(X))


def check_seen_penalty(estimator: Any) -> None:
    """Require that a penalty lowers the scores of seen classes, of no others, and by itself."""
    p = linear_problem()
    free = p.fitted(estimator, candidates="all")
    held = p.fitted(estimator, candidates="all", seen_penalty=0.25)
    shift = free.decision_function(p.X_new) - held.decision_function(p.X_new)
    expected = np.broadcast_to(0.25 * np.isin(free.classes_, p.seen), shift.shape)
    assert_allclose(shift, expected, atol=1e-9)
    assert_refused(lambda: p.fitted(estimator, seen_penalty="much"), "seen_penalty")
    assert_refused(lambda: p.fitted(estimator, seen_penalty=np.nan), "seen_penalty")


def check_with_classes(estimator: Any) -> None:
    """Require that classes added afterwards are predicted, and nothing else changes."""
    p = linear_problem()
    recalls = []
    for label in p.unseen:
        others = [unseen for unseen in p.unseen if unseen != label]
        for candidates in ("unseen", "all", others):
            model = p.fitted(estimator, prototypes=p.without(label), candidates=candidates)
            wider = model.with_classes({label: p.prototypes[label]})
            if hasattr(model, "projection_"):
                assert_array_equal(wider.projection_, model.projection_)
            assert_array_equal(wider.classes_, sorted([*model.classes_, label]))
            recalls.append(np.mean(wider.predict(p.X_new[p.y_new == label]) == label))
            kept = np.isin(wider.classes_, model.classes_)
            expected = model.decision_function(p.X_new)
            assert_allclose(wider.decision_function(p.X_new)[:, kept], expected, rtol=1e-7)
            assert_refused(lambda m=wider, j=label: m.with_classes({j: p.prototypes[j]}), label)
            short = {label: p.prototypes[label][1:]}
            assert_refused(lambda m=model, short=short: m.with_classes(short), "dim")
    assert np.mean(recalls) > 0.5, f"new classes are found in {np.mean(recalls):.0%} of cases"


def check_unseen_accuracy(estimator: Any) -> None:
    """Require that unseen classes are told apart on a problem that is easy."""
    p = linear_problem()
    accuracy = p.fitted(estimator).score(p.X_new, p.y_new)
    assert accuracy > 0.7, f"accuracy {accuracy:.2f} among {len(p.unseen)} unseen classes"


def check_bad_labels_refused(estimator: Any) -> None:
    """Require an error for labels without a prototype, or of another type than they have."""
    p = linear_problem()
    model = p.prepared(estimator, prototypes=p.without(p.seen[0]))
    assert_refused(lambda: model.fit(p.X, p.y), p.seen[0])
    assert_refused(lambda: p.prepared(estimator).fit(p.X, np.unique(p.y, return_inverse=True)[1]))


def check_non_finite_refused(estimator: Any) -> None:
    """Require an error for NaN and infinity in training, prediction and prototypes."""
    p = linear_problem()
    model = p.fitted(estimator)
    for value in (np.nan, np.inf, -np.inf):
        X, X_new, vector = p.X.copy(), p.X_new.copy(), p.prototypes[p.unseen[0]].copy()
        X[3, 2] = X_new[1, 4] = vector[0] = value
        prototypes = {**p.prototypes, p.unseen[0]: vector}
        assert_refused(lambda X=X: p.prepared(estimator).fit(X, p.y), "NaN", "infinity")
        assert_refused(lambda X=X_new: model.predict(X), "NaN", "infinity")
        assert_refused(lambda other=prototypes: p.fitted(estimator, prototypes=other), "NaN")


# Each check, and the methods that an estimator must offer for it to make sense.
_CHECKS: dict[Check, tuple[str, ...]] = {
    check_fit_leaves_inputs_untouched: (),
    check_inference_changes_nothing: (),
    check_predicts_candidates_only: (),
    check_with_candidates_equals_fit: ("with_candidates",),
    check_label_types: (),
    check_order_of_samples: (),
    check_order_of_prototypes: (),
    check_same_seed_same_model: (),
    check_float32: (),
    check_clone_and_pickle: (),
    check_decision_function: (),
    check_predict_top: ("predict_top",),
    check_predict_proba: ("predict_proba",),
    check_seen_penalty: ("seen_penalty",),
    check_with_classes: ("with_classes",),
    check_unseen_accuracy: (),
    check_bad_labels_refused: (),
    check_non_finite_refused: (),
}
