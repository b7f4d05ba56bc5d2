"""Parameter checks whose errors say what was expected, what came, and what to do."""

from __future__ import annotations

import math
from collections.abc import Collection
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from ..linalg.arrays import Array, is_device_array, namespace


def check_interval(
    name: str,
    value: Any,
    low: float,
    high: float = float("inf"),
    *,
    open_below: bool = False,
    open_above: bool = False,
    or_auto: bool = False,
) -> None:
    """Require a finite number from `low` to `high`, without those ends that are open.

    With `or_auto`, "auto" is as good.
    """
    if or_auto and is_auto(value):
        return
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    number = float(value) if is_number else math.nan
    at_open_end = (open_below and number == low) or (open_above and number == high)
    if math.isfinite(number) and low <= number <= high and not at_open_end:
        return
    start = "[" if math.isfinite(low) and not open_below else "("
    end = "]" if math.isfinite(high) and not open_above else ")"
    choice = '"auto" or ' if or_auto else ""
    rule = f"must be {choice}a number in {start}{low}, {high}{end}"
    remedy = (
        'Use "auto", which chooses it on held-out classes.'
        if or_auto
        else "Choose it inside, for example by ZeroShotSearchCV over training classes."
    )
    raise ValueError(f"`{name}` {rule}; got {value!r}. {remedy}")


def is_auto(value: Any) -> bool:
    """Say whether a parameter is to be chosen in `fit`."""
    return isinstance(value, str) and value == "auto"


def check_count(name: str, value: Any, minimum: int) -> None:
    """Require an integer of at least `minimum`."""
    if isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= minimum:
        return
    raise ValueError(
        f"`{name}` must be an integer of at least {minimum}; got {value!r}. "
        f"Pass {minimum} or a larger whole number."
    )


def check_option(name: str, value: Any, options: Collection[str | None]) -> None:
    """Require one of a few named options."""
    if not (value is None or isinstance(value, str)) or value not in options:
        listed = ", ".join(repr(option) for option in options)
        raise ValueError(
            f"`{name}` must be one of {listed}; got {value!r}. "
            "Correct the spelling, or leave the parameter at its default."
        )


def check_learning_parameters(estimator: Any) -> None:
    """Check the parameters that the zero-shot and the few-shot classifier share."""
    check_interval("forward_weight", estimator.forward_weight, 0, 1)
    check_option("weight_per", estimator.weight_per, ("sample", "class"))
    check_option("scaling", estimator.scaling, ("squared-norm", None))
    check_interval("rho", estimator.rho, 0, 1)
    check_interval("alpha", estimator.alpha, 0, 1, open_above=True)
    check_interval("mu", estimator.mu, 0, 1, open_above=True)
    check_interval("beta", estimator.beta, 0)
    check_interval("tie_tol", estimator.tie_tol, 0)
    check_interval("tol", estimator.tol, 0)
    check_count("n_neighbors", estimator.n_neighbors, 1)
    check_count("n_synthetic", estimator.n_synthetic, 1)
    if estimator.max_iter is not None:
        check_count("max_iter", estimator.max_iter, 1)


def check_top(k: Any, n_classes: int) -> int:
    """Return how many classes to rank: k, or by default five or all where there are fewer."""
    if k is None:
        return min(5, n_classes)
    check_count("k", k, 1)
    if k > n_classes:
        raise ValueError(
            f"`k` must be at most the number of candidates, {n_classes}; got {k}. "
            'Ask for fewer, or fit with candidates="all".'
        )
    return int(k)


def check_classes(labels: Array) -> None:
    """Refuse measurements in place of classes.

    scikit-learn also warns where there are nearly as many classes as samples, which is what
    learning from one sample a class is about.
    """
    if is_device_array(labels):
        xp = namespace(labels)
        is_real = xp.isdtype(labels.dtype, "real floating")
        if is_real and bool(xp.any(labels != xp.floor(labels))):
            raise ValueError(
                "y must hold classes; got numbers that are not whole. Pass integers, or text."
            )
    elif labels.dtype.kind == "f" and (labels != np.floor(labels)).any():
        check_classification_targets(labels)
