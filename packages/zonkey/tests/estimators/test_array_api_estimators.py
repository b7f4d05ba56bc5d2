"""Estimators on tensors and strict arrays: the answers of NumPy, where the question was asked."""

import numpy as np
import pytest
from all_pairs import all_pairs
from libraries import LIBRARIES, TORCH, in_every_library
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.pipeline import make_pipeline
from transfers import assert_few, counted_transfers

from zonkey import FewShotClassifier, Moments, NearestSupport, Prototypes, ZeroShotClassifier
from zonkey.inference.scorer import best_columns
from zonkey.preprocessing import FeatureNormalizer, WithinClassWhitener
from zonkey.testing import linear_problem

P = linear_problem(n_features=20, noise=0.5)
NAMES = np.array(sorted(P.prototypes))
MATRIX = np.stack([P.prototypes[name] for name in NAMES.tolist()])
NUMBERS = np.arange(len(NAMES)) * 2 + 3
TO_NUMBER = dict(zip(NAMES.tolist(), NUMBERS.tolist(), strict=True))
X, X_NEW = P.X, np.concatenate([P.X_new, P.X[:20]])
Y = np.array([TO_NUMBER[name] for name in P.y.tolist()])
Y_NEW = np.array([TO_NUMBER[name] for name in [*P.y_new.tolist(), *P.y[:20].tolist()]])
WIDE = np.concatenate([MATRIX, MATRIX**2, MATRIX**3], axis=1)  # more columns than classes
CALIBRATED = {"candidates": "all", "seen_penalty": 0.3}

# Every parameter off its default, alone or with those it needs.
WITHOUT_SYNTHESIS = [
    {"synthesis": None},
    {"direction": "forward"},
    {"direction": "reverse", "beta": 0.5},
    {"synthesis": None, "candidates": NUMBERS[[0, 4, 7]].tolist()},
    {"synthesis": None, **CALIBRATED},
    {"direction": "forward", **CALIBRATED},
    {"synthesis": None, "prototypes": None},
    {"synthesis": None, "prototypes": Prototypes(NUMBERS, WIDE)},
]
WITH_SYNTHESIS = [
    {},
    {"competition": "assigned"},
    {"competition": "entropy", "max_iter": 20},
    {"competition": None},
    {"rho": 0.2, "alpha": 0.4, "mu": 0.3},
    {"n_neighbors": 2, "n_synthetic": 30, "synthetic_per": "neighbor", "scaling": None},
    {"max_iter": 2, "tol": 0.0, "tie_tol": 0.1},
    {"prototypes": Prototypes(NUMBERS, WIDE)},
]


def model(**parameters):
    given = {"prototypes": Prototypes(NUMBERS, MATRIX), "random_state": 0, **parameters}
    return ZeroShotClassifier(**given)


def answers(fitted, X_new):
    """Return all that a fitted model says of samples."""
    methods = ("predict", "predict_top", "decision_function", "embed")
    return {
        **{name: getattr(fitted, name)(X_new) for name in methods if hasattr(fitted, name)},
        **({"project": fitted.project(fitted.prototypes_)} if hasattr(fitted, "project") else {}),
    }


def assert_close(got, expected):
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    if expected.dtype.kind == "i":
        assert_array_equal(got, expected)
    else:
        digits = 1e-8 if expected.dtype == np.float64 else 2e-4
        size = np.abs(expected).max(initial=0)
        assert_allclose(got, expected, rtol=digits, atol=digits * size)


def assert_same_answers(fitted, expected, X_new, library, *, but=()):
    wanted = answers(expected, X_new)
    for name, got in answers(fitted, library(X_new)).items():
        if name not in but:
            assert_close(library.numpy(got), wanted[name])


def assert_same_attributes(fitted, expected, library):
    for name, value in vars(expected).items():
        if isinstance(value, np.ndarray):
            assert_close(library.numpy(getattr(fitted, name)), value)
        elif name.endswith("_") and isinstance(value, int | float):
            assert getattr(fitted, name) == pytest.approx(value, rel=1e-5)


def shown(parameters):
    return ", ".join(parameters) or "default"


# The second device of the strict library allows nothing that its first does not.
TORCH_AND_STRICT = [TORCH, LIBRARIES[-1]]


@pytest.mark.parametrize(
    ("library", "dtype"),
    [(TORCH, "float64"), (TORCH, "float32"), (LIBRARIES[-1], "float64")],
    ids=str,
)
@pytest.mark.parametrize("parameters", [*WITHOUT_SYNTHESIS, *WITH_SYNTHESIS], ids=shown)
def test_fits_and_answers_are_those_of_numpy(library, dtype, parameters):
    expected = model(**parameters).fit(X.astype(dtype), Y)
    rows, y, rows_new, y_new = (
        library(M) for M in (X.astype(dtype), Y, X_NEW.astype(dtype), Y_NEW)
    )
    with counted_transfers() as transfers:
        fitted = model(**parameters).fit(rows, y)
        answers(fitted, rows_new)
        if parameters.get("candidates") == "all":
            fitted.score(rows_new, y_new, sample_weight=rows_new[:, 0] ** 2)
            fitted.with_candidates("unseen").predict(rows_new)
    assert_few(transfers, 2 * len(Y))  # of samples, a hash and two numbers each
    assert_same_attributes(fitted, expected, library)
    assert_same_answers(fitted, expected, X_NEW.astype(dtype), library)


@in_every_library
def test_the_score_is_that_of_numpy(library):
    expected = model(synthesis=None, candidates="all").fit(X, Y)
    fitted = model(synthesis=None, candidates="all").fit(library(X), library(Y))
    weight = np.linspace(0, 2, len(Y_NEW))
    for weights in (None, weight):
        wanted = expected.score(X_NEW, Y_NEW, sample_weight=weights)
        assert 0.3 < wanted < 1
        for y in (Y_NEW, library(Y_NEW), library(Y_NEW.astype(np.float32))):
            for placed in (weights, None if weights is None else library(weights)):
                got = fitted.score(library(X_NEW), y, sample_weight=placed)
                assert got == pytest.approx(wanted, rel=1e-12)
    with pytest.raises(ValueError, match=r"None of the labels to score, 4, 6, .*is a candidate"):
        fitted.score(library(X_NEW), library(Y_NEW + 1))


@in_every_library
def test_names_come_as_numpy_arrays_and_numbers_of_the_host_are_welcome(library):
    named = Prototypes(NAMES, MATRIX)
    expected = model(prototypes=named, synthesis=None).fit(X, P.y)
    fitted = model(prototypes=named, synthesis=None).fit(library(X), P.y)
    assert_array_equal(fitted.predict(library(X_NEW)), expected.predict(X_NEW))
    assert_array_equal(fitted.predict_top(library(X_NEW), 3), expected.predict_top(X_NEW, 3))
    for name in ("classes_", "seen_classes_", "unseen_classes_"):
        assert_array_equal(getattr(fitted, name), getattr(expected, name))
    assert fitted.score(library(P.X_new), P.y_new) == expected.score(P.X_new, P.y_new)
    for y in (Y, Y.tolist()):
        of_numbers = model(synthesis=None).fit(library(X), y)
        assert_same_attributes(of_numbers, model(synthesis=None).fit(X, Y), library)


@in_every_library
def test_a_model_answers_where_it_is_asked(library):
    """W is small: it goes to the samples, whichever library it was learned in."""
    here = model(synthesis=None, candidates="all").fit(X, Y)
    assert_same_answers(here, here, X_NEW, library, but=["project"])
    there = model(synthesis=None, candidates="all").fit(library(X), library(Y))
    for other in (np.asarray, *LIBRARIES):
        got = answers(there, other(X_NEW))
        for name, wanted in answers(here, X_NEW).items():
            if name != "project":  # which has no samples to follow
                value = got[name] if other is np.asarray else other.numpy(got[name])
                assert_close(value, wanted)


@in_every_library
def test_classes_and_candidates_are_changed_as_in_numpy(library):
    known = Prototypes(NUMBERS[:-1], MATRIX[:-1])
    new = Prototypes(NUMBERS[-1:], MATRIX[-1:])
    expected = model(prototypes=known, synthesis=None).fit(X[NUMBERS[-1] != Y], Y[NUMBERS[-1] != Y])
    fitted = model(prototypes=known, synthesis=None)
    fitted.fit(library(X[NUMBERS[-1] != Y]), library(Y[NUMBERS[-1] != Y]))
    for change in (
        lambda model: model.with_classes(new),
        lambda model: model.with_candidates("all"),
        lambda model: model.with_candidates(NUMBERS[:3].tolist()),
    ):
        assert_same_attributes(change(fitted), change(expected), library)
        assert_same_answers(change(fitted), change(expected), X_NEW, library)


@in_every_library
def test_unlabeled_samples_may_be_on_a_device(library):
    expected = model().fit_transductive(X, Y, P.X_new)
    fitted = model().fit_transductive(library(X), library(Y), library(P.X_new))
    assert_same_attributes(fitted, expected, library)
    moments = fitted.gather(library(X), library(Y))  # which are as good as samples
    assert_same_attributes(fitted.fit_moments(moments), model().fit(X, Y), library)


@all_pairs({"library": LIBRARIES, "reference": ["sample", "mean"], "dtype": ["float64", "float32"]})
def test_nearest_support_is_that_of_numpy(library, reference, dtype):
    rows = X.astype(dtype)
    expected = NearestSupport(reference).fit(rows, Y)
    fitted = NearestSupport(reference).fit(library(rows), library(Y))
    assert_same_attributes(fitted, expected, library)
    assert_same_answers(fitted, expected, P.X_new.astype(dtype), library)
    assert fitted.score(library(rows), library(Y)) == pytest.approx(expected.score(rows, Y))
    named = NearestSupport(reference).fit(library(rows), P.y)
    assert_array_equal(
        named.predict(library(rows)), NAMES[np.searchsorted(NUMBERS, expected.predict(rows))]
    )


@all_pairs(
    {
        "library": LIBRARIES,
        "k": [1, 3, 16, 17, 20],
        "values": [np.array([0.0, 1.0]), np.array([-np.inf, 0.0, 1.0]), None],
    }
)
def test_the_best_columns_are_those_of_numpy(library, k, values):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(50, 20)) if values is None else rng.choice(values, (50, 20))
    placed = library(scores)
    assert_array_equal(library.numpy(best_columns(placed, k)), best_columns(scores, k))
    assert_array_equal(library.numpy(placed), scores)


@pytest.mark.parametrize("library", TORCH_AND_STRICT, ids=repr)
@pytest.mark.parametrize(
    "parameters", [{}, {"synthesis": "base"}, {"base_samples_per_class": 1}], ids=shown
)
def test_few_shots_leave_samples_and_projections_where_they_are(library, parameters):
    known = model().prototypes
    base = Moments.from_arrays(library(X), library(Y), known)
    novel = np.setdiff1d(known.labels, Y)
    y_few = np.repeat(novel, 2)
    rows = np.random.default_rng(0).normal(size=(len(y_few), X.shape[1]))
    few = FewShotClassifier(known, base=base, random_state=0, n_episodes=2, **parameters)
    tasks = [(library(rows), library(y_few)), (library(-rows), library(y_few))]
    with counted_transfers() as transfers:
        few.fit(*tasks[0]).predict(library(rows))
        for one in few.fit_tasks(tasks):
            one.decision_function(library(rows))
    # B0 and what is counted by class, but nothing of the size of a sample.
    assert_few(transfers, len(known) ** 2)


@in_every_library
def test_nearest_support_and_a_pipeline_leave_samples_where_they_are(library):
    rows, y, rows_new = (library(M) for M in (X, Y, X_NEW))
    steps = [FeatureNormalizer(0.5, True), WithinClassWhitener(), model(synthesis=None)]
    with counted_transfers() as transfers:
        NearestSupport().fit(rows, y).predict(rows_new)
        got = make_pipeline(*steps).fit(rows, y).decision_function(rows_new)
    assert_few(transfers, len(NAMES) + 1)
    expected = make_pipeline(*steps).fit(X, Y).decision_function(X_NEW)
    assert_close(library.numpy(got), expected)


@pytest.mark.parametrize(
    ("rows", "y", "message"),
    [
        (X[0], Y, "X must be a matrix"),
        (X[:0], Y[:0], "at least one sample; got none"),
        (np.where(np.arange(20) == 3, np.inf, X), Y, "must be finite"),
        (X, Y[:-1], "one label for each of the 72 samples; got 71"),
        (X, Y + 0.5, "must hold classes; got numbers that are not whole"),
        (X, Y[:, None], "y must be 1-dimensional"),
        (X, Y + 1, "No prototype for the class"),
    ],
)
@in_every_library
def test_bad_samples_are_refused_in_one_line(library, rows, y, message):
    with pytest.raises(ValueError, match=message) as refusal:
        model(synthesis=None).fit(library(rows), library(y))
    assert "\n" not in str(refusal.value)


@in_every_library
def test_what_only_the_host_can_do_is_refused(library):
    with pytest.raises(ValueError, match=r"chosen on the host; got samples in .*pass a number"):
        model(seen_penalty="auto", candidates="all").fit(library(X), library(Y))
    with pytest.raises(ValueError, match="a label for each sample; got None"):
        model().fit(library(X), None)


@in_every_library
def test_the_number_of_features_is_kept_and_their_names_are_dropped(library):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=[f"feature {j}" for j in range(20)])
    fitted = model(synthesis=None).fit(frame, Y)
    assert hasattr(fitted, "feature_names_in_")
    fitted.fit(library(X), library(Y))
    assert not hasattr(fitted, "feature_names_in_")
    assert fitted.n_features_in_ == 20
    with pytest.raises(ValueError, match=r"the 20 features that ZeroShotClassifier .*; got 19"):
        fitted.predict(library(X[:, 1:]))
