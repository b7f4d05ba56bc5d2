"""FewShotClassifier: recognize novel classes from a prototype and a handful of samples."""

from __future__ import annotations

from copy import copy
from typing import Any, Self, cast

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state

from ..core.frame import BaseClasses
from ..core.fusion import (
    posterior_centers,
    prototype_worth,
    simulated_variances,
    worth_of_shots,
)
from ..core.labels import as_labels, encoded, placed_labels
from ..core.moments import Moments
from ..core.projection import WeightPer, directed_projection
from ..core.prototypes import Prototypes
from ..linalg.arrays import Array, is_device_array, namespace, place_of, placed_like
from ..linalg.sylvester import Solution, Status
from ..preprocessing.validation import check_labeled, validate_labeled
from .base_validation import (
    as_base,
    joined_prototypes,
    require_disjoint,
    require_samples,
    require_samples_like,
)
from .calibration import check_calibration
from .diagnostics import warn_of_trouble
from .few_shot_episodes import Learned, learn_tasks
from .few_shot_task import Problem, Shots, Task
from .known_labels import KnownLabels
from .nearest_prototype import LinearScores
from .probability import ProbabilityMixin
from .semantics import SemanticMap, check_semantics, remembered_map, restricted
from .validation import (
    check_classes,
    check_count,
    check_interval,
    check_learning_parameters,
    check_option,
    is_auto,
)
from .zero_shot import ZeroShotClassifier

# What a model without any shot has in common with this one.
_SHARED = (
    *("competition", "rho", "alpha", "mu", "beta", "n_neighbors", "scaling", "forward_weight"),
    *("weight_per", "kernel", "gamma", "degree", "coef0", "prototype_transformer"),
    *("tie_tol", "max_iter", "tol"),
    *("seen_penalty", "seen_prior", "temperature", "reject_below", "reject_label"),
)


class FewShotClassifier(ProbabilityMixin, BaseEstimator):
    """Few-shot classification by competitive bidirectional projection learning.

    The base classes enter through their moments alone: three matrices, gathered once. In each of
    several episodes, features of the novel classes are synthesized from the support set, and the
    projection is refined on base, support and synthesized samples in competition; the projections
    of the episodes are averaged. A sample is given the class whose projected prototype is nearest,
    or, with `fusion`, whose center is, to which the shots contribute directly.

    Parameters
    ----------
    prototypes : mapping, DataFrame or Prototypes, default=None
        A semantic vector for every novel class (others may be there too). None: those of the
        base moments, or one-hot vectors where there is no base.
    base : Moments or BaseClasses, default=None
        Moments of the base classes. ``BaseClasses(moments)`` keeps their diagonalization for
        many fits. None: learn from the novel classes only, the paper's "BPL (novel)".
    fusion : "auto", float >= 0 or None, default=None
        None: a class is where its projected prototype is, as in the paper. Otherwise the
        projected prototype is the prior of the class center and the shots are its evidence: the
        center is (K x mean of the shots + n0 x projected prototype) / (K + n0), and this is n0,
        how many shots a prototype is worth. "auto" measures it, as the within-class variance
        over the squared error of prototypes: on the shots where some class has two, else by
        simulated episodes on the base classes, which also count as one more class beside the
        shots. Where the features were trained on the base
        classes those episodes underrate prototypes; `worth_of_prototypes` measures it on
        validation classes. With ``synthesis=None`` the shots act through `fusion` alone.
    forward_weight, weight_per, kernel, gamma, degree, coef0, prototype_transformer
        As for `ZeroShotClassifier`; what is learned of prototypes is learned from base classes.
    synthesis : {"support", "base", None}, default="support"
        Raw material of synthesis: the support set (Eq. generate1, SFSP1), samples of base
        classes (Eq. generate, SFSP2), or no synthesis.
    competition : {"second-best", "assigned", None}, default="second-best"
        As for `ZeroShotClassifier`.
    rho : float in [0, 1], default=0.5
        Weight of the projected prototype in a synthesized sample.
    alpha : float in [0, 1), default=0.1
        Weight of the novel classes (support and synthesized) against the base classes.
    mu : float in [0, 1), default=0.1
        Strength of the push from the second best class.
    beta : float >= 0, default=0.01
        Ridge penalty.
    n_synthetic : int, default=5
        Synthesized samples for each support sample.
    n_neighbors : int, default=3
        Base classes that a novel class takes samples from; for ``synthesis="base"``.
    noise : float >= 0, default=0.1
        Length of the random vectors in the semantic space, relative to the spread of the
        prototypes of base and novel classes; for ``synthesis="support"``.
    scaling : {"squared-norm", None}, default="squared-norm"
        Divide the projected prototype by the squared norm of W, as printed, or not at all.
    n_episodes : int, default=10
        Episodes whose projections are averaged.
    candidates : {"novel", "all"} or list of labels, default="novel"
        Classes that `predict` chooses from.
    seen_penalty : float, default=0.0
        Subtracted from the scores of base classes.
    seen_prior, temperature, reject_below, reject_label
        As for `ZeroShotClassifier`, but for "auto".
    tie_tol, max_iter, tol
        As for `ZeroShotClassifier`.
    solver_tol : float >= 0, default=5e-7
        Relative error that a step may leave in the projection, far below the noise of synthesis;
        0 asks for rounding, at twice the time.
    random_state : int, RandomState or None, default=None
        Seeds the synthesis, which draws for the support samples in the order they come.

    Attributes
    ----------
    projection_ : ndarray of shape (n_features, n_dimensions)
    fusion_ : float or None
        How many shots a prototype counts for.
    classes_ : ndarray
        The candidates.
    novel_classes_ : ndarray
        Classes of the support set.
    seen_classes_, unseen_classes_ : ndarray
        Base classes, and all others.
    prototypes_ : Prototypes
    n_iter_ : int
        Steps taken, of all episodes together.
    n_features_in_ : int
    """

    def __init__(
        self,
        prototypes: Any = None,
        *,
        base: Moments | BaseClasses | None = None,
        fusion: Any = None,
        forward_weight: float = 0.5,
        weight_per: str = "sample",
        kernel: str | None = None,
        gamma: float = 1.0,
        degree: int = 3,
        coef0: float = 1.0,
        prototype_transformer: Any = None,
        synthesis: str | None = "support",
        competition: str | None = "second-best",
        rho: float = 0.5,
        alpha: float = 0.1,
        mu: float = 0.1,
        beta: float = 0.01,
        n_synthetic: int = 5,
        n_neighbors: int = 3,
        noise: float = 0.1,
        scaling: str | None = "squared-norm",
        n_episodes: int = 10,
        candidates: Any = "novel",
        seen_penalty: float = 0.0,
        seen_prior: float | None = None,
        temperature: float = 1.0,
        reject_below: float | None = None,
        reject_label: Any = None,
        tie_tol: float = 1e-3,
        max_iter: int | None = None,
        tol: float = 1e-4,
        solver_tol: float = 5e-7,
        random_state: Any = None,
    ) -> None:
        self.prototypes = prototypes
        self.base = base
        self.fusion = fusion
        self.forward_weight = forward_weight
        self.weight_per = weight_per
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.prototype_transformer = prototype_transformer
        self.synthesis = synthesis
        self.competition = competition
        self.rho = rho
        self.alpha = alpha
        self.mu = mu
        self.beta = beta
        self.n_synthetic = n_synthetic
        self.n_neighbors = n_neighbors
        self.noise = noise
        self.scaling = scaling
        self.n_episodes = n_episodes
        self.candidates = candidates
        self.seen_penalty = seen_penalty
        self.seen_prior = seen_prior
        self.temperature = temperature
        self.reject_below = reject_below
        self.reject_label = reject_label
        self.tie_tol = tie_tol
        self.max_iter = max_iter
        self.tol = tol
        self.solver_tol = solver_tol
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from the support set: a few samples X (n x d) of novel classes, with labels y."""
        (problem,) = self._problems([(X, y)])
        (learned,) = self._projections([problem], [self._seed()])
        return self._settle(problem, learned)

    def fit_tasks(self, tasks: Any, *, random_states: Any = None) -> list[Self]:
        """Return a fitted copy of this model for each of many support sets, learned together.

        On a GPU hundreds of small problems cost little more than one.

        Parameters
        ----------
        tasks : sequence of pairs (X, y)
        random_states : sequence of int, RandomState or None, default=None
            One for each copy; None takes `random_state` for all.
        """
        tasks = list(tasks)
        states = [self.random_state] * len(tasks) if random_states is None else [*random_states]
        if len(states) != len(tasks):
            raise ValueError(
                f"`random_states` must hold one for each of the {len(tasks)} tasks; got "
                f"{len(states)}. Leave it out to use the same for all."
            )
        template = copy(self)
        template.base = None  # not copied for each
        copies: list[Any] = [clone(template) for _ in states]
        for own, state in zip(copies, states, strict=True):
            own.set_params(random_state=state, base=self.base)
        problems = self._problems(tasks, copies)
        found = self._projections(problems, [own._seed() for own in copies])
        settled = zip(copies, problems, found, strict=True)
        return [own._settle(problem, learned) for own, problem, learned in settled]

    def _problems(self, tasks: list[Any], models: list[Self] | None = None) -> list[Problem]:
        """Return support sets, checked; each of the models notes what it will be fitted on."""
        self._check_parameters()
        of_all = as_base(self.base)
        problems = []
        for i, (X, y) in enumerate(tasks):
            model = self if models is None else models[i]
            X, y = validate_labeled(model, X, y)
            labels, codes = encoded(y, X)
            check_classes(y if is_device_array(y) else labels)
            base = self._checked_base(of_all, X)
            known = joined_prototypes(self.prototypes, base, labels)
            if base is not None:
                require_disjoint(base, labels)
            semantics, base = self._lifted(known, labels, base)
            Y_u = semantics.coordinates(known.subset(labels).matrix).astype(np.float64)
            problems.append(Problem(X, codes, labels, known, semantics, Y_u, base))
        return problems

    def _settle(self, problem: Problem, learned: Learned) -> Self:
        """Set the fitted attributes."""
        X, codes, base = problem.X, problem.codes, problem.base
        shots = Shots.of(X, codes, problem.labels)
        prior = placed_like(problem.Y_u, X) @ namespace(X).matrix_transpose(learned.W)
        worth = self._worth(shots, shots.variance(X, codes), prior, base)
        self._semantics, self.n_iter_ = problem.semantics, learned.n_iter
        self._novel = KnownLabels(problem.labels, problem.labels[:0])
        self.novel_classes_ = placed_labels(problem.labels, X)
        seen = problem.labels[:0] if base is None else base.moments.seen_labels
        self._set_known(problem.known, seen, like=X)
        self.projection_ = namespace(X).astype(learned.W, X.dtype, copy=False)
        self.seen_penalty_, self.temperature_ = float(self.seen_penalty), float(self.temperature)
        self._shots = shots if base is None else shots.joined(base.moments)
        self.fusion_ = worth
        return self

    def worth_of_prototypes(self, X: Any, y: Any) -> float:
        """Return how many shots a prototype is worth, measured on other classes: validation ones.

        X and y are samples, at least two of some class, of classes that are neither base classes
        nor to be tested. The result is a value for `fusion`.
        """
        base = as_base(self.base)
        if base is None:
            raise ValueError(
                "The worth of prototypes is that of a projection learned from base classes; got "
                "base=None. Pass their moments."
            )
        self._check_parameters()
        X, y = check_labeled(self, X, y)
        require_samples_like(base, X)
        novel, codes = encoded(y, X)
        require_disjoint(base, novel)
        known = joined_prototypes(self.prototypes, base, novel)
        semantics, base = self._lifted(known, novel, base)
        W = self._base_projection(base).value
        Y = semantics.coordinates(known.subset(novel).matrix).astype(np.float64)
        prior = placed_like(Y, W) @ namespace(W).matrix_transpose(W)
        shots = Shots.of(X, codes, novel)
        worth = prototype_worth(prior, shots.means, shots.counts, shots.variance(X, codes))
        if np.isnan(worth):
            raise ValueError(
                "The worth of prototypes is relative to how samples of a class differ; got one "
                f"sample of each of {len(novel)} classes. Pass several of some class."
            )
        return worth

    def zero_shot(self, classes: Any, *, random_state: Any = None) -> ZeroShotClassifier:
        """Return this model without any shot: a zero-shot classifier of novel classes.

        Fitted on the base classes with the same weights and candidates. Features are synthesized
        from base samples, the only ones there are, and as many as `ZeroShotClassifier` makes:
        `n_synthetic` counts for each shot here.
        """
        base = as_base(self.base)
        if base is None:
            raise ValueError(
                "Zero-shot learning needs base classes; got base=None. Pass their moments."
            )
        labels = np.unique(as_labels(classes))
        require_disjoint(base, labels)
        known = joined_prototypes(self.prototypes, base, labels)
        parameters = {name: getattr(self, name) for name in _SHARED}
        taking_part = np.concatenate([base.prototypes.labels, labels])
        return ZeroShotClassifier(
            restricted(known, taking_part, self.kernel),
            synthesis=None if self.synthesis is None else "perturb",
            candidates="unseen" if str(self.candidates) == "novel" else self.candidates,
            random_state=random_state,
            **parameters,
        ).fit_moments(base)

    def _lifted(
        self, known: Prototypes, novel: np.ndarray, base: BaseClasses | None
    ) -> tuple[SemanticMap, BaseClasses | None]:
        """Return what is done to prototypes, and the base classes after it."""
        if base is None:
            return SemanticMap.of(self, known, novel), None

        def learned() -> tuple[SemanticMap, BaseClasses]:
            semantics = SemanticMap.of(self, known, base.prototypes.labels)
            moments = base.moments.with_prototypes(semantics.apply(base.prototypes))
            per = cast(WeightPer, self.weight_per)
            twin = base if base.per == per else None
            return semantics, BaseClasses(moments, per, twin=twin)

        plain = (None, None, base.per)
        if (self.kernel, self.prototype_transformer, self.weight_per) == plain:
            return SemanticMap(None, None, None), base
        # A precomputed kernel names its columns by the classes there are.
        columns = known.labels if self.kernel == "precomputed" else None
        return remembered_map(self, base, columns, learned)

    def _projections(self, problems: list[Problem], seeds: list[int]) -> list[Learned]:
        """Return what is learned from each of the support sets, and warn of trouble."""
        if self.fusion is not None and self.synthesis is None:
            initial = [self._base_projection(problem.base) for problem in problems]
            learned = [Learned(one.value, 0, np.empty(0), {one.status}) for one in initial]
        else:
            tasks = [Task.of(p.X, p.codes, p.Y_u, p.base) for p in problems]
            learned = learn_tasks(self, tasks, seeds)
        # In the order of their definition, so that the same one is always named.
        statuses = [status for status in Status if any(status in one.statuses for one in learned)]
        mu = np.concatenate([np.empty(0), *(one.mu for one in learned)])
        warn_of_trouble(statuses, mu, beta=self.beta, mu=self._mu())
        return learned

    def _seed(self) -> int:
        return check_random_state(self.random_state).randint(2**31 - 1)

    def _base_projection(self, base: BaseClasses | None) -> Solution:
        """Return W of the base classes alone, the prior that shots are weighed against."""
        assert base is not None  # `fusion` asks for it
        key = ("projection", self.beta, self.forward_weight)
        return base.remembered(
            key,
            lambda: directed_projection(base.equations, self.beta, self.forward_weight),
        )

    def _worth(
        self, shots: Shots, variance: float, prior: np.ndarray, base: BaseClasses | None
    ) -> float | None:
        """Return n0, how many shots a prototype counts for."""
        if self.fusion is None or not is_auto(self.fusion):
            return self.fusion
        assert base is not None
        per = cast(WeightPer, self.weight_per)
        settings: dict[str, Any] = {"beta": self.beta, "forward": self.forward_weight, "per": per}
        key = ("worth", *settings.values())
        of_base = base.remembered(key, lambda: simulated_variances(base.moments, **settings))
        worth = worth_of_shots(prior, shots.means, shots.counts, variance, of_base)
        if np.isnan(worth):
            raise ValueError(
                'fusion="auto" measures how samples of a class differ; got one sample a class, in '
                "the support set and in the base, or a single base class. Pass a number."
            )
        return worth

    def _coordinates(self, prototypes: Prototypes) -> np.ndarray:
        return self._semantics.coordinates(prototypes.matrix)

    def _linear_scores(self, known: Prototypes, dtype: Any) -> LinearScores:
        if self.fusion_ is None:
            return super()._linear_scores(known, dtype)
        prior = namespace(self.projection_).astype(self.project(known), dtype, copy=False)
        means, counts = self._shots.aligned(known.labels, dtype)
        return LinearScores.of_distances(posterior_centers(prior, means, counts, self.fusion_))

    def _candidate_labels(
        self,
        prototypes: Prototypes,
        seen: np.ndarray,  # noqa: ARG002
    ) -> np.ndarray:
        named = {"novel": self._novel.candidates, "all": prototypes.labels}
        if isinstance(self.candidates, str) and self.candidates in named:
            return named[self.candidates]
        if np.ndim(self.candidates) and len(self.candidates):
            return prototypes.subset(self.candidates).labels
        raise ValueError(
            '`candidates` must be "novel", "all" or a list of at least one label; '
            f"got {self.candidates!r}. A single label goes into a list."
        )

    def _checked_base(self, base: BaseClasses | None, X: Array) -> BaseClasses | None:
        if base is not None:
            require_samples_like(base, X)
            if is_auto(self.fusion) and is_device_array(X):
                raise ValueError(
                    'fusion="auto" is measured on the host; got samples in '
                    f"{place_of(X)}. Pass a number, such as `worth_of_prototypes` gives."
                )
            if self.synthesis == "base":
                require_samples(base)
        elif self.fusion is not None:
            raise ValueError(
                "`fusion` weighs shots against prototypes projected by what base classes taught; "
                f"got fusion={self.fusion!r} and base=None. Pass the moments of base classes."
            )
        elif self.synthesis == "base":
            raise ValueError(
                'synthesis="base" takes samples of base classes, but base=None. Pass the '
                'moments of the base classes, or use synthesis="support".'
            )
        elif self.alpha == 0:
            raise ValueError(
                "`alpha` must be above 0 where there are no base classes; got 0 and base=None, "
                "which leaves nothing to learn from. Raise `alpha`, or pass `base`."
            )
        return base

    def _mu(self) -> float:
        """Return the weight of the push, which only the second-best rule has."""
        return self.mu if self.competition == "second-best" else 0.0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        return tags

    def _check_parameters(self) -> None:
        check_option("synthesis", self.synthesis, ("support", "base", None))
        check_option("competition", self.competition, ("second-best", "assigned", None))
        check_learning_parameters(self)
        check_semantics(self)
        check_calibration(self, may_be_auto=False)
        if self.fusion is not None:
            check_interval("fusion", self.fusion, 0, or_auto=True)
        check_interval("noise", self.noise, 0)
        check_interval("solver_tol", self.solver_tol, 0)
        check_count("n_episodes", self.n_episodes, 1)
