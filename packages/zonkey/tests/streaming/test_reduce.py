"""Sums by class against loops: in blocks, in chunks, merged, restored, far from the origin."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from zonkey.config import config_context
from zonkey.streaming.reduce import ClassSums
from zonkey.streaming.sources import Chunk


def drawn(n=60, d=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), np.array(["b", "a", "dd", "c"])[rng.integers(4, size=n)]


def naive(X, y, weights):
    """Return counts, squares, sums and the within-class covariance, by loops."""
    labels = sorted(set(y.tolist()))
    counts, squares = (dict.fromkeys(labels, 0.0) for _ in range(2))
    sums = {label: np.zeros(X.shape[1]) for label in labels}
    for x, label, w in zip(X.astype(float), y.tolist(), weights, strict=True):
        counts[label] += w
        squares[label] += w * sum(v * v for v in x)
        sums[label] += w * x
    S = np.zeros((X.shape[1], X.shape[1]))
    for x, label, w in zip(X.astype(float), y.tolist(), weights, strict=True):
        deviation = x - sums[label] / counts[label]
        S += w * np.outer(deviation, deviation)
    stacked = [np.array([part[label] for label in labels]) for part in (counts, squares, sums)]
    return (*stacked, S / sum(counts.values()))


def assert_right(found, X, y, weights=None, digits=1e-12):
    weights = np.ones(len(y)) if weights is None else weights
    counts, squares, sums, covariance = naive(X, y, weights)
    assert found.labels.tolist() == sorted(set(y.tolist()))
    assert_allclose(found.counts, counts)
    assert_allclose(found.squares, squares)
    assert_allclose(found.totals(), sums, atol=1e-12)
    assert_allclose(found.means(), sums / counts[:, None], atol=1e-12)
    assert_allclose(found.covariance(), covariance, atol=digits * np.abs(covariance).max())


@pytest.mark.parametrize("memory", [1e-6, 3e-4, 64])  # MiB: blocks of one row, three, all
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("is_shifted", [False, True])
def test_blocks(memory, dtype, is_weighted, is_shifted):
    X, y = drawn()
    X = X.astype(dtype)
    labels, codes = np.unique(y, return_inverse=True)
    weights = np.random.default_rng(1).uniform(0.1, 3, 60) if is_weighted else None
    shift = (labels, np.random.default_rng(2).normal(size=(4, 4))) if is_shifted else None
    found = ClassSums(labels, scatter=True, shift=shift)
    with config_context(working_memory=memory):
        found.add(X, codes, weights)
    assert_right(found, X, y, weights)


@pytest.mark.parametrize("is_shifted", [False, True])
@pytest.mark.parametrize("size", [1, 7, 60])
def test_chunks_with_labels_of_their_own(size, is_shifted):
    X, y = drawn()
    # The shift knows one more class, and one fewer: that has a shift of zero.
    shift = (np.array(["a", "c", "dd", "e"]), np.random.default_rng(2).normal(size=(4, 4)))
    options = {"scatter": True, "shift": shift if is_shifted else None}
    sequential, parts = ClassSums(**options), [ClassSums(**options) for _ in range(3)]
    for number, start in enumerate(range(0, 60, size)):
        chunk = Chunk(X[start : start + size], y[start : start + size], number)
        sequential.update(chunk)
        parts[number % 2].update(chunk)
        again = ClassSums(**options)
        again.restore(sequential.parts())
        for name in ("labels", "counts", "squares", "sums", "scatter"):
            assert_array_equal(getattr(again, name), getattr(sequential, name))
        sequential = again
    parts[0].merge(ClassSums(**options))
    parts[2].merge(parts[1])
    parts[2].merge(parts[0])
    assert_right(sequential, X, y)
    assert_right(parts[2], X, y)


def test_classes_far_apart_keep_the_digits_of_their_scatter():
    X, y = drawn(200)
    labels, codes = np.unique(y, return_inverse=True)
    far = X + 1e4 * np.random.default_rng(3).normal(size=(4, 4))[codes]
    rough = (labels, np.stack([far[codes == j][:3].mean(axis=0) for j in range(4)]))
    found, without = ClassSums(scatter=True, shift=rough), ClassSums(scatter=True)
    for number in range(10):
        rows = slice(20 * number, 20 * number + 20)
        for sums in (found, without):
            sums.update(Chunk(far[rows], y[rows], number))
    expected = naive(far, y, np.ones(200))[-1]
    error = np.abs(found.covariance() - expected).max() / np.abs(expected).max()
    assert error < 1e-12
    assert np.abs(without.covariance() - expected).max() > 100 * error
