"""What a report is made of, before it becomes Markdown or HTML."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Rounded:
    """Text with figures that have fewer digits in Markdown than on the page.

    The last digits of a bootstrap interval hang on the stream of random numbers, and Markdown is
    to be the same whoever makes it.
    """

    page: str
    markdown: str


Cell = str | Rounded
_PAGE_DIGITS, _MARKDOWN_DIGITS = 2, 1


def rounded(write: Callable[[int], str]) -> Rounded:
    """Return text for page and Markdown, given how to write it with so many digits."""
    return Rounded(write(_PAGE_DIGITS), write(_MARKDOWN_DIGITS))


@dataclass(frozen=True)
class Text:
    """A paragraph.

    Attributes
    ----------
    text : str
    is_dim : bool
        Whether it is small print.
    is_banner : bool
        Whether nobody may miss it.
    """

    text: str
    is_dim: bool = False
    is_banner: bool = False


@dataclass(frozen=True)
class Code:
    """Lines to copy."""

    text: str


@dataclass(frozen=True)
class Table:
    """A table of plain text.

    Attributes
    ----------
    headings : sequence of str
    rows : sequence of sequences of str or Rounded
    caption : str
    numbers : collection of int
        Columns that hold numbers.
    is_page_only : bool
        Whether Markdown leaves it out: times, which no two runs share, and what is too long.
    in_markdown : str
        What Markdown says in its place.
    is_folded : bool
        Whether the page shows it only when asked to; the caption is what to click on.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""
    numbers: Collection[int] = ()
    is_page_only: bool = False
    in_markdown: str = ""
    is_folded: bool = False


@dataclass(frozen=True)
class Drawing:
    """A figure that is drawn when it is needed.

    Attributes
    ----------
    name : str
        Of its files, without an ending.
    caption : str
    draw : callable
    """

    name: str
    caption: str
    draw: Callable[[], Figure]


Block = Text | Code | Table | Drawing


@dataclass(frozen=True)
class Part:
    """Blocks under a heading of their own."""

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Section:
    """Parts that belong together: an experiment on each data set.

    Attributes
    ----------
    title : str
    parts : sequence of Part
    note : str
        A line below the title.
    """

    title: str
    parts: Sequence[Part]
    note: str = ""


@dataclass(frozen=True)
class Report:
    """All there is to say about some records."""

    title: str
    sections: Sequence[Section]

    def drawings(self) -> Iterator[Drawing]:
        """Yield every figure."""
        for section in self.sections:
            for part in section.parts:
                yield from (block for block in part.blocks if isinstance(block, Drawing))
