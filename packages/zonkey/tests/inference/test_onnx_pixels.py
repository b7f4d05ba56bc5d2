"""One ONNX graph from pixels to labels gives the answers of the model on encoded pictures."""

import json
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refused
from sklearn.pipeline import make_pipeline

import zonkey
from zonkey import NearestSupport, presets, to_onnx
from zonkey.encoders import ImageEncoder
from zonkey.files.dataset import DataError
from zonkey.preprocessing import FeatureNormalizer

onnx = pytest.importorskip("onnx", reason="graphs are built with onnx")
onnxruntime = pytest.importorskip("onnxruntime", reason="graphs are run by onnxruntime")
Image = pytest.importorskip("PIL.Image", reason="pictures are read with Pillow")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

RNG = np.random.default_rng(0)
KERNEL = RNG.normal(size=(5, 3, 1, 1)).astype(np.float32)
COLORS = {
    "cherry": (200, 30, 40),
    "leaf": (30, 180, 50),
    "sea": (20, 60, 220),
    "sun": (230, 220, 0),
}
PROTOTYPES = {label: np.array(color) / 255 for label, color in COLORS.items()}


def drawn(label):
    noise = RNG.normal(0, 30, (40, 56, 3))
    return np.clip(COLORS[label] + noise, 0, 255).astype(np.uint8)


SEEN = [label for label in COLORS if label != "sun"]
Y = np.repeat(SEEN, 5)
PICTURES = [drawn(label) for label in Y]
NEW = [drawn(label) for label in [*COLORS] * 5]


def fitted(encoder, **parameters):
    model = presets.recommended(PROTOTYPES, candidates="all", **parameters)
    return model.fit(encoder.transform(PICTURES), Y)


def tiny(path, *, batch="n", opset=17, ir=8, flat=True, half=False, sides=16):
    """Colors squeezed by Reduce operators, whose form changes with opset 18, and a convolution."""
    kernel = KERNEL.astype(np.float16) if half else KERNEL
    constants = {"kernel": kernel, **({} if opset < 18 else {"sides": np.array([2, 3])})}
    weights, kind = "kernel", TensorProto.FLOAT16 if half else TensorProto.FLOAT
    how = {"axes": [2, 3]} if opset < 18 else {}
    nodes = [
        helper.make_node("Cast", ["scores"], ["half"], to=kind),
        helper.make_node("Conv", ["half", weights], ["map"]),
        helper.make_node("ReduceMean", ["map"] if how else ["map", "sides"], ["label"], **how),
        helper.make_node("Flatten", ["label"], ["features"]),
    ]
    output = ("features", kind, [batch, 5]) if flat else ("label", kind, [batch, 5, 1, 1])
    graph = helper.make_graph(
        nodes if flat else nodes[:-1],
        "graph",
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [batch, 3, sides, sides])],
        [helper.make_tensor_value_info(*output)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir)
    onnx.save(made, path)
    settings = {
        "mean": [0.4, 0.5, 0.6],
        "std": [0.2, 0.3, 0.25],
        "resample": "bilinear",
        "size": 16,
    }
    path.with_suffix(".json").write_text(json.dumps(settings), "utf-8")
    return ImageEncoder(f"onnx:{path}")


def answers(made, encoder, pictures):
    """Run a graph on pictures that are prepared as the encoder does."""
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(made.SerializeToString(), settings)
    (taken,) = session.get_inputs()
    backend = encoder._backend()
    pixels = np.stack([backend.prepare(Image.fromarray(picture)) for picture in pictures])
    assert [taken.name, *taken.shape] == ["pixels", "n", *pixels.shape[1:]]
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"pixels": pixels}), strict=True))


def assert_agrees(model, encoder, made):
    found, X = answers(made, encoder, NEW), encoder.transform(NEW)
    assert_array_equal(found["label"], model.predict(X))
    assert_array_equal(found["top_labels"], model.predict_top(X, 3))
    assert_allclose(found["probabilities"], model.predict_proba(X), rtol=0, atol=1e-5)
    assert len(set(found["label"])) > 1


def test_the_embedded_encoder():
    encoder = ImageEncoder()
    model = fitted(encoder)
    made = to_onnx(model, k=3, encoder=encoder)
    assert_agrees(model, encoder, made)
    own = onnx.load(encoder._backend().path).graph.initializer
    stored = {tensor.name: tensor for tensor in made.graph.initializer}
    assert all(stored[f"encoder/{t.name}"].raw_data == t.raw_data for t in own)
    assert sum(t.data_type == TensorProto.FLOAT16 for t in made.graph.initializer) > 90
    assert made.ir_version == 8


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"opset": 18},
        {"opset": 21, "ir": 10},
        {"flat": False},
        {"half": True},
        {"sides": "side"},
    ],
    ids=str,
)
def test_a_graph_of_ones_own(tmp_path, form):
    encoder = tiny(tmp_path / "tiny.onnx", **form)
    model = fitted(encoder, reject_below=0.3, reject_label="none")
    made = to_onnx(model, k=3, encoder=encoder)
    assert_agrees(model, encoder, made)
    (opset,) = made.opset_import
    assert opset.version == max(18, form.get("opset", 17))
    assert made.ir_version == form.get("ir", 8)


def test_metadata_tell_what_to_feed(tmp_path):
    encoder = tiny(tmp_path / "tiny.onnx")
    made = to_onnx(fitted(encoder), encoder=encoder)
    about = {entry.key: entry.value for entry in made.metadata_props}
    assert json.loads(about["encoder"]) == encoder.spec_
    told = json.loads(about["preprocessing"])
    assert told == {
        **{"size": 16, "resize": "crop", "crop": 1.0, "resample": "bilinear", "layout": "nchw"},
        **{"dtype": "float32", "scale": 1 / 255, "mean": [0.4, 0.5, 0.6], "std": [0.2, 0.3, 0.25]},
    }
    assert json.loads(about["classes"]) == sorted(COLORS)
    # What they tell is enough to repeat the preprocessing.
    image = Image.fromarray(NEW[0]).resize((16, 16), Image.Resampling.BILINEAR, (8, 0, 48, 40))
    pixels = np.asarray(image) * told["scale"] - told["mean"]
    prepared = encoder._backend().prepare(Image.fromarray(NEW[0]))
    assert_allclose(prepared, (pixels / told["std"]).transpose(2, 0, 1), rtol=1e-4, atol=1e-5)


def test_a_pipeline_brings_its_encoder(tmp_path):
    encoder = tiny(tmp_path / "tiny.onnx")
    model = make_pipeline(encoder, FeatureNormalizer(), NearestSupport("mean")).fit(PICTURES, Y)
    found = answers(to_onnx(model), encoder, NEW)
    assert_array_equal(found["label"], model.predict(NEW))
    with refused(ValueError, "`encoder` must be None for a pipeline", "Leave it out"):
        to_onnx(model, encoder=encoder)


def test_refusals(tmp_path):
    encoder = tiny(tmp_path / "tiny.onnx")
    model = fitted(encoder)
    with refused(ValueError, "must make the 5 features", "efficientnet-lite0 makes 1280"):
        to_onnx(model, encoder=ImageEncoder())
    for other in (ImageEncoder(FeatureNormalizer()), "efficientnet-lite0", FeatureNormalizer()):
        with refused(TypeError, "must be ImageEncoder", "before the graph"):
            to_onnx(model, encoder=other)
    with refused(DataError, "must take a batch of any size", "takes one picture", "dynamic"):
        to_onnx(model, encoder=tiny(tmp_path / "single.onnx", batch=1))


def test_features_need_neither_pictures_nor_their_packages(tmp_path, monkeypatch):
    model = fitted(tiny(tmp_path / "tiny.onnx"))
    for name in ("PIL", "PIL.Image", "onnxruntime"):
        monkeypatch.setitem(sys.modules, name, None)
    assert [node.name for node in to_onnx(model).graph.input] == ["features"]


# Model files


def test_a_file_keeps_the_name_of_the_encoder(tmp_path):
    encoder = tiny(tmp_path / "tiny.onnx").set_params(batch_size=4, n_jobs=1, on_error="nan")
    model = make_pipeline(encoder, FeatureNormalizer(), NearestSupport("mean")).fit(PICTURES, Y)
    file = tmp_path / "model.zonkey"
    zonkey.save(model, file, training={"photographer": "me"})
    assert KERNEL.tobytes() not in file.read_bytes()
    loaded = zonkey.load(file)
    assert_array_equal(loaded.predict(NEW), model.predict(NEW))
    assert loaded[0].get_params()["batch_size"] == 4
    assert loaded[0].get_params()["n_jobs"] is None  # of the machine
    info = zonkey.model_info(file)
    assert info["training"] == {"photographer": "me", "encoder": encoder.spec_}
    assert info["summary"]["n_features"] == 5
    assert to_onnx(loaded) == to_onnx(model)
    zonkey.save(loaded, file)
    assert zonkey.model_info(file)["training"] == info["training"]


def test_a_file_refuses_another_revision(tmp_path, monkeypatch):
    encoder = tiny(tmp_path / "tiny.onnx")
    model = make_pipeline(encoder, NearestSupport("mean")).fit(PICTURES, Y)
    file = tmp_path / "model.zonkey"
    zonkey.save(model, file)
    monkeypatch.setattr(encoder._backend(), "revision", "0" * 16)
    with refused(zonkey.StorageError, "must have the revision", "'0000000000000000'", "fit again"):
        zonkey.load(file)
    with refused(TypeError, "must have a model that has a name; got FeatureNormalizer"):
        zonkey.save(make_pipeline(ImageEncoder(FeatureNormalizer()), model[-1]), file)
