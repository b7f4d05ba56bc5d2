"""The contracts of the library for peers: all checks for one of a kind, a few for the others."""

import pytest

from zonkey.testing import parametrize_with_few_shot_checks, parametrize_with_zero_shot_checks

_FOR_ALL = {
    "check_unseen_accuracy",
    "check_accuracy",
    "check_fit_leaves_inputs_untouched",
    "check_inference_changes_nothing",
    "check_order_does_not_matter",
    "check_same_seed_same_model",
    "check_clone_and_pickle",
    "check_parameters_wait_for_refit",
}


def zero_shot_contract(estimators):
    """Return `parametrize_with_zero_shot_checks`, in full for the first estimator only."""
    return _thin_out(parametrize_with_zero_shot_checks(estimators).mark)


def few_shot_contract(estimators):
    """Return `parametrize_with_few_shot_checks`, in full for the first estimator only."""
    return _thin_out(parametrize_with_few_shot_checks(estimators).mark)


def _thin_out(mark):
    names, cases, first = *mark.args, None
    kept = []
    for case in cases:
        values = getattr(case, "values", case)
        estimator, check = values
        first = estimator if first is None else first
        if estimator is not first and check.__name__ not in _FOR_ALL:
            case = pytest.param(*values, id=getattr(case, "id", None), marks=pytest.mark.exhaustive)
        kept.append(case)
    return pytest.mark.parametrize(names, kept, **mark.kwargs)
