"""Draw the pictures of the emoji data set into one file, for networks that are trained on them.

    pip install pillow==13.0.0 resvg_py==0.5.0
    python tools/build_emoji_pictures.py

This downloads the pinned packages with npm and writes emoji-pictures/pictures.npz to the folder of
data sets, where `zonkey bench end-to-end` finds it. Two of the five styles are drawings of 64 x 64
pixels, so all are drawn in this size. Takes half a minute; the file has 20 MB.
"""

from __future__ import annotations

import argparse
import hashlib
import io
from pathlib import Path

import numpy as np

from emoji_sources import STYLES, draw_all
from zonkey_lab.datasets.fetch import data_folder
from zonkey_lab.datasets.registry import PLACED

SIDE = 64


def build(cache: Path) -> bytes:
    """Return the content of the file."""
    pictures, classes = draw_all(cache, SIDE)
    names = np.repeat([emoji.name for emoji in classes], len(STYLES))
    styles = np.tile([*STYLES], len(classes))
    buffer = io.BytesIO()
    np.savez_compressed(buffer, pictures=pictures, names=names, styles=styles)
    return buffer.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "zonkey-emoji")
    parser.add_argument("--folder", type=Path, help="of all data sets; default as `zonkey data`")
    given, placed = parser.parse_args(), PLACED["emoji-pictures"]
    content = build(given.cache)
    target = data_folder(given.folder) / placed.members / placed.required[0]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    print(f"{target}: {len(content) / 1e6:.1f} MB, sha256 {digest}")


if __name__ == "__main__":
    main()
