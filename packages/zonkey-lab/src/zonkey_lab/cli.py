"""`zonkey methods`, `bench` and `report`: the compared systems and the paper's experiments."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import asdict, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zonkey.app.targets import check_plain, require_writable
from zonkey.cli.errors import one_line_errors
from zonkey.cli.options import JSON
from zonkey.optional import format_install

from .paper.experiments import EXPERIMENTS, FULL, QUICK, Experiment, Scale, require_suitable
from .paper.records import Record, RecordError, Records

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from .paper.bench.estimate import Estimate
    from .paper.bench.runner import Progress
    from .paper.report.blocks import Document, TableBlock

_ALL = "all"
# Options, and the fields of `Scale` that they change.
_FIELDS = {
    "seeds": "n_seeds", "trials": "n_trials", "points": "n_points",
    "more_points": "n_points_more", "map_classes": "map_classes",
}  # fmt: skip
_MOST = 1000  # columns of the widest table
_REMARK = 20  # least width of a column of text
_HEADLINES = ("zsl", "hm", "hit@1")  # the figure that a line of the table shows

RunKey = tuple[str, str, str]


def methods(as_json: Annotated[bool, JSON] = False) -> None:
    """List every system: its setting, what it needs, its publication, and what it does."""
    from .peers import list_methods

    infos = list_methods()
    if as_json:
        typer.echo(json.dumps([{**asdict(info), "cited": info.cited} for info in infos]))
        return
    typer.echo(_method_line("name", "setting", "extra", "publication", "what it does"))
    for info in infos:
        typer.echo(_method_line(info.name, info.setting, info.extra, info.cited, info.summary))
    typer.echo("Import them from zonkey, zonkey_lab.peers.zsl and zonkey_lab.peers.fsl.")
    typer.echo(f"Install an extra by its name:\n{format_install('zonkey', 'NAME')}")


def _method_line(name: str, setting: str, extra: str, cited: str, summary: str) -> str:
    return f"{name:<24}{setting:<25}{extra:<7}{cited:<23}{summary}"


def bench(
    name: Annotated[
        str, typer.Argument(help=f"One of: {', '.join(EXPERIMENTS)}; or {_ALL}.", metavar="NAME")
    ],
    more: Annotated[
        list[str] | None,
        typer.Argument(help="Data sets, as after --data.", metavar="DATA", show_default=False),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            help="Data sets, separated by spaces or commas. All available by default.",
            show_default=False,
        ),
    ] = None,
    runs: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the records; runs or runs-quick by default.", show_default=False
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few seeds, folds and trials: a look, not a figure.")
    ] = False,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Seeds of models that draw random numbers; few-shot ones have three at most.",
        ),
    ] = None,
    trials: Annotated[int | None, typer.Option(min=2, help="Few-shot trials.")] = None,
    points: Annotated[
        int | None, typer.Option(min=1, help="Points of each grid to choose parameters from.")
    ] = None,
    more_points: Annotated[
        int | None,
        typer.Option(min=0, help="Most points next to the best ones, in the grid or beyond it."),
    ] = None,
    map_classes: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="Unseen classes in a map, drawn at random; all by default.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="Model of the experiment to run; repeat it. All by default.", show_default=False
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Runs at a time.")] = 1,
    device: Annotated[
        str | None,
        typer.Option(
            help="Device of models that can use one, and of few-shot trials, such as cuda.",
            show_default=False,
        ),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Folder of data sets; by default $ZONKEY_DATA or the cache.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the estimate of time and memory, and stop.")
    ] = False,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Run an experiment of the paper, and print its table.

    Finished runs are kept, and a later call continues.
    """
    from rich.console import Console

    place = None if folder is None else str(folder)
    runs = runs or Path("runs-quick" if quick else "runs")  # quick runs replace no figures
    with one_line_errors("finished runs are kept; run the same command again to resume"):
        from .paper.bench.runner import run_experiments
        from .paper.bench.sources import find_sources, split_names

        experiments = _select_models(_experiments(name), model)
        names = split_names([*(data or []), *(more or [])]) or list(find_sources(place))
        require_suitable(experiments, names)
        asked = {
            "seeds": seeds,
            "trials": trials,
            "points": points,
            "more_points": more_points,
            "map_classes": map_classes,
        }
        given = {_FIELDS[key]: value for key, value in asked.items() if value is not None}
        scale = replace(QUICK if quick else FULL, **given)
        records = Records(runs)
        rest = {**asked, "model": model, "device": device, "folder": place}
        found = _estimate(experiments, names, records, scale, folder=place, n_jobs=jobs)
        if dry_run:
            _print_estimate(found, as_json)
            return
        records.require_writable()
        typer.echo(found.text(), err=True)
        if found.problem():
            typer.echo(found.problem(), err=True)
        found.require_memory()
        steps = run_experiments(
            experiments,
            names,
            records,
            scale,
            folder=place,
            n_jobs=jobs,
            device=device,
            command=_command(name, names, quick, **rest),
        )
        n_done, failures = _watch(steps, Console(stderr=True))
    for failure in failures:
        typer.echo(failure, err=True)
    if as_json:
        typer.echo(json.dumps({"runs": str(runs), "new": n_done, "failures": failures}))
    else:
        if name != _ALL:
            _print_experiment(experiments[0].name, names, runs, Console())
        page = f"`zonkey report --runs {runs}` makes a page of them"
        typer.echo(f"{n_done} new runs in {runs}; {page}.")
    if failures:
        raise typer.Exit(1)


def _experiments(name: str) -> list[Experiment]:
    if name == _ALL:
        return list(EXPERIMENTS.values())
    name = name.replace("generalised", "generalized")
    if name not in EXPERIMENTS:
        near = get_close_matches(name, EXPERIMENTS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(
            f"NAME must be one of {', '.join(EXPERIMENTS)} or {_ALL}; got {name!r}.{hint}"
        )
    return [EXPERIMENTS[name]]


def _estimate(
    experiments: list[Experiment],
    names: list[str],
    records: Records,
    scale: Scale,
    *,
    folder: str | None,
    n_jobs: int,
) -> Estimate:
    """Return the time and memory of the runs without a record."""
    from .paper.bench.estimate import Sizes, estimate_runs
    from .paper.bench.runner import pending_runs

    pending, n_recorded = pending_runs(experiments, names, records, scale, folder=folder)
    sizes = [(key, Sizes.of(data)) for key, data in pending]
    return estimate_runs(sizes, scale, n_recorded=n_recorded, n_jobs=n_jobs)


def _print_estimate(found: Estimate, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(asdict(found)))
        return
    typer.echo("\n".join(filter(None, (found.text(), found.problem()))))


def _select_models(experiments: list[Experiment], names: list[str] | None) -> list[Experiment]:
    """Return the experiments that have these models, with no others."""
    if not names:
        return experiments
    known = list(dict.fromkeys(model for each in experiments for model in each.models))
    unknown = [name for name in names if name not in known]
    if unknown:
        of = experiments[0].name if len(experiments) == 1 else "the experiments"
        raise ValueError(
            f"--model must be one of those of {of}: {', '.join(known)}; got {unknown[0]!r}. Choose "
            "from these."
        )
    kept = {each: tuple(name for name in names if name in each.models) for each in experiments}
    return [replace(each, models=models) for each, models in kept.items() if models]


def _print_experiment(name: str, data: list[str], runs: Path, console: Console) -> None:
    """Print measured figures next to those of the paper, for each data set."""
    from rich.text import Text

    from .paper.report.collection import read_collection
    from .paper.report.fits import guard_table
    from .paper.report.tables import describe_features, experiment_tables, own_tables

    try:
        collection = read_collection(runs)
    except RecordError as error:  # none, since every run failed; or a damaged one
        typer.echo(f"No table: {error}", err=True)
        return
    for entry in dict.fromkeys(entry.lower() for entry in data):
        study = collection.study(name, entry)
        if not study.runs:
            continue
        guard = guard_table(study)
        tables = [*(experiment_tables(study) or own_tables(study)), *([guard] if guard else [])]
        for found in tables:
            _print_figures(f"{EXPERIMENTS[name].title}, {entry}", found, console)
        features = describe_features(study.run)
        console.print(Text(f"Features used: {features}."), soft_wrap=True)


def _print_figures(title: str, found: TableBlock, console: Console) -> None:
    """Print a table; remarks follow as text."""
    from rich.table import Table
    from rich.text import Text

    rows = [[cell if isinstance(cell, str) else cell.page for cell in row] for row in found.rows]
    columns = list(zip(*rows, strict=True))
    table = Table(title=f"{title}: {found.caption}" if found.caption else title)
    for i, (heading, cells) in enumerate(zip(found.headings, columns, strict=True)):
        is_number = i in found.numbers
        # Headings and remarks may wrap between words. Figures and names may not.
        whole = cells if is_number or not i else ()
        least = max(_REMARK if not whole else 0, *map(len, (*whole, *heading.split())))
        table.add_column(heading, justify="right" if is_number else "left", min_width=least)
    for row in zip(*columns, strict=True):
        table.add_row(*row)
    least = console.measure(table, options=console.options.update(max_width=_MOST)).minimum
    console.width = max(console.width, least)  # longer lines: better than figures cut off
    console.print(table, crop=False)
    for remark in found.remarks:
        console.print(Text(remark), soft_wrap=True)


def _command(name: str, data: list[str], quick: bool, **options: Any) -> str:
    """Return the command as it would be typed."""
    words = ["zonkey", "bench", name]
    for key, value in {"data": data, **options}.items():
        for each in value if isinstance(value, list) else [value]:
            words += [] if each is None else ["--" + key.replace("_", "-"), str(each)]
    return shlex.join([*words, *(["--quick"] if quick else [])])


def _watch(steps: Iterator[Progress], console: Console) -> tuple[int, list[str]]:
    """Show finished runs and the time left; return the number of runs, and failures."""
    from rich.live import Live

    rows: dict[RunKey, list[Record]] = {}
    failures: list[str] = []
    n_done = 0
    with Live("Reading data, choosing parameters", console=console, refresh_per_second=4) as live:
        try:
            for step in steps:
                key = (step.key.protocol, step.key.data, step.key.model)
                if step.record is None:
                    failures.append(f"{', '.join(key)} failed: {step.error}")
                    continue
                n_done += 1
                rows.setdefault(key, []).append(step.record)
                live.update(_progress_table(rows, step, n_done))
        except ValueError:
            if not rows:
                live.update("")  # the message starts a line of its own
            raise
    return n_done, failures


def _progress_table(rows: dict[RunKey, list[Record]], step: Progress, n_done: int) -> Table:
    from rich.table import Table

    rest = step.seconds / n_done * (step.total - step.done)
    title = f"{step.done} of {step.total} runs, about {rest / 60:.1f} min left"
    table = Table("protocol", "data", "model", title=title)
    for heading in ("runs", "result (%)", "s per run"):
        table.add_column(heading, justify="right")
    for key, records in rows.items():
        seconds = sum(record["seconds"] for record in records) / len(records)
        table.add_row(*key, str(len(records)), _headline(records), f"{seconds:.1f}")
    return table


def _headline(records: list[Record]) -> str:
    """Return the mean over runs of the first figure that the results have."""
    for name in _HEADLINES:
        values = [record["results"].get(name) for record in records]
        numbers = [value for value in values if isinstance(value, float)]
        if numbers:
            return f"{100 * sum(numbers) / len(numbers):.1f}"
    return "-"


def report(
    runs: Annotated[Path, typer.Option(help="Folder of the records.")] = Path("runs"),
    out: Annotated[Path, typer.Option(help="Folder for page, figures and tables.")] = Path(
        "report"
    ),
    markdown: Annotated[
        Path | None,
        typer.Option(
            help="Write this file, and pictures into images beside it, instead of a page.",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(help="Data set to report on; repeat it. All by default.", show_default=False),
    ] = None,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Turn records into a page with tables and figures.

    It begins with the claims of the paper and their verdicts.
    """
    names = None if not data else [name.lower() for name in data]
    with one_line_errors("nothing was written"):
        from .paper.report.collection import read_collection
        from .paper.report.sections import build_report

        written = _write(build_report(read_collection(runs, names)), out, markdown)
    if as_json:
        typer.echo(json.dumps({name: str(path) for name, path in written.items()}))
        return
    for name, path in written.items():
        typer.echo(f"{name.capitalize() + ':':<8} {path}")


def _write(found: Document, out: Path, markdown: Path | None) -> dict[str, Path]:
    """Write a page with figures, or Markdown with pictures; return what is where."""
    from .paper.report.blocks import write_markdown, write_report

    if markdown is None:
        with require_writable("out", out):
            page = write_report(found, out)
        return {"page": page, "tables": out / "tables.md", "figures": out / "figures"}
    check_plain("markdown", markdown)
    with require_writable("markdown", markdown, "a file"):
        markdown.parent.mkdir(parents=True, exist_ok=True)
        first, *pictures = write_markdown(found, markdown)
    return {"tables": first, **({"figures": pictures[0].parent} if pictures else {})}
