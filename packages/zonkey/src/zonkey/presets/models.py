"""Zero-shot models by name: the paper's, a one-way regression, and the recommended one."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline, make_pipeline

from ..anyshot.classifier import AnyShotClassifier
from ..bpl.zero_shot import ZeroShotClassifier
from ..preprocessing import FeatureNormalizer
from ..prototypes import Prototypes


def paper(prototypes: Any, **parameters: Any) -> Pipeline:
    """Return the paper's zero-shot model: unit-length features and prototypes, then BPL.

    The paper does not specify the normalization; unit length is our reading. Choose `rho`,
    `alpha` and `mu` with `ZeroShotSearchCV`.

    Parameters
    ----------
    prototypes : mapping, DataFrame or Prototypes
        Semantic vector of every class, seen and unseen.
    **parameters : dict
        Parameters of `ZeroShotClassifier`. Its defaults are those of the paper.

    Returns
    -------
    Pipeline
        Unfitted pipeline of a `FeatureNormalizer` and a `ZeroShotClassifier`. The latter does not
        normalize prototypes that are added later; use
        ``model[-1].with_classes(Prototypes(labels, matrix).normalized())``.

    Examples
    --------
    >>> from zonkey import presets
    >>> model = presets.paper({"horse": [0, 1], "zebra": [1, 1]}, candidates="all")
    >>> list(model.named_steps)
    ['featurenormalizer', 'zeroshotclassifier']
    """
    unit = Prototypes.coerce(prototypes).normalized()
    return make_pipeline(FeatureNormalizer(norm="l2"), ZeroShotClassifier(unit, **parameters))


def rpl(prototypes: Any, *, beta: float = 1.0, **parameters: Any) -> ZeroShotClassifier:
    """Return ridge regression from prototypes to features (RPL).

    W minimizes sum_i ||x_i - W y_i||^2 + beta ||W||^2, where y_i is the prototype of the class of
    sample i. The class with the nearest W y is predicted. The opposite direction, from features
    to prototypes, suffers more from hubs: prototypes that are nearest to samples of many classes.

    Parameters
    ----------
    prototypes : mapping, DataFrame or Prototypes
        Semantic vector of every class, seen and unseen.
    beta : float, default=1.0
        Ridge penalty >= 0 (lambda in the reference), relative to a sum over samples.
    **parameters : dict
        Further parameters of `ZeroShotClassifier`.

    Returns
    -------
    ZeroShotClassifier
        Unfitted classifier with ``direction="reverse"``.

    References
    ----------
    Y. Shigeto, I. Suzuki, K. Hara, M. Shimbo, Y. Matsumoto. Ridge regression, hubness, and
    zero-shot learning. ECML PKDD 2015.

    Examples
    --------
    >>> from zonkey import presets
    >>> model = presets.rpl({"horse": [0, 1], "tiger": [1, 0], "zebra": [1, 1]}, beta=0.1)
    >>> model = model.fit([[0, 0.6, 0.8], [1, 0, 0]], ["horse", "tiger"])
    >>> model.project({"zebra": [1, 1]}).round(2)
    array([[0.91, 0.55, 0.73]])
    """
    return ZeroShotClassifier(prototypes, direction="reverse", beta=beta, **parameters)


def recommended(
    prototypes: Any, *, candidates: Any = "all", **parameters: Any
) -> AnyShotClassifier:
    """Return the recommended model for any number of shots.

    It preprocesses features and prototypes and chooses its parameters on training classes that are
    held out, for the task that `candidates` and `n_shots` denote.

    Parameters
    ----------
    prototypes : mapping, DataFrame or Prototypes
        Semantic vectors of classes, seen and unseen.
    candidates : {"all", "unseen"} or list of labels, default="all"
        Classes that `predict` chooses from: all known classes, those without samples, or some.
    **parameters : dict
        Further parameters of `AnyShotClassifier`. They are fixed and not chosen.

    Returns
    -------
    AnyShotClassifier
        Unfitted classifier.

    Examples
    --------
    >>> from zonkey import presets
    >>> presets.recommended({"horse": [0, 1], "zebra": [1, 1]}).n_shots
    0
    """
    return AnyShotClassifier(Prototypes.coerce(prototypes), candidates=candidates, **parameters)
