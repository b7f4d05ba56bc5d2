"""AnyShotClassifier: one posterior per class, from a description alone to thousands of samples."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..arrays import Array, is_device_array, namespace, place_like, to_numpy
from ..bpl.kernels import KERNELS
from ..constraints import (
    AnyLibraryMixin,
    check_interval,
    check_labeled,
    check_option,
    check_semantics,
    is_auto,
    require_memory,
    validate_samples,
)
from ..inference.scorer import (
    LinearScores,
    ProbabilityMixin,
    Rejection,
    as_prototypes,
    choose_labels,
    require_dimensions,
)
from ..labels import (
    as_labels,
    check_count,
    encode_labels,
    format_labels,
    format_value,
    place_labels,
    require_same_kind,
    warn_user,
)
from ..persistence.checks import require_finite, require_number, require_shape, require_that
from ..persistence.model import Learned
from ..prototypes import Prototypes
from ..samples import require_scale
from ..streaming.chunks import accept_chunks, as_chunks
from ..streaming.class_sums import ClassSums
from .adapting import Adapted, Adapting, Reserve
from .choosing import POWERS, Choice, Choosing, learn_kernel, steps_of
from .evidence import Evidence, Regression, class_centers, class_priors, common_shift
from .held_out import TrainingData
from .posterior import left_out_worth
from .ridges import Ridge
from .sources import FitSource, open_source, read_more
from .survey import KeptSamples

_BY_SHOTS = "shots"
_MANY_ANCHORS = 16_000
_MATRICES = 3  # of the size of the kernel, held at a time
_USUAL_WORTH, _WORTHS = 10.0, (1.0, 2.5, 5.0, 10.0, 20.0, 40.0)  # of a prototype, in shots
_ANY_LABELS: dict[str, np.ndarray] = dict.fromkeys(("unseen", "all"), np.zeros(1))
_CHOSEN = ("preprocessing", "prototype_transformer", "kernel", "gamma", "ridge", "worth")


class AnyShotClassifier(AnyLibraryMixin, ProbabilityMixin, BaseEstimator):
    """Zero-shot, few-shot and many-shot classification by one posterior per class.

    Features are power-transformed, centered, scaled to unit length and whitened within classes.
    There, the center of a class has a prior: kernel ridge regression of class means on prototypes,
    learned from the other classes. The prior is worth `worth` samples, so the center of a class
    with n samples is

        (worth * prior + sum of its samples) / (worth + n).

    A class may have a prototype and no sample (unseen), both, or samples and no prototype (no
    prior). A sample is assigned to the nearest center. Parameters that are "auto" are chosen on
    training classes that are held out, in closed form and therefore quickly.

    Parameters
    ----------
    prototypes : mapping, DataFrame or Prototypes, default=None
        Semantic vectors of classes, with or without samples: ``{label: vector}``, a pandas
        DataFrame indexed by label, a polars DataFrame with the labels in its first column, or
        ``Prototypes(labels, matrix)``. None: classes are known by their samples only.
    candidates : {"unseen", "all"} or list of labels, default="unseen"
        Classes that `predict` chooses from: those without samples in `fit`, all known classes, or
        some of them. Without prototypes, "unseen" stands for all classes.
    preprocessing : transformer, "auto" or None, default="auto"
        Transformer of features, fitted on the training samples. "auto" chooses power and shrinkage
        of the steps above. None: features are used as they are.
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
    worth : float, "auto" or "shots", default="auto"
        Number of samples that a prototype is worth, above 0. "auto": the variance of samples
        within classes divided by the squared error of priors of held-out classes. "shots": 10
        at first. Each `partial_fit` with two samples of two described classes chooses it anew: the
        number under which these samples, each left out in turn, are most likely. Use it if samples
        of `fit` say nothing about those to come.
    n_shots : int, default=0
        Number of labeled samples per new class that parameters are chosen for. 0 is zero-shot.
    seen_penalty : float or "auto", default="auto"
        Subtracted from the scores of classes with samples, times n / (n + worth). "auto" maximizes
        the harmonic mean of the accuracies of held-out classes and held-out samples.
    temperature : float or "auto", default="auto"
        Positive divisor of the scores before the softmax. "auto" maximizes the likelihood of
        held-out classes and samples, and depends on the number of samples of the candidates.
    reject_below : float, default=None
        `predict` returns `reject_label` if the highest probability is below this number in
        [0, 1].
    reject_label : label, default=None
        Label of rejected samples. None: "unknown" for text labels, -1 for numbers.
    adapt_temperature : float or "auto", default="auto"
        Positive divisor of the scores of unlabeled samples in `adapt`. "auto" chooses this number
        and the next on tasks that are simulated with training classes.
    adapt_weight : float or "auto", default="auto"
        Weight in [0, 1] of an unlabeled sample in `adapt`; 0 ignores them.
    transfer : bool, default=False
        Whether the samples of `fit` are of another kind than those to come, such as drawings or
        rows of a classifier. They teach directions of priors only; their classes are removed, and
        those without samples stay. All priors may move together, to where the samples of
        `partial_fit` and `adapt` are.
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
        Accuracy among held-out classes, or harmonic mean with ``candidates="all"``, of the chosen
        parameters. NaN if nothing was chosen.
    worth_ : float
        Number of samples that a prototype is worth.
    seen_penalty_ : float
        Penalty of classes with many samples.
    temperature_ : float
        Temperature for the candidates.
    is_transductive_ : bool
        Whether unlabeled samples took part (`adapt`).
    n_features_in_ : int
        Number of features.

    See Also
    --------
    ZeroShotClassifier : The paper's zero-shot model.
    FewShotClassifier : The paper's few-shot model.
    zonkey.presets.recommended : Returns this classifier.

    Notes
    -----
    Parameters are chosen for the task: by the accuracy among held-out classes, or by the harmonic
    mean with ``candidates="all"``. Folds hold out about the share of classes that is unseen. With
    fewer than four described classes, nothing but `worth` is chosen.

    Examples
    --------
    >>> import numpy as np
    >>> from zonkey import AnyShotClassifier
    >>> rng = np.random.default_rng(0)
    >>> hidden = rng.normal(size=(2, 8))  # what stripes and mane look like
    >>> prototypes = {"horse": [0, 1], "tiger": [1, 0], "zebra": [1, 1]}
    >>> y = np.repeat(["horse", "tiger"], 20)
    >>> X = np.array([prototypes[label] for label in y]) @ hidden + rng.normal(size=(40, 8)) / 5
    >>> model = AnyShotClassifier(prototypes, candidates="all", preprocessing=None).fit(X, y)
    >>> zebra = hidden.sum(axis=0)
    >>> model.partial_fit([zebra, 1.1 * zebra], ["zebra", "zebra"]).predict([0.9 * zebra])
    array(['zebra'], dtype='<U5')
    """

    preprocessing_: Any
    n_features_in_: int
    _evidence: Evidence
    _regression: Regression | None
    _choice: Choice
    _targets: Any
    _scores: LinearScores
    _adapted: Adapted | None
    _reserve: Reserve | None

    __zonkey_fields__ = (
        "preprocessing_",
        "worth_",
        "_evidence",
        "_regression",
        "_choice",
        "_steps",
        "_targets",
        "_adapted",
        "_reserve",
        "_settings",
        "_rejection",
        "_fixed_temperature",
        "_n_shots",
        "_class_centers",
    )

    def __init__(
        self,
        prototypes: Any = None,
        *,
        candidates: Any = "unseen",
        preprocessing: Any = "auto",
        prototype_transformer: Any = "auto",
        kernel: str = "auto",
        gamma: Any = "auto",
        ridge: Any = "auto",
        worth: Any = "auto",
        n_shots: int = 0,
        seen_penalty: Any = "auto",
        temperature: Any = "auto",
        reject_below: float | None = None,
        reject_label: Any = None,
        adapt_temperature: Any = "auto",
        adapt_weight: Any = "auto",
        transfer: bool = False,
        n_components: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.prototypes = prototypes
        self.candidates = candidates
        self.preprocessing = preprocessing
        self.prototype_transformer = prototype_transformer
        self.kernel = kernel
        self.gamma = gamma
        self.ridge = ridge
        self.worth = worth
        self.n_shots = n_shots
        self.seen_penalty = seen_penalty
        self.temperature = temperature
        self.reject_below = reject_below
        self.reject_label = reject_label
        self.adapt_temperature = adapt_temperature
        self.adapt_weight = adapt_weight
        self.transfer = transfer
        self.n_components = n_components
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, validation: Any = None
    ) -> Self:
        """Choose parameters and learn from labeled samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Training samples. Chunks, which may exceed the memory, are read three times, or twice
            with ``preprocessing=None``.
        y : array-like of shape (n_samples,)
            Labels. None for `Chunks`, which have their own.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples: 2 counts as two samples, 0 as none. None weights all equally.
            Not for chunks, except for a memory map.
        validation : tuple of (X, y), default=None
            Samples of further classes with prototypes. Parameters are chosen on them instead of on
            held-out training classes. Use it if the features were trained on the training classes,
            whose samples then cluster more tightly than those of new classes. The model does not
            learn from these samples. Their classes have no samples in `y`, so ``"unseen"``
            candidates include them; list the others to leave them out.

        Returns
        -------
        AnyShotClassifier
            The fitted estimator.
        """
        self._check_parameters()
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        given = None if self.prototypes is None else Prototypes.coerce(self.prototypes)
        self._check_kernel(given)
        choose_labels(self.candidates, _ANY_LABELS, as_labels, 0)  # a name, or labels
        checked = self._check_validation(validation, given)
        powers = POWERS if is_auto(self.preprocessing) else ()
        source = open_source(self, X, y, sample_weight, seed, powers)
        labels, used = source.labels, source.used
        if given is not None:
            _check_prototypes(given, used)
        unseen = None if given is None else np.setdiff1d(given.labels, used)
        if self.transfer and not isinstance(self.candidates, str):
            seen = np.intersect1d(as_labels(self.candidates), used)
            if seen.size:
                raise ValueError(
                    "With `transfer`, candidates must be classes without samples in `fit`; got "
                    f"samples of {format_labels(seen)}. Pass them to `partial_fit` of the fitted "
                    "model."
                )
        known = used if given is None else np.union1d(given.labels, used)
        candidates = _candidate_labels(
            self.candidates, unseen if self.transfer and unseen is not None else known, unseen
        )
        if given is not None:
            anchors = np.intersect1d(used, given.labels)
            self._check_size(len(anchors))
            check_semantics(given, anchors, np.intersect1d(candidates, given.labels))
        others = _validation(checked, source.like, given, labels, seed)
        self._choice, fixed = self._choose(source, given, others, seed)
        self._regression = self._learn_map(given, fixed, seed)
        self._steps, self.preprocessing_ = fixed, None
        if fixed["preprocessing"] is not None:
            self.preprocessing_ = source.fit_clone(fixed["preprocessing"])
        sums = source.gather(self._fitted_steps, "sums")
        described = labels[:0] if given is None else given.labels
        self._evidence = _add_samples(Evidence.make_empty(described, like=sums.sums), sums)
        if self.transfer:
            self._evidence = self._evidence.without(used)
            foreign = np.isin(self._evidence.labels, used)
            self._evidence = replace(self._evidence, is_foreign=foreign)
        self._reserve = None
        if is_auto(self.adapt_temperature) or is_auto(self.adapt_weight):
            self._reserve = self._reserve_samples(source, others)
        self._settings = (self.adapt_temperature, self.adapt_weight, seed)
        self._rejection = Rejection(self.reject_below, self.reject_label)
        self._n_shots = self.n_shots
        self._fixed_temperature = None if is_auto(self.temperature) else float(self.temperature)
        self._adapted = None
        self._targets = _freeze(self.candidates)
        if is_auto(self.seen_penalty):
            # The penalty of a class grows with its samples; the mean is what was chosen.
            counts = self._evidence.counts[self._evidence.is_anchor]
            shares = counts / (counts + self._choice.worth) if counts.size else np.ones(1)
            full = self._choice.penalty / float(np.mean(shares))
            self._choice = replace(self._choice, penalty=full)
        self._settle(like=source.like)
        source.close()
        return self

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        classes: Any = None,  # noqa: ARG002
        sample_weight: Any = None,
    ) -> Self:
        """Learn from further samples, of known or of new classes.

        The result is that of a fit on all samples, with preprocessing and parameters as they are;
        only a worth of "shots" is chosen anew.
        The candidates stay, and new classes join them. What `adapt` learned is forgotten.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Samples. Chunks are read once.
        y : array-like of shape (n_samples,)
            Labels. None for `Chunks`, which have their own.
        classes : None
            Ignored; present for API consistency. New classes may come with any call.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples. None weights all equally. Not for chunks, except for a memory
            map.

        Returns
        -------
        AnyShotClassifier
            The estimator itself.
        """
        if not hasattr(self, "classes_"):
            return self.fit(X, y, sample_weight)
        by_shots = isinstance(self.worth, str) and self.worth == _BY_SHOTS
        steps = self._fitted_steps
        sums, source = read_more(self, X, y, sample_weight, steps, in_memory=by_shots)
        if sums.sums.shape[1] != self._evidence.sums.shape[1]:
            raise ValueError(
                f"X must have the {self.n_features_in_} features of `fit`; got "
                f"{sums.sums.shape[1]}. Prepare it as the training data."
            )
        labels = sums.labels
        require_same_kind(labels=labels, known=self._evidence.labels)
        hidden = np.intersect1d(labels, self._evidence.labels[self._evidence.is_hidden])
        if hidden.size:
            raise ValueError(
                f"The class {format_labels(hidden)} was removed by `without_classes`; got samples "
                "of it. Use the model from before, or another label."
            )
        candidates = to_numpy(self.classes_)
        new = np.setdiff1d(sums.labels[sums.counts > 0], self._evidence.known())
        self._evidence = _add_samples(self._evidence, sums)
        self._adapted = None
        prior = class_priors(self._evidence, self._regression)
        if by_shots:
            assert source is not None
            X = self._prepare(source.like)
            worth = self._worth_of_shots(prior, X, source.codes, source.weights, labels)
            self._choice = replace(self._choice, worth=worth)
        if not (isinstance(self._targets, str) and self._targets == "all"):
            self._targets = np.union1d(candidates, new)
        self._settle(like=self.classes_, prior=prior)
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
            The copy: `partial_fit`, and the classes of `y` as candidates.
        """
        check_is_fitted(self, "classes_")
        require_memory(X)
        labels = encode_labels(y, X)[0] if is_device_array(y) else np.unique(as_labels(y))
        other = copy.copy(self).partial_fit(X, y)
        return other.with_candidates(labels.tolist())

    def with_classes(self, prototypes: Any) -> Self:
        """Return a fitted copy that also knows these unseen classes, without refitting.

        They are candidates; a list of candidates is extended by them.

        Parameters
        ----------
        prototypes : mapping, DataFrame or Prototypes
            Semantic vectors of the new classes.

        Returns
        -------
        AnyShotClassifier
            The copy. Its parameters `prototypes` and `candidates` include the new classes.
        """
        check_is_fitted(self, "classes_")
        if self._regression is None:
            raise ValueError(
                "Adding classes needs a semantic space; this model was fitted with "
                "prototypes=None. Fit with prototypes, or add samples with partial_fit."
            )
        new = Prototypes.coerce(prototypes)
        require_dimensions(new, self._regression.prototypes)
        evidence = self._evidence
        known = np.intersect1d(new.labels, evidence.labels[~evidence.is_described])
        if known.size:
            raise ValueError(
                f"The class {format_labels(known)} has samples and no prototype; got one for it. "
                "Fit again with its prototype."
            )
        other = copy.copy(self)
        extended = self._regression.prototypes.extended(new)
        other._regression = replace(self._regression, prototypes=extended)
        other._evidence = evidence.add_described(new.labels)
        if not isinstance(self._targets, str):
            other._targets = np.union1d(as_labels(self._targets), new.labels)
        check_semantics(extended, evidence.anchors, new.labels)
        other.prototypes = extended
        other.candidates = _as_parameter(other._targets)
        other._settle(like=self.classes_)
        return other

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
        check_is_fitted(self, "classes_")
        gone = _known_labels(labels, self._evidence.known())
        if len(gone) == len(self._evidence.known()):
            raise ValueError(
                f"At least one class must stay; got all {len(gone)} to remove. Leave some out."
            )
        other = copy.copy(self)
        other._evidence = self._evidence.without(gone)
        if not isinstance(self._targets, str):
            other._targets = np.setdiff1d(as_labels(self._targets), gone)
        other.candidates = _as_parameter(other._targets)
        other._settle(like=self.classes_)
        return other

    def with_candidates(self, candidates: Any) -> Self:
        """Return a fitted copy that chooses from other candidates, without refitting.

        Penalty, worth and preprocessing stay. The temperature is that of the new candidates, except
        after `adapt`, which has its own.

        Parameters
        ----------
        candidates : str or list of labels
            What the parameter `candidates` accepts.

        Returns
        -------
        AnyShotClassifier
            The copy. Its parameter `candidates` is the new one.
        """
        check_is_fitted(self, "classes_")
        other = copy.copy(self)
        other.candidates, other._targets = candidates, _freeze(candidates)
        other._settle(like=self.classes_)
        return other

    def adapt(self, X_unlabeled: Any) -> Self:
        """Return a fitted copy that has learned from unlabeled samples of the candidates as well.

        The samples of an earlier call do not count any more.

        Samples count for each class in proportion to its probability, in a few steps of expectation
        maximization. Prototypes and labeled samples anchor the centers, and class proportions are
        estimated, not assumed. Weight, temperature and worth are chosen on tasks that are simulated
        with training classes: as many new classes, with as many shots and unlabeled samples. Doing
        nothing is one of the choices.

        The samples should be of the candidates, and of most of them: others pull centers away,
        which nothing in unlabeled data can tell. Accuracies on the same samples are not comparable
        with those of inductive models; `is_transductive_` tells them apart.

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
        X = self._prepare(X)
        X = place_like(X, self._evidence.sums)
        rows = np.searchsorted(self._evidence.labels, to_numpy(self.classes_))
        temperature, weight, seed = self._settings
        adapting = Adapting(
            evidence=self._evidence,
            candidates=rows,
            centers=self._centers_of(rows),
            penalties=self._penalties()[rows],
            # Only tasks that are simulated with the reserve need it.
            ridge=None if self._reserve is None else self._solve(),
            prior_worth=self.worth_,
            reserve=None if self._reserve is None else self._reserve.read(),
        )
        other = copy.copy(self)
        other._adapted = adapting.run(X, temperature=temperature, weight=weight, seed=seed)
        other._settle(like=self.classes_)
        return other

    def project(self, prototypes: Any) -> Array:
        """Predict class means from prototypes, in the preprocessed feature space.

        Parameters
        ----------
        prototypes : mapping, DataFrame, Prototypes or array-like of shape (m, n_dimensions)
            What the parameter `prototypes` accepts, or a plain matrix.

        Returns
        -------
        ndarray of shape (m, n_features_out)
            Predicted mean f(y) of each prototype y, in sorted order of the labels if there are
            labels. Samples of the same class are not left out, unlike in the prior of its center.
        """
        check_is_fitted(self, "classes_")
        self._require_semantics("Projecting prototypes")
        assert self._regression is not None
        prototypes = as_prototypes(prototypes)
        require_dimensions(prototypes, self._regression.prototypes)
        return self._regression.predict(prototypes.matrix, self._evidence)

    @accept_chunks
    def embed(self, X: Any) -> Array:
        """Map samples to the semantic space of the prototypes.

        Ridge regression from class means to prototypes, also if a kernel compares prototypes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_dimensions)
            Semantic vector of each sample.
        """
        X = self._prepare(self._validate(X))
        self._require_semantics("Embedding samples")
        assert self._regression is not None
        W, b = self._regression.embedding(self._evidence)
        xp = namespace(X)
        return X @ xp.astype(place_like(W, X), X.dtype) + xp.astype(place_like(b, X), X.dtype)

    def most_informative(self, X: Any, n: int) -> np.ndarray:
        """Choose the samples whose labels would help most.

        The most uncertain sample comes first; each next one is uncertain and unlike those before.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples without labels.
        n : int
            Number of samples to choose.

        Returns
        -------
        ndarray of shape (n,)
            Positions of the samples, best first.
        """
        n = check_count("n", n, 1)
        require_memory(X)
        value = to_numpy(self.uncertainty(X)).astype(np.float64)
        if n > len(value):
            raise ValueError(
                f"`n` must be at most the number of samples, {len(value)}; got {n}. Ask for fewer."
            )
        Z = to_numpy(self._prepare(self._validate(X))).astype(np.float64)
        Z /= np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1e-12)
        chosen: list[int] = []
        novelty = np.ones(len(value))
        for _ in range(n):
            gain = value * novelty
            gain[chosen] = -1.0
            chosen.append(int(gain.argmax()))
            novelty = np.minimum(novelty, 1 - np.clip(Z @ Z[chosen[-1]], 0, 1))
        return np.array(chosen)

    # What `fit` does, step by step.

    def _choose(
        self,
        source: FitSource,
        given: Prototypes | None,
        others: KeptSamples | None,
        seed: int,
    ) -> tuple[Choice, dict[str, Any]]:
        """Return what is chosen, and the parameters of the steps of `fit`."""
        fixed = {name: getattr(self, name) for name in _CHOSEN if not is_auto(getattr(self, name))}
        if self.worth == _BY_SHOTS:
            fixed["worth"] = _USUAL_WORTH
        if given is None:
            given = Prototypes(source.labels, np.zeros((len(source.labels), 1)))
            fixed |= {"prototype_transformer": None, "kernel": "linear", "gamma": 1.0, "ridge": 1.0}
            fixed["worth"] = 0.0  # equal prototypes say nothing about other classes
        elif fixed.get("kernel") == "precomputed":
            fixed |= {"prototype_transformer": None, "gamma": 1.0}
        if not is_auto(self.seen_penalty):
            fixed["seen_penalty"] = float(self.seen_penalty)
        needed = {*_CHOSEN} - {*fixed} or is_auto(self.seen_penalty) or is_auto(self.temperature)
        choice = Choice(Choosing.start(fixed), fixed.get("worth", 0.0))
        if needed:
            found = np.searchsorted(given.labels, source.labels)
            found = np.minimum(found, len(given) - 1)
            of_labels = np.where(given.labels[found] == source.labels, found, -1)
            prototypes = given.matrix.astype(np.float64)
            data = TrainingData.from_kept(source.kept, of_labels, prototypes, others)
            choice = Choosing(
                data,
                fixed,
                n_unseen=len(given) - len(np.unique(of_labels[of_labels >= 0])),
                by_hm=isinstance(self.candidates, str) and self.candidates == "all",
                n_shots=self.n_shots,
                seed=seed,
            ).run()
        if not is_auto(self.seen_penalty):
            choice = replace(choice, penalty=float(self.seen_penalty))
        return choice, steps_of(choice.point, fixed)

    def _check_validation(
        self, validation: Any, given: Prototypes | None
    ) -> tuple[Array, np.ndarray] | None:
        """Return validation samples and their labels."""
        if validation is None:
            return None
        is_pair = isinstance(validation, tuple | list) and len(validation) == 2
        if given is None or not is_pair:
            got = (
                "no prototypes"
                if is_pair
                else f"{type(validation).__name__}, {format_value(validation)}"
            )
            raise ValueError(
                "`validation` must be a pair (X, y) of samples of classes with prototypes; got "
                f"{got}. Pass validation=(X, y) and prototypes."
            )
        X, y = check_labeled(self, *validation)
        labels = to_numpy(y) if is_device_array(y) else as_labels(y)
        classes, counts = np.unique(labels, return_counts=True)
        if len(classes) < 2 or counts.min() < 2:
            raise ValueError(
                "`validation` must have at least two classes of at least two samples; got "
                f"{len(classes)} classes, the smallest of {counts.min()}. Pass more, or None."
            )
        given.positions(classes)  # refuses classes without a prototype
        return X, labels

    def _learn_map(
        self, given: Prototypes | None, steps: dict[str, Any], seed: int
    ) -> Regression | None:
        """Return the map of prototypes, learned from all that were given."""
        if given is None:
            return None
        _, transformer, kernel = learn_kernel(given.matrix.astype(np.float64), steps)
        ridge, n_components = float(steps["ridge"]), self.n_components
        return Regression(given, given.labels, transformer, kernel, ridge, n_components, seed)

    def _reserve_samples(self, source: FitSource, others: KeptSamples | None) -> Reserve:
        """Return samples to simulate tasks with: of validation classes if there are any."""
        if others is None or self._regression is None:
            return Reserve.from_kept(source.kept, self._prepare, source.labels)
        known = self._regression.prototypes
        rows, places = np.unique(others.codes, return_inverse=True)
        priors = self._regression.predict(known.matrix[rows], self._evidence)
        few = replace(others, codes=places)
        return Reserve.from_kept(few, self._prepare, known.labels[rows], priors)

    @property
    def _fitted_steps(self) -> tuple[Any, ...]:
        return () if self.preprocessing_ is None else (self.preprocessing_,)

    def _prepare(self, X: Array) -> Array:
        return X if self.preprocessing_ is None else self.preprocessing_.transform(X)

    def _settle(self, like: Any, prior: Array | None = None) -> None:
        """Fix what prediction reads: the last step of `fit`, and of every copy.

        Priors of all classes may be given; learning them takes most of the time.
        """
        evidence, choice = self._evidence, self._choice
        if getattr(self, "_centered", None) is not evidence:
            self.worth_ = choice.worth
            prior = class_priors(evidence, self._regression) if prior is None else prior
            self._class_centers = class_centers(evidence, prior, self.worth_)
            self._centered = evidence
        unseen = None if self._regression is None else evidence.known(evidence.counts == 0)
        labels = _candidate_labels(self._targets, evidence.known(), unseen)
        rows = np.searchsorted(evidence.labels, labels)
        centers = self._centers_of(rows)
        offsets = place_like(self._penalties()[rows], centers)
        adapted = self._adapted
        if adapted is not None:
            centers, offsets = adapted.apply(labels, centers, offsets)
        xp = namespace(centers)
        constants = xp.sum(centers * centers, axis=1) + offsets
        self._scores = LinearScores(centers, constants).check()
        self.centers_ = centers
        self.classes_ = place_labels(labels, like)
        self.seen_classes_ = place_labels(evidence.known(evidence.counts > 0), like)
        self.unseen_classes_ = place_labels(evidence.known(evidence.counts == 0), like)
        self.prototypes_ = None
        shown = evidence.known(evidence.is_described)
        if self._regression is not None and shown.size:
            self.prototypes_ = self._regression.prototypes.subset(shown)
        self.is_transductive_ = adapted is not None
        self.seen_penalty_ = choice.penalty
        self.best_score_ = choice.score
        self.temperature_ = self._temperature(rows)
        self.best_params_ = {
            **self._steps,
            "worth": self.worth_,
            "seen_penalty": self.seen_penalty_,
            "temperature": self.temperature_,
        }
        if self._regression is None:
            del self.best_params_["worth"]
        if adapted is not None:
            self.best_params_ |= adapted.chosen

    def _worth_of_shots(
        self, prior: Array, X: Array, codes: Array, weights: Array | None, labels: np.ndarray
    ) -> float:
        """Return the worth under which samples of classes with several are most likely."""
        evidence = self._evidence
        rows = np.searchsorted(evidence.labels, labels)
        rows = np.minimum(rows, len(evidence.labels) - 1)  # labels without weight may be unknown
        several = evidence.is_described[rows] & (evidence.counts[rows] >= 2)
        several &= evidence.labels[rows] == labels
        if self._regression is None or several.sum() < 2:
            return self._choice.worth
        if evidence.is_transferred:
            prior = prior + common_shift(evidence, prior, _USUAL_WORTH)[None, :]
        xp, host = namespace(prior), to_numpy(codes)
        shares = np.ones(len(host)) if weights is None else to_numpy(weights).astype(np.float64)
        used = place_like(np.flatnonzero(several[host]), prior)
        places = place_like(rows[several], prior)
        return left_out_worth(
            xp.astype(xp.take(place_like(X, prior), used, axis=0), prior.dtype),
            place_like((np.cumsum(several) - 1)[host[several[host]]], prior),
            xp.take(place_like(shares, prior), used, axis=0),
            xp.take(prior, places, axis=0),
            xp.take(evidence.sums, places, axis=0),
            place_like(evidence.counts[rows[several]], prior),
            _WORTHS,
        )

    def _solve(self) -> Ridge | None:
        """Return what the regression learned from its classes, None if there are none."""
        if self._regression is None or not self._evidence.is_anchor.any():
            return None
        return self._regression.solve(self._evidence)

    def _centers_of(self, rows: np.ndarray) -> Array:
        centers = self._class_centers
        return namespace(centers).take(centers, place_like(rows, centers), axis=0)

    def _penalties(self) -> np.ndarray:
        """Return what is subtracted from the scores of each class."""
        counts, totals = self._evidence.counts, self._evidence.totals(self.worth_)
        return self._choice.penalty * counts / totals

    def _temperature(self, rows: np.ndarray) -> float:
        """Return the temperature for some candidates.

        For candidates of one kind it lies between those of classes without and with many samples,
        as their centers do between prior and mean.
        """
        if self._fixed_temperature is not None:
            return self._fixed_temperature
        if self._adapted is not None and self._adapted.temperature is not None:
            return self._adapted.temperature
        found = self._choice.temperatures
        counts = self._evidence.counts[rows]
        of_prior = 1 - counts / self._evidence.totals(self.worth_)[rows]
        at_new = self.worth_ / (self.worth_ + self._n_shots) if self.worth_ else 1.0
        shares = np.minimum(of_prior / at_new, 1.0)
        mixed = shares.max() > 0.5 > shares.min()
        usual = found.all if mixed else float(np.mean(found.old + (found.new - found.old) * shares))
        # The mean of n samples alone is off by 1 / n of their variance; two of them compete.
        blind = np.where(self._evidence.is_described[rows], 0.0, 2 / np.maximum(counts, 1))
        return usual * self._spread(rows) * float(1 + blind.mean())

    def _spread(self, rows: np.ndarray) -> float:
        """Return the variance within candidates relative to that of the classes of `fit`.

        Features that were trained on the classes of `fit` scatter more in new classes.
        """
        within = self._choice.within
        ratio = self._evidence.variance(rows) / within if within else 0.0
        return ratio if ratio > 0 else 1.0

    def _score_blocks(self, X: Array) -> Iterator[Array]:
        return self._scores.blocks(self._prepare(X))

    # Model files.

    def __zonkey_validate__(self) -> None:
        """Set what prediction reads; parts must be of one space and of the same classes."""
        evidence, regression = self._evidence, self._regression
        d, n = evidence.sums.shape[1], self.n_features_in_
        require_shape("_class_centers", self._class_centers, len(evidence.labels), d)
        prepared = require_finite("AnyShotClassifier", lambda: self._prepare(np.ones((1, n))))
        widths = {"features": d, "preprocessing": prepared.shape[1]}
        if self._reserve is not None:
            widths["reserve"] = self._reserve.X.shape[1]
        if self._adapted is not None:
            widths["adapted"] = self._adapted.centers.shape[1]
        fits = len({*widths.values()}) == 1
        require_that(fits, f"Arrays of one space differ in width: {widths}.")
        described = evidence.labels[evidence.is_described]
        known = described[:0] if regression is None else regression.prototypes.labels
        fits = np.array_equal(described, known)
        require_that(fits, "Described classes must have a prototype each.")
        require_number("worth_", self.worth_, 0)
        require_number("_n_shots", self._n_shots, 0)
        for setting in self._settings:
            require_that(is_auto(setting) or setting >= 0, "Settings of `adapt` must be numbers.")
        self._centered = evidence
        with np.errstate(over="ignore", invalid="ignore"):
            self._settle(like=None)
        require_number("temperature_", self.temperature_, np.finfo(float).tiny)
        require_that(np.isfinite(self._scores.constants).all(), "Centers must be finite.")
        if regression is not None:
            row = regression.prototypes.matrix[:1]
            compute = partial(regression.transform, row, evidence.sums)
            require_finite("AnyShotClassifier", compute)

    def __zonkey_learned__(self) -> Learned:
        evidence = self._evidence
        labels, n_samples = evidence.labels[evidence.counts > 0], float(evidence.counts.sum())
        return Learned(evidence.sums, labels, n_samples, self._choice, self._scores)

    # Checks.

    def _require_semantics(self, what: str) -> None:
        if self._regression is None or not self._evidence.is_anchor.any():
            raise ValueError(
                f"{what} needs classes with a prototype and samples; this model has none. Fit "
                "with prototypes."
            )

    def _check_size(self, n_anchors: int) -> None:
        if self.n_components is None and n_anchors > _MANY_ANCHORS:
            warn_user(
                f"The exact regression is for up to {_MANY_ANCHORS:,} classes with prototype and "
                f"samples; {n_anchors:,} need about {_MATRICES * 8 * n_anchors**2 / 2**30:.0f} GB "
                "and minutes. Pass n_components=2000."
            )

    def _check_kernel(self, given: Prototypes | None) -> None:
        if self.kernel != "precomputed" or given is None:
            return
        if given.n_dimensions != len(given):
            raise ValueError(
                'kernel="precomputed" needs prototypes that are kernel values with all classes, in '
                f"sorted order of the labels: {len(given)} each; got {given.n_dimensions}. Pass a "
                "square kernel matrix."
            )

    def _check_parameters(self) -> None:
        check_option("kernel", self.kernel, (*KERNELS, "auto"))
        for name in ("gamma", "ridge"):
            check_interval(name, getattr(self, name), 0, or_auto=True)
        names = ("temperature", "adapt_temperature")
        for name in names if self.worth == _BY_SHOTS else ("worth", *names):
            check_interval(name, getattr(self, name), 0, open_below=True, or_auto=True)
        check_interval("seen_penalty", self.seen_penalty, -math.inf, or_auto=True)
        check_interval("adapt_weight", self.adapt_weight, 0, 1, or_auto=True)
        check_count("n_shots", self.n_shots, 0)
        if self.n_components is not None:
            check_count("n_components", self.n_components, 1)
        if self.reject_below is not None:
            check_interval("reject_below", self.reject_below, 0, 1)
        if not isinstance(self.transfer, bool | np.bool_) or (
            self.transfer and self.prototypes is None
        ):
            raise ValueError(
                "`transfer` must be False, or True with prototypes of classes without samples; got "
                f"{self.transfer!r} and {'no ' if self.prototypes is None else ''}prototypes. Pass "
                "both, or leave it out."
            )
        for name in ("preprocessing", "prototype_transformer"):
            value = getattr(self, name)
            if value is not None and not is_auto(value) and not hasattr(value, "transform"):
                raise TypeError(
                    f'`{name}` must be a scikit-learn transformer, "auto" or None; got {value!r}. '
                    "Use for instance FeatureNormalizer(power=0.5)."
                )
        if self.kernel == "precomputed" and hasattr(self.prototype_transformer, "transform"):
            raise ValueError(
                '`prototype_transformer` must be None with kernel="precomputed", whose prototypes '
                f"are kernel values; got {type(self.prototype_transformer).__name__}. Transform "
                "before the kernel."
            )


def _validation(
    checked: tuple[Array, np.ndarray] | None,
    like: Array,
    given: Prototypes | None,
    labels: np.ndarray,
    seed: int,
) -> KeptSamples | None:
    """Return samples of validation classes; their codes are rows of the prototypes."""
    if checked is None or given is None:
        return None
    X, new = checked
    overlap = np.intersect1d(new, labels)
    if overlap.size:
        raise ValueError(
            f"Validation classes must not be among the training classes; {format_labels(overlap)} "
            "came in both. Leave them out of one."
        )
    if X.shape[1] != like.shape[1]:
        raise ValueError(
            f"Validation samples must have the {like.shape[1]} features of the training samples; "
            f"got {X.shape[1]}. Use the same encoder for both."
        )
    return KeptSamples.choose(place_like(X, like), given.positions(new), given.labels, seed)


def _check_prototypes(given: Prototypes, labels: np.ndarray) -> None:
    require_same_kind(labels=labels, prototypes=given.labels)
    if not np.isin(labels, given.labels).any():
        raise ValueError(
            f"At least one class of y needs a prototype; got labels {format_labels(labels)} and "
            f"prototypes of {format_labels(given.labels)}. Use the same names in both."
        )


def _candidate_labels(targets: Any, known: np.ndarray, unseen: np.ndarray | None) -> np.ndarray:
    """Return the labels that candidates stand for; `unseen` is None without prototypes."""
    named = {"unseen": known if unseen is None else unseen, "all": known}
    return choose_labels(targets, named, lambda labels: _known_labels(labels, known), len(known))


def _known_labels(labels: Any, known: np.ndarray) -> np.ndarray:
    """Return the labels sorted, each once; unknown ones are refused."""
    labels = np.unique(as_labels(labels))
    require_same_kind(labels=labels, known=known)
    missing = np.setdiff1d(labels, known)
    if missing.size:
        raise ValueError(
            f"No prototype and no sample of the class {format_labels(missing)}; the {len(known)} "
            f"known classes are {format_labels(known)}. Correct the label, or add the class."
        )
    return labels


def _add_samples(evidence: Evidence, sums: ClassSums) -> Evidence:
    """Return the evidence with the samples of classes of positive weight."""
    used = np.flatnonzero(sums.counts > 0)
    totals = sums.totals()
    kept = namespace(totals).take(totals, place_like(used, totals), axis=0)
    kept = place_like(kept, evidence.sums)
    return evidence.add(sums.labels[used], kept, sums.counts[used], sums.squares[used])


def _freeze(candidates: Any) -> Any:
    """Return candidates that do not change if the user changes a list."""
    if isinstance(candidates, str) or not np.ndim(candidates):
        return candidates
    return as_labels(candidates).copy()


def _as_parameter(targets: Any) -> Any:
    return targets if isinstance(targets, str) else np.asarray(targets).tolist()
