"""ZeroShotClassifier: recognize classes known by a semantic prototype only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self, cast

import numpy as np
from array_api_compat import device

from ..arrays import Array, is_device_array, namespace, place_like, place_of
from ..constraints import (
    check_classes,
    check_labeled,
    check_seed,
    check_semantics,
    chunks_of,
    set_features,
    validate_labeled,
    validate_samples,
)
from ..inference.scorer import LinearScores
from ..labels import as_labels, list_distinct
from ..parameters import Constraint, Interval, Options, check_parameters, is_auto
from ..prototypes import Prototypes
from ..samples import require_scale
from ..streaming.reduce import ClassSums, Pass
from .algorithm1 import DECAY, Competition, Course, learn, relative_change
from .assignment import Rule
from .calibration import calibrate
from .entropy import EntropyObjective, minimize_entropy
from .frame import BaseClasses, Frame
from .learning import ProjectionLearner, draw_seed, require_samples, warn_of_trouble
from .moments import Moments
from .projection import directed_projection
from .synthesis import Synthesized, perturb, raw_material

_FORWARD = {"both": 0.5, "forward": 1.0, "reverse": 0.0}  # weight of the forward error
_RESERVE = 64  # raw samples kept per class, so that the perturbed ones vary between classes


class ZeroShotClassifier(ProjectionLearner):
    """Zero-shot classification by competitive bidirectional projection learning.

    The model learns a projection W between a semantic space and the feature space from labeled
    samples of seen classes. With W, it synthesizes features of the unseen classes from samples of
    semantically similar seen classes, and refines W on them in competition (Algorithm 1). A sample
    is assigned to the class whose projected prototype W y is nearest.

    Parameters
    ----------
    prototypes : mapping, DataFrame or Prototypes, default=None
        Semantic vector of every class, seen and unseen: ``{label: vector}``, a DataFrame
        indexed by label, or ``Prototypes(labels, matrix)``. Classes without a sample in
        `y` are the unseen ones. None: one-hot vectors of the classes in `y`, without any
        unseen class.
    direction : {"both", "forward", "reverse"}, default="both"
        Errors that W minimizes: both (BPL), from features to semantics (FPL, which compares
        in the semantic space), or from semantics to features (RPL). Only "both" uses
        synthesis and competition, as in the paper.
    synthesis : {"perturb"} or None, default="perturb"
        Synthesize features of unseen classes by perturbation (SFSP), or not at all (BPL0).
    competition : {"second-best", "assigned", "entropy"} or None, default="second-best"
        How synthesized samples refine W. "second-best": pulled to the best class and pushed
        from the second best (the paper's BPL). None: pulled only (BPL1). "assigned": pulled to
        the class they were synthesized for ("w/o ambiguity handling"). "entropy": minimum
        entropy.
    rho : float, default=0.5
        Length of the perturbation, in [0, 1].
    alpha : float, default=0.1
        Weight in [0, 1) of the synthesized samples relative to the seen ones.
    mu : float, default=0.1
        Strength in [0, 1) of the push from the second best class.
    beta : float, default=0.01
        Nonnegative ridge penalty on W.
    n_neighbors : int, default=3
        Number of seen classes whose samples are perturbed for an unseen class.
    n_synthetic : int, default=15
        Number of synthesized samples per class, or per neighbor (see `synthetic_per`). If a
        neighbor has fewer samples, each of them is used equally often.
    synthetic_per : {"class", "neighbor"}, default="class"
        What `n_synthetic` counts; the paper allows both readings.
    scaling : {"squared-norm"} or None, default="squared-norm"
        Divide the perturbation by the squared norm of W, as in the paper, or not at all.
    guard : bool, default=True
        Lower `mu` in steps in which competition would leave less than a twentieth of the curvature
        of the problem, with a warning. False: keep `mu`, as printed in the paper; steps whose
        equation is indefinite are counted in `n_indefinite_`, with
        a warning.
    candidates : {"unseen", "all"} or list of labels, default="unseen"
        Classes that `predict` chooses from: "unseen" is zero-shot, "all" is generalized
        zero-shot classification.
    seen_penalty : float or "auto", default=0.0
        Number subtracted from the scores of seen classes, to calibrate generalized zero-shot
        classification. "auto" maximizes the harmonic mean on training classes and samples that
        are held out. If a preprocessing step learns from labels, let `ZeroShotSearchCV`
        calibrate the whole pipeline instead.
    tie_tol : float, default=0.001
        Relative difference below which two losses count as tied.
    max_iter : int, default=None
        Maximum number of steps: of Algorithm 1 (None: 5, as in the paper), or of gradient
        descent for ``competition="entropy"`` (None: 100).
    step_size : float, default=1.0
        Step of gradient descent for ``competition="entropy"``, in units of 1/L with L the
        curvature of the seen loss in its steepest direction. The seen loss is followed
        implicitly, so that steps far above 1 are stable and reach directions that it hardly
        determines. A step that does not descend is halved.
    tol : float, default=1e-4
        Stop when the relative change of W is at most this; for "entropy", when the gradient
        has shrunk by this factor.
    random_state : int, RandomState or None, default=None
        Determines which seen samples are perturbed.
    verbose : int, default=0
        Print the objective after every step if positive.

    Attributes
    ----------
    projection_ : ndarray of shape (n_features, n_dimensions)
        The matrix W. Arrays and numeric labels are in the array library and on the device of
        the training samples.
    classes_ : ndarray of shape (n_candidates,)
        The candidates, in the order of the columns of `decision_function`.
    seen_classes_ : ndarray
        Labels with a training sample.
    unseen_classes_ : ndarray
        Labels with a prototype and no training sample.
    prototypes_ : Prototypes
        Prototypes of all classes.
    seen_penalty_ : float
        Penalty in use: the parameter, or the number chosen on held-out classes.
    is_transductive_ : bool
        Whether unlabeled samples took part in training (`fit_transductive`).
    objective_ : ndarray of shape (n_iter_ + 1,)
        Objective before and after each step: Eq. 2 (erplobj), divided by 1 + gamma. Empty if the
        fit is in closed form.
    n_iter_ : int
        Number of steps.
    mu_ : ndarray of shape (n_iter_,)
        `mu` of each step. Smaller than the parameter if competition would have left too little
        curvature (with a warning); 0 if the model has no push.
    n_indefinite_ : int
        Number of steps whose equation was indefinite; 0 with `guard`.
    moved_ : float
        Distance of W from the initial projection W0 (BPL0), ||W - W0|| / ||W0||; 0 for a fit in
        closed form.
    changes_ : ndarray of shape (n_iter_,)
        Relative change of the projection in each step.
    converged_ : bool
        Whether `tol` was reached. Always True for a fit in closed form.
    n_features_in_ : int
        Number of features.

    See Also
    --------
    FewShotClassifier : Learns novel classes from prototypes and a few samples.
    zonkey.model_selection.ZeroShotSearchCV : Chooses parameters on held-out classes.
    AnyShotClassifier : The recommended model for any number of shots.

    Examples
    --------
    >>> import numpy as np
    >>> from zonkey import ZeroShotClassifier
    >>> rng = np.random.default_rng(0)
    >>> hidden = rng.normal(size=(2, 8))  # what stripes and mane look like
    >>> prototypes = {"horse": [0, 1], "tiger": [1, 0], "zebra": [1, 1]}
    >>> y = np.repeat(["horse", "tiger"], 20)
    >>> X = np.array([prototypes[label] for label in y]) @ hidden + rng.normal(size=(40, 8)) / 5
    >>> model = ZeroShotClassifier(prototypes, candidates="all", random_state=0).fit(X, y)
    >>> model.unseen_classes_
    array(['zebra'], dtype='<U5')
    >>> model.predict([hidden.sum(axis=0)])
    array(['zebra'], dtype='<U5')
    """

    _decay: ClassVar[float] = DECAY  # of alpha from step to step

    __constraints__: ClassVar[dict[str, Constraint]] = {
        "direction": Options(*_FORWARD),
        "synthesis": Options("perturb", None),
        "competition": Options("second-best", "assigned", "entropy", None),
        "synthetic_per": Options("class", "neighbor"),
        "seen_penalty": Interval(also=("auto",)),
        "step_size": Interval(0, open_below=True),
    }
    __zonkey_fields__ = (
        "projection_",
        "n_iter_",
        "objective_",
        "mu_",
        "n_indefinite_",
        "moved_",
        "changes_",
        "converged_",
        "is_transductive_",
        "_in_semantic_space",
    )

    @classmethod
    def __zonkey_upgrade__(cls, parts: dict[str, Any]) -> dict[str, Any]:
        """Add what older files lack."""
        parts = super().__zonkey_upgrade__(parts)
        return {**parts, "state": {"n_indefinite_": 0, "moved_": float("nan"), **parts["state"]}}

    def __init__(
        self,
        prototypes: Any = None,
        *,
        direction: str = "both",
        synthesis: str | None = "perturb",
        competition: str | None = "second-best",
        rho: float = 0.5,
        alpha: float = 0.1,
        mu: float = 0.1,
        beta: float = 0.01,
        n_neighbors: int = 3,
        n_synthetic: int = 15,
        synthetic_per: str = "class",
        scaling: str | None = "squared-norm",
        guard: bool = True,
        candidates: Any = "unseen",
        seen_penalty: Any = 0.0,
        tie_tol: float = 1e-3,
        max_iter: int | None = None,
        step_size: float = 1.0,
        tol: float = 1e-4,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.prototypes = prototypes
        self.direction = direction
        self.synthesis = synthesis
        self.competition = competition
        self.rho = rho
        self.alpha = alpha
        self.mu = mu
        self.beta = beta
        self.n_neighbors = n_neighbors
        self.n_synthetic = n_synthetic
        self.synthetic_per = synthetic_per
        self.scaling = scaling
        self.guard = guard
        self.candidates = candidates
        self.seen_penalty = seen_penalty
        self.tie_tol = tie_tol
        self.max_iter = max_iter
        self.step_size = step_size
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the projection from samples of seen classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Training samples. Chunks, which may exceed the memory, are read once, or twice without
            prototypes; `projection_` is then in float64.
        y : array-like of shape (n_samples,)
            Labels, each with a prototype. None for `Chunks`, which have their own.

        Returns
        -------
        ZeroShotClassifier
            The fitted estimator.
        """
        X, moments, penalty = self._prepare(X, y)
        return self._learn(moments.prototypes, moments, penalty, X.dtype)

    def fit_transductive(self, X: Any, y: Any, X_unlabeled: Any) -> Self:
        """Learn also from unlabeled samples of unseen classes.

        They replace the synthesized samples: classes compete for them in the same way. This is
        DIPL, the preliminary version of the paper. Accuracies on these samples are not comparable
        with those of inductive models; `is_transductive_` distinguishes them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples of seen classes.
        y : array-like of shape (n_samples,)
            Labels, each with a prototype.
        X_unlabeled : array-like of shape (n_unlabeled, n_features)
            Samples of unseen classes.

        Returns
        -------
        ZeroShotClassifier
            The fitted estimator.
        """
        if self.synthesis is None or self.direction != "both" or self.competition == "assigned":
            raise ValueError(
                "Unlabeled samples compete for classes in place of synthesized ones; that needs "
                'direction="both", a synthesis, and another competition than "assigned"; got '
                f"{self.direction!r}, {self.synthesis!r} and {self.competition!r}. Use fit(X, y)."
            )
        if is_auto(self.seen_penalty):
            raise ValueError(
                'seen_penalty="auto" is chosen for models that never saw the samples to classify; '
                "got one that learns from them. Pass a number."
            )
        X, moments, penalty = self._prepare(X, y)
        if not len(moments.unseen_labels):
            raise ValueError(
                "Unlabeled samples need unseen classes; there are none: each of the "
                f"{len(moments.seen_labels)} classes has samples. Add prototypes, or use fit(X, y)."
            )
        X_unlabeled = place_like(validate_samples(self, X_unlabeled, reset=False), X)
        require_scale(X_unlabeled, "Unlabeled samples")
        known = moments.prototypes
        return self._learn(known, moments, penalty, X.dtype, unlabeled=X_unlabeled)

    def fit_moments(self, moments: Moments | BaseClasses) -> Self:
        """Learn the projection from moments instead of raw samples.

        Parameters
        ----------
        moments : Moments or BaseClasses
            Moments of the training samples. Their prototypes are replaced by those of this
            estimator, if it has any, so one set of moments serves several semantic spaces.
            ``BaseClasses(moments)`` keeps factorizations, neighbors and samples for further fits
            with other parameters.

        Returns
        -------
        ZeroShotClassifier
            The fitted estimator.
        """
        check_parameters(self)
        if not isinstance(moments, Moments | BaseClasses):
            raise TypeError(
                f"`fit_moments` takes Moments; got {type(moments).__name__}. Use fit(X, y) for raw "
                "samples, or Moments(prototypes).update(X, y)."
            )
        gathered = _moments_of(moments)
        known = gathered.prototypes
        if self.prototypes is not None:
            known = Prototypes.coerce(self.prototypes)
        vars(self).pop("feature_names_in_", None)  # of an earlier fit; moments have no names
        self.n_features_in_ = gathered.n_features
        dtype = gathered.class_sums.dtype
        return self._learn(known, moments, self._penalty_for(None, None), dtype)

    def gather(self, X: Any, y: Any = None) -> Moments:
        """Return the moments that `fit` learns from, without changing the estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Training samples.
        y : array-like of shape (n_samples,)
            Labels, each with a prototype. None for `Chunks`, which have their own.

        Returns
        -------
        Moments
            Moments for `fit_moments`.
        """
        check_parameters(self)
        chunks = chunks_of(X, y)
        return self._gather(*(check_labeled(self, X, y) if chunks is None else (chunks, None)))

    @property
    def uses_scatter(self) -> bool:
        """Whether a fit needs A0, the scatter of the features: for the forward error."""
        return self.direction != "reverse"

    def _prepare(self, X: Any, y: Any) -> tuple[Array, Moments, float]:
        """Return the samples, or sums of chunks in their place, moments and penalty."""
        check_parameters(self)
        chunks = chunks_of(X, y, in_memory=is_auto(self.seen_penalty))
        if chunks is None:
            X, y = validate_labeled(self, X, y)
            moments = self._gather(X, y)
            return X, moments, self._penalty_for(X, y)
        penalty = self._penalty_for(None, None)
        moments = self._gather(chunks, None)
        set_features(self, moments.n_features, chunks.feature_names)
        return moments.class_sums, moments, penalty

    def _gather(self, X: Any, y: Any) -> Moments:
        if y is None:
            check_seed(self.random_state, X)
        # scikit-learn rejects integers in an object array.
        labels = y if y is None or is_device_array(y) else as_labels(y)
        if labels is None and self.prototypes is None:
            X.require_several_passes()
            labels = X.reduce(ClassSums(), Pass.LABELS).labels
        if labels is not None:
            check_classes(labels)
        given = self.prototypes
        known = (
            Prototypes.one_hot(list_distinct(labels)) if given is None else Prototypes.coerce(given)
        )
        # Raw samples are needed for synthesis only, and A0, the most expensive sum, for the forward
        # error only.
        n_reserve = max(_RESERVE, self.n_synthetic) if self._synthesizes() else 0
        options = {
            "n_reserve": n_reserve,
            "seed": draw_seed(self.random_state),
            "scatter": self.uses_scatter,
        }
        if y is None:
            return Moments(known, **options).update(X)
        return Moments.from_arrays(X, labels, known, **options)

    def _penalty_for(self, X: Any, y: Any) -> float:
        """Return the penalty of seen classes, chosen on held-out classes if "auto"."""
        if not is_auto(self.seen_penalty):
            return float(self.seen_penalty)
        if X is None:
            raise ValueError(
                'seen_penalty="auto" must have its samples in memory, to hold some out; got '
                "moments or chunks, which keep none. Pass arrays to fit(X, y), or a number."
            )
        if is_device_array(X):
            raise ValueError(
                f'seen_penalty="auto" is chosen on the host; got samples in {place_of(X)}. '
                "Fit on NumPy arrays, or pass a number."
            )
        return calibrate(self, X, y)

    def _learn(
        self,
        known: Prototypes,
        source: Moments | BaseClasses,
        penalty: float,
        dtype: Any,
        *,
        unlabeled: Array | None = None,
    ) -> Self:
        moments = _moments_of(source)
        seen = moments.seen_labels
        check_semantics(known, seen, self._candidate_labels(known, seen))  # fails early
        base = _select_base(known, source)
        competes = self._synthesizes() and len(base.moments.unseen_labels)
        # A single equation has a cheaper solver than the decomposition that several share.
        several = competes or isinstance(source, BaseClasses)
        frame = base.frame(_select_unseen(base), rotate=bool(self.uses_scatter and several))
        initial = directed_projection(frame.equations, self.beta, _FORWARD[self.direction])
        none = np.empty(0)
        course = Course(initial.value, none, none, [], set(), converged=True)
        if competes:
            course = self._refine(base, frame, initial.value, unlabeled)
        W = frame.lift(course.W)
        statuses, n_indefinite = {initial.status, *course.statuses}, int(course.indefinite.sum())
        warn_of_trouble(statuses, course.mu.tolist(), n_indefinite, beta=self.beta, mu=self._mu())
        self._in_semantic_space = self.direction == "forward"
        self.seen_penalty_ = penalty
        with np.errstate(over="ignore"):  # infinity is refused below
            self.projection_ = namespace(W).astype(W, dtype, copy=False)
        self.n_iter_ = len(course.changes)
        self.objective_ = place_like(np.asarray(course.objective, np.float64), W)
        self.mu_ = place_like(course.mu, W)
        self.n_indefinite_ = n_indefinite
        self.moved_ = relative_change(initial.value, course.W)
        self.changes_ = place_like(course.changes, W)
        self.converged_ = course.converged
        self.is_transductive_ = unlabeled is not None
        self._set_known(known, seen, like=W)
        return self

    def _refine(self, base: BaseClasses, frame: Frame, W: Array, unlabeled: Array | None) -> Course:
        """Let the unseen classes compete for synthesized or unlabeled samples."""
        if unlabeled is None:
            samples = self._synthesize(base, frame, W)
        else:
            xp = namespace(unlabeled)
            no_target = xp.zeros(unlabeled.shape[0], dtype=xp.int64, device=device(unlabeled))
            features = frame.features(xp.astype(unlabeled, xp.float64))
            samples = Synthesized(features, no_target, no_target)
        Y_u = frame.place(frame.semantics(_select_unseen(base)))
        options: dict[str, Any] = {
            "max_iter": self.max_iter,
            "tol": self.tol,
            "on_step": _print_step if self.verbose else None,
        }
        if self.competition == "entropy":
            objective = EntropyObjective(
                frame.equations, samples.features, Y_u, alpha=self.alpha, beta=self.beta
            )
            return minimize_entropy(objective, W, step_size=self.step_size, **options)
        competition = Competition(
            frame.equations,
            samples,
            Y_u,
            beta=self.beta,
            tie_tol=self.tie_tol,
            rule=cast(Rule, self.competition),
        )
        options |= {"guard": self.guard, "decay": self._decay}
        return learn(competition, W, alpha=self.alpha, mu=self._mu(), **options)

    def _synthesize(self, base: BaseClasses, frame: Frame, W: Array) -> Synthesized:
        Y_u, Y_s = _select_unseen(base), base.prototypes.matrix.astype(np.float64)
        settings = {
            "n_neighbors": self.n_neighbors,
            "n_synthetic": self.n_synthetic,
            "per": self.synthetic_per,
        }
        seed = draw_seed(self.random_state)

        def raw() -> Synthesized:
            require_samples(base, "synthesis=None")
            labels = base.prototypes.labels.tolist()
            samples = [base.moments.samples_of(label) for label in labels]
            rng = np.random.default_rng(seed)
            drawn = raw_material(Y_u, Y_s, samples, **settings, rng=rng)
            features = namespace(W).astype(drawn.features, W.dtype)
            return replace(drawn, features=frame.features(features))

        placed = (frame.place(frame.semantics(Y)) for Y in (Y_u, Y_s))
        drawn = base.remember((seed, *settings.values()), raw)
        return perturb(drawn, W, *placed, rho=self.rho, scaling=self.scaling)

    def _linear_scores(self, known: Prototypes, dtype: Any) -> LinearScores:
        if not self._in_semantic_space:
            return super()._linear_scores(known, dtype)
        W = namespace(self.projection_).astype(self.projection_, dtype, copy=False)
        return LinearScores.from_distances(self._place_coordinates(known, dtype), W)

    def _synthesizes(self) -> bool:
        return self.direction == "both" and self.synthesis is not None


def _print_step(step: int, objective: float, change: float) -> None:
    print(  # noqa: T201
        f"[zonkey] step {step}: objective {objective:.6g}, relative change of W {change:.2e}"
    )


def _moments_of(source: Moments | BaseClasses) -> Moments:
    return source.moments if isinstance(source, BaseClasses) else source


def _select_base(known: Prototypes, source: Moments | BaseClasses) -> BaseClasses:
    """Return the seen classes under these prototypes; a decomposition of A0 is reused."""
    moments = _moments_of(source)
    twin = source if isinstance(source, BaseClasses) else None
    if known is not moments.prototypes and known != moments.prototypes:
        moments = moments.with_prototypes(known)
    elif twin is not None:
        return twin
    return BaseClasses(moments, twin=twin)


def _select_unseen(base: BaseClasses) -> np.ndarray:
    """Return the prototypes of the classes without a sample."""
    prototypes = base.moments.prototypes
    return prototypes.matrix[base.moments.counts == 0].astype(np.float64)
