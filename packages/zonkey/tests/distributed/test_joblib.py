"""Searches over the workers of a client, by joblib's backend for Dask."""

import joblib
import numpy as np

from zonkey import ZeroShotClassifier
from zonkey.model_selection import ClassKFold, ZeroShotSearchCV
from zonkey.streaming.dask import Shared
from zonkey.testing import linear_problem


def on_workers(function):
    with joblib.parallel_config(backend="dask"):
        return function()


def test_a_search_has_the_same_results(client):
    problem = linear_problem()
    model = ZeroShotClassifier(problem.prototypes, random_state=3)
    grid = [{"mu": [0.1, 0.05]}, {"alpha": [0.02, 0.1]}]

    def scores():
        search = ZeroShotSearchCV(model, grid, cv=ClassKFold(2), n_jobs=2)
        found = search.fit(problem.X, problem.y).cv_results_
        return {name: found[name] for name in found if "test_score" in name}

    expected, found = scores(), on_workers(scores)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)


def test_shared_functions_look_large():
    shared = Shared(max)
    assert Shared.run(shared, 3, 5) == 5
    assert shared.__sizeof__() > 1e3  # what joblib's backend sends once
