"""Each part of the estimator against plain loops, and what is asked of the whole."""

import numpy as np
import pytest
from label_cases import NAMES, as_lists, make_labeled
from scipy import sparse
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score

import zonkey
from zonkey import MultiLabelClassifier, Prototypes
from zonkey.anyshot.logistic import fit_pulled_labels
from zonkey.multilabel.calibrating import (
    GRID,
    Curve,
    choose_thresholds,
    estimate_chances,
    fit_sigmoids,
    lowest_with,
)
from zonkey.multilabel.learning import LabelNames, LearnedLabels, MarkedSamples
from zonkey.multilabel.marks import read_marks
from zonkey.preprocessing import FeatureNormalizer

RNG = np.random.default_rng(0)


def test_pulled_labels_minimize_the_objective_of_loops():
    n, d, m, strength = 30, 3, 4, 0.05
    X, Y = RNG.normal(size=(n, d)), (RNG.random((n, m)) < 0.4).astype(float)
    unknown = (RNG.random((n, m)) < 0.2).astype(float)
    Y = Y * (1 - unknown)
    weights = RNG.random(n)
    weights /= weights.sum()
    W0, b0 = RNG.normal(size=(m, d)), RNG.normal(size=m)

    def objective(v):
        W, b = v[: m * d].reshape(m, d), v[m * d :]
        total = strength * (np.sum((W - W0) ** 2) + 10 * np.sum((b - b0) ** 2))
        for i in range(n):
            for j in range(m):
                if not unknown[i, j]:
                    s = X[i] @ W[j] + b[j]
                    total += weights[i] * (np.log1p(np.exp(s)) - Y[i, j] * s)
        return total

    found = minimize(objective, np.concatenate([W0.ravel(), b0]), options={"gtol": 1e-8}).x
    W, b = fit_pulled_labels(
        X, sparse.csr_array(Y), weights, W0, b0, strength, unknown=sparse.csr_array(unknown)
    )
    assert np.allclose(np.concatenate([W.ravel(), b]), found, atol=1e-4)
    kept = fit_pulled_labels(X, sparse.csr_array(Y), weights, W0, b0, np.inf)
    assert np.array_equal(kept[0], W0)


def test_without_prior_it_is_one_vs_rest_logistic_regression():
    X, Y, _ = make_labeled(1)
    n, C = len(X), 0.01
    own = [LogisticRegression(C=C, tol=1e-8, max_iter=1000).fit(X, y) for y in Y.T]
    # The intercept is pulled, too, where that of scikit-learn is free.
    start = np.zeros((Y.shape[1], X.shape[1])), np.array([one.intercept_[0] for one in own])
    W, b = fit_pulled_labels(
        X, sparse.csr_array(Y * 1.0), np.full(n, 1 / n), *start, 0.5 / (C * n), most_steps=500
    )
    assert np.allclose(W, [one.coef_[0] for one in own], atol=1e-4)
    assert np.allclose(b, start[1], atol=1e-4)


def test_sigmoids_minimize_the_objective_of_loops():
    n, m = 40, 3
    S = RNG.normal(size=(n, m)) * 2
    Y = (S + 2 * RNG.normal(size=(n, m)) > 1).astype(float)
    weights, base = RNG.random((n, m)) * (RNG.random((n, m)) < 0.9), RNG.normal(size=m)
    g0, v0 = np.full(m, 1.2), np.full(m, -0.3)
    g, v = fit_sigmoids(S, Y, weights, (g0, v0), (3.0, 2.0), base)
    for j in range(m):

        def objective(p, j=j):
            odds = p[0] * S[:, j] + base[j] + p[1]
            loss = np.logaddexp(0, odds) - Y[:, j] * odds
            away = 3.0 * (p[0] - 1.2) ** 2 + 2.0 * (p[1] + 0.3) ** 2
            return weights[:, j] @ loss + away / 2

        assert np.allclose([g[j], v[j]], minimize(objective, [1.0, 0.0]).x, atol=1e-3)


def test_thresholds_are_those_of_loops():
    n, m = 60, 4
    P, Y = RNG.random((n, m)), (RNG.random((n, m)) < 0.3).astype(float)
    weights, chances = RNG.random((n, m)), np.array([1.0, 0.5, 0.8, 1.0])
    curve = Curve.measure(P, Y, weights)
    found = choose_thresholds(P, Y, weights, curve, chances, None)
    precise = choose_thresholds(P, Y, weights, curve, chances, 0.6)
    for j in range(m):
        best, qualities, precisions = -1.0, [], []
        for i, t in enumerate(GRID):
            above = P[:, j] >= t
            hits = (weights[above, j] @ Y[above, j] + 10 * curve.found[i]) / chances[j]
            answers = weights[above, j].sum() + 10 * curve.answered[i]
            positives = (weights[:, j] @ Y[:, j] + 10) / chances[j]
            qualities.append(2 * hits / (answers + positives))
            precisions.append(hits / answers)
            best = max(best, qualities[-1])
        assert found[j] == GRID[int(np.argmax(qualities))]
        enough = [t for i, t in enumerate(GRID) if precisions[i] >= 0.6]
        assert precise[j] == (enough[0] if enough else 0.999)


def test_no_threshold_reaches_a_precision():
    assert lowest_with(np.full((len(GRID), 1), 0.5), 0.9)[0] == 0.999
    assert lowest_with(0.95 * (GRID[:, None] == GRID[3]), 0.9)[0] == GRID[3]


def test_discriminant_is_that_of_loops():
    X, Y, _ = make_labeled(2, n=50)
    weights = RNG.integers(1, 3, size=50).astype(float)
    samples = MarkedSamples(X, read_marks(Y), weights, np.ones(len(NAMES), bool))
    learned = LearnedLabels.learn(samples, None, LabelNames())
    W, b = learned.start(4.0, 1.0, 3.0)
    mean = weights @ X / weights.sum()
    for j in range(Y.shape[1]):
        on = Y[:, j] > 0
        n_on, total = weights[on].sum(), weights.sum()
        c = weights[on] @ (X[on] - mean) / (4.0 + n_on)
        rest = -c * n_on / (total - n_on)
        assert np.allclose(W[j], 3 * (c - rest))
        assert np.isclose(b[j], -3 * (c - rest) @ (c + rest) / 2)
        assert np.isclose(learned.base[j], np.log((n_on + 0.5) / (total - n_on + 0.5)))


@pytest.mark.parametrize("joint", [True, False])
def test_names_help_where_there_are_few_positives(joint):
    X, Y, P = make_labeled(3, n=600, joint=joint)
    few = np.random.default_rng(0).permutation(300)[:25]
    lists, truth = as_lists(Y), Y[300:]
    with_names = MultiLabelClassifier(P).fit(X[few], [lists[i] for i in few])
    assert (with_names.state_.shift is not None) == joint
    alone = MultiLabelClassifier().fit(X[few], Y[few])
    scores = [
        f1_score(truth, model.predict(X[300:]), average="macro", zero_division=0)
        for model in (with_names, alone)
    ]
    assert scores[0] > scores[1]
    assert with_names.classes_.tolist() == NAMES.tolist()


@pytest.mark.parametrize("joint", [True, False])
def test_unseen_labels_are_ranked_by_their_names(joint):
    X, Y, P = make_labeled(4, n=500, joint=joint, noise=0.3)
    hidden = NAMES[[3, 9]]
    lists = [[name for name in row if name not in hidden] for row in as_lists(Y)]
    model = MultiLabelClassifier(P).fit(X[:400], lists[:400])
    assert model.unseen_classes_.tolist() == hidden.tolist()
    later = (
        MultiLabelClassifier(
            P.subset(np.setdiff1d(NAMES, hidden)), space=("joint" if joint else "separate")
        )
        .fit(X[:400], lists[:400])
        .with_classes(P.subset(hidden))
    )
    for fitted in (model, later):
        proba = fitted.predict_proba(X[400:])[:, [3, 9]]
        for j, column in enumerate((3, 9)):
            on = Y[400:, column] > 0
            assert np.mean(proba[on, j][:, None] > proba[~on, j][None]) > 0.65


def test_names_alone_in_a_joint_space():
    X, Y, P = make_labeled(5)
    for samples in (None, X):
        model = MultiLabelClassifier(P, space="joint").fit(samples)
        proba = model.predict_proba(X)
        assert zonkey.metrics.mean_average_precision(Y, proba) > 0.5
        assert model.seen_classes_.size == 0
    assert abs(proba.sum(axis=1).mean() - 2) < 0.1
    single = MultiLabelClassifier(P.subset(NAMES[11:]), space="joint")
    for samples in (None, X):
        with pytest.raises(ValueError, match="at least two labels to be compared; got 'l11'"):
            single.fit(samples)


def test_unknown_labels_become_likelier():
    X, Y, _ = make_labeled(6, n=1500, noise=0.3)
    hides = np.random.default_rng(1).random(Y.shape) < 0.6
    marked = Y * ~hides
    plain = MultiLabelClassifier().fit(X, marked)
    model = MultiLabelClassifier(missing="unknown").fit(X, marked)
    assert np.all((model.chances_ > 0.35) & (model.chances_ < 0.7))  # 0.4, at first too high
    assert np.all(plain.chances_ == 1)
    found, before = model.predict_proba(X), plain.predict_proba(X)
    assert abs(found.mean() - Y.mean()) < 0.6 * abs(before.mean() - Y.mean())
    assert f1_score(Y, model.predict(X), average="micro") > 0.85


def test_chances_shrink_to_the_typical_one():
    P = np.array([[0.5, 0.9], [0.5, 0.1], [0.5, 0.1]])
    Y = np.array([[1.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    chances, typical = estimate_chances(P, Y, np.ones((3, 2)))
    assert np.isclose(typical, (3 * 0.5 + 0.9) / 4)
    assert np.allclose(chances, [(1.5 + 10 * typical) / 13, (0.9 + 10 * typical) / 11])


def test_unknown_entries_teach_nothing():
    X, Y, _ = make_labeled(7)
    some = Y.astype(float)
    lost = np.random.default_rng(0).random(Y.shape) < 0.3
    some[lost] = np.nan
    model = MultiLabelClassifier().fit(X, some)
    as_zero = MultiLabelClassifier().fit(X, np.nan_to_num(some))
    truth = Y.mean(axis=0)
    error, other = (
        np.abs(one.predict_proba(X).mean(axis=0) - truth).mean() for one in (model, as_zero)
    )
    assert error < other


def test_wanted_precision_and_number():
    X, Y, _ = make_labeled(8, n=900, noise=1.5)
    Y = Y.copy()
    model = MultiLabelClassifier(precision=0.9).fit(X[:600], Y[:600])
    predicted = model.predict(X[600:]) > 0
    assert Y[600:][predicted].mean() > 0.85
    marked = Y * (np.random.default_rng(2).random(Y.shape) < 0.5)
    careless = MultiLabelClassifier(precision=0.9, missing="unknown").fit(X[:600], marked[:600])
    predicted = careless.predict(X[600:]) > 0
    assert Y[600:][predicted].mean() > 0.85
    assert predicted[Y[600:] > 0].mean() > 0.1
    low = MultiLabelClassifier(threshold=0.2).fit(X[:600], Y[:600])
    assert np.allclose(low.thresholds_, 0.2)
    assert np.array_equal(low.predict(X) > 0, low.predict_proba(X) > 0.2)


def test_wanted_precision_is_the_threshold_without_samples_to_leave_out():
    X, Y, P = make_labeled(16, n=5)
    for model in (
        MultiLabelClassifier(P, space="joint", precision=0.9).fit(),
        MultiLabelClassifier(P, precision=0.9).fit(X, as_lists(Y)),
        MultiLabelClassifier(precision=0.9).fit(X, Y),
    ):
        assert np.allclose(model.thresholds_, 0.9)
    sure = MultiLabelClassifier(P, space="joint", precision=1.0).fit()
    assert np.allclose(sure.thresholds_, 0.999)
    assert np.isfinite(sure.decision_function(X)).all()


def test_labels_of_which_nobody_knows_are_as_frequent_as_others():
    X, Y, _ = make_labeled(17)
    model = MultiLabelClassifier().fit(X, np.column_stack([Y, np.full(len(Y), -1)]))
    typical = np.median(Y.mean(axis=0))
    assert np.allclose(model.predict_proba(X)[:, -1], typical, atol=0.01)


def test_labels_that_always_apply_together_are_no_reason_to_warn(recwarn):
    X, Y, _ = make_labeled(18, n=100)
    model = MultiLabelClassifier().fit(X, Y[:, [-1, -1]])
    assert (model.predict(X) == Y[:, [-1, -1]]).mean() > 0.8
    assert not recwarn
    with pytest.warns(UserWarning, match="scores say nothing"):
        MultiLabelClassifier().fit(np.ones((100, 3)), Y[:, :2])


def test_order_and_copies_do_not_matter():
    X, Y, P = make_labeled(9, n=120)
    lists = as_lists(Y)
    order = np.random.default_rng(0).permutation(120)
    weights = np.random.default_rng(1).integers(0, 3, size=120)
    rows = np.repeat(order, weights[order])
    model = MultiLabelClassifier(P).fit(X, lists, sample_weight=weights)
    same = MultiLabelClassifier(P).fit(X[rows], [lists[i] for i in rows])
    assert np.allclose(model.predict_proba(X), same.predict_proba(X), atol=1e-5)


def test_labels_in_blocks_are_almost_the_same():
    X, Y, _ = make_labeled(10)
    whole = MultiLabelClassifier(preprocessing=FeatureNormalizer(center=True)).fit(X, Y)
    with zonkey.config_context(working_memory=0.1):
        parts = MultiLabelClassifier(preprocessing=FeatureNormalizer(center=True)).fit(X, Y)
    assert np.abs(whole.predict_proba(X) - parts.predict_proba(X)).max() < 0.1


def test_ten_thousand_labels():
    rng = np.random.default_rng(0)
    m, n = 10_000, 400
    of_sample = rng.integers(0, 50, size=(n, 2))
    X = rng.normal(size=(50, 16))[of_sample].sum(axis=1) + 0.1 * rng.normal(size=(n, 16))
    Y = sparse.csr_array((np.ones(2 * n), (np.repeat(np.arange(n), 2), of_sample.ravel())), (n, m))
    Y.data[:] = 1
    model = MultiLabelClassifier(preprocessing=None).fit(X, Y)
    assert model.predict(X[:5]).shape == (5, m)
    assert model.predict(X)[:, 50:].sum() == 0


@pytest.mark.parametrize("n_labels", [1, 2])
def test_few_labels(n_labels):
    X, Y, _ = make_labeled(11)
    model = MultiLabelClassifier().fit(X[:200], Y[:200, -n_labels:])
    assert model.decision_function(X).shape == (300, n_labels)
    assert np.array_equal(model.predict(X), model.decision_function(X) > 0)
    assert f1_score(Y[200:, -n_labels:], model.predict(X[200:]), average="micro") > 0.7


def test_answers_and_files(tmp_path):
    X, Y, P = make_labeled(12)
    model = MultiLabelClassifier(P).fit(X, as_lists(Y))
    proba = model.predict_proba(X)
    top = model.predict_top(X, 3)
    assert np.array_equal(top[:, 0], NAMES[proba.argmax(axis=1)])
    assert model.predict_sets(X)[0] == tuple(NAMES[model.predict(X)[0] > 0])
    assert model.predict_texts(X)[1] == "|".join(NAMES[model.predict(X)[1] > 0])
    assert model.score(X, as_lists(Y)) == model.score(X, Y) > 0.5
    zonkey.save(model, tmp_path / "model.zonkey")
    loaded = zonkey.load(tmp_path / "model.zonkey")
    assert np.array_equal(loaded.predict_proba(X), proba)
    assert np.array_equal(loaded.thresholds_, model.thresholds_)
    wider = loaded.with_classes({"new": P.matrix[0] + 0.01})
    assert wider.classes_.tolist() == sorted([*NAMES, "new"])
    chunks = zonkey.Chunks(X, np.zeros(len(X), int), rows=100)
    assert np.array_equal(model.predict(chunks), model.predict(X))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"threshold": 2}, "threshold"),
        ({"threshold": 0.5, "precision": 0.9}, "Pass one"),
        ({"precision": 0.0}, "precision"),
        ({"missing": "no"}, "missing"),
        ({"preprocessing": 3}, "preprocessing"),
        ({"space": "joint"}, "needs prototypes"),
        ({"prototypes": {"other": [1.0], "more": [2.0]}}, "Columns of y have no names"),
    ],
)
def test_refusals(options, says):
    X, Y, _ = make_labeled(13, n=30)
    with pytest.raises((ValueError, TypeError), match=says) as error:
        MultiLabelClassifier(**options).fit(X, Y)
    assert "\n" not in str(error.value)


@pytest.mark.filterwarnings("ignore:Classes should have different centers")
@pytest.mark.parametrize("seed", range(12))
def test_tiny_problems_of_any_kind_have_answers(seed):
    rng = np.random.default_rng(seed)
    n, m, d = rng.integers(1, 12), rng.integers(1, 5), rng.integers(1, 5)
    X, Y = rng.normal(size=(n, d)), (rng.random((n, m)) < (0.1, 0.4, 0.9)[seed % 3]).astype(float)
    Y[rng.random(Y.shape) < 0.1] = -1
    P = Prototypes(np.arange(m + 1), rng.normal(size=(m + 1, d))) if seed % 2 else None
    missing = ("negative", "unknown")[seed % 4 // 2]
    model = MultiLabelClassifier(P, missing=missing).fit(X, Y)
    proba = model.predict_proba(X)
    assert np.all((proba >= 0) & (proba <= 1))
    assert model.predict(X).shape == (n, m + (seed % 2))


def test_numbers_as_labels_are_scored_in_the_order_of_the_answers():
    X, Y, _ = make_labeled(15, n=80)
    model = MultiLabelClassifier().fit(X, [{3 * j + 1 for j in np.flatnonzero(row)} for row in Y])
    assert model.score(X, model.predict(X)) == 1
    assert zonkey.evaluate(model, X, model.predict(X)).scores["micro_f1"] == 1
    with pytest.raises(ValueError, match="known to be scored; 1 of 960"):
        model.score(X, np.where(np.arange(960).reshape(80, 12) == 5, np.nan, Y))


def test_unknown_names_are_refused():
    X, Y, P = make_labeled(14, n=60)
    with pytest.raises(ValueError, match="needs a prototype"):
        MultiLabelClassifier(Prototypes(["x", "y"], P.matrix[:2])).fit(X, as_lists(Y))
    model = MultiLabelClassifier(P).fit(X, as_lists(Y))
    with pytest.raises(ValueError, match="known to the model"):
        model.score(X, [["other"]] * 60)
    with pytest.raises(ValueError, match=r"already|known"):
        model.with_classes({"l00": P.matrix[0]})
    with pytest.raises(ValueError, match="prototypes=None"):
        MultiLabelClassifier().fit(X, Y).with_classes({"new": P.matrix[0]})
