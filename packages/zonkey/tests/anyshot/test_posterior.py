"""Posterior centers against loops, and closed-form hold-out against real refits."""

import numpy as np
import pytest
from libraries import in_every_library
from numpy.testing import assert_allclose, assert_array_equal
from reference_posterior import expectation_maximization, left_out, ridge_matrix

from zonkey.anyshot.held_out import Fold, View
from zonkey.anyshot.posterior import (
    KernelRidge,
    held_out_weights,
    inverse_without,
    left_out_weights,
    placed_scale,
    posterior_centers,
    ridge_inverse,
    soft_shots,
    worth_of_prior,
)

RIDGES = [0.02, 0.5, 3.0]
HELD = [[3], [0, 1], [6, 2, 4], [1, 2, 3, 4, 5, 6]]


def drawn(seed=0, p=7, d=5):
    """Return a kernel whose diagonal is not 1, uneven counts, and means."""
    rng = np.random.default_rng(seed)
    Y = rng.normal(size=(p, 4))
    K = (Y @ Y.T + 1) ** 2 / 3
    return K, rng.integers(1, 30, p).astype(float), rng.normal(size=(p, d))


def naive_inverse(K, counts, ridge):
    return np.linalg.inv(K + ridge_matrix(K, counts, ridge))


@pytest.mark.parametrize("ridge", RIDGES)
@pytest.mark.parametrize("seed", range(3))
def test_the_inverse_has_the_ridge_of_the_formula(seed, ridge):
    K, counts, _ = drawn(seed)
    expected = naive_inverse(K, counts, ridge)
    assert_allclose(KernelRidge(K, counts).inverse(ridge), expected, rtol=1e-9, atol=1e-12)


def test_one_decomposition_serves_all_ridges_and_scales():
    K, counts, _ = drawn()
    one = KernelRidge(K, counts)
    for ridge in (*RIDGES, *RIDGES[::-1]):
        assert_allclose(one.inverse(ridge), KernelRidge(K, counts).inverse(ridge), rtol=1e-12)
        scaled = KernelRidge(100 * K, counts).inverse(ridge)
        assert_allclose(100 * scaled, one.inverse(ridge), rtol=1e-9, atol=1e-12)


def test_few_samples_pull_a_class_less():
    K, counts, M = np.eye(2), np.array([1.0, 1000.0]), np.ones((2, 1))
    fitted = (K @ KernelRidge(K, counts).inverse(0.1) @ M)[:, 0]
    assert_allclose(fitted, [1 / (1 + 0.1 * 9), 1 / (1 + 0.1 * 1.008)])


@pytest.mark.parametrize("K", [np.zeros((3, 3)), np.ones((3, 3)), np.eye(1)], ids=str)
def test_a_singular_kernel_without_ridge_has_a_finite_inverse(K):
    assert np.isfinite(KernelRidge(K, np.full(len(K), 4.0)).inverse(0.0)).all()


@pytest.mark.parametrize("ridge", RIDGES)
@pytest.mark.parametrize("held", HELD, ids=str)
def test_held_out_classes_are_predicted_as_by_a_refit_without_them(held, ridge):
    K, counts, M = drawn(1)
    Lambda = ridge_matrix(K, counts, ridge)
    G = KernelRidge(K, counts).inverse(ridge)
    weights = held_out_weights(G, np.array(held))
    assert_allclose(weights[:, held], 0, atol=1e-12)
    kept = [j for j in range(len(K)) if j not in held]
    of_kept = np.linalg.inv((K + Lambda)[np.ix_(kept, kept)])
    for row, j in enumerate(held):
        expected = K[j, kept] @ of_kept @ M[kept]
        assert_allclose(weights[row] @ M, expected, rtol=1e-10, atol=1e-10)
    rest = inverse_without(G, np.array(held), weights)
    assert_allclose(rest[np.ix_(kept, kept)], of_kept, rtol=1e-10, atol=1e-10)
    assert_allclose(rest[held], 0, atol=1e-12)
    assert_allclose(rest[:, held], 0, atol=1e-12)


def test_all_classes_held_out_leave_nothing_to_predict_from():
    K, counts, _ = drawn(2)
    G, everything = KernelRidge(K, counts).inverse(0.1), np.arange(len(K))
    weights = held_out_weights(G, everything)
    assert_allclose(weights, 0, atol=1e-12)
    assert_allclose(inverse_without(G, everything, weights), 0, atol=1e-12)


@pytest.mark.parametrize("ridge", RIDGES)
def test_each_class_is_predicted_as_by_a_refit_without_it(ridge):
    K, counts, M = drawn(3)
    Lambda = ridge_matrix(K, counts, ridge)
    weights = left_out_weights(KernelRidge(K, counts).inverse(ridge))
    assert_allclose(np.diagonal(weights), 0, atol=1e-12)
    for j in range(len(K)):
        assert_allclose(weights[j] @ M, left_out(j, K, Lambda, M), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("held", HELD[:-1], ids=str)
def test_each_kept_class_is_predicted_from_the_other_kept_ones(held):
    K, counts, M = drawn(4)
    G = KernelRidge(K, counts).inverse(0.2)
    rest = inverse_without(G, np.array(held), held_out_weights(G, np.array(held)))
    weights = left_out_weights(rest)
    kept = [j for j in range(len(K)) if j not in held]
    Lambda = ridge_matrix(K, counts, 0.2)[np.ix_(kept, kept)]
    for place, j in enumerate(kept):
        expected = left_out(place, K[np.ix_(kept, kept)], Lambda, M[kept])
        assert_allclose(weights[j] @ M, expected, rtol=1e-9, atol=1e-10)
    assert_allclose(weights[held], np.eye(len(K))[held], atol=1e-10)


def test_centers_lie_between_prior_and_samples():
    rng = np.random.default_rng(5)
    prior, sums = rng.normal(size=(2, 4, 3))
    sums[0] = 0
    counts, worth = np.array([0.0, 1.0, 500.0, 3.5]), np.array([2.0, 4.0, 1.0, 0.0])
    found = posterior_centers(prior, sums, counts, worth)
    for c in range(4):
        for i in range(3):
            expected = (worth[c] * prior[c, i] + sums[c, i]) / (worth[c] + counts[c])
            assert found[c, i] == pytest.approx(expected, rel=1e-12)
    assert_allclose(found[0], prior[0], rtol=1e-12)  # no sample
    assert_allclose(found[3], sums[3] / 3.5, rtol=1e-12)  # no prior


@pytest.mark.parametrize(
    ("within", "error", "worth"),
    [
        (6.0, 2.0, 3.0),
        (0.0, 2.0, 1e-6),
        (-1e-17, 2.0, 1e-6),
        (1.0, 0.0, 1e6),
        (1.0, -0.5, 1e6),
        (1.0, 1e-9, 1e6),
    ],
)
def test_a_prior_is_worth_the_variance_of_samples_over_its_error(within, error, worth):
    assert worth_of_prior(within, error) == pytest.approx(worth)


def batch(seed=7, n=15, k=4, d=3):
    rng = np.random.default_rng(seed)
    X, centers = rng.normal(size=(n, d)), rng.normal(size=(k, d))
    return X, centers, rng.uniform(0.5, 6, k), rng.normal(size=k) / 2


SETTINGS = [
    {"temperature": 0.7, "weight": 1.0, "smoothing": 2.0, "n_steps": 1},
    {"temperature": 0.3, "weight": 0.4, "smoothing": 0.5, "n_steps": 5},
    {"temperature": 2.0, "weight": 1.0, "smoothing": 20.0, "n_steps": 12},
    {"temperature": 0.5, "weight": 0.3, "smoothing": 3.0, "n_steps": 4, "shift": True},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_unlabeled_samples_move_the_centers_as_in_the_loops(settings):
    X, centers, worth, offsets = batch()
    before = [M.copy() for M in (X, centers, worth, offsets)]
    found = soft_shots(X, centers, worth, offsets=offsets, **settings)
    expected, shares = expectation_maximization(X, centers, worth, offsets=offsets, **settings)
    assert_allclose(found.centers, expected, rtol=1e-9, atol=1e-10)
    assert_allclose(found.shares, shares, rtol=1e-9)
    assert found.shares.sum() == pytest.approx(1)
    for M, old in zip((X, centers, worth, offsets), before, strict=True):
        assert_array_equal(M, old)


def test_a_weight_of_zero_and_an_endless_worth_move_nothing():
    X, centers, worth, offsets = batch()
    options = {"offsets": offsets, "temperature": 0.5, "smoothing": 2.0, "n_steps": 4}
    still = soft_shots(X, centers, worth, weight=0.0, **options)
    assert_allclose(still.centers, centers, rtol=1e-12)
    firm = soft_shots(X, centers, 1e12 * worth, weight=1.0, **options)
    assert_allclose(firm.centers, centers, rtol=1e-8)
    assert np.ptp(firm.shares) > 0.01  # proportions are learned all the same


def test_centers_that_all_miss_by_the_same_vector_are_moved_back():
    rng = np.random.default_rng(12)
    centers, away = np.eye(3) * 4, np.array([1.0, -2.0, 1.5])
    X = np.repeat(centers, 30, axis=0) + away + 0.1 * rng.normal(size=(90, 3))
    options = {"offsets": np.zeros(3), "temperature": 1.0, "weight": 0.01, "smoothing": 1.0}
    found = soft_shots(X, centers, np.full(3, 50.0), n_steps=6, shift=True, **options)
    assert_allclose(found.centers, centers + away * 90 / 140, atol=0.05)  # shrunk by 50 samples


def test_one_inverse_for_many_classes_is_that_of_the_decomposition(monkeypatch):
    K, counts, _ = drawn(5)
    whole = ridge_inverse(K, counts, 0.3)
    monkeypatch.setattr("zonkey.anyshot.posterior._MANY", 2)
    assert_allclose(ridge_inverse(K.copy(), counts, 0.3), whole, rtol=1e-9, atol=1e-11)
    assert_allclose(whole, KernelRidge(K, counts).inverse(0.3), rtol=1e-12)
    assert_array_equal(ridge_inverse(K, counts, 1e-6), KernelRidge(K, counts).inverse(1e-6))


def test_an_indefinite_kernel_of_many_classes_is_that_of_the_decomposition(monkeypatch):
    K, counts, _ = drawn(5)
    K = K - 5 * np.eye(len(K)) * (np.arange(len(K)) % 2)
    expected = KernelRidge(K, counts).inverse(0.02)
    monkeypatch.setattr("zonkey.anyshot.posterior._MANY", 2)
    monkeypatch.setattr("zonkey.bpl.symmetric._SWEPT", 3)
    assert np.linalg.eigvalsh(K + ridge_matrix(K, counts, 0.02)).min() < 0
    assert_allclose(ridge_inverse(K, counts, 0.02), expected, rtol=1e-9, atol=1e-12)


def test_proportions_are_estimated_and_smoothed():
    rng = np.random.default_rng(8)
    centers = np.eye(3) * 10
    X = np.repeat(centers, [1, 9, 40], axis=0) + 0.1 * rng.normal(size=(50, 3))
    options = {"offsets": np.zeros(3), "temperature": 1.0, "weight": 1.0, "n_steps": 3}
    found = soft_shots(X, centers, np.ones(3), smoothing=5.0, **options)
    assert_allclose(found.shares, [6 / 65, 14 / 65, 45 / 65], rtol=1e-6)


@in_every_library
def test_every_library_agrees_with_numpy(library):
    K, counts, M = drawn(9)
    held = np.array([2, 5])
    G = KernelRidge(K, counts).inverse(0.3)
    placed = KernelRidge(library(K), counts).inverse(0.3)
    assert_allclose(library.numpy(placed), G, rtol=1e-9, atol=1e-12)
    weights = held_out_weights(placed, library(held))
    expected = held_out_weights(G, held)
    assert_allclose(library.numpy(weights), expected, rtol=1e-9, atol=1e-12)
    rest = inverse_without(placed, library(held), weights)
    assert_allclose(library.numpy(rest), inverse_without(G, held, expected), atol=1e-10)
    left = library.numpy(left_out_weights(rest))
    assert_allclose(left, left_out_weights(inverse_without(G, held, expected)), atol=1e-9)
    worth = np.linspace(0, 3, len(counts))
    centers = posterior_centers(*(library(A) for A in (M, 2 * M, counts, worth)))
    plain = posterior_centers(M, 2 * M, counts, worth)
    assert_allclose(library.numpy(centers), plain, rtol=1e-12)


@in_every_library
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_unlabeled_samples_act_alike_in_every_library(library, settings):
    X, centers, worth, offsets = batch()
    expected = soft_shots(X, centers, worth, offsets=offsets, **settings)
    placed = [library(M) for M in (X, centers, worth)]
    found = soft_shots(*placed, offsets=library(offsets), **settings)
    assert_allclose(library.numpy(found.centers), expected.centers, rtol=1e-9, atol=1e-10)
    assert_allclose(library.numpy(found.shares), expected.shares, rtol=1e-9)


def test_single_precision_is_kept():
    K, counts, _ = drawn()
    G = KernelRidge(K.astype(np.float32), counts).inverse(0.3)
    assert G.dtype == np.float32
    assert_allclose(G, KernelRidge(K, counts).inverse(0.3), rtol=1e-3, atol=1e-4)
    X, centers, worth, offsets = (M.astype(np.float32) for M in batch())
    found = soft_shots(X, centers, worth, offsets=offsets, **SETTINGS[0])
    assert found.centers.dtype == found.shares.dtype == np.float32


@pytest.mark.parametrize("place", [0.0, 5.0])
@pytest.mark.parametrize("joint", [False, True])
def test_predictions_from_some_classes_are_relative_to_their_mean(joint, place):
    """Samples far from the origin are not centered, so that nothing moves."""
    rng, n = np.random.default_rng(3), np.array([4.0, 1.0, 7.0, 3.0, 2.0, 9.0])
    Y, Q = rng.normal(size=(6, 4)), rng.normal(size=(6, 5))
    M = rng.normal(size=(6, 5))
    M += place - n @ M / n.sum()
    K = Y @ Y.T
    Lambda = ridge_matrix(K, n, 0.4)
    G = KernelRidge(K, n).inverse(0.4)
    held, kept = np.array([1, 4]), [0, 2, 3, 5]
    fold = Fold(0, held, held, held, held, 0)
    view = View(M, M, n, n, n, (), 5, Q if joint else None)
    s = placed_scale(M, Q, np.isin(np.arange(6), held)) if joint else 0.0
    R = M - s * Q
    moves = bool(np.sum((n @ R / n.sum()) ** 2) <= 0.1 * (n @ np.sum(R**2, axis=1)) / n.sum())
    assert moves == (place == 0)
    middle = moves * (n[kept] @ R[kept] / n[kept].sum() - n @ R / n.sum())
    weights = held_out_weights(G, held)
    found = view.predict(weights, fold, held)
    for row, j in enumerate(held):
        w = np.linalg.solve(K[np.ix_(kept, kept)] + Lambda[np.ix_(kept, kept)], K[kept, j])
        assert_allclose(found[row], s * Q[j] + middle + w @ (R[kept] - middle), atol=1e-10)
    found = view.predict_left_out(left_out_weights(inverse_without(G, held, weights)), fold)
    for i in kept:
        rest = [j for j in kept if j != i]
        of_rest = middle - moves * n[i] * (R[i] - middle) / n[rest].sum()
        w = np.linalg.solve(K[np.ix_(rest, rest)] + Lambda[np.ix_(rest, rest)], K[rest, i])
        assert_allclose(found[i], s * Q[i] + middle + w @ (R[rest] - of_rest), atol=1e-10)
