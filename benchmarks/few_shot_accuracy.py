"""Few-shot accuracy on mini-ImageNet features, beside the figures that the paper prints.

Parameters are chosen on 16 validation classes of a backbone that never saw them, and carried
over to the 20 novel classes unchanged. Reads features from $ZONKEY_DATA or ../shared/data; trials
are kept in benchmarks/records, so that an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from scipy.linalg import LinAlgWarning
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ParameterGrid

import mini_imagenet
from recording import HERE, save, show
from zonkey import FewShotClassifier, NearestSupport
from zonkey.evaluation import any_shot, large_scale, n_way_k_shot
from zonkey.metrics import mean_confidence_interval

# What the paper prints; its features are another WRN, so that only trends compare.
PAPER = {
    "BPL (SFSP1)": {1: "58.53 ± 0.82", 5: "75.62 ± 0.61"},
    "NN": {1: "41.08 ± 0.70 (simple CNN)", 5: "51.04 ± 0.65 (simple CNN)"},
}
PAPER_HITS = {
    1: {
        "BPL (SFSP1)": [22.8, 28.8, 33.8, 36.8, 39.2],
        "BPL (SFSP2)": [22.7, 28.8, 33.7, 36.7, 39.2],
    },
    5: {
        "BPL (SFSP1)": [43.1, 51.4, 57.4, 60.9, 63.2],
        "BPL (SFSP2)": [43.0, 51.3, 57.3, 60.8, 63.0],
    },
}
GRID = {"rho": [0.5, 0.9], "alpha": [0.1, 0.5, 0.9], "mu": [0.1, 0.3]}
MODELS: dict[str, dict[str, Any]] = {
    "BPL (SFSP1)": {"synthesis": "support"},
    "BPL (SFSP1), unscaled": {"synthesis": "support", "scaling": None},
    "BPL (SFSP2)": {"synthesis": "base"},
    "BPL (novel)": {"synthesis": "support", "base": None},
}


def choose(data: Any, n_shot: int, n_trials: int) -> dict[str, dict[str, float]]:
    """Choose rho, alpha and mu of every model on validation classes."""
    known, points = data.base.moments.prototypes, list(ParameterGrid(GRID))
    models = {
        f"{name} {i}": FewShotClassifier(
            known, **{"base": data.base, "n_episodes": 1, **fixed, **point}
        )
        for name, fixed in MODELS.items()
        for i, point in enumerate(points)
    }
    results = n_way_k_shot(
        models,
        data.X,
        data.y,
        data.classes,
        n_shot=n_shot,
        n_trials=n_trials,
        random_state=1,
        n_jobs=2,
        progress=True,
    )
    means = {name: [results[f"{name} {i}"].mean() for i in range(len(points))] for name in MODELS}
    return {name: points[int(np.argmax(figures))] for name, figures in means.items()}


def configured(data: Any, chosen: dict[str, dict[str, float]]) -> dict[str, Any]:
    """Return all models with their parameters, and the baselines."""
    known = data.base.moments.prototypes
    models: dict[str, Any] = {
        name: FewShotClassifier(known, **{"base": data.base, **fixed, **chosen[name]})
        for name, fixed in MODELS.items()
    }
    return {**models, "NN": NearestSupport(), "nearest mean": NearestSupport("mean")}


def five_way(data: Any, models: dict[str, Any], n_shot: int, n_trials: int) -> list[dict[str, Any]]:
    results = n_way_k_shot(
        models,
        data.X,
        data.y,
        data.classes,
        n_shot=n_shot,
        n_trials=n_trials,
        n_jobs=2,
        progress=True,
        checkpoint=HERE / "records" / f"mini_imagenet_{n_shot}_shot.jsonl",
    )
    rows = []
    for name, figures in results.items():
        mean, half_width = mean_confidence_interval(100 * figures)
        paper = PAPER.get(name, {}).get(n_shot, "-")
        rows.append({"model": name, "measured": f"{mean:.2f} ± {half_width:.2f}", "paper": paper})
    return rows


def hits(results: dict[str, np.ndarray], place: int, paper: dict[str, list[float]]) -> list[dict]:
    rows = []
    for name, figures in results.items():
        row = {"model": name}
        for K in range(figures.shape[1]):
            mean = 100 * figures[:, K, place].mean()
            printed = f" ({paper[name][K]})" if name in paper else ""
            row[f"K={K + 1}"] = f"{mean:.1f}{printed}"
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=600)
    parser.add_argument("--selection-trials", type=int, default=20)
    arguments = parser.parse_args()
    if not mini_imagenet.folder().exists():
        print(f"No features in {mini_imagenet.folder()}; set ZONKEY_DATA.")
        return
    warnings.simplefilter("ignore", ConvergenceWarning)  # the guard may act at extreme points
    warnings.simplefilter("ignore", LinAlgWarning)
    start = time.perf_counter()
    validation, novel = mini_imagenet.load("validation"), mini_imagenet.load("novel")
    record: dict[str, Any] = {"features_sha256": [validation.sha256, novel.sha256]}
    for n_shot in (1, 5):
        chosen = choose(validation, n_shot, arguments.selection_trials)
        models = configured(novel, chosen)
        del models["BPL (SFSP2)"]  # compared with SFSP1 among all classes, as in the paper
        rows = five_way(novel, models, n_shot, arguments.trials)
        show(f"5-way {n_shot}-shot, {arguments.trials} trials (%)", rows)
        record[f"{n_shot}-shot"] = {"chosen": chosen, "rows": rows}
        print("chosen:", chosen, flush=True)
    models = configured(novel, chosen)  # for all K with what was chosen for five shots
    results = large_scale(models, novel.X, novel.y, novel.classes, n_jobs=2, progress=True)
    for place, k in enumerate((1, 5)):
        record[f"hit@{k}"] = hits(results, place, PAPER_HITS[k])
        show(f"20-way, hit@{k} (in brackets the paper's, ImNet 360-way) (%)", record[f"hit@{k}"])
    model = clone(models["BPL (SFSP1)"])
    curve = any_shot(model, novel.X, novel.y, novel.classes, n_repeats=3, n_jobs=2)
    rows = [
        {"K": K, "hit@1": float(f"{a:.1f}"), "hit@5": float(f"{b:.1f}")}
        for K, (a, b) in enumerate(100 * curve.mean(axis=0))
    ]
    record["any-shot"] = rows
    show("Any-shot curve, BPL (SFSP1), 20-way (%)", rows)
    record["seconds"] = round(time.perf_counter() - start, 1)
    print(f"Record: {save('few_shot_accuracy', record)}")


if __name__ == "__main__":
    main()
