"""Tiny models with random weights against a direct call of the model."""

import json
import logging

import numpy as np
import pytest
import tokenizers
import torch
import transformers
from PIL import Image

from zonkey.encoders.registry import image_backend, text_backend
from zonkey.encoders.weights import folder_revision
from zonkey.files.dataset import DataError

SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
VISION = {**SMALL, "intermediate_size": 24, "image_size": 32, "patch_size": 8}
TEXT = {**SMALL, "intermediate_size": 24, "vocab_size": 12, "max_position_embeddings": 10}
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "red", "green", "cat", "dog", "</s>", "a", "of"]
TEXTS = ["red cat", "dog", "a green dog of a red dog of a red cat of a dog"]
PICTURES = [
    Image.fromarray(np.random.default_rng(i).integers(0, 256, (40, 50 + i, 3), dtype=np.uint8))
    for i in range(3)
]


def save_tokenizer(folder, end):
    """Words as tokens; `end` closes a text."""
    model = tokenizers.models.WordLevel({word: i for i, word in enumerate(WORDS)}, "[UNK]")
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single=f"[CLS] $A {end}", special_tokens=[("[CLS]", 2), (end, WORDS.index(end))]
    )
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", eos_token=end
    ).save_pretrained(folder)


def save_processor(folder, kind, **settings):
    size = {"height": 32, "width": 32} if kind in ("ViT", "Siglip") else {"shortest_edge": 32}
    if kind in ("CLIP", "Bit"):
        settings = {"do_center_crop": True, "crop_size": {"height": 32, "width": 32}, **settings}
    settings = {"image_processor_type": f"{kind}ImageProcessor", "size": size, **settings}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings), "utf-8")


def save_model(folder, config, processor=None, end=None):
    torch.manual_seed(0)
    # Larger weights than by default: features of different inputs must differ clearly.
    model = transformers.AutoModel.from_config(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(0, 0.3)
    model.save_pretrained(folder)
    if processor:
        save_processor(folder, processor)
    if end:
        save_tokenizer(folder, end)
    return model


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Folders and models by name."""
    ends = {"eos_token_id": WORDS.index("</s>"), "bos_token_id": 2, "pad_token_id": 0}
    towers = {"text_config": {**TEXT, **ends}, "vision_config": VISION}
    small = transformers.ConvNextConfig(hidden_sizes=[4, 6], depths=[1, 1], num_stages=2)
    configs = {
        "vit": (transformers.ViTConfig(**VISION), "ViT", None),
        "dinov2": (transformers.Dinov2Config(**VISION, mlp_ratio=2), "Bit", None),
        "convnext": (small, "ViT", None),
        "clip": (transformers.CLIPConfig(**towers, projection_dim=6), "CLIP", "</s>"),
        "siglip": (transformers.SiglipConfig(**towers), "Siglip", "</s>"),
        "bert": (transformers.BertConfig(**TEXT), None, "[SEP]"),
    }
    root = tmp_path_factory.mktemp("models")
    before = transformers.utils.logging.get_verbosity()
    transformers.utils.logging.set_verbosity(logging.CRITICAL)
    made = {
        name: (root / name, save_model(root / name, *values)) for name, values in configs.items()
    }
    transformers.utils.logging.set_verbosity(before)
    return made


def features_of(backend, pictures=PICTURES):
    return backend.encode(np.stack([backend.prepare(picture) for picture in pictures]))


def processed(folder, pictures=PICTURES):
    """What the processor of transformers gives, normalized."""
    processor = transformers.AutoImageProcessor.from_pretrained(folder, use_fast=False)
    return processor(images=pictures, return_tensors="pt")["pixel_values"]


def by_hand(picture, side, *, crop):
    """Resize with Pillow, cut out the center."""
    if not crop:
        return np.asarray(picture.resize((side, side), Image.Resampling.BILINEAR))
    width = int(side * picture.width / picture.height)
    left = (width - side) // 2
    return np.asarray(picture.resize((width, side), Image.Resampling.BICUBIC))[:, left:][:, :side]


@pytest.mark.parametrize(
    ("kind", "settings", "dtype"),
    [
        ("ViT", {"do_rescale": False, "image_mean": [90, 110, 120]}, np.uint8),
        ("ViT", {"do_normalize": False, "rescale_factor": 0.01}, np.uint8),
        ("EfficientNet", {"rescale_offset": True}, np.float32),  # normalized by the processor
    ],
)
def test_other_normalizations(models, tmp_path, kind, settings, dtype):
    model = models["vit"][1]
    model.save_pretrained(tmp_path)
    size = {"height": 32, "width": 32}
    save_processor(tmp_path, kind, **{"image_std": [2, 3, 4], "size": size, **settings})
    backend = image_backend(f"transformers:{tmp_path}")
    assert backend.prepare(PICTURES[0]).dtype == dtype
    with torch.inference_mode():
        expected = model(pixel_values=processed(tmp_path)).last_hidden_state[:, 0]
    np.testing.assert_allclose(features_of(backend), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["vit", "dinov2", "convnext"])
def test_features_of_vision_models(models, name):
    folder, model = models[name]
    backend = image_backend(f"transformers:{folder}")
    if name != "convnext":
        sample = backend.prepare(PICTURES[0])
        expected = by_hand(PICTURES[0], 32, crop=name == "dinov2").transpose(2, 0, 1)
        assert sample.dtype == np.uint8  # normalized on the device
        np.testing.assert_array_equal(sample, expected)
        assert backend.size == 32
    features = features_of(backend)
    with torch.inference_mode():
        output = model(pixel_values=processed(folder))
    expected = output.pooler_output if name == "convnext" else output.last_hidden_state[:, 0]
    assert features.dtype == np.float32
    assert features.shape == (3, backend.n_features)
    np.testing.assert_allclose(features, expected.numpy(), rtol=1e-3, atol=1e-4)
    assert np.abs(features[0] - features[1]).max() > 1e-2
    assert backend.space is None
    assert (backend.name, backend.revision) == (f"transformers:{folder}", folder_revision(folder))


@pytest.mark.parametrize("name", ["clip", "siglip"])
def test_joint_pairs_share_one_space(models, name, capfd):
    folder, model = models[name]
    images = image_backend(f"transformers:{folder}")
    texts = text_backend(f"transformers:{folder}")
    assert capfd.readouterr() == ("", ""), "loading prints nothing"
    assert images.space == texts.space is not None
    assert texts.count_tokens(["a", "a a"])[1] == 2 * texts.count_tokens(["a"])[0]
    assert 5 < texts.max_tokens < 10
    assert (images.name, images.revision) == (texts.name, texts.revision)
    assert images.n_features == texts.n_features == (6 if name == "clip" else 16)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    padding = True if name == "clip" else "max_length"
    tokens = tokenizer(TEXTS, padding=padding, truncation=True, max_length=10, return_tensors="pt")
    if name == "siglip":
        del tokens["attention_mask"]
    tokens.pop("token_type_ids", None)
    with torch.inference_mode():
        output = model(pixel_values=processed(folder), **tokens)
    np.testing.assert_allclose(features_of(images), output.image_embeds, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(texts.encode(TEXTS), output.text_embeds, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(texts.encode(TEXTS), axis=1), 1, rtol=1e-5)


def test_text_models_give_the_mean_over_tokens(models):
    folder, model = models["bert"]
    backend = text_backend(f"transformers:{folder}")
    vectors = backend.encode(TEXTS)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    for text, vector in zip(TEXTS, vectors, strict=True):  # one by one: nothing is padded
        tokens = tokenizer([text], truncation=True, max_length=10, return_tensors="pt")
        with torch.inference_mode():
            expected = model(**tokens).last_hidden_state[0].mean(0)
        np.testing.assert_allclose(vector, expected.numpy(), rtol=1e-4, atol=1e-5)
    assert (backend.n_features, backend.space) == (16, None)


def test_an_untrained_pooler_is_not_used(tmp_path):
    """A checkpoint without a pooler: its weights would be random at each load."""
    config = transformers.BeitConfig(**VISION, use_mean_pooling=True)
    model = save_model(tmp_path, config, "ViT")
    weights = {key: value for key, value in model.state_dict().items() if "pooler" not in key}
    assert len(weights) < len(model.state_dict())
    model.save_pretrained(tmp_path, state_dict=weights)
    backend = image_backend(f"transformers:{tmp_path}")
    with torch.inference_mode():
        expected = model(pixel_values=processed(tmp_path)).last_hidden_state.mean(1)
    np.testing.assert_allclose(features_of(backend), expected.numpy(), rtol=1e-3, atol=1e-4)


def test_missing_weights_and_pictures_that_keep_their_shape_are_refused(models, tmp_path):
    model = models["vit"][1]
    weights = {key: value for key, value in model.state_dict().items() if "layernorm" not in key}
    model.save_pretrained(tmp_path, state_dict=weights)
    save_processor(tmp_path, "ViT")
    with pytest.raises(DataError, match=r"must hold all weights; \d+ are missing, such as"):
        image_backend(f"transformers:{tmp_path}")
    save_processor(tmp_path, "Bit", do_center_crop=False)
    assert "must give pictures of any shape one size" in refused(image_backend, tmp_path)


def test_half_precision_is_loaded_in_float32(models, tmp_path):
    folder = models["vit"][0]
    transformers.AutoModel.from_pretrained(folder).half().save_pretrained(tmp_path)
    save_processor(tmp_path, "ViT")
    half = features_of(image_backend(f"transformers:{tmp_path}"))
    assert half.dtype == np.float32
    full = features_of(image_backend(f"transformers:{folder}"))
    np.testing.assert_allclose(half, full, atol=0.05)
    assert np.abs(half - full).max() > 0


def refused(load, source):
    with pytest.raises(DataError) as raised:
        load(f"transformers:{source}")
    message = str(raised.value)
    assert "\n" not in message
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__ or raised.value.__context__ is None
    return message


def test_folders_that_are_no_model_are_refused(models, tmp_path):
    assert "must be a model with config.json and weights" in refused(image_backend, tmp_path)
    assert "there is no such folder" in refused(image_backend, tmp_path / "nothing")
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"weights")
    assert "must be a folder; it is a file" in refused(image_backend, file)
    (tmp_path / "config.json").write_text("{}", "utf-8")
    assert "must be a vision model with an image processor" in refused(image_backend, tmp_path)
    assert "must be a text model with a tokenizer" in refused(text_backend, tmp_path)
    assert "vision model" in refused(image_backend, models["bert"][0])
    assert "text model" in refused(text_backend, models["vit"][0])


def test_a_downloaded_model_needs_no_hub(monkeypatch, tmp_path, models):
    """There is a hub at a port where nobody answers, and an empty cache."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    for load in (image_backend, text_backend):
        said = refused(load, "openai/clip-vit-base-patch32")
        assert said.startswith("transformers:openai/clip-vit-base-patch32 must be downloaded once;")
        assert "the hub could not be reached" in said
        assert said.endswith("or pass a local folder.")
    commit = "0123456789abcdef0123456789abcdef01234567"
    home = tmp_path / "models--animals--tiny-vit"
    snapshot = home / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text(commit, "utf-8")
    (snapshot / "config.json").write_bytes((models["vit"][0] / "config.json").read_bytes())
    said = refused(image_backend, "animals/tiny-vit")  # interrupted before the weights
    assert "the hub could not be reached" in said
    for file in models["vit"][0].iterdir():
        (snapshot / file.name).write_bytes(file.read_bytes())
    backend = image_backend("transformers:animals/tiny-vit")
    assert backend.name == "transformers:animals/tiny-vit"
    local = image_backend(f"transformers:{models['vit'][0]}")
    np.testing.assert_array_equal(features_of(backend), features_of(local))
    assert backend.revision != local.revision  # that of the commit


def test_cuda_that_is_not_there_is_refused(models):
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(ValueError, match="got 'cuda', and torch sees 0 CUDA devices"):
        image_backend(f"transformers:{models['vit'][0]}", "cuda")
    assert image_backend(f"transformers:{models['vit'][0]}", "auto").n_features == 16
