"""The simplest zero-shot system: the class whose prototype has the largest cosine."""

from __future__ import annotations

from typing import Any

import numpy as np

from zonkey.arrays import Array
from zonkey.inference.scorer import LinearScores
from zonkey.parameters import Flag
from zonkey.prototypes import Prototypes

from ..peers.base import attribute, parameter
from ..peers.zsl.base import PeerTask, SamplePeer, refuse_method


class NearestPrototype(SamplePeer):
    """Cosine similarity of samples and prototypes, which are vectors of one space.

    Nothing is learned but two means: samples and prototypes of a joint space, such as that of an
    encoder of pictures and texts, may lie around different points.

    Parameters
    ----------
    centered : bool, default=True
        Whether the mean of the training samples is subtracted from samples, and the mean of the
        prototypes of seen classes from prototypes, before they are compared.

    Attributes
    ----------
    means_ : ndarray of shape (2, n_features)
        Means of the samples, and of the prototypes of seen classes.

    See Also
    --------
    zonkey.AnyShotClassifier : With ``space="joint"`` it learns where prototypes lie among samples.

    Examples
    --------
    >>> from zonkey_lab.compare.simple import NearestPrototype
    >>> prototypes = {"horse": [0, 1], "tiger": [1, 0], "zebra": [1, 1]}
    >>> model = NearestPrototype(prototypes, centered=False, candidates="all")
    >>> model.fit([[0, 2], [3, 0]], ["horse", "tiger"]).predict([[0.8, 0.9]])
    array(['zebra'], dtype='<U5')
    """

    centered: bool = parameter(default=True, within=Flag("Use True, unless vectors are centered."))

    _compares_distances = False
    project = refuse_method("Prototypes are not moved to the space of the samples.")
    embed = refuse_method("Samples are not moved to the space of the prototypes.")

    means_: np.ndarray = attribute()
    _shift: float = attribute()

    def _learn(self, task: PeerTask) -> dict[str, Any]:
        d, k = task.X.shape[1], task.Y.shape[1]
        if d != k:
            raise ValueError(
                "Samples and prototypes must be vectors of one space to be compared; samples have "
                f"{d} features and prototypes {k}. Use a system that learns how they are related."
            )
        means = np.stack([task.X.mean(axis=0, dtype=np.float64), task.Y.mean(axis=0)])
        return {"means_": means.astype(task.X.dtype), "_shift": float(self.centered)}

    def _map_samples(self, X: Array) -> Array:
        return _scale(X - self._shift * self.means_[0].astype(X.dtype, copy=False))

    def _linear_scores(self, known: Prototypes, dtype: Any) -> LinearScores:
        Y = _scale(
            known.matrix.astype(np.float64) - self._shift * self.means_[1].astype(np.float64)
        )
        return LinearScores(Y.astype(dtype) / 2, np.zeros(len(Y), dtype))

    def _get_learned(self) -> np.ndarray:
        return self.means_


def _scale(rows: Any) -> Any:
    """Return rows of unit length; rows of zeros stay."""
    lengths = np.sqrt(np.sum(rows * rows, axis=1, keepdims=True))
    return rows / np.where(lengths > 0, lengths, 1)


# The entry point `zonkey.models`: classes that files may hold, by name.
CLASSES: dict[str, type] = {NearestPrototype.__name__: NearestPrototype}
