"""Self-contained HTML pages from templates: pictures are inside, no network is needed."""

from __future__ import annotations

import base64
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from ..persistence.container import write_whole

_SHARED = "zonkey.display"


def render(package: str, template: str, **content: Any) -> str:
    """Return a page: a template of a package filled with content, which is escaped.

    Templates of the package may extend and import those of this one.
    """
    return _templates(package).get_template(template).render(content)


@cache
def _templates(package: str) -> Environment:
    return Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in dict.fromkeys((package, _SHARED))]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )


def write_page(path: Path, html: str) -> Path:
    """Write a page; the file is complete or absent."""
    write_whole(path, html.encode("utf-8", "replace"))  # names of classes may hold anything
    return path


def data_address(kind: str, data: bytes) -> str:
    """Return an address that contains the data."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
