"""Docstrings of the peers: base classes document what all peers share, once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from inspect import cleandoc, signature

_SECTION = r"(?<=^{title}\n----------\n)(?:\S[^\n]*\n(?: +[^\n]*\n)*)+"
_ENTRY = re.compile(r"^([^\s,:]+)[^\n]*\n(?: +[^\n]*\n)*", re.MULTILINE)


def inherit_documentation(kind: type, bases: Iterable[type]) -> None:
    """Add what bases document to the sections Parameters and Attributes of a class.

    Parameters come in the order of the constructor. Attributes of the class itself come before
    those of its bases. The entry of the nearest class counts.
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
        section = re.search(_SECTION.format(title=title), text, re.MULTILINE)
        if section:
            text = text[: section.start()] + "".join(found.values()) + text[section.end() :]
    kind.__doc__ = text


def _entries_of(kind: type, title: str) -> list[tuple[str, str]]:
    """Return the entries of a section by their first name."""
    text = cleandoc(kind.__doc__ or "") + "\n"
    section = re.search(_SECTION.format(title=title), text, re.MULTILINE)
    return [(entry[1], entry[0]) for entry in _ENTRY.finditer(section[0])] if section else []
