import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid

from zonkey.bpl.nearest_support import NearestSupport

rng = np.random.default_rng(0)
X, y = rng.normal(size=(24, 5)), np.repeat(["a", "b", "c"], 8)
X_new = rng.normal(size=(40, 5))


@pytest.mark.parametrize(
    ("reference", "other"),
    [("sample", KNeighborsClassifier(1)), ("mean", NearestCentroid())],
)
def test_predictions_are_those_of_scikit_learn(reference, other):
    model = NearestSupport(reference).fit(X, y)
    np.testing.assert_array_equal(model.predict(X_new), other.fit(X, y).predict(X_new))


@pytest.mark.parametrize("reference", ["sample", "mean"])
def test_classes_are_ranked_by_their_nearest_reference(reference):
    model = NearestSupport(reference).fit(X, y)
    scores = np.empty((len(X_new), 3))
    for i, x in enumerate(X_new):
        for j, label in enumerate("abc"):
            members = X[y == label]
            members = members if reference == "sample" else members.mean(axis=0)[None]
            scores[i, j] = -min(np.sum((x - member) ** 2) for member in members)
    np.testing.assert_allclose(model.decision_function(X_new), scores)
    ranked = np.array(list("abc"))[np.argsort(-scores, axis=1)]
    np.testing.assert_array_equal(model.predict_top(X_new, 3), ranked)
    np.testing.assert_array_equal(model.predict_top(X_new, 1)[:, 0], model.predict(X_new))


def test_bad_input():
    with pytest.raises(ValueError, match="`reference` must be one of"):
        NearestSupport("median").fit(X, y)
    with pytest.raises(ValueError, match="at most the number of candidates, 3; got 4"):
        NearestSupport().fit(X, y).predict_top(X_new, 4)
