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


def zero_shot_contract(*families):
    """Return `parametrize_with_zero_shot_checks`, in full for the first peer of a family only."""
    return _thin_out(parametrize_with_zero_shot_checks, families)


def few_shot_contract(*families):
    """Return `parametrize_with_few_shot_checks`, in full for the first peer of a family only."""
    return _thin_out(parametrize_with_few_shot_checks, families)


def _thin_out(parametrize, families):
    kept = []
    for estimators in families:
        mark = parametrize(estimators).mark
        names, cases, first = *mark.args, estimators[0]
        for case in cases:
            values = getattr(case, "values", case)
            estimator, check = values
            marks = pytest.mark.exhaustive
            if estimator is first or check.__name__ in _FOR_ALL:
                marks = ()
            kept.append(pytest.param(*values, id=getattr(case, "id", None), marks=marks))
    return pytest.mark.parametrize(names, kept)
