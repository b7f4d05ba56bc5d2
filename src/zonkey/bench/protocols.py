"""What is measured in one run: a model, a data set, a seed, and out come figures."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.manifold import TSNE

from ..datasets import Dataset
from ..estimators import ZeroShotClassifier
from ..evaluation import large_scale, n_way_k_shot
from ..metrics import generalized_scores, hit_at_k, seen_unseen_curve
from ..preprocessing import FeatureNormalizer
from .models import FEW_SHOT, ZERO_SHOT
from .records import pack
from .shots import prepared_shots

_CURVE_POINTS = 60
_MAP_CLASSES, _MAP_SAMPLES = 12, 60
_LONG_RUN = 15  # steps, to show that five suffice


def zero_shot(data: Dataset, model: str, parameters: dict[str, Any], seed: int) -> dict[str, Any]:
    """Return accuracy among unseen classes, among all classes, and every prediction."""
    fitted, parts = _fitted(data, model, parameters, seed)
    unseen = parts["test_unseen"]
    labels = fitted.classes_
    predicted = fitted.predict(unseen)
    top = fitted.predict_top(unseen, min(5, len(labels)))
    results: dict[str, Any] = {
        "zsl": fitted.score(unseen, data.y_test_unseen),
        "hit@5": hit_at_k(data.y_test_unseen, top, top.shape[1]),
        "classes": labels.tolist(),
        "truth": pack(_codes(data.y_test_unseen, labels)),
        "predicted": pack(_codes(predicted, labels)),
        "least_mu": float(fitted.mu_.min()) if len(fitted.mu_) else None,
        "n_iter": int(fitted.n_iter_),
    }
    if len(data.split.test_seen):
        results |= _generalised(fitted, data, parts)
    return results


def _generalised(
    fitted: ZeroShotClassifier, data: Dataset, parts: dict[str, np.ndarray]
) -> dict[str, Any]:
    X = np.concatenate([parts["test_seen"], parts["test_unseen"]])
    y = np.concatenate([data.y_test_seen, data.y_test_unseen])
    among_all = fitted.with_candidates("all")
    scores = generalized_scores(y, among_all.predict(X), fitted.seen_classes_)
    decisions = among_all.decision_function(X)
    curve = seen_unseen_curve(y, decisions, among_all.classes_, fitted.seen_classes_)
    rows = np.unique(np.linspace(0, len(curve.seen) - 1, _CURVE_POINTS).astype(int))
    return {
        "acc_s": scores.seen,
        "acc_u": scores.unseen,
        "hm": scores.harmonic_mean,
        "ausuc": curve.area,
        "curve": {"seen": curve.seen[rows].tolist(), "unseen": curve.unseen[rows].tolist()},
    }


def projection_map(
    data: Dataset, model: str, parameters: dict[str, Any], seed: int
) -> dict[str, Any]:
    """Return test samples of some unseen classes and projected prototypes, in two dimensions."""
    fitted, parts = _fitted(data, model, parameters, seed)
    rng = np.random.default_rng(0)  # the same classes and samples for every model
    classes = rng.permutation(data.unseen_classes)[:_MAP_CLASSES]
    rows = np.concatenate(
        [
            rng.permutation(np.flatnonzero(data.y_test_unseen == label))[:_MAP_SAMPLES]
            for label in classes
        ]
    )
    X = parts["test_unseen"][rows]
    centres = fitted.project(fitted.prototypes_.subset(classes))
    points = np.concatenate([X, FeatureNormalizer().fit_transform(centres)])
    perplexity = min(30.0, (len(points) - 1) / 3)
    places = TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(points)
    known = np.sort(classes)
    among = fitted.with_candidates(known.tolist())
    return {
        "classes": known.tolist(),
        "samples": np.round(places[: len(rows)], 2).tolist(),
        "prototypes": np.round(places[len(rows) :], 2).tolist(),
        "truth": _codes(data.y_test_unseen[rows], known).tolist(),
        "predicted": _codes(among.predict(X), known).tolist(),
    }


def convergence(data: Dataset, model: str, parameters: dict[str, Any], seed: int) -> dict[str, Any]:
    """Return objective and change of W after each of many steps, and accuracy after each."""
    more = {"max_iter": _LONG_RUN, "tol": 0.0}
    fitted, parts = _fitted(data, model, {**parameters, **more}, seed)
    accuracies = []
    for steps in range(_LONG_RUN + 1):
        shorter = {"max_iter": steps, "tol": 0.0} if steps else {"synthesis": None}
        step, _ = _fitted(data, model, {**parameters, **shorter}, seed)
        accuracies.append(step.score(parts["test_unseen"], data.y_test_unseen))
    return {
        "objective": [float(value) for value in fitted.objective_],
        "change": [float(value) for value in fitted.changes_],
        "zsl": accuracies,
    }


def few_shot(
    data: Dataset, model: str, parameters: dict[str, Any], seed: int, *, n_shot: int, n_trials: int
) -> dict[str, Any]:
    """Return the accuracy in every one of many small trials."""
    shots = prepared_shots(data)
    estimator = FEW_SHOT[model].make(shots.prototypes, shots.base, **parameters)
    sizes = shots.trial_sizes(n_shot)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = n_way_k_shot(
            {model: estimator},
            shots.X,
            shots.y,
            shots.classes,
            **sizes,
            n_trials=n_trials,
            random_state=seed,
        )
    sizes.pop("queries")
    return {"accuracies": pack(found[model]), **sizes, "n_trials": n_trials}


def all_classes(
    data: Dataset,
    model: str,
    parameters: dict[str, Any],
    seed: int,
    *,
    most_shots: int,
    n_repeats: int,
) -> dict[str, Any]:
    """Return hit@1 and hit@5 among all novel classes, from no shot (where possible) to several."""
    shots = prepared_shots(data)
    spec = FEW_SHOT[model]
    estimator = spec.make(shots.prototypes, shots.base, **parameters)
    numbers = [*([0] if spec.from_zero else []), *range(1, min(most_shots, shots.most_shots) + 1)]
    top = (1, min(5, len(shots.classes)))
    options = {"shots": numbers, "top": top, "n_repeats": n_repeats, "random_state": seed}
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        hits = large_scale(
            {model: estimator}, shots.X, shots.y, shots.classes, queries=shots.queries, **options
        )[model]
    return {
        "shots": numbers,
        "hit@1": hits[:, :, 0].tolist(),
        "hit@5": hits[:, :, 1].tolist(),
        "n_novel": len(shots.classes),
        "seconds_a_fit": (time.perf_counter() - start) / (n_repeats * len(numbers)),
    }


def _fitted(
    data: Dataset, model: str, parameters: dict[str, Any], seed: int
) -> tuple[ZeroShotClassifier, dict[str, np.ndarray]]:
    """Fit a zero-shot model on unit-length features; return it and the parts for test."""
    normalizer = FeatureNormalizer().fit(data.X_train)
    estimator = ZERO_SHOT[model].build(data.prototypes, seed)
    estimator.set_params(**parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        estimator.fit(normalizer.transform(data.X_train), data.y_train)
    parts = {
        part: normalizer.transform(data.X[getattr(data.split, part)])
        for part in ("test_seen", "test_unseen")
        if len(getattr(data.split, part))
    }
    return estimator, parts


def _codes(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    return np.searchsorted(classes, labels).astype(np.int16)
