"""Renew the help texts in docs/cli.md, or say that they are stale.

    python tools/cli_docs.py [--check]

The page has a block for every command, between `<!-- help: COMMAND -->` and `<!-- end -->`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main
from typer.testing import CliRunner

from zonkey.cli import app

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
BLOCK = re.compile(r"<!-- help: (.*?) -->\n(.*?)<!-- end -->", re.S)
_WIDTH = "80"  # columns of the terminal


def commands(command: Any = None, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield every command as "zonkey classes add", groups before what they hold."""
    command = typer.main.get_command(app) if command is None else command
    yield " ".join(("zonkey", *words)), command
    for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
        yield from commands(command.get_command(None, name), (*words, name))


def help_text(name: str) -> str:
    """Return what `NAME --help` prints on a terminal of fixed width, without colors."""
    words = name.split()[1:]
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = _WIDTH  # read when the text is formatted
    try:
        done = CliRunner().invoke(app, [*words, "--help"], prog_name="zonkey", color=False)
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    return done.stdout


def block(name: str) -> str:
    """Return the block of a command."""
    return f"<!-- help: {name} -->\n```\n{help_text(name)}```\n<!-- end -->"


def renewed(page: str) -> str:
    """Return a page with the help texts of today."""
    return BLOCK.sub(lambda found: block(found[1]), page)


def main() -> int:
    page = PAGE.read_text("utf-8")
    missing = {name for name, _ in commands()} - {name for name, _ in BLOCK.findall(page)}
    for name in sorted(missing):
        print(f"{PAGE.name} has no block for `{name}`. Add one: <!-- help: {name} -->")
    if "--check" in sys.argv[1:]:
        stale = renewed(page) != page
        if stale:
            print(f"{PAGE.name} is stale. Run python tools/cli_docs.py.")
        return int(stale or bool(missing))
    PAGE.write_text(renewed(page), "utf-8")
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main())
