"""A page of leaderboards: tables, figures, choices, and how they were measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zonkey.display.charts import draw_trade_off
from zonkey.display.drawing import (
    COLORS,
    add_grid,
    escape_dollars,
    file_bytes,
    new_figure,
    shorten_name,
)
from zonkey.display.pages import write_page
from zonkey.files.dataset import Dataset
from zonkey.persistence.container import write_whole

from ..paper.experiments import RECOMMENDED
from ..paper.report.blocks import (
    Block,
    Document,
    Drawing,
    Part,
    Section,
    TableBlock,
    Text,
    html_text,
    markdown_text,
)
from .board import Board, cost_columns, score_columns, tell_absent, tell_lead
from .running import Plan
from .standings import Standing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_CURVES = 7  # of seen and unseen classes in one figure
_TERMS = (
    "Unseen: accuracy among the held-out classes. All: samples of both kinds among all classes, "
    "after a penalty of seen classes that held-out training classes chose; harmonic is the "
    "harmonic mean of the two accuracies. AUSUC: area under the curve of the two accuracies for "
    "all penalties. Among seen: accuracy of samples of seen classes among these. Accuracies are "
    "means over classes, in percent. ECE: mean gap between probability and accuracy, in points; "
    "Brier: mean squared error of the probabilities, from 0 to 2; both among the held-out classes, "
    "of systems that have probabilities."
)
_SHOT_TERMS = (
    "Accuracy: share of correct queries, in percent, with the 95 % interval of its mean over draws "
    "of shots, which all systems share. ± seeds: standard deviation over seeds, of systems that "
    "are trained; intervals do not cover other seeds."
)
_INTERVALS = (
    "In brackets: 95 % intervals of a bootstrap that resamples test samples within their classes, "
    "and seeds; classes stay the same. Differences are paired: all systems are measured on the "
    "same resamples. ± seeds: standard deviation over seeds, of systems with random numbers."
)
_COSTS = (
    "Choosing: parameters and penalty. Training: one fit with the chosen parameters. Peak: memory "
    "of the process. Points: those that were scored to choose from, 0 if there is nothing to "
    "choose."
)
_SHOT_COSTS = (
    "Systems that are trained on base classes learn from them in the first draw: their seconds per "
    "draw hold a share of it."
)


def make_document(boards: Sequence[Board], datas: Sequence[Dataset], plan: Plan) -> Document:
    """Return the page of a comparison."""
    data = datas[0]
    sections = [
        Section(
            board.title,
            [
                Part("Result", [*_score_blocks(board), *_drawings(board, f"board{i}")]),
                Part("Time and memory", _cost_blocks(board)),
                Part("Chosen parameters", [_choice_table(board)]),
            ],
        )
        for i, board in enumerate(boards)
    ]
    how = [Part("Data", [Text(text) for text in describe_data(datas)])]
    how.append(Part("Procedure", [Text(text) for text in describe_plan(plan, boards)]))
    sections.append(Section("How it was measured", how))
    return Document(f"Leaderboard: {data.name}", sections)


def write_html(path: Path, document: Document) -> None:
    """Write the page with its figures inside."""
    pictures = {one.name: file_bytes(one.draw(), ("png",))["png"] for one in document.drawings()}
    write_page(path, html_text(document, pictures))


def write_markdown(path: Path, document: Document) -> None:
    """Write the tables."""
    write_whole(path, markdown_text(document).encode("utf-8", "replace"))


def _table(columns: Any, rows: Sequence[Standing], caption: str = "", **options: Any) -> TableBlock:
    headings = [heading for heading, _ in columns]
    cells = [[cell(row) for _, cell in columns] for row in rows]
    return TableBlock(headings, cells, caption, range(1, len(headings)), **options)


def _score_blocks(board: Board) -> list[Block]:
    blocks: list[Block] = [Text(tell_lead(board), is_banner=True)]
    if board.rows:
        blocks.append(_table(score_columns(board), board.rows))
        terms = _SHOT_TERMS if board.n_shot else f"{_TERMS} {_INTERVALS}"
        blocks.append(Text(terms, is_dim=True))
    return blocks + [Text(tell_absent(one)) for one in board.absent]


def _cost_blocks(board: Board) -> list[Block]:
    text = f"{_COSTS} {_SHOT_COSTS}" if board.n_shot else _COSTS
    return [_table(cost_columns(board), board.rows), Text(text, is_dim=True)]


def _choice_table(board: Board) -> TableBlock:
    rows = []
    for one in board.rows:
        for split, choice in enumerate(one.choices):
            found = choice["results"]
            chosen = ", ".join(f"{name}: {_value(v)}" for name, v in found["chosen"].items())
            penalty = found.get("seen_penalty")
            rows.append(
                [
                    one.system.name,
                    str(split),
                    chosen or "nothing to choose",
                    "-" if penalty is None else f"{penalty:.3g}",
                    ", ".join(found.get("edges", ())) or "-",
                ]
            )
    headings = ["system", "split", "parameters", "penalty of seen classes", "at an edge"]
    return TableBlock(headings, rows, "Parameters by system", is_folded=True)


def _value(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def describe_data(datas: Sequence[Dataset]) -> list[str]:
    """Return sentences about samples and classes."""
    data = datas[0]
    n_train, n_seen, n_unseen = (
        len(getattr(data.split, part)) for part in ("train", "test_seen", "test_unseen")
    )
    facts = [
        f"{data.name}: {data.shape[0]} samples of {data.shape[1]} features, prototypes of "
        f"{data.prototypes.n_dimensions} dimensions. Learned from {n_train} samples of "
        f"{len(data.seen_classes)} seen classes; tested on {n_unseen} samples of "
        f"{len(data.unseen_classes)} held-out classes and {n_seen} other samples of seen ones "
        f"({data.split.name})."
    ]
    if len(datas) > 1:
        facts.append(
            f"Figures are means over {len(datas)} splits, which hold out different classes; the "
            "numbers above are those of the first. Intervals do not cover other splits."
        )
    return facts


def describe_plan(plan: Plan, boards: Sequence[Board]) -> list[str]:
    """Return sentences about folds, points and seeds."""
    facts = []
    choices = [choice for board in boards for row in board.rows for choice in row.choices]
    if plan.shots:
        ways = "all held-out classes at once" if plan.n_way is None else f"{plan.n_way} classes"
        facts.append(
            f"Parameters were chosen on validation classes among the training classes, on tasks of "
            f"the same kind; then {plan.n_draws} draws of shots were scored among {ways}."
        )
    else:
        # Few classes give fewer folds than the plan has.
        folds = {choice["settings"]["n_folds"] for choice in choices} or {plan.n_folds}
        facts.append(
            f"Parameters were chosen on {min(folds)} folds that hold out whole training classes, "
            "the same for all systems, then measured once on the held-out classes. Systems with "
            f"random numbers ran with {plan.n_seeds} seed{'s' if plan.n_seeds > 1 else ''}."
        )
    tried = [row.n_points for board in boards for row in board.rows]
    counts = sorted({n for n in tried if n})
    if counts:
        facts.append(
            f"All systems start from up to {plan.n_points} points of their grids; scored were "
            f"{_range(counts)} points, as in the tables of time."
        )
    if any(row.system.chooses_itself for board in boards for row in board.rows):
        facts.append("The recommended model chooses its parameters itself, on folds of its own.")
    return facts


def _range(counts: Sequence[int]) -> str:
    """Return the first and the last of sorted numbers in words."""
    return f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else str(counts[0])


# Figures


def _drawings(board: Board, name: str) -> list[Block]:
    known = [row for row in board.rows if board.measure in row.figures]
    if not known:
        return []
    drawn: list[Block] = [
        Drawing(f"{name}-accuracy", "Accuracy with 95 % intervals.", lambda: _draw_ranks(board)),
        Drawing(
            f"{name}-time",
            "Accuracy against the time to choose parameters and to train.",
            lambda: _draw_times(board),
        ),
    ]
    if any("curve" in row.runs[0][0]["results"] for row in known):
        text = "Accuracy on seen and unseen classes among all, for growing penalties (first split)."
        drawn.append(Drawing(f"{name}-curves", text, lambda: draw_trade_off(_curves(board))))
    return drawn


def _curves(board: Board) -> dict[str, Any]:
    known = [row for row in board.rows if "curve" in row.runs[0][0]["results"]]
    shown = known[:_MOST_CURVES]
    own = [row for row in known if row.system.name == RECOMMENDED and row not in shown]
    shown = [*shown[: _MOST_CURVES - len(own)], *own]
    curves = {row.system.name: row.runs[0][0]["results"]["curve"] for row in shown}
    return {name: (curve["unseen"], curve["seen"]) for name, curve in curves.items()}


def _draw_ranks(board: Board) -> Figure:
    rows = [row for row in board.rows if board.measure in row.figures][::-1]
    figure = new_figure(8, 1.0 + 0.27 * len(rows))
    axis = figure.subplots()
    for place, row in enumerate(rows):
        found = row.figures[board.measure]
        is_own = row.system.name == RECOMMENDED
        style: dict[str, Any] = {"color": COLORS[is_own], "fmt": "D" if is_own else "o"}
        error = None
        if found.low is not None and found.high is not None:
            ends = [[found.value - found.low], [found.high - found.value]]
            error = 100 * np.clip(np.array(ends), 0, None)
        axis.errorbar(100 * found.value, place, xerr=error, capsize=2, **style)
    names = [escape_dollars(shorten_name(row.system.name, 40)) for row in rows]
    axis.set_yticks(range(len(rows)), names)
    axis.set(xlabel="accuracy among held-out classes (%)")
    add_grid(axis, "x")
    return figure


def _draw_times(board: Board) -> Figure:
    rows = [row for row in board.rows if board.measure in row.figures]
    taken = [(row.costs["choosing"] or 0) + (row.costs["training"] or 0) for row in rows]
    taken = np.maximum(taken, 1e-3)
    middle = np.sqrt(taken.min() * taken.max())
    figure = new_figure(8, 5)
    axis = figure.subplots()
    for row, seconds in zip(rows, taken.tolist(), strict=True):
        is_own = row.system.name == RECOMMENDED
        place = (seconds, 100 * row.figures[board.measure].value)
        axis.plot(*place, "D" if is_own else "o", color=COLORS[is_own])
        name = escape_dollars(shorten_name(row.system.name))
        side: dict[str, Any] = {"xytext": (5, 3), "ha": "left"}
        if seconds > middle:
            side = {"xytext": (-5, 3), "ha": "right"}
        axis.annotate(name, place, textcoords="offset points", fontsize=7, **side)
    axis.set(xscale="log", xlabel="seconds to choose and train")
    axis.set(ylabel="accuracy among held-out classes (%)")
    axis.xaxis.set_major_formatter("{x:g}")
    add_grid(axis)
    return figure
