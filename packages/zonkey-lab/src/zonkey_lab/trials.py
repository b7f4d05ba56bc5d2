"""Run few-shot trials in parallel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from rich.progress import track
from sklearn.utils import check_array
from sklearn.utils.parallel import Parallel, delayed  # workers get the filters of warnings

from zonkey.arrays import Array, is_device_array, namespace, place_like, to_numpy
from zonkey.labels import as_labels, check_count
from zonkey.streaming.dask import Shared
from zonkey.threads import limit_threads


class Run:
    """Shared data of all trials of a run: models, data, novel classes and the seed."""

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
                f"X and y must have one row per sample; got {self.X.shape[0]} and {len(self.y)}. "
                "Pass the labels of the same samples."
            )
        self.classes = np.unique(as_labels(classes, "classes"))
        self.seed = check_count("random_state", random_state, 0)

    def samples(self, positions: np.ndarray) -> Array:
        """Return the samples at these positions, on the device of X."""
        return namespace(self.X).take(self.X, place_like(positions, self.X), axis=0)

    def generator(self, number: int) -> np.random.Generator:
        """Return the generator of one trial."""
        return np.random.default_rng([self.seed, number])


def run_trials(
    run_batch: Callable[[list[int]], list[Any]],
    n_trials: int,
    *,
    n_jobs: int | None,
    progress: bool,
    batch_size: int = 1,
) -> list[Any]:
    """Return the results of all trials in order.

    `run_batch` runs the trials with the given numbers; `n_jobs` batches run at the same time.
    """
    batches = [
        [*range(start, min(start + batch_size, n_trials))]
        for start in range(0, n_trials, batch_size)
    ]
    # The matrices of a trial are too small for a threaded BLAS, which would also compete with
    # the workers for cores.
    with limit_threads():
        shared = Shared(run_batch)
        jobs = (delayed(Shared.run)(shared, batch) for batch in batches)
        done: Any = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator")(jobs)
        shown = track(done, "Running trials", total=len(batches), disable=not progress)
        return [result for results in shown for result in results]
