"""Contract checks for zero-shot and few-shot classifiers, to run on a class of your own.

They complement scikit-learn's estimator checks, which know nothing of prototypes, unseen classes
and base classes.

In a test file::

    from sklearn.utils.estimator_checks import parametrize_with_checks
    from zonkey.testing import parametrize_with_zero_shot_checks

    @parametrize_with_checks([MyClassifier()])
    def test_scikit_learn_contract(estimator, check):
        check(estimator)

    @parametrize_with_zero_shot_checks([MyClassifier()])
    def test_zero_shot_contract(estimator, check):
        check(estimator)
"""

from .few_shot import few_shot_checks, parametrize_with_few_shot_checks, shots_problem
from .zero_shot import linear_problem, parametrize_with_zero_shot_checks, zero_shot_checks

__all__ = [
    "few_shot_checks",
    "linear_problem",
    "parametrize_with_few_shot_checks",
    "parametrize_with_zero_shot_checks",
    "shots_problem",
    "zero_shot_checks",
]
