"""A report as Markdown: tables and text, the same for the same results."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .blocks import Block, Cell, Code, Drawing, Report, Rounded, Table, Text

# What would start an element of Markdown or HTML inside a cell or a paragraph.
_SPECIAL = str.maketrans({sign: f"\\{sign}" for sign in "\\`*_<>|#&~$[]"})
# What would start a list or a line at the beginning of a paragraph.
_LIST = re.compile(r"^(\d*)([-+=.)])(?=\s|[-=]|$)")


def markdown_text(report: Report) -> str:
    """Return the report without figures, and without what changes from run to run."""
    return "\n\n".join(_chunks(report)) + "\n"


def _chunks(report: Report) -> Iterator[str]:
    yield f"# {_plain(report.title)}"
    for section in report.sections:
        yield f"## {_plain(section.title)}"
        if section.note:
            yield _paragraph(section.note)
        for part in section.parts:
            yield f"### {_plain(part.title)}"
            yield from (text for text in map(_block, part.blocks) if text)


def _block(block: Block) -> str:
    match block:
        case Text():
            text = _paragraph(block.text)
            return f"**{text}**" if block.is_banner else text
        case Code():
            return f"```\n{block.text}\n```"
        case Table():
            return _paragraph(block.in_markdown) if block.is_page_only else _table(block)
        case Drawing():
            return ""


def _table(table: Table) -> str:
    marks = ["---:" if i in table.numbers else "---" for i in range(len(table.headings))]
    lines = [_line(table.headings), f"| {' | '.join(marks)} |", *map(_line, table.rows)]
    caption = [f"{_paragraph(table.caption)}:", ""] if table.caption else []
    return "\n".join([*caption, *lines])


def _line(cells: Sequence[Cell]) -> str:
    texts = (cell.markdown if isinstance(cell, Rounded) else cell for cell in cells)
    return f"| {' | '.join(map(_plain, texts))} |"


def _paragraph(text: str) -> str:
    """Return plain text which does not begin as a list or a line does."""
    return _LIST.sub(r"\1\\\2", _plain(text))


def _plain(text: str) -> str:
    """Return text that shows as it was given, in one line."""
    return " ".join(text.translate(_SPECIAL).split())
