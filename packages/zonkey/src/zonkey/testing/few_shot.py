"""Contract checks of few-shot classifiers: ``fit(X_support, y_support)``, and a parameter `base`.

Pass estimators with the base samples of `shots_problem`, as far as they take any::

    problem = shots_problem()
    base = BaseSamples(problem.X_base, problem.y_base)

    @parametrize_with_few_shot_checks([MyClassifier(base=base)])
    def test_few_shot_contract(estimator, check):
        check(estimator)
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import joblib
import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from .zero_shot import (
    Check,
    assert_refused,
    assert_same_scores,
    checks_as_parameters,
    clone_with_seed,
    containers,
    state,
    state_of,
)


@dataclass(frozen=True, eq=False)
class ShotsProblem:
    """A small few-shot problem: base classes, shots and queries of novel classes, prototypes."""

    X_base: np.ndarray
    y_base: np.ndarray
    X_support: np.ndarray
    y_support: np.ndarray
    X_query: np.ndarray
    y_query: np.ndarray
    prototypes: dict[str, np.ndarray]

    def fit_clone(self, estimator: Any, **parameters: Any) -> Any:
        """Return a clone that is fitted on the support set, with `random_state=0`."""
        return self.make_clone(estimator, **parameters).fit(self.X_support, self.y_support)

    def make_clone(self, estimator: Any, **parameters: Any) -> Any:
        """Return an unfitted clone with `random_state=0`."""
        return clone_with_seed(estimator, parameters)


def shots_problem(
    *,
    n_base: int = 12,
    n_novel: int = 4,
    n_shots: int = 3,
    n_features: int = 10,
    n_attributes: int = 5,
    noise: float = 0.3,
    seed: int = 3,
) -> ShotsProblem:
    """Draw a few-shot problem whose features depend linearly on the attributes of the class.

    Parameters
    ----------
    n_base : int, default=12
        Number of base classes, of nine samples each.
    n_novel : int, default=4
        Number of novel classes, of eight queries each.
    n_shots : int, default=3
        Number of support samples per novel class.
    n_features : int, default=10
        Number of features.
    n_attributes : int, default=5
        Dimension of the prototypes.
    noise : float, default=0.3
        Standard deviation of the features around the class means.
    seed : int, default=3
        Seed of the random numbers.

    Returns
    -------
    ShotsProblem
        Samples `X_base`, `X_support` and `X_query` with labels `y_base`, `y_support` and `y_query`,
        and `prototypes` of all classes, a dict. Its method ``fit_clone(estimator)`` returns a
        fitted clone. All values are exact in float32.

    Examples
    --------
    >>> from zonkey import NearestSupport
    >>> from zonkey.testing import shots_problem
    >>> problem = shots_problem()
    >>> problem.fit_clone(NearestSupport()).score(problem.X_query, problem.y_query) > 0.9
    True
    """
    rng = np.random.default_rng(seed)
    base = [f"base {j:02d}" for j in range(n_base)]
    novel = [f"novel {j:02d}" for j in range(n_novel)]
    attributes = rng.normal(size=(n_base + n_novel, n_attributes))
    prototypes = dict(zip([*base, *novel], attributes, strict=True))
    hidden = rng.normal(size=(n_attributes, n_features))

    def draw_samples(of: list[str], n: int) -> tuple[np.ndarray, np.ndarray]:
        y = rng.permutation(np.repeat(of, n))
        X = np.stack([prototypes[label] for label in y]) @ hidden + 1
        X += noise * rng.normal(size=X.shape)
        return X.astype(np.float32).astype(np.float64), y  # equal in both dtypes

    return ShotsProblem(
        *draw_samples(base, 9), *draw_samples(novel, n_shots), *draw_samples(novel, 8), prototypes
    )


def few_shot_checks(estimator: Any) -> Iterator[tuple[str, Check]]:
    """Yield every check that applies to an estimator.

    Parameters
    ----------
    estimator : estimator
        Unfitted few-shot classifier; its base samples are those of `shots_problem`, if any.

    Yields
    ------
    name : str
        Name of the check.
    check : callable
        Function of an unfitted estimator that raises AssertionError if the contract is broken.

    Examples
    --------
    >>> from zonkey import NearestSupport
    >>> for name, check in few_shot_checks(NearestSupport()):
    ...     check(NearestSupport())
    """
    for check, names in _CHECKS.items():
        if all(hasattr(estimator, name) for name in names):
            yield check.__name__, check


def parametrize_with_few_shot_checks(estimators: Iterable[Any]) -> Any:
    """Return a pytest decorator that runs every check on every estimator.

    Parameters
    ----------
    estimators : iterable of estimators
        Unfitted few-shot classifiers.

    Returns
    -------
    pytest.MarkDecorator
        Decorator of a test that takes `estimator` and `check` and calls ``check(estimator)``.
    """
    return checks_as_parameters(estimators, few_shot_checks)


def inference_calls(model: Any, p: ShotsProblem) -> dict[str, tuple[Any, ...]]:
    """Return the methods of a fitted model that must not change it, with arguments."""
    calls: dict[str, tuple[Any, ...]] = {
        "predict": (p.X_query,),
        "predict_top": (p.X_query, 2),
        "decision_function": (p.X_query,),
        "score": (p.X_query, p.y_query),
        "adapt": (p.X_query,),
    }
    return {name: arguments for name, arguments in calls.items() if hasattr(model, name)}


def check_fit_leaves_inputs_untouched(estimator: Any) -> None:
    """Require that `fit` changes neither X nor y nor the parameters."""
    p = shots_problem()
    model = p.make_clone(estimator)
    given = {name: value for name, value in model.get_params().items() if name != "base"}
    before = joblib.hash((p.X_support, p.y_support)), state(given)
    model.fit(p.X_support, p.y_support)
    after = model.get_params()
    assert model.base is estimator.base if "base" in after else True, "fit changed `base`"
    given = {name: value for name, value in after.items() if name != "base"}
    assert before == (joblib.hash((p.X_support, p.y_support)), state(given)), "fit changed inputs"


def check_inference_changes_nothing(estimator: Any) -> None:
    """Require that no method but `fit` changes its arguments or the fitted state."""
    p = shots_problem()
    model = p.fit_clone(estimator)

    def hash_own() -> dict[str, str]:
        return state({name: value for name, value in vars(model).items() if name != "base"})

    for method, arguments in inference_calls(model, p).items():
        before = hash_own(), joblib.hash(arguments)
        first, second = (getattr(model, method)(*arguments) for _ in range(2))
        assert before == (hash_own(), joblib.hash(arguments)), f"{method} changes"
        if hasattr(first, "get_params"):
            assert_same_scores(first, second, p.X_query)
        else:
            assert state_of(first) == state_of(second), f"{method} differs when called again"


def check_parameters_wait_for_refit(estimator: Any) -> None:
    """Require that `set_params` after `fit` changes no prediction before the next `fit`."""
    p = shots_problem()
    model = p.fit_clone(estimator)
    before = model.decision_function(p.X_query)
    model.set_params(**dict.fromkeys(model.get_params(deep=False), "none of the values"))
    assert_array_equal(model.decision_function(p.X_query), before)


def check_label_types(estimator: Any) -> None:
    """Require the same predictions for strings and integers, in any container."""
    p = shots_problem()
    expected = p.fit_clone(estimator).predict(p.X_query)
    for y in containers(p.y_support.tolist()):
        assert_array_equal(p.make_clone(estimator).fit(p.X_support, y).predict(p.X_query), expected)


def check_order_does_not_matter(estimator: Any) -> None:
    """Require invariance to the order of support samples, and of samples to predict."""
    p = shots_problem()
    order = np.random.default_rng(1).permutation(len(p.y_support))
    model = p.fit_clone(estimator)
    other = p.make_clone(estimator).fit(p.X_support[order], p.y_support[order])
    assert_same_scores(model, other, p.X_query)
    assert_array_equal(model.predict(p.X_query)[order], model.predict(p.X_query[order]))


def check_same_seed_same_model(estimator: Any) -> None:
    """Require that models with equal `random_state` agree, also after a second `fit`."""
    p = shots_problem()
    model = p.fit_clone(estimator)
    assert_same_scores(model, p.fit_clone(estimator), p.X_query)
    assert_same_scores(p.fit_clone(estimator), model.fit(p.X_support, p.y_support), p.X_query)


def check_float32(estimator: Any) -> None:
    """Require that float32 samples get float32 scores, those of float64 up to precision."""
    p = shots_problem()
    narrow = p.make_clone(estimator).fit(p.X_support.astype(np.float32), p.y_support)
    scores = narrow.decision_function(p.X_query.astype(np.float32))
    assert scores.dtype == np.float32, f"scores of float32 samples are {scores.dtype}"
    expected = p.fit_clone(estimator).decision_function(p.X_query)
    assert_allclose(scores, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())


def check_clone_and_pickle(estimator: Any) -> None:
    """Require that a refitted clone and an unpickled model predict the same."""
    p = shots_problem()
    model = p.fit_clone(estimator)
    assert_same_scores(model, p.fit_clone(model), p.X_query)
    assert_same_scores(model, pickle.loads(pickle.dumps(model)), p.X_query)


def check_decision_function(estimator: Any) -> None:
    """Require one score per class, the largest predicted, and the best first in `predict_top`."""
    p = shots_problem()
    model = p.fit_clone(estimator)
    scores = model.decision_function(p.X_query)
    assert scores.shape == (len(p.X_query), len(model.classes_))
    assert_array_equal(model.classes_, np.unique(p.y_support))
    assert_array_equal(model.classes_[scores.argmax(axis=1)], model.predict(p.X_query))
    ranking = np.argsort(-scores, axis=1, kind="stable")
    assert_array_equal(model.predict_top(p.X_query, 3), model.classes_[ranking[:, :3]])


def check_accuracy(estimator: Any) -> None:
    """Require that the problem, which is easy, is learned."""
    p = shots_problem()
    accuracy = p.fit_clone(estimator).score(p.X_query, p.y_query)
    assert accuracy > 0.75, f"accuracy {accuracy:.2f}"


def check_bad_support_refused(estimator: Any) -> None:
    """Require errors for unequal lengths, NaN, other features, and base classes as novel ones."""
    p = shots_problem()
    X, y = p.X_support, p.y_support
    assert_refused(lambda: p.make_clone(estimator).fit(X, y[:-1]), "inconsistent", "samples")
    broken = X.copy()
    broken[1, 1] = np.nan
    assert_refused(lambda: p.make_clone(estimator).fit(broken, y), "NaN")
    model = p.fit_clone(estimator)
    assert_refused(lambda: model.predict(p.X_query[:, :-1]), "features")
    if estimator.get_params().get("base") is not None:
        assert_refused(lambda: p.make_clone(estimator).fit(X[:, :-1], y), "features")
        overlap = np.where(y == y[0], p.y_base[0], y)
        assert_refused(lambda: p.make_clone(estimator).fit(X, overlap), "base")


# Each check, and the methods and parameters that an estimator must offer for it.
_CHECKS: dict[Check, tuple[str, ...]] = {
    check_fit_leaves_inputs_untouched: (),
    check_inference_changes_nothing: (),
    check_parameters_wait_for_refit: (),
    check_label_types: (),
    check_order_does_not_matter: (),
    check_same_seed_same_model: (),
    check_float32: (),
    check_clone_and_pickle: (),
    check_decision_function: (),
    check_accuracy: (),
    check_bad_support_refused: (),
}
