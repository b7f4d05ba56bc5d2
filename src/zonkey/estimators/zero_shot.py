"""ZeroShotClassifier: recognize classes known by a semantic prototype only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
from array_api_compat import device
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from ..core.algorithm1 import Competition, Course, Rule, learn
from ..core.entropy import EntropyObjective, minimize_entropy
from ..core.frame import BaseClasses, Frame
from ..core.labels import as_labels, distinct
from ..core.moments import Moments
from ..core.projection import directed_projection
from ..core.prototypes import Prototypes
from ..core.synthesis import Synthesized, perturbed, raw_material
from ..linalg.arrays import Array, is_device_array, namespace, place_of, placed_like
from ..preprocessing.validation import check_labeled, validate_labeled, validate_samples
from .calibration import calibrate, check_calibration, needs_calibration
from .diagnostics import print_step, warn_of_trouble
from .nearest_prototype import LinearScores, NearestPrototypeMixin
from .probability import ProbabilityMixin
from .semantics import check_semantics, seen_through
from .validation import check_classes, check_learning_parameters, check_option

_DIRECTIONS = ("both", "forward", "reverse")
_RESERVE = 64  # raw samples kept a class, so that what is perturbed varies between classes


class ZeroShotClassifier(ProbabilityMixin, NearestPrototypeMixin, BaseEstimator):
    """Zero-shot classification by competitive bidirectional projection learning.

    Learns a projection W between a semantic space and the feature space from the labeled
    samples of seen classes. With W, features of the unseen classes are synthesized from
    samples of their semantic neighbors, and W is refined on them in competition. A sample
    is given the class whose projected prototype W y is nearest.

    Parameters
    ----------
    prototypes : mapping, DataFrame or Prototypes, default=None
        A semantic vector for every class, seen and unseen: ``{label: vector}``, a DataFrame
        indexed by label, or ``Prototypes(labels, matrix)``. Classes without a sample in
        `y` are the unseen ones. None gives each class of `y` an axis of its own; there is no
        unseen class then.
    direction : {"both", "forward", "reverse"}, default="both"
        Which errors W minimizes: both (BPL), from features to semantics (FPL; compared in
        the semantic space), or from semantics to features (RPL). Synthesis and competition
        belong to "both" and are left out otherwise, as in the paper.
    forward_weight : float in [0, 1], default=0.5
        Share of the error from features to semantics in ``direction="both"``. Half is the paper's
        BPL; toward 0 the model becomes RPL, and with ``weight_per="class"`` the regression
        of class means on prototypes ("exemplars"); toward 1 its W becomes that of FPL, which
        compares in the semantic space, however.
    weight_per : {"sample", "class"}, default="sample"
        What all weighs the same: each sample, as in the paper, or each class, which then counts
        as one sample, for seen classes of very different sizes. `alpha` and `beta` are relative
        to the number of samples or of classes accordingly.
    kernel : {"linear", "rbf", "poly", "arccos", "precomputed", None}, default=None
        Compare prototypes by a kernel: they are lifted, exactly, into the span that the seen
        classes have in its feature space, whose coordinates are those of `projection_` and
        `embed` then. "precomputed": the prototypes are rows of a kernel matrix over all
        classes, in sorted order of the labels. None: as they are.
    gamma : float >= 0, default=1.0
        Width of the kernel: in units of 1 / (median squared distance of seen prototypes) for
        "rbf", of 1 / (their mean squared length) for "poly".
    degree, coef0 : int, float, default=3, 1.0
        Of ``kernel="poly"``: (gamma y'z + coef0)^degree.
    prototype_transformer : transformer, default=None
        What is done to prototypes first, learned from the seen ones, such as
        ``FeatureNormalizer(power=0.5, center=True)``.
    synthesis : {"perturb", None}, default="perturb"
        Synthesize features for unseen classes by perturbation (SFSP), or not (BPL0).
    competition : {"second-best", "assigned", "entropy", None}, default="second-best"
        How synthesized samples refine W. "second-best": pulled to the best class, pushed
        from the second best (the paper's BPL). None: pulled only (BPL1). "assigned": pulled to
        the class they were made for ("w/o ambiguity handling"). "entropy": minimum entropy.
    rho : float in [0, 1], default=0.5
        Length of the perturbation.
    alpha : float in [0, 1), default=0.1
        Weight of the synthesized samples against the seen ones.
    mu : float in [0, 1), default=0.1
        Strength of the push from the second best class.
    beta : float >= 0, default=0.01
        Ridge penalty on W.
    n_neighbors : int, default=3
        Seen classes that an unseen class takes samples from.
    n_synthetic : int, default=15
        Synthesized samples a class (or a neighbor, see `synthetic_per`). A neighbor class
        with fewer samples than needed uses each of them equally often.
    synthetic_per : {"class", "neighbor"}, default="class"
        What `n_synthetic` counts; the paper can be read both ways.
    scaling : {"squared-norm", None}, default="squared-norm"
        Divide the perturbation by the squared norm of W, as printed, or not at all.
    candidates : {"unseen", "all"} or list of labels, default="unseen"
        Classes that `predict` chooses from: zero-shot, generalized zero-shot, or any others.
    seen_penalty : float or "auto", default=0.0
        Subtracted from the scores of seen classes (calibration of generalized zero-shot).
        "auto": the penalty of the best harmonic mean when whole classes, and some samples of the
        others, are held out of the training data. Where features are preprocessed by what was
        learned from labels, let `ZeroShotSearchCV` calibrate the pipeline as a whole.
    seen_prior : float in (0, 1), default=None
        How often samples of seen classes will come, where that is known: their scores are
        raised by `temperature` times the log odds, so that one fitted to the scores is needed;
        ``seen_penalty="auto"`` stands for even odds.
    temperature : float > 0 or "auto", default=1.0
        Scores are divided by it before they become probabilities. "auto": the value of the
        highest likelihood on held-out classes.
    reject_below : float in [0, 1], default=None
        `predict` answers `reject_label` where the highest probability is below this.
    reject_label : label, default=None
        None: "unknown" where labels are text, -1 where they are numbers.
    tie_tol : float >= 0, default=0.001
        Relative difference below which two losses count as tied.
    max_iter : int, default=None
        Steps of Algorithm 1 (None: 5, as in the paper), or of gradient descent for
        ``competition="entropy"`` (None: 100).
    tol : float >= 0, default=1e-4
        Stop when W changes relatively by no more than this; for "entropy", when the
        gradient has shrunk to this share.
    random_state : int, RandomState or None, default=None
        Which seen samples are perturbed.
    verbose : int, default=0
        Print the objective after every step.

    Attributes
    ----------
    projection_ : ndarray of shape (n_features, n_dimensions)
        The matrix W. Like the other arrays, and labels that are numbers, it is in the array
        library and on the device of the training samples.
    classes_ : ndarray
        The candidates, in the order of the columns of `decision_function`.
    seen_classes_, unseen_classes_ : ndarray
        Labels with and without a sample in the training data.
    prototypes_ : Prototypes
        The prototypes of all of them, as given.
    seen_penalty_, temperature_ : float
        What is used: as given, or as chosen on held-out classes.
    is_transductive_ : bool
        Whether unlabeled samples took part in training (`fit_transductive`).
    objective_ : ndarray of shape (n_iter_ + 1,)
        The objective before and after each step (Eq. erplobj over 1 + gamma); empty where
        the fit is closed-form.
    n_iter_ : int
        Steps taken.
    mu_ : ndarray of shape (n_iter_,)
        The `mu` of each step: smaller than the parameter where competition would have left
        too little curvature (a warning says so), 0 where the model has no push.
    changes_ : ndarray of shape (n_iter_,)
        Relative change of the projection in each step.
    converged_ : bool
        Whether `tol` was reached; a closed-form fit always has.
    n_features_in_ : int

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

    def __init__(
        self,
        prototypes: Any = None,
        *,
        direction: str = "both",
        forward_weight: float = 0.5,
        weight_per: str = "sample",
        kernel: str | None = None,
        gamma: float = 1.0,
        degree: int = 3,
        coef0: float = 1.0,
        prototype_transformer: Any = None,
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
        candidates: Any = "unseen",
        seen_penalty: Any = 0.0,
        seen_prior: float | None = None,
        temperature: Any = 1.0,
        reject_below: float | None = None,
        reject_label: Any = None,
        tie_tol: float = 1e-3,
        max_iter: int | None = None,
        tol: float = 1e-4,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.prototypes = prototypes
        self.direction = direction
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
        self.n_neighbors = n_neighbors
        self.n_synthetic = n_synthetic
        self.synthetic_per = synthetic_per
        self.scaling = scaling
        self.candidates = candidates
        self.seen_penalty = seen_penalty
        self.seen_prior = seen_prior
        self.temperature = temperature
        self.reject_below = reject_below
        self.reject_label = reject_label
        self.tie_tol = tie_tol
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the projection from the samples X (n x d) of seen classes and their labels y."""
        X, moments, calibration = self._prepared(X, y)
        return self._learn(moments, calibration, X.dtype)

    def fit_transductive(self, X: Any, y: Any, X_unlabeled: Any) -> Self:
        """Learn also from samples of unseen classes whose labels are not known.

        They take the place of synthesized ones: classes compete for them in the same way, as in
        DIPL, the preliminary version of the paper. What such a model scores on these samples
        does not compare with models that never saw them; `is_transductive_` tells them apart.
        """
        if self.synthesis is None or self.direction != "both" or self.competition == "assigned":
            raise ValueError(
                "Unlabeled samples compete for classes in place of synthesized ones; that needs "
                'direction="both", a synthesis, and another competition than "assigned"; got '
                f"{self.direction!r}, {self.synthesis!r} and {self.competition!r}. Use fit(X, y)."
            )
        if needs_calibration(self):
            raise ValueError(
                'seen_penalty="auto" and temperature="auto" are chosen for models that never saw '
                "the samples they are asked about; got one that learns from them. Pass numbers."
            )
        X, moments, calibration = self._prepared(X, y)
        if not len(moments.unseen_labels):
            raise ValueError(
                "Unlabeled samples are of unseen classes, and there is none: each of the "
                f"{len(moments.seen_labels)} classes has samples. Add prototypes, or use fit(X, y)."
            )
        X_unlabeled = placed_like(validate_samples(self, X_unlabeled, reset=False), X)
        return self._learn(moments, calibration, X.dtype, unlabeled=X_unlabeled)

    def _prepared(self, X: Any, y: Any) -> tuple[Array, Moments, dict[str, float]]:
        self._check_parameters()
        X, y = validate_labeled(self, X, y)
        moments = self._gather(X, y)
        return X, moments, self._calibrated(X, y)

    def gather(self, X: Any, y: Any) -> Moments:
        """Return the moments that `fit(X, y)` learns from; changes nothing here."""
        self._check_parameters()
        return self._gather(*check_labeled(self, X, y))

    def fit_moments(self, moments: Moments | BaseClasses) -> Self:
        """Learn the projection from moments instead of raw samples.

        Parameters
        ----------
        moments : Moments or BaseClasses
            Their prototypes are replaced by this estimator's own where it has some, so that
            one set of moments serves several semantic spaces. ``BaseClasses(moments)`` keeps
            factorizations, neighbors and samples for further fits with other parameters.
        """
        self._check_parameters()
        if not isinstance(moments, Moments | BaseClasses):
            raise TypeError(
                f"`fit_moments` takes Moments; got {type(moments).__name__}. Use fit(X, y) for raw "
                "samples, or Moments(prototypes).update(X, y)."
            )
        A0 = _moments_of(moments).A0
        vars(self).pop("feature_names_in_", None)  # of an earlier fit; moments know no names
        self.n_features_in_ = A0.shape[0]
        return self._learn(moments, self._calibrated(None, None), A0.dtype)

    @property
    def uses_scatter(self) -> bool:
        """Whether a fit needs A0, the scatter of the features, and its decomposition."""
        return self._forward() > 0

    def training_prototypes(self, y: Any) -> Prototypes:
        """Return the prototypes that a fit on labels `y` uses: those given, or one-hot ones."""
        if self.prototypes is None:
            return Prototypes.one_hot(y)
        return Prototypes.coerce(self.prototypes)

    def _gather(self, X: Array, y: Array) -> Moments:
        # scikit-learn rejects integers in an object array
        labels = y if is_device_array(y) else as_labels(y)
        check_classes(labels)
        prototypes = self.training_prototypes(distinct(labels))
        # Raw samples are kept only where they will be perturbed.
        n_reserve = max(_RESERVE, self.n_synthetic) if self._synthesizes() else 0
        return Moments.from_arrays(X, labels, prototypes, n_reserve=n_reserve, seed=self._seed())

    def _calibrated(self, X: Any, y: Any) -> dict[str, float]:
        """Return penalty and temperature, from held-out classes where they are to be chosen."""
        chosen = {name: getattr(self, name) for name in ("seen_penalty", "temperature")}
        if needs_calibration(self):
            if X is None:
                raise ValueError(
                    'seen_penalty="auto" and temperature="auto" are chosen on held-out samples, '
                    "which moments do not keep. Use fit(X, y), or pass numbers."
                )
            if is_device_array(X):
                raise ValueError(
                    'seen_penalty="auto" and temperature="auto" are chosen on the host; got '
                    f"samples in {place_of(X)}. Fit on NumPy arrays, or pass numbers."
                )
            return calibrate(self, X, y)
        return {name: float(value) for name, value in chosen.items()}

    def _learn(
        self,
        source: Moments | BaseClasses,
        calibration: dict[str, float],
        dtype: Any,
        *,
        unlabeled: Array | None = None,
    ) -> Self:
        moments = _moments_of(source)
        known, seen = moments.prototypes, moments.seen_labels
        if self.prototypes is not None:
            known = Prototypes.coerce(self.prototypes)
        self._candidate_labels(known, seen)  # fails early
        semantics, base = seen_through(self, known, source)
        competes = self._synthesizes() and len(base.moments.unseen_labels)
        # For a single equation the solver knows a cheaper way; here there are more to come.
        several = competes or isinstance(source, BaseClasses)
        frame = base.frame(_unseen(base), rotate=bool(self.uses_scatter and several))
        initial = directed_projection(frame.equations, self.beta, self._forward())
        none = np.empty(0)
        course = Course(initial.value, none, none, [], set(), converged=True)
        if competes:
            course = self._refined(base, frame, initial.value, unlabeled)
        W = frame.lift(course.W)
        statuses = {initial.status} | course.statuses
        warn_of_trouble(statuses, course.mu.tolist(), beta=self.beta, mu=self._mu())
        self._semantics = semantics
        self.seen_penalty_ = calibration["seen_penalty"]
        self.temperature_ = calibration["temperature"]
        self._set_known(known, seen, like=W)
        self.projection_ = namespace(W).astype(W, dtype, copy=False)
        self.n_iter_ = len(course.changes)
        self.objective_ = placed_like(np.asarray(course.objective, np.float64), W)
        self.mu_ = placed_like(course.mu, W)
        self.changes_ = placed_like(course.changes, W)
        self.converged_ = course.converged
        self.is_transductive_ = unlabeled is not None
        return self

    def _refined(
        self, base: BaseClasses, frame: Frame, W: Array, unlabeled: Array | None
    ) -> Course:
        """Let the unseen classes compete for synthesized or unlabeled samples."""
        if unlabeled is None:
            samples = self._synthesize(base, frame, W)
        else:
            xp = namespace(unlabeled)
            nobody = xp.zeros(unlabeled.shape[0], dtype=xp.int64, device=device(unlabeled))
            features = frame.features(xp.astype(unlabeled, xp.float64))
            samples = Synthesized(features, nobody, nobody)
        Y_u = frame.placed(frame.semantics(_unseen(base)))
        options: dict[str, Any] = {
            "max_iter": self.max_iter,
            "tol": self.tol,
            "on_step": print_step if self.verbose else None,
        }
        if self.competition == "entropy":
            objective = EntropyObjective(
                frame.equations, samples.features, Y_u, alpha=self.alpha, beta=self.beta
            )
            return minimize_entropy(objective, W, **options)
        competition = Competition(
            frame.equations,
            samples,
            Y_u,
            beta=self.beta,
            tie_tol=self.tie_tol,
            rule=cast(Rule, self.competition),
            forward=self._forward(),
        )
        return learn(competition, W, alpha=self.alpha, mu=self._mu(), **options)

    def _synthesize(self, base: BaseClasses, frame: Frame, W: Array) -> Synthesized:
        Y_u, Y_s = _unseen(base), base.prototypes.matrix.astype(np.float64)
        settings = {
            "n_neighbors": self.n_neighbors,
            "n_synthetic": self.n_synthetic,
            "per": self.synthetic_per,
        }
        seed = self._seed()

        def raw() -> Synthesized:
            labels = base.prototypes.labels.tolist()
            samples = [_samples_of(base.moments, label) for label in labels]
            rng = np.random.default_rng(seed)
            drawn = raw_material(Y_u, Y_s, samples, **settings, rng=rng)
            features = namespace(W).astype(drawn.features, W.dtype)
            return replace(drawn, features=frame.features(features))

        key = ("raw", seed, self.uses_scatter, *settings.values())
        placed = (frame.placed(frame.semantics(Y)) for Y in (Y_u, Y_s))
        drawn = base.remembered(key, raw)
        return perturbed(drawn, W, *placed, rho=self.rho, scaling=self.scaling)

    def _coordinates(self, prototypes: Prototypes) -> np.ndarray:
        return self._semantics.coordinates(prototypes.matrix)

    def _linear_scores(self, known: Prototypes, dtype: Any) -> LinearScores:
        if self.direction != "forward":
            return super()._linear_scores(known, dtype)
        W = namespace(self.projection_).astype(self.projection_, dtype, copy=False)
        return LinearScores.of_distances(self._placed_coordinates(known, dtype), W)

    def _forward(self) -> float:
        """Return the share of the forward error, which `direction` may settle."""
        return {"forward": 1.0, "reverse": 0.0}.get(self.direction, self.forward_weight)

    def _synthesizes(self) -> bool:
        return self.direction == "both" and self.synthesis is not None

    def _mu(self) -> float:
        """Return the weight of the push, which only the second-best rule has."""
        return self.mu if self.competition == "second-best" else 0.0

    def _seed(self) -> int:
        return check_random_state(self.random_state).randint(2**31 - 1)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        return tags

    def _check_parameters(self) -> None:
        check_option("direction", self.direction, _DIRECTIONS)
        check_option("synthesis", self.synthesis, ("perturb", None))
        check_option("competition", self.competition, ("second-best", "assigned", "entropy", None))
        check_option("synthetic_per", self.synthetic_per, ("class", "neighbor"))
        check_learning_parameters(self)
        check_semantics(self)
        check_calibration(self)
        if self.competition == "entropy" and self._synthesizes() and self.forward_weight != 0.5:
            raise ValueError(
                'competition="entropy" weighs both errors equally; got '
                f"forward_weight={self.forward_weight}. Use 0.5, or another competition."
            )


def _moments_of(source: Moments | BaseClasses) -> Moments:
    return source.moments if isinstance(source, BaseClasses) else source


def _unseen(base: BaseClasses) -> np.ndarray:
    """Return the prototypes of the classes without a sample."""
    prototypes = base.moments.prototypes
    return prototypes.matrix[base.moments.counts == 0].astype(np.float64)


def _samples_of(moments: Moments, label: Any) -> np.ndarray:
    samples = moments.samples_of(label)
    if not samples.shape[0]:
        raise ValueError(
            "Synthesis needs a raw sample of every seen class; the moments keep none of class "
            f"{label!r} (n_reserve={moments.n_reserve}). Gather them again with a larger "
            "`n_reserve`, or use synthesis=None."
        )
    return samples
