"""Compare systems on data: the function behind `zonkey compare`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from zonkey.files.dataset import Dataset
from zonkey.optional import torch_device

from ..paper.bench.sources import validation_view
from ..paper.records import Records
from .board import Board, make_boards
from .budget import Clock, fit_points
from .running import Plan, Task, TaskOutcome, estimate_task, run_tasks
from .systems import SHOTS, ZERO, find_systems

Watch = Callable[[TaskOutcome, int, int], object]


@dataclass(frozen=True, eq=False)
class Leaderboards:
    """Leaderboards, and what they are of; the plan has the number of points that was used."""

    boards: list[Board]
    outcomes: list[TaskOutcome]
    datas: list[Dataset]
    plan: Plan


def compare(
    datas: Sequence[Dataset],
    plan: Plan,
    *,
    models: Sequence[str] | None = None,
    validation: Dataset | None = None,
    n_jobs: int = 1,
    budget: float | None = None,
    watch: Watch = lambda *_: None,
) -> Leaderboards:
    """Run the systems that have no records, and return the leaderboards.

    Parameters
    ----------
    datas : sequence of Dataset
        The data, once for each split.
    plan : Plan
        What the results depend on, and the folder of the records.
    models : sequence of str, default=None
        Names of systems and of groups; None: the usual ones.
    validation : Dataset, default=None
        Data whose novel classes are those to choose few-shot parameters on; None: the validation
        classes of each split.
    n_jobs : int, default=1
        Systems at a time, in processes.
    budget : float, default=None
        Seconds for everything; None: as long as it takes.
    watch : callable, default=None
        Called with each outcome, the number of outcomes so far, and of all.
    """
    systems = find_systems(models, SHOTS if plan.shots else ZERO)
    if plan.device is not None:
        plan = replace(plan, device=torch_device(plan.device))
    Records(plan.runs).require_writable()
    able = [one for one in systems if one.reason_against(datas[0]) is None]
    if budget is not None:
        sizes = {"n_points": plan.n_points, "n_folds": plan.n_folds, "n_seeds": plan.n_seeds}
        seconds = budget * n_jobs / max(1, len(plan.shots))
        plan = replace(plan, n_points=fit_points(able, datas, seconds=seconds, **sizes))
    views: list[Dataset | None] = [None for _ in datas]
    if plan.shots:
        views = [validation or validation_view(data) for data in datas]
    tasks = [
        estimate_task(Task(system, data, split, plan, views[split]))
        for system in systems
        for split, data in enumerate(datas)
    ]
    outcomes: list[TaskOutcome] = []
    for outcome in run_tasks(tasks, n_jobs=n_jobs, clock=Clock(budget)):
        outcomes.append(outcome)
        watch(outcome, len(outcomes), len(tasks))
    return Leaderboards(make_boards(outcomes, plan.shots), outcomes, list(datas), plan)
