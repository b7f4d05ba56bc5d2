"""Presets: what they are made of, what they choose, and what they leave as it was given."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refused
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline

from zonkey import FewShotClassifier, Moments, Prototypes, ZeroShotClassifier, presets
from zonkey.estimators.calibration import calibrate
from zonkey.evaluation import n_way_k_shot
from zonkey.metrics import generalized_scores
from zonkey.model_selection import ClassKFold, ZeroShotSearchCV
from zonkey.preprocessing import FeatureNormalizer, WithinClassWhitener
from zonkey.presets import few_shot, zero_shot
from zonkey.testing import linear_problem

P = linear_problem(noise=1.0, n_classes=18)  # 12 seen, 6 unseen
REGRESSION = {"forward_weight": 0.0, "weight_per": "class", "synthesis": None}


def unit_rows(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


# The paper


def test_the_paper_normalizes_samples_and_prototypes():
    model = presets.paper(P.prototypes, synthesis=None, beta=0.3).fit(P.X, P.y)
    unit = {label: vector / np.linalg.norm(vector) for label, vector in P.prototypes.items()}
    expected = ZeroShotClassifier(unit, synthesis=None, beta=0.3).fit(unit_rows(P.X), P.y)
    assert_allclose(model[-1].projection_, expected.projection_, rtol=1e-8, atol=1e-11)
    assert_array_equal(model.predict(P.X_new), expected.predict(unit_rows(P.X_new)))


def test_the_paper_has_the_defaults_of_the_paper():
    model = presets.paper(P.prototypes, alpha=0.3, random_state=0).fit(P.X, P.y)
    defaults, parameters = ZeroShotClassifier().get_params(), model[-1].get_params()
    changed = {name for name in defaults if parameters[name] != defaults[name]}
    assert changed == {"prototypes", "alpha", "random_state"}
    assert model[-1].n_iter_ > 0


# What we recommend


def steps_by_hand(power, shrinkage):
    """Power, center and unit length; whitening; unit length again."""
    return [
        ("power", FeatureNormalizer(power=power, center=True)),
        ("whiten", WithinClassWhitener(shrinkage)),
        ("unit", FeatureNormalizer()),
    ]


def recommended(p=P, **parameters):
    return presets.recommended(p.prototypes, **({"cv": 2} | parameters)).fit(p.X, p.y)


@pytest.fixture(scope="module")
def chosen():
    return recommended()


def test_the_recommended_model_is_a_search_over_a_pipeline():
    model = presets.recommended(P.prototypes, candidates="all", random_state=3, n_jobs=2, verbose=1)
    assert isinstance(model, ZeroShotSearchCV)
    assert (model.n_jobs, model.verbose, model.refit) == (2, 1, True)
    assert vars(model.cv) == vars(ClassKFold(5, shuffle=True, random_state=3))
    *steps, (name, last) = model.estimator.steps
    assert str(steps) == str(steps_by_hand(0.5, 4.0))
    assert (name, type(last)) == ("classify", ZeroShotClassifier)
    known = Prototypes.coerce(P.prototypes)
    given = {"prototypes": known, "candidates": "all", "random_state": 3}
    defaults, parameters = ZeroShotClassifier().get_params(), last.get_params(deep=False)
    changed = {name: parameters[name] for name in defaults if parameters[name] != defaults[name]}
    assert isinstance(changed.pop("prototype_transformer"), FeatureNormalizer)
    fixed = {"kernel": "rbf", "gamma": 0.5, "beta": 0.03}
    assert changed == given | REGRESSION | fixed | dict.fromkeys(
        ["seen_penalty", "temperature"], "auto"
    )


def points():
    grids = presets.recommended(P.prototypes).param_grid
    return [point for grid in grids for point in ParameterGrid(grid)]


def test_nothing_in_the_grid_looks_at_test_data():
    decided = {"prototypes", "candidates", "seen_penalty", "seen_prior", "temperature"}
    decided |= {"reject_below", "reject_label", "random_state"}
    model = presets.recommended(P.prototypes).estimator
    for point in points():
        assert not {name.removeprefix("classify__") for name in point} & decided
        clone(model).set_params(**point)  # fails where a name is not there
    assert {name for point in points() for name in point} == {
        *["power__power", "whiten__shrinkage"],
        *[f"classify__{name}" for name in ("kernel", "gamma", "beta")],
        *[f"classify__prototype_transformer__{name}" for name in ("power", "norm")],
    }


def test_prototypes_of_unseen_classes_have_no_say(chosen):
    moved = P.prototypes | {label: -3 * P.prototypes[label] for label in P.unseen}
    other = presets.recommended(moved, cv=2).fit(P.X, P.y)
    for name in ("mean_test_score", "params"):
        assert_array_equal(other.cv_results_[name], chosen.cv_results_[name])
    assert other.best_params_ == chosen.best_params_
    assert other.calibration_ == chosen.calibration_


def test_what_was_chosen_is_what_is_fitted(chosen):
    best = dict(chosen.best_params_)
    assert len(chosen.cv_results_["params"]) == len(points())
    assert best in chosen.cv_results_["params"]
    steps = steps_by_hand(best.pop("power__power"), best.pop("whiten__shrinkage"))
    last = ZeroShotClassifier(
        P.prototypes,
        prototype_transformer=FeatureNormalizer(center=True),
        random_state=0,
        **REGRESSION,
        **{"kernel": "rbf", "gamma": 0.5, "seen_penalty": "auto", "temperature": "auto"},
    )
    by_hand = Pipeline([*steps, ("classify", last)]).set_params(**best)
    assert chosen.calibration_ == calibrate(by_hand, P.X, P.y)
    last.set_params(**chosen.calibration_)
    by_hand.fit(P.X, P.y)
    assert_array_equal(chosen.predict_proba(P.X_new), by_hand.predict_proba(P.X_new))
    assert_array_equal(chosen.classes_, P.unseen)
    assert 0 < chosen.calibration_["temperature"] < np.inf
    assert np.isfinite(chosen.calibration_["seen_penalty"])


def test_the_recommended_model_is_far_better_than_chance(chosen):
    assert chosen.score(P.X_new, P.y_new) > 0.6  # among six
    assert chosen.best_score_ > 0.6
    assert_allclose(chosen.predict_proba(P.X_new).sum(axis=1), 1.0, rtol=1e-12)


def test_candidates_may_be_all_classes(chosen):
    p = linear_problem(noise=1.0, n_classes=18, seed=3)
    for_test = np.arange(len(p.y)) % 3 == 0
    model = presets.recommended(p.prototypes, cv=2, candidates="all")
    model.fit(p.X[~for_test], p.y[~for_test])
    assert_array_equal(model.classes_, list(p.prototypes))
    X, y = np.concatenate([p.X[for_test], p.X_new]), np.concatenate([p.y[for_test], p.y_new])
    scores = generalized_scores(y, model.predict(X), p.seen)
    assert min(scores.seen, scores.unseen) > 0.35  # among eighteen
    assert recommended(candidates="all").best_params_ == chosen.best_params_


@pytest.mark.parametrize(
    "parameters",
    [
        {"seen_penalty": 0.1, "temperature": 2.0},
        {"temperature": 0.5},
        {"reject_below": 0.4, "reject_label": "?"},
        {"forward_weight": 0.2, "weight_per": "sample"},
        {"candidates": P.unseen[:3]},
    ],
    ids=str,
)
def test_parameters_pass_through(parameters):
    model = recommended(param_grid={"whiten__shrinkage": [4.0]}, **parameters)
    last = model.best_estimator_[-1]
    assert {name: getattr(last, name) for name in parameters} == parameters


@pytest.mark.parametrize("given", [{"beta": 7.0}, {"kernel": "poly"}, {"gamma": 0.7}], ids=str)
def test_parameters_of_the_grid_are_kept_where_they_are_given(given):
    model = recommended(**given)
    for point in model.cv_results_["params"]:
        tried = clone(model.estimator).set_params(**point)[-1]
        assert {name: getattr(tried, name) for name in given} == given


def test_prototypes_may_stay_as_they_are():
    assert recommended(prototype_transformer=None).best_estimator_[-1].prototype_transformer is None


# What we recommend for a few shots

F = linear_problem(noise=1.0, n_classes=30, n_features=12)
FOR_VALIDATION = np.isin(F.y_new, F.unseen[:5])
VALIDATION = F.X_new[FOR_VALIDATION], F.y_new[FOR_VALIDATION]
NOVEL, X_NOVEL, Y_NOVEL = F.unseen[5:], F.X_new[~FOR_VALIDATION], F.y_new[~FOR_VALIDATION]
SHOTS = [Y_NOVEL.tolist().index(label) for label in NOVEL]
RECIPE = REGRESSION | {"kernel": "rbf", "gamma": 1.0, "beta": 0.1}


SMALL = {
    "STEPS": {"power__power": [0.5, 1.0], "whiten__shrinkage": [0.25, 16.0]},
    "KERNEL_GRIDS": [
        {"kernel": ["linear"], "beta": [0.03]},
        {"kernel": ["rbf"], "gamma": [0.25, 2.0], "beta": [0.03]},
    ],
    "PROTOTYPES": {
        "prototype_transformer__power": [1.0],
        "prototype_transformer__norm": ["l2", None],
    },
    "_TRIALS": 1,
    "_TEMPERATURE_TRIALS": 2,
}


@pytest.fixture(autouse=True)
def _little_to_try(monkeypatch):
    for name in ("STEPS", "_TRIALS", "_TEMPERATURE_TRIALS"):
        monkeypatch.setattr(few_shot, name, SMALL[name])

    def open_grids(given, original=few_shot.open_grids):
        with pytest.MonkeyPatch.context() as patch:
            for name in ("KERNEL_GRIDS", "PROTOTYPES"):
                patch.setattr(zero_shot, name, SMALL[name])
            return original(given)

    monkeypatch.setattr(few_shot, "open_grids", open_grids)


def recommended_few_shot(validation=None, prototypes=F.prototypes, **parameters):
    return presets.recommended_few_shot(F.X, F.y, prototypes, validation=validation, **parameters)


def by_hand(point):
    """Preprocessing learned from the base classes, and a classifier that knows them after it."""
    power, shrinkage = point.get("power__power", 0.5), point.get("whiten__shrinkage", 4.0)
    steps = Pipeline(steps_by_hand(power, shrinkage)).fit(F.X, F.y)
    base = Moments.from_arrays(steps.transform(F.X), F.y, F.prototypes)
    transformer = FeatureNormalizer(power=0.7, center=True)
    last = FewShotClassifier(
        F.prototypes, base=base, prototype_transformer=transformer, fusion="auto", **RECIPE
    )
    return steps, last.set_params(**{n: v for n, v in point.items() if n not in SMALL["STEPS"]})


with_and_without = pytest.mark.parametrize("validation", [None, VALIDATION], ids=["none", "some"])


def test_without_validation_classes_all_but_the_worth_is_fixed():
    model = recommended_few_shot()
    steps, last = by_hand({})
    assert [name for name, _ in model.steps] == ["prepare", "classify"]
    assert model[-1].fusion == "auto"
    assert_array_equal(model[0].transform(X_NOVEL), steps.transform(X_NOVEL))
    model.fit(X_NOVEL[SHOTS], Y_NOVEL[SHOTS])
    last.fit(steps.transform(X_NOVEL[SHOTS]), Y_NOVEL[SHOTS])
    assert_allclose(model[-1].fusion_, last.fusion_, rtol=1e-9)
    expected = last.decision_function(steps.transform(X_NOVEL))
    assert_allclose(model.decision_function(X_NOVEL), expected, rtol=1e-7, atol=1e-9)
    assert model.score(X_NOVEL, Y_NOVEL) > 0.6  # among five


@with_and_without
def test_preprocessing_stays_as_the_base_classes_taught_it(validation):
    model = recommended_few_shot(validation)
    before = model[0].transform(X_NOVEL)
    expected = [model.fit(X_NOVEL[SHOTS], Y_NOVEL[SHOTS]).predict(X_NOVEL)]
    expected.append(clone(model).fit(X_NOVEL[SHOTS], Y_NOVEL[SHOTS]).predict(X_NOVEL))
    model.fit(5 * X_NOVEL[SHOTS[:2]] + 3, Y_NOVEL[SHOTS[:2]])
    assert_array_equal(model[0].transform(X_NOVEL), before)
    again = model.fit(X_NOVEL[SHOTS], Y_NOVEL[SHOTS]).predict(X_NOVEL)
    assert_array_equal(expected, [again, again])


def one_shot_accuracy(steps, last):
    X, y = steps.transform(VALIDATION[0]), VALIDATION[1]
    last.set_params(fusion=last.worth_of_prototypes(X, y))
    found = n_way_k_shot({"it": last}, X, y, np.unique(y), n_query=5, n_trials=9)
    return found["it"].mean()


def test_validation_classes_choose_one_thing_after_the_other_and_measure_the_worth(monkeypatch):
    monkeypatch.setattr(few_shot, "_TRIALS", 9)
    best = {}
    for name in ("STEPS", "KERNEL_GRIDS", "PROTOTYPES"):
        tried = [best | point for point in ParameterGrid(SMALL[name])]
        accuracies = [one_shot_accuracy(*by_hand(point)) for point in tried]
        best = tried[int(np.argmax(accuracies))]
        assert np.ptp(accuracies) > 0
    steps, last = by_hand(best)
    model = recommended_few_shot(VALIDATION)
    assert_array_equal(model[0].transform(F.X), steps.transform(F.X))
    names = {name.split("__")[0] for name in best} - {"power", "whiten"}
    for name in names:
        assert str(getattr(model[-1], name)) == str(getattr(last, name))
    worth = last.worth_of_prototypes(steps.transform(VALIDATION[0]), VALIDATION[1])
    assert_allclose(model[-1].fusion, worth, rtol=1e-9)
    assert worth > 0
    model.fit(X_NOVEL[SHOTS], Y_NOVEL[SHOTS])
    assert model[-1].fusion_ == model[-1].fusion


def test_prototypes_of_novel_classes_have_no_say_in_the_choice():
    model = recommended_few_shot(VALIDATION)
    moved = F.prototypes | {label: -3 * F.prototypes[label] for label in NOVEL}
    other = recommended_few_shot(VALIDATION, prototypes=moved)
    shown = [str(which[-1].set_params(prototypes=None)) for which in (model, other)]
    assert shown[0] == shown[1]
    assert str(model[0]) == str(other[0])


@with_and_without
@pytest.mark.parametrize(
    "given",
    [
        {"beta": 0.5},
        {"kernel": "poly", "degree": 2},
        {"gamma": 0.7},
        {"prototype_transformer": None},
        {"fusion": 2.0},
        {"fusion": None},
        {"fusion": "auto"},
        {"forward_weight": 0.3, "weight_per": "sample"},
        {"candidates": "all", "seen_penalty": 0.2, "temperature": 3.0},
        {"synthesis": "support", "n_episodes": 1, "random_state": 0},
    ],
    ids=str,
)
def test_what_is_given_is_kept(validation, given):
    model = recommended_few_shot(validation, **given).fit(X_NOVEL[SHOTS], Y_NOVEL[SHOTS])
    assert {name: getattr(model[-1], name) for name in given} == given
    assert set(model.predict(X_NOVEL)) <= set(model.classes_)


@with_and_without
def test_trials_may_do_without_preprocessing_the_same_samples_again(validation):
    model = recommended_few_shot(validation)
    settings = {"classes": NOVEL, "n_query": 4, "n_trials": 15}
    prepared = n_way_k_shot({"it": model[-1]}, model[0].transform(X_NOVEL), Y_NOVEL, **settings)
    whole = n_way_k_shot({"it": model}, X_NOVEL, Y_NOVEL, **settings)
    assert_allclose(prepared["it"], whole["it"], atol=1e-12)
    assert prepared["it"].mean() > 0.6  # among five


def test_validation_classes_are_neither_base_classes_nor_unknown():
    with refused(ValueError, "must not be among the base classes", "came in both"):
        recommended_few_shot((F.X, F.y))
    label = VALIDATION[1][0]
    with refused(ValueError, f"No prototype for the class '{label}'"):
        recommended_few_shot(VALIDATION, prototypes=F.without(label))
    first = [VALIDATION[1].tolist().index(label) for label in np.unique(VALIDATION[1])]
    with refused(ValueError, "`validation` must have", "the smallest of 1"):
        recommended_few_shot((VALIDATION[0][first], VALIDATION[1][first]))


# What does not yet hold


@pytest.fixture
def tried(monkeypatch):
    """Models that were tried, in trials that only those with a kernel of their own win."""
    models = []

    def trials(given, *_, **__):
        models.append(given["model"])
        return {"model": np.array([given["model"].kernel == "rbf"])}

    monkeypatch.setattr(few_shot, "n_way_k_shot", trials)
    return models


def test_a_gamma_that_is_given_is_tried(tried):
    assert recommended_few_shot(VALIDATION, gamma=0.7)[-1].kernel == "rbf"
    assert {model.gamma for model in tried} == {0.7}


def test_parameters_are_chosen_for_the_fusion_that_is_given(tried):
    recommended_few_shot(VALIDATION, fusion=None)
    assert {model.fusion for model in tried} == {None}


def test_a_single_validation_class_is_refused():
    of_one = VALIDATION[1] == VALIDATION[1][0]
    with refused(ValueError, "validation"):
        recommended_few_shot((VALIDATION[0][of_one], VALIDATION[1][of_one]))


def test_a_validation_class_of_one_sample_is_refused_by_name():
    kept = np.flatnonzero(VALIDATION[1] != VALIDATION[1][0])
    rows = [0, *kept]
    with refused(ValueError, "validation"):
        recommended_few_shot((VALIDATION[0][rows], VALIDATION[1][rows]))
