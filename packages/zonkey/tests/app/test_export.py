"""ONNX graphs of model files, from features and from pixels."""

import numpy as np
import onnxruntime
import pytest
from PIL import Image
from sklearn.pipeline import make_pipeline

import zonkey
from model_files import TEST, files, samples
from zonkey import app
from zonkey.encoders import ImageEncoder

__all__ = ["files"]


@pytest.mark.parametrize("name", ["model", "paper"])
def test_export_agrees_with_predict(files, tmp_path, name):
    path, X = tmp_path / "m.onnx", samples(TEST, 2)
    model, written = (
        zonkey.load(files / f"{name}.zonkey"),
        app.export(files / f"{name}.zonkey", path),
    )
    assert written.bytes == path.stat().st_size
    outputs = onnxruntime.InferenceSession(path).run(None, {"features": X})
    found = dict(zip(written.outputs, outputs, strict=True))
    assert found["label"].tolist() == model.predict(X).tolist()
    assert found["top_labels"].shape[1] == written.top == min(5, len(model.classes_))


def test_export_with_the_encoder(tmp_path):
    encoder, labels = ImageEncoder(), ["red", "green", "blue"]
    pictures = [Image.new("RGB", (30, 20), label) for label in labels]
    model = zonkey.NearestSupport().fit(encoder.transform(pictures), labels)
    file, path = tmp_path / "m.zonkey", tmp_path / "m.onnx"
    zonkey.save(model, file, training={"encoder": encoder.spec_})
    app.export(file, path, with_encoder=True)
    pixels = np.stack([np.asarray(picture.resize((224, 224))) for picture in pictures])
    session = onnxruntime.InferenceSession(path)
    assert session.run(["label"], {"pixels": pixels})[0].tolist() == labels
    zonkey.save(make_pipeline(encoder, model), file)
    graph = path.read_bytes()
    app.export(file, path, with_encoder=True)
    assert path.read_bytes() == graph
    app.export(file, path)
    assert onnxruntime.InferenceSession(path).get_inputs()[0].name == "features"


def test_an_encoder_that_is_unknown_or_has_changed(files, tmp_path):
    path, file = tmp_path / "m.onnx", tmp_path / "m.zonkey"
    model, spec = zonkey.load(files / "model.zonkey"), ImageEncoder().spec_
    for encoder, said in {
        None: "m.zonkey was fitted on features, and names none",
        "efficientnet-lite0": "m.zonkey was fitted on features, and names none",
        ("revision", "0" * 16): "m.zonkey was fitted with efficientnet-lite0 .revision 0000000",
        ("name", "resnet"): "got 'resnet'",
        ("name", "efficientnet-lite0"): "efficientnet-lite0 makes 1280",
    }.items():
        known = spec | dict([encoder]) if isinstance(encoder, tuple) else encoder
        zonkey.save(model, file, training={} if known is None else {"encoder": known})
        with pytest.raises(ValueError, match=said):
            app.export(file, path, with_encoder=True)
    assert not path.exists()
