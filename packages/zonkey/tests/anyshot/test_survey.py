"""Samples that are kept per class: the same whatever the chunks, and fewer the more classes."""

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from zonkey.anyshot import survey
from zonkey.anyshot.survey import KeptSamples, Survey
from zonkey.streaming.priorities import row_priorities
from zonkey.streaming.sources import Chunk

POWERS = (0.5, 1.0)


@pytest.fixture
def small(monkeypatch):
    """Few samples per class, so that every rule acts on small data."""
    monkeypatch.setattr(survey, "_MOST_PER_CLASS", 6)
    monkeypatch.setattr(survey, "_FEWEST_PER_CLASS", 3)
    monkeypatch.setattr(survey, "_MOST_SAMPLES", 40)
    monkeypatch.setattr(survey, "_OF_OTHERS", 2)
    monkeypatch.setattr(survey, "MOST_CLASSES", 12)


def drawn(n_classes, n=300, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    y = np.array([f"class {j}" for j in range(n_classes)])[rng.integers(n_classes, size=n)]
    return rng.normal(size=(n, 5)).astype(dtype), y


def chunks_of(X, y, cuts):
    bounds = [0, *cuts, len(y)]
    # Text is only as wide as the labels of a chunk need.
    return [
        Chunk(X[a:b], np.array(y[a:b].tolist(), str), i)
        for i, (a, b) in enumerate(pairwise(bounds))
    ]


def naive(X, y, seed, size_of):
    """Return the rows to keep of each class, by loops."""
    priorities = row_priorities(X, seed)
    kept = {}
    for label in np.unique(y).tolist():
        rows = [i for i in range(len(y)) if y[i] == label]
        kept[label] = sorted(rows, key=lambda i: (priorities[i], i))[: size_of(label)]
    return kept


def rows_by_label(kept, labels):
    names = labels[kept.codes]
    return {label: kept.rows[names == label].tolist() for label in labels.tolist()}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("n_classes", "size"), [(3, 6), (8, 5), (11, 3), (12, 3)])
def test_each_class_keeps_the_samples_of_lowest_hash(n_classes, size):
    X, y = drawn(n_classes)
    labels, codes = np.unique(y, return_inverse=True)
    kept = KeptSamples.choose(X, codes, labels, 7)
    assert rows_by_label(kept, labels) == naive(X, y, 7, lambda _: size)
    assert kept.is_main.all()
    assert_array_equal(kept.X, X[kept.rows])


@pytest.mark.usefixtures("small")
def test_beyond_the_most_classes_others_keep_few():
    X, y = drawn(30, n=500)
    labels, codes = np.unique(y, return_inverse=True)
    kept = KeptSamples.choose(X, codes, labels, 7)
    assert kept.is_main.sum() == 12
    main = dict(zip(labels.tolist(), kept.is_main.tolist(), strict=True))
    assert rows_by_label(kept, labels) == naive(X, y, 7, lambda name: 3 if main[name] else 2)
    other = KeptSamples.choose(X, codes, labels, 8)
    assert (other.is_main != kept.is_main).any()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("n_classes", "dtype", "order"),
    [(3, np.float64, "copies"), (8, np.float32, "drawn"), (30, np.float64, "sorted")],
)
@pytest.mark.parametrize(
    "cuts", [[], [1], [299], [50, 50, 100], [*range(1, 300)]], ids=lambda cuts: str(len(cuts))
)
def test_chunks_keep_what_memory_keeps(n_classes, dtype, order, cuts):
    X, y = drawn(n_classes, dtype=dtype)
    if order == "sorted":  # classes come one after the other
        at = np.argsort(y, kind="stable")
        X, y = X[at], y[at]
    elif order == "copies":
        X[150:] = X[:150]
    labels, codes = np.unique(y, return_inverse=True)
    expected = KeptSamples.choose(X, codes, labels, 7)
    chunks = chunks_of(X, y, cuts)
    sequential, halves = Survey(7, POWERS), [Survey(7, POWERS) for _ in range(3)]
    for i, chunk in enumerate(chunks):
        sequential.update(chunk)
        halves[i % 2].update(chunk)
        again = Survey(7, POWERS)
        again.restore(sequential.parts())
        if i % 3 == 0:
            sequential = again
    halves[2].merge(halves[1])  # in another order than the chunks, and into an empty one
    halves[2].merge(halves[0])
    for found in (sequential, halves[2]):
        kept = found.kept()
        for name in ("X", "codes", "priorities", "weights", "rows", "is_main"):
            assert_array_equal(getattr(kept, name), getattr(expected, name))
        assert kept.X.dtype == dtype
        assert_array_equal(found.labels, labels)
        for power in POWERS:
            mean = (np.sign(X) * np.abs(X.astype(float)) ** power).mean(axis=0)
            np.testing.assert_allclose(found.means[power].mean(), mean, rtol=1e-5, atol=1e-7)


def test_samples_without_weight_are_not_kept():
    X, y = drawn(3)
    labels, codes = np.unique(y, return_inverse=True)
    weights = np.where(np.arange(300) % 2, 2.0, 0.0)
    kept = KeptSamples.choose(X, codes, labels, 7, weights)
    assert (kept.rows % 2 == 1).all()
    assert (kept.weights == 2).all()
    assert len(kept.rows) == 150


@pytest.mark.parametrize("n_classes", [1, 100, 327])
def test_up_to_327_classes_keep_a_hundred_samples_each(n_classes):
    sizes = survey._sizes(np.arange(n_classes, dtype=np.uint64))
    assert_array_equal(sizes, np.full(n_classes, 100))


def test_numbers_of_samples_only_fall():
    keys = np.random.default_rng(0).integers(2**63, size=5000).astype(np.uint64)
    before = survey._sizes(keys[:1])
    for m in (2, 300, 327, 328, 1999, 2000, 2001, 5000):
        sizes = survey._sizes(keys[:m])
        assert (sizes[: len(before)] <= before).all()
        before = sizes
    assert np.bincount(before)[[4, 16]].tolist() == [3000, 2000]


def test_equal_labels_have_one_key():
    expected = survey._label_keys(np.array([0, 1, 7]), 3)
    assert_array_equal(survey._label_keys(np.array([0.0, 1.0, 7.0]), 3), expected)
    assert_array_equal(survey._label_keys(np.array([False, True]), 3), expected[:2])
    assert len({*survey._label_keys(np.array(["0", "1"]), 3), *expected[2:]}) == 3


def test_a_chunk_of_another_kind_of_labels_is_refused():
    X, y = drawn(3)
    found = Survey(0, ())
    found.update(Chunk(X, y, 0))
    with pytest.raises(ValueError, match="must be of one kind"):
        found.update(Chunk(X, np.zeros(300, int), 1))


def test_integers_that_a_double_cannot_hold_stay_apart():
    X, _ = drawn(1, n=2)
    found = Survey(0, ())
    found.update(Chunk(X, np.array([2**60, 2**60 + 1]), 0))
    found.update(Chunk(X, np.array([2**60 + 2, 2**60 + 1], np.uint64), 1))
    assert found.labels.tolist() == [2**60, 2**60 + 1, 2**60 + 2]


def test_memory_holds_little_more_than_what_is_kept():
    """Neither chunks, nor their merge, nor a checkpoint, nor the result copy all samples."""
    rng, halves = np.random.default_rng(0), (Survey(0, ()), Survey(0, ()))
    labels = rng.permutation(np.repeat(np.arange(2500), 8))
    of_a_chunk = 2**25  # hashes
    tracemalloc.start()
    try:
        for i in range(40):
            X = rng.random((500, 1200), np.float32)
            halves[i % 2].update(Chunk(X, labels[500 * i : 500 * (i + 1)], i))
        one, other = halves
        size = sum(half.parts()["few"]["samples"].nbytes for half in halves)
        assert tracemalloc.get_traced_memory()[1] < size + of_a_chunk
        tracemalloc.reset_peak()
        one.merge(other)
        kept = one.kept()
        assert tracemalloc.get_traced_memory()[1] < 1.7 * size
    finally:
        tracemalloc.stop()
    assert kept.X.base is None
    assert len(kept.X) == len(kept.codes) == np.minimum(8, np.where(kept.is_main, 16, 4)).sum()
