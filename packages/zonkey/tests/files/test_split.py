from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from zonkey.files.dataset import PARTS, DataError, Split

LABELS = np.array(["ass", "ass", "horse", "horse", "mule", "mule", "zebra", "zebra"])
RIGHT = {"train": [0, 2, 3, 4], "test_seen": [1, 5], "test_unseen": [6, 7]}
POSITIONS = (*PARTS, "query")


def refusal_of(labels=LABELS, **changes):
    """Return the one line that a split is refused with, at once or when it meets the labels."""
    with pytest.raises(DataError) as error:
        Split(**{**RIGHT, **changes}).check(labels)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_positions_and_validation_classes_are_sorted():
    split = Split(
        train=[4, 0, 3, 2],
        test_seen=(5, 1),
        test_unseen=np.array([[7], [6]], dtype=np.uint8),
        val_classes=["mule", "ass", "mule"],
        query=range(7, 5, -1),
    )
    expected = {**RIGHT, "query": [6, 7], "val_classes": ["ass", "mule"]}
    assert {name: getattr(split, name).tolist() for name in expected} == expected
    assert {getattr(split, part).dtype for part in POSITIONS} == {np.dtype(np.int64)}
    split.check(LABELS)


def test_what_is_left_out_is_empty():
    split = Split(train=[0], test_unseen=[6])
    assert [split.test_seen.size, split.query.size, split.val_classes.size] == [0, 0, 0]
    assert split.name == "custom"
    split.check(LABELS)


def test_base_and_novel_are_the_few_shot_names():
    split = Split(**RIGHT)
    assert split.base is split.train
    assert split.novel is split.test_unseen


@pytest.mark.parametrize("part", [*POSITIONS, "val_classes"])
def test_a_split_is_frozen_and_the_arrays_it_was_made_of_are_not(part):
    own = {
        "train": np.array([0, 2]),
        "test_seen": np.array([1]),
        "test_unseen": np.array([6, 7]),
        "query": np.array([7]),
        "val_classes": np.array(["ass"]),
    }
    split = Split(**own)
    before = getattr(split, part).tolist()
    with pytest.raises(ValueError, match="read-only"):
        getattr(split, part)[0] = getattr(split, part)[0]
    with pytest.raises(FrozenInstanceError):
        setattr(split, part, own[part])
    own[part][:] = "zoo" if part == "val_classes" else 5  # still the caller's to change
    assert getattr(split, part).tolist() == before


@pytest.mark.parametrize("part", POSITIONS)
@pytest.mark.parametrize(
    ("positions", "kind"),
    [
        (np.array([True, False] * 4), "bool"),
        ([0.0, 1.0], "float64"),
        (["0", "1"], "<U1"),
        ([0, None], "object"),
        ({0, 1}, "object"),
    ],
)
def test_masks_floats_and_text_are_no_positions(part, positions, kind):
    assert refusal_of(**{part: positions}) == (
        f"The split `{part}` must hold positions (whole numbers); got {kind}. Pass "
        "np.flatnonzero(mask) for a mask."
    )


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("outside", [-1, 8, -(2**40), 2**40])
def test_a_position_out_of_range_is_named(part, outside):
    assert refusal_of(**{part: [*RIGHT[part], outside]}) == (
        f"The split `{part}` must hold positions from 0 to 7; got {outside}. Subtract 1 if they "
        "count from 1."
    )


@pytest.mark.parametrize("part", PARTS)
def test_a_position_that_comes_twice_is_named(part):
    twice = RIGHT[part][-1]
    assert refusal_of(**{part: [*RIGHT[part], twice]}) == (
        f"The split `{part}` must name each sample once; position {twice} is repeated. Remove the "
        "repetition."
    )


@pytest.mark.parametrize(
    ("changes", "other", "shared"),
    [
        ({"test_seen": [1, 3, 4]}, "test_seen", [3, 4]),
        ({"train": [0, 2, 4, 5]}, "test_seen", [5]),
        ({"train": [0, 2, 4, 7]}, "test_unseen", [7]),
    ],
)
def test_a_sample_for_training_and_for_test_is_refused(changes, other, shared):
    assert refusal_of(**changes) == (
        f"The splits `train` and `{other}` must not share samples; {len(shared)} are in both, the "
        f"first at position {shared[0]}. Remove them from `train`."
    )


def test_a_sample_in_both_test_parts_is_refused_whatever_its_class():
    assert "'ass' are in `train` and in `test_unseen`" in refusal_of(test_unseen=[1, 6, 7])
    assert "'zebra' have no training sample" in refusal_of(test_seen=[1, 5, 6])


def test_a_class_on_both_sides_is_named():
    assert refusal_of(test_seen=[], test_unseen=[1, 5, 6]) == (
        "Unseen classes must have no training samples; 'ass', 'mule' are in `train` and in "
        "`test_unseen`. Move each class to one side."
    )


def test_a_class_of_test_seen_without_a_training_sample_is_named():
    assert refusal_of(train=[0, 2, 3]) == (
        "`test_seen` must hold classes of `train`; 'mule' have no training samples. Move them to "
        "`test_unseen`."
    )


@pytest.mark.parametrize("foreign", ["zebra", "okapi"])  # unseen, and not there at all
def test_a_validation_class_without_a_training_sample_is_named(foreign):
    assert refusal_of(val_classes=["ass", foreign]) == (
        f"Validation classes must be seen; {foreign!r} have no training samples. Choose classes of "
        "`train`."
    )


def test_the_first_three_of_many_classes_are_named():
    assert "'a', 'b', 'c', ... (5 in all) have no training samples" in refusal_of(
        val_classes=[*"edcba"]
    )
    assert "'a', 'b', 'c' have no training sample" in refusal_of(val_classes=[*"cba"])


def test_numbers_are_named_as_plain_numbers():
    labels = np.unique(LABELS, return_inverse=True)[1]
    Split(**RIGHT, val_classes=[0, 2]).check(labels)
    assert "seen; 3, 4 have no training samples" in refusal_of(labels, val_classes=[3, 4])


@pytest.mark.parametrize("stray", [1, 0])
def test_a_query_that_is_no_sample_of_an_unseen_class_is_named(stray):
    assert refusal_of(query=[6, stray]) == (
        f"Queries must be in `test_unseen`; position {stray} is not. Pass positions of samples of "
        "novel classes."
    )


@pytest.mark.parametrize("query", [[6, 6], [-1], [8]])
def test_queries_are_checked_like_all_positions(query):
    assert refusal_of(query=query).startswith("The split `query` must ")


def test_lists_of_unequal_length_are_refused():
    with pytest.raises(DataError, match=r"`train` must hold positions.*unequal length"):
        Split([[0, 1], [2]], [3])
