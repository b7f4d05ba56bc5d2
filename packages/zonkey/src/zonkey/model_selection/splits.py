"""Cross-validation folds that hold out whole classes, for zero-shot learning."""

from collections.abc import Generator
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import assert_all_finite, column_or_1d, indexable

from ..constraints import plain_labels
from ..hold_out import fold_classes

TrainTest = tuple[NDArray[np.intp], NDArray[np.intp]]


class ClassKFold(BaseCrossValidator):
    """K-fold cross-validation over classes: test classes are absent from training.

    Every class is in exactly one test fold. The numbers of classes in two test folds differ by at
    most one; the numbers of samples may differ more. Folds are invariant to sample order.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2 and at most the number of classes.
    shuffle : bool, default=False
        Whether to assign classes to folds at random. False keeps their sorted order.
    random_state : int, RandomState instance or None, default=None
        Seed of the random assignment; an int gives the same folds on every call.

    See Also
    --------
    ZeroShotSearchCV : Fast grid search over such folds.
    sklearn.model_selection.GroupKFold : With ``groups=y`` it balances the numbers of samples
        instead of the numbers of classes.

    Examples
    --------
    >>> from zonkey.model_selection import ClassKFold
    >>> y = ["cat", "owl", "cat", "fox", "ant"]
    >>> for train, test in ClassKFold(n_splits=2).split(y, y):
    ...     print(train, test)
    [1 3] [0 2 4]
    [0 2 4] [1 3]
    """

    def __init__(
        self,
        n_splits: int = 5,
        *,
        shuffle: bool = False,
        random_state: int | RandomState | None = None,
    ) -> None:
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state

    def split(
        self, X: ArrayLike, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Generator[TrainTest, None, None]:
        """Return an iterator over the training and test indices of each fold.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples; only their number is used.
        y : array-like of shape (n_samples,), default=None
            Labels. Required.
        groups : object, default=None
            Ignored; present for compatibility.

        Returns
        -------
        iterator of (train, test)
            Sorted indices, `n_splits` times. Invalid input is rejected at once, not on iteration.
        """
        if y is None:
            raise ValueError(
                "ClassKFold.split needs y, since its folds are made of classes; got None. "
                "Call split(X, y)."
            )
        _, y, _ = indexable(X, y, groups)
        classes, class_of = _classes_of(y)
        if classes.size < self.n_splits:
            raise ValueError(
                f"ClassKFold needs at least one class for each of its n_splits={self.n_splits} "
                f"folds, got {classes.size} class(es) in y. Lower n_splits or add classes."
            )
        in_test = fold_classes(class_of, self.n_splits, self.random_state, shuffle=self.shuffle)
        return ((np.flatnonzero(~mask), np.flatnonzero(mask)) for mask in in_test)

    def get_n_splits(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        X: Any = None,  # noqa: ARG002
        y: Any = None,  # noqa: ARG002
        groups: Any = None,  # noqa: ARG002
    ) -> int:
        """Return the number of folds.

        Parameters
        ----------
        X, y, groups : object, default=None
            Ignored; present for compatibility.

        Returns
        -------
        int
            Value of `n_splits`.
        """
        return self.n_splits


def _classes_of(y: Any) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the sorted classes and the position of each sample's class among them."""
    labels = column_or_1d(plain_labels(y))
    assert_all_finite(labels, input_name="y")
    return np.unique(labels, return_inverse=True)
