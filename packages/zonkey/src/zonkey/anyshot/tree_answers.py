"""Answers of `AnyShotClassifier` in a tree of classes: levels, paths, probabilities of nodes."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..arrays import Array, namespace, softmax, to_numpy
from ..inference.bins import BinClassifier
from ..inference.nodes import list_paths
from ..inference.predict import ProbabilityMixin
from ..streaming.accept import accept_chunks
from ..tree import Tree


class TreeMixin(ProbabilityMixin):
    """Predictions at the nodes of a tree, whose leaves are the candidates."""

    @property
    def tree_(self) -> Tree | None:
        """The tree of the candidates; None without one."""
        return self.scorer_.tree

    @accept_chunks
    def predict(self, X: Any, level: int | None = None) -> Array:
        """Predict the class of each sample among the candidates.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Samples.
        level : int, default=None
            Level of a tree of classes; 1 is the top. The answer is the most probable node there; a
            class above that level stands for itself. None: the best class.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predicted labels, or `reject_label` if the model rejects the sample. With a tree and
            `reject_below`, the answer is as deep as the model is sure: if the best class, or node
            at the level, is less probable than that, the deepest node above that is not. Numeric
            labels are in the array library and on the device of `X`; text labels are always NumPy
            arrays.
        """
        X = self._validate(X)
        if level is not None:
            self._require_tree("`level`").at_level(level)
        return self.scorer_.predict(X, level)

    @accept_chunks
    def predict_proba(self, X: Any, level: int | None = None) -> Array:
        """Return the probability of each candidate, or of each node at a level of a tree.

        It is the softmax of the scores divided by the temperature, and the sum of those of the
        classes below a node.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Samples.
        level : int, default=None
            Level of a tree of classes; 1 is the top.

        Returns
        -------
        ndarray of shape (n_samples, n_candidates)
            Probabilities, columns in the order of `classes_`, or of `tree_.at_level(level)`.
        """
        X = self._validate(X)
        tree = None if level is None else self._require_tree("`level`")
        scorer, parts = self.scorer_, []
        for scores in scorer.finite_blocks(X):
            P = softmax(scores / scorer.temperature)
            parts.append(P if tree is None else tree.sum_leaves(P, level))
        return namespace(X).concat(parts)

    @accept_chunks
    def predict_path(self, X: Any) -> np.ndarray:
        """Predict the path of each sample from the top of the tree to its class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), Chunks or Dask collection
            Samples.

        Returns
        -------
        ndarray of tuple of shape (n_samples,)
            Labels from the top to what `predict` returns; with `reject_below`, that may be an inner
            node, and the path of a rejected sample is empty.
        """
        X = self._validate(X)
        tree = self._require_tree("`predict_path`")
        return list_paths(tree, to_numpy(self.scorer_.predict(X)))

    def with_tree(self, parents: Any) -> Self:
        """Return a fitted copy that answers in a tree, or in another one.

        The classes stay as they are. What a tree tells in `fit`, priors of rare classes and samples
        of inner nodes, is not learned again.

        Parameters
        ----------
        parents : mapping, Tree or None
            The parent of each class, ``{label: parent}``, as for `Prototypes`. Known classes must
            be leaves; those that it leaves out are at the top. None: no tree.

        Returns
        -------
        AnyShotClassifier
            The copy.
        """
        check_is_fitted(self)
        state = self.state_.join_tree(None if parents is None else Tree(parents))
        if state.regression is None:
            return self._copy_with(state)
        return self._copy_with(state, prototypes=state.place_in_tree())

    def with_bins(self, bins: Any) -> BinClassifier:
        """Return a classifier that answers with names for unions of classes.

        Parameters
        ----------
        bins : mapping
            The classes of each bin, ``{bin: [label, ...]}``. Bins may overlap and need not hold
            every class.

        Returns
        -------
        BinClassifier
            Its `predict` returns the most probable bin, and rejects samples as this model does.
        """
        check_is_fitted(self)
        rejection = self.scorer_.rejection
        return BinClassifier(self, bins, rejection.below, rejection.label)

    def _require_tree(self, what: str) -> Tree:
        tree = self.tree_
        if tree is None:
            raise ValueError(
                f"{what} needs a tree of classes; got a model without one. Fit with "
                "Prototypes(labels, matrix, parents=...), or use with_tree({label: parent})."
            )
        return tree
