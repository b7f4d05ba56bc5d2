"""Run experiments: choose parameters, measure, write one record per run, resume."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed, parallel_config

from zonkey.environment import versions
from zonkey.files.dataset import Dataset
from zonkey.optional import torch_device

from ..experiments import (
    Experiment,
    Scale,
    is_selection,
    is_zero_shot,
    selection_of,
    shots_of,
    stages_of_runs,
    start_of,
    zero_selection_of,
)
from ..records import Key, Records
from . import protocols
from .models import DEVICE, FEW_SHOT, ZERO_SHOT, Grid, as_dicts, model_of, sample_grid
from .selection import select_few_shot, select_zero_shot
from .sources import NoValidationClasses, find_source

PROTOCOLS: dict[str, Callable[..., dict[str, Any]]] = {
    "zero-shot": protocols.measure_zero_shot,
    "map": protocols.measure_map,
    "convergence": protocols.measure_convergence,
    "trials": protocols.measure_trials,
    "unlabeled": protocols.measure_unlabeled,
    "unlabeled-trials": protocols.measure_unlabeled_trials,
    "all-classes": protocols.measure_all_classes,
    "runtime": protocols.measure_runtime,
}
# Raise one if a protocol of zero-shot or of few-shot models measures something else.
PROTOCOL_VERSION, FEW_SHOT_VERSION = 3, 4
SHOTS_TO_CHOOSE_ON = 5  # with all classes at once, for any number of shots
_OPTIONS = (
    "n_trials", "most_shots", "n_repeats", "n_timings", "n_classes", "quick", "zero_parameters",
    "seen_penalty",
)  # fmt: skip
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Job:
    """A run to do; `settings` is everything its result depends on, except the machine."""

    key: Key
    settings: dict[str, Any]
    folder: str | None
    device: str | None = None


@dataclass(frozen=True)
class Progress:
    """Outcome of a run: its record, or an error; and how many runs are done."""

    key: Key
    record: dict[str, Any] | None
    done: int
    total: int
    seconds: float
    error: str | None = None


def run_experiments(
    experiments: Iterable[Experiment],
    data_names: Iterable[str],
    records: Records,
    scale: Scale,
    *,
    folder: str | None = None,
    n_jobs: int = 1,
    device: str | None = None,
    command: str = "",
) -> Iterator[Progress]:
    """Do the runs without a record; yield after each, so an interruption loses no finished run.

    Experiments share runs. A run that fails yields its error, and the others continue. Models that
    can use a device, and few-shot trials, run on `device`. None: trials run on the host, and models
    on the device that they choose.
    """
    names = [find_source(name, folder).name for name in data_names]  # fails early, as the device
    device = None if device is None else torch_device(device)
    records.require_writable()
    start = time.perf_counter()
    stages = stages_of_runs(list(experiments), names, scale)
    total, done = sum(map(len, stages)), 0
    for stage in stages:
        jobs = []
        for key in stage:
            settings = _settings(key, scale, folder, records)
            if settings is None:
                done += 1
                error = "no parameters were chosen for it"
                yield Progress(key, None, done, total, time.perf_counter() - start, error)
                continue
            found = records.find(key, settings)
            if found is None:
                jobs.append(Job(key, settings, folder, device))
                continue
            done += 1
            if not scale.quick:
                records.keep_for_citing(key, found, command)
        for job, content in _execute_all(jobs, n_jobs):
            done += 1
            record = None
            if "error" not in content:
                about = {"command": command, "quick": scale.quick}
                record = records.write(job.key, job.settings, **about, **content)
            seconds = time.perf_counter() - start
            yield Progress(job.key, record, done, total, seconds, content.get("error"))


def pending_runs(
    experiments: Iterable[Experiment],
    data_names: Iterable[str],
    records: Records,
    scale: Scale,
    *,
    folder: str | None = None,
) -> tuple[list[tuple[Key, Dataset]], int]:
    """Return the runs to do with their data, and the number of recorded ones.

    Features are read only where there is a record to compare with.
    """
    names = [find_source(name, folder).name for name in data_names]
    keys = [key for stage in stages_of_runs(list(experiments), names, scale) for key in stage]
    found = []
    for key in keys:
        settings = _settings(key, scale, folder, records) if records.read(key) else None
        if settings is None or records.find(key, settings) is None:
            found.append((key, _load(key, folder)))
    return found, len(keys) - len(found)


def _settings(
    key: Key, scale: Scale, folder: str | None, records: Records
) -> dict[str, Any] | None:
    """Return everything the result depends on; None if parameters could not be chosen.

    A record with other settings is not reused.
    """
    settings = {
        "data": _load(key, folder).sha256,
        **model_of(key).record(),
        "zonkey": versions()["zonkey"],
        "protocol_version": PROTOCOL_VERSION if is_zero_shot(key.protocol) else FEW_SHOT_VERSION,
        **scale.options(key.protocol),
    }
    if is_selection(key):
        return _settings_of_selection(key, settings, scale, folder, records)
    choice = selection_of(key)
    parameters = _read_choice(records, choice)
    if key.protocol == "zero-shot":
        penalty = _results(records, choice).get("seen_penalty")
        settings |= {} if penalty is None else {"seen_penalty": penalty}
    zero = zero_selection_of(key)
    if zero is not None:
        settings["zero_parameters"] = _read_choice(records, zero)
    return None if parameters is None else {**settings, "parameters": parameters}


def _settings_of_selection(
    key: Key, settings: dict[str, Any], scale: Scale, folder: str | None, records: Records
) -> dict[str, Any] | None:
    grid = model_of(key).grid
    settings["grid"] = sample_grid(grid, scale.n_points)
    if key.protocol == "sensitivity":
        settings["grid"] = _thin_grid(grid) if scale.quick else grid
    if is_zero_shot(key.protocol):
        settings["n_folds"] = scale.n_folds
        start = start_of(key)
        if start is None:
            return settings
        chosen = _read_choice(records, start)
        return None if chosen is None else {**settings, "start": chosen, "start_of": start.model}
    trials = None if key.protocol.endswith("-all") else scale.n_selection_trials
    validation = _load_validation(key.data, folder)
    known = None if validation is None else validation.sha256
    return {**settings, "n_trials": trials, "validation": known}


def _thin_grid(grid: Grid) -> Grid:
    return [{name: values[::2] for name, values in part.items()} for part in as_dicts(grid)]


def _read_choice(records: Records, key: Key) -> dict[str, Any] | None:
    chosen = _results(records, key).get("chosen")
    return chosen if isinstance(chosen, dict) else None


def _results(records: Records, key: Key) -> dict[str, Any]:
    results = (records.read(key) or {}).get("results")
    return results if isinstance(results, dict) else {}


def _execute_all(jobs: list[Job], n_jobs: int) -> Iterator[tuple[Job, dict[str, Any]]]:
    if len(jobs) == 1:  # the points of its search share the processes
        with parallel_config("loky", n_jobs=n_jobs):
            return iter([_execute(jobs[0])])
    if n_jobs == 1:
        return map(_execute, jobs)
    found: Any = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
    return found(delayed(_execute)(job) for job in jobs)


def _execute(job: Job) -> tuple[Job, dict[str, Any]]:
    """Do one run; return it with results, time and memory, or with an error."""
    reset_peak_memory()
    on_device = DEVICE.set(job.device)
    try:
        data = _load(job.key, job.folder)
        start = time.perf_counter()
        results = _select(job, data) if is_selection(job.key) else _measure(job, data)
    # Errors of the data, of a model that does not suit them, or of a missing package.
    except (ValueError, ImportError) as error:
        return job, {"error": str(error)}
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "out of memory" not in str(error):  # torch's
            raise
        return job, {"error": f"out of memory: {error}"}
    finally:
        DEVICE.reset(on_device)
    return job, {
        "data": data.record(),
        "results": results,
        "seconds": round(time.perf_counter() - start, 3),
        "peak_memory_mb": peak_memory_mb(),
    }


def _measure(job: Job, data: Dataset) -> dict[str, Any]:
    options = _pick_settings(job.settings, *_OPTIONS)
    protocol, shots = job.key.protocol, shots_of(job.key.protocol)
    if shots is not None:
        protocol, options["n_shot"] = protocol.removesuffix(f"-{shots}"), shots
    measure, parameters = PROTOCOLS[protocol], job.settings["parameters"]
    return measure(data, job.key.model, parameters, job.key.seed, **options)


def _select(job: Job, data: Dataset) -> dict[str, Any]:
    settings, model = job.settings, job.key.model
    if is_zero_shot(job.key.protocol):
        options = _pick_settings(settings, "grid", "n_folds", "start")
        calibrates = job.key.protocol == "selection" and settings.get("calibrates", False)
        options["calibrates"] = calibrates and len(data.split.test_seen) > 0
        return select_zero_shot(ZERO_SHOT[model], data, **options)
    task = job.key.protocol.removeprefix("selection-")
    return select_few_shot(
        FEW_SHOT[model],
        _load_validation(job.key.data, job.folder),
        data,
        n_shot=SHOTS_TO_CHOOSE_ON if task == "all" else int(task),
        **_pick_settings(settings, "grid", "n_trials"),
    )


def _pick_settings(settings: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: settings[name] for name in names if name in settings}


def _load(key: Key, folder: str | None) -> Dataset:
    return _load_data(key.data, folder, is_zero_shot(key.protocol))


@lru_cache(maxsize=4)
def _load_data(name: str, folder: str | None, zero_shot: bool) -> Dataset:
    source = find_source(name, folder)
    return source.load() if zero_shot else source.load_shots()


@lru_cache(maxsize=2)
def _load_validation(name: str, folder: str | None) -> Dataset | None:
    """Return the validation data; None if the data set has no validation classes."""
    try:
        return find_source(name, folder).load_validation()
    except NoValidationClasses:
        return None


def reset_peak_memory() -> None:
    """Reset the peak, if the system can."""
    try:
        _CLEAR.write_text("5")
    except OSError:  # not Linux, or not allowed: the peak includes earlier runs
        return


def peak_memory_mb() -> float | None:
    """Return the peak since the last reset in MB; without a reset, since the process started."""
    if _STATUS.exists():
        for line in _STATUS.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return round(int(line.split()[1]) / 1024, 1)
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1 << 20 if sys.platform == "darwin" else 1 << 10), 1)
