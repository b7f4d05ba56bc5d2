"""Few-shot tasks: support sets, their coordinates, and the episodes that learn from them.

Each episode synthesizes features of the novel classes and refines the projection in competition.
Episodes of tasks of the same shape run together, as many at a time as memory allows. Episodes with
their own base samples run one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from ..arrays import Array, is_device_array, namespace, place_like
from ..blocks import ON_ACCELERATOR
from ..config import rows_per_block
from ..prototypes import Prototypes
from ..threads import available_threads
from .algorithm1 import Course, learn
from .assignment import Rule
from .episodes import Episodes
from .frame import BaseClasses, Frame, frame_without_base
from .moments import Moments
from .projection import NormalEquations, bidirectional_projection
from .sylvester import Status
from .synthesis import Synthesized, synthesize, synthesize_from_support

_SHARE = 8  # working memories for all episodes learned at a time, whose steps are small products
_COPIES = 8  # of W that a solver holds, and of the losses that a step holds


@dataclass(frozen=True, eq=False)
class SupportSet:
    """A support set as given, and the prototypes of its classes.

    `X` (N_u x d) and `codes` (N_u), the position in `labels` of each sample, are on the device of
    the samples. `labels` (q) are the novel classes in sorted order, `known` the prototypes of all
    classes, and `Y_u` (q x k) those of the novel ones.
    """

    X: Array
    codes: Array
    labels: np.ndarray
    known: Prototypes
    Y_u: np.ndarray
    base: BaseClasses | None


@dataclass(frozen=True, eq=False)
class SupportTask:
    """One support set, in the coordinates of its frame; prototypes on the host."""

    frame: Frame
    X_u: Array
    codes: Array
    Y_u: np.ndarray
    base: BaseClasses | None

    @classmethod
    def from_support(cls, support: SupportSet) -> SupportTask:
        """Express support samples and prototypes in the coordinates of a frame."""
        Y_u, base, xp = support.Y_u, support.base, namespace(support.X)
        X_u = xp.astype(support.X, xp.float64, copy=False)
        frame = frame_without_base(X_u, Y_u) if base is None else base.frame(Y_u)
        return cls(frame, frame.features(X_u), support.codes, frame.semantics(Y_u), base)

    def initial_equations(self) -> NormalEquations:
        """Return the equations of W^(0): of the base classes, else of the support set."""
        if self.base is not None:
            return self.frame.equations
        xp = namespace(self.X_u)
        Y = xp.take(self.place(self.Y_u), self.codes, axis=0)
        X, mT = self.X_u, xp.matrix_transpose
        return NormalEquations(mT(X) @ X, mT(Y) @ Y, mT(X) @ Y)

    @cached_property
    def spread(self) -> float:
        """Spread of the prototypes of novel and base classes."""
        Y = self.Y_u
        if self.base is not None:
            of_base = self.base.prototypes.matrix.astype(np.float64)
            Y = np.concatenate([Y, self.frame.semantics(of_base)])
        return spread_of(Y)

    def place(self, M: np.ndarray) -> Array:
        """Return a host array in the library and on the device of the samples."""
        return place_like(M, self.X_u)


def spread_of(Y: np.ndarray) -> float:
    """Return the root mean squared distance of prototypes from their mean.

    A single prototype, or equal ones, have no spread; their length is returned instead.
    """
    deviations = Y - Y.mean(axis=0)
    if not deviations.any():
        deviations = Y
    return float(np.sqrt(np.mean(np.sum(deviations**2, axis=1))))


@dataclass(frozen=True)
class EpisodeSettings:
    """Parameters of the episodes, as the estimator names them; `mu` is 0 without a push."""

    synthesis: str | None
    competition: Rule
    rho: float
    alpha: float
    mu: float
    beta: float
    n_synthetic: int
    n_neighbors: int
    noise: float
    scaling: str | None
    n_episodes: int
    tie_tol: float
    max_iter: int | None
    tol: float
    solver_tol: float
    guard: bool
    base_samples_per_class: int | None

    @property
    def n_distinct(self) -> int:
        """Number of distinct episodes: without synthesis nothing is random."""
        return 1 if self.synthesis is None else self.n_episodes

    @property
    def n_per_sample(self) -> int:
        """Number of synthesized samples per support sample."""
        return 0 if self.synthesis is None else self.n_synthetic

    def size(self, task: SupportTask) -> int:
        """Estimate how many numbers one episode holds: samples, losses and projections."""
        n_u, d = task.X_u.shape
        n = n_u * (1 + self.n_per_sample)
        q, k = task.Y_u.shape
        return d * (3 * n + _COPIES * k) + _COPIES * n * q


@dataclass(frozen=True, eq=False)
class LearnedProjection:
    """The result for one task.

    `W` (d x k) is the mean over all episodes in the original coordinates. `n_iter` counts the
    steps of all episodes, `mu` and `indefinite` have one entry per step. `statuses` are those of
    all equations solved for this task or together with it.
    """

    W: Array
    n_iter: int
    mu: np.ndarray
    indefinite: np.ndarray
    statuses: set[Status]


def learn_tasks(
    settings: EpisodeSettings, supports: Sequence[SupportSet], seeds: Sequence[int]
) -> list[LearnedProjection]:
    """Learn support sets over the same base classes, those of the same shape together."""
    if settings.base_samples_per_class is not None:
        pairs = zip(supports, seeds, strict=True)
        return [_learn_from_subsets(settings, support, seed) for support, seed in pairs]
    tasks = [SupportTask.from_support(support) for support in supports]
    groups: dict[Any, list[int]] = {}
    for i, task in enumerate(tasks):
        # Without base classes each task has its own frame; on the host one task fills the cache.
        together = task.base is not None and is_device_array(task.X_u)
        alone = id(task.base) if together else i
        shape = (tuple(task.X_u.shape), tuple(task.Y_u.shape), together, alone)
        groups.setdefault(shape, []).append(i)
    found: dict[int, LearnedProjection] = {}
    for members in groups.values():
        first = tasks[members[0]]
        number = _count_together(first, settings.size(first) * settings.n_distinct)
        for start in range(0, len(members), number):
            part = members[start : start + number]
            own = _learn_together(settings, [tasks[i] for i in part], [seeds[i] for i in part])
            found.update(zip(part, own, strict=True))
    return [found[i] for i in range(len(tasks))]


def _count_together(task: SupportTask, size: int) -> int:
    """Return how many times `size` numbers may be held at a time, where the task is."""
    share = _SHARE * ON_ACCELERATOR if is_device_array(task.X_u) else _SHARE
    return rows_per_block(8 * size / share)


def _learn_together(
    settings: EpisodeSettings, tasks: list[SupportTask], seeds: list[int]
) -> list[LearnedProjection]:
    first = tasks[0]
    initial = bidirectional_projection(first.initial_equations(), settings.beta)
    at_once = _count_together(first, settings.size(first) * len(tasks))
    numbers = range(settings.n_distinct)
    courses = []
    for part in (numbers[i : i + at_once] for i in range(0, len(numbers), at_once)):
        # One generator per episode: results do not depend on which tasks are learned together.
        generators = [[np.random.default_rng([seed, h]) for h in part] for seed in seeds]
        courses.append((len(part), _course(settings, tasks, initial.value, generators)))
    total: Any = sum(n * course.W for n, course in courses)
    W = total / len(numbers)
    lifted = [task.frame.lift(W[t, :, :]) for t, task in enumerate(tasks)]
    return _join_courses(lifted, [course for _, course in courses], {initial.status})


def _learn_from_subsets(
    settings: EpisodeSettings, support: SupportSet, seed: int
) -> LearnedProjection:
    """Learn episodes that each have a subset of the base samples, and its moments, of their own."""
    n, base = settings.base_samples_per_class, support.base
    assert n is not None
    assert base is not None  # checked by `fit`
    pools = [base.moments.samples_of(label) for label in base.prototypes.labels.tolist()]
    total: Any = 0.0
    courses, statuses = [], set()
    for h in range(settings.n_episodes):
        rng = np.random.default_rng([seed, h])
        # The order of samples that are perturbed must not depend on rounding in other coordinates.
        is_reduced = settings.synthesis != "base"
        part, basis = _draw_subset(support, pools, n, rng, is_reduced=is_reduced)
        task = SupportTask.from_support(part)
        initial = bidirectional_projection(task.initial_equations(), settings.beta)
        course = _course(settings, [task], initial.value, [[rng]])
        W = task.frame.lift(course.W[0, :, :])
        total = total + (W if basis is None else basis @ W)
        courses.append(course)
        statuses.add(initial.status)
    return _join_courses([total / settings.n_episodes], courses, statuses)[0]


def _draw_subset(
    support: SupportSet, pools: list[Array], n: int, rng: np.random.Generator, *, is_reduced: bool
) -> tuple[SupportSet, Array | None]:
    """Draw `n` samples of every base class; return the support set with these as its base.

    W is zero outside the span of base samples and support set. If they are fewer than features,
    and `is_reduced`, both are in the coordinates of the orthonormal basis that is returned (d x r);
    else it is None.
    """
    xp = namespace(support.X)
    base = support.base
    assert base is not None  # checked by `fit`
    drawn = []
    for pool in pools:
        rows = place_like(rng.choice(pool.shape[0], n, replace=False), support.X)
        drawn.append(xp.astype(xp.take(pool, rows, axis=0), xp.float64))
    X_s, X_u, basis = xp.concat(drawn), xp.astype(support.X, xp.float64), None
    if is_reduced and X_s.shape[0] + X_u.shape[0] < X_u.shape[1]:
        basis, _ = xp.linalg.qr(xp.matrix_transpose(xp.concat([X_s, X_u])))
        X_s, X_u = X_s @ basis, X_u @ basis
    labels = np.repeat(base.prototypes.labels, n)
    subset = Moments(base.prototypes, n_reserve=n).update(X_s, labels)
    return replace(support, X=X_u, base=BaseClasses(subset)), basis


def _join_courses(
    projections: list[Array], courses: list[Course], statuses: set[Status]
) -> list[LearnedProjection]:
    """Return the result of each task, from the courses of its episodes and those of the others."""

    def group_by_task(name: str) -> np.ndarray:
        """Return one row per task from (n_steps, T, E) entries of each course."""
        steps = [np.moveaxis(getattr(course, name), 1, 0) for course in courses]
        return np.concatenate([own.reshape(len(own), -1) for own in steps], axis=1)

    statuses = statuses.union(*(course.statuses for course in courses))
    mu, indefinite = group_by_task("mu"), group_by_task("indefinite")
    return [
        LearnedProjection(W, int(taken.sum()), own[taken], lost[taken], statuses)
        for W, own, lost, taken in zip(projections, mu, indefinite, ~np.isnan(mu), strict=True)
    ]


def _course(
    settings: EpisodeSettings,
    tasks: list[SupportTask],
    W: Array,
    generators: list[list[np.random.Generator]],
) -> Course:
    """Run some of the episodes of all tasks, one per generator."""
    xp = namespace(W)
    first = tasks[0]
    X_u = xp.stack([task.X_u for task in tasks])
    codes = xp.stack([task.codes for task in tasks])
    Y_u = xp.stack([task.place(task.Y_u) for task in tasks])
    if settings.synthesis == "base" and first.base is not None:
        made = _synthesize_from_base(settings, tasks, W, generators)
    else:
        noise = _noise_of_all(settings, tasks, generators)
        made = synthesize_from_support(
            W, Y_u, X_u, codes, noise, rho=settings.rho, scaling=settings.scaling
        )
    episodes = Episodes(
        first.frame.equations,
        made,
        Y_u,
        (X_u, codes),
        beta=settings.beta,
        tie_tol=settings.tie_tol,
        rule=settings.competition,
        solver_tol=settings.solver_tol,
    )
    return learn(
        episodes,
        W,
        alpha=settings.alpha,
        mu=settings.mu,
        max_iter=settings.max_iter,
        tol=settings.tol,
        guard=settings.guard,
    )


def _noise_of_all(
    settings: EpisodeSettings, tasks: list[SupportTask], generators: list[list[np.random.Generator]]
) -> Array:
    """Return the random vectors of all tasks, of shape (T, E, m, N_u, k')."""
    if len(tasks) == 1:
        drawn = [_noise(settings, tasks[0], generators[0])]
    else:  # on a GPU, drawing takes longer than learning
        with ThreadPoolExecutor(available_threads()) as pool:
            drawn = list(pool.map(partial(_noise, settings), tasks, generators))
    return tasks[0].place(np.stack(drawn))


def _noise(
    settings: EpisodeSettings, task: SupportTask, generators: list[np.random.Generator]
) -> np.ndarray:
    """Return the random vectors epsilon_i of Eq. 19 (generate1), of shape (E, m, N_u, k')."""
    m = settings.n_per_sample
    k = task.frame.V.shape[0]
    size = (m, task.codes.shape[0], k)
    scale = settings.noise * task.spread / k**0.5
    drawn = np.stack([rng.normal(scale=scale, size=size) for rng in generators])
    return task.frame.semantics(drawn)


def _synthesize_from_base(
    settings: EpisodeSettings,
    tasks: list[SupportTask],
    W: Array,
    generators: list[list[np.random.Generator]],
) -> Synthesized:
    """Synthesize from samples of base classes by Eq. 1 (generate), task by task."""
    xp = namespace(W)
    made = []
    for task, own in zip(tasks, generators, strict=True):
        base = task.base
        assert base is not None  # checked by `fit`
        shots = task.codes.shape[0] / len(task.Y_u)
        Y_s = task.frame.semantics(base.prototypes.matrix.astype(np.float64))
        made.append(
            [
                synthesize(
                    W,
                    task.place(task.Y_u),
                    task.place(Y_s),
                    base.samples,
                    rho=settings.rho,
                    n_neighbors=settings.n_neighbors,
                    n_synthetic=round(settings.n_synthetic * shots),
                    scaling=settings.scaling,
                    rng=rng,
                )
                for rng in own
            ]
        )
    features = xp.stack([xp.stack([one.features for one in own]) for own in made])
    targets = xp.stack([own[0].targets[None, :] for own in made])
    return replace(made[0][0], features=features, targets=targets)
