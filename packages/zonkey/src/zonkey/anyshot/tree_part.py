"""The part of a kernel that knows the tree: classes of one parent are alike, whatever their texts.

Rare classes borrow strength by it: what prototypes miss of the class means of siblings is expected
of them, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from ..persistence.checks import require_number
from ..tree import Tree


@dataclass(frozen=True, eq=False)
class TreePart:
    """The kernel w |A & B| / sqrt(|A| |B|) of classes with the nodes A and B above them."""

    tree: Tree
    weight: float  # w, in units of the kernel of the prototypes

    def __zonkey_validate__(self) -> None:
        require_number("weight", self.weight, 0)

    def compare(self, own: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return the kernel between classes by their labels; those at the top are alike to none."""
        return self.weight * (self._find_above(own) @ self._find_above(others).T).toarray()

    def mean_of_own(self, labels: np.ndarray) -> float:
        """Return the mean of the kernel of each class with itself."""
        found = self._find_above(labels)
        return self.weight * float(found.multiply(found).sum()) / max(1, len(labels))

    def _find_above(self, labels: np.ndarray) -> sparse.csr_array:
        """Return the nodes above each class, as rows of unit length."""
        tree = self.tree
        places = np.minimum(np.searchsorted(tree.leaves, labels), len(tree.leaves) - 1)
        known = (tree.leaves[places] == labels).astype(float)
        inner = tree.positions(tree.inner) if len(tree.inner) else np.arange(0)
        above = tree.membership[inner][:, places].T.tocsr()
        lengths = np.sqrt(np.maximum(above.sum(axis=1), 1))
        return sparse.csr_array(sparse.diags_array(known / lengths) @ above)
