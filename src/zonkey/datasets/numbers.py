"""Handwritten two-digit numbers: a hundred classes, some of which are never seen in training.

Built from the handwritten digits that scikit-learn ships (UCI optical recognition of
handwritten digits; E. Alpaydin and C. Kaynak), two pictures side by side, so that nothing has
to be downloaded. What describes a class is what everyone knows of it: "47" is a four and a
seven. A model that has met 40 to 46 and 17 to 97 has met both, and never a 47.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.utils import check_random_state

from ..core.prototypes import Prototypes

IMAGE_SHAPE = (8, 16)


@dataclass(frozen=True, eq=False)
class TwoDigitNumbers:
    """Samples of seen classes to train on, and of all classes to test on.

    Attributes
    ----------
    X_train, y_train : ndarray of shape (n, 128) and (n,)
        Pictures of 8 x 16 pixels in [0, 1], and labels "00" to "99", of seen classes.
    X_test, y_test : ndarray
        The same for all classes, from other handwriting than the training pictures.
    prototypes : Prototypes
        20 numbers a class: which first digit, which second digit.
    unseen_classes : ndarray
        Labels without a training sample.
    """

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    prototypes: Prototypes
    unseen_classes: np.ndarray

    @property
    def is_unseen(self) -> np.ndarray:
        """Which test samples are of unseen classes."""
        return np.isin(self.y_test, self.unseen_classes)

    @property
    def sha256(self) -> str:
        """Hash of all arrays, to tell in a record which data a figure was computed from."""
        digest = hashlib.sha256()
        for array in (self.X_train, self.X_test, self.prototypes.matrix):
            digest.update(np.ascontiguousarray(array).tobytes())
        for labels in (self.y_train, self.y_test, self.unseen_classes):
            digest.update("\n".join(labels.tolist()).encode())
        return digest.hexdigest()


def load_two_digit_numbers(
    *, n_unseen: int = 25, n_train: int = 40, n_test: int = 20, random_state: int | None = 0
) -> TwoDigitNumbers:
    """Compose the data set.

    Parameters
    ----------
    n_unseen : int, default=25
        How many of the hundred classes, drawn at random, have no training sample.
    n_train, n_test : int, default=40 and 20
        Samples a class. Half of the handwritten digits serve for training, half for test.
    random_state : int or None, default=0
        Which classes are unseen and which pictures are joined.

    Examples
    --------
    >>> data = load_two_digit_numbers(n_unseen=30, n_train=5, n_test=2)
    >>> data.X_train.shape, data.X_test.shape, len(data.unseen_classes)
    ((350, 128), (200, 128), 30)
    """
    if not 1 <= n_unseen <= 98:
        raise ValueError(
            f"`n_unseen` must leave at least two of the hundred classes seen; got {n_unseen}. "
            "Choose 1 to 98."
        )
    rng = check_random_state(random_state)
    labels = np.array([f"{number:02d}" for number in range(100)])
    unseen = np.sort(rng.permutation(labels)[:n_unseen])
    digits: Any = load_digits()
    order = rng.permutation(len(digits.images))
    for_training, for_test = np.array_split(order, 2)
    X_train, y_train = _compose(digits, for_training, np.setdiff1d(labels, unseen), n_train, rng)
    X_test, y_test = _compose(digits, for_test, labels, n_test, rng)
    return TwoDigitNumbers(X_train, y_train, X_test, y_test, _prototypes(labels), unseen)


def _compose(
    digits: Any, pool: np.ndarray, labels: np.ndarray, n: int, rng: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray]:
    """Join n random pairs of pictures for each label."""
    of_digit = [pool[digits.target[pool] == digit] for digit in range(10)]
    pictures = []
    for label in labels:
        halves = [digits.images[rng.choice(of_digit[int(digit)], n)] for digit in label]
        pictures.append(np.concatenate(halves, axis=2).reshape(n, -1) / 16.0)
    return np.concatenate(pictures), np.repeat(labels, n)


def _prototypes(labels: np.ndarray) -> Prototypes:
    axes = np.eye(10)
    rows = [np.concatenate([axes[int(first)], axes[int(second)]]) for first, second in labels]
    return Prototypes(labels, np.stack(rows))
