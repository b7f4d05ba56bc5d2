"""evaluate: figures against loops and scikit-learn, for all kinds of models, samples and labels."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from evaluated import (
    FIXED,
    IS_SEEN,
    LABELS,
    PROTOTYPES,
    SEEN,
    UNSEEN,
    X_TRAIN,
    Y_TRAIN,
    NaiveFigures,
    X,
    Y,
    columns,
    dataset,
    expected_scores,
    fitted,
    naive_area,
)
from numpy.testing import assert_allclose
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import balanced_accuracy_score, top_k_accuracy_score
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC, LinearSVC

from zonkey import (
    AnyShotClassifier,
    FewShotClassifier,
    Moments,
    NearestSupport,
    ZeroShotClassifier,
    evaluate,
)
from zonkey.config import config_context
from zonkey.evaluation import measures
from zonkey.evaluation.answers import Subject, answers_of
from zonkey.evaluation.measures import Figures
from zonkey.files.dataset import Dataset, Split
from zonkey.metrics import (
    expected_calibration_error,
    per_class_accuracy,
    risk_coverage_curve,
)
from zonkey.model_selection import ZeroShotSearchCV

K = (1, 2, 3)


def assert_same_scores(found, expected, **tolerance):
    assert set(found) == set(expected)
    for name, value in expected.items():
        assert_allclose(found[name], value, err_msg=name, **({"atol": 1e-9} | tolerance))


def without_strangers(scores):
    return {
        name: value
        for name, value in scores.items()
        if not name.startswith(("auroc_", "false_rejections"))
    }


CLASSIFIERS = {
    "any-shot": lambda: fitted(),
    "any-shot, unseen": lambda: fitted(candidates="unseen", kernel="rbf", seen_penalty=0.3),
    "any-shot, own temperatures": lambda: fitted(temperature="auto"),
    "any-shot, shares of classes": lambda: fitted(
        priors=dict(zip(LABELS, np.arange(1, 13) / 78, strict=True))
    ),
    "adapted": lambda: fitted().with_candidates(UNSEEN).adapt(X[~IS_SEEN]).with_candidates("all"),
    "paper": lambda: ZeroShotClassifier(PROTOTYPES, rho=0.3, seen_penalty=2.0, random_state=1),
    "forward": lambda: ZeroShotClassifier(PROTOTYPES, direction="forward", candidates="all"),
}


def ready(name):
    model = CLASSIFIERS[name]()
    return model if hasattr(model, "classes_") else model.fit(X_TRAIN, Y_TRAIN)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_every_figure_against_loops(name):
    model = ready(name)
    expected = expected_scores(model, X, Y, SEEN, LABELS, K)
    assert 0 < expected["hm"] < 1
    assert_same_scores(evaluate(model, X, Y, k=K).scores, expected)


@pytest.mark.parametrize("kind", ["seen", "unseen"])
def test_samples_of_one_kind(kind):
    rows = IS_SEEN if kind == "seen" else ~IS_SEEN
    found = evaluate(fitted(), X[rows], Y[rows], k=K)
    assert_same_scores(found.scores, expected_scores(fitted(), X[rows], Y[rows], SEEN, LABELS, K))
    assert f"accuracy_{kind}" in found.scores
    assert "hm" not in found.scores
    assert found.curve is None
    with pytest.raises(ValueError, match="needs samples of seen and of unseen classes"):
        found.plot_curve()
    among = fitted().with_candidates(SEEN if kind == "seen" else UNSEEN)
    assert_allclose(found.scores[f"accuracy_{kind}"], among.score(X[rows], Y[rows]))


@pytest.mark.parametrize(
    "candidates",
    [["c01", "c08"], ["c08", "c09"], ["c11"], ["c02", *UNSEEN], LABELS],
    ids=str,
)
def test_a_list_of_candidates_restricts_everything(candidates):
    model = fitted().with_candidates(candidates)
    rows = np.isin(Y, candidates)
    expected = expected_scores(
        model, X[rows], Y[rows], [label for label in candidates if label in SEEN], candidates, K
    )
    assert_same_scores(evaluate(model, X[rows], Y[rows], k=K).scores, expected)
    if rows.all():
        return
    with pytest.warns(UserWarning, match=f"Strangers: {(~rows).sum()} of {len(Y)} samples"):
        found = evaluate(model, X, Y, k=K)
    assert_same_scores(without_strangers(found.scores), expected)
    assert found.provenance["data"]["n_left_out"] == (~rows).sum()
    assert found.provenance["data"]["n_samples"] == rows.sum()


def test_one_sample_of_one_class():
    model = fitted(candidates=["c11"])
    found = evaluate(model, X[Y == "c11"][:1], ["c11"], k=(1, 2))
    assert found.scores == {
        **{"accuracy_unseen": 1.0, "hit@1_unseen": 1.0, "ece_unseen": 0.0, "aurc_unseen": 0.0}
    }
    assert found.intervals["accuracy_unseen"] == (1.0, 1.0)
    assert len(found.confusions()) == 0
    assert "1 sample of 1 class (0 seen, 1 unseen)" in found.summary()


def test_labels_that_the_model_does_not_know():
    labels = Y.astype("<U20")
    labels[:4] = "unicorn"
    with pytest.warns(UserWarning, match=f"4 of {len(Y)} samples, of 'unicorn'") as caught:
        found = evaluate(fitted(), X, labels)
    assert caught[0].filename == __file__
    expected = evaluate(fitted(), X[4:], Y[4:]).scores
    assert_same_scores(without_strangers(found.scores), expected)
    with pytest.raises(ValueError, match=f"all are others: {len(Y)} of {len(Y)}"):
        evaluate(fitted(), X, np.full(len(Y), "unicorn"))


def test_numbers_as_labels():
    codes = {label: 10 * j for j, label in enumerate(LABELS)}
    as_numbers = np.vectorize(codes.get)
    prototypes = {codes[label]: PROTOTYPES[label] for label in LABELS}
    model = fitted(prototypes, y=as_numbers(Y_TRAIN))
    found = evaluate(model, X, as_numbers(Y))
    assert found.scores == evaluate(fitted(), X, Y).scores
    json.dumps(found.to_dict(), allow_nan=False)
    table, of_text = found.per_class(), evaluate(fitted(), X, Y).per_class()
    for column in ("class", "wrong_answer"):
        assert table[column].tolist() == [codes.get(name) for name in of_text[column]]
    with pytest.raises(ValueError, match="of one kind"):
        evaluate(model, X, Y)


def test_all_kinds_of_containers():
    model = fitted()
    expected = evaluate(model, X, Y).scores
    assert evaluate(model, X.tolist(), Y.tolist()).scores == expected
    assert evaluate(model, pd.DataFrame(X), pd.Series(Y)).scores == expected
    with_tensor = evaluate(model, torch.as_tensor(X), Y)
    assert_same_scores(with_tensor.scores, expected)
    single = evaluate(model, X.astype(np.float32), Y)
    assert_same_scores(single.scores, expected, atol=1e-4)


def test_a_model_on_tensors():
    def place(X, y):
        return torch.as_tensor(X), torch.as_tensor(np.searchsorted(LABELS, y))

    prototypes = {j: PROTOTYPES[label] for j, label in enumerate(LABELS)}
    training = place(X_TRAIN, Y_TRAIN)
    model = fitted(prototypes, *training)
    found = evaluate(model, *place(X, Y), baselines="ridge", training=training)
    expected = evaluate(fitted(), X, Y, baselines="ridge", training=(X_TRAIN, Y_TRAIN))
    for one, other in zip(found.models, expected.models, strict=True):
        assert_same_scores(one.scores, other.scores)


def test_pipelines_and_searches():
    pipeline = make_pipeline(
        StandardScaler(), AnyShotClassifier(PROTOTYPES, candidates="all", **FIXED)
    ).fit(X_TRAIN, Y_TRAIN)
    found = evaluate(pipeline, X, Y)
    expected = evaluate(pipeline[-1], pipeline[0].transform(X), Y)
    assert_same_scores(found.scores, expected.scores)
    assert found.provenance["model"]["steps"] == ["StandardScaler", "AnyShotClassifier"]
    rows = evaluate(pipeline, pd.DataFrame(X).astype(str), Y)
    assert_same_scores(rows.scores, expected.scores)
    texts = make_pipeline(FunctionTransformer(as_floats), pipeline[-1])
    rows = [" ".join(map(repr, row)) for row in pipeline[0].transform(X).tolist()]
    assert_same_scores(evaluate(texts, rows, Y).scores, expected.scores)
    search = ZeroShotSearchCV(ZeroShotClassifier(PROTOTYPES), {"beta": [0.1, 1.0]}, cv=3)
    search.fit(X_TRAIN, Y_TRAIN)
    assert evaluate(search, X, Y).scores == evaluate(search.best_estimator_, X, Y).scores


def as_floats(rows):
    return np.array([[float(number) for number in row.split()] for row in rows])


def test_few_shot_models_choose_among_novel_classes():
    base = Moments.from_arrays(X_TRAIN, Y_TRAIN, PROTOTYPES)
    novel = ["c07", "c08", "c09"]  # "c10" and "c11" have prototypes only
    shots = np.isin(Y, novel)
    model = FewShotClassifier(PROTOTYPES, base=base, n_episodes=2, random_state=0)
    model.fit(X[shots], Y[shots])
    rows = shots | IS_SEEN
    found = evaluate(model, X[rows], Y[rows], k=K)
    assert_same_scores(
        found.scores, expected_scores(model, X[rows], Y[rows], SEEN, [*SEEN, *novel], K)
    )
    assert_allclose(found.scores["accuracy_unseen"], model.score(X[shots], Y[shots]))
    alone = FewShotClassifier(PROTOTYPES, n_episodes=2, random_state=0).fit(X[shots], Y[shots])
    assert set(evaluate(alone, X[shots], Y[shots], k=2).scores) == {
        "accuracy_unseen",
        "hit@2_unseen",
    }


def test_classes_that_got_shots_are_seen():
    shots = np.flatnonzero(Y == "c08")[:2]
    model = fitted().with_shots(X[shots], Y[shots])
    with pytest.warns(UserWarning, match="Strangers"):
        found = evaluate(model, X, Y)
    assert found.scores["accuracy_seen"] == 1.0  # the only candidate
    grown = fitted().partial_fit(X[shots], Y[shots])
    expected = expected_scores(grown, X, Y, [*SEEN, "c08"], LABELS, (1, 5))
    assert_same_scores(evaluate(grown, X, Y).scores, expected)


def test_classes_without_a_prototype():
    model = fitted({label: PROTOTYPES[label] for label in LABELS if label != "c01"})
    expected = expected_scores(model, X, Y, SEEN, LABELS, K)
    found = evaluate(model, X, Y, k=K, baselines="ridge", training=(X_TRAIN, Y_TRAIN))
    assert_same_scores(found.scores, expected)
    right = found.models[1].answers["all"].right
    assert right.any()
    assert not right[Y == "c01"].any()


@pytest.mark.parametrize("candidates", ["all", "unseen"])
def test_rejection(candidates):
    model = fitted(reject_below=0.4, reject_label="none", candidates=candidates)
    plain, found = evaluate(fitted(), X, Y).scores, evaluate(model, X, Y).scores
    for name, rows, chosen in (
        ("unseen", ~IS_SEEN, UNSEEN),
        ("seen", IS_SEEN, SEEN),
        ("all", IS_SEEN | True, LABELS),
    ):
        answers = model.with_candidates(chosen).predict(X[rows])
        rejected = answers == "none"
        assert 0.05 < rejected.mean() < 0.95
        assert_allclose(found.pop(f"rejected_{name}"), rejected.mean())
        right = (answers == Y[rows])[~rejected].mean()
        assert_allclose(found.pop(f"selective_accuracy_{name}"), right)
    assert_same_scores(found, plain)
    assert "rejected_all" not in evaluate(model.set_params(reject_below=None), X, Y).scores
    found = evaluate(model.set_params(reject_below=1.0), X, Y)
    assert found.scores["rejected_all"] == 1.0
    assert "selective_accuracy_all" not in found.scores
    json.dumps(found.to_dict(), allow_nan=False)


# Classifiers of scikit-learn.


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(),
        KNeighborsClassifier(3),
        make_pipeline(StandardScaler(), SVC()),
        NearestSupport("mean"),
        GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("n_classes", [2, 5])
def test_classifiers_of_seen_classes(model, n_classes):
    labels = SEEN[:n_classes]
    train, test = np.isin(Y_TRAIN, labels), np.isin(Y, labels)
    model = model.fit(X_TRAIN[train], Y_TRAIN[train])
    found = evaluate(model, X[test], Y[test], k=(1, 3)).scores
    assert_allclose(
        found.pop("accuracy_seen"), balanced_accuracy_score(Y[test], model.predict(X[test]))
    )
    assert_allclose(found.pop("hit@1_seen"), np.mean(model.predict(X[test]) == Y[test]))
    has_proba = hasattr(model, "predict_proba")
    if n_classes > 3:
        scores = model.predict_proba(X[test]) if has_proba else model.decision_function(X[test])
        hits = found.pop("hit@3_seen")
        assert_allclose(hits, NaiveFigures(Y[test], labels, scores).hits(3))
        if not isinstance(model, KNeighborsClassifier):  # whose ties scikit-learn breaks otherwise
            top = top_k_accuracy_score(Y[test], scores, k=3, labels=model.classes_)
            assert_allclose(hits, top)
    if has_proba:
        error = expected_calibration_error(Y[test], model.predict_proba(X[test]), model.classes_)
        assert_allclose(found.pop("ece_seen"), error, atol=1e-12)
        P = model.predict_proba(X[test])
        curve = risk_coverage_curve(Y[test], model.predict(X[test]), P.max(axis=1))
        assert_allclose(found.pop("aurc_seen"), curve.area)
    assert not found


def test_classifiers_that_can_only_predict():
    class Constant(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):  # noqa: ARG002
            self.classes_ = np.array(["c02", "c01", "c00"])  # in no order
            return self

        def predict(self, X):
            return np.where(np.arange(len(X)) % 3 == 0, "none", "c01")

    rows = np.isin(Y, ["c00", "c01", "c02"])
    model = Constant().fit(X, Y)
    found, expected = evaluate(model, X[rows], Y[rows]), model.predict(X[rows])
    assert set(found.scores) == {"accuracy_seen", "hit@1_seen"}
    assert_allclose(found.scores["accuracy_seen"], per_class_accuracy(Y[rows], expected))
    wrong = (expected != Y[rows]) & (expected != "none")
    assert found.confusions(None)["count"].sum() == wrong.sum()
    with pytest.raises(ValueError, match="needs a model with probabilities"):
        found.plot_calibration()


def test_pairwise_scores_are_no_scores_of_classes():
    rows, train = np.isin(Y, SEEN[:4]), np.isin(Y_TRAIN, SEEN[:4])
    pairs = SVC(decision_function_shape="ovo").fit(X_TRAIN[train], Y_TRAIN[train])
    assert set(evaluate(pairs, X[rows], Y[rows], k=2).scores) == {"accuracy_seen"}
    sparse = LinearSVC().fit(csr_matrix(X_TRAIN[train]), Y_TRAIN[train])
    found = evaluate(sparse, csr_matrix(X[rows]), Y[rows], k=2)
    assert_same_scores(found.scores, evaluate(sparse, X[rows], Y[rows], k=2).scores)
    assert "hit@2_seen" in found.scores


# Parameters and guarantees.


@pytest.mark.filterwarnings("ignore:Strangers")
def test_small_blocks_change_nothing():
    labels = np.where(np.arange(len(Y)) % 4 == 1, "stranger", Y)
    expected = evaluate(fitted(reject_below=0.3), X, labels, k=K)
    with config_context(working_memory=30 * 32 / 2**20):  # 2 samples
        found = evaluate(fitted(reject_below=0.3), X, labels, k=K)
    assert "auroc_novelty" in found.scores
    assert_same_scores(found.scores, expected.scores)
    assert_allclose(found.curve.penalties, expected.curve.penalties)


@pytest.mark.parametrize(
    ("k", "found"),
    [
        (4, {"hit@4_unseen", "hit@4_seen", "hit@4_all"}),
        # Always 1 among five unseen classes, hence left out.
        ([5, 6], {"hit@5_seen", "hit@6_seen", "hit@5_all", "hit@6_all"}),
    ],
)
def test_values_of_k(k, found):
    assert {name for name in evaluate(fitted(), X, Y, k=k).scores if "hit" in name} == found


@pytest.mark.parametrize("kind", ["any-shot", "paper"])
def test_candidates_set_after_a_fit_wait_for_the_next(kind):
    listed = ["c01", "c02", "c08", "c09"]
    rows = np.isin(Y, listed)
    for chosen, later in (("all", listed), (listed, "all")):
        model = ready(kind).with_candidates(chosen)
        before = evaluate(model, X[rows], Y[rows])
        after = evaluate(model.set_params(candidates=later), X[rows], Y[rows])
        assert after.scores == before.scores
        assert len(after.labels) == len(before.labels) == (12 if chosen == "all" else 4)


def test_intervals(monkeypatch):
    monkeypatch.setattr(measures, "N_DRAWS", 1000)
    first = evaluate(fitted(), X, Y)
    for name, (low, high) in first.intervals.items():
        assert 0 <= low <= first.scores[name] <= high <= 1
        assert high - low > 0.02 or first.scores[name] == 1
    wide = evaluate(fitted(), X, Y, confidence=0.99)
    other = evaluate(fitted(), X, Y, random_state=1)
    for name in first.scores:
        spans = [high - low for low, high in (first.intervals[name], wide.intervals[name])]
        assert spans[0] < spans[1] or first.scores[name] == 1
        assert other.intervals[name] != first.intervals[name] or first.scores[name] == 1
        assert_allclose(other.intervals[name], first.intervals[name], atol=0.1)
    assert other.scores == first.scores
    assert wide.confidence == 0.99


def test_figures_of_resampled_classes_and_samples():
    """Counts other than 1 are repeated samples; a class drawn twice counts twice."""
    model = fitted()
    subject = Subject.from_model(model)
    answers, margins = answers_of(subject, X, Y, subject.seen)
    figures = Figures("x", answers, margins, Y, IS_SEEN, mixed=True, k=K)
    rng = np.random.default_rng(3)
    sizes = {label: int((label == Y).sum()) for label in np.unique(Y)}
    for _ in range(3):
        counts = np.zeros(len(Y))
        for kind in (IS_SEEN, ~IS_SEEN):
            labels = np.unique(Y[kind])
            for label in rng.choice(labels, len(labels)):
                np.add.at(counts, rng.choice(np.flatnonzero(label == Y), sizes[label]), 1)
        found = {name: value[0] for name, value in figures.values(counts[None]).items()}
        for name, rows, chosen in (("unseen", ~IS_SEEN, UNSEEN), ("seen", IS_SEEN, SEEN)):
            among = model.with_candidates(chosen)
            scores, P = columns(among, X[rows]), columns(among, X[rows], proba=True)
            naive = NaiveFigures(Y[rows], chosen, scores, P, counts[rows])
            assert_allclose(found[f"accuracy_{name}"], naive.accuracy(sizes))
            assert_allclose(found[f"hit@2_{name}"], naive.hits(2))
            assert_allclose(found[f"ece_{name}"], naive.calibration_error())
            assert_allclose(found[f"aurc_{name}"], naive.risk_area())
        shares = np.array([1 / sizes[label] for label in Y])
        weights = counts * shares
        for kind in (IS_SEEN, ~IS_SEEN):
            weights[kind] /= weights[kind].sum()
        scores = columns(model, X).tolist()
        assert_allclose(found["ausuc"], naive_area(list(Y), LABELS, scores, SEEN, weights.tolist()))
        s, u = found["acc_s"], found["acc_u"]
        assert_allclose(found["hm"], 2 * s * u / (s + u))


def test_a_data_set():
    data = dataset()
    model = fitted()
    found = evaluate(model, data)
    test = np.concatenate([data.split.test_seen, data.split.test_unseen])
    by_arrays = evaluate(model, data.X[test], data.y[test])
    assert found.scores == by_arrays.scores
    assert found.provenance["data"]["fingerprint"] == data.sha256[:16]
    assert found.summary().startswith("AnyShotClassifier on made up: 57 samples of 10 classes")
    assert found.plot_classes() is not None
    empty = Dataset("x", X, Y, PROTOTYPES, Split(train=np.arange(len(Y)), test_unseen=[]))
    with pytest.raises(ValueError, match="must have test samples"):
        evaluate(model, empty)
    with pytest.raises(ValueError, match="`y` must be None if X is a Dataset"):
        evaluate(model, data, Y)


def test_the_fingerprint_depends_on_samples_and_labels():
    def fingerprint(X, y):
        return evaluate(fitted(), X, y).provenance["data"]["fingerprint"]

    first = fingerprint(X, Y)
    assert fingerprint(X.copy(), Y.tolist()) == first
    assert len({first, fingerprint(X[::-1], Y), fingerprint(X, Y[::-1])}) == 3


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((X,), {}, "`y` must hold the label of each sample"),
        ((X, Y[:-1]), {}, "must have one row per sample"),
        ((X[:0], Y[:0]), {}, "one row per sample and at least one"),
        ((X, Y), {"k": 0}, "`k` must be an integer of at least 1; got 0"),
        ((X, Y), {"k": ()}, "`k` must be an integer or several"),
        ((X, Y), {"k": None}, "`k` must be an integer or several"),
        ((X, Y), {"confidence": 1}, "`confidence` must be between 0 and 1; got 1"),
        ((X, Y), {"confidence": "high"}, "`confidence` must be between 0 and 1"),
        ((X, Y), {"random_state": -1}, "`random_state` must be an integer of at least 0"),
        ((X, Y), {"baselines": "random"}, "`baselines` must be one of 'nearest-mean', 'ridge'"),
        ((X, Y), {"baselines": 3}, "`baselines` must be one of"),
        ((X, Y), {"baselines": ["ridge"]}, r"`training` must be a pair \(X, y\).*got None"),
        ((X, Y), {"baselines": ["ridge"], "training": X}, "got ndarray"),
    ],
)
def test_bad_calls(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        evaluate(fitted(), *arguments, **options)


def test_what_is_no_classifier():
    with pytest.raises(TypeError, match="which cannot predict"):
        evaluate(StandardScaler().fit(X), X, Y)
    with pytest.raises(TypeError, match="must be a classifier"):
        evaluate(make_pipeline(StandardScaler(), LinearRegression()).fit(X, X[:, 0]), X, Y)
    with pytest.raises(NotFittedError):
        evaluate(AnyShotClassifier(PROTOTYPES), X, Y)
