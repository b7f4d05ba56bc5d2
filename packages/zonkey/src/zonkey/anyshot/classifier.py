"""AnyShotClassifier: one posterior per class, from a description alone to thousands of samples."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from ..arrays import Array, is_device_array, namespace, place_like
from ..bpl.kernels import KERNELS
from ..constraints import AnyLibraryMixin, check_semantics, require_memory, validate_samples
from ..inference.projection import SemanticMixin
from ..inference.scorer import Scorer
from ..labels import as_labels, encode_labels
from ..parameters import Constraint, Count, Interval, Options
from ..persistence.checks import require_finite, require_number, require_that
from ..persistence.model import Learned
from ..prototypes import Prototypes
from ..samples import require_scale
from ..streaming.accept import as_chunks
from ..threads import multiply
from .fitted import FittedMixin
from .fitting import fit_names, fit_state, freeze_candidates
from .inner_labels import find_inner, fit_shared, learn_shared, list_below
from .priors import BALANCED, PriorsMixin, restore_values, store_values
from .sources import read_more
from .state import BY_SHOTS, AnyShotState, Shots
from .suggesting import SuggestingMixin
from .tree_answers import TreeMixin
from .unsure import UnsureMixin, keep_precision


class AnyShotClassifier(  # pyright: ignore[reportIncompatibleVariableOverride]
    AnyLibraryMixin,
    TreeMixin,
    FittedMixin,
    SemanticMixin,
    PriorsMixin,
    UnsureMixin,
    SuggestingMixin,
    BaseEstimator,
):
    """Zero-shot, few-shot and many-shot classification by one posterior per class.

    Features are power-transformed, centered, scaled to unit length and whitened within classes.
    There, the center of a class has a prior: kernel ridge regression of class means on prototypes,
    learned from the other classes. The prior is worth `worth` samples, so the center of a class
    with n samples is

        (worth * prior + sum of its samples) / (worth + n).

    A class may have a prototype and no sample (unseen), both, or samples and no prototype (its
    prior is the mean of all centers, which matters if it has fewer samples than others). A sample
    is assigned to the nearest center. If all candidates have samples, logistic regression that is
    pulled to the centers refines them. Parameters that are "auto" are chosen on training classes
    that are held out, in closed form, or on samples that are left out (Notes).

    Parameters
    ----------
    prototypes : mapping, DataFrame or Prototypes, default=None
        Semantic vectors of classes, with or without samples: ``{label: vector}``, a pandas
        DataFrame indexed by label, a polars DataFrame with the labels in its first column, or
        ``Prototypes(labels, matrix)``, which may have a tree. None: classes are known by their
        samples only.
    space : {"auto", "joint", "separate"}, default="auto"
        Whether samples and prototypes are vectors of one space, as those of CLIP or of one encoder
        of texts. "joint": the prior of a class is its own prototype, moved and scaled to where
        samples lie, plus the regression of what that misses; `fit` needs no labels then. "auto":
        joint if they are of equal length and class means lie along the prototypes of their classes.
    candidates : {"all", "unseen"} or list of labels, default="all"
        Classes that `predict` chooses from: all known ones, those without samples in `fit`, or
        some. Without prototypes, "unseen" denotes all classes.
    preprocessing : transformer, "auto" or None, default="auto"
        Transformer of features, fitted on the training samples. "auto", for features of encoders,
        chooses power and shrinkage of the steps above. None: features are used as they are. Raw
        measurements of different units need a scaler.
    prototype_transformer : transformer, "auto" or None, default="auto"
        Transformer of prototypes, fitted on those given to `fit`. "auto" chooses the power and the
        norm of a `FeatureNormalizer` that also centers.
    kernel : {"linear", "rbf", "poly", "arccos", "precomputed"} or "auto", default="auto"
        Kernel that compares prototypes. "auto" chooses between "rbf" and "linear". "precomputed":
        prototypes are rows of a kernel matrix over all classes, in sorted order of the labels.
    gamma : float or "auto", default="auto"
        Nonnegative width of the kernel, in units of 1 / (median squared distance of prototypes)
        for "rbf" and of 1 / (their mean squared length) for "poly".
    ridge : float or "auto", default="auto"
        Nonnegative ridge penalty, in units of the mean diagonal of the kernel. It is multiplied by
        1 + 8 / n for a class with n samples, whose mean is uncertain.
    tree_weight : float or "auto", default="auto"
        Nonnegative weight of the tree of classes in the kernel, relative to the prototypes: classes
        of common nodes borrow strength from each other. 0 ignores the tree there.
    worth : float, "auto" or "shots", default="auto"
        Number of samples that a prototype is worth, above 0. "auto": the variance of samples within
        classes divided by the squared error of priors of held-out classes. "shots": 10 at first.
        Each `partial_fit` with two samples of two described classes chooses it anew: the number
        under which these samples, each left out in turn, are most likely. Use it if training
        samples do not predict the spread of later samples.
    n_shots : int, default=0
        Number of labeled samples per new class that parameters are chosen for. 0 is zero-shot.
    seen_penalty : float or "auto", default="auto"
        Subtracted from the scores of classes with samples, times n / (n + worth), if there are
        candidates without samples. "auto" balances both kinds on held-out ones (Notes).
    temperature : float or "auto", default="auto"
        Positive divisor of the scores before the softmax. "auto" is the most likely one for
        held-out classes and samples, and depends on the number of samples of the candidates.
    reject_below : float, default=None
        `predict` returns `reject_label` if the highest probability is below this number in
        [0, 1]; with a tree, the deepest node that is not below. May be set after `fit`, like
        `reject_label`. `with_precision` chooses it.
    reject_label : label, default=None
        Label of rejected samples. None: "unknown" for text labels, -1 for numbers.
    class_weight : "balanced", None or mapping, default="balanced"
        What a sample of a class counts where left-out samples choose and logistic regression
        refines, as in scikit-learn: "balanced" as much as makes all classes equal, None 1, and
        {label: weight} that number, else 1. Where it is not balanced, classes are also taken to be
        as frequent as they count, unless `priors` are given: with None, as in the training samples.
        Centers do not depend on it.
    priors : mapping, array-like of shape (n_candidates,), "uniform" or None, default=None
        Shares of the candidates among the samples to classify, above 0 with sum 1: by label, where
        those that are not named share the rest evenly, or in the order of `classes_`. Probabilities
        and predictions follow Bayes' rule. Classes that are added later are as frequent as others
        on average. "uniform": all are equally frequent. None: as `class_weight` says, and `adapt`
        estimates them. See `with_priors`.
    adapt_temperature : float or "auto", default="auto"
        Positive divisor of the scores of unlabeled samples in `adapt`. "auto" chooses this number
        and the next on tasks that are simulated with training classes.
    adapt_weight : float or "auto", default="auto"
        Weight in [0, 1] of an unlabeled sample in `adapt`; 0 ignores them.
    transfer : bool, default=False
        Set to True if training samples come from another domain than the samples to classify, such
        as classifier weights or drawings. Training classes then only train the regression and are
        not candidates; classes without samples stay. Predicted centers keep their direction, not
        their length, and may shift jointly toward the samples of `partial_fit` and `adapt`.
    n_components : int, default=None
        Number of landmarks: if it is below nine tenths of the classes with prototype and samples,
        kernel values with this many of them replace those with all (Nystroem). None is exact:
        memory grows with the square of the number of classes, and time with its cube; use 2,000
        from about 16,000 classes on. Parameters are chosen on at most 2,000 classes, and exactly.
    random_state : int, RandomState or None, default=0
        Seed of the folds that hold out classes, and of the landmarks.

    Attributes
    ----------
    classes_ : ndarray of shape (n_candidates,)
        The candidates, in the order of the columns of `decision_function`.
    seen_classes_ : ndarray
        Known classes with samples.
    unseen_classes_ : ndarray
        Known classes without samples.
    prototypes_ : Prototypes or None
        Prototypes of the known classes that have one.
    centers_ : ndarray of shape (n_candidates, n_features_out)
        Centers of the candidates, in the preprocessed space.
    preprocessing_ : transformer or None
        Fitted transformer of features.
    best_params_ : dict
        Values in use of the parameters that may be "auto", to build a model that does not choose
        again. Those of `adapt` are in the copy that it returns.
    best_score_ : float
        Estimate for the task at hand (Notes). NaN with fewer than four described classes.
    worth_ : float
        Number of samples that a prototype is worth.
    seen_penalty_ : float
        Penalty of classes with many samples.
    temperature_ : float
        Temperature for the candidates.
    tree_ : Tree or None
        The tree of the candidates.
    is_transductive_ : bool
        Whether unlabeled samples took part (`adapt`).
    precision_ : PrecisionThreshold or None
        How `with_precision` has chosen `reject_below`.
    priors_ : ndarray of shape (n_candidates,)
        Shares of the candidates that probabilities assume.
    n_features_in_ : int
        Number of features.

    See Also
    --------
    ZeroShotClassifier : The paper's zero-shot model.
    FewShotClassifier : The paper's few-shot model.
    zonkey.presets.recommended : Returns this classifier.

    Notes
    -----
    Parameters are chosen for the task: with ``candidates="all"`` by the harmonic mean of the
    accuracies of held-out classes and held-out samples, else and with `transfer` by the first one.
    Folds hold out about the share of classes that is unseen; below a quarter, unseen ones weigh
    less, and take at most their share of held-out samples of the others. With fewer than four
    described classes, they take half of it, only `worth` is chosen, and a warning tells.
    `best_score_` is that accuracy or harmonic mean, unweighted, of up to 200 classes without a part
    in the choice. Unseen ones join as competitors, to make them as many, but not with `n_shots` or
    validation classes, which do take part. With one unseen class it may be far too high.

    If all candidates have samples, these choose power and whitening, the worth of prototypes, how
    far logistic regression may leave the centers, and the temperature: some samples of each class
    are left out, and the parameters under which they are most likely are taken. Usual values count
    as prior knowledge, which is all there is with one sample per class. Prototypes that say nothing
    of samples are worth nothing.

    Tools of scikit-learn that compare probabilities with y, such as "neg_log_loss" and
    `cross_val_predict`, need prototypes of the classes of y and of no others.

    Examples
    --------
    >>> import numpy as np
    >>> from zonkey import AnyShotClassifier
    >>> rng = np.random.default_rng(0)
    >>> hidden = rng.normal(size=(2, 8))  # what stripes and mane look like
    >>> prototypes = {"horse": [0, 1], "tiger": [1, 0], "zebra": [1, 1]}
    >>> y = np.repeat(["horse", "tiger"], 20)
    >>> X = np.array([prototypes[label] for label in y]) @ hidden + rng.normal(size=(40, 8)) / 5
    >>> model = AnyShotClassifier(prototypes, preprocessing=None).fit(X, y)
    >>> zebra = hidden.sum(axis=0)
    >>> model.partial_fit([zebra, 1.1 * zebra], ["zebra", "zebra"]).predict([0.9 * zebra])
    array(['zebra'], dtype='<U5')
    """

    __constraints__: ClassVar[dict[str, Constraint]] = {
        "space": Options("auto", "joint", "separate"),
        "kernel": Options(*KERNELS, "auto"),
        "gamma": Interval(0, also=("auto",)),
        "ridge": Interval(0, also=("auto",)),
        "tree_weight": Interval(0, also=("auto",)),
        "worth": Interval(0, open_below=True, also=("auto", BY_SHOTS)),
        "n_shots": Count(0),
        "seen_penalty": Interval(also=("auto",)),
        "temperature": Interval(0, open_below=True, also=("auto",)),
        "reject_below": Interval(0, 1, also=(None,)),
        "adapt_temperature": Interval(0, open_below=True, also=("auto",)),
        "adapt_weight": Interval(0, 1, also=("auto",)),
        "n_components": Count(1, also=(None,)),
    }

    __zonkey_fields__ = ("_state",)

    n_features_in_: int
    _state: AnyShotState
    _scorer: Scorer

    def __init__(
        self,
        prototypes: Any = None,
        *,
        space: str = "auto",
        candidates: Any = "all",
        preprocessing: Any = "auto",
        prototype_transformer: Any = "auto",
        kernel: str = "auto",
        gamma: Any = "auto",
        ridge: Any = "auto",
        tree_weight: Any = "auto",
        worth: Any = "auto",
        n_shots: int = 0,
        seen_penalty: Any = "auto",
        temperature: Any = "auto",
        reject_below: float | None = None,
        reject_label: Any = None,
        class_weight: Any = BALANCED,
        priors: Any = None,
        adapt_temperature: Any = "auto",
        adapt_weight: Any = "auto",
        transfer: bool = False,
        n_components: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.prototypes = prototypes
        self.space = space
        self.candidates = candidates
        self.preprocessing = preprocessing
        self.prototype_transformer = prototype_transformer
        self.kernel = kernel
        self.gamma = gamma
        self.ridge = ridge
        self.tree_weight = tree_weight
        self.worth = worth
        self.n_shots = n_shots
        self.seen_penalty = seen_penalty
        self.temperature = temperature
        self.reject_below = reject_below
        self.reject_label = reject_label
        self.class_weight = class_weight
        self.priors = priors
        self.adapt_temperature = adapt_temperature
        self.adapt_weight = adapt_weight
        self.transfer = transfer
        self.n_components = n_components
        self.random_state = random_state

    def fit(
        self, X: Any = None, y: Any = None, sample_weight: Any = None, *, validation: Any = None
    ) -> Self:
        """Choose parameters and learn from labeled samples, or in a joint space from names alone.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Training samples. Chunks, which may exceed the memory, are read three times, or twice
            with ``preprocessing=None``. With ``space="joint"`` and without labels, samples tell
            only how far they lie from the prototypes; None compares by cosines.
        y : array-like of shape (n_samples,)
            Labels. None for `Chunks`, which have their own. With a tree of classes, samples in
            memory may be labeled by an inner node: they count for the classes below it in
            proportion to their probabilities, which the other samples and the prototypes tell.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples: 2 counts as two samples, 0 as none. None weights all equally.
            Not for chunks, except for a memory map.
        validation : tuple of (X, y), default=None
            Samples of further classes with prototypes. Parameters are chosen on them instead of on
            held-out training classes. Use it if the features were trained on the training classes,
            whose samples then cluster more tightly than those of new classes. The model does not
            learn from these samples; their classes are candidates unless others are listed.

        Returns
        -------
        AnyShotClassifier
            The fitted estimator.
        """
        tree = self.prototypes.tree if isinstance(self.prototypes, Prototypes) else None
        inner = find_inner(tree, X, y, transfer=self.transfer)
        if inner is not None:
            self._settle(fit_shared(self, inner, sample_weight, validation))
            return self
        others = (y, sample_weight, validation)
        if self.space == "joint" and all(each is None for each in others) and as_chunks(X) is None:
            self._settle(fit_names(self, X))
        else:
            self._settle(fit_state(self, X, y, sample_weight, validation))
        return self

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        classes: Any = None,  # noqa: ARG002
        sample_weight: Any = None,
    ) -> Self:
        """Learn from further samples, of known or of new classes.

        The result is that of a fit on all samples, with preprocessing and parameters as they are.
        Only a worth of "shots" is chosen anew, and, if all candidates have samples, everything that
        left-out samples choose but the preprocessing; at most 256 samples per class refine centers.
        New classes join the candidates. Labels may be inner nodes of a tree, as in `fit`. Changes
        by `adapt` are forgotten.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Samples. Chunks are read once.
        y : array-like of shape (n_samples,)
            Labels. None for `Chunks`, which have their own.
        classes : None
            Ignored; present for API consistency.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples. None weights all equally. Not for chunks, except for a memory
            map.

        Returns
        -------
        AnyShotClassifier
            The estimator itself.
        """
        is_new = not hasattr(self, "classes_")
        knows_little = not is_new and y is not None and self.state_.knows_names_only
        if is_new or (knows_little and len(_list_labels(y, X)) > 1):
            return self.fit(X, y, sample_weight)  # also learns where samples lie
        state = self.state_
        inner = find_inner(state.tree, X, y)
        if inner is not None:
            self._settle(learn_shared(self, inner, sample_weight))
            return self
        by_shots, steps = state.settings.worth_by_shots, state.fitted_steps
        refines = state.choice.refinement is not None
        sums, source = read_more(self, X, y, sample_weight, steps, in_memory=by_shots)
        if sums.sums.shape[1] != state.evidence.sums.shape[1]:
            raise ValueError(
                f"X must have the {self.n_features_in_} features of `fit`; got "
                f"{sums.sums.shape[1]}. Prepare it as the training data."
            )
        shots = None
        if (by_shots or refines) and source is not None:
            X = state.prepare(source.like)
            shots = Shots(X, source.codes, source.weights, sums.labels)
        self._settle(state.add_samples(sums, shots))
        return self

    def with_shots(self, X: Any, y: Any = None) -> Self:
        """Return a fitted copy that has learned from samples and chooses among their classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            A few samples of each class.
        y : array-like of shape (n_samples,)
            Labels.

        Returns
        -------
        AnyShotClassifier
            The copy: `partial_fit`, and the classes of `y`, or below its nodes, as candidates.
        """
        check_is_fitted(self, "classes_")
        require_memory(X)
        other, state = copy.copy(self), self.state_
        labels = list_below(state, _list_labels(y, X))
        if not np.isin(state.seen, labels).all():
            # The classes of `fit` tell what to expect of few samples; these alone do not.
            other._settle(state.forget_refinement())
        other.partial_fit(X, y)
        return other.with_candidates(labels.tolist())

    def without_classes(self, labels: Any) -> Self:
        """Return a fitted copy that no longer knows some classes.

        The regression still learns from their samples.

        Parameters
        ----------
        labels : list of labels
            Known classes to remove.

        Returns
        -------
        AnyShotClassifier
            The copy.
        """
        state = self.state_.remove_classes(labels)
        candidates = _as_parameter(state.targets)
        # All classes are those of the parameter `prototypes`, which stays.
        make = self._copy_with if isinstance(candidates, str) else self._copy_among
        return make(state, candidates=candidates)

    def with_preprocessing(self, transformer: Any) -> Self:
        """Return a fitted copy that transforms samples before it compares them.

        For a model that was fitted with ``preprocessing=None`` on samples that need none, such as
        rows of a classifier.

        Parameters
        ----------
        transformer : transformer
            Fitted transformer; it must keep the number of features.

        Returns
        -------
        AnyShotClassifier
            The copy. Its parameter `preprocessing` is the transformer, frozen.
        """
        frozen, state = FrozenEstimator(transformer), self.state_
        steps = {**state.steps, "preprocessing": frozen}
        state = replace(state, preprocessing=frozen, steps=steps)
        return self._copy_with(state, preprocessing=frozen)

    def adapt(self, X_unlabeled: Any) -> Self:
        """Return a fitted copy that has learned from unlabeled samples of the candidates as well.

        Samples count for each class in proportion to its probability, in a few steps of expectation
        maximization. Prototypes and labeled samples anchor the centers, and class proportions are
        estimated, not assumed. Weight and temperature, or not to adapt, are chosen on tasks that
        are simulated with training classes: as many new classes, shots and unlabeled samples. The
        worth of prototypes does not change. Samples of an earlier call are forgotten.

        Most candidates should occur in the batch, and nothing else: samples of other classes shift
        centers undetected. Accuracies on the same samples are not comparable with those of
        inductive models; `is_transductive_` distinguishes them.

        Parameters
        ----------
        X_unlabeled : array-like of shape (n_unlabeled, n_features)
            Samples without labels.

        Returns
        -------
        AnyShotClassifier
            The copy.
        """
        check_is_fitted(self, "classes_")
        if as_chunks(X_unlabeled) is not None and not isinstance(X_unlabeled, np.ndarray):
            raise TypeError(
                "Unlabeled samples must be in memory, because they are read many times; got "
                f"{type(X_unlabeled).__name__}. Pass an array of some thousands of them."
            )
        X = validate_samples(self, X_unlabeled, reset=False)
        require_scale(X, "Unlabeled samples")
        state = self.state_
        if not state.evidence.counts.any():  # nothing has told where samples lie
            state = fit_names(self, X)
        return self._copy_with(state.adapt(state.prepare(X)))

    def _settle(self, state: AnyShotState) -> None:
        """Set a state, and the attributes that prediction reads."""
        scorer = state.make_scorer()
        if hasattr(self, "_scorer") and state.precision is self._state.precision:
            state = keep_precision(state, self._scorer, scorer)
        self._scorer, self._state = scorer, state

    def _copy_with(self, state: AnyShotState, **parameters: Any) -> Self:
        other = copy.copy(self)
        for name, value in parameters.items():
            setattr(other, name, value)
        other._settle(state)
        return other

    def _find_semantics(self, what: str, *, wider: bool = False) -> Prototypes:
        state = self.state_
        if state.regression is not None and (wider or state.evidence.is_anchor.any()):
            return state.regression.prototypes
        if wider:
            raise ValueError(
                f"{what} needs a semantic space; this model was fitted with prototypes=None. Fit "
                "with prototypes, or add samples with partial_fit."
            )
        raise ValueError(
            f"{what} needs classes with a prototype and samples; this model has none. Fit with "
            "prototypes."
        )

    def _project(self, prototypes: Prototypes) -> Array:
        # Samples of the same class are not left out, unlike in the prior of its center.
        return self.state_.predict_priors(prototypes.matrix)

    def _embed(self, X: Array) -> Array:
        regression: Any = self.state_.regression
        X = self.state_.prepare(X)
        W, b = regression.embedding(self.state_.evidence)
        xp = namespace(X)
        semantics = multiply(X, xp.astype(place_like(W, X), X.dtype))
        return semantics + xp.astype(place_like(b, X), X.dtype)

    def _copy_knowing(self, prototypes: Prototypes) -> Self:
        state = self.state_.add_classes(prototypes.at_leaves())
        known: Any = state.regression
        every = known.prototypes
        check_semantics(every, self.state_.evidence.anchors, prototypes.labels)
        candidates = _as_parameter(state.targets)
        return self._copy_among(state, prototypes=state.place_in_tree(), candidates=candidates)

    def _copy_choosing(self, candidates: Any) -> Self:
        state = replace(self.state_, targets=freeze_candidates(candidates))
        return self._copy_among(state, candidates=candidates)

    @classmethod
    def __zonkey_upgrade__(cls, parts: dict[str, Any]) -> dict[str, Any]:
        """Make one state of the attributes of older files."""
        found, given = parts["state"], parts["parameters"]
        for name in ("class_weight", "priors"):
            if name in given:
                given[name] = restore_values(given[name])
        if "_evidence" not in found:
            return parts
        state = AnyShotState.from_schema_1(found, parts["parameters"]["worth"])
        names = {"n_features_in_", "feature_names_in_"} & {*found}
        kept = {name: found[name] for name in names}
        return {**parts, "state": {**kept, "_state": state}}

    def __zonkey_validate__(self) -> None:
        """Set what prediction reads; parts must be of one space."""
        state, n = self._state, self.n_features_in_
        prepared = require_finite("AnyShotClassifier", lambda: state.prepare(np.ones((1, n))))
        width = state.evidence.sums.shape[1]
        fits = prepared.shape[1] == width
        require_that(fits, f"Preprocessing must make {width} features; got {prepared.shape[1]}.")
        with np.errstate(over="ignore", invalid="ignore"):
            self._settle(state)
        require_number("temperature_", self.temperature_, np.finfo(float).tiny)
        form: Any = self.scorer_.form
        require_that(np.isfinite(form.constants).all(), "Centers must be finite.")

    def __zonkey_parameters__(self) -> dict[str, Any]:
        """Return the parameters in forms that a file holds."""
        values = {name: store_values(getattr(self, name)) for name in ("class_weight", "priors")}
        return {**super().__zonkey_parameters__(), **values}

    def __zonkey_learned__(self) -> Learned:
        state, evidence = self.state_, self.state_.evidence
        labels, n_samples = evidence.labels[evidence.counts > 0], float(evidence.counts.sum())
        return Learned(evidence.sums, labels, n_samples, state.choice, self.scorer_)


def _list_labels(y: Any, X: Any) -> np.ndarray:
    return encode_labels(y, X)[0] if is_device_array(y) else np.unique(as_labels(y))


def _as_parameter(targets: Any) -> Any:
    return targets if isinstance(targets, str) else np.asarray(targets).tolist()
