"""Bad input: every message says what was expected, what came, and what to do."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from refusals import refused

from zonkey import AnyShotClassifier, FewShotClassifier, Prototypes, ZeroShotClassifier
from zonkey.testing import linear_problem

P = linear_problem()
SHORT = {P.unseen[0]: P.prototypes[P.unseen[0]][1:]}  # 4 of 5 dimensions
SEEN_ONLY = {label: P.prototypes[label] for label in P.seen}
FEW = {label: vector for label, vector in P.prototypes.items() if label not in P.seen[:2]}
NUMBERED = dict(enumerate(P.prototypes.values()))
CODES = np.unique(P.y, return_inverse=True)[1]
MIXED = np.array([3, *P.y[1:]], dtype=object)


def prepared(**parameters):
    return P.make_clone(ZeroShotClassifier(), **parameters)


@pytest.fixture(scope="module")
def model():
    return prepared().fit(P.X, P.y)


def test_parameters_are_checked_by_every_way_to_learn(model):
    moments = model.gather(P.X, P.y)
    bad = ZeroShotClassifier("nonsense", alpha=2, candidates=3)  # only fit checks
    for learn in (lambda: bad.fit(P.X, P.y), lambda: bad.fit_moments(moments)):
        with refused(ValueError, "`alpha` must be a number in [0, 1)", "got 2"):
            learn()
    with refused(ValueError, "`alpha` must be a number in [0, 1)", "got 2"):
        prepared(alpha=2).gather(P.X, P.y)


ONE_KIND = ValueError, "must be of one kind", "got labels", "'class ", "Convert"
NO_SAMPLES = 'candidates="unseen" needs a class that has a prototype and no sample'
NO_UNSEEN = ValueError, NO_SAMPLES, "all 8 classes have samples", 'candidates="all"'
UNKNOWN = ValueError, "No prototype for the class", *map(repr, P.seen[:2]), "10 known", "Add the"
NO_LABELS = '`candidates` must be "unseen", "all" or a list of at least one label'
# Parameters, labels and what is said.
BAD_FITS = [
    ({"prototypes": P.prototypes | SHORT}, P.y, ValueError, "same dimension", "(4,)", "(5,)"),
    ({"prototypes": dict.fromkeys(P.prototypes, ("big",))}, P.y, TypeError, "must be numbers"),
    ({"prototypes": {}}, P.y, ValueError, "nonempty matrix", "got shape (0, 0)", "Pass at least"),
    ({"prototypes": FEW}, P.y, *UNKNOWN),
    ({}, CODES, *ONE_KIND),
    ({"prototypes": NUMBERED}, P.y, *ONE_KIND),
    ({}, MIXED, TypeError, "all strings or all numbers", "int, str", "onvert"),
    ({}, np.where(P.y == P.y[0], np.nan, 1.0), ValueError, "Input y contains NaN"),
    ({"prototypes": None}, P.X[:, 0], ValueError, "Unknown label type: continuous"),
    ({"prototypes": SEEN_ONLY}, P.y, *NO_UNSEEN),
    ({}, P.y[1:], ValueError, "inconsistent numbers of samples"),
    *(
        ({"prototypes": given}, P.y, TypeError, "a mapping {label: vector}", name, "Say which")
        for given, name in [
            ([[1.0, 2.0]], "list"),
            (np.eye(3), "ndarray"),
            ("horse", "str"),
            (3, "int"),
            (pl.LazyFrame({"a": [1.0]}), "LazyFrame"),
        ]
    ),
]


@pytest.mark.parametrize("case", range(len(BAD_FITS)))
def test_what_fit_refuses(case):
    parameters, y, error, *parts = BAD_FITS[case]
    with refused(error, *parts):
        prepared(**parameters).fit(P.X, y)


def test_what_gathering_refuses():
    with refused(*UNKNOWN):
        prepared(prototypes=FEW).gather(P.X, P.y)
    with refused(ValueError, "must be unique", "'horse'", "more than once", "Keep one row"):
        Prototypes(["horse", "zebra", "horse"], np.eye(3))


DIMENSIONS = "must have the 5 dimensions", "got 4", "same semantic space"
BAD_CALLS = {
    "project": [
        (SHORT, *DIMENSIONS),
        (next(iter(SHORT.values())), *DIMENSIONS),
        (np.ones((1, 5, 2)), "must form a nonempty matrix", "got shape (1, 5, 2)", "Pass"),
        ([[0, 1, np.nan, 0, 0]], "must be finite", "1 of 1 rows", "Fill or drop"),
    ],
    "with_classes": [
        (SHORT, *DIMENSIONS),
        ({"new": [0, 1, np.inf, 0, 0]}, "must be finite", "1 of 1 rows", "Fill or drop"),
        ({P.seen[0]: np.ones(5)}, repr(P.seen[0]), "has a prototype already", "new labels"),
        ({P.unseen[0]: np.ones(5)}, repr(P.unseen[0]), "has a prototype already", "new labels"),
    ],
}


@pytest.mark.parametrize("method", BAD_CALLS)
def test_what_copies_and_projections_refuse(model, method):
    for argument, *parts in BAD_CALLS[method]:
        with refused(ValueError, *parts):
            getattr(model, method)(argument)


@pytest.mark.parametrize("candidates", [P.unseen[0], "seen", 3, None, [], ()], ids=repr)
def test_candidates_that_are_no_list_of_labels(model, candidates):
    for choose in (lambda c: prepared(candidates=c).fit(P.X, P.y), model.with_candidates):
        with refused(ValueError, NO_LABELS, f"got {candidates!r}", "goes into a list"):
            choose(candidates)


def test_candidates_without_a_prototype(model):
    for choose in (lambda c: prepared(candidates=c).fit(P.X, P.y), model.with_candidates):
        with refused(ValueError, "No prototype for the class 'okapi'", "12 known", "Add the"):
            choose([P.unseen[0], "okapi"])
        with refused(ValueError, "must be of one kind", "Convert"):
            choose([1, 2])
    with refused(*NO_UNSEEN):
        prepared(prototypes=SEEN_ONLY, candidates="all").fit(P.X, P.y).with_candidates("unseen")


# Samples


def test_top_of_no_number_or_of_more_than_there_are(model):
    for k in (0, -1, 1.0, "2", True):
        with refused(ValueError, "`k` must be an integer of at least 1", f"got {k!r}", "Pass 1"):
            model.predict_top(P.X_new, k)
    assert model.predict_top(P.X_new, 4).shape == (len(P.X_new), 4)
    with refused(ValueError, "at most the number of candidates, 4", "got 5", "Ask for fewer"):
        model.predict_top(P.X_new, 5)


# What `fit` takes besides X and y

NO_PAIRS = ["ab", 3, True, (), (P.X,), (P.X, P.y, P.y), P.X[:2], {"X": P.X}, pd.DataFrame(P.X[:2])]


@pytest.mark.parametrize("validation", NO_PAIRS, ids=lambda value: type(value).__name__)
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
