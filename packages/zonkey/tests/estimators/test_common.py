"""What every estimator keeps: the contract of scikit-learn, and the one of this project."""

import pytest
from sklearn.base import clone
from sklearn_checks import leave_to_test_all, parametrize_with_sklearn_checks

from zonkey import (
    AnyShotClassifier,
    FewShotClassifier,
    Moments,
    NearestSupport,
    ZeroShotClassifier,
)
from zonkey.bpl.frame import BaseClasses
from zonkey.model_selection import ZeroShotSearchCV
from zonkey.preprocessing import FeatureNormalizer
from zonkey.testing import (
    parametrize_with_few_shot_checks,
    parametrize_with_zero_shot_checks,
    shots_problem,
)

CHOSEN = AnyShotClassifier()
# What depends on how parameters were chosen, but seeds and float32, which tests/anyshot vary. All
# else that is asked of a fitted model is asked of one with given parameters, in far less time.
OF_CHOICES = {
    "check_fit_leaves_inputs_untouched",
    "check_order_does_not_matter",
    "check_unseen_accuracy",
}
# Nothing is chosen.
GIVEN = AnyShotClassifier(
    preprocessing=FeatureNormalizer(center=True),
    prototype_transformer=None,
    kernel="linear",
    gamma=1.0,
    ridge=0.1,
    worth=3.0,
    seen_penalty=0.0,
    temperature=0.1,
    adapt_temperature=0.1,
    adapt_weight=0.5,
)
CONFIGURATIONS = [
    CHOSEN,
    GIVEN,
    ZeroShotClassifier(),
    ZeroShotClassifier(direction="forward"),
    ZeroShotClassifier(competition=None),
    ZeroShotClassifier(competition="assigned"),
    ZeroShotClassifier(competition="entropy", max_iter=10),
    ZeroShotClassifier(synthesis=None),
    ZeroShotClassifier(direction="reverse"),
]
# Without prototypes there is no unseen class, so that synthesis and competition have no part in
# scikit-learn's checks of a zero-shot classifier.
REPRESENTATIVE = [
    AnyShotClassifier(),
    AnyShotClassifier(class_weight=None),
    GIVEN,
    ZeroShotClassifier(),
    ZeroShotClassifier(direction="forward"),
    ZeroShotClassifier(direction="reverse"),
    FewShotClassifier(n_episodes=2),
    FewShotClassifier(synthesis=None, competition="assigned"),
    NearestSupport("sample"),
    NearestSupport("mean"),
    ZeroShotSearchCV(ZeroShotClassifier(), {"alpha": [0.0, 0.1]}, cv=2),
]


def expected_failures(estimator):
    if isinstance(estimator, ZeroShotClassifier):
        return {
            "check_non_transformer_estimators_n_iter": "without prototypes there is no unseen "
            "class and the fit is in closed form: no iteration"
        }
    return {}


# The checks have two or three classes: a fold can neither hold out nor keep more than one.
@pytest.mark.filterwarnings("ignore:A fold holds out a single class")
@pytest.mark.filterwarnings("ignore:At least two classes with samples")
@pytest.mark.filterwarnings("ignore:Classes should have different centers")
@parametrize_with_sklearn_checks(
    REPRESENTATIVE,
    in_full=(AnyShotClassifier, ZeroShotClassifier, FewShotClassifier, NearestSupport),
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@leave_to_test_all(
    parametrize_with_zero_shot_checks(CONFIGURATIONS),
    lambda estimator, name: (
        getattr(estimator, "competition", "entropy") in (None, "assigned")  # as "second-best"
        or (estimator is CHOSEN and name not in OF_CHOICES)
    ),
)
def test_zero_shot_contract(estimator, check):
    check(estimator)


SHOTS = shots_problem()
BASE = BaseClasses(Moments.from_arrays(SHOTS.X_base, SHOTS.y_base, SHOTS.prototypes))
FEW = FewShotClassifier(SHOTS.prototypes, n_episodes=2)


@parametrize_with_few_shot_checks(
    [
        NearestSupport(),
        NearestSupport("mean"),
        clone(FEW).set_params(noise=0.0, base=None),
        clone(FEW).set_params(noise=0.0, base=BASE, competition=None),
        clone(FEW).set_params(synthesis="base", base=BASE),
        clone(FEW).set_params(synthesis=None, base=BASE, competition="assigned"),
    ]
)
def test_few_shot_contract(estimator, check):
    check(estimator)
