"""All forms of labels say the same, and wrong ones are refused with a remedy."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from zonkey.multilabel.marks import join_marks, read_marks, split_marks

SETS = [{"b", "a"}, set(), {"c"}, {"a"}]
DENSE = np.array([[1, 1, 0], [0, 0, 0], [0, 0, 1], [1, 0, 0]])


@pytest.mark.parametrize(
    "given",
    [
        SETS,
        [tuple(sorted(s)) for s in SETS],
        ["a|b", "", "c", "a"],
        np.array(["b | a", "", "c", "a|a"]),
        pd.Series(["a|b", "", "c", "a"]),
        pl.Series(["a|b", "", "c", "a"]),
        pl.Series([["a", "b"], [], ["c"], ["a"]]),
        pl.DataFrame(DENSE, schema=["a", "b", "c"]),
        pd.DataFrame(DENSE, columns=["a", "b", "c"]),
        pd.DataFrame(DENSE[:, ::-1], columns=["c", "b", "a"]),
    ],
    ids=lambda given: type(given).__name__,
)
def test_forms_agree(given):
    marks = read_marks(given, 4)
    assert marks.labels.tolist() == ["a", "b", "c"]
    assert np.array_equal(marks.dense(), DENSE)
    assert marks.known() is None


@pytest.mark.parametrize("convert", [np.array, sparse.csr_matrix, list, lambda Y: Y.astype(bool)])
def test_columns_without_names_are_numbers(convert):
    marks = read_marks(convert(DENSE))
    assert marks.labels.tolist() == [0, 1, 2]
    assert np.array_equal(marks.dense(), DENSE)


@pytest.mark.parametrize(
    "given",
    [
        np.array([[1, np.nan], [0, 1], [-1, 0]]),
        [[1, np.nan], [0, 1], [-1, 0]],
        [[1, None], [0, 1], [-1, 0]],
        pd.DataFrame([[1, None], [0, 1], [-1, 0]], dtype="Int64"),
        pd.DataFrame([[True, None], [False, True], [None, False]], dtype="boolean"),
    ],
)
def test_unknown_entries(given):
    marks = read_marks(given)
    assert np.array_equal(marks.dense(), [[1, 0], [0, 1], [0, 0]])
    assert np.array_equal(marks.known(), [[1, 0], [1, 1], [0, 1]])


def test_as_many_columns_as_known_labels_are_these():
    known = np.array([1, 2, 7])
    assert read_marks(DENSE, known=known).labels.tolist() == [1, 2, 7]
    assert read_marks(DENSE[:, :2], known=known).labels.tolist() == [0, 1]


def test_widen_moves_columns():
    marks = read_marks(pd.DataFrame({"b": [1, -1], "d": [0, 1]}))
    wide = marks.widen(np.array(["a", "b", "c", "d"]))
    assert np.array_equal(wide.dense(), [[0, 1, 0, 0], [0, 0, 0, 1]])
    assert np.array_equal(wide.known(), [[1, 1, 1, 1], [1, 0, 1, 1]])
    assert wide.widen(np.array(["b", "d"])).labels.tolist() == ["b", "d"]


def test_texts():
    assert split_marks(" a| b||") == ("a", "b")
    assert join_marks(("a", "b")) == "a|b"
    assert split_marks("") == ()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (None, "y to be passed"),
        ([1, 0, 1], "one class per sample.*set"),
        (["a", None, "b"], "sample 1 are missing"),
        (pd.Series(["a|b", np.nan, "b"]), "sample 1 are missing"),
        (np.array([[0, 2]]), "got 2.0"),
        ([set(), []], "at least one label"),
        ([], "at least one row"),
        (np.array([["a", "b"]]), "numbers 0 and 1|matrix of 0 and 1"),
        (np.zeros((2, 2, 2)), "shape"),
        (np.full((2, 2), np.nan), "NaN or -1 only"),
        (pd.DataFrame([[1, 0]], columns=["a", "a"]), "different names"),
        (["a"], "one row for each"),
        ([{"a"}, {1}, {"b"}], "all strings or all numbers"),
    ],
)
def test_refusals(given, says):
    with pytest.raises((ValueError, TypeError), match=says) as error:
        read_marks(given, 3)
    assert "\n" not in str(error.value)
