"""ZeroShotSearchCV: the naive loop over folds and points, only faster."""

import numpy as np
import pandas as pd
import pytest
from decompositions import watched_decompositions
from libraries import in_every_library
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import (
    GridSearchCV,
    GroupShuffleSplit,
    KFold,
    LeaveOneGroupOut,
    ParameterGrid,
)
from sklearn.pipeline import make_pipeline

from zonkey import FewShotClassifier, ZeroShotClassifier
from zonkey.model_selection import ClassKFold, ZeroShotSearchCV
from zonkey.preprocessing import FeatureNormalizer
from zonkey.testing import linear_problem

# Noise that leaves room between the points of a grid.
P = linear_problem(n_classes=15, noise=2.0)


def estimator(**parameters):
    return P.make_clone(ZeroShotClassifier(), **parameters)


def searched(grid, *, cv=3, refit=True, n_jobs=None, **parameters):
    search = ZeroShotSearchCV(estimator(**parameters), grid, cv=cv, refit=refit, n_jobs=n_jobs)
    return search.fit(P.X, P.y)


def naive_scores(grid, cv, *, random_state=0, **parameters):
    """Fit every point on the samples of every fold, with the prototypes of training classes."""
    seed = np.random.RandomState(random_state).randint(2**31 - 1)
    known = {label: P.prototypes[label] for label in P.seen}
    scores = []
    for point in ParameterGrid(grid):
        model = estimator(**parameters).set_params(
            **point, prototypes=known, candidates="unseen", random_state=seed
        )
        scores.append(
            [
                clone(model).fit(P.X[train], P.y[train]).score(P.X[test], P.y[test])
                for train, test in cv.split(P.X, P.y)
            ]
        )
    return np.array(scores)


def split_scores(search):
    names = sorted(name for name in search.cv_results_ if name.startswith("split"))
    return np.column_stack([search.cv_results_[name] for name in names])


GRIDS = {
    "weights": {"alpha": [0.0, 0.25, 0.7], "mu": [0.0, 0.3], "rho": [0.9]},
    "ridge": {"beta": [0.001, 1.0, 300.0], "n_neighbors": [1, 4]},
    "samples": {"n_synthetic": [3, 40], "synthetic_per": ["class", "neighbor"], "alpha": [0.4]},
    "parts": {"direction": ["both", "forward", "reverse"], "synthesis": ["perturb", None]},
    "rules": {"competition": ["second-best", None, "assigned"], "alpha": [0.5], "scaling": [None]},
    "list": [{"tie_tol": [0.3], "alpha": [0.5]}, {"max_iter": [1, 2], "tol": [0.01]}],
}


@pytest.mark.parametrize("name", [*GRIDS, "shuffled"])
def test_equals_the_naive_loop(name):
    grid = GRIDS.get(name, GRIDS["weights"])
    cv = ClassKFold(4, shuffle=True, random_state=2) if name == "shuffled" else ClassKFold(3)
    expected = naive_scores(grid, cv)
    assert np.ptp(expected) > 0
    search = searched(grid, cv=cv)
    assert_allclose(split_scores(search), expected, atol=1e-12)
    assert search.best_index_ == expected.mean(axis=1).argmax()
    assert search.best_score_ == pytest.approx(expected.mean(axis=1).max())
    assert search.best_params_ == list(ParameterGrid(grid))[search.best_index_]


@pytest.mark.parametrize(
    ("grid", "parameters"),
    [
        ({"beta": [0.01, 100.0]}, {"synthesis": None}),
        ({"beta": [0.01, 100.0]}, {"direction": "forward"}),
        ({"beta": [0.01, 100.0]}, {"n_synthetic": 3, "alpha": 0.6}),
        # Points may synthesize, and may need the scatter, where the estimator does not.
        ({"synthesis": [None, "perturb"], "alpha": [0.6]}, {"synthesis": None}),
        ({"direction": ["reverse", "both"], "alpha": [0.6]}, {"direction": "reverse"}),
    ],
    ids=str,
)
def test_parameters_outside_the_grid_are_those_of_the_estimator(grid, parameters):
    expected = naive_scores(grid, ClassKFold(3), **parameters)
    search = searched(grid, candidates=[P.unseen[0], P.seen[0]], **parameters)
    assert_allclose(split_scores(search), expected, atol=1e-12)
    assert np.abs(expected - naive_scores({"beta": [0.01, 100.0]}, ClassKFold(3))).max() > 0
    assert_array_equal(search.classes_, sorted([P.unseen[0], P.seen[0]]))


def test_a_point_without_n_synthetic_uses_that_of_the_estimator():
    p = linear_problem(n_classes=6, noise=2.0)
    X, y = np.repeat(p.X, 12, axis=0), np.repeat(p.y, 12)  # 108 samples a class
    X = X + np.random.default_rng(0).normal(size=X.shape)
    model = p.make_clone(ZeroShotClassifier(n_synthetic=100, n_neighbors=1, alpha=0.5))
    mixed = [{"n_synthetic": [5]}, {"rho": [0.5]}]
    alone = ZeroShotSearchCV(model, {"rho": [0.5]}, cv=2, refit=False).fit(X, y)
    search = ZeroShotSearchCV(model, mixed, cv=2, refit=False).fit(X, y)
    assert_array_equal(split_scores(search)[1], split_scores(alone)[0])


def test_the_seed_decides_and_points_share_it():
    grid = {"alpha": [0.3, 0.6, 0.6]}
    first, again = searched(grid, random_state=4), searched(grid, random_state=4)
    assert_array_equal(split_scores(first), split_scores(again))
    assert_array_equal(split_scores(first)[1], split_scores(first)[2])
    assert_allclose(split_scores(first), naive_scores(grid, ClassKFold(3), random_state=4))
    others = [split_scores(searched(grid, random_state=seed)) for seed in range(5, 9)]
    assert any(np.any(other != split_scores(first)) for other in others)


def test_scores_over_all_weights_are_exactly_those_of_raw_folds():
    grid = {"rho": [0.1, 0.9], "alpha": [0.1, 0.5], "mu": [0.0, 0.3], "beta": [0.01, 30.0]}
    expected = naive_scores(grid, ClassKFold(3))
    assert len(np.unique(expected)) > 5
    for n_jobs in (None, 2):
        with watched_decompositions() as seen:
            search = searched(grid, n_jobs=n_jobs, refit=False)
        assert_array_equal(split_scores(search), expected)
        assert search.best_index_ == expected.mean(axis=1).argmax()
        for train, _ in ClassKFold(3).split(P.X, P.y):
            assert seen.times(P.X[train].T @ P.X[train]) == 1


WIDE = linear_problem(n_classes=15, n_features=150, noise=2.0)
WEIGHTS = {"beta": [0.1, 1.0], "alpha": [0.02, 0.2], "mu": [0.0, 0.05], "rho": [0.2, 0.8]}


@pytest.mark.parametrize(
    ("grid", "per_fold"),
    [
        (WEIGHTS, 1),
        ({"synthesis": [None], "beta": [0.1, 0.3, 1.0, 3.0]}, 1),
        ({"n_neighbors": [1, 2], "beta": [0.1, 1.0], "synthesis": [None, "perturb"]}, 1),
        ({"direction": ["reverse"], **WEIGHTS}, 0),
    ],
    ids=["weights", "closed form", "neighbors", "no scatter"],
)
def test_each_fold_is_decomposed_once(grid, per_fold):
    # So many features that each step is solved by iteration, never by another decomposition.
    model = WIDE.make_clone(ZeroShotClassifier(), n_synthetic=3, alpha=0.02)
    search = ZeroShotSearchCV(model, grid, cv=3, refit=False)
    with watched_decompositions() as seen:
        search.fit(WIDE.X, WIDE.y)
    assert seen.of_size(150) == 3 * per_fold


def test_refit_is_a_fit_on_everything():
    frame, new = (pd.DataFrame(X).add_prefix("feature ") for X in (P.X, P.X_new))
    search = ZeroShotSearchCV(estimator(), {"alpha": [0.0, 0.5], "rho": [0.2, 1.0]}, cv=3)
    search.fit(frame, pd.Series(P.y))
    expected = estimator(**search.best_params_).fit(P.X, P.y)
    assert_array_equal(search.best_estimator_.feature_names_in_, frame.columns)
    for method in ("predict", "predict_top", "decision_function"):
        assert_array_equal(getattr(search, method)(new), getattr(expected, method)(P.X_new))


def test_without_refit_there_are_scores_and_no_predictions():
    search = searched({"alpha": [0.0, 0.5]}, refit=False)
    assert search.best_params_ in search.cv_results_["params"]
    assert not hasattr(search, "best_estimator_")
    for call in (
        lambda: search.predict(P.X_new),
        lambda: search.predict_top(P.X_new),
        lambda: search.decision_function(P.X_new),
        lambda: search.score(P.X_new, P.y_new),
    ):
        with pytest.raises(AttributeError, match=r"refitted model; got refit=False.*refit=True"):
            call()


def test_nothing_is_predicted_before_fit_or_after_a_failed_one():
    search = ZeroShotSearchCV(estimator(), {"alpha": [2.0]}, cv=2)
    with pytest.raises(NotFittedError):
        search.predict(P.X_new)
    with pytest.raises(ValueError, match="`alpha` must be a number"):
        search.fit(P.X, P.y)
    with pytest.raises(NotFittedError):
        search.predict(P.X_new)


def test_results_have_the_layout_of_scikit_learn():
    grid = [{"alpha": [0.0, 0.5], "mu": [0.2]}, {"direction": ["forward"]}]
    search = searched(grid, cv=4)
    theirs = GridSearchCV(estimator(), grid, cv=ClassKFold(4)).fit(P.X, P.y).cv_results_
    results = search.cv_results_
    timings = {"mean_fit_time", "std_fit_time", "mean_score_time", "std_score_time"}
    assert results.keys() == theirs.keys() - timings
    assert results["params"] == theirs["params"]
    for name in ("param_alpha", "param_mu", "param_direction"):
        assert_array_equal(results[name].mask, theirs[name].mask)
        assert results[name].tolist() == theirs[name].tolist()
    scores = split_scores(search)
    assert_allclose(results["mean_test_score"], scores.mean(axis=1))
    assert_allclose(results["std_test_score"], scores.std(axis=1))
    assert_array_equal(results["rank_test_score"], rankdata(-scores.mean(axis=1), method="min"))
    assert results["rank_test_score"].dtype == theirs["rank_test_score"].dtype
    assert len(pd.DataFrame(results)) == 3


@pytest.mark.parametrize(
    "cv",
    [np.int64(3), list(ClassKFold(3).split(P.X, P.y)), ClassKFold(3).split(P.X, P.y)],
    ids=["integer", "list", "generator"],
)
def test_folds_may_be_given_in_every_usual_way(cv):
    expected = split_scores(searched({"alpha": [0.1, 0.6]}))
    assert_array_equal(split_scores(searched({"alpha": [0.1, 0.6]}, cv=cv)), expected)


def test_folds_that_split_a_class_are_refused():
    with pytest.raises(ValueError, match=r"whole classes; class 'class \d\d' is on both.*ClassKF"):
        searched({"alpha": [0.1]}, cv=KFold(2, shuffle=True, random_state=0))


def test_folds_that_leave_samples_out_are_refused():
    parts = GroupShuffleSplit(1, train_size=0.5, test_size=0.3, random_state=0)
    folds = list(parts.split(P.X, P.y, groups=P.y))
    with pytest.raises(ValueError, match=r"must be all 90 samples; got 45 and 27.*ClassKFold"):
        searched({"alpha": [0.1]}, cv=folds)
    whole = list(LeaveOneGroupOut().split(P.X, P.y, groups=P.y))
    with pytest.warns(UserWarning, match="single class.*fewer folds"):
        assert searched({"alpha": [0.1]}, cv=whole).best_score_ == 1


@pytest.mark.parametrize(
    "wrong",
    [FeatureNormalizer(), "model", FewShotClassifier(), make_pipeline(FeatureNormalizer())],
    ids=["transformer", "text", "few-shot", "pipeline without classifier"],
)
def test_other_estimators_are_refused(wrong):
    with pytest.raises(TypeError, match=r"must be a ZeroShotClassifier, one of.*GridSearchCV"):
        ZeroShotSearchCV(wrong, {"beta": [1.0]}).fit(P.X, P.y)


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"alpha": [0.1, 1.0]}, r"`alpha` must be a number in \[0, 1\); got 1.0"),
        ({"n_synthetic": ["many", 3]}, r"`n_synthetic` must be an integer.*got 'many'"),
        ({"alfa": [0.1]}, "Invalid parameter 'alfa'"),
        ([], "must have at least one point; got none"),
    ],
)
def test_bad_points_are_refused(grid, message):
    with pytest.raises(ValueError, match=message):
        searched(grid)


@in_every_library
def test_a_search_refuses_what_is_on_a_device(library):
    search = ZeroShotSearchCV(ZeroShotClassifier(), {"alpha": [0.1]})
    with pytest.raises(TypeError, match=r"works on the host; got samples in .* `best_params_`"):
        search.fit(library(np.eye(4)), library(np.arange(4)))


@pytest.mark.parametrize(
    ("grid", "scatter"),
    [
        ({"direction": ["reverse"]}, False),
        ({"direction": ["reverse", "forward"]}, True),
        ({"beta": [0.1]}, True),
    ],
)
def test_the_scatter_is_formed_only_if_a_point_needs_it(grid, scatter, monkeypatch):
    formed = []
    gather = ZeroShotClassifier.gather

    def noting(self, X, y):
        formed.append(gather(self, X, y))
        return formed[-1]

    monkeypatch.setattr(ZeroShotClassifier, "gather", noting)
    ZeroShotSearchCV(ZeroShotClassifier(P.prototypes, synthesis=None), grid, cv=2).fit(P.X, P.y)
    assert {moments.scatter for moments in formed} == {scatter}
