"""`zonkey bench`: the paper's experiments, run where they have not been run yet."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from ..bench import EXPERIMENTS, FULL, QUICK, Experiment, Records, available, run_experiments
from ..bench.runner import Progress
from ..datasets import DataError
from .errors import one_line_errors

_ALL = "all"
_HEADLINES = ("zsl", "hm", "hit@1")  # which figure a line of the table shows


def bench(
    name: Annotated[
        str, typer.Argument(help=f"One of: {', '.join(EXPERIMENTS)}; or {_ALL}.", metavar="NAME")
    ],
    data: Annotated[
        list[str] | None,
        typer.Option(help="Data set; may be given several times. Otherwise all that are there."),
    ] = None,
    runs: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the records; otherwise runs, or runs-quick.", show_default=False
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few seeds, folds and trials: a look, not a figure.")
    ] = False,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Seeds of models with random synthesis.")
    ] = None,
    trials: Annotated[int | None, typer.Option(min=2, help="Few-shot trials.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Runs at a time.")] = 1,
    folder: Annotated[
        Path | None, typer.Option(help="Where data sets lie; otherwise $ZONKEY_DATA or the cache.")
    ] = None,
) -> None:
    """Run an experiment of the paper; finished runs are kept, and a later call goes on."""
    place = None if folder is None else str(folder)
    runs = runs or Path("runs-quick" if quick else "runs")  # a quick look replaces no figures
    with one_line_errors("finished runs are kept, the same command goes on"):
        experiments = _experiments(name)
        names = data or list(available(place))
        changed = {"n_seeds": seeds, "n_trials": trials}
        given = {key: value for key, value in changed.items() if value is not None}
        scale = replace(QUICK if quick else FULL, **given)
        steps = run_experiments(
            experiments,
            names,
            Records(runs),
            scale,
            folder=place,
            n_jobs=jobs,
            command=_command(name, names, quick, seeds=seeds, trials=trials, folder=place),
        )
        n_done, failures = _watch(steps, Console(stderr=True))
    for failure in failures:
        typer.echo(failure, err=True)
    typer.echo(f"{n_done} new runs in {runs}; `zonkey report --runs {runs}` makes a page of them.")
    if failures:
        raise typer.Exit(1)


def _experiments(name: str) -> list[Experiment]:
    if name == _ALL:
        return list(EXPERIMENTS.values())
    if name not in EXPERIMENTS:
        near = get_close_matches(name, EXPERIMENTS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise DataError(
            f"NAME must be one of {', '.join(EXPERIMENTS)} or {_ALL}; got {name!r}.{hint}"
        )
    return [EXPERIMENTS[name]]


def _command(name: str, data: list[str], quick: bool, **options: Any) -> str:
    """Return what was asked for, as it would be typed."""
    words = ["zonkey", "bench", name]
    for entry in data:
        words += ["--data", entry]
    for key, value in options.items():
        if value is not None:
            words += [f"--{key}", str(value)]
    return shlex.join([*words, *(["--quick"] if quick else [])])


def _watch(steps: Iterator[Progress], console: Console) -> tuple[int, list[str]]:
    """Show a table of what is done, and how long the rest may take; return runs and failures."""
    rows: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    failures: list[str] = []
    n_done = 0
    with Live("Reading data, choosing parameters", console=console, refresh_per_second=4) as live:
        for step in steps:
            key = (step.key.protocol, step.key.data, step.key.model)
            if step.record is None:
                failures.append(f"{', '.join(key)} failed: {step.error}")
                continue
            n_done += 1
            rows.setdefault(key, []).append(step.record)
            live.update(_table(rows, step, n_done))
    return n_done, failures


def _table(
    rows: dict[tuple[str, str, str], list[dict[str, Any]]], step: Progress, n_done: int
) -> Table:
    left = step.total - step.done
    rest = step.seconds / n_done * left
    title = f"{step.done} of {step.total} runs, about {rest / 60:.1f} min left"
    table = Table("protocol", "data", "model", title=title)
    for heading in ("runs", "result (%)", "s a run"):
        table.add_column(heading, justify="right")
    for (protocol, data, model), records in rows.items():
        seconds = sum(record["seconds"] for record in records) / len(records)
        shown = [protocol, data, model, str(len(records)), _headline(records), f"{seconds:.1f}"]
        table.add_row(*shown)
    return table


def _headline(records: list[dict[str, Any]]) -> str:
    """Return the first figure that the results have, as a mean over runs."""
    for name in _HEADLINES:
        values = [record["results"].get(name) for record in records]
        numbers = [value for value in values if isinstance(value, float)]
        if numbers:
            return f"{100 * sum(numbers) / len(numbers):.1f}"
    return "-"
