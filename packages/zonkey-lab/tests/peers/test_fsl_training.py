"""Trained few-shot peers before training, and what their seeds change."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from peer_cases import BASE, CPU, SHOTS, P, meta_peers, metric_peers
from trained import fit_clone, made

from zonkey_lab.peers import fsl
from zonkey_lab.peers.fsl import BaseSamples, SimpleShot

Y, ROWS = np.unique(P.y_support, return_index=True)
ONE_SHOT = P.X_support[ROWS], Y


def named(peer):
    return repr(peer).partition("(base")[0] + (" fo" if getattr(peer, "first_order", 0) else "")


@pytest.mark.parametrize(
    "kind",
    [fsl.PrototypicalNetwork, fsl.MatchingNetwork, fsl.MAPSSVM, fsl.PPA],
    ids=lambda kind: kind.__name__,
)
def test_with_one_shot_an_untrained_model_predicts_as_simple_shot(kind):
    expected = SimpleShot(BASE).fit(*ONE_SHOT).predict(P.X_query)
    model = made(kind, BASE, max_iter=0, **CPU).fit(*ONE_SHOT)
    assert model.n_iter_ == 0
    assert model.loss_curve_ == []
    assert_array_equal(model.predict(P.X_query), expected)


def test_an_untrained_prototypical_network_is_simple_shot_with_any_shots():
    model = P.fit_clone(made(fsl.PrototypicalNetwork, BASE, max_iter=0, **CPU))
    expected = P.fit_clone(SimpleShot(BASE)).decision_function(P.X_query)
    assert_allclose(model.decision_function(P.X_query), 10 * expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("peer", [*meta_peers(BASE), *metric_peers(BASE), *SHOTS[1:]], ids=named)
def test_systems_that_stop_early_may_stay_untrained(peer):
    model = fit_clone(P, peer, max_iter=0)
    assert model.n_iter_ == 0
    assert model.score(P.X_query, P.y_query) > 0.75


def learned(model):
    """Return everything that a model has learned from base classes and shots, as one vector."""
    weights = getattr(model, "weights_", {"coef": model.coef_} if hasattr(model, "coef_") else {})
    return np.concatenate([np.ravel(weights[name]) for name in sorted(weights)])


@pytest.mark.parametrize("peer", [*meta_peers(), *metric_peers(), *SHOTS], ids=named)
def test_the_seed_of_base_samples_changes_training_and_its_repetition_nothing(peer):
    found = []
    for seed in (0, 0, 1):
        base = BaseSamples(P.X_base, P.y_base, random_state=seed)
        found.append(fit_clone(P, peer, base=base, n_iter_no_change=None))
    first, again, other = found
    assert_array_equal(learned(first), learned(again))
    assert first.loss_curve_ == again.loss_curve_
    assert first.loss_curve_ != other.loss_curve_
    assert np.abs(learned(first) - learned(other)).max() > 1e-6
    scores = [model.decision_function(P.X_query) for model in found]
    assert_array_equal(scores[0], scores[1])
    assert np.abs(scores[0] - scores[2]).max() > 1e-6


@pytest.mark.parametrize("peer", [*meta_peers(), *metric_peers()], ids=named)
def test_without_base_samples_the_seed_of_the_peer_changes_training(peer):
    settings = {"base": None, "n_iter_no_change": None}
    models = [fit_clone(P, peer, random_state=seed, **settings) for seed in (3, 3, 4)]
    assert_array_equal(learned(models[0]), learned(models[1]))
    assert models[0].loss_curve_ == models[1].loss_curve_ != models[2].loss_curve_


def test_seeds_draw_other_episodes(monkeypatch):
    drawn = []
    original = fsl.meta.draw_episodes

    def noted(*given):
        drawn.append(original(*given))
        return drawn[-1]

    monkeypatch.setattr(fsl.meta, "draw_episodes", noted)
    peer = made(fsl.PrototypicalNetwork, n_episodes=5, n_query=4, max_iter=2, **CPU)
    for seed in (0, 0, 1):
        base = BaseSamples(P.X_base, P.y_base, random_state=seed)
        peer.set_params(training__n_iter_no_change=None, base=base).fit(P.X_support, P.y_support)
    assert len(drawn) == 6
    for number in range(2):
        first, again, other = (drawn[number + 2 * run] for run in range(3))
        assert_array_equal(np.concatenate(first, axis=2), np.concatenate(again, axis=2))
        assert (np.concatenate(first, axis=2) != np.concatenate(other, axis=2)).any()
    assert (np.concatenate(drawn[0], axis=2) != np.concatenate(drawn[1], axis=2)).any()
