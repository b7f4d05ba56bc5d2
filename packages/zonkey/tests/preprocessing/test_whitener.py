"""Within-class whitening against the printed formula, evaluated with loops."""

import numpy as np
import pytest
from scipy.linalg import fractional_matrix_power
from sklearn_checks import parametrize_with_sklearn_checks

from zonkey.preprocessing import WithinClassWhitener


@parametrize_with_sklearn_checks([WithinClassWhitener()])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def drawn(seed=0, n=60, d=5, p=4):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % p)
    spread = rng.uniform(0.1, 3, size=(d, d))
    return rng.normal(size=(p, d))[y] + rng.normal(size=(n, d)) @ spread, y


def reference(X, y, shrinkage):
    """Evaluate (S_w / m + shrinkage I)^(-1/2), scaled by sqrt(1 + shrinkage), with loops."""
    d = X.shape[1]
    S = np.zeros((d, d))
    for label in np.unique(y):
        members = X[y == label]
        mean = sum(members) / len(members)
        for x in members:
            S += np.outer(x - mean, x - mean) / len(X)
    m = np.trace(S) / d
    root = fractional_matrix_power(S / m + shrinkage * np.eye(d), -0.5)
    return (1 + shrinkage) ** 0.5 * root.real


@pytest.mark.parametrize(
    ("seed", "shrinkage"), [(0, 0.0), (1, 0.01), (2, 0.7), (3, 4.0), (4, 50.0)]
)
def test_the_matrix_is_that_of_the_formula(seed, shrinkage):
    X, y = drawn(seed)
    whitener = WithinClassWhitener(shrinkage=shrinkage).fit(X, y)
    np.testing.assert_allclose(whitener.whitening_, reference(X, y, shrinkage), rtol=1e-9)
    np.testing.assert_allclose(whitener.transform(X), X @ whitener.whitening_)


def test_class_means_and_the_order_of_samples_have_no_influence():
    X, y = drawn()
    expected = WithinClassWhitener(shrinkage=0.3).fit(X, y).whitening_
    moved = X + 100.0 * np.random.default_rng(1).normal(size=(4, 5))[y]
    order = np.random.default_rng(2).permutation(len(X))
    names = np.array(["d", "a", "c", "b"])[y]
    found = WithinClassWhitener(shrinkage=0.3).fit(moved[order], names[order]).whitening_
    np.testing.assert_allclose(found, expected, rtol=1e-8)


@pytest.mark.parametrize(("copies", "scale"), [(1, 1.0), (2, 1e-3), (3, 1e4), (7, 1.0)])
def test_copies_of_one_sample_a_class_leave_features_as_they_are(copies, scale):
    X = np.repeat(scale * np.random.default_rng(0).normal(size=(4, 3)), copies, axis=0)
    whitener = WithinClassWhitener(shrinkage=0.0).fit(X, np.repeat(list("abcd"), copies))
    np.testing.assert_array_equal(whitener.whitening_, np.eye(3))
    if copies == 1:
        return
    X[0] += 1e-6 * scale * np.arange(1, 4)  # little, but more than rounding
    whitener.fit(X, np.repeat(list("abcd"), copies))
    assert np.abs(whitener.whitening_ - np.eye(3)).max() > 0.1


@pytest.mark.parametrize("shrinkage", [0.0, 0.5])
def test_more_dimensions_than_samples_give_finite_values(shrinkage):
    X, y = drawn(n=6, d=20, p=2)
    Z = WithinClassWhitener(shrinkage=shrinkage).fit(X, y).transform(X)
    assert np.isfinite(Z).all()


@pytest.mark.parametrize("shrinkage", [0.0, 0.7])
def test_weights_count_samples(shrinkage):
    X, y = drawn()
    weights = np.random.default_rng(3).integers(0, 4, len(y))
    weights[y == 2] = 0  # a class may vanish
    repeated = WithinClassWhitener(shrinkage).fit(
        np.repeat(X, weights, axis=0), np.repeat(y, weights)
    )
    for factor in (1, 0.3):
        weighted = WithinClassWhitener(shrinkage).fit(X, y, sample_weight=factor * weights)
        np.testing.assert_allclose(weighted.whitening_, repeated.whitening_, rtol=1e-9)
    plain = WithinClassWhitener(shrinkage).fit(X, y)
    assert np.abs(plain.whitening_ - repeated.whitening_).max() > 0.01
    equal = WithinClassWhitener(shrinkage).fit(X, y, sample_weight=np.full(len(y), 2.5))
    np.testing.assert_allclose(equal.whitening_, plain.whitening_, rtol=1e-9)


def test_bad_weights_are_refused():
    X, y = drawn()
    with pytest.raises(ValueError, match="`sample_weight` must have one entry for each of the 60"):
        WithinClassWhitener().fit(X, y, sample_weight=np.ones(59))
    with pytest.raises(ValueError, match="`sample_weight` must be nonnegative"):
        WithinClassWhitener().fit(X, y, sample_weight=-np.ones(60))
