"""Which unseen class each synthesised sample is pulled to, and which it is pushed from.

f_ij is the loss of giving sample i to class j. eta is the gradient of its minimum over j
(Eq. subgrad01), xi that of its second-best minimum (Eq. subgrad11), both relaxed so that
losses within a relative `tie_tol` of the minimum share it, and delta = eta - mu xi.
"""

from __future__ import annotations

from array_api_compat import device

from ..linalg.arrays import Array, namespace


def losses(
    W: Array, X_g: Array, Y_u: Array, of_X: Array | None = None, *, forward: float = 0.5
) -> Array:
    """Return f_ij = a ||W'x_i - y_j||^2 + b ||x_i - W y_j||^2, shape (N_g, q).

    `forward` is the share of the first error: a = 2 forward and b = 2 - a, both 1 in the paper. In
    Gram form, a (||W'x||^2 + ||y||^2) + b (||x||^2 + ||W y||^2) - 4 x'W y, clipped at zero. `of_X`
    holds ||x_i||^2, where it is known.
    """
    xp = namespace(W)
    a, b = 2 * forward, 2 - 2 * forward
    XW = X_g @ W  # N_g x k
    centres = Y_u @ W.T  # q x d
    squares = xp.sum(X_g * X_g, axis=1) if of_X is None else of_X
    of_samples = a * xp.sum(XW * XW, axis=1) + b * squares
    of_classes = a * xp.sum(Y_u * Y_u, axis=1) + b * xp.sum(centres * centres, axis=1)
    f = of_samples[:, None] + of_classes[None, :] - 4 * (XW @ Y_u.T)
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
    return xp.astype(targets[:, None] == classes[None, :], like.dtype)


def _share(f: Array, allowed: Array, tie_tol: float) -> tuple[Array, Array]:
    """Split a weight of one among the smallest allowed entries of each row."""
    xp = namespace(f)
    infinite = xp.full_like(f, float("inf"))
    smallest = xp.min(xp.where(allowed, f, infinite), axis=1, keepdims=True)
    # Multiplied out, the printed ratio (f - min) / min < eps survives min = 0; the
    # minimum itself always belongs to the set.
    finite = xp.where(allowed, smallest, xp.zeros_like(f))
    tied = allowed & ((f - finite < tie_tol * finite) | (f == finite))
    share = xp.astype(tied, f.dtype)
    number = xp.sum(share, axis=1, keepdims=True)
    return share / xp.where(number > 0, number, xp.ones_like(number)), tied
