"""The measurements of a comparison: from a system, data and a seed to results for a record."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from zonkey.evaluation.baselines import BaselineData, fit_baselines
from zonkey.evaluation.protocols import seen_unseen_scores, zero_shot_scores
from zonkey.files.dataset import Dataset
from zonkey.inference.scorer import unwrap
from zonkey.metrics import expected_calibration_error, generalized_scores, per_class_accuracy
from zonkey.persistence.model import save

from ..paper.bench.models import CLASSIFY, ZeroShotModel
from ..paper.bench.protocols import prepare_novel, thin_curve
from ..paper.bench.selection import select_few_shot, select_zero_shot, silence_warnings
from ..paper.records import pack
from .systems import SEEN_ONLY, System

_TRIALS_TO_CHOOSE = 60


def choose_parameters(
    system: System, data: Dataset, *, grid: Any, n_folds: int, **further: Any
) -> dict[str, Any]:
    """Return parameters and the penalty of seen classes, chosen on held-out training classes."""
    if system.is_seen_only:
        return {"chosen": {}, "points": []}
    calibrates = isinstance(system.spec, ZeroShotModel)  # the others choose their own penalty
    options = {"grid": grid, "n_folds": n_folds, "calibrates": calibrates, **further}
    return select_zero_shot(system.spec, data, **options)


def fit_system(
    system: System,
    data: Dataset,
    parameters: dict[str, Any],
    *,
    seen_penalty: float | None = None,
    seed: int = 0,
) -> tuple[Any, float]:
    """Return the system, fitted to the training samples, and the seconds that it took."""
    start = time.perf_counter()
    if system.is_seen_only:
        seen = data.seen_classes
        given = BaselineData(data.X_train, data.y_train, None, seen, seen, seed)
        [(_, model, _)], _ = fit_baselines([SEEN_ONLY[system.name]], given)
        return model, time.perf_counter() - start
    model = system.spec.build(data.prototypes, seed, seen=data.seen_classes, **parameters)
    if seen_penalty is not None:
        model.set_params(**{f"{CLASSIFY}__seen_penalty": seen_penalty})
    with silence_warnings():
        model.fit(data.X_train, data.y_train)
    return model, time.perf_counter() - start


def measure_system(
    system: System,
    data: Dataset,
    parameters: dict[str, Any],
    *,
    seen_penalty: float | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Return accuracies, predictions, calibration and seconds on the held-out classes."""
    options = {"seen_penalty": seen_penalty, "seed": seed}
    model, seconds = fit_system(system, data, parameters, **options)
    results: dict[str, Any] = {
        "classes": data.prototypes.labels.tolist(),
        "training_seconds": seconds,
        "truth_unseen": _pack(data.y_test_unseen, data),
    }
    if len(data.split.test_seen):
        results["truth_seen"] = _pack(data.y_test_seen, data)
    if system.is_seen_only:
        return {**results, **_measure_seen_only(model, data)}
    steps, last = unwrap(model)

    def prepare(X: Any) -> Any:
        return X if steps is None else steps.transform(X)

    return {**results, **_measure_zero_shot(last, prepare, data)}


def _measure_zero_shot(
    classifier: Any, prepare: Callable[[Any], Any], data: Dataset
) -> dict[str, Any]:
    among_unseen, y_unseen = classifier.with_candidates("unseen"), data.y_test_unseen
    start = time.perf_counter()
    X_unseen = prepare(data.X_test_unseen)
    predicted = among_unseen.predict(X_unseen)
    seconds = time.perf_counter() - start
    results = {
        **zero_shot_scores(among_unseen, X_unseen, y_unseen),
        "predicted_unseen": _pack(predicted, data),
        "prediction_seconds": seconds / len(y_unseen),
        **_measure_calibration(among_unseen, X_unseen, y_unseen),
    }
    if not len(data.split.test_seen):
        return results
    X_seen, y_seen = prepare(data.X_test_seen), data.y_test_seen
    among_all = classifier.with_candidates("all")
    scores, curve = seen_unseen_scores(among_all, X_seen, y_seen, X_unseen, y_unseen)
    among_seen = classifier.with_candidates(data.seen_classes.tolist())
    return {
        **results,
        **scores,
        "seen_penalty": float(classifier.seen_penalty_),
        "curve": thin_curve(curve),
        "all_unseen": _pack(among_all.predict(X_unseen), data),
        "all_seen": _pack(among_all.predict(X_seen), data),
        "among_seen": float(per_class_accuracy(y_seen, among_seen.predict(X_seen))),
    }


def _measure_seen_only(model: Any, data: Dataset) -> dict[str, Any]:
    """Return what a classifier of seen classes can do: nothing among unseen ones."""
    results: dict[str, Any] = {}
    start = time.perf_counter()
    predicted = model.predict(data.X_test_unseen)
    results["prediction_seconds"] = (time.perf_counter() - start) / len(predicted)
    if not len(data.split.test_seen):
        return results
    found, y = model.predict(data.X_test_seen), data.y_test_seen
    truth, both = np.concatenate([y, data.y_test_unseen]), np.concatenate([found, predicted])
    scores = generalized_scores(truth, both, data.seen_classes)
    return {
        **results,
        "acc_s": scores.seen,
        "acc_u": scores.unseen,
        "hm": scores.harmonic_mean,
        "all_unseen": _pack(predicted, data),
        "all_seen": _pack(found, data),
        "among_seen": float(per_class_accuracy(y, found)),
        **_measure_calibration(model, data.X_test_seen, y, "_seen"),
    }


def _measure_calibration(model: Any, X: Any, y: np.ndarray, ending: str = "") -> dict[str, float]:
    """Return calibration error and Brier score of a classifier that has probabilities."""
    if not hasattr(model, "predict_proba"):
        return {}
    P = np.asarray(model.predict_proba(X), dtype=np.float64)
    labels = np.asarray(model.classes_)
    right = labels[None, :] == y[:, None]
    return {
        f"ece{ending}": expected_calibration_error(y, P, labels),
        f"brier{ending}": float(np.mean(np.sum((P - right) ** 2, axis=1))),
    }


def save_system(
    path: Path,
    system: System,
    data: Dataset,
    parameters: dict[str, Any],
    *,
    facts: dict[str, Any],
    **options: Any,
) -> None:
    """Fit a system as it was measured, and write it to a model file that chooses among all classes.

    Preprocessing that does nothing is left out.
    """
    model, _ = fit_system(system, data, parameters, **options)
    steps = [step for _, step in model.steps if step != "passthrough"]
    if not system.is_seen_only:
        steps[-1] = steps[-1].with_candidates("all")
    names = [name for name, step in model.steps if step != "passthrough"]
    kept = steps[0] if len(steps) == 1 else Pipeline(list(zip(names, steps, strict=True)))
    about = f"{system.name} as compared on {data.name}: {data.split.name}"
    path.parent.mkdir(parents=True, exist_ok=True)
    save(kept, path, notes=about, training=facts)


def choose_for_shots(
    system: System,
    data: Dataset,
    validation: Dataset | None,
    *,
    grid: Any,
    n_shot: int,
    in_trials: bool,
    **further: Any,
) -> dict[str, Any]:
    """Return parameters chosen on validation classes, on tasks of the same kind."""
    return select_few_shot(
        system.spec,
        validation,
        data,
        grid=grid,
        n_shot=n_shot,
        n_trials=_TRIALS_TO_CHOOSE if in_trials else None,
        **further,
    )


def measure_shots(
    system: System,
    data: Dataset,
    parameters: dict[str, Any],
    *,
    n_shot: int,
    n_draws: int,
    n_way: int | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Return the accuracy of every draw of shots, among all held-out classes or in trials.

    Draws are the same for all systems and seeds; the seed is that of training on base classes.
    """
    start = time.perf_counter()
    shots, build = prepare_novel(data, system.name, seed)
    estimator = build(parameters)  # some learn from base classes here, others in the first draw
    prepared = time.perf_counter() - start
    n_shot = min(n_shot, shots.most_shots)
    options: dict[str, Any] = {"adapt": True} if system.is_transductive else {}
    start = time.perf_counter()
    if n_way is None:
        sizes = {"n_shot": n_shot}
        options |= {"shots": [n_shot], "top": (1,), "n_repeats": n_draws}
        found = shots.score_all_classes({system.name: estimator}, **options)
        accuracies = found[system.name][:, 0, 0]
    else:
        sizes = {**shots.sizes(n_shot), "n_way": min(n_way, len(shots.classes))}
        found = shots.score_trials({system.name: estimator}, sizes, n_draws, **options)
        accuracies = found[system.name]
    return {
        "accuracies": pack(np.asarray(accuracies)),
        **sizes,
        "n_classes": len(shots.classes),
        "training_seconds": prepared,
        "draw_seconds": (time.perf_counter() - start) / n_draws,
    }


def _pack(labels: Any, data: Dataset) -> dict[str, Any]:
    """Return labels as positions among the classes of the data."""
    return pack(np.searchsorted(data.prototypes.labels, np.asarray(labels)).astype(np.int32))
