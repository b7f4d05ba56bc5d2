"""Refuse likely mistakes in sources and classes: addresses, swapped arguments, separators."""

from __future__ import annotations

import re
from pathlib import Path

from ..encoders.collection import is_pictures
from ..errors import Problem

_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)  # not a drive of Windows
_MODEL_ENDING = ".zonkey"

Given = str | Path | None


def check_sources(**sources: Given) -> None:
    """Refuse addresses: files must be on this machine."""
    for option, given in sources.items():
        if given is not None and _ADDRESS.match(str(given)):
            raise Problem(
                f"`{option}`",
                "must be on this machine",
                "got the address of a file elsewhere",
                "Download it first, and pass its path.",
                option=option,
            )


def check_samples(model: str | Path, source: str | Path) -> None:
    """Refuse a source that is a model file: the arguments are swapped."""
    check_sources(model=model, source=source)
    if Path(source).suffix == _MODEL_ENDING:
        swapped = Path(model).suffix != _MODEL_ENDING
        raise Problem(
            "`source`",
            "must be pictures or features",
            f"{source} is a model file",
            "Swap `model` and `source`." if swapped else "Pass samples.",
            option=("source", "model"),
        )


def check_classes(source: Given, classes: Given, *, may_be_names: bool = False) -> None:
    """Refuse classes that are pictures, and names without commas between them."""
    check_sources(source=source, classes=classes)
    if classes is None:
        return
    text = str(classes)
    both = ("source", "classes")
    if is_pictures(classes):
        remedy = "Pass a file of names."
        if source is not None and not is_pictures(source):
            remedy = "Swap `source` and `classes`."
        rule = "must be names or descriptions of classes"
        raise Problem("`classes`", rule, f"{text} holds pictures", remedy, option=both)
    if Path(text).suffix or _exists(classes):
        return
    if may_be_names:
        if ";" in text:
            rule, remedy = "must have commas between names", 'Write, for example, "cat, dog".'
            raise Problem("`classes`", rule, f"got {text!r}", remedy, option="classes")
    elif "," in text or ";" in text:
        remedy = "Write the names to a text file, one in each line, and pass it."
        raise Problem("`classes`", "must be a file", f"got {text!r}", remedy, option="classes")


def _exists(path: str | Path) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # names may be too long for a path
        return False
