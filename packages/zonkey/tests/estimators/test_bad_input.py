"""Bad input: every message says what was expected, what came, and what to do."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from refusals import refused
from sklearn.exceptions import NotFittedError

from zonkey import AnyShotClassifier, FewShotClassifier, Prototypes, ZeroShotClassifier
from zonkey.testing import linear_problem

P = linear_problem()
SHORT = P.prototypes[P.unseen[0]][1:]  # 4 of 5 dimensions


def prepared(**parameters):
    return P.make_clone(ZeroShotClassifier(), **parameters)


@pytest.fixture(scope="module")
def model():
    return prepared().fit(P.X, P.y)


def test_parameters_are_checked_by_every_way_to_learn(model):
    moments = model.gather(P.X, P.y)
    for learn in (
        lambda bad: bad.fit(P.X, P.y),
        lambda bad: bad.gather(P.X, P.y),
        lambda bad: bad.fit_moments(moments),
    ):
        with refused(ValueError, "`alpha` must be a number in [0, 1)", "got 2"):
            learn(prepared(alpha=2))


def test_parameters_are_stored_as_they_came():
    ZeroShotClassifier("nonsense", alpha="nonsense", candidates=3)  # fit is what checks


# Prototypes


def test_a_prototype_of_another_dimension_than_the_rest():
    with refused(ValueError, "same dimension", P.unseen[0], "(4,)", "(5,)", "Rebuild"):
        prepared(prototypes={**P.prototypes, P.unseen[0]: SHORT}).fit(P.X, P.y)


def test_a_prototype_of_another_dimension_than_the_model(model):
    for call in (model.project, model.with_classes):
        with refused(ValueError, "must have the 5 dimensions", "got 4", "same semantic space"):
            call({"class new": SHORT})
    with refused(ValueError, "must have the 5 dimensions", "got 4", "same semantic space"):
        model.project(SHORT)
    with refused(ValueError, "must form a nonempty matrix", "got shape (1, 5, 2)", "Pass"):
        model.project(np.ones((1, 5, 2)))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_prototypes_that_are_not_finite(model, value):
    vector = np.array([0, 1, value, 0, 0])
    with refused(ValueError, "must be finite", "1 of 12 rows", "row 1", "Fill or drop"):
        prepared(prototypes={**P.prototypes, P.unseen[0]: vector}).fit(P.X, P.y)
    for call in (model.project, model.with_classes):
        with refused(ValueError, "must be finite", "1 of 1 rows", "Fill or drop"):
            call({"class new": vector})
    with refused(ValueError, "must be finite", "1 of 1 rows", "Fill or drop"):
        model.project([vector])


@pytest.mark.parametrize(
    "prototypes", [[[1.0, 2.0]], np.eye(3), "horse", 3, pl.LazyFrame({"a": [1.0]})], ids=type
)
def test_prototypes_of_a_wrong_type(prototypes):
    accepted = "a mapping {label: vector}, a pandas DataFrame", "a polars DataFrame", "zonkey.Prot"
    with refused(TypeError, *accepted, f"{type(prototypes).__name__}. Say which"):
        prepared(prototypes=prototypes).fit(P.X, P.y)


def test_prototypes_that_are_not_numbers():
    with refused(TypeError, "must be numbers", "got dtype <U", "Convert"):
        prepared(prototypes=dict.fromkeys(P.prototypes, ("big",))).fit(P.X, P.y)


def test_no_prototypes_at_all():
    with refused(ValueError, "nonempty matrix", "got shape (0, 0)", "Pass at least one"):
        prepared(prototypes={}).fit(P.X, P.y)


def test_labels_that_come_twice(model):
    with refused(ValueError, "must be unique", "'horse'", "more than once", "Keep one row"):
        Prototypes(["horse", "zebra", "horse"], np.eye(3))
    for label in (P.seen[0], P.unseen[0]):
        with refused(ValueError, repr(label), "has a prototype already", "new labels"):
            model.with_classes({label: np.ones(5)})


# Labels and candidates


def test_a_label_without_a_prototype():
    known = ["10 known", "class 01", "Add the missing"]
    prototypes = {k: v for k, v in P.prototypes.items() if k not in P.seen[:2]}
    for learn in ("fit", "gather"):
        with refused(ValueError, "No prototype for the class", *map(repr, P.seen[:2]), *known):
            getattr(prepared(prototypes=prototypes), learn)(P.X, P.y)


def test_integers_where_prototypes_have_strings_and_the_reverse():
    codes = np.unique(P.y, return_inverse=True)[1]
    with refused(ValueError, "must be of one kind", "got labels", "'class 00'", "Convert"):
        prepared().fit(P.X, codes)
    numbered = dict(enumerate(P.prototypes.values()))
    with refused(ValueError, "must be of one kind", "got labels", "'class ", "Convert"):
        prepared(prototypes=numbered).fit(P.X, P.y)


def test_labels_of_mixed_types_and_missing_labels():
    mixed = P.y.astype(object)
    mixed[0] = 3
    with refused(TypeError, "all strings or all numbers", "int, str", "onvert"):
        prepared().fit(P.X, mixed)
    with pytest.raises(ValueError, match="Input y contains NaN"):
        prepared().fit(P.X, np.where(P.y == P.y[0], np.nan, 1.0))
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        prepared(prototypes=None).fit(P.X, P.X[:, 0])


def test_no_unseen_class_to_predict():
    seen_only = {label: P.prototypes[label] for label in P.seen}
    expected = 'candidates="unseen" needs a class that has a prototype and no sample'
    with refused(ValueError, expected, "all 8 classes have samples", 'candidates="all"'):
        prepared(prototypes=seen_only).fit(P.X, P.y)
    with refused(ValueError, expected, "all 8 classes have samples", 'candidates="all"'):
        prepared(prototypes=seen_only, candidates="all").fit(P.X, P.y).with_candidates("unseen")


@pytest.mark.parametrize("candidates", [P.unseen[0], "seen", 3, None, [], ()], ids=repr)
def test_candidates_that_are_no_list_of_labels(model, candidates):
    expected = '`candidates` must be "unseen", "all" or a list of at least one label'
    with refused(ValueError, expected, f"got {candidates!r}", "goes into a list"):
        prepared(candidates=candidates).fit(P.X, P.y)
    with refused(ValueError, expected, f"got {candidates!r}", "goes into a list"):
        model.with_candidates(candidates)


def test_candidates_without_a_prototype(model):
    for choose in (lambda c: prepared(candidates=c).fit(P.X, P.y), model.with_candidates):
        with refused(ValueError, "No prototype for the class 'okapi'", "12 known", "Add the"):
            choose([P.unseen[0], "okapi"])
        with refused(ValueError, "must be of one kind", "Convert"):
            choose([1, 2])


# Samples


@pytest.mark.parametrize(("value", "name"), [(np.nan, "NaN"), (np.inf, "infinity")])
def test_samples_that_are_not_finite(model, value, name):
    X = P.X.copy()
    X[2, 3] = value
    for call in (
        lambda: prepared().fit(X, P.y),
        lambda: prepared().gather(X, P.y),
        lambda: model.predict(X),
        lambda: model.predict_top(X, 1),
        lambda: model.decision_function(X),
        lambda: model.embed(X),
        lambda: model.score(X, P.y),
    ):
        with pytest.raises(ValueError, match=f"Input X contains {name}"):
            call()


def test_another_number_of_features(model):
    for method in (model.predict, model.predict_top, model.decision_function, model.embed):
        with refused(ValueError, "X has 9 features", "expecting 10 features"):
            method(P.X_new[:, 1:])


def test_samples_and_labels_of_unequal_number():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        prepared().fit(P.X, P.y[1:])


@pytest.mark.parametrize("k", [0, -1, 1.0, "2", True], ids=str)
def test_top_of_no_number(model, k):
    with refused(ValueError, "`k` must be an integer of at least 1", f"got {k!r}", "Pass 1"):
        model.predict_top(P.X_new, k)


def test_top_of_more_than_there_are(model):
    assert model.predict_top(P.X_new, 4).shape == (len(P.X_new), 4)
    with refused(ValueError, "at most the number of candidates, 4", "got 5", "Ask for fewer"):
        model.predict_top(P.X_new, 5)


@pytest.mark.parametrize("failed_before", [False, True])
def test_use_before_fit(failed_before):
    model = prepared(candidates=["okapi"])
    if failed_before:
        with pytest.raises(ValueError, match="okapi"):
            model.fit(P.X, P.y)
    for call in (
        lambda: model.predict(P.X),
        lambda: model.predict_top(P.X),
        lambda: model.decision_function(P.X),
        lambda: model.score(P.X, P.y),
        lambda: model.embed(P.X),
        lambda: model.project(P.prototypes),
        lambda: model.with_classes(P.prototypes),
        lambda: model.with_candidates("all"),
    ):
        with refused(NotFittedError, "not fitted yet", "Call 'fit'"):
            call()


# What `fit` takes besides X and y


@pytest.mark.parametrize(
    "validation",
    [
        "ab",
        3,
        True,
        (),
        (P.X,),
        (P.X, P.y, P.y),
        P.X[:2],
        {"X": P.X, "y": P.y},
        pd.DataFrame(P.X[:2]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_validation_that_is_no_pair(validation):
    expected = "`validation` must be a pair (X, y)", f"got {type(validation).__name__}", "Pass"
    with refused(ValueError, *expected):
        AnyShotClassifier(P.prototypes).fit(P.X, P.y, validation=validation)


def test_validation_needs_prototypes():
    with refused(ValueError, "`validation` must be a pair", "got no prototypes", "Pass"):
        AnyShotClassifier().fit(P.X, P.y, validation=(P.X_new, P.y_new))


@pytest.mark.parametrize(
    ("weights", "parts"),
    [
        ("balanced", ("must be real numbers; got 'balanced'",)),
        ({"class 00": 2.0}, ("must be real numbers; got {'class 00': 2.0}",)),
        (np.full(len(P.y), 1j), ("must be real numbers",)),
        (np.full(len(P.y), 1e300), ("usual size", "1e+300", "Scale")),
        (np.full(len(P.y), 1e-300), ("usual size", "1e-300", "Scale")),
        (np.ma.masked_array(np.ones(len(P.y)), mask=P.y == P.y[0]), ("masked entries",)),
    ],
    ids=["text", "mapping", "complex", "huge", "tiny", "masked"],
)
def test_weights_that_are_none(weights, parts):
    with pytest.raises((TypeError, ValueError), match="`sample_weight` must") as caught:
        AnyShotClassifier(P.prototypes).fit(P.X, P.y, weights)
    assert all(part in str(caught.value) for part in parts)


@pytest.mark.parametrize("tasks", ["ab", None, [P.X], [(P.X, P.y, P.y)], (P.X, P.y)], ids=repr)
def test_tasks_that_are_no_pairs(tasks):
    with refused(ValueError, "`tasks` must be a sequence of pairs (X, y)", "Put a single pair"):
        FewShotClassifier(P.prototypes).fit_tasks(tasks)
