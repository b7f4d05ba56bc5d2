"""How much competition a step can bear: mu is lowered where the equation would lose its curvature.

Classes that are often second best get negative weight in B-hat. As the smallest eigenvalue of the
operator W -> A-hat W + W B-hat falls toward zero the solution grows without bound, and below zero
it is no minimizer at all. So a step keeps a share of the curvature that it would have without any
push, or it is pushed less.
"""

from __future__ import annotations

from collections.abc import Callable

from ..linalg.arrays import Array, epsilon, namespace

_SMALLEST_MU = 1e-3  # share of mu below which the guard gives up competition altogether
_SAFE_SHARE = 0.25  # of the smallest eigenvalue without competition, which the guard keeps


def safe_mu(
    pulled: Array,
    pushed: Array,
    mu: float,
    *,
    B_hat: Callable[[Array], Array],
    least_of_A: float,
    A_is_at_least: Callable[[float], bool],
) -> float:
    """Return mu, or the first of its halves that leaves enough curvature; 0 if hardly any does.

    Parameters
    ----------
    pulled, pushed : arrays of shape (q,)
        Sums of eta and xi over the samples.
    mu : float
    B_hat : callable
        From the weight of each class to B-hat.
    least_of_A : float
        A lower bound of the eigenvalues of A-hat.
    A_is_at_least : callable
        Says whether no eigenvalue of A-hat is below a number; asked where the bound is not enough.
    """
    if keeps_its_share(pulled, pushed, mu):
        return mu
    eigvalsh = namespace(pulled).linalg.eigvalsh
    uncontested = eigvalsh(B_hat(pulled))
    asked = mu
    while mu > 0:
        least_of_B = float(eigvalsh(B_hat(pulled - mu * pushed))[0])
        needed = needed_of_A(least_of_B, uncontested)
        if least_of_A >= needed or A_is_at_least(needed):
            break
        mu = mu / 2 if mu > _SMALLEST_MU * asked else 0.0
    return mu


def keeps_its_share(pulled: Array, pushed: Array, mu: float) -> bool:
    """Say whether every class keeps such a share of its samples that B-hat keeps its curvature."""
    return not mu or bool(namespace(pulled).all(pulled - mu * pushed >= _SAFE_SHARE * pulled))


def needed_of_A(least_of_B: float, uncontested: Array) -> float:
    """Return the smallest eigenvalue of A-hat at which the sum with that of B-hat is safe.

    Safe is a share of what B-hat without competition, whose eigenvalues are `uncontested`, would
    leave, and no less than rounding can tell from zero.
    """
    without = float(uncontested[0])
    rounding = uncontested.shape[0] * epsilon(uncontested) * float(uncontested[-1])
    share = (_SAFE_SHARE * without - least_of_B) / (1 - _SAFE_SHARE)
    return max(share, rounding - least_of_B)
