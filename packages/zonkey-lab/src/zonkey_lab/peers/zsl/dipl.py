"""DIPL: the domain-invariant projection learning of Zhao and colleagues, transductive."""

from __future__ import annotations

from typing import Any

import numpy as np

from zonkey.arrays import Array
from zonkey.bpl.algorithm1 import Course
from zonkey.bpl.frame import BaseClasses, Frame
from zonkey.bpl.zero_shot import ZeroShotClassifier


class DIPL(ZeroShotClassifier):
    """Domain-invariant projection learning: unlabeled samples choose their class.

    Transductive: `fit_transductive` also learns from unlabeled samples of unseen classes. With the
    error e(x, y) = ||W'x - y||^2 + ||x - W y||^2 of a sample and a prototype, W minimizes

        (1 - alpha) sum_i e(x_i, y_i) + alpha sum_u min_j e(x_u, y_j) + 2 beta ||W||^2

    over labeled samples i and unlabeled ones u, for which j runs over the unseen classes. With
    weights 1, gamma and lambda of the three terms, alpha = gamma / (1 + gamma) and 2 beta = lambda
    / (1 + gamma). Every step gives each unlabeled sample to its best class, or to equally good ones
    in equal shares, and solves a Sylvester equation; the objective never rises. `fit` has no
    unlabeled samples and returns the start, alpha = 0. The class with the nearest W y is predicted.

    It is `ZeroShotClassifier` with ``competition=None`` and unlabeled samples in place of
    synthesized ones, except that alpha stays the same in all steps, and that only equal losses are
    ties, not those within 0.1 %. Difference from the reference: the superclasses that it forms of
    seen and unseen prototypes are omitted.

    Parameters
    ----------
    prototypes : mapping, DataFrame or Prototypes, default=None
        Semantic vector of every class, seen and unseen. None: one-hot vectors.
    alpha : float, default=0.1
        Weight in [0, 1) of the unlabeled samples relative to the labeled ones; the reference
        chooses it by cross-validation.
    beta : float, default=0.01
        Ridge penalty >= 0 on W, the default of `ZeroShotClassifier`.
    candidates : {"unseen", "all"} or list of labels, default="unseen"
        Classes that `predict` chooses from.
    seen_penalty : float, default=0.0
        Value subtracted from the scores of seen classes.
    max_iter : int, default=None
        Largest number of steps. None: 5, the default of `ZeroShotClassifier`.
    random_state : int, RandomState or None, default=None
        Not used; nothing is drawn.
    verbose : int, default=0
        Print the objective after every step if positive.

    Attributes
    ----------
    projection_ : ndarray of shape (n_features, n_dimensions)
        The matrix W.
    is_transductive_ : bool
        Whether unlabeled samples took part in training. Accuracies on them are not comparable with
        those of inductive models.
    n_iter_ : int
        Number of steps.
    objective_ : ndarray of shape (n_iter_ + 1,)
        Objective before and after each step; empty without unlabeled samples.
    classes_ : ndarray
        Candidates, in the order of the columns of `decision_function`.
    seen_classes_, unseen_classes_ : ndarray
        Classes with and without training samples.
    prototypes_ : Prototypes
        Prototypes of all classes.
    seen_penalty_ : float
        Penalty in use.
    n_features_in_ : int
        Number of features.

    See Also
    --------
    zonkey.ZeroShotClassifier : The successor, which synthesizes samples instead.
    zonkey.AnyShotClassifier : Its method `adapt` also learns from unlabeled samples.

    References
    ----------
    A. Zhao, M. Ding, J. Guan, Z. Lu, T. Xiang, J.-R. Wen. Domain-invariant projection learning for
    zero-shot recognition. NeurIPS 2018.

    Examples
    --------
    >>> from zonkey_lab.peers.zsl import DIPL
    >>> prototypes = {"horse": [0, 1], "tiger": [1, 0], "zebra": [0.8, 0.6], "whale": [-0.6, 0.8]}
    >>> X, y, X_new = [[0, 1], [1, 0]], ["horse", "tiger"], [[0.9, 0.5], [-0.5, 0.9]]
    >>> model = DIPL(prototypes).fit_transductive(X, y, X_new)
    >>> model.predict(X_new)
    array(['zebra', 'whale'], dtype='<U5')
    """

    is_transductive = True
    # What the other parameters of ZeroShotClassifier would be; those of synthesis have no effect.
    direction = "both"
    synthesis = "perturb"
    competition = None
    rho = 0.5
    mu = 0.0
    n_neighbors = 1
    n_synthetic = 1
    synthetic_per = "class"
    scaling = None
    guard = True
    step_size = 1.0
    tie_tol = 0.0
    tol = 1e-4
    _decay = 1.0

    def __init__(
        self,
        prototypes: Any = None,
        *,
        alpha: float = 0.1,
        beta: float = 0.01,
        candidates: Any = "unseen",
        seen_penalty: Any = 0.0,
        max_iter: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.prototypes = prototypes
        self.alpha = alpha
        self.beta = beta
        self.candidates = candidates
        self.seen_penalty = seen_penalty
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose

    def _refine(self, base: BaseClasses, frame: Frame, W: Array, unlabeled: Array | None) -> Course:
        if unlabeled is None:
            none = np.empty(0)
            return Course(W, none, none, [], set(), converged=True)
        return super()._refine(base, frame, W, unlabeled)
