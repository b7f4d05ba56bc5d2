"""FeatureNormalizer against a loop over entries, and as a citizen of scikit-learn."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn_checks import parametrize_with_sklearn_checks

from zonkey.preprocessing import FeatureNormalizer

SETTINGS = [
    {"power": power, "center": center, "norm": norm}
    for power in (None, 0.5, 3)
    for center in (False, True)
    for norm in ("l2", None)
]


@parametrize_with_sklearn_checks([FeatureNormalizer(), FeatureNormalizer(0.5, True, None)])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def naive_normalize(X_train, X, power, center, norm):
    """Power, then centering by the powered training mean, then unit rows: entry by entry."""

    def powered(value):
        return value if power is None else math.copysign(abs(value) ** power, value)

    n_features = len(X_train[0])
    mean = [0.0] * n_features
    if center:
        for j in range(n_features):
            mean[j] = math.fsum(powered(row[j]) for row in X_train) / len(X_train)
    result = []
    for row in X:
        moved = [powered(value) - mean[j] for j, value in enumerate(row)]
        length = math.hypot(*moved) if norm == "l2" else 1.0
        result.append([value / length if length else value for value in moved])
    return np.array(result)


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-11), (np.float32, 2e-5)])
def test_the_three_steps_in_order(setting, dtype, rtol):
    rng = np.random.default_rng(0)
    X_train = rng.normal(1.0, 2.0, (30, 4)).astype(dtype)
    X = rng.normal(-1.0, 2.0, (9, 4)).astype(dtype)
    normalizer = FeatureNormalizer(**setting).fit(X_train)
    got = normalizer.transform(X)
    assert got.dtype == dtype
    assert (normalizer.mean_ is None) == (not setting["center"])
    expected = naive_normalize(X_train.tolist(), X.tolist(), **setting)
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=rtol)


finite_rows = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=6),
    elements=st.floats(-1e150, 1e150),
)


@given(finite_rows, st.sampled_from([None, 0.3, 1.7]))
@settings(deadline=None, max_examples=50)
def test_rows_have_length_one_or_stay_zero(X, power):
    got = FeatureNormalizer(power=power).fit_transform(X)
    powered = X if power is None else np.abs(X) ** power
    zero = ~powered.any(axis=1)
    np.testing.assert_array_equal(got[zero], 0.0)
    np.testing.assert_allclose(np.linalg.norm(got[~zero], axis=1), 1.0, rtol=1e-12)
    assert np.all(got * np.sign(X) >= 0)


@pytest.mark.parametrize(
    ("dtype", "scale"), [(np.float32, 1e-30), (np.float32, 1e30), (np.float64, 1e300)]
)
def test_tiny_and_huge_rows_are_scaled_too(dtype, scale):
    X = np.array([[3.0, -4.0]], dtype=dtype) * dtype(scale)
    np.testing.assert_allclose(FeatureNormalizer().fit_transform(X), [[0.6, -0.8]], rtol=1e-6)


def test_mean_of_many_float32_samples_keeps_its_digits():
    X = np.full((200_000, 1), 0.1, dtype=np.float32)
    mean = FeatureNormalizer(center=True).fit(X).mean_
    assert mean.dtype == np.float64
    assert mean[0] == pytest.approx(float(np.float32(0.1)), rel=1e-12)


@pytest.mark.parametrize("power", [np.float64(0.5), np.float32(0.5), 1, np.int64(2)])
def test_numpy_scalars_as_power_keep_float32(power):
    X = np.array([[4.0, 9.0]], dtype=np.float32)
    got = FeatureNormalizer(power=power, norm=None).fit_transform(X)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, X ** float(power))


def test_bad_data_is_refused():
    with pytest.raises(ValueError, match="NaN"):
        FeatureNormalizer().fit([[np.nan, 1.0]])
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        FeatureNormalizer().fit(sparse.eye_array(3, format="csr"))
    with pytest.raises(NotFittedError):
        FeatureNormalizer().transform([[1.0]])
    with pytest.raises(ValueError, match="2 features"):
        FeatureNormalizer().fit([[1.0, 2.0]]).transform([[1.0]])


WEIGHTS = np.random.default_rng(3).integers(0, 4, 30).astype(float)


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_weights_count_samples(setting):
    rng = np.random.default_rng(2)
    X_train, X = rng.normal(1.0, 2.0, (30, 4)), rng.normal(size=(9, 4))
    repeated = FeatureNormalizer(**setting).fit(np.repeat(X_train, WEIGHTS.astype(int), axis=0))
    weighted = FeatureNormalizer(**setting).fit(X_train, sample_weight=WEIGHTS)
    np.testing.assert_allclose(weighted.transform(X), repeated.transform(X), rtol=1e-11)
    scaled = FeatureNormalizer(**setting).fit(X_train, sample_weight=0.3 * WEIGHTS)
    np.testing.assert_allclose(scaled.transform(X), repeated.transform(X), rtol=1e-11)
    equal = FeatureNormalizer(**setting).fit(X_train, sample_weight=2.5)
    plain = FeatureNormalizer(**setting).fit(X_train)
    np.testing.assert_allclose(equal.transform(X), plain.transform(X), rtol=1e-11)
    if setting["center"]:
        assert np.abs(weighted.mean_ - plain.mean_).max() > 0.01


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(29), r"one entry for each of the 30 samples; got shape \(29,\)"),
        (np.ones((30, 1)), "one entry for each of the 30 samples"),
        (np.zeros(30), "not all zero; got weights from 0.0 to 0.0"),
        (-WEIGHTS, "nonnegative and finite"),
        (np.where(WEIGHTS > 2, np.nan, 1.0), "nonnegative and finite"),
        (np.where(WEIGHTS > 2, np.inf, 1.0), "nonnegative and finite"),
    ],
)
def test_bad_weights_are_refused(weights, message):
    with pytest.raises(ValueError, match=f"`sample_weight` must .*{message}"):
        FeatureNormalizer(center=True).fit(np.ones((30, 2)), sample_weight=weights)
