"""What a report is made of, before it becomes Markdown or HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Text:
    """A paragraph.

    Attributes
    ----------
    text : str
    is_dim : bool
        Whether it is small print.
    """

    text: str
    is_dim: bool = False


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
    rows : sequence of sequences of str
    caption : str
    numbers : range
        Columns that hold numbers.
    changes_by_run : bool
        Whether it holds times and the like, which no two runs share. Left out of Markdown.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    numbers: range = range(0)
    changes_by_run: bool = False


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
