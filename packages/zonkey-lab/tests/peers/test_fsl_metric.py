"""Prototypical, matching and relation networks, and the episodes that they are trained on."""

import numpy as np
import pytest
from by_loops import sigmoid, softmax
from numpy.testing import assert_allclose, assert_array_equal
from peer_cases import BASE, P, metric_peers
from peer_cases import METRIC_LEARNING as LEARNING
from refusals import refused
from sklearn.base import clone
from trained import made, nest

from zonkey_lab.peers.base import sort_samples
from zonkey_lab.peers.fsl import (
    BaseSamples,
    MatchingNetwork,
    PrototypicalNetwork,
    RelationNetwork,
    SimpleShot,
)
from zonkey_lab.peers.fsl.meta import EpisodeSizes, draw_episodes


def each(found):
    return pytest.mark.parametrize(
        "peer", found, ids=["prototypical", "matching", "near", "relation"]
    )


# Episodes.

COUNTS = np.array([4, 9, 2, 7, 6, 12])


def test_episodes_have_distinct_classes_and_samples():
    sizes = EpisodeSizes(n_way=3, n_shot=2, n_query=4)
    support, query = draw_episodes(COUNTS, 50, sizes, np.random.default_rng(2))
    assert support.shape == (50, 3, 2)
    assert query.shape == (50, 3, 4)
    codes = np.repeat(np.arange(len(COUNTS)), COUNTS)
    for shots, queries in zip(support, query, strict=True):
        drawn = []
        for rows in np.concatenate([shots, queries], axis=1):
            assert len(set(rows)) == 6
            assert len(set(codes[rows])) == 1
            drawn.append(codes[rows[0]])
        assert len(set(drawn)) == 3
        assert all(COUNTS[c] >= 6 for c in drawn)


def test_classes_and_samples_are_drawn_equally_often():
    sizes = EpisodeSizes(n_way=2, n_shot=1, n_query=2)
    support, query = draw_episodes(COUNTS, 6000, sizes, np.random.default_rng(3))
    eligible = COUNTS >= 3
    for rows, n in ((support, 1), (query, 2)):
        found = np.bincount(rows.ravel(), minlength=COUNTS.sum())
        per_class = np.where(eligible, 6000 * 2 * n / eligible.sum(), 0)
        expected = np.repeat(per_class / COUNTS, COUNTS)
        assert np.all(np.abs(found - expected) <= 5 * np.sqrt(expected))
    order = support[:, 0, 0] < support[:, 1, 0]
    assert abs(order.mean() - 0.5) < 0.04  # the position of a class tells nothing


def test_sizes_that_base_classes_have_samples_for():
    base = BaseSamples(np.arange(COUNTS.sum())[:, None], np.repeat(np.arange(6), COUNTS))
    assert EpisodeSizes(20, 3, 15).within(base) == EpisodeSizes(5, 3, 1)
    assert EpisodeSizes(3, 5, 15).within(base) == EpisodeSizes(3, 5, 1)
    assert EpisodeSizes(3, 1, 1).within(base) == EpisodeSizes(3, 1, 1)
    with refused(ValueError, "at least 13 samples", "got 0", "Pass base classes"):
        EpisodeSizes(3, 12, 1).within(base)


# What learners and fitted models compute, by loops.

D, WAY, SHOT, QUERY = 5, 3, 2, 4
RNG = np.random.default_rng(7)
SMALL = {"n_way": WAY, "n_shot": SHOT, "n_query": QUERY, "device": "cpu"}


def embedded(weights, x):
    return np.array([sum(x[r] * weights["W"][r, s] for r in range(len(x))) for s in range(len(x))])


def prototypical(weights, shots, x):
    scores = []
    for rows in shots:
        center = sum(embedded(weights, row) for row in rows) / len(rows)
        scores.append(-sum((embedded(weights, x) - center) ** 2))
    return np.array(scores)


def lstm(weights, name, x, h, c):
    d = len(c)
    gates = weights[f"{name}/Wx"].T @ x + weights[f"{name}/Wh"].T @ h + weights[f"{name}/b"]
    enter, forget, new, leave = (gates[k * d : (k + 1) * d] for k in range(4))
    c = sigmoid(forget) * c + sigmoid(enter) * np.tanh(new)
    return sigmoid(leave) * np.tanh(c), c


def read(weights, name, rows):
    h = c = np.zeros(len(rows[0]))
    found = []
    for row in rows:
        h, c = lstm(weights, name, row, h, c)
        found.append(h)
    return found


def matching(n_steps):
    def scores(weights, shots, x):
        S = [embedded(weights, row) for rows in shots for row in rows]
        owners = [j for j, rows in enumerate(shots) for _ in rows]
        z = h = embedded(weights, x)
        if n_steps:
            ahead, back = read(weights, "forward", S), read(weights, "backward", S[::-1])[::-1]
            S = [s + a + b for s, a, b in zip(S, ahead, back, strict=True)]
        c = np.zeros(len(z))
        for _ in range(n_steps):
            attention = softmax([h @ s for s in S])
            r = sum(a * s for a, s in zip(attention, S, strict=True))
            h, c = lstm(weights, "read", np.concatenate([z, r]), h, c)
            h = h + z
        cosines = [h @ s / np.sqrt((h @ h) * (s @ s)) for s in S]
        p = np.zeros(len(shots))
        for owner, a in zip(owners, softmax(weights["t"] * cosines), strict=True):
            p[owner] += a
        return np.log(p)

    return scores


def relation(weights, shots, x):
    scores = []
    for rows in shots:
        pair = np.concatenate([sum(rows) / len(rows), x])
        hidden = [max(0.0, a) for a in weights["W0"].T @ pair + weights["b0"]]
        scores.append(sum(hidden * weights["W1"][:, 0]) + weights["b1"][0])
    return np.array(scores)


FORMULAS = [
    (made(PrototypicalNetwork, **SMALL), prototypical),
    (made(MatchingNetwork, n_steps=3, **SMALL), matching(3)),
    (made(MatchingNetwork, full_context=False, **SMALL), matching(0)),
    (made(RelationNetwork, n_hidden=7, **SMALL), relation),
]
each_formula = pytest.mark.parametrize(
    ("peer", "formula"), FORMULAS, ids=["prototypical", "matching", "near", "relation"]
)


def disturbed_learner(peer):
    """Return a learner whose weights are not those of the beginning, and a batch of episodes."""
    peer.episode_sizes = EpisodeSizes(WAY, SHOT, QUERY)
    y = np.repeat(np.arange(WAY), SHOT + QUERY)
    learner = peer._learner(BaseSamples(RNG.normal(size=(len(y), D)), y))
    for network in learner.networks.values():
        for weights in network.parameters():
            weights.data += learner.tensor(0.4 * RNG.normal(size=tuple(weights.shape)))
    drawn = (RNG.normal(size=(2, WAY, n, D)) for n in (SHOT, QUERY))
    return learner, *(learner.tensor(rows) for rows in drawn)


@each_formula
def test_scores_in_training_by_loops(peer, formula):
    learner, support, query = disturbed_learner(peer)
    weights = {name: array.astype(np.float64) for name, array in learner.export().items()}
    found = learner.logits(support, query).detach().numpy()
    assert found.shape == (2, WAY * QUERY, WAY)
    shots, samples = support.double().numpy(), query.double().numpy().reshape(2, -1, D)
    loss = 0.0
    for e in range(2):
        for i, x in enumerate(samples[e]):
            scores, own = formula(weights, shots[e], x), i // QUERY
            if formula is prototypical:  # up to a term that is the same for all classes
                scores = scores + sum(embedded(weights, x) ** 2)
            assert_allclose(found[e, i], scores, rtol=1e-4, atol=1e-4)
            if formula is relation:
                loss += sum((sigmoid(s) - (j == own)) ** 2 for j, s in enumerate(scores)) / WAY
            else:
                loss -= np.log(softmax(scores)[own])
    n = 2 * WAY * QUERY
    assert_allclose(learner.loss(support, query, RNG).item(), loss / n, rtol=1e-4)


@each_formula
def test_scores_of_fitted_models_by_loops(peer, formula, monkeypatch):
    learner, *_ = disturbed_learner(peer)
    X, y = RNG.normal(size=(9, D)), np.array(["a", "c", "b", "c", "a", "b", "c", "b", "b"])
    center = RNG.normal(size=D)
    trained = {"weights_": learner.export(), "_center": center}
    monkeypatch.setattr(type(peer), "_meta_train", lambda *_: trained)
    model = clone(peer).set_params(n_shot=1).fit(X, y)
    weights = {name: array.astype(np.float64) for name, array in learner.export().items()}

    def inputs(row):
        return (row - center) / np.sqrt(sum((row - center) ** 2))

    ordered, codes, _ = sort_samples(X, y)  # LSTMs read samples in this order
    shots = [[inputs(x) for x in ordered[codes == j]] for j in range(3)]
    samples = RNG.normal(size=(6, D))
    expected = [formula(weights, shots, inputs(x)) for x in samples]
    assert_allclose(model.decision_function(samples), expected, rtol=1e-6, atol=1e-9)


# Training.


def hidden_in_noise(n_classes, n, seed, signs=(1,)):
    """Draw classes that differ in 4 of 12 features; a class has one mode per sign."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), n)
    own = rng.normal(size=(n_classes, 4))[y] * np.resize(signs, len(y))[:, None]
    own += 0.2 * rng.normal(size=own.shape)
    return np.hstack([own, rng.normal(size=(len(y), 8))]), y


def shots_and_queries(X, y, n_shots):
    is_shot = np.arange(len(y)) % np.bincount(y)[0] < n_shots
    y = np.array([f"novel {code}" for code in y])
    return (X[is_shot], y[is_shot]), (X[~is_shot], y[~is_shot])


HIDDEN = hidden_in_noise(40, 20, seed=1)
HIDDEN_BASE = BaseSamples(*HIDDEN)
SHOTS, QUERIES = shots_and_queries(*hidden_in_noise(5, 35, seed=2), n_shots=5)
LONGER = {"n_episodes": 40, "max_iter": 15, "batch_size": 2, "learning_rate": 0.02}
LEARNED = metric_peers(HIDDEN_BASE, n_iter_no_change=None, **LONGER)


@each(LEARNED)
def test_base_classes_teach_which_features_matter(peer):
    assert SimpleShot(HIDDEN_BASE).fit(*SHOTS).score(*QUERIES) < 0.7
    model = peer.fit(*SHOTS)
    assert model.score(*QUERIES) > 0.9
    assert np.mean(model.loss_curve_[-3:]) < 0.6 * model.loss_curve_[0]


def test_attention_finds_classes_of_two_modes():
    base = BaseSamples(*hidden_in_noise(40, 20, seed=1, signs=(1, -1)))
    shots, queries = shots_and_queries(*hidden_in_noise(5, 36, 2, signs=(1, -1)), n_shots=6)
    peer = made(MatchingNetwork, base, full_context=False, n_iter_no_change=None, **LONGER)
    assert peer.fit(*shots).score(*queries) > 0.85
    peer = made(PrototypicalNetwork, base, n_iter_no_change=None, **LONGER)
    assert peer.fit(*shots).score(*queries) < 0.5  # the mean of a class is zero


def test_a_relation_that_is_no_distance_is_learned():
    def of_any_sign(n_classes, n, seed):
        rng = np.random.default_rng(seed)
        y = np.repeat(np.arange(n_classes), n)
        X = rng.uniform(size=(n_classes, 3))[y] + 0.05 * rng.normal(size=(len(y), 3))
        return X * rng.choice([-1, 1], size=X.shape), y

    base = BaseSamples(*of_any_sign(200, 20, seed=1))
    shots, queries = shots_and_queries(*of_any_sign(5, 31, seed=3), n_shots=1)
    settings = {**LONGER, "n_episodes": 100, "max_iter": 40, "batch_size": 4, "learning_rate": 0.03}
    peer = made(RelationNetwork, base, n_hidden=64, n_iter_no_change=None, **settings)
    assert peer.fit(*shots).score(*queries) > 0.7
    peer = made(PrototypicalNetwork, base, n_iter_no_change=None, **LONGER)
    assert peer.fit(*shots).score(*queries) < 0.5


VALIDATION = hidden_in_noise(12, 20, seed=4)


def judged(**changed):
    """Return a model that stops on validation classes."""
    other = (VALIDATION[0], VALIDATION[1] + 1000)
    base = BaseSamples(*HIDDEN, validation=other)
    settings = {**LONGER, "n_episodes": 20, "max_iter": 6, "n_iter_no_change": 2, **changed}
    return made(PrototypicalNetwork, base, **settings).fit(*SHOTS)


def test_the_best_state_on_validation_classes_is_kept():
    model = judged(learning_rate=0.3)  # coarse steps: the last state is not the best
    scores = model.validation_scores_
    assert model.n_iter_ == np.argmax(scores) + 1 < len(scores) == len(model.loss_curve_)
    assert len(scores) == min(6, model.n_iter_ + 2)
    shorter = judged(learning_rate=0.3, max_iter=model.n_iter_)
    assert_array_equal(model.weights_["W"], shorter.weights_["W"])


def test_no_epoch_keeps_the_state_before_training():
    model = P.fit_clone(made(PrototypicalNetwork, BASE, **{**LEARNING, "max_iter": 0}))
    assert model.n_iter_ == 0
    assert_array_equal(model.predict(P.X_query), P.fit_clone(SimpleShot(BASE)).predict(P.X_query))


def test_the_state_before_training_is_kept_if_training_harms():
    model = judged(n_way=2, n_shot=1, n_query=1, n_episodes=2, max_iter=2, learning_rate=30.0)
    assert model.n_iter_ == 0
    assert_array_equal(model.weights_["W"], np.sqrt(np.float32(10)) * np.eye(12, dtype=np.float32))
    simple = SimpleShot(HIDDEN_BASE).fit(*SHOTS)
    expected = 10 * simple.decision_function(QUERIES[0])
    assert_allclose(model.decision_function(QUERIES[0]), expected, rtol=1e-5)


def test_base_classes_that_are_held_out_choose_the_number_of_epochs():
    peer = LEARNED[0]
    model = changed_copy(peer, n_iter_no_change=2, max_iter=6).fit(*SHOTS)
    scores = model.validation_scores_
    assert model.n_iter_ == np.argmax(scores) + 1 == len(model.loss_curve_)
    whole = changed_copy(peer, max_iter=model.n_iter_).fit(*SHOTS)
    assert_array_equal(whole.weights_["W"], model.weights_["W"])


def changed_copy(peer, **parameters):
    return clone(peer).set_params(**nest(parameters))


def test_what_was_learned_is_shared_by_fits_of_the_same_sizes():
    X, y = SHOTS
    model, other = (changed_copy(LEARNED[0], random_state=seed).fit(X, y) for seed in (0, 1))
    assert other.weights_ is model.weights_
    few = changed_copy(LEARNED[0], max_iter=1)
    one, fixed = X[::5], y[::5]
    assert few.fit(X, y).weights_ is not few.fit(one, fixed).weights_
    few.set_params(n_way=4, n_shot=2)
    assert few.fit(X, y).weights_ is few.fit(one, fixed).weights_


def test_without_base_classes_the_support_set_teaches():
    X, y = shots_and_queries(*hidden_in_noise(30, 20, seed=5), n_shots=10)[0]
    peer = made(PrototypicalNetwork, n_iter_no_change=None, random_state=0, **LONGER).fit(X, y)
    assert_allclose(peer._center, X.mean(axis=0), rtol=1e-9)
    assert peer.loss_curve_[-1] < 0.6 * peer.loss_curve_[0]
    again = made(PrototypicalNetwork, n_iter_no_change=None, random_state=1, **LONGER).fit(X, y)
    assert again.loss_curve_ != peer.loss_curve_
    with refused(ValueError, "more than one class with at least 2", "got 0", "`base`"):
        peer.fit(X[::10], y[::10])


@pytest.mark.parametrize("full_context", [True, False])
def test_an_untrained_matching_network_compares_by_cosines(full_context):
    peer = made(MatchingNetwork, BASE, full_context=full_context, **LEARNING)
    learner = P.make_clone(peer)
    learner.episode_sizes = EpisodeSizes(3, 1, 2)
    weights = learner._learner(BASE).export()
    S, x = RNG.normal(size=(3, 10)), RNG.normal(size=10)
    S /= np.linalg.norm(S, axis=1, keepdims=True)
    found = matching(5 if full_context else 0)(weights, S[:, None], x)
    cosines = S @ x / np.linalg.norm(x)
    assert_allclose(found, np.log(softmax(10 * cosines)), rtol=1e-5)


def test_an_untrained_relation_network_compares_by_distances():
    peer = RelationNetwork(n_hidden=3999)
    peer.episode_sizes = EpisodeSizes(2, 1, 1)
    weights = peer._learner(BASE).export()
    assert weights["W0"].shape == (20, 4000)
    A, B = (U / np.linalg.norm(U, axis=1, keepdims=True) for U in RNG.normal(size=(2, 40, 10)))
    found = [relation(weights, a[None, None], b)[0] for a, b in zip(A, B, strict=True)]
    gaps = [np.sqrt(sum((a - b) ** 2)) for a, b in zip(A, B, strict=True)]
    # Chance leaves 1.7 % at 2,000 directions: the spread of |cos| over its mean is 0.75.
    assert_allclose(12 - np.array(found), 10 * np.array(gaps), rtol=0.09)
