"""DeViSE: the deep visual-semantic embedding of Frome et al."""

from __future__ import annotations

from typing import Any

from zonkey.constraints import check_interval

from .bilinear import BilinearPeer


class DeViSE(BilinearPeer):
    """Bilinear compatibility x'W y, learned by a hinge rank loss over all other classes.

    For a sample x of class c, W minimizes the mean over the samples of

        sum_{j != c} max(0, margin - x'W y_c + x'W y_j).

    The class with the largest x'W y is predicted; `decision_function` returns these values. Scores
    grow with the length of a prototype, so prototypes should have unit length, as in the
    publication, and features too.

    Differences. The sum is over all classes; the publication stops at the first violating class of
    a random order, which saves time in a loop, but not in matrix products. Features are fixed; the
    publication also tunes the network that makes them. W starts at zero and changes by steps of
    constant size, where the publication uses AdaGrad. The fitted W is a mean over the training,
    in which later steps have more weight: it depends less on the last batches.

    Parameters
    ----------
    prototypes : mapping, DataFrame or Prototypes, default=None
        Semantic vector of every class, seen and unseen. None: one-hot vectors.
    margin : float, default=0.1
        Margin > 0 by which the own class should win, as printed. Only the ratio of `learning_rate`
        and `margin` matters for predictions, because W starts at zero.
    max_iter : int, default=15
        Largest number of epochs. More hardly change the accuracy on CUB.
    n_iter_no_change : int or None, default=5
        Stop after so many epochs without a better accuracy on held-out classes, a fifth of the
        seen ones; then train again on all, for the best number of epochs. None, fewer than four
        classes or no prototypes: `max_iter` epochs.
    batch_size : int, default=32
        Samples per step. The publication takes one; a batch is much faster and as accurate on CUB.
    learning_rate : float, default=0.2
        Step size, for a loss that is a sum over classes, relative to the mean squared lengths of
        features and prototypes. The default was chosen on held-out classes of CUB, with 80 to 100
        others; with many more classes take less.
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
    SJE : The same with the most violating class only.
    ALE : The same with weights that depend on the rank of the own class.

    References
    ----------
    A. Frome, G. S. Corrado, J. Shlens, S. Bengio, J. Dean, M. Ranzato, T. Mikolov. DeViSE: A deep
    visual-semantic embedding model. NIPS 2013.

    Examples
    --------
    >>> from zonkey_lab.peers.zsl import DeViSE
    >>> seen = {"horse": [0, 1], "tiger": [1, 0], "snail": [-0.8, -0.6]}
    >>> unseen = {"zebra": [0.8, 0.6], "whale": [-0.6, 0.8]}
    >>> model = DeViSE({**seen, **unseen}, random_state=0).fit(list(seen.values()), list(seen))
    >>> model.predict([[0.6, 0.8], [-1, 0]])
    array(['zebra', 'whale'], dtype='<U5')
    """

    __zonkey_fields__ = ("projection_",)

    def __init__(
        self,
        prototypes: Any = None,
        *,
        margin: float = 0.1,
        max_iter: int = 15,
        n_iter_no_change: int | None = 5,
        batch_size: int = 32,
        learning_rate: float = 0.2,
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
        self.margin = margin

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_interval("margin", self.margin, 0, open_below=True)
