"""A tiny random model of sentence-transformers against its own `encode`."""

import numpy as np
import pytest
import sentence_transformers
import torch
import transformers

from zonkey.encoders.registry import text_backend
from zonkey.encoders.weights import folder_revision
from zonkey.files.dataset import DataError

try:
    from sentence_transformers.sentence_transformer import modules
except ImportError:  # before version 6
    from sentence_transformers import models as modules

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "red", "green", "cat", "dog"]
TEXTS = ["red cat", "dog", "green dog red cat"]


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("sentence")
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=12,
    )
    transformers.BertModel(config).save_pretrained(root / "bert")
    (root / "bert" / "vocab.txt").write_text("\n".join(WORDS), "utf-8")
    transformers.BertTokenizerFast(str(root / "bert" / "vocab.txt")).save_pretrained(root / "bert")
    tower = modules.Transformer(str(root / "bert"))
    model = sentence_transformers.SentenceTransformer(
        modules=[tower, modules.Pooling(8), modules.Dense(8, 5)], device="cpu"
    )
    model.save(str(root / "model"))
    return root / "model"


def test_vectors_are_those_of_the_model(folder, capfd):
    backend = text_backend(f"sentence-transformers:{folder}")
    assert capfd.readouterr() == ("", ""), "loading prints nothing"
    assert backend.revision == folder_revision(folder)
    vectors = backend.encode(TEXTS)
    model = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    assert vectors.dtype == np.float32
    assert (backend.name, backend.n_features) == (f"sentence-transformers:{folder}", 5)
    assert backend.space is None
    assert backend.max_tokens == 10  # beside [CLS] and [SEP]
    assert backend.count_tokens(TEXTS) == [2, 1, 4]
    np.testing.assert_allclose(vectors, model.encode(TEXTS), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(backend.encode(TEXTS[1:2]), vectors[1:2], rtol=1e-4, atol=1e-6)
    assert np.abs(vectors[0] - vectors[1]).max() > 1e-3


def test_a_folder_that_is_no_model_is_refused(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "config.json").write_text("{}", "utf-8")
    with pytest.raises(DataError, match=r"^[^\n]*must be a model of sentence-transformers;[^\n]*$"):
        text_backend(f"sentence-transformers:{tmp_path}")


def test_a_hub_out_of_reach_is_one_line(monkeypatch, tmp_path):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    name = "sentence-transformers:sentence-transformers/all-mpnet-base-v2"
    with pytest.raises(DataError, match=rf"^{name} must[^\n]* the hub could not be reached[^\n]*$"):
        text_backend("all-mpnet-base-v2")
    with pytest.raises(DataError, match="the hub could not be reached"):
        text_backend("sentence-transformers:all-mpnet-base-v2")
