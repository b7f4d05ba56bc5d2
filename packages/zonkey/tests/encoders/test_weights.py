"""Weights on disk: what names a revision, what is noticed, and what is never downloaded."""

import os
import re
import shutil

import numpy as np
import pytest

from zonkey.encoders.weights import file_state, folder_revision, may_download, model_folder
from zonkey.files.dataset import DataError


def folder_of(path, content=b"weights"):
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text("{}")
    (path / "model.safetensors").write_bytes(content)
    return path


@pytest.mark.parametrize("name", ["model", "snapshots/best", "models--a--b/snapshots/best"])
@pytest.mark.parametrize(
    "changed", ["model.safetensors", "preprocessor_config.json", "2_Dense/model.safetensors"]
)
def test_a_changed_file_in_a_folder_is_another_revision(tmp_path, name, changed):
    folder = folder_of(tmp_path / name)
    (folder / "2_Dense").mkdir()
    (folder / changed).write_bytes(b"before")
    before = folder_revision(folder), file_state(f"transformers:{folder}")
    assert re.fullmatch("[0-9a-f]{16}", before[0])
    copy = shutil.copytree(folder, tmp_path / "copy")
    assert folder_revision(copy) == before[0]
    (folder / changed).write_bytes(b"afterwards")
    assert folder_revision(folder) != before[0]
    assert file_state(f"transformers:{folder}") != before[1]


def test_a_snapshot_of_the_hub_is_known_by_its_commit(tmp_path):
    commit = "0123456789" * 4
    folder = folder_of(tmp_path / "models--a--b" / "snapshots" / commit)
    before = folder_revision(folder)
    folder_of(folder, b"never read")
    assert folder_revision(folder) == before


def test_a_file_that_is_loaded_downloads_nothing(monkeypatch, tmp_path):
    pytest.importorskip("huggingface_hub")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    token = may_download.set(False)
    try:
        with pytest.raises(DataError, match="loading a file downloads nothing"):
            model_folder("nobody/nothing", "transformers:nobody/nothing")
    finally:
        may_download.reset(token)


def test_external_weights_of_a_graph_are_part_of_its_revision(tmp_path):
    onnx = pytest.importorskip("onnx")
    from zonkey.encoders import ImageEncoder

    pytest.importorskip("onnxruntime")
    info, make = onnx.helper.make_tensor_value_info, onnx.helper.make_node
    specs = []
    for value in (1.0, 2.0):
        weights = onnx.numpy_helper.from_array(np.full((12, 300), value, np.float32), "w")
        graph = onnx.helper.make_graph(
            [make("Flatten", ["x"], ["flat"]), make("MatMul", ["flat", "w"], ["y"])],
            "graph",
            [info("x", onnx.TensorProto.FLOAT, ["n", 2, 2, 3])],
            [info("y", onnx.TensorProto.FLOAT, ["n", 300])],
            [weights],
        )
        opsets = [onnx.helper.make_opsetid("", 17)]
        model = onnx.helper.make_model(graph, ir_version=8, opset_imports=opsets)
        for file in tmp_path.iterdir():
            file.unlink()
        path = tmp_path / "m.onnx"
        onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
        os.utime(path, ns=(0, 0))
        (tmp_path / "m.json").write_text('{"layout": "nhwc", "size": 2}')
        specs.append(ImageEncoder(f"onnx:{path}").spec_)
    assert specs[0]["revision"] != specs[1]["revision"]
