"""Copies of moments: A0 is shared until either changes, and neither ever changes the other."""

import copy
import pickle

import numpy as np
import pytest
from all_pairs import all_pairs
from libraries import LIBRARIES

from zonkey.bpl.frame import BaseClasses
from zonkey.bpl.moments import Moments
from zonkey.prototypes import Prototypes

RNG = np.random.default_rng(1)
LABELS = ["ass", "horse", "mule", "zebra"]
PROTOTYPES = Prototypes(LABELS, RNG.normal(size=(4, 3)))
X, Y = RNG.normal(size=(60, 5)), np.array(LABELS)[RNG.integers(0, 4, 60)]


def gathered(rows=slice(None), place=np.asarray, **options):
    return Moments(PROTOTYPES, n_reserve=4, **options).update(place(X[rows]), Y[rows])


def snapshot(moments, numpy=np.asarray):
    """Return a copy of all that moments hold, to the last bit."""
    arrays = [numpy(M).tobytes() for M in (moments.A0, moments.class_sums, moments.B0, moments.C0)]
    held = [numpy(moments.samples_of(label)).tobytes() for label in moments.prototypes]
    return arrays, held, moments.counts.tolist()


COPIES = {
    "copy": lambda moments: moments.copy(),
    "with_prototypes": lambda moments: moments.with_prototypes(PROTOTYPES),
    "BaseClasses": lambda moments: BaseClasses(moments).moments,
    "copy of a copy": lambda moments: moments.copy().copy(),
    "to_numpy": lambda moments: moments.to_numpy(),
}
CHANGES = {
    "update": lambda moments, place: moments.update(place(3 * X), Y),
    "update by nothing": lambda moments, place: moments.update(place(X[:0]), []),
    "merge": lambda moments, place: moments.merge(gathered(slice(20), place)),
    "subtract": lambda moments, place: moments.subtract(gathered(slice(20), place)),
    "subtract all": lambda moments, place: moments.subtract(gathered(place=place)),
    "merge itself": lambda moments, _: moments.merge(moments),
    "subtract itself": lambda moments, _: moments.subtract(moments),
}


@pytest.mark.parametrize("how", COPIES)
def test_nothing_is_copied_before_a_change(how):
    moments = gathered()
    same = COPIES[how](moments)
    assert same is not moments
    assert np.shares_memory(moments.A0, same.A0)
    assert snapshot(same) == snapshot(moments) == snapshot(gathered())
    # Reading and adding to others are no changes.
    _ = moments.B0, same.C0, moments + same, moments - same, gathered().merge(same), repr(same)
    assert np.shares_memory(moments.A0, same.A0)


PLACES = [np.asarray, *LIBRARIES]


@all_pairs({"place": PLACES, "how": COPIES, "change": CHANGES, "first": ["original", "copy"]})
def test_a_change_of_either_leaves_the_other(place, how, change, first):
    original = gathered(place=place)
    same = COPIES[how](original)
    places = {id(original): place, id(same): np.asarray if how == "to_numpy" else place}
    assert place is np.asarray or how == "to_numpy" or same.A0 is original.A0

    def numpy(moments):
        own = places[id(moments)]
        return snapshot(moments, np.asarray if own is np.asarray else own.numpy)

    changed, other = (original, same) if first == "original" else (same, original)
    before = numpy(other)
    CHANGES[change](changed, places[id(changed)])
    assert numpy(other) == before
    # Then the other one, which now is on its own or not: both are as if they had always been.
    CHANGES[change](other, places[id(other)])
    for moments in (changed, other):
        alone = gathered(place=place)
        alone = alone if places[id(moments)] is place else alone.to_numpy()
        places[id(alone)] = places[id(moments)]
        assert numpy(moments) == numpy(CHANGES[change](alone, places[id(alone)]))


def test_a_refused_change_copies_nothing():
    original = gathered()
    same = original.copy()
    before = snapshot(original)
    for change in (
        lambda: same.update(X, ["okapi"] * 60),
        lambda: same.update(X[:, :2], Y),
        lambda: same.merge(gathered(seed=5)),
        lambda: same.subtract(original + original),
    ):
        with pytest.raises(ValueError, match=r".+"):
            change()
    assert np.shares_memory(original.A0, same.A0)
    assert snapshot(original) == snapshot(same) == before


def test_equations_stay_after_either_changes():
    moments = gathered()
    base = BaseClasses(moments)
    A0 = base.equations.A0
    kept = A0.copy()
    assert np.shares_memory(A0, moments.A0)
    other = base.moments.copy()
    for each in (moments, other):
        each.update(X, Y)
        np.testing.assert_array_equal(A0, kept)
        assert not np.shares_memory(A0, each.A0)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_deep_copies_and_pickles_share_nothing(again):
    moments = gathered()
    for made_of in (moments, moments.copy()):
        made = again(made_of)
        before = snapshot(made_of)
        assert snapshot(made) == before
        assert not np.shares_memory(made.A0, made_of.A0)
        made.update(X, Y)
        assert snapshot(made_of) == before
