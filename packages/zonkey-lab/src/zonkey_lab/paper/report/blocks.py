"""The parts of a report, and their rendering as Markdown and HTML."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from html import escape
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
_PICTURES = "images"  # folder beside a Markdown file
_N_COLORS, _SHRINK = 32, 0.8  # of its pictures


def join_cells(cells: Sequence[Cell], separator: str) -> Rounded:
    """Return one cell of several."""
    both = [cell if isinstance(cell, Rounded) else Rounded(cell, cell) for cell in cells]
    page, markdown = (
        separator.join(texts)
        for texts in ([each.page for each in both], [each.markdown for each in both])
    )
    return Rounded(page, markdown)


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
    """A table of plain text; `numbers` are the columns of numbers, `remarks` follow it.

    Markdown leaves out a table that `is_page_only`: it holds times, or is too long. The page hides
    a table that `is_folded` behind its caption. A line break in a cell is kept.
    """

    kind: ClassVar = "table"
    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""
    numbers: Collection[int] = ()
    remarks: Sequence[str] = ()
    is_page_only: bool = False
    is_folded: bool = False


@dataclass(frozen=True)
class Drawing:
    """A figure that is drawn on demand; `name` is that of its files, without an ending.

    Markdown shows it if it `is_leading`.
    """

    kind: ClassVar = "drawing"
    name: str
    caption: str
    draw: Callable[[], Figure]
    is_leading: bool = False


Block = Text | Code | TableBlock | Drawing


@dataclass(frozen=True)
class Part:
    """Blocks under a heading, if it has one; behind it if they are folded."""

    title: str
    blocks: Sequence[Block]
    is_folded: bool = False


@dataclass(frozen=True)
class Section:
    """Parts under a heading, with a note below it."""

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
    _write_text(folder / "tables.md", markdown_text(report, "figures/"))
    pngs = {name: files["png"] for name, files in pictures.items()}
    return write_page(folder / "index.html", html_text(report, pngs))


def write_markdown(report: Document, path: Path) -> list[Path]:
    """Write a Markdown file, and its pictures into a folder beside it; return all paths."""
    drawings = [drawing for drawing in report.drawings() if drawing.is_leading]
    start = f"{_PICTURES}/{path.stem}-"
    written = [path.parent / f"{start}{drawing.name}.png" for drawing in drawings]
    if drawings:
        (path.parent / _PICTURES).mkdir(parents=True, exist_ok=True)
    for target, drawing in zip(written, drawings, strict=True):
        write_whole(target, _reduce_colors(file_bytes(drawing.draw(), ("png",))["png"]))
    _write_text(path, markdown_text(report, start))
    return [path, *written]


def _reduce_colors(png: bytes) -> bytes:
    """Return a smaller picture of a chart, which needs few colors."""
    from PIL import Image  # comes with matplotlib

    buffer = io.BytesIO()
    with Image.open(io.BytesIO(png)) as image:
        size = (round(image.width * _SHRINK), round(image.height * _SHRINK))
        small = image.convert("RGB").resize(size, Image.Resampling.LANCZOS)
        small.quantize(_N_COLORS).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def _write_text(path: Path, text: str) -> None:
    write_whole(path, text.encode("utf-8", "replace"))


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


def markdown_text(report: Document, pictures: str = "") -> str:
    """Return the report as Markdown; `pictures` is what precedes the names of picture files."""
    return "\n\n".join(_chunks(report, pictures)) + "\n"


def _chunks(report: Document, pictures: str) -> Iterator[str]:
    yield f"# {_escape(report.title)}"
    for section in report.sections:
        yield f"## {_escape(section.title)}"
        if section.note:
            yield _paragraph(section.note)
        for part in section.parts:
            if part.is_folded:
                yield f"<details><summary>{escape(part.title)}</summary>"
            elif part.title:
                yield f"### {_escape(part.title)}"
            yield from (text for block in part.blocks if (text := _block(block, pictures)))
            if part.is_folded:
                yield "</details>"


def _block(block: Block, pictures: str) -> str:
    match block:
        case Text():
            text = _paragraph(block.text)
            return f"**{text}**" if block.is_banner else text
        case Code():
            return f"```\n{block.text}\n```"
        case TableBlock():
            return "" if block.is_page_only else _table(block)
        case Drawing():
            if not block.is_leading:
                return ""
            return f"![{block.name}]({pictures}{block.name}.png)\n\n{_paragraph(block.caption)}"


def _table(table: TableBlock) -> str:
    marks = ["---:" if i in table.numbers else "---" for i in range(len(table.headings))]
    lines = [_line(table.headings), f"| {' | '.join(marks)} |", *map(_line, table.rows)]
    caption = [f"{_paragraph(table.caption)}:", ""] if table.caption else []
    remarks = [line for remark in table.remarks for line in ("", _paragraph(remark))]
    return "\n".join([*caption, *lines, *remarks])


def _line(cells: Sequence[Cell]) -> str:
    texts = (cell.markdown if isinstance(cell, Rounded) else cell for cell in cells)
    shown = ("<br>".join(map(_escape, text.split("\n"))) for text in texts)
    return f"| {' | '.join(shown)} |"


def _paragraph(text: str) -> str:
    """Return escaped text that does not start a list or a line."""
    return _LIST.sub(r"\1\\\2", _escape(text))


def _escape(text: str) -> str:
    """Return text that is shown as given, in one line."""
    return " ".join(text.translate(_SPECIAL).split())
