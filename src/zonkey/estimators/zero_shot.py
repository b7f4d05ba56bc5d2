"""ZeroShotClassifier: recognise classes known by a semantic prototype only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state, check_X_y
from sklearn.utils.validation import validate_data

from ..core.competition import Path
from ..core.frame import orthonormal_rows
from ..core.labels import as_labels
from ..core.moments import Moments
from ..core.projection import (
    NormalEquations,
    bidirectional_projection,
    forward_projection,
    reverse_projection,
)
from ..core.prototypes import Prototypes
from ..core.refinement import Form, refine
from ..core.synthesis import synthesize
from .diagnostics import print_step, warn_of_trouble
from .nearest_prototype import NearestPrototypeMixin
from .validation import check_classes, check_learning_parameters, check_option

_PROJECTIONS = {
    "both": bidirectional_projection,
    "forward": forward_projection,
    "reverse": reverse_projection,
}
_DTYPES: Any = [np.float64, np.float32]
_RESERVE = 64  # raw samples kept a class, so that what is perturbed varies between classes


class ZeroShotClassifier(NearestPrototypeMixin, BaseEstimator):
    """Zero-shot classification by competitive bidirectional projection learning.

    Learns a projection W between a semantic space and the feature space from the labelled
    samples of seen classes. With W, features of the unseen classes are synthesised from
    samples of their semantic neighbours, and W is refined on them in competition. A sample
    is given the class whose projected prototype W y is nearest.

    Parameters
    ----------
    prototypes : mapping, DataFrame or Prototypes, default=None
        A semantic vector for every class, seen and unseen: ``{label: vector}``, a DataFrame
        indexed by label, or ``Prototypes(labels, matrix)``. Classes without a sample in
        `y` are the unseen ones. None gives each class of `y` an axis of its own; there is no
        unseen class then.
    direction : {"both", "forward", "reverse"}, default="both"
        Which errors W minimises: both (BPL), from features to semantics (FPL; compared in
        the semantic space), or from semantics to features (RPL). Synthesis and competition
        belong to "both" and are left out otherwise, as in the paper.
    synthesis : {"perturb", None}, default="perturb"
        Synthesise features for unseen classes by perturbation (SFSP), or not (BPL0).
    competition : {"second-best", "assigned", "entropy", None}, default="second-best"
        How synthesised samples refine W. "second-best": pulled to the best class, pushed
        from the second best (the paper's BPL). None: pulled only (BPL1). "assigned": pulled to
        the class they were made for ("w/o ambiguity handling"). "entropy": minimum entropy.
    rho : float in [0, 1], default=0.5
        Length of the perturbation.
    alpha : float in [0, 1), default=0.1
        Weight of the synthesised samples against the seen ones.
    mu : float in [0, 1), default=0.1
        Strength of the push from the second best class.
    beta : float >= 0, default=0.01
        Ridge penalty on W.
    n_neighbors : int, default=3
        Seen classes that an unseen class takes samples from.
    n_synthetic : int, default=15
        Synthesised samples a class (or a neighbour, see `synthetic_per`). A neighbour class
        with fewer samples than needed uses each of them equally often.
    synthetic_per : {"class", "neighbor"}, default="class"
        What `n_synthetic` counts; the paper can be read both ways.
    scaling : {"squared-norm", None}, default="squared-norm"
        Divide the perturbation by the squared norm of W, as printed, or not at all.
    candidates : {"unseen", "all"} or list of labels, default="unseen"
        Classes that `predict` chooses from: zero-shot, generalised zero-shot, or any others.
    seen_penalty : float, default=0.0
        Subtracted from the scores of seen classes (calibration of generalised zero-shot).
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
        The matrix W.
    classes_ : ndarray
        The candidates, in the order of the columns of `decision_function`.
    seen_classes_, unseen_classes_ : ndarray
        Labels with and without a sample in the training data.
    prototypes_ : Prototypes
        The prototypes of all of them.
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
        seen_penalty: float = 0.0,
        tie_tol: float = 1e-3,
        max_iter: int | None = None,
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
        self.candidates = candidates
        self.seen_penalty = seen_penalty
        self.tie_tol = tie_tol
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the projection from the samples X (n x d) of seen classes and their labels y."""
        self._check_parameters()
        X, y = validate_data(self, X, y, dtype=_DTYPES)
        moments = self._gather(X, y)
        return self._learn(moments, NormalEquations.of(moments), X.dtype)

    def gather(self, X: Any, y: Any) -> Moments:
        """Return the moments that `fit(X, y)` learns from; changes nothing here."""
        self._check_parameters()
        return self._gather(*check_X_y(X, y, dtype=_DTYPES))

    def fit_moments(self, moments: Moments, *, equations: NormalEquations | None = None) -> Self:
        """Learn the projection from moments instead of raw samples.

        Parameters
        ----------
        moments : Moments
            Their prototypes are replaced by this estimator's own where it has some, so that
            one set of moments serves several semantic spaces.
        equations : NormalEquations, default=None
            Those of the moments, to share one factorisation among several fits. The
            prototypes must then be those of the moments.
        """
        self._check_parameters()
        if not isinstance(moments, Moments):
            raise TypeError(
                f"`fit_moments` takes Moments; got {type(moments).__name__}. Use fit(X, y) for raw "
                "samples, or Moments(prototypes).update(X, y)."
            )
        if self.prototypes is not None:
            prototypes = Prototypes.coerce(self.prototypes)
            if prototypes != moments.prototypes:
                moments = moments.with_prototypes(prototypes)
        if equations is not None and not np.array_equal(equations.C0, moments.C0):
            raise ValueError(
                "`equations` must be those of the moments under the prototypes of the estimator; "
                f"got others for {moments}. Leave `equations` out, or pass "
                "NormalEquations.of(moments)."
            )
        vars(self).pop("feature_names_in_", None)  # of an earlier fit; moments know no names
        self.n_features_in_ = moments.n_features
        return self._learn(moments, equations or NormalEquations.of(moments), np.dtype(np.float64))

    def training_prototypes(self, y: Any) -> Prototypes:
        """Return the prototypes that a fit on labels `y` uses: those given, or one-hot ones."""
        if self.prototypes is None:
            return Prototypes.one_hot(y)
        return Prototypes.coerce(self.prototypes)

    def _gather(self, X: np.ndarray, y: np.ndarray) -> Moments:
        labels = as_labels(y)  # scikit-learn rejects integers in an object array
        check_classes(labels)
        prototypes = self.training_prototypes(labels)
        # Raw samples are kept only where they will be perturbed.
        n_reserve = max(_RESERVE, self.n_synthetic) if self._synthesizes() else 0
        return Moments.from_arrays(X, labels, prototypes, n_reserve=n_reserve, seed=self._seed())

    def _learn(self, moments: Moments, equations: NormalEquations, dtype: np.dtype) -> Self:
        self._candidate_labels(moments.prototypes, moments.seen_labels)  # fails early
        initial = _PROJECTIONS[self.direction](equations, self.beta)
        path = Path(initial.value, [], [], converged=True)
        if self._synthesizes() and len(moments.unseen_labels):
            path = self._refine(moments, equations, initial.value)
        warn_of_trouble(initial, path.steps, beta=self.beta, mu=self._mu())
        self._set_known(moments.prototypes, moments.seen_labels)
        self.projection_ = np.asarray(path.W, dtype)
        self.objective_ = np.asarray(path.objective)
        self.n_iter_ = len(path.steps)
        self.mu_ = np.array([step.mu for step in path.steps])
        self.changes_ = np.array([step.change for step in path.steps])
        self.converged_ = path.converged
        return self

    def _refine(self, moments: Moments, equations: NormalEquations, W: np.ndarray) -> Path:
        """Synthesise features for the unseen classes and let the classes compete for them."""
        Y_s = moments.prototypes.subset(moments.seen_labels).matrix.astype(np.float64)
        Y_u = moments.prototypes.subset(moments.unseen_labels).matrix.astype(np.float64)
        if len(Y_s) + len(Y_u) < Y_s.shape[1]:
            span = orthonormal_rows(np.concatenate([Y_s, Y_u]))
            path = self._compete(
                moments, equations.in_span(span), W @ span.T, Y_s @ span.T, Y_u @ span.T
            )
            return replace(path, W=path.W @ span)
        return self._compete(moments, equations, W, Y_s, Y_u)

    def _compete(
        self,
        moments: Moments,
        equations: NormalEquations,
        W: np.ndarray,
        Y_s: np.ndarray,
        Y_u: np.ndarray,
    ) -> Path:
        synthesized = synthesize(
            W,
            Y_u,
            Y_s,
            [_samples_of(moments, label) for label in moments.seen_labels.tolist()],
            rho=self.rho,
            n_neighbors=self.n_neighbors,
            n_synthetic=self.n_synthetic,
            per=self.synthetic_per,
            scaling=self.scaling,
            rng=np.random.default_rng(self._seed()),
        )
        return refine(
            equations,
            W,
            synthesized,
            Y_u,
            form=cast(Form | None, self.competition),
            alpha=self.alpha,
            mu=self._mu(),
            beta=self.beta,
            tie_tol=self.tie_tol,
            max_iter=self.max_iter,
            tol=self.tol,
            on_step=print_step if self.verbose else None,
        )

    def _synthesizes(self) -> bool:
        return self.direction == "both" and self.synthesis is not None

    def _mu(self) -> float:
        """Return the weight of the push, which only the second-best rule has."""
        return self.mu if self.competition == "second-best" else 0.0

    def _seed(self) -> int:
        return check_random_state(self.random_state).randint(2**31 - 1)

    def _check_parameters(self) -> None:
        check_option("direction", self.direction, tuple(_PROJECTIONS))
        check_option("synthesis", self.synthesis, ("perturb", None))
        check_option("competition", self.competition, ("second-best", "assigned", "entropy", None))
        check_option("synthetic_per", self.synthetic_per, ("class", "neighbor"))
        check_learning_parameters(self)


def _samples_of(moments: Moments, label: Any) -> np.ndarray:
    samples = moments.samples_of(label)
    if not len(samples):
        raise ValueError(
            "Synthesis needs a raw sample of every seen class; the moments keep none of class "
            f"{label!r} (n_reserve={moments.n_reserve}). Gather them again with a larger "
            "`n_reserve`, or use synthesis=None."
        )
    return samples
