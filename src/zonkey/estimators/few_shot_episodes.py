"""How few-shot tasks are learned: episodes of synthesis and competition, many at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..core.algorithm1 import Course, learn
from ..core.episodes import Episodes
from ..core.projection import directed_projection
from ..core.synthesis import Synthesized, synthesize, synthesize_from_support
from ..linalg.arrays import Array, available_cores, is_device_array, namespace
from ..linalg.sylvester import Status
from .few_shot_task import Task

# Numbers in the arrays of all episodes learned at a time: 512 MB of the host, 16 GB of a device.
_ON_HOST, _ON_DEVICE = 2**26, 2**31
_COPIES = 8  # of W that a solver holds


@dataclass(frozen=True, eq=False)
class Learned:
    """What was learned from one task.

    Attributes
    ----------
    W : array of shape (d, k)
        In the original coordinates, the mean over all episodes.
    n_iter : int
        Steps of all episodes together.
    mu : ndarray
        That of each step.
    statuses : set of Status
        Of all equations solved, for this task or along with it.
    """

    W: Array
    n_iter: int
    mu: np.ndarray
    statuses: set[Status]


def learn_tasks(model: Any, tasks: Sequence[Task], seeds: Sequence[int]) -> list[Learned]:
    """Learn tasks over the same base classes with the parameters of a FewShotClassifier.

    Those of the same shape are learned together, as many at a time as memory allows.
    """
    groups: dict[Any, list[int]] = {}
    for i, task in enumerate(tasks):
        # Without base classes each has a frame of its own; on the host one fills the cache.
        together = task.base is not None and is_device_array(task.X_u)
        alone = id(task.base) if together else i
        shape = (tuple(task.X_u.shape), tuple(task.Y_u.shape), together, alone)
        groups.setdefault(shape, []).append(i)
    found: dict[int, Learned] = {}
    for members in groups.values():
        for part in _parts(model, tasks, members):
            own = _learn_together(model, [tasks[i] for i in part], [seeds[i] for i in part])
            found.update(zip(part, own, strict=True))
    return [found[i] for i in range(len(tasks))]


def _parts(model: Any, tasks: Sequence[Task], members: list[int]) -> Iterator[list[int]]:
    """Yield tasks whose episodes fit into memory together."""
    first = tasks[members[0]]
    number = max(1, _budget(first) // (_size(model, first) * _episodes(model)))
    for start in range(0, len(members), number):
        yield members[start : start + number]


def _budget(task: Task) -> int:
    return _ON_DEVICE if is_device_array(task.X_u) else _ON_HOST


def _size(model: Any, task: Task) -> int:
    """Return about how many numbers one episode takes: samples, their like, and projections."""
    n_u, d = task.X_u.shape
    n = n_u * (1 + (0 if model.synthesis is None else model.n_synthetic))
    return d * (3 * n + _COPIES * task.Y_u.shape[1])


def _episodes(model: Any) -> int:
    # Without synthesis nothing is random and all episodes are the same.
    return 1 if model.synthesis is None else model.n_episodes


def _learn_together(model: Any, tasks: list[Task], seeds: list[int]) -> list[Learned]:
    first = tasks[0]
    initial = directed_projection(first.initial_equations(), model.beta, model.forward_weight)
    at_once = max(1, _budget(first) // (_size(model, first) * len(tasks)))
    numbers = range(_episodes(model))
    courses = [
        (len(part), _course(model, tasks, seeds, initial.value, part))
        for part in (numbers[i : i + at_once] for i in range(0, len(numbers), at_once))
    ]
    total: Array = sum(n * course.W for n, course in courses)
    W = total / len(numbers)
    mu = [np.reshape(np.moveaxis(c.mu, 1, 0), (len(tasks), -1)) for _, c in courses]
    mu = np.concatenate(mu, axis=1)
    statuses = {initial.status}.union(*(course.statuses for _, course in courses))
    taken = ~np.isnan(mu)
    return [
        Learned(task.frame.lift(W[t, :, :]), int(taken[t].sum()), mu[t][taken[t]], statuses)
        for t, task in enumerate(tasks)
    ]


def _course(model: Any, tasks: list[Task], seeds: list[int], W: Array, numbers: range) -> Course:
    """Run some of the episodes of all the tasks."""
    xp = namespace(W)
    first = tasks[0]
    X_u = xp.stack([task.X_u for task in tasks])
    codes = xp.stack([task.codes for task in tasks])
    Y_u = xp.stack([task.placed(task.Y_u) for task in tasks])
    # A generator an episode, so that what is drawn does not depend on what is learned together.
    generators = [[np.random.default_rng([seed, h]) for h in numbers] for seed in seeds]
    if model.synthesis == "base" and first.base is not None:
        made = _from_base(model, tasks, W, generators)
    else:
        noise = _noise_of_all(model, tasks, generators)
        made = synthesize_from_support(
            W, Y_u, X_u, codes, noise, rho=model.rho, scaling=model.scaling
        )
    episodes = Episodes(
        first.frame.equations,
        made,
        Y_u,
        (X_u, codes),
        beta=model.beta,
        tie_tol=model.tie_tol,
        rule=model.competition,
        solver_tol=model.solver_tol,
        forward=model.forward_weight,
    )
    return learn(
        episodes,
        W,
        alpha=model.alpha,
        mu=model._mu(),
        max_iter=model.max_iter,
        tol=model.tol,
    )


def _noise_of_all(
    model: Any, tasks: list[Task], generators: list[list[np.random.Generator]]
) -> Array:
    """Return the random vectors of all tasks, of shape (T, E, m, N_u, k')."""
    if len(tasks) == 1:
        drawn = [_noise(model, tasks[0], generators[0])]
    else:  # drawing takes longer than learning does on a GPU
        with ThreadPoolExecutor(available_cores()) as pool:
            drawn = list(pool.map(partial(_noise, model), tasks, generators))
    return tasks[0].placed(np.stack(drawn))


def _noise(model: Any, task: Task, generators: list[np.random.Generator]) -> np.ndarray:
    """Return the random vectors epsilon_i of Eq. generate1, of shape (E, m, N_u, k')."""
    m = 0 if model.synthesis is None else model.n_synthetic
    k = task.frame.V.shape[0]
    size = (m, task.codes.shape[0], k)
    scale = model.noise * task.spread / k**0.5
    drawn = np.stack([rng.normal(scale=scale, size=size) for rng in generators])
    return task.frame.semantics(drawn)


def _from_base(
    model: Any, tasks: list[Task], W: Array, generators: list[list[np.random.Generator]]
) -> Synthesized:
    """Synthesize from samples of base classes (Eq. generate), task by task."""
    xp = namespace(W)
    made = []
    for task, own in zip(tasks, generators, strict=True):
        base = task.base
        assert base is not None  # `fit` asks for it
        shots = task.codes.shape[0] / len(task.Y_u)
        Y_s = task.frame.semantics(base.prototypes.matrix.astype(np.float64))
        made.append(
            [
                synthesize(
                    W,
                    task.placed(task.Y_u),
                    task.placed(Y_s),
                    base.samples,
                    rho=model.rho,
                    n_neighbors=model.n_neighbors,
                    n_synthetic=round(model.n_synthetic * shots),
                    scaling=model.scaling,
                    rng=rng,
                )
                for rng in own
            ]
        )
    features = xp.stack([xp.stack([one.features for one in own]) for own in made])
    targets = xp.stack([own[0].targets[None, :] for own in made])
    return replace(made[0][0], features=features, targets=targets)
