"""What scikit-learn asks of estimators that say they take arrays of any library."""

import numpy as np
import pytest
import sklearn
from libraries import in_every_library
from numpy.testing import assert_array_equal
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks, get_tags

from zonkey import AnyShotClassifier, FewShotClassifier, NearestSupport, ZeroShotClassifier
from zonkey.preprocessing import FeatureNormalizer, WithinClassWhitener
from zonkey.testing import linear_problem

ESTIMATORS = [
    pytest.param(AnyShotClassifier(), marks=pytest.mark.exhaustive),
    AnyShotClassifier(preprocessing=None, temperature=1.0),
    ZeroShotClassifier(),
    ZeroShotClassifier(direction="forward"),
    ZeroShotClassifier(direction="reverse"),
    FewShotClassifier(n_episodes=1),
    FewShotClassifier(synthesis=None),
    NearestSupport(),
    NearestSupport("mean"),
    FeatureNormalizer(power=0.5, center=True),
    WithinClassWhitener(),
]
KINDS = [("numpy", None), ("torch", "cpu")]
KINDS += [("array_api_strict", name) for name in ("CPU_DEVICE", "device1")]


@pytest.mark.skipif(
    not hasattr(estimator_checks, "check_array_api_mixed_inputs"),
    reason="this scikit-learn has no such check",
)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_the_checks_of_scikit_learn(estimator, monkeypatch):
    # scikit-learn asks for it; SciPy, which would have to be imported anew, has no part here.
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    name = type(estimator).__name__
    assert get_tags(estimator).array_api_support
    for library, device in KINDS:
        for dtype in ("float64", "float32"):
            place = {"device_name": device, "dtype_name": dtype}
            estimator_checks.check_array_api_input_and_values(name, estimator, library, **place)
    from sklearn.utils._array_api import yield_mixed_namespace_input_permutations

    for y_place, X_place, _ in yield_mixed_namespace_input_permutations():
        if {y_place.device, X_place.device} <= {"device1", "cpu"}:
            mixed = estimator_checks.check_array_api_mixed_inputs
            mixed(name, estimator, X_place, y_place, check_values=True)


@in_every_library
@pytest.mark.parametrize("synthesis", ["perturb", None])
@pytest.mark.parametrize("with_names", [False, True])
def test_dispatch_of_scikit_learn_changes_nothing(library, synthesis, with_names, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    P = linear_problem(noise=0.5)
    numbers = {name: j for j, name in enumerate(sorted(P.prototypes))}
    prototypes, y, y_new = P.prototypes, P.y, P.y_new
    if not with_names:
        prototypes = {numbers[name]: vector for name, vector in prototypes.items()}
        y, y_new = (library(np.array([numbers[name] for name in of])) for of in (y, y_new))
    classifier = ZeroShotClassifier(prototypes, synthesis=synthesis, random_state=0)
    pipeline = make_pipeline(FeatureNormalizer(), WithinClassWhitener(), classifier)
    results = []
    for dispatch in (False, True):
        with sklearn.config_context(array_api_dispatch=dispatch):
            pipeline.fit(library(P.X), y)
            predicted = pipeline.predict(library(P.X_new))
            results.append(predicted if with_names else library.numpy(predicted))
            assert 0.5 < pipeline.score(library(P.X_new), y_new) < 1
    assert_array_equal(*results)
