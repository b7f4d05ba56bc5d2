"""`zonkey compare`: a leaderboard of all systems on anybody's data."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zonkey.app.targets import check_plain, require_writable
from zonkey.cli import options
from zonkey.cli.errors import one_line_errors
from zonkey.cli.progress import show_progress

if TYPE_CHECKING:
    from rich.console import Console

    from .compare.board import Board
    from .compare.comparing import Leaderboards
    from .compare.data import Given
    from .compare.running import TaskOutcome

_MOST = 1000  # columns of the widest table
_READ = (
    "encoder", "text_encoder", "text_column", "text_columns", "templates", "label_column",
    "feature_columns", "id_columns", "labels", "features_key", "labels_key",
)  # fmt: skip


def compare(
    source: Annotated[
        Path | None,
        typer.Argument(
            help="Pictures in one folder per class, or texts or features with a label per sample.",
            metavar="SOURCE",
            show_default=False,
        ),
    ] = None,
    classes: Annotated[
        Path | None,
        typer.Argument(
            help="Names or descriptions of classes, or prototypes: one vector per class. By "
            "default the labels of pictures and texts are their names.",
            metavar="CLASSES",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="Instead of SOURCE: a benchmark by name, see `zonkey data list`.",
            show_default=False,
        ),
    ] = None,
    data_folder: Annotated[
        Path | None,
        typer.Option(help="Folder of benchmarks; by default $ZONKEY_DATA or the cache."),
    ] = None,
    models: Annotated[
        list[str] | None,
        typer.Option(
            help="Systems to compare, with commas between them, or numpy, torch or all; by default "
            "the usual ones that run on this machine.",
            show_default=False,
        ),
    ] = None,
    unseen: Annotated[
        list[str] | None,
        typer.Option(
            help="Classes to hold out: labels with commas between them, a file of labels (.txt), a "
            "number or a share. By default those that a column `split` marks, else 0.25.",
            show_default=False,
        ),
    ] = None,
    splits: Annotated[
        int, typer.Option(min=1, help="Splits, each of which holds out other classes.")
    ] = 1,
    shots: Annotated[
        list[str] | None,
        typer.Option(
            help="Compare few-shot systems, with so many samples of each held-out class, such as "
            "1,5,10.",
            show_default=False,
        ),
    ] = None,
    ways: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="With --shots: trials of so many classes; by default all held-out classes at "
            "once.",
            show_default=False,
        ),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="With --shots: draws of shots; by default 10, and 600 with --ways.",
            show_default=False,
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            help="Time for everything, such as 10m: fewer points to choose parameters from, then "
            "fewer systems.",
            show_default=False,
        ),
    ] = None,
    points: Annotated[
        int, typer.Option(min=1, help="Points of each grid to start from; as many may follow.")
    ] = 12,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of systems with random numbers.")] = 3,
    jobs: Annotated[int, typer.Option(min=1, help="Systems at a time.")] = 1,
    device: Annotated[
        str | None,
        typer.Option(help="Device of systems that need torch, such as cuda.", show_default=False),
    ] = None,
    runs: Annotated[Path, typer.Option(help="Folder of the records.")] = Path("compare-runs"),
    html: Annotated[
        Path | None, typer.Option(help="Page to write, with figures.", show_default=False)
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="File of the tables to write.", show_default=False)
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(help="Folder for a model file of each system.", show_default=False),
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="Encoder of the samples, see `zonkey encoders`.")
    ] = None,
    text_encoder: Annotated[str | None, typer.Option(help="Encoder of the classes.")] = None,
    text_column: Annotated[str | None, options.TEXT_COLUMN] = None,
    text_columns: Annotated[list[str] | None, options.TEXT] = None,
    templates: Annotated[
        list[str] | None,
        typer.Option("--template", help="Sentence around the texts of classes; repeat it."),
    ] = None,
    on_error: Annotated[options.OnError, options.ON_ERROR] = options.OnError.stop,
    no_cache: Annotated[bool, options.NO_CACHE] = False,
    label_column: Annotated[str | None, options.LABEL_COLUMN] = None,
    feature_columns: Annotated[
        list[str] | None,
        typer.Option(help="Column of features in a table, or a pattern; repeat it."),
    ] = None,
    id_columns: Annotated[
        list[str] | None,
        typer.Option("--id-column", help="Column of a table that is not a feature; repeat it."),
    ] = None,
    labels: Annotated[Path | None, options.LABELS] = None,
    features_key: Annotated[str | None, options.FEATURES_KEY] = None,
    labels_key: Annotated[str | None, options.LABELS_KEY] = None,
    random_state: Annotated[int, typer.Option("--seed", min=0, help="Seed of the splits.")] = 0,
    as_json: Annotated[bool, options.JSON] = False,
) -> None:
    """Compare systems on your data: one leaderboard, with intervals, times and calibration.

    Every system is tuned on the same folds of training classes with the same number of points, and
    measured on the same held-out classes. Finished runs are kept, and a later call continues.
    """
    given = options.pass_on(locals())
    kept = "finished runs are kept; run the same command again to resume"
    with one_line_errors(kept, classes="CLASSES", id_columns="--id-column"):
        found = _compare(given)
        _write(found, html, markdown)
    if as_json:
        typer.echo(json.dumps(_as_json(found)))
        return
    _print(found)
    for name, path in (("Page", html), ("Tables", markdown), ("Models", save)):
        if path is not None:
            typer.echo(f"{name + ':':<8} {path}")


def _compare(given: dict[str, Any]) -> Leaderboards:
    from .compare.budget import parse_seconds
    from .compare.comparing import compare as compare_systems
    from .compare.data import divide, parse_unseen
    from .compare.running import Plan
    from .compare.systems import SHOTS, ZERO, find_systems, split_names

    shots, ways = _parse_shots(given["shots"]), given["ways"]
    for option in ("html", "markdown"):
        if given[option] is not None:
            check_plain(option, given[option])
    if not shots and (ways is not None or given["draws"] is not None):
        raise ValueError("--ways and --draws need --shots; got none. Add --shots 1, for example.")
    names = split_names(given["models"])
    find_systems(names, SHOTS if shots else ZERO)  # a wrong name fails before data are read
    budget = None if given["budget"] is None else parse_seconds(given["budget"])
    found = _read(given, for_shots=bool(shots))
    options_ = {"n_splits": given["splits"], "seed": given["random_state"]}
    datas = divide(found.data, parse_unseen(given["unseen"]), **options_)
    plan = Plan(
        n_points=given["points"],
        n_seeds=given["seeds"],
        shots=shots,
        n_way=ways,
        n_draws=given["draws"] or (10 if ways is None else 600),
        runs=given["runs"],
        device=given["device"],
        save=given["save"],
        facts=found.facts,
        command=shlex.join(["zonkey", *sys.argv[1:]]),
    )
    if given["save"] is not None:
        with require_writable("save", given["save"]):
            given["save"].mkdir(parents=True, exist_ok=True)
    from rich.console import Console

    return compare_systems(
        datas,
        plan,
        models=names,
        validation=found.validation if datas[0] is found.data else None,
        n_jobs=given["jobs"],
        budget=budget,
        watch=_Watch(Console(stderr=True)),
    )


def _parse_shots(given: list[str] | None) -> tuple[int, ...]:
    words = [word.strip() for text in given or () for word in text.split(",") if word.strip()]
    if not all(word.isdigit() and int(word) for word in words):
        raise ValueError(
            f"--shots must be whole numbers of at least 1; got {', '.join(words)!r}. Write 1,5,10, "
            "for example."
        )
    return tuple(sorted({int(word) for word in words}))


def _read(given: dict[str, Any], *, for_shots: bool) -> Given:
    from .compare.data import read_benchmark, read_given

    if given["data"] is not None:
        if given["source"] is not None:
            raise ValueError(
                f"--data must be left out if SOURCE is given; got {given['data']!r} and "
                f"{given['source']}. Leave one of them out."
            )
        return read_benchmark(given["data"], given["data_folder"], shots=for_shots)
    if given["source"] is None:
        raise ValueError(
            "SOURCE must be samples to compare on; got none. Pass features and prototypes, or "
            "--data emoji, for example."
        )
    wanted = {name: given[name] for name in (*_READ, "on_error", "cache")}
    with show_progress() as progress:
        return read_given(given["source"], given["classes"], **wanted, progress=progress)


class _Watch:
    """A line on stderr for each outcome."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def __call__(self, outcome: TaskOutcome, n_done: int, n_all: int) -> None:
        from .compare.running import DONE, format_seconds

        what = outcome.reason if outcome.status != DONE else format_seconds(outcome.seconds)
        if outcome.status == DONE and not outcome.seconds:
            what = "has records"
        split = f", split {outcome.split}" if outcome.split else ""
        text = f"[{n_done}/{n_all}] {outcome.system.name}{split}: {what}"
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def _write(found: Leaderboards, html: Path | None, markdown: Path | None) -> None:
    if html is None and markdown is None:
        return
    from .compare.page import make_document, write_html, write_markdown

    document = make_document(found.boards, found.datas, found.plan)
    for option, path, write in (
        ("html", html, write_html),
        ("markdown", markdown, write_markdown),
    ):
        if path is not None:
            with require_writable(option, path, "a file"):
                path.parent.mkdir(parents=True, exist_ok=True)
                write(path, document)


def _as_json(found: Leaderboards) -> dict[str, Any]:
    from .compare.board import as_json
    from .compare.page import describe_data, describe_plan

    return {
        "data": [data.record() for data in found.datas],
        "about": [*describe_data(found.datas), *describe_plan(found.plan, found.boards)],
        "n_points": found.plan.n_points,
        "runs": str(found.plan.runs),
        "boards": [as_json(board) for board in found.boards],
    }


def _print(found: Leaderboards) -> None:
    from rich.console import Console

    from .compare.board import cost_columns, score_columns, tell_absent, tell_lead
    from .compare.page import describe_data, describe_plan

    console = Console()
    for text in (*describe_data(found.datas), *describe_plan(found.plan, found.boards)):
        typer.echo(text)
    for board in found.boards:
        if board.rows:
            _print_table(board.title, score_columns(board), board, console)
            _print_table("Time and memory", cost_columns(board), board, console)
        typer.echo(tell_lead(board))
        for one in board.absent:
            typer.echo(tell_absent(one))


def _print_table(title: str, columns: Any, board: Board, console: Console) -> None:
    from rich.table import Table

    table = Table(title=title)
    for i, (heading, cell) in enumerate(columns):
        least = max(len(text) for text in (*heading.split(), *map(cell, board.rows)))
        table.add_column(heading, justify="right" if i else "left", min_width=least)
    for row in board.rows:
        table.add_row(*(cell(row) for _, cell in columns))
    least = console.measure(table, options=console.options.update(max_width=_MOST)).minimum
    console.width = max(console.width, least)  # longer lines: better than figures cut off
    console.print(table, crop=False)
