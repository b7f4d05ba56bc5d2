"""CandidateIndex: approximate predictions among very many candidates.

Every model here scores 2 z'c_j - b_j with centers c_j. With offsets o_j = b_j - ||c_j||^2,

    2 z'c_j - b_j = ||z||^2 + min o - ||(z, 0) - (c_j, sqrt(o_j - min o))||^2,

so the best candidates are the nearest neighbors of a sample in one more dimension. An inverted file
finds them: candidates are divided into cells by k-means, and only the cells nearest to a sample are
searched.
"""

from __future__ import annotations

import copy
import math
from numbers import Real
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from ..arrays import namespace, place_like, to_numpy
from ..config import rows_per_block
from ..constraints import check_top, validate_samples
from ..labels import format_value
from ..optional import require_package
from ..streaming.accept import accept_chunks
from ..threads import LimitThreadsMixin
from .scorer import LinearScores, Scorer, best_columns, find_scorer

_PER_CELL = 39  # candidates, at least: k-means needs them
_ROUNDS = 10  # of k-means
_SEED = 0
_CELLS, _SHARE = 32, 0.1  # searched by default: the larger of the two
# float32 distinguishes squared distances to 1e-7. Of samples further away, in units of the spread
# of the candidates, too few digits would be left to distinguish candidates.
_FAR = 100.0


class CandidateIndex(LimitThreadsMixin):
    """An index of the candidates of a fitted model, for approximate predictions among very many.

    A prediction compares a sample with the candidates in the cells nearest to it only. There are
    about as many cells as the square root of the number of candidates. The best of the found
    candidates are scored as the model scores them. Samples very far from all candidates are
    compared with all of them, so they take as long as with the model.

    The share of the best candidates that is found depends on the data: use `recall`. On generated
    data with 3,000 and 10,000 candidates, `ZeroShotClassifier` and `AnyShotClassifier`, and
    prototypes of 8 to 100 dimensions, the default found the best one for at least 97% of the
    samples. Of the five best it found at least 85%; if prototypes form groups, all of them.

    An index pays off from tens of thousands of candidates on: with 10,000, the model itself is
    faster if it scores many samples at once.

    The same model gives the same index. Later changes of the model do not affect an index.

    Needs faiss: the extra ``zonkey[index]``.

    Parameters
    ----------
    model : estimator
        Fitted `AnyShotClassifier`, `ZeroShotClassifier`, `FewShotClassifier`, or a Pipeline that
        ends in one. It must not reject samples: a probability needs the scores of all candidates.
    effort : float, default=None
        Share of the cells that are searched, in (0, 1]. 1 searches all of them: the exact answer,
        up to rounding. None: a tenth of them, and at least 32 cells.

    Attributes
    ----------
    classes_ : ndarray of shape (n_candidates,)
        The candidates of the model.
    n_cells_ : int
        Number of cells.

    See Also
    --------
    AnyShotClassifier : `predict_top` is exact, in blocks of bounded memory.

    Examples
    --------
    >>> import numpy as np
    >>> from zonkey import AnyShotClassifier, CandidateIndex
    >>> prototypes = {j: [np.cos(j), np.sin(j)] for j in range(200)}
    >>> y = np.arange(50)
    >>> X = np.array([prototypes[j] for j in y])
    >>> model = AnyShotClassifier(prototypes, preprocessing=None).fit(X, y)
    >>> index = CandidateIndex(model, effort=0.5)
    >>> index.predict(X[:2]).shape, index.predict_top(X[:2], k=3).shape
    ((2,), (2, 3))
    """

    def __init__(self, model: Any, *, effort: float | None = None) -> None:
        _check_effort(effort)
        self.model = model
        self.effort = effort
        self._chain = _copy_steps(model)
        names = getattr(self._chain[0], "feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = names
        self._scorer = _read_scorer(self._chain[-1])
        self.classes_ = self._scorer.labels
        self._forms: dict[Any, LinearScores] = {}  # on the host, by the dtype of samples
        self._middle, self._spread, points = _as_points(_to_host(self._scorer.form))
        q, width = points.shape
        self.n_cells_ = max(1, min(math.isqrt(q), q // _PER_CELL))
        self._index = _faiss().index_factory(width, f"IVF{self.n_cells_},Flat")
        clustering = self._index.cp
        clustering.niter, clustering.seed = _ROUNDS, _SEED
        clustering.min_points_per_centroid = 1  # a single cell may have fewer than k-means requires
        self._index.train(points)
        self._index.add(points)

    @accept_chunks
    def predict(self, X: Any) -> np.ndarray:
        """Predict the class of each sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predicted labels; `recall` measures how many of them are those of the model.
        """
        return self.classes_[self._found(X, 1)[:, 0]]

    @accept_chunks
    def predict_top(self, X: Any, k: int | None = None) -> np.ndarray:
        """Return about the `k` best candidates of each sample, best first.

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
        return self.classes_[self._found(X, check_top(k, len(self.classes_)))]

    def recall(self, X: Any, k: int = 1) -> float:
        """Measure the agreement with the model, as it was when the index was made.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples like those to predict; a few hundred are enough.
        k : int, default=1
            Number of best candidates to compare.

        Returns
        -------
        float
            Share of the `k` best candidates of the model that `predict_top` finds.
        """
        k = check_top(k, len(self.classes_))
        exact = self.classes_[self._compare_with_all(self._validate(X), k)]
        found = self.predict_top(X, k)
        return float(np.mean([np.isin(a, b).mean() for a, b in zip(exact, found, strict=True)]))

    def _validate(self, X: Any) -> Any:
        """Return samples as the last step of the model takes them."""
        steps = [*self._chain]
        if hasattr(steps[0], "feature_names_in_") and not hasattr(self, "feature_names_in_"):
            # `accept_chunks` compared the names: chunks are arrays.
            steps[0] = copy.copy(steps[0])
            del steps[0].feature_names_in_
        for step in steps[:-1]:
            X = step.transform(X)
        return validate_samples(steps[-1], X, reset=False)

    def _found(self, X: Any, k: int) -> np.ndarray:
        """Return the positions of the k best candidates of each sample."""
        X = self._validate(X)
        Z = to_numpy(self._scorer.map_samples(X))
        form = self._linear_in(Z.dtype)
        found = np.full((len(Z), k), -1)
        several = min(len(self.classes_), max(2 * k, k + 8))
        size = rows_per_block(16 * several * Z.shape[1])
        for start in range(0, len(Z), size):
            rows = np.arange(start, min(start + size, len(Z)))
            block = Z[rows] if form.M is None else Z[rows] @ form.M
            away = block - self._middle
            with np.errstate(over="ignore", invalid="ignore"):
                lengths = np.einsum("ij,ij->i", away, away)
            near = lengths <= (_FAR * self._spread) ** 2
            if near.any():
                neighbors = self._neighbors(away[near], several)
                found[rows[near]] = _pick_best(neighbors, block[near], form, k)
        far = np.flatnonzero(found[:, 0] < 0)
        if len(far):
            rows = namespace(X).take(X, place_like(far, X), axis=0)
            found[far] = self._compare_with_all(rows, k)
        return found

    def _neighbors(self, away: np.ndarray, k: int) -> np.ndarray:
        """Return the positions of about the k nearest candidates of each sample, ascending."""
        Z = np.pad(away.astype(np.float32), ((0, 0), (0, 1)))
        found = self._find_nearest(Z, k, self._count_searched())
        few = (found < 0).any(axis=1)  # cells with fewer than k candidates
        if few.any():
            found[few] = self._find_nearest(Z[few], k, self.n_cells_)
        return np.sort(found, axis=1)

    def _count_searched(self) -> int:
        if self.effort is not None:
            return math.ceil(self.effort * self.n_cells_)
        return min(self.n_cells_, max(_CELLS, math.ceil(_SHARE * self.n_cells_)))

    def _find_nearest(self, Z: np.ndarray, k: int, n_cells: int) -> np.ndarray:
        options = _faiss().SearchParametersIVF(nprobe=n_cells)
        return self._index.search(Z, k, params=options)[1]

    def _linear_in(self, dtype: Any) -> LinearScores:
        """Return the scores with all digits of a dtype."""
        if dtype not in self._forms:
            self._forms[dtype] = _to_host(self._scorer.linear_in(dtype))
        return self._forms[dtype].like(np.empty((0, 0), dtype))

    def _compare_with_all(self, X: Any, k: int) -> np.ndarray:
        blocks = self._scorer.finite_blocks(X)
        return np.concatenate([to_numpy(best_columns(scores, k)) for scores in blocks])


def _check_effort(effort: Any) -> None:
    is_number = isinstance(effort, Real) and not isinstance(effort, bool)
    if effort is not None and not (is_number and 0 < float(effort) <= 1):
        raise ValueError(
            f"`effort` must be None or a number in (0, 1]; got {format_value(effort)}. 1 searches "
            "all cells; choose less by `recall` on samples like those to come."
        )


def _copy_steps(model: Any) -> list[Any]:
    """Return the steps of a pipeline, or the model, as they are now.

    `fit` and `partial_fit` set attributes anew, so that shallow copies stay as they are.
    """
    *steps, last = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    steps = [step for step in steps if step not in (None, "passthrough")]
    return [copy.copy(step) for step in (*steps, last)]


def _pick_best(found: np.ndarray, Z: np.ndarray, form: LinearScores, k: int) -> np.ndarray:
    """Return the k best of the found candidates, by their scores in the dtype of Z."""
    scores = (form.centers[found] @ (2 * Z)[:, :, None])[:, :, 0] - form.constants[found]
    return np.take_along_axis(found, to_numpy(best_columns(scores, k)), axis=1)


def _read_scorer(model: Any) -> Scorer:
    """Return the scorer of a fitted model, whose scores are linear."""
    scorer = find_scorer(model)
    if scorer is None or not scorer.is_linear or scorer.independence is not None:
        raise TypeError(
            "`model` must be an AnyShotClassifier, a ZeroShotClassifier, a FewShotClassifier, or a "
            f"Pipeline that ends in one; got {type(model).__name__}. Use `predict_top` of the "
            "model."
        )
    if scorer.rejection.below is not None:
        raise ValueError(
            "The model of an index must not reject samples, because probabilities need the "
            f"scores of all candidates; got reject_below={scorer.rejection.below}. Fit with "
            "reject_below=None."
        )
    return scorer


def _to_host(scores: Any) -> LinearScores:
    M = None if scores.M is None else to_numpy(scores.M)
    return LinearScores(to_numpy(scores.centers), to_numpy(scores.constants), M)


def _as_points(scores: LinearScores) -> tuple[np.ndarray, float, np.ndarray]:
    """Return the mean of the centers, their spread, and points relative to the mean in float32.

    The nearest neighbors among these points have the highest scores.
    """
    centers = np.asarray(scores.centers, np.float64)
    offsets = scores.constants - np.einsum("ij,ij->i", centers, centers)
    middle = centers.mean(axis=0)
    centers = centers - middle
    spread = math.sqrt(np.einsum("ij,ij->", centers, centers) / len(centers))
    points = np.empty((len(centers), centers.shape[1] + 1), np.float32)
    points[:, :-1] = centers
    points[:, -1] = np.sqrt(offsets - offsets.min())
    return middle, spread, points


def _faiss() -> Any:
    return require_package("faiss", "CandidateIndex")
