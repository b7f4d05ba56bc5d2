"""AnyShotClassifier learns on: more samples, more classes, fewer classes, weighted samples."""

import numpy as np
import pytest
from any_shot_cases import GIVEN, LABELS, PROTOTYPES, SEEN, UNSEEN, X_NEW, X, Y, fitted, world
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refused
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import StandardScaler

from zonkey import AnyShotClassifier

RNG = np.random.default_rng(21)
# Samples of old classes, of an unseen one, of one without prototype, and of an unknown one.
MORE_Y = RNG.permutation(["ant", "ant", "fox", "bee", "bee", "dog", "yak", "yak", "cow"])
MORE_X = 2 * RNG.normal(size=(len(MORE_Y), 6))
ALL_X, ALL_Y = np.concatenate([X, MORE_X]), np.concatenate([Y, MORE_Y])


def same(model, other):
    """Compare everything that is public, to 1e-10."""
    assert_array_equal(model.classes_, other.classes_)
    assert_array_equal(model.seen_classes_, other.seen_classes_)
    assert_array_equal(model.unseen_classes_, other.unseen_classes_)
    assert model.prototypes_ == other.prototypes_
    assert_allclose(model.centers_, other.centers_, rtol=1e-10, atol=1e-10)
    expected = other.decision_function(X_NEW)
    assert_allclose(model.decision_function(X_NEW), expected, rtol=1e-10, atol=1e-10)
    expected = other.predict_proba(X_NEW)
    assert_allclose(model.predict_proba(X_NEW), expected, rtol=1e-9, atol=1e-12)
    assert_allclose(model.project(PROTOTYPES), other.project(PROTOTYPES), rtol=1e-9, atol=1e-10)
    assert_allclose(model.embed(X_NEW), other.embed(X_NEW), rtol=1e-9, atol=1e-10)


def chunks(n, seed):
    """Return positions in some order, cut into three parts."""
    order = np.random.default_rng(seed).permutation(n)
    return np.split(order, [n // 4, n // 2])


PREPROCESSING = {"none": None, "given": StandardScaler(), "auto": "auto"}


@pytest.mark.parametrize("preprocessing", PREPROCESSING)
@pytest.mark.parametrize("seed", range(3))
def test_partial_fit_is_a_fit_on_all_samples(preprocessing, seed):
    model = fitted(preprocessing=PREPROCESSING[preprocessing])
    frozen = model.preprocessing_ and FrozenEstimator(model.preprocessing_)
    for rows in chunks(len(MORE_Y), seed):
        assert model.partial_fit(MORE_X[rows], MORE_Y[rows]) is model
    same(model, fitted(ALL_X, ALL_Y, preprocessing=frozen))


@pytest.mark.filterwarnings("ignore:At least two classes with samples")
@pytest.mark.parametrize("seed", range(3))
def test_partial_fit_from_the_first_sample_on(seed):
    """All samples of some classes come later; the first chunk has one class only."""
    order = np.argsort(ALL_Y != "ant", kind="stable")
    order[7:] = np.random.default_rng(seed).permutation(order[7:])
    model = AnyShotClassifier(PROTOTYPES, **GIVEN)
    model.partial_fit(ALL_X[order[:4]], ALL_Y[order[:4]])
    same(model, fitted(ALL_X[order[:4]], ALL_Y[order[:4]]))
    for rows in np.split(order[4:], [3, 10]):
        model.partial_fit(ALL_X[rows], ALL_Y[rows])
    same(model, fitted(ALL_X, ALL_Y))


def test_partial_fit_with_everything_auto_keeps_what_was_chosen():
    drawn = world(3, n_classes=14)
    rows, y = drawn.draw(np.arange(10), 6)
    more, y_more = drawn.draw([0, 3, 11, 12], 3)
    model = AnyShotClassifier(drawn.prototypes, candidates="all").fit(rows, y)
    frozen = FrozenEstimator(model.preprocessing_)
    kept = {**model.best_params_, "preprocessing": frozen}
    expected = AnyShotClassifier(drawn.prototypes, candidates="all", **kept)
    expected.fit(np.concatenate([rows, more]), np.concatenate([y, y_more]))
    worth, penalty = model.worth_, model.seen_penalty_
    model.partial_fit(more, y_more)
    assert (model.worth_, model.seen_penalty_) == (worth, penalty)
    assert_allclose(model.centers_, expected.centers_, rtol=1e-10, atol=1e-10)
    scores = expected.decision_function(more)
    assert_allclose(model.decision_function(more), scores, rtol=1e-10, atol=1e-10)


def test_partial_fit_of_weighted_samples():
    weights = np.random.default_rng(5).integers(0, 3, len(MORE_Y))
    model = fitted().partial_fit(MORE_X, MORE_Y, sample_weight=weights)
    kept = np.unique(MORE_Y[weights > 0])
    expected = fitted().partial_fit(np.repeat(MORE_X, weights, axis=0), np.repeat(MORE_Y, weights))
    assert_array_equal(np.intersect1d(model.classes_, kept), kept)
    rows = np.isin(model.classes_, expected.classes_)
    assert_allclose(model.centers_[rows], expected.centers_, rtol=1e-10)


def test_a_new_class_whose_samples_weigh_nothing_is_not_learned():
    model = fitted().partial_fit(X_NEW[:2], ["yak", "ant"], sample_weight=[0.0, 1.0])
    assert_array_equal(model.classes_, LABELS)
    assert np.isfinite(model.centers_).all()


def test_partial_fit_without_a_fit_is_one():
    chosen = AnyShotClassifier(PROTOTYPES, candidates="all")
    same(clone(chosen).partial_fit(X, Y), clone(chosen).fit(X, Y))
    weights = np.random.default_rng(0).uniform(0.5, 2, len(Y))
    weighted = clone(chosen).partial_fit(X, Y, sample_weight=weights)
    same(weighted, clone(chosen).fit(X, Y, weights))


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [
        ("unseen", [*UNSEEN, "yak"]),
        ("all", [*LABELS, "yak"]),
        (["ant", "bee"], ["ant", "bee", "yak"]),
    ],
    ids=str,
)
def test_candidates_stay_and_new_classes_join(candidates, expected):
    model = fitted(candidates=candidates).partial_fit(MORE_X, MORE_Y)
    assert_array_equal(model.classes_, expected)
    assert_array_equal(model.seen_classes_, sorted({*SEEN, "bee", "yak"}))
    assert_array_equal(model.unseen_classes_, ["elk", "hen"])
    assert model.get_params()["candidates"] == candidates
    again = model.partial_fit(X_NEW[:1], ["zho"])
    assert_array_equal(again.classes_, [*expected, "zho"])


# Copies


def test_with_shots_is_partial_fit_among_the_classes_of_the_shots():
    model = fitted(candidates="unseen")
    before = model.decision_function(X_NEW)
    few = model.with_shots(MORE_X, MORE_Y)
    assert_array_equal(few.classes_, np.unique(MORE_Y))
    assert_array_equal(model.decision_function(X_NEW), before)
    assert_array_equal(model.classes_, UNSEEN)
    expected = fitted(candidates="unseen").partial_fit(MORE_X, MORE_Y)
    same(few, expected.with_candidates(np.unique(MORE_Y).tolist()))
    with pytest.raises(NotFittedError):
        AnyShotClassifier().with_shots(MORE_X, MORE_Y)


@pytest.mark.parametrize("candidates", ["unseen", "all", ["ant", "bee"]], ids=str)
def test_with_classes_is_a_fit_that_knew_them(candidates):
    new = {"owl": np.arange(4.0), "yak": -np.ones(4)}
    # A linear kernel does not depend on the scale of all prototypes.
    model = fitted(candidates=candidates, kernel="linear")
    wider = model.with_classes(new)
    listed = candidates if isinstance(candidates, str) else [*candidates, *new]
    expected = fitted(candidates=listed, kernel="linear", prototypes=PROTOTYPES | new)
    same(wider, expected)
    parameters = wider.get_params()
    assert parameters["candidates"] == listed
    assert parameters["prototypes"] == expected.prototypes_
    assert model.get_params()["candidates"] == candidates
    same(wider.partial_fit(X_NEW[:2], ["owl", "owl"]), expected.partial_fit(X_NEW[:2], ["owl"] * 2))


def test_without_classes_the_rest_is_unchanged():
    model = fitted()
    gone = ["ant", "bee", "dog"]
    fewer = model.without_classes(gone)
    kept = ~np.isin(LABELS, gone)
    assert_array_equal(fewer.classes_, np.array(LABELS)[kept])
    # The regression still learns from removed classes.
    assert_allclose(fewer.centers_, model.centers_[kept], rtol=1e-12)
    scores = model.decision_function(X_NEW)[:, kept]
    assert_allclose(fewer.decision_function(X_NEW), scores, rtol=1e-12)
    assert not {*gone} & {*fewer.seen_classes_, *fewer.unseen_classes_, *fewer.prototypes_}
    assert_array_equal(model.classes_, LABELS)
    assert_array_equal(fewer.with_candidates("all").classes_, fewer.classes_)
    assert_array_equal(fewer.with_candidates("unseen").classes_, ["elk", "hen"])
    again = fewer.without_classes(["cow"])  # those removed before stay away
    assert_array_equal(again.classes_, ["elk", "fox", "gnu", "hen", "jay"])
    few = fitted(candidates=["ant", "elk", "fox"]).without_classes(["ant"])
    assert_array_equal(few.classes_, ["elk", "fox"])
    assert few.get_params()["candidates"] == ["elk", "fox"]
    again = fewer.partial_fit(MORE_X[:1], ["yak"])
    assert_array_equal(again.classes_, [*np.array(LABELS)[kept], "yak"])


LIST = '`candidates` must be "unseen", "all" or a list'
UNKNOWN = "No prototype and no sample of the class 'owl'"
REFUSED = [
    ("with_classes", {"ant": np.ones(4)}, "The class 'ant' has a prototype already"),
    ("with_classes", {"owl": np.ones(3)}, "the 4 dimensions; got 3"),
    ("with_classes", {"dog": np.ones(4)}, "'dog' has samples and no prototype"),
    ("with_classes", {7: np.ones(4)}, "Labels must be of one kind"),
    ("without_classes", ["owl", "ant"], f"{UNKNOWN}; the 9 known"),
    ("without_classes", LABELS, "At least one class must stay; got all 9"),
    *(("with_candidates", candidates, LIST) for candidates in ("seen", [], None, "ant")),
    ("with_candidates", ["owl"], UNKNOWN),
]


@pytest.mark.parametrize(("method", "argument", "message"), REFUSED)
def test_copies_that_cannot_be_made(method, argument, message):
    *parts, last = message.split("; ")
    with refused(ValueError, *parts, last):
        getattr(fitted(), method)(argument)


def test_removed_classes_stay_away():
    fewer = fitted().without_classes(["ant"])
    for method, arguments, part in [
        ("without_classes", (["ant"],), "8 known"),
        ("with_candidates", (["ant", "bee"],), "8 known"),
        ("partial_fit", (MORE_X[:1], ["ant"]), "removed by `without_classes`"),
        ("with_classes", ({"ant": np.ones(4)},), "has a prototype already"),
    ]:
        with refused(ValueError, "'ant'", part):
            getattr(fewer, method)(*arguments)
    with refused(ValueError, 'candidates="unseen" needs a class'):
        fitted(candidates="unseen").without_classes(UNSEEN)


def test_fits_without_candidates():
    with refused(ValueError, LIST):
        fitted(candidates="seen")
    everywhere = {label: PROTOTYPES[label] for label in SEEN if label in PROTOTYPES}
    with refused(ValueError, 'candidates="unseen" needs a class', "Add prototypes"):
        fitted(prototypes=everywhere, candidates="unseen")


# Weights


@pytest.mark.parametrize("preprocessing", PREPROCESSING)
def test_weights_count_samples(preprocessing):
    given = {"preprocessing": PREPROCESSING[preprocessing]}
    weights = np.random.default_rng(7).integers(0, 4, len(Y))
    weights[Y == "gnu"] = 0  # has a prototype: unseen without samples
    weighted = fitted(X, Y, weights, **given)
    assert "gnu" in weighted.unseen_classes_
    same(weighted, fitted(np.repeat(X, weights, axis=0), np.repeat(Y, weights), **given))


@pytest.mark.parametrize(
    "candidates", [pytest.param("unseen", marks=pytest.mark.exhaustive), "all"]
)
def test_weights_count_samples_in_all_that_is_chosen(candidates):
    drawn = world(2, n_classes=16, deviation=0.2)
    rows, y = drawn.draw(np.arange(12), 8)
    new, _ = drawn.draw(np.arange(16), 2)
    weights = np.random.default_rng(8).integers(0, 3, len(y))
    auto = AnyShotClassifier(drawn.prototypes, candidates=candidates)
    weighted = clone(auto).fit(rows, y, weights)
    repeated = clone(auto).fit(np.repeat(rows, weights, axis=0), np.repeat(y, weights))
    removed = clone(auto).fit(rows[weights > 0], y[weights > 0], weights[weights > 0])
    scores = weighted.decision_function(new)
    assert_allclose(repeated.decision_function(new), scores, rtol=1e-8, atol=1e-8)
    assert_allclose(removed.decision_function(new), scores, rtol=1e-8, atol=1e-8)
    shares = weighted.predict_proba(new)
    assert_allclose(repeated.predict_proba(new), shares, rtol=1e-8, atol=1e-8)
    assert_allclose(removed.predict_proba(new), shares, rtol=1e-8, atol=1e-8)


def test_samples_that_weigh_nothing_have_no_part_in_adaptation():
    drawn = world(4, n_classes=12)
    rows, y = drawn.draw(np.arange(8), 12)
    new, _ = drawn.draw(np.arange(8, 12), 110)  # more than 400 samples need few simulations
    weights = (np.arange(len(y)) % 3 > 0).astype(float)
    rows[weights == 0] *= 30  # would be noticed
    simulated = {"adapt_temperature": "auto", "adapt_weight": "auto"}
    model = AnyShotClassifier(drawn.prototypes, **GIVEN | simulated)
    weighted = clone(model).fit(rows, y, weights).adapt(new)
    removed = clone(model).fit(rows[weights > 0], y[weights > 0]).adapt(new)
    assert_allclose(weighted.centers_, removed.centers_, rtol=1e-6, atol=1e-8)
