"""Samples and labels of any array library, checked before anything is learned from them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_X_y, get_tags
from sklearn.utils.validation import validate_data

from ..core.labels import as_labels, require_label_array
from ..core.moments import as_samples
from ..linalg.arrays import Array, is_device_array, namespace, placed_like, to_numpy

_DTYPES: Any = [np.float64, np.float32]


def validate_samples(estimator: Any, X: Any, *, reset: bool = True, copy: bool = False) -> Array:
    """Return X (n x d) as float32 or float64, and note or compare its number of features.

    Arrays of other libraries than NumPy stay where they are, for an estimator whose tags say
    that it takes them; everything else becomes a NumPy array, as everywhere in scikit-learn.

    Parameters
    ----------
    estimator : estimator
    X : array-like
    reset : bool
        Whether X is what the estimator is fitted on.
    copy : bool
        Whether the result will be written to.
    """
    if not _stays(estimator, X):
        return validate_data(estimator, X, dtype=_DTYPES, reset=reset, copy=copy)
    X = _checked(X, copy)
    if reset:
        estimator.n_features_in_ = X.shape[1]
        vars(estimator).pop("feature_names_in_", None)
    elif X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X must have the {estimator.n_features_in_} features that {type(estimator).__name__} "
            f"was fitted on; got {X.shape[1]}. Prepare it as the training data."
        )
    return X


def validate_labeled(estimator: Any, X: Any, y: Any) -> tuple[Array, Array]:
    """Return samples to fit on, and their labels: on the host, or in the place of the samples."""
    if _stays(estimator, X):
        return validate_samples(estimator, X), _checked_labels(y, X)
    X, y = validate_data(estimator, X, _on_host(y), dtype=_DTYPES)
    return X, y


def check_labeled(estimator: Any, X: Any, y: Any) -> tuple[Array, Array]:
    """Return the same, and leave the estimator as it is."""
    if _stays(estimator, X):
        return _checked(X), _checked_labels(y, X)
    return check_X_y(X, _on_host(y), dtype=_DTYPES)


def _stays(estimator: Any, X: Any) -> bool:
    return is_device_array(X) and get_tags(estimator).array_api_support


def _on_host(y: Any) -> Any:
    """Return labels where samples of NumPy are: a device may not give them away unasked."""
    return to_numpy(y) if is_device_array(y) else y


def _checked(X: Array, copy: bool = False) -> Array:
    given, X = X, as_samples(X)
    if not X.shape[0]:
        raise ValueError("X must have at least one sample; got none. Pass at least one row.")
    xp = namespace(X)
    if X.dtype not in (xp.float32, xp.float64):
        X = xp.astype(X, xp.float64)
    return xp.asarray(X, copy=True) if copy and X.dtype == given.dtype else X


def _checked_labels(y: Any, X: Array) -> Array:
    if y is None:
        raise ValueError("y must hold a label for each sample; got None. Pass fit(X, y).")
    if is_device_array(y):
        y = placed_like(y, X)
        require_label_array(y, "y")
    else:
        y = as_labels(y, "y")
    if y.shape[0] != X.shape[0]:
        raise ValueError(
            f"y must have one label for each of the {X.shape[0]} samples; got {y.shape[0]}. "
            "Pass X and y of the same samples."
        )
    return y
