"""Damaged files: each is refused in one line that names it."""

import json
import pickle

import numpy as np
import pytest
from models_to_store import LABELS, X, Y, base_classes, fitted
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import zonkey
from zonkey import NearestSupport, StorageError
from zonkey.persistence.container import SCHEMA, write_arrays


def refused(path, message):
    with pytest.raises(StorageError, match=message) as error:
        zonkey.load(path)
    text = str(error.value)
    assert text.startswith(path.name)
    assert "\n" not in text


@pytest.fixture
def path(tmp_path):
    zonkey.save(fitted("adapted"), tmp_path / "a.zonkey")
    return tmp_path / "a.zonkey"


def test_a_file_of_another_length_is_refused(path):
    content = path.read_bytes()
    for share in (0.0, 0.001, 0.01, 0.3, 0.9, 0.9999):
        path.write_bytes(content[: int(share * len(content))])
        refused(path, "cut short|that zonkey has saved")
    path.write_bytes(content + b"0")
    refused(path, "1 bytes follow")


def test_any_flipped_bit_is_noticed(path):
    content = path.read_bytes()
    for position in np.linspace(0, len(content) - 1, 150).astype(int):
        changed = bytearray(content)
        changed[position] ^= 0x10
        path.write_bytes(changed)
        with pytest.raises(StorageError, match=r"\A[^\n]+\Z"):
            zonkey.load(path).adapt(X)  # the reserved samples are checked when they are read


def test_a_newer_file_is_refused(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("zonkey.persistence.container.SCHEMA", SCHEMA + 1)
        zonkey.save(fitted("forward"), tmp_path / "a.zonkey")
    refused(tmp_path / "a.zonkey", f"newer zonkey, with schema {SCHEMA + 1}; this version reads up")


def test_files_of_something_else_are_refused(tmp_path):
    path = tmp_path / "a.zonkey"
    path.write_bytes(pickle.dumps(fitted("nearest")))
    refused(path, "must be a file that zonkey has saved")
    save_file({"x": np.eye(3)}, path)
    refused(path, "must be a file that zonkey has saved")
    save_file({"x": np.eye(3)}, path, {"zonkey": "[]", "zonkey_sha256": "0"})
    refused(path, "its header was altered")
    base_classes().save(path)
    refused(path, "must hold model; it holds 'moments'")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        zonkey.load(tmp_path / "b.zonkey")
    with pytest.raises(StorageError, match="it is a folder"):
        zonkey.load(tmp_path)
    for odd in (path / "b", "a\0b"):
        with pytest.raises(StorageError, match="cannot be read"):
            zonkey.load(odd)


def header_of(path):
    with safe_open(path, "numpy") as file:
        return json.loads(file.metadata()["zonkey"])


@pytest.mark.parametrize("content", [5, "x", [1], None, {"$": "dict", "parts": {}}])
def test_content_that_is_no_classifier_is_refused(content, path):
    rewrite(path, unchanged, content=content)
    refused(path, "must hold a fitted classifier|cannot be loaded")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"summary": {}}, "incomplete header"),
        ({"versions": 3}, "must have the entry 'versions'"),
        ({"notes": 5}, "`notes` must be text"),
        ({"scores": [1]}, "`scores` must be a mapping"),
    ],
)
def test_headers_in_another_form_are_refused(change, message, path):
    rewrite(path, unchanged, **change)
    refused(path, message)
    with pytest.raises(StorageError, match=message):
        zonkey.model_card(path)


SHAPES = [[0, 10**30], [-1, -8], [8.0], [True], {"8": 1}, [1] * 101]
ENTRIES = [
    *({"shape": shape} for shape in SHAPES),
    *({"data_offsets": offsets} for offsets in ([0.0, 8.0], [8, 0])),
    {"dtype": "F7"},
]


@pytest.mark.parametrize("entry", ENTRIES)
def test_tables_of_arrays_in_another_form_are_refused(entry, path):
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    outer = json.loads(content[8 : 8 + length])
    name = next(name for name in outer if name.endswith("counts"))
    outer[name] |= entry
    text = json.dumps(outer).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + length :])
    refused(path, "table of arrays was altered")


def test_text_of_a_file_is_shortened_in_messages(path):
    header = header_of(path)
    kind = "a\nb\x1b[31m" + "x" * 10**6
    arrays = load_file(path)
    del header["checksums"], header["schema"], header["kind"]
    write_arrays(path, kind, header, arrays)
    with pytest.raises(StorageError, match="must hold model; it holds") as error:
        zonkey.load(path)
    assert len(str(error.value)) < 250
    assert str(error.value).isprintable()


def rewrite(path, change, **entries):
    """Write the file again with right checksums, after a change of its content and arrays."""
    arrays, header = load_file(path), header_of(path)
    change(header["content"], arrays)
    header |= entries
    del header["checksums"], header["schema"]
    write_arrays(path, header.pop("kind"), header, arrays)


def unchanged(node, arrays):
    """Leave content and arrays as they are."""


def with_array(name, new):
    def change(_, arrays):
        (found,) = [key for key in arrays if key.endswith(name)]
        arrays[found] = new(arrays[found])

    return change


def with_part(where, value):
    def change(node, _):
        *before, last = where.split("/")
        for name in before:
            node = node["parts"][name]
        if value is None:
            del node["parts"][last]
        else:
            node["parts"][last] = value

    return change


def with_text(where, *values):
    return with_part(where, {"$": "text", "values": [*values]})


def with_step(name, value):
    """Change an attribute of the first step of a pipeline, or remove it if None."""

    def change(node, _):
        state = node["parts"]["steps"][0][1]["parts"]["state"]["parts"]
        state.pop(name)
        if value is not None:
            state[name] = value

    return change


def first_nan(array):
    array = array.copy()
    array.flat[0] = np.nan
    return array


EVIDENCE = "state/_state/evidence"
CONTRADICTIONS = {
    "NaN": (with_array("evidence/sums", first_nan), "_state/evidence/sums' has NaN or infinity"),
    "infinity": (with_array("whitening_", lambda W: W + np.inf), "has NaN or infinity"),
    "sums": (with_array("evidence/sums", lambda S: S[:, 1:]), "must have the shape 8 x 5"),
    "rows": (with_array("evidence/sums", lambda S: S[1:]), "must have the shape 8 x any"),
    "type": (with_array("evidence/sums", lambda S: S > 0), "has the wrong type, bool"),
    "counts": (with_array("evidence/counts", lambda n: -n), "contradict each other"),
    "no counts": (with_array("evidence/counts", lambda n: 0 * n), "contradict each other"),
    "squares": (with_array("evidence/squares", lambda n: n / 100), "contradict each other"),
    "described": (with_array("is_described", lambda b: ~b), "must have a prototype each"),
    "centers": (with_array("_state/centers", lambda C: C[:2]), "must have the shape 8 x"),
    "whitening": (with_array("whitening_", lambda W: W[:3]), "'whitening_' must have the shape"),
    "reserve": (with_array("/reserve/X", lambda M: M[:, 1:]), "differ in width"),
    "bounds": (with_array("/reserve/bounds", lambda b: b[::-1].copy()), "bounds of the reserved"),
    "offsets": (with_array("adapted/offsets", lambda b: b[1:]), "must have the shape"),
    "prototypes": (with_array("prototypes/matrix", lambda Y: Y[1:]), "got 8 labels and 7 rows"),
    "no centers": (with_part("state/_state/centers", None), "'centers' has the wrong type"),
    "no ridge": (with_part("state/_state/regression/ridge", None), "ridge"),
    "negative worth": (with_part("state/_state/choice/worth", -1.0), "of at least 0; got '-1.0'"),
    "foreign class": (with_part(EVIDENCE, {"$": "os.system", "parts": {}}), "'os.system'"),
    "temperature": (with_part("state/_state/settings/temperature", "hot"), "contradict|must be"),
    "temperatures": (with_part("state/_state/choice/temperatures/new", False), "must be a number"),
    "rejection": (with_part("parameters/reject_below", "x"), "`reject_below` must be a number"),
    "settings": (with_part("state/_state/settings", 0.5), "contradict each other"),
    "huge centers": (with_array("adapted/centers", lambda C: 1e300 * C), "must be finite"),
    "unfitted": (with_part("state", {"$": "dict", "parts": {}}), "AnyShotClassifier needs"),
    "float16": (with_array("_state/centers", lambda C: first_nan(C.astype("f2"))), "has NaN or"),
    "features": (with_part("state/n_features_in_", 1.5), "number of features must be positive"),
    "wide text": (
        with_text(f"{EVIDENCE}/labels", "x" * 10**6, *"abcdefg" * 99),
        "must be of similar lengths",
    ),
    "foreign name": (with_part("state/score", 3), "has no attribute"),
    "parameter": (with_part("parameters/nonsense", 3), "nonsense"),
    "labels": (with_text(f"{EVIDENCE}/labels", *LABELS[::-1].tolist()), "sorted and distinct"),
    "text": (with_text(f"{EVIDENCE}/labels", 1, 2), "must be a list of strings"),
    "array": (with_part("state/_state/centers", {"$": "array", "name": "no"}), "'no' is missing"),
}
PROJECTIONS = {
    "projection": (with_array("projection_", lambda W: W[1:]), "must have the shape"),
    "scores": (with_array("form/centers", lambda C: C[:1]), "must have the shape"),
    "width": (with_array("form/centers", lambda C: C[:, 1:]), "as wide as the features"),
    "seen": (with_text("state/_scorer/seen", "gnu"), "needs a prototype"),
    "candidates": (with_text("state/_scorer/labels", "ass", "cat"), "must be the same classes"),
    "no scores": (with_part("state/_scorer/form", None), "missing"),
}
REFERENCES = {"codes": (with_array("reference_codes_", lambda c: 0 * c), "needs a reference")}
STEPS = {
    "mean": (with_array("mean_", lambda m: m[:1]), "'mean_' must have the shape"),
    "scale": (with_array("scale_", lambda s: 0 * s), "must not be zero"),
    "n": (with_step("n_features_in_", 3), "must have the shape|do not fit"),
    "missing": (with_step("scale_", None), "StandardScaler needs"),
}
TABLES = {"adapted": CONTRADICTIONS, "reverse": PROJECTIONS, "nearest": REFERENCES, "scaled": STEPS}


@pytest.mark.parametrize(
    ("model", "case"), [(model, case) for model, table in TABLES.items() for case in table]
)
def test_parts_that_contradict_each_other_are_refused(model, case, tmp_path):
    path = tmp_path / "a.zonkey"
    scaled = make_pipeline(StandardScaler(), NearestSupport())
    zonkey.save(scaled.fit(X, Y) if model == "scaled" else fitted(model), path)
    change, message = TABLES[model][case]
    rewrite(path, change)
    refused(path, message)


def test_nothing_is_unpickled_or_imported(path, monkeypatch):
    def fail(*args, **options):
        raise AssertionError("unpickled")

    monkeypatch.setattr(pickle, "loads", fail)
    monkeypatch.setattr(pickle, "load", fail)
    monkeypatch.setattr(pickle, "Unpickler", fail)
    assert zonkey.load(path).predict(X).shape == (72,)
