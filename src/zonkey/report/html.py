"""Self-contained HTML: one file with its pictures inside, which opens without a network."""

from __future__ import annotations

import base64
import io
from collections.abc import Collection, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.storage import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Colors that keep their order in gray and for color-blind readers.
_STYLE = """
:root { --ink: #1b1f24; --dim: #57606a; --line: #d0d7de; --paper: #fff; --shade: #f6f8fa;
        --good: #0b6e4f; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --dim: #9aa4ae; --line: #3a424c; --paper: #0f1318; --shade: #181d24;
          --good: #5fd0a5; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
       font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
nav { position: sticky; top: 0; background: var(--paper); border-bottom: 1px solid var(--line);
      padding: .5rem 1rem; display: flex; flex-wrap: wrap; gap: .25rem 1rem; z-index: 1; }
nav a { color: var(--ink); text-decoration: none; font-size: .9rem; }
nav a:hover { text-decoration: underline; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 1rem 0 .5rem; }
h2 { font-size: 1.3rem; margin: 2.5rem 0 .5rem; scroll-margin-top: 3rem; }
p { max-width: 44rem; } .dim { color: var(--dim); font-size: .9rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid var(--line); text-align: left; }
th { background: var(--shade); font-weight: 600; } td.number, th.number { text-align: right; }
figure { margin: 1rem 0; } figure img { max-width: 100%; height: auto; background: #fff; }
figcaption { color: var(--dim); font-size: .9rem; }
code, pre { background: var(--shade); border-radius: 4px; padding: .1rem .3rem; }
pre { padding: .7rem 1rem; overflow-x: auto; }
"""


class Page:
    """A page that is put together section by section.

    Parameters
    ----------
    title : str
    style : str
        CSS rules beside those that every page has.
    """

    def __init__(self, title: str, style: str = "") -> None:
        self.title = title
        self._style = style
        self._sections: list[tuple[str, str]] = []

    def add(self, heading: str, *parts: str) -> Page:
        """Append a section of HTML parts."""
        self._sections.append((heading, "\n".join(parts)))
        return self

    def html(self) -> str:
        """Return the page."""
        links = "".join(
            f'<a href="#s{i}">{escape(heading)}</a>' for i, (heading, _) in self._numbered()
        )
        body = "\n".join(
            f'<section><h2 id="s{i}">{escape(heading)}</h2>\n{content}</section>'
            for i, (heading, content) in self._numbered()
        )
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f'<link rel="icon" href="data:,"><title>{escape(self.title)}</title>\n'
            f"<style>{_STYLE}{self._style}</style></head>\n"
            f"<body><nav>{links}</nav><main><h1>{escape(self.title)}</h1>\n{body}\n"
            "</main></body></html>\n"
        )

    def write(self, path: Path) -> Path:
        """Write the page; the file appears whole or not at all."""
        page = self.html().encode("utf-8", "replace")  # names of files may hold anything
        write_whole(path, page)
        return path

    def _numbered(self) -> list[tuple[int, tuple[str, str]]]:
        return list(enumerate(self._sections))


def paragraph(text: str, *, dim: bool = False) -> str:
    """Return a paragraph of plain text."""
    return f"<p{' class=dim' if dim else ''}>{escape(text)}</p>"


def table_html(
    headings: Sequence[str],
    rows: Sequence[Sequence[Any]],
    numbers_from: int = 1,
    *,
    numbers: Collection[int] | None = None,
) -> str:
    """Return a table of plain text; columns from `numbers_from`, or `numbers`, are set right."""
    if numbers is None:
        numbers = range(numbers_from, len(headings))

    def cells(tag: str, row: Sequence[Any]) -> str:
        return "".join(
            f"<{tag}{' class=number' if i in numbers else ''}>{escape(str(cell))}</{tag}>"
            for i, cell in enumerate(row)
        )

    body = "\n".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    head = f"<thead><tr>{cells('th', headings)}</tr></thead>"
    return f'<div class="scroll"><table>{head}<tbody>\n{body}\n</tbody></table></div>'


def figure_html(figure: Figure, caption: str) -> str:
    """Return a drawing as a picture inside the page; the caption also stands in for it."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    return picture_html(buffer.getvalue(), caption)


def picture_html(png: bytes, caption: str) -> str:
    """Return a PNG inside the page; the caption also stands in for it."""
    text = escape(caption)
    return (
        f'<figure><img alt="{text}" src="{data_address("image/png", png)}">'
        f"<figcaption>{text}</figcaption></figure>"
    )


def data_address(kind: str, data: bytes) -> str:
    """Return an address that holds the data itself."""
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
