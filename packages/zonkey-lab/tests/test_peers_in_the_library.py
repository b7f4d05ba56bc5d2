"""Peers as models of the library: evaluate, explain, files, ONNX, index, chunks and searches."""

import json
import subprocess
import sys
import warnings
from pathlib import Path

import any_shot_cases as cases
import evaluated
import joblib
import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from reference_posterior import width
from refusals import refused
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler

import zonkey
from zonkey import (
    CandidateIndex,
    Chunks,
    Prototypes,
    StorageError,
    evaluate,
    stored_classes,
    to_onnx,
)
from zonkey.bpl.calibration import calibrate
from zonkey.model_selection import ClassKFold, ZeroShotSearchCV
from zonkey.persistence.forms import StorableClasses
from zonkey.plugins import find_plugins
from zonkey.preprocessing import FeatureNormalizer, WithinClassWhitener
from zonkey.testing import linear_problem
from zonkey_lab import peers
from zonkey_lab.peers.zsl import ESZSL, SAE, ExemplarRegression

FILES = Path(__file__).parent / "files"
P = linear_problem(noise=1.0, n_classes=18)
SIMPLE = (ESZSL, SAE, ExemplarRegression)
each_peer = pytest.mark.parametrize("peer", SIMPLE, ids=lambda kind: kind.__name__)
KINDS = {
    "ESZSL": lambda: ESZSL(gamma=20.0),
    "SAE": SAE,
    "SAE to features": lambda: SAE(direction="semantic-to-feature"),
    "exemplars": lambda: ExemplarRegression(kernel="poly"),
}


def fitted(name):
    given = {"prototypes": P.prototypes, "candidates": "all", "seen_penalty": 0.03}
    return KINDS[name]().set_params(**given).fit(P.X, P.y)


@pytest.mark.parametrize("name", KINDS)
def test_every_figure_against_loops(name):
    K = (1, 2, 3)
    model = KINDS[name]().set_params(prototypes=evaluated.PROTOTYPES)
    model.fit(evaluated.X_TRAIN, evaluated.Y_TRAIN)
    X, y = evaluated.X, evaluated.Y
    expected = evaluated.expected_scores(model, X, y, evaluated.SEEN, evaluated.LABELS, K)
    found = evaluate(model, X, y, k=K).scores
    assert found.keys() == expected.keys()
    for figure, value in expected.items():
        assert_allclose(found[figure], value, err_msg=figure, atol=1e-9)


def test_a_pipeline_in_a_file_gives_the_same_answers(tmp_path):
    model = make_pipeline(Normalizer(), clone(fitted("SAE"))).fit(P.X, P.y)
    zonkey.save(model, tmp_path / "a.zonkey")
    again = zonkey.load(tmp_path / "a.zonkey")
    assert_array_equal(again.decision_function(P.X_new), model.decision_function(P.X_new))


def test_class_names_in_files_are_distinct():
    assert not {*stored_classes.CLASSES} & {*peers.CLASSES}
    assert {*stored_classes.CLASSES} | {*peers.CLASSES} < {*StorableClasses()}


def test_commands_work_on_the_file_of_a_peer(tmp_path):
    """In a new process, where nobody imported the peers."""
    model, data = tmp_path / "eszsl.zonkey", tmp_path / "new.csv"
    fitted("ESZSL").save(model)
    header = ",".join([f"f{i}" for i in range(P.X.shape[1])]) + ",label\n"
    numbers = [",".join(map(str, row)) for row in P.X_new[:3]]
    rows = [f"{row},{label}\n" for row, label in zip(numbers, P.y_new[:3], strict=True)]
    data.write_text("".join([header, *rows]))
    commands = [
        ["predict", model, data],
        ["evaluate", model, data],
        ["explain", model, data, "--row", "1"],
        ["export", model, "--onnx", tmp_path / "graph.onnx"],
        ["classes", "list", model],
        ["info", model],
    ]
    code = """
import json, sys
from typer.testing import CliRunner
from zonkey.cli import app
for command in json.loads(sys.argv[1]):
    done = CliRunner().invoke(app, command)
    if done.exit_code:
        sys.exit(f"{command}: {done.output}")
from zonkey.peers.zsl import SAE  # from the library too
import zonkey.peers.fsl
sys.exit(SAE.__module__ != "zonkey_lab.peers.zsl.sae")
"""
    texts = json.dumps([[str(argument) for argument in command] for command in commands])
    ended = subprocess.run([sys.executable, "-c", code, texts], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("file", sorted(FILES.glob("*.zonkey")), ids=lambda file: file.name)
def test_old_files_load(file):
    """Files of every released schema load for ever: never change or remove one."""
    model, expected = zonkey.load(file), json.loads(file.with_suffix(".json").read_text("utf-8"))
    X = np.array(expected["X"])
    assert model.predict(X).tolist() == expected["predicted"]
    assert_allclose(model.decision_function(X), expected["scores"], rtol=1e-9, atol=1e-12)


def test_the_file_of_a_peer_names_the_laboratory(tmp_path, monkeypatch):
    fitted("SAE").save(tmp_path / "a.zonkey")
    found = {name: point for name, point in find_plugins("models").items() if name == "zonkey"}
    monkeypatch.setattr("zonkey.persistence.forms.find_plugins", lambda _: found)
    with pytest.raises(StorageError, match=r"'SAE' is not installed.*pip install"):
        zonkey.load(tmp_path / "a.zonkey")


# Explanations


@pytest.mark.parametrize("name", KINDS)
def test_effects_of_attributes(name):
    model, x = fitted(name), P.X_new[3]
    explanation = model.explain(x).to_dict()
    mean = np.mean([*P.prototypes.values()], axis=0)
    ends = {"winner": explanation["label"], "runner_up": explanation["runner_up"]}
    for end, label in ends.items():
        own = model.with_candidates([label]).decision_function([x])[0, 0]
        own += explanation["penalty"][end]
        for row in explanation["attributes"]:
            changed = P.prototypes[label].copy()
            changed[row["dimension"]] = mean[row["dimension"]]
            other = model.with_classes({"changed": changed}).with_candidates(["changed"])
            expected = own - other.decision_function([x])[0, 0]
            assert row[f"effect_{end}"] == pytest.approx(expected, abs=1e-9)
    for row in explanation["seen_classes"]:
        if name == "exemplars":
            place = model.project([P.prototypes[row["label"]]])[0]
            assert row["distance"] == pytest.approx(np.linalg.norm(x - place))
        else:
            assert row["distance"] is None


def test_compatibilities_are_no_distances_however_small():
    prototypes = {label: 1e-5 * np.array(vector) for label, vector in P.prototypes.items()}
    rows = ESZSL(prototypes).fit(P.X, P.y).explain(P.X_new[0]).to_dict()["seen_classes"]
    assert {row["distance"] for row in rows} == {None}


# ONNX and the index


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "model",
    [
        ESZSL(P.prototypes, gamma=20.0, candidates="all", seen_penalty=-0.01),
        ExemplarRegression(P.prototypes, kernel="poly", candidates="all"),
        make_pipeline(StandardScaler(), Normalizer(), ESZSL(P.prototypes, lam=0.5)),
    ],
)
def test_a_graph_gives_the_same_answers(model, dtype):
    onnxruntime = pytest.importorskip("onnxruntime")
    model.fit(P.X.astype(dtype), P.y)
    X = P.X_new.astype(np.float32)
    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString())
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(None, {session.get_inputs()[0].name: X}), strict=True))
    scores = model.decision_function(X)
    assert_allclose(found["scores"], scores, rtol=1e-5, atol=1e-5 * np.abs(scores).max())
    assert_array_equal(found["label"], model.predict(X))


def test_cosines_are_not_exported():
    with refused(TypeError, "got SAE"):
        to_onnx(SAE(P.prototypes).fit(P.X, P.y))


@pytest.mark.parametrize(
    ("peer", "factor"), [(SAE, 1.0), (ESZSL, 1.0), (ESZSL, 1e5), (ESZSL, 1e25)]
)
def test_an_index_with_full_effort_is_exact(peer, factor):
    model = peer(P.prototypes, candidates="all").fit(P.X, P.y)
    index = CandidateIndex(model, effort=1.0)
    rows = np.where(np.arange(len(P.X_new))[:, None] % 2, factor, 1.0) * P.X_new
    assert_array_equal(index.predict_top(rows, 7), model.predict_top(rows, 7))


# Chunks, memory maps and tensors


@each_peer
def test_chunks_and_memory_maps_give_the_model_of_the_array(peer, tmp_path):
    expected = peer(P.prototypes).fit(P.X, P.y).decision_function(P.X_new)
    joblib.dump(P.X, tmp_path / "X.joblib")
    mapped = joblib.load(tmp_path / "X.joblib", mmap_mode="r")
    for samples in ((Chunks(P.X, P.y, rows=9),), (mapped, P.y)):
        found = peer(P.prototypes).fit(*samples).decision_function(P.X_new)
        assert_allclose(found, expected, rtol=1e-9, atol=1e-10)
    with pytest.raises(ValueError, match="must come with prototypes and a number"):
        peer(P.prototypes, seen_penalty="auto").fit(Chunks(P.X, P.y))


def test_tensors_of_the_cpu_are_taken():
    numbers = {label: j for j, label in enumerate(P.prototypes)}
    of_numbers = Prototypes([*numbers.values()], np.stack([*P.prototypes.values()]))
    y = np.array([numbers[label] for label in P.y])
    expected = SAE(of_numbers).fit(P.X, y).predict(P.X_new)
    model = SAE(of_numbers).fit(torch.from_numpy(P.X), torch.from_numpy(y))
    assert_array_equal(model.predict(torch.from_numpy(P.X_new)), expected)


# Data that cannot be learned from


@each_peer
def test_values_of_unusual_size(peer):
    model = peer(P.prototypes, candidates="all")
    for factor in (1e-200, 1e200):
        with refused(ValueError, "X must have values of a usual size", "Scale them"):
            clone(model).fit(P.X * factor, P.y)
        scaled = {label: vector * factor for label, vector in P.prototypes.items()}
        with refused(ValueError, "Prototypes must have values of a usual size", "Scale all"):
            clone(model).set_params(prototypes=scaled).fit(P.X, P.y)
    for factor in (1e-12, 1e12):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of ill-conditioned systems
            again = clone(model).fit(P.X * factor, P.y)
        assert np.isfinite(again.decision_function(P.X * factor)).all()


@each_peer
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_data_without_content_are_reported(peer):
    seen, unseen = P.seen[0], P.unseen[0]
    one = P.y == seen
    told = {
        f"'{seen}' and '{unseen}' are equal": (P.X, P.y, P.prototypes[seen]),
        "all zeros": (P.X, P.y, 0 * P.prototypes[seen]),
        "At least two classes with samples": (P.X[one], P.y[one], P.prototypes[unseen]),
        "all are the same": (0 * P.X, P.y, P.prototypes[unseen]),
    }
    for text, (X, y, vector) in told.items():
        with pytest.warns(UserWarning, match=text):
            peer({**P.prototypes, unseen: vector}, candidates="all").fit(X, y)


# Penalties and searches


@each_peer
def test_the_penalty_is_that_of_a_pipeline(peer):
    model = peer(P.prototypes, candidates="all", seen_penalty="auto").fit(P.X, P.y)
    same = peer(P.prototypes, candidates="all", seen_penalty=model.seen_penalty_).fit(P.X, P.y)
    assert_array_equal(model.decision_function(P.X_new), same.decision_function(P.X_new))
    assert calibrate(make_pipeline(FunctionTransformer(), clone(model)), P.X, P.y) == (
        model.seen_penalty_
    )


SEARCHED = linear_problem(n_classes=15, noise=2.0)
CV = ClassKFold(3, shuffle=True, random_state=2)
GRIDS = [
    (SAE(), {"lam": [0.1, 10.0], "direction": ["feature-to-semantic", "semantic-to-feature"]}),
    (ESZSL(), {"gamma": [0.1, 100.0], "lam": [0.1, 10.0]}),
    (ExemplarRegression(), {"kernel": ["rbf", "linear"], "ridge": [0.1, 10.0]}),
]


@pytest.mark.parametrize(("peer", "grid"), GRIDS, ids=lambda part: type(part).__name__)
@pytest.mark.parametrize("in_pipeline", [False, True])
def test_searches_equal_the_naive_loop(peer, grid, in_pipeline):
    X, y = SEARCHED.X, SEARCHED.y
    known = {label: SEARCHED.prototypes[label] for label in SEARCHED.seen}
    model, prefix = SEARCHED.make_clone(peer), ""
    if in_pipeline:
        steps = [("power", FeatureNormalizer(0.5)), ("whiten", WithinClassWhitener(1.0))]
        model, prefix = Pipeline([*steps, ("classify", model)]), "classify__"
        grid = {f"classify__{name}": values for name, values in grid.items()}
        grid |= {"whiten__shrinkage": [0.1, 10.0]}
    found = ZeroShotSearchCV(model, grid, cv=CV).fit(X, y)
    fixed = {f"{prefix}prototypes": known, f"{prefix}candidates": "unseen"}
    expected = [
        [
            clone(model)
            .set_params(**point, **fixed)
            .fit(X[train], y[train])
            .score(X[test], y[test])
            for train, test in CV.split(X, y)
        ]
        for point in ParameterGrid(grid)
    ]
    scores = np.transpose([found.cv_results_[f"split{i}_test_score"] for i in range(3)])
    assert np.ptp(scores) > 0
    assert_allclose(scores, expected, atol=1e-12)
    best = clone(model).set_params(**found.best_params_).fit(X, y)
    assert_array_equal(found.predict(SEARCHED.X_new), best.predict(SEARCHED.X_new))


# Exemplar regression is a special case of the any-shot classifier


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
@pytest.mark.parametrize("n", [1, 5])
def test_exemplar_regression_is_a_special_case(kernel, n):
    rng = np.random.default_rng(n)
    y = np.repeat([label for label in cases.SEEN if label in cases.PROTOTYPES], n)
    rows = rng.normal(size=(len(y), 6))
    peer = ExemplarRegression(cases.PROTOTYPES, kernel=kernel, gamma=0.8, ridge=0.3).fit(rows, y)
    # The peer takes the scale of prototypes from seen classes, the any-shot model from all.
    seen, every = (
        np.stack([cases.PROTOTYPES[label] for label in labels])
        for labels in (np.unique(y), sorted(cases.PROTOTYPES))
    )
    gamma = 0.8 * width(seen, kernel, 1.0) / width(every, kernel, 1.0)
    given = cases.GIVEN | {"kernel": kernel, "gamma": gamma}
    naive = cases.NaiveModel(rows, y, cases.PROTOTYPES, **given)
    ridge = 0.3 / (1 + 8 / n) / np.mean(np.diagonal(naive.K))
    own = {"kernel": kernel, "gamma": gamma, "ridge": ridge, "candidates": "unseen"}
    model = cases.fitted(rows, y, **own)
    expected = peer.decision_function(cases.X_NEW)
    assert_allclose(model.decision_function(cases.X_NEW), expected, rtol=1e-8, atol=1e-8)
    expected = peer.project(cases.PROTOTYPES)
    assert_allclose(model.project(cases.PROTOTYPES), expected, rtol=1e-8, atol=1e-8)


def test_prototypes_and_shots_are_fused_without_counting_samples_twice():
    """The prior of a class with shots is the exemplar that all other classes teach."""
    prototypes = cases.PROTOTYPES
    y = np.repeat([label for label in cases.SEEN if label in prototypes], 4)
    rows = np.random.default_rng(5).normal(size=(len(y), 6))
    every = np.stack([prototypes[label] for label in sorted(prototypes)])
    model = cases.fitted(rows, y, ridge=0.3 / 3, worth=1.5)
    for place, label in enumerate(model.classes_.tolist()):
        others = y != label
        of_others = np.stack([prototypes[other] for other in np.unique(y[others])])
        gamma = 0.7 * width(every, "rbf", 1.0) / width(of_others, "rbf", 1.0)
        peer = ExemplarRegression(prototypes, gamma=gamma, ridge=0.3).fit(rows[others], y[others])
        prior = peer.project({label: prototypes[label]})[0]
        shots = rows[y == label]
        expected = (1.5 * prior + shots.sum(axis=0)) / (1.5 + len(shots))
        assert_allclose(model.centers_[place], expected, rtol=1e-8, atol=1e-9)
