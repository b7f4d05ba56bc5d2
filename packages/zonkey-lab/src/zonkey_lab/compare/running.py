"""Run a comparison: a record per run, in processes, within a budget; resume if interrupted."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed

from zonkey.environment import versions
from zonkey.errors import StorageError
from zonkey.files.dataset import Dataset
from zonkey.persistence.model import model_info

from ..paper.bench.models import sample_grid
from ..paper.bench.runner import catch_errors, describe_machine, peak_memory_mb
from ..paper.bench.walk import Point, SearchOptions
from ..paper.records import Key, Record, Records, slug
from .budget import Clock, OverBudgetError, estimate_seconds, limit_time
from .measuring import (
    choose_for_shots,
    choose_parameters,
    measure_shots,
    measure_system,
    save_system,
)
from .systems import ZERO, System

# Raise it if a measurement here measures something else.
VERSION = 1
DONE, FAILED, NOT_RUN = "done", "failed", "not run"
NEVER_SAVED = ("logistic regression",)  # of scikit-learn: model files hold those of zonkey


@dataclass(frozen=True)
class Plan:
    """Everything that the results of a comparison depend on, except systems and data."""

    n_points: int = 12
    n_folds: int = 3
    n_seeds: int = 3
    shots: tuple[int, ...] = ()
    n_way: int | None = None  # None: all held-out classes at once
    n_draws: int = 10
    runs: Path = Path("compare-runs")
    device: str | None = None
    save: Path | None = None
    facts: dict[str, Any] = field(default_factory=dict)  # for model files
    command: str = ""


@dataclass(frozen=True, eq=False)
class Task:
    """A system on one split of the data."""

    system: System
    data: Dataset
    split: int
    plan: Plan
    validation: Dataset | None = None  # to choose few-shot parameters on
    estimate: float = 0.0  # seconds
    deadline: float | None = None  # by `time.time`


@dataclass(frozen=True)
class TaskOutcome:
    """What became of a task: records of its choice and its measurements by seed, or why not."""

    system: System
    split: int
    status: str
    seconds: float = 0.0
    reason: str = ""
    choices: dict[int, Record] = field(default_factory=dict)  # by number of shots; 0: zero-shot
    records: dict[int, list[Record]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Step:
    """One run, which has a record."""

    key: Key
    settings: dict[str, Any]
    work: Callable[..., dict[str, Any]]  # of the data; a choice also takes options of `search`
    is_choice: bool = False


class _FailedError(Exception):
    """A run has failed for a reason that the data, the system or a package gives."""


def run_tasks(tasks: Sequence[Task], *, n_jobs: int, clock: Clock) -> Iterator[TaskOutcome]:
    """Yield the outcome of each task, cheap ones first if time is limited, else last."""
    waiting: list[Task] = []
    for task in tasks:
        reason = task.system.reason_against(task.data)
        if reason is not None:
            yield TaskOutcome(task.system, task.split, NOT_RUN, reason=reason)
            continue
        found = _read_outcome(task)
        if found is None:
            waiting.append(task)
        else:
            yield found
    waiting.sort(key=lambda task: task.estimate, reverse=clock.seconds is None and n_jobs > 1)
    refused: list[TaskOutcome] = []

    def admit() -> Iterator[Task]:
        for task in waiting:
            if clock.has_time_for(task.system, task.estimate):
                yield replace(task, deadline=clock.deadline)
            else:
                expected = clock.correct(task.system, task.estimate)
                refused.append(_refuse(task, expected))

    of = {(task.system, task.split): task for task in waiting}
    for outcome in _map(admit(), n_jobs):
        task = of[outcome.system, outcome.split]
        if outcome.status == DONE:
            clock.learn(outcome.system, task.estimate, outcome.seconds)
        yield outcome
    yield from refused


def _map(tasks: Iterator[Task], n_jobs: int) -> Iterator[TaskOutcome]:
    if n_jobs == 1:
        return map(run_task, tasks)
    # A task is admitted when a process is free for it.
    options: Any = {"return_as": "generator_unordered", "pre_dispatch": "n_jobs", "batch_size": 1}
    found: Any = Parallel(n_jobs=n_jobs, **options)
    return found(delayed(run_task)(task) for task in tasks)


def _refuse(task: Task, expected: float) -> TaskOutcome:
    reason = f"no time left for it: about {format_seconds(expected)} on one core"
    return TaskOutcome(task.system, task.split, NOT_RUN, reason=reason)


def run_task(task: Task) -> TaskOutcome:
    """Choose parameters and measure a system on one split; a failure is an outcome too."""
    if task.deadline is not None and time.time() >= task.deadline:  # it has waited for a process
        return _refuse(task, task.estimate)
    start = time.perf_counter()

    def end(status: str, **content: Any) -> TaskOutcome:
        seconds = time.perf_counter() - start
        return TaskOutcome(task.system, task.split, status, seconds, **content)

    try:
        with limit_time(task.deadline):
            choices, records = _run_steps(task)
        return end(DONE, choices=choices, records=records)
    except OverBudgetError:
        taken = format_seconds(time.perf_counter() - start)
        return end(NOT_RUN, reason=f"ended after {taken}, when the budget was used up")
    except _FailedError as error:
        return end(FAILED, reason=str(error))
    # One system must not end the comparison of all others, whatever is wrong with it.
    except Exception as error:
        return end(FAILED, reason=f"{type(error).__name__}: {error}")


def _run_steps(task: Task) -> tuple[dict[int, Record], dict[int, list[Record]]]:
    plan, system = task.plan, task.system
    choices, records = {}, {}
    for n_shot in plan.shots or (0,):
        choices[n_shot] = _find_or_run(task, _make_choice(task, n_shot))
        chosen = choices[n_shot]["results"]
        steps = _make_measurements(task, n_shot, chosen)
        records[n_shot] = [_find_or_run(task, step) for step in steps]
        path = saved_path(plan, system, task.split)
        if n_shot == 0 and path is not None and not _is_saved(path, steps[0].settings):
            _save(task, path, chosen, steps[0].settings)
    return choices, records


def _is_saved(path: Path, settings: dict[str, Any]) -> bool:
    """Whether a model file is that of this measurement, not of other data or parameters."""
    if not path.exists():
        return False
    try:
        made = model_info(path).get("training", {}).get("measured")
    except (StorageError, OSError):
        return False
    return made == json.loads(json.dumps(settings))


def _save(task: Task, path: Path, chosen: dict[str, Any], settings: dict[str, Any]) -> None:
    """Write a model file, of a fit on the device of the measurement."""

    def work() -> dict[str, Any]:
        facts = {**task.plan.facts, "measured": settings}
        options = {"seen_penalty": chosen.get("seen_penalty"), "facts": facts}
        save_system(path, task.system, task.data, chosen["chosen"], **options)
        return {}

    found = catch_errors(work, task.plan.device)
    if "error" in found:
        raise _FailedError(f"measured, but not saved: {found['error']}")


def _read_outcome(task: Task) -> TaskOutcome | None:
    """Return the outcome of a task whose runs all have records; None if one has not."""
    records = Records(task.plan.runs)
    path = saved_path(task.plan, task.system, task.split)
    choices, found = {}, {}
    for n_shot in task.plan.shots or (0,):
        step = _make_choice(task, n_shot)
        choice = records.find(step.key, step.settings)
        if choice is None:
            return None
        steps = _make_measurements(task, n_shot, choice["results"])
        known = [records.find(step.key, step.settings) for step in steps]
        whole = [record for record in known if record is not None]
        if len(whole) < len(known) or (path and not _is_saved(path, steps[0].settings)):
            return None
        choices[n_shot], found[n_shot] = choice, whole
    return TaskOutcome(task.system, task.split, DONE, 0.0, choices=choices, records=found)


def _find_or_run(task: Task, step: _Step) -> Record:
    """Return the record of a run; a choice continues with the points that were scored before."""
    records, plan = Records(task.plan.runs), task.plan
    found = records.find(step.key, step.settings)
    if found is not None:
        return found
    earlier = records.find_points(step.key, step.settings) if step.is_choice else None
    start = time.perf_counter() - (0.0 if earlier is None else earlier["seconds"])

    def describe(results: dict[str, Any]) -> dict[str, Any]:
        return {
            "data": task.data.record(),
            "results": results,
            "seconds": round(time.perf_counter() - start, 3),
            "peak_memory_mb": peak_memory_mb(),
            "command": plan.command,
            **describe_machine(plan.device, uses_torch=task.system.uses_torch),
        }

    def save_points(points: list[Point]) -> None:
        content = describe({"chosen": {}, "points": points})
        records.write_points(step.key, step.settings, **content)

    def work() -> dict[str, Any]:
        search: SearchOptions = {}
        if step.is_choice:
            known = [] if earlier is None else earlier["results"]["points"]
            search = {"n_points_more": plan.n_points, "earlier": known, "save": save_points}
        return describe(step.work(task.data, **search))

    content = catch_errors(work, plan.device)
    if "error" in content:
        raise _FailedError(content["error"])
    return records.write(step.key, step.settings, **content)


def _settings(task: Task) -> dict[str, Any]:
    spec = task.system.spec
    about = {"preset": "raw"} if spec is None else spec.record()
    known = {"data": task.data.sha256, "zonkey": versions()["zonkey"], "version": VERSION}
    return {**about, **known}


def _key(task: Task, protocol: str, seed: int = 0) -> Key:
    """Return the identity of a run; data of one name may differ, as splits do."""
    data = f"{task.data.name}-{task.data.sha256[:8]}"
    return Key(protocol, data, task.system.name, seed)


def _make_choice(task: Task, n_shot: int) -> _Step:
    """Return the run that chooses parameters."""
    plan, system = task.plan, task.system
    grid = sample_grid(getattr(system.spec, "grid", {}), plan.n_points)
    # As many points again beyond the grid: the same for all systems.
    settings = {**_settings(task), "grid": grid, "n_points_more": plan.n_points}
    if system.task == ZERO:
        n_folds = min(plan.n_folds, len(task.data.seen_classes) // 2)
        return _Step(
            _key(task, "selection"),
            {**settings, "n_folds": n_folds},
            partial(choose_parameters, system, grid=grid, n_folds=n_folds),
            is_choice=True,
        )
    if system.chooses_itself:  # the same for any number of shots
        n_shot = 1
    in_trials, validation = plan.n_way is not None, task.validation
    known = None if validation is None else validation.sha256
    protocol = f"selection-{n_shot}{'' if in_trials else '-all'}"
    options: dict[str, Any] = {"n_shot": n_shot, "in_trials": in_trials}
    return _Step(
        _key(task, protocol),
        {**settings, **options, "validation": known},
        partial(choose_for_shots, system, validation=validation, grid=grid, **options),
        is_choice=True,
    )


def _make_measurements(task: Task, n_shot: int, chosen: dict[str, Any]) -> list[_Step]:
    """Return the runs that measure, one for each seed."""
    plan, system, parameters = task.plan, task.system, chosen["chosen"]
    n_seeds = plan.n_seeds if system.is_random else 1
    settings = {**_settings(task), "parameters": parameters}
    if system.task != ZERO:
        ways = "" if plan.n_way is None else f"-of-{plan.n_way}"
        sizes = {"n_shot": n_shot, "n_draws": plan.n_draws, "n_way": plan.n_way}

        def make_draws(seed: int) -> _Step:
            options: dict[str, Any] = {**sizes, "seed": seed}
            return _Step(
                _key(task, f"compare-{n_shot}{ways}", seed),
                {**settings, **options},
                partial(measure_shots, system, parameters=parameters, **options),
            )

        return [make_draws(seed) for seed in range(n_seeds)]
    penalty = chosen.get("seen_penalty")

    def make(seed: int) -> _Step:
        options: dict[str, Any] = {"seen_penalty": penalty, "seed": seed}
        return _Step(
            _key(task, "compare", seed),
            {**settings, **options},
            partial(measure_system, system, parameters=parameters, **options),
        )

    return [make(seed) for seed in range(n_seeds)]


def saved_path(plan: Plan, system: System, split: int) -> Path | None:
    """Return the model file of a system on the first split; None if none is wanted or can be."""
    if plan.save is None or split or system.task != ZERO or system.name in NEVER_SAVED:
        return None
    return plan.save / f"{slug(system.name)}.zonkey"


def format_seconds(seconds: float) -> str:
    """Return a time as text."""
    if seconds < 100:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def estimate_task(task: Task) -> Task:
    """Return a task with its estimate."""
    plan = task.plan
    options = {"n_points": plan.n_points, "n_folds": plan.n_folds, "n_seeds": plan.n_seeds}
    times = max(1, len(plan.shots))
    return replace(task, estimate=times * estimate_seconds(task.system, task.data, **options))
