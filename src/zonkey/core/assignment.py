"""Which unseen class each synthesized sample is pulled to, and which it is pushed from.

f_ij is the loss of giving sample i to class j. eta is the gradient of its minimum over j
(Eq. subgrad01), xi that of its second-best minimum (Eq. subgrad11), both relaxed so that
losses within a relative `tie_tol` of the minimum share it, and delta = eta - mu xi. Axes in front
of those named here are problems of their own.
"""

from __future__ import annotations

from typing import Literal

from array_api_compat import device

from ..linalg.arrays import Array, namespace

Rule = Literal["second-best", "best", "assigned"]


def losses(
    W: Array,
    X_g: Array,
    Y_u: Array,
    of_X: Array | None = None,
    of_XW: Array | None = None,
    *,
    forward: float = 0.5,
) -> Array:
    """Return f_ij = a ||W'x_i - y_j||^2 + b ||x_i - W y_j||^2, shape (..., N_g, q).

    `forward` is the share of the first error: a = 2 forward and b = 2 - a, both 1 in the paper. In
    Gram form, a (||W'x||^2 + ||y||^2) + b (||x||^2 + ||W y||^2) - 4 x'W y, clipped at zero. `of_X`
    and `of_XW` hold ||x_i||^2 and ||W'x_i||^2, where they are known; with the latter nothing is
    clipped.
    """
    xp = namespace(W)
    a, b = 2 * forward, 2 - 2 * forward
    centers = Y_u @ xp.matrix_transpose(W)  # q x d
    squares = _squared_rows(X_g) if of_X is None else of_X
    projected = _squared_rows(X_g @ W) if of_XW is None else of_XW
    of_samples = a * projected + b * squares
    of_classes = a * _squared_rows(Y_u) + b * _squared_rows(centers)
    products = X_g @ xp.matrix_transpose(centers)
    f = of_samples[..., :, None] + of_classes[..., None, :] - 4 * products
    if of_XW is not None:  # perhaps rounded: clipped, classes that differ could become equal
        return f
    # Not `f > 0`: NaN would become 0, the best loss there is.
    return xp.where(f < 0, xp.zeros_like(f), f)


def best(f: Array, tie_tol: float) -> tuple[Array, Array]:
    """Return eta (Eq. subgrad01) and the mask of j(i), the set of tied best classes."""
    return _share(f, namespace(f).ones_like(f, dtype=namespace(f).bool), tie_tol)


def second_best(f: Array, taken: Array, tie_tol: float) -> Array:
    """Return xi (Eq. subgrad11): the best among the classes outside j(i).

    Where j(i) holds every class there is no second best, and the row is zero.
    """
    xi, _ = _share(f, ~taken, tie_tol)
    return xi


def assigned(targets: Array, q: int, like: Array) -> Array:
    """Return eta without ambiguity handling: each sample belongs to the class it was made for."""
    xp = namespace(like)
    classes = xp.arange(q, dtype=targets.dtype, device=device(like))
    return xp.astype(targets[..., None] == classes, like.dtype)


def compete(f: Array, targets: Array, rule: Rule, tie_tol: float) -> tuple[Array, Array]:
    """Return eta and xi of samples with losses f (..., N_g, q), made for the classes `targets`.

    "second-best" is the paper's model; "best" leaves out the push from the second best; "assigned"
    trusts the class that each sample was made for.
    """
    xp = namespace(f)
    if rule == "assigned":
        eta = xp.broadcast_to(assigned(targets, f.shape[-1], like=f), f.shape)
        return eta, xp.zeros_like(f)
    eta, taken = best(f, tie_tol)
    if rule == "best":
        return eta, xp.zeros_like(f)
    return eta, second_best(f, taken, tie_tol)


def _squared_rows(M: Array) -> Array:
    """Return the squared length of each row."""
    return namespace(M).sum(M * M, axis=-1)


def _share(f: Array, allowed: Array, tie_tol: float) -> tuple[Array, Array]:
    """Split a weight of one among the smallest allowed entries of each row."""
    xp = namespace(f)
    infinite = xp.full_like(f, float("inf"))
    smallest = xp.min(xp.where(allowed, f, infinite), axis=-1, keepdims=True)
    # Multiplied out, the printed ratio (f - min) / min < eps survives min = 0; the
    # minimum itself always belongs to the set.
    finite = xp.where(allowed, smallest, xp.zeros_like(f))
    tied = allowed & ((f - finite < tie_tol * finite) | (f == finite))
    share = xp.astype(tied, f.dtype)
    number = xp.sum(share, axis=-1, keepdims=True)
    return share / xp.where(number > 0, number, xp.ones_like(number)), tied
