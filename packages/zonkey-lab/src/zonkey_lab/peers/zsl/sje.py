"""SJE: the structured joint embedding of Akata et al."""

from __future__ import annotations

from typing import Any

import numpy as np

from .bilinear import BilinearPeer


class SJE(BilinearPeer):
    """Bilinear compatibility x'W y, learned by a structured hinge loss.

    For a sample x of class c, W minimizes the mean over the samples of

        max_j (D(c, j) + x'W y_j - x'W y_c),     D(c, j) = 0 if j = c, else 1,

    so only the most violating class counts. The class with the largest x'W y is predicted;
    `decision_function` returns these values. Scores grow with the length of a prototype, so
    features and prototypes should have unit length.

    Differences. There is one kind of prototypes; the publication also combines several, each with a
    matrix of its own, which prototypes side by side give as well. W starts at zero instead of
    random numbers, which would say something about directions that no seen class has. The fitted W
    is a mean over the training, in which later steps have more weight: it depends less on the last
    batches.

    Parameters
    ----------
    prototypes : mapping, DataFrame or Prototypes, default=None
        Semantic vector of every class, seen and unseen. None: one-hot vectors.
    max_iter : int, default=15
        Largest number of epochs. More hardly change the accuracy on CUB.
    n_iter_no_change : int or None, default=5
        Stop after so many epochs without a better accuracy on held-out classes, a fifth of the
        seen ones; then train again on all, for the best number of epochs. None, fewer than four
        classes or no prototypes: `max_iter` epochs.
    batch_size : int, default=32
        Samples per step. The publication takes one; a batch is much faster and as accurate on CUB.
    learning_rate : float, default=20.0
        Step size, relative to the mean squared lengths of features and prototypes; constant, as in
        the publication, which chooses it by validation. The default was chosen on held-out classes
        of CUB.
    candidates : {"unseen", "all"} or list of labels, default="unseen"
        Classes that `predict` chooses from.
    seen_penalty : float or "auto", default=0.0
        Value subtracted from the scores of seen classes. "auto" chooses it on held-out classes.
    random_state : int, RandomState or None, default=None
        Seed of the order of samples and of the choice of held-out classes.
    checkpoint : str or path-like, default=None
        Folder that keeps the progress of a fit, to resume after interruption. It needs an integer
        as `random_state`. Several fits may share it, such as those of a search.
    verbose : int, default=0
        If positive, print the loss of each epoch, and the accuracy on held-out classes.

    Attributes
    ----------
    projection_ : ndarray of shape (n_features, n_dimensions)
        Matrix W.
    n_iter_ : int
        Number of epochs.
    loss_curve_ : list of float
        Mean loss of each epoch of the last training.
    validation_scores_ : list of float
        Accuracy on held-out classes after each epoch of the first training; empty without one.
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
    DeViSE : The same with the sum over all violating classes.
    ALE : The same with weights that depend on the rank of the own class.

    References
    ----------
    Z. Akata, S. Reed, D. Walter, H. Lee, B. Schiele. Evaluation of output embeddings for
    fine-grained image classification. CVPR 2015.

    Examples
    --------
    >>> from zonkey_lab.peers.zsl import SJE
    >>> seen = {"horse": [0, 1], "tiger": [1, 0], "snail": [-0.8, -0.6]}
    >>> unseen = {"zebra": [0.8, 0.6], "whale": [-0.6, 0.8]}
    >>> model = SJE({**seen, **unseen}, random_state=0).fit(list(seen.values()), list(seen))
    >>> model.predict([[0.6, 0.8], [-1, 0]])
    array(['zebra', 'whale'], dtype='<U5')
    """

    __zonkey_fields__ = ("projection_",)

    def __init__(
        self,
        prototypes: Any = None,
        *,
        max_iter: int = 15,
        n_iter_no_change: int | None = 5,
        batch_size: int = 32,
        learning_rate: float = 20.0,
        candidates: Any = "unseen",
        seen_penalty: Any = 0.0,
        random_state: Any = None,
        checkpoint: Any = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            prototypes,
            max_iter=max_iter,
            n_iter_no_change=n_iter_no_change,
            batch_size=batch_size,
            learning_rate=learning_rate,
            candidates=candidates,
            seen_penalty=seen_penalty,
            random_state=random_state,
            checkpoint=checkpoint,
            verbose=verbose,
        )

    def _weights(self, violations: np.ndarray) -> np.ndarray:
        rows, worst = np.arange(len(violations)), violations.argmax(axis=1)
        weights = np.zeros_like(violations)
        weights[rows, worst] = violations[rows, worst] > 0
        return weights
