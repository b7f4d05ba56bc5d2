"""SimpleShot: normalizations by loops, base samples, contracts and model files."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import zonkey
from sklearn_checks import parametrize_with_sklearn_checks
from zonkey.peers.fsl import BaseSamples, SimpleShot
from zonkey.testing import parametrize_with_few_shot_checks, shots_problem

P = shots_problem()
BASE = BaseSamples(P.X_base, P.y_base)


@parametrize_with_sklearn_checks([SimpleShot(), SimpleShot(normalization=None)])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@parametrize_with_few_shot_checks([SimpleShot(BASE), SimpleShot(normalization="unit")])
def test_few_shot_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("normalization", ["centered", "unit", None])
def test_scores_are_distances_from_means(normalization):
    def transformed(x):
        if normalization == "centered":
            x = x - sum(P.X_base) / len(P.X_base)
        return x if normalization is None else x / np.sqrt(sum(a * a for a in x))

    model = P.fitted(SimpleShot(BASE, normalization=normalization))
    expected = np.empty((len(P.X_query), len(model.classes_)))
    for i, x in enumerate(P.X_query):
        for j, label in enumerate(model.classes_):
            rows = [transformed(row) for row in P.X_support[P.y_support == label]]
            gap = transformed(x) - sum(rows) / len(rows)
            expected[i, j] = -sum(a * a for a in gap)
    assert_allclose(model.decision_function(P.X_query), expected, rtol=1e-9, atol=1e-12)


def test_saved_and_loaded(tmp_path):
    model = P.fitted(SimpleShot(BASE))
    zonkey.save(model, tmp_path / "model.zonkey")
    loaded = zonkey.load(tmp_path / "model.zonkey")
    assert_array_equal(loaded.decision_function(P.X_query), model.decision_function(P.X_query))
