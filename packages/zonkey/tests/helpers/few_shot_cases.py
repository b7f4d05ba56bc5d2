"""A small few-shot task, and models fitted on it, for several files of tests."""

from numpy.testing import assert_allclose, assert_array_equal

from zonkey import Moments
from zonkey.bpl.few_shot import FewShotClassifier
from zonkey.testing import linear_problem

P = linear_problem(noise=1.0)
X, Y = P.X_new[:13], P.y_new[:13]
NOVEL = {label: P.prototypes[label] for label in P.unseen}
BASE = Moments.from_arrays(P.X, P.y, P.prototypes)
SYNTHESES = ["support", "base", None]


def prepared(**parameters):
    defaults = {"prototypes": P.prototypes, "base": BASE, "random_state": 0, "n_episodes": 3}
    return FewShotClassifier(**(defaults | parameters))


def fitted(**parameters):
    return prepared(**parameters).fit(X, Y)


def assert_same_model(model, expected):
    assert_allclose(model.projection_, expected.projection_, rtol=1e-8, atol=1e-11)
    assert model.prototypes_ == expected.prototypes_
    assert_array_equal(model.classes_, expected.classes_)
    assert_array_equal(model.predict(P.X_new), expected.predict(P.X_new))
