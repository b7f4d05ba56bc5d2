"""How the functions of this package report progress: by calls, never by printing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ..encoders.pictures import PictureError
from ..encoders.stream import PictureStream, TextStream
from ..files.streams import Block
from ..labels import warn_user
from .sources import Stream


@dataclass(frozen=True)
class Step:
    """What is being done, and how much of it is done.

    A function tells each step when it begins, and then as it goes on.

    Parameters
    ----------
    doing : str
        The step, such as "Predicting".
    rows : int or None
        Samples so far; None if nothing is counted.
    done, total : float or None
        How much of what is read is done: bytes, rows or pictures. None if that is unknown.
    resumed : str
        Where an interrupted fit resumes, such as "with pass 2"; empty if it does not.
    note : str
        What users should know, such as which column is used; empty if nothing.

    See Also
    --------
    fit : Calls `progress` with steps, as the other functions do.

    Examples
    --------
    >>> from zonkey.app import Step
    >>> step = Step("Predicting", rows=10, done=10, total=40)
    >>> print(f"{step.doing}: {step.done / step.total:.0%}")
    Predicting: 25%
    """

    doing: str
    rows: int | None = None
    done: float | None = None
    total: float | None = None
    resumed: str = ""
    note: str = ""


Progress = Callable[[Step], object]


def ignore(_: Step) -> None:
    """Report nothing."""


def watch_blocks(stream: Stream, doing: str, progress: Progress) -> Iterator[Block]:
    """Yield the blocks of a source, and report how far it is read."""
    rows, note = 0, ""
    if isinstance(stream, TextStream) and stream.items.is_table:
        note = f"Texts: column {stream.items.column!r} of {stream.items.source}."
    with _report_encoding(stream):
        progress(Step(doing, rows, 0, stream.total, note=note))
        for block in stream:
            yield block  # first used, then done
            rows += len(block.X)
            progress(Step(doing, rows, stream.done, stream.total))


@contextmanager
def _report_encoding(stream: Stream) -> Iterator[None]:
    """Report pictures and texts that were skipped or split, and what is kept if interrupted."""
    if not isinstance(stream, PictureStream | TextStream):
        yield
        return
    try:
        yield
    except PictureError as error:
        raise PictureError(f"{error} Or pass `on_error` skip.", option="on_error") from None
    except KeyboardInterrupt:
        if not stream.encoder.cache:
            raise
        raise KeyboardInterrupt(
            "features so far are kept in the cache; run the same command again"
        ) from None
    if stream.skipped:
        n = len(stream.skipped)
        rule = "Pictures should be readable"
        if isinstance(stream, TextStream):
            rule = "Texts should not be blank"
        are, were = ("is", "was") if n == 1 else ("are", "were")
        nots = "" if isinstance(stream, TextStream) else " not"
        warn_user(
            f"{rule}; {n} of {stream.total} {are}{nots} and {were} skipped. The first: "
            f"{stream.skipped[0]}"
        )
    if isinstance(stream, TextStream):
        stream.encoder.tell_split(stream.n_split, stream.total)
