"""What every estimator keeps: the contract of scikit-learn, and the one of this project."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from zonkey import NearestSupport, ZeroShotClassifier
from zonkey.estimators.few_shot import FewShotClassifier
from zonkey.model_selection import ZeroShotSearchCV
from zonkey.preprocessing import FeatureNormalizer
from zonkey.testing import parametrize_with_zero_shot_checks

CONFIGURATIONS = [
    ZeroShotClassifier(),
    ZeroShotClassifier(synthesis=None),
    ZeroShotClassifier(direction="forward"),
    ZeroShotClassifier(direction="reverse"),
    ZeroShotClassifier(competition=None),
    ZeroShotClassifier(competition="assigned"),
    ZeroShotClassifier(competition="entropy"),
    ZeroShotClassifier(kernel="rbf", synthesis=None),
    ZeroShotClassifier(forward_weight=0.0, weight_per="class"),
    ZeroShotClassifier(
        direction="reverse",
        kernel="poly",
        prototype_transformer=FeatureNormalizer(center=True),
    ),
]
FEW_SHOT = [
    FewShotClassifier(),
    FewShotClassifier(synthesis=None, n_episodes=1),
    FewShotClassifier(competition=None, n_episodes=2),
    FewShotClassifier(competition="assigned", n_episodes=2),
    FewShotClassifier(scaling=None),
    FewShotClassifier(kernel="rbf", n_episodes=2),
    FewShotClassifier(forward_weight=0.0, weight_per="class", competition=None, n_episodes=2),
    FewShotClassifier(
        kernel="poly",
        prototype_transformer=FeatureNormalizer(center=True),
        synthesis=None,
        n_episodes=1,
    ),
]
BASELINES = [NearestSupport(), NearestSupport("mean")]
SEARCH = ZeroShotSearchCV(ZeroShotClassifier(), {"alpha": [0.0, 0.1]}, cv=2)


def expected_failures(estimator):
    if isinstance(estimator, ZeroShotClassifier):
        return {
            "check_non_transformer_estimators_n_iter": "without prototypes there is no unseen "
            "class and the fit is closed-form: no iteration"
        }
    return {}


# The checks have two or three classes, of which a fold cannot hold out more than one.
@pytest.mark.filterwarnings("ignore:A fold holds out a single class")
@parametrize_with_checks(
    [*CONFIGURATIONS, *FEW_SHOT, *BASELINES, SEARCH], expected_failed_checks=expected_failures
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@parametrize_with_zero_shot_checks(CONFIGURATIONS)
def test_zero_shot_contract(estimator, check):
    check(estimator)
