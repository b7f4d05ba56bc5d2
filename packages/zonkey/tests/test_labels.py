"""Labels of every kind: one spelling, exact numbers, or one clear line."""

import unicodedata

import numpy as np
import pandas as pd
import pytest
import torch
from refusals import refused

from zonkey.arrays import place_like, require_values
from zonkey.labels import as_labels, format_labels, format_value, place_labels, warn_user

APART = unicodedata.normalize("NFD", "\N{LATIN SMALL LETTER E WITH ACUTE}t\N{DIGIT TWO}")
WHOLE = unicodedata.normalize("NFC", APART)


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["horse", "zebra"], dtype=np.dtypes.StringDType()),
        np.array(["horse", "zebra"], dtype=">U5"),
        np.ma.masked_array(["horse", "zebra"], mask=[False, False]),
        pd.Series(["horse", "zebra"], dtype="string"),
        pd.Categorical(["horse", "zebra"]),
    ],
    ids=["StringDType", "swapped bytes", "nothing masked", "pandas", "categories"],
)
def test_text_of_every_kind_becomes_plain_text(labels):
    found = as_labels(labels)
    assert found.dtype.kind == "U"
    assert found.tolist() == ["horse", "zebra"]


def test_tensors_are_labels_with_or_without_gradient():
    assert as_labels(torch.tensor([3, 1])).tolist() == [3, 1]
    with_gradient = torch.tensor([3.0, 1.0], requires_grad=True)
    assert as_labels(with_gradient).tolist() == [3, 1]
    assert not place_like(with_gradient, torch.zeros(1)).requires_grad
    sparse = pd.Series([0, 0, 7]).astype(pd.SparseDtype(int))
    assert as_labels(sparse).tolist() == [0, 0, 7]


@pytest.mark.parametrize(
    ("labels", "error", "parts"),
    [
        ([b"horse"], TypeError, ("got bytes", "label.decode()")),
        (np.array([b"horse"]), TypeError, ("got bytes", "label.decode()")),
        ([2**70, 1], ValueError, ("64-bit", "got 1180591620717411303424", "Convert them to text")),
        ([2**63, -1], ValueError, ("64-bit", "got 9223372036854775808", "Convert them to text")),
        ([2**63, 0.5], ValueError, ("64-bit", "got 9223372036854775808", "Convert them to text")),
        ([2**53 + 1, 0.5], ValueError, ("64-bit", "got 9007199254740993", "Convert them to text")),
        (np.ma.masked_array([1, 2], mask=[1, 0]), TypeError, ("1 masked entries of 2", "Drop")),
        (torch.tensor([1, 0]).to_sparse(), TypeError, ("torch.sparse_coo", ".to_dense()")),
        (["a", pd.NA], TypeError, ("got NAType, str", "Drop missing")),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), TypeError, ("got date", "str(label)")),
    ],
    ids=str,
)
def test_labels_that_are_refused(labels, error, parts):
    with refused(error, "y must", *parts):
        as_labels(labels, "y")


@pytest.mark.parametrize("labels", [[2**63, 0], [-(2**63), 1], [2**53, 0.5], [True, 2]], ids=str)
def test_numbers_that_a_type_holds_are_kept(labels):
    assert as_labels(labels).tolist() == labels


def test_large_unsigned_labels_stay_on_the_host():
    large = np.array([2**63], dtype=np.uint64)
    assert place_labels(large, np.zeros(1)) is large
    with refused(ValueError, "must be at most 9223372036854775807", "got 9223372036854775808"):
        place_labels(large, torch.zeros(1))


# One spelling of accents


@pytest.mark.parametrize("kind", [list, np.array, set, pd.Series])
def test_text_is_normalized_and_told(kind):
    expected = r"one spelling; 1, such as 'e\\u0301t2', were changed to .* NFC, '\\xe9t2'"
    with pytest.warns(UserWarning, match=f"y must have {expected}") as told:
        found = as_labels(kind([APART, "zebra"]), "y")
    assert sorted(found.tolist()) == sorted([WHOLE, "zebra"])
    assert told[0].filename == __file__
    with pytest.warns(UserWarning, match="2, such as"):
        found = as_labels([[APART, "a"], ["b", APART + "x"]], ndim=2)
    assert found.tolist() == [[WHOLE, "a"], ["b", WHOLE + "x"]]


# Messages


def test_a_warning_points_at_the_caller_and_long_names_are_cut():
    with pytest.warns(RuntimeWarning, match="look") as told:
        warn_user("look", RuntimeWarning)
    assert told[0].filename == __file__
    name = "x" * 5_000_000
    assert len(format_labels(np.array([name, "b"]))) < 100
    assert format_labels(np.array(["a", "b"])) == "'a', 'b'"
    assert len(format_value([name] * 100)) < 1000
    assert len(format_value(np.zeros((1000, 1000)))) < 100
    assert format_value(np.float64(0.5)) == "0.5"
    assert "\n" not in format_value(np.zeros((3, 3)))


# Arrays without a value in every place


@pytest.mark.parametrize(
    ("array", "got"),
    [
        (torch.eye(2).to_sparse(), "layout torch.sparse_coo"),
        (torch.empty(2, device="meta"), "device meta"),
        (np.ma.masked_array([1.0, 2.0], mask=[0, 1]), "1 masked entries of 2"),
    ],
    ids=["sparse", "meta", "masked"],
)
def test_arrays_with_gaps_are_refused(array, got):
    with refused(TypeError, "Z must have a value in every place", got):
        require_values(array, "Z")
