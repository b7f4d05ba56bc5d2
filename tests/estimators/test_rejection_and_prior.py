"""What is known of the odds of seen classes, and when a model answers that it does not know."""

import numpy as np
import pytest
from both_classifiers import both_classifiers, fit_on_a_small_problem
from numpy.testing import assert_allclose, assert_array_equal
from refusals import NOT_NUMBERS, refused
from scipy.special import softmax

from zonkey import FewShotClassifier, Moments, ZeroShotClassifier
from zonkey.testing import linear_problem

P = linear_problem(noise=1.0, n_classes=18)
X_ALL, Y_ALL = np.concatenate([P.X, P.X_new]), np.concatenate([P.y, P.y_new])
OF_SEEN = np.isin(list(P.prototypes), P.seen)
THRESHOLDS = [0.0, 0.2, 0.4, 0.6, 0.8, 0.95, 1.0]


def fitted(p=P, **parameters):
    defaults = {"candidates": "all", "temperature": 2.0}
    return p.fitted(ZeroShotClassifier(), **(defaults | parameters))


def few_shot(**parameters):
    base = Moments.from_arrays(P.X, P.y, P.prototypes)
    defaults = {"candidates": "all", "temperature": 2.0, "random_state": 0, "n_episodes": 2}
    model = FewShotClassifier(P.prototypes, base=base, **(defaults | parameters))
    return model.fit(P.X_new[:20], P.y_new[:20])


both_fits = pytest.mark.parametrize("fit", [fitted, few_shot])


@both_fits
@pytest.mark.parametrize("temperature", [0.5, 1, 30.0])
def test_probabilities_are_the_softmax_of_the_scores(fit, temperature):
    model = fit(temperature=temperature, seen_penalty=1.5)
    expected = softmax(model.decision_function(X_ALL) / temperature, axis=1)
    assert_allclose(model.predict_proba(X_ALL), expected, rtol=1e-10, atol=1e-300)
    assert model.predict_proba(X_ALL).shape == (len(X_ALL), 18)


def test_probabilities_of_two_candidates_and_of_single_precision():
    model = fitted(candidates=P.unseen[:2])
    second = 1 / (1 + np.exp(-model.decision_function(X_ALL) / 2.0))
    assert_allclose(model.predict_proba(X_ALL), np.stack([1 - second, second], axis=1), atol=1e-12)
    narrow = fitted().predict_proba(np.float32(X_ALL))
    assert narrow.dtype == np.float32
    assert_allclose(narrow, fitted().predict_proba(X_ALL), atol=1e-4)


def test_large_scores_and_a_small_temperature_leave_no_nan():
    probabilities = fitted(temperature=1e-300).predict_proba(1e3 * X_ALL)
    assert_array_equal(np.sort(probabilities, axis=1)[:, -1], 1.0)
    assert_array_equal(probabilities.sum(axis=1), 1.0)
    certain = fitted(temperature=1e-300, reject_below=1.0)
    assert "unknown" not in certain.predict(1e3 * X_ALL)  # below 1 is not at 1


# The odds of seen classes


@both_fits
def test_even_odds_change_nothing(fit):
    plain, even = fit(seen_penalty=1.5), fit(seen_penalty=1.5, seen_prior=0.5)
    assert_array_equal(even.decision_function(X_ALL), plain.decision_function(X_ALL))
    assert_array_equal(even.predict(X_ALL), plain.predict(X_ALL))


@both_fits
@pytest.mark.parametrize("prior", [0.01, 0.3, 0.9])
def test_odds_shift_the_scores_of_seen_classes(fit, prior):
    plain, shifted = fit(), fit(seen_prior=prior)
    shift = shifted.decision_function(X_ALL) - plain.decision_function(X_ALL)
    expected = np.where(OF_SEEN, 2.0 * np.log(prior / (1 - prior)), 0.0)
    assert_allclose(shift, np.broadcast_to(expected, shift.shape), atol=1e-9)


@pytest.mark.parametrize("parameters", [{}, {"temperature": "auto", "seen_penalty": "auto"}])
@pytest.mark.parametrize("prior", [0.1, 0.8])
def test_odds_multiply_the_odds_of_the_probabilities(prior, parameters):
    def odds(model):
        probabilities = model.predict_proba(X_ALL)
        return probabilities[:, OF_SEEN].sum(axis=1) / probabilities[:, ~OF_SEEN].sum(axis=1)

    plain, shifted = fitted(**parameters), fitted(seen_prior=prior, **parameters)
    assert_allclose(odds(shifted), odds(plain) * prior / (1 - prior), rtol=1e-7)
    assert shifted.seen_penalty_ == plain.seen_penalty_


def test_the_more_seen_samples_are_expected_the_more_are_predicted():
    shares = [
        np.isin(fitted(seen_prior=prior).predict(X_ALL), P.seen).mean()
        for prior in (1e-6, 0.1, 0.5, 0.9, 1 - 1e-6)
    ]
    assert shares == sorted(shares)
    assert shares[-1] - shares[0] > 0.3


# The right not to answer


@both_fits
def test_answers_below_the_threshold_are_refused_and_no_others(fit):
    plain = fit()
    sure = plain.predict_proba(X_ALL).max(axis=1)
    shares = []
    for threshold in THRESHOLDS:
        answers = fit(reject_below=threshold).predict(X_ALL)
        assert_array_equal(answers == "unknown", sure < threshold)
        answered = answers != "unknown"
        assert_array_equal(answers[answered], plain.predict(X_ALL)[answered])
        shares.append(1 - answered.mean())
    assert shares[0] == 0
    assert shares == sorted(shares)
    assert shares[-1] > 0.9
    assert len(set(shares)) > 4


@both_fits
def test_the_answer_is_that_of_the_highest_score_where_probabilities_are_equal(fit):
    model = fit(temperature=1e30, reject_below=0.0)
    probabilities = model.predict_proba(X_ALL)
    assert_array_equal(probabilities, probabilities[:, :1] * np.ones(18))
    best = model.decision_function(X_ALL).argmax(axis=1)
    assert_array_equal(model.predict(X_ALL), model.classes_[best])
    assert len(set(best)) > 10


def test_what_is_answered_is_more_often_right():
    accuracies = []
    for threshold in THRESHOLDS[:5]:
        answers = fitted(reject_below=threshold).predict(X_ALL)
        answered = answers != "unknown"
        accuracies.append(np.mean(answers[answered] == Y_ALL[answered]))
    assert accuracies[-1] > accuracies[0] + 0.1
    assert min(np.diff(accuracies)) > -0.02


@both_fits
def test_nothing_but_predict_refuses(fit):
    plain, careful = fit(), fit(reject_below=0.9)
    for method in ("predict_top", "decision_function", "predict_proba"):
        assert_array_equal(getattr(careful, method)(X_ALL), getattr(plain, method)(X_ALL))
    assert_array_equal(careful.projection_, plain.projection_)


@both_fits
def test_a_refused_sample_scores_as_a_wrong_one(fit):
    model = fit(reject_below=0.6)
    answers = model.predict(X_ALL)
    recalls = [np.mean(answers[label == Y_ALL] == label) for label in P.prototypes]
    assert_allclose(model.score(X_ALL, Y_ALL), np.mean(recalls))


def test_other_candidates_and_classes_keep_the_right():
    model = fitted(reject_below=0.8)
    fewer = model.with_candidates("unseen")
    expected = fitted(reject_below=0.8, candidates="unseen").predict(X_ALL)
    assert_array_equal(fewer.predict(X_ALL), expected)
    assert 0 < np.mean(expected == "unknown") < np.mean(model.predict(X_ALL) == "unknown")
    twin = model.with_classes({"twin": P.prototypes[P.unseen[0]]})
    own = twin.predict_proba(X_ALL)[:, [list(P.prototypes).index(P.unseen[0])]]
    assert_allclose(own[:, 0], twin.predict_proba(X_ALL)[:, -1], rtol=1e-9)
    of_twins = np.isin(fitted().predict(X_ALL), P.unseen[0])
    assert_array_equal(twin.predict(X_ALL)[of_twins], "unknown")  # two classes share the odds


# The label that stands for no answer


MUST_BE = "`reject_label` must be a label of the same kind as the candidates, and none of them"
LETTERS = [chr(ord("a") + j) for j in range(18)]


@pytest.mark.parametrize(
    ("names", "given", "label"),
    [
        (LETTERS, None, "unknown"),
        (LETTERS, "none of these, I am afraid", "none of these, I am afraid"),
        (LETTERS, "", ""),
        (range(18), None, -1),
        (range(18), 99, 99),
        (np.arange(18, dtype=np.int8), None, -1),
        (np.arange(18, dtype=np.int8), 1000, 1000),
        (np.arange(18.0), None, -1.0),
        (range(18), np.int64(-7), -7),
    ],
    ids=str,
)
def test_labels_of_every_kind(names, given, label):
    name = dict(zip(P.prototypes, np.asarray(names).tolist(), strict=True))
    prototypes = dict(zip(names, P.prototypes.values(), strict=True))
    model = ZeroShotClassifier(prototypes, candidates="all", temperature=2.0, random_state=0)
    model.set_params(reject_below=0.6, reject_label=given)
    y = np.array([name[known] for known in P.y], np.asarray(names).dtype)
    answers = model.fit(P.X, y).predict(X_ALL)
    as_text = fitted(reject_below=0.6).predict(X_ALL)
    expected = [label if answer == "unknown" else name[answer] for answer in as_text]
    assert answers.tolist() == expected
    assert 0.1 < np.mean(as_text == "unknown") < 0.9


@both_fits
@pytest.mark.parametrize("label", [P.unseen[0], P.seen[0]])
def test_a_candidate_is_no_such_label(fit, label):
    model = fit(reject_below=0.5, reject_label=label)
    with refused(ValueError, MUST_BE, f"got {label!r}", "Choose another"):
        model.predict(X_ALL)
    others = [known for known in P.prototypes if known != label]
    assert label in model.with_candidates(others).predict(X_ALL)


def test_a_class_called_unknown_needs_another_label():
    prototypes = P.prototypes | {"unknown": np.ones(5)}
    with refused(ValueError, MUST_BE, "got 'unknown'", "Choose another"):
        fitted(prototypes=prototypes, reject_below=0.5).predict(X_ALL)
    answers = fitted(prototypes=prototypes, reject_below=0.5, reject_label="?").predict(X_ALL)
    assert "?" in answers


@pytest.mark.parametrize(
    ("names", "label"),
    [(LETTERS, 0), (LETTERS, -1.5), (range(18), "unknown"), (np.arange(18.0), "-1")],
    ids=["0", "-1.5", "unknown", "-1"],
)
def test_a_label_of_another_kind_is_no_such_label(names, label):
    name = dict(zip(P.prototypes, names, strict=True))
    prototypes = dict(zip(names, P.prototypes.values(), strict=True))
    model = ZeroShotClassifier(prototypes, candidates="all", reject_below=0.5, reject_label=label)
    model.fit(P.X, [name[known] for known in P.y])
    with refused(ValueError, MUST_BE, f"got {label!r}", "Choose another, or None"):
        model.predict(X_ALL)


# What is refused

OUTSIDE = [-0.1, 1.1, *[value for value in NOT_NUMBERS if value is not None]]


@both_classifiers
@pytest.mark.parametrize("value", [0, 1, 0.0, 1.0, *OUTSIDE], ids=str)
def test_priors_outside_their_range(classifier, value):
    with refused(ValueError, "`seen_prior` must be a number in (0, 1)", f"got {value!r}"):
        fit_on_a_small_problem(classifier, seen_prior=value)


@both_classifiers
@pytest.mark.parametrize("temperature", [{}, {"temperature": 1}, {"temperature": 1.0}], ids=str)
def test_a_prior_needs_a_temperature_that_was_fitted(classifier, temperature):
    said = "`seen_prior` shifts scores by the temperature, which must be fitted to them"
    with refused(ValueError, said, "default of 1.0", 'Use temperature="auto", or pass one'):
        fit_on_a_small_problem(classifier, seen_prior=0.3, **temperature)


@both_classifiers
@pytest.mark.parametrize("value", OUTSIDE, ids=str)
def test_thresholds_outside_their_range(classifier, value):
    with refused(ValueError, "`reject_below` must be a number in [0, 1]", f"got {value!r}"):
        fit_on_a_small_problem(classifier, reject_below=value)
