"""An ONNX graph gives the answers of the model: every label, numbers up to 1e-5."""

import json
import sys
from itertools import product

import any_shot_cases as cases
import few_shot_cases
import numpy as np
import pytest
from libraries import LIBRARIES
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refused
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, Normalizer, StandardScaler

import zonkey
from zonkey import AnyShotClassifier, NearestSupport, ZeroShotClassifier, presets, to_onnx
from zonkey.files.emoji import load_emoji
from zonkey.preprocessing import FeatureNormalizer, WithinClassWhitener
from zonkey.testing import linear_problem

onnx = pytest.importorskip("onnx", reason="graphs are built with onnx")
onnxruntime = pytest.importorskip("onnxruntime", reason="graphs are run by onnxruntime")

P = linear_problem(noise=1.0)
NEW = P.X_new.astype(np.float32)
RNG = np.random.default_rng(5)
X_NEW = np.float32(2) * RNG.normal(size=(60, 6)).astype(np.float32)

FROZEN = FrozenEstimator(StandardScaler().fit(3 * cases.X))
PREPROCESSINGS = {
    "none": None,
    "root": FeatureNormalizer(power=0.5, norm=None),
    "power": FeatureNormalizer(power=0.7, center=True),
    "square": FeatureNormalizer(power=2.0, center=True, norm=None),
    "length": FeatureNormalizer(),
    "white": WithinClassWhitener(shrinkage=0.3),
    "standard": StandardScaler(),
    "mean": StandardScaler(with_std=False),
    "deviation": StandardScaler(with_mean=False),
    "nothing": StandardScaler(with_mean=False, with_std=False),
    "l1": Normalizer("l1"),
    "l2": Normalizer("l2"),
    "max": Normalizer("max"),
    "components": PCA(4),
    "white components": PCA(3, whiten=True),
    "usual": make_pipeline(
        FeatureNormalizer(power=0.5, center=True), WithinClassWhitener(2.0), FeatureNormalizer()
    ),
    "frozen": FROZEN,
    "nested": make_pipeline("passthrough", make_pipeline(StandardScaler(), Normalizer())),
}


def run(model, X, **options):
    """Return the outputs of the graph of a model by name."""
    made = to_onnx(model, **options)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(made.SerializeToString(), settings)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"features": X}), strict=True))


def assert_agrees(model, X, *, k=5, scale=None):
    """Compare every output with the library, scores relative to their size or to `scale`."""
    found = run(model, X, k=k)
    kept = min(k, found["scores"].shape[1])
    assert_array_equal(found["label"], model.predict(X))
    assert_array_equal(found["top_labels"], ranking(model, X, kept))
    scores, expected = found["scores"], model.decision_function(X)
    if expected.ndim == 1:
        scores = scores[:, 1] - scores[:, 0]
    assert_allclose(scores, expected, rtol=0, atol=1e-5 * (scale or np.abs(found["scores"]).max()))
    top = found["scores"]
    if hasattr(model, "predict_proba"):
        top = found["probabilities"]
        assert_allclose(top, model.predict_proba(X), rtol=0, atol=1e-5)
    best = np.argsort(-found["scores"], axis=1, kind="stable")[:, :kept]
    name = "top_probabilities" if hasattr(model, "predict_proba") else "top_scores"
    assert_array_equal(found[name], np.take_along_axis(top, best, axis=1))
    assert {array.dtype for name, array in found.items() if "label" not in name} == {top.dtype}
    assert top.dtype == np.float32
    return found


def ranking(model, X, k):
    if hasattr(model, "predict_top"):
        return model.predict_top(X, k)
    return model[-1].predict_top(model[:-1].transform(X), k)


@pytest.mark.parametrize("name", PREPROCESSINGS)
def test_preprocessing_is_inside(name):
    step, X = PREPROCESSINGS[name], cases.X + 0.5
    assert_agrees(cases.fitted(X=X, preprocessing=step, temperature=0.8), X_NEW)
    classifier = AnyShotClassifier(cases.PROTOTYPES, **(cases.GIVEN | {"temperature": 0.8}))
    assert_agrees(make_pipeline(step, classifier).fit(X, cases.Y), X_NEW)


def test_components_of_a_pipeline_take_raw_features():
    steps = make_pipeline("passthrough", make_pipeline("passthrough", PCA(3, whiten=True)))
    model = make_pipeline(steps, NearestSupport("mean")).fit(cases.X + 0.5, cases.Y)
    assert_agrees(model, X_NEW)
    (features,) = to_onnx(model).graph.input
    assert features.type.tensor_type.shape.dim[1].dim_value == 6
    assert {p.key: p.value for p in to_onnx(model).metadata_props}["n_features"] == "6"


@pytest.mark.parametrize(("power", "center"), [(None, True), (0.5, False), (0.7, True)])
def test_rows_of_extreme_size(power, center):
    step = FeatureNormalizer(power=power, center=center)
    model = cases.fitted(X=cases.X.astype(np.float32), preprocessing=step)
    mean = np.zeros(6) if step.fit(cases.X).mean_ is None else step.mean_
    rows = [np.zeros(6), mean, -X_NEW[0], 1e-38 * X_NEW[1], 1e-44 * np.ones(6), 1e37 * X_NEW[2]]
    X = np.array(rows, np.float32)
    found = assert_agrees(model, X)
    assert np.isfinite(found["scores"]).all()
    rows = [1e-30 * X_NEW[0], 3e-7 * X_NEW[1], 1e-3 * X_NEW[2]]
    assert_agrees(cases.fitted(preprocessing=Normalizer()), np.array(rows, np.float32))


def test_any_number_of_rows():
    model = cases.fitted(reject_below=0.3)
    many = run(model, X_NEW)
    for name, array in run(model, X_NEW[:1]).items():
        if "label" in name:
            assert_array_equal(array, many[name][:1])
        else:
            assert_allclose(array, many[name][:1], rtol=1e-5, atol=1e-6)
    shapes = {name: array.shape for name, array in run(model, X_NEW[:0], k=2).items()}
    assert shapes == {
        "label": (0,),
        "probabilities": (0, 9),
        "scores": (0, 9),
        "top_labels": (0, 2),
        "top_probabilities": (0, 2),
    }


def renamed(kind):
    """Return prototypes and labels of another kind."""
    names = dict(zip(cases.LABELS, kind, strict=True))
    prototypes = {names[label]: vector for label, vector in cases.PROTOTYPES.items()}
    return prototypes, np.array([names[label] for label in cases.Y])


KINDS = {
    "text": [f"Käfer {label} 🐞" for label in cases.LABELS],
    "int": [int(i) for i in np.arange(9)[::-1] * 5 - 20],
    "small": list(np.arange(9, dtype=np.uint8)),
    "float": [float(i) for i in range(9)],
}
REJECTIONS = [
    {},
    {"reject_below": 0.35},
    {"reject_below": 0.35, "reject_label": {"text": "other", "int": -99, "small": 77, "float": -5}},
]


@pytest.mark.parametrize("seed", range(12))
def test_models_of_many_kinds(seed):
    rng = np.random.default_rng(seed)
    kind = list(KINDS)[seed % 4]
    prototypes, y = renamed(KINDS[kind])
    parameters = dict(REJECTIONS[seed % 3])
    if "reject_label" in parameters:
        parameters["reject_label"] = parameters["reject_label"][kind]
    parameters |= {
        "preprocessing": PREPROCESSINGS[str(rng.choice(list(PREPROCESSINGS)))],
        "kernel": str(rng.choice(["linear", "rbf", "arccos"])),
        "worth": float(rng.choice([0.5, 4.0])),
        "seen_penalty": float(rng.choice([-0.4, 0.0, 0.5])),
        "candidates": ["all", "unseen", KINDS[kind][:2], KINDS[kind][3:8]][seed % 4],
    }
    dtype = (np.float32, np.float64)[seed % 2]
    model = cases.fitted((cases.X + 0.3).astype(dtype), y, prototypes=prototypes, **parameters)
    spread = float(np.std(model.decision_function(X_NEW)))
    model = cases.fitted(
        (cases.X + 0.3).astype(dtype), y, prototypes=prototypes, temperature=spread, **parameters
    )
    k = int(rng.integers(1, 7))
    found = assert_agrees(model, X_NEW, k=k)
    assert found["label"].dtype == {"text": object, "float": np.float64}.get(kind, np.int64)
    adapted = model.adapt(X_NEW[:40])
    assert not np.allclose(run(adapted, X_NEW)["scores"], found["scores"])
    assert_agrees(adapted, X_NEW, k=k)
    assert_agrees(model.partial_fit(cases.X_NEW[:2], y[:2]), X_NEW, k=k)


def test_rejection_changes_labels_only():
    plain, strict = cases.fitted(), cases.fitted(reject_below=0.45, reject_label="none of these")
    accepting, rejecting = run(plain, X_NEW), run(strict, X_NEW)
    refusal = rejecting["label"] == "none of these"
    assert 0 < refusal.sum() < len(X_NEW)
    assert_array_equal(refusal, plain.predict_proba(X_NEW).max(axis=1) < 0.45)
    assert_array_equal(rejecting["label"][~refusal], accepting["label"][~refusal])
    for name in accepting.keys() - {"label"}:
        assert_array_equal(rejecting[name], accepting[name])
    whole = cases.fitted(
        y=renamed(KINDS["int"])[1], prototypes=None, temperature=50, reject_below=1.0
    )
    assert set(run(whole, X_NEW)["label"].tolist()) == {-1}


def test_types_of_labels():
    y = renamed(KINDS["int"])[1]
    half = cases.fitted(y=y, prototypes=None, reject_below=0.5, reject_label=-0.5)
    booleans = NearestSupport().fit(cases.X, cases.Y == "fox")
    for model, dtype in ((half, np.float64), (booleans, np.int64)):
        found = run(model, X_NEW)["label"]
        assert found.dtype == dtype
        assert_array_equal(found, model.predict(X_NEW))


@pytest.mark.parametrize(
    "model",
    [
        ZeroShotClassifier(P.prototypes, random_state=0, candidates="all", seen_penalty=0.7),
        ZeroShotClassifier(P.prototypes, direction="forward", beta=2.0),
        ZeroShotClassifier(P.prototypes, direction="reverse", candidates=list(P.unseen)[:2]),
        ZeroShotClassifier(P.prototypes, candidates=list(P.unseen)[:1], random_state=0),
        NearestSupport(),
        NearestSupport("mean"),
        presets.paper(P.prototypes, candidates="all", random_state=0),
        make_pipeline(StandardScaler(), Normalizer(), ZeroShotClassifier(P.prototypes)),
    ],
)
def test_other_models(model):
    # Squared distances are relative to the squared lengths that they are computed from.
    scale = 2 * np.sum(NEW * NEW, axis=1).max() if isinstance(model, NearestSupport) else None
    for dtype in (np.float32, np.float64):
        assert_agrees(model.fit(P.X.astype(dtype), P.y), NEW, k=3, scale=scale)


@pytest.mark.parametrize("reference", ["sample", "mean"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_far_from_zero(reference, dtype):
    model = NearestSupport(reference).fit((P.X + 1000).astype(dtype), P.y)
    far = (P.X_new + 1000).astype(np.float32)
    exact = -((far.astype(np.float64)[:, None] - model.references_[None]) ** 2).sum(axis=2)
    expected = model.classes_[model.reference_codes_[exact.argmax(axis=1)]]
    assert_array_equal(run(model, far)["label"], expected)
    assert_array_equal(model.predict(far), expected)


def test_few_shot_models():
    for candidates, synthesis in product(["novel", "all"], ["support", None]):
        model = few_shot_cases.fitted(candidates=candidates, synthesis=synthesis, seen_penalty=0.3)
        assert_agrees(model, NEW)


def test_two_candidates_have_two_columns():
    model = cases.fitted(temperature=0.9)
    pair = model.with_candidates(["bee", "fox"])
    columns = np.searchsorted(model.classes_, pair.classes_)
    expected = model.decision_function(X_NEW)[:, columns]
    assert_allclose(run(pair, X_NEW)["scores"], expected, rtol=1e-5, atol=1e-5)


def test_equal_scores_keep_the_order_of_classes():
    # Whole numbers: sums are exact, so ties are.
    rng = np.random.default_rng(0)
    centers = rng.integers(-1, 2, (12, 3)).astype(np.float32)
    labels = np.array([f"class {j:02}" for j in range(12)])
    X = rng.integers(-2, 3, (200, 3)).astype(np.float32)
    for model in (
        NearestSupport("mean").fit(centers, labels),
        NearestSupport().fit(np.repeat(centers, 2, axis=0), np.repeat(labels, 2)),
        AnyShotClassifier(preprocessing=None, temperature=1.0).fit(centers, labels),
    ):
        found = assert_agrees(model, X, k=12)
        assert (np.diff(np.sort(found["scores"], axis=1), axis=1) == 0).any(axis=1).mean() > 0.9


@pytest.mark.parametrize("library", LIBRARIES, ids=str)
def test_models_fitted_in_other_libraries(library):
    prototypes, y = renamed(KINDS["int"])
    given = {
        "prototypes": prototypes,
        "preprocessing": PREPROCESSINGS["usual"],
        "reject_below": 0.4,
    }
    X = cases.X.astype(np.float32)
    placed = library(X), library(y)
    found, expected = (run(cases.fitted(*own, **given), X_NEW) for own in (placed, (X, y)))
    assert_array_equal(found["label"], expected["label"])
    assert_allclose(found["probabilities"], expected["probabilities"], rtol=0, atol=1e-5)
    paper = ZeroShotClassifier(P.prototypes, random_state=0).fit(library(P.X), P.y)
    assert_array_equal(run(paper, NEW)["label"], paper.predict(library(P.X_new)))
    nearest = NearestSupport().fit(*placed)
    assert_array_equal(run(nearest, X_NEW)["label"], library.numpy(nearest.predict(library(X_NEW))))


@pytest.mark.exhaustive
def test_emoji():
    data = load_emoji()
    model = AnyShotClassifier(
        data.prototypes,
        candidates="all",
        preprocessing=PREPROCESSINGS["usual"],
        prototype_transformer=FeatureNormalizer(center=True),
        kernel="rbf",
        gamma=2.0,
        ridge=0.03,
        worth=1.07,
        seen_penalty=0.24,
        temperature=0.058,
        adapt_temperature=1.0,
        adapt_weight=1.0,
    ).fit(data.X_train, data.y_train)
    X = np.concatenate([data.X_test_seen, data.X_test_unseen])
    assert_same_up_to_rounding(model, X)


def assert_same_up_to_rounding(model, X):
    """Compare labels, except where float32 cannot tell the best two classes apart."""
    found = run(model, X)
    assert_allclose(found["probabilities"], model.predict_proba(X), rtol=0, atol=1e-5)
    scores = np.sort(model.decision_function(X.astype(np.float64)), axis=1)
    clear = scores[:, -1] - scores[:, -2] > 3e-6
    assert clear.mean() > 0.999
    assert_array_equal(found["label"][clear], model.predict(X)[clear])


def test_metadata():
    model = cases.fitted(reject_below=0.25)
    made = to_onnx(make_pipeline(StandardScaler(), model).fit(cases.X, cases.Y), k=3)
    about = {entry.key: entry.value for entry in made.metadata_props}
    assert json.loads(about.pop("classes")) == cases.LABELS
    outputs = json.loads(about.pop("outputs"))
    assert about == {
        "model": "AnyShotClassifier",
        "n_features": "6",
        "zonkey_version": zonkey.__version__,
    }
    (features,) = made.graph.input
    assert features.name == "features"
    shapes = {}
    for value in (features, *made.graph.output):
        kind = value.type.tensor_type
        assert value.doc_string
        shape = [d.dim_param or d.dim_value for d in kind.shape.dim]
        shapes[value.name] = (onnx.TensorProto.DataType.Name(kind.elem_type).lower(), shape)
        if value is not features:
            described = outputs[value.name]
            assert (described["type"], described["shape"]) == shapes[value.name]
            assert described["description"] == value.doc_string
    assert shapes == {
        "features": ("float", ["n", 6]),
        "label": ("string", ["n"]),
        "probabilities": ("float", ["n", 9]),
        "scores": ("float", ["n", 9]),
        "top_labels": ("string", ["n", 3]),
        "top_probabilities": ("float", ["n", 3]),
    }
    assert "'unknown' if the highest probability is below 0.25" in outputs["label"]["description"]
    numbers = renamed(KINDS["int"])
    whole = to_onnx(cases.fitted(y=numbers[1], prototypes=numbers[0]))
    stored = next(entry.value for entry in whole.metadata_props if entry.key == "classes")
    assert json.loads(stored) == sorted(KINDS["int"])


def test_arrays_are_stored_once_and_as_bytes():
    step = make_pipeline(WithinClassWhitener(), FeatureNormalizer(), FeatureNormalizer())
    made = to_onnx(cases.fitted(preprocessing=step))
    assert made.opset_import[0].version == 18
    assert made.ir_version == 8
    stored = made.graph.initializer
    values = [onnx.numpy_helper.to_array(tensor) for tensor in stored]
    assert len({(str(v.dtype), v.shape, str(v.tolist())) for v in values}) == len(values)
    assert all(t.HasField("raw_data") for t in stored if t.data_type != onnx.TensorProto.STRING)
    assert sum(v.size for v in values) < 6 * 6 + 9 * 6 + 2 * 9 + 10
    onnx.checker.check_model(made, full_check=True)


def test_number_of_best_classes():
    model = cases.fitted(candidates=["ant", "bee", "cow"])
    assert run(model, X_NEW, k=50)["top_labels"].shape == (60, 3)
    for k in (0, 2.5, True):
        with refused(ValueError, "`k` must be an integer of at least 1", repr(k)):
            to_onnx(model, k=k)


class Doubling(FeatureNormalizer):
    """A subclass of a known step may do something else."""

    def transform(self, X):
        return 2 * super().transform(X)


def test_refusals(monkeypatch):
    with refused(TypeError, "AnyShotClassifier, ZeroShotClassifier", "got LogisticRegression"):
        to_onnx(LogisticRegression().fit(cases.X, cases.Y))
    with refused(TypeError, "FeatureNormalizer, WithinClassWhitener", "got MaxAbs", "before"):
        to_onnx(cases.fitted(preprocessing=MaxAbsScaler()))
    with refused(TypeError, "got MaxAbs"):
        to_onnx(make_pipeline(PCA(3), MaxAbsScaler(), NearestSupport()).fit(cases.X, cases.Y))
    with refused(TypeError, "got Doubling"):
        to_onnx(cases.fitted(preprocessing=Doubling()))
    with pytest.raises(NotFittedError):
        to_onnx(AnyShotClassifier())
    huge = NearestSupport().fit(cases.X[:2], np.array([1, 2**63 + 5], np.uint64))
    with refused(ValueError, "must fit float32", "Scale"):
        to_onnx(cases.fitted(1e30 * cases.X))
    with refused(ValueError, "fit int64", str(2**63 + 5), "text"):
        to_onnx(huge)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r'needs onnx.*"zonkey\[onnx\]"'):
        to_onnx(cases.fitted())


def test_loaded_models_have_the_same_graph(tmp_path):
    models = {
        "any": cases.fitted(preprocessing=PREPROCESSINGS["usual"], reject_below=0.4),
        "paper": presets.paper(P.prototypes, random_state=0).fit(P.X, P.y),
        "nearest": NearestSupport().fit(P.X, P.y),
    }
    for name, model in models.items():
        zonkey.save(model, tmp_path / name)
        assert to_onnx(zonkey.load(tmp_path / name)) == to_onnx(model)
