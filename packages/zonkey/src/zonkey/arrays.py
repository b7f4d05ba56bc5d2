"""Work with NumPy, PyTorch and every other array-API library through one interface."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
from array_api_compat import (
    array_namespace,
    device,
    is_array_api_obj,
    is_cupy_array,
    is_dask_array,
    is_numpy_array,
    is_pydata_sparse_array,
    is_torch_array,
    to_device,
)
from scipy import sparse


class Array(Protocol):
    """Interface common to arrays of all array-API libraries.

    Operations return `Any`: every library returns its own type. Docstrings state shapes.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each axis."""
        ...

    @property
    def ndim(self) -> int:
        """Number of axes."""
        ...

    @property
    def dtype(self) -> Any:
        """Type of the entries."""
        ...

    @property
    def T(self) -> Any:
        """Transpose of a matrix."""
        ...

    def __getitem__(self, key: Any, /) -> Any: ...
    def __float__(self) -> float: ...
    def __int__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __neg__(self) -> Any: ...
    def __add__(self, other: Any, /) -> Any: ...
    def __radd__(self, other: Any, /) -> Any: ...
    def __sub__(self, other: Any, /) -> Any: ...
    def __rsub__(self, other: Any, /) -> Any: ...
    def __mul__(self, other: Any, /) -> Any: ...
    def __rmul__(self, other: Any, /) -> Any: ...
    def __truediv__(self, other: Any, /) -> Any: ...
    def __rtruediv__(self, other: Any, /) -> Any: ...
    def __pow__(self, other: Any, /) -> Any: ...
    def __matmul__(self, other: Any, /) -> Any: ...
    def __lt__(self, other: Any, /) -> Any: ...
    def __le__(self, other: Any, /) -> Any: ...
    def __gt__(self, other: Any, /) -> Any: ...
    def __ge__(self, other: Any, /) -> Any: ...


def namespace(*arrays: Array) -> Any:
    """Return the array-API namespace that all the arrays belong to."""
    return array_namespace(*arrays)


def identity_like(M: Array) -> Array:
    """Return the identity with the shape, dtype and device of the square matrix M."""
    return namespace(M).eye(M.shape[0], dtype=M.dtype, device=device(M))


def epsilon(M: Array) -> float:
    """Return the rounding unit of the dtype of M."""
    return float(namespace(M).finfo(M.dtype).eps)


def squared_norm(M: Array) -> float:
    """Return the squared Frobenius norm of M."""
    return float(namespace(M).sum(M * M))


def is_device_array(M: Any) -> bool:
    """Whether M is an array of a library other than NumPy, on any device.

    Lazy and sparse arrays do not count: they are converted to NumPy, like lists and tables.
    """
    apart = is_numpy_array(M) or is_dask_array(M) or is_pydata_sparse_array(M)
    return is_array_api_obj(M) and not apart


@contextmanager
def full_single_precision(like: Array) -> Iterator[None]:
    """Turn off TF32, so that float32 products keep full precision on a GPU."""
    if not is_torch_array(like) or device(like).type != "cuda":
        yield
        return
    settings = sys.modules["torch"].backends.cuda.matmul
    allowed, settings.allow_tf32 = settings.allow_tf32, False
    try:
        yield
    finally:
        settings.allow_tf32 = allowed


def detach_gradient(M: Array) -> Array:
    """Return M detached from the computation graph of torch."""
    return M.detach() if is_torch_array(M) else M


def require_values(M: Any, name: str = "X") -> None:
    """Refuse an array without a number in every place: sparse, masked, or without memory."""
    got = remedy = ""
    if is_torch_array(M):
        if M.is_nested:
            got, remedy = "a nested tensor", "Pad or cut its parts to one length"
        elif "strided" not in str(M.layout):
            got, remedy = f"a tensor of layout {M.layout}", "Pass its .to_dense()"
        elif M.device.type == "meta":
            got, remedy = "a tensor on the device meta", "Load its values first"
    elif isinstance(M, np.ma.MaskedArray) and np.ma.is_masked(M):
        got = f"{np.ma.count_masked(M)} masked entries of {M.size}"
        remedy = "Drop those rows, or fill them in with .filled(value)"
    elif hasattr(M, "toarray"):
        got, remedy = f"{type(M).__name__}, which is sparse", "Pass its .toarray()"
    if got:
        raise TypeError(f"{name} must have a value in every place; got {got}. {remedy}.")


def has_only_finite(M: Array) -> bool:
    """Whether no value is NaN or infinite."""
    xp = namespace(M)
    # One pass without a mask. A finite sum proves it; an overflow needs the second check.
    if is_device_array(M) and bool(xp.isfinite(xp.sum(M))):
        return True
    return bool(xp.all(xp.isfinite(M)))


def to_numpy(M: Any) -> np.ndarray:
    """Return M as a NumPy array in host memory."""
    if not is_device_array(M):
        return np.asarray(M)
    if is_torch_array(M):
        return M.detach().cpu().numpy()
    if is_cupy_array(M):
        return M.get()
    home = namespace(M).__array_namespace_info__().default_device()
    return np.asarray(to_device(M, home))


def is_same_place(M: Array, other: Array) -> bool:
    """Whether two arrays share library and device."""
    return namespace(M) is namespace(other) and device(M) == device(other)


def place_like(M: Any, like: Array) -> Array:
    """Return M in the library and on the device of `like`."""
    if not is_device_array(like):
        return to_numpy(M)
    xp = namespace(like)
    if is_device_array(M) and namespace(M) is xp:
        return xp.asarray(detach_gradient(M), device=device(like))
    # Copy: a CPU tensor would otherwise share memory with its source.
    return xp.asarray(to_numpy(M), device=device(like), copy=True)


def library_of(value: Any) -> str:
    """Return the name of the package that defines the type of an object."""
    return type(value).__module__.partition(".")[0]


def place_of(M: Array) -> str:
    """Name the library and device of M for an error message."""
    return f"{library_of(M)} on {device(M)}"


def dtype_like(dtype: Any, like: Array) -> Any:
    """Return the dtype of the same name in the library of `like`."""
    name = str(dtype).split(".")[-1]
    return getattr(namespace(like), name) if is_device_array(like) else np.dtype(name)


def positions_like(n: int, like: Array) -> Array:
    """Return 0, ..., n - 1 on the device of `like`."""
    xp = namespace(like)
    return xp.arange(n, dtype=xp.int64, device=device(like))


def take_rows(X: Array, rows: Any) -> Array:
    """Return some rows of an array, whose positions may be on the host."""
    return namespace(X).take(X, place_like(rows, X), axis=0)


def sums_by_code(X: Array, codes: Array, n: int, weights: Array | None = None) -> Array:
    """Return the sum of the rows of X for each code from 0 to n - 1, each row times its weight.

    Without weights, sums of NumPy arrays are in float64.
    """
    if isinstance(X, np.ndarray):
        data = np.ones(len(X)) if weights is None else weights
        return sparse.csr_array((data, (codes, np.arange(len(X)))), shape=(n, len(X))) @ X
    X = X if weights is None else X * weights[:, None]
    if is_torch_array(X):
        sums = namespace(X).zeros((n, *X.shape[1:]), dtype=X.dtype, device=device(X))
        return sums.index_add_(0, codes, X)
    members = codes[None, :] == positions_like(n, codes)[:, None]
    return namespace(X, codes).astype(members, X.dtype) @ X


def sum_columns(P: Array, members: sparse.csr_array) -> Array:
    """Return the sums of those columns of P that each row of 0 and 1 in `members` marks."""
    if not is_device_array(P):
        return np.ascontiguousarray((members @ P.T).T.astype(P.dtype, copy=False))
    xp = namespace(P)
    # Differences of running sums: no library but NumPy has sparse products in common.
    parts = xp.astype(xp.take(P, place_like(members.indices, P), axis=1), xp.float64)
    sums = xp.concat([xp.zeros_like(parts[:, :1]), xp.cumulative_sum(parts, axis=1)], axis=1)
    ends = xp.take(sums, place_like(members.indptr, P), axis=1)
    return xp.astype(ends[:, 1:] - ends[:, :-1], P.dtype)


def counts_by_code(codes: Array, n: int) -> np.ndarray:
    """Count each code from 0 to n - 1; the result is a NumPy array."""
    if is_numpy_array(codes):
        return np.bincount(codes, minlength=n)
    xp = namespace(codes)
    ends = xp.searchsorted(xp.sort(codes), positions_like(n, codes), side="right")
    return np.diff(to_numpy(ends), prepend=0)


def one_hot(codes: Array, n: int, like: Array) -> Array:
    """Return 1 in the column of each code and 0 elsewhere, shape (..., n), dtype of `like`."""
    xp = namespace(like)
    columns = xp.arange(n, dtype=codes.dtype, device=device(like))
    return xp.astype(codes[..., None] == columns, like.dtype)


def squared_distances(X: Array, Z: Array) -> Array:
    """Return ||x_i - z_j||^2 for all rows of X (n x d) and Z (m x d), shape (n, m).

    The Gram form ||x||^2 + ||z||^2 - 2 x'z costs one matrix product. Values that rounding
    makes negative are clipped to zero.
    """
    xp = namespace(X, Z)
    xx = xp.sum(X * X, axis=1)
    zz = xp.sum(Z * Z, axis=1)
    D = xx[:, None] + zz[None, :] - 2 * (X @ Z.T)
    return xp.where(D < 0, xp.zeros_like(D), D)  # keeps NaN


def find_nearest(X: Array, Z: Array, k: int) -> Array:
    """Return the positions of the k nearest rows of Z for each row of X, nearest first.

    Ties keep the order of Z. If Z has fewer than k rows, all are returned.
    """
    xp = namespace(X, Z)
    order = xp.argsort(squared_distances(X, Z), axis=1, stable=True)
    return order[:, : min(k, Z.shape[0])]  # the standard leaves longer slices undefined


def softmax(scores: Array) -> Array:
    """Return exp(scores), each row scaled to sum 1; `scores` may be overwritten."""
    xp = namespace(scores)
    scores = scores - xp.max(scores, axis=1, keepdims=True)
    scores = xp.exp(scores)
    scores /= xp.sum(scores, axis=1, keepdims=True)
    return scores
