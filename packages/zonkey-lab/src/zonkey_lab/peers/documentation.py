"""Docstrings of the peers: base classes document what all peers share, once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from inspect import cleandoc, signature
from textwrap import fill, indent
from typing import Any

_SECTION = r"(?<=^{title}\n----------\n)(?:\S[^\n]*\n(?: +[^\n]*\n)*)+"
_ENTRY = re.compile(r"^([^\s,:]+)[^\n]*\n(?: +[^\n]*\n)*", re.MULTILINE)
_OF_TRAINING = ("max_iter", "n_iter_no_change", "batch_size", "learning_rate")


def inherit_documentation(kind: type, bases: Iterable[type]) -> None:
    """Add what bases document to the sections Parameters and Attributes of a class.

    Parameters come in the order of the constructor. Attributes of the class itself come before
    those of its bases. The entry of the nearest class counts. That of `training` begins with the
    values of `_own`, if the class has it.
    """
    if not kind.__doc__:  # none with python -OO
        return
    text = cleandoc(kind.__doc__) + "\n"
    for title in ("Parameters", "Attributes"):
        found: dict[str, str] = {}
        for base in bases:
            found = {**found, **{k: v for k, v in _entries_of(base, title) if k not in found}}
        order = signature(kind).parameters
        if title == "Parameters":
            found = {name: found[name] for name in order if name in found}
            if "_own" in vars(kind):
                found["training"] = _describe_training(vars(vars(kind)["_own"]), found["training"])
        section = re.search(_SECTION.format(title=title), text, re.MULTILINE)
        if section:
            text = text[: section.start()] + "".join(found.values()) + text[section.end() :]
    kind.__doc__ = text


def _describe_training(own: Mapping[str, Any], entry: str) -> str:
    """Say what "auto" means, before what a docstring says of the training."""
    head, _, remark = entry.partition("\n")
    *first, last = (f"`{name}` is {own[name]}" for name in _OF_TRAINING)
    usual = f'How it is trained. Where it says "auto": {", ".join(first)} and {last}.'
    text = f"{usual} {' '.join(remark.split())}".strip()
    return f"{head}\n{indent(fill(text, 92, break_on_hyphens=False), '    ')}\n"


def _entries_of(kind: type, title: str) -> list[tuple[str, str]]:
    """Return the entries of a section by their first name."""
    text = cleandoc(kind.__doc__ or "") + "\n"
    section = re.search(_SECTION.format(title=title), text, re.MULTILINE)
    return [(entry[1], entry[0]) for entry in _ENTRY.finditer(section[0])] if section else []
