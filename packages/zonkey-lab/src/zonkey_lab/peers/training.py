"""The trainer of all peers that learn by passes over the samples.

It stops early on held-out classes, reports progress, and goes on where an interrupted run was. It
knows neither NumPy nor torch: a `Learner` does one pass and can return and restore its state.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from zonkey.streaming.checkpoint import PassCheckpoint, State

_SECONDS = 10.0  # between two checkpoints

Score = Callable[[], float]


class Learner(ABC):
    """A model in training."""

    @abstractmethod
    def epoch(self, rng: np.random.Generator) -> float:
        """Make one pass over the training samples; return the mean loss.

        All random numbers come from `rng`, which is the same if the pass is repeated.
        """

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return copies of everything that training changes, as arrays and numbers by name."""

    @abstractmethod
    def restore(self, state: dict[str, Any]) -> None:
        """Go back to a state."""


@dataclass
class History:
    """Loss of every epoch and score after it; no scores without held-out classes."""

    losses: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)

    @property
    def best(self) -> int:
        """Number of epochs after which the score was best, the first of equal ones."""
        return int(np.argmax(self.scores)) + 1 if self.scores else len(self.losses)


@dataclass(frozen=True)
class TrainingProgress:
    """Where a training keeps its progress: a pass of a checkpoint."""

    folder: PassCheckpoint
    name: str
    identity: str

    def read(self) -> State | None:
        """Return what an interrupted run left, None if there is nothing."""
        return self.folder.read(self.name, self.identity)

    def write(self, parts: dict[str, Any], n_epochs: int, whole: bool) -> None:
        """Replace it."""
        self.folder.write(self.name, self.identity, State(parts, n_epochs, 0, "", whole))


def train(
    learner: Learner,
    *,
    max_iter: int,
    seed: int,
    score: Score | None = None,
    patience: int | None = None,
    keeps_best: bool = True,
    kept: TrainingProgress | None = None,
    report: Callable[[int, History], None] | None = None,
) -> History:
    """Make up to `max_iter` passes over the samples.

    Epoch t draws its random numbers from (`seed`, t), so that a resumed run equals one that was
    never interrupted.

    Parameters
    ----------
    learner : Learner
        Trained in place.
    max_iter : int
        Largest number of epochs.
    seed : int
        Seed of all epochs.
    score : callable, default=None
        Accuracy on held-out classes; the larger, the better.
    patience : int, default=None
        Stop after so many epochs without a better score. None: never.
    keeps_best : bool, default=True
        If scores are taken, end in the best state instead of the last. It takes a copy of the
        state after each better score.
    kept : Kept, default=None
        Where to keep the progress, and to go on from.
    report : callable, default=None
        Called after every epoch with the number of epochs and the history so far.
    """
    history, best, start, done = History(), None, 0, False
    found = None if kept is None else kept.read()
    if found is not None:
        history, best = History(**found.parts["history"]), found.parts["best"]
        learner.restore(found.parts["learner"])
        start, done = found.n_chunks, found.whole
    written = time.monotonic()
    for number in [] if done else range(start, max_iter):
        history.losses.append(_require_finite(learner.epoch(np.random.default_rng([seed, number]))))
        if score is not None:
            history.scores.append(score())
            if keeps_best and history.best == number + 1:
                best = learner.state()
        if report is not None:
            report(number + 1, history)
        if score is not None and patience is not None and number + 1 - history.best >= patience:
            break
        if kept is not None and time.monotonic() - written > _SECONDS:
            kept.write(_parts(learner, history, best), number + 1, whole=False)
            written = time.monotonic()
    if best is not None:
        learner.restore(best)
    if kept is not None and not done:
        kept.write(_parts(learner, history, best), len(history.losses), whole=True)
    return history


def batches(n: int, size: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Yield the positions of n samples in random order, `size` at a time.

    A last batch of less than half the size joins the one before: a single sample has no variance.
    """
    order = rng.permutation(n)
    bounds = [*range(0, n, size), n]
    if len(bounds) > 2 and 2 * (bounds[-1] - bounds[-2]) < size:
        del bounds[-2]
    for start, stop in pairwise(bounds):
        yield order[start:stop]


def _parts(learner: Learner, history: History, best: dict[str, Any] | None) -> dict[str, Any]:
    return {"learner": learner.state(), "history": vars(history), "best": best}


def _require_finite(loss: float) -> float:
    if not np.isfinite(loss):
        raise ValueError(
            f"The loss must stay finite; it became {loss}. Scale features and prototypes to unit "
            "length, or lower `learning_rate`."
        )
    return float(loss)
