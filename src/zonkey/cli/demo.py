"""The demonstration: emoji never seen in training, recognized by their names."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from ..bench.records import surroundings
from ..datasets import EmojiDataset, load_emoji
from ..estimators import ZeroShotClassifier
from ..evaluation import seen_unseen_scores, zero_shot_scores
from ..metrics import SeenUnseenCurve
from ..model_selection import ZeroShotSearchCV
from ..presets import paper, recommended
from .demo_shots import any_shot_curves
from .demo_zonkey import Zonkey, synthesize_a_zebra

Say = Callable[[str], None]

# What is chosen on the validation classes. The page shows the guesses of the last model; its grid
# is a part of the one that the preset comes with, for the sake of time.
GRIDS: dict[str, Any] = {
    "BPL0": {},
    "paper (BPL)": {
        "zeroshotclassifier__rho": [0.1, 0.5],
        "zeroshotclassifier__alpha": [0.1, 0.5],
        "zeroshotclassifier__mu": [0.1],
    },
    "recommended": (
        {"power__power": [0.5, 1.0], "whiten__shrinkage": [0.25, 1.0, 4.0]},
        {"classify__gamma": [0.5, 1.0, 2.0], "classify__beta": [0.03, 0.1, 0.3]},
    ),
}


@dataclass(frozen=True, eq=False)
class DemoResult:
    """The record of the run, and what the page shows."""

    record: dict[str, Any]
    data: EmojiDataset
    model: ZeroShotClassifier
    X_unseen: np.ndarray
    curves: dict[str, SeenUnseenCurve]
    zonkey: Zonkey


def run_demo(seed: int, say: Say = lambda _: None) -> DemoResult:
    """Zero-shot, generalized zero-shot and any-shot learning on the embedded emoji.

    `say` is told what is being done.
    """
    start = time.perf_counter()
    data = load_emoji()
    parts = (data.X_test_seen, data.X_test_unseen)
    rows, curves, model, unseen = [], {}, None, None
    for name, estimator in _models(data, seed).items():
        say(f"{name}: choosing parameters on validation classes, fitting, testing")
        search = ZeroShotSearchCV(estimator, GRIDS[name], cv=_validation(data))
        best = search.fit(data.X_train, data.y_train).best_estimator_
        model, steps = best[-1], best[:-1]
        seen, unseen = (steps.transform(part) for part in parts)
        scores, curves[name] = _evaluate(model, seen, unseen, data)
        chosen = {key.split("__", 1)[1]: value for key, value in search.best_params_.items()}
        chosen |= getattr(search, "calibration_", {})
        rows.append({"model": name, "chosen": chosen, **scores})
    say("From no shot to four: the any-shot curve")
    shots = any_shot_curves(seed)
    say("A zebra made of a horse")
    zonkey = synthesize_a_zebra()
    record = {
        "command": f"zonkey demo --seed {seed}",
        "seed": seed,
        "data": data.record(),
        "models": rows,
        "any_shot": shots,
        "zonkey": zonkey.record(),
        "seconds": round(time.perf_counter() - start, 1),
        **surroundings(),
    }
    assert model is not None
    assert unseen is not None
    return DemoResult(record, data, model, unseen, curves, zonkey)


def _models(data: EmojiDataset, seed: int) -> dict[str, Pipeline]:
    """Return the models, from features as they come to predictions."""
    return {
        "BPL0": paper(data.prototypes, synthesis=None, random_state=seed),
        "paper (BPL)": paper(data.prototypes, random_state=seed),
        "recommended": recommended(data.prototypes, random_state=seed).estimator,
    }


def _validation(data: EmojiDataset) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the one fold that holds out the validation classes."""
    held_out = np.isin(data.y_train, data.split.val_classes)
    return [(np.flatnonzero(~held_out), np.flatnonzero(held_out))]


def _evaluate(
    model: ZeroShotClassifier, seen: np.ndarray, unseen: np.ndarray, data: EmojiDataset
) -> tuple[dict[str, float], SeenUnseenCurve]:
    """Score among the unseen classes only, then among all."""
    scores = zero_shot_scores(model, unseen, data.y_test_unseen)
    general, curve = seen_unseen_scores(model, seen, data.y_test_seen, unseen, data.y_test_unseen)
    return {"unseen_only": scores.pop("zsl"), **scores, **general}, curve
