"""Features and labels that are arrays in files, and files that cannot be read as such."""

import io
import sys
import zipfile
from functools import partial

import h5py
import numpy as np
import pytest
import torch
from refusals import refusal

from model_files import zonkey_does
from zonkey.files.tables import label_strings, read_features, read_labels

X = np.random.default_rng(0).normal(size=(7, 4))
Y = np.array(["ass", "zebra", "ass", "horse", "horse", "zebra", "ass"])
CODES = [1, 2, 1, 0, 0, 2, 1]

checked = partial(zonkey_does, "data", "check")


def write_h5(path, **arrays):
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            is_text = np.asarray(values).dtype.kind == "U"
            file[name] = [str(value) for value in values] if is_text else values


def write(path, features=X, labels=Y):
    """Write features in the format of the ending; labels beside them where it has no room."""
    if path.suffix == ".npz":
        np.savez(path, features=features, labels=labels)
    elif path.suffix in (".h5", ".hdf5"):
        write_h5(path, features=features, labels=labels)
    else:
        np.save(path, features)
        np.save(path.parent / "labels.npy", labels)
        return {"labels": path.parent / "labels.npy"}
    return {}


@pytest.mark.parametrize("ending", [".npz", ".npy", ".h5", ".hdf5"])
def test_what_was_saved_is_read(tmp_path, ending):
    path = tmp_path / f"mine{ending}"
    features, labels = read_features(path, **write(path))
    assert features.shape == (7, 4)
    np.testing.assert_array_equal(features.values(), X)
    np.testing.assert_array_equal(labels, Y)
    assert features.values().dtype == np.float64


@pytest.mark.parametrize(
    ("ending", "stored", "read"),
    [
        (".npz", "<f2", "<f4"),
        (".npy", ">f4", "<f4"),
        (".h5", "<f4", "<f4"),
        (".npz", "<f8", "<f8"),
        (".npy", ">i2", "<i2"),
        (".h5", "u1", "u1"),
    ],
)
def test_types_that_are_kept_and_converted(tmp_path, ending, stored, read):
    path = tmp_path / f"mine{ending}"
    values = (10 * np.abs(X)).astype(stored)
    features, _ = read_features(path, **write(path, values))
    assert features.dtype == features.values().dtype == np.dtype(read)
    np.testing.assert_array_equal(features.values(), values.astype(read))


OTHERS = {"mean": X[0], "covariance": X.T @ X, "files": np.array(["a.jpg"] * 7), "version": 3}


@pytest.mark.parametrize(
    ("features", "labels", "others"),
    [
        ("features", "labels", OTHERS),
        ("X", "y", OTHERS),
        ("x", "targets", OTHERS),
        ("feats", "y", OTHERS),
        ("a", "b", {"c": X[0]}),  # the only matrix, and the vector of its length
    ],
)
def test_usual_names_and_only_arrays_are_known(tmp_path, features, labels, others):
    path = tmp_path / "mine.npz"
    np.savez(path, **{features: X, labels: Y}, **others)
    found, y = read_features(path)
    np.testing.assert_array_equal(found.values(), X)
    np.testing.assert_array_equal(y, Y)


def test_keys_choose_among_several(tmp_path):
    path = tmp_path / "mine.h5"
    write_h5(path, **{"train/X": X, "test/X": X[:3], "test/who": Y[:3]})
    features, labels = read_features(path, features_key="test/X", labels_key="test/who")
    np.testing.assert_array_equal(features.values(), X[:3])
    np.testing.assert_array_equal(labels, Y[:3])
    line = refusal(read_features, path)
    assert "train/X (7, 4)" in line
    assert "features_key" in line


TENSOR = torch.tensor(X)
TENSORS = {
    "dict": ({"features": TENSOR, "labels": list(map(str, Y)), "sizes": [[1], [2, 3]]}, Y.tolist()),
    "tuple": ((TENSOR, torch.tensor(CODES)), CODES),
    "tuple with text": ((TENSOR.clone().requires_grad_(), Y.tolist()), Y.tolist()),
    "tensor": (TENSOR, None),
    "half": ({"features": TENSOR.half()}, None),
    "bfloat16": ({"features": TENSOR.bfloat16()}, None),
}


@pytest.mark.parametrize("kind", TENSORS)
def test_tensors(tmp_path, kind):
    content, expected = TENSORS[kind]
    torch.save(content, tmp_path / "mine.pth")
    features, labels = read_features(tmp_path / "mine.pth")
    is_short = kind in ("half", "bfloat16")  # NumPy has no bfloat16, and models take no half
    assert features.values().dtype == (np.float32 if is_short else np.float64)
    np.testing.assert_allclose(features.values(), X, rtol=1e-2 if is_short else 0)
    assert (None if labels is None else labels.tolist()) == expected


class Foreign:
    """What no file of tensors may hold: loading it could run code."""


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (TENSOR.to_sparse(), "` in mine.pt is not. Save X.to_dense()"),
        ({"features": Foreign()}, "it is damaged, or holds other objects, which are not loaded"),
        (Y.tolist(), "Features must be real numbers; mine.pt holds text"),
        (tuple(Y.tolist()), "Features must be real numbers; mine.pt holds text"),
        ("horse", "Features must be real numbers; mine.pt holds text"),
        ({"features": Y.tolist()}, "Features must be real numbers; `features` in mine.pt holds"),
    ],
    ids=["sparse", "object", "list", "tuple", "str", "dict"],
)
def test_tensors_that_are_refused(tmp_path, content, words):
    torch.save(content, tmp_path / "mine.pt")
    assert words in refusal(read_features, tmp_path / "mine.pt")


@pytest.mark.parametrize(
    ("module", "extra", "ending"),
    [
        ("torch", "torch", ".pt"),
        ("h5py", "data", ".h5"),
        ("zarr", "data", ".zarr"),
        ("pyarrow", "data", ".csv"),
        ("pyarrow", "data", ".parquet"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch, module, extra, ending):
    monkeypatch.setitem(sys.modules, module, None)
    path = tmp_path / f"mine{ending}"
    if ending == ".zarr":
        path.mkdir()
        (path / "zarr.json").write_text("{}")
    else:
        path.write_text("label,f\na,1\n")
    expected = (
        f"Reading {ending} needs {module}. Run: "
        f'pip install "zonkey[{extra}]" (in a clone: pip install -e "packages/zonkey[{extra}]").'
    )
    done = checked("--features", path)
    assert (done.exit_code, done.stderr.splitlines()[0]) == (2, f"x {expected}")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("y.txt", "ass\nhorse\nass\n"),
        ("y.txt", "ass\r\nhorse\r\nass"),
        ("y.txt", "\ufeffLabel\nass\nhorse\nass\n\n"),
        ("y.csv", 'class\nass\n"horse"\nass\n'),
    ],
)
def test_text_files_of_labels(tmp_path, name, content):
    (tmp_path / name).write_bytes(content.encode())
    assert read_labels(tmp_path / name).tolist() == ["ass", "horse", "ass"]


def test_a_class_with_the_name_of_a_heading_stays(tmp_path):
    (tmp_path / "y.txt").write_text("y\nn\ny\n")
    assert read_labels(tmp_path / "y.txt").tolist() == ["y", "n", "y"]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (np.array([7, 10]), ["7", "10"]),
        (np.array([7.0, 10.0]), ["7", "10"]),
        (np.array(["07", "10"]), ["07", "10"]),
        (np.array([b"ass", "\u00e2ne".encode()]), ["ass", "\u00e2ne"]),
    ],
)
def test_labels_as_text(labels, expected):
    assert label_strings(labels, "mine").tolist() == expected


@pytest.mark.parametrize(
    ("dtype", "label", "limit"), [("f8", 2**53, 2**53), ("f4", -(2**24), 2**24)]
)
def test_labels_are_numbers_that_their_type_tells_apart(dtype, label, limit):
    assert label_strings(np.array([label], dtype), "mine").tolist() == [str(label)]
    line = refusal(label_strings, np.array([1, 2 * label], dtype), "mine")
    assert f"mine has {2 * label} at position 1" in line
    assert f"exact only up to {limit}" in line


def test_labels_come_from_one_place(tmp_path):
    write(tmp_path / "x.npy")
    arguments = {"labels": tmp_path / "labels.npy", "labels_key": "who"}
    line = refusal(read_features, tmp_path / "x.npy", **arguments)
    assert "got 'who' and labels.npy" in line
    options = "--labels", arguments["labels"], "--labels-key", "who"
    line = "--labels-key must be left out if the labels have a file of their own; got 'who' and"
    assert line in checked("--features", tmp_path / "x.npy", *options).stderr


def test_the_check_takes_the_keys_that_it_advises(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, a=X, b=X + 1, c=Y, d=Y)
    assert checked("--features", path).exit_code == 2
    assert "--labels-key" in checked("--features", path, "--features-key", "b").stderr
    done = checked("--features", path, "--features-key", "b", "--labels-key", "d")
    assert done.exit_code == 0, done.output
    shortest = np.linalg.norm(X + 1, axis=1).min()
    assert f"Rows of mine.npz have norms from {shortest:.3g} to" in done.stdout


@pytest.mark.parametrize("labels", [[0.5, 1.0], [np.nan, 1.0], ["", "ass"], [" ", "ass"]])
def test_labels_that_are_none(labels):
    assert "mine" in refusal(label_strings, np.array(labels), "mine")


def cut(path, **arrays):
    np.savez(path, **arrays)
    path.write_bytes(path.read_bytes()[:-200])


def spoil(path):
    np.savez(path, features=X, labels=Y)
    content = bytearray(path.read_bytes())
    start = content.find(X.tobytes()[:16])
    content[start : start + 4] = b"\0\0\0\0"
    path.write_bytes(content)


def cut_npy(path):
    np.save(path, X)
    path.write_bytes(path.read_bytes()[:-8])


def spoil_npy(path):
    np.save(path, X)
    path.write_bytes(path.read_bytes().replace(b"}", b"{", 1))


def save_objects(path):
    np.savez(path, features=np.array([[1, None]], dtype=object), labels=Y[:1])


def disguised(ending):
    """Write features in the format of one ending, and rename the file to another."""

    def make(path):
        write(path.with_suffix(ending))
        path.with_suffix(ending).replace(path)

    return make


def npy_of(shape, dtype="<f8", content=b""):
    """Return a file of one array with any header, and any bytes for values."""
    file = io.BytesIO()
    header = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue() + content


def promise(path):
    """Write an archive the header of which promises more than there is room for."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("features.npy", npy_of((10**9, 10**9)))


def zip_text(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("features.csv", "label,a\nass,1\n")


def save_npz(**arrays):
    return lambda path: np.savez(path, **arrays)


# What is in the file, its name, and words of the line that it is refused with.
DAMAGE = {
    "infinity": ("a.npz", save_npz(features=X * np.inf, labels=Y), ["a.npz holds NaN or infinity"]),
    "cut npz": ("a.npz", lambda path: cut(path, features=X), ["a.npz", "cut short", "again"]),
    "spoilt npz": ("a.npz", spoil, ["a.npz", "damaged", "again"]),
    "cut npy": ("a.npy", cut_npy, ["a.npy", "of 352 bytes", "again"]),
    "spoilt npy": ("a.npy", spoil_npy, ["a.npy", "damaged", "again"]),
    "negative shape": (
        "a.npy",
        lambda path: path.write_bytes(npy_of((-3, 2), content=bytes(48))),
        ["a.npy", "damaged", "(-3, 2)", "again"],
    ),
    "promising npz": ("a.npz", promise, ["a.npz", "cut short (128 of", "again"]),
    "no text": (
        "a.npz",
        save_npz(features=X, labels=np.array([0x110000] * 7, np.uint32).view("U1")),
        ["`labels` in a.npz has invalid characters at position 0", "save it again"],
    ),
    "half a character": (
        "a.npz",
        save_npz(features=X, labels=np.array([*"abcdef", "\ud800"])),
        ["`labels` in a.npz has invalid characters at position 6"],
    ),
    "zip as npy": ("a.npy", zip_text, ["a.npy", "that of a .zip file", "Unpack it"]),
    "cut h5": (
        "a.h5",
        lambda path: path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(40)),
        ["a.h5", "damaged", "again"],
    ),
    "text as npz": ("a.npz", lambda path: path.write_text("label,a"), ["a.npz", "damaged"]),
    "npy as npz": (
        "a.npz",
        disguised(".npy"),
        ["a.npz", "content is that of a .npy file", "Rename it to a.npy"],
    ),
    "npz as h5": (
        "a.h5",
        disguised(".npz"),
        ["a.h5", "content is that of a .npz file", "Rename it to a.npz"],
    ),
    "unknown ending": ("a.xyz", lambda path: path.write_text("x"), ["a.xyz", ".npz", "Save it"]),
    "empty": ("a.npz", lambda path: path.write_bytes(b""), ["a.npz is empty", "Check"]),
    "no file": ("a.npz", lambda _: None, ["a.npz does not exist", "Check"]),
    "folder": ("a.npz", lambda path: path.mkdir(), ["a.npz must be a file", "it is a folder"]),
    "objects": ("a.npz", save_objects, ["`features` in a.npz holds Python objects", "np.float32"]),
    "objects as labels": (
        "a.npz",
        save_npz(features=X, labels=np.array([*Y[:6], 3], dtype=object)),
        ["`labels` in a.npz holds Python objects", "dtype=str"],
    ),
    "complex": ("a.npz", save_npz(features=X * 1j, labels=Y), ["complex numbers", "np.abs(X)"]),
    "text features": ("a.npz", save_npz(features=X.astype(str), labels=Y), ["text", "np.float32"]),
    "vector": ("a.npz", save_npz(features=X[:, 0], labels=Y), ["(7,)", "X.reshape(-1, 1)"]),
    "pictures": (
        "a.npz",
        save_npz(features=X.reshape(7, 2, 2), labels=Y),
        ["(7, 2, 2)", "X.reshape(len(X), -1)"],
    ),
    "no rows": ("a.npz", save_npz(features=X[:0], labels=Y[:0]), ["(0, 4)", "Check"]),
    "no array": ("a.npz", save_npz(), ["a.npz holds no array", '"features"']),
    "transposed": (
        "a.npz",
        save_npz(features=X.T, labels=Y),
        ["4 rows and 7 columns", "7 labels in a.npz", "transposed", "save X.T"],
    ),
    "fewer labels": ("a.npz", save_npz(features=X, labels=Y[:5]), ["7 rows", "5 labels", "run"]),
    "one-hot labels": (
        "a.npz",
        save_npz(features=X, labels=np.eye(7)),
        ["`labels` in a.npz has shape (7, 7)", "argmax"],
    ),
    "two matrices": (
        "a.npz",
        save_npz(a=X, b=X, labels=Y),
        ["a (7, 4), b (7, 4), labels (7,)", "`features`"],
    ),
    "two vectors": ("a.npz", save_npz(features=X, c=Y, d=Y), ["c (7,), d (7,)", "labels_key"]),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_file_is_refused_in_one_line(tmp_path, kind):
    name, make, words = DAMAGE[kind]
    make(tmp_path / name)
    line = refusal(lambda: read_features(tmp_path / name)[0].values())
    assert [word for word in words if word not in line] == []
    done = checked("--features", tmp_path / name)
    assert done.exit_code == 2
    assert [word for word in words[:1] if word not in done.stderr] == []
    assert "Traceback" not in done.output


def test_a_missing_key_is_answered_with_what_is_there(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, embeddings=X, who=Y)
    assert "embeddings (7, 4), who (7,)" in refusal(read_features, path, features_key="X")
    assert "got 'y'" in refusal(read_features, path, labels_key="y")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("y.txt", b"ass\n\xe4sel\n", ["y.txt must be UTF-8", "0xe4", "position 4 (line 2)"]),
        ("y.txt", b"ass\n" * 4, ["4 labels in y.txt", "transposed"]),
        ("y.txt", b"species\n" + b"ass\n" * 7, ["8 labels in y.txt", "heading"]),
        ("y.csv", b"ass,1\n" * 7, ["row 1 of y.csv", "one column"]),
        ("y.json", b"[]", ["y.json", ".txt"]),
        ("y.txt", b"\n\n", ["y.txt is empty"]),
    ],
)
def test_labels_that_do_not_fit(tmp_path, name, content, words):
    np.save(tmp_path / "x.npy", X)
    (tmp_path / name).write_bytes(content)
    line = refusal(read_features, tmp_path / "x.npy", labels=tmp_path / name)
    assert [word for word in words if word not in line] == []
    done = checked("--features", tmp_path / "x.npy", "--labels", tmp_path / name)
    assert done.exit_code == 2
    assert line in done.stderr
