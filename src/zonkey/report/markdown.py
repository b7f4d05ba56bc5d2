"""A report as Markdown: tables and text, the same for the same results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .blocks import Block, Code, Drawing, Report, Table, Text

# What would start an element of Markdown or HTML inside a cell or a paragraph.
_SPECIAL = str.maketrans({sign: f"\\{sign}" for sign in "\\`*_<>|#"})


def markdown_text(report: Report) -> str:
    """Return the report without figures, and without what changes from run to run."""
    return "\n\n".join(_chunks(report)) + "\n"


def _chunks(report: Report) -> Iterator[str]:
    yield f"# {_plain(report.title)}"
    for section in report.sections:
        yield f"## {_plain(section.title)}"
        if section.note:
            yield _plain(section.note)
        for part in section.parts:
            yield f"### {_plain(part.title)}"
            yield from (text for text in map(_block, part.blocks) if text)


def _block(block: Block) -> str:
    match block:
        case Text():
            return _plain(block.text)
        case Code():
            return f"```\n{block.text}\n```"
        case Table():
            return "" if block.changes_by_run else _table(block)
        case Drawing():
            return ""


def _table(table: Table) -> str:
    marks = ["---:" if i in table.numbers else "---" for i in range(len(table.headings))]
    lines = [_line(table.headings), f"| {' | '.join(marks)} |", *map(_line, table.rows)]
    caption = [f"{_plain(table.caption)}:", ""] if table.caption else []
    return "\n".join([*caption, *lines])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_plain(cell) for cell in cells)} |"


def _plain(text: str) -> str:
    """Return text that shows as it was given, in one line; a bracket is escaped in a link only."""
    return " ".join(text.translate(_SPECIAL).replace("](", "]\\(").split())
