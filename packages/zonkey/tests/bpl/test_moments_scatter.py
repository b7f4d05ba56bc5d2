"""Moments without their scatter: all but A0 is what it is with it, and A0 is refused."""

import numpy as np
import pytest
from all_pairs import all_pairs
from libraries import LIBRARIES
from safetensors.numpy import load_file

from zonkey.bpl.frame import BaseClasses
from zonkey.bpl.moments import Moments
from zonkey.bpl.projection import NormalEquations, directed_projection
from zonkey.prototypes import Prototypes

RNG = np.random.default_rng(0)
LABELS = ["ass", "horse", "mule", "zebra"]
PROTOTYPES = Prototypes(LABELS, RNG.normal(size=(4, 3)))
X, Y = RNG.normal(size=(90, 5)), np.array(LABELS)[RNG.integers(0, 3, 90)]
OPTIONS = {"n_reserve": 4, "seed": 2}
OTHERS = {**{label: [float(len(label))] for label in LABELS}, "emu": [1.0]}
REFUSED = r"^A0 needs moments with their scatter; .*scatter=False\. Compute them again with"


def gathered(scatter, rows=slice(None), place=np.asarray):
    moments = Moments(PROTOTYPES, scatter=scatter, **OPTIONS)
    return moments.update(place(X[rows]), Y[rows])


def assert_same_without_scatter(got, expected, numpy=np.asarray):
    """Compare everything but A0 to the last bit, and see that A0 is refused."""
    assert (got.scatter, expected.scatter) == (False, True)
    for name in ("B0", "C0", "class_sums"):
        np.testing.assert_array_equal(numpy(getattr(got, name)), numpy(getattr(expected, name)))
    np.testing.assert_array_equal(got.counts, expected.counts)
    assert got.prototypes == expected.prototypes
    assert (got.n_samples, got.n_features) == (expected.n_samples, expected.n_features)
    assert repr(got) == repr(expected)
    for label in got.prototypes.labels:
        kept = numpy(got.samples_of(label)), numpy(expected.samples_of(label))
        np.testing.assert_array_equal(*kept)
    with pytest.raises(ValueError, match=REFUSED) as error:
        _ = got.A0
    assert "\n" not in str(error.value)


DERIVED = {
    "updated": lambda whole, _, place: whole.copy().update(place(2 * X), Y),
    "sum": lambda whole, part, _: whole + part,
    "difference": lambda whole, part, _: whole - part,
    "emptied": lambda whole, *_: whole - whole,
    "refilled": lambda whole, part, _: (whole - part) + part,
    "renamed": lambda whole, *_: whole.with_prototypes(OTHERS),
    "onto nothing": lambda whole, *_: Moments(PROTOTYPES, **whole._options) + whole,
    "and nothing": lambda whole, *_: whole + Moments(PROTOTYPES, **whole._options),
}


@all_pairs({"place": [np.asarray, *LIBRARIES], "how": DERIVED})
def test_all_but_the_scatter_stays_the_same(place, how):
    numpy = np.asarray if place is np.asarray else place.numpy
    wholes, found = [gathered(scatter, place=place) for scatter in (False, True)], []
    before = numpy(wholes[0].class_sums).copy()
    for whole in wholes:
        found.append(DERIVED[how](whole, gathered(whole.scatter, slice(30), place), place))
    assert_same_without_scatter(*found, numpy)
    assert_same_without_scatter(*(moments.to_numpy() for moments in found))
    np.testing.assert_array_equal(numpy(wholes[0].class_sums), before)  # of which those are copies


def test_it_is_refused_before_there_is_any_sample():
    fresh = Moments(PROTOTYPES, scatter=False)
    with pytest.raises(ValueError, match=REFUSED):
        _ = fresh.A0
    with pytest.raises(ValueError, match="no samples yet"):
        _ = fresh.class_sums
    assert fresh.copy().merge(fresh).subtract(fresh).n_samples == 0


@pytest.mark.parametrize("how", ["plain", "subtracted", "no samples"])
def test_a_file_holds_all_but_the_scatter(how, tmp_path):
    got, expected = (
        {
            "plain": lambda s=scatter: gathered(s),
            "subtracted": lambda s=scatter: gathered(s) - gathered(s, slice(30)),
            "no samples": lambda s=scatter: gathered(s, slice(0)),
        }[how]()
        for scatter in (False, True)
    )
    got.save(tmp_path / "moments.moments")
    assert "A0" not in load_file(tmp_path / "moments.moments")
    again = Moments.load(tmp_path / "moments.moments")
    assert_same_without_scatter(again, expected)
    # And it continues as the original does.
    assert_same_without_scatter(again.update(-X, Y), expected.copy().update(-X, Y))


@all_pairs(
    {"method": ["merge", "subtract", "__add__"], "own": [True, False], "filled": [True, False]}
)
def test_moments_with_and_without_are_not_combined(method, own, filled):
    moments = gathered(own)
    other = gathered(not own) if filled else Moments(PROTOTYPES, scatter=not own, **OPTIONS)
    said = rf"same `n_reserve`, `seed` and `scatter`; got \[4, 2, {own}\] and \[4, 2, {not own}\]"
    before = moments.counts.copy(), moments.class_sums.copy()
    with pytest.raises(ValueError, match=said):
        getattr(moments, method)(other)
    for got, expected in zip((moments.counts, moments.class_sums), before, strict=True):
        np.testing.assert_array_equal(got, expected)


def test_equations_need_it_in_the_forward_direction_only():
    without, whole = (NormalEquations.from_moments(gathered(scatter)) for scatter in (False, True))
    np.testing.assert_array_equal(without.B0, whole.B0)
    np.testing.assert_array_equal(without.C0, whole.C0)
    expected = directed_projection(whole, 0.3, 0.0).value
    np.testing.assert_array_equal(directed_projection(without, 0.3, 0.0).value, expected)
    Y_u = RNG.normal(size=(2, 3))
    frames = [BaseClasses(gathered(s)).frame(Y_u, rotate=False) for s in (False, True)]
    found = [frame.lift(directed_projection(frame.equations, 0.2, 0.0).value) for frame in frames]
    np.testing.assert_array_equal(*found)
    for ask in (
        lambda: without.A0,
        lambda: without.factor,
        lambda: directed_projection(without, 0.3, 0.5),
        lambda: BaseClasses(gathered(False)).frame(Y_u),
    ):
        with pytest.raises(ValueError, match=REFUSED):
            ask()
