"""Labels on the host, for a model that may be on a device: nothing has to be fetched to predict."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.labels import placed_labels
from ..linalg.arrays import Array, is_device_array, namespace, to_numpy


@dataclass(frozen=True, eq=False)
class KnownLabels:
    """Labels of the candidates, and of the classes that had samples."""

    candidates: np.ndarray
    seen: np.ndarray

    @property
    def is_seen(self) -> np.ndarray:
        """Which of the candidates had samples."""
        return np.isin(self.candidates, self.seen)

    def at(self, positions: Array) -> Array:
        """Return the candidates at these positions.

        Where labels are numbers they come in the place of the positions, otherwise on the host.
        """
        labels = placed_labels(self.candidates, positions)
        if not is_device_array(labels):
            return labels[to_numpy(positions)]
        xp = namespace(positions)
        flat = xp.take(labels, xp.reshape(positions, (-1,)), axis=0)
        return xp.reshape(flat, positions.shape)
