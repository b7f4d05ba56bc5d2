import numpy as np
import pytest
from refusals import refusal

from zonkey import config_context
from zonkey.files.dataset import LazyMatrix

VALUES = np.arange(12.0).reshape(4, 3) / 7
ROW = 27 / 2**20  # MiB of a row and of whether its values are finite


class Reader:
    """Reads a matrix and counts how often it was asked to."""

    def __init__(self, values):
        self.values, self.n_calls = values, 0

    def __call__(self):
        self.n_calls += 1
        return self.values


def test_nothing_is_read_before_the_values_are_asked_for_and_then_once():
    reader = Reader(VALUES)
    matrix = LazyMatrix((4, 3), "f8", reader, "stripes.npy")
    assert (matrix.shape, matrix.dtype, len(matrix)) == ((4, 3), np.float64, 4)
    assert repr(matrix) == "LazyMatrix(4 x 3 float64, stripes.npy)"
    assert reader.n_calls == 0
    first, second = matrix.values(), matrix.values()
    assert reader.n_calls == 1
    assert first is second
    np.testing.assert_array_equal(first, VALUES)


@pytest.mark.parametrize(
    "make", [LazyMatrix.of, lambda X: LazyMatrix(X.shape, X.dtype, Reader(X), "")]
)
def test_values_are_read_only_without_a_copy_and_the_array_of_the_caller_stays_writeable(make):
    own = VALUES.copy()
    values = make(own).values()
    with pytest.raises(ValueError, match="read-only"):
        values[0, 0] = 1.0
    assert np.shares_memory(values, own)
    assert own.flags.writeable


@pytest.mark.parametrize("shape", [(5, 3), (4, 2), (3, 4), (12,)])
def test_a_file_whose_shape_changed_since_it_was_opened_is_refused(shape):
    matrix = LazyMatrix((4, 3), "f8", Reader(np.zeros(shape)), "stripes.npy")
    assert refusal(matrix.values) == (
        f"Features of stripes.npy had shape (4, 3) when the file was opened; now it is {shape}. Do "
        "not change the file while it is in use."
    )


def test_values_that_were_refused_are_refused_again():
    reader = Reader(np.full((2, 2), np.nan))
    matrix = LazyMatrix((2, 2), "f8", reader, "stripes.npy")
    assert refusal(matrix.values) == refusal(matrix.values)
    assert reader.n_calls == 2


def test_what_does_not_fit_into_memory_is_refused():
    def run_out():
        raise MemoryError

    assert refusal(LazyMatrix((2, 3), "f8", run_out, "stripes.h5").values) == (
        "Features must fit into memory; stripes.h5 has 2 x 3 entries of type float64. Save fewer "
        "samples, or float32."
    )


@pytest.mark.parametrize("n_rows", [1, 2, 4])
@pytest.mark.parametrize(("row", "bad"), [(0, np.nan), (1, np.inf), (2, -np.inf), (3, np.nan)])
def test_the_first_row_that_is_not_finite_is_named_whatever_block_it_is_in(bad, row, n_rows):
    values = VALUES.copy()
    values[row, 1] = values[3, 2] = bad
    with config_context(working_memory=n_rows * ROW):
        problem = refusal(LazyMatrix.of(values, "stripes.npy").values)
    assert problem == (
        f"Features must be finite; row {row} of stripes.npy holds NaN or infinity. Drop such rows, "
        "or impute them before saving."
    )


@pytest.mark.parametrize(
    ("memory", "n_rows"), [(0.5, [1, 1, 1, 1]), (2, [2, 2]), (2.9, [2, 2]), (3, [3, 1]), (9, [4])]
)
def test_no_more_than_a_block_is_checked_at_a_time(monkeypatch, memory, n_rows):
    checked = []
    isfinite = np.isfinite

    def watched(values):
        checked.append(len(values))
        return isfinite(values)

    monkeypatch.setattr(np, "isfinite", watched)
    with config_context(working_memory=memory * ROW):
        LazyMatrix.of(VALUES).values()
    assert checked == n_rows


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f4", "i1", "i8", "u1", "u8"])
def test_real_numbers_of_any_size_keep_their_type(dtype):
    values = np.arange(6).reshape(3, 2).astype(dtype)
    read = LazyMatrix.of(values).values()
    assert read.dtype == values.dtype
    np.testing.assert_array_equal(read, np.arange(6).reshape(3, 2))


@pytest.mark.parametrize("dtype", [bool, complex, object, "U3", "S3", "M8[s]"])
def test_what_is_not_a_real_number_is_refused(dtype):
    values = np.zeros((3, 2), int).astype(dtype)
    assert refusal(LazyMatrix.of(values, "stripes.npy").values) == (
        f"Features must be real numbers; stripes.npy holds {values.dtype}. Convert to float32."
    )


@pytest.mark.parametrize("shape", [(), (4,), (4, 3, 1), (2, 2, 2, 2)])
def test_what_is_not_a_matrix_is_refused_at_once(shape):
    assert refusal(LazyMatrix.of, np.zeros(shape), "stripes.npy") == (
        f"Features must be a matrix, one sample per row; stripes.npy has shape {shape}. Flatten "
        "each sample into a row."
    )


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_a_memory_map_stays_one_and_read_only(tmp_path, mode):
    np.save(tmp_path / "stripes.npy", VALUES)
    mapped = np.load(tmp_path / "stripes.npy", mmap_mode=mode)
    values = LazyMatrix.of(mapped).values()
    assert isinstance(values, np.memmap)
    assert isinstance(values.base, np.memmap)
    assert np.shares_memory(values, mapped)
    assert not values.flags.writeable
    assert mapped.flags.writeable == (mode != "r")
    np.testing.assert_array_equal(values, VALUES)
