"""When do synthesis and competition help? A sweep over generated problems, for docs/synthesis.md.

Around two base cells, the shapes of AwA and CUB, one factor is varied at a time. A map varies the
numbers of seen classes and of semantic dimensions together. Ablations take the gain apart. Each
problem has a JSON file of its own in benchmarks/records/when_synthesis_helps: a second run computes
only what is missing. Delete that folder after a change of the models. `--write` stores a summary
in benchmarks/results, draws docs/images/synthesis-*.png from it, and fills the tables of the page.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import joblib
import numpy as np

from recording import HERE, environment
from rectified import Setting, generate
from synthesis_models import MODELS, N_POINTS, data_measures, tried
from synthesis_page import Places, write_page

MAIN = ("BPL0", "BPL0, ridge chosen", "BPL0, centered", "BPL", "BPL, unscaled", "RPL")
MAIN = (*MAIN, "recommended")
OF_MAP = ("BPL0", "BPL0, centered", "BPL, unscaled", "recommended")
ABLATION = (*MODELS, "recommended")
RECORDS = HERE / "records" / "when_synthesis_helps"
PLACES = Places(
    results=HERE / "results",
    page=HERE.parent / "docs" / "synthesis.md",
    images=HERE.parent / "docs" / "images",
)


@dataclass(frozen=True)
class Plan:
    """The cells of a sweep.

    Attributes
    ----------
    ablated : dict of str to Setting
    bases : dict of str to Setting
    factors : dict of str to (dict of str to tuple)
        By base and name of the factor, its values.
    map_base : Setting
    map_seen, map_dimensions : tuple of int
    n_points : int
        Points that every model chooses from, if it has parameters to choose.
    """

    ablated: dict[str, Setting]
    bases: dict[str, Setting]
    factors: dict[str, dict[str, tuple[Any, ...]]]
    map_base: Setting
    map_seen: tuple[int, ...]
    map_dimensions: tuple[int, ...]
    n_points: int = N_POINTS

    def cells(self) -> Iterator[tuple[Setting, tuple[str, ...]]]:
        """Yield settings and models; a setting may occur more than once."""
        for setting in self.ablated.values():
            yield setting, ABLATION
        for base in self.bases:
            for name in self.factors[base]:
                for setting in self.varied(base, name).values():
                    yield setting, MAIN
        for row in self.map_settings():
            for setting in row:
                yield setting, OF_MAP

    def varied(self, base: str, name: str) -> dict[str, Setting]:
        """Return the base cell with each value of one factor."""
        values = self.factors[base][name]
        return {f"{value}": replace(self.bases[base], **{name: value}) for value in values}

    def map_settings(self) -> list[list[Setting]]:
        """Return a row of cells per number of dimensions."""
        return [
            [replace(self.map_base, n_seen=p, n_dimensions=k) for p in self.map_seen]
            for k in self.map_dimensions
        ]


AWA = Setting(noise=1.5)
CUB = Setting(n_seen=150, n_dimensions=312, n_unseen=50, noise=2.0)
FULL = Plan(
    ablated={
        "AwA": AWA,
        "20 seen": replace(AWA, n_seen=20),
        "binary, noise 2": replace(AWA, prototypes="binary", noise=2.0),
        "not rectified, noise 3": replace(AWA, rectified=False, noise=3.0),
        "CUB": CUB,
    },
    bases={"AwA": AWA, "CUB": CUB},
    factors={
        "AwA": {
            "n_seen": (10, 20, 40, 80, 160),
            "n_dimensions": (20, 85, 312),
            "prototypes": ("gaussian", "uniform", "binary"),
            "common": (0.0, 0.15, 0.3, 0.5, 1.0),
            "noise": (0.5, 1.0, 1.5, 2.0),
            "offset": (0.0, 0.3, 1.0),
            "shift": (0.0, 1.0),
            "rectified": (True, False),
        },
        "CUB": {
            "n_seen": (50, 150),
            "prototypes": ("gaussian", "binary"),
            "noise": (1.0, 2.0),
            "rectified": (True, False),
        },
    },
    map_base=AWA,
    map_seen=(10, 20, 40, 80, 160),
    map_dimensions=(20, 40, 85, 170, 312),
)
TINY = replace(AWA, n_seen=12, n_dimensions=16, n_unseen=4)
QUICK = Plan(
    ablated={"tiny": TINY},
    bases={"tiny": TINY},
    factors={"tiny": {"noise": (1.5, 3.0)}},
    map_base=TINY,
    map_seen=(12,),
    map_dimensions=(16,),
    n_points=2,
)


def sweep(plan: Plan, n_seeds: int, folder: Path, n_jobs: int) -> list[dict[str, Any]]:
    """Return the records of all problems; each is stored as soon as it is done.

    Ablated cells have twice as many problems as the others.
    """
    models: dict[Setting, tuple[str, ...]] = {}
    for setting, names in plan.cells():
        models[setting] = tuple(dict.fromkeys((*models.get(setting, ()), *names)))
    twice = list(plan.ablated.values())
    jobs = [(setting, seed) for seed in range(n_seeds) for setting in models]
    jobs += [(setting, seed) for seed in range(n_seeds, 2 * n_seeds) for setting in twice]
    pool = joblib.Parallel(n_jobs=n_jobs, verbose=1)
    run = joblib.delayed(record_of)
    found = pool(run(*job, models[job[0]], folder, plan.n_points) for job in jobs)
    return cast(list[dict[str, Any]], found)


def record_of(
    setting: Setting, seed: int, names: tuple[str, ...], folder: Path, n_points: int = N_POINTS
) -> dict[str, Any]:
    """Return the record of a problem; compute and store what it lacks."""
    path = folder / f"{setting.slug}_{seed}.json"
    record = json.loads(path.read_text("utf-8")) if path.exists() else {}
    found = record.get("models", {})
    missing = [name for name in names if name not in found]
    if not missing:
        return record
    start = time.process_time()
    problem = generate(setting, seed)
    record = {
        "setting": asdict(setting),
        "seed": seed,
        "data": record.get("data") or data_measures(problem),
        "models": {**found, **{name: tried(name, problem, n_points) for name in missing}},
        "seconds": record.get("seconds", 0.0) + time.process_time() - start,
    }
    folder.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(record) + "\n", encoding="utf-8")
    part.replace(path)
    return record


def summary(plan: Plan, records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the figures of the page: scores of every seed, means of all other measures."""
    cells: dict[str, Any] = {}
    for record in records:
        slug = Setting(**record["setting"]).slug
        cells.setdefault(slug, []).append(record)
    return {
        **environment(),
        "n_seeds": sorted({len(of_cell) for of_cell in cells.values()}),
        "minutes": sum(record["seconds"] for record in records) / 60,
        "ablations": {title: setting.slug for title, setting in plan.ablated.items()},
        "factors": {
            base: {
                name: {value: cell.slug for value, cell in plan.varied(base, name).items()}
                for name in plan.factors[base]
            }
            for base in plan.bases
        },
        "map": {
            "n_seen": plan.map_seen,
            "n_dimensions": plan.map_dimensions,
            "cells": [[setting.slug for setting in row] for row in plan.map_settings()],
        },
        "cells": {slug: _cell(of_cell) for slug, of_cell in cells.items()},
    }


def _cell(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return one cell: lists over seeds for scores, means for everything else."""

    def over_seeds(found: list[dict[str, Any]]) -> dict[str, Any]:
        means: dict[str, Any] = {}
        for key in found[0]:
            values = [one[key] for one in found]
            if "score" in key:
                means[key] = np.round(values, 4).tolist()
            elif key != "chosen":
                means[key] = round(float(np.mean(values)), 4)
        return means

    return {
        "setting": records[0]["setting"],
        "data": over_seeds([record["data"] for record in records]),
        "models": {
            name: over_seeds([record["models"][name] for record in records])
            for name in records[0]["models"]
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny cells, two seeds")
    parser.add_argument(
        "--seeds", type=int, default=4, help="problems per cell; twice as many if ablated"
    )
    parser.add_argument("--jobs", type=int, default=1, help="problems at the same time")
    parser.add_argument("--folder", type=Path, default=RECORDS, help="one JSON file per problem")
    parser.add_argument("--write", action="store_true", help="write the page, its tables, pictures")
    options = parser.parse_args()
    plan, n_seeds = (QUICK, 2) if options.quick else (FULL, options.seeds)
    if options.write and options.quick:
        parser.error("the page shows the full sweep; leave out --quick or --write")
    records = sweep(plan, n_seeds, options.folder, options.jobs)
    found = summary(plan, records)
    print(f"{len(records)} problems, {found['minutes']:.1f} minutes of one core")
    if options.write:
        write_page(found, PLACES)


if __name__ == "__main__":
    main()
