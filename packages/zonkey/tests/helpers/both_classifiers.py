"""Both classifiers on one small problem, for what they take alike."""

import pytest

from zonkey import FewShotClassifier, Moments, ZeroShotClassifier
from zonkey.testing import linear_problem

P = linear_problem()
both_classifiers = pytest.mark.parametrize("classifier", [ZeroShotClassifier, FewShotClassifier])


def fit_on_a_small_problem(classifier, **parameters):
    """Fit with these parameters on the seen classes, or on shots of the unseen ones."""
    if classifier is ZeroShotClassifier:
        return classifier(P.prototypes, **parameters).fit(P.X, P.y)
    base = Moments.from_arrays(P.X, P.y, P.prototypes)
    return classifier(P.prototypes, base=base, **parameters).fit(P.X_new, P.y_new)
