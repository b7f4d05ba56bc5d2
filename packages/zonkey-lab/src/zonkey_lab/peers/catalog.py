"""The list of all systems: what each is, and where it comes from, as its docstring says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from inspect import getdoc
from typing import Any

from zonkey.anyshot.classifier import AnyShotClassifier
from zonkey.bpl.few_shot import FewShotClassifier
from zonkey.bpl.nearest_support import NearestSupport
from zonkey.bpl.zero_shot import ZeroShotClassifier

from . import fsl, zsl

_PAPER = (
    "Z. Lu, J. Guan, A. Li, T. Xiang, A. Zhao, J.-R. Wen. Zero and few shot learning with semantic "
    "feature synthesis and competitive learning. TPAMI 2020."
)
_OWN = "This project."
_AUTHOR = re.compile(r"(?:[A-Z][\w-]*\.[- ]*)+([^,.]+)")
_YEAR = re.compile(r"\b(?:19|20)\d\d\b(?!\.\d)")  # no number of a preprint


@dataclass(frozen=True)
class MethodInfo:
    """A classifier for classes with few samples or none.

    `list_methods` makes these.

    Parameters
    ----------
    name : str
        Name of the class.
    module : str
        Where to import it from.
    setting : str
        "zero-shot", "few-shot" or "any shot"; "transductive" is added if it learns from unlabeled
        test samples.
    extra : str
        Extra that it needs, "" if it needs none.
    summary : str
        What it does, in one line.
    reference : str
        Publication.

    See Also
    --------
    list_methods : All of them.

    Examples
    --------
    >>> from zonkey_lab.peers import list_methods
    >>> print(list_methods()[0].name)
    AnyShotClassifier
    """

    name: str
    module: str
    setting: str
    extra: str
    summary: str
    reference: str

    @property
    def cited(self) -> str:
        """First author and year."""
        author, year = _AUTHOR.match(self.reference), _YEAR.search(self.reference)
        return f"{author[1]} {year[0]}" if author and year else ""


def list_methods() -> list[MethodInfo]:
    """Return all classifiers: the library's own first, then the peers.

    Returns
    -------
    list of MethodInfo
        Name, module, setting, extra, summary and reference of each.

    Examples
    --------
    >>> from zonkey_lab.peers import list_methods
    >>> sae = next(info for info in list_methods() if info.name == "SAE")
    >>> sae.setting, sae.extra, sae.cited
    ('zero-shot', '', 'Kodirov 2017')
    """
    own = [
        _info(AnyShotClassifier, "zonkey", "any shot", _OWN),
        _info(ZeroShotClassifier, "zonkey", "zero-shot", _PAPER),
        _info(FewShotClassifier, "zonkey", "few-shot", _PAPER),
        _info(NearestSupport, "zonkey", "few-shot", _OWN),
    ]
    return own + [
        _info(getattr(package, name), package.__name__, setting)
        for package, setting in ((zsl, "zero-shot"), (fsl, "few-shot"))
        for name in sorted(package.__all__, key=str.casefold)
        if hasattr(getattr(package, name), "fit")
    ]


def _info(kind: type[Any], module: str, setting: str, reference: str = "") -> MethodInfo:
    text = getdoc(kind) or ""
    is_transductive = getattr(kind, "is_transductive", False)
    return MethodInfo(
        name=kind.__name__,
        module=module,
        setting=f"{setting}, transductive" if is_transductive else setting,
        extra="torch" if getattr(kind, "uses_torch", False) else "",
        summary=text.partition("\n")[0].removesuffix("."),
        reference=reference or _first_reference(text),
    )


def _first_reference(text: str) -> str:
    _, _, after = text.partition("References\n----------\n")
    return " ".join(after.partition("\n\n")[0].split())
