"""Train the simple CNN of few-shot benchmarks on the emoji base classes, and keep its features.

    pip install --group emoji     # see pyproject.toml
    python tools/build_simple_cnn.py --device cuda

Four blocks of 64 convolutions of 3 x 3 pixels, batch normalization, ReLU and pooling (Snell et
al. 2017), trained from scratch to tell the base classes apart, without validation and unseen
classes. The pictures have 48 x 48 pixels, so there are 576 features; their 128 leading principal
components on the training pictures are written to src/zonkey/datasets/data/emoji-cnn.npz. Minutes
on a GPU, an hour on two cores. Rounding, and so the features, differ a little between devices.
"""

from __future__ import annotations

import argparse
import io
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

DATA = Path(__file__).parents[1] / "packages" / "zonkey" / "src" / "zonkey" / "files" / "data"
SIDE, CHANNELS, N_COMPONENTS = 48, 64, 128
EPOCHS, BATCH, RATE, SHIFT = 80, 128, 1e-3, 5
SEED = 0


def pictures(cache: Path) -> np.ndarray:
    """Return all pictures (n x SIDE x SIDE x 3, uint8), drawn once and kept in the cache."""
    file = cache / "pictures.npz"
    if not file.exists():
        from emoji_sources import draw_all

        np.savez_compressed(file, pictures=draw_all(cache, SIDE)[0])
    return np.load(file)["pictures"]


def network(n_classes: int) -> nn.Sequential:
    """Return the blocks, followed by a linear layer over the classes."""
    blocks = []
    for i in range(4):
        convolution = nn.Conv2d(CHANNELS if i else 3, CHANNELS, 3, padding=1)
        blocks += [convolution, nn.BatchNorm2d(CHANNELS), nn.ReLU(), nn.MaxPool2d(2)]
    n_features = CHANNELS * (SIDE // 16) ** 2
    return nn.Sequential(nn.Sequential(*blocks, nn.Flatten()), nn.Linear(n_features, n_classes))


def shifted(X: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return pictures shifted by a few pixels, half of the batches mirrored."""
    top, left, mirror = torch.randint(2 * SHIFT + 1, (3,), generator=generator).tolist()
    X = nn.functional.pad(X, (SHIFT,) * 4, mode="replicate")
    X = X[:, :, top : top + SIDE, left : left + SIDE]
    return X.flip(3) if mirror % 2 else X


def trained(X: torch.Tensor, y: torch.Tensor) -> nn.Sequential:
    """Return the network trained on pictures and class numbers."""
    torch.manual_seed(SEED)
    generator = torch.Generator().manual_seed(SEED)
    model = network(int(y.max()) + 1).to(X.device)
    n_steps = EPOCHS * (len(X) // BATCH)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, n_steps)
    for epoch in range(EPOCHS):
        total, order = 0.0, torch.randperm(len(X), generator=generator).to(X.device)
        for start in range(0, len(X) - BATCH + 1, BATCH):
            rows = order[start : start + BATCH]
            found = model(shifted(X[rows], generator))
            loss = nn.functional.cross_entropy(found, y[rows], label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += float(loss.detach()) * BATCH
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1}: loss {total / len(X):.3f}", flush=True)
    return model.eval()


def features(model: nn.Sequential, X: torch.Tensor) -> np.ndarray:
    """Return the output of the blocks."""
    with torch.no_grad():
        parts = [model[0](X[i : i + 512]).cpu().numpy() for i in range(0, len(X), 512)]
    return np.concatenate(parts).astype(np.float64)


def reduced(Z: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the leading principal components of these rows, of all rows."""
    center = Z[rows].mean(axis=0)
    _, vectors = np.linalg.eigh(np.cov(Z[rows].T))
    axes = vectors[:, ::-1][:, :N_COMPONENTS]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(N_COMPONENTS)])
    return (Z - center) @ axes


def build(cache: Path, device: str) -> dict[str, Any]:
    """Return the arrays of the file."""
    known = np.load(DATA / "emoji.npz")
    codes, is_base = known["labels"].astype(int), ~(known["unseen"] | known["val"])
    rows = np.flatnonzero(is_base[codes])
    numbers = np.cumsum(is_base) - 1
    X = torch.as_tensor(pictures(cache), device=device).permute(0, 3, 1, 2).float() / 127.5 - 1
    y = torch.as_tensor(numbers[codes[rows]], device=device)
    model = trained(X[torch.as_tensor(rows, device=device)], y)
    Z = reduced(features(model, X), rows)
    about = f"four convolutional blocks, {EPOCHS} epochs, torch {torch.__version__}, {device}"
    return {"features": Z.astype(np.float16), "about": np.array(about)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "zonkey-emoji")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--output", type=Path, default=DATA / "emoji-cnn.npz")
    given = parser.parse_args()
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **build(given.cache, given.device))
    given.output.write_bytes(buffer.getvalue())
    print(f"{given.output}: {len(buffer.getvalue()) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
