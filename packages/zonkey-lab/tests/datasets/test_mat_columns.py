"""Blocks of columns against SciPy's reader, and files of version 7.3 against those of version 5."""

import h5py
import numpy as np
import pytest
from mat_files import save_mat
from scipy.io import loadmat

from made_up_benchmarks import save_mat73
from zonkey.config import config_context
from zonkey.files.dataset import DataError
from zonkey_lab.datasets.matlab import describe_mat, read_columns, read_into, read_mat

SHAPE = (37, 211)


def matrix(dtype):
    return (100 * np.random.default_rng(0).random(SHAPE)).astype(dtype)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("dtype", ["f8", "f4", "u1", "i2", "u4", "i8"])
@pytest.mark.parametrize("working_memory", [0.001, 64])
def test_blocks_are_the_columns_that_scipy_reads(tmp_path, compressed, dtype, working_memory):
    path = tmp_path / "a.mat"
    others = {"first": np.eye(3), "names": ["a", "bcd"], "last": np.ones((2, 2))}
    save_mat(path, {**others, "X": matrix(dtype), "x": matrix("f8") + 1}, compressed=compressed)
    with config_context(working_memory=working_memory):
        blocks = list(read_columns(describe_mat(path), "X"))
        values = np.empty(SHAPE, dtype=np.float32)
        read_into(values, describe_mat(path), "X")
    starts = np.cumsum([0, *(block.shape[1] for _, block in blocks)])
    assert [start for start, _ in blocks] == starts[:-1].tolist()
    assert (len(blocks) > 4) == (working_memory < 1)
    expected = loadmat(path)["X"]
    np.testing.assert_array_equal(np.concatenate([b for _, b in blocks], axis=1), expected)
    np.testing.assert_array_equal(values, expected.astype(np.float32))


def test_a_transposed_view_is_filled_as_well(tmp_path):
    save_mat(tmp_path / "a.mat", {"X": matrix("f8")}, compressed=True)
    values = np.empty(SHAPE[::-1], dtype=np.float32)
    read_into(values.T, describe_mat(tmp_path / "a.mat"), "X")
    np.testing.assert_array_equal(values, matrix("f8").T.astype(np.float32))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (2, 2)])
def test_small_and_empty_matrices(tmp_path, shape):
    save_mat(tmp_path / "a.mat", {"X": np.full(shape, 2, dtype="u1")})
    values = np.zeros(shape)
    read_into(values, describe_mat(tmp_path / "a.mat"), "X")
    assert (values == 2).all()


def test_a_changed_byte_of_compressed_values_never_goes_unnoticed(tmp_path):
    path = tmp_path / "a.mat"
    save_mat(path, {"X": matrix("f8")}, compressed=True)
    content, values = path.read_bytes(), np.empty(SHAPE)
    for position in range(300, len(content), 997):
        changed = bytearray(content)
        changed[position] ^= 16
        path.write_bytes(changed)
        with pytest.raises(DataError, match=r"a\.mat must be a whole \.mat file"):
            read_into(values, describe_mat(path), "X")


@pytest.mark.parametrize("version", ["5", "7.3"])
def test_complex_numbers_and_text_are_refused(tmp_path, version):
    path = tmp_path / "a.mat"
    save = save_mat if version == "5" else save_mat73
    save(path, {"X": np.array([[1.0]]), "names": ["a"]})
    with pytest.raises(DataError, match="must hold numbers"):
        next(read_columns(describe_mat(path), "names"))
    if version == "5":
        save_mat(path, {"X": np.array([[1j]])})
    else:
        with h5py.File(path, "r+") as file:
            del file["X"]
            kind = np.dtype([("real", "f8"), ("imag", "f8")])
            stored = file.create_dataset("X", data=np.zeros((1, 1), dtype=kind))
            stored.attrs["MATLAB_class"] = np.bytes_("double")
    with pytest.raises(DataError, match=r"`X` of .* must hold real numbers.* Save real\(X\)"):
        next(read_columns(describe_mat(path), "X"))


def test_version_7_3_holds_what_version_5_holds(tmp_path):
    variables = {
        "features": matrix("f8"),
        "single": matrix("f4"),
        "labels": np.arange(5, dtype="u2")[:, None],
        "names": ["002.Laysan_Albatross", "caf\u00e9 noir", "b"],
    }
    old, new = tmp_path / "5.mat", tmp_path / "73.mat"
    save_mat(old, variables)
    save_mat73(new, variables)
    assert describe_mat(new).variables == describe_mat(old).variables
    assert describe_mat(new).is_hdf5
    expected = read_mat(old)
    for key, values in read_mat(new).items():
        np.testing.assert_array_equal(values, expected[key], strict=True)
    with config_context(working_memory=0.001):
        starts = [start for start, _ in read_columns(describe_mat(new), "features")]
        assert len(starts) > 4
        values = np.empty(SHAPE)
        read_into(values, describe_mat(new), "features")
    np.testing.assert_array_equal(values, variables["features"])


def test_classes_of_version_7_3_that_are_not_matrices(tmp_path):
    path = tmp_path / "a.mat"
    save_mat73(path, {"x": np.ones((1, 1))})
    with h5py.File(path, "r+") as file:
        group = file.create_group("sparse")
        group.attrs["MATLAB_sparse"] = np.uint64(3)
        group.attrs["MATLAB_class"] = np.bytes_("double")
        file.create_group("param").attrs["MATLAB_class"] = np.bytes_("struct")
        empty = file.create_dataset("empty", data=np.array([0, 3], dtype="u8"))
        empty.attrs["MATLAB_class"] = np.bytes_("double")
        empty.attrs["MATLAB_empty"] = np.uint8(1)
        file["python"] = np.ones((3, 2), dtype="f4")  # written by another program
    variables = describe_mat(path).variables
    assert {name: about.kind for name, about in variables.items()} == {
        "x": "double", "sparse": "sparse", "param": "struct", "empty": "double",
        "python": "single",
    }  # fmt: skip
    assert variables["python"].shape == (2, 3)
    np.testing.assert_array_equal(read_mat(path, ["empty"])["empty"], np.empty((0, 3)))
    for key, remedy in (("sparse", "Save full"), ("param", "Save its fields")):
        with pytest.raises(DataError, match=remedy):
            read_mat(path, [key])


def test_a_cut_file_of_version_7_3_is_refused_in_one_line(tmp_path):
    path = tmp_path / "a.mat"
    save_mat73(path, {"x": matrix("f8")})
    content = path.read_bytes()
    for length in (200, 700, len(content) // 2):
        path.write_bytes(content[:length])
        with pytest.raises(DataError, match=r"must be a whole \.mat file") as error:
            read_mat(path)
        assert "\n" not in str(error.value)
