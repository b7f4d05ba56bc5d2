"""Common parts of zero-shot and few-shot peers: checks of parameters, training by epochs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, Self, dataclass_transform

import numpy as np
from sklearn.base import BaseEstimator

from zonkey.arrays import sums_by_code
from zonkey.constraints import check_seed
from zonkey.hashing import hash_object
from zonkey.labels import format_value
from zonkey.optional import torch_device
from zonkey.parameters import Constraint, Count, check_parameters
from zonkey.streaming.priorities import row_priorities

from .documentation import inherit_documentation
from .networks import torch_for
from .training import History, Learner, Training, train

# Parameters without effect on a training.
_UNRELATED = (
    "prototypes",
    "base",
    "candidates",
    "seen_penalty",
    "random_state",
    "device",
    "training",
    "verbose",
)
_PREFIX = "training__"


def parameter(*, default: Any, within: Constraint) -> Any:
    """Return a field of a peer: a parameter of its constructor, and the range of its values."""
    return field(default=default, metadata={"within": within})


def attribute(*, init: Literal[False] = False) -> Any:
    """Return a field of a peer: an attribute that `fit` sets, and that files hold."""
    return field(init=init, metadata={"is_stored": True})


@dataclass_transform(
    kw_only_default=True, eq_default=False, field_specifiers=(field, parameter, attribute)
)
class CheckedMixin:
    """A dataclass of parameters, which are checked, and of what is learned.

    Every annotated attribute of a subclass is a parameter of its constructor, unless it is a
    `ClassVar` or an `attribute()`. A failed fit keeps the state of an earlier fit.
    """

    __constraints__: ClassVar[dict[str, Constraint]]
    __zonkey_fields__: ClassVar[tuple[str, ...]]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        own: Any = cls
        about_class = cls.__doc__
        dataclass(own, kw_only=True, eq=False, repr=False)
        cls.__doc__ = about_class  # without one, a dataclass shows its signature
        about = [(part.name, part.metadata) for part in fields(own)]
        cls.__constraints__ = {name: facts["within"] for name, facts in about if "within" in facts}
        cls.__zonkey_fields__ = tuple(name for name, facts in about if "is_stored" in facts)
        bases = [base for base in cls.__mro__ if issubclass(base, CheckedMixin)]
        inherit_documentation(cls, bases)

    def _check_parameters(self) -> None:
        check_parameters(self)

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


class TrainedMixin(CheckedMixin, BaseEstimator):
    """Training by epochs: the parameters of all peers that learn so.

    Parameters
    ----------
    training : Training, default=None
    random_state : int, RandomState or None, default=None
        Seed of initial weights, of the order of samples and of the choice of held-out classes.
    """

    _least_iter: ClassVar[int] = 1  # 0: the state before training is usable

    _own: ClassVar[Training]  # what "auto" means
    uses_torch: ClassVar[bool] = False  # to train; prediction never does
    stops_early: ClassVar[bool] = True  # whether held-out classes may end the training

    training: Training | None = None
    random_state: Any = None

    @property
    def schedule(self) -> Training:
        """The training, with the own values of this system where none is given."""
        return self._given().fill(self._own)

    def _given(self) -> Training:
        # fit refuses anything else, like other invalid parameters.
        return self.training if isinstance(self.training, Training) else Training()

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name, those of the training also as `training__NAME`.

        Parameters
        ----------
        deep : bool, default=True
            Whether to return those of the training as well.

        Returns
        -------
        dict
            Values by name.
        """
        found = super().get_params(deep)
        if deep:
            parts = vars(self._given())
            found |= {f"{_PREFIX}{name}": value for name, value in parts.items()}
        return found

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters by name, those of the training also as `training__NAME`.

        Parameters
        ----------
        **parameters : dict
            Values by name.

        Returns
        -------
        self
            The estimator.
        """
        nested = {name: v for name, v in parameters.items() if name.startswith(_PREFIX)}
        unknown = [name for name in nested if name.removeprefix(_PREFIX) not in vars(Training())]
        if unknown:
            raise ValueError(
                f"{unknown[0]!r} is not a parameter of {type(self).__name__}. Training has: "
                f"{', '.join(vars(Training()))}."
            )
        super().set_params(**{name: v for name, v in parameters.items() if name not in nested})
        if nested:
            parts = {name.removeprefix(_PREFIX): value for name, value in nested.items()}
            self.training = replace(self._given(), **parts)
        return self

    @classmethod
    def __zonkey_upgrade__(cls, parts: dict[str, Any]) -> dict[str, Any]:
        """Collect the training parameters that files of zonkey 0.1 hold one by one."""
        upgrade_rest = getattr(super(), "__zonkey_upgrade__", None)
        parts = parts if upgrade_rest is None else upgrade_rest(parts)
        given = dict(parts["parameters"])
        if "training" in given:
            return parts
        of_training = {name: given.pop(name) for name in vars(Training()) if name in given}
        given.pop("checkpoint", None)
        return {**parts, "parameters": {**given, "training": Training(**of_training)}}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self.training, Training | None):
            raise TypeError(
                f"`training` must be a Training or None; got {format_value(self.training)}. Pass "
                "Training(max_iter=5), for example."
            )
        check_parameters(self.schedule)
        Count(self._least_iter).check("max_iter", self.schedule.max_iter)
        check_seed(self.random_state, self)

    def _train(self, learner: Learner, seed: int, n_epochs: int, **options: Any) -> History:
        """Train a learner by the parameters of the peer."""
        schedule = self.schedule
        return train(
            learner,
            max_iter=n_epochs,
            seed=seed,
            patience=schedule.n_iter_no_change,
            report=_print_epoch if schedule.verbose else None,
            **options,
        )


def identify_training(peer: TrainedMixin, *content: Any) -> str:
    """Return text that identifies a training: its parameters and its data."""
    given = {**peer.get_params(deep=False), **vars(peer.schedule)}
    parameters = {name: given[name] for name in given if name not in _UNRELATED}
    return hash_object(type(peer), parameters, *content)[:16]


def load_torch(peer: TrainedMixin) -> tuple[Any, str]:
    """Return torch and the device to train a peer on."""
    torch = torch_for(f"Training {type(peer).__name__}")
    return torch, torch_device(peer.schedule.device)


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
    """Return the mean of each class (m x d), float64."""
    counts = np.bincount(codes)
    return sums_by_code(X, codes, len(counts)) / counts[:, None]


def unit_rows(Z: np.ndarray) -> np.ndarray:
    """Scale rows to length 1; zero rows stay zero, so that their cosines are 0."""
    norms = np.linalg.norm(Z, axis=1, keepdims=True)
    return Z / np.where(norms > 0, norms, 1)


def _print_epoch(number: int, history: History) -> None:
    text = f"[zonkey] epoch {number}: loss {history.losses[-1]:.4g}"
    if history.scores:
        text += f", accuracy of held-out classes {100 * history.scores[-1]:.1f} %"
    print(text)  # noqa: T201
