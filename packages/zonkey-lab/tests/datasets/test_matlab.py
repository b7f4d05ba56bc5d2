import struct
from pathlib import Path

import numpy as np
import pytest
from mat_files import save_mat
from scipy.io import savemat
from scipy.sparse import csc_matrix

from zonkey.files import readers
from zonkey.files.dataset import DataError
from zonkey_lab.datasets.matlab import describe_mat, read_mat, require_variable, whole_numbers

VARIABLES = {
    "features": np.array([[0.5, 1.0, -2.0], [3.0, 4.0, 5.5]]),
    "single": np.array([[0.5], [1.5]], dtype="f4"),
    "counts": np.array([[1, -2, 3]], dtype="i2"),
    "flags": np.array([[True, False]]),
    "cube": np.arange(24.0).reshape(2, 3, 4),
    "nothing": np.empty((0, 3)),
    "names": ["002.Laysan_Albatross", "", "caf\u00e9 noir "],
    "no_names": [],
    "title": "two words ",
    "lines": np.array(["ab ", "cde"]),
}
TEXT = {
    "names": ["002.Laysan_Albatross", "", "caf\u00e9 noir "],
    "no_names": [],
    "title": ["two words "],
    "lines": ["ab ", "cde"],
}


def refusal(function, *arguments, **named):
    """Return the one line of a DataError, which must name the file."""
    with pytest.raises(DataError) as error:
        function(*arguments, **named)
    line = str(error.value)
    assert "\n" not in line
    assert str(arguments[0]) in line
    return line


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "all.mat"
    save_mat(path, VARIABLES)
    return path


@pytest.mark.parametrize("key", VARIABLES)
def test_values_are_those_that_matlab_would_show(saved, key):
    values = read_mat(saved, [key])[key]
    if key in TEXT:
        assert values.tolist() == TEXT[key]
        assert values.dtype.kind == "U"
    else:
        np.testing.assert_array_equal(values, VARIABLES[key], strict=True)


def test_all_variables_are_read_by_default_and_named_ones_in_their_order(saved):
    assert set(read_mat(saved)) == set(VARIABLES)
    assert list(read_mat(str(saved), ("names", "counts"))) == ["names", "counts"]


def test_shapes_and_types_are_known_without_values(saved):
    variables = describe_mat(saved).variables
    expected = {key: value for key, value in VARIABLES.items() if key not in TEXT}
    assert {key: variables[key].shape for key in expected} == {
        key: value.shape for key, value in expected.items()
    }
    assert {key: variables[key].dtype for key in expected} == {
        key: value.dtype for key, value in expected.items()
    }
    assert variables["names"].shape == (3, 1)
    assert (variables["names"].kind, variables["names"].dtype) == ("cell", None)
    assert (variables["title"].kind, variables["title"].shape) == ("char", (1, 10))


def matrix_of_bytes(order, values):
    """Return a double matrix whose values are stored in a byte each, as MATLAB does."""

    def part(kind, content):
        padding = b"\0" * (-len(content) % 8)
        return struct.pack(f"{order}II", kind, len(content)) + content + padding

    body = part(6, struct.pack(f"{order}II", 6, 0))
    body += part(5, struct.pack(f"{order}ii", 1, len(values))) + part(1, b"x")
    body += part(2, bytes(values))
    mark = b"\x00\x01IM" if order == "<" else b"\x01\x00MI"
    return b"MATLAB 5.0 MAT-file".ljust(124) + mark + part(14, body)


@pytest.mark.parametrize("order", ["<", ">"])
def test_doubles_stored_as_small_integers_are_doubles(tmp_path, order):
    path = tmp_path / "small.mat"
    path.write_bytes(matrix_of_bytes(order, [1, 2, 200]))
    np.testing.assert_array_equal(read_mat(path)["x"], np.array([[1.0, 2.0, 200.0]]), strict=True)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_file_cut_anywhere_is_refused(tmp_path, compressed):
    whole, cut = tmp_path / "whole.mat", tmp_path / "cut.mat"
    save_mat(whole, {"x": VARIABLES["features"], "names": ["a", "b"]}, compressed=compressed)
    content = whole.read_bytes()
    for length in range(0, len(content), 3):
        cut.write_bytes(content[:length])
        line = refusal(read_mat, cut, ["x", "names"])
        assert "again" in line or "Save it under that name" in line


def test_a_cut_file_is_noticed_before_its_values_are_read(tmp_path):
    path = tmp_path / "cut.mat"
    save_mat(path, {"x": np.ones((50, 50))})
    path.write_bytes(path.read_bytes()[:-100])
    line = refusal(describe_mat, path)
    assert "must be a whole .mat file" in line
    assert "Download or save it again" in line


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("flip", [8, 255])
def test_a_garbled_file_is_read_or_refused_in_one_line(tmp_path, compressed, flip):
    whole, garbled = tmp_path / "whole.mat", tmp_path / "garbled.mat"
    save_mat(whole, {"x": VARIABLES["features"], "names": ["a", "b"]}, compressed=compressed)
    content = whole.read_bytes()
    lines = []
    for position in range(128, len(content)):
        changed = bytearray(content)
        changed[position] ^= flip
        garbled.write_bytes(changed)
        try:
            read_mat(garbled, ["x", "names"])
        except DataError as error:
            lines.append(str(error))
    assert len(lines) > 50
    assert not any("\n" in line for line in lines)


NOT_MATLAB = {
    "text.mat": b"id,label\n1,cat\n" * 20,
    "page.mat": b"<!DOCTYPE html><html>" + b" " * 200,
    "archive.mat": b"PK\x03\x04" + bytes(200),
    "empty.mat": b"",
    "short.mat": b"MATLAB 5.0 MAT-file",
}


@pytest.mark.parametrize("name", NOT_MATLAB)
def test_another_file_is_refused_by_how_it_starts(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(NOT_MATLAB[name])
    line = refusal(describe_mat, path)
    assert f"it starts with {NOT_MATLAB[name][:10]!r}" in line
    assert "Download it again" in line


def test_a_missing_file_is_refused_with_those_that_are_there(tmp_path):
    save_mat(tmp_path / "res101.mat", {"x": np.ones((1, 1))})
    line = refusal(read_mat, tmp_path / "resnet.mat")
    assert "its folder holds res101.mat. Check the path." in line
    assert "its folder has no .mat file" in refusal(read_mat, tmp_path / "other" / "resnet.mat")


def test_a_missing_key_is_refused_with_those_that_exist(saved):
    line = refusal(read_mat, saved, ["feature"])
    assert "must hold the variable `feature`; it holds counts, cube, features, flags" in line
    assert "Save it under that name" in line


@pytest.mark.parametrize(
    ("key", "kind", "remedy"),
    [
        ("sparse", "sparse", "Save full(sparse) instead."),
        ("param", "struct", "Save its fields as separate variables."),
    ],
)
def test_what_is_neither_numbers_nor_text_is_refused_when_asked_for(tmp_path, key, kind, remedy):
    path = tmp_path / "5.mat"
    savemat(path, {"sparse": csc_matrix(np.eye(3)), "param": {"k": 1.0}, "x": np.ones((1, 1))})
    line = refusal(read_mat, path, [key])
    assert f"it is of MATLAB's class {kind}" in line
    assert remedy in line
    assert read_mat(path, ["x"])["x"].tolist() == [[1.0]]


@pytest.mark.parametrize(
    ("values", "parts"),
    [
        (np.array([[1j]]), ("must hold real numbers; got complex128", "Save real(x)")),
        (["a", np.ones((1, 1))], ("Every cell of `x`", "Save numbers as a matrix.")),
    ],
)
def test_values_of_another_kind_are_refused(tmp_path, values, parts):
    save_mat(tmp_path / "a.mat", {"x": values})
    line = refusal(read_mat, tmp_path / "a.mat", ["x"])
    assert all(part in line for part in parts)


def test_text_in_place_of_numbers_is_refused_where_numbers_are_required(tmp_path):
    save_mat(tmp_path / "a.mat", {"labels": ["cat", "dog"]})
    with pytest.raises(DataError, match=r"`labels` of .* must hold numbers; it is of .* cell\."):
        require_variable(describe_mat(tmp_path / "a.mat"), "labels", numeric=True)


def test_whole_numbers_are_taken_in_the_order_of_matlab():
    numbers = whole_numbers(np.array([[1.0, 3.0], [2.0, 4.0]]), "`labels`")
    np.testing.assert_array_equal(numbers, np.array([1, 2, 3, 4]), strict=True)


@pytest.mark.parametrize(
    ("values", "got"),
    [
        (np.array([1.0, 2.5]), "2.5"),
        (np.array([np.nan]), "nan"),
        (np.array([np.inf]), "inf"),
        (np.array(["one"]), "text"),
    ],
)
def test_other_than_whole_numbers_are_refused(values, got):
    with pytest.raises(DataError, match=rf"^`labels` must hold whole numbers; got {got}\. Save"):
        whole_numbers(values, "`labels`")


@pytest.mark.parametrize(
    ("largest", "beyond"),
    [
        (np.float64(2**53), np.float64(2**54)),
        (np.float64(-(2**53)), np.float64(-(2**54))),
        (np.float32(2**24), np.float32(2**25)),
        (np.uint64(2**63 - 1), np.uint64(2**63)),
    ],
)
def test_whole_numbers_that_their_type_does_not_hold_exactly_are_refused(largest, beyond):
    assert whole_numbers(np.array([largest]), "`labels`").tolist() == [int(largest)]
    with pytest.raises(
        DataError, match=rf"^`labels` must hold exact whole numbers; got {beyond:.0f}"
    ):
        whole_numbers(np.array([1, beyond], beyond.dtype), "`labels`")


def test_what_does_not_fit_into_memory_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "a.mat"
    save_mat(path, {"x": np.ones((1, 1))})

    def run_out(*arguments, **named):
        raise MemoryError

    monkeypatch.setattr("zonkey_lab.datasets.matlab.loadmat", run_out)
    assert "must fit into memory" in refusal(read_mat, path)


def test_an_unreadable_file_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "locked.mat"
    save_mat(path, {"x": np.ones((1, 1))})

    def refuse(self, *arguments, **named):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    assert "must be readable; permission denied. Change its mode." in refusal(read_mat, path)


def test_a_compressed_file_that_would_expand_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "_LARGE", 1 << 16)  # bytes, so that the file is written quickly
    save_mat(tmp_path / "x.mat", {"features": np.zeros((1000, 3000))}, compressed=True)
    with pytest.raises(DataError, match=r"x\.mat must not be a decompression bomb; .* expand to"):
        read_mat(tmp_path / "x.mat", ["features"])
