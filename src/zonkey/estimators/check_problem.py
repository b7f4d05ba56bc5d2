"""A small zero-shot problem, and how two models are compared on it.

The raw material of the contract checks in `checks.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from joblib import hash as fingerprint
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone


@dataclass(frozen=True, eq=False)
class Problem:
    """Samples whose features depend linearly on the attributes of their class."""

    X: np.ndarray
    y: np.ndarray
    X_new: np.ndarray
    y_new: np.ndarray
    prototypes: dict[Any, np.ndarray]
    seen: list[Any]
    unseen: list[Any]

    def fitted(self, estimator: Any, **parameters: Any) -> Any:
        """Return a fitted clone with these parameters and, unless they say so, a fixed seed."""
        return self.prepared(estimator, **parameters).fit(self.X, self.y)

    def prepared(self, estimator: Any, **parameters: Any) -> Any:
        """Return what `fitted` fits."""
        parameters = {"prototypes": self.prototypes, **parameters}
        if "random_state" in estimator.get_params():
            parameters = {"random_state": 0, **parameters}
        copy: Any = clone(estimator)
        return copy.set_params(**parameters)

    def without(self, label: Any) -> dict[Any, np.ndarray]:
        """Return the prototypes of all other classes."""
        return {known: vector for known, vector in self.prototypes.items() if known != label}


def linear_problem(
    *,
    n_classes: int = 12,
    n_features: int = 10,
    n_attributes: int = 5,
    noise: float = 0.1,
    seed: int = 7,
) -> Problem:
    """Draw a problem; with little noise it is easy."""
    rng = np.random.default_rng(seed)
    labels = [f"class {j:02d}" for j in range(n_classes)]
    # Among the seen ones in sorted order, so that a row taken for another is noticed.
    unseen = labels[1::3]
    seen = [label for label in labels if label not in unseen]
    prototypes = dict(zip(labels, rng.normal(size=(n_classes, n_attributes)), strict=True))
    hidden = rng.normal(size=(n_attributes, n_features))

    def drawn(of: list[str], n: int) -> tuple[np.ndarray, np.ndarray]:
        y = rng.permutation(np.repeat(of, n))
        X = np.stack([prototypes[label] for label in y]) @ hidden
        X += noise * rng.normal(size=X.shape)
        return X.astype(np.float32).astype(np.float64), y  # the same values in both dtypes

    return Problem(*drawn(seen, 9), *drawn(unseen, 6), prototypes, seen, unseen)


def state(attributes: dict[str, Any]) -> dict[str, str]:
    """Return a fingerprint of each attribute, so that a difference has a name."""
    return {name: str(fingerprint(value)) for name, value in attributes.items()}


def state_of(result: Any) -> Any:
    """Return the fingerprint of what a method returned: an array, a number or a model."""
    return state(vars(result)) if hasattr(result, "get_params") else fingerprint(result)


def containers(labels: list[Any]) -> Iterator[Any]:
    """Yield the labels as a list, as arrays, and as a Series of what is installed."""
    yield labels
    yield np.array(labels)
    yield np.array(labels, dtype=object)
    for library in ("pandas", "polars"):
        if find_spec(library):
            yield import_module(library).Series(labels)


def assert_same_scores(model: Any, other: Any, p: Problem) -> None:
    """Compare scores to rounding and predictions exactly."""
    expected = model.decision_function(p.X_new)
    scores = other.decision_function(p.X_new)
    assert_allclose(scores, expected, rtol=1e-7, atol=1e-9 * np.abs(expected).max())
    assert_array_equal(other.predict(p.X_new), model.predict(p.X_new))


def assert_refused(call: Callable[[], Any], *words: str) -> None:
    """Require a ValueError or TypeError whose message has one of the words."""
    try:
        call()
    except (ValueError, TypeError) as error:
        said = str(error)
        assert not words or any(word in said for word in words), f"unclear message: {said}"
        return
    raise AssertionError(f"bad input was accepted; expected an error about {' or '.join(words)}")
