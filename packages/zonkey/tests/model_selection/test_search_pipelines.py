"""ZeroShotSearchCV over pipelines: the naive loop over the whole of them, only faster."""

import numpy as np
import pandas as pd
import pytest
from all_pairs import all_pairs
from numpy.testing import assert_allclose, assert_array_equal
from reference import decomposed
from refusals import refused
from sklearn.base import clone
from sklearn.impute import SimpleImputer
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from recording import recording
from zonkey import ZeroShotClassifier
from zonkey.bpl.calibration import calibrate
from zonkey.model_selection import ClassKFold, ZeroShotSearchCV
from zonkey.preprocessing import FeatureNormalizer, WithinClassWhitener
from zonkey.testing import linear_problem

# Noise that leaves room between the points of a grid, and classes of different sizes.
P = linear_problem(n_classes=15, noise=2.0)
KEPT = np.flatnonzero((np.arange(len(P.y)) % 4 > 0) | (P.y < "class 07"))
X, Y = P.X[KEPT], P.y[KEPT]
CV = ClassKFold(3, shuffle=True, random_state=2)
SEED = np.random.RandomState(0).randint(2**31 - 1)
AUTO = {"seen_penalty": "auto"}


def classifier(**parameters):
    return P.make_clone(ZeroShotClassifier(), **({"synthesis": None} | parameters))


def pipeline(last=None, whiten=None, **parameters):
    return Pipeline(
        [
            ("power", FeatureNormalizer(power=0.5, center=True)),
            ("whiten", WithinClassWhitener(1.0) if whiten is None else whiten),
            ("classify", classifier(**parameters) if last is None else last),
        ]
    )


def searched(model, grid, **options):
    return ZeroShotSearchCV(model, grid, **({"cv": CV} | options)).fit(X, Y)


def of_training_classes(prototypes=P.prototypes):
    return {label: prototypes[label] for label in P.seen}


def naive_scores(model, grid, *, known=None):
    """Fit the whole on the samples of every fold, with the prototypes of training classes only."""
    prefix = "classify__" if isinstance(model, Pipeline) else ""
    fixed = {
        f"{prefix}prototypes": of_training_classes() if known is None else known,
        f"{prefix}candidates": "unseen",
    }
    if f"{prefix}random_state" in model.get_params():
        fixed[f"{prefix}random_state"] = SEED
    scores = []
    for point in ParameterGrid(grid):
        wanted = clone(model).set_params(**point, **fixed)
        folds = CV.split(X, Y)
        fits = [(clone(wanted).fit(X[train], Y[train]), test) for train, test in folds]
        scores.append([fitted.score(X[test], Y[test]) for fitted, test in fits])
    return np.array(scores)


def split_scores(search):
    return np.column_stack([search.cv_results_[f"split{i}_test_score"] for i in range(3)])


def assert_naive(search, grid, **options):
    expected = naive_scores(search.estimator, grid, **options)
    assert np.ptp(expected) > 0
    assert_allclose(split_scores(search), expected, atol=1e-12)
    assert search.best_index_ == expected.mean(axis=1).argmax()
    assert search.best_params_ == list(ParameterGrid(grid))[search.best_index_]


GRIDS = {
    "steps": {"whiten__shrinkage": [0.05, 1.0, 20.0], "power__power": [0.4, 1.0]},
    "both": {"whiten__shrinkage": [0.05, 5.0], "classify__beta": [0.01, 1.0, 30.0]},
    "synthesis": {
        "classify__synthesis": [None, "perturb"],
        "classify__n_synthetic": [3, 20],
        "classify__alpha": [0.6],
        "classify__mu": [0.02],
        "whiten__shrinkage": [0.1, 10.0],
    },
    "other steps": {
        "whiten": [WithinClassWhitener(0.1), "passthrough"],
        "power": ["passthrough", FeatureNormalizer()],
    },
    "list": [
        {"whiten__shrinkage": [0.1]},
        {"classify__beta": [3.0, 0.1]},
        {"power__center": [False], "classify__direction": ["forward", "reverse"]},
    ],
}


@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS.keys())
def test_pipelines_equal_the_naive_loop(grid):
    search = searched(pipeline(), grid, n_jobs=2)
    assert_naive(search, grid)
    best = clone(search.estimator).set_params(**search.best_params_).fit(X, Y)
    assert_array_equal(search.classes_, P.unseen)
    for method in ("predict", "decision_function"):
        expected = getattr(best, method)(P.X_new)
        assert_array_equal(getattr(search, method)(P.X_new), expected)
    top = best[-1].predict_top(best[:-1].transform(P.X_new), 2)
    assert_array_equal(search.predict_top(P.X_new, 2), top)
    weight = np.linspace(1, 2, len(P.y_new))
    assert search.score(P.X_new, P.y_new, weight) == best.score(
        P.X_new, P.y_new, sample_weight=weight
    )


# What is learned how often


@pytest.mark.parametrize(
    ("of_steps", "n_settings"),
    [({}, 1), ({"whiten__shrinkage": [1.0, 2.0, 1.0]}, 2), ({"power__power": [0.5, 1.0]}, 2)],
    ids=str,
)
def test_steps_are_learned_once_a_fold_for_each_of_their_settings(of_steps, n_settings):
    step = recording()
    grid = of_steps | {"classify__beta": [0.1, 1.0, 10.0]}
    search = searched(pipeline(whiten=step), grid, refit=False)
    training = [Y[train].tolist() for train, _ in CV.split(X, Y)]
    assert sorted(y.tolist() for _, y in step.fits) == sorted(n_settings * training)
    assert not hasattr(step, "whitening_")
    step.fits.clear()
    search.set_params(refit=True).fit(X, Y)
    assert len(step.fits) == 3 * n_settings + 1
    assert_array_equal(step.fits[-1][1], Y)


@pytest.mark.parametrize(
    ("grid", "n_factors"),
    [
        ({}, 1),
        ({"whiten__shrinkage": [0.1, 10.0]}, 2),
        ({"classify__direction": ["reverse", "forward"]}, 1),
        ({"classify__direction": ["reverse"]}, 0),
    ],
    ids=str,
)
def test_features_are_decomposed_once_a_fold_and_setting_of_the_steps(monkeypatch, grid, n_factors):
    shapes = decomposed(monkeypatch)
    searched(pipeline(), grid | {"classify__beta": [0.1, 1.0, 3.0]}, refit=False)
    assert shapes.count((X.shape[1], X.shape[1])) == 3 * n_factors


# What has no say


def test_prototypes_of_test_classes_have_no_influence():
    grid = {"classify__beta": [0.1, 1.0], "whiten__shrinkage": [0.1]}
    expected = searched(pipeline(), grid)
    absurd = {f"class {name}": 1e6 * np.ones(5) for name in ("00 a", "99")}
    changed = {label: -1e3 * P.prototypes[label] for label in P.unseen}
    for prototypes in [P.prototypes | absurd, P.prototypes | changed, of_training_classes()]:
        search = searched(pipeline(prototypes=prototypes), grid, refit=False)
        assert_array_equal(split_scores(search), split_scores(expected))
        assert search.best_params_ == expected.best_params_


@pytest.mark.parametrize(
    "parameters", [{"candidates": "all"}, {"seen_penalty": 9.0}, AUTO], ids=str
)
def test_what_is_asked_in_the_end_has_no_influence(parameters):
    grid = {"classify__beta": [0.1, 1.0], "whiten__shrinkage": [0.1, 10.0]}
    search = searched(pipeline(**parameters), grid)
    assert_array_equal(split_scores(search), split_scores(searched(pipeline(), grid)))
    last = search.best_estimator_[-1].get_params()
    assert parameters is AUTO or parameters.items() <= last.items()


# The penalty


@pytest.mark.parametrize("candidates", ["all", "unseen"])
def test_the_whole_pipeline_is_calibrated_at_its_best_point(candidates):
    step = recording()
    model = pipeline(whiten=step, candidates=candidates, **AUTO)
    search = searched(model, {"whiten__shrinkage": [0.1, 10.0], "classify__beta": [0.03, 0.3]})
    n_fits = len(step.fits)
    best = clone(model).set_params(**search.best_params_)
    expected = calibrate(best, X, Y)
    assert n_fits == 6 + (len(step.fits) - n_fits) + 1  # folds, calibration, and all the data
    assert search.calibration_ == {"seen_penalty": expected}
    by_hand = best.set_params(classify__seen_penalty=expected).fit(X, Y)
    last = search.best_estimator_[-1]
    assert last.seen_penalty == last.seen_penalty_ == expected
    new = np.concatenate([X, P.X_new])
    assert_array_equal(search.decision_function(new), by_hand.decision_function(new))
    assert model[-1].seen_penalty == "auto"


def test_a_classifier_alone_is_calibrated_as_its_own_fit_does():
    search = searched(classifier(candidates="all", **AUTO), {"beta": [0.1, 1.0, 10.0]})
    alone = classifier(candidates="all", **AUTO, **search.best_params_).fit(X, Y)
    assert search.calibration_ == {"seen_penalty": alone.seen_penalty_}
    assert_array_equal(search.decision_function(P.X_new), alone.decision_function(P.X_new))


def test_numbers_and_scores_alone_need_no_calibration():
    grid = {"classify__beta": [0.1, 1.0]}
    assert not hasattr(searched(pipeline(), grid), "calibration_")
    step = recording()
    assert not hasattr(searched(pipeline(whiten=step, **AUTO), grid, refit=False), "calibration_")
    assert len(step.fits) == 3


# One grid after another


STAGES = (
    {"whiten__shrinkage": [0.05, 1.0, 20.0], "power__power": [0.4, 1.0]},
    [{"classify__direction": ["reverse"]}, {"power__center": [False, True]}],
    {"classify__beta": [1.0, 0.01, 100.0]},
)


def test_grids_of_a_tuple_are_searched_one_after_the_other():
    model, points, scores = pipeline(), [], []
    best = {}
    for grid in STAGES:
        alone = searched(clone(model).set_params(**best), grid, refit=False)
        points += [best | point for point in ParameterGrid(grid)]
        scores.append(split_scores(alone))
        best |= alone.best_params_
    search = searched(model, STAGES)
    assert search.cv_results_["params"] == points
    assert_array_equal(split_scores(search), np.concatenate(scores))
    assert search.best_params_ == best
    assert search.best_score_ == scores[-1].mean(axis=1).max()
    assert search.cv_results_["params"][search.best_index_] == best
    by_hand = clone(model).set_params(**best).fit(X, Y)
    assert_array_equal(search.predict(P.X_new), by_hand.predict(P.X_new))


# What is refused


@all_pairs(
    {
        "name": ["prototypes", "candidates", "seen_penalty", "random_state"],
        "stages": [False, True],
    }
)
def test_what_the_folds_decide_is_refused_under_the_name_of_the_step(name, stages):
    grid = [{"classify__beta": [0.1]}, {f"classify__{name}": [0.5]}]
    said = f"`param_grid` must leave `{name}` alone: the folds decide it"
    with refused(ValueError, said, "Set it on the estimator"):
        searched(pipeline(), tuple(grid) if stages else grid)
    with refused(ValueError, said, "Set it on the estimator"):
        searched(classifier(), {name: [0.5]})


def test_other_names_that_are_refused():
    with refused(ValueError, "Invalid parameter"):
        searched(pipeline(), {"classify__betta": [0.1]})
    with refused(ValueError, "not 'classify' as a whole", "one classifier at a time"):
        searched(pipeline(), {"classify": [classifier(beta=1e-3), classifier(beta=1e3)]})


def test_pipelines_that_end_in_something_else():
    nested = Pipeline([("whiten", WithinClassWhitener()), ("inner", pipeline())])
    with refused(TypeError, "or a Pipeline that ends in one; got Pipeline", "GridSearchCV"):
        searched(nested, {"inner__classify__beta": [0.1]})


# Several fits, and samples that come in other forms


def test_a_later_fit_forgets_what_was_chosen():
    search = searched(pipeline(**AUTO), {"classify__beta": [0.1]})
    search.set_params(estimator=pipeline()).fit(X, Y)
    assert not hasattr(search, "calibration_")


def test_a_worse_last_grid_does_not_win():
    search = searched(pipeline(), ({"whiten__shrinkage": [0.05, 20.0]}, {"classify__beta": [1e9]}))
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()


def test_the_first_step_may_look_at_what_came():
    grid = {"classify__beta": [0.1, 1.0]}
    steps = [("impute", SimpleImputer()), *pipeline().steps]
    model = Pipeline(steps).set_output(transform="pandas")
    frame = pd.DataFrame(X).add_prefix("feature ")
    search = ZeroShotSearchCV(model, grid, cv=CV).fit(frame, pd.Series(Y))
    assert_array_equal(split_scores(search), split_scores(searched(pipeline(), grid)))
    holed = X.copy()
    holed[3, 2] = np.nan
    assert np.isfinite(search.fit(holed, Y).decision_function(P.X_new)).all()


def test_what_cannot_be_pickled_may_be_searched():
    steps = [("identity", FunctionTransformer()), *pipeline().steps]
    grid = {"identity__func": [None, lambda Z: Z[:, ::-1]]}
    scores = ZeroShotSearchCV(Pipeline(steps), grid, cv=CV).fit(X, Y).cv_results_["mean_test_score"]
    assert_allclose(scores[0], scores[1])  # the order of features does not matter
