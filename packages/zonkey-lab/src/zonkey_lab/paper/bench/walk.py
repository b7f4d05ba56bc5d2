"""Search for the best parameters: score the points of a grid, then walk on from the best one.

The walk is a coordinate search. It scores both neighbors of the best point along every axis, moves
to the best point so far, and stops where no neighbor is better: the choice is a local optimum
along each axis, in the grid or beyond it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

import numpy as np

from .axes import Axis, is_number

Parameters = dict[str, Any]
Point = dict[str, Any]  # parameters and scores, as in records
Score = Callable[[list[Parameters]], Sequence[Iterable[float]]]

_MOST_TOGETHER = 12  # points that are scored, and saved, at a time
_SAVE_EVERY = 20.0  # seconds


class SearchOptions(TypedDict, total=False):
    """How far a search goes beyond its grid, and what it shares with other runs.

    `n_points_more` is the most points beyond the grid, 0 by default. Points that an `earlier` run
    has scored are not scored again. `save` is called with all scored points every few seconds.
    """

    n_points_more: int
    earlier: Sequence[Point]
    save: Callable[[list[Point]], None]


@dataclass(frozen=True)
class _Neighbor:
    """A point next to another one: along which axis, in which direction, and where it ends."""

    name: str
    up: bool
    parameters: Parameters | None  # None: the axis ends
    is_beyond: bool = False  # all values tried so far


def search(
    starts: Sequence[Parameters],
    axes: Mapping[str, Axis],
    score: Score,
    **options: Unpack[SearchOptions],
) -> dict[str, Any]:
    """Return the best of the points, as in a record of a selection.

    "points" are those of the grid, `n_start` of them, and those of the walk. "edges" are the axes
    along which a value beyond all that were tried was not scored, since there were enough points;
    "limits" those along which there is none. "failed" are points whose model cannot be fitted, with
    the reason: they count as worst. Ties: the point that was scored first.
    """
    scores = _Scores(score, options)
    scores.add(starts)
    if not scores.points and scores.errors:
        raise next(iter(scores.errors.values()))
    n_start = len(scores.points)
    _walk(scores, axes, options.get("n_points_more", 0))
    best = scores.best
    neighbors = _find_neighbors(best["parameters"], axes, scores)
    failed = [
        {"parameters": dict(key), "error": str(error)} for key, error in scores.errors.items()
    ]
    return {
        "chosen": dict(best["parameters"]),
        "points": scores.points,
        "n_start": n_start,
        "edges": _list_names(
            each for each in neighbors if each.is_beyond and scores.lacks(each.parameters)
        ),
        "limits": _list_names(each for each in neighbors if scores.rules_out(each.parameters)),
        **({"failed": failed} if failed else {}),
    }


def _walk(scores: _Scores, axes: Mapping[str, Axis], n_left: int) -> None:
    """Score neighbors of the best point until none is better, or `n_left` points are scored.

    After a move the next point in the same direction comes first; values beyond all that were tried
    come before those between them.
    """
    heading: tuple[str, bool] | None = None
    while n_left > 0:
        neighbors = _find_neighbors(scores.best["parameters"], axes, scores)
        fresh = [each for each in neighbors if scores.lacks(each.parameters)]
        fresh.sort(key=lambda each: not each.is_beyond)
        ahead = [each for each in fresh if (each.name, each.up) == heading]
        some = (ahead or fresh)[:n_left]
        if not some:
            return
        scores.add([each.parameters for each in some if each.parameters is not None])
        n_left -= len(some)
        best = scores.best["parameters"]
        heading = next(((each.name, each.up) for each in some if each.parameters == best), None)


def _find_neighbors(best: Parameters, axes: Mapping[str, Axis], scores: _Scores) -> list[_Neighbor]:
    """Return both neighbors along every axis on which the point has a number."""
    found = []
    for name, axis in axes.items():
        value = best.get(name)
        if not is_number(value):
            continue
        known = scores.values_of(name)
        for up in (False, True):
            other = axis.neighbor(value, known, up=up)
            if other is None:
                found.append(_Neighbor(name, up, None))
                continue
            other = type(value)(other)
            is_beyond = other > max(known) if up else other < min(known)
            found.append(_Neighbor(name, up, {**best, name: other}, is_beyond))
    return found


def _list_names(neighbors: Iterable[_Neighbor]) -> list[str]:
    return list(dict.fromkeys(each.name for each in neighbors))


class _Scores:
    """The points of a search; those that no earlier run has scored are scored here."""

    def __init__(self, score: Score, options: SearchOptions) -> None:
        self._score = score
        self._earlier = {_key(point["parameters"]): point for point in options.get("earlier", ())}
        self._save = options.get("save", lambda _: None)
        self._n_together = 1  # until it is known how long a point takes
        self._points: dict[frozenset[tuple[str, Any]], Point] = {}
        self.errors: dict[frozenset[tuple[str, Any]], ValueError] = {}

    @property
    def points(self) -> list[Point]:
        """The scored points, in the order in which they were asked for."""
        return list(self._points.values())

    @property
    def best(self) -> Point:
        """The point with the best mean score; the first of equal ones."""
        return max(self._points.values(), key=lambda point: float(np.mean(point["scores"])))

    def add(self, asked: Iterable[Parameters]) -> None:
        """Score points, as many at a time as can be saved every few seconds."""
        asked, found = list(asked), {}
        new = [each for each in asked if _key(each) not in {*self._earlier, *self._points}]
        while new:
            some, new = new[: self._n_together], new[self._n_together :]
            start = time.perf_counter()
            found |= self._try(some)
            seconds = max(time.perf_counter() - start, 1e-9)
            fits = int(_SAVE_EVERY * len(some) / seconds)
            self._n_together = min(max(fits, 1), _MOST_TOGETHER)
            self._save(list({**self._earlier, **self._points, **found}.values()))
        known = {**self._earlier, **found, **self._points}
        self._points |= {_key(each): known[_key(each)] for each in asked if _key(each) in known}

    def _try(self, asked: list[Parameters]) -> dict[frozenset[tuple[str, Any]], Point]:
        """Score points; one whose model cannot be fitted is noted as an error."""
        try:
            scores = self._score(asked)
        except ValueError as error:
            if len(asked) > 1:
                parts = [self._try([each]) for each in asked]
                return {key: point for part in parts for key, point in part.items()}
            self.errors[_key(asked[0])] = error
            return {}
        return {
            _key(each): {"parameters": each, "scores": [float(value) for value in row]}
            for each, row in zip(asked, scores, strict=True)
        }

    def values_of(self, name: str) -> set[float]:
        """Return the numbers that were tried for a parameter."""
        values = (point["parameters"].get(name) for point in self._points.values())
        return {value for value in values if is_number(value)}

    def lacks(self, parameters: Parameters | None) -> bool:
        """Whether a point could be scored and was not."""
        key = None if parameters is None else _key(parameters)
        return key is not None and key not in self._points and key not in self.errors

    def rules_out(self, parameters: Parameters | None) -> bool:
        """Whether there is no such point, or no model for it."""
        return parameters is None or _key(parameters) in self.errors


def _key(parameters: Mapping[str, Any]) -> frozenset[tuple[str, Any]]:
    return frozenset(parameters.items())
