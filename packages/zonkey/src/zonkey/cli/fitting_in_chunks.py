"""`zonkey fit --chunks`: fit a model to features that are larger than memory.

Features are read in chunks, a few times. A folder beside the output keeps the state, so that the
same command goes on after an interruption.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import typer
from rich.console import Console
from rich.progress import (
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from ..encoders.collection import is_pictures
from ..files.chunks import FileSource
from ..files.dataset import DataError
from ..files.own import missing_prototypes
from ..files.streams import Block, FeatureStream
from ..files.tables import require_one_source
from ..inference.scorer import unwrap
from ..labels import format_value
from ..persistence.container import StorageError
from ..presets import paper, recommended
from ..prototypes import Prototypes
from ..streaming.checkpoint import PassCheckpoint, State
from ..streaming.chunks import Chunks
from ..streaming.sources import Purpose
from .fitting import FitInput, FitSummary, Write
from .progress import show_work

_MODELS: dict[str, Callable[..., Any]] = {"recommended": recommended, "paper": paper}
# Passes of each preset by name, without the number of transforms at its end, and what follows them
_PASSES = {
    "recommended": {
        "survey": "samples and means",
        "scatter": "spread within classes",
        "sums": "class means",
    },
    "paper": {"moments": "sums over classes"},
}
_THEN = {"survey": "Choosing parameters", "moments": "Learning the projection"}


def learn_in_chunks(
    training: FitInput, preset: str, parameters: dict[str, Any], output: Path, write: Write
) -> FitSummary:
    """Fit a model without holding all features in memory, and write it."""
    with show_work("Reading"):
        rows, known = _open_rows(training)
    names = None if rows.columns is None else list(rows.columns)
    unlabeled = None
    if training.unlabeled is not None:
        unlabeled = training.read_unlabeled(names, rows.heading.X.shape[1])
    rows.identity += f", {parameters}"
    with _Passes(rows, preset) as passes, _Kept(output, passes).guard(training.source) as kept:
        chunks = Chunks(rows, progress=passes.advance)
        chunks.checkpoint = kept
        model = _MODELS[preset](known, **parameters)
        model = _fit_model(model, chunks, rows.heading.X, unlabeled, passes.say)
        passes.say("Writing")
        write(model, names)
        kept.finish()
    return FitSummary(passes.n_rows, rows.n_left_out(passes.n_rows), rows.unused)


def _open_rows(training: FitInput) -> tuple[_LabeledRows, Prototypes]:
    """Return the rows to learn from and the classes; what can be wrong is told before reading."""
    source, keys = training.source, training.keys
    if is_pictures(source):
        raise ValueError(
            f"--chunks must be left out for pictures; {format_value(str(source))} holds some. "
            "Encode them with zonkey embed, and fit the file of their features."
        )
    require_one_source(keys["labels"], keys["labels_key"])
    stream = training.encoders.stream(
        source, with_labels=True, label_column=training.label_column, every_label=True, **keys
    )
    assert isinstance(stream, FeatureStream)
    known, columns = training.encoders.prototypes(training.classes, training.label_column)
    return _LabeledRows(stream, known, columns, training.classes.name), known


class _LabeledRows(FileSource):
    """Rows of a file, whose labels are checked when they are read."""

    def __init__(
        self, stream: FeatureStream, known: Prototypes, dimensions: tuple[str, ...], classes: str
    ) -> None:
        super().__init__(stream, None)
        # As in memory: the names are in the training facts, and the model takes arrays.
        self.columns, self.feature_names = self.feature_names, None
        self._known, self._dimensions, self._classes = known.labels, dimensions, classes
        self._has_split = self.heading.split is not None
        self._n_all = self.n_rows
        self.identity += f", {known.fingerprint()}"

    def read(self, first: int, purpose: Purpose = "all") -> Iterator[tuple[Any, Any]]:
        """Yield samples and labels from chunk `first` on."""
        n = 0
        for X, y in super().read(first, purpose):
            n += len(X)
            yield X, y
        self._n_all = self.stream.n_read
        if not first and not n:
            raise DataError(
                f"The column `split` of {self.file} has no row `train` or `val`. Mark the training "
                "samples."
            )

    def is_kept(self, block: Block, before: int) -> np.ndarray:
        """Tell which rows are learned from; all need a label with a prototype."""
        labels = block.labels
        assert labels is not None
        is_known = np.isin(labels, self._known)
        if not is_known.all():
            # Rows before had labels of both files: not all can be wrong.
            classes = np.union1d(labels, self._known[:1]) if before else np.unique(labels)
            files = self.file, self._classes
            problem = missing_prototypes(classes, self._known, *files, self._dimensions)[0]
            raise DataError(f"Row {self.row(before + int(np.argmin(is_known)))}: {problem}")
        return super().is_kept(block, before)

    def n_left_out(self, n_used: int) -> int | None:
        """Return the number of rows that are not learned from, None if nobody counted."""
        if not self._has_split:
            return 0
        return None if self._n_all is None else self._n_all - n_used


class _Kept(PassCheckpoint):
    """The folder beside the output; it stays until the model is written."""

    def __init__(self, output: Path, passes: _Passes) -> None:
        folder = output.with_name(f"{output.name}.progress")
        self._passes = passes
        with _name_options():
            super().__init__(folder)

    @contextmanager
    def guard(self, source: Path) -> Iterator[Self]:
        """Say after Ctrl-C how to go on; drop the states if the data are wrong and must change.

        If the data cannot be read, the states stay: a disk may be away for a moment.
        """
        try:
            yield self
        except KeyboardInterrupt:
            if self.names():
                told = f"the same command goes on from {self.folder.name}"
                raise KeyboardInterrupt(told) from None
            self.finish()
            raise
        except DataError as error:
            if not self.names() or (source.exists() and not _is_unread(error)):
                self.finish()
            raise

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Use the folder alone."""
        with ExitStack() as stack:
            with _name_options():
                stack.enter_context(super().lock())
            yield

    def read(self, name: str, identity: str) -> State | None:
        """Return the state of a pass that begins."""
        try:
            state = super().read(name, identity)
            if not {*map(_strip_number, self.names())} <= {*self._passes.about}:
                raise StorageError("It holds passes of another preset.")
        except StorageError:
            raise StorageError(
                f"{self.folder} must hold the progress of this fit; it was kept for other data or "
                "options, or is damaged. Remove the folder to begin again, or choose another "
                "--output."
            ) from None
        self._passes.begin(name, state)
        return state

    def write(self, name: str, identity: str, state: State) -> None:
        """Replace the state of a pass."""
        super().write(name, identity, state)
        if state.whole:
            self._passes.end(name, state.n_rows)

    def remove(self, names: Iterable[str]) -> None:
        """Keep the folder: the model is fitted, and not yet written."""

    def finish(self) -> None:
        """Remove the folder."""
        super().remove(self.names())


def _is_unread(error: BaseException | None) -> bool:
    """Whether an error came about because something could not be read."""
    while error is not None and not isinstance(error, OSError | MemoryError):
        error = error.__context__
    return error is not None


@contextmanager
def _name_options() -> Iterator[None]:
    """Speak of the command line in errors of a checkpoint."""
    try:
        yield
    except ValueError as error:
        text = str(error).replace("`checkpoint`", "The folder of the progress")
        text = text.replace("Pass another path", "Choose another --output")
        raise StorageError(text.replace("pass another folder", "choose another --output")) from None


def _strip_number(name: str) -> str:
    """Return the name of a pass without the number of transforms before it."""
    return name.rstrip("0123456789")


class _Passes:
    """What is shown on stderr: each pass over the rows, its speed and the time left."""

    def __init__(self, rows: _LabeledRows, preset: str) -> None:
        self.about = _PASSES[preset]
        console = Console(stderr=True)
        columns = (
            TextColumn("{task.description}"),
            TaskProgressColumn(),
            TextColumn("{task.fields[rows]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        self._bars = Progress(*columns, console=console, disable=not console.is_terminal)
        self._rows = rows
        self._task: TaskID | None = None
        self._start: int | None = None  # row at which the pass began, once it is known
        self._is_told = False
        self.n_rows = 0  # rows of the last pass so far

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def say(self, doing: str) -> None:
        """Show what is done now; what was done before is complete."""
        if self._task is not None:
            task = self._bars.tasks[self._task]
            total = task.total or 1
            self._bars.update(self._task, total=total, completed=total)
        self._task = self._bars.add_task(doing, total=None, rows="")

    def begin(self, name: str, state: State | None) -> None:
        """Show a pass; tell once where it goes on after an interruption."""
        self.n_rows = 0 if state is None else state.n_rows
        if state is not None and state.whole:
            if _strip_number(name) == [*self.about][-1] and not self._is_told:
                typer.echo("Going on after the last pass.", err=True)
            self.end(name, state.n_rows)
            return
        number = [*self.about].index(_strip_number(name)) + 1
        if not self._is_told and (self.n_rows or number > 1):
            where = f"at row {self.n_rows:,} of" if self.n_rows else "with"
            typer.echo(f"Going on {where} pass {number}.", err=True)
        self._is_told = True
        self._start = None if self.n_rows else 0
        self.say(f"Pass {number}: {self.about[_strip_number(name)]}")

    def advance(self, _: str, n_rows: int, __: int | None) -> None:
        """Show how far a pass is. Reading is a chunk or two ahead."""
        assert self._task is not None
        stream, task = self._rows.stream, self._bars.tasks[self._task]
        self.n_rows = n_rows
        if self._start is None:  # where reading began, which costs no time
            self._start = n_rows
            self._bars.reset(self._task, total=stream.total, completed=stream.done)
        speed = (n_rows - self._start) / max(task.elapsed or 0.0, 1e-3)
        text = f"{n_rows:,} rows" + (f" ({speed:,.0f}/s)" if speed else "")
        self._bars.update(self._task, total=stream.total, completed=stream.done, rows=text)

    def end(self, name: str, n_rows: int) -> None:
        """Show what follows a pass."""
        self.n_rows = n_rows
        if name in _THEN:
            self.say(_THEN[name])


def _fit_model(
    model: Any,
    chunks: Chunks,
    heading: np.ndarray,
    unlabeled: np.ndarray | None,
    say: Callable[[str], Any],
) -> Any:
    """Return a model fitted to chunks, and to unlabeled samples if there are any."""
    steps, last = unwrap(model)
    if steps is None:  # the recommended one
        model.fit(chunks)
        if unlabeled is None:
            return model
        say("Learning from unlabeled samples")
        return model.adapt(unlabeled)
    steps.fit(heading)  # unit length: nothing is learned that needs a pass
    if unlabeled is None:
        last.fit(steps.transform(chunks))
    else:
        last.fit_transductive(steps.transform(chunks), None, steps.transform(unlabeled))
    return model
