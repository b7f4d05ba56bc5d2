"""Times of a fit, which no two runs share: told on the page, and not in Markdown."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..bench import Experiment
from ..bench.printed import printed
from .blocks import Table
from .collection import Collection
from .tables import ABSENT, features_and_note, models_and_printed

Record = dict[str, Any]
_ELSEWHERE = "Timings are on the page: no two runs share them."
_METRIC = "minutes"  # what the paper prints


def seconds_by_shots(runs: list[Record]) -> dict[int, float]:
    """Return the mean time of a fit over runs, by number of shots."""
    found: dict[int, list[float]] = {}
    for run in runs:
        results = run["results"]
        for n_shot, seconds in zip(results["shots"], results["seconds"], strict=True):
            found.setdefault(n_shot, []).append(seconds)
    return {n_shot: float(np.mean(values)) for n_shot, values in sorted(found.items())}


def runtime_table(experiment: Experiment, data: str, collection: Collection) -> Table:
    """Return seconds of a fit by model and number of shots, beside the paper's minutes."""
    runs = collection.of(experiment, data)
    times = {model: seconds_by_shots(found) for model, found in runs.items()}
    shots = sorted({n_shot for found in times.values() for n_shot in found})
    figures = printed(experiment.source, data, _METRIC)
    rows = []
    for model in models_and_printed(experiment, data, {_METRIC}):
        measured, figure = times.get(model, {}), figures.get(model)
        if not measured and figure is None:
            continue
        paper = ABSENT if figure is None else f"{figure.value:g} min"
        cells = [f"{measured[K]:.3g} s" if K in measured else ABSENT for K in shots]
        run = runs[model][0] if measured else None
        about = features_and_note(run, [figure] if figure else [])
        rows.append([model, paper, *cells, *about])
    headings = ["model", "paper", *(f"K = {K}, measured" for K in shots)]
    return Table(
        [*headings, "features used", "note"],
        rows,
        "Time of a fit alone, on the machine named below",
        range(1, len(headings)),
        is_page_only=True,
        in_markdown=_ELSEWHERE,
    )
