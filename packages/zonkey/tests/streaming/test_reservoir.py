"""The reservoir against loops that spell out its hash, its order and its set arithmetic."""

import doctest
import struct
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zonkey.streaming import reservoir as module
from zonkey.streaming.reservoir import Reservoir, row_priorities

WORD = 2**64
RNG = np.random.default_rng(0)
# Data whose floats have few bits in use: a weak hash maps many distinct rows to one value.
FEW_BITS = {
    "binary": np.unique(RNG.integers(0, 2, (3000, 40)), axis=0),
    "bytes": np.unique(RNG.integers(0, 256, (3000, 6)), axis=0),
    "one hot": np.eye(300),
    "powers of two": 2.0 ** np.arange(-300, 300)[:, None],
    "half precision": np.unique(RNG.random((3000, 3)).astype(np.float16), axis=0),
    "single precision": np.unique(RNG.random((3000, 1), dtype=np.float32), axis=0),
    "sparse": np.unique(RNG.random((3000, 8)) * (RNG.random((3000, 8)) < 0.3), axis=0),
    "constant columns": np.column_stack([np.ones(500), np.arange(500), np.ones(500)]),
}


def mixed(h):
    h = ((h ^ (h >> 30)) * 0xBF58476D1CE4E5B9) % WORD
    h = ((h ^ (h >> 27)) * 0x94D049BB133111EB) % WORD
    return h ^ (h >> 31)


def naive_priority(row, keys):
    largest = max(abs(value) for value in row)
    (bits,) = struct.unpack("<Q", struct.pack("<d", float(largest)))
    total = mixed(((bits + 2**19) >> 20) ^ int(keys[-1]))
    for value, key in zip(row, keys[:-1], strict=True):
        step = round(float(value) / (largest or 1) * 2**24)
        total += mixed((step % WORD) ^ int(key))
    return mixed(total % WORD)


def filled(X, codes, *, n_classes=3, size=4, seed=0):
    reservoir = Reservoir(n_classes, size, seed, X)
    reservoir.update(X, np.asarray(codes, np.intp))
    return reservoir


def held(reservoir, n_features, n_classes=3):
    rows = [reservoir.samples(j) for j in range(n_classes)]
    assert {M.shape[1] for M in rows} == {n_features}
    return rows


def multiset(rows):
    return Counter(map(tuple, np.asarray(rows, float).tolist()))


def drawn(seed, n, d=2, n_classes=3):
    """Return rows among which some are equal, and their classes."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, (n, d)).astype(float), rng.integers(0, n_classes, n)


def test_the_examples_of_the_module():
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize("seed", [0, 1, 2**40])
def test_priorities_are_the_sum_of_mixed_values(seed):
    X = np.random.default_rng(5).normal(size=(6, 3)) * [1e-9, 1, 1e9]
    X[0, 0], X[1, 1] = -0.0, 0.0
    keys = np.random.default_rng(seed).integers(2**64, size=4, dtype=np.uint64)
    priorities = row_priorities(X, seed)
    assert priorities.dtype == np.int64
    # Unsigned numbers in the order of signed ones.
    assert priorities.tolist() == [naive_priority(row, keys) - 2**63 for row in X]


def test_the_last_bits_do_not_matter():
    X = np.random.default_rng(5).normal(size=(50, 30))
    X[::3, ::2] = np.round(X[::3, ::2])  # values that are often computed one bit off
    for other in (np.nextafter(X, np.inf), np.nextafter(X, -np.inf), X.T.copy().T / 3 * 3):
        np.testing.assert_array_equal(row_priorities(other, 1), row_priorities(X, 1))


def test_centering_in_another_order_does_not_matter():
    X = np.random.default_rng(2).random((400, 200))
    order = np.random.default_rng(3).permutation(400)
    centered, again = X - X.mean(axis=0), X[order] - X[order].mean(axis=0)
    assert (again != centered[order]).any()
    np.testing.assert_array_equal(row_priorities(again, 1), row_priorities(centered, 1)[order])


@pytest.mark.parametrize("name", FEW_BITS)
def test_distinct_rows_get_distinct_priorities(name):
    X = FEW_BITS[name]
    assert len(np.unique(row_priorities(X, 3))) == len(X)


@pytest.mark.parametrize("name", ["binary", "constant columns", "powers of two"])
def test_every_bit_of_a_priority_is_fair(name):
    X = FEW_BITS[name]
    bits = np.unpackbits(row_priorities(X, 0).view(np.uint8).reshape(len(X), 8), axis=1)
    spread = 6 * np.sqrt(0.25 / len(X))
    assert np.abs(bits.mean(axis=0) - 0.5).max() < spread


def test_the_value_decides_not_its_representation():
    X = RNG.integers(-100, 100, (50, 4))
    expected = row_priorities(X.astype(np.float64), 1)
    for dtype in (np.int8, np.float32, np.float16, ">f8"):
        np.testing.assert_array_equal(row_priorities(X.astype(dtype), 1), expected)
    np.testing.assert_array_equal(row_priorities(np.asfortranarray(X, float), 1), expected)
    np.testing.assert_array_equal(row_priorities(X[::-1], 1)[::-1], expected)
    zeros = np.array([[0.0, 1.0], [-0.0, 1.0]])
    assert len(set(row_priorities(zeros, 1).tolist())) == 1


def test_wide_rows_are_hashed_in_blocks_that_do_not_show():
    X = np.random.default_rng(0).random((5, 2**19 + 1), dtype=np.float32)  # one row a block
    one_by_one = [row_priorities(X[i : i + 1], 0)[0] for i in range(5)]
    assert row_priorities(X, 0).tolist() == one_by_one


def test_columns_and_seeds_are_told_apart():
    a, b = np.array([[1.0, 2.0]]), np.array([[2.0, 1.0]])
    assert row_priorities(a, 0) != row_priorities(b, 0)
    assert len({int(row_priorities(a, seed)[0]) for seed in range(50)}) == 50


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
    chunked, merged = Reservoir(3, size, 0, X), Reservoir(3, size, 0, X)
    for part in np.split(order, cuts):
        chunked.update(X[part], codes[part])
        merged.merge(filled(X[part], codes[part], size=size))
    for got in (chunked, merged):
        for rows, wanted in zip(held(got, 2), expected, strict=True):
            np.testing.assert_array_equal(rows, wanted)


@given(st.lists(st.integers(0, 5)), st.lists(st.integers(0, 5)))
@settings(deadline=None, max_examples=50)
def test_multiset_difference_takes_out_each_value_once(values, remove):
    values = sorted(values)
    positions = module._multiset_difference(np.array(values, int), np.array(remove, int))
    assert (np.diff(positions) > 0).all()
    left = Counter(values[i] for i in positions)
    assert left == Counter(values) - Counter(remove)


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
    reservoir = Reservoir(1, size, 0, X)
    for _ in range(data.draw(st.integers(1, 8))):
        chosen = np.zeros(40, bool)
        chosen[data.draw(st.lists(st.integers(0, 39), max_size=25))] = True
        remove = data.draw(st.booleans())
        chosen &= inside if remove else ~inside
        part = filled(X[chosen], np.zeros(chosen.sum(), np.intp), n_classes=1, size=size)
        inside ^= chosen
        if remove:
            reservoir.subtract(part, np.array([not inside.any()]))
        else:
            reservoir.merge(part)
        lowest = filled(X[inside], np.zeros(inside.sum(), np.intp), n_classes=1, size=size)
        rows, wanted = held(reservoir, 2, 1)[0], held(lowest, 2, 1)[0]
        np.testing.assert_array_equal(rows, wanted[: len(rows)])


def test_a_row_that_came_in_after_a_subtraction_can_still_be_removed():
    X = np.random.default_rng(0).normal(size=(200, 3))
    X = X[np.argsort(row_priorities(X, 0))]

    def part(rows):
        return filled(rows, np.zeros(len(rows), np.intp), n_classes=1, size=5)

    reservoir = part(X[:100])
    reservoir.subtract(part(X[:50]), np.array([False]))  # all that was held goes
    reservoir.merge(part(X[150:]))
    removed = np.concatenate([X[50:90], X[150:180]])
    reservoir.subtract(part(removed), np.array([False]))
    assert not multiset(held(reservoir, 3, 1)[0]) & multiset(removed)


def test_an_emptied_class_starts_afresh():
    X, codes = np.arange(20.0)[:, None], np.zeros(20, np.intp)
    reservoir = filled(X, codes, n_classes=1)
    reservoir.subtract(filled(X[:10], codes[:10], n_classes=1), np.array([False]))
    reservoir.subtract(filled(X[10:], codes[10:], n_classes=1), np.array([True]))
    assert held(reservoir, 1, 1)[0].shape == (0, 1)
    reservoir.update(-X[:4], codes[:4])  # few enough to be kept, whatever their priorities
    assert multiset(held(reservoir, 1, 1)[0]) == multiset(-X[:4])


def test_what_the_removed_part_has_lost_sight_of_is_removed_too():
    X = np.arange(7.0)[:, None]
    X = X[np.argsort(row_priorities(X, 0))]

    def part(rows):
        return filled(rows, np.zeros(len(rows), np.intp), n_classes=1)

    removed = part(X[1:])
    removed.subtract(part(X[1:6]), np.array([False]))  # the last row is left, and not held
    assert len(held(removed, 1, 1)[0]) == 0
    reservoir = part(X[[0, 6]])
    reservoir.subtract(removed, np.array([False]))
    np.testing.assert_array_equal(held(reservoir, 1, 1)[0], X[:1])


def test_arrays_round_trip_with_empty_classes_and_after_subtraction():
    X, codes = np.arange(30.0).reshape(-1, 2), np.repeat([0, 2], [12, 3])
    first = filled(X, codes)
    first.subtract(filled(X[:11], codes[:11]), np.zeros(3, bool))
    again = Reservoir.from_arrays(first.to_arrays(), 4, 0)
    more = np.arange(100.0, 160.0).reshape(-1, 2)
    for reservoir in (first, again):
        reservoir.update(more, np.repeat([0, 1, 2], 10))
    assert len(held(first, 2)[0]) < 4  # the limit still holds, and was saved
    for rows, wanted in zip(held(again, 2), held(first, 2), strict=True):
        np.testing.assert_array_equal(rows, wanted)


def test_a_limit_survives_in_a_class_that_has_no_row_left():
    X, codes = np.arange(40.0)[:, None], np.zeros(40, np.intp)
    X = X[np.argsort(row_priorities(X, 0))]
    reservoir = filled(X, codes, n_classes=1)
    reservoir.subtract(filled(X[:8], codes[:8], n_classes=1), np.array([False]))
    for bare in (reservoir, Reservoir.from_arrays(reservoir.to_arrays(), 4, 0)):
        target = filled(X[20:], codes[20:], n_classes=1)
        target.merge(bare)  # rows 8 to 19 are not held: none above them may be
        assert len(held(target, 1, 1)[0]) == 0


def test_nothing_is_kept_of_nothing():
    for reservoir in (
        filled(np.empty((0, 2)), []),
        filled(np.ones((3, 2)), [0, 1, 1], size=0),
        Reservoir.from_arrays(filled(np.empty((0, 2)), []).to_arrays(), 4, 0),
    ):
        assert [rows.shape for rows in held(reservoir, 2)] == [(0, 2)] * 3


def test_rows_are_copied_and_keep_their_dtype():
    X = np.ones((3, 2), np.float32)
    reservoir = filled(X, [0, 0, 1])
    X[:] = 9
    rows = held(reservoir, 2)[0]
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows, np.ones((2, 2)))


@pytest.mark.parametrize("name", ["normal", "binary", "growing", "nearly equal"])
def test_over_seeds_every_row_is_chosen_equally_often(name):
    n, size, repeats = 20, 5, 400
    X = {
        "normal": np.random.default_rng(1).normal(size=(n, 3)),
        "binary": FEW_BITS["binary"][:n],
        "growing": 10.0 ** np.arange(n)[:, None],
        "nearly equal": 1 + np.arange(n)[:, None] * np.finfo(np.float32).eps,
    }[name].astype(float)
    chosen = np.zeros((repeats, n))
    for seed in range(repeats):
        rows = filled(X, np.zeros(n, np.intp), n_classes=1, size=size, seed=seed).samples(0)
        chosen[seed] = (X[:, None] == rows).all(axis=2).any(axis=1)
    assert (chosen.sum(axis=1) == size).all()
    times, mean = chosen.sum(axis=0), repeats * size / n
    deviation = np.sqrt(mean * (1 - size / n))
    assert np.abs(times - mean).max() < 5 * deviation
    assert ((times - mean) ** 2).sum() / deviation**2 < 3 * n
    pairs = (chosen.T @ chosen)[np.triu_indices(n, 1)]
    assert np.abs(pairs - repeats * size * (size - 1) / (n * (n - 1))).max() < 5 * np.sqrt(21)


@pytest.mark.parametrize("page", [0, 7, 40, 10**6])
@pytest.mark.parametrize("written", [0, 10, 10**6])
def test_pages_do_not_show(monkeypatch, page, written):
    rng = np.random.default_rng(4)
    X, codes = rng.normal(size=(300, 3)).astype(np.float32), rng.integers(0, 3, 300)
    expected = held(filled(X, codes, size=9), 3)
    monkeypatch.setattr(module, "_PAGE", page)
    monkeypatch.setattr(module, "_MOST_WRITTEN", written)
    whole, half = (Reservoir(3, 9, 0, X) for _ in range(2))
    for start in range(0, 300, 11):
        part = slice(start, start + 11)
        (half if start % 2 else whole).update(X[part], codes[part])
    copy = whole.relabel(3, np.arange(3), np.arange(3))
    whole.merge(half)
    copy.merge(half)
    if written == 10**6:
        n = sum(len(rows) for rows in whole._rows.pages)
        assert n * module._LEAST_USED <= len(whole._rows.slots)
    if page == 10**6:
        assert len(whole._rows.pages) == 1
    for reservoir in (whole, copy, Reservoir.from_arrays(whole.to_arrays(), 9, 0)):
        for rows, wanted in zip(held(reservoir, 3), expected, strict=True):
            np.testing.assert_array_equal(rows, wanted)
