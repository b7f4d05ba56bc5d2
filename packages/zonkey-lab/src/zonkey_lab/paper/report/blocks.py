"""The parts of a report, and their rendering as Markdown and HTML."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from zonkey.display.drawing import file_bytes
from zonkey.display.pages import data_address, render, write_page
from zonkey.persistence.container import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Rounded:
    """Text whose figures have fewer digits in Markdown than on the page.

    The last digits of a bootstrap interval depend on the random numbers, and Markdown should be
    the same on every machine.
    """

    page: str
    markdown: str


Cell = str | Rounded
_PAGE_DIGITS, _MARKDOWN_DIGITS = 2, 1


def round_text(write: Callable[[int], str]) -> Rounded:
    """Return text for page and Markdown from a function of the number of digits."""
    return Rounded(write(_PAGE_DIGITS), write(_MARKDOWN_DIGITS))


@dataclass(frozen=True)
class Text:
    """A paragraph; small print if `is_dim`, framed if `is_banner`."""

    kind: ClassVar = "text"
    text: str
    is_dim: bool = False
    is_banner: bool = False


@dataclass(frozen=True)
class Code:
    """Lines to copy."""

    kind: ClassVar = "code"
    text: str


@dataclass(frozen=True)
class TableBlock:
    """A table of plain text; `numbers` are the columns of numbers.

    A table that `is_page_only` is replaced by `in_markdown` in Markdown: it holds times, which
    differ between runs, or is too long. The page hides a table that `is_folded` behind its caption.
    """

    kind: ClassVar = "table"
    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""
    numbers: Collection[int] = ()
    is_page_only: bool = False
    in_markdown: str = ""
    is_folded: bool = False


@dataclass(frozen=True)
class Drawing:
    """A figure that is drawn on demand; `name` is that of its files, without an ending."""

    kind: ClassVar = "drawing"
    name: str
    caption: str
    draw: Callable[[], Figure]


Block = Text | Code | TableBlock | Drawing


@dataclass(frozen=True)
class Part:
    """Blocks under a heading."""

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Section:
    """An experiment on every data set, with a note below the title."""

    title: str
    parts: Sequence[Part]
    note: str = ""


@dataclass(frozen=True)
class Document:
    """A title and sections."""

    title: str
    sections: Sequence[Section]

    def drawings(self) -> Iterator[Drawing]:
        """Yield every figure."""
        for section in self.sections:
            for part in section.parts:
                yield from (block for block in part.blocks if isinstance(block, Drawing))


def write_report(report: Document, folder: Path) -> Path:
    """Write index.html, tables.md and figures/*.png, *.svg into a folder; return the page."""
    pictures = {drawing.name: file_bytes(drawing.draw()) for drawing in report.drawings()}
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    for name, files in pictures.items():
        for ending, content in files.items():
            write_whole(folder / "figures" / f"{name}.{ending}", content)
    write_whole(folder / "tables.md", markdown_text(report).encode("utf-8", "replace"))
    pngs = {name: files["png"] for name, files in pictures.items()}
    return write_page(folder / "index.html", html_text(report, pngs))


def html_text(report: Document, pictures: dict[str, bytes]) -> str:
    """Return the page, given its pictures (PNG) by name of the drawing."""
    addresses = {name: data_address("image/png", png) for name, png in pictures.items()}
    headings = [section.title for section in report.sections]
    content = {"report": report, "headings": headings, "pictures": addresses}
    return render("zonkey_lab.paper", "report.html", **content)


# Characters that would start an element of Markdown or HTML inside a cell or a paragraph.
_SPECIAL = str.maketrans({sign: f"\\{sign}" for sign in "\\`*_<>|#&~$[]"})
# Characters that would start a list or a rule at the beginning of a paragraph.
_LIST = re.compile(r"^(\d*)([-+=.)])(?=\s|[-=]|$)")


def markdown_text(report: Document) -> str:
    """Return the report as Markdown, without figures and without what differs between runs."""
    return "\n\n".join(_chunks(report)) + "\n"


def _chunks(report: Document) -> Iterator[str]:
    yield f"# {_escape(report.title)}"
    for section in report.sections:
        yield f"## {_escape(section.title)}"
        if section.note:
            yield _paragraph(section.note)
        for part in section.parts:
            yield f"### {_escape(part.title)}"
            yield from (text for text in map(_block, part.blocks) if text)


def _block(block: Block) -> str:
    match block:
        case Text():
            text = _paragraph(block.text)
            return f"**{text}**" if block.is_banner else text
        case Code():
            return f"```\n{block.text}\n```"
        case TableBlock():
            return _paragraph(block.in_markdown) if block.is_page_only else _table(block)
        case Drawing():
            return ""


def _table(table: TableBlock) -> str:
    marks = ["---:" if i in table.numbers else "---" for i in range(len(table.headings))]
    lines = [_line(table.headings), f"| {' | '.join(marks)} |", *map(_line, table.rows)]
    caption = [f"{_paragraph(table.caption)}:", ""] if table.caption else []
    return "\n".join([*caption, *lines])


def _line(cells: Sequence[Cell]) -> str:
    texts = (cell.markdown if isinstance(cell, Rounded) else cell for cell in cells)
    return f"| {' | '.join(map(_escape, texts))} |"


def _paragraph(text: str) -> str:
    """Return escaped text that does not start a list or a line."""
    return _LIST.sub(r"\1\\\2", _escape(text))


def _escape(text: str) -> str:
    """Return text that is shown as given, in one line."""
    return " ".join(text.translate(_SPECIAL).split())
