"""Trials by number: checked input, seeded generators, parallel work, results that are kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from rich.progress import track
from sklearn.utils import check_array
from threadpoolctl import threadpool_limits

from ..core.labels import as_labels
from ..estimators.validation import check_count
from .checkpoint import Checkpoint
from .fingerprint import fingerprint


class Run:
    """What all trials of a run share: models, data, novel classes and the seed."""

    def __init__(self, models: Any, X: Any, y: Any, classes: Any, random_state: Any) -> None:
        if not isinstance(models, Mapping) or not models:
            raise TypeError(
                f"`models` must be a mapping of names to estimators; got {type(models).__name__}. "
                'Write {"name": model}.'
            )
        self.models = dict(models)
        floats: Any = [np.float64, np.float32]
        self.X = np.asarray(check_array(X, dtype=floats, input_name="X"))
        self.y = as_labels(y, "y")
        if len(self.X) != len(self.y):
            raise ValueError(
                f"X and y must have one row a sample; got {len(self.X)} and {len(self.y)}. "
                "Pass the labels of the same samples."
            )
        self.classes = np.unique(as_labels(classes, "classes"))
        self.seed = self.checked(minimum=0, random_state=random_state)["random_state"]

    def checked(self, *, minimum: int = 1, **counts: Any) -> dict[str, int]:
        """Return whole numbers of at least `minimum` as plain integers."""
        for name, value in counts.items():
            check_count(name, value, minimum)
        return {name: int(value) for name, value in counts.items()}

    def generator(self, number: int) -> np.random.Generator:
        """Return the generator of one trial."""
        return np.random.default_rng([self.seed, number])

    def checkpoint(self, path: str | os.PathLike[str] | None, **settings: Any) -> Checkpoint:
        """Return the results kept so far of a run with these settings."""
        if path is None:
            return Checkpoint(None, {})
        models = {name: fingerprint(model) for name, model in self.models.items()}
        data = fingerprint(self.X, self.y, self.classes)
        fixed = {"models": models, "data": data, "seed": self.seed, "zonkey": version("zonkey")}
        return Checkpoint(path, {**fixed, **settings})


def run_trials(
    one: Callable[[int], Any],
    numbers: Iterable[int],
    checkpoint: Checkpoint,
    n_jobs: int | None,
    what: str | None,
) -> list[Any]:
    """Run the trials that the checkpoint does not have, and return all results in order.

    `what` names them on a progress bar; None shows no bar.
    """
    numbers = list(numbers)
    waiting = [number for number in numbers if number not in checkpoint.results]

    def numbered(number: int) -> tuple[int, Any]:
        return number, one(number)

    # The matrices of a trial are small: threads inside a product cost more than they bring,
    # and several workers with several threads each would fight for the same cores.
    with threadpool_limits(1):
        jobs = (delayed(numbered)(number) for number in waiting)
        done: Any = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator_unordered")(jobs)
        bar = track(done, f"Running {what}", total=len(waiting), disable=what is None)
        for number, result in bar:
            checkpoint.add(number, result)
    return [checkpoint.results[number] for number in numbers]
