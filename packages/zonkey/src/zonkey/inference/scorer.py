"""Prediction by the nearest projected prototype, Eq. 18 (abplclass), and by scores in general.

`fit` fixes everything that prediction reads: candidates, scores, penalty, temperature and
rejection. Parameters that are set later have no effect before the next `fit`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..arrays import (
    Array,
    dtype_like,
    has_only_finite,
    is_device_array,
    namespace,
    place_like,
    positions_like,
    softmax,
    to_numpy,
)
from ..constraints import check_semantics, check_top, validate_samples
from ..labels import (
    format_labels,
    format_value,
    list_distinct,
    place_labels,
    require_same_kind,
    warn_user,
)
from ..metrics import per_class_accuracy
from ..persistence.checks import (
    require_finite,
    require_labels,
    require_number,
    require_shape,
    require_that,
)
from ..persistence.model import Learned, save
from ..prototypes import Prototypes
from ..streaming.chunks import accept_chunks, as_chunks, drop_names
from ..streaming.sources import Chunk, get_labels

if TYPE_CHECKING:
    from .explanation import Explanation

# Scores held in memory at a time while predicting; large enough for full-speed products.
_BLOCK_SCORES = 2**24
_KEPT = "_kept"  # the scores in another dtype
_NOT_STORED = "not stored"
_FEW = 16  # up to this `k`, the best classes are found one by one


@dataclass(frozen=True, eq=False)
class LinearScores:
    """Scores 2 z'c_j - b_j of the classes j, with z = M'x, or z = x if M is None.

    Every model here has this form: b_j = ||c_j||^2 compares squared distances to centers c_j, and
    b_j = 0 is a bilinear compatibility.
    """

    centers: Array
    constants: Array
    M: Array | None = None

    def __zonkey_validate__(self) -> None:
        require_shape("scores/centers", self.centers, None, None)
        q, d = self.centers.shape
        require_shape("scores/constants", self.constants, q)
        if self.M is not None:
            require_shape("scores/M", self.M, None, d)

    @classmethod
    def from_distances(cls, centers: Array, M: Array | None = None) -> LinearScores:
        """Return ||z||^2 - ||z - c_j||^2: the nearer the center, the higher the score."""
        return cls(centers, namespace(centers).sum(centers * centers, axis=1), M)

    def penalize(self, penalty: float, is_penalized: np.ndarray) -> LinearScores:
        """Return the scores less `penalty` for some of the classes."""
        xp = namespace(self.constants)
        mask = xp.astype(place_like(is_penalized, self.constants), self.constants.dtype)
        return replace(self, constants=self.constants + float(penalty) * mask)

    def check(self, W: Array | None = None) -> LinearScores:
        """Return the scores; refuse infinite ones, and warn if they are the same for all.

        W, if given, is the projection behind them.
        """
        xp = namespace(self.centers)
        if not has_only_finite(self.constants) or (W is not None and not has_only_finite(W)):
            raise ValueError(
                "Centers of classes must be finite, and so must their squares; in "
                f"{self.constants.dtype} they are not. Scale samples and prototypes to a similar "
                "size, or fit on float64."
            )
        differ = xp.any(self.centers != self.centers[:1, :])
        differ = differ if W is None else differ & xp.any(W != 0)
        if self.centers.shape[0] > 1 and not bool(differ):
            warn_user(
                "Classes should have different centers; all are the same, so that scores say "
                "nothing. Check that samples and prototypes vary and are of a similar size."
            )
        return self

    def like(self, X: Array) -> LinearScores:
        """Return the same scores in the library and dtype and on the device of X."""
        if isinstance(self.centers, np.ndarray) and isinstance(X, np.ndarray):
            if self.centers.dtype == X.dtype:
                return self
            kept: LinearScores | None = vars(self).get(_KEPT)
            if kept is not None and kept.centers.dtype == X.dtype:
                return kept
        xp = namespace(X)

        def moved(M: Array) -> Array:
            return xp.astype(place_like(M, X), X.dtype, copy=False)

        M = None if self.M is None else moved(self.M)
        form = LinearScores(moved(self.centers), moved(self.constants), M)
        if isinstance(self.centers, np.ndarray) and isinstance(X, np.ndarray):
            # Converting many centers takes longer than scoring a few samples.
            object.__setattr__(self, _KEPT, form)
        return form

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != _KEPT}

    def blocks(self, X: Array) -> Iterator[Array]:
        """Yield scores of consecutive rows of X, so that memory stays bounded."""
        form = self.like(X)
        turned = namespace(X).matrix_transpose(form.centers)
        rows = max(1, _BLOCK_SCORES // max(form.centers.shape[0], X.shape[1]))
        for start in range(0, X.shape[0], rows):
            block = X[start : min(start + rows, X.shape[0]), :]
            block = block if form.M is None else block @ form.M
            # Without ||x||^2, which is the same for all candidates: in float32 it would
            # swallow the digits that tell them apart.
            scores = (2 * block) @ turned
            scores -= form.constants
            yield scores


@dataclass(frozen=True, eq=False)
class Decision:
    """Everything that prediction reads, as it was at `fit`. Labels are on the host.

    `candidates` is the parameter, `known` are the prototypes of the classes it stands for.
    `one_hot` tells that there is no semantic space. `scores` are in the dtype of W and include the
    penalty of seen classes.
    """

    candidates: Any
    one_hot: bool
    penalty: float
    seen: np.ndarray
    known: Prototypes | None = None
    labels: np.ndarray = field(default_factory=lambda: np.empty(0))
    scores: LinearScores | None = None

    def __zonkey_parts__(self) -> dict[str, Any]:
        listed = self.candidates
        return {
            **vars(self),
            "candidates": listed if isinstance(listed, str) else np.asarray(listed),
        }


class ScoresMixin(ClassifierMixin):
    """Predictions from the scores of classes.

    The estimator sets `classes_` in `fit` and has `_score_blocks`.
    """

    classes_: Array
    get_params: Callable[..., dict[str, Any]]

    @accept_chunks
    def predict(self, X: Any) -> Array:
        """Predict the class of each sample among the candidates.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predicted labels, or `reject_label` if the model rejects the sample. Numeric labels
            are in the array library and on the device of `X`; text labels are always NumPy arrays.
        """
        return self._predict_rows(self._validate(X))

    @accept_chunks
    def predict_top(self, X: Any, k: int | None = None) -> Array:
        """Return the `k` best candidates of each sample, best first.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Samples.
        k : int, default=None
            Number of candidates. None: five, or all of them if there are fewer.

        Returns
        -------
        ndarray of shape (n_samples, k)
            Labels in descending order of their scores.
        """
        X = self._validate(X)
        labels = self._labels()
        k = check_top(k, labels.shape[0])
        tops = [best_columns(scores, k) for scores in self._finite_blocks(X)]
        return labels_at(labels, namespace(X).concat(tops))

    @accept_chunks
    def decision_function(self, X: Any) -> Array:
        """Return the score of each candidate.

        With a projection W, the score is ``||x||^2 - ||x - W y||^2``, less the penalty of seen
        classes. ``||x||^2`` is the same for all candidates and keeps the numbers small. Models
        that compare in another way describe it in their class documentation.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_candidates) or (n_samples,)
            Scores, columns in the order of `classes_`. With two candidates, the second score
            minus the first, as everywhere in scikit-learn.
        """
        X = self._validate(X)
        scores = namespace(X).concat(list(self._finite_blocks(X)))
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the mean of the per-class accuracies, the usual measure of zero-shot learning.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Samples.
        y : array-like of shape (n_samples,)
            True labels. None for `Chunks`, which have their own.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the samples within their class.

        Returns
        -------
        float
            Mean over the classes of `y` of the share of correct predictions.
        """
        chunks, labels = as_chunks(X, y), cast(Any, y)
        if y is None and chunks is not X:
            raise ValueError(
                f"y must hold the true label of each sample of {type(X).__name__}; got None. Pass "
                "score(X, y), or Chunks(X, y)."
            )
        if chunks is None:
            predicted = self.predict(X)
        else:
            answers = chunks.reduce(_Answers(drop_names(self, chunks)), "score", purpose="score")
            labels, predicted = answers.pairs()
        self._check_scored(labels)
        return per_class_accuracy(labels, predicted, sample_weight=sample_weight)

    def save(self, path: Any, **facts: Any) -> None:
        """Write the fitted model to one file, whole or not at all.

        Parameters
        ----------
        path : str or path-like
            File to write; `zonkey.load` reads it.
        **facts : dict
            `notes`, `license`, `scores` and `training`: see `zonkey.save`.
        """
        save(self, path, **facts)

    def __zonkey_parameters__(self) -> dict[str, Any]:
        """Return the parameters in forms that a file holds."""
        parameters = self.get_params(deep=False)
        if parameters.get("prototypes") is not None:
            parameters["prototypes"] = Prototypes.coerce(parameters["prototypes"])
        candidates = parameters.get("candidates")
        if candidates is not None and not isinstance(candidates, str):
            parameters["candidates"] = np.asarray(candidates).tolist()
        if parameters.get("base") is not None:
            parameters["base"] = _NOT_STORED  # refused by a later `fit`, unlike None
        return parameters

    def __zonkey_learned__(self) -> Learned:
        return Learned(None, self.classes_, fitted=self.classes_)

    def _check_scored(self, y: Any) -> None:
        """Refuse labels none of which is a candidate, and warn of some: they score 0."""
        labels, known = list_distinct(y, "y"), to_numpy(self._labels())
        require_same_kind(y=labels, candidates=known)
        others = np.setdiff1d(labels, known)
        if not others.size:
            return
        remedy = (
            'Use candidates="all" to score seen classes. In cross-validation, use '
            "cv=ClassKFold() of zonkey.model_selection, which holds out whole classes: KFold holds "
            "out samples of seen classes."
        )
        if len(others) == len(labels):
            raise ValueError(
                f"None of the labels to score, {format_labels(labels)}, is a candidate; the "
                f"candidates are {format_labels(known)}. {remedy}"
            )
        warn_user(
            f"Labels to score should be candidates; {len(others)} of {len(labels)} classes are "
            f"not and count as wrong: {format_labels(others)}. {remedy}"
        )

    def _labels(self) -> Array:
        """Return the labels of the columns of the scores."""
        return self.classes_

    def _score_blocks(self, X: Array) -> Iterator[Array]:
        """Yield the scores of all rows of X, in one or more blocks of rows."""
        raise NotImplementedError

    def _finite_blocks(self, X: Array) -> Iterator[Array]:
        """Yield the same scores; refuse samples so large that some are not finite."""
        blocks: Iterator[Array] | None = None
        is_finite: Any = True
        while True:
            with np.errstate(over="ignore", invalid="ignore"):  # it must not outlast a `yield`
                blocks = self._score_blocks(X) if blocks is None else blocks
                scores = next(blocks, None)
                is_finite = is_finite if scores is None else is_finite & _is_finite(scores)
            # A device is awaited only once, at the end.
            if (scores is None or not is_device_array(scores)) and not bool(is_finite):
                raise ValueError(
                    "Scores of samples must be finite; some are not, because X has values up to "
                    f"{_find_largest(X):.3g}. Scale X in the same way as the training samples."
                )
            if scores is None:
                return
            yield scores

    def _predict_rows(self, X: Array) -> Array:
        """Return the prediction for each row of X, which has been validated."""
        return self._best(X)

    def _best(self, X: Array) -> Array:
        """Return the candidate with the highest score."""
        best = [namespace(X).argmax(scores, axis=1) for scores in self._finite_blocks(X)]
        return labels_at(self._labels(), namespace(X).concat(best))

    def _validate(self, X: Any) -> Any:
        check_is_fitted(self, "classes_")
        return validate_samples(self, X, reset=False)


class _Answers:
    """Labels and predictions of all chunks: a `Reduction`."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._found: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def copy_empty(self) -> _Answers:
        return _Answers(self._model)

    def update(self, chunk: Chunk) -> None:
        y = get_labels(chunk)
        if len(y):
            self._found[chunk.number] = y, to_numpy(self._model.predict(chunk.X))

    def merge(self, other: _Answers) -> None:
        self._found |= other._found

    def parts(self) -> dict[str, Any]:
        return {str(number): [*pair] for number, pair in self._found.items()}

    def restore(self, parts: dict[str, Any]) -> None:
        self._found = {int(number): (y, found) for number, (y, found) in parts.items()}

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return all labels and all predictions, in the order of the chunks."""
        y, found = zip(*(self._found[number] for number in sorted(self._found)), strict=True)
        return np.concatenate(y), np.concatenate(found)


class ExplainedMixin(ScoresMixin):
    """Explanations of single answers."""

    def explain(self, x: Any, k: int = 5) -> Explanation:
        """Explain the answer for one sample.

        Parameters
        ----------
        x : array-like of shape (n_features,) or (1, n_features)
            The sample.
        k : int, default=5
            Number of best classes to list; all of them if there are fewer.

        Returns
        -------
        Explanation
            Best classes, and what speaks for the winner and for the runner-up.
        """
        from .explain import explain

        return explain(self, x, k)


class NearestPrototypeMixin(ExplainedMixin):
    """Everything an estimator can do once `projection_`, W (d x k), is known.

    The estimator has the parameters `prototypes`, `candidates` and `seen_penalty`. Its `fit` sets
    `projection_` and `seen_penalty_` and then calls `_set_known`. It may override `_linear_scores`,
    which by default compares with the nearest W y; `_linear_scores` must not read parameters,
    because copies with other candidates call it after `fit`. If its scores are not
    `LinearScores.of_distances`, `_compares_distances` is False. Scores that are linear in something
    else than the samples override `_compared`. A model without W overrides `_get_learned`.
    """

    _compares_distances = True

    prototypes: Any
    candidates: Any
    seen_penalty: Any

    projection_: Any
    seen_penalty_: float
    prototypes_: Prototypes
    seen_classes_: Array
    unseen_classes_: Array
    _decision: Decision
    __zonkey_fields__ = ("seen_penalty_", "prototypes_", "_decision")

    def __zonkey_validate__(self) -> None:
        """Set what follows from the decision; it must fit the prototypes and the projection."""
        decision, known, W = self._decision, self.prototypes_, vars(self).get("projection_")
        require_labels("seen", decision.seen)
        require_labels("labels", decision.labels)
        everything = np.concatenate([decision.seen, decision.labels])
        require_that(np.isin(everything, known.labels).all(), "Every class needs a prototype.")
        same = decision.known is not None and np.array_equal(decision.known.labels, decision.labels)
        require_that(same, "The candidates and their prototypes must be the same classes.")
        scores = decision.scores
        require_that(scores is not None, "The scores of the classes are missing.")
        assert scores is not None
        n_rows, width = scores.centers.shape
        require_that(n_rows == len(decision.labels), "The scores must have a row for each class.")
        if W is not None:
            require_shape("projection_", W, self.n_features_in_, None)
            fits = (width if scores.M is None else scores.M.shape[0]) in W.shape
            require_that(fits, "The scores must be as wide as the features.")
        require_number("penalty", decision.penalty)
        require_number("seen_penalty_", self.seen_penalty_)
        self.seen_classes_, self.classes_ = decision.seen, decision.labels
        self.unseen_classes_ = np.setdiff1d(known.labels, decision.seen)
        row = np.ones((1, self.n_features_in_), self._get_learned().dtype)
        blocks = self._score_blocks
        require_finite(type(self).__name__, lambda: np.concatenate([*blocks(row)]))

    def __zonkey_learned__(self) -> Learned:
        W = self._get_learned()
        return Learned(W, self.seen_classes_, fitted=W, answers=self._decision)

    def project(self, prototypes: Any) -> Array:
        """Map prototypes to the feature space.

        Parameters
        ----------
        prototypes : mapping, DataFrame, Prototypes or array-like of shape (m, n_dimensions)
            What the parameter `prototypes` accepts, or a plain matrix.

        Returns
        -------
        ndarray of shape (m, n_features)
            W y for each prototype y, in sorted order of the labels if there are labels.
        """
        check_is_fitted(self, "prototypes_")
        prototypes = as_prototypes(prototypes)
        require_dimensions(prototypes, self.prototypes_)
        W = self.projection_
        return self._place_coordinates(prototypes, W.dtype) @ W.T

    @accept_chunks
    def embed(self, X: Any) -> Array:
        """Map samples to the semantic space.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_dimensions)
            W'x for each sample x.
        """
        X = self._validate(X)
        return X @ namespace(X).astype(place_like(self.projection_, X), X.dtype, copy=False)

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
        check_is_fitted(self, "prototypes_")
        if self._decision.one_hot:
            raise ValueError(
                "Adding classes needs a semantic space; this model was fitted with "
                "prototypes=None, which makes prototypes one-hot vectors. Fit with prototypes."
            )
        new = Prototypes.coerce(prototypes)
        require_dimensions(new, self.prototypes_)
        known = self.prototypes_.extended(new)
        check_semantics(known, self._decision.seen, new.labels)
        candidates = self._decision.candidates
        if not isinstance(candidates, str):
            candidates = [*candidates, *new.labels.tolist()]
        other = self._copy_choosing(known, candidates)
        other.prototypes = known
        return other

    def with_candidates(self, candidates: Any) -> Self:
        """Return a fitted copy that chooses from other candidates, without refitting.

        A penalty and a temperature that were chosen in `fit` stay as they are, although the
        temperature was chosen for the candidates of that fit.

        Parameters
        ----------
        candidates : str or list of labels
            What the parameter `candidates` accepts.

        Returns
        -------
        estimator
            The copy. Its parameter `candidates` is the new one.
        """
        check_is_fitted(self, "prototypes_")
        return self._copy_choosing(self.prototypes_, candidates)

    def _copy_choosing(self, known: Prototypes, candidates: Any) -> Self:
        other = copy.copy(self)
        other.candidates = candidates
        other._choose(known, replace(self._decision, candidates=candidates), like=self.classes_)
        return other

    def _set_known(self, known: Prototypes, seen: np.ndarray, like: Any = None) -> None:
        """Fix what prediction reads: the last step of `fit`.

        Numeric labels are put on the device of `like`, such as the training samples.
        """
        decision = Decision(
            candidates=self.candidates,
            one_hot=self.prototypes is None,
            penalty=self.seen_penalty_,
            seen=seen,
        )
        self._choose(known, decision, like)

    def _choose(self, known: Prototypes, decision: Decision, like: Any) -> None:
        """Set the fitted attributes for the candidates of `decision`."""
        seen = decision.seen
        named = self._named_candidates(known, seen, decision.one_hot)
        labels = choose_labels(decision.candidates, named, _find_among(known), len(seen))
        self.prototypes_ = known
        self.seen_classes_ = place_labels(seen, like)
        self.unseen_classes_ = place_labels(np.setdiff1d(known.labels, seen), like)
        self.classes_ = place_labels(labels, like)
        self._decision = replace(decision, known=known.subset(labels), labels=labels)
        with np.errstate(over="ignore", invalid="ignore"):
            scores = self._scores_in(self._get_learned().dtype).check(self._get_learned())
        self._decision = replace(self._decision, scores=scores)

    def _candidate_labels(self, known: Prototypes, seen: np.ndarray) -> np.ndarray:
        """Return the labels that the parameter `candidates` stands for."""
        named = self._named_candidates(known, seen, self.prototypes is None)
        return choose_labels(self.candidates, named, _find_among(known), len(seen))

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

    def _get_learned(self) -> Array:
        """Return the array in whose library and dtype, and on whose device, scores are."""
        return self.projection_

    def _map_samples(self, X: Array) -> Array:
        """Return the vectors z that the scores are linear in."""
        return X

    def _linear_scores(self, known: Prototypes, dtype: Any) -> LinearScores:
        """Return how vectors z of this dtype are compared with these classes."""
        W = namespace(self.projection_).astype(self.projection_, dtype, copy=False)
        return LinearScores.from_distances(self._place_coordinates(known, dtype) @ W.T)

    def _scores_in(self, dtype: Any) -> LinearScores:
        """Return the scores of the candidates in a dtype of the library of W."""
        decision = self._decision
        assert decision.known is not None
        scores = self._linear_scores(decision.known, dtype)
        return scores.penalize(decision.penalty, np.isin(decision.labels, decision.seen))

    def _score_blocks(self, X: Array) -> Iterator[Array]:
        form, dtype = self._decision.scores, dtype_like(X.dtype, self._get_learned())
        if form is None or dtype != self._get_learned().dtype:
            form = self._scores_in(dtype)  # with all digits of X
        return form.blocks(self._map_samples(X))

    def _scores_of(self, prototypes: Prototypes, X: Array) -> Array:
        """Return the scores of other classes, which have these prototypes and no penalty."""
        other, labels = copy.copy(self), prototypes.labels
        other._decision = replace(
            self._decision, known=prototypes, labels=labels, seen=labels[:0], scores=None
        )
        return namespace(X).concat(list(other._score_blocks(X)))

    def _labels(self) -> Array:
        return self._decision.labels


@dataclass(frozen=True)
class Rejection:
    """Which predictions are replaced by a label for "none of these".

    `below` is the lowest accepted probability, None if all are accepted. `label` None stands for
    "unknown" or -1.
    """

    below: float | None
    label: Any

    def __zonkey_validate__(self) -> None:
        if self.below is not None:
            require_number("reject_below", self.below, 0)
        fits = self.label is None or isinstance(self.label, str | int | float)
        require_that(fits, "No label to reject with.")

    def check_label(self, known: np.ndarray) -> Any:
        """Return the label of rejected samples, which is none of the known ones."""
        label, is_text = self.label, known.dtype.kind not in "iufb"
        if label is None:
            label = "unknown" if is_text else -1
        if isinstance(label, str) != is_text or label in known.tolist():
            raise ValueError(
                "`reject_label` must be a label of the same kind as the candidates, and none of "
                f"them; got {format_value(label)}. Choose another, or None."
            )
        return label

    def apply(self, predicted: Array, refused: Array, known: np.ndarray) -> Array:
        """Return the predictions with the label at the refused ones."""
        label = self.check_label(known)
        # Wide enough for both: text must not be cut to the length of the other labels.
        dtype = object if known.dtype == object else np.result_type(known, np.array(label))
        if is_device_array(predicted):
            xp = namespace(predicted)
            answer = xp.astype(predicted, dtype_like(dtype, predicted), copy=False)
            return xp.where(refused, xp.full_like(answer, label), answer)
        answer = to_numpy(predicted).astype(dtype)
        answer[to_numpy(refused)] = label
        return answer


class ProbabilityMixin(ExplainedMixin):
    """Probabilities, rejection and uncertainty; `fit` sets the attributes below."""

    temperature_: float
    _rejection: Rejection

    @accept_chunks
    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each candidate.

        It is the softmax of the scores divided by the temperature.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_candidates)
            Probabilities, columns in the order of `classes_`.
        """
        X = self._validate(X)
        blocks = [softmax(scores / self.temperature_) for scores in self._finite_blocks(X)]
        return namespace(X).concat(blocks)

    @accept_chunks
    def uncertainty(self, X: Any) -> Array:
        """Return how uncertain the prediction of each sample is.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Entropy of the probabilities, divided by that of equal ones: 0 is certain, 1 a guess.
        """
        X = self._validate(X)
        parts = []
        for scores in self._finite_blocks(X):
            P, xp = softmax(scores / self.temperature_), namespace(scores)
            logs = xp.log(xp.where(P > 0, P, xp.ones_like(P)))
            parts.append(-xp.sum(P * logs, axis=1) / (float(np.log(P.shape[1])) or 1.0))
        return namespace(X).concat(parts)

    def _predict_rows(self, X: Array) -> Array:
        below = self._rejection.below
        if below is None:
            return self._best(X)
        xp = namespace(X)
        best, highest = [], []
        for scores in self._finite_blocks(X):
            best.append(xp.argmax(scores, axis=1))
            highest.append(xp.max(softmax(scores / self.temperature_), axis=1))
        labels = self._labels()
        predicted = labels_at(labels, xp.concat(best))
        return self._rejection.apply(predicted, xp.concat(highest) < below, to_numpy(labels))


def choose_labels(
    candidates: Any,
    named: Mapping[str, np.ndarray],
    listed_labels: Callable[[Any], np.ndarray],
    n_seen: int,
) -> np.ndarray:
    """Return the labels that `candidates`, a list of labels or one of the names, stands for.

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


def scores_as(model: Any, kind: type) -> bool:
    """Whether a model is of this kind and computes scores in the same way; a subclass may not."""
    return isinstance(model, kind) and all(
        getattr(type(model), name, None) is getattr(kind, name, None)
        for name in ("_score_blocks", "_map_samples")
    )


def unwrap(model: Any) -> tuple[Any, Any]:
    """Return the preprocessing of a fitted pipeline, None if there is none, and its last step."""
    if not isinstance(model, Pipeline):
        return None, model
    steps, last = model[:-1], model[-1]
    return (steps if len(steps) else None), last


def _find_among(known: Prototypes) -> Callable[[Any], np.ndarray]:
    return lambda candidates: known.subset(candidates).labels


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


def _is_finite(scores: Any) -> Any:
    """Return whether all scores are finite, as a truth value on their device."""
    if is_device_array(scores):
        xp = namespace(scores)
        return xp.all(xp.isfinite(scores))
    # A sum is several times faster than a mask, but it may overflow.
    return bool(np.isfinite(scores.sum())) or bool(np.isfinite(scores).all())


def _find_largest(X: Array) -> float:
    xp = namespace(X)
    return float(xp.maximum(xp.max(X), -xp.min(X)))


def labels_at(labels: Any, positions: Array) -> Array:
    """Return the labels at these positions.

    Numeric labels are on the device of the positions, text is on the host.
    """
    to_place = place_like if is_device_array(labels) else place_labels
    placed = to_place(labels, positions)
    if not is_device_array(placed):
        return placed[to_numpy(positions)]
    xp = namespace(positions)
    flat = xp.take(placed, xp.reshape(positions, (-1,)), axis=0)
    return xp.reshape(flat, positions.shape)


def best_columns(scores: Any, k: int) -> Array:
    """Return the columns of the k largest scores of each row, largest first.

    Equal scores keep the order of the columns, as for `argmax`, also if only some of them are
    among the k largest, which `argpartition` leaves open.
    """
    on_device = is_device_array(scores)
    one_by_one = _pick_on_device if on_device else _pick_one_by_one
    few = one_by_one(scores, k) if k <= _FEW else None
    if few is not None:
        return few
    if on_device:
        return namespace(scores).argsort(-scores, axis=1, stable=True)[:, :k]
    last = np.partition(scores, -k, axis=1)[:, [-k]]
    above, tied = scores > last, scores == last
    room = k - above.sum(axis=1, keepdims=True)
    chosen = above | (tied & (tied.cumsum(axis=1) <= room))
    columns = np.nonzero(chosen)[1].reshape(-1, k)
    order = np.argsort(-np.take_along_axis(scores, columns, axis=1), axis=1, kind="stable")
    return np.take_along_axis(columns, order, axis=1)


def _pick_one_by_one(scores: np.ndarray, k: int) -> np.ndarray | None:
    """Return the same by k passes of argmax, faster than a partition for small k.

    None if a score of -inf would be chosen, because -inf marks the scores already taken.
    """
    left = scores.copy()
    best = np.empty((len(scores), k), np.intp)
    for i in range(k):
        best[:, i] = left.argmax(axis=1)
        if np.isneginf(np.take_along_axis(left, best[:, [i]], axis=1)).any():
            return None
        np.put_along_axis(left, best[:, [i]], -np.inf, axis=1)
    return best


def _pick_on_device(scores: Array, k: int) -> Array | None:
    xp = namespace(scores)
    columns = positions_like(scores.shape[1], scores)[None, :]
    taken = xp.full_like(scores, -xp.inf)
    best = [xp.argmax(scores, axis=1)[:, None]]
    for _ in range(k - 1):
        scores = xp.where(columns == best[-1], taken, scores)
        best.append(xp.argmax(scores, axis=1)[:, None])
    # The last of them is the lowest of all.
    return None if bool(xp.any(xp.max(scores, axis=1) == -xp.inf)) else xp.concat(best, axis=1)
