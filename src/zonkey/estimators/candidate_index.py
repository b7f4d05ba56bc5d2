"""CandidateIndex: approximate predictions among very many candidates.

Every model here scores 2 z'c_j - b_j with centers c_j. With offsets o_j = b_j - ||c_j||^2,

    2 z'c_j - b_j = ||z||^2 + min o - ||(z, 0) - (c_j, sqrt(o_j - min o))||^2,

so the best candidates are the nearest neighbors of a sample in one more dimension. An inverted file
finds them: candidates are divided into cells by k-means, and only the cells nearest to a sample are
searched.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..linalg.arrays import Array, to_numpy
from ..validation import check_interval, check_top
from .any_shot import AnyShotClassifier
from .scoring import LinearScores, NearestPrototypeMixin, unwrapped

_PER_CELL = 39  # candidates, at least: k-means needs them
_ROUNDS = 10  # of k-means
_SEED = 0


class CandidateIndex:
    """An index of the candidates of a fitted model, for approximate predictions among very many.

    A prediction compares a sample with the candidates in the cells nearest to it only. There are
    about as many cells as the square root of the number of candidates. The same model gives the
    same index. It does not follow later changes of the model.

    Needs faiss: the extra ``zonkey[index]``.

    Parameters
    ----------
    model : estimator
        Fitted `AnyShotClassifier`, `ZeroShotClassifier`, `FewShotClassifier`, or a Pipeline that
        ends in one. It must not reject samples: a probability needs the scores of all candidates.
    effort : float, default=0.05
        Share of the cells that are searched, in (0, 1]. 1 searches all of them: the exact answer.

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

    def __init__(self, model: Any, *, effort: float = 0.05) -> None:
        check_interval("effort", effort, 0, 1, open_below=True)
        self.model = model
        self.effort = effort
        self._steps, self._last = unwrapped(model)
        self._scores, self._prepared = _parts_of(self._last)
        self.classes_ = to_numpy(self._last.classes_)
        points = _as_points(self._scores)
        faiss = _faiss()
        q, width = points.shape
        self.n_cells_ = max(1, min(math.isqrt(q), q // _PER_CELL))
        self._cells = faiss.IndexFlatL2(width)  # the index does not keep it alive
        self._index = faiss.IndexIVFFlat(self._cells, width, self.n_cells_)
        self._index.cp.niter, self._index.cp.seed = _ROUNDS, _SEED
        self._index.train(points)
        self._index.add(points)

    def predict(self, X: Any) -> np.ndarray:
        """Predict the class of each sample.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predicted labels, nearly always those of the model.
        """
        return self.classes_[self._found(X, 1)[:, 0]]

    def predict_top(self, X: Any, k: int | None = None) -> np.ndarray:
        """Return about the `k` best candidates of each sample, best first.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
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
        """Compare with the model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples like those to come; a few hundred are enough.
        k : int, default=1
            Number of best candidates to compare.

        Returns
        -------
        float
            Share of the `k` best candidates of the model that `predict_top` finds.
        """
        k = check_top(k, len(self.classes_))
        exact = to_numpy(self._last.predict_top(self._before(X), k))
        found = self.predict_top(X, k)
        return float(np.mean([np.isin(a, b).mean() for a, b in zip(exact, found, strict=True)]))

    def _found(self, X: Any, k: int) -> np.ndarray:
        """Return the positions of the k nearest candidates of each sample."""
        Z = self._prepared(self._last._validated(self._before(X)))
        M = self._scores.M
        Z = to_numpy(Z) if M is None else to_numpy(Z) @ to_numpy(M)
        Z = np.pad(Z.astype(np.float32), ((0, 0), (0, 1)))
        found = self._searched(Z, k, math.ceil(self.effort * self.n_cells_))
        few = (found < 0).any(axis=1)  # cells with fewer than k candidates
        if few.any():
            found[few] = self._searched(Z[few], k, self.n_cells_)
        return found

    def _before(self, X: Any) -> Any:
        return X if self._steps is None else self._steps.transform(X)

    def _searched(self, Z: np.ndarray, k: int, n_cells: int) -> np.ndarray:
        options = _faiss().SearchParametersIVF(nprobe=n_cells)
        return self._index.search(Z, k, params=options)[1]


def _parts_of(model: Any) -> tuple[LinearScores, Callable[[Any], Array]]:
    """Return the scores of a fitted model, and what turns validated samples into its space."""
    steps = getattr(type(model), "_score_blocks", None)
    if steps not in (AnyShotClassifier._score_blocks, NearestPrototypeMixin._score_blocks):
        raise TypeError(
            "`model` must be an AnyShotClassifier, a ZeroShotClassifier, a FewShotClassifier, or a "
            f"Pipeline that ends in one; got {type(model).__name__}. Use `predict_top` of the "
            "model."
        )
    check_is_fitted(model, "classes_")
    if isinstance(model, AnyShotClassifier):
        if model._rejection.below is not None:
            raise ValueError(
                "The model of an index must not reject samples, because probabilities need the "
                f"scores of all candidates; got reject_below={model._rejection.below}. Fit with "
                "reject_below=None."
            )
        return model._scores, model._prepared
    assert model._decision.scores is not None
    return model._decision.scores, lambda X: X


def _as_points(scores: LinearScores) -> np.ndarray:
    """Return the points whose nearest neighbors have the highest scores, in float32."""
    centers = to_numpy(scores.centers)
    offsets = to_numpy(scores.constants) - np.einsum("ij,ij->i", centers, centers)
    points = np.empty((len(centers), centers.shape[1] + 1), np.float32)
    points[:, :-1] = centers
    points[:, -1] = np.sqrt(offsets - offsets.min())
    return points


def _faiss() -> Any:
    try:
        import faiss
    except ImportError:
        raise ImportError(
            "CandidateIndex needs faiss; install faiss-cpu, or the extra: "
            'pip install "zonkey[index]" (from a clone: pip install ".[index]").'
        ) from None
    return faiss
