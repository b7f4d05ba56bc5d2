"""What the arguments of the Sylvester solver must be, and what to do when they are not."""

from __future__ import annotations

import numpy as np

from .arrays import Array, namespace


def check_symmetric(M: Array) -> None:
    """Raise for what cannot be a symmetric matrix, or a batch of them."""
    if M.ndim < 2 or M.shape[-1] != M.shape[-2]:
        raise ValueError(
            f"A symmetric factor needs a square matrix; got shape {tuple(M.shape)}. "
            "Pass A (d x d) or B (k x k)."
        )
    xp = namespace(M)
    if not bool(xp.all(xp.isfinite(M))):
        raise ValueError(
            "A symmetric factor needs finite values; got NaN or infinity. Remove missing "
            "values from the data, or scale it down where products overflow the dtype."
        )


def check_scale(scale: float) -> None:
    """Raise for a scale that would reverse the order of the eigenvalues."""
    if scale < 0:
        raise ValueError(
            f"`scale` must be at least 0 to keep the values ascending; got {scale}. "
            "Factorize the negated matrix instead."
        )


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise for an option with an unknown value."""
    if value not in choices:
        raise ValueError(f"`{name}` must be one of {', '.join(choices)}; got {value!r}.")


def checked_batch(A: Array, B: Array, C: Array) -> tuple[int, ...]:
    """Return the leading axes of A, B and C together, matrices or factors whose shapes fit."""
    expected = (A.shape[-1], B.shape[-1])
    if tuple(C.shape[-2:]) != expected:
        raise ValueError(
            f"The right-hand side C must have shape {expected} (rows of A, rows of B); "
            f"got {tuple(C.shape)}. Transpose C or swap A and B."
        )
    leading = tuple(tuple(M.shape[:-2]) for M in (A, B, C))
    try:
        return np.broadcast_shapes(*leading)
    except ValueError:
        raise ValueError(
            "The leading axes of A, B and C must agree or be 1; got {}, {} and {}. "
            "Give each the shape of the batch, or none.".format(*leading)
        ) from None
