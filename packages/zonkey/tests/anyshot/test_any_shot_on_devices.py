"""AnyShotClassifier on tensors and strict arrays: fits, choices and answers are those of NumPy."""

import copy
from functools import cache

import numpy as np
import pytest
from any_shot_cases import GIVEN, world
from libraries import LIBRARIES, TORCH, in_every_library
from numpy.testing import assert_allclose, assert_array_equal
from transfers import counted_transfers

from zonkey import AnyShotClassifier
from zonkey.preprocessing import WithinClassWhitener

WORLD = world(6, n_classes=16, deviation=0.3)
NEW = np.arange(11, 16)
X, Y = WORLD.draw(np.arange(11), 9)
MORE, Y_MORE = WORLD.draw([0, 3, 12, 13], 2)
BATCH, Y_PILE = WORLD.draw(NEW, 8)
EVERY, _ = WORLD.draw(np.arange(16), 3)
GIVEN_HERE = GIVEN | {"preprocessing": "auto"}
PARAMETERS = {
    "auto": {"candidates": "all"},
    "given": GIVEN,
    "mixed": GIVEN_HERE,
    "unseen": GIVEN | {"candidates": "unseen"},
    "simulated": GIVEN | {"adapt_temperature": "auto", "adapt_weight": "auto"},
}
on_devices = pytest.mark.parametrize("library", [TORCH, LIBRARIES[-1]], ids=repr)
some_ways = pytest.mark.parametrize("way", ["auto", "given", "mixed"])


@cache
def fit_once(way, place=np.asarray):
    """Return a model that tests share; what learns on is a copy."""
    return AnyShotClassifier(WORLD.prototypes, **PARAMETERS[way]).fit(place(X), place(Y))


def learn_more(way, place=np.asarray, later=np.asarray):
    return copy.copy(fit_once(way, place)).partial_fit(later(MORE), later(Y_MORE))


def assert_same(model, expected, library, digits=1e-8, rows=EVERY):
    placed = library(rows)
    for method in ("decision_function", "predict_proba", "uncertainty", "novelty", "embed"):
        wanted = getattr(expected, method)(rows)
        found = library.numpy(getattr(model, method)(placed))
        assert found.dtype == wanted.dtype
        assert_allclose(found, wanted, rtol=digits, atol=digits * np.abs(wanted).max())
    for method in ("predict", "predict_top"):
        found = library.numpy(getattr(model, method)(placed))
        assert_array_equal(found, getattr(expected, method)(rows))
    for name in ("classes_", "seen_classes_", "unseen_classes_"):
        assert_array_equal(library.numpy(getattr(model, name)), getattr(expected, name))
    centers = library.numpy(model.centers_)
    assert_allclose(centers, expected.centers_, rtol=digits, atol=digits)
    projected = library.numpy(model.project(WORLD.prototypes))
    assert_allclose(projected, expected.project(WORLD.prototypes), rtol=digits, atol=digits)
    assert_array_equal(model.most_informative(placed, 4), expected.most_informative(rows, 4))


def assert_same_choice(model, expected):
    for name in ("kernel", "gamma", "ridge"):
        assert model.best_params_[name] == expected.best_params_[name]
    for name in ("preprocessing", "prototype_transformer"):
        assert repr(model.best_params_[name]) == repr(expected.best_params_[name])
    for name in ("worth_", "seen_penalty_", "temperature_"):
        assert getattr(model, name) == pytest.approx(getattr(expected, name), rel=1e-4)


@on_devices
@some_ways
def test_fits_and_answers_are_those_of_numpy(library, way):
    expected, model = fit_once(way), fit_once(way, library)
    assert_same_choice(model, expected)
    digits = 1e-4 if way == "auto" else 1e-8  # what is chosen is measured in float32
    assert_same(model, expected, library, digits)
    expected, model = learn_more(way), learn_more(way, library, library)
    assert_same(model, expected, library, digits)
    few = model.with_shots(library(BATCH[:10]), library(Y_PILE[:10]))
    assert_same(few, expected.with_shots(BATCH[:10], Y_PILE[:10]), library, digits)


@on_devices
def test_a_choice_of_numpy_gives_the_same_model(library):
    kept = PARAMETERS["auto"] | fit_once("auto").best_params_
    one, other = (AnyShotClassifier(WORLD.prototypes, **kept) for _ in range(2))
    assert_same(one.fit(library(X), library(Y)), other.fit(X, Y), library)


@on_devices
def test_copies_are_those_of_numpy(library):
    expected, model = fit_once("given"), fit_once("given", library)
    new = {20: np.ones(6), 21: -np.ones(6)}
    for change in (
        lambda model: model.with_candidates("unseen"),
        lambda model: model.with_candidates([3, 12]),
        lambda model: model.with_classes(new),
        lambda model: model.without_classes([0, 12]),
    ):
        found, wanted = change(model), change(expected)
        assert_allclose(
            library.numpy(found.decision_function(library(EVERY))),
            wanted.decision_function(EVERY),
            rtol=1e-8,
            atol=1e-8,
        )
        assert_array_equal(library.numpy(found.classes_), wanted.classes_)


@on_devices
def test_unlabeled_samples_act_as_in_numpy(library):
    many = np.tile(BATCH, (11, 1))  # more than 400 samples need few simulations
    for way, batch, digits in (
        ("unseen", BATCH, 1e-8),
        ("given", BATCH, 1e-8),
        ("simulated", many, 1e-6),
    ):
        model = fit_once(way, library).adapt(library(batch))
        assert_same(model, fit_once(way).adapt(batch), library, digits)


@on_devices
def test_weights_and_validation_classes_on_devices(library):
    weights = np.linspace(0, 2, len(Y))
    auto = AnyShotClassifier(WORLD.prototypes)
    expected = auto.fit(X, Y, weights, validation=(BATCH, Y_PILE)).decision_function(EVERY)
    for placed in (weights, library(weights)):
        model = AnyShotClassifier(WORLD.prototypes)
        model.fit(library(X), library(Y), placed, validation=(library(BATCH), library(Y_PILE)))
        found = library.numpy(model.decision_function(library(EVERY)))
        assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@in_every_library
def test_a_model_answers_where_it_is_asked(library):
    here, there = fit_once("mixed"), fit_once("mixed", library)
    expected = here.decision_function(EVERY)
    assert_allclose(library.numpy(here.decision_function(library(EVERY))), expected, rtol=1e-9)
    assert_allclose(there.decision_function(EVERY), expected, rtol=1e-9)
    assert isinstance(there.predict(EVERY), np.ndarray)
    assert_array_equal(library.numpy(here.predict(library(EVERY))), here.predict(EVERY))


@in_every_library
def test_names_come_as_numpy_arrays(library):
    prototypes = {f"class {label:02d}": vector for label, vector in WORLD.prototypes.items()}
    names = np.array([f"class {label:02d}" for label in Y])
    model = AnyShotClassifier(prototypes, **GIVEN).fit(library(X), names)
    expected = [f"class {label:02d}" for label in fit_once("given").predict(EVERY)]
    assert model.predict(library(EVERY)).tolist() == expected
    assert model.partial_fit(library(X[:2]), names[:2]).predict(library(EVERY)).shape == (48,)


@in_every_library
def test_samples_come_from_elsewhere_later(library):
    """A model of NumPy learns from tensors, and the other way round."""
    expected = learn_more("given").decision_function(EVERY)
    adapted = fit_once("given").adapt(BATCH).decision_function(EVERY)
    for place, later in ((np.asarray, library), (library, np.asarray)):
        found = learn_more("given", place, later).decision_function(EVERY)
        assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
        found = fit_once("given", place).adapt(later(BATCH)).decision_function(EVERY)
        assert_allclose(found, adapted, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("way", ["auto", "given"])
def test_single_precision_stays_and_agrees(way):
    def fit(parameters, place=lambda M: TORCH(M.astype(np.float32))):
        return AnyShotClassifier(WORLD.prototypes, **parameters).fit(place(X), Y)

    kept = PARAMETERS[way] | fit_once(way).best_params_
    rows = TORCH(EVERY.astype(np.float32))
    scores = TORCH.numpy(fit(kept).decision_function(rows))
    assert scores.dtype == np.float32
    wanted = fit(kept, np.asarray).decision_function(EVERY)
    assert_allclose(scores, wanted, rtol=1e-3, atol=1e-3 * np.abs(wanted).max())
    chosen = fit(PARAMETERS[way])
    assert TORCH.numpy(chosen.predict(rows)).shape == (48,)
    batch = np.tile(BATCH, (11, 1)).astype(np.float32)
    assert chosen.adapt(TORCH(batch)).is_transductive_


@on_devices
def test_samples_stay_where_they_are(library):
    placed = [library(M) for M in (X, Y, MORE, Y_MORE, BATCH, EVERY)]
    parameters = GIVEN | {"preprocessing": WithinClassWhitener()}
    with counted_transfers() as transfers:
        model = AnyShotClassifier(WORLD.prototypes, **parameters).fit(*placed[:2])
        model.partial_fit(*placed[2:4]).adapt(placed[4]).predict(placed[5])
    assert transfers
    # Labels and hashes of samples come to the host, samples do not.
    assert max(size for size, _ in transfers) <= len(Y)


def test_a_gradient_is_neither_needed_nor_kept():
    model = AnyShotClassifier(WORLD.prototypes, **GIVEN_HERE)
    model.fit(TORCH(X).requires_grad_(), TORCH(Y))
    assert not model.centers_.requires_grad
    rows = TORCH(EVERY).requires_grad_()
    assert not model.decision_function(rows).requires_grad
    assert not model.adapt(rows).centers_.requires_grad
