"""A leaderboard as tables of text, with sentences that say what they show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..paper.experiments import RECOMMENDED
from ..paper.report.measures import ABSENT, points
from .running import DONE, FAILED, TaskOutcome, format_seconds
from .standings import (
    HARMONIC,
    SEEN_OF_ALL,
    SHOTS,
    UNSEEN,
    UNSEEN_OF_ALL,
    Figure,
    Standing,
    find_reference,
    main_measure,
    rank_outcomes,
    sort_of,
)

_MOST_NAMED = 8  # systems in a sentence
_ROUNDING = 1e-9  # of means of accuracies


@dataclass(frozen=True, eq=False)
class Board:
    """One leaderboard: its rows, and the systems that are not in it."""

    title: str
    rows: list[Standing]
    absent: list[TaskOutcome]
    n_shot: int = 0  # 0: zero-shot

    @property
    def measure(self) -> str:
        """The figure that rows are sorted by."""
        return main_measure(self.n_shot)

    @property
    def reference(self) -> Standing | None:
        """What the others are compared with."""
        return find_reference(self.rows)


def make_boards(outcomes: Sequence[TaskOutcome], shots: Sequence[int]) -> list[Board]:
    """Return the leaderboards of a comparison: one, or one or two for each number of shots."""
    boards = []
    for n_shot in shots or (0,):
        for is_transductive in (False, True):
            of_kind = [one for one in outcomes if one.system.is_transductive == is_transductive]
            if not of_kind:
                continue
            title = "Classes without samples"
            if n_shot:
                title = _count_shots(of_kind, n_shot)
            if is_transductive:
                title += ", and unlabeled test samples"
            absent = [one for one in of_kind if one.status != DONE]
            rows = rank_outcomes(of_kind, n_shot)
            boards.append(Board(title, rows, absent, n_shot))
    return boards


def _count_shots(outcomes: Sequence[TaskOutcome], n_shot: int) -> str:
    """Return the number of shots in words; small classes give fewer than asked for."""
    runs = [run for one in outcomes for run in one.records.get(n_shot, ())]
    used = min((run["results"]["n_shot"] for run in runs), default=n_shot)
    text = f"{used} shot{'s' if used > 1 else ''} of each class"
    return text if used == n_shot else f"{text} ({n_shot} asked for)"


def format_figure(figure: Figure | None) -> str:
    """Return a share in percent with its interval or its spread."""
    if figure is None:
        return ABSENT
    text = f"{100 * figure.value:.1f}"
    if figure.low is not None and figure.high is not None:
        text += f" [{100 * figure.low:.1f}, {100 * figure.high:.1f}]"
    return text


def _plain(figure: Figure | None) -> str:
    return ABSENT if figure is None else f"{100 * figure.value:.1f}"


def _spread(figure: Figure | None) -> str:
    return ABSENT if figure is None or figure.spread is None else f"{100 * figure.spread:.1f}"


def _gap(one: Standing) -> str:
    gap = one.gap
    if gap is None or gap.low is None or gap.high is None:
        return ABSENT
    middle, low, high = (points(value, 1) for value in (gap.value, gap.low, gap.high))
    return f"{middle} [{low}, {high}]"


def _time(seconds: float | None) -> str:
    return ABSENT if seconds is None else format_seconds(seconds)


def _count_points(one: Standing) -> str:
    n = one.n_points
    return "its own" if n is None else str(n)


Column = tuple[str, Callable[[Standing], str]]


def score_columns(board: Board) -> list[Column]:
    """Return the headings of the table of accuracies, and what their cells show."""
    reference = board.reference
    to = "the best" if reference is None else reference.system.name
    gap: Column = (f"difference to {to}", _gap)
    runs: Column = ("± seeds", lambda one: _spread(one.figures.get(board.measure)))
    if board.n_shot:
        accuracy: Column = ("accuracy", lambda one: format_figure(one.figures.get(SHOTS)))
        system: Column = ("system", lambda one: one.system.name)
        return _drop_empty([system, accuracy, gap, runs], board.rows)
    wanted: list[Column] = [
        ("system", lambda one: one.system.name),
        ("unseen", lambda one: format_figure(one.figures.get(UNSEEN))),
        gap,
        runs,
        ("hit@5", lambda one: _plain(one.figures.get("hit@5"))),
        ("all: seen", lambda one: _plain(one.figures.get(SEEN_OF_ALL))),
        ("all: unseen", lambda one: _plain(one.figures.get(UNSEEN_OF_ALL))),
        ("all: harmonic", lambda one: format_figure(one.figures.get(HARMONIC))),
        ("AUSUC", lambda one: _plain(one.figures.get("ausuc"))),
        ("among seen", lambda one: _plain(one.figures.get("among_seen"))),
        ("ECE", lambda one: _plain(one.figures.get("ece"))),
        ("Brier", lambda one: _number(one.figures.get("brier"))),
    ]
    return _drop_empty(wanted, board.rows)


def cost_columns(board: Board) -> list[Column]:
    """Return the headings of the table of costs, and what their cells show."""
    wanted: list[Column] = [
        ("system", lambda one: one.system.name),
        ("points", _count_points),
        ("choosing", lambda one: _time(one.costs["choosing"])),
        ("training", lambda one: _time(one.costs["training"])),
        ("ms per sample", lambda one: _milliseconds(one.costs["prediction"])),
        ("s per draw", lambda one: _seconds(one.costs["draw"])),
        ("peak MB", lambda one: _whole(one.costs["memory"])),
    ]
    return _drop_empty(wanted, board.rows)


def _drop_empty(columns: list[Column], rows: Sequence[Standing]) -> list[Column]:
    return [
        (heading, cell)
        for heading, cell in columns
        if heading == "system" or any(cell(row) != ABSENT for row in rows)
    ]


def _number(figure: Figure | None) -> str:
    return ABSENT if figure is None else f"{figure.value:.3f}"


def _milliseconds(seconds: float | None) -> str:
    return ABSENT if seconds is None else f"{1000 * seconds:.3g}"


def _seconds(seconds: float | None) -> str:
    return ABSENT if seconds is None else f"{seconds:.2g}"


def _whole(number: float | None) -> str:
    return ABSENT if number is None else f"{number:.0f}"


def tell_lead(board: Board) -> str:
    """Return in words who leads, and which systems are ahead of the recommended one."""
    if not board.rows or board.measure not in board.rows[0].figures:
        return "No system has run."
    best, reference = board.rows[0], board.reference
    top = format_figure(best.figures[board.measure])
    if reference is None or reference.system.name != RECOMMENDED:
        return f"{best.system.name} has the highest accuracy, {top} %."
    ahead, even, behind = (
        [one.system.name for one in board.rows if one.gap is not None and sort_of(one.gap) == sign]
        for sign in (1, 0, -1)
    )
    signs = {one.system.name: _sign(one.gap) for one in board.rows if one.gap is not None}
    if best is reference or signs.get(best.system.name) == 0:
        parts = [f"The recommended model has the highest accuracy, {top} %"]
    else:
        own = format_figure(reference.figures[board.measure])
        parts = [
            f"{best.system.name} has the highest accuracy, {top} %; the recommended model has {own}"
        ]
    if ahead:
        parts.append(f"Ahead of the recommended model: {_list(ahead)}")
    for how, sign in (("Higher", 1), ("Lower", -1)):
        names = [name for name in even if signs[name] == sign]
        if names:
            parts.append(f"{how}, and the interval of the difference contains 0: {_list(names)}")
    equal = [name for name in even if signs[name] == 0]
    if equal:
        parts.append(f"As accurate on these samples: {_list(equal)}")
    if behind and not ahead:
        n_compared = len(ahead) + len(even) + len(behind)
        parts.append(f"It is ahead of {len(behind)} of {n_compared} other systems")
    return ". ".join(parts) + "."


def _sign(gap: Figure) -> int:
    """Return 1 if a figure is higher, -1 if it is lower, 0 if they differ by rounding errors."""
    return 0 if abs(gap.value) < _ROUNDING else 1 if gap.value > 0 else -1


def _list(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    shown = ", ".join(names[:_MOST_NAMED])
    return f"{shown} and {more} more" if more > 0 else shown


def tell_absent(outcome: TaskOutcome) -> str:
    """Return one line about a system that is not in the table."""
    what = "failed" if outcome.status == FAILED else "not run"
    return f"{outcome.system.name} {what}: {outcome.reason.rstrip('.')}."


def as_json(board: Board) -> dict[str, Any]:
    """Return a leaderboard as plain data."""

    def plain(figure: Figure | None) -> Any:
        return None if figure is None else vars(figure)

    return {
        "title": board.title,
        "n_shot": board.n_shot,
        "sorted_by": board.measure,
        "words": tell_lead(board),
        "systems": [
            {
                "name": one.system.name,
                "figures": {name: plain(figure) for name, figure in one.figures.items()},
                "gap": plain(one.gap),
                "n_points": one.n_points,
                "chosen": [choice["results"]["chosen"] for choice in one.choices],
                **one.costs,
            }
            for one in board.rows
        ],
        "absent": [
            {"name": one.system.name, "status": one.status, "reason": one.reason}
            for one in board.absent
        ],
    }
