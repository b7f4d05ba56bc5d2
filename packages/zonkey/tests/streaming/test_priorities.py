"""The hash of samples against a loop that spells it out, and against weak spots of hashes."""

import struct

import numpy as np
import pytest
from libraries import in_every_library
from numpy.testing import assert_array_equal

from zonkey.config import config_context
from zonkey.streaming.priorities import row_priorities

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


@in_every_library
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("scale", ["plain", "zeros", "extreme", "powers", "one column"])
def test_rows_have_the_same_priorities_in_every_library(library, dtype, scale):
    rows = RNG.normal(size=(600, 7))
    if scale == "zeros":
        rows *= RNG.random(rows.shape) < 0.2
        rows[:3] = [[0.0], [-0.0], [0.0]]
    if scale == "extreme":
        rows *= 10.0 ** RNG.integers(-323, 308, rows.shape)
    if scale == "powers":
        rows = 2.0 ** RNG.integers(-1074, 1024, rows.shape) * (1 + RNG.choice([0, 2.0**-52]))
    if scale == "one column":
        rows = rows[:, :1]
    limits = np.finfo(dtype)
    rows = np.clip(rows, limits.min, limits.max).astype(dtype)
    with config_context(working_memory=0.01):
        priorities = library.numpy(row_priorities(library(rows), 5))
    assert priorities.dtype == np.int64
    assert_array_equal(priorities, row_priorities(rows, 5))
