"""Odd content of files and arrays: two spellings, bytes, gaps, extreme values, long names."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from refusals import refusal
from scipy.sparse import csr_array

from zonkey.files.check import check_files
from zonkey.files.classes import read_prototypes
from zonkey.files.dataset import DataError, Dataset, Split
from zonkey.files.own import load_features

X = np.random.default_rng(0).normal(size=(4, 2))
Y = ["horse", "horse", "tiger", "tiger"]
PROTOTYPES = {"horse": [1.0, 0.0], "tiger": [0.0, 1.0]}


@pytest.fixture
def words(tmp_path):
    path = tmp_path / "words.csv"
    path.write_text("class,stripes,mane\nhorse,0,1\ntiger,1,0\nzebra,1,1\n")
    return path


# Labels in one spelling, and messages of bounded length

APART, WHOLE = "e\u0301", "\xe9"


@pytest.mark.parametrize("ending", [".csv", ".npz"])
def test_accents_have_one_spelling_in_all_files(tmp_path, ending):
    labels = [f"{APART}{name}" for name in ("horse", "horse", "tiger", "tiger")]
    features, prototypes = tmp_path / f"f{ending}", tmp_path / "p.csv"
    if ending == ".csv":
        pd.DataFrame({"label": labels, "a": [1.0, 2, 3, 4]}).to_csv(features, index=False)
    else:
        np.savez(features, features=np.eye(4), labels=labels)
    prototypes.write_text(f"class,a\n{WHOLE}horse,1\n{WHOLE}tiger,2\n", encoding="utf-8")
    with pytest.warns(UserWarning, match=f"Labels of f{ending} must have one spelling; 2, such as"):
        data = load_features(features, prototypes, class_names={f"{APART}horse": "Horse"})
    assert data.seen_classes.tolist() == [f"{WHOLE}horse", f"{WHOLE}tiger"]
    assert data.name_of(f"{WHOLE}horse") == data.name_of(f"{APART}horse") == "Horse"
    report = check_files([features, prototypes])
    assert report.problems == []
    assert [line for line in report.warnings if f"Labels of f{ending} must have one" in line]


def test_two_spellings_of_one_class_are_two_prototypes(tmp_path):
    path = tmp_path / "p.json"
    path.write_text(json.dumps({f"{APART}t": [1.0], f"{WHOLE}t": [2.0]}))
    with pytest.warns(UserWarning, match="one spelling"):
        refusal(read_prototypes, path)


def test_bytes_that_are_no_text_are_not_merged(tmp_path, words):
    path = tmp_path / "x.npz"
    np.savez(path, features=np.eye(4), labels=np.array([b"\xff", b"\xff", b"\xfe", b"\xfe"]))
    assert "UTF-8" in refusal(load_features, path, words)


def test_long_class_names_are_cut_in_messages(tmp_path, words):
    path = tmp_path / "x.npz"
    np.savez(path, features=np.eye(4), labels=["x" * 100_000, "horse", "horse", "tiger"])
    assert len(refusal(load_features, path, words)) < 500
    assert max(map(len, check_files([path, words]).problems)) < 500


@pytest.mark.parametrize("factor", [1e-200, 1e200])
def test_values_of_an_unusual_size_are_told(tmp_path, words, factor):
    path = tmp_path / "x.npz"
    np.savez(path, features=factor * np.eye(4), labels=["horse", "horse", "tiger", "tiger"])
    (problem,) = [line for line in check_files([path, words]).problems if "size" in line]
    assert problem.startswith("Features of x.npz must have values of a usual size")
    prototypes = tmp_path / "p.json"
    prototypes.write_text(json.dumps({"horse": [factor], "tiger": [2 * factor]}))
    assert "p.json: Prototypes must have values of a usual size" in refusal(
        read_prototypes, prototypes
    )


# Arrays in memory


def made(features=X, labels=Y, **parts):
    split = Split(**{"train": [0, 1, 2, 3], "test_unseen": [], **parts})
    return Dataset("odd", features, labels, PROTOTYPES, split)


@pytest.mark.parametrize(
    ("features", "said"),
    [
        (np.ma.masked_array(X, mask=X > 0.5), "masked entries of 8"),
        (torch.tensor(X).to_sparse(), ".to_dense()"),
        (csr_array(X), ".toarray()"),
        ([[1.0], [1.0, 2.0]], "inhomogeneous"),
    ],
    ids=["masked", "sparse tensor", "sparse", "ragged"],
)
def test_features_with_gaps_are_refused(features, said):
    with pytest.raises(DataError) as caught:
        made(features)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "features",
    [torch.tensor(X, requires_grad=True), pd.DataFrame(X), X.tolist(), np.ma.masked_array(X)],
    ids=["gradient", "frame", "lists", "nothing masked"],
)
def test_features_of_other_kinds_are_read(features):
    np.testing.assert_allclose(made(features).X, X)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([label.encode() for label in Y], "label.decode()"),
        (np.ma.masked_array(Y, mask=[1, 0, 0, 0]), "1 masked entries of 4"),
        ([2**70] * 4, "64-bit"),
        (None, "one-dimensional"),
    ],
    ids=["bytes", "masked", "large", "none"],
)
def test_labels_of_other_kinds_are_refused(labels, said):
    assert said in refusal(made, labels=labels)


def test_validation_classes_have_the_spelling_of_the_labels():
    labels = [f"{APART}a", f"{APART}a", f"{APART}b", f"{APART}b"]
    known = {f"{WHOLE}a": [1.0], f"{WHOLE}b": [2.0]}
    with pytest.warns(UserWarning, match="`val_classes` must have one spelling"):
        split = Split(train=[0, 1, 2, 3], test_unseen=[], val_classes=[f"{APART}a"])
    with pytest.warns(UserWarning, match="Labels must have one spelling"):
        data = Dataset("odd", X, labels, known, split)
    assert data.split.val_classes.tolist() == [f"{WHOLE}a"]
