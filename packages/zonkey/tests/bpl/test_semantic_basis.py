"""The eigenbases of B-hat that episodes share: whatever is left out is told, and kept small."""

import numpy as np
import pytest
from libraries import LIBRARIES, TORCH, in_every_library

from zonkey.bpl.episodes import SemanticBases

T, E, Q, K = 3, 4, 5, 6
BETA = 0.3


def drawn(seed=0, tasks=T):
    """Return B0, prototypes and class weights, mostly positive."""
    rng = np.random.default_rng(seed)
    Y_s, Y_u = rng.normal(size=(4, K)), rng.normal(size=(tasks, Q, K))
    return Y_s.T @ Y_s, Y_u, rng.uniform(-0.5, 9, size=(tasks, E, Q))


def printed(B0, Y, weights, alpha):
    """Eq. 21 (erplBt0), prototype by prototype."""
    novel = sum(w * np.outer(y, y) for w, y in zip(weights, Y, strict=True))
    return (1 - alpha) * B0 + alpha * novel + BETA * np.eye(K)


def bases_of(B0, Y_u):
    return SemanticBases(B0, Y_u, beta=BETA)


def assert_basis(basis, B0, Y_u, counts, alpha, take=np.asarray):
    """Check that V diag(values) V' + Y'diag(e_h) Y is B-hat of every episode."""
    values, V = take(basis.values), take(basis.V)
    apart = np.zeros(counts.shape) if basis.apart is None else take(basis.apart)
    for t, h in np.ndindex(*counts.shape[:2]):
        got = (V[t] * values[t]) @ V[t].T
        got += sum(e * np.outer(y, y) for e, y in zip(apart[t, h], Y_u[t], strict=True))
        expected = printed(B0, Y_u[t], counts[t, h], alpha)
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-11)
        np.testing.assert_allclose(V[t].T @ V[t], np.eye(K), rtol=0, atol=1e-12)


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.95])
def test_B_hat_is_the_printed_sum(alpha):
    B0, Y_u, counts = drawn(1)
    bases = bases_of(B0, Y_u)
    one = bases.B_hat(1, counts[1, 2], alpha)
    np.testing.assert_allclose(one, printed(B0, Y_u[1], counts[1, 2], alpha), rtol=1e-12)
    some = bases.B_hat(np.array([2, 0]), counts[[2, 0], 1], alpha)
    for got, t in zip(some, (2, 0), strict=True):
        np.testing.assert_allclose(got, printed(B0, Y_u[t], counts[t, 1], alpha), rtol=1e-12)


@in_every_library
@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.95])
def test_basis_and_rest_are_B_hat(library, alpha):
    B0, Y_u, counts = drawn(2)
    bases = bases_of(library(B0), library(Y_u))
    basis, now = None, counts
    for step in range(5):
        now = now * (1 + 0.01 * step) if step < 3 else 2 * counts[:, ::-1]
        at = 0.99**step * alpha
        basis = bases.of(library(now), at, basis)
        assert_basis(basis, B0, Y_u, now, at, library.numpy)
    single = [library(M.astype(np.float32)) for M in (B0, Y_u, counts)]
    basis = bases_of(*single[:2]).of(single[2], alpha, None)
    found = (M for M in (basis.values, basis.V, basis.apart) if M is not None)
    assert {library.numpy(M).dtype for M in found} == {np.dtype(np.float32)}


def test_on_the_host_the_mean_of_the_episodes_is_diagonalized_at_every_step():
    B0, Y_u, counts = drawn(3)
    bases = bases_of(B0, Y_u)
    basis = bases.of(counts, 0.4, None)
    for now, alpha in ((counts, 0.4), (counts, 0.399), (1.001 * counts, 0.399)):
        basis = bases.of(now, alpha, basis)
        mean = now.mean(axis=1)
        for t in range(T):
            expected = np.linalg.eigvalsh(printed(B0, Y_u[t], mean[t], alpha))
            np.testing.assert_allclose(basis.values[t], expected, rtol=1e-10)
        apart = alpha * (now - mean[:, None])
        np.testing.assert_allclose(basis.apart, apart, rtol=0, atol=1e-12)


@pytest.mark.parametrize("library", [np.asarray, *LIBRARIES], ids=repr)
def test_episodes_with_the_same_weights_leave_nothing_to_add(library):
    B0, Y_u, counts = drawn(4)
    same = np.repeat(counts[:, :1], E, axis=1)
    bases = bases_of(library(B0), library(Y_u))
    assert bases.of(library(same), 0.3, None).apart is None
    assert bases.of(library(same * (1 + 1e-16)), 0.3, None).apart is None
    same[1, 2, 3] += 1e-6
    assert bases.of(library(same), 0.3, None).apart is not None


def test_on_a_device_a_basis_serves_as_long_as_it_is_near():
    B0, Y_u, counts = drawn(5)
    counts = np.abs(np.repeat(counts[:, :1], E, axis=1)) + 1
    bases = bases_of(TORCH(B0), TORCH(Y_u))
    first = bases.of(TORCH(counts), 0.4, None)
    near = bases.of(TORCH(counts), 0.99 * 0.4, first)
    assert near.V is first.V
    assert near.apart is not None  # the novel classes lost weight, the base ones gained
    far = counts.copy()
    far[1] *= 1.2  # one task of three
    gone = bases.of(TORCH(far), 0.99 * 0.4, near)
    np.testing.assert_array_equal(gone.V.numpy()[[0, 2]], first.V.numpy()[[0, 2]])
    assert gone.reference.alpha.tolist() == [0.4, 0.99 * 0.4, 0.4]
    assert_basis(gone, B0, Y_u, far, 0.99 * 0.4, TORCH.numpy)
    assert first.reference.alpha.tolist() == [0.4] * 3  # what was known stays as it was


@pytest.mark.parametrize("tasks", [1, 16, 41])
def test_any_number_of_tasks_is_decomposed_as_each_alone(tasks):
    B0, Y_u, counts = drawn(6, tasks)
    basis = bases_of(B0, Y_u).of(counts, 0.3, None)
    assert_basis(basis, B0, Y_u, counts, 0.3)
    for t in range(tasks):
        alone = bases_of(B0, Y_u[t : t + 1]).of(counts[t : t + 1], 0.3, None)
        np.testing.assert_array_equal(basis.values[t], alone.values[0])
