"""The layer on array_api_strict, which knows nothing beyond the standard, against NumPy."""

import array_api_compat
import array_api_strict as xp
import numpy as np
import pytest

from zonkey.arrays import epsilon, identity_like, namespace, squared_distances, squared_norm
from zonkey.bpl.lowrank import (
    Operator,
    SharedInverse,
    UpdatedFactor,
    conjugate_gradients,
    refine_by_inverse,
    refine_in_single,
)
from zonkey.bpl.sylvester import Status, solve
from zonkey.bpl.symmetric import Factor

# Each function computes arrays, and other values, from arrays that `place` takes to a library.


def problem(dtype, d=20, k=3, r=4):
    """Return NumPy arrays A, B, C, F, w with A definite and B indefinite."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((2 * d, d)), rng.standard_normal((k, k))
    A, B = X.T @ X / d, (Y + Y.T) / 20
    C, F, w = rng.standard_normal((d, k)), rng.standard_normal((d, r)), rng.uniform(0, 1, r)
    return tuple(M.astype(dtype) for M in (A, B, C, F, w))


def uniform(dtype, place, *shapes):
    rng = np.random.default_rng(3)
    return tuple(place(rng.uniform(0.5, 2, size=shape).astype(dtype)) for shape in shapes)


def solve_with_kept_factors(dtype, place):
    A, B, C = map(place, problem(dtype)[:3])
    factor = Factor.from_matrix(A).rescale(scale=0.5, shift=0.25)
    forward = solve(factor, Factor.zeros(3, like=factor.values), C)
    both = solve(factor, Factor.from_matrix(B), C)
    return factor.values, forward.value, both.value, both.status


def solve_when_singular(dtype, place):
    A, B = np.diag([1.0, 2.0, 3.0]).astype(dtype), np.diag([-2.0, 5.0]).astype(dtype)
    solution = solve(place(A), place(B), place(np.arange(6).reshape(3, 2).astype(dtype)))
    assert solution.status is Status.SINGULAR
    return (solution.value,)


def solve_updated(dtype, place):
    found = []
    for r in (0, 1, 4, 200):
        A, B, C, F, w = map(place, problem(dtype, r=r))
        family = UpdatedFactor(A, Factor.from_matrix(A), F)
        got = family.solve(Factor.from_matrix(B), C, weights=w, scale=0.9, shift=0.5)
        assert got.status is Status.SOLVED
        if place is not np.asarray:  # for which other costs were measured
            assert (got.stats.iterations > 0) == (r < 200)
        found.append(got.value)
    return found


def compare_eigenvalues(dtype, place):
    A, _, _, F, w = problem(dtype)
    terms = {"scale": 0.9, "shift": 0.5, "weights": place(w)}
    values = np.sort(np.diag(A))
    found = []
    for dense, known in (
        (A, Factor.from_matrix(place(A))),
        (np.diag(values), Factor(place(values), None)),
    ):
        given = place(dense if known.vectors is not None else values)
        least = np.linalg.eigvalsh(0.9 * dense + (F * w) @ F.T + 0.5 * np.eye(20))[0]
        family = UpdatedFactor(given, known, place(F))
        lowest = 0.9 * np.linalg.eigvalsh(dense)[0] + 0.5  # without the update
        for x in (0.0, lowest, 0.999 * least, 1.001 * least, 100.0):
            assert family.is_at_least(float(x), **terms) is bool(x <= least)
            found.append(bool(x <= least))
    return found


def iterate(dtype, place):
    shapes = (2, 1, 3, 20), (2, 4, 20, 5), (2, 4, 5), (2, 1, 6, 3), (2, 4, 6), (2, 4, 3, 20)
    D, G, w, Y, e, R = uniform(dtype, place, *shapes)
    tol, found = 32 * float(np.finfo(dtype).eps), []
    for operator in (Operator(D, G, w), Operator(D, G, w, Y, 0.05 * e)):
        Z, _, converged = conjugate_gradients(operator, R, None, tol)
        again, _, refined = refine_in_single(operator, R, 0 * R + 1, tol)
        assert converged is refined is True
        found += [Z, again]
    return found


def refine(dtype, place):
    D, G, R, ones = uniform(dtype, place, (2, 3, 9), (2, 9, 4), (2, 3, 9), (2, 4))
    signs = place(np.where(np.arange(9) == 2, -1, 1).astype(dtype))
    inverse = SharedInverse(D * signs, G)
    operator = Operator(D * signs, G, ones / ones)
    tol = 1024 * float(np.finfo(dtype).eps)
    Z, converged = refine_by_inverse(
        operator, R, tol, lambda M: inverse(M[:, None, :, :])[:, 0, :, :]
    )
    assert bool(namespace(converged).all(converged))
    return inverse(R[:, None, :, :]), Z


def help_with_arrays(dtype, place):
    M = place(np.arange(6).reshape(2, 3).astype(dtype))
    assert squared_norm(M) == sum(value * value for value in range(6))
    assert epsilon(M) == {"float64": 2.0**-52, "float32": 2.0**-23}[dtype]
    return (identity_like(M[:, :2]),)


COMPUTED = [
    *(solve_with_kept_factors, solve_when_singular, solve_updated, compare_eigenvalues),
    *(iterate, refine, help_with_arrays),
]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ["CPU_DEVICE", "device1"])  # these refuse to mix
@pytest.mark.parametrize("compute", COMPUTED, ids=lambda compute: compute.__name__)
def test_the_standard_is_enough(compute, name, dtype):
    device = xp.Device(name)
    found = compute(dtype, lambda M: xp.asarray(M, device=device))
    for got, expected in zip(found, compute(dtype, np.asarray), strict=True):
        if not isinstance(expected, np.ndarray):
            assert got == expected
            continue
        assert array_api_compat.is_array_api_strict_namespace(namespace(got))
        assert got.device == device
        got = np.asarray(xp.asarray(got, device=xp.Device("CPU_DEVICE")))
        assert got.dtype == expected.dtype
        tolerance = 200 * np.finfo(expected.dtype).eps * np.abs(expected).max()
        np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance)


def test_libraries_do_not_mix():
    A, B = problem("float64")[:2]
    assert array_api_compat.is_numpy_namespace(namespace(A, B))
    with pytest.raises(TypeError, match="Multiple namespaces"):
        squared_distances(A, xp.asarray(A))
