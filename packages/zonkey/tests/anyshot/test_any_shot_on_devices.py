"""AnyShotClassifier on tensors and strict arrays: fits, choices and answers are those of NumPy."""

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
AUTO = {"candidates": "all"}
GIVEN_HERE = GIVEN | {"preprocessing": "auto"}
TORCH_AND_STRICT = [TORCH, LIBRARIES[-1]]
on_devices = pytest.mark.parametrize("library", TORCH_AND_STRICT, ids=repr)
both_ways = pytest.mark.parametrize(
    "parameters", [AUTO, GIVEN, GIVEN_HERE], ids=["auto", "given", "mixed"]
)


def fitted(parameters, place=np.asarray, dtype="float64"):
    model = AnyShotClassifier(WORLD.prototypes, **parameters)
    return model.fit(place(X.astype(dtype)), place(Y))


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
@both_ways
def test_fits_and_answers_are_those_of_numpy(library, parameters):
    expected, model = fitted(parameters), fitted(parameters, library)
    assert_same_choice(model, expected)
    # What is chosen is measured in float32.
    assert_same(model, expected, library, 1e-4 if parameters is AUTO else 1e-8)


@on_devices
def test_a_choice_of_numpy_gives_the_same_model(library):
    kept = AUTO | fitted(AUTO).best_params_
    assert_same(fitted(kept, library), fitted(kept), library)


@on_devices
@both_ways
def test_more_samples_are_learned_as_in_numpy(library, parameters):
    expected = fitted(parameters).partial_fit(MORE, Y_MORE)
    model = fitted(parameters, library).partial_fit(library(MORE), library(Y_MORE))
    digits = 1e-4 if parameters is AUTO else 1e-8
    assert_same(model, expected, library, digits)
    few = model.with_shots(library(BATCH[:10]), library(Y_PILE[:10]))
    wanted = expected.with_shots(BATCH[:10], Y_PILE[:10])
    assert_same(few, wanted, library, digits)


@on_devices
def test_copies_are_those_of_numpy(library):
    expected, model = fitted(GIVEN), fitted(GIVEN, library)
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
@pytest.mark.parametrize("candidates", ["unseen", "all"])
def test_unlabeled_samples_act_as_in_numpy(library, candidates):
    given = GIVEN | {"candidates": candidates}
    expected = fitted(given).adapt(BATCH)
    model = fitted(given, library).adapt(library(BATCH))
    assert_same(model, expected, library)
    auto = given | {"adapt_temperature": "auto", "adapt_weight": "auto"}
    batch = np.tile(BATCH, (11, 1))  # more than 400 samples need few simulations
    expected = fitted(auto).adapt(batch)
    model = fitted(auto, library).adapt(library(batch))
    assert_same(model, expected, library, 1e-6)


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
    here, there = fitted(GIVEN_HERE), fitted(GIVEN_HERE, library)
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
    expected = [f"class {label:02d}" for label in fitted(GIVEN).predict(EVERY)]
    assert model.predict(library(EVERY)).tolist() == expected
    assert model.partial_fit(library(X[:2]), names[:2]).predict(library(EVERY)).shape == (48,)


@in_every_library
def test_samples_come_from_elsewhere_later(library):
    """A model of NumPy learns from tensors, and the other way round."""
    expected = fitted(GIVEN).partial_fit(MORE, Y_MORE).decision_function(EVERY)
    here = fitted(GIVEN).partial_fit(library(MORE), library(Y_MORE))
    assert_allclose(here.decision_function(EVERY), expected, rtol=1e-9, atol=1e-9)
    there = fitted(GIVEN, library).partial_fit(MORE, Y_MORE)
    assert_allclose(there.decision_function(EVERY), expected, rtol=1e-9, atol=1e-9)
    adapted = fitted(GIVEN).adapt(BATCH).decision_function(EVERY)
    found = fitted(GIVEN).adapt(library(BATCH)).decision_function(EVERY)
    assert_allclose(found, adapted, rtol=1e-8, atol=1e-8)
    found = fitted(GIVEN, library).adapt(BATCH).decision_function(EVERY)
    assert_allclose(found, adapted, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("parameters", [AUTO, GIVEN], ids=["auto", "given"])
def test_single_precision_stays_and_agrees(parameters):
    kept = parameters | fitted(parameters).best_params_
    expected, model = fitted(kept), fitted(kept, TORCH, "float32")
    rows = EVERY.astype(np.float32)
    scores = TORCH.numpy(model.decision_function(TORCH(rows)))
    assert scores.dtype == np.float32
    wanted = expected.decision_function(EVERY)
    assert_allclose(scores, wanted, rtol=1e-3, atol=1e-3 * np.abs(wanted).max())
    chosen = fitted(parameters, TORCH, "float32")
    assert TORCH.numpy(chosen.predict(TORCH(rows))).shape == (48,)
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
