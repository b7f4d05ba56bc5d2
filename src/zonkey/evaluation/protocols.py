"""The few-shot protocols of the paper: N-way K-shot trials, all classes at once, K = 0, 1, 2, ...

Every trial has a generator of its own, seeded by the seed of the run and its number, so that
results depend neither on the number of workers nor on where a run was interrupted. All models
see the same trials, which makes differences between them paired.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from ..core.frame import BaseClasses
from ..core.moments import Moments
from ..linalg.arrays import is_device_array, to_numpy
from ..metrics import hit_at_k, per_class_accuracy
from .fingerprint import fingerprint
from .runner import Run, run_trials
from .trials import Trial, draw_trial

_ON_DEVICE = 256  # trials learned together there
PathLike = str | os.PathLike[str]
Models = Mapping[str, Any]


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
    random_state: int = 0,
    n_jobs: int | None = None,
    batch_size: int | None = None,
    checkpoint: PathLike | None = None,
    progress: bool = False,
) -> dict[str, np.ndarray]:
    """Return the accuracy of every model on every one of many small tasks.

    Parameters
    ----------
    models : mapping of name to estimator
        Few-shot classifiers with ``fit(X_support, y_support)`` and ``predict``. Every parameter
        `random_state` in them gets a seed of each trial.
    X, y : array-like of shape (n, d) and (n,)
        Samples of (at least) the novel classes.
    classes : array-like
        The novel classes.
    n_way, n_shot, n_query : int
        Classes a trial; support and query samples a class.
    n_trials : int, default=600
    queries : array-like of int, default=None
        Positions of samples that are queries and never shots, all others being shots; for example
        pictures of another style. None: any sample may be either.
    random_state : int, default=0
    n_jobs : int, default=None
        Trials run at a time, in threads; batches of them where there are any.
    batch_size : int, default=None
        Trials learned together by models with ``fit_tasks``, such as `FewShotClassifier`. None: one
        on the host, where a trial fits the cache, and 256 where X is an array on a device.
    checkpoint : path, default=None
        File of finished trials, to go on from after an interruption.
    progress : bool, default=False
        Show a progress bar.

    Returns
    -------
    dict of name to ndarray of shape (n_trials,)
    """
    run = Run(models, X, y, classes, random_state)
    sizes = run.checked(n_way=n_way, n_shot=n_shot, n_query=n_query)
    models = prepared(run.models)

    if batch_size is None:
        batch_size = _ON_DEVICE if is_device_array(run.X) else 1
    at_once = run.checked(batch_size=batch_size)["batch_size"]

    def some(numbers: list[int]) -> list[dict[str, float]]:
        generators = [run.generator(number) for number in numbers]
        trials = [
            draw_trial(run.y, run.classes, **sizes, queries=queries, rng=rng) for rng in generators
        ]
        seeds = [int(rng.integers(2**31 - 1)) for rng in generators]
        of_models = {name: all_fitted(model, run, trials, seeds) for name, model in models.items()}
        return [
            {
                name: per_class_accuracy(
                    run.y[trial.query], copies[i].predict(run.samples(trial.query))
                )
                for name, copies in of_models.items()
            }
            for i, trial in enumerate(trials)
        ]

    numbers = range(run.checked(n_trials=n_trials)["n_trials"])
    saved = run.checkpoint(checkpoint, protocol="n_way_k_shot", **sizes, **apart(queries))
    results = run_trials(some, numbers, saved, n_jobs, "trials" if progress else None, at_once)
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
    random_state: int = 0,
    n_jobs: int | None = None,
    checkpoint: PathLike | None = None,
    progress: bool = False,
) -> dict[str, np.ndarray]:
    """Return hit@k among all novel classes at once, for each number of shots.

    In each repetition the support sets are nested: the two shots are the one shot and another.
    All other samples of the novel classes are queries. Without a shot (0 among `shots`) all
    samples are, and the model is the one that ``model.zero_shot(classes)`` returns.

    Parameters
    ----------
    models, X, y, classes, queries, random_state, n_jobs, checkpoint, progress
        As for `n_way_k_shot`; models need ``predict_top``.
    shots : sequence of int
        Numbers of support samples a class.
    n_repeats : int
        Random choices of the support sets.
    top : sequence of int
        The k of hit@k.

    Returns
    -------
    dict of name to ndarray of shape (n_repeats, len(shots), len(top))
    """
    run = Run(models, X, y, classes, random_state)
    models = prepared(run.models)
    shots = [run.checked(minimum=0, shots=K)["shots"] for K in shots]
    top = [run.checked(top=k)["top"] for k in top]
    grid = [(repeat, K) for repeat in range(n_repeats) for K in shots]

    def one(number: int) -> dict[str, list[float]]:
        repeat, K = grid[number]
        rng = run.generator(repeat)
        sizes = {"n_way": None, "n_shot": K, "n_query": None}
        trial = draw_trial(run.y, run.classes, **sizes, queries=queries, rng=rng)
        seed = int(rng.integers(2**31 - 1))
        results = {}
        for name, model in models.items():
            model = fitted(model, run, trial, seed)
            best = to_numpy(model.predict_top(run.samples(trial.query), max(top)))
            results[name] = [hit_at_k(run.y[trial.query], best, k) for k in top]
        return results

    settings = {"shots": shots, "top": top, **apart(queries)}
    saved = run.checkpoint(checkpoint, protocol="large_scale", **settings)
    what = "repetitions" if progress else None
    results = run_trials(lambda some: [one(i) for i in some], range(len(grid)), saved, n_jobs, what)
    shape = (n_repeats, len(shots), len(top))
    return {name: np.array([result[name] for result in results]).reshape(shape) for name in models}


def any_shot(
    model: Any,
    X: Any,
    y: Any,
    classes: Any,
    *,
    shots: Sequence[int] = (0, 1, 2, 3, 4, 5),
    **options: Any,
) -> np.ndarray:
    """Return hit@k of one model from no shot at all to several.

    Without a shot the novel classes are unseen ones, known by their prototypes: the point K = 0
    is zero-shot learning from the same base classes.

    Parameters
    ----------
    model : FewShotClassifier
        With base classes.
    X, y, classes, shots, **options
        As for `large_scale`.

    Returns
    -------
    ndarray of shape (n_repeats, len(shots), len(top))
    """
    return large_scale({"model": model}, X, y, classes, shots=shots, **options)["model"]


def apart(queries: Any) -> dict[str, str]:
    """Return what a checkpoint must know of samples that are queries only."""
    return {} if queries is None else {"queries": fingerprint(np.asarray(queries))}


def prepared(models: Models) -> dict[str, Any]:
    """Return copies of the models, whose base classes are diagonalized once for all trials."""
    copies = {}
    for name, model in models.items():
        bases = {
            key: BaseClasses(value)
            for key, value in model.get_params().items()
            if isinstance(value, Moments)
        }
        copy: Any = clone(model)
        copies[name] = copy.set_params(**bases)
        for base in copies[name].get_params().values():
            if isinstance(base, BaseClasses):
                _ = base.equations.factor  # here, not by several threads at the same time
    return copies


def all_fitted(model: Any, run: Run, trials: list[Trial], seeds: list[int]) -> list[Any]:
    """Return a fitted copy of the model for each trial, learned together where it can do that."""
    # Seeds of parts, such as a transformer, are set for each trial by a fit of its own.
    if len(trials) > 1 and hasattr(model, "fit_tasks") and seeds_of(model) == ["random_state"]:
        tasks = [(run.samples(trial.support), run.y[trial.support]) for trial in trials]
        return model.fit_tasks(tasks, random_states=seeds)
    return [fitted(model, run, *pair) for pair in zip(trials, seeds, strict=True)]


def fitted(model: Any, run: Run, trial: Trial, seed: int) -> Any:
    """Return a copy of the model fitted on the support set of a trial, or on none at all."""
    if not len(trial.support):
        return model.zero_shot(run.classes, random_state=seed)
    model = clone(model)
    model.set_params(**dict.fromkeys(seeds_of(model), seed))
    return model.fit(run.samples(trial.support), run.y[trial.support])


def seeds_of(model: Any) -> list[str]:
    """Return the names of all parameters that are seeds."""
    return [key for key in model.get_params() if key.split("__")[-1] == "random_state"]
