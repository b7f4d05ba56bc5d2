"""What zero-shot and few-shot peers share: checks of parameters, and training by epochs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np

from zonkey.constraints import check_interval, check_seed
from zonkey.hashing import hash_object
from zonkey.labels import check_count, format_value
from zonkey.optional import torch_device
from zonkey.streaming.checkpoint import PassCheckpoint
from zonkey.streaming.priorities import row_priorities

from .networks import torch_for
from .training import History, Learner, TrainingProgress, train

_DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?")
# Parameters without effect on a training; what it depends on besides is given to `_identity`.
_UNRELATED = (
    "prototypes",
    "base",
    "candidates",
    "seen_penalty",
    "random_state",
    "device",
    "checkpoint",
    "verbose",
)


class CheckedMixin:
    """Checks of the parameters, and a failed fit that leaves an earlier one as it was."""

    _non_negative: ClassVar[tuple[str, ...]] = ()  # parameters that must be numbers >= 0
    _counts: ClassVar[tuple[str, ...]] = ()  # parameters that must be integers >= 1

    def _check_parameters(self) -> None:
        for name in self._non_negative:
            check_interval(name, getattr(self, name), 0)
        for name in self._counts:
            check_count(name, getattr(self, name), 1)

    @contextmanager
    def _restore_on_failure(self) -> Iterator[None]:
        """Keep the attributes of an earlier fit if this one fails or is interrupted."""
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise


class TrainedMixin(CheckedMixin):
    """Training by epochs: the parameters of all peers that learn so."""

    _least_iter: ClassVar[int] = 1  # 0: the state before training is of use

    max_iter: int
    n_iter_no_change: int | None
    batch_size: int
    learning_rate: float
    random_state: Any
    checkpoint: Any
    verbose: int
    get_params: Callable[..., dict[str, Any]]

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_count("max_iter", self.max_iter, self._least_iter)
        check_count("batch_size", self.batch_size, 1)
        check_interval("learning_rate", self.learning_rate, 0, open_below=True)
        if self.n_iter_no_change is not None:
            check_count("n_iter_no_change", self.n_iter_no_change, 1)
        check_seed(self.random_state, self)

    def _train(
        self,
        learner: Learner,
        seed: int,
        n_epochs: int,
        kept: TrainingProgress | None,
        **options: Any,
    ) -> History:
        """Train a learner by the parameters of the peer."""
        return train(
            learner,
            max_iter=n_epochs,
            seed=seed,
            patience=self.n_iter_no_change,
            kept=kept,
            report=_print_epoch if self.verbose else None,
            **options,
        )

    @contextmanager
    def _progress(
        self, names: tuple[str, ...], *content: Any
    ) -> Iterator[Callable[[str], TrainingProgress | None]]:
        """Yield a function that tells where a training keeps its progress: None if nowhere.

        `content` is what the trainings learn from. What was kept is removed once all have ended.
        """
        if self.checkpoint is None:
            yield lambda name: None  # noqa: ARG005
            return
        folder, identity = PassCheckpoint(self.checkpoint), self._identity(*content)
        yield lambda name: TrainingProgress(folder, f"{name}-{identity}", identity)
        folder.remove([f"{name}-{identity}" for name in names])

    def _identity(self, *content: Any) -> str:
        """Return text that tells trainings apart, by parameters and by what they learn from."""
        given = self.get_params(deep=False)
        parameters = {name: given[name] for name in given if name not in _UNRELATED}
        return hash_object(type(self), parameters, *content)[:16]


class OnDeviceMixin(CheckedMixin):
    """Training by torch on a device; prediction needs neither."""

    device: str

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self.device, str) or not _DEVICE.fullmatch(self.device):
            raise ValueError(
                "`device` must be 'auto', 'cpu', 'cuda' or 'cuda:0' etc.; got "
                f"{format_value(self.device)}. Use 'auto'."
            )

    def _torch(self) -> tuple[Any, str]:
        """Return torch and the device to train on."""
        torch = torch_for(f"Training {type(self).__name__}")
        return torch, torch_device(self.device)


def convert_dtype(value: Any, dtype: np.dtype) -> Any:
    """Return arrays of numbers in the dtype of the samples, also those in a dict."""
    if isinstance(value, dict):
        return {name: convert_dtype(part, dtype) for name, part in value.items()}
    is_real = isinstance(value, np.ndarray) and value.dtype.kind == "f"
    return value.astype(dtype, copy=False) if is_real else value


def sort_samples(X: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return samples class by class, in an order of their values; codes; and sorted classes."""
    classes, codes = np.unique(labels, return_inverse=True)
    order = np.lexsort((np.asarray(row_priorities(X, 0)), codes))
    return X[order], codes[order], classes


def class_means(X: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return the mean of each class (m x d), float64; codes are sorted."""
    counts = np.bincount(codes)
    sums = np.add.reduceat(X, np.cumsum(counts) - counts, axis=0, dtype=np.float64)
    return sums / counts[:, None]


def unit_rows(Z: np.ndarray) -> np.ndarray:
    """Scale rows to length 1; zero rows stay zero, so that their cosines are 0."""
    norms = np.linalg.norm(Z, axis=1, keepdims=True)
    return Z / np.where(norms > 0, norms, 1)


def _print_epoch(number: int, history: History) -> None:
    text = f"[zonkey] epoch {number}: loss {history.losses[-1]:.4g}"
    if history.scores:
        text += f", accuracy of held-out classes {100 * history.scores[-1]:.1f} %"
    print(text)  # noqa: T201
