"""Accuracy of one predicted label, or of k ranked labels, per sample."""

from numbers import Integral
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arrays import Array, is_device_array, namespace, place_like, sums_by_code, to_numpy
from ..constraints import weight_vector
from ..labels import (
    as_labels,
    encode_labels,
    format_labels,
    make_comparable,
    place_labels,
    require_same_kind,
)


def per_class_accuracy(
    y_true: ArrayLike,
    y_pred: ArrayLike | Array,
    *,
    labels: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Return the mean over classes of the accuracy within each class.

    Every class has the same weight, regardless of its number of samples.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, all text or all numbers.
    y_pred : array-like of shape (n_samples,)
        Predicted labels. They may contain classes that are absent from `y_true`.
    labels : array-like or set, default=None
        Classes to average over; each must have a sample in `y_true`. None uses all classes of
        `y_true`.
    sample_weight : array-like of shape (n_samples,), default=None
        Non-negative weights of the samples within their class.

    Returns
    -------
    float
        Accuracy between 0 and 1.

    Notes
    -----
    Predictions on a device, such as torch tensors, are counted on that device.

    With ``labels=None`` this equals :func:`sklearn.metrics.balanced_accuracy_score`, without its
    warning for predicted classes that have no true sample. Such predictions are normal in
    generalized zero-shot learning.

    Examples
    --------
    >>> from zonkey.metrics import per_class_accuracy
    >>> per_class_accuracy(["cat", "cat", "cat", "owl"], ["cat", "cat", "cat", "cat"])
    0.5
    """
    if is_device_array(y_pred):
        classes, mass, hits = _count_on_device(y_true, cast(Array, y_pred), sample_weight)
    else:
        y_true = to_numpy(y_true) if is_device_array(y_true) else y_true
        true, predicted = require_filled(y_true, "y_true"), require_filled(y_pred, "y_pred")
        require_same_kind(y_true=true, y_pred=predicted)
        check_same_length(true, predicted, "y_pred")
        weight = to_numpy(_as_weights(sample_weight, true.shape[0]))
        classes, class_of = np.unique(true, return_inverse=True)
        mass = np.bincount(class_of, weights=weight)
        hits = np.bincount(class_of, weights=weight * (true == predicted))
    if labels is not None:
        kept = _find_classes(require_filled(labels, "labels"), classes)
        classes, mass, hits = classes[kept], mass[kept], hits[kept]
    if (mass == 0).any():
        raise ValueError(
            "sample_weight must leave every averaged class some weight, but it sums to 0 in: "
            f"{format_labels(classes[mass == 0])}. Leave those classes out with `labels`."
        )
    return float(np.mean(hits / mass))


def _count_on_device(
    y_true: Any, predicted: Array, sample_weight: Any
) -> tuple[NDArray[Any], NDArray[np.float64], NDArray[np.float64]]:
    """Return the classes of y_true, their total weights, and the weights predicted correctly."""
    xp = namespace(predicted)
    classes, codes = encode_labels(y_true, predicted)
    require_same_kind(y_true=classes, y_pred=to_numpy(predicted[:1]))
    check_same_length(codes, predicted, "y_pred")
    if not classes.size:
        raise ValueError("y_true must hold at least one label, got none. Pass a non-empty array.")
    weight = place_like(_as_weights(sample_weight, codes.shape[0]), predicted)
    known, predicted = make_comparable(place_labels(classes, predicted), predicted)
    is_right = xp.astype(xp.take(known, codes, axis=0) == predicted, xp.float64)
    sums = [sums_by_code(part, codes, len(classes)) for part in (weight, weight * is_right)]
    return classes, to_numpy(sums[0]), to_numpy(sums[1])


def hit_at_k(y_true: ArrayLike, y_top: ArrayLike, k: int | None = None) -> float:
    """Return the share of samples whose true label is among the k best predictions (hit@k).

    Every sample has the same weight, so large classes count more than small ones.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_top : array-like of shape (n_samples, n_ranked)
        Predicted labels, best first, as `predict_top` returns them.
    k : int, default=None
        Number of leading columns of `y_top` that count, from 1 to `n_ranked`. None uses all.

    Returns
    -------
    float
        Share between 0 and 1.

    Examples
    --------
    >>> from zonkey.metrics import hit_at_k
    >>> hit_at_k(["cat", "owl"], [["cat", "dog"], ["dog", "owl"]], k=1)
    0.5
    """
    true, top = require_filled(y_true, "y_true"), require_filled(y_top, "y_top", ndim=2)
    require_same_kind(y_true=true, y_top=top)
    check_same_length(true, top, "y_top")
    n_ranked = top.shape[1]
    if k is None:
        k = n_ranked
    if isinstance(k, bool) or not isinstance(k, Integral) or not 1 <= k <= n_ranked:
        raise ValueError(
            f"k must be an integer from 1 to the {n_ranked} columns of y_top, got {k!r}. "
            "Lower k, or ask predict_top for more labels per sample."
        )
    return float(np.mean((true[:, None] == top[:, :k]).any(axis=1)))


def require_filled(values: Any, name: str, *, ndim: int = 1) -> NDArray[Any]:
    """Return labels as a non-empty array."""
    labels = as_labels(values, name, ndim=ndim)
    if labels.size == 0:
        raise ValueError(f"{name} must hold at least one label, got none. Pass a non-empty array.")
    return labels


def check_same_length(true: Array, other: Array, name: str) -> None:
    """Require one entry or row of `other` for each true label."""
    if true.shape[0] != other.shape[0]:
        raise ValueError(
            f"{name} must have one entry for each label of y_true, got {other.shape[0]} for "
            f"{true.shape[0]}. Pass the predictions of the same samples."
        )


def check_columns(true: NDArray[Any], columns: NDArray[Any]) -> None:
    """Require that `columns` are distinct labels and include all true ones."""
    require_same_kind(y_true=true, classes=columns)
    n_distinct = np.unique(columns).size
    absent = np.setdiff1d(true, columns)
    if n_distinct < columns.size or absent.size:
        got = f"no {format_labels(absent)}" if absent.size else f"{n_distinct} of {columns.size}"
        raise ValueError(
            f"classes must name each column once and hold every label of y_true; got {got}. "
            "Pass `classes_` of the model, and samples of these classes."
        )


def _as_weights(sample_weight: Any, n_samples: int) -> Array:
    if sample_weight is None:
        return np.ones(n_samples)
    weight = weight_vector(sample_weight)
    xp = namespace(weight)
    if weight.shape != (n_samples,):
        raise ValueError(
            f"sample_weight must have shape ({n_samples},) as y_true, got {tuple(weight.shape)}. "
            "Pass one weight per sample."
        )
    if not bool(xp.all(xp.isfinite(weight) & (weight >= 0))):
        raise ValueError(
            "sample_weight must be finite and not negative, got values from "
            f"{float(xp.min(weight))} to {float(xp.max(weight))}. Use 0 to leave a sample out."
        )
    return weight


def _find_classes(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.bool_]:
    """Return the mask of the classes of y_true that are in `labels`."""
    require_same_kind(y_true=classes, labels=labels)
    absent = np.setdiff1d(labels, classes)
    if absent.size:
        raise ValueError(
            "labels must each have a sample in y_true, or their accuracy is undefined; without "
            f"one: {format_labels(absent)}. Drop them from `labels`."
        )
    return np.isin(classes, labels)
