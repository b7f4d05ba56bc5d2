"""FewShotClassifier: recognize novel classes from a prototype and a handful of samples."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import fields
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone

from ..arrays import (
    Array,
    is_device_array,
    is_same_place,
    namespace,
    place_like,
    place_of,
    to_numpy,
)
from ..constraints import check_classes, check_semantics, validate_labeled
from ..labels import (
    as_labels,
    encode_labels,
    format_labels,
    format_value,
    place_labels,
    require_same_kind,
)
from ..parameters import Constraint, Count, Interval, Options, check_parameters
from ..prototypes import Prototypes
from .frame import BaseClasses
from .learning import ProjectionLearner, draw_seed, require_samples, warn_of_trouble
from .moments import Moments
from .tasks import EpisodeSettings, LearnedProjection, SupportSet, learn_tasks
from .zero_shot import ZeroShotClassifier

# Parameters that mean something else in the zero-shot model of the same novel classes.
_NOT_SHARED = {"prototypes", "synthesis", "n_synthetic", "candidates", "random_state"}


class FewShotClassifier(ProjectionLearner):
    """Few-shot classification by competitive bidirectional projection learning.

    Base classes enter through their moments only: three matrices, gathered once. Each of several
    episodes synthesizes features of the novel classes from the support set and refines the
    projection on base, support and synthesized samples in competition. The projections of the
    episodes are averaged. A sample is assigned to the class whose projected prototype is nearest.

    Parameters
    ----------
    prototypes : mapping, DataFrame or Prototypes, default=None
        Semantic vector of every novel class; other classes may be included. None: those of the
        base moments, or one-hot vectors without a base.
    base : Moments or BaseClasses, default=None
        Moments of the base classes. ``BaseClasses(moments)`` keeps their diagonalization for
        many fits. None: learn from the novel classes only, the paper's "BPL (novel)".
    synthesis : {"support", "base"} or None, default="support"
        Synthesize features from the support set by Eq. 19 (generate1), which is SFSP1, from
        samples of base classes by Eq. 1 (generate), which is SFSP2, or not at all.
    competition : {"second-best", "assigned"} or None, default="second-best"
        How synthesized samples refine the projection, see `ZeroShotClassifier`.
    rho : float, default=0.5
        Weight in [0, 1] of the projected prototype in a synthesized sample.
    alpha : float, default=0.1
        Weight in [0, 1) of the novel classes (support and synthesized samples) relative to the
        base classes.
    mu : float, default=0.1
        Strength in [0, 1) of the push from the second best class.
    beta : float, default=0.01
        Nonnegative ridge penalty.
    n_synthetic : int, default=5
        Number of synthesized samples per support sample.
    n_neighbors : int, default=3
        Number of base classes whose samples are perturbed for a novel class, for
        ``synthesis="base"``.
    noise : float, default=0.1
        Length of the random vectors in the semantic space, relative to the spread of the
        prototypes of base and novel classes, for ``synthesis="support"``.
    scaling : {"squared-norm"} or None, default="squared-norm"
        Divide the projected prototype by the squared norm of W, as in the paper, or not at all.
    guard : bool, default=True
        Lower `mu` in steps in which competition would leave less than a twentieth of the curvature
        of the problem, with a warning. False: keep `mu`, as printed in the paper; steps whose
        equation is indefinite are counted in `n_indefinite_`, with a warning.
    n_episodes : int, default=10
        Number of episodes whose projections are averaged.
    base_samples_per_class : int, default=None
        Number of samples of every base class that are drawn anew in each episode, from those that
        the moments keep (`n_reserve`). They replace the base classes in that episode. It costs a
        decomposition per episode, and tasks are no longer learned together. None: the moments of
        all base samples serve all episodes.
    candidates : {"novel", "all"} or list of labels, default="novel"
        Classes that `predict` chooses from.
    seen_penalty : float, default=0.0
        Number subtracted from the scores of base classes.
    tie_tol : float, default=0.001
        Relative difference below which two losses count as tied.
    max_iter : int, default=None
        Maximum number of steps of Algorithm 1 per episode. None: 5, as in the paper.
    tol : float, default=1e-4
        Stop when the relative change of the projection is at most this.
    solver_tol : float, default=5e-7
        Relative error allowed in each solve, far below the noise of synthesis. 0 solves to
        rounding, in twice the time.
    random_state : int, RandomState or None, default=None
        Seed of the synthesis, which depends on the order of the support samples.

    Attributes
    ----------
    projection_ : ndarray of shape (n_features, n_dimensions)
        Mean projection W of the episodes.
    classes_ : ndarray of shape (n_candidates,)
        The candidates.
    novel_classes_ : ndarray
        Classes of the support set.
    seen_classes_ : ndarray
        Base classes.
    unseen_classes_ : ndarray
        All other classes.
    prototypes_ : Prototypes
        Prototypes of all classes.
    seen_penalty_ : float
        Penalty in use.
    n_iter_ : int
        Number of steps of all episodes.
    mu_ : ndarray of shape (n_iter_,)
        `mu` of each step of each episode. Smaller than the parameter if competition would have
        left too little curvature (with a warning); 0 if the model has no push.
    n_indefinite_ : int
        Number of steps whose equation was indefinite; 0 with `guard`.
    n_features_in_ : int
        Number of features.

    See Also
    --------
    ZeroShotClassifier : Learns classes from prototypes only.
    NearestSupport : Baseline without prototypes.
    AnyShotClassifier : The recommended model for any number of shots.

    Examples
    --------
    >>> import numpy as np
    >>> from zonkey import FewShotClassifier, Moments
    >>> rng = np.random.default_rng(0)
    >>> hidden = rng.normal(size=(2, 8))  # what stripes and mane look like
    >>> prototypes = {"horse": [0, 1], "tiger": [1, 0], "zebra": [1, 1], "okapi": [1, 0.3]}
    >>> y = np.repeat(["horse", "tiger"], 20)
    >>> X = np.array([prototypes[label] for label in y]) @ hidden + rng.normal(size=(40, 8)) / 5
    >>> base = Moments.from_arrays(X, y, prototypes)
    >>> shots = np.array([[1, 1], [1, 0.3]]) @ hidden
    >>> model = FewShotClassifier(prototypes, base=base, random_state=0)
    >>> model.fit(shots, ["zebra", "okapi"]).predict([[1.1, 0.9] @ hidden])
    array(['zebra'], dtype='<U5')
    """

    __constraints__: ClassVar[dict[str, Constraint]] = {
        "synthesis": Options("support", "base", None),
        "competition": Options("second-best", "assigned", None),
        "seen_penalty": Interval(),
        "noise": Interval(0),
        "solver_tol": Interval(0),
        "n_episodes": Count(1),
        "base_samples_per_class": Count(1, also=(None,)),
    }
    __zonkey_fields__ = ("projection_", "n_iter_", "novel_classes_", "mu_", "n_indefinite_")

    @classmethod
    def __zonkey_upgrade__(cls, parts: dict[str, Any]) -> dict[str, Any]:
        """Add what older files lack."""
        parts = super().__zonkey_upgrade__(parts)
        return {**parts, "state": {"mu_": np.empty(0), "n_indefinite_": 0, **parts["state"]}}

    def __init__(
        self,
        prototypes: Any = None,
        *,
        base: Moments | BaseClasses | None = None,
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
        guard: bool = True,
        n_episodes: int = 10,
        base_samples_per_class: int | None = None,
        candidates: Any = "novel",
        seen_penalty: float = 0.0,
        tie_tol: float = 1e-3,
        max_iter: int | None = None,
        tol: float = 1e-4,
        solver_tol: float = 5e-7,
        random_state: Any = None,
    ) -> None:
        self.prototypes = prototypes
        self.base = base
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
        self.guard = guard
        self.n_episodes = n_episodes
        self.base_samples_per_class = base_samples_per_class
        self.candidates = candidates
        self.seen_penalty = seen_penalty
        self.tie_tol = tie_tol
        self.max_iter = max_iter
        self.tol = tol
        self.solver_tol = solver_tol
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from a support set.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            A few samples of novel classes.
        y : array-like of shape (n_samples,)
            Labels, none of them a base class.

        Returns
        -------
        FewShotClassifier
            The fitted estimator.
        """
        (support,) = self._support_sets([(X, y)])
        (learned,) = self._projections([support], [draw_seed(self.random_state)])
        return self._settle(support, learned)

    def fit_tasks(self, tasks: Any, *, random_states: Any = None) -> list[Self]:
        """Learn many support sets together and return a fitted copy for each.

        On a GPU, hundreds of small tasks cost little more than one.

        Parameters
        ----------
        tasks : sequence of pairs (X, y)
            Support sets.
        random_states : sequence of int, RandomState or None, default=None
            One per task. None: `random_state` for all.

        Returns
        -------
        list of FewShotClassifier
            Fitted copies, in the order of the tasks.
        """
        tasks = list(tasks) if isinstance(tasks, Iterable) else [tasks]
        if not all(isinstance(task, tuple | list) and len(task) == 2 for task in tasks):
            raise ValueError(
                f"`tasks` must be a sequence of pairs (X, y); got {format_value(tasks)}. Put a "
                "single pair into a list."
            )
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
        supports = self._support_sets(tasks, copies)
        found = self._projections(supports, [draw_seed(own.random_state) for own in copies])
        settled = zip(copies, supports, found, strict=True)
        return [own._settle(support, learned) for own, support, learned in settled]

    def _support_sets(self, tasks: list[Any], models: list[Self] | None = None) -> list[SupportSet]:
        """Return validated support sets; each model sets its `n_features_in_`."""
        check_parameters(self)
        of_all = _as_base(self.base)
        given = None if self.prototypes is None else Prototypes.coerce(self.prototypes)
        supports = []
        for i, (X, y) in enumerate(tasks):
            model = self if models is None else models[i]
            X, y = validate_labeled(model, X, y)
            labels, codes = encode_labels(y, X)
            check_classes(y if is_device_array(y) else labels)
            base = self._check_base(of_all, X)
            known = _join_prototypes(given, base, labels)
            if base is not None:
                _require_disjoint(base, labels)
            Y_u = known.subset(labels).matrix.astype(np.float64)
            supports.append(SupportSet(X, codes, labels, known, Y_u, base))
        if supports:  # the prototypes are the same in all of them
            first = supports[0]
            others = first.labels[:0] if of_all is None else of_all.moments.seen_labels
            only_novel = isinstance(self.candidates, str) and self.candidates == "novel"
            candidates = first.labels if only_novel else first.known.labels
            check_semantics(first.known, np.union1d(others, first.labels), candidates)
        return supports

    def _settle(self, support: SupportSet, learned: LearnedProjection) -> Self:
        """Set the fitted attributes."""
        X, base = support.X, support.base
        self.n_iter_ = learned.n_iter
        self.mu_ = place_like(learned.mu, learned.W)
        self.n_indefinite_ = int(learned.indefinite.sum())
        self.novel_classes_ = place_labels(support.labels, X)
        with np.errstate(over="ignore"):  # infinity is refused below
            self.projection_ = namespace(X).astype(learned.W, X.dtype, copy=False)
        self.seen_penalty_ = float(self.seen_penalty)
        seen = support.labels[:0] if base is None else base.moments.seen_labels
        self._set_known(support.known, seen, like=X)
        return self

    def zero_shot(self, classes: Any, *, random_state: Any = None) -> ZeroShotClassifier:
        """Return a zero-shot classifier of novel classes with the parameters of this model.

        It is fitted on the base classes, with the same candidates. Features are synthesized from
        base samples, with the default `n_synthetic` of `ZeroShotClassifier`, because here
        `n_synthetic` counts per shot.

        Parameters
        ----------
        classes : array-like of shape (n_classes,)
            Labels of the novel classes.
        random_state : int, RandomState or None, default=None
            Determines which base samples are perturbed.

        Returns
        -------
        ZeroShotClassifier
            Fitted classifier of the novel classes.
        """
        base = _as_base(self.base)
        if base is None:
            raise ValueError(
                "Zero-shot learning needs base classes; got base=None. Pass their moments."
            )
        labels = np.unique(as_labels(classes))
        _require_disjoint(base, labels)
        known = _join_prototypes(self.prototypes, base, labels)
        shared = ZeroShotClassifier().get_params(deep=False).keys() - _NOT_SHARED
        parameters = {n: v for n, v in self.get_params(deep=False).items() if n in shared}
        taking_part = np.concatenate([base.prototypes.labels, labels])
        return ZeroShotClassifier(
            known.subset(taking_part),
            synthesis=None if self.synthesis is None else "perturb",
            candidates="unseen" if str(self.candidates) == "novel" else self.candidates,
            random_state=random_state,
            **parameters,
        ).fit_moments(base)

    def _projections(self, supports: list[SupportSet], seeds: list[int]) -> list[LearnedProjection]:
        """Learn from each support set, and warn of numerical trouble."""
        values = {field.name: getattr(self, field.name) for field in fields(EpisodeSettings)}
        settings = EpisodeSettings(**{**values, "mu": self._mu()})
        learned = learn_tasks(settings, supports, seeds)
        # In the order of their definition, so that the warning is always the same.
        statuses = {status for one in learned for status in one.statuses}
        mu = np.concatenate([np.empty(0), *(one.mu for one in learned)])
        n_indefinite = sum(int(one.indefinite.sum()) for one in learned)
        warn_of_trouble(statuses, mu, n_indefinite, beta=self.beta, mu=self._mu())
        return learned

    def _named_candidates(
        self,
        known: Prototypes,
        seen: np.ndarray,  # noqa: ARG002
        one_hot: bool,  # noqa: ARG002
    ) -> dict[str, np.ndarray]:
        return {"novel": known.subset(to_numpy(self.novel_classes_)).labels, "all": known.labels}

    def _check_base(self, base: BaseClasses | None, X: Array) -> BaseClasses | None:
        if base is not None:
            _require_samples_like(base, X)
            if self.synthesis == "base":
                require_samples(base, 'synthesis="support"')
            if self.base_samples_per_class is not None:
                _require_stored(base, self.base_samples_per_class)
        elif self.base_samples_per_class is not None:
            raise ValueError(
                "`base_samples_per_class` counts samples of base classes; got "
                f"{self.base_samples_per_class} and base=None. Pass their moments, or leave it out."
            )
        elif self.synthesis == "base":
            raise ValueError(
                'synthesis="base" takes samples of base classes, but base=None. Pass the '
                'moments of the base classes, or use synthesis="support".'
            )
        elif self.alpha == 0:
            raise ValueError(
                "`alpha` must be above 0 without base classes; got 0 and base=None, "
                "which leaves nothing to learn from. Raise `alpha`, or pass `base`."
            )
        return base


def _as_base(base: Any) -> BaseClasses | None:
    """Return the base as BaseClasses, or None."""
    if base is None or isinstance(base, BaseClasses):
        return base
    if isinstance(base, Moments):
        return BaseClasses(base)
    raise TypeError(
        f"`base` must be Moments, BaseClasses or None; got {type(base).__name__}. "
        "Gather Moments(prototypes).update(X_base, y_base)."
    )


def _require_stored(base: BaseClasses, n: int) -> None:
    """Reject base classes with fewer raw samples than an episode draws."""
    moments, labels = base.moments, base.prototypes.labels
    kept = np.array([moments.samples_of(label).shape[0] for label in labels.tolist()])
    short = kept < n
    if short.any():
        raise ValueError(
            f"`base_samples_per_class` must be at most the number of samples that the moments keep "
            f"of every base class; got {n}, and {kept.min()} of {format_labels(labels[short])} "
            f"(n_reserve={moments.n_reserve}). Lower it, or gather moments with a larger "
            "`n_reserve`."
        )


def _join_prototypes(given: Any, base: BaseClasses | None, labels: np.ndarray) -> Prototypes:
    """Return the given prototypes completed by those of the base, or one-hot ones."""
    if given is None:
        return Prototypes.one_hot(labels) if base is None else base.moments.prototypes
    given = Prototypes.coerce(given)
    if base is None:
        return given
    _require_agreement(given, base.prototypes)
    others = np.setdiff1d(base.moments.prototypes.labels, given.labels)
    return given.extended(base.moments.prototypes.subset(others)) if others.size else given


def _require_samples_like(base: BaseClasses, X: Array) -> None:
    """Reject a support set from another feature space, array library or device."""
    if base.moments.n_features != X.shape[1]:
        raise ValueError(
            f"The support set must have the {base.moments.n_features} features of the base "
            f"classes; got {X.shape[1]}. Use the same encoder for both."
        )
    sums = base.moments.class_sums
    if not is_same_place(sums, X):
        raise ValueError(
            f"The support set must be on the device of the base classes, {place_of(sums)}; got "
            f"{place_of(X)}. Move the samples, or take `to_numpy()` of the base moments."
        )


def _require_disjoint(base: BaseClasses, novel: np.ndarray) -> None:
    """Reject novel classes that are also base classes."""
    overlap = np.intersect1d(base.moments.seen_labels, novel)
    if overlap.size:
        raise ValueError(
            f"Novel classes must not be among the base classes; {format_labels(overlap)} came in "
            "both. Leave them out of the base moments, or out of the support set."
        )


def _require_agreement(given: Prototypes, of_base: Prototypes) -> None:
    """Reject prototypes of base classes that differ from those of the base moments."""
    if given.n_dimensions != of_base.n_dimensions:
        raise ValueError(
            f"Prototypes must have the {of_base.n_dimensions} dimensions of the base prototypes; "
            f"got {given.n_dimensions}. Use the same semantic space, or moments.with_prototypes."
        )
    require_same_kind(labels=given.labels, prototypes=of_base.labels)
    both = np.intersect1d(given.labels, of_base.labels)
    if not both.size:
        return
    # Within float32 precision, because either may have been stored in float32.
    near = np.isclose(given.subset(both).matrix, of_base.subset(both).matrix, rtol=1e-5)
    other = both[~near.all(axis=1)]
    if other.size:
        raise ValueError(
            f"Prototypes of base classes must be those of the base moments; {format_labels(other)} "
            "came with others. Leave base classes out, or pass moments.with_prototypes(prototypes)."
        )
