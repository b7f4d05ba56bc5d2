"""Zero-shot models with a projection: what they can do once it is known, Eq. 18 (abplclass)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..arrays import Array, namespace, place_like, to_numpy
from ..constraints import check_semantics
from ..labels import format_value, place_labels
from ..persistence.checks import require_finite, require_number, require_shape, require_that
from ..persistence.model import Learned
from ..prototypes import Prototypes
from ..streaming.accept import accept_chunks
from ..threads import multiply
from .predict import ExplainedMixin
from .scorer import LinearScores, Scorer


class SemanticMixin(ExplainedMixin):
    """Methods of models with prototypes, beyond predictions.

    `_find_semantics` returns the known prototypes; it refuses what needs prototypes if there are
    none.
    """

    _find_semantics: Callable[..., Prototypes]
    _project: Callable[[Prototypes], Array]
    _embed: Callable[[Array], Array]
    _copy_knowing: Callable[[Prototypes], Self]
    _copy_choosing: Callable[..., Self]

    def project(self, prototypes: Any) -> Array:
        """Map prototypes to the space in which samples are compared.

        Parameters
        ----------
        prototypes : mapping, DataFrame, Prototypes or array-like of shape (m, n_dimensions)
            What the parameter `prototypes` accepts, or a plain matrix.

        Returns
        -------
        ndarray of shape (m, n_features)
            W y, or the mean f(y) that kernel ridge regression predicts, for each prototype y, in
            sorted order of the labels if there are labels.
        """
        known = self._find_semantics("Projecting prototypes")
        rows = as_prototypes(prototypes)
        require_dimensions(rows, known)
        return self._project(rows)

    @accept_chunks
    def embed(self, X: Any) -> Array:
        """Map samples to the semantic space of the prototypes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_dimensions)
            W'x for each sample x; `AnyShotClassifier` learns W by ridge regression from class
            means to prototypes, also if a kernel compares prototypes.
        """
        X = self._validate(X)
        self._find_semantics("Embedding samples")
        return self._embed(X)

    def with_classes(self, prototypes: Any) -> Self:
        """Return a fitted copy that also knows these unseen classes, without refitting.

        If the model was fitted with ``candidates="unseen"`` or ``"all"``, the new classes are
        candidates; a list of candidates is extended by them.

        Parameters
        ----------
        prototypes : mapping, DataFrame or Prototypes
            Semantic vectors of the new classes.

        Returns
        -------
        estimator
            The copy. Its parameters `prototypes` and `candidates` include the new classes.
        """
        known = self._find_semantics("Adding classes", wider=True)
        new = Prototypes.coerce(prototypes)
        require_dimensions(new, known)
        return self._copy_knowing(new)

    def with_candidates(self, candidates: Any) -> Self:
        """Return a fitted copy that chooses from other candidates, without refitting.

        What was chosen in `fit` stays as it is. `AnyShotClassifier` has a temperature for the new
        candidates, except after `adapt`, which has its own.

        Parameters
        ----------
        candidates : str or list of labels
            What the parameter `candidates` accepts.

        Returns
        -------
        estimator
            The copy. Its parameter `candidates` is the new one.
        """
        return self._copy_choosing(candidates)


class NearestPrototypeMixin(SemanticMixin):
    """Prediction, copies and files of an estimator with `projection_`, W (d x k).

    The estimator has the parameters `prototypes`, `candidates` and `seen_penalty`. Its `fit` sets
    `projection_` and `seen_penalty_` and then calls `_set_known`. It may override `_linear_scores`,
    which by default compares with the nearest W y; `_linear_scores` must not read parameters,
    because copies with other candidates call it after `fit`. If its scores are not
    `LinearScores.from_distances`, `_compares_distances` is False. Scores that are linear in other
    vectors than the samples have `_map_samples(X)`, and those that are not linear
    `_score_blocks(form, X)`.
    A model without W overrides `_get_learned`.
    """

    _compares_distances = True
    _map_samples: Any = None
    _score_blocks: Any = None

    prototypes: Any
    candidates: Any
    seen_penalty: Any

    n_features_in_: int
    projection_: Any
    seen_penalty_: float
    prototypes_: Prototypes
    seen_classes_: Array
    unseen_classes_: Array
    _scorer: Scorer  # without functions of the model, which `scorer_` adds
    __zonkey_fields__ = ("seen_penalty_", "prototypes_", "_scorer")

    @classmethod
    def __zonkey_upgrade__(cls, parts: dict[str, Any]) -> dict[str, Any]:
        """Rename what older files call a decision."""
        state = {("_scorer" if n == "_decision" else n): v for n, v in parts["state"].items()}
        return {**parts, "state": state}

    def __zonkey_validate__(self) -> None:
        """Set what follows from the scorer; it must fit the prototypes and the projection."""
        scorer, known, W = self._scorer, self.prototypes_, vars(self).get("projection_")
        everything = np.concatenate([scorer.seen, scorer.labels])
        require_that(np.isin(everything, known.labels).all(), "Every class needs a prototype.")
        if W is not None:
            form: Any = scorer.form
            require_shape("projection_", W, self.n_features_in_, None)
            fits = (form.centers if form.M is None else form.M.T).shape[1] in self._list_widths()
            require_that(fits, "The scores must be as wide as the features.")
        require_number("seen_penalty_", self.seen_penalty_)
        self.seen_classes_, self.classes_ = scorer.seen, scorer.labels
        self.unseen_classes_ = np.setdiff1d(known.labels, scorer.seen)
        row = np.ones((1, self.n_features_in_), self._get_learned().dtype)
        blocks = self.scorer_.blocks
        require_finite(
            type(self).__name__,
            lambda: np.concatenate([to_numpy(scores) for scores in blocks(row)]),
        )

    def __zonkey_learned__(self) -> Learned:
        W = self._get_learned()
        return Learned(W, self.seen_classes_, fitted=W, answers=self._scorer)

    @property
    def scorer_(self) -> Scorer:
        """Everything that prediction reads."""
        return replace(
            self._scorer,
            has_centers=self._compares_distances,
            transform=self._map_samples,
            compare=self._linear_scores,
            compute=self._score_blocks,
        )

    def _find_semantics(self, what: str, *, wider: bool = False) -> Prototypes:
        check_is_fitted(self, "prototypes_")
        if wider and self._scorer.one_hot:
            raise ValueError(
                f"{what} needs a semantic space; this model was fitted with prototypes=None, which "
                "makes prototypes one-hot vectors. Fit with prototypes."
            )
        return self.prototypes_

    def _project(self, prototypes: Prototypes) -> Array:
        W = self.projection_
        return self._place_coordinates(prototypes, W.dtype) @ W.T

    def _embed(self, X: Array) -> Array:
        W = place_like(self.projection_, X)
        return multiply(X, namespace(X).astype(W, X.dtype, copy=False))

    def _copy_knowing(self, prototypes: Prototypes) -> Self:
        known, candidates = self.prototypes_.extended(prototypes), self._scorer.candidates
        check_semantics(known, self._scorer.seen, prototypes.labels)
        if not isinstance(candidates, str):
            candidates = [*candidates, *prototypes.labels.tolist()]
        other = self._copy_choosing(candidates, known)
        other.prototypes = known
        return other

    def _copy_choosing(self, candidates: Any, known: Prototypes | None = None) -> Self:
        check_is_fitted(self, "prototypes_")
        other = copy.copy(self)
        other.candidates = candidates
        known = self.prototypes_ if known is None else known
        other._choose(known, replace(self._scorer, candidates=candidates), like=self.classes_)
        return other

    def _set_known(self, known: Prototypes, seen: np.ndarray, like: Any = None) -> None:
        """Fix what prediction reads: the last step of `fit`.

        Numeric labels are put on the device of `like`, such as the training samples.
        """
        start = Scorer(
            seen[:0], seen=seen, candidates=self.candidates, one_hot=self.prototypes is None
        )
        self._choose(known, start, like)

    def _choose(self, known: Prototypes, scorer: Scorer, like: Any) -> None:
        """Set the fitted attributes for the candidates of a scorer, and its scores."""
        seen = scorer.seen
        named = self._named_candidates(known, seen, scorer.one_hot)
        labels = choose_labels(
            scorer.candidates, named, lambda given: known.subset(given).labels, len(seen)
        )
        before, self.prototypes_ = vars(self).get("prototypes_"), known
        self.seen_classes_ = place_labels(seen, like)
        self.unseen_classes_ = place_labels(np.setdiff1d(known.labels, seen), like)
        self.classes_ = place_labels(labels, like)
        chosen, W = known.subset(labels), self._get_learned()
        penalties = self.seen_penalty_ * np.isin(labels, seen)
        is_same = scorer.form is not None and known is before
        is_same = is_same and np.array_equal(labels, scorer.labels)
        # Some peers compare candidates with each other, seen and unseen ones in other ways.
        self._scorer = replace(scorer, labels=labels, prototypes=chosen, penalties=penalties)
        if is_same and np.array_equal(penalties, scorer.penalties):
            return  # some peers train a classifier for their candidates, which can take minutes
        with np.errstate(over="ignore", invalid="ignore"):
            form = self._linear_scores(chosen, W.dtype).subtract(penalties).check(W)
        self._scorer = replace(self._scorer, form=form)

    def _candidate_labels(self, known: Prototypes, seen: np.ndarray) -> np.ndarray:
        """Return the labels that the parameter `candidates` denotes."""
        named = self._named_candidates(known, seen, self.prototypes is None)
        return choose_labels(
            self.candidates, named, lambda given: known.subset(given).labels, len(seen)
        )

    def _named_candidates(
        self, known: Prototypes, seen: np.ndarray, one_hot: bool
    ) -> dict[str, np.ndarray]:
        """Return the sets of labels that `candidates` may name."""
        unseen = np.setdiff1d(known.labels, seen)
        return {"unseen": seen if one_hot and not unseen.size else unseen, "all": known.labels}

    def _coordinates(self, prototypes: Prototypes) -> np.ndarray:
        """Return the semantic vectors y that W is applied to, one per row."""
        return prototypes.matrix

    def _place_coordinates(self, prototypes: Prototypes, dtype: Any) -> Array:
        """Return the same in `dtype`, in the library and on the device of W."""
        W, Y = self.projection_, self._coordinates(prototypes)
        return namespace(W).astype(place_like(Y, W), dtype, copy=False)

    def _list_widths(self) -> tuple[int, ...]:
        """Return the numbers of dimensions of the spaces in which samples may be compared."""
        return self.projection_.shape

    def _get_learned(self) -> Array:
        """Return the array in whose library and dtype, and on whose device, scores are."""
        return self.projection_

    def _linear_scores(self, known: Prototypes, dtype: Any) -> LinearScores:
        """Return how vectors z of this dtype are compared with these classes."""
        W = namespace(self.projection_).astype(self.projection_, dtype, copy=False)
        return LinearScores.from_distances(self._place_coordinates(known, dtype) @ W.T)


def choose_labels(
    candidates: Any,
    named: Mapping[str, np.ndarray],
    listed_labels: Callable[[Any], np.ndarray],
    n_seen: int,
) -> np.ndarray:
    """Return the labels that `candidates`, a list of labels or one of the names, denotes.

    `listed_labels` sorts the labels of a list and refuses unknown ones.
    """
    if np.ndim(candidates) and len(candidates):
        return listed_labels(candidates)
    if not isinstance(candidates, str) or candidates not in named:
        names = ", ".join(f'"{name}"' for name in named)
        raise ValueError(
            f"`candidates` must be {names} or a list of at least one label; "
            f"got {format_value(candidates)}. A single label goes into a list."
        )
    if not named[candidates].size:
        raise ValueError(
            f'candidates="{candidates}" needs a class that has a prototype and no sample; all '
            f"{n_seen} classes have samples. Add prototypes of unseen classes, use "
            'candidates="all", or hold out whole classes with cv=ClassKFold().'
        )
    return named[candidates]


def as_prototypes(prototypes: Any) -> Prototypes:
    """Return prototypes, or the rows of a plain matrix numbered as if they were labeled."""
    if Prototypes.is_labeled(prototypes):
        return Prototypes.coerce(prototypes)
    rows = np.atleast_2d(to_numpy(prototypes))
    return Prototypes(np.arange(len(rows)), rows)


def require_dimensions(prototypes: Prototypes, known: Prototypes) -> None:
    """Refuse prototypes of another semantic space than that of the known ones."""
    if prototypes.n_dimensions != known.n_dimensions:
        raise ValueError(
            f"Prototypes must have the {known.n_dimensions} dimensions of the training "
            f"prototypes; got {prototypes.n_dimensions}. Use vectors of the same semantic space."
        )
    known.common_names(prototypes)
