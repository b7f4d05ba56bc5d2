"""Choose the penalty of seen classes and the temperature on held-out training classes.

Whole training classes act as unseen ones, and some samples of the other classes are held out too.
The model then meets both sides of the generalized setting: new samples of seen classes, and
classes that it has not seen. No test data is involved.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, check_random_state

from ..core.labels import as_labels
from ..core.prototypes import Prototypes
from ..core.reservoir import row_priorities
from ..metrics import best_penalty, best_temperature, seen_unseen_curve
from ..validation import is_auto
from .learning import restricted

_MOST_FOLDS = 10
_HELD_OUT = 5  # of a class that stays in training, every fifth sample is held out
_TOO_FEW = (
    'seen_penalty="auto" and temperature="auto" hold samples of seen classes out; got one sample '
    "of nearly every class, which leaves none to learn from. Pass numbers instead."
)


def calibrate(model: Any, X: Any, y: Any) -> dict[str, float]:
    """Return the `seen_penalty` and `temperature` chosen on held-out classes.

    Parameters
    ----------
    model : ZeroShotClassifier, peer, or a Pipeline that ends in one
        Cloned and fitted once per fold, with all steps of a pipeline. A penalty or temperature
        that is a number stays as it is.
    X, y : array-like
        Training samples and their labels.
    """
    last: Any = model[-1] if isinstance(model, Pipeline) else model
    labels = as_labels(y)
    if last.prototypes is None:
        raise ValueError(
            'seen_penalty="auto" and temperature="auto" need prototypes, because held-out classes '
            "are known by prototype only; got prototypes=None. Pass prototypes, or numbers."
        )
    scored = [_scores(model, last, X, labels, *parts) for parts in _folds(last, X, labels)]
    penalty, temperature = last.seen_penalty, getattr(last, "temperature", 1.0)
    if is_auto(penalty):
        penalty = best_penalty(
            [seen_unseen_curve(truth, S, classes, seen) for S, truth, classes, seen in scored]
        )
    if is_auto(temperature):
        among_unseen = isinstance(last.candidates, str) and last.candidates == "unseen"
        temperature = best_temperature(
            [_candidate_scores(fold, penalty, among_unseen) for fold in scored]
        )
    return {"seen_penalty": float(penalty), "temperature": float(temperature)}


def held_out_setting(last: Any, labels: np.ndarray, *, candidates: str) -> dict[str, Any]:
    """Return the parameters of a classifier in folds that hold out training classes.

    Only classes with training samples are known. There is neither a penalty nor rejection.
    """
    given = last.prototypes
    known = Prototypes.one_hot(labels) if given is None else Prototypes.coerce(given)
    setting = {
        "prototypes": restricted(known, np.unique(labels), getattr(last, "kernel", None)),
        "candidates": candidates,
        "seen_penalty": 0.0,
        "seen_prior": None,
        "temperature": 1.0,
        "reject_below": None,
    }
    has = last.get_params(deep=False)
    return {name: value for name, value in setting.items() if name in has}


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
            'seen_penalty="auto" and temperature="auto" need at least four classes in y, to hold '
            f"two of them out in turn; got {len(classes)}. Pass numbers instead."
        )
    given = getattr(last, "random_state", 0)
    seed = check_random_state(given).randint(2**31 - 1)
    # A hash of the values makes the choice invariant to sample order.
    priorities = row_priorities(np.asarray(X), seed)
    position = np.empty(len(labels), np.int64)  # of a sample within its class
    for j in range(len(classes)):
        members = np.flatnonzero(codes == j)
        position[members[np.argsort(priorities[members])]] = np.arange(len(members))
    folds = []
    for _, held in KFold(n_folds, shuffle=True, random_state=seed).split(classes):
        out = np.isin(codes, held)
        # The first sample of a class always stays, or the class would become unseen.
        spared = (position % _HELD_OUT == 1) & ~out
        if not spared.any():
            raise ValueError(_TOO_FEW)
        folds.append((np.flatnonzero(~out & ~spared), np.flatnonzero(out | spared)))
    return folds


def _scores(
    model: Any, last: Any, X: Any, labels: np.ndarray, train: np.ndarray, test: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return scores of held-out samples, their labels, all classes, and the seen classes."""
    fold_model: Any = clone(model)
    classifier = fold_model[-1] if isinstance(model, Pipeline) else fold_model
    classifier.set_params(**held_out_setting(last, labels, candidates="all"))
    if hasattr(classifier, "verbose"):
        classifier.set_params(verbose=0)
    fold_model.fit(_safe_indexing(X, train), labels[train])
    return (
        fold_model.decision_function(_safe_indexing(X, test)),
        labels[test],
        fold_model.classes_,
        np.unique(labels[train]),
    )


def _candidate_scores(
    fold: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray], penalty: float, among_unseen: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return scores and true columns among the candidates of the final model."""
    S, truth, classes, seen = fold
    is_seen = np.isin(classes, seen)
    rows = np.full(len(truth), True)
    if among_unseen:
        rows, classes, S = ~np.isin(truth, seen), classes[~is_seen], S[:, ~is_seen]
    else:
        S = S - penalty * is_seen
    return S[rows], np.searchsorted(classes, truth[rows])
