"""Figures of samples whose class the model does not know, against loops and scikit-learn."""

import json

import numpy as np
import pytest
from evaluated import IS_SEEN, SEEN, UNSEEN, X_TRAIN, Y_TRAIN, X, Y, fitted
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from zonkey import ZeroShotClassifier, evaluate
from zonkey.evaluation.answers import Answers, Strangeness
from zonkey.evaluation.measures import Figures

STRANGE = np.arange(len(Y)) % 4 == 1
LABELED = np.where(STRANGE, "other", Y)
NEW = ("auroc_novelty", "auroc_doubt", "false_rejections", "rejected_strangers")
pytestmark = pytest.mark.filterwarnings("ignore:Strangers")


def naive_auroc(novelty, strange):
    wins = [(a > b) + (a == b) / 2 for a in novelty[strange] for b in novelty[~strange]]
    return sum(wins) / len(wins)


def naive_false_rejections(novelty, strange):
    """Return the share above the highest threshold that 95 % of the strangers reach."""
    for threshold in sorted(set(novelty), reverse=True):
        if np.mean(novelty[strange] >= threshold) >= 0.95:
            return np.mean(novelty[~strange] >= threshold)
    raise AssertionError


@pytest.mark.parametrize("preprocessing", [None, "scaled"])
def test_strangers_among_the_samples(preprocessing):
    model = fitted(reject_below=0.4)
    if preprocessing:
        scaler = StandardScaler().fit(X_TRAIN)
        model = make_pipeline(scaler, model.fit(scaler.transform(X_TRAIN), Y_TRAIN))
    with pytest.warns(UserWarning, match="Strangers: .* of 'other', .* leave them out"):
        found = evaluate(model, X, LABELED)
    rows = model[0].transform(X) if preprocessing else X
    last = model[-1] if preprocessing else model
    novelty = last.novelty(rows)
    assert_allclose(found.scores["auroc_novelty"], naive_auroc(novelty, STRANGE))
    assert_allclose(found.scores["auroc_novelty"], roc_auc_score(STRANGE, novelty))
    highest = last.predict_proba(rows).max(axis=1)
    assert_allclose(found.scores["auroc_doubt"], roc_auc_score(STRANGE, -highest))
    assert_allclose(found.scores["false_rejections"], naive_false_rejections(novelty, STRANGE))
    rejected = last.predict(rows[STRANGE]) == "unknown"
    assert_allclose(found.scores["rejected_strangers"], rejected.mean())
    plain = evaluate(model, X[~STRANGE], Y[~STRANGE])
    assert {name: found.scores[name] for name in found.scores if name not in NEW} == plain.scores
    for name in NEW:
        low, high = found.intervals[name]
        assert 0 <= low <= found.scores[name] <= high <= 1
        assert name in found.to_frame()["measure"].tolist()
    sizes = found.models[0].sizes
    assert (sizes["auroc_novelty"], sizes["rejected_strangers"]) == (len(Y), STRANGE.sum())
    json.dumps(found.to_dict(), allow_nan=False)
    assert "AUROC of novelty" in found.summary()
    assert "rejected of strangers" in found.summary()


def test_candidates_decide_who_is_a_stranger():
    model = fitted(candidates=list(UNSEEN))
    novelty = model.novelty(X)
    found = evaluate(model, X, Y).scores
    assert_allclose(found["auroc_novelty"], roc_auc_score(IS_SEEN, novelty))


def test_other_models_have_their_probabilities_or_no_novelty():
    known = np.isin(Y, SEEN)
    other = LogisticRegression().fit(X_TRAIN, Y_TRAIN)
    found = evaluate(other, X, Y).scores
    expected = roc_auc_score(~known, -other.predict_proba(X).max(axis=1))
    assert_allclose(found["auroc_novelty"], expected)
    paper = ZeroShotClassifier(fitted().prototypes, rho=0.3, candidates="all")
    found = evaluate(paper.fit(X_TRAIN, Y_TRAIN), X, LABELED).scores
    assert not {*NEW} & {*found}
    both = evaluate(
        fitted(), X, LABELED, baselines=["nearest-mean", "logistic"], training=(X_TRAIN, Y_TRAIN)
    )
    assert "auroc_novelty" in both.models[2].scores


def test_counts_are_repeated_samples_and_ties_count_half():
    rng = np.random.default_rng(0)
    novelty = rng.integers(0, 6, 40) / 4
    strange, rejected = np.arange(40) >= 25, rng.random(40) < 0.5  # strangers come last
    known = Answers(np.arange(25), *np.zeros((2, 25), int), None, None, None, None, 1)
    doubt = rng.integers(0, 6, 40) / 4
    given = {"strangeness": Strangeness(novelty, rejected, doubt), "n_strangers": 15}
    y, seen = np.repeat("a", 25), np.full(25, True)
    figures = Figures("", {"all": known}, None, y, seen, mixed=False, k=(1,), **given)
    counts = np.stack([rng.integers(0, 4, 40) for _ in range(5)]).astype(float)
    found = figures.values(counts)
    for i, row in enumerate(counts):
        rows = np.repeat(np.arange(40), row.astype(int))
        values = naive_auroc(novelty[rows], strange[rows])
        assert_allclose(found["auroc_novelty"][i], values)
        values = naive_auroc(doubt[rows], strange[rows])
        assert_allclose(found["auroc_doubt"][i], values)
        values = naive_false_rejections(novelty[rows], strange[rows])
        assert_allclose(found["false_rejections"][i], values)
        assert_allclose(found["rejected_strangers"][i], rejected[rows][strange[rows]].mean())
    none = figures.values(np.where(strange, 0.0, counts))
    assert all(np.isnan(none[name]).all() for name in NEW)
    mixed = Strangeness(novelty, rejected).put_last(~strange)
    assert_allclose(mixed.novelty, np.r_[novelty[25:], novelty[:25]])
    assert_allclose(mixed.rejected, np.r_[rejected[25:], rejected[:25]])
