"""The figures of a zero-shot classifier: among unseen classes only, then among all."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..estimators import ZeroShotClassifier
from ..metrics import SeenUnseenCurve, generalized_scores, hit_at_k, seen_unseen_curve

_TOP = 5


def zero_shot_scores(model: ZeroShotClassifier, X_unseen: Any, y_unseen: Any) -> dict[str, float]:
    """Return accuracy and hit@5 (or fewer, where there are fewer classes) among the candidates."""
    top = model.predict_top(X_unseen, min(_TOP, len(model.classes_)))
    return {
        "zsl": model.score(X_unseen, y_unseen),
        f"hit@{_TOP}": hit_at_k(y_unseen, top, top.shape[1]),
    }


def seen_unseen_scores(
    model: ZeroShotClassifier, X_seen: Any, y_seen: Any, X_unseen: Any, y_unseen: Any
) -> tuple[dict[str, float], SeenUnseenCurve]:
    """Return acc_s, acc_u, HM and AUSUC among all classes, and the curve behind the last."""
    X, y = np.concatenate([X_seen, X_unseen]), np.concatenate([y_seen, y_unseen])
    among_all = model.with_candidates("all")
    scores = generalized_scores(y, among_all.predict(X), model.seen_classes_)
    decisions = among_all.decision_function(X)
    curve = seen_unseen_curve(y, decisions, among_all.classes_, model.seen_classes_)
    return {
        "acc_s": scores.seen,
        "acc_u": scores.unseen,
        "hm": scores.harmonic_mean,
        "ausuc": curve.area,
    }, curve
