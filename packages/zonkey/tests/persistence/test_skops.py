"""Fitted models survive skops, which loads only types that the documentation lists."""

import ast
import re
from functools import cache, partial
from pathlib import Path

import any_shot_cases as cases
import few_shot_cases
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from zonkey import AnyShotClassifier, BaseClasses, NearestSupport, ZeroShotClassifier, presets
from zonkey.preprocessing import FeatureNormalizer, WithinClassWhitener
from zonkey.testing import linear_problem, shots_problem
from zonkey_lab.peers import fsl, zsl

skops_io = pytest.importorskip("skops.io", reason="models are stored with skops")

PAGE = Path(__file__).parents[4] / "docs" / "models.md"
P = linear_problem(noise=1.0)
SHOTS = shots_problem()
BASE = fsl.BaseSamples(SHOTS.X_base, SHOTS.y_base)
ALL = {"candidates": "all"}
SMALL = {"n_hidden": 8, "max_iter": 2, "n_components": 4, "n_episodes": 8}


def peer(name):
    """Return a small fitted peer."""
    kind = getattr(zsl, name)
    return kind(P.prototypes, seen_penalty=0.1, **small(kind), **ALL).fit(P.X, P.y)


def few_shot_peer(name):
    """Return a small fitted few-shot peer with its base samples."""
    model = getattr(fsl, name)()
    own = {"base": BASE, "prototypes": SHOTS.prototypes}
    own = {key: value for key, value in own.items() if key in model.get_params()}
    return SHOTS.fit_clone(model, **own, **small(type(model)))


def small(kind):
    """Return the parameters of `SMALL` that a peer has."""
    return {key: value for key, value in SMALL.items() if key in kind().get_params()}


MODELS = {
    "chosen": lambda: AnyShotClassifier(P.prototypes, **ALL, reject_below=0.5).fit(P.X, P.y),
    "given": lambda: cases.fitted(reject_below=0.4, reject_label="other"),
    "adapted": lambda: cases.fitted().adapt(cases.X_NEW),
    "no prototypes": lambda: AnyShotClassifier(preprocessing=None).fit(P.X, P.y),
    "paper": lambda: presets.paper(P.prototypes, random_state=0).fit(P.X, P.y),
    "zero-shot": lambda: ZeroShotClassifier(P.prototypes, direction="forward").fit(P.X, P.y),
    "few-shot": few_shot_cases.fitted,
    **{name: partial(peer, name) for name in zsl.__all__},
    **{name: partial(few_shot_peer, name) for name in fsl.__all__ if name != "BaseSamples"},
    "nearest": lambda: NearestSupport().fit(P.X, P.y),
    "normalizer": lambda: FeatureNormalizer(power=0.5, center=True).fit(P.X),
    "whitener": lambda: WithinClassWhitener(shrinkage=0.3).fit(P.X, P.y),
}


def trusted():
    """Return the documented types."""
    section = PAGE.read_text("utf-8").split("## skops\n")[1].split("\n## ")[0]
    return ast.literal_eval(re.search(r"TRUSTED = (\[.*?\])", section, re.S).group(1))


@cache
def stored(name):
    """Return a model and its bytes."""
    model = MODELS[name]()
    return model, skops_io.dumps(model)


def new_samples(model):
    found = (cases.X_NEW, P.X_new, SHOTS.X_query)
    return next(X for X in found if X.shape[1] == model.n_features_in_)


@pytest.mark.parametrize("name", MODELS)
def test_round_trip(name):
    model, content = stored(name)
    loaded = skops_io.loads(content, trusted=trusted())
    assert type(loaded) is type(model)
    X, answers = new_samples(model), 0
    for method in ("predict", "decision_function", "predict_proba", "transform"):
        if hasattr(model, method):
            answers += 1
            assert_array_equal(getattr(loaded, method)(X), getattr(model, method)(X))
    assert answers
    if hasattr(model, "classes_"):
        assert_array_equal(loaded.classes_, model.classes_)
        assert loaded.classes_.dtype == model.classes_.dtype


@pytest.mark.parametrize("name", MODELS)
def test_nothing_is_loaded_without_trust(name):
    with pytest.raises(TypeError, match="Untrusted types"):
        skops_io.loads(stored(name)[1], trusted=[])


def test_documented_types_are_those_of_the_models():
    needed = {
        kind for name in MODELS for kind in skops_io.get_untrusted_types(data=stored(name)[1])
    }
    assert trusted() == sorted(needed)


def test_base_classes_need_more_trust_than_is_documented():
    model = few_shot_cases.fitted(base=BaseClasses(few_shot_cases.BASE))
    with pytest.raises(TypeError, match=r"Untrusted types.*builtins\.getattr"):
        skops_io.loads(skops_io.dumps(model), trusted=trusted())


def test_a_loaded_model_goes_on_learning():
    model, content = stored("chosen")
    loaded = skops_io.loads(content, trusted=trusted())
    assert loaded.best_params_["temperature"] == model.best_params_["temperature"]
    for change in (
        lambda m: m.with_candidates("unseen"),
        lambda m: m.with_classes({"new": np.full(len(P.prototypes[P.y[0]]), 0.5)}),
        lambda m: m.adapt(P.X_new),
        lambda m: m.with_shots(P.X_new[:9], P.y_new[:9]),
    ):
        one, other = change(loaded), change(model)
        assert_array_equal(one.classes_, other.classes_)
        assert_array_equal(one.predict_proba(P.X_new), other.predict_proba(P.X_new))
