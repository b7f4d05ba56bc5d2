"""RPL: ridge regression from prototypes to features."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.moments import Moments
from ...linalg.sylvester import solve
from ...linalg.symmetric import Factor
from .closed_form import ClosedFormPeer, not_offered, value_of


class RPL(ClosedFormPeer):
    """Nearest prototype after ridge regression from the semantic to the feature space.

    Minimizes sum_i ||x_i - W y_i||^2 + ridge ||W||^2, where y_i is the prototype of the class of
    sample i, and gives a sample the class whose W y is nearest. With the other direction, from
    features to prototypes, more prototypes become hubs: nearest neighbors of samples of any
    class.

    Parameters
    ----------
    prototypes, candidates, seen_penalty :
        As of `ZeroShotClassifier`.
    ridge : float >= 0, default=1.0
        Ridge penalty on W (lambda in the paper). It is weighed against a sum over samples.

    Attributes
    ----------
    projection_ : ndarray of shape (n_features, n_dimensions)
        The matrix W.
    classes_, seen_classes_, unseen_classes_, prototypes_, n_features_in_ :
        As of `ZeroShotClassifier`.

    References
    ----------
    Y. Shigeto, I. Suzuki, K. Hara, M. Shimbo, Y. Matsumoto. Ridge regression, hubness, and
    zero-shot learning. ECML PKDD 2015.

    Examples
    --------
    >>> from zonkey.peers.zsl import RPL
    >>> prototypes = {"horse": [0, 1], "tiger": [1, 0], "zebra": [1, 1]}
    >>> model = RPL(prototypes, ridge=0.1).fit([[0, 0.6, 0.8], [1, 0, 0]], ["horse", "tiger"])
    >>> model.project({"zebra": [1, 1]}).round(2)
    array([[0.91, 0.55, 0.73]])
    """

    _at_least_zero = ("ridge",)
    embed = not_offered("RPL learns no way from features to prototypes; use SAE, which does.")

    def __init__(
        self,
        prototypes: Any = None,
        *,
        ridge: float = 1.0,
        candidates: Any = "unseen",
        seen_penalty: float = 0.0,
    ) -> None:
        super().__init__(prototypes, candidates=candidates, seen_penalty=seen_penalty)
        self.ridge = ridge

    def _solve(self, moments: Moments, dtype: np.dtype) -> dict[str, Any]:
        B = Factor.of(moments.B0).transformed(shift=self.ridge)
        # W (B0 + ridge I) = C0 is a Sylvester equation without its first term.
        solution = solve(Factor.zeros(moments.n_features, like=B.values), B, moments.C0)
        return {"projection_": value_of(solution, "Use a larger `ridge`.").astype(dtype)}
