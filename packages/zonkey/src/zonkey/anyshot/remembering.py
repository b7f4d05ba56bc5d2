"""Remember which samples a model has learned, so that none is learned twice.

Tables of labels are edited, sent around and learned again. A model keeps a hash of the id of each
sample that it learned by `learn_once`, 8 bytes, and its label.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from ..hashing import hash_object
from ..persistence.checks import require_labels, require_shape, require_that


@dataclass(frozen=True, eq=False)
class Remembered:
    """Samples that were learned: sorted keys, and their labels by position."""

    keys: np.ndarray
    codes: np.ndarray
    labels: np.ndarray  # sorted

    def __zonkey_validate__(self) -> None:
        require_labels("remembered/labels", self.labels)
        require_shape("remembered/keys", self.keys, None, kinds="u")
        require_shape("remembered/codes", self.codes, len(self.keys), kinds="i")
        fits = (self.keys[1:] > self.keys[:-1]).all()
        fits = fits and ((self.codes >= 0) & (self.codes < len(self.labels))).all()
        require_that(fits, "The remembered samples contradict their labels.")

    @classmethod
    def make(cls, keys: np.ndarray, y: np.ndarray) -> Self:
        """Remember samples with distinct keys."""
        labels, codes = np.unique(y, return_inverse=True)
        order = np.argsort(keys)
        return cls(keys[order], codes[order].astype(np.int64), labels)

    def forget(self, labels: np.ndarray) -> Self:
        """Return the samples that do not have one of these labels."""
        kept = ~np.isin(self.labels, labels)[self.codes]
        return replace(self, keys=self.keys[kept], codes=self.codes[kept])

    def find(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which keys are known, and the labels of those."""
        places = np.searchsorted(self.keys, keys)
        places[places == len(self.keys)] = 0
        known = self.keys[places] == keys if len(self.keys) else np.zeros(len(keys), bool)
        return known, self.labels[self.codes[places[known]]]

    def add(self, keys: np.ndarray, y: np.ndarray) -> Self:
        """Return these samples and further ones."""
        y = np.concatenate([self.labels[self.codes], y])
        return self.make(np.concatenate([self.keys, keys]), y)


def hash_id(name: Any) -> int:
    """Return the key of a sample."""
    return int(hash_object(str(name))[:16], 16)
