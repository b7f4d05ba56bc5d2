"""Tables of what has no row a model in the paper: parameters, steps, maps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .blocks import Table
from .measures import Measurement, accuracies_by_step, over_values
from .tables import features_used

Record = dict[str, Any]


def sensitivity_profiles(selection: Record) -> dict[str, dict[Any, Measurement]]:
    """Return, by parameter, the score at each of its values with the others as chosen."""
    chosen = selection["results"]["chosen"]
    profiles: dict[str, dict[Any, Measurement]] = {}
    for name in sorted(chosen):
        others = {key: value for key, value in chosen.items() if key != name}
        profile = {
            point["parameters"][name]: over_values(point["scores"])
            for point in selection["results"]["points"]
            if {key: point["parameters"][key] for key in others} == others
        }
        if len(profile) > 1:
            profiles[name] = dict(sorted(profile.items()))
    return profiles


def sensitivity_table(selection: Record) -> Table:
    """Return the score on held-out training classes at each value of each parameter."""
    chosen = selection["results"]["chosen"]
    rows = [
        [
            name,
            f"{value}{' (chosen)' if value == chosen[name] else ''}",
            "-",
            found.percent(),
            features_used(selection),
        ]
        for name, profile in sensitivity_profiles(selection).items()
        for value, found in profile.items()
    ]
    headings = ["parameter", "value", "paper", "measured", "features used"]
    caption = "Score (%) on held-out training classes, the other parameters as chosen"
    return Table(headings, rows, caption, range(1, 4))


def convergence_table(run: Record) -> Table:
    """Return objective, change and accuracy after each step."""
    results = run["results"]
    objective, changes = results["objective"], results["change"]
    accuracies = accuracies_by_step(run)
    rows = []
    for step in range(max(len(objective), max(accuracies, default=0) + 1)):
        rows.append(
            [
                str(step),
                f"{objective[step]:.6g}" if step < len(objective) else "-",
                f"{changes[step - 1]:.2g}" if 0 < step <= len(changes) else "-",
                f"{100 * accuracies[step]:.1f}" if step in accuracies else "-",
                features_used(run),
            ]
        )
    caption = "After each step of Algorithm 1 (the paper: at most 5)"
    headings = ["step", "objective", "change of W", "accuracy, measured", "features used"]
    return Table(headings, rows, caption, range(4))


def map_table(runs: Mapping[str, Record]) -> Table:
    """Return how many of the mapped samples each model gets right."""
    rows = []
    for model, run in runs.items():
        results = run["results"]
        right = np.equal(results["truth"], results["predicted"])
        classes, samples = str(len(results["classes"])), str(len(right))
        share = f"{100 * right.mean():.1f}"
        rows.append([model, classes, samples, "-", share, features_used(run)])
    headings = ["model", "classes", "samples", "paper", "right (%), measured", "features used"]
    caption = "Samples on the maps, told apart among the mapped classes"
    return Table(headings, rows, caption, range(1, 5))
