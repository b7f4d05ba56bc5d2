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
# What each change makes of moments that share nothing with any others.
ALONE = {name: snapshot(change(gathered(), np.asarray)) for name, change in CHANGES.items()}


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


@all_pairs({"how": COPIES, "change": CHANGES, "first": ["original", "copy"]})
def test_a_change_of_either_leaves_the_other(how, change, first):
    original = gathered()
    same = COPIES[how](original)
    changed, other = (original, same) if first == "original" else (same, original)
    before = snapshot(other)
    A0 = other.A0
    CHANGES[change](changed, np.asarray)
    assert snapshot(other) == before
    assert np.shares_memory(other.A0, A0)
    assert snapshot(changed) == ALONE[change]
    # Then the other one, which now is on its own or not: both are as if they had always been.
    CHANGES[change](other, np.asarray)
    assert snapshot(changed) == snapshot(other) == ALONE[change]


@all_pairs({"library": LIBRARIES, "change": CHANGES, "how": COPIES, "first": ["original", "copy"]})
def test_so_it_is_on_devices(library, how, change, first):
    original = gathered(place=library)
    same = COPIES[how](original)
    here = how == "to_numpy"
    if not here:
        assert same.A0 is original.A0
    changed, other = (original, same) if first == "original" else (same, original)
    takes = [np.asarray if here and m is same else library.numpy for m in (changed, other)]
    place = np.asarray if here and changed is same else library
    before = snapshot(other, takes[1])
    CHANGES[change](changed, place)
    assert snapshot(other, takes[1]) == before
    expected = CHANGES[change](gathered(place=place), place)
    for name in ("A0", "class_sums"):
        got, wanted = (takes[0](getattr(m, name)) for m in (changed, expected))
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-12)
    assert changed.counts.tolist() == expected.counts.tolist()


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


def test_base_classes_keep_what_they_were_given():
    moments = gathered()
    expected = BaseClasses(gathered()).equations
    base = BaseClasses(moments)
    moments.update(2 * X, Y).subtract(gathered(slice(20)))
    # Their equations are made when first asked for: not of what moments are by then.
    for name in ("A0", "B0", "C0"):
        np.testing.assert_array_equal(getattr(base.equations, name), getattr(expected, name))
    moments.update(X, Y)
    np.testing.assert_array_equal(base.equations.A0, expected.A0)


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


@pytest.mark.parametrize("change", CHANGES)
def test_without_their_scatter_copies_are_independent_too(change):
    def without(place):
        return Moments(PROTOTYPES, n_reserve=4, scatter=False).update(place(X), Y)

    original = without(np.asarray)
    same = original.copy()
    before = same.class_sums.tobytes(), same.counts.tolist()
    if change.startswith("update") or change.endswith("itself"):
        CHANGES[change](original, np.asarray)
    else:
        getattr(original, change.split()[0])(without(np.asarray))
    assert (same.class_sums.tobytes(), same.counts.tolist()) == before
