"""Zero-shot, generalized and any-shot learning on the embedded emoji, and the zonkey."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline

from ...core.frame import BaseClasses
from ...core.moments import Moments
from ...core.synthesis import synthesize
from ...datasets import EmojiDataset, load_emoji
from ...estimators import FewShotClassifier, NearestSupport, ZeroShotClassifier
from ...evaluation import large_scale, seen_unseen_scores, zero_shot_scores
from ...linalg.arrays import nearest
from ...metrics import SeenUnseenCurve
from ...model_selection import ZeroShotSearchCV
from ...preprocessing import FeatureNormalizer
from ...presets import paper, recommended, recommended_few_shot
from ..records import environment

# Chosen on the validation classes. The page shows the guesses of the last model; its grid is a
# part of the preset's, to save time.
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
SHOTS = (0, 1, 2, 3, 4)
_TOP = (1, 5)
_REPEATS = 2
_N_LOOKS = 5


@dataclass(frozen=True)
class Zonkey:
    """A class without samples, the class it was synthesized from, and what came out.

    `looks_like` is the share of synthesized samples nearest to the mean of each class, without the
    source, for printed and for unscaled perturbation.
    """

    label: str
    source: str
    looks_like: dict[str, dict[str, float]]


@dataclass(frozen=True, eq=False)
class DemoResult:
    """The record of the run, and what the page shows."""

    record: dict[str, Any]
    data: EmojiDataset
    model: ZeroShotClassifier
    X_unseen: np.ndarray
    curves: dict[str, SeenUnseenCurve]
    zonkey: Zonkey


def run_demo(seed: int, say: Callable[[str], None] = lambda _: None) -> DemoResult:
    """Run the demonstration; `say` receives progress messages."""
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
    say("A zebra synthesized from a horse")
    zonkey = synthesize_a_zebra()
    record = {
        "command": f"zonkey demo --seed {seed}",
        "seed": seed,
        "data": data.record(),
        "models": rows,
        "any_shot": shots,
        "zonkey": asdict(zonkey),
        "seconds": round(time.perf_counter() - start, 1),
        **environment(),
    }
    assert model is not None
    assert unseen is not None
    return DemoResult(record, data, model, unseen, curves, zonkey)


def _models(data: EmojiDataset, seed: int) -> dict[str, Pipeline]:
    return {
        "BPL0": paper(data.prototypes, synthesis=None, random_state=seed),
        "paper (BPL)": paper(data.prototypes, random_state=seed),
        "recommended": recommended(data.prototypes, random_state=seed).estimator,
    }


def _validation(data: EmojiDataset) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the fold that holds out the validation classes."""
    held_out = np.isin(data.y_train, data.split.val_classes)
    return [(np.flatnonzero(~held_out), np.flatnonzero(held_out))]


def _evaluate(
    model: ZeroShotClassifier, seen: np.ndarray, unseen: np.ndarray, data: EmojiDataset
) -> tuple[dict[str, float], SeenUnseenCurve]:
    """Return scores among unseen classes and among all classes, and the curve."""
    scores = zero_shot_scores(model, unseen, data.y_test_unseen)
    general, curve = seen_unseen_scores(model, seen, data.y_test_seen, unseen, data.y_test_unseen)
    return {"unseen_only": scores.pop("zsl"), **scores, **general}, curve


def any_shot_curves(seed: int) -> dict[str, Any]:
    """Return hit@1 and hit@5 among all novel classes, by number of shots.

    Shots and queries are drawn in different styles. Models without prototypes need a shot.
    """
    data = load_emoji(split="few-shot")
    plain = FeatureNormalizer().fit(data.X_train).transform(data.X)
    fused = recommended_few_shot(data.X_train, data.y_train, data.prototypes)
    prototypes = data.prototypes.normalized()
    base = BaseClasses(Moments(prototypes).update(plain[data.split.base], data.y_train))
    # The paper averages ten episodes; two give the same curve in a fifth of the time.
    models = {
        "BPL0": (plain, FewShotClassifier(prototypes, base=base, synthesis=None), SHOTS),
        "paper (BPL)": (plain, FewShotClassifier(prototypes, base=base, n_episodes=2), SHOTS),
        "nearest shot": (plain, NearestSupport(), SHOTS[1:]),
        "recommended": (fused[0].transform(data.X), fused[-1], SHOTS),
    }
    curves = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        for name, (X, model, shots) in models.items():
            options = {"shots": shots, "top": _TOP, "n_repeats": _REPEATS, "random_state": seed}
            hits = large_scale(
                {name: model}, X, data.y, data.unseen_classes, queries=data.split.query, **options
            )[name]
            means = np.mean(hits, axis=0)
            curves[name] = {
                "shots": list(shots),
                **{f"hit@{k}": means[:, i].tolist() for i, k in enumerate(_TOP)},
            }
    return {
        "warnings": sorted({str(warning.message) for warning in caught}),
        "n_novel": len(data.unseen_classes),
        "n_queries": len(data.split.query),
        "n_repeats": _REPEATS,
        "curves": curves,
    }


def synthesize_a_zebra(label: str = "zebra", source: str = "horse") -> Zonkey:
    """Leave one class out of all data, synthesize it from another, and classify the result."""
    data = load_emoji()
    known = data.y != label
    normalizer = FeatureNormalizer().fit(data.X[known])
    X, y = np.asarray(normalizer.transform(data.X), np.float64), data.y
    prototypes = data.prototypes.normalized()
    model = ZeroShotClassifier(prototypes, synthesis=None).fit(X[known], y[known])
    means = np.stack([X[y == name].mean(axis=0) for name in prototypes.labels.tolist()])
    raw = X[y == source]
    looks = {}
    for how, scaling in (("as printed", "squared-norm"), ("unscaled", None)):
        made = synthesize(
            model.projection_,
            prototypes.subset([label]).matrix.astype(np.float64),
            prototypes.subset([source]).matrix.astype(np.float64),
            [raw],
            rho=1.0,
            n_neighbors=1,
            n_synthetic=len(raw),
            scaling=scaling,
            rng=np.random.default_rng(0),
        )
        best = prototypes.labels[np.asarray(nearest(made.features, means, 2))]
        looks[how] = _shares(np.where(best[:, 0] == source, best[:, 1], best[:, 0]))
    return Zonkey(label, source, looks)


def _shares(labels: np.ndarray) -> dict[str, float]:
    names, counts = np.unique(labels, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_N_LOOKS]
    return {str(names[i]): float(counts[i] / len(labels)) for i in order}
