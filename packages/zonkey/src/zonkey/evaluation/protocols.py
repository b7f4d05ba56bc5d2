"""Scores of zero-shot and generalized zero-shot classification; trials of few shots."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeGuard

import numpy as np
from sklearn.base import clone

from ..anyshot.classifier import AnyShotClassifier
from ..labels import as_labels, format_labels
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


class Trial(NamedTuple):
    """Positions of the support samples (shots) and query samples of one few-shot trial."""

    support: np.ndarray
    query: np.ndarray


def draw_trial(
    y: Any,
    classes: Any,
    *,
    n_way: int | None,
    n_shot: int,
    n_query: int | None,
    rng: np.random.Generator,
    queries: Any = None,
    concentration: float | None = None,
) -> Trial:
    """Draw classes, then disjoint support and query samples of each class.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Labels of all samples.
    classes : array-like
        Novel classes to draw from.
    n_way : int or None
        Number of classes; None takes all.
    n_shot : int
        Number of support samples per class.
    n_query : int or None
        Number of query samples per class; None takes all remaining samples.
    rng : numpy.random.Generator
        Source of randomness.
    queries : array-like of int, default=None
        Positions of samples that are only used as queries; all others are only used as shots.
        None: any sample may be either.
    concentration : float, default=None
        Numbers of queries of the classes are drawn from a symmetric Dirichlet-multinomial
        distribution with this parameter, ``n_way * n_query`` in all. The smaller, the less
        balanced. None: `n_query` of each class.

    Returns
    -------
    Trial
        Named tuple of `support` and `query`: positions of samples, class by class.

    Examples
    --------
    >>> import numpy as np
    >>> from zonkey.evaluation import draw_trial
    >>> rng = np.random.default_rng(0)
    >>> trial = draw_trial(list("aabb"), ["a", "b"], n_way=2, n_shot=1, n_query=1, rng=rng)
    >>> len(trial.support), len(trial.query)
    (2, 2)
    """
    y, classes = as_labels(y), np.unique(as_labels(classes))
    if n_way is not None:
        if n_way > len(classes):
            raise ValueError(
                f"`n_way` must be at most the number of novel classes, {len(classes)}; got {n_way}."
                " Ask for fewer ways or give more classes."
            )
        classes = rng.choice(classes, n_way, replace=False)
    support, query = [], []
    of_classes = [np.flatnonzero(y == label) for label in classes]
    unknown = classes[[not len(members) for members in of_classes]]
    if unknown.size:
        raise ValueError(
            f"Novel classes need samples; {format_labels(unknown)} has none in y. Correct "
            "`classes`."
        )
    numbers: list[int | None] = [n_query] * len(classes)
    n_needed = n_query or 1
    if concentration is not None:
        if n_query is None:
            raise ValueError("`concentration` needs `n_query`; got None. Pass the mean number.")
        n_needed = len(classes) * n_query  # a class may get them all
        shares = rng.dirichlet(np.full(len(classes), concentration))
        numbers = rng.multinomial(n_needed, shares).tolist()
    for label, members, number in zip(classes, of_classes, numbers, strict=True):
        members = rng.permutation(members)
        shots, rest = members[:n_shot], members[n_shot:]
        if queries is not None:
            is_query = np.isin(members, queries)
            shots, rest = members[~is_query][:n_shot], members[is_query]
        if len(shots) < n_shot or len(rest) < n_needed:
            asked = "at least 1" if n_query is None else n_needed
            raise ValueError(
                f"Class {str(label)!r} has {len(members)} samples; {n_shot} shots and "
                f"{asked} queries need {n_shot + n_needed}"
                f"{'' if queries is None else ' (`queries` fixes which are queries)'}. Lower "
                "`n_shot` or `n_query`."
            )
        support.append(shots)
        query.append(rest[:number])
    return Trial(np.concatenate(support), np.concatenate(query))


def fit_shots(model: Any, X: Any, y: np.ndarray, classes: np.ndarray, seed: int) -> Any:
    """Return a copy of a few-shot model that knows `classes` by some shots, or by none.

    Every parameter named `random_state` is set to `seed`. An `AnyShotClassifier` that is fitted on
    base classes is not fitted again.
    """
    if is_fitted(model):
        return model.with_shots(X, y) if len(y) else model.with_candidates(classes.tolist())
    if not len(y):
        return model.zero_shot(classes, random_state=seed)
    model = clone(model)
    model.set_params(**dict.fromkeys(seeds_of(model), seed))
    return model.fit(X, y)


def is_fitted(model: Any) -> TypeGuard[AnyShotClassifier]:
    """Whether a model has learned from base classes and takes shots without a refit."""
    return isinstance(model, AnyShotClassifier) and hasattr(model, "classes_")


def seeds_of(model: Any) -> list[str]:
    """Return the names of all parameters that are seeds, including those of parts."""
    return [key for key in model.get_params() if key.split("__")[-1] == "random_state"]
