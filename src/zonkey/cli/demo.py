"""The demonstration: numbers never seen in training, read by the models of the paper."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from ..datasets import TwoDigitNumbers, load_two_digit_numbers
from ..estimators import ZeroShotClassifier
from ..metrics import SeenUnseenCurve, generalized_scores, seen_unseen_curve
from ..model_selection import ClassKFold, ZeroShotSearchCV
from ..preprocessing import FeatureNormalizer
from .demo_figure import draw

_RIDGES = {"beta": [0.01, 0.1, 1.0, 10.0, 100.0]}
_WEIGHTS = {"rho": [0.1, 0.5, 0.9], "alpha": [0.1, 0.3, 0.6], "mu": [0.1, 0.3]}
# The stripped-down models of Fig. "comp": fixed parameters, and those to choose.
MODELS: dict[str, tuple[dict[str, Any], dict[str, list[float]]]] = {
    "FPL": ({"direction": "forward"}, _RIDGES),
    "RPL": ({"direction": "reverse"}, _RIDGES),
    "BPL0": ({"synthesis": None}, {}),
    "BPL1": ({"competition": None}, {key: _WEIGHTS[key] for key in ("rho", "alpha")}),
    "BPL": ({}, _WEIGHTS),
}


@dataclass(frozen=True, eq=False)
class DemoResult:
    """The record of the run, and what the picture shows."""

    record: dict[str, Any]
    data: TwoDigitNumbers
    imagined: np.ndarray
    curves: dict[str, SeenUnseenCurve]

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write picture and record into a folder; each file appears whole or not at all."""
        folder.mkdir(parents=True, exist_ok=True)
        picture, record = folder / "numbers.png", folder / "record.json"
        part = folder / "numbers.part.png"
        draw(self.data, self.imagined, self.curves, part)
        part.replace(picture)
        part = record.with_suffix(".part")
        part.write_text(json.dumps(self.record, indent=2) + "\n", encoding="utf-8")
        part.replace(record)
        return picture, record


def run_demo(seed: int) -> DemoResult:
    """Fit every model of the ablation, its parameters chosen on training classes alone."""
    data = load_two_digit_numbers(random_state=seed)
    normalizer = FeatureNormalizer().fit(data.X_train)
    X_train, X_test = normalizer.transform(data.X_train), normalizer.transform(data.X_test)
    prototypes = data.prototypes.normalized()
    rows, curves, model = [], {}, None
    for name, (fixed, grid) in MODELS.items():
        search = ZeroShotSearchCV(
            ZeroShotClassifier(prototypes, random_state=seed, **fixed),
            grid,
            cv=ClassKFold(5, shuffle=True, random_state=seed),
        ).fit(X_train, data.y_train)
        model = search.best_estimator_
        scores, curves[name] = _evaluate(model, X_test, data)
        rows.append({"model": name, "chosen": search.best_params_, **scores})
    assert model is not None
    imagined = model.project(prototypes.subset(data.unseen_classes))
    return DemoResult(_record(seed, data, rows), data, imagined, curves)


def _evaluate(
    model: ZeroShotClassifier, X_test: np.ndarray, data: TwoDigitNumbers
) -> tuple[dict[str, float], SeenUnseenCurve]:
    """Score among the unseen classes only, then among all."""
    among_all = model.with_candidates("all")
    general = generalized_scores(data.y_test, among_all.predict(X_test), model.seen_classes_)
    scores = among_all.decision_function(X_test)
    curve = seen_unseen_curve(data.y_test, scores, among_all.classes_, model.seen_classes_)
    unseen = data.is_unseen
    return {
        "unseen_only": model.score(X_test[unseen], data.y_test[unseen]),
        "acc_s": general.seen,
        "acc_u": general.unseen,
        "hm": general.harmonic_mean,
        "ausuc": curve.area,
    }, curve


def _record(seed: int, data: TwoDigitNumbers, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "command": f"zonkey demo --seed {seed}",
        "seed": seed,
        "data": {
            "name": "two-digit numbers",
            "sha256": data.sha256,
            "n_train": len(data.y_train),
            "n_test": len(data.y_test),
            "n_seen": len(np.unique(data.y_train)),
            "n_unseen": len(data.unseen_classes),
        },
        "models": rows,
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("zonkey", "numpy", "scipy", "scikit-learn")},
        },
        "machine": {"system": platform.system(), "cpus": os.cpu_count()},
    }
