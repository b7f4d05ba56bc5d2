"""How fits behaved: what the guard on mu did, and how far W moved from its start (BPL0)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..records import Record, unpack
from .blocks import TableBlock
from .collection import Study
from .measures import ABSENT, average_seeds

START = "BPL0"  # the initial projection of Algorithm 1
_COUNTS = ("n_lowered", "n_indefinite")


def movement_columns(study: Study) -> dict[str, dict[str, str]]:
    """Return how far W moved from its start, by model, by heading; without empty columns."""
    if study.experiment.name != "alternatives":
        return {}
    start = study.collection.runs("zero-shot", study.data, START)
    wanted: dict[str, Callable[[list[Record]], str | None]] = {
        f"W moved from {START} (%)": moved_text,
        f"predictions equal to {START}'s (%)": lambda runs: _format_share(
            compare_to_start(runs, start)
        ),
    }
    found = {}
    for heading, tell in wanted.items():
        texts = {model: tell(runs) for model, runs in study.runs.items()}
        if any(texts.values()):
            found[heading] = {model: text or ABSENT for model, text in texts.items()}
    return found


def guard_table(study: Study) -> TableBlock | None:
    """Return in how many steps the guard lowered mu, by number of shots; None without mu."""
    found: dict[str, dict[str, str]] = {}
    for protocol, runs_of in study.by_protocol.items():
        for model, runs in runs_of.items():
            cells = _zero_shot_guard(runs) if protocol == "zero-shot" else _shots_guard(runs)
            found.setdefault(model, {}).update(cells)
    headings = list(dict.fromkeys(name for cells in found.values() for name in cells))
    rows = [
        [model, *(cells.get(name, ABSENT) for name in headings)]
        for model, cells in found.items()
        if cells
    ]
    caption = "Steps of Algorithm 1 in which the guard lowered mu, of all steps of all fits"
    return TableBlock(["model", *headings], rows, caption) if rows else None


def _zero_shot_guard(runs: Sequence[Record]) -> dict[str, str]:
    known = [run["results"] for run in runs if _competes(run["results"])]
    if not known:
        return {}
    counts = [sum(len(results["mu"]) for results in known)]
    counts += [sum(results.get(key, 0) for results in known) for key in _COUNTS]
    n_seeds = sum(any(results.get(key) for key in _COUNTS) for results in known)
    text = _guard_text(runs[0], *counts)
    return {"steps": f"{text} ({n_seeds} of {len(known)} seeds)" if n_seeds else text}


def _shots_guard(runs: Sequence[Record]) -> dict[str, str]:
    """Return the texts by number of shots; empty if no fit pushes classes away."""
    results = runs[0]["results"]
    shots = results.get("shots", [results.get("n_shot")])
    by_run = [run["results"].get("steps") or () for run in runs]
    steps = [[each] if isinstance(each, dict) else each for each in by_run]
    known = [each for found in steps for each in found if each]
    if not any(each["mean_mu"] or each["n_lowered"] for each in known):
        return {}
    texts = {}
    for column, K in enumerate(shots):
        here = [found[column] for found in steps if len(found) > column and found[column]]
        if here:
            counts = [sum(each[name] for each in here) for name in ("n", *_COUNTS)]
            texts[f"K = {K}"] = _guard_text(runs[0], *counts)
    return texts


def _guard_text(run: Record, n: int, n_lowered: int, n_indefinite: int) -> str:
    if run["settings"].get("model", {}).get("guard") is False:
        return f"off, {n_indefinite} of {n} indefinite"
    text = f"{n_lowered} of {n}"
    return f"{text}, {n_indefinite} indefinite" if n_indefinite else text


def _competes(results: dict[str, Any]) -> bool:
    """Whether a fit pushes second-best classes away; other fits have a mu of 0."""
    return any(results.get("mu", ())) or bool(results.get("n_lowered"))


def moved_text(runs: Sequence[Record]) -> str | None:
    """Return the distance of W from its start, relative to the start; None if not known."""
    found = average_seeds(runs, "moved")
    if found is None:
        return None
    percent = 100 * found.mean
    return f"{percent:.0f}" if percent >= 10 else f"{percent:.2g}"


def compare_to_start(runs: Sequence[Record], start: Sequence[Record]) -> float | None:
    """Return the share of predictions that equal those of the start; None if not known."""
    if not runs or not start or start[0]["data"]["sha256"] != runs[0]["data"]["sha256"]:
        return None
    first = predictions(start[0])
    return float(np.mean([np.mean(predictions(run) == first) for run in runs]))


def predictions(run: Record, key: str = "predicted") -> np.ndarray:
    """Return the labels of the test samples of unseen classes: predicted, or the truth."""
    return np.asarray(run["results"]["classes"])[unpack(run["results"][key])]


def _format_share(share: float | None) -> str | None:
    return None if share is None else f"{100 * share:.1f}"
