"""Pictures per second of a vision model on a GPU: the bare model, its backend, and ImageEncoder.

`python benchmarks/gpu_encoders.py` requires torch, transformers, pillow and a CUDA device. The
model is ViT-B/16 with random weights: speed does not depend on them. `--small` runs a tiny model
on the CPU, as a test of the script.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from PIL import Image

from recording import save, save_page, show
from zonkey.encoders import ImageEncoder
from zonkey.encoders.registry import image_backend

TINY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
FILE_SHAPE = (375, 500, 3)  # of a typical photo on the web


def save_model(folder: Path, small: bool) -> None:
    config = transformers.ViTConfig(**(TINY if small else {}))
    transformers.ViTModel(config, add_pooling_layer=False).save_pretrained(folder)
    settings = {"image_processor_type": "ViTImageProcessor", "size": {"height": 224, "width": 224}}
    (folder / "preprocessor_config.json").write_text(json.dumps(settings), encoding="utf-8")


def photos(n: int) -> list[bytes]:
    """Return smooth random pictures as JPEG: they compress about as well as photos do."""
    rng = np.random.default_rng(0)
    contents = []
    for _ in range(n):
        coarse = Image.fromarray(rng.integers(0, 256, (24, 32, 3), dtype=np.uint8))
        image = coarse.resize((FILE_SHAPE[1], FILE_SHAPE[0]), Image.Resampling.BICUBIC)
        grain = rng.integers(-8, 9, FILE_SHAPE)
        pixels = np.clip(np.asarray(image) + grain, 0, 255).astype(np.uint8)
        stream = io.BytesIO()
        Image.fromarray(pixels).save(stream, "JPEG", quality=90)
        contents.append(stream.getvalue())
    return contents


def rate(work: Callable[[], Any], n: int, repeats: int = 3) -> float:
    """Return pictures per second of the fastest run, after one warm-up run."""

    def once() -> float:
        start = time.perf_counter()
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return time.perf_counter() - start

    once()
    return n / min(once() for _ in range(repeats))


def bare_rate(folder: Path, device: str, batch_size: int, n: int) -> float:
    """Return the speed of the model on normalized pictures that are on the device already."""
    model = transformers.AutoModel.from_pretrained(folder).float().eval().to(device)
    pixels = torch.randn(batch_size, 3, 224, 224, device=device)

    def work() -> None:
        with torch.inference_mode():
            for _ in range(n // batch_size):
                model(pixel_values=pixels)

    return rate(work, n)


def measured(folder: Path, device: str, batch_size: int, n: int) -> list[dict[str, Any]]:
    name = f"transformers:{folder}"
    bare = bare_rate(folder, device, batch_size, n)
    rows = [{"batch": batch_size, "what": "bare model", "pictures per second": round(bare, 1)}]
    backend = image_backend(name, device)
    files = photos(min(n, 256))
    files = (files * -(-n // len(files)))[:n]
    images = [Image.open(io.BytesIO(file)).resize((224, 224)) for file in files[:256]]
    images = (images * -(-n // len(images)))[:n]
    batch = np.stack([backend.prepare(image) for image in images[:batch_size]])

    def encode() -> None:
        for _ in range(n // batch_size):
            backend.encode(batch)

    encoder = ImageEncoder(name, device=device, batch_size=batch_size, n_jobs=-1)
    for what, work in {
        "backend, prepared batches in memory": encode,
        "ImageEncoder, decoded pictures of 224 pixels": lambda: encoder.transform(images),
        f"ImageEncoder, JPEG of {FILE_SHAPE[1]} x {FILE_SHAPE[0]}": lambda: encoder.transform(
            files
        ),
    }.items():
        rows.append(
            {"batch": batch_size, "what": what, "pictures per second": round(rate(work, n), 1)}
        )
    return [{**row, "share": round(row["pictures per second"] / bare, 3)} for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a tiny model, on the CPU")
    small = parser.parse_args().small
    if not small and not torch.cuda.is_available():
        print("No CUDA device: benchmarks/results/gpu_encoders.md is unchanged.")
        return
    device = "cpu" if small else "cuda"
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        save_model(Path(folder), small)
        for batch_size in (8,) if small else (32, 128, 256):
            rows += measured(Path(folder), device, batch_size, 32 if small else 4096)
    show("Pictures per second, ViT-B/16 in float32", rows)
    save("gpu_encoders", {"rows": rows, "torch": torch.__version__})
    if not small:
        gpu = torch.cuda.get_device_name()
        save_page(
            "gpu_encoders",
            f"Pictures per second of a vision model on {gpu}",
            "python benchmarks/gpu_encoders.py",
            {"": rows},
            machine=f"{gpu}, torch {torch.__version__}, transformers {transformers.__version__}",
            below=f"\nViT-B/16 with random weights, float32; {os.cpu_count()} threads decode.\n",
        )


if __name__ == "__main__":
    main()
