"""The measurements of one run: from a model, a data set and a seed to results."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from sklearn.manifold import TSNE

from zonkey.anyshot.classifier import AnyShotClassifier
from zonkey.arrays import to_numpy
from zonkey.bpl.few_shot import FewShotClassifier
from zonkey.bpl.frame import BaseClasses
from zonkey.bpl.zero_shot import ZeroShotClassifier
from zonkey.evaluation.protocols import draw_trial, seen_unseen_scores, zero_shot_scores
from zonkey.files.dataset import Dataset
from zonkey.metrics import generalized_scores

from ...peers.fsl import BaseSamples
from ..records import pack
from .models import FEW_SHOT, ZERO_SHOT, AnyShotModel, move_to_device
from .selection import (
    CONCENTRATION,
    NovelData,
    novel_data,
    prepare,
    prepare_shots,
    silence_warnings,
)

_CURVE_POINTS = 60
_MAP_SAMPLES, _MOST_MAPPED = 60, 3000  # of one class, of all
# Steps after which accuracy is measured; the paper stops at five.
_STEPS = (0, 1, 2, 3, 4, 5, 7, 10, 15)
_QUICK_STEPS = (0, 1, 3, 5, 8)
_LONG = 20.0  # seconds of a fit that is not repeated
_MB = 2.0**20


def measure_zero_shot(
    data: Dataset,
    model: str,
    parameters: dict[str, Any],
    seed: int,
    *,
    seen_penalty: float | None = None,
) -> dict[str, Any]:
    """Return accuracy among unseen classes and among all classes, and every prediction.

    Models that calibrate also report the harmonic mean at the chosen penalty of seen classes.
    """
    fixed = {"seen_penalty": 0.0} if isinstance(ZERO_SHOT[model], AnyShotModel) else {}
    fitted, parts = _fit_zero_shot(data, model, {**parameters, **fixed}, seed)
    unseen = parts["test_unseen"]
    labels = fitted.classes_
    results: dict[str, Any] = {
        **zero_shot_scores(fitted, unseen, data.y_test_unseen),
        "classes": labels.tolist(),
        "truth": pack(_codes(data.y_test_unseen, labels)),
        "predicted": pack(_codes(fitted.predict(unseen), labels)),
        **_steps_of(fitted),
        "n_iter": int(getattr(fitted, "n_iter_", 0)),
    }
    if len(data.split.test_seen):
        seen = (parts["test_seen"], data.y_test_seen)
        scores, curve = seen_unseen_scores(fitted, *seen, unseen, data.y_test_unseen)
        results |= {**scores, "curve": thin_curve(curve)}
        if seen_penalty is not None:
            calibrated = curve.at(seen_penalty).harmonic_mean
            results |= {"seen_penalty": seen_penalty, "hm_calibrated": calibrated}
        elif fixed:
            fitted, _ = _fit_zero_shot(
                data, model, parameters, seed
            )  # with a penalty of its own choice
            scores, _ = seen_unseen_scores(fitted, *seen, unseen, data.y_test_unseen)
            results |= {"seen_penalty": fitted.seen_penalty_, "hm_calibrated": scores["hm"]}
    return results


def thin_curve(curve: Any) -> dict[str, list[float]]:
    """Return some points of a seen-unseen curve, for a record."""
    rows = np.unique(np.linspace(0, len(curve.seen) - 1, _CURVE_POINTS).astype(int))
    return {"seen": curve.seen[rows].tolist(), "unseen": curve.unseen[rows].tolist()}


def _steps_of(fitted: Any) -> dict[str, Any]:
    """Return the course of Algorithm 1: mu by step, how often it was lowered, how far W moved."""
    if not isinstance(fitted, ZeroShotClassifier):
        return {}
    mu = [float(value) for value in fitted.mu_]
    pushes = fitted.competition == "second-best"
    return {
        "mu": mu,
        "n_lowered": sum(value < fitted.mu for value in mu) if pushes else 0,
        "n_indefinite": fitted.n_indefinite_,
        "moved": float(fitted.moved_),
    }


def measure_unlabeled(
    data: Dataset, model: str, parameters: dict[str, Any], seed: int
) -> dict[str, Any]:
    """Return accuracies before and after learning from the unlabeled test samples.

    Among all classes, samples of seen and unseen classes are in one unlabeled batch. Figures after
    it are transductive. A model that is transductive by itself has no figures before; it learns
    from samples of unseen classes alone.
    """
    if getattr(ZERO_SHOT[model], "is_transductive", False):
        return _measure_transductive(data, model, parameters, seed)
    fitted, parts = _fit_zero_shot(data, model, parameters, seed)
    X, y = parts["test_unseen"], data.y_test_unseen
    results = {"zsl": fitted.score(X, y), "zsl_unlabeled": fitted.adapt(X).score(X, y)}
    if len(data.split.test_seen):
        X, y = np.concatenate([parts["test_seen"], X]), np.concatenate([data.y_test_seen, y])
        among_all = fitted.with_candidates("all")
        for name, which in (("hm", among_all), ("hm_unlabeled", among_all.adapt(X))):
            scores = generalized_scores(y, which.predict(X), fitted.seen_classes_)
            results[name] = scores.harmonic_mean
    return results


def _measure_transductive(
    data: Dataset, model: str, parameters: dict[str, Any], seed: int
) -> dict[str, Any]:
    pipeline = ZERO_SHOT[model].build(data.prototypes, seed, seen=data.seen_classes, **parameters)
    steps, last = pipeline[:-1].fit(data.X_train, data.y_train), cast(Any, pipeline[-1])
    X, y = steps.transform(data.X_test_unseen), data.y_test_unseen
    with silence_warnings():
        fitted = last.fit_transductive(steps.transform(data.X_train), data.y_train, X)
    fitted = fitted.with_candidates("unseen")
    results = {"zsl_unlabeled": fitted.score(X, y)}
    if len(data.split.test_seen):
        seen = (steps.transform(data.X_test_seen), data.y_test_seen)
        scores, _ = seen_unseen_scores(fitted, *seen, X, y)
        results["hm_unlabeled"] = scores["hm"]
    return results


def measure_map(
    data: Dataset,
    model: str,
    parameters: dict[str, Any],
    seed: int,
    *,
    n_classes: int | None = None,
) -> dict[str, Any]:
    """Return test samples and projected prototypes of unseen classes, in two dimensions.

    Of all unseen classes, or of `n_classes` drawn at random. Projected prototypes W y are mapped
    together with the samples, at their own length: predictions compare samples with W y itself,
    and at unit length more prototypes would lie next to each other instead of next to samples.
    """
    fitted, parts = _fit_zero_shot(data, model, parameters, seed)
    rng = np.random.default_rng(0)  # the same classes and samples for every model
    known = np.sort(rng.permutation(data.unseen_classes)[:n_classes])
    most = min(_MAP_SAMPLES, max(1, _MOST_MAPPED // len(known)))
    members = (np.flatnonzero(data.y_test_unseen == label) for label in known)
    rows = np.concatenate([rng.permutation(rows)[:most] for rows in members])
    X = parts["test_unseen"][rows]
    centers = fitted.project(fitted.prototypes_.subset(known))
    points = np.concatenate([X, centers])
    perplexity = min(30.0, (len(points) - 1) / 3)
    places = TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(points)
    predicted = _codes(fitted.with_candidates(known.tolist()).predict(X), known)
    return {
        "classes": known.tolist(),
        "n_classes": len(known),
        "samples": np.round(places[: len(rows)], 2).tolist(),
        "prototypes": np.round(places[len(rows) :], 2).tolist(),
        "truth": _codes(data.y_test_unseen[rows], known).tolist(),
        "predicted": predicted.tolist(),
        **scatter_ratios(X, predicted, centers),
    }


def scatter_ratios(
    X: np.ndarray, predicted: np.ndarray, centers: np.ndarray
) -> dict[str, float | None]:
    """Return how compact predicted classes are in the feature space, and how centered.

    "compactness" is the scatter of samples within predicted classes over the scatter between the
    means of these classes, None if there is only one; "centering" the mean squared distance of
    samples from the projected prototype of the predicted class over that from the mean sample.
    Smaller is better for both. Positions in the map are unsuitable: t-SNE does not keep distances.
    """
    X, centers = X.astype(np.float64), centers.astype(np.float64)
    total = float(((X - X.mean(axis=0)) ** 2).sum())
    groups = (X[predicted == label] for label in np.unique(predicted))
    within = sum(float(((group - group.mean(axis=0)) ** 2).sum()) for group in groups)
    between = total - within
    distances = float(((X - centers[predicted]) ** 2).sum())
    return {
        "compactness": within / between if between > 0 else None,
        "centering": distances / total if total else None,
    }


def measure_convergence(
    data: Dataset, model: str, parameters: dict[str, Any], seed: int, *, quick: bool = False
) -> dict[str, Any]:
    """Return objective and change of W after every step, and accuracy after some steps."""
    numbers = _QUICK_STEPS if quick else _STEPS
    accuracies, objective, changes = [], [], []
    for number in numbers:
        steps = {"max_iter": number, "tol": 0.0} if number else {"synthesis": None}
        fitted, parts = _fit_zero_shot(data, model, {**parameters, **steps}, seed)
        accuracies.append(fitted.score(parts["test_unseen"], data.y_test_unseen))
        objective, changes = fitted.objective_, fitted.changes_  # at last, those of every step
    return {
        "objective": [float(value) for value in objective],
        "change": [float(value) for value in changes],
        "steps": list(numbers),
        "zsl": accuracies,
    }


def measure_trials(
    data: Dataset, model: str, parameters: dict[str, Any], seed: int, *, n_shot: int, n_trials: int
) -> dict[str, Any]:
    """Return the accuracy of every trial, and what Algorithm 1 did in all of them.

    `seed` is that of the training on base classes. The trials are the same for all seeds, so
    differences from models that are not trained stay paired.
    """
    shots, build = prepare_novel(data, model, seed)
    sizes, steps = shots.sizes(n_shot), Steps()
    found = shots.score_trials({model: build(parameters)}, sizes, n_trials, watch=steps.add)
    return {
        "accuracies": pack(found[model]),
        **sizes,
        "n_trials": n_trials,
        "queries_fixed": shots.queries_are_fixed,
        **steps.name_summary("steps"),
    }


class Steps:
    """Summary of the fits of a run: how often, and how far, the guard lowered mu."""

    def __init__(self) -> None:
        self._mu, self._n_lowered, self._n_indefinite = [], 0, 0

    def add(self, _: str, fitted: Any) -> None:
        """Count the steps of a fit, if it is one of the paper's model."""
        if isinstance(fitted, FewShotClassifier | ZeroShotClassifier):
            mu = to_numpy(fitted.mu_)
            pushes = fitted.competition == "second-best"
            self._mu.append(mu)
            self._n_lowered += int((mu < fitted.mu).sum()) if pushes else 0
            self._n_indefinite += fitted.n_indefinite_

    def summary(self) -> dict[str, Any] | None:
        """Return counts, the least mu and the mean; None if no step was taken."""
        mu = np.concatenate(self._mu) if self._mu else np.empty(0)
        if not mu.size:
            return None
        return {
            "n": mu.size,
            "n_lowered": self._n_lowered,
            "n_indefinite": self._n_indefinite,
            "least_mu": float(mu.min()),
            "mean_mu": float(mu.mean()),
        }

    def name_summary(self, name: str) -> dict[str, Any]:
        """Return the summary under a name, or nothing."""
        found = self.summary()
        return {} if found is None else {name: found}


def measure_unlabeled_trials(
    data: Dataset, model: str, parameters: dict[str, Any], seed: int, *, n_shot: int, n_trials: int
) -> dict[str, Any]:
    """Return the accuracies of trials before and after learning from the unlabeled queries.

    Trials are balanced, and unbalanced if there are samples for it.
    """
    shots, build = prepare_novel(data, model)
    estimator = build(parameters)
    fixed = shots.queries_are_fixed
    results: dict[str, Any] = {**shots.sizes(n_shot), "n_trials": n_trials, "queries_fixed": fixed}
    for name, concentration in (("balanced", None), ("unbalanced", CONCENTRATION)):
        sizes = shots.sizes(n_shot, balanced=concentration is None)
        if not sizes["n_query"]:
            continue
        for ending, adapt in (("", False), ("_unlabeled", True)):
            options = {"adapt": adapt, "concentration": concentration, "random_state": seed}
            found = shots.score_trials({model: estimator}, sizes, n_trials, **options)
            results[f"{name}{ending}"] = pack(found[model])
    return results


def measure_all_classes(
    data: Dataset,
    model: str,
    parameters_by_shots: dict[str, dict[str, Any]],
    seed: int,
    *,
    zero_parameters: dict[str, Any] | None = None,
    most_shots: int,
    n_repeats: int,
) -> dict[str, Any]:
    """Return hit@1 and hit@5 among all novel classes, by number of shots.

    Every number of shots has parameters of its own. Zero shots, for models that support them, use
    those chosen for zero-shot learning, or for one shot. `seed` is that of the training on base
    classes; the repetitions are the same for all seeds.
    """
    shots, build = prepare_novel(data, model, seed)
    numbers = range(1, min(most_shots, shots.most_shots) + 1)
    chosen = {K: parameters_by_shots[str(K)] for K in numbers}
    if FEW_SHOT[model].from_zero:
        chosen = {0: zero_parameters or chosen[1], **chosen}
    top = (1, min(5, len(shots.classes)))
    parts, behavior = [], []
    estimator, built_with = None, None
    for K, parameters in chosen.items():
        if parameters != built_with:  # it may take long
            estimator, built_with = build(parameters), parameters
        steps = Steps()
        options = {"shots": [K], "top": top, "n_repeats": n_repeats, "watch": steps.add}
        parts.append(shots.score_all_classes({model: estimator}, **options)[model])
        behavior.append(steps.summary())
    hits = np.concatenate(parts, axis=1)
    return {
        "shots": list(chosen),
        "hit@1": hits[:, :, 0].tolist(),
        "hit@5": hits[:, :, 1].tolist(),
        "n_novel": len(shots.classes),
        "queries_fixed": shots.queries_are_fixed,
        **({"steps": behavior} if any(behavior) else {}),
    }


def measure_runtime(
    data: Dataset,
    model: str,
    parameters: dict[str, Any],
    seed: int,
    *,
    most_shots: int,
    n_timings: int,
) -> dict[str, Any]:
    """Return the seconds from base samples and support set to a fitted model, by number of shots.

    They are end to end: preprocessing, moments of base classes or training on them, and the fit to
    all novel classes; the median of `n_timings`, or one timing if it takes long. "base_mb" is the
    size of the base classes that the fit needs. "peak_mb" is the most memory that Python and NumPy
    allocated in one more fit with the most shots; None if fits take long, or if torch allocates.
    """
    shots = novel_data(data)
    numbers = list(range(1, min(most_shots, shots.most_shots) + 1))
    seconds, counts, memory = [], [], {}
    for K in numbers:
        rng = np.random.default_rng(seed)
        sizes = {"n_way": None, "n_shot": K, "n_query": None, "queries": shots.queries}
        support = data.split.novel[draw_trial(shots.y, shots.classes, **sizes, rng=rng).support]
        fit = _make_fit(data, model, parameters, seed, support)
        timings, fitted = _timings(fit, n_timings)
        seconds.append(round(float(np.median(timings)), 3))
        counts.append(len(timings))
        if numbers[-1] == K:
            is_traced = timings[0] < _LONG and not getattr(FEW_SHOT[model], "uses_torch", False)
            peak = _peak_mb(fit) if is_traced else None
            memory = {"base_mb": stored_mb(fitted), "peak_mb": peak}
    return {"shots": numbers, "seconds": seconds, "n_timings": counts, **memory}


def _make_fit(
    data: Dataset, model: str, parameters: dict[str, Any], seed: int, support: np.ndarray
) -> Callable[[], Any]:
    """Return a function that learns from base samples and a support set, from the beginning."""
    spec = FEW_SHOT[model]
    X, y = np.asarray(data.X[support]), data.y[support]

    def fit() -> Any:
        if isinstance(spec, AnyShotModel):
            estimator = spec.build(data.prototypes, seed=0, **parameters)[-1]
            return estimator.fit(move_to_device(data.X_train), data.y_train).with_shots(
                move_to_device(X), y
            )
        known = prepare(data, spec.preset, spec.base)
        estimator: Any = spec.build(known.prototypes, known.base, **parameters)
        if "random_state" in estimator.get_params():
            estimator.set_params(random_state=seed)
        return estimator.fit(known.features(X), y)

    return fit


def _timings(fit: Callable[[], Any], n_timings: int) -> tuple[list[float], Any]:
    """Return the seconds of each fit, and the fitted model."""
    found, fitted = [], None
    while not found or (len(found) < n_timings and found[0] < _LONG):
        with silence_warnings():
            start = time.perf_counter()
            fitted = fit()
            found.append(time.perf_counter() - start)
    return found, fitted


def _peak_mb(fit: Callable[[], Any]) -> float:
    tracemalloc.start()
    try:
        with silence_warnings():
            fit()
        return round(tracemalloc.get_traced_memory()[1] / _MB, 2)
    finally:
        tracemalloc.stop()


def stored_mb(fitted: Any) -> float | None:
    """Return the size of the stored base classes that a new fit needs.

    The three matrices of the moments, samples that are perturbed or drawn, or all base samples.
    None if it is not known.
    """
    base = getattr(fitted, "base", None)
    if isinstance(fitted, AnyShotClassifier):
        return None
    if isinstance(base, BaseSamples):
        return round(base.X.nbytes / _MB, 3)
    if not isinstance(base, BaseClasses):
        return 0.0
    moments, draws = base.moments, fitted.base_samples_per_class is not None
    parts = [] if draws else [moments.A0, moments.B0, moments.C0]
    if draws or fitted.synthesis == "base":
        parts += [moments.samples_of(label) for label in base.prototypes.labels.tolist()]
    return round(sum(to_numpy(part).nbytes for part in parts) / _MB, 3)


def _fit_zero_shot(
    data: Dataset, model: str, parameters: dict[str, Any], seed: int
) -> tuple[Any, dict[str, np.ndarray]]:
    """Fit a zero-shot model; return its classifier and the preprocessed test samples."""
    pipeline = ZERO_SHOT[model].build(data.prototypes, seed, seen=data.seen_classes, **parameters)
    with silence_warnings():
        pipeline.fit(data.X_train, data.y_train)
    last: Any = pipeline[-1]
    classifier = last.with_candidates("unseen")
    if getattr(classifier, "is_transductive_", False):
        raise ValueError(
            f"Models here must learn from training samples alone; {model!r} has seen unlabeled "
            "samples of unseen classes, so its figures are not comparable. Measure it separately."
        )
    parts = {
        part: pipeline[:-1].transform(data.X[getattr(data.split, part)])
        for part in ("test_seen", "test_unseen")
        if len(getattr(data.split, part))
    }
    return classifier, parts


def prepare_novel(
    data: Dataset, model: str, seed: int = 0
) -> tuple[NovelData, Callable[[dict[str, Any]], Any]]:
    """Return novel samples, and a function from parameters to the estimator.

    One for any number of shots is already fitted. `seed` is that of the training on base samples.
    """
    spec = FEW_SHOT[model]
    if isinstance(spec, AnyShotModel):

        def fit(parameters: dict[str, Any]) -> Any:
            estimator = spec.build(data.prototypes, seed=0, **parameters)[-1]
            with silence_warnings():
                return estimator.fit(move_to_device(data.X_train), data.y_train)

        return novel_data(data), fit
    shots = prepare_shots(data, spec.preset, spec.base, seed=seed)
    return shots, lambda parameters: spec.build(shots.prototypes, shots.base, **parameters)


def _codes(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    return np.searchsorted(classes, labels).astype(np.int16)
