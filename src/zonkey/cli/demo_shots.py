"""The any-shot curve of the demonstration: one model, from no picture of a class to four."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..core.frame import BaseClasses
from ..core.moments import Moments
from ..datasets import load_emoji
from ..estimators import FewShotClassifier, NearestSupport
from ..evaluation import large_scale
from ..preprocessing import FeatureNormalizer
from ..presets import recommended_few_shot

SHOTS = (0, 1, 2, 3, 4)
_TOP = (1, 5)
_REPEATS = 2


def any_shot_curves(seed: int) -> dict[str, Any]:
    """Return hit@1 and hit@5 among all novel classes, for each number of shots.

    Shots and queries are drawn in different styles. Models without prototypes need a shot.
    """
    data = load_emoji(split="few-shot")
    plain = FeatureNormalizer().fit(data.X_train).transform(data.X)
    fused = recommended_few_shot(data.X_train, data.y_train, data.prototypes)
    prototypes = data.prototypes.normalized()
    base = BaseClasses(Moments(prototypes).update(plain[data.split.base], data.y_train))
    # The printed model takes ten episodes; two draw the same curve in a fifth of the time.
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
