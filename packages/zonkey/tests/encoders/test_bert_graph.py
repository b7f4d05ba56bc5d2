"""The ONNX graph of a BERT encoder, against loops in NumPy; and the embedded graph."""

import math
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from tokenizers import Tokenizer

import zonkey
from bert_graph import LAYERS, PLANES, Storage, bert_graph, packed, quantize

HIDDEN, WIDE, N_HEADS, N_WORDS, N_LAYERS, N_PLACES = 8, 16, 2, 20, 2, 6
DATA = Path(zonkey.__file__).parent / "encoders" / "data"
EPS = 1e-12


def tiny_weights():
    rng = np.random.default_rng(0)
    shapes = {
        "embeddings.word_embeddings.weight": (N_WORDS, HIDDEN),
        "embeddings.position_embeddings.weight": (N_PLACES + 2, HIDDEN),
        "embeddings.token_type_embeddings.weight": (2, HIDDEN),
    }
    norms = ["embeddings.LayerNorm"]
    for layer in range(N_LAYERS):
        key = f"encoder.layer.{layer}"
        linear = {f"attention.self.{part}": (HIDDEN, HIDDEN) for part in ("query", "key", "value")}
        linear["attention.output.dense"] = (HIDDEN, HIDDEN)
        linear["intermediate.dense"] = (WIDE, HIDDEN)
        linear["output.dense"] = (HIDDEN, WIDE)
        for part, shape in linear.items():
            shapes[f"{key}.{part}.weight"] = shape
            shapes[f"{key}.{part}.bias"] = shape[:1]
        norms += [f"{key}.attention.output.LayerNorm", f"{key}.output.LayerNorm"]
    weights = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    for name in norms:
        weights[f"{name}.weight"] = rng.normal(1, 0.1, HIDDEN).astype(np.float32)
        weights[f"{name}.bias"] = rng.normal(0, 0.1, HIDDEN).astype(np.float32)
    return weights


def as_stored(weights, words):
    """Return the weights as the graph holds them: rounded, in double precision."""
    found = {name: array.astype(np.float64) for name, array in weights.items()}
    for name, array in weights.items():
        if array.ndim == 2 and "position" not in name and "token_type" not in name:
            how = words if "word" in name else LAYERS
            codes, scales = quantize(array, how)
            blocks = codes.reshape(*scales.shape, -1) * scales.astype(np.float64)[:, :, None]
            found[name] = blocks.reshape(array.shape)
    places = weights["embeddings.position_embeddings.weight"]
    places = places + weights["embeddings.token_type_embeddings.weight"][0]
    found["places"] = places.astype(np.float16).astype(np.float64)
    return found


def norm(x, weights, key):
    centered = x - x.mean()
    scaled = centered / math.sqrt((centered**2).mean() + EPS)
    return scaled * weights[f"{key}.weight"] + weights[f"{key}.bias"]


def linear(x, weights, key):
    return weights[f"{key}.weight"] @ x + weights[f"{key}.bias"]


def naive_embedding(ids, weights):
    """Encode one text without padding, token by token and head by head."""
    tokens = [
        norm(
            weights["embeddings.word_embeddings.weight"][word] + weights["places"][place],
            weights,
            "embeddings.LayerNorm",
        )
        for place, word in enumerate(ids)
    ]
    size = HIDDEN // N_HEADS
    for layer in range(N_LAYERS):
        key = f"encoder.layer.{layer}"
        q, k, v = (
            [linear(x, weights, f"{key}.attention.self.{part}") for x in tokens]
            for part in ("query", "key", "value")
        )
        after = []
        for i, x in enumerate(tokens):
            mixed = np.zeros(HIDDEN)
            for head in range(N_HEADS):
                part = slice(head * size, (head + 1) * size)
                scores = [
                    math.exp(q[i][part] @ k[j][part] / math.sqrt(size)) for j in range(len(k))
                ]
                for j, score in enumerate(scores):
                    mixed[part] += score / sum(scores) * v[j][part]
            x = x + linear(mixed, weights, f"{key}.attention.output.dense")
            x = norm(x, weights, f"{key}.attention.output.LayerNorm")
            wide = linear(x, weights, f"{key}.intermediate.dense")
            wide = np.array([a / 2 * (1 + math.erf(a / math.sqrt(2))) for a in wide])
            x = x + linear(wide, weights, f"{key}.output.dense")
            after.append(norm(x, weights, f"{key}.output.LayerNorm"))
        tokens = after
    mean = np.mean(tokens, axis=0)
    return mean / np.linalg.norm(mean)


def run(content, ids, mask):
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return session.run(["embeddings"], {"input_ids": ids, "attention_mask": mask})[0]


@pytest.mark.parametrize("words", [Storage(8), Storage(4), Storage(5, 4), Storage(6, 8)])
def test_graph_agrees_with_loops(words):
    weights = tiny_weights()
    model = bert_graph(weights, n_heads=N_HEADS, max_tokens=N_PLACES, words=words)
    texts = [[2, 7, 3], [2, 19, 0, 5, 11, 3], [4]]
    ids = np.zeros((3, 6), np.int64)
    mask = np.zeros((3, 6), np.int64)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = text
        mask[row, : len(text)] = 1
    found = run(model.SerializeToString(), ids, mask)
    stored = as_stored(weights, words)
    expected = [naive_embedding(text, stored) for text in texts]
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_the_same_weights_give_the_same_bytes():
    how = {"n_heads": N_HEADS, "max_tokens": N_PLACES, "words": Storage(5, 4)}
    first, second = (
        bert_graph(tiny_weights(), **how).SerializeToString(deterministic=True) for _ in range(2)
    )
    assert first == second


@pytest.mark.parametrize("bits", [4, 5, 6, 8])
def test_rounding_is_at_most_half_a_step(bits):
    matrix = np.random.default_rng(1).uniform(-1, 1, size=(5, 32))
    matrix[2] = 0
    codes, scales = quantize(matrix, Storage(bits, 16))
    assert np.abs(codes).max() <= 2 ** (bits - 1) - 1
    back = codes.reshape(5, 2, 16) * scales.astype(float)[:, :, None]
    error = np.abs(back.reshape(5, 32) - matrix)
    # Uniform numbers gain little from cutting off the largest ones.
    assert error.max() <= 1.5 / (2 ** (bits - 1) - 1)
    assert not error[2].any()


@pytest.mark.parametrize("bits", PLANES)
def test_planes_hold_all_bits(bits):
    codes = np.random.default_rng(2).integers(-(2 ** (bits - 1)), 2 ** (bits - 1), size=(3, 16))
    planes = packed(codes.astype(np.int8), bits)
    assert sum(plane.nbytes for plane in planes) == codes.size * bits / 8
    back, place = np.zeros_like(codes), 0
    for plane, width in zip(planes, PLANES[bits], strict=True):
        for position in range(8 // width):
            part = plane.astype(int) // 2 ** (position * width) % 2**width
            back[:, position :: 8 // width] += part << place
        place += width
    np.testing.assert_array_equal(back - 2 ** (bits - 1), codes)


def test_the_embedded_graph_knows_synonyms():
    reader = Tokenizer.from_file(str(DATA / "minilm-l6.tokenizer.json"))
    path = DATA / "minilm-l6.onnx"
    texts = ["a kitten", "a cat", "a lorry", "a truck that carries goods on the road"]
    found = reader.encode_batch(texts)
    ids, masks = ([getattr(one, part) for one in found] for part in ("ids", "attention_mask"))
    vectors = run(path.read_bytes(), np.array(ids), np.array(masks))
    assert vectors.shape == (4, 384)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    similar = vectors @ vectors.T - 2 * np.eye(4)
    assert similar.argmax(axis=1).tolist() == [1, 0, 3, 2]
    # Padding changes nothing.
    alone = run(path.read_bytes(), np.array([reader.encode("a kitten").ids]), np.ones((1, 4), int))
    np.testing.assert_allclose(alone[0], vectors[0], atol=1e-5)
    assert len(reader.encode("word " * 1000).ids) == 256
    assert path.stat().st_size < 19e6
    model = onnx.load(path)
    assert not model.metadata_props
    assert model.opset_import[0].version <= 18  # what old runtimes read
