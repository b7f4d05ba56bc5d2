"""Run few-shot trials in parallel, and keep their results for resuming."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track
from sklearn.base import BaseEstimator
from sklearn.utils import check_array
from sklearn.utils.parallel import Parallel, delayed  # workers get the filters of warnings

from zonkey.arrays import Array, is_device_array, namespace, place_like, to_numpy
from zonkey.evaluation.protocols import is_fitted
from zonkey.hashing import hash_object
from zonkey.labels import as_labels, check_count
from zonkey.streaming.dask import Shared
from zonkey.threads import limit_threads

PathLike = str | os.PathLike[str]


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

    def checkpoint(self, path: PathLike | None, queries: Any, **settings: Any) -> TrialCheckpoint:
        """Return the checkpoint of a run with these settings."""
        if path is None:
            return TrialCheckpoint(None, {})
        if queries is not None:
            settings["queries"] = hash_object(np.asarray(queries))
        models = {name: hash_object(_describe_model(model)) for name, model in self.models.items()}
        data = hash_object(to_numpy(self.X), self.y, self.classes)
        fixed = {"models": models, "data": data, "seed": self.seed, "zonkey": version("zonkey")}
        return TrialCheckpoint(path, {**fixed, **settings})


def run_trials(
    run_batch: Callable[[list[int]], list[Any]],
    n_trials: int,
    checkpoint: TrialCheckpoint,
    *,
    n_jobs: int | None,
    progress: bool,
    batch_size: int = 1,
) -> list[Any]:
    """Run the trials that are missing in the checkpoint; return all results in order.

    `run_batch` runs the trials with the given numbers; `n_jobs` batches run at the same time.
    """
    missing = [number for number in range(n_trials) if number not in checkpoint.results]
    batches = [missing[i : i + batch_size] for i in range(0, len(missing), batch_size)]

    def number_results(batch: list[int]) -> list[tuple[int, Any]]:
        return list(zip(batch, run_batch(batch), strict=True))

    # The matrices of a trial are too small for a threaded BLAS, which would also compete with
    # the workers for cores.
    with limit_threads():
        shared = Shared(number_results)
        jobs = (delayed(Shared.run)(shared, batch) for batch in batches)
        done: Any = Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator_unordered")(jobs)
        for results in track(done, "Running trials", total=len(batches), disable=not progress):
            for number, result in results:
                checkpoint.add(number, result)
    return [checkpoint.results[number] for number in range(n_trials)]


class TrialCheckpoint:
    """Results by trial number, in memory and (if `path` is given) as JSON lines in a file.

    The first line holds the settings that the results depend on. A file with other settings is
    refused.
    """

    def __init__(self, path: PathLike | None, settings: Mapping[str, Any]) -> None:
        self.path = None if path is None else Path(path)
        self.results: dict[int, Any] = {}
        if self.path is None:
            return
        settings = json.loads(json.dumps(settings))
        records = _complete_records(self.path)
        if not records:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._append({"settings": settings})
            return
        found = records[0].get("settings", {})
        changed = [n for n in sorted({*settings, *found}) if found.get(n) != settings.get(n)]
        if changed:
            raise ValueError(
                f"{path} holds trials of another run: {', '.join(changed)} differ. "
                "Choose another file, or delete it to start over."
            )
        self.results = {record["trial"]: record["result"] for record in records[1:]}

    def add(self, trial: int, result: Any) -> None:
        """Keep the result of one trial."""
        self.results[trial] = result
        if self.path is not None:
            self._append({"trial": trial, "result": result})

    def _append(self, record: Mapping[str, Any]) -> None:
        assert self.path is not None
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


def _complete_records(path: Path) -> list[dict[str, Any]]:
    """Return the records of a file; cut off a last line that an interruption left incomplete."""
    if not path.exists():
        return []
    *lines, rest = path.read_bytes().split(b"\n")
    if rest:
        path.write_bytes(b"".join(line + b"\n" for line in lines))
    return [json.loads(line) for line in lines]


def _describe_model(model: Any) -> list[Any]:
    """Return the parameters of a model, and what it learned if trials do not fit it again."""
    learned = ("classes_", "centers_", "worth_", "seen_penalty_") if is_fitted(model) else ()
    given = model.get_params(deep=False) if isinstance(model, BaseEstimator) else model
    return [type(model), given, *(getattr(model, name) for name in learned)]
