"""Bad input to FewShotClassifier: what was expected, what came, and what to do."""

import numpy as np
import pytest
from refusals import refused
from sklearn.exceptions import NotFittedError

from zonkey import Moments
from zonkey.bpl.few_shot import FewShotClassifier
from zonkey.bpl.frame import BaseClasses
from zonkey.testing import linear_problem

P = linear_problem()
X, Y = P.X_new[:9], P.y_new[:9]
BASE = Moments.from_arrays(P.X, P.y, P.prototypes)
NOVEL = {label: P.prototypes[label] for label in P.unseen}


def prepared(**parameters):
    defaults = {"prototypes": P.prototypes, "base": BASE, "random_state": 0, "n_episodes": 2}
    return FewShotClassifier(**(defaults | parameters))


def test_more_base_samples_than_the_moments_keep():
    least = int(np.unique(P.y, return_counts=True)[1].min())
    fits = prepared(base_samples_per_class=least).fit(X, Y)
    assert np.isfinite(fits.projection_).all()
    few = Moments.from_arrays(P.X, P.y, P.prototypes, n_reserve=4)
    with refused(ValueError, "`base_samples_per_class` must be at most", "got 5, and 4", "Lower"):
        prepared(base=few, base_samples_per_class=5).fit(X, Y)
    with refused(ValueError, "counts samples of base classes", "got 5 and base=None", "leave it"):
        prepared(base=None, base_samples_per_class=5).fit(X, Y)


def test_parameters_are_stored_as_they_came():
    FewShotClassifier("nonsense", base=3, alpha="nonsense", candidates=3)  # fit is what checks


# Base classes


@pytest.mark.parametrize("base", [P.X, P.prototypes, "base.npz", 3, Moments], ids=type)
def test_a_base_of_a_wrong_type(base):
    expected = "`base` must be Moments, BaseClasses or None"
    with refused(TypeError, expected, f"got {type(base).__name__}", "Gather Moments"):
        prepared(base=base).fit(X, Y)


@pytest.mark.parametrize("wrap", [lambda moments: moments, BaseClasses])
def test_features_of_another_encoder(wrap):
    expected = "must have the 10 features of the base classes"
    with refused(ValueError, expected, "got 9", "same encoder"):
        prepared(base=wrap(BASE)).fit(X[:, 1:], Y)


def test_moments_of_no_sample():
    with refused(ValueError, "have no samples yet", "update(X, y)"):
        prepared(base=Moments(P.prototypes)).fit(X, Y)


def test_samples_of_base_classes_wanted_and_no_base():
    with refused(ValueError, 'synthesis="base"', "base=None", "Pass the moments", '"support"'):
        prepared(base=None, synthesis="base").fit(X, Y)


def test_samples_of_base_classes_wanted_and_none_kept():
    moments = Moments.from_arrays(P.X, P.y, P.prototypes, n_reserve=0)
    for base in (moments, BaseClasses(moments)):
        expected = "Synthesis needs a raw sample of every seen class"
        with refused(ValueError, expected, "'class 00'", "(n_reserve=0)", "larger `n_reserve`"):
            prepared(base=base, synthesis="base").fit(X, Y)
        for synthesis in ("support", None):
            prepared(base=base, synthesis=synthesis).fit(X, Y)


def test_a_single_base_class_without_a_kept_sample():
    # Its last kept sample may be subtracted while others, that were not kept, stay.
    moments = Moments.from_arrays(P.X, P.y, P.prototypes, n_reserve=1)
    kept = moments.samples_of(P.seen[3])
    moments.subtract(Moments.from_arrays(kept, P.seen[3:4], P.prototypes, n_reserve=1))
    with refused(ValueError, "keep none of 'class 05' (n_reserve=1)", "Gather them again"):
        prepared(base=moments, synthesis="base").fit(X, Y)


def test_nothing_to_learn_from():
    with refused(ValueError, "`alpha` must be above 0", "got 0 and base=None", "Raise `alpha`"):
        prepared(base=None, alpha=0).fit(X, Y)


@pytest.mark.parametrize("label", [P.seen[0], P.seen[-1]])
def test_a_novel_class_among_the_base_classes(label):
    y = np.where(Y[0] == Y, label, Y)
    expected = "Novel classes must not be among the base classes"
    with refused(ValueError, expected, repr(str(label)), "Leave them out of the base moments"):
        prepared().fit(X, y)


# Prototypes and labels


def test_a_novel_class_without_a_prototype():
    missing = P.without(P.unseen[0])
    without = Moments.from_arrays(P.X, P.y, missing)
    for parameters in (
        {"prototypes": missing, "base": None},
        {"prototypes": missing, "base": without},
        {"prototypes": None, "base": without},
    ):
        with refused(ValueError, "No prototype for the class 'class 01'", "11 known", "Add the"):
            prepared(**parameters).fit(X, Y)


def test_prototypes_of_another_dimension_than_those_of_the_base():
    for labels in (P.unseen, list(P.prototypes)):
        short = {label: P.prototypes[label][1:] for label in labels}
        expected = "must have the 5 dimensions of the base prototypes"
        with refused(ValueError, expected, "got 4", "same semantic space"):
            prepared(prototypes=short).fit(X, Y)


def test_other_prototypes_of_base_classes_than_those_of_the_moments():
    doubled = {**P.prototypes, P.seen[1]: 2 * P.prototypes[P.seen[1]]}
    expected = "Prototypes of base classes must be those of the base moments"
    with refused(ValueError, expected, "'class 02' came with others", "moments.with_prototypes"):
        prepared(prototypes=doubled).fit(X, Y)
    prepared(prototypes=doubled, base=BASE.with_prototypes(doubled)).fit(X, Y)
    narrow = {label: vector.astype(np.float32) for label, vector in P.prototypes.items()}
    prepared(prototypes=narrow).fit(X, Y)


def test_integers_where_the_base_has_strings():
    codes = np.unique(Y, return_inverse=True)[1]
    numbered = dict(enumerate(NOVEL.values()))
    for prototypes in (None, numbered):
        with refused(ValueError, "must be of one kind", "got labels", "'class 00'", "Convert"):
            prepared(prototypes=prototypes).fit(X, codes)


def test_labels_that_are_no_classes():
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        FewShotClassifier().fit(X, X[:, 0])
    mixed = Y.astype(object)
    mixed[0] = 3
    with refused(TypeError, "all strings or all numbers", "int, str", "onvert"):
        prepared().fit(X, mixed)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        prepared().fit(X, Y[1:])
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        prepared().fit(X, None)


@pytest.mark.parametrize("candidates", [P.unseen[0], "unseen", 3, None, [], ()], ids=repr)
def test_candidates_that_are_no_list_of_labels(candidates):
    expected = '`candidates` must be "novel", "all" or a list of at least one label'
    with refused(ValueError, expected, f"got {candidates!r}", "goes into a list"):
        prepared(candidates=candidates).fit(X, Y)
    with refused(ValueError, expected, f"got {candidates!r}", "goes into a list"):
        prepared().fit(X, Y).with_candidates(candidates)


def test_candidates_without_a_prototype():
    for choose in (
        lambda c: prepared(candidates=c).fit(X, Y),
        prepared().fit(X, Y).with_candidates,
    ):
        with refused(ValueError, "No prototype for the class 'okapi'", "12 known", "Add the"):
            choose([P.unseen[0], "okapi"])


# Samples


@pytest.mark.parametrize(("value", "name"), [(np.nan, "NaN"), (np.inf, "infinity")])
def test_values_that_are_not_finite(value, name):
    bad, model = X.copy(), prepared().fit(X, Y)
    bad[2, 3] = value
    for call in (
        lambda: prepared().fit(bad, Y),
        lambda: model.predict(bad),
        lambda: model.predict_top(bad, 1),
        lambda: model.decision_function(bad),
        lambda: model.embed(bad),
        lambda: model.score(bad, Y),
    ):
        with pytest.raises(ValueError, match=f"Input X contains {name}"):
            call()
    vector = np.array([0, 1, value, 0, 0])
    with refused(ValueError, "must be finite", "1 of 4 rows", "Fill or drop"):
        prepared(prototypes={**NOVEL, P.unseen[0]: vector}).fit(X, Y)


def test_no_support_at_all():
    with pytest.raises(ValueError, match=r"0 sample\(s\).*minimum of 1 is required"):
        prepared().fit(X[:0], Y[:0])


def test_another_number_of_features_in_prediction():
    model = prepared().fit(X, Y)
    for method in (model.predict, model.predict_top, model.decision_function, model.embed):
        with refused(ValueError, "X has 9 features", "expecting 10 features"):
            method(P.X_new[:, 1:])


@pytest.mark.parametrize("failed_before", [False, True])
def test_use_before_fit(failed_before):
    model = prepared(candidates=["okapi"])
    if failed_before:
        with pytest.raises(ValueError, match="okapi"):
            model.fit(X, Y)
    for call in (
        lambda: model.predict(X),
        lambda: model.predict_top(X),
        lambda: model.decision_function(X),
        lambda: model.score(X, Y),
        lambda: model.embed(X),
        lambda: model.project(P.prototypes),
        lambda: model.with_classes({"class new": np.ones(5)}),
        lambda: model.with_candidates("all"),
    ):
        with refused(NotFittedError, "not fitted yet", "Call 'fit'"):
            call()
