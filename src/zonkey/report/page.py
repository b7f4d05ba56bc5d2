"""A report as one HTML page, with its figures inside and, for reuse, beside it."""

from __future__ import annotations

from html import escape
from pathlib import Path

from ..core.storage import write_whole
from .blocks import Block, Cell, Code, Drawing, Report, Rounded, Table, Text
from .drawing import file_bytes
from .html import Page, paragraph, picture_html, table_html
from .markdown import markdown_text

_STYLE = """
h3 { font-size: 1.1rem; margin: 1.8rem 0 .4rem; scroll-margin-top: 3rem; }
h4 { font-size: .95rem; font-weight: 600; margin: 1.2rem 0 .3rem; max-width: 50rem; }
td { vertical-align: top; } table { font-size: .9rem; }
.banner { border: 2px solid currentColor; padding: .5rem .8rem; font-weight: 600; }
details { margin: 1rem 0; } summary { cursor: pointer; font-size: .95rem; font-weight: 600; }
"""


def write_report(report: Report, folder: Path) -> Path:
    """Write page, figures and tables into a folder; each file appears whole or not at all.

    Returns
    -------
    Path
        Of the page: index.html. Beside it lie figures/*.png, figures/*.svg and tables.md.
    """
    pictures = {drawing.name: file_bytes(drawing.draw()) for drawing in report.drawings()}
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    for name, files in pictures.items():
        for ending, content in files.items():
            write_whole(folder / "figures" / f"{name}.{ending}", content)
    write_whole(folder / "tables.md", markdown_text(report).encode("utf-8", "replace"))
    pngs = {name: files["png"] for name, files in pictures.items()}
    return report_page(report, pngs).write(folder / "index.html")


def report_page(report: Report, pictures: dict[str, bytes]) -> Page:
    """Return the page, given its pictures by name of the drawing."""
    page = Page(report.title, _STYLE)
    for section in report.sections:
        parts = [paragraph(section.note, dim=True)] if section.note else []
        for part in section.parts:
            parts.append(f"<h3>{escape(part.title)}</h3>")
            parts += [_block(block, pictures) for block in part.blocks]
        page.add(section.title, *parts)
    return page


def _block(block: Block, pictures: dict[str, bytes]) -> str:
    match block:
        case Text():
            if block.is_banner:
                return f"<p class=banner>{escape(block.text)}</p>"
            return paragraph(block.text, dim=block.is_dim)
        case Code():
            return f"<pre>{escape(block.text)}</pre>"
        case Table():
            return _table(block)
        case Drawing():
            return picture_html(pictures[block.name], block.caption)


def _table(block: Table) -> str:
    rows = [[_cell(cell) for cell in row] for row in block.rows]
    table = table_html(block.headings, rows, numbers=block.numbers)
    caption = escape(block.caption)
    if block.is_folded:
        return f"<details><summary>{caption}</summary>{table}</details>"
    return f"<h4>{caption}</h4>{table}" if caption else table


def _cell(cell: Cell) -> str:
    return cell.page if isinstance(cell, Rounded) else cell
