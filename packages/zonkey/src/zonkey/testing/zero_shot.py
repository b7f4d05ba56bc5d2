"""Contract checks of zero-shot classifiers: prototypes, candidates, unseen classes.

An estimator takes part if it has the parameters `prototypes` and `candidates`. Checks of methods or
parameters that it does not offer are left out.

An estimator with a parameter `worth`, the number of samples that a prototype is worth, has a prior
for each class. It may learn a class without a prototype, and reduce the penalty of a class with few
samples.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import joblib
import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

Check = Callable[[Any], None]


def zero_shot_checks(estimator: Any) -> Iterator[tuple[str, Check]]:
    """Yield every check that applies to an estimator.

    Parameters
    ----------
    estimator : estimator
        Unfitted zero-shot classifier.

    Yields
    ------
    name : str
        Name of the check.
    check : callable
        Function of an unfitted estimator that raises AssertionError if the contract is broken.

    Examples
    --------
    >>> from zonkey import ZeroShotClassifier
    >>> for name, check in zero_shot_checks(ZeroShotClassifier()):
    ...     check(ZeroShotClassifier())
    """
    for check, names in _CHECKS.items():
        if all(hasattr(estimator, name) for name in names):
            yield check.__name__, check


def parametrize_with_zero_shot_checks(estimators: Iterable[Any]) -> Any:
    """Return a pytest decorator that runs every check on every estimator.

    Parameters
    ----------
    estimators : iterable of estimators
        Unfitted zero-shot classifiers.

    Returns
    -------
    pytest.MarkDecorator
        Decorator of a test that takes `estimator` and `check` and calls ``check(estimator)``.
    """
    return checks_as_parameters(estimators, zero_shot_checks)


def checks_as_parameters(estimators: Iterable[Any], checks: Callable[[Any], Any]) -> Any:
    """Return a pytest decorator that runs all `checks` of each estimator."""
    try:
        import pytest
    except ImportError as error:
        raise ImportError(
            "A decorator of checks needs pytest, which is not installed. Install it, or loop over "
            f"{checks.__name__}(estimator)."
        ) from error
    cases = [
        pytest.param(estimator, check, id=f"{''.join(str(estimator).split())}-{name}")
        for estimator in estimators
        for name, check in checks(estimator)
    ]
    return pytest.mark.parametrize(("estimator", "check"), cases)


@dataclass(frozen=True, eq=False)
class ZeroShotProblem:
    """A small zero-shot problem: training samples of seen classes, test samples of unseen ones."""

    X: np.ndarray
    y: np.ndarray
    X_new: np.ndarray
    y_new: np.ndarray
    prototypes: dict[Any, np.ndarray]
    seen: list[Any]
    unseen: list[Any]

    def fit_clone(self, estimator: Any, **parameters: Any) -> Any:
        """Return a clone that is fitted on the training samples."""
        return self.make_clone(estimator, **parameters).fit(self.X, self.y)

    def make_clone(self, estimator: Any, **parameters: Any) -> Any:
        """Return an unfitted clone with the prototypes of the problem and `random_state=0`."""
        return clone_with_seed(estimator, {"prototypes": self.prototypes, **parameters})

    def without(self, label: Any) -> dict[Any, np.ndarray]:
        """Return the prototypes of all classes but one."""
        return {known: vector for known, vector in self.prototypes.items() if known != label}


def linear_problem(
    *,
    n_classes: int = 12,
    n_features: int = 10,
    n_attributes: int = 5,
    noise: float = 0.1,
    seed: int = 7,
) -> ZeroShotProblem:
    """Draw a problem whose features depend linearly on the attributes of the class.

    Parameters
    ----------
    n_classes : int, default=12
        Number of classes; every third one is unseen.
    n_features : int, default=10
        Number of features.
    n_attributes : int, default=5
        Dimension of the prototypes.
    noise : float, default=0.1
        Standard deviation of the features around the class means. The default is easy.
    seed : int, default=7
        Seed of the random numbers.

    Returns
    -------
    ZeroShotProblem
        Samples `X` with labels `y`, nine per seen class; `X_new` with `y_new`, six per unseen
        class; `prototypes`, a dict; and the lists of labels `seen` and `unseen`. Its method
        ``fit_clone(estimator)`` returns a fitted clone. All values are exact in float32.

    Examples
    --------
    >>> from zonkey import ZeroShotClassifier
    >>> from zonkey.testing import linear_problem
    >>> problem = linear_problem()
    >>> problem.unseen
    ['class 01', 'class 04', 'class 07', 'class 10']
    >>> problem.fit_clone(ZeroShotClassifier()).score(problem.X_new, problem.y_new) > 0.9
    True
    """
    rng = np.random.default_rng(seed)
    labels = [f"class {j:02d}" for j in range(n_classes)]
    # Unseen labels are spread among the seen ones, so that a wrong row is noticed.
    unseen = labels[1::3]
    seen = [label for label in labels if label not in unseen]
    prototypes = dict(zip(labels, rng.normal(size=(n_classes, n_attributes)), strict=True))
    hidden = rng.normal(size=(n_attributes, n_features))

    def draw_samples(of: list[str], n: int) -> tuple[np.ndarray, np.ndarray]:
        y = rng.permutation(np.repeat(of, n))
        X = np.stack([prototypes[label] for label in y]) @ hidden
        X += noise * rng.normal(size=X.shape)
        return X.astype(np.float32).astype(np.float64), y  # equal in both dtypes

    return ZeroShotProblem(
        *draw_samples(seen, 9), *draw_samples(unseen, 6), prototypes, seen, unseen
    )


def clone_with_seed(estimator: Any, parameters: dict[str, Any]) -> Any:
    """Return an unfitted clone with these parameters and, if it has one, `random_state=0`."""
    seed = {"random_state": 0} if "random_state" in estimator.get_params() else {}
    copy: Any = clone(estimator)
    return copy.set_params(**seed | parameters)


def state(attributes: dict[str, Any]) -> dict[str, str]:
    """Return a hash per attribute, so that a difference has a name."""
    return {name: str(joblib.hash(value)) for name, value in attributes.items()}


def state_of(result: Any) -> Any:
    """Return a hash of the result of a method: an array, a number or a model."""
    return state(vars(result)) if hasattr(result, "get_params") else joblib.hash(result)


def containers(labels: list[Any]) -> Iterator[Any]:
    """Yield the labels as a list, as arrays, and as a Series of the installed libraries."""
    yield labels
    yield np.array(labels)
    yield np.array(labels, dtype=object)
    for library in ("pandas", "polars"):
        if find_spec(library):
            yield import_module(library).Series(labels)


def assert_same_scores(model: Any, other: Any, X: np.ndarray) -> None:
    """Compare scores up to rounding, and predictions exactly."""
    expected, scores = (each.decision_function(X) for each in (model, other))
    assert_allclose(scores, expected, rtol=1e-7, atol=1e-9 * np.abs(expected).max())
    assert_array_equal(other.predict(X), model.predict(X))


def assert_refused(call: Callable[[], Any], *words: str) -> None:
    """Require a ValueError or TypeError whose message contains one of the words."""
    try:
        call()
    except (ValueError, TypeError) as error:
        said = str(error)
        assert not words or any(word in said for word in words), f"unclear message: {said}"
        return
    raise AssertionError(f"bad input was accepted; expected an error about {' or '.join(words)}")


def check_fit_leaves_inputs_untouched(estimator: Any) -> None:
    """Require that `fit` changes neither X nor y nor the prototypes nor the parameters."""
    p = linear_problem()
    model = p.make_clone(estimator)
    before = joblib.hash((p.X, p.y, p.prototypes)), state(model.get_params())
    model.fit(p.X, p.y)
    after = joblib.hash((p.X, p.y, p.prototypes)), state(model.get_params())
    assert before == after, "fit changed X, y, the prototypes or a parameter"


def inference_calls(model: Any, p: ZeroShotProblem) -> dict[str, tuple[Any, ...]]:
    """Return the methods of a fitted model that must not change it, with arguments."""
    calls: dict[str, tuple[Any, ...]] = {
        "predict": (p.X_new,),
        "predict_top": (p.X_new, 2),
        "predict_proba": (p.X_new,),
        "decision_function": (p.X_new,),
        "score": (p.X_new, p.y_new),
        "project": (p.prototypes,),
        "embed": (p.X_new,),
        "with_classes": ({"class new": np.ones(len(p.prototypes[p.seen[0]]))},),
        "with_candidates": (p.unseen,),
        "without_classes": (p.unseen[:1],),
        "with_shots": (p.X_new, p.y_new),
        "adapt": (p.X_new,),
        "uncertainty": (p.X_new,),
        "novelty": (p.X_new,),
        "most_informative": (p.X_new, 3),
        "explain": (p.X_new[0],),
    }
    return {name: arguments for name, arguments in calls.items() if hasattr(model, name)}


def check_inference_changes_nothing(estimator: Any) -> None:
    """Require that no method but `fit` changes its arguments or the fitted state."""
    p = linear_problem()
    model = p.fit_clone(estimator)
    for method, arguments in inference_calls(model, p).items():
        before = state(vars(model)), joblib.hash(arguments)
        first, second = (getattr(model, method)(*arguments) for _ in range(2))
        assert before == (state(vars(model)), joblib.hash(arguments)), f"{method} changes"
        assert state_of(first) == state_of(second), f"{method} differs when called again"


def check_parameters_wait_for_refit(estimator: Any) -> None:
    """Require that `set_params` after `fit` changes no result before the next `fit`.

    Parameters of the rejection (`reject_...`) may take effect at once.
    """
    p = linear_problem()
    model = p.fit_clone(estimator, candidates="all")

    def results() -> dict[str, Any]:
        calls = inference_calls(model, p).items()
        found = {name: getattr(model, name)(*arguments) for name, arguments in calls}
        return {n: r.predict(p.X_new) if hasattr(r, "predict") else r for n, r in found.items()}

    before = results()

    def assert_no_effect(names: list[str], message: str) -> None:
        # A value that no parameter accepts: whoever reads it fails, or returns something else.
        model.set_params(**dict.fromkeys(names, "none of the values"))
        try:
            after = results()
        except Exception as error:
            raise AssertionError(message) from error
        finally:
            model.set_params(**{name: parameters[name] for name in names})
        for method, result in after.items():
            assert_array_equal(result, before[method], err_msg=f"{method}: {message}")

    parameters = model.get_params(deep=False)
    parameters = {name: parameters[name] for name in parameters if not name.startswith("reject_")}
    try:
        assert_no_effect(list(parameters), "results depend on parameters set after the fit")
    except AssertionError:
        for name in parameters:  # which of them it is
            assert_no_effect([name], f"results depend on `{name}`, which was set after the fit")
        raise


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
        model = p.fit_clone(estimator, candidates=candidates)
        assert_array_equal(model.classes_, expected)
        assert set(model.predict(X).tolist()) <= set(expected), f"candidates={candidates!r}"


def check_with_candidates_equals_fit(estimator: Any) -> None:
    """Require that candidates chosen after the fit act like those chosen before it."""
    p = linear_problem()
    model = p.fit_clone(estimator)
    # Chosen parameters may depend on the candidates; a copy keeps the parameters.
    kept = {
        name: value
        for name, value in getattr(model, "best_params_", {}).items()
        if name in estimator.get_params()
    }
    for candidates in ["all", "unseen", [p.unseen[1], p.seen[2], p.seen[0]]]:
        other = model.with_candidates(candidates)
        assert other.get_params()["candidates"] is candidates, "the parameter has another value"
        fitted = p.fit_clone(estimator, candidates=candidates, **kept)
        assert_array_equal(other.classes_, fitted.classes_)
        assert_same_scores(other, fitted, p.X_new)


def check_label_types(estimator: Any) -> None:
    """Require the same predictions for strings and integers, in any container."""
    p = linear_problem()
    expected = p.fit_clone(estimator).predict(p.X_new)
    for y in containers(p.y.tolist()):
        assert_array_equal(p.make_clone(estimator).fit(p.X, y).predict(p.X_new), expected)
    number = {label: 10 * j for j, label in enumerate(p.prototypes)}  # the same sorted order
    numbered = {number[label]: vector for label, vector in p.prototypes.items()}
    for y in containers([number[label] for label in p.y]):
        model = p.make_clone(estimator, prototypes=numbered).fit(p.X, y)
        assert_array_equal(model.predict(p.X_new), [number[label] for label in expected])


def check_order_does_not_matter(estimator: Any) -> None:
    """Require invariance to the order of samples and of prototypes."""
    p = linear_problem()
    order = np.random.default_rng(1).permutation(len(p.y))
    model = p.fit_clone(estimator)
    assert_same_scores(model, p.make_clone(estimator).fit(p.X[order], p.y[order]), p.X_new)
    order = order[order < len(p.y_new)]
    assert_array_equal(model.predict(p.X_new)[order], model.predict(p.X_new[order]))
    backwards = dict(reversed(p.prototypes.items()))
    assert_same_scores(model, p.fit_clone(estimator, prototypes=backwards), p.X_new)


def check_same_seed_same_model(estimator: Any) -> None:
    """Require that models with equal `random_state` agree, also after a second `fit`."""
    p = linear_problem()
    model = p.fit_clone(estimator)
    assert_same_scores(model, p.fit_clone(estimator), p.X_new)
    assert_same_scores(p.fit_clone(estimator), model.fit(p.X, p.y), p.X_new)


def check_float32(estimator: Any) -> None:
    """Require that float32 stays float32, with the scores of float64 up to precision."""
    p = linear_problem()
    model = p.fit_clone(estimator, candidates="all")
    narrow = p.make_clone(estimator, candidates="all").fit(p.X.astype(np.float32), p.y)
    if hasattr(narrow, "projection_"):
        assert narrow.projection_.dtype == np.float32, f"got {narrow.projection_.dtype}"
    scores = narrow.decision_function(p.X_new.astype(np.float32))
    assert scores.dtype == np.float32, f"scores of float32 samples are {scores.dtype}"
    expected = model.decision_function(p.X_new)
    assert_allclose(scores, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


def check_clone_and_pickle(estimator: Any) -> None:
    """Require that a refitted clone and an unpickled model predict the same."""
    p = linear_problem()
    model = p.fit_clone(estimator)
    assert_same_scores(model, p.fit_clone(model), p.X_new)
    assert_same_scores(model, pickle.loads(pickle.dumps(model)), p.X_new)


def check_decision_function(estimator: Any) -> None:
    """Require one score per candidate, the largest predicted; for two, their difference."""
    p = linear_problem()
    model = p.fit_clone(estimator, candidates="all")
    scores = model.decision_function(p.X_new)
    assert scores.shape == (len(p.X_new), len(model.classes_))
    assert_array_equal(model.classes_[scores.argmax(axis=1)], model.predict(p.X_new))
    model = p.fit_clone(estimator, candidates=p.unseen[:2])
    difference = model.decision_function(p.X_new)
    assert difference.shape == (len(p.X_new),)
    assert_array_equal(model.classes_[(difference > 0).astype(int)], model.predict(p.X_new))


def check_predict_top(estimator: Any) -> None:
    """Require the k largest scores, best first, also if some are equal."""
    p = linear_problem()
    twins = {f"twin {j}": p.prototypes[p.unseen[0]] for j in range(20)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of equal prototypes
        model = p.fit_clone(estimator, prototypes={**p.prototypes, **twins}, candidates="all")
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
        model = p.fit_clone(estimator, candidates=candidates)
        for X in (p.X_new, p.X_new.astype(np.float32)):
            shares = model.predict_proba(X)
            assert shares.shape == (len(X), len(model.classes_))
            assert shares.dtype == X.dtype, f"probabilities of {X.dtype} samples are {shares.dtype}"
            assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-5)
            assert_array_equal(model.classes_[shares.argmax(axis=1)], model.predict(X))


def check_seen_penalty(estimator: Any) -> None:
    """Require that a penalty lowers the scores of seen classes only, by its value.

    With a parameter `worth`, a class may have a part of the penalty only.
    """
    p = linear_problem()
    free = p.fit_clone(estimator, candidates="all", seen_penalty=0.0)
    held = p.fit_clone(estimator, candidates="all", seen_penalty=0.25)
    shift = free.decision_function(p.X_new) - held.decision_function(p.X_new)
    is_seen = np.isin(free.classes_, p.seen)
    expected = 0.25 * is_seen
    if hasattr(estimator, "worth"):
        expected = is_seen * shift[0]
        within = (shift[0] > 1e-6) & (shift[0] <= 0.25 + 1e-9)
        assert within[is_seen].all(), f"penalties of seen classes are {shift[0][is_seen]}"
    assert_allclose(shift, np.broadcast_to(expected, shift.shape), atol=1e-9)
    assert_refused(lambda: p.fit_clone(estimator, seen_penalty="much"), "seen_penalty")
    assert_refused(lambda: p.fit_clone(estimator, seen_penalty=np.nan), "seen_penalty")


def check_with_classes(estimator: Any) -> None:
    """Require that classes added after the fit are predicted, and nothing else changes."""
    p = linear_problem()
    recalls = []
    for label in p.unseen:
        others = [unseen for unseen in p.unseen if unseen != label]
        for candidates in ("unseen", "all", others):
            model = p.fit_clone(estimator, prototypes=p.without(label), candidates=candidates)
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
    """Require that unseen classes are recognized on an easy problem."""
    p = linear_problem()
    accuracy = p.fit_clone(estimator).score(p.X_new, p.y_new)
    assert accuracy > 0.7, f"accuracy {accuracy:.2f} among {len(p.unseen)} unseen classes"


def check_bad_labels_refused(estimator: Any) -> None:
    """Require an error for labels without a prototype, or of another type than prototypes.

    With a parameter `worth`, single classes may lack a prototype; they are known by their samples.
    """
    p = linear_problem()
    label = p.seen[0]
    model = p.make_clone(estimator, prototypes=p.without(label), candidates="all")
    if hasattr(estimator, "worth"):
        found = model.fit(p.X, p.y).predict(p.X[p.y == label]) == label
        assert found.mean() > 0.5, f"a class without prototype has recall {found.mean():.0%}"
        of_others = {unseen: p.prototypes[unseen] for unseen in p.unseen}
        model = p.make_clone(estimator, prototypes=of_others)
    assert_refused(lambda: model.fit(p.X, p.y), label)
    assert_refused(lambda: p.make_clone(estimator).fit(p.X, np.unique(p.y, return_inverse=True)[1]))


def check_non_finite_refused(estimator: Any) -> None:
    """Require an error for NaN and infinity in training, prediction and prototypes."""
    p = linear_problem()
    model = p.fit_clone(estimator)
    for value in (np.nan, np.inf, -np.inf):
        X, X_new, vector = p.X.copy(), p.X_new.copy(), p.prototypes[p.unseen[0]].copy()
        X[3, 2] = X_new[1, 4] = vector[0] = value
        prototypes = {**p.prototypes, p.unseen[0]: vector}
        assert_refused(lambda X=X: p.make_clone(estimator).fit(X, p.y), "NaN", "infinity")
        assert_refused(lambda X=X_new: model.predict(X), "NaN", "infinity")
        assert_refused(lambda other=prototypes: p.fit_clone(estimator, prototypes=other), "NaN")


# Each check, and the methods and parameters that an estimator must offer for it.
_CHECKS: dict[Check, tuple[str, ...]] = {
    check_fit_leaves_inputs_untouched: (),
    check_inference_changes_nothing: (),
    check_parameters_wait_for_refit: (),
    check_predicts_candidates_only: (),
    check_with_candidates_equals_fit: ("with_candidates",),
    check_label_types: (),
    check_order_does_not_matter: (),
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
