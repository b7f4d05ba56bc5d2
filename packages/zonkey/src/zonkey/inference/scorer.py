"""Score samples: one frozen `Scorer` per fitted model, mostly by squared distances to centers.

`fit` fixes everything that prediction reads: candidates, scores, penalty and temperature.
Parameters that are set later have no effect before the next `fit`, except those of the rejection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
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
    squared_distances,
    to_numpy,
)
from ..config import rows_per_block
from ..labels import format_value, place_labels, warn_user
from ..persistence.checks import require_labels, require_number, require_shape, require_that
from ..prototypes import Prototypes
from ..threads import multiply
from ..tree import Tree
from .nodes import choose_nodes

_KEPT = "_kept"  # the scores in another dtype
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

    def subtract(self, penalties: Any) -> LinearScores:
        """Return the scores less a penalty of each class."""
        constants = self.constants
        if not is_device_array(penalties):  # not every device has float64
            penalties = np.asarray(penalties, dtype_like(constants.dtype, np.empty(0)))
        placed = namespace(constants).astype(place_like(penalties, constants), constants.dtype)
        return replace(self, constants=constants + placed)

    def check_finite(self, W: Array | None = None) -> LinearScores:
        """Return the scores; refuse infinite ones. W, if given, is the projection behind them."""
        if not has_only_finite(self.constants) or (W is not None and not has_only_finite(W)):
            raise ValueError(
                "Centers of classes must be finite, and so must their squares; in "
                f"{self.constants.dtype} they are not. Scale samples and prototypes to a similar "
                "size, or fit on float64."
            )
        return self

    def check(self, W: Array | None = None) -> LinearScores:
        """Return the scores; refuse infinite ones, and warn if they are the same for all."""
        self.check_finite(W)
        xp = namespace(self.centers)
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

        def move(M: Array) -> Array:
            return xp.astype(place_like(M, X), X.dtype, copy=False)

        M = None if self.M is None else move(self.M)
        form = LinearScores(move(self.centers), move(self.constants), M)
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
        rows = rows_per_block(4 * max(form.centers.shape[0], X.shape[1]))
        for start in range(0, X.shape[0], rows):
            block = X[start : min(start + rows, X.shape[0]), :]
            block = block if form.M is None else multiply(block, form.M)
            # Without ||x||^2, which is the same for all candidates: in float32 it would cancel the
            # digits that distinguish them.
            scores = multiply(2 * block, turned)
            scores -= form.constants
            yield scores


@dataclass(frozen=True, eq=False)
class NearestReferences:
    """Minus the squared distance to the nearest reference of each class.

    `codes` are the columns of the references.
    """

    references: Array
    codes: Array
    n_classes: int

    def blocks(self, X: Array) -> Iterator[Array]:
        """Yield the scores of all rows of X."""
        references = namespace(X).astype(place_like(self.references, X), X.dtype, copy=False)
        codes = place_like(self.codes, X)
        origin = find_central(references)
        distances = squared_distances(X - origin, references - origin)
        yield -_find_nearest(distances, codes, self.n_classes)


def find_central(references: Array) -> Array:
    """Return the reference nearest to their mean, to measure from.

    Far from the origin, the squared lengths of samples and references would cancel the digits of
    their distances. Unlike the mean, a reference keeps integers exact, and so keeps equal distances
    equal.
    """
    xp = namespace(references)
    apart = references - xp.mean(references, axis=0)
    return references[int(xp.argmin(xp.sum(apart * apart, axis=1))), :]


def _find_nearest(distances: Array, codes: Any, n_classes: int) -> Array:
    """Return the smallest distance to a reference of each class."""
    xp = namespace(distances)
    if not is_device_array(distances):
        return np.stack([distances[:, codes == j].min(axis=1) for j in range(n_classes)], axis=1)
    far = xp.full_like(distances, xp.inf)
    of_class = [
        xp.min(xp.where((codes == j)[None, :], distances, far), axis=1) for j in range(n_classes)
    ]
    return xp.stack(of_class, axis=1)


@dataclass(frozen=True)
class Rejection:
    """Which predictions are replaced by a label for "none of these".

    `below` is the lowest accepted probability, None if all are accepted. `label` None denotes
    "unknown" or -1. With a tree, the deepest node that is accepted is the answer before it.
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


@dataclass(frozen=True, eq=False)
class Independence:
    """That any number of candidates may apply to a sample: scores are log odds above a threshold.

    `thresholds` are log odds of each label to be marked, and `chances` those that a label is marked
    where it applies: 1, unless labels that are not marked are unknown.
    """

    thresholds: np.ndarray
    chances: np.ndarray

    def probabilities(self, scores: Array) -> Array:
        """Return the probability of each label."""
        xp = namespace(scores)
        thresholds, chances = (
            xp.astype(place_like(part, scores), scores.dtype)[None, :]
            for part in (self.thresholds, self.chances)
        )
        odds = scores + thresholds
        small = xp.exp(-xp.abs(odds))
        marked = xp.where(odds > 0, xp.ones_like(odds), small) / (1 + small)
        return xp.minimum(marked / chances, xp.ones_like(odds))


_NOTHING = np.empty(0)
# Fields stored in files; the functions are those of the model.
_STORED = ("labels", "form", "penalties", "seen", "candidates", "prototypes", "one_hot")


@dataclass(frozen=True, eq=False)
class Scorer:
    """Everything that prediction reads. Labels are on the host."""

    labels: np.ndarray  # candidates, in the order of the columns of the scores
    # How vectors are compared with candidates, less the penalties; None if only `compute` can tell.
    form: LinearScores | NearestReferences | None = None
    penalties: Any = field(default_factory=lambda: _NOTHING)  # subtracted from the scores
    seen: np.ndarray = field(default_factory=lambda: _NOTHING)  # known classes with samples
    candidates: Any = "all"  # the parameter at `fit`: text or labels
    # Of the candidates, if scores of classes follow from prototypes alone.
    prototypes: Prototypes | None = None
    one_hot: bool = False  # whether prototypes are one-hot vectors, because none were given
    temperature: float | None = None  # divisor before the softmax; None without probabilities
    rejection: Rejection = Rejection(None, None)  # which predictions are replaced
    has_centers: bool = True  # whether scores compare distances to centers
    tree: Tree | None = None  # whose leaves are the candidates
    independence: Independence | None = None  # None: one candidate applies to each sample
    # Maps samples to the vectors that are compared; None if these are the samples.
    transform: Callable[[Array], Array] | None = None
    # Returns the scores of any prototypes in any dtype, without penalties.
    compare: Callable[[Prototypes, Any], LinearScores] | None = None
    # Yields the scores of samples, given `form` and the samples, if `form` alone does not.
    compute: Callable[[Any, Array], Iterator[Array]] | None = None

    def __zonkey_parts__(self) -> dict[str, Any]:
        parts = {name: getattr(self, name) for name in _STORED}
        if not isinstance(self.candidates, str):
            parts["candidates"] = np.asarray(self.candidates)
        return parts

    @classmethod
    def __zonkey_upgrade__(cls, parts: dict[str, Any]) -> dict[str, Any]:
        """Translate a `Decision` of older files, which had one penalty for all seen classes."""
        if "known" not in parts:
            return parts
        require_number("penalty", parts["penalty"])
        penalties = parts["penalty"] * np.isin(parts["labels"], parts["seen"])
        found = {name: parts[name] for name in ("labels", "seen", "candidates", "one_hot")}
        return {
            **found,
            "form": parts["scores"],
            "prototypes": parts["known"],
            "penalties": penalties,
        }

    def __zonkey_validate__(self) -> None:
        require_labels("seen", self.seen)
        require_labels("labels", self.labels)
        require_shape("penalties", self.penalties, len(self.labels))
        known = self.prototypes
        same = known is not None and np.array_equal(known.labels, self.labels)
        require_that(same, "The candidates and their prototypes must be the same classes.")
        form: Any = self.form
        require_that(isinstance(form, LinearScores), "The scores of the classes are missing.")
        n_rows = form.centers.shape[0]
        require_that(n_rows == len(self.labels), "The scores must have a row for each class.")

    @property
    def is_linear(self) -> bool:
        """Whether scores are linear in the output of `transform`."""
        return isinstance(self.form, LinearScores) and self.compute is None

    def blocks(self, X: Array) -> Iterator[Array]:
        """Yield the scores of all rows of X, in one or more blocks of rows."""
        form = self.form
        if isinstance(form, LinearScores):
            form = self.linear_in(X.dtype)
        if self.compute is not None:
            return self.compute(form, X)
        assert form is not None
        return form.blocks(self.map_samples(X))

    def finite_blocks(self, X: Array) -> Iterator[Array]:
        """Yield the same scores; refuse samples so large that some are not finite."""
        blocks: Iterator[Array] | None = None
        is_finite: Any = True
        while True:
            with np.errstate(over="ignore", invalid="ignore"):  # it must not outlast a `yield`
                blocks = self.blocks(X) if blocks is None else blocks
                scores = next(blocks, None)
                is_finite = is_finite if scores is None else is_finite & _is_finite(scores)
            # A device is awaited only once, at the end.
            if (scores is None or not is_device_array(scores)) and not bool(is_finite):
                largest = float(namespace(X).max(namespace(X).abs(X)))
                raise ValueError(
                    "Scores of samples must be finite; some are not, because X has values up to "
                    f"{largest:.3g}. Scale X in the same way as the training samples."
                )
            if scores is None:
                return
            yield scores

    @property
    def names(self) -> np.ndarray:
        """Labels of all answers but that of rejected samples: candidates or nodes of the tree."""
        return self.labels if self.tree is None else self.tree.nodes

    def predict(self, X: Array, level: int | None = None) -> Array:
        """Return the best candidate of each row, or the label of rejected samples.

        With a tree, it is the best node at a level, or the deepest that is not rejected.
        """
        xp, rejects = namespace(X), self.rejection.below is not None
        if self.tree is not None and (rejects or level is not None):
            return self._predict_nodes(self.tree, X, level)
        best, highest = [], []
        for scores in self.finite_blocks(X):
            best.append(xp.argmax(scores, axis=1))
            if rejects:
                highest.append(xp.max(self.probabilities(scores), axis=1))
        predicted = labels_at(self.labels, xp.concat(best))
        if not rejects:
            return predicted
        return self.rejection.apply(
            predicted, xp.concat(highest) < self.rejection.below, self.labels
        )

    def _predict_nodes(self, tree: Tree, X: Array, level: int | None) -> Array:
        found, below = [], self.rejection.below
        for scores in self.finite_blocks(X):
            found.append(choose_nodes(tree, softmax(scores / self.temperature), level, below))
        rows, refused = (namespace(X).concat(parts) for parts in zip(*found, strict=True))
        predicted = labels_at(tree.nodes, rows)
        return predicted if below is None else self.rejection.apply(predicted, refused, tree.nodes)

    def probabilities(self, scores: Array) -> Array:
        """Return the probability of each candidate."""
        if self.independence is not None:
            return self.independence.probabilities(scores)
        return softmax(scores / self.temperature)

    def reject(self, rejection: Rejection) -> Scorer:
        """Return a scorer that rejects other samples."""
        return self if rejection == self.rejection else replace(self, rejection=rejection)

    def map_samples(self, X: Array) -> Array:
        """Return the vectors that are compared."""
        return X if self.transform is None else self.transform(X)

    def linear_in(self, dtype: Any) -> LinearScores:
        """Return linear scores at full precision of this dtype, where its prototypes allow it."""
        assert isinstance(self.form, LinearScores)
        dtype = dtype_like(dtype, self.form.centers)
        if self.compare is None or self.prototypes is None or dtype == self.form.centers.dtype:
            return self.form
        return self.compare(self.prototypes, dtype).subtract(self.penalties)

    def compare_also(self, prototypes: Prototypes, dtype: Any) -> Scorer:
        """Return a scorer of other classes, which have these prototypes and no penalty."""
        assert isinstance(self.form, LinearScores)
        assert self.compare is not None
        form = self.compare(prototypes, dtype_like(dtype, self.form.centers))
        labels = prototypes.labels
        return replace(
            self,
            labels=labels,
            form=form,
            penalties=np.zeros(len(labels)),
            seen=labels[:0],
            prototypes=prototypes,
        )


def unwrap(model: Any) -> tuple[Any, Any]:
    """Return the preprocessing of a fitted pipeline, None if there is none, and its last step."""
    if not isinstance(model, Pipeline):
        return None, model
    steps, last = model[:-1], model[-1]
    return (steps if len(steps) else None), last


def find_scorer(model: Any) -> Scorer | None:
    """Return the scorer of a model, which must be fitted; None if models of its kind have none."""
    if hasattr(type(model), "scorer_"):
        check_is_fitted(model, "classes_")
    return getattr(model, "scorer_", None)


def _is_finite(scores: Any) -> Any:
    """Return whether all scores are finite, as a truth value on their device."""
    if is_device_array(scores):
        xp = namespace(scores)
        return xp.all(xp.isfinite(scores))
    # A sum is several times faster than a mask, but it may overflow.
    return bool(np.isfinite(scores.sum())) or bool(np.isfinite(scores).all())


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
