"""Transformers on tensors and strict arrays: the values of NumPy, where the samples are."""

from itertools import product

import numpy as np
import pytest
from libraries import TORCH, in_every_library
from numpy.testing import assert_allclose, assert_array_equal
from transfers import assert_few, counted_transfers

from zonkey.preprocessing import FeatureNormalizer, WithinClassWhitener

RNG = np.random.default_rng(1)
X = RNG.normal(size=(60, 14)) ** 3
X[3] = 0.0  # a row without length
X[4] *= 1e-30  # lengths whose squares would not fit into float32
X[5] *= 1e30
Y = RNG.integers(0, 4, 60) * 5
NAMES = np.array([f"class {label:02d}" for label in Y])
EVERY_NORMALIZER = [
    FeatureNormalizer(power=power, center=center, norm=norm)
    for power, center, norm in product((None, 0.5, np.float64(2.0)), (False, True), ("l2", None))
]


def assert_close(got, expected, dtype=None):
    digits = 1e-11 if np.dtype(dtype or expected.dtype) == np.float64 else 1e-5
    assert got.dtype == expected.dtype
    assert_allclose(got, expected, rtol=digits, atol=digits * np.abs(expected).max())


@in_every_library
@pytest.mark.parametrize("normalizer", EVERY_NORMALIZER, ids=repr)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_features_are_normalized_as_in_numpy(library, dtype, normalizer):
    rows = X.astype(dtype)
    if normalizer.center or normalizer.power == 2:
        rows = np.delete(rows, 5, axis=0)  # beside which all others would vanish
    expected = normalizer.fit(rows).transform(rows)
    mean = normalizer.mean_
    placed = library(rows)
    got = normalizer.fit(placed).transform(placed)
    assert_close(library.numpy(got), expected)
    if mean is not None:
        assert_close(library.numpy(normalizer.mean_), mean, dtype)
    assert_array_equal(library.numpy(placed), rows)  # the input is never changed
    assert normalizer.n_features_in_ == 14
    assert normalizer.get_feature_names_out().tolist() == [f"x{j}" for j in range(14)]


@in_every_library
@pytest.mark.parametrize(
    ("dtype", "shrinkage", "kind"),
    [("float64", 4.0, "numbers"), ("float32", np.float64(0.1), "names"), ("int64", 4.0, "host")],
)
def test_classes_are_whitened_as_in_numpy(library, dtype, shrinkage, kind):
    rows, y = np.delete(X * 10, 5, axis=0).astype(dtype), np.delete(Y, 5)
    given = {"numbers": library(y), "names": np.delete(NAMES, 5), "host": y}[kind]
    whitener = WithinClassWhitener(shrinkage).fit(rows, y)
    expected, whitening = whitener.transform(rows), whitener.whitening_
    got = whitener.fit(library(rows), given).transform(library(rows))
    assert_close(library.numpy(got), expected)
    assert_close(library.numpy(whitener.whitening_), whitening)
    whitener.fit(library(rows[6:9]), library(np.arange(3)))  # one sample per class
    assert_array_equal(library.numpy(whitener.whitening_), np.eye(14))


@in_every_library
def test_what_was_learned_in_one_library_serves_another(library):
    rows = X[6:]
    for transformer in (FeatureNormalizer(center=True), WithinClassWhitener()):
        expected = transformer.fit(rows, Y[6:]).transform(rows)
        assert_close(library.numpy(transformer.transform(library(rows))), expected)
        transformer.fit(library(rows), library(Y[6:]))
        assert_close(transformer.transform(rows), expected)


@in_every_library
def test_nothing_comes_to_the_host_but_the_classes(library):
    rows, y = library(X), library(Y)
    with counted_transfers() as transfers:
        for transformer in (*EVERY_NORMALIZER, WithinClassWhitener()):
            transformer.fit_transform(rows, y)
    assert_few(transfers, 4)


@in_every_library
@pytest.mark.parametrize("transformer", [FeatureNormalizer(), WithinClassWhitener()])
def test_bad_samples_are_refused_in_one_line(library, transformer):
    bad = {"must be a matrix": X[0], "at least one sample": X[:0], "must be finite": X * np.nan}
    for message, rows in bad.items():
        with pytest.raises(ValueError, match=message) as refusal:
            transformer.fit(library(rows), library(Y[: len(rows)]))
        assert "\n" not in str(refusal.value)
    transformer.fit(library(X), library(Y))
    with pytest.raises(ValueError, match=r"the 14 features that \w+ was fitted on; got 13"):
        transformer.transform(library(X[:, 1:]))


def test_no_gradient_is_kept():
    rows = TORCH(X[6:]).requires_grad_()
    for transformer in (FeatureNormalizer(0.5, True), WithinClassWhitener()):
        assert not transformer.fit_transform(rows, TORCH(Y[6:])).requires_grad
