"""What must not matter to AnyShotClassifier: order, lists that change, classes added later."""

import numpy as np
import pytest
from any_shot_cases import GIVEN, world
from numpy.testing import assert_allclose, assert_array_equal

from zonkey import AnyShotClassifier
from zonkey.anyshot.held_out import TrainingData, draw_shots
from zonkey.anyshot.survey import KeptSamples


@pytest.fixture(scope="module")
def drawn():
    return world(3, n_classes=20, deviation=0.3)


def test_a_class_added_to_a_precomputed_kernel_changes_no_other(drawn):
    labels = np.array([f"c{j:02d}" for j in range(20)])
    vectors = np.array([drawn.prototypes[j] for j in range(20)])
    K = np.exp(-((vectors[:, None] - vectors[None]) ** 2).sum(axis=2) / 10)
    X, y = drawn.draw(np.arange(12), 6)
    prototypes = dict(zip(labels, K, strict=True))
    model = AnyShotClassifier(prototypes, **GIVEN | {"kernel": "precomputed"})
    model.fit(X, labels[y])
    with pytest.warns(UserWarning, match="those of 'a new one' and 'c13' are equal"):
        wider = model.with_classes({"a new one": K[13]})  # its name comes before all others
    assert_allclose(wider.centers_[1:], model.centers_, atol=1e-12)
    of_twin = model.centers_[model.classes_.tolist().index("c13")]
    assert_allclose(wider.centers_[0], of_twin, atol=1e-12)


@pytest.mark.parametrize("n_shots", [1, 3, 4, 5, 9])
def test_every_draw_has_the_shots_it_is_said_to_have(drawn, n_shots):
    X, y = drawn.draw(np.arange(12), 10)
    vectors = np.array([drawn.prototypes[j] for j in range(20)])
    data = TrainingData.from_kept(
        KeptSamples.choose(X, y, np.arange(12), 0), np.arange(12), vectors
    )
    for is_shot in draw_shots(data, n_shots, 3):
        assert_array_equal(np.bincount(data.codes[is_shot]), np.full(12, min(n_shots, 5)))


def test_a_list_of_candidates_that_changes_later_changes_nothing(drawn):
    candidates = [13, 14, 15]
    model = AnyShotClassifier(drawn.prototypes, **GIVEN | {"candidates": candidates})
    model.fit(*drawn.draw(np.arange(12), 6))
    candidates.append(1)
    assert_array_equal(model.without_classes([2]).classes_, [13, 14, 15])


def test_the_order_of_validation_samples_does_not_matter(drawn):
    X, y = drawn.draw(np.arange(12), 8)
    X_val, y_val = drawn.draw(np.arange(12, 16), 12)
    order = np.random.default_rng(0).permutation(len(y_val))
    model, other = (
        AnyShotClassifier(drawn.prototypes, n_shots=2, candidates=[17, 18, 19]) for _ in range(2)
    )
    model.fit(X, y, validation=(X_val, y_val))
    other.fit(X, y, validation=(X_val[order], y_val[order]))
    assert_allclose(other.centers_, model.centers_)
    assert other.temperature_ == model.temperature_


def test_candidates_are_checked_before_anything_is_learned(drawn):
    model = AnyShotClassifier(drawn.prototypes, candidates=["no such class"])
    with pytest.raises(ValueError, match="class"):
        model.fit(*drawn.draw(np.arange(12), 6))
    assert not hasattr(model, "classes_")


def test_weights_of_samples_act_in_simulated_tasks(drawn):
    X, y = drawn.draw(np.arange(12), 8)
    batch, _ = drawn.draw(np.arange(20), 30)
    model = AnyShotClassifier(drawn.prototypes, candidates="all")
    light = model.fit(X, y, np.full(len(y), 0.01)).adapt(batch)
    assert np.isfinite(light.predict_proba(batch)).all()
    assert np.linalg.norm(light.centers_, axis=1).max() < 2  # features have unit length


def test_a_given_weight_is_used_even_if_nothing_can_be_simulated(drawn):
    few = {j: drawn.prototypes[j] for j in (0, 1, 2, 13, 14)}
    model = AnyShotClassifier(few, adapt_weight=0.5).fit(*drawn.draw(np.arange(3), 8))
    adapted = model.adapt(drawn.draw([13, 14], 20)[0])
    assert adapted.best_params_["adapt_weight"] == 0.5
    assert np.abs(adapted.centers_ - model.centers_).max() > 1e-3
