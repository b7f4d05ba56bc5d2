"""scikit-learn's estimator checks: all for one estimator of a kind, a few for the others."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

_FOR_ALL = {"check_estimators_unfitted", "check_estimators_pickle", "check_classifiers_train"}


def parametrize_with_sklearn_checks(estimators, *, in_full=None, **options):
    """Return `parametrize_with_checks` without array API checks.

    They are skipped unless SCIPY_ARRAY_API was set before SciPy was imported, once per library and
    device; tests/estimators/test_array_api_contract.py runs them.

    Estimators that share a base class fail together. So all checks are for those of the types
    `in_full`, by default for the first estimator only; `make test-all` has them for every one.
    """
    mark = parametrize_with_checks(estimators, **options).mark
    names, cases = mark.args
    kept, seen = [], []
    for case in cases:
        estimator, check = getattr(case, "values", case)
        name = getattr(check, "func", check).__name__
        if "array_api" in name:
            continue
        if not any(estimator is one for one in seen):
            is_first = not seen if in_full is None else type(estimator) in in_full
            is_first &= not any(type(estimator) is type(one) for one in seen)
            seen.append(estimator)
            runs_in_full = is_first
        if not runs_in_full and name not in _FOR_ALL:
            case = _mark(case)
        kept.append(case)
    return pytest.mark.parametrize(names, kept, **mark.kwargs)


def leave_to_test_all(decorator, is_left):
    """Return a decorator of checks of which `make test-all` alone runs those that are left to it.

    `is_left` takes an estimator and the name of a check.
    """
    names, cases = decorator.mark.args
    pairs = [(case, *case.values[:2]) for case in cases]
    marked = [
        _mark(case) if is_left(estimator, getattr(check, "func", check).__name__) else case
        for case, estimator, check in pairs
    ]
    return pytest.mark.parametrize(names, marked, **decorator.mark.kwargs)


def _mark(case):
    """Return a case that only `make test-all` runs."""
    values, marks = getattr(case, "values", case), getattr(case, "marks", ())
    return pytest.param(*values, marks=[*marks, pytest.mark.exhaustive])
