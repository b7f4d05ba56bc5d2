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
from ..linalg.arrays import Array, is_device_array, namespace, placed_like, to_numpy
from ..validation import check_count
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
        self.X: Array = X
        if not is_device_array(X):
            self.X = np.asarray(check_array(X, dtype=floats, input_name="X"))
        self.y = as_labels(to_numpy(y) if is_device_array(y) else y, "y")
        if self.X.shape[0] != len(self.y):
            raise ValueError(
                f"X and y must have one row a sample; got {self.X.shape[0]} and {len(self.y)}. "
                "Pass the labels of the same samples."
            )
        self.classes = np.unique(as_labels(classes, "classes"))
        self.seed = self.checked(minimum=0, random_state=random_state)["random_state"]

    def checked(self, *, minimum: int = 1, **counts: Any) -> dict[str, int]:
        """Return whole numbers of at least `minimum` as plain integers."""
        for name, value in counts.items():
            check_count(name, value, minimum)
        return {name: int(value) for name, value in counts.items()}

    def samples(self, positions: np.ndarray) -> Array:
        """Return the samples at these positions, where they are."""
        return namespace(self.X).take(self.X, placed_like(positions, self.X), axis=0)

    def generator(self, number: int) -> np.random.Generator:
        """Return the generator of one trial."""
        return np.random.default_rng([self.seed, number])

    def checkpoint(self, path: str | os.PathLike[str] | None, **settings: Any) -> Checkpoint:
        """Return the results kept so far of a run with these settings."""
        if path is None:
            return Checkpoint(None, {})
        models = {name: fingerprint(model) for name, model in self.models.items()}
        data = fingerprint(to_numpy(self.X), self.y, self.classes)
        fixed = {"models": models, "data": data, "seed": self.seed, "zonkey": version("zonkey")}
        return Checkpoint(path, {**fixed, **settings})


def run_trials(
    some: Callable[[list[int]], list[Any]],
    numbers: Iterable[int],
    checkpoint: Checkpoint,
    n_jobs: int | None,
    what: str | None,
    at_once: int = 1,
) -> list[Any]:
    """Run the trials that the checkpoint does not have, and return all results in order.

    `some` runs the trials with these numbers, `at_once` of them; `n_jobs` such groups run at the
    same time. `what` names them on a progress bar; None shows no bar.
    """
    numbers = list(numbers)
    waiting = [number for number in numbers if number not in checkpoint.results]
    groups = [waiting[i : i + at_once] for i in range(0, len(waiting), at_once)]

    def numbered(group: list[int]) -> list[tuple[int, Any]]:
        return list(zip(group, some(group), strict=True))

    # The matrices of a trial are small: threads inside a product cost more than they bring,
    # and several workers with several threads each would fight for the same cores.
    with threadpool_limits(1):
        jobs = (delayed(numbered)(group) for group in groups)
        done: Any = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator_unordered")(jobs)
        bar = track(done, f"Running {what}", total=len(groups), disable=what is None)
        for results in bar:
            for number, result in results:
                checkpoint.add(number, result)
    return [checkpoint.results[number] for number in numbers]
