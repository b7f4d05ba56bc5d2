"""The layer on array_api_strict, which knows nothing beyond the standard, against NumPy."""

import array_api_compat
import array_api_strict as xp
import numpy as np
import pytest

from zonkey.arrays import (
    epsilon,
    identity_like,
    namespace,
    squared_distances,
    squared_norm,
)
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

DTYPES = ["float64", "float32"]
DEVICES = ["CPU_DEVICE", "device1"]  # the second one refuses to mix with the first

everywhere = pytest.mark.parametrize(
    ("dtype", "device"), [(dtype, device) for dtype in DTYPES for device in DEVICES]
)


def problem(dtype, d=20, k=3, r=4):
    """Return NumPy arrays A, B, C, F, w with A definite and B indefinite."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((2 * d, d)), rng.standard_normal((k, k))
    A, B = X.T @ X / d, (Y + Y.T) / 20
    C, F, w = rng.standard_normal((d, k)), rng.standard_normal((d, r)), rng.uniform(0, 1, r)
    return tuple(M.astype(dtype) for M in (A, B, C, F, w))


def strict(M, device="CPU_DEVICE"):
    return xp.asarray(M, device=xp.Device(device))


def to_numpy(M):
    return np.asarray(xp.asarray(M, device=xp.Device("CPU_DEVICE")))


def assert_same(got, expected, device):
    """Check library, device and dtype before the values."""
    assert array_api_compat.is_array_api_strict_namespace(namespace(got))
    assert got.device == xp.Device(device)
    got = to_numpy(got)
    assert got.dtype == expected.dtype
    tolerance = 200 * np.finfo(expected.dtype).eps * np.abs(expected).max()
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance)


@everywhere
def test_solve_with_kept_factors(dtype, device):
    A, B, C, _, _ = problem(dtype)
    factor = Factor.from_matrix(strict(A, device)).rescale(scale=0.5, shift=0.25)
    assert_same(factor.values, 0.5 * np.linalg.eigvalsh(A) + np.asarray(0.25, dtype), device)
    got = solve(factor, Factor.zeros(3, like=factor.values), strict(C, device))
    assert_same(got.value, np.linalg.solve(0.5 * A + 0.25 * np.eye(20, dtype=dtype), C), device)
    got = solve(factor, Factor.from_matrix(strict(B, device)), strict(C, device))
    expected = solve(Factor.from_matrix(A).rescale(scale=0.5, shift=0.25), B, C)
    assert_same(got.value, expected.value, device)


@everywhere
def test_solve_when_singular(dtype, device):
    A, B = np.diag([1.0, 2.0, 3.0]).astype(dtype), np.diag([-2.0, 5.0]).astype(dtype)
    C = np.arange(6).reshape(3, 2).astype(dtype)
    got = solve(strict(A, device), strict(B, device), strict(C, device))
    assert got.status is Status.SINGULAR
    assert_same(got.value, solve(A, B, C).value, device)


@everywhere
@pytest.mark.parametrize("r", [0, 1, 4, 200])
def test_updated_factor(dtype, device, r):
    A, B, C, F, w = problem(dtype, r=r)
    terms = {"scale": 0.9, "shift": 0.5}
    family = UpdatedFactor(
        strict(A, device), Factor.from_matrix(strict(A, device)), strict(F, device)
    )
    factor = Factor.from_matrix(strict(B, device))
    got = family.solve(factor, strict(C, device), weights=strict(w, device), **terms)
    expected = UpdatedFactor(A, Factor.from_matrix(A), F).solve(
        Factor.from_matrix(B), C, weights=w, **terms
    )
    assert (got.stats.iterations > 0) == (r < 200)
    assert got.status is Status.SOLVED
    assert_same(got.value, expected.value, device)


@everywhere
@pytest.mark.parametrize("diagonal", [True, False])
def test_updated_factor_is_at_least(dtype, device, diagonal):
    A, _, _, F, w = problem(dtype)
    A = np.diag(np.diag(A)) if diagonal else A
    terms = {"scale": 0.9, "shift": 0.5}
    least = np.linalg.eigvalsh(0.9 * A + (F * w) @ F.T + 0.5 * np.eye(20))[0]
    values = np.sort(np.diag(A)) if diagonal else A
    known = (
        Factor(strict(values, device), None) if diagonal else Factor.from_matrix(strict(A, device))
    )
    order = np.argsort(np.diag(A)) if diagonal else slice(None)
    family = UpdatedFactor(strict(values, device), known, strict(F[order], device))
    lowest = 0.9 * np.linalg.eigvalsh(A)[0] + 0.5  # without the update
    for x in (0.0, lowest, 0.999 * least, 1.001 * least, 100.0):
        got = family.is_at_least(float(x), weights=strict(w, device), **terms)
        assert got is bool(x <= least)


@everywhere
@pytest.mark.parametrize("coupled", [True, False])
def test_conjugate_gradients(dtype, device, coupled):
    rng = np.random.default_rng(2)
    sizes = {"D": (2, 1, 3, 20), "G": (2, 4, 20, 5), "w": (2, 4, 5), "Y": (2, 1, 6, 3)}
    D, G, w, Y = (rng.uniform(0.5, 2, size=size).astype(dtype) for size in sizes.values())
    e = rng.uniform(0, 0.1, size=(2, 4, 6)).astype(dtype)
    R = rng.normal(size=(2, 4, 3, 20)).astype(dtype)
    parts = (D, G, w, Y, e) if coupled else (D, G, w)
    plain, there = Operator(*parts), Operator(*(strict(M, device) for M in parts))
    tol = 32 * float(np.finfo(dtype).eps)
    expected = conjugate_gradients(plain, R, None, tol)
    got = conjugate_gradients(there, strict(R, device), None, tol)
    assert got[2] is expected[2] is True
    assert_same(got[0], expected[0], device)
    start = strict(np.ones_like(R), device)
    Z, _, converged = refine_in_single(there, strict(R, device), start, tol)
    assert converged
    assert_same(Z, expected[0], device)


@everywhere
def test_shared_inverse(dtype, device):
    rng = np.random.default_rng(3)
    D, G, R = (
        rng.uniform(0.5, 2, size=size).astype(dtype)
        for size in ((2, 3, 9), (2, 9, 4), (2, 5, 3, 9))
    )
    got = SharedInverse(strict(D, device), strict(G, device))(strict(R, device))
    assert_same(got, SharedInverse(D, G)(R), device)


@everywhere
def test_refinement_by_an_inverse(dtype, device):
    rng = np.random.default_rng(3)
    D, G, R = (
        rng.uniform(0.5, 2, size=size).astype(dtype) for size in ((2, 3, 9), (2, 9, 4), (2, 3, 9))
    )
    D[:, :, 2] *= -1
    ones = np.ones((2, 4), dtype)
    tol = 1024 * float(np.finfo(dtype).eps)
    found = []
    for place in (None, device):
        there = [M if place is None else strict(M, place) for M in (D, G, R, ones)]
        inverse = SharedInverse(*there[:2])
        operator = Operator(there[0], there[1], there[3])
        Z, converged = refine_by_inverse(
            operator, there[2], tol, lambda M, by=inverse: by(M[:, None, :, :])[:, 0, :, :]
        )
        assert to_numpy(converged).all()
        found.append(Z)
    assert_same(found[1], found[0], device)


@everywhere
def test_array_helpers(dtype, device):
    M = strict(np.arange(6).reshape(2, 3).astype(dtype), device)
    assert squared_norm(M) == sum(value * value for value in range(6))
    assert epsilon(M) == {"float64": 2.0**-52, "float32": 2.0**-23}[dtype]
    assert_same(identity_like(M[:, :2]), np.array([[1, 0], [0, 1]], dtype=dtype), device)


def test_libraries_do_not_mix():
    A, B = problem("float64")[:2]
    assert array_api_compat.is_numpy_namespace(namespace(A, B))
    with pytest.raises(TypeError, match="Multiple namespaces"):
        squared_distances(A, strict(A))
