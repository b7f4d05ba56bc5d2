"""scikit-learn's estimator checks, without those that are always skipped."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks


def parametrize_with_sklearn_checks(estimators, **options):
    """Return `parametrize_with_checks` without array API checks.

    They are skipped unless SCIPY_ARRAY_API was set before SciPy was imported, once per library and
    device; tests/estimators/test_array_api_contract.py runs them.
    """
    mark = parametrize_with_checks(estimators, **options).mark
    names, cases = mark.args
    kept = [case for case in cases if "array_api" not in _name(case)]
    return pytest.mark.parametrize(names, kept, **mark.kwargs)


def _name(case):
    check = getattr(case, "values", case)[1]
    return getattr(check, "func", check).__name__
