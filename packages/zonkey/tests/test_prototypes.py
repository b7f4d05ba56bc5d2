"""Prototypes: what they accept, what they refuse and why, and that nothing changes them."""

import copy
import pickle
from collections import UserDict

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from zonkey.prototypes import Prototypes

LABELS = ["zebra", "ass", "horse"]
MATRIX = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
SORTED = ["ass", "horse", "zebra"]
SORTED_MATRIX = [[3.0, 4.0], [5.0, 6.0], [1.0, 2.0]]
CONTAINERS = {
    "list": list,
    "tuple": tuple,
    "array": np.array,
    "object array": lambda values: np.array(values, dtype=object),
    "pandas": pd.Series,
    "pandas object": lambda values: pd.Series(values, dtype=object),
    "pandas category": lambda values: pd.Series(values, dtype="category"),
    "pandas index": pd.Index,
    "polars": pl.Series,
}


@pytest.fixture
def equids():
    return Prototypes(LABELS, MATRIX)


def numbered(*labels):
    return Prototypes(labels, np.ones((len(labels), 2)))


SOURCES = {
    "lists": lambda: Prototypes(LABELS, MATRIX),
    "mapping": lambda: Prototypes.coerce(dict(zip(LABELS, MATRIX, strict=True))),
    "other mapping": lambda: Prototypes.coerce(UserDict(zip(LABELS, MATRIX, strict=True))),
    "mapping of arrays": lambda: Prototypes.coerce(
        {label: np.array(row) for label, row in zip(LABELS, MATRIX, strict=True)}
    ),
    "frame": lambda: Prototypes.coerce(pd.DataFrame(MATRIX, index=LABELS)),
    "frame of integers": lambda: Prototypes.coerce(pd.DataFrame(MATRIX, index=LABELS, dtype=int)),
    "frame, categories": lambda: Prototypes.coerce(
        pd.DataFrame(MATRIX, index=pd.CategoricalIndex(LABELS))
    ),
    "polars": lambda: Prototypes.coerce(polars_frame()),
    "polars, integers": lambda: Prototypes.coerce(polars_frame().cast({"x": int, "y": pl.UInt8})),
    "polars, categories": lambda: Prototypes.coerce(polars_frame().cast({"name": pl.Categorical})),
    "prototypes": lambda: Prototypes.coerce(Prototypes(LABELS, MATRIX)),
}


def polars_frame(**columns):
    x, y = zip(*MATRIX, strict=True)
    return pl.DataFrame({"name": LABELS, "x": x, "y": y, **columns})


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_gives_the_same_sorted_prototypes(source):
    got = SOURCES[source]()
    assert (got.labels.tolist(), got.labels.dtype.kind) == (SORTED, "U")
    assert (got.matrix.tolist(), got.matrix.dtype) == (SORTED_MATRIX, np.float64)
    assert got.n_dimensions == 2


def test_numbers_may_be_labels_of_a_polars_frame():
    got = Prototypes.coerce(pl.DataFrame({"id": [7, 3], "x": [0.5, 1.5]}))
    assert got.labels.tolist() == [3, 7]
    assert got.labels.dtype.kind == "i"
    assert got.matrix.tolist() == [[1.5], [0.5]]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (polars_frame(), True),
        (pd.DataFrame(MATRIX, index=LABELS), True),
        ({"a": [1.0]}, True),
        (numbered(1), True),
        (MATRIX, False),
        (np.eye(2), False),
        (pl.Series([1.0]), False),
        (pl.LazyFrame({"a": [1.0]}), False),
    ],
    ids=type,
)
def test_what_has_labels(source, expected):
    assert Prototypes.is_labeled(source) is expected


@given(st.sets(st.integers(-50, 50), min_size=1, max_size=12), st.booleans(), st.data())
@settings(deadline=None, max_examples=25)
def test_the_order_given_never_shows(numbers, as_text, data):
    labels = [str(n) if as_text else n for n in numbers]
    vectors = {label: [float(n), -float(n)] for label, n in zip(labels, numbers, strict=True)}
    shuffled = data.draw(st.permutations(labels))
    got = Prototypes(shuffled, [vectors[label] for label in shuffled])
    assert list(got) == sorted(labels)
    assert got == Prototypes.coerce(vectors)
    asked = data.draw(st.lists(st.sampled_from(labels)))
    assert got.positions(asked).tolist() == [sorted(labels).index(label) for label in asked]
    for label in labels:
        assert got[label].tolist() == vectors[label]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, bool, np.uint8, np.int64, np.float16])
def test_the_precision_is_kept_and_integers_and_truth_values_become_float64(dtype):
    got = Prototypes(["a", "b"], np.eye(2, dtype=dtype))
    for found in (got, got.normalized(), got.subset(["a", "b"])):
        assert found.matrix.dtype == (np.float32 if dtype is np.float32 else np.float64)
        assert found.matrix.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def copies(prototypes):
    return {
        "made": prototypes,
        "subset": prototypes.subset(["ass"]),
        "extended": prototypes.extended({"quagga": [0.0, 1.0]}),
        "normalized": prototypes.normalized(),
        "copied": copy.copy(prototypes),
        "deep-copied": copy.deepcopy(prototypes),
        "pickled": pickle.loads(pickle.dumps(prototypes)),
    }


@pytest.mark.parametrize("how", copies(Prototypes(LABELS, MATRIX)))
def test_nothing_can_be_written_to(equids, how):
    prototypes = copies(equids)[how]
    for array in (prototypes.matrix, prototypes.labels, prototypes["ass"]):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = array[0]
    for name in ("matrix", "labels"):
        with pytest.raises(AttributeError):
            setattr(prototypes, name, None)


@pytest.mark.parametrize("labels", [LABELS, SORTED], ids=["unsorted", "sorted"])
def test_the_arrays_of_the_caller_are_neither_shared_nor_frozen(labels):
    labels, matrix = np.array(labels), np.array(MATRIX)
    for got in (Prototypes(labels, matrix), Prototypes.coerce(pd.DataFrame(matrix, labels))):
        before = got.matrix.copy()
        assert not np.shares_memory(got.matrix, matrix)
        assert not np.shares_memory(got.labels, labels)
        matrix[:] += 1
        labels[0] = labels[0]
        np.testing.assert_array_equal(got.matrix, before)


LISTS = [
    (["a", "b", "a"], np.eye(3), ValueError, r"unique; 'a' came more than once"),
    ([7, 7], np.eye(2), ValueError, "unique; 7 came"),
    (LABELS, np.eye(2), ValueError, r"3 labels and 2 rows.*transpose"),
    (LABELS, [[0.0], [np.nan], [1.0]], ValueError, r"finite; 1 of 3 rows.*row 1"),
    (LABELS, [[np.inf], [-np.inf], [1.0]], ValueError, r"finite; 2 of 3.*row 0"),
    (LABELS, [1.0, 2.0, 3.0], ValueError, r"matrix.*shape \(3,\)"),
    (LABELS, np.ones((3, 1, 1)), ValueError, r"shape \(3, 1, 1\)"),
    ([], np.empty((0, 2)), ValueError, r"nonempty matrix .classes .*; got shape \(0, 2\)"),
    (["a"], np.empty((1, 0)), ValueError, r"shape \(1, 0\)"),
    (["a"], [["x"]], TypeError, "must be numbers; got dtype <U1"),
    (["a"], [[1j]], TypeError, "must be numbers; got dtype complex128"),
    (["a"], np.array([[None]]), TypeError, "must be numbers; got dtype object"),
    ([["a"]], [[1.0]], ValueError, r"one-dimensional; got shape \(1, 1\)"),
    ("a", [[1.0]], ValueError, r"one-dimensional; got shape \(\)"),
    (["a", 1], np.eye(2), TypeError, "all strings or all numbers; got int, str"),
    ((1.5, "a"), np.eye(2), TypeError, "got float, str"),
    (["a", None], np.eye(2), TypeError, "got NoneType, str"),
    (["a", np.nan], np.eye(2), TypeError, "got float, str"),
    ([1, None], np.eye(2), TypeError, "got NoneType, int"),
    ([1.0, np.nan], np.eye(2), ValueError, "missing; 1 of 2 are NaN"),
    ([b"a"], [[1.0]], TypeError, r"got bytes.*label\.decode\(\)"),
    ([{1}], [[1.0]], TypeError, "got set"),
]
TABLES = [
    ({}, ValueError, r"at least one vector"),
    ({"a": [1, 2], "b": [1, 2, 3]}, ValueError, r"'b' has shape \(3,\).*first has \(2,\)"),
    ({"a": [[1, 2]]}, ValueError, r"shape \(1, 1, 2\)"),
    ({"a": [1.0], 1: [2.0]}, TypeError, "all strings or all numbers; got int, str"),
    ({(1, 2): [1.0], (3, 4): [2.0]}, TypeError, "got tuple"),
    ({("a", "b"): [1.0], ("c",): [2.0]}, TypeError, "got tuple"),
    ({"a": ["x"]}, TypeError, "must be numbers"),
    ({"a": [np.nan], "b": [0.0]}, ValueError, "finite; 1 of 2"),
    (pd.DataFrame([[1.0], [2.0]], index=["a", "a"]), ValueError, "unique; 'a'"),
    (pd.DataFrame([["x"]], index=["a"]), TypeError, "must be numbers"),
    (pd.DataFrame([[np.nan]], index=["a"]), ValueError, "finite"),
    (pd.DataFrame([[1.0], [2.0]], index=["a", 1]), TypeError, "got int, str"),
    (pd.DataFrame([[1.0]], index=pd.MultiIndex.from_tuples([(1, 2)])), TypeError, "tuple"),
    (pd.DataFrame({"a": [], "b": []}), ValueError, "nonempty matrix"),
    (pd.Series([1.0, 2.0], index=["a", "b"]), ValueError, "must form a nonempty matrix"),
    (polars_frame(name=["a", "b", "a"]), ValueError, "unique; 'a'"),
    (polars_frame(name=["a", None, "b"]), TypeError, "got NoneType, str"),
    (polars_frame(y=["u", "v", "w"]), TypeError, "first column .*'y' is not numeric"),
    (polars_frame(y=[1.0, None, 2.0]), ValueError, "finite; 1 of 3 rows"),
    (polars_frame(y=[1, None, 2]), ValueError, "finite; 1 of 3 rows"),
    (pl.DataFrame({"name": ["a"]}), ValueError, "at least one other; got 1 columns"),
    (pl.DataFrame(), ValueError, "at least one other; got 0 columns"),
    (polars_frame().clear(), ValueError, "nonempty matrix"),
    *(
        (other, TypeError, rf"mapping.*DataFrame.*Prototypes.*got {kind}\..*Say which")
        for other, kind in (
            (MATRIX, "list"),
            (np.eye(2), "numpy.ndarray"),
            ("zebra", "str"),
            (None, "NoneType"),
            (pl.LazyFrame({"a": [1.0]}), "polars.LazyFrame"),
        )
    ),
]


@pytest.mark.parametrize("case", [*LISTS, *TABLES], ids=lambda case: case[-1])
def test_what_makes_no_prototypes_is_refused(case):
    *given, error, message = case
    with pytest.raises(error, match=message):
        Prototypes(*given) if len(given) == 2 else Prototypes.coerce(*given)


@pytest.mark.parametrize("container", CONTAINERS)
def test_positions_accept_any_container_of_labels(equids, container):
    wrap = CONTAINERS[container]
    assert equids.positions(wrap(["zebra", "ass", "zebra"])).tolist() == [2, 0, 2]
    assert numbered(30, 10, 20).positions(wrap([30, 10, 30])).tolist() == [2, 0, 2]
    assert numbered(0.5, 1.5).positions(wrap([1.5, 0.5])).tolist() == [1, 0]
    assert numbered(False, True).positions(wrap([True, False])).tolist() == [1, 0]


@pytest.mark.parametrize("label", ["aardvark", "mule", "zz", "ZEBRA", ""])
def test_an_unknown_label_is_named_with_the_known_ones(equids, label):
    message = rf"No prototype for the class '{label}';.*3 known: 'ass', 'horse', 'zebra'"
    for ask in (
        lambda: equids.positions(["ass", label]),
        lambda: equids.subset([label]),
        lambda: equids[label],
    ):
        with pytest.raises(ValueError, match=message):
            ask()


def test_strings_and_numbers_are_told_apart(equids):
    with pytest.raises(ValueError, match=r"one kind.*labels like .*1.*prototypes like .*'ass'"):
        equids.positions([1])
    with pytest.raises(ValueError, match=r"one kind.*labels like .*'1'.*prototypes like .*1"):
        numbered(1, 2).positions(["1"])
    assert numbered(1, 2).positions([2.0, True]).tolist() == [1, 0]


def test_labels_contained(equids):
    assert "horse" in equids
    # Many labels: NumPy's own membership test takes another road then, by way of strings.
    many = Prototypes.one_hot(range(40))
    assert 7 in many
    assert np.int64(7) in many
    for stranger in ("mule", 1, None, np.nan, ("ass",), ["ass", "horse"]):
        assert stranger not in equids
    for stranger in ("7", 7.5, -1, 40, None, [7]):
        assert stranger not in many
    assert 7 not in Prototypes.one_hot([str(i) for i in range(40)])


def test_subset_ignores_order_and_repetition(equids):
    part = equids.subset(["zebra", "ass", "zebra"])
    assert part == Prototypes(["ass", "zebra"], [[3.0, 4.0], [1.0, 2.0]])
    assert equids.subset(equids.labels) == equids
    with pytest.raises(ValueError, match="at least one vector"):
        equids.subset([])


def test_extended_has_both_and_changes_neither(equids):
    new = Prototypes(["a much longer label"], [[7.0, 8.0]])
    both = equids.extended(new)
    assert both.labels.tolist() == ["a much longer label", *SORTED]
    assert both.matrix.tolist() == [[7.0, 8.0], *SORTED_MATRIX]
    assert both == equids.extended({"a much longer label": [7, 8]}) == new.extended(equids)
    assert (len(equids), len(new)) == (3, 1)
    assert both.subset(SORTED) == equids
    assert "a much" not in both
    with pytest.raises(ValueError, match="'ab'"):
        numbered("a").positions(["ab"])


@pytest.mark.parametrize(
    ("other", "error", "message"),
    [
        ({"horse": [0.0, 0.0], "mule": [0.0, 0.0]}, ValueError, "'horse' has a prototype already"),
        ({"mule": [0.0, 0.0, 0.0]}, ValueError, r"the 2 dimensions of the known ones; got 3"),
        ({1: [0.0, 0.0]}, ValueError, r"one kind"),
        ([1.0, 2.0], TypeError, "got list"),
    ],
)
def test_extended_refuses_what_does_not_fit(equids, other, error, message):
    with pytest.raises(error, match=message):
        equids.extended(other)


def test_normalized_rows_have_unit_length_and_zero_stays_zero():
    got = Prototypes(["a", "b", "c"], [[3.0, 4.0], [0.0, 0.0], [0.0, -2.0]])
    assert got.normalized().matrix.tolist() == [[0.6, 0.8], [0.0, 0.0], [0.0, -1.0]]
    assert got.matrix[0].tolist() == [3.0, 4.0]
    assert Prototypes.coerce({"only": [0.0]}).normalized().matrix.tolist() == [[0.0]]
    same = Prototypes(["a", "b"], [[1.0, 2.0]] * 2)
    assert same.positions(["b", "a"]).tolist() == [1, 0]


@pytest.mark.parametrize("labels", [["b", "a", "b"], [3, -1, 3]])
def test_one_hot_gives_each_distinct_label_an_axis(labels):
    got = Prototypes.one_hot(labels)
    assert list(got) == sorted(set(labels))
    np.testing.assert_array_equal(got.matrix, np.eye(2))
    with pytest.raises(ValueError, match="at least one vector"):
        Prototypes.one_hot([])


def test_equality_is_by_value(equids):
    same = Prototypes(SORTED, SORTED_MATRIX)
    assert equids == same
    assert equids == Prototypes(LABELS, np.array(MATRIX, np.float32))
    assert equids != Prototypes(LABELS, np.array(MATRIX) + 1e-9)
    assert equids != Prototypes(["zebra", "ass", "hors"], MATRIX)
    assert equids != equids.subset(["ass"])
    assert equids != Prototypes(LABELS, np.ones((3, 1)))
    assert numbered(1, 2) != numbered("1", "2")
    assert equids != "zebra"
    with pytest.raises(TypeError, match="unhashable"):
        hash(equids)


def test_dimensions_may_have_names():
    frame = pd.DataFrame({"stripes": [1.0, 0.0], "mane": [1.0, 1.0]}, index=["zebra", "horse"])
    known = Prototypes.coerce(frame)
    table = pl.DataFrame({"class": ["okapi"], "stripes": [0.5], "mane": [0.2]})
    for named in (
        known,
        known.subset(["horse"]),
        known.normalized(),
        copy.deepcopy(known),
        known.extended({"okapi": [0.5, 0.2]}),
        Prototypes(["okapi"], [[0, 1]]).extended(known),
        Prototypes.coerce(table),
    ):
        assert named.dimension_names == ("stripes", "mane")
    for columns in ([0, 1], ["mane", "mane"]):
        assert Prototypes.coerce(frame.set_axis(columns, axis=1)).dimension_names is None


def test_names_of_dimensions_must_fit():
    for names in (["mane"], ["mane", "mane"], ["a", "b", "c"], "xy"):
        with pytest.raises(ValueError, match="one name per dimension, 2, all different; got"):
            Prototypes(["horse"], [[0.0, 1.0]], names)
    for names in (5, [None, 3], [["a", "b"]]):
        with pytest.raises(TypeError, match="must be a list of strings"):
            Prototypes(["horse"], [[0.0, 1.0]], names)
    known = Prototypes(["horse"], [[0.0, 1.0]], ["stripes", "mane"])
    other = Prototypes(["zebra"], [[1.0, 1.0]], ["mane", "stripes"])
    with pytest.raises(ValueError, match="number 0 is 'mane' instead of 'stripes'"):
        known.extended(other)


@pytest.mark.parametrize(
    ("matrix", "error", "message"),
    [
        (np.ma.masked_array(np.eye(2), mask=np.eye(2)), TypeError, "2 masked entries of 4"),
        (torch.eye(2).to_sparse(), TypeError, r"torch\.sparse_coo\. Pass its \.to_dense"),
        ([[1e200, 0], [1, 1]], ValueError, r"usual size, .* row 0 is 1e\+200\. Scale all"),
        ([[1, 1], [1e-200, 0]], ValueError, r"usual size, .* row 1 is 1e-200\. Scale all"),
    ],
    ids=["masked", "sparse", "huge", "vanishing"],
)
def test_vectors_with_gaps_or_of_an_unusual_size_are_refused(matrix, error, message):
    with pytest.raises(error, match=message):
        Prototypes(["a", "b"], matrix)
    rows = dict(zip("ab", matrix, strict=True))
    with pytest.raises(error, match=message.replace("2 masked entries of 4", "1 masked entries")):
        Prototypes.coerce(rows)


def test_vectors_may_be_tensors_of_any_sort():
    vectors = {"a": torch.ones(2, requires_grad=True), "b": torch.zeros(2)}
    assert Prototypes.coerce(vectors).matrix.tolist() == [[1, 1], [0, 0]]
    matrix = torch.ones((1, 2), requires_grad=True)
    assert Prototypes(["a"], matrix).matrix.tolist() == [[1, 1]]


def test_two_spellings_are_one_label():
    apart, whole = "e\u0301", "\xe9"
    known = Prototypes([whole, "b"], np.eye(2))
    with pytest.warns(UserWarning, match="NFC"):
        assert known.positions([apart]).tolist() == [1]
    with (
        pytest.warns(UserWarning, match="NFC"),
        pytest.raises(ValueError, match="must be unique; '\xe9' came more than once"),
    ):
        Prototypes([apart, whole], np.eye(2))
