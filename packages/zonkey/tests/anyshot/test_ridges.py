"""Regression through landmarks against loops, refits, scikit-learn and the exact regression."""

import numpy as np
import pytest
from libraries import in_every_library
from numpy.testing import assert_allclose
from reference_posterior import left_out, predicted, ridge_matrix
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge

from zonkey.anyshot.posterior import ridge_inverse
from zonkey.anyshot.ridges import ExactRidge, LandmarkRidge
from zonkey.bpl.kernels import PrototypeKernel, kernel_matrix

P, D, GAMMA, RIDGE = 9, 5, 0.3, 0.07
LANDMARKS = np.array([1, 2, 5, 8])
OTHERS = np.array([0, 4, 5, 6])
HELD = np.array([1, 3, 7])


def drawn(seed=0):
    """Return prototypes, uneven counts and means."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 30, P).astype(float)
    return rng.normal(size=(P, 4)) + 0.5, counts, rng.normal(size=(P, D))


def kernel(Y, Z, kind="poly"):
    return kernel_matrix(kind, Y, Z, gamma=GAMMA)


def landmark_ridge(Y, counts, rows=LANDMARKS, kind="poly", ridge=RIDGE, place=np.asarray):
    K = kernel(Y, Y, kind)
    unit = float(np.trace(K)) / len(K) or 1.0
    return LandmarkRidge.from_kernel(place(K[:, rows]), rows, counts, ridge, unit)


def naive(Y, counts, kind="poly"):
    """Return the kernel that landmarks stand for, and the ridge of the exact one."""
    K = kernel(Y, Y, kind)
    through = K[:, LANDMARKS] @ np.linalg.inv(K[np.ix_(LANDMARKS, LANDMARKS)]) @ K[LANDMARKS]
    return through, ridge_matrix(K, counts, RIDGE)


@pytest.mark.parametrize("kind", ["poly", "rbf", "arccos"])
@pytest.mark.parametrize("seed", range(3))
def test_predictions_are_those_of_the_kernel_through_landmarks(seed, kind):
    Y, counts, M = drawn(seed)
    K, Lambda = naive(Y, counts, kind)
    ridge = landmark_ridge(Y, counts, kind=kind)
    new = np.random.default_rng(9).normal(size=(3, 4))
    to_landmarks = kernel(new, Y[LANDMARKS], kind)
    through = to_landmarks @ np.linalg.inv(kernel(Y[LANDMARKS], Y[LANDMARKS], kind))
    expected = [
        predicted(through_y @ kernel(Y[LANDMARKS], Y, kind), K, Lambda, M) for through_y in through
    ]
    assert_allclose(to_landmarks @ ridge.coefficients(M), expected, rtol=1e-8, atol=1e-10)
    assert_allclose(ridge.weights(to_landmarks) @ M, expected, rtol=1e-8, atol=1e-10)


def test_predictions_are_those_of_scikit_learn():
    Y, counts, M = drawn(4)
    ridge = landmark_ridge(Y, counts, kind="rbf")
    nystroem = Nystroem(kernel="rbf", gamma=GAMMA, n_components=len(LANDMARKS))
    nystroem.fit(Y[LANDMARKS])
    # The diagonal of "rbf" is 1, so the ridge of class j is RIDGE (1 + 8 / n_j).
    model = Ridge(alpha=RIDGE, fit_intercept=False)
    model.fit(nystroem.transform(Y), M, sample_weight=1 / (1 + 8 / counts))
    new = np.random.default_rng(9).normal(size=(6, 4))
    found = kernel(new, Y[LANDMARKS], "rbf") @ ridge.coefficients(M)
    assert_allclose(found, model.predict(nystroem.transform(new)), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_a_class_is_left_out_as_if_it_had_never_been_seen(seed):
    Y, counts, M = drawn(seed)
    K, Lambda = naive(Y, counts)
    ridge = landmark_ridge(Y, counts)
    expected = np.stack([left_out(j, K, Lambda, M) for j in range(P)])
    assert_allclose(ridge.left_out(M), expected, rtol=1e-7, atol=1e-9)
    rows = np.stack([ridge.weigh_left_out(j) for j in range(P)])
    assert_allclose(rows @ M, expected, rtol=1e-7, atol=1e-9)
    assert not rows.diagonal().any()


def test_held_out_classes_are_predicted_from_the_rest():
    Y, counts, M = drawn(5)
    K, Lambda = naive(Y, counts)
    rest = np.setdiff1d(np.arange(P), HELD)
    at_rest = np.ix_(rest, rest)
    of_held, of_others = landmark_ridge(Y, counts).predict_held_out(HELD, OTHERS, M)
    expected = predicted(K[np.ix_(HELD, rest)], K[at_rest], Lambda[at_rest], M[rest])
    assert_allclose(of_held, expected, rtol=1e-7, atol=1e-9)
    for j, found in zip(OTHERS, of_others, strict=True):
        place = int(np.flatnonzero(rest == j)[0])
        expected = left_out(place, K[at_rest], Lambda[at_rest], M[rest])
        assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("kind", ["rbf", "linear"])
def test_with_all_classes_as_landmarks_everything_is_exact(kind):
    Y, counts, M = drawn(6)
    whole = ExactRidge(ridge_inverse(kernel(Y, Y, kind), counts, RIDGE))
    ridge = landmark_ridge(Y, counts, np.arange(P), kind)
    k = kernel(np.random.default_rng(9).normal(size=(3, 4)), Y, kind)
    assert_allclose(k @ ridge.coefficients(M), k @ whole.coefficients(M), rtol=1e-8, atol=1e-8)
    assert_allclose(ridge.weights(k), whole.weights(k), rtol=1e-8, atol=1e-8)
    assert_allclose(ridge.left_out(M), whole.left_out(M), rtol=1e-8, atol=1e-8)
    assert_allclose(ridge.weigh_left_out(3), whole.weigh_left_out(3), rtol=1e-8, atol=1e-8)
    for ours, theirs in zip(
        *(each.predict_held_out(HELD, OTHERS, M) for each in (ridge, whole)), strict=True
    ):
        assert_allclose(ours, theirs, rtol=1e-8, atol=1e-8)
    fewer, fewer_whole = ridge.without(HELD), whole.without(HELD)
    assert_allclose(k @ fewer.coefficients(M), k @ fewer_whole.coefficients(M), atol=1e-8)


def test_equal_and_zero_prototypes_and_no_ridge_leave_finite_numbers():
    Y, counts, M = drawn(7)
    Y[2] = Y[1]
    for each in (Y, np.zeros_like(Y)):
        for kind in ("linear", "rbf"):
            ridge = landmark_ridge(each, counts, kind=kind, ridge=0.0)
            assert np.isfinite(ridge.left_out(M)).all()
            assert np.isfinite(ridge.predict_held_out(HELD, OTHERS, M)[1]).all()


@in_every_library
def test_landmarks_keep_library_and_device(library):
    Y, counts, M = drawn(8)
    expected = landmark_ridge(Y, counts).predict_held_out(HELD, OTHERS, M)
    found = landmark_ridge(Y, counts, place=library).predict_held_out(HELD, OTHERS, library(M))
    for ours, theirs in zip(found, expected, strict=True):
        assert type(ours) is type(library(M))
        assert_allclose(library.numpy(ours), theirs, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("kind", ["linear", "rbf", "poly", "arccos", "precomputed"])
def test_the_mean_of_the_diagonal_needs_no_kernel_of_all_classes(kind, monkeypatch):
    monkeypatch.setattr("zonkey.bpl.kernels._DIAGONAL_ROWS", 4)
    Y, _, _ = drawn(9)
    if kind == "precomputed":
        Y = kernel(Y, Y)
    whole = PrototypeKernel(kind, GAMMA)
    expected = np.trace(whole.compare(Y, Y, np.arange(P))) / P
    assert_allclose(whole.mean_of_own(Y, np.arange(P)), expected)
