"""Moments of tensors and of strict arrays: the same numbers and samples as NumPy's, in place."""

import numpy as np
import pytest
import torch
from all_pairs import all_pairs
from libraries import LIBRARIES, TORCH, in_every_library
from numpy.testing import assert_allclose, assert_array_equal
from transfers import assert_few, counted_transfers

from zonkey.bpl.moments import Moments
from zonkey.bpl.projection import NormalEquations
from zonkey.config import config_context
from zonkey.prototypes import Prototypes

RNG = np.random.default_rng(0)
N, D, M, K = 400, 30, 9, 5
MATRIX = RNG.normal(size=(M, K))
CODES = RNG.integers(0, M - 2, N)
X = (RNG.normal(size=(N, D)) + CODES[:, None]).astype(np.float32).astype(np.float64)
NUMBERS = np.arange(M) * 3 - 4
NAMES = np.array([f"class {j}" for j in range(M)])
MIXED = r"one array library and on one device; got .*to_numpy"
OPTIONS = {"n_reserve": 6, "seed": 3}


def prototypes(labels=NUMBERS):
    return Prototypes(labels, MATRIX)


def gathered(X, y, labels=NUMBERS, **options):
    return Moments.from_arrays(X, y, prototypes(labels), **{**OPTIONS, **options})


def assert_close(got, wanted):
    assert_allclose(got, wanted, rtol=0, atol=1e-11 * max(1, np.abs(wanted).max()))


def assert_same(moments, expected, library):
    """Compare sums to rounding, and counts and kept samples exactly."""
    for name in ("A0", "B0", "C0", "class_sums"):
        wanted = getattr(expected, name)
        got = library.numpy(getattr(moments, name))
        assert got.dtype == np.float64
        assert_close(got, wanted)
    assert_array_equal(moments.counts, expected.counts)
    assert type(moments.counts) is np.ndarray
    for label in expected.prototypes.labels.tolist():
        wanted = expected.samples_of(label)
        got = library.numpy(moments.samples_of(label))
        assert_array_equal(got, wanted)
        if len(wanted):
            assert got.dtype == wanted.dtype


@all_pairs(
    {
        "library": LIBRARIES,
        "dtype": ["float32", "float64", "int64"],
        "chunks": [[], [1, 7, 150, 150]],
    }
)
def test_moments_are_those_of_numpy(library, dtype, chunks):
    rows, y = (X * 100).astype(dtype), NUMBERS[CODES]
    expected = gathered(rows, y)
    moments = Moments(prototypes(), **OPTIONS)
    with config_context(working_memory=0.05):
        for part in np.split(np.arange(N), chunks):
            moments.update(library(rows[part]), library(y[part]))
    assert_same(moments, expected, library)
    equations = NormalEquations.from_moments(moments)
    assert_close(library.numpy(equations.factor.values), np.linalg.eigvalsh(expected.A0))


@in_every_library
@pytest.mark.parametrize("kind", ["text", "list", "host", "narrow", "float", "column"])
def test_labels_may_be_text_or_numbers_of_any_place_and_dtype(library, kind):
    y = (NAMES if kind == "text" else NUMBERS)[CODES]
    given = {
        "text": y,
        "list": y.tolist(),
        "host": y,
        "narrow": library(NUMBERS[CODES].astype(np.int8)),
        "float": library(NUMBERS[CODES].astype(np.float32)),
        "column": library(np.stack([CODES, NUMBERS[CODES]], axis=1))[:, 1],
    }[kind]
    labels = NAMES if kind == "text" else NUMBERS
    assert_same(gathered(library(X), given, labels), gathered(X, y, labels), library)


@in_every_library
def test_adding_removing_and_renaming_are_those_of_numpy(library):
    y = NUMBERS[CODES]
    gone = (RNG.random(N) < 0.5) | (CODES == 2)
    results = {}
    for place in (library, np.asarray):
        whole, part = gathered(place(X), place(y)), gathered(place(X[gone]), place(y[gone]))
        other = gathered(place(X * 2), place(y))
        results[place] = {
            "copy": whole.copy(),
            "sum": whole + other,
            "difference": whole - part,
            "nothing": part - part,
            "refilled": (whole - part) + other,
            "renamed": whole.with_prototypes(Prototypes(NUMBERS[::-1][2:], MATRIX[2:] * 2)),
            "empty": Moments(prototypes(), **OPTIONS) + whole,
            "and empty": whole + Moments(prototypes(), **OPTIONS),
        }
    for name, moments in results[library].items():
        assert_same(moments, results[np.asarray][name], library)


@in_every_library
def test_moments_come_to_the_host_on_request_and_in_a_file(library, tmp_path):
    moments = gathered(library(X), library(NUMBERS[CODES]))
    moments.save(tmp_path / "moments.moments")
    expected = gathered(X, NUMBERS[CODES])
    for here in (moments.to_numpy(), Moments.load(tmp_path / "moments.moments")):
        assert type(here.A0) is np.ndarray
        assert_allclose(here.A0, expected.A0, rtol=1e-12)
        assert_allclose(here.class_sums, expected.class_sums, rtol=1e-12, atol=1e-12)
        for label in NUMBERS.tolist():
            assert_array_equal(here.samples_of(label), expected.samples_of(label))
        here.update(X, NUMBERS[CODES])  # and go on there


@in_every_library
def test_samples_stay_on_the_device(library):
    rows, y = library(X), library(NUMBERS[CODES])
    with counted_transfers() as transfers:
        moments = gathered(rows, y).update(rows, y)
        moments = (moments - gathered(rows, y)).with_prototypes(prototypes())
        NormalEquations.from_moments(moments)
        moments.samples_of(NUMBERS[0])
    assert_few(transfers, 2 * N)  # priorities and ends of rows


@in_every_library
def test_libraries_do_not_mix(library):
    y = NUMBERS[CODES]
    moments = gathered(library(X), library(y))
    for other in (np.asarray, *(other for other in LIBRARIES if other is not library)):
        with pytest.raises(ValueError, match=MIXED):
            moments.update(other(X), other(y))
        with pytest.raises(ValueError, match=MIXED):
            moments.merge(gathered(other(X), other(y)))
    assert moments.n_samples == N


@in_every_library
def test_labels_on_the_device_serve_samples_of_the_host(library):
    moments = gathered(X, library(NUMBERS[CODES]))
    assert_array_equal(moments.A0, gathered(X, NUMBERS[CODES]).A0)


@in_every_library
@pytest.mark.parametrize(
    ("rows", "y", "message"),
    [
        (X[0], NUMBERS[CODES], "must be a matrix"),
        (np.where(np.arange(D) == 4, np.nan, X), NUMBERS[CODES], "must be finite"),
        (X > 0, NUMBERS[CODES], "must be finite numbers; got dtype"),
        (X, NUMBERS[CODES][1:], f"one row per sample; got {N} and {N - 1}"),
        (X, NUMBERS[CODES] + 1, r"No prototype for the class -3, 0, .*Add the missing"),
        (X, np.where(CODES == 3, np.nan, CODES), "must not be missing"),
        (X, NUMBERS[CODES][:, None], "1-dimensional; got shape"),
    ],
)
def test_bad_data_is_refused_and_changes_nothing(library, rows, y, message):
    moments = Moments(prototypes(), **OPTIONS)
    with pytest.raises(ValueError, match=message):
        moments.update(library(rows), library(y))
    assert moments.n_samples == 0
    with pytest.raises(ValueError, match="no samples yet"):
        _ = moments.A0


@in_every_library
def test_numbers_are_no_labels_where_prototypes_have_names(library):
    with pytest.raises(ValueError, match=r"of one kind.*labels like .*prototypes like"):
        gathered(library(X), library(NUMBERS[CODES]), NAMES)


def test_no_gradient_is_recorded():
    rows = TORCH(X).requires_grad_()
    moments = gathered(rows, TORCH(NUMBERS[CODES]))
    assert not moments.A0.requires_grad
    assert not moments.samples_of(NUMBERS[0]).requires_grad


def test_the_counter_counts_every_way_to_the_host():
    tensor = torch.arange(3.0)
    ways = [
        *(lambda: tensor.cpu(), lambda: tensor.numpy(), lambda: tensor.tolist()),
        *(lambda: tensor.to("cpu"), lambda: tensor.to(device=torch.device("cpu"))),
        *(lambda: np.asarray(tensor), lambda: np.from_dlpack(tensor)),
        *(lambda: tensor[0].item(), lambda: float(tensor[0])),
        *(lambda: bool(tensor[1] > 0), lambda: int(tensor[2]), lambda: [1, 2, 3][tensor[1].long()]),
    ]
    for number, way in enumerate(ways):
        with counted_transfers() as transfers:
            way()
        assert max(size for size, _ in transfers) == (3 if number < 7 else 1)
    with counted_transfers() as transfers:
        assert tensor.to(torch.float64).dtype == torch.float64
    assert transfers == []
