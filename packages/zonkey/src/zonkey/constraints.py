"""Checks of parameters, samples and labels, with errors that name rule, value and remedy."""

from __future__ import annotations

import os
from numbers import Integral
from typing import Any, cast

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils import check_X_y, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from .arrays import Array, is_device_array, namespace, place_like, require_values, to_numpy
from .labels import (
    as_labels,
    check_count,
    format_labels,
    format_value,
    require_label_array,
    warn_user,
)
from .persistence.forms import is_encoder
from .prototypes import Prototypes
from .samples import as_samples, require_scale
from .streaming.accept import as_chunks
from .streaming.chunks import Chunked

_DTYPES: Any = [np.float64, np.float32]


def check_top(k: Any, n_classes: int) -> int:
    """Return the number of classes to rank: `k`, or five at most if `k` is None."""
    if k is None:
        return min(5, n_classes)
    k = check_count("k", k, 1)
    if k > n_classes:
        raise ValueError(
            f"`k` must be at most the number of candidates, {n_classes}; got {k}. "
            'Ask for fewer, or fit with candidates="all".'
        )
    return k


def check_classes(labels: Array) -> None:
    """Reject continuous targets.

    scikit-learn's check also warns if there are nearly as many classes as samples, which is
    normal when learning from one sample per class.
    """
    if is_device_array(labels):
        xp = namespace(labels)
        is_real = xp.isdtype(labels.dtype, "real floating")
        if is_real and bool(xp.any(labels != xp.floor(labels))):
            raise ValueError(
                "y must hold classes; got numbers that are not whole. Pass integers, or text."
            )
    elif labels.dtype.kind == "f" and bool(np.any(labels != np.floor(to_numpy(labels)))):
        check_classification_targets(labels)


def check_semantics(known: Prototypes, seen: np.ndarray, candidates: np.ndarray) -> None:
    """Warn of prototypes that do not distinguish candidates; the classes `seen` have samples."""
    vectors = known.matrix + 0.0  # -0.0 becomes 0.0
    zero = known.labels[~vectors.any(axis=1)]
    if zero.size:
        warn_user(
            f"Prototypes should not be all zeros; those of {format_labels(zero)} are. Check that "
            "they are not missing."
        )
    first_of: dict[int, int] = {}  # by hash: the vectors themselves would fill memory again
    for j, vector in enumerate(vectors):
        i = first_of.setdefault(hash(vector.tobytes()), j)
        if i != j and vector.any() and np.array_equal(vectors[i], vector):
            pair = " and ".join(map(format_value, known.labels[[i, j]]))
            warn_user(
                f"Prototypes of different classes should differ; those of {pair} are equal, so "
                "that only samples can tell them apart. Describe one in more detail, or merge them."
            )
            break
    if len(seen) == 1 < len(candidates) and np.setdiff1d(candidates, seen).size:
        warn_user(
            "At least two classes with samples are needed to learn what prototypes mean; got "
            f"samples of {format_labels(seen)} only. Add samples of other classes."
        )


class AnyLibraryMixin:
    """Declares that samples keep their array library and device."""

    def __sklearn_tags__(self) -> Any:
        tags = cast(Any, super()).__sklearn_tags__()
        tags.array_api_support = True
        return tags


def validate_samples(estimator: Any, X: Any, *, reset: bool = True, copy: bool = False) -> Array:
    """Return X (n x d) as float32 or float64, and set or compare `n_features_in_`.

    Arrays of other libraries than NumPy keep their library and device if the estimator has the
    array API tag. Everything else becomes a NumPy array. `copy` makes the result safe to write to.
    """
    if not reset:
        X = encode_paths(estimator, X)
    if not _keeps_library(estimator, X):
        X = plain_samples(X)
        data: Any = validate_data(estimator, X, dtype=_DTYPES, reset=reset, copy=copy)
        return data
    X = _check_samples(cast(Array, X), copy)
    if reset:
        set_features(estimator, X.shape[1], None)
    elif X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X must have the {estimator.n_features_in_} features that {type(estimator).__name__} "
            f"was fitted on; got {X.shape[1]}. Prepare it as the training data."
        )
    return X


def are_paths(X: Any) -> bool:
    """Whether X is the path of pictures, or a list of some."""
    if isinstance(X, list | tuple) and X:
        return all(isinstance(path, str | os.PathLike) for path in X)
    return isinstance(X, str | os.PathLike)


def encode_paths(model: Any, X: Any) -> Any:
    """Return features of pictures if X is their path; other samples as they are.

    The model, or the first step of a pipeline, was loaded from a file that names the encoder. A
    pipeline that starts with an encoder takes paths itself.
    """
    estimator = model[0] if isinstance(model, Pipeline) else model
    if not are_paths(X) or is_encoder(estimator):
        return X
    encode = getattr(estimator, "path_encoder_", None)
    is_list = isinstance(X, list | tuple)
    if encode is None and is_list and estimator is not model:
        return X  # texts, for the steps of the pipeline
    if encode is None:
        path = X[0] if is_list else X
        raise ValueError(
            f"X must be an array of samples; got the path or text {os.fspath(path)!r}, "
            f"and {type(estimator).__name__} knows no encoder. Encode pictures and texts first."
        )
    return encode(X)


def set_features(estimator: Any, n_features: int, names: tuple[str, ...] | None) -> None:
    """Set `n_features_in_`, and `feature_names_in_` if there are names."""
    estimator.n_features_in_ = n_features
    vars(estimator).pop("feature_names_in_", None)
    if names is not None:
        estimator.feature_names_in_ = np.asarray(names, dtype=object)


def chunks_of(X: Any, y: Any = None, *, in_memory: bool = False) -> Chunked | None:
    """Return samples that come in chunks, None for samples in memory.

    `in_memory`: options need all samples, so a memory map, which joblib makes of large arrays,
    counts as an array.
    """
    return None if in_memory and isinstance(X, np.memmap) else as_chunks(X, y)


def check_seed(random_state: Any, keeper: Any) -> None:
    """Require a seed that is the same when an interrupted computation resumes.

    `keeper` is what may have a checkpoint: chunks, or an estimator.
    """
    is_seed = isinstance(random_state, Integral) and not isinstance(random_state, bool)
    if getattr(keeper, "checkpoint", None) is not None and not is_seed:
        raise ValueError(
            "`random_state` must be an integer with a checkpoint, to resume after an interruption; "
            f"got {format_value(random_state)}. Pass random_state=0."
        )


def refuse_weights(sample_weight: Any) -> None:
    """Refuse weights of samples in chunks."""
    if sample_weight is not None:
        raise ValueError(
            "`sample_weight` must be None if X comes in chunks; got "
            f"{type(sample_weight).__name__}. Leave it out, or pass arrays in memory, for a memory "
            "map np.array(X)."
        )


def validate_labeled(estimator: Any, X: Any, y: Any) -> tuple[Array, Array]:
    """Return samples to fit on and their labels, and set `n_features_in_`."""
    if _keeps_library(estimator, X):
        X = validate_samples(estimator, X)
        y = _check_labels(y, X)
    else:
        X, y = validate_data(estimator, plain_samples(X), plain_labels(y), dtype=_DTYPES)
    require_scale(X)
    return X, y


def check_labeled(estimator: Any, X: Any, y: Any) -> tuple[Array, Array]:
    """Validate like `validate_labeled`, without changing the estimator."""
    if _keeps_library(estimator, X):
        X = _check_samples(X)
        y = _check_labels(y, X)
    else:
        X, y = check_X_y(plain_samples(X), plain_labels(y), dtype=_DTYPES)
    require_scale(X)
    return X, y


def check_weights(sample_weight: Any, X: Array) -> Array | None:
    """Return one nonnegative weight per row of X, in its dtype and on its device, or None."""
    if sample_weight is None:
        return None
    weights = to_numpy(weight_vector(sample_weight))
    if weights.ndim == 0:
        weights = np.full(X.shape[0], weights)
    if weights.shape != (X.shape[0],):
        raise ValueError(
            f"`sample_weight` must have one entry for each of the {X.shape[0]} samples; got shape "
            f"{weights.shape}. Pass one number per sample."
        )
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise ValueError(
            "`sample_weight` must be nonnegative and finite, and not all zero; got weights from "
            f"{weights.min()} to {weights.max()}. Drop samples that must not count."
        )
    if not 1e-15 <= weights.max() <= 1e15:
        raise ValueError(
            "`sample_weight` must be of a usual size, from 1e-15 to 1e15; the largest is "
            f"{weights.max():.3g}. Scale the weights: 1 counts as one sample."
        )
    return namespace(X).astype(place_like(weights, X), X.dtype)


def weight_vector(sample_weight: Any) -> Array:
    """Return weights as real numbers in float64, on their device."""
    require_values(sample_weight, "`sample_weight`")
    if is_device_array(sample_weight):
        xp = namespace(sample_weight)
        return xp.astype(sample_weight, xp.float64, copy=False)
    weights = np.asarray(sample_weight)
    try:
        weights = weights.astype(np.float64, copy=False) if weights.dtype.kind != "c" else None
    except (TypeError, ValueError):
        weights = None
    if weights is None:
        raise TypeError(
            f"`sample_weight` must be real numbers; got {format_value(sample_weight)}. Pass one "
            "number per sample."
        )
    return weights


def _keeps_library(estimator: Any, X: Any) -> bool:
    return is_device_array(X) and get_tags(estimator).array_api_support


def plain_labels(y: Any) -> Any:
    """Return labels in a form that scikit-learn can check; raise errors that name the remedy."""
    if is_device_array(y):
        require_values(y, "y")
        return to_numpy(y)
    if y is None:
        return y
    array = np.asarray(y, dtype=object if isinstance(y, list | tuple) else None)
    is_special = array.dtype.kind in "OTSmM" or np.ma.isMA(y)
    return as_labels(y, "y") if is_special and array.ndim == 1 else y


def plain_samples(X: Any) -> Any:
    """Return samples in a form that scikit-learn can check, with errors of their own."""
    require_values(X)
    require_memory(X)
    if is_device_array(X):
        return to_numpy(X)
    names = getattr(X, "columns", None)
    if names is not None and len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in list(names[:i]))
        raise ValueError(
            f"Columns of X must have different names; {format_value(twice)} came more than once. "
            "Rename one, or pass X.to_numpy()."
        )
    if hasattr(X, "sparse"):  # a DataFrame of sparse columns only
        return X.sparse.to_dense()
    if not hasattr(X, "columns"):
        if isinstance(X, list | tuple):
            X = _stack_rows(X)
        if getattr(getattr(X, "dtype", None), "kind", "f") in "mM":
            raise TypeError(
                f"X must be numbers; got {X.dtype}. Convert it, for example to days since a date."
            )
    return X


def require_memory(X: Any) -> None:
    """Refuse chunks."""
    if isinstance(X, Chunked):
        raise TypeError(
            f"X must be in memory here; got {type(X).__name__}. Pass an array of some samples."
        )


def _stack_rows(rows: Any) -> np.ndarray:
    try:
        return np.asarray(rows)
    except ValueError:
        raise ValueError(
            "X must be a matrix; got rows of different lengths. Pass the same features of every "
            "sample."
        ) from None


def _check_samples(X: Array, copy: bool = False) -> Array:
    given, X = X, as_samples(X)
    if not X.shape[0]:
        raise ValueError("X must have at least one sample; got none. Pass at least one row.")
    xp = namespace(X)
    if X.dtype not in (xp.float32, xp.float64):
        X = xp.astype(X, xp.float64)
    return xp.asarray(X, copy=True) if copy and X.dtype == given.dtype else X


def _check_labels(y: Any, X: Array) -> Array:
    if y is None:
        raise ValueError("y must hold a label for each sample; got None. Pass fit(X, y).")
    if is_device_array(y):
        y = place_like(y, X)
        require_label_array(y, "y")
    else:
        y = as_labels(y, "y")
    if y.shape[0] != X.shape[0]:
        raise ValueError(
            f"y must have one label for each of the {X.shape[0]} samples; got {y.shape[0]}. "
            "Pass X and y of the same samples."
        )
    return y
