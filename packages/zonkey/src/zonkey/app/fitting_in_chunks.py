"""Fit a model to features that are larger than memory.

Features are read in chunks, a few times. A folder beside the output keeps the state, so that the
same call resumes after an interruption.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from ..encoders.collection import is_pictures
from ..encoders.texts import is_texts
from ..errors import DataError, Problem, StorageError, reword
from ..files.chunks import FileSource
from ..files.own import missing_prototypes, wrong_marks
from ..files.streams import Block, FeatureStream
from ..files.tables import require_one_source
from ..labels import format_value
from ..prototypes import Prototypes
from ..streaming.checkpoint import PassCheckpoint, State, pass_of
from ..streaming.chunks import Chunks
from ..streaming.reduce import Pass
from ..streaming.sources import Purpose
from .fitting_in_memory import FitInput, adapt_model, fit_paper, fit_recommended, make_model
from .models import kept_rows
from .progress import Progress, Step

# Passes of each preset, and what follows them
_PASSES: dict[str, dict[str, str]] = {
    "recommended": {
        Pass.SURVEY: "samples and means",
        Pass.SCATTER: "spread within classes",
        Pass.SUMS: "class means",
    },
    "paper": {Pass.MOMENTS: "sums over classes"},
}
_THEN: dict[str, str] = {
    Pass.SURVEY: "Choosing parameters",
    Pass.MOMENTS: "Learning the projection",
}


def learn_in_chunks(
    training: FitInput, preset: str, parameters: dict[str, Any], output: Path, write: Any
) -> dict[str, Any]:
    """Fit a model without holding all features in memory, and write it."""
    say = training.progress
    say(Step("Reading"))
    rows, known = _open_rows(training)
    names = None if rows.columns is None else list(rows.columns)
    unlabeled, start = None, rows.heading.X
    if training.unlabeled is not None:
        unlabeled = training.read_unlabeled(names, start.shape[1])
    X_val, y_val = start[:0], np.array([], dtype=str)
    if preset == "recommended":
        X_val, y_val = rows.take_validation()
    rows.identity += f", {parameters}"
    with _Passes(output, rows, preset, say).guard(training.source) as passes:
        chunks = Chunks(rows, progress=passes.advance)
        chunks.checkpoint = passes
        model = make_model(training, preset, known, parameters)
        if preset == "paper":
            model = fit_paper(model, chunks, None, start, unlabeled)
        else:
            model = fit_recommended(model, chunks, None, X_val, y_val)
            model = adapt_model(model, unlabeled, say)
        write(model, names, rows.name_rows(kept_rows(model)))
        passes.finish()
    n = passes.n_rows + len(y_val)
    left_out = rows.n_left_out(n)
    return {"n_samples": n, "n_left_out": left_out, "columns": names or (), "unused": rows.unused}


def _open_rows(training: FitInput) -> tuple[_LabeledRows, Prototypes]:
    """Return the rows to learn from and the classes; errors are raised before reading."""
    source, keys = training.source, training.keys
    column = keys.get("text_column")
    are_texts = column is not None or is_texts(source, None, training.label_column)
    if are_texts or is_pictures(source):
        rule = f"must be left out for {'texts' if are_texts else 'pictures'}"
        what = f"{format_value(str(source))} holds some"
        remedy = "Encode them with zonkey embed, and fit the file of their features."
        raise Problem("`chunks`", rule, what, remedy, option="chunks")
    if training.classes is None:
        what, remedy = "its classes are unknown before it is read", "Pass `classes`."
        options = "chunks", "classes"
        raise Problem("`chunks`", "needs a file of classes", what, remedy, option=options)
    require_one_source(keys["labels"], keys["labels_key"])
    stream = training.open(every_label=True)
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
        self._has_validation = False  # if so, its rows are not in the chunks
        self.identity += f", {known.fingerprint()}"

    def take_validation(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows marked `val`, and remove them from the chunks.

        As in memory, they must be whole classes.
        """
        X, y, kinds = [self.heading.X[:0]], [np.array([], dtype=str)], set()
        for block in self.stream if self._has_split else ():
            marks, labels = block.split, block.labels
            assert marks is not None
            assert labels is not None
            X.append(block.X[marks == "val"])
            y.append(labels[marks == "val"])
            kinds.update(zip(marks.tolist(), labels.tolist(), strict=True))
        marks, labels = (np.array([kind[n] for kind in sorted(kinds)], dtype=str) for n in (0, 1))
        if "val" in marks and np.isin(marks, ("train", "val", "test")).all():
            for problem in wrong_marks(labels, marks, self.file, self.first_row):
                raise DataError(problem)
            self._has_validation = True
        return np.concatenate(X), np.concatenate(y)

    def read(self, first: int, purpose: Purpose = "all") -> Iterator[tuple[Any, Any]]:
        """Yield samples and labels from chunk `first` on."""
        n = 0
        for X, y in super().read(first, purpose):
            n += len(X)
            yield X, y
        self._n_all = self.stream.n_read
        if not first and not n:
            raise DataError(
                f"The column `split` of {self.file} has no row `train`. Mark the training samples."
            )

    def is_kept(self, block: Block, before: int) -> np.ndarray:
        """Select the rows to learn from; all need a label with a prototype."""
        labels = block.labels
        assert labels is not None
        is_known = np.isin(labels, self._known)
        if not is_known.all():
            # Rows before had labels of both files: not all can be wrong.
            classes = np.union1d(labels, self._known[:1]) if before else np.unique(labels)
            files = self.file, self._classes
            problem = missing_prototypes(classes, self._known, *files, self._dimensions)[0]
            raise DataError(problem)
        kept = super().is_kept(block, before)
        return kept if not self._has_validation else kept & (block.split == "train")

    def name_rows(self, rows: Sequence[int]) -> dict[int, str]:
        """Return what some of the rows to learn from are called, if they have names."""
        found: dict[int, str] = {}
        if self.heading.names is None:
            return found
        wanted, n = {*rows}, 0
        stream = replace(self.stream, first=0, with_features=False)
        for block in stream:
            names = block.names or []
            for place in np.flatnonzero(self.is_kept(block, stream.n_read - len(block.X))):
                if n in wanted:
                    found[n] = names[place]
                n += 1
        return found

    def n_left_out(self, n_used: int) -> int | None:
        """Return the number of rows left out, None if unknown."""
        if not self._has_split:
            return 0
        return None if self._n_all is None else self._n_all - n_used


class _Passes(PassCheckpoint):
    """The passes over the rows: reported, and kept beside the output until the model is written."""

    def __init__(self, output: Path, rows: _LabeledRows, preset: str, progress: Progress) -> None:
        with _name_options():
            super().__init__(output.with_name(f"{output.name}.progress"))
        self._about, self._rows, self._progress = _PASSES[preset], rows, progress
        self._doing = ""
        self._is_told = False  # where an interrupted fit resumes
        self.n_rows = 0  # rows of the last pass so far

    @contextmanager
    def guard(self, source: Path) -> Iterator[Self]:
        """Say after Ctrl-C how to resume; drop the states if the data are wrong and must change.

        If the data cannot be read, the states stay: the disk may be back later.
        """
        try:
            yield self
        except KeyboardInterrupt:
            if self.names():
                told = f"the same command resumes from {self.folder.name}"
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
        """Return the stored state of a pass."""
        try:
            state = super().read(name, identity)
            if not {*map(pass_of, self.names())} <= {*self._about}:
                raise StorageError("It holds passes of another preset.")
        except StorageError:
            raise StorageError(
                f"{self.folder} must hold the progress of this fit; it was kept for other data or "
                "options, or is damaged. Remove the folder to begin again, or choose another "
                "`output`.",
                option="output",
            ) from None
        self._begin(name, state)
        return state

    def write(self, name: str, identity: str, state: State) -> None:
        """Replace the state of a pass."""
        super().write(name, identity, state)
        if state.whole:
            self._end(name, state.n_rows)

    def remove(self, names: Iterable[str]) -> None:
        """Keep the folder: the model is fitted but not yet written."""

    def finish(self) -> None:
        """Remove the folder."""
        super().remove(self.names())

    def _begin(self, name: str, state: State | None) -> None:
        """Report that a pass begins, and once where it resumes after an interruption."""
        self.n_rows = 0 if state is None else state.n_rows
        if state is not None and state.whole:
            if pass_of(name) == [*self._about][-1] and not self._is_told:
                self._progress(Step("Resuming", resumed="after the last pass"))
            self._end(name, state.n_rows)
            return
        number = [*self._about].index(pass_of(name)) + 1
        resumed = ""
        if not self._is_told and (self.n_rows or number > 1):
            where = f"at row {self.n_rows:,} of" if self.n_rows else "with"
            resumed = f"{where} pass {number}"
        self._is_told = True
        self._doing = f"Pass {number}: {self._about[pass_of(name)]}"
        self._progress(Step(self._doing, self.n_rows, resumed=resumed))

    def advance(self, _: str, n_rows: int, __: int | None) -> None:
        """Report how far a pass is. Reading is a chunk or two ahead."""
        self.n_rows = n_rows
        stream = self._rows.stream
        self._progress(Step(self._doing, n_rows, stream.done, stream.total))

    def _end(self, name: str, n_rows: int) -> None:
        """Report what follows a pass."""
        self.n_rows = n_rows
        if pass_of(name) in _THEN:
            self._progress(Step(_THEN[pass_of(name)]))


def _is_unread(error: BaseException | None) -> bool:
    """Whether the cause of an error is that something could not be read."""
    while error is not None and not isinstance(error, OSError | MemoryError):
        error = error.__context__
    return error is not None


def _name_options() -> AbstractContextManager[None]:
    """Name the output in errors of a checkpoint."""
    words = {
        "`checkpoint`": "The folder of the progress",
        "Pass another path": "Choose another `output`",
        "pass another folder": "choose another `output`",
    }
    return reword(StorageError, words, option="output")
