"""The trainer of all peers that learn by passes over the samples.

It stops early on held-out classes and reports progress. It does not know torch: a `Learner` does
one pass, and can return and restore its state.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from zonkey.labels import format_value
from zonkey.parameters import Constraint, Count, Interval

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


class _Device(Constraint):
    """The name of a device of torch, or "auto"."""

    def check(self, name: str, value: Any) -> None:
        """Refuse anything else."""
        if not isinstance(value, str) or not re.fullmatch(r"auto|cpu|cuda(:\d+)?", value):
            raise ValueError(
                f"`{name}` must be 'auto', 'cpu', 'cuda' or 'cuda:0' etc.; got "
                f"{format_value(value)}. Use 'auto'."
            )


@dataclass(frozen=True)
class Training:
    """How a peer is trained by passes over the samples (epochs).

    Every trained peer takes one as `training`. The peer documents what "auto" means; so
    ``Training(max_iter=5)`` changes the number of epochs only. The parts are parameters of the
    peer too, as ``training__max_iter`` and so on, for `set_params` and for searches.

    Parameters
    ----------
    max_iter : int or "auto", default="auto"
        Largest number of epochs. 0 keeps a few-shot system in the state before training.
    n_iter_no_change : int, None or "auto", default="auto"
        Stop after so many epochs without a better accuracy on held-out classes. Zero-shot peers
        hold out a fifth of the seen classes, then train again on all of them, for the best number
        of epochs. Few-shot peers keep the state that is best in episodes of validation classes
        (`BaseSamples.validation`), which may be that before training; without validation classes
        they hold out a fifth of the base classes and train again. None, fewer than four seen
        classes, no prototypes, or fewer than ten base classes: `max_iter` epochs.
    batch_size : int or "auto", default="auto"
        Samples per step; episodes per step of systems that are trained on episodes.
    learning_rate : float or "auto", default="auto"
        Step size; of Adam, where torch trains.
    device : str, default="auto"
        Device of torch: "cpu", "cuda" or "cuda:0" etc. "auto": a GPU if torch has one.
    verbose : int, default=0
        If positive, print the loss of each epoch, and the accuracy on held-out classes.

    See Also
    --------
    zonkey_lab.peers.zsl.SJE : A peer that is trained in seconds.

    Examples
    --------
    >>> from zonkey_lab.peers import Training
    >>> from zonkey_lab.peers.zsl import SJE
    >>> model = SJE(training=Training(max_iter=5))
    >>> model.set_params(training__learning_rate=1.0).training
    Training(max_iter=5, learning_rate=1.0)
    """

    __constraints__: ClassVar[dict[str, Constraint]] = {
        "n_iter_no_change": Count(1, (None,)),
        "batch_size": Count(),
        "learning_rate": Interval(0, open_below=True),
        "device": _Device(),
    }

    max_iter: Any = "auto"
    n_iter_no_change: Any = "auto"
    batch_size: Any = "auto"
    learning_rate: Any = "auto"
    device: str = "auto"
    verbose: int = 0

    def fill(self, own: Training) -> Training:
        """Return it with the parts of `own` in place of "auto".

        Parameters
        ----------
        own : Training
            What a peer documents.

        Returns
        -------
        Training
            Without "auto", if `own` has none.
        """
        return replace(own, **self.list_changes())

    def list_changes(self) -> dict[str, Any]:
        """Return the parts that differ from their defaults, by name.

        Returns
        -------
        dict
            Values by name.
        """
        parts = {part.name: (getattr(self, part.name), part.default) for part in fields(self)}
        return {
            name: value
            for name, (value, usual) in parts.items()
            if type(value) is not type(usual) or value != usual
        }

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}={value!r}" for name, value in self.list_changes().items())
        return f"Training({parts})"


def train(
    learner: Learner,
    *,
    max_iter: int,
    seed: int,
    score: Score | None = None,
    patience: int | None = None,
    keeps_best: bool = True,
    report: Callable[[int, History], None] | None = None,
) -> History:
    """Make up to `max_iter` passes over the samples.

    Epoch t draws its random numbers from (`seed`, t), so that fewer epochs are the first of more.
    `score` is an accuracy on held-out classes; training stops after `patience` epochs without a
    better one. With `keeps_best` it ends in the best state instead of the last, of which it takes
    copies. `report` is called after every epoch with the number of epochs and the history.
    """
    history, best = History(), None
    for number in range(max_iter):
        history.losses.append(_require_finite(learner.epoch(np.random.default_rng([seed, number]))))
        if score is not None:
            history.scores.append(score())
            if keeps_best and history.best == number + 1:
                best = learner.state()
        if report is not None:
            report(number + 1, history)
        if score is not None and patience is not None and number + 1 - history.best >= patience:
            break
    if best is not None:
        learner.restore(best)
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


def count_batches(n: int, size: int) -> int:
    """Return the number of `batches` of n samples."""
    return max(1, (2 * n + size) // (2 * size))


def _require_finite(loss: float) -> float:
    if not np.isfinite(loss):
        raise ValueError(
            f"The loss must stay finite; it became {loss}. Scale features and prototypes to unit "
            "length, or lower `learning_rate`."
        )
    return float(loss)
