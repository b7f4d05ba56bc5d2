"""What scikit-learn asks of classifiers of several labels."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import estimator_checks_generator
from sklearn_checks import parametrize_with_sklearn_checks

from zonkey import MultiLabelClassifier

ONE_CLASS = "the check passes one class per sample; this estimator takes an indicator matrix"
OTHER_CHECKS = (
    "check_estimators_dtypes",
    "check_sample_weights_pandas_series",
    "check_sample_weights_not_an_array",
    "check_sample_weights_shape",
    "check_sample_weights_not_overwritten",
    "check_classifier_data_not_an_array",
    "check_classifiers_classes",
    "check_classifiers_train",
    "check_decision_proba_consistency",
    "check_classifier_not_supporting_multiclass",
    "check_fit2d_1feature",
)


def expected_failures(estimator):
    found = dict.fromkeys(OTHER_CHECKS, ONE_CLASS)
    if estimator.threshold == "f1":
        reason = "a label is predicted from its threshold on, which is not a probability of 0.5"
        found["check_classifier_multioutput"] = reason
    return found


@parametrize_with_sklearn_checks(
    [MultiLabelClassifier(), MultiLabelClassifier(threshold=0.5)],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_contract(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        check(estimator)


class Column(MultiLabelClassifier):
    """Takes the larger of two numbers in one column for a label, as the checks pass them."""

    def fit(self, X, y=None, sample_weight=None):
        y = y if y is None else np.asarray(y)
        return super().fit(X, y if y is None else (y == y.max()).astype(int), sample_weight)


FOR_COLUMNS = (*OTHER_CHECKS[:6], "check_fit2d_1feature")
CHECKS = [
    pair
    for pair in estimator_checks_generator(Column())
    if getattr(pair[1], "func", pair[1]).__name__ in FOR_COLUMNS
]


@pytest.mark.parametrize(("estimator", "check"), CHECKS)
def test_checks_of_one_class_hold_for_its_column(estimator, check):
    check(estimator)


def test_tools_of_scikit_learn_take_it():
    rng = np.random.default_rng(0)
    Y = rng.random((90, 3)) < 0.4
    X = Y @ rng.normal(size=(3, 6)) * 3 + rng.normal(size=(90, 6))
    model = clone(MultiLabelClassifier())
    assert cross_val_score(model, X, Y.astype(int), cv=3, scoring="f1_micro").mean() > 0.8
