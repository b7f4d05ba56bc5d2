"""The penalty chosen on held-out classes: by a naive search, and by what it does."""

from dataclasses import replace
from itertools import groupby, pairwise

import numpy as np
import pytest
from both_classifiers import both_classifiers, fit_on_a_small_problem
from numpy.testing import assert_allclose, assert_array_equal
from refusals import NOT_NUMBERS, refused
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from recording import recording
from zonkey import FewShotClassifier, ZeroShotClassifier
from zonkey.bpl import calibration
from zonkey.bpl.calibration import calibrate
from zonkey.metrics import generalized_scores
from zonkey.preprocessing import WithinClassWhitener
from zonkey.testing import linear_problem

P = linear_problem(noise=1.0, n_classes=18)
AUTO = {"seen_penalty": "auto"}
CONFIGURATIONS = [
    {"synthesis": None},
    {"direction": "forward", "beta": 3.0},
    {"direction": "reverse", "beta": 3.0},
    {"alpha": 0.3},
]


def prepared(p=P, classifier=ZeroShotClassifier, **parameters):
    return p.make_clone(classifier(), **({"candidates": "all"} | parameters))


def fitted(p=P, **parameters):
    return prepared(p, **parameters).fit(p.X, p.y)


# A naive search, on folds of the test's own


def own_folds(labels):
    """Hold out a third of the classes at a time, and every fourth sample of the others."""
    classes = np.unique(labels)
    for held in (classes[::3], classes[1::3], classes[2::3]):
        out = np.isin(labels, held) | (np.arange(len(labels)) % 4 == 0)
        yield np.flatnonzero(~out), np.flatnonzero(out)


def held_out_scores(p, **parameters):
    """Scores of the samples held out, their labels, and which columns are of seen classes."""
    of_training = {label: p.prototypes[label] for label in p.seen}
    for train, test in own_folds(p.y):
        model = prepared(p, prototypes=of_training, **parameters).fit(p.X[train], p.y[train])
        assert_array_equal(model.classes_, p.seen)
        seen = np.isin(model.classes_, p.y[train])
        yield model.decision_function(p.X[test]), p.y[test], seen


@pytest.fixture
def with_own_folds(monkeypatch):
    monkeypatch.setattr(calibration, "_folds", lambda *given: list(own_folds(given[-1])))


def mean_harmonic_mean(folds, classes, penalty):
    found = [
        generalized_scores(truth, classes[(S - penalty * seen).argmax(axis=1)], classes[seen])
        for S, truth, seen in folds
    ]
    return np.mean([scores.harmonic_mean for scores in found])


def naive_penalty(folds, classes):
    """The middle of the widest interval of penalties with the best mean harmonic mean."""
    S_of = [(S[:, seen].max(axis=1), S[:, ~seen].max(axis=1)) for S, _, seen in folds]
    ends = np.unique(np.concatenate([best_seen - best for best_seen, best in S_of]))
    means = [mean_harmonic_mean(folds, classes, (low + high) / 2) for low, high in pairwise(ends)]
    widest = 0.0, 0.0, 0.0
    for value, run in groupby(range(len(means)), key=lambda i: round(means[i], 9)):
        intervals = list(run)
        low, high = ends[intervals[0]], ends[intervals[-1] + 1]
        widest = max(widest, (value, high - low, (low + high) / 2))
    assert widest[0] > mean_harmonic_mean(folds, classes, ends[0] - 1)
    assert widest[0] > mean_harmonic_mean(folds, classes, ends[-1] + 1)
    return widest[2]


@pytest.mark.usefixtures("with_own_folds")
@pytest.mark.parametrize("parameters", CONFIGURATIONS, ids=str)
def test_the_penalty_is_that_of_a_naive_search(parameters):
    folds = list(held_out_scores(P, **parameters))
    model = fitted(seen_penalty="auto", **parameters)
    expected = naive_penalty(folds, np.array(P.seen))
    assert_allclose(model.seen_penalty_, expected, rtol=1e-6)


# What is held out


def rows_of(part):
    place = {row.tobytes(): i for i, row in enumerate(P.X)}
    return [place[row.tobytes()] for row in part]


def test_every_step_of_a_pipeline_is_learned_anew_in_every_fold():
    step = recording()
    calibrate(make_pipeline(step, prepared(**AUTO)), P.X, P.y)
    assert len(step.fits) == 3
    assert len(step.transformed) == 6  # to learn from, and to score
    assert not hasattr(step, "whitening_")
    held_out = []
    for (X, y), of_test in zip(step.fits, step.transformed[1::2], strict=True):
        train, test = rows_of(X), rows_of(of_test)
        assert sorted([*train, *test]) == list(range(len(P.y)))  # each once, and no others
        assert_array_equal(y, P.y[train])
        held_out += sorted(set(P.seen) - set(y))
        counts = [np.sum(y == label) for label in sorted(set(y))]
        assert set(counts) == {7}  # two of nine are spared
    assert sorted(held_out) == P.seen


def test_a_step_that_does_nothing_changes_nothing():
    expected = fitted(**AUTO).seen_penalty_
    plain = make_pipeline(FunctionTransformer(), prepared(**AUTO))
    assert calibrate(plain, P.X, P.y) == expected
    assert calibrate(prepared(**AUTO), P.X, P.y) == expected
    whitened = calibrate(make_pipeline(WithinClassWhitener(0.0), prepared(**AUTO)), P.X, P.y)
    assert abs(whitened - expected) > 0.01


LARGE = linear_problem(noise=1.0, n_classes=48)


@pytest.mark.parametrize(
    ("n_seen", "n_unseen", "n_folds"),
    [
        *[(12, 12, 2), (12, 6, 3), (12, 4, 4), (12, 3, 5)],  # of all classes, this share is unseen
        *[(32, 10, 4), (32, 7, 6), (9, 6, 2), (9, 4, 3)],  # to the nearest whole number
        *[(4, 16, 2), (12, 16, 2)],  # not fewer than two
        *[(32, 3, 10), (32, 1, 10), (32, 0, 10)],  # not more than ten
        *[(4, 1, 2), (6, 1, 3), (7, 0, 3), (12, 1, 6), (12, 0, 6)],  # of at least two classes each
    ],
)
def test_a_fold_holds_out_the_share_of_classes_that_is_unseen(n_seen, n_unseen, n_folds):
    seen, unseen = LARGE.seen[:n_seen], LARGE.unseen[:n_unseen]
    known = {label: LARGE.prototypes[label] for label in [*seen, *unseen]}
    of_few = np.isin(LARGE.y, seen)
    step = recording()
    pipeline = make_pipeline(step, prepared(LARGE, prototypes=known, synthesis=None, **AUTO))
    calibrate(pipeline, LARGE.X[of_few], LARGE.y[of_few])
    sizes = [n_seen - len(set(y)) for _, y in step.fits]
    assert len(sizes) == n_folds
    assert sum(sizes) == n_seen
    assert min(sizes) == n_seen // n_folds >= 2
    assert max(sizes) - min(sizes) <= 1


def test_a_generator_is_drawn_from_once_a_call():
    def found(random_state):
        return calibrate(prepared(**AUTO, synthesis=None, random_state=random_state), P.X, P.y)

    generator = np.random.RandomState(5)
    assert found(generator) == found(5) != found(6)
    assert found(generator) != found(5)


def test_a_class_of_one_sample_stays_a_seen_class():
    rows = np.flatnonzero((P.y != P.seen[0]) | (np.cumsum(P.y == P.seen[0]) == 1))
    step = recording()
    calibrate(make_pipeline(step, prepared(**AUTO)), P.X[rows], P.y[rows])
    assert sum(P.seen[0] in y for _, y in step.fits) == 2  # of three


def test_two_samples_of_a_single_class_suffice():
    rows = [i for i, label in enumerate(P.y) if np.sum(P.y[:i] == label) < 1 + (label == P.seen[0])]
    with refused(ValueError, "holds samples of seen classes out; got one sample of nearly every"):
        calibrate(prepared(**AUTO), P.X[rows], P.y[rows])


# What has a say


@pytest.mark.parametrize("parameters", CONFIGURATIONS, ids=str)
def test_nothing_but_the_training_data_has_a_say(parameters):
    expected = fitted(**AUTO, **parameters).seen_penalty_
    moved = P.prototypes | {label: np.full(5, 9.0 + j) for j, label in enumerate(P.unseen)}
    assert fitted(**AUTO, **parameters, prototypes=moved).seen_penalty_ == expected
    assert fitted(**AUTO, **parameters, candidates="unseen").seen_penalty_ == expected


def test_the_seed_decides_and_nothing_is_left_changed():
    model = prepared(**AUTO)
    before, X, y = model.get_params(), P.X.copy(), P.y.copy()
    first = model.fit(P.X, P.y).seen_penalty_
    by_hand = fitted(seen_penalty=first)
    assert_array_equal(model.projection_, by_hand.projection_)
    assert_allclose(model.decision_function(P.X_new), by_hand.decision_function(P.X_new))
    assert model.get_params() == before
    assert_array_equal(P.X, X)
    assert_array_equal(P.y, y)
    assert model.fit(P.X, P.y).seen_penalty_ == first
    assert fitted(**AUTO, random_state=1).seen_penalty_ != first
    assert model.set_params(seen_penalty=0.5).fit(P.X, P.y).seen_penalty_ == 0.5


@pytest.mark.parametrize("parameters", CONFIGURATIONS, ids=str)
def test_the_order_of_the_samples_has_no_say(parameters):
    model, backwards = prepared(**AUTO, **parameters), np.arange(len(P.y))[::-1]
    for X in (P.X, np.maximum(P.X, 0)):  # the latter has many zeros in every column
        expected = calibrate(model, X, P.y)
        assert_allclose(calibrate(model, X[backwards], P.y[backwards]), expected, rtol=1e-6)


def test_folds_are_fitted_in_silence(capsys):
    calibrate(prepared(**AUTO, verbose=1), P.X, P.y)
    assert capsys.readouterr().out == ""
    fitted(**AUTO, verbose=1)
    aloud = capsys.readouterr().out
    fitted(verbose=1)
    assert aloud == capsys.readouterr().out != ""


# What it is good for

# More attributes than seen classes: their samples fit W, and they swallow the unseen ones.
SWALLOWING = {"n_classes": 60, "n_features": 30, "n_attributes": 40, "noise": 3.0}


def with_test_samples(p):
    """Every third sample of the seen classes is for test, with those of unseen ones."""
    for_test = np.zeros(len(p.y), bool)
    for label in p.seen:
        for_test[np.flatnonzero(p.y == label)[::3]] = True
    X, y = np.concatenate([p.X[for_test], p.X_new]), np.concatenate([p.y[for_test], p.y_new])
    return replace(p, X=p.X[~for_test], y=p.y[~for_test]), X, y


@pytest.mark.parametrize("parameters", [{"synthesis": None}, {}], ids=str)
def test_the_penalty_raises_the_harmonic_mean(parameters):
    gains = []
    for seed in range(4):
        p, X, y = with_test_samples(linear_problem(**SWALLOWING, seed=seed))
        reached = {}
        for penalty in (0.0, "auto"):
            model = fitted(p, seen_penalty=penalty, **parameters)
            reached[penalty] = generalized_scores(y, model.predict(X), p.seen).harmonic_mean
        gains.append(reached["auto"] - reached[0.0])
    assert np.mean(gains) > 0.03


# What is refused


def test_moments_keep_nothing_to_hold_out():
    moments = prepared().gather(P.X, P.y)
    said = 'seen_penalty="auto" must have its samples in memory'
    with refused(ValueError, said, "Pass arrays to fit(X, y), or a number"):
        prepared(**AUTO).fit_moments(moments)


def test_without_prototypes_nothing_describes_what_is_held_out():
    said = "because held-out classes are known by prototype only; got prototypes=None"
    with refused(ValueError, said, "Pass prototypes, or a number"):
        fitted(prototypes=None, **AUTO)


@pytest.mark.parametrize("n_classes", [1, 3])
def test_fewer_than_four_classes_are_too_few(n_classes):
    of_few = np.isin(P.y, P.seen[:n_classes])
    said = f"needs at least four classes in y, to hold two of them out in turn; got {n_classes}."
    with refused(ValueError, said, "Pass a number instead"):
        prepared(**AUTO).fit(P.X[of_few], P.y[of_few])


def test_one_sample_a_class_leaves_none_to_hold_out():
    first = [P.y.tolist().index(label) for label in P.seen]
    said = "holds samples of seen classes out; got one sample of"
    with refused(ValueError, said, "Pass a number instead"):
        prepared(**AUTO).fit(P.X[first], P.y[first])


CHOICES = {
    ZeroShotClassifier: ('"auto" or ', 'Use "auto", which chooses it on held-out classes.'),
    FewShotClassifier: ("", "Choose it inside"),  # few shots are too few to choose by
}


@both_classifiers
@pytest.mark.parametrize("value", ["Auto", *NOT_NUMBERS[1:]], ids=str)
def test_neither_a_number_nor_auto(classifier, value):
    choice, remedy = CHOICES[classifier]
    said = f"`seen_penalty` must be {choice}a number in (-inf, inf); got {value!r}. {remedy}"
    with refused(ValueError, said):
        fit_on_a_small_problem(classifier, seen_penalty=value)


def test_few_shots_are_too_few_to_choose_by():
    with refused(ValueError, "`seen_penalty` must be a number", "got 'auto'"):
        fit_on_a_small_problem(FewShotClassifier, **AUTO)
