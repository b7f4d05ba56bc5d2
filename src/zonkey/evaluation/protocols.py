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
from ..metrics import hit_at_k, per_class_accuracy
from .fingerprint import fingerprint
from .runner import Run, run_trials
from .trials import Trial, draw_trial

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
        Trials run at a time.
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

    def one(number: int) -> dict[str, float]:
        rng = run.generator(number)
        trial = draw_trial(run.y, run.classes, **sizes, queries=queries, rng=rng)
        seed = int(rng.integers(2**31 - 1))
        return {
            name: per_class_accuracy(
                run.y[trial.query], fitted(model, run, trial, seed).predict(run.X[trial.query])
            )
            for name, model in models.items()
        }

    numbers = range(run.checked(n_trials=n_trials)["n_trials"])
    saved = run.checkpoint(checkpoint, protocol="n_way_k_shot", **sizes, **apart(queries))
    results = run_trials(one, numbers, saved, n_jobs, "trials" if progress else None)
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
            best = model.predict_top(run.X[trial.query], max(top))
            results[name] = [hit_at_k(run.y[trial.query], best, k) for k in top]
        return results

    settings = {"shots": shots, "top": top, **apart(queries)}
    saved = run.checkpoint(checkpoint, protocol="large_scale", **settings)
    what = "repetitions" if progress else None
    results = run_trials(one, range(len(grid)), saved, n_jobs, what)
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
    """Return copies of the models, whose base classes are diagonalised once for all trials."""
    copies = {}
    for name, model in models.items():
        bases = {
            key: BaseClasses(value)
            for key, value in model.get_params().items()
            if isinstance(value, Moments)
        }
        copy: Any = clone(model)
        copies[name] = copy.set_params(**bases)
    return copies


def fitted(model: Any, run: Run, trial: Trial, seed: int) -> Any:
    """Return a copy of the model fitted on the support set of a trial, or on none at all."""
    if not len(trial.support):
        return model.zero_shot(run.classes, random_state=seed)
    model = clone(model)
    seeds = [key for key in model.get_params() if key.split("__")[-1] == "random_state"]
    model.set_params(**dict.fromkeys(seeds, seed))
    return model.fit(run.X[trial.support], run.y[trial.support])
