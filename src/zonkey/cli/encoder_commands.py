"""`zonkey encoders`: list the encoders of pictures and texts."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from .options import JSON


def encoders(as_json: Annotated[bool, JSON] = False) -> None:
    """List the encoders of pictures and texts.

    Any other model is named by its backend: onnx:PATH, transformers:NAME_OR_PATH or
    sentence-transformers:NAME_OR_PATH.
    """
    from ..encoders.registry import list_encoders

    infos = list_encoders()
    if as_json:
        typer.echo(json.dumps([asdict(info) for info in infos]))
        return
    # Not a table that wraps: users copy the names.
    encodes = {"image": "pictures", "text": "texts", "joint": "both"}
    typer.echo(_line("name", "encodes", "dimension", "size", "license", "extra"))
    for info in infos:
        size = f"{info.megabytes:.0f} MB"
        kind = encodes[info.kind]
        typer.echo(_line(info.name, kind, info.dimension, size, info.license, info.extra))
    embedded = ", ".join(info.name for info in infos if info.embedded)
    typer.echo(f"Part of the package: {embedded}. Others need a download.")
    typer.echo("By path or name: onnx:..., transformers:..., sentence-transformers:...")
    typer.echo('An extra is installed by: pip install "zonkey[EXTRA]"')


def _line(name: str, kind: str, dimension: object, size: str, license: str, extra: str) -> str:
    return f"{name:<19}{kind:<9}{dimension:>9}  {size:>6}  {license:<12}{extra}"
