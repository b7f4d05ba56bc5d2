"""Run experiments: choose parameters, measure, write one record per run, resume."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from joblib import parallel_config

from zonkey.environment import environment, versions
from zonkey.files.dataset import Dataset
from zonkey.optional import require_package, torch_device

from ..experiments import (
    Experiment,
    Scale,
    is_selection,
    is_zero_shot,
    runs_of,
    selection_of,
    selections_by_shots,
    shots_of,
    start_of,
    zero_selection_of,
)
from ..records import Key, Record, Records, is_unfinished, problem_of
from . import protocols
from .models import (
    DEVICE,
    FEW_SHOT,
    ZERO_SHOT,
    as_dicts,
    model_of,
    sample_grid,
    sensitivity_grid,
)
from .schedule import Queue, Rank, Waiting
from .selection import most_shots, select_few_shot, select_zero_shot
from .sources import NoValidationClasses, find_source
from .walk import Point, SearchOptions

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
    device: str | None
    records: Records
    about: dict[str, Any]  # of the record
    earlier: Record | None = None  # of a selection that shares points


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

    Experiments share runs, and selections share scored points with their earlier records. A run
    starts as soon as its parameters are chosen; runtimes are measured last, one at a time. A run
    that fails yields its error, and the others continue. Models that can use a device, and few-shot
    trials, run on `device`. None: trials run on the host, and models on the device they choose.
    """
    device = None if device is None else torch_device(device)
    about = {"command": command, "quick": scale.quick}
    blank = Job(Key("", "", ""), {}, folder, device, records, about)
    bench = _plan(experiments, data_names, scale, blank)  # fails early, as the device
    records.require_writable()
    yield from bench.run(n_jobs)


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
    blank = Job(Key("", "", ""), {}, folder, None, records, {"quick": scale.quick})
    return _plan(experiments, data_names, scale, blank).list_pending()


def _plan(
    experiments: Iterable[Experiment], data_names: Iterable[str], scale: Scale, blank: Job
) -> _Bench:
    experiments, folder = list(experiments), blank.folder
    names = [find_source(name, folder).name for name in data_names]
    scales = {name: _limit_shots(scale, experiments, name, folder) for name in names}
    needed = {
        key: others
        for name in names
        for key, others in runs_of(experiments, name, scales[name]).items()
    }
    return _Bench(needed, scales, blank)


def _limit_shots(
    scale: Scale, experiments: list[Experiment], name: str, folder: str | None
) -> Scale:
    """Return a scale with no more shots than the classes of a data set can give."""
    tasks = {protocol for experiment in experiments for protocol in experiment.protocols}
    if not tasks & {"all-classes", "runtime"}:
        return scale
    can_give = most_shots(_load_data(name, folder, False))
    return replace(scale, most_shots=max(1, min(scale.most_shots, can_give)))


class _Bench:
    """The runs of a call: which are done, which are ready, and which wait for others."""

    def __init__(
        self, needed: dict[Key, tuple[Key, ...]], scales: dict[str, Scale], blank: Job
    ) -> None:
        self._needed, self._scales, self._blank = needed, scales, blank
        self._waiting = Waiting(needed)
        self._awaited = {other for others in needed.values() for other in others}
        self._total, self._done, self._start = len(needed), 0, time.perf_counter()
        self._failed: set[Key] = set()
        n_alone = sum(map(_runs_alone, needed))
        self._queues: dict[bool, Queue[Job]] = {
            True: Queue(n_alone), False: Queue(self._total - n_alone)
        }  # fmt: skip

    def run(self, n_jobs: int) -> Iterator[Progress]:
        """Do the runs that no record has."""
        yield from self._release(self._waiting.start())
        shared, alone = self._queues[False], self._queues[True]
        while len(shared):
            if n_jobs > 1 and len(shared) > 1:
                for job, content in shared.run(_execute, n_jobs):
                    yield from self._record(job, content)
                continue
            with parallel_config("loky", n_jobs=n_jobs):  # the points of its search share them
                outcome = _execute(_next_job(shared))
            yield from self._record(*outcome)
        while len(alone):
            yield from self._record(*_execute(_next_job(alone)))

    def list_pending(self) -> tuple[list[tuple[Key, Dataset]], int]:
        """Return the runs that no record has with their data, and the number of the others."""
        records, found = self._blank.records, []
        for key in self._needed:
            settings = self._settings(key) if records.read(key) else None
            if settings is None or records.find(key, settings) is None:
                found.append((key, _load(key, self._blank.folder)))
        return found, len(self._needed) - len(found)

    def _record(self, job: Job, content: dict[str, Any]) -> Iterator[Progress]:
        """Write the record of a run, and release those that waited for it."""
        error, record = content.get("error"), None
        if error is None:
            record = job.records.write(job.key, job.settings, **job.about, **content)
        else:
            self._failed.add(job.key)
        yield self._count(job.key, record, error)
        yield from self._release(self._waiting.finish(job.key))

    def _release(self, keys: list[Key]) -> Iterator[Progress]:
        """Queue the runs that have no record yet; those of the others are ready next."""
        while keys:
            key, *keys = keys
            queue = self._queues[_runs_alone(key)]
            settings = self._settings(key)
            found = None if settings is None else self._blank.records.find(key, settings)
            if settings is not None and found is None:
                queue.push(self._job(key, settings), self._rank(key))
                continue
            queue.expect_less()
            if found is None:
                self._failed.add(key)
                yield self._count(key, None, "no parameters were chosen for it")
            else:
                self._done += 1
                if not self._blank.about["quick"]:
                    self._blank.records.keep_for_citing(key, found, self._blank.about["command"])
            keys += self._waiting.finish(key)

    def _count(self, key: Key, record: Record | None, error: str | None) -> Progress:
        self._done += 1
        seconds = time.perf_counter() - self._start
        return Progress(key, record, self._done, self._total, seconds, error)

    def _job(self, key: Key, settings: dict[str, Any]) -> Job:
        earlier = self._blank.records.find_points(key, settings) if is_selection(key) else None
        return replace(self._blank, key=key, settings=settings, earlier=earlier)

    def _rank(self, key: Key) -> Rank:
        """Expect the seconds of an earlier record, whatever its settings."""
        seconds = (self._blank.records.read(key) or {}).get("seconds", np.inf)
        return Rank(key in self._awaited, seconds)

    def _settings(self, key: Key) -> dict[str, Any] | None:
        """Return everything the result depends on; None if parameters could not be chosen.

        A record with other settings is not reused.
        """
        scale, folder = self._scales[key.data], self._blank.folder
        settings = {
            "data": _load(key, folder).sha256,
            **model_of(key).record(),
            "zonkey": versions()["zonkey"],
            "protocol_version": PROTOCOL_VERSION
            if is_zero_shot(key.protocol)
            else FEW_SHOT_VERSION,
            **scale.options(key.protocol),
        }
        if is_selection(key):
            settings |= _settings_of_selection(key, scale, folder)
            start = start_of(key)
            if start is None:
                return settings
            chosen = self._read_choice(start)
            return (
                None if chosen is None else {**settings, "start": chosen, "start_of": start.model}
            )
        zero = zero_selection_of(key)
        if zero is not None:
            settings["zero_parameters"] = self._read_choice(zero)
        if key.protocol == "all-classes":
            keys = selections_by_shots(key, scale.most_shots)
            by_shots = {n_shot: self._read_choice(choice) for n_shot, choice in keys.items()}
            is_whole = None not in by_shots.values()
            return {**settings, "parameters_by_shots": by_shots} if is_whole else None
        choice = selection_of(key, scale.most_shots)
        parameters = self._read_choice(choice)
        if key.protocol == "zero-shot":
            penalty = self._results(choice).get("seen_penalty")
            settings |= {} if penalty is None else {"seen_penalty": penalty}
        return None if parameters is None else {**settings, "parameters": parameters}

    def _read_choice(self, key: Key) -> dict[str, Any] | None:
        return None if key in self._failed else self._results(key).get("chosen")

    def _results(self, key: Key) -> dict[str, Any]:
        """Return the results of a selection; none while another process still searches."""
        record = self._blank.records.read(key)
        if record is None or problem_of(record) or is_unfinished(record):
            return {}
        return record["results"]


def _runs_alone(key: Key) -> bool:
    """Whether other processes must not disturb a run: its seconds are the result."""
    return key.protocol == "runtime"


def _next_job(queue: Queue[Job]) -> Job:
    job = queue.pop()
    assert job is not None
    return job


def _settings_of_selection(key: Key, scale: Scale, folder: str | None) -> dict[str, Any]:
    if key.protocol == "sensitivity":
        return {"grid": sensitivity_grid(quick=scale.quick), "n_folds": scale.n_folds}
    model = model_of(key)
    grid = sample_grid(model.grid, scale.n_points)
    settings: dict[str, Any] = {"grid": grid}
    if as_dicts(grid) and getattr(model, "walks", True):
        settings["n_points_more"] = scale.n_points_more
    if is_zero_shot(key.protocol):
        return {**settings, "n_folds": scale.n_folds}
    trials = None if key.protocol.startswith("selection-all") else scale.n_selection_trials
    validation = _load_validation(key.data, folder)
    known = None if validation is None else validation.sha256
    return {**settings, "n_trials": trials, "validation": known}


def _execute(job: Job) -> tuple[Job, dict[str, Any]]:
    """Do one run; return it with results, time and memory, or with an error."""

    def work() -> dict[str, Any]:
        data = _load(job.key, job.folder)
        start = time.perf_counter()
        results = _select(job, data, start) if is_selection(job.key) else _measure(job, data)
        return _content(job, data, results, start)

    return job, catch_errors(work, job.device)


def catch_errors(work: Callable[[], dict[str, Any]], device: str | None) -> dict[str, Any]:
    """Return the content of the record of a run on a device, or its error."""
    reset_peak_memory()
    on_device = DEVICE.set(device)
    try:
        return work()
    # Errors of the data, of a model that does not suit them, or of a missing package.
    except (ValueError, ImportError) as error:
        return {"error": str(error)}
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "out of memory" not in str(error):  # torch's
            raise
        return {"error": f"out of memory: {error}"}
    finally:
        DEVICE.reset(on_device)


def _content(job: Job, data: Dataset, results: dict[str, Any], start: float) -> dict[str, Any]:
    """Return what a record says of a run that started at `start`, and of the machine."""
    before = 0.0 if job.earlier is None else job.earlier["seconds"]
    return {
        "data": data.record(),
        "results": results,
        "seconds": round(before + time.perf_counter() - start, 3),
        "peak_memory_mb": peak_memory_mb(),
        **_environment(job),
    }


def _environment(job: Job) -> dict[str, Any]:
    """Return versions and machine, with torch and the GPU if the run used them."""
    model = model_of(job.key)
    takes_arrays = not is_zero_shot(job.key.protocol) and model.preset != "raw"
    uses_torch = model.uses_torch or bool(job.device and takes_arrays)
    return describe_machine(job.device, uses_torch=uses_torch)


def describe_machine(device: str | None, *, uses_torch: bool) -> dict[str, Any]:
    """Return versions and machine, with torch and the GPU if torch is used."""
    found = environment()
    if not uses_torch:
        return found
    torch = require_package("torch", "The version of a run")
    found["versions"]["torch"] = version("torch")
    if "cuda" in (device or "cuda") and torch.cuda.is_available():
        found["machine"]["gpu"] = torch.cuda.get_device_name()
    return found


def _measure(job: Job, data: Dataset) -> dict[str, Any]:
    options = _pick_settings(job.settings, *_OPTIONS)
    protocol, shots = job.key.protocol, shots_of(job.key.protocol)
    if shots is not None:
        protocol, options["n_shot"] = protocol.removesuffix(f"-{shots}"), shots
    by_shots = protocol == "all-classes"
    parameters = job.settings["parameters_by_shots" if by_shots else "parameters"]
    return PROTOCOLS[protocol](data, job.key.model, parameters, job.key.seed, **options)


def _select(job: Job, data: Dataset, start: float) -> dict[str, Any]:
    settings, model = job.settings, job.key.model
    search: SearchOptions = {
        "n_points_more": settings.get("n_points_more", 0),
        "earlier": [] if job.earlier is None else job.earlier["results"]["points"],
        "save": lambda points: _save_points(job, data, points, start),
    }
    if is_zero_shot(job.key.protocol):
        options = _pick_settings(settings, "grid", "n_folds", "start")
        calibrates = job.key.protocol == "selection" and settings.get("calibrates", False)
        options["calibrates"] = calibrates and len(data.split.test_seen) > 0
        return select_zero_shot(ZERO_SHOT[model], data, **options, **search)
    return select_few_shot(
        FEW_SHOT[model],
        _load_validation(job.key.data, job.folder),
        data,
        n_shot=int(job.key.protocol.rpartition("-")[2]),
        **_pick_settings(settings, "grid", "n_trials"),
        **search,
    )


def _save_points(job: Job, data: Dataset, points: list[Point], start: float) -> None:
    """Write the points scored so far: an interrupted selection continues with them."""
    best = max(points, key=lambda point: float(np.mean(point["scores"])))
    chosen = {**job.settings.get("start", {}), **best["parameters"]}
    content = _content(job, data, {"chosen": chosen, "points": points}, start)
    job.records.write_points(job.key, job.settings, **job.about, **content)


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
