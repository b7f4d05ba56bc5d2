from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from refusals import refusal

from zonkey.files.dataset import PARTS, Split

LABELS = np.array(["ass", "ass", "horse", "horse", "mule", "mule", "zebra", "zebra"])
RIGHT = {"train": [0, 2, 3, 4], "test_seen": [1, 5], "test_unseen": [6, 7]}
POSITIONS = (*PARTS, "query")


def refusal_of(labels=LABELS, **changes):
    """Return the one line that a split is refused with, at once or when it meets the labels."""
    return refusal(lambda: Split(**{**RIGHT, **changes}).check(labels))


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


MASK = "must hold positions (whole numbers); got {}. Pass np.flatnonzero(mask) for a mask."
RANGE = "must hold positions from 0 to 7; got {}. Subtract 1 if they count from 1."
TWICE = "must name each sample once; position {} is repeated. Remove the repetition."
SHARED = (
    "The splits `train` and `{}` must not share samples; {} are in both, the first at position {}. "
    "Remove them from `train`."
)
NEITHER = "{} have no training samples"
REFUSED = [
    *(({part: [0.0, 1.0]}, f"`{part}` {MASK.format('float64')}") for part in POSITIONS),
    ({"train": np.array([True, False] * 4)}, MASK.format("bool")),
    ({"train": ["0", "1"]}, MASK.format("<U1")),
    ({"train": [0, None]}, MASK.format("object")),
    ({"train": {0, 1}}, MASK.format("object")),
    ({"train": [[0, 1], [2]]}, "unequal length"),
    *(({part: [*RIGHT[part], 8]}, f"`{part}` {RANGE.format(8)}") for part in PARTS),
    ({"train": [0, -1]}, RANGE.format(-1)),
    ({"train": [0, 2**40]}, RANGE.format(2**40)),
    *(
        ({part: [*RIGHT[part], RIGHT[part][-1]]}, f"`{part}` {TWICE.format(RIGHT[part][-1])}")
        for part in PARTS
    ),
    ({"test_seen": [1, 3, 4]}, SHARED.format("test_seen", 2, 3)),
    ({"train": [0, 2, 4, 5]}, SHARED.format("test_seen", 1, 5)),
    ({"train": [0, 2, 4, 7]}, SHARED.format("test_unseen", 1, 7)),
    ({"test_unseen": [1, 6, 7]}, "'ass' are in `train` and in `test_unseen`"),
    ({"test_seen": [1, 5, 6]}, f"'zebra' {NEITHER.format('')[1:]}"),
    (
        {"test_seen": [], "test_unseen": [1, 5, 6]},
        "Unseen classes must have no training samples; 'ass', 'mule' are in `train` and in "
        "`test_unseen`. Move each class to one side.",
    ),
    (
        {"train": [0, 2, 3]},
        "`test_seen` must hold classes of `train`; 'mule' have no training samples. Move them to "
        "`test_unseen`.",
    ),
    ({"val_classes": ["ass", "zebra"]}, f"must be seen; {NEITHER.format(repr('zebra'))}. Choose"),
    ({"val_classes": ["ass", "okapi"]}, f"must be seen; {NEITHER.format(repr('okapi'))}. Choose"),
    ({"val_classes": [*"edcba"]}, NEITHER.format("'a', 'b', 'c', ... (5 in all)")),
    ({"val_classes": [*"cba"]}, NEITHER.format("'a', 'b', 'c'")),
    ({"query": [6, 1]}, "Queries must be in `test_unseen`; position 1 is not. Pass positions of"),
    ({"query": [6, 0]}, "position 0 is not."),
    ({"query": [6, 6]}, "The split `query` must "),
    ({"query": [-1]}, "The split `query` must "),
]


@pytest.mark.parametrize(("changes", "words"), REFUSED)
def test_what_is_no_split_is_refused_in_one_line(changes, words):
    assert words in refusal_of(**changes)


def test_numbers_are_named_as_plain_numbers():
    labels = np.unique(LABELS, return_inverse=True)[1]
    Split(**RIGHT, val_classes=[0, 2]).check(labels)
    assert "seen; 3, 4 have no training samples" in refusal_of(labels, val_classes=[3, 4])
