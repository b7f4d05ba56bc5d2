"""Bad input to FewShotClassifier: what was expected, what came, and what to do."""

import numpy as np
import pytest
from refusals import refused

from zonkey import Moments
from zonkey.bpl.few_shot import FewShotClassifier
from zonkey.bpl.frame import BaseClasses
from zonkey.testing import linear_problem

P = linear_problem()
X, Y = P.X_new[:9], P.y_new[:9]
BASE = Moments.from_arrays(P.X, P.y, P.prototypes)
NOVEL = {label: P.prototypes[label] for label in P.unseen}
DOUBLED = {**P.prototypes, P.seen[1]: 2 * P.prototypes[P.seen[1]]}
MISSING = P.without(P.unseen[0])
# Base classes with few or no raw samples, or without one class.
FEW, NONE_KEPT = (Moments.from_arrays(P.X, P.y, P.prototypes, n_reserve=n) for n in (4, 0))
WITHOUT = Moments.from_arrays(P.X, P.y, MISSING)
NOT_A_NUMBER = np.array([0, 1, np.nan, 0, 0])


def prepared(**parameters):
    defaults = {"prototypes": P.prototypes, "base": BASE, "random_state": 0, "n_episodes": 2}
    return FewShotClassifier(**(defaults | parameters))


def one_sample_subtracted():
    """The last kept sample of a class is subtracted; others, that were not kept, stay."""
    moments = Moments.from_arrays(P.X, P.y, P.prototypes, n_reserve=1)
    kept = moments.samples_of(P.seen[3])
    return moments.subtract(Moments.from_arrays(kept, P.seen[3:4], P.prototypes, n_reserve=1))


def shortened(labels):
    return {label: P.prototypes[label][1:] for label in labels}


NEEDS_SAMPLES = (
    "Synthesis needs a raw sample of every seen class",
    "'class 00'",
    "(n_reserve=0)",
    "larger `n_reserve`",
)
NO_PROTOTYPE = ("No prototype for the class 'class 01'", "11 known", "Add the")
OTHER_WIDTH = ("must have the 5 dimensions of the base prototypes", "got 4", "same semantic space")
ONE_KIND = ("must be of one kind", "got labels", "'class 00'", "Convert")
NUMBERED = np.unique(Y, return_inverse=True)[1]
REFUSED = [
    # Base classes
    *(
        (
            {"base": base},
            (f"`base` must be Moments, BaseClasses or None; got {type(base).__name__}", "Gather"),
        )
        for base in (P.X, P.prototypes, "base.npz", 3, Moments)
    ),
    ({"base": Moments(P.prototypes)}, ("have no samples yet", "update(X, y)")),
    (
        {"base": FEW, "base_samples_per_class": 5},
        ("`base_samples_per_class` must be at most", "got 5, and 4", "Lower"),
    ),
    (
        {"base": None, "base_samples_per_class": 5},
        ("counts samples of base classes", "got 5 and base=None", "leave it"),
    ),
    (
        {"base": None, "synthesis": "base"},
        ('synthesis="base"', "base=None", "Pass the moments", '"support"'),
    ),
    ({"base": NONE_KEPT, "synthesis": "base"}, NEEDS_SAMPLES),
    ({"base": BaseClasses(NONE_KEPT), "synthesis": "base"}, NEEDS_SAMPLES),
    (
        {"base": one_sample_subtracted(), "synthesis": "base"},
        ("keep none of 'class 05' (n_reserve=1)", "Gather them again"),
    ),
    (
        {"base": None, "alpha": 0},
        ("`alpha` must be above 0", "got 0 and base=None", "Raise `alpha`"),
    ),
    # Prototypes
    ({"prototypes": MISSING, "base": None}, NO_PROTOTYPE),
    ({"prototypes": MISSING, "base": WITHOUT}, NO_PROTOTYPE),
    ({"prototypes": None, "base": WITHOUT}, NO_PROTOTYPE),
    ({"prototypes": shortened(P.unseen)}, OTHER_WIDTH),
    ({"prototypes": shortened(P.prototypes)}, OTHER_WIDTH),
    (
        {"prototypes": DOUBLED},
        (
            "Prototypes of base classes must be those of the base moments",
            "'class 02' came with others",
            "moments.with_prototypes",
        ),
    ),
    (
        {"prototypes": {**NOVEL, P.unseen[0]: NOT_A_NUMBER}},
        ("must be finite", "1 of 4 rows", "Fill or drop"),
    ),
    # Candidates
    *(
        (
            {"candidates": candidates},
            ('`candidates` must be "novel", "all" or a list', f"got {candidates!r}", "into a list"),
        )
        for candidates in (P.unseen[0], "unseen", 3, None, [], ())
    ),
    (
        {"candidates": [P.unseen[0], "okapi"]},
        ("No prototype for the class 'okapi'", "12 known", "Add the"),
    ),
]
REFUSED_DATA = [
    ((X[:, 1:], Y), {}, ("must have the 10 features of the base classes", "got 9", "same encoder")),
    *(
        (
            (X, np.where(Y[0] == Y, label, Y)),
            {},
            ("Novel classes must not be among the base classes", repr(str(label)), "Leave them"),
        )
        for label in (P.seen[0], P.seen[-1])
    ),
    ((X, NUMBERED), {"prototypes": None}, ONE_KIND),
    ((X, NUMBERED), {"prototypes": dict(enumerate(NOVEL.values()))}, ONE_KIND),
    ((X, X[:, 0]), {}, ("Unknown label type: continuous",)),
    ((X, [3, *Y[1:]]), {}, ("all strings or all numbers", "int, str", "onvert")),
    ((X, Y[1:]), {}, ("inconsistent numbers of samples",)),
    ((X, None), {}, ("requires y to be passed, but the target y is None",)),
    ((X[:0], Y[:0]), {}, ("0 sample(s)", "minimum of 1 is required")),
]


@pytest.mark.parametrize(("parameters", "parts"), REFUSED)
def test_a_model_that_cannot_be_learned(parameters, parts):
    model = prepared(**parameters)
    with refused((TypeError, ValueError), *parts):
        model.fit(X, Y)
    if "candidates" in parameters:
        with refused(ValueError, *parts):
            prepared().fit(X, Y).with_candidates(parameters["candidates"])


@pytest.mark.parametrize(("data", "parameters", "parts"), REFUSED_DATA)
def test_a_support_set_that_cannot_be_learned_from(data, parameters, parts):
    with refused((TypeError, ValueError), *parts):
        prepared(**parameters).fit(*data)


@pytest.mark.parametrize(
    "parameters",
    [
        {"base_samples_per_class": int(np.unique(P.y, return_counts=True)[1].min())},
        {"base": NONE_KEPT, "synthesis": "support"},
        {"base": NONE_KEPT, "synthesis": None},
        {"prototypes": DOUBLED, "base": BASE.with_prototypes(DOUBLED)},
        {"prototypes": {label: vector.astype("f4") for label, vector in P.prototypes.items()}},
    ],
    ids=str,
)
def test_what_is_just_enough_is_learned_from(parameters):
    assert np.isfinite(prepared(**parameters).fit(X, Y).projection_).all()
