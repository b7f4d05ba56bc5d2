"""Hold out whole classes, in folds or at random, and some samples of the others by their hash."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import KFold


def fold_classes(
    class_of: np.ndarray, n_folds: int, random_state: Any = None, *, shuffle: bool = True
) -> Iterator[np.ndarray]:
    """Return masks of the samples of held-out classes, one per fold; each class is held out once.

    `class_of` holds the position of each sample's class among the sorted classes, whose numbers in
    two folds differ by at most one.
    """
    folds = KFold(n_folds, shuffle=shuffle, random_state=random_state)
    n_classes = int(class_of.max()) + 1
    return (np.isin(class_of, held) for _, held in folds.split(np.empty(n_classes)))


def draw_classes(classes: int | np.ndarray, share: float, seed: int) -> np.ndarray:
    """Return the classes to hold out: a share of all, at least two."""
    order = np.random.default_rng(seed).permutation(classes)
    return order[: max(2, round(share * len(order)))]


def rank_distinct(class_of: np.ndarray, priorities: np.ndarray) -> np.ndarray:
    """Return the rank of each sample within its class, by priority; copies share their rank."""
    order = np.lexsort((priorities, class_of))
    codes, sorted_priorities = class_of[order], priorities[order]
    is_new = np.ones(len(order), bool)
    is_new[1:] = (np.diff(codes) != 0) | (sorted_priorities[1:] != sorted_priorities[:-1])
    rank = np.cumsum(is_new) - 1
    rank -= rank[np.searchsorted(codes, codes)]
    found = np.empty(len(order), np.intp)
    found[order] = rank
    return found


def every_nth(class_of: np.ndarray, priorities: np.ndarray, n: int) -> np.ndarray:
    """Return a mask of every n-th sample of each class, by priority; the first one always stays."""
    return rank_distinct(class_of, priorities) % n == 1
