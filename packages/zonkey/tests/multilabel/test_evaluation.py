"""Figures of several labels are those of scikit-learn, and of loops where it has none."""

import json

import numpy as np
import pytest
from label_cases import NAMES, as_lists, make_labeled
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, f1_score, label_ranking_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import zonkey
from zonkey import MultiLabelClassifier
from zonkey.evaluation.multilabel import ranking_losses
from zonkey.metrics import mean_average_precision, multilabel_calibration_error
from zonkey.metrics.multilabel import average_precisions, calibration_gaps
from zonkey.preprocessing import FeatureNormalizer

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def result():
    X, Y, P = make_labeled(30, n=400, noise=1.0)
    lists = as_lists(Y)
    few = [[name for name in row if name != NAMES[9]] for row in lists[:200]]
    model = MultiLabelClassifier(P).fit(X[:200], few)
    options = {"baselines": "logistic", "training": (X[:200], few)}
    return model, zonkey.evaluate(model, X[200:], lists[200:], **options), X[200:], Y[200:]


def test_figures_are_those_of_scikit_learn(result):
    model, found, X, Y = result
    P, predicted = model.predict_proba(X), model.predict(X)
    has_pairs = (Y.sum(axis=1) > 0) & (Y.sum(axis=1) < Y.shape[1])
    expected = {
        "micro_f1": f1_score(Y, predicted, average="micro"),
        "macro_f1": f1_score(Y, predicted, average="macro", zero_division=0),
        "mean_average_precision": average_precision_score(Y, P, average="macro"),
        "ranking_loss": label_ranking_loss(Y[has_pairs], P[has_pairs]),
        "macro_f1_unseen": f1_score(Y[:, 9], predicted[:, 9]),
        "mean_average_precision_unseen": average_precision_score(Y[:, 9], P[:, 9]),
        "ece": multilabel_calibration_error(Y, P),
    }
    for name, value in expected.items():
        assert np.isclose(found.scores[name], value), name
        low, high = found.intervals[name]
        assert low <= value <= high
        assert high - low < 0.4


def test_output(result, tmp_path):
    _, found, _, _ = result
    assert "micro F1" in found.summary()
    assert "logistic" in found.summary()
    record = json.loads(json.dumps(found.to_dict()))
    assert record["baselines"][0]["model"] == "logistic"
    assert [row["label"] for row in record["labels"]] == NAMES.tolist()
    table = found.per_label().set_index("label")
    assert table.loc[NAMES[9], "kind"] == "unseen"
    assert len(found.to_frame()) == 2 * len(found.scores)
    page = found.to_html(tmp_path / "page.html").read_text()
    assert "macro F1 of unseen labels" in page
    assert NAMES[3] in page


def test_the_baseline_of_a_single_label_that_varies():
    X, Y, _ = make_labeled(32, n=100)
    Y = np.column_stack([np.ones(100, int), Y[:, -1]])
    model = MultiLabelClassifier().fit(X, Y)
    found = zonkey.evaluate(model, X, Y, baselines="logistic", training=(X, Y))
    steps = FeatureNormalizer(), StandardScaler(), LogisticRegression()
    own = make_pipeline(*steps).fit(X, Y[:, 1]).predict_proba(X)
    P = np.column_stack([np.ones(100), own[:, 1]])
    baseline = found.models[1].scores
    assert baseline["ece"] == pytest.approx(multilabel_calibration_error(Y, P), abs=1e-4)
    assert baseline["micro_f1"] == pytest.approx(f1_score(Y, P > 0.5, average="micro"))


def test_a_pipeline_and_strange_labels():
    X, Y, _ = make_labeled(31, n=200)
    model = make_pipeline(StandardScaler(), MultiLabelClassifier()).fit(X, Y)
    plain = zonkey.evaluate(model, X, Y)
    assert plain.scores["micro_f1"] > 0.8
    named = make_pipeline(StandardScaler(), MultiLabelClassifier()).fit(X, as_lists(Y))
    with pytest.warns(UserWarning, match="'other' are not"):
        found = zonkey.evaluate(named, X, [[*row, "other"] for row in as_lists(Y)])
    assert found.scores == pytest.approx(plain.scores)
    with pytest.raises(ValueError, match="logistic"):
        zonkey.evaluate(model, X, Y, baselines="ridge")
    with (
        pytest.raises(ValueError, match="mark labels of the model"),
        pytest.warns(UserWarning, match="'other' are not"),
    ):
        zonkey.evaluate(named, X, [["other"]] * 200)


def test_average_precisions_with_ties_counts_and_unknown():
    n, m = 40, 4
    S = RNG.integers(0, 6, size=(n, m)) / 6
    Y = RNG.integers(-1, 2, size=(n, m))
    Y[:, 2:] = 0, -1
    counts = RNG.integers(0, 3, size=(4, n)).astype(float)
    found = average_precisions(Y, S, counts)
    for i, row in enumerate(counts):
        for j in range(2):
            known = Y[:, j] >= 0
            own = average_precision_score(Y[known, j], S[known, j], sample_weight=row[known])
            assert np.isclose(found[i, j], own)
    assert np.isnan(found[:, 2:]).all()
    mean = mean_average_precision(Y, S, sample_weight=counts[0])
    assert np.isclose(mean, found[0, :2].mean())


def test_calibration_error_is_that_of_loops():
    Y, P = RNG.integers(-1, 2, size=(30, 4)), RNG.random((30, 4))
    total, n = 0.0, np.count_nonzero(Y >= 0)
    for b in range(5):
        inside = (Y >= 0) & (np.minimum((P * 5).astype(int), 4) == b)
        total += abs(np.sum(Y[inside] - P[inside])) / n
    assert np.isclose(multilabel_calibration_error(Y, P, n_bins=5), total)
    gaps, totals = calibration_gaps(Y, P, np.ones((1, 30)), 5)
    assert totals[0] == n
    assert gaps.shape == (1, 5)


def test_ranking_losses_are_those_of_loops():
    Y, P = RNG.integers(-1, 2, size=(30, 5)), RNG.integers(0, 4, size=(30, 5)) / 4
    losses, ranked = ranking_losses(Y, P)
    for i in range(30):
        pairs = [(a, b) for a in range(5) for b in range(5) if Y[i, a] == 1 and Y[i, b] == 0]
        wrong = [P[i, a] <= P[i, b] for a, b in pairs]
        assert ranked[i] == bool(pairs)
        assert np.isclose(losses[i], np.mean(wrong) if pairs else 0)


@pytest.mark.parametrize(
    ("truth", "scores", "says"),
    [
        ([0, 1], [0.1, 0.2], "matrices"),
        ([[0, 2]], [[0.1, 0.2]], "0, 1, or -1"),
        ([[0, 1]], [[0.1, np.nan]], "finite"),
        ([[0, 0]], [[0.1, 0.2]], "at least one label"),
    ],
)
def test_metrics_refuse(truth, scores, says):
    with pytest.raises(ValueError, match=says):
        mean_average_precision(truth, scores)
    with pytest.raises(ValueError, match="probabilities"):
        multilabel_calibration_error([[0, 1]], [[2.0, 0.5]])


def test_calibration_error_refuses():
    with pytest.raises(ValueError, match="-1 only"):
        multilabel_calibration_error([[-1, -1]], [[0.1, 0.2]])
    with pytest.raises(ValueError, match="n_bins must be a positive integer; got 0"):
        multilabel_calibration_error([[0, 1]], [[0.1, 0.2]], n_bins=0)


def test_a_label_of_which_nobody_knows_is_left_out(tmp_path):
    X, Y, _ = make_labeled(33, n=80)
    model = MultiLabelClassifier().fit(X, Y)
    some = np.where(np.arange(12) == 4, -1, Y)
    found = zonkey.evaluate(model, X, some)
    row = found.per_label().iloc[4]
    assert (row["n"], row["n_predicted"]) == (0, 0)
    f1 = f1_score(np.delete(Y, 4, 1), np.delete(model.predict(X), 4, 1), average="macro")
    assert found.scores["macro_f1"] == pytest.approx(f1)
    assert found.to_html(tmp_path / "page.html").exists()
