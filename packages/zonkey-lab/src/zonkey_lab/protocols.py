"""Few-shot protocols of the paper: N-way K-shot, and all classes at once.

Every few-shot trial has its own generator, seeded by the seed of the run and the number of the
trial. Results depend neither on the number of workers nor on interruptions. All models see the
same trials, so differences between models are paired.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from zonkey.arrays import is_device_array, to_numpy
from zonkey.bpl.frame import BaseClasses
from zonkey.bpl.moments import Moments
from zonkey.config import rows_per_block
from zonkey.evaluation.protocols import Trial, draw_trial, fit_shots, is_fitted, seeds_of
from zonkey.labels import check_count, format_labels
from zonkey.metrics import hit_at_k, per_class_accuracy
from zonkey.parameters import Interval

from .trials import Run, run_trials

_BYTES = 64  # that a number of a trial's samples takes while trials are learned together
Models = Mapping[str, Any]
Watch = Callable[[str, Any], None]


def n_way_k_shot(
    models: Models,
    X: Any,
    y: Any,
    classes: Any,
    *,
    n_way: int = 5,
    n_shot: int = 1,
    n_query: int = 15,
    n_trials: int = 600,
    queries: Any = None,
    adapt: bool = False,
    concentration: float | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    batch_size: int | None = None,
    progress: bool = False,
    watch: Watch | None = None,
) -> dict[str, np.ndarray]:
    """Return the accuracy of every model on many random few-shot tasks.

    Parameters
    ----------
    models : mapping of str to estimator
        Few-shot classifiers with ``fit(X_support, y_support)`` and ``predict``. Every parameter
        named `random_state` is set to the seed of the trial. An `AnyShotClassifier` that is fitted
        on base classes is not fitted again: ``with_shots(X_support, y_support)`` predicts.
    X : array-like of shape (n_samples, n_features)
        Samples of (at least) the novel classes.
    y : array-like of shape (n_samples,)
        Labels.
    classes : array-like
        Novel classes.
    n_way : int, default=5
        Number of classes per trial.
    n_shot : int, default=1
        Number of support samples per class.
    n_query : int, default=15
        Number of query samples per class.
    n_trials : int, default=600
        Number of trials.
    queries : array-like of int, default=None
        Positions of samples that are only used as queries; all others are only used as shots.
        None: any sample may be either.
    adapt : bool, default=False
        Whether models also learn from the queries, without labels (``model.adapt(X_query)``). Such
        figures are transductive and not comparable with others.
    concentration : float, default=None
        Positive parameter of a symmetric Dirichlet distribution, from which the shares of the
        classes among the ``n_way * n_query`` queries are drawn. The smaller, the less balanced.
        Every class needs as many samples. None: `n_query` of each class.
    random_state : int, default=0
        Seed of the run.
    n_jobs : int, default=None
        Number of trials, or batches of trials, to run at the same time, in threads.
    batch_size : int, default=None
        Number of trials learned together by models with ``fit_tasks``, such as
        `FewShotClassifier`. None: 1 on the host, where a trial fits into the cache; on a device
        what fits into the working memory (`zonkey.set_config`), at most 256.
    progress : bool, default=False
        Whether to show a progress bar.
    watch : callable, default=None
        Called with the name and the fitted model of every fit, before `adapt`; for example to look
        at `mu_`.

    Returns
    -------
    dict of str to ndarray of shape (n_trials,)
        Per-class accuracy of each model in each trial; with `concentration` the share of correct
        queries, as published for unbalanced tasks.
    """
    run = Run(models, X, y, classes, random_state)
    sizes: dict[str, Any] = {"n_way": n_way, "n_shot": n_shot, "n_query": n_query}
    sizes = {name: check_count(name, size, 1) for name, size in sizes.items()}
    accuracy = per_class_accuracy
    if concentration is not None:
        Interval(0, open_below=True).check("concentration", concentration)
        sizes["concentration"] = float(concentration)
        accuracy = share_of_correct
    require_adapt(run.models, adapt)
    n_trials = check_count("n_trials", n_trials, 1)
    if batch_size is None:
        n_samples = n_way * (n_shot + n_query)
        most = rows_per_block(_BYTES * n_samples * run.X.shape[1], at_most=256)
        batch_size = most if is_device_array(run.X) else 1
    batch_size = check_count("batch_size", batch_size, 1)
    models = share_bases(run.models)

    def run_batch(numbers: list[int]) -> list[dict[str, float]]:
        generators = [run.generator(number) for number in numbers]
        trials = [
            draw_trial(run.y, run.classes, **sizes, queries=queries, rng=rng) for rng in generators
        ]
        seeds = [int(rng.integers(2**31 - 1)) for rng in generators]
        fits = {name: fit_all(model, run, trials, seeds) for name, model in models.items()}
        results = []
        for i, trial in enumerate(trials):
            X_query, y_query = run.samples(trial.query), run.y[trial.query]
            found = {}
            for name, copies in fits.items():
                if watch is not None:
                    watch(name, copies[i])
                model = copies[i].adapt(X_query) if adapt else copies[i]
                found[name] = accuracy(y_query, model.predict(X_query))
            results.append(found)
        return results

    results = run_trials(
        run_batch, n_trials, n_jobs=n_jobs, progress=progress, batch_size=batch_size
    )
    return {name: np.array([result[name] for result in results]) for name in models}


def large_scale(
    models: Models,
    X: Any,
    y: Any,
    classes: Any,
    *,
    shots: Sequence[int] = (1, 2, 3, 4, 5),
    n_repeats: int = 5,
    top: Sequence[int] = (1, 5),
    queries: Any = None,
    adapt: bool = False,
    random_state: int = 0,
    n_jobs: int | None = None,
    progress: bool = False,
    watch: Watch | None = None,
) -> dict[str, np.ndarray]:
    """Return hit@k among all novel classes at once, for each number of shots.

    Within a repetition the support sets are nested: two shots are the one shot plus another. All
    remaining samples of the novel classes are queries. With 0 shots the classes are known by their
    prototypes only: all samples are queries, and ``model.zero_shot(classes)`` predicts them.

    Parameters
    ----------
    models : mapping of str to estimator
        Few-shot classifiers with ``fit(X_support, y_support)`` and ``predict_top``. Every
        parameter named `random_state` is set to the seed of the trial. An `AnyShotClassifier` that
        is fitted on base classes is not fitted again: ``with_shots(X_support, y_support)``
        predicts, or ``with_candidates(classes)`` with 0 shots.
    X : array-like of shape (n_samples, n_features)
        Samples of (at least) the novel classes.
    y : array-like of shape (n_samples,)
        Labels.
    classes : array-like
        Novel classes.
    shots : sequence of int, default=(1, 2, 3, 4, 5)
        Numbers of support samples per class.
    n_repeats : int, default=5
        Number of random choices of the support sets.
    top : sequence of int, default=(1, 5)
        Values of k in hit@k.
    queries : array-like of int, default=None
        Positions of samples that are only used as queries; all others are only used as shots.
        None: any sample may be either.
    adapt : bool, default=False
        Whether models also learn from the queries, without labels (``model.adapt(X_query)``). Such
        figures are transductive and not comparable with others.
    random_state : int, default=0
        Seed of the run.
    n_jobs : int, default=None
        Number of trials to run at the same time, in threads.
    progress : bool, default=False
        Whether to show a progress bar.
    watch : callable, default=None
        Called with the name and the fitted model of every fit, before `adapt`; for example to look
        at `mu_`.

    Returns
    -------
    dict of str to ndarray of shape (n_repeats, len(shots), len(top))
        Hit@k of each model.
    """
    run = Run(models, X, y, classes, random_state)
    require_adapt(run.models, adapt)
    models = share_bases(run.models)
    shots = [check_count("shots", K, 0) for K in shots]
    top = [check_count("top", k, 1) for k in top]
    trials = [(repeat, K) for repeat in range(n_repeats) for K in shots]

    def run_one(repeat: int, K: int) -> dict[str, list[float]]:
        rng = run.generator(repeat)
        sizes = {"n_way": None, "n_shot": K, "n_query": None}
        trial = draw_trial(run.y, run.classes, **sizes, queries=queries, rng=rng)
        seed = int(rng.integers(2**31 - 1))
        results = {}
        for name, model in models.items():
            model, X_query = fit_trial(model, run, trial, seed), run.samples(trial.query)
            if watch is not None:
                watch(name, model)
            model = model.adapt(X_query) if adapt else model
            best = to_numpy(model.predict_top(X_query, max(top)))
            results[name] = [hit_at_k(run.y[trial.query], best, k) for k in top]
        return results

    results = run_trials(
        lambda numbers: [run_one(*trials[i]) for i in numbers],
        len(trials),
        n_jobs=n_jobs,
        progress=progress,
    )
    shape = (n_repeats, len(shots), len(top))
    return {name: np.array([result[name] for result in results]).reshape(shape) for name in models}


def share_bases(models: Models) -> dict[str, Any]:
    """Return copies of the models whose base classes are diagonalized once for all trials."""
    copies = {}
    for name, model in models.items():
        if is_fitted(model):
            copies[name] = model
            continue
        copy: Any = clone(model)
        bases = {
            key: BaseClasses(value)
            for key, value in model.get_params().items()
            if isinstance(value, Moments)
        }
        copies[name] = copy.set_params(**bases)
        for base in copies[name].get_params().values():
            if isinstance(base, BaseClasses) and base.moments.scatter:
                _ = base.equations.factor  # computed here, not by several threads at once
    return copies


def fit_all(model: Any, run: Run, trials: list[Trial], seeds: list[int]) -> list[Any]:
    """Return a fitted copy of the model per trial, learned together if the model supports it."""
    # `fit_tasks` seeds the model itself, not its parts (such as a transformer).
    if len(trials) > 1 and hasattr(model, "fit_tasks") and seeds_of(model) == ["random_state"]:
        tasks = [(run.samples(trial.support), run.y[trial.support]) for trial in trials]
        return model.fit_tasks(tasks, random_states=seeds)
    return [fit_trial(model, run, *pair) for pair in zip(trials, seeds, strict=True)]


def fit_trial(model: Any, run: Run, trial: Trial, seed: int) -> Any:
    """Return a copy of the model fitted on the support set of a trial."""
    X, y = run.samples(trial.support), run.y[trial.support]
    return fit_shots(model, X, y, run.classes, seed)


def require_adapt(models: Models, adapt: bool) -> None:
    """Raise an error if unlabeled samples are asked for and a model cannot learn from them."""
    unable = np.array([name for name, model in models.items() if not hasattr(model, "adapt")])
    if adapt and unable.size:
        raise TypeError(
            "adapt=True needs models with `adapt`, such as AnyShotClassifier; "
            f"{format_labels(unable)} has none. Leave it out, or use adapt=False."
        )


def share_of_correct(y_true: np.ndarray, y_pred: Any) -> float:
    """Return the accuracy in which every query has the same weight."""
    return float(np.mean(y_true == to_numpy(y_pred)))
