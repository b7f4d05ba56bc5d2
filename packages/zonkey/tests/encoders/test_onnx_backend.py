"""Tiny graphs against the same computation in NumPy."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import pytest
import tokenizers
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from zonkey.encoders import ImageEncoder
from zonkey.encoders.registry import image_backend, text_backend
from zonkey.files.dataset import DataError

RNG = np.random.default_rng(0)
KERNEL = RNG.normal(size=(5, 3, 1, 1)).astype(np.float32)
VECTORS = RNG.normal(size=(7, 4)).astype(np.float32)
WORDS = {"[PAD]": 0, "[UNK]": 1, "red": 2, "green": 3, "cat": 4, "dog": 5, "[CLS]": 6}
PICTURE = Image.fromarray(RNG.integers(0, 256, (48, 80, 3), dtype=np.uint8))


def save(path, nodes, inputs, outputs, constants):
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(*node) for node in inputs],
        [helper.make_tensor_value_info(*node) for node in outputs],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, path)
    return path


def image_graph(path, *, shape=("n", 3, 16, 16), dtype=TensorProto.FLOAT, nhwc=False, flat=True):
    """A convolution with one pixel, then the mean over pixels."""
    node, nodes = "pixels", []
    if dtype != TensorProto.FLOAT:
        nodes.append(helper.make_node("Cast", [node], ["cast"], to=TensorProto.FLOAT))
        node = "cast"
    if nhwc:
        nodes.append(helper.make_node("Transpose", [node], ["turned"], perm=[0, 3, 1, 2]))
        node = "turned"
    nodes += [
        helper.make_node("Conv", [node, "kernel"], ["map"]),
        helper.make_node("GlobalAveragePool", ["map"], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["features"]),
    ]
    outputs = [("features", TensorProto.FLOAT, [shape[0], 5])]
    if not flat:
        nodes, outputs = nodes[:-1], [("pooled", TensorProto.FLOAT, [shape[0], 5, 1, 1])]
    return save(path, nodes, [("pixels", dtype, shape)], outputs, {"kernel": KERNEL})


def pooled(pixels):
    """The features of pixels (height, width, 3)."""
    return pixels.mean((0, 1), dtype=np.float64) @ KERNEL[:, :, 0, 0].T


def text_graph(path, *inputs, rank=3, dtype=TensorProto.INT64):
    """Vectors of tokens; with rank 2, their mean."""
    nodes = [helper.make_node("Gather", ["vectors", "input_ids"], ["hidden"])]
    outputs = [("hidden", TensorProto.FLOAT, ["n", "t", 4])]
    if "token_type_ids" in inputs:  # a type of 1 would change the vectors
        nodes[0].output[0] = "tokens"
        nodes += [
            helper.make_node("Cast", ["token_type_ids"], ["types"], to=TensorProto.FLOAT),
            helper.make_node("Unsqueeze", ["types", "axis"], ["column"]),
            helper.make_node("Add", ["tokens", "column"], ["hidden"]),
        ]
    if rank == 2:
        nodes.append(helper.make_node("ReduceMean", ["hidden", "one"], ["mean"], keepdims=0))
        outputs = [("mean", TensorProto.FLOAT, ["n", 4])]
    constants = {"vectors": VECTORS, "axis": np.array([2]), "one": np.array([1])}
    inputs = [(name, dtype, ["n", "t"]) for name in ("input_ids", *inputs)]
    return save(path, nodes, inputs, outputs, constants)


def save_tokenizer(path, padded=False):
    model = tokenizers.models.WordLevel(WORDS, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A", special_tokens=[("[CLS]", 6)]
    )
    if padded:
        tokenizer.enable_padding(length=9, pad_id=0)
    tokenizer.save(str(path))


def write_json(path, **settings):
    path.with_suffix(".json").write_text(json.dumps(settings), "utf-8")


def encoded(path, *pictures):
    backend = image_backend(f"onnx:{path}")
    return backend.encode(np.stack([backend.prepare(picture) for picture in pictures]))


def test_without_json_the_graph_says_what_it_takes(tmp_path):
    path = image_graph(tmp_path / "model.onnx")
    backend = image_backend(f"onnx:{path}")
    wide = Image.fromarray(RNG.integers(0, 256, (48, 96, 3), dtype=np.uint8))
    sample = backend.prepare(wide)
    expected = wide.resize((32, 16), Image.Resampling.BICUBIC).crop((8, 0, 24, 16))
    assert sample.dtype == np.float32
    np.testing.assert_allclose(sample * 255, np.asarray(expected).transpose(2, 0, 1), atol=1e-3)
    assert (backend.name, backend.n_features) == (f"onnx:{path}", 5)
    assert backend.space is None
    features = backend.encode(np.stack([sample, sample[:, ::-1] * 0]))
    assert features.dtype == np.float32
    np.testing.assert_allclose(features[0], pooled(sample.transpose(1, 2, 0)), rtol=1e-4)
    assert not features[1].any()


def test_pixels_of_uint8_reach_the_graph_as_they_are(tmp_path):
    shape = ("n", None, None, 3)
    path = image_graph(tmp_path / "m.onnx", shape=shape, dtype=TensorProto.UINT8, nhwc=True)
    write_json(path, size=48, dtype="uint8", layout="nhwc", input="pixels", output="features")
    backend = image_backend(f"onnx:{path}")
    sample = backend.prepare(PICTURE)
    np.testing.assert_array_equal(sample, np.asarray(PICTURE)[:, 16:64])
    np.testing.assert_allclose(backend.encode(sample[None])[0], pooled(sample), rtol=1e-4)


def test_values_are_scaled_and_normalized(tmp_path):
    path = image_graph(tmp_path / "m.onnx", shape=("n", 20, 20, 3), nhwc=True)
    mean, std = [0.1, 0.2, 0.3], [0.5, 2.0, 4.0]
    write_json(path, scale=0.01, mean=mean, std=std, resize="squash", resample="nearest", crop=None)
    pixels = np.asarray(PICTURE.resize((20, 20), Image.Resampling.NEAREST))
    expected = (pixels * 0.01 - mean) / std
    backend = image_backend(f"onnx:{path}")
    np.testing.assert_allclose(backend.prepare(PICTURE), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(encoded(path, PICTURE)[0], pooled(expected), rtol=1e-4)


def check_pixels(tmp_path, side, expected, picture=PICTURE, **settings):
    """Compare what a graph of square input gets with pixels; return its backend."""
    path = image_graph(tmp_path / "m.onnx", shape=("n", side, side, 3), nhwc=True)
    write_json(path, **settings)
    backend = image_backend(f"onnx:{path}")
    np.testing.assert_allclose(backend.prepare(picture) * 255, np.asarray(expected), atol=1e-3)
    return backend


@pytest.mark.parametrize("resample", ["box", "bilinear", "hamming", "bicubic", "lanczos"])
def test_the_filter_is_that_of_the_json(tmp_path, resample):
    expected = PICTURE.resize((40, 40), Image.Resampling[resample.upper()])
    check_pixels(tmp_path, 40, expected, resize="squash", resample=resample)


def test_a_fraction_of_the_shorter_side_is_kept(tmp_path):
    expected = np.asarray(PICTURE)[12:36, 28:52]
    assert check_pixels(tmp_path, 24, expected, crop=0.5, resample="nearest").size == 48


@pytest.mark.parametrize("turned", [False, True])
def test_padding_keeps_the_whole_picture(tmp_path, turned):
    picture = PICTURE.transpose(Image.Transpose.ROTATE_90) if turned else PICTURE
    expected = np.zeros((40, 40, 3))
    inner = (24, 40) if turned else (40, 24)
    content = np.asarray(picture.resize(inner, Image.Resampling.BICUBIC))
    expected[(slice(None), slice(8, 32)) if turned else slice(8, 32)] = content
    check_pixels(tmp_path, 40, expected, picture, resize="pad")


def test_threads_prepare_the_same_samples(tmp_path):
    backend = image_backend(f"onnx:{image_graph(tmp_path / 'm.onnx')}")
    pictures = [PICTURE.rotate(angle) for angle in range(24)]
    with ThreadPoolExecutor(4) as pool:
        at_once = list(pool.map(backend.prepare, pictures))
    np.testing.assert_array_equal(at_once, [backend.prepare(picture) for picture in pictures])


def test_a_graph_for_one_picture_runs_one_by_one(tmp_path):
    pictures = [PICTURE, PICTURE.rotate(90), PICTURE.rotate(180)]
    single = image_graph(tmp_path / "single.onnx", shape=(1, 3, 16, 16), flat=False)
    batch = image_graph(tmp_path / "batch.onnx")
    features = encoded(single, *pictures)
    assert features.shape == (3, 5)
    np.testing.assert_allclose(features, encoded(batch, *pictures), rtol=1e-5)


def test_the_revision_is_that_of_weights_and_settings(tmp_path):
    path = image_graph(tmp_path / "m.onnx")
    first, again = (image_backend(f"onnx:{path}").revision for _ in range(2))
    assert first == again
    write_json(path, resize="pad")
    second = image_backend(f"onnx:{path}").revision
    image_graph(path, shape=("n", 3, 8, 8))
    assert len({first, second, image_backend(f"onnx:{path}").revision}) == 3


def test_a_file_that_has_changed_is_loaded_again(tmp_path, monkeypatch):
    path = image_graph(tmp_path / "m.onnx")
    monkeypatch.chdir(tmp_path)
    encoder = ImageEncoder("onnx:m.onnx", cache=tmp_path / "cache")
    features, spec = encoder.transform([PICTURE]), encoder.spec_
    write_json(path, mean=[0.5, 0.5, 0.5])
    assert encoder.spec_["revision"] != spec["revision"]
    assert np.abs(encoder.transform([PICTURE]) - features).max() > 0.1
    with pytest.raises(ValueError, match=r"must have the revision .* of the training"):
        ImageEncoder.from_spec(spec)
    (tmp_path / "other").mkdir()
    image_graph(tmp_path / "other" / "m.onnx")
    monkeypatch.chdir(tmp_path / "other")
    np.testing.assert_array_equal(encoder.transform([PICTURE]), features)
    path.with_suffix(".json").unlink()
    again = ImageEncoder.from_spec(spec, batch_size=3)
    np.testing.assert_array_equal(again.transform([PICTURE]), features)
    assert again.batch_size == 3


BAD_SETTINGS = [
    ({"sise": 3}, "got 'sise'. Did you mean 'size'?"),
    ({"size": 0}, "`size` must be an integer from 1 to 8192; got 0"),
    ({"size": True}, "`size` must be an integer"),
    ({"size": 17}, "must have square RGB input"),
    ({"resize": "fit"}, "`resize` must be one of crop, squash, pad; got 'fit'"),
    ({"resample": "cubic"}, "`resample` must be one of nearest"),
    ({"crop": 0}, "`crop` must be a number in (0, 1]; got 0"),
    ({"crop": 0.5, "resize": "pad"}, "`crop` must be 1 unless"),
    ({"layout": "hwc"}, "`layout` must be one of nhwc, nchw"),
    ({"layout": "nhwc"}, "must have square RGB input"),
    ({"dtype": "float16"}, "`dtype` must be one of uint8, float32"),
    ({"dtype": "uint8"}, "must have square RGB input"),
    ({"scale": -1}, "`scale` must be a positive number"),
    ({"mean": [0, 1]}, "`mean` must be three numbers"),
    ({"std": [1, 1, 0]}, "`std` must be three positive numbers"),
    ({"input": "image"}, "must have one input"),
    ({"output": "logits"}, "the output 'logits' that its JSON names"),
    ({"dimension": 6}, "`dimension` must be 5; got 6"),
    ({"name": 5}, "`name` must be text"),
    ([1], "must be a JSON object; got [1]"),
]


def refused(load, path, said):
    with pytest.raises(DataError, match=rf"\A[^\n]*{re.escape(said)}[^\n]*\Z"):
        load(f"onnx:{path}")


@pytest.mark.parametrize(("settings", "said"), BAD_SETTINGS, ids=str)
def test_wrong_settings_are_refused(tmp_path, settings, said):
    path = image_graph(tmp_path / "model.onnx")
    path.with_suffix(".json").write_text(json.dumps(settings), "utf-8")
    refused(image_backend, path, said)


def test_normalization_of_uint8_is_refused(tmp_path):
    path = image_graph(tmp_path / "m.onnx", dtype=TensorProto.UINT8)
    write_json(path, mean=[0, 0, 0])
    refused(image_backend, path, "must be left out with uint8 input")


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ((4, 3, 16, 16), "a batch of any size"),
        (("n", 1, 16, 16), "square RGB input"),
        (("n", 3, 16, 20), "square RGB input"),
        (("n", 3, 16), "must have one input of shape"),
    ],
)
def test_other_graphs_are_refused(tmp_path, shape, said):
    nodes = [helper.make_node("Identity", ["pixels"], ["same"])]
    nodes = [*nodes, helper.make_node("Flatten", ["same"], ["flat"])]
    outputs = [("flat", TensorProto.FLOAT, [shape[0], None])]
    inputs = [("pixels", TensorProto.FLOAT, shape)]
    path = save(tmp_path / "m.onnx", nodes, inputs, outputs, {})
    refused(image_backend, path, said)
    refused(image_backend, path, "its inputs are pixels tensor(float)")


def test_a_graph_without_one_vector_per_picture_is_refused(tmp_path):
    nodes = [helper.make_node("Identity", ["pixels"], ["map"])]
    shape = ("n", 3, 16, 16)
    tensors = [(name, TensorProto.FLOAT, shape) for name in ("pixels", "map")]
    path = save(tmp_path / "m.onnx", nodes, tensors[:1], tensors[1:], {})
    refused(image_backend, path, "must have one vector per sample")


def test_one_of_several_outputs_is_named(tmp_path):
    path = tmp_path / "m.onnx"
    model = onnx.load(image_graph(path))
    more = helper.make_tensor_value_info("pooled", TensorProto.FLOAT, ["n", 5, 1, 1])
    model.graph.output.insert(0, more)
    onnx.save(model, path)
    refused(image_backend, path, 'must have one output, or the name of one as "output"')
    write_json(path, output="features")
    np.testing.assert_allclose(
        encoded(path, PICTURE), encoded(image_graph(tmp_path / "one.onnx"), PICTURE), rtol=1e-5
    )


def test_damaged_files_are_refused(tmp_path):
    path = image_graph(tmp_path / "m.onnx")
    path.with_suffix(".json").write_text('{"size":\n 3', "utf-8")
    refused(image_backend, path, "m.json must be JSON; line 2: ")
    path.with_suffix(".json").unlink()
    path.write_bytes(path.read_bytes()[:-40])
    refused(image_backend, path, "m.onnx must be a whole ONNX graph")


def test_cuda_without_its_provider_is_refused(tmp_path):
    import onnxruntime

    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("onnxruntime has CUDA")
    path = image_graph(tmp_path / "m.onnx")
    with pytest.raises(ValueError, match=r"got 'cuda:1'.*install onnxruntime-gpu"):
        image_backend(f"onnx:{path}", "cuda:1")
    assert image_backend(f"onnx:{path}", "auto").n_features == 5


TEXTS = ["red cat", "dog", "green zebra dog"]
TOKENS = [[6, 2, 4], [6, 5], [6, 3, 1, 5]]  # [CLS] first; zebra is unknown


@pytest.mark.parametrize("dtype", [TensorProto.INT64, TensorProto.INT32])
def test_texts_are_the_mean_of_their_tokens(tmp_path, dtype):
    masks = ("attention_mask", "token_type_ids")
    path = text_graph(tmp_path / "m.onnx", *masks, dtype=dtype)
    save_tokenizer(tmp_path / "tokenizer.json", padded=True)
    backend = text_backend(f"onnx:{path}")
    assert (backend.n_features, backend.space) == (4, None)
    vectors = backend.encode(TEXTS)
    assert vectors.dtype == np.float32
    expected = np.array([VECTORS[tokens].mean(0) for tokens in TOKENS])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(vectors, expected, rtol=1e-5)
    path = text_graph(path, rank=2)  # which pools them itself
    write_json(path, normalize=False)
    expected = VECTORS[[6, 2, 4]].mean(0)
    np.testing.assert_allclose(text_backend(f"onnx:{path}").encode(TEXTS[:1])[0], expected, 1e-5)


def test_the_first_token_and_few_tokens(tmp_path):
    path = text_graph(tmp_path / "m.onnx")
    save_tokenizer(tmp_path / "m.tokenizer.json")
    write_json(path, pooling="cls", normalize=False)
    vectors = text_backend(f"onnx:{path}").encode(TEXTS)
    np.testing.assert_array_equal(vectors, VECTORS[[6, 6, 6]])
    write_json(path, pooling="mean", normalize=False, max_tokens=2, space="shared")
    vectors = text_backend(f"onnx:{path}").encode(TEXTS)
    expected = [VECTORS[tokens[:2]].mean(0) for tokens in TOKENS]
    np.testing.assert_allclose(vectors, expected, rtol=1e-5)
    backend = text_backend(f"onnx:{path}")
    assert (backend.max_tokens, backend.space) == (1, "shared")  # beside [CLS]
    assert backend.count_tokens(TEXTS) == [2, 1, 3]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"pooling": "max"}, "`pooling` must be one of mean, cls, none; got 'max'"),
        ({"pooling": "none"}, "an output that pooling 'none' fits"),
        ({"max_tokens": 0}, "`max_tokens` must be a positive integer"),
        ({"normalize": 1}, "`normalize` must be true or false"),
        ({"size": 3}, "must have only the keys name"),
    ],
)
def test_wrong_settings_of_texts_are_refused(tmp_path, settings, said):
    path = text_graph(tmp_path / "m.onnx")
    save_tokenizer(tmp_path / "tokenizer.json")
    write_json(path, **settings)
    refused(text_backend, path, said)


def test_texts_need_their_graph_and_tokenizer(tmp_path):
    path = text_graph(tmp_path / "m.onnx", "positions")
    refused(text_backend, path, "tokenizer.json does not exist")
    (tmp_path / "tokenizer.json").write_text("{}", "utf-8")
    refused(text_backend, path, "must be a file of tokenizers")
    save_tokenizer(tmp_path / "tokenizer.json")
    refused(text_backend, path, "must have input_ids, attention_mask")
    refused(image_backend, text_graph(path), "must have one input of shape")
    first = text_backend(f"onnx:{path}").revision
    save_tokenizer(tmp_path / "m.tokenizer.json", padded=True)
    assert text_backend(f"onnx:{path}").revision != first
