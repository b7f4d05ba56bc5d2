"""The demonstration: emoji never seen in training, recognised by their names."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..bench.records import surroundings
from ..datasets import EmojiDataset, load_emoji
from ..estimators import ZeroShotClassifier
from ..evaluation.zero_shot import seen_unseen_scores, zero_shot_scores
from ..metrics import SeenUnseenCurve
from ..model_selection import ZeroShotSearchCV
from ..preprocessing import FeatureNormalizer
from .demo_shots import any_shot_curves
from .demo_zonkey import Zonkey, synthesise_a_zebra

Say = Callable[[str], None]

_WEIGHTS = {"rho": [0.1, 0.5], "alpha": [0.1, 0.5], "mu": [0.1]}
_FAMILY = {"direction": ["both", "forward", "reverse"], "beta": [0.1, 1.0, 3.0, 10.0]}
# Preprocessing and parameters that are fixed, and those to choose on the validation classes. The
# page shows the guesses of the last.
MODELS: dict[str, tuple[dict[str, Any], dict[str, Any], Any]] = {
    "BPL0": ({}, {"synthesis": None}, {}),
    "paper (BPL)": ({}, {}, _WEIGHTS),
    "best so far": ({"power": 0.5}, {"synthesis": None}, _FAMILY),
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
    """Zero-shot, generalised zero-shot and any-shot learning on the embedded emoji.

    `say` is told what is being done.
    """
    start = time.perf_counter()
    data = load_emoji()
    parts = (data.X_train, data.X_test_seen, data.X_test_unseen)
    rows, curves, model, unseen = [], {}, None, None
    for name, (preprocessing, fixed, grid) in MODELS.items():
        say(f"{name}: choosing parameters on validation classes, fitting, testing")
        normalizer = FeatureNormalizer(**preprocessing).fit(data.X_train)
        X, seen, unseen = (normalizer.transform(part) for part in parts)
        model = ZeroShotClassifier(data.prototypes.normalized(), random_state=seed, **fixed)
        search = ZeroShotSearchCV(model, grid, cv=_validation(data)).fit(X, data.y_train)
        model = search.best_estimator_
        scores, curves[name] = _evaluate(model, seen, unseen, data)
        rows.append({"model": name, "chosen": {**preprocessing, **search.best_params_}, **scores})
    say("From no shot to four: the any-shot curve")
    shots = any_shot_curves(seed)
    say("A zebra made of a horse")
    zonkey = synthesise_a_zebra()
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
