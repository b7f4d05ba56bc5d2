"""Choose the penalty of seen classes on held-out training classes.

Whole training classes act as unseen ones, and some samples of the other classes are held out too.
The model then meets both sides of the generalized setting: new samples of seen classes, and
classes that it has not seen. No test data is involved.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, check_random_state

from ..arrays import to_numpy
from ..hold_out import every_nth, fold_classes
from ..labels import as_labels
from ..metrics import SeenUnseenCurve, best_penalty, seen_unseen_curve
from ..prototypes import Prototypes
from ..streaming.priorities import row_priorities

_MOST_FOLDS = 10
_HELD_OUT = 5  # of a class that stays in training, every fifth sample is held out
_TOO_FEW = (
    'seen_penalty="auto" holds samples of seen classes out; got one sample of nearly every class, '
    "which leaves none to learn from. Pass a number instead."
)


def calibrate(model: Any, X: Any, y: Any) -> float:
    """Return the penalty with the best harmonic mean on held-out classes.

    Parameters
    ----------
    model : ZeroShotClassifier, peer, or a Pipeline that ends in one
        Cloned and fitted once per fold, with all steps of a pipeline.
    X, y : array-like
        Training samples and their labels.
    """
    last: Any = model[-1] if isinstance(model, Pipeline) else model
    labels = as_labels(y)
    if last.prototypes is None:
        raise ValueError(
            'seen_penalty="auto" needs prototypes, because held-out classes are known by '
            "prototype only; got prototypes=None. Pass prototypes, or a number."
        )
    folds = _folds(last, X, labels)
    return best_penalty([_curve(model, last, X, labels, *parts) for parts in folds])


def held_out_setting(last: Any, labels: np.ndarray, *, candidates: str) -> dict[str, Any]:
    """Return the parameters of a classifier in folds that hold out training classes.

    Only classes with training samples are known, and there is no penalty.
    """
    given = last.prototypes
    known = Prototypes.one_hot(labels) if given is None else Prototypes.coerce(given)
    return {
        "prototypes": known.subset(np.unique(labels)),
        "candidates": candidates,
        "seen_penalty": 0.0,
    }


def _folds(last: Any, X: Any, labels: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the samples to learn from and to score, for each fold of classes.

    A fold holds out the share of classes that is unseen in the end, between a tenth and a half:
    the more unseen classes compete, the smaller the penalty that is needed. With far more unseen
    than seen classes the penalty is too large.
    """
    classes, codes = np.unique(labels, return_inverse=True)
    n_known = len(Prototypes.coerce(last.prototypes))
    n_unseen = max(1, n_known - len(classes))
    n_folds = min(max(2, round(n_known / n_unseen)), _MOST_FOLDS, len(classes) // 2)
    if n_folds < 2:
        raise ValueError(
            'seen_penalty="auto" needs at least four classes in y, to hold two of them out in '
            f"turn; got {len(classes)}. Pass a number instead."
        )
    given = getattr(last, "random_state", 0)
    seed = check_random_state(given).randint(2**31 - 1)
    # A hash of the values makes the choice invariant to sample order.
    priorities = to_numpy(row_priorities(np.asarray(X), seed))
    chosen = every_nth(codes, priorities, _HELD_OUT)
    folds = []
    for out in fold_classes(codes, n_folds, seed):
        spared = chosen & ~out
        if not spared.any():
            raise ValueError(_TOO_FEW)
        folds.append((np.flatnonzero(~out & ~spared), np.flatnonzero(out | spared)))
    return folds


def _curve(
    model: Any, last: Any, X: Any, labels: np.ndarray, train: np.ndarray, test: np.ndarray
) -> SeenUnseenCurve:
    """Return the accuracies on held-out samples of seen and of unseen classes, per penalty."""
    fold_model: Any = clone(model)
    classifier = fold_model[-1] if isinstance(model, Pipeline) else fold_model
    classifier.set_params(**held_out_setting(last, labels, candidates="all"))
    if hasattr(classifier, "verbose"):
        classifier.set_params(verbose=0)
    fold_model.fit(_safe_indexing(X, train), labels[train])
    return seen_unseen_curve(
        labels[test],
        fold_model.decision_function(_safe_indexing(X, test)),
        fold_model.classes_,
        np.unique(labels[train]),
    )
