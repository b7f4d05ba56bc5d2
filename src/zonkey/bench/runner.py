"""Run experiments: choose parameters, measure, keep a record a run, go on where interrupted."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from joblib import Parallel, delayed

from ..datasets import Dataset
from . import protocols
from .experiments import Experiment, Scale, is_zero_shot
from .models import FEW_SHOT, ZERO_SHOT, Grid, thinned
from .records import Key, Records, versions
from .selection import select_few_shot, select_zero_shot
from .sources import find_source

PROTOCOLS: dict[str, Callable[..., dict[str, Any]]] = {
    "zero-shot": protocols.zero_shot,
    "map": protocols.projection_map,
    "convergence": protocols.convergence,
    "trials": protocols.few_shot,
    "all-classes": protocols.all_classes,
}
_TRIAL_SHOTS = (1, 5)
_SHOTS_TO_CHOOSE_ON = 5  # for "all-classes", whatever the number of shots


@dataclass(frozen=True)
class Job:
    """One run that is still to be done, and all it depends on."""

    key: Key
    settings: dict[str, Any]
    options: dict[str, Any]
    folder: str | None


@dataclass(frozen=True)
class Progress:
    """What is told after each run."""

    key: Key
    record: dict[str, Any]
    done: int
    total: int
    seconds: float


def run_experiments(
    experiments: Iterable[Experiment],
    data_names: Iterable[str],
    records: Records,
    scale: Scale,
    *,
    folder: str | None = None,
    n_jobs: int = 1,
    command: str = "",
) -> Iterator[Progress]:
    """Do what has no record yet; yield after each run, so that an interruption loses one at most.

    Several experiments that need the same run share it.
    """
    experiments, data_names = list(experiments), list(data_names)
    start = time.perf_counter()
    wanted = list(_wanted(experiments, data_names, scale, folder))
    done = 0
    for family in ("selection", "run"):  # every run needs its selection
        jobs = []
        for key, options in wanted:
            if (key.protocol.startswith("selection")) != (family == "selection"):
                continue
            settings = _settings(key, options, scale, folder, records)
            if records.find(key, settings) is not None:
                done += 1
            else:
                jobs.append(Job(key, settings, options, folder))
        for job, content in _execute_all(jobs, n_jobs):
            done += 1
            record = records.write(job.key, job.settings, command=command, **content)
            elapsed = time.perf_counter() - start
            yield Progress(job.key, record, done, len(wanted), elapsed)


def _wanted(
    experiments: list[Experiment], data_names: list[str], scale: Scale, folder: str | None
) -> Iterator[tuple[Key, dict[str, Any]]]:
    """Yield every run once, selections first."""
    wanted: dict[Key, dict[str, Any]] = {}
    for name in data_names:
        find_source(name, folder)  # an unknown name is told at once
        for experiment in experiments:
            for key in _keys(experiment, name, scale):
                wanted[_selection_of(key)] = {}
                if not key.protocol.startswith("selection"):
                    wanted[key] = scale.options(key.protocol)
    yield from sorted(wanted.items(), key=lambda item: not item[0].protocol.startswith("sel"))


def _keys(experiment: Experiment, data: str, scale: Scale) -> Iterator[Key]:
    for model in experiment.models:
        if experiment.protocol == "trials":
            for n_shot in _TRIAL_SHOTS:
                yield Key(f"trials-{n_shot}", data, model)
        elif experiment.protocol == "zero-shot" and ZERO_SHOT[model].is_random:
            for seed in range(scale.n_seeds):
                yield Key("zero-shot", data, model, seed)
        else:
            yield Key(experiment.protocol, data, model)


def _selection_of(key: Key) -> Key:
    """Return the run that chooses the parameters of this one."""
    if is_zero_shot(key.model):
        return Key("selection", key.data, key.model)
    n_shot = key.protocol.split("-")[1] if key.protocol.startswith("trials") else None
    return Key(f"selection-{n_shot or _SHOTS_TO_CHOOSE_ON}", key.data, key.model)


def _settings(
    key: Key, options: dict[str, Any], scale: Scale, folder: str | None, records: Records
) -> dict[str, Any]:
    """Return all that the result depends on, so that a record of anything else is not taken."""
    data = _load(key, folder)
    settings = {"data": data.sha256, "zonkey": versions()["zonkey"], **options}
    if key.protocol.startswith("selection"):
        few = {"n_trials": scale.n_selection_trials}
        folds = {"n_folds": scale.n_folds} if is_zero_shot(key.model) else few
        return {**settings, "grid": _grid(key.model, scale), **folds}
    selection = records.read(_selection_of(key))
    return {**settings, "parameters": selection["results"]["chosen"] if selection else None}


def _grid(model: str, scale: Scale) -> Grid:
    grid = ZERO_SHOT[model].grid if is_zero_shot(model) else FEW_SHOT[model].grid
    return thinned(grid) if scale.quick else grid


def _execute_all(jobs: list[Job], n_jobs: int) -> Iterator[tuple[Job, dict[str, Any]]]:
    if n_jobs == 1 or len(jobs) < 2:
        for job in jobs:
            yield job, _execute(job)
        return
    tasks = (delayed(_numbered)(i, job) for i, job in enumerate(jobs))
    found: Any = Parallel(n_jobs=n_jobs, return_as="generator_unordered")(tasks)
    for i, content in found:
        yield jobs[i], content


def _numbered(number: int, job: Job) -> tuple[int, dict[str, Any]]:
    return number, _execute(job)


def _execute(job: Job) -> dict[str, Any]:
    """Do one run; return results, time and memory."""
    data = _load(job.key, job.folder)
    start = time.perf_counter()
    if job.key.protocol.startswith("selection"):
        results = _select(job, data)
    else:
        protocol, options = job.key.protocol, job.options
        if protocol.startswith("trials-"):
            protocol, n_shot = protocol.split("-")
            options = {**options, "n_shot": int(n_shot)}
        measure, parameters = PROTOCOLS[protocol], job.settings["parameters"]
        results = measure(data, job.key.model, parameters, job.key.seed, **options)
    return {
        "data": data.record(),
        "results": results,
        "seconds": round(time.perf_counter() - start, 3),
        "peak_memory_mb": _peak_memory_mb(),
    }


def _select(job: Job, data: Dataset) -> dict[str, Any]:
    grid = job.settings["grid"]
    if is_zero_shot(job.key.model):
        model = ZERO_SHOT[job.key.model]
        return select_zero_shot(model, data, grid=grid, n_folds=job.settings["n_folds"])
    validation = _load_validation(job.key.data, job.folder)
    return select_few_shot(
        FEW_SHOT[job.key.model],
        validation,
        data,
        grid=grid,
        n_shot=int(job.key.protocol.split("-")[1]),
        n_trials=job.settings["n_trials"],
    )


def _load(key: Key, folder: str | None) -> Dataset:
    return _load_data(key.data, folder, is_zero_shot(key.model))


@lru_cache(maxsize=4)
def _load_data(name: str, folder: str | None, zero_shot: bool) -> Dataset:
    source = find_source(name, folder)
    return source.load() if zero_shot else source.load_shots()


@lru_cache(maxsize=2)
def _load_validation(name: str, folder: str | None) -> Dataset:
    return find_source(name, folder).load_validation()


def _peak_memory_mb() -> float | None:
    """Return the most memory that the process of this run has held so far, where it can tell."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1 << 20 if sys.platform == "darwin" else 1 << 10), 1)
