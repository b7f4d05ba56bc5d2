"""Scores of zero-shot and generalized zero-shot classification."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..metrics import SeenUnseenCurve, generalized_scores, hit_at_k, seen_unseen_curve


def zero_shot_scores(model: Any, X_unseen: Any, y_unseen: Any) -> dict[str, float]:
    """Return the accuracy and hit@5 of a zero-shot classifier among its candidates.

    Parameters
    ----------
    model : ZeroShotClassifier or peer
        Fitted classifier.
    X_unseen : array-like of shape (n_samples, n_features)
        Test samples of unseen classes.
    y_unseen : array-like of shape (n_samples,)
        Labels of these samples.

    Returns
    -------
    dict
        ``"zsl"``, the per-class accuracy, and ``"hit@5"``. With fewer than five candidates all of
        them count for the latter.
    """
    top = model.predict_top(X_unseen)
    return {"zsl": model.score(X_unseen, y_unseen), "hit@5": hit_at_k(y_unseen, top)}


def seen_unseen_scores(
    model: Any, X_seen: Any, y_seen: Any, X_unseen: Any, y_unseen: Any
) -> tuple[dict[str, float], SeenUnseenCurve]:
    """Return the generalized scores of a zero-shot classifier among all classes.

    Parameters
    ----------
    model : ZeroShotClassifier or peer
        Fitted classifier.
    X_seen : array-like of shape (n_seen, n_features)
        Test samples of seen classes.
    y_seen : array-like of shape (n_seen,)
        Labels of these samples.
    X_unseen : array-like of shape (n_unseen, n_features)
        Test samples of unseen classes.
    y_unseen : array-like of shape (n_unseen,)
        Labels of these samples.

    Returns
    -------
    scores : dict
        ``"acc_s"`` and ``"acc_u"``, the per-class accuracies on seen and unseen classes,
        ``"hm"``, their harmonic mean, and ``"ausuc"``, the area under the curve.
    curve : SeenUnseenCurve
        Accuracies at every penalty of the seen classes.
    """
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
