"""The raw samples kept per class, against loops that spell out their order and set arithmetic."""

import copy
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from libraries import in_every_library

from zonkey.streaming import bottom_k as module
from zonkey.streaming.bottom_k import BottomK
from zonkey.streaming.priorities import row_priorities


def empty(n_classes=3, size=4):
    return BottomK(np.full(n_classes, size), 2)


def offer(few, X, codes, seed=0):
    codes = np.asarray(codes, np.intp)
    few.offer(X, codes, row_priorities(X, seed), np.stack([X[:, -1], X[:, 0]], axis=1))


def filled(X, codes, *, n_classes=3, size=4, seed=0):
    few = empty(n_classes, size)
    offer(few, X, codes, seed)
    return few


def of_one_class(X, size=4):
    return filled(X, np.zeros(len(X), np.intp), n_classes=1, size=size)


def by_priority(X):
    return X[np.argsort(row_priorities(X, 0))]


def restored(few):
    """Return a copy by way of parts, as in a file."""
    other = BottomK(few.sizes, 2)
    other.restore(copy.deepcopy(few.parts()))
    return other


def held(few, n_features, n_classes=3):
    rows = [few.samples_of(j) for j in range(n_classes)]
    assert {M.shape[1] for M in rows} == {n_features}
    np.testing.assert_array_equal(few.samples(), np.concatenate(rows))
    return rows


def multiset(rows):
    return Counter(map(tuple, np.asarray(rows, float).tolist()))


def drawn(seed, n, d=2, n_classes=3):
    """Return rows among which some are equal, and their classes."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, (n, d)).astype(float), rng.integers(0, n_classes, n)


@given(st.integers(0, 2**32), st.integers(0, 40), st.integers(0, 6), st.integers(0, 3))
@settings(deadline=None, max_examples=25)
def test_a_class_keeps_its_rows_of_lowest_priority(data_seed, n, size, seed):
    X, codes = drawn(data_seed, n)
    for j, rows in enumerate(held(filled(X, codes, size=size, seed=seed), 2)):
        own = X[codes == j]
        order = sorted(range(len(own)), key=row_priorities(own, seed).tolist().__getitem__)
        np.testing.assert_array_equal(rows, own[order[:size]].reshape(-1, 2))


@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(1, 6), st.data())
@settings(deadline=None, max_examples=25)
def test_neither_order_nor_chunks_nor_merging_change_the_choice(data_seed, n, size, data):
    X, codes = drawn(data_seed, n)
    expected = held(filled(X, codes, size=size), 2)
    order = np.array(data.draw(st.permutations(range(n))))
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=4)))
    chunked, merged = empty(size=size), empty(size=size)
    for part in np.split(order, cuts):
        offer(chunked, X[part], codes[part])
        merged.merge(filled(X[part], codes[part], size=size))
    for got in (chunked, merged):
        for rows, wanted in zip(held(got, 2), expected, strict=True):
            np.testing.assert_array_equal(rows, wanted)


@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(1, 6), st.data())
@settings(deadline=None, max_examples=50)
def test_subtraction_leaves_the_lowest_of_the_remaining_rows(data_seed, n, size, data):
    X, codes = drawn(data_seed, n)
    gone = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    emptied = np.bincount(codes[~gone], minlength=3) == 0
    whole = filled(X, codes, size=size)
    whole.subtract(filled(X[gone], codes[gone], size=size), emptied)
    remaining = held(filled(X[~gone], codes[~gone], size=size), 2)
    for j, (rows, wanted) in enumerate(zip(held(whole, 2), remaining, strict=True)):
        np.testing.assert_array_equal(rows, wanted[: len(rows)])
        if (codes == j).sum() <= size:
            assert len(rows) == len(wanted)


@given(st.integers(0, 2**32), st.integers(1, 5), st.data())
@settings(deadline=None, max_examples=100)
def test_any_sequence_of_additions_and_removals_holds_only_what_is_left(data_seed, size, data):
    X, _ = drawn(data_seed, 40)
    inside = np.zeros(40, bool)
    few = of_one_class(X[:0], size)
    for _ in range(data.draw(st.integers(1, 8))):
        chosen = np.zeros(40, bool)
        chosen[data.draw(st.lists(st.integers(0, 39), max_size=25))] = True
        remove = data.draw(st.booleans())
        chosen &= inside if remove else ~inside
        part = of_one_class(X[chosen], size)
        inside ^= chosen
        if remove:
            few.subtract(part, np.array([not inside.any()]))
        else:
            few.merge(part)
        rows, wanted = held(few, 2, 1)[0], held(of_one_class(X[inside], size), 2, 1)[0]
        np.testing.assert_array_equal(rows, wanted[: len(rows)])


STAYS, EMPTIED = np.array([False]), np.array([True])


def test_a_row_that_came_in_after_a_subtraction_can_still_be_removed():
    X = by_priority(np.random.default_rng(0).normal(size=(200, 3)))
    few = of_one_class(X[:100], 5)
    few.subtract(of_one_class(X[:50], 5), STAYS)  # all that was held goes
    few.merge(of_one_class(X[150:], 5))
    removed = np.concatenate([X[50:90], X[150:180]])
    few.subtract(of_one_class(removed, 5), STAYS)
    assert not multiset(held(few, 3, 1)[0]) & multiset(removed)


def test_an_emptied_class_starts_afresh():
    X = np.arange(20.0)[:, None]
    few = of_one_class(X)
    few.subtract(of_one_class(X[:10]), STAYS)
    few.subtract(of_one_class(X[10:]), EMPTIED)
    assert held(few, 1, 1)[0].shape == (0, 1)
    offer(few, -X[:4], [0] * 4)  # few enough to be kept, whatever their priorities
    assert multiset(held(few, 1, 1)[0]) == multiset(-X[:4])


def test_what_the_removed_part_has_lost_sight_of_is_removed_too():
    X = by_priority(np.arange(7.0)[:, None])
    removed = of_one_class(X[1:])
    removed.subtract(of_one_class(X[1:6]), STAYS)  # the last row is left, and not held
    assert len(held(removed, 1, 1)[0]) == 0
    few = of_one_class(X[[0, 6]])
    few.subtract(removed, STAYS)
    np.testing.assert_array_equal(held(few, 1, 1)[0], X[:1])


def test_arrays_round_trip_with_empty_classes_and_after_subtraction():
    X, codes = np.arange(30.0).reshape(-1, 2), np.repeat([0, 2], [12, 3])
    first = filled(X, codes)
    first.subtract(filled(X[:11], codes[:11]), np.zeros(3, bool))
    again = restored(first)
    more = np.arange(100.0, 160.0).reshape(-1, 2)
    for few in (first, again):
        offer(few, more, np.repeat([0, 1, 2], 10))
    assert len(held(first, 2)[0]) < 4  # the limit still holds, and was saved
    for rows, wanted in zip(held(again, 2), held(first, 2), strict=True):
        np.testing.assert_array_equal(rows, wanted)


def test_a_limit_survives_in_a_class_that_has_no_row_left():
    X = by_priority(np.arange(40.0)[:, None])
    few = of_one_class(X)
    few.subtract(of_one_class(X[:8]), STAYS)
    for bare in (few, restored(few)):
        target = of_one_class(X[20:])
        target.merge(bare)  # rows 8 to 19 are not held: none above them may be
        assert len(held(target, 1, 1)[0]) == 0


def test_nothing_is_kept_of_nothing():
    none = filled(np.empty((0, 2)), [])
    for few in (none, restored(none), filled(np.ones((3, 2)), [0, 1, 1], size=0)):
        assert [rows.shape for rows in held(few, 2)] == [(0, 2)] * 3


def test_rows_are_copied_and_keep_their_dtype():
    X = np.ones((3, 2), np.float32)
    few = filled(X, [0, 0, 1])
    X[:] = 9
    rows = held(few, 2)[0]
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows, np.ones((2, 2)))


@pytest.mark.parametrize("name", ["normal", "binary", "growing", "nearly equal"])
def test_over_seeds_every_row_is_chosen_equally_often(name):
    n, size, repeats = 20, 5, 400
    X = {
        "normal": np.random.default_rng(1).normal(size=(n, 3)),
        "binary": np.unique(np.random.default_rng(0).integers(0, 2, (99, 40)), axis=0)[:n],
        "growing": 10.0 ** np.arange(n)[:, None],
        "nearly equal": 1 + np.arange(n)[:, None] * np.finfo(np.float32).eps,
    }[name].astype(float)
    chosen = np.zeros((repeats, n))
    for seed in range(repeats):
        rows = filled(X, np.zeros(n, np.intp), n_classes=1, size=size, seed=seed).samples_of(0)
        chosen[seed] = (X[:, None] == rows).all(axis=2).any(axis=1)
    assert (chosen.sum(axis=1) == size).all()
    times, mean = chosen.sum(axis=0), repeats * size / n
    deviation = np.sqrt(mean * (1 - size / n))
    assert np.abs(times - mean).max() < 5 * deviation
    assert ((times - mean) ** 2).sum() / deviation**2 < 3 * n
    pairs = (chosen.T @ chosen)[np.triu_indices(n, 1)]
    assert np.abs(pairs - repeats * size * (size - 1) / (n * (n - 1))).max() < 5 * np.sqrt(21)


def test_copies_and_renamed_classes_go_their_own_way():
    rng = np.random.default_rng(4)
    X, codes = rng.normal(size=(300, 3)).astype(np.float32), rng.integers(0, 3, 300)
    expected = held(filled(X, codes, size=9), 3)
    whole, half = empty(size=9), empty(size=9)
    for start in range(0, 300, 11):
        part = slice(start, start + 11)
        offer(half if start % 2 else whole, X[part], codes[part])
    before = held(whole, 3)
    same, renamed = whole.copy(), whole.copy()
    renamed.relabel(np.array([3, 0, 2]), np.array([9, 9, 9, 9]))
    for few in (same, whole):
        few.merge(half)
    for few in (whole, same, restored(whole)):
        for rows, wanted in zip(held(few, 3), expected, strict=True):
            np.testing.assert_array_equal(rows, wanted)
    np.testing.assert_array_equal(renamed.samples_of(3), before[0])
    np.testing.assert_array_equal(renamed.samples_of(0), before[1])
    assert renamed.samples_of(1).shape == (0, 3)


def test_a_permutation_in_place():
    rng = np.random.default_rng(0)
    for n in range(12):
        X, order = rng.normal(size=(n, 3)), rng.permutation(n)
        expected = X[order]
        module._permute(X, order)
        np.testing.assert_array_equal(X, expected)


@in_every_library
@pytest.mark.parametrize("seed", range(8))
def test_devices_keep_what_numpy_keeps(library, seed):
    rng = np.random.default_rng(seed)
    n, size = 60, int(rng.integers(0, 6))
    rows = rng.integers(0, 4, (n, 2)).astype(np.float64)  # some are equal, some in two classes
    codes, inside = rng.integers(0, 3, n), np.zeros(n, bool)
    here, there = empty(size=size), empty(size=size)
    for _ in range(8):
        chosen, remove = rng.random(n) < 0.4, rng.random() < 0.5
        chosen &= inside if remove else ~inside
        inside ^= chosen
        emptied = np.bincount(codes[inside], minlength=3) == 0
        part, placed = filled(rows[chosen], codes[chosen], size=size), empty(size=size)
        ties, priorities = rows[chosen][:, [1, 0]], row_priorities(rows[chosen], 0)
        placed.offer(library(rows[chosen]), codes[chosen], priorities, ties)
        for few, other in ((here, part), (there, placed)):
            few.subtract(other, emptied) if remove else few.merge(other)
        wanted, got = here.parts(), there.parts()
        if got["samples"] is not None:
            got["samples"] = library.numpy(got["samples"])
        for name in wanted:
            np.testing.assert_array_equal(got[name], wanted[name])
