"""per_class_accuracy and hit_at_k against loops that spell out their definitions."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.dummy import DummyClassifier
from sklearn.metrics import make_scorer, recall_score
from sklearn.model_selection import cross_val_score

from zonkey.metrics import hit_at_k, per_class_accuracy

CONTAINERS = {
    "list": list,
    "tuple": tuple,
    "array": np.asarray,
    "object array": lambda values: np.array(values, dtype=object),
    "pandas": pd.Series,
    "pandas category": lambda values: pd.Series(values, dtype="category"),
    "pandas off-default index": lambda values: pd.Series(values, index=range(7, 7 + len(values))),
    "polars": pl.Series,
}
TRUE = ["cat", "cat", "cat", "cat", "owl", "owl", "fox"]
PREDICTED = ["cat", "owl", "cat", "cat", "owl", "emu", "cat"]
MASKED = np.ma.masked_array([1.0, 2.0], mask=[0, 1])
CODES = {"cat": 4, "owl": 0, "fox": -2, "emu": 11}


def naive_per_class_accuracy(y_true, y_pred, weights=None, labels=None):
    weights = [1.0] * len(y_true) if weights is None else weights
    accuracies = []
    for label in set(y_true) if labels is None else labels:
        right = total = 0.0
        for true, predicted, weight in zip(y_true, y_pred, weights, strict=True):
            if true == label:
                total += weight
                right += weight * (predicted == label)
        accuracies.append(right / total)
    return sum(accuracies) / len(accuracies)


pairs = st.lists(st.tuples(st.integers(-2, 3), st.integers(-2, 5)), min_size=1, max_size=30)


@given(pairs, st.booleans(), st.data())
@settings(deadline=None, max_examples=50)
def test_per_class_accuracy_is_the_mean_of_accuracies_within_a_class(samples, as_text, data):
    convert = str if as_text else int
    y_true = [convert(true) for true, _ in samples]
    y_pred = [convert(predicted) for _, predicted in samples]
    weights = data.draw(
        st.none() | st.lists(st.floats(0.1, 10), min_size=len(samples), max_size=len(samples)),
    )
    labels = data.draw(st.none() | st.sets(st.sampled_from(sorted(set(y_true))), min_size=1))
    got = per_class_accuracy(y_true, y_pred, labels=labels, sample_weight=weights)
    assert got == pytest.approx(naive_per_class_accuracy(y_true, y_pred, weights, labels))
    if labels is None:
        expected = recall_score(
            y_true,
            y_pred,
            labels=sorted(set(y_true)),
            average="macro",
            sample_weight=weights,
        )
        assert got == pytest.approx(expected)


def test_classes_count_alike_whatever_their_size():
    # cat 3 of 4, owl 1 of 2, fox 0 of 1; over all samples it would be 4 of 7
    got = per_class_accuracy(TRUE, PREDICTED)
    assert type(got) is float
    assert got == pytest.approx((3 / 4 + 1 / 2 + 0) / 3)
    assert per_class_accuracy(TRUE, PREDICTED, labels=["owl", "cat"]) == pytest.approx(5 / 8)
    assert per_class_accuracy(TRUE, PREDICTED, labels={"owl"}) == 0.5
    weights = [3, 7, 1, 1, 2, 6, 1]
    got = per_class_accuracy(TRUE, PREDICTED, sample_weight=weights)
    assert got == pytest.approx((5 / 12 + 2 / 8 + 0) / 3)


@pytest.mark.parametrize(
    ("true_as", "predicted_as"),
    list(
        zip(
            CONTAINERS.values(),
            [*CONTAINERS.values()][3:] + [*CONTAINERS.values()][:3],
            strict=True,
        )
    ),
    ids=CONTAINERS,
)
def test_every_container_gives_the_same(true_as, predicted_as):
    got = per_class_accuracy(true_as(TRUE), predicted_as(PREDICTED))
    assert got == pytest.approx(5 / 12)
    true, predicted = [CODES[name] for name in TRUE], [CODES[name] for name in PREDICTED]
    got = per_class_accuracy(true_as(true), predicted_as(predicted), labels=np.array([4, 0]))
    assert got == pytest.approx(5 / 8)


def test_works_as_a_scorer():
    X, y = np.zeros((12, 1)), np.array([0] * 8 + [1] * 4)
    scorer = make_scorer(per_class_accuracy)
    scores = cross_val_score(DummyClassifier(strategy="most_frequent"), X, y, cv=4, scoring=scorer)
    assert scores.tolist() == [0.5] * 4


@pytest.mark.parametrize(
    ("y_true", "y_pred", "options", "message"),
    [
        ([1, 2], [1, 2], {"labels": [1, 3]}, "without one: 3. Drop them"),
        ([1, 2], [1, 2], {"labels": range(2, 20)}, r"\(17 in all\)"),
        ([1, 2], [1, 2], {"labels": []}, "labels must hold at least one label"),
        ([1, 2], [1, 2], {"labels": ["1"]}, "one kind.*labels like"),
        ([1, 2], ["1", "2"], {}, "one kind.*y_true like .*y_pred like"),
        (["1", "2"], [b"1", b"2"], {}, "y_pred must be all strings or all numbers; got bytes"),
        ([1, 2], [1], {}, "got 1 for 2"),
        ([], [], {}, "y_true must hold at least one label"),
        ([[1, 2]], [1, 2], {}, r"got shape \(1, 2\)"),
        ([1.0, np.nan], [1, 2], {}, "y_true must not be missing; 1 of 2"),
        (pd.Series(["a", None]), ["a", "b"], {}, "all strings or all numbers; got"),
        (pd.Series([1, None], dtype="Int64"), [1, 2], {}, "missing"),
        (np.array([None, 1], dtype=object), [1, 2], {}, "got NoneType, int"),
        (pd.Series([(1, 2), (3, 4)]), [1, 2], {}, "got tuple"),
        (np.array(["a", 1], dtype=object), ["a", "b"], {}, "got int, str"),
        ([1, 2], [1, 2], {"sample_weight": [1]}, r"shape \(2,\) as y_true, got \(1,\)"),
        ([1, 2], [1, 2], {"sample_weight": [1, -1]}, "from -1.0 to 1.0"),
        ([1, 2], [1, 2], {"sample_weight": [1, np.nan]}, "finite and not negative"),
        ([1, 2], [1, 2], {"sample_weight": [1, 0]}, "sums to 0 in: 2."),
        ([1, 2], [1, 2], {"sample_weight": ["a", "b"]}, r"must be real numbers; got \['a', 'b'\]"),
        ([1, 2], [1, 2], {"sample_weight": [1j, 1.0]}, "must be real numbers"),
        ([1, 2], [1, 2], {"sample_weight": {"cat": 1.0}}, "must be real numbers"),
        ([1, 2], [1, 2], {"sample_weight": MASKED}, "1 masked entries of 2"),
    ],
)
def test_bad_input_is_named(y_true, y_pred, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        per_class_accuracy(y_true, y_pred, **options)


def naive_hit_at_k(y_true, y_top, k):
    hits = [true in list(row)[:k] for true, row in zip(y_true, y_top, strict=True)]
    return sum(hits) / len(hits)


@given(
    st.integers(1, 5).flatmap(
        lambda m: st.lists(
            st.tuples(st.integers(0, 6), st.permutations(range(7)).map(lambda row: row[:m])),
            min_size=1,
            max_size=20,
        )
    ),
    st.booleans(),
)
@settings(deadline=None, max_examples=25)
def test_hit_at_k_looks_for_the_label_in_the_first_k(samples, as_text):
    y_true, y_top = [true for true, _ in samples], [list(row) for _, row in samples]
    if as_text:
        y_true, y_top = list(map(str, y_true)), [list(map(str, row)) for row in y_top]
    m = len(y_top[0])
    for k in range(1, m + 1):
        got = hit_at_k(y_true, y_top, np.int64(k))
        assert got == pytest.approx(naive_hit_at_k(y_true, y_top, k))
    assert hit_at_k(y_true, y_top) == got
    assert type(got) is float


@pytest.mark.parametrize(
    "table_as",
    [np.asarray, lambda rows: np.array(rows, dtype=object), pd.DataFrame],
    ids=["array", "object array", "pandas"],
)
def test_hit_at_k_takes_tables(table_as):
    y_top = table_as([["a", "long"], ["b", "a"]])
    assert hit_at_k(pd.Series(["long", "b"]), y_top, 1) == 0.5
    assert hit_at_k(pl.Series(["long", "b"]), y_top, 2) == 1.0


@pytest.mark.parametrize(
    ("y_true", "y_top", "k", "message"),
    [
        ([1, 2], [1, 2], None, r"y_top must be 2-dimensional; got shape \(2,\)"),
        ([1, 2], [[1, 2]], None, "got 1 for 2"),
        ([1, 2], [["1"], ["2"]], None, "one kind.*y_top like"),
        ([1], np.empty((1, 0)), None, "y_top must hold at least one label"),
        *(
            ([1, 2], [[1, 2], [2, 1]], k, "k must be an integer from 1 to the 2 columns")
            for k in (0, -1, 3, 1.0, True, "1")
        ),
    ],
)
def test_hit_at_k_names_bad_input(y_true, y_top, k, message):
    with pytest.raises(ValueError, match=message):
        hit_at_k(y_true, y_top, k)


def test_labels_of_other_kinds_are_compared():
    text = np.array(["cat", "owl"], dtype=np.dtypes.StringDType())
    assert per_class_accuracy(text, ["cat", "owl"]) == 1
    with pytest.warns(UserWarning, match="y_pred must have one spelling"):
        assert per_class_accuracy(["\xe9", "b"], ["e\u0301", "b"]) == 1
    with pytest.raises(TypeError, match=r"y_true must be all strings.*bytes.*decode"):
        hit_at_k([b"cat"], [["cat"]])
