import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from zonkey.cli import app
from zonkey.encoders import registry
from zonkey.encoders.registry import PREFIXES, image_backend, list_encoders, text_backend
from zonkey.optional import require_package


def test_the_list_starts_with_the_defaults():
    first, second, *others = list_encoders()
    assert (first.name, first.kind, first.dimension) == (registry.DEFAULT_IMAGE, "image", 1280)
    assert (second.name, second.kind, second.dimension) == (registry.DEFAULT_TEXT, "text", 384)
    assert first.embedded
    assert second.embedded
    assert not any(info.embedded for info in others)
    for info in others:
        assert info.target.partition(":")[0] == info.extra
        assert info.extra in PREFIXES
        assert info.megabytes > 100
    assert 5 < first.megabytes < 10
    assert 15 < second.megabytes < 25
    for info, found in ((first, image_backend(first.name)), (second, text_backend(second.name))):
        assert (found.name, found.n_features) == (info.name, info.dimension)


def test_the_size_of_embedded_files_is_read_from_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "_DATA", tmp_path)
    for ending, n_bytes in ((".onnx", 2_000_000), (".json", 500), (".tokenizer.json", 1500)):
        (tmp_path / f"minilm-l6{ending}").write_bytes(bytes(n_bytes))
    (tmp_path / "minilm-l6.other").write_bytes(bytes(9000))
    sizes = {info.name: info.megabytes for info in list_encoders()}
    assert sizes["minilm-l6"] == 2.002


@pytest.mark.parametrize(
    ("load", "model", "said"),
    [
        (image_backend, "eficientnet-lite0", "Did you mean 'efficientnet-lite0'?"),
        (text_backend, "MiniLM-L6", "Did you mean 'minilm-l6'?"),
        (image_backend, "zebra", "Choose one of them."),
        (image_backend, "here/model.onnx", "Write 'onnx:here/model.onnx'."),
        (image_backend, "openai/clip", "Write 'transformers:openai/clip'."),
        (image_backend, "onnx:", "got 'onnx:'"),
        (image_backend, "torch:clip", "got 'torch:clip'"),
        (image_backend, 7, "must be the name of an encoder; got 7"),
        (image_backend, "minilm-l6", "must encode pictures; 'minilm-l6' encodes texts"),
        (text_backend, "dinov2-base", "must encode texts; 'dinov2-base' encodes pictures"),
        (image_backend, "sentence-transformers:a/b", "Write 'transformers:a/b'"),
        (image_backend, "onnx:nowhere.onnx", "nowhere.onnx does not exist"),
        (text_backend, "onnx:nowhere.txt", "nowhere.txt does not exist"),
    ],
)
def test_a_wrong_name_is_refused_in_one_line(load, model, said):
    with pytest.raises(ValueError, match=r"^[^\n]*$") as raised:
        load(model)
    assert said in str(raised.value)


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:x", "CPU", None])
def test_a_wrong_device_is_refused(device):
    with pytest.raises(ValueError, match="`device` must be 'cpu'"):
        image_backend("efficientnet-lite0", device)


def test_the_list_imports_no_backend():
    code = (
        "import sys; from zonkey.encoders.registry import list_encoders; list_encoders();"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"torch", "transformers", "sentence_transformers", "onnxruntime", "tokenizers", "PIL"}
    assert "zonkey.encoders.registry" in done.stdout.split()
    assert not heavy & set(done.stdout.split())


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("onnxruntime", "onnxruntime", "images"),
        ("PIL.Image", "pillow", "images"),
        ("transformers", "transformers", "transformers"),
        ("sentence_transformers", "sentence-transformers", "sentence-transformers"),
    ],
)
def test_a_missing_package_names_its_extra(monkeypatch, module, package, extra):
    monkeypatch.setitem(sys.modules, module, None)  # as if not installed
    with pytest.raises(ImportError, match=rf'An encoder needs {package}\. Run: .*"zonkey\[{extra}'):
        require_package(module, "An encoder")


def test_the_command_lists_every_encoder():
    done = CliRunner().invoke(app, ["encoders"])
    assert done.exit_code == 0
    lines = done.output.splitlines()
    for info in list_encoders():
        (line,) = [line for line in lines if line.startswith(f"{info.name} ")]
        for cell in (str(info.dimension), info.license, info.extra, f"{info.megabytes:.0f} MB"):
            assert cell in line
    assert max(map(len, lines)) <= 80
    done = CliRunner().invoke(app, ["encoders", "--json"])
    records = json.loads(done.output)
    assert [record["name"] for record in records] == [info.name for info in list_encoders()]
    assert records[0]["embedded"] is True
    assert records[2]["target"] == "transformers:openai/clip-vit-base-patch32"
