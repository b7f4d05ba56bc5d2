"""CMT, DEM, VZSL and SP-AEN: objectives, planted solutions, training and contracts."""

import numpy as np
import pytest
from by_loops import forward, leaky, relu, same, sigmoid, slope_in_place, unit
from numpy.testing import assert_allclose
from peer_cases import EMBEDDING, EMBEDDING_QUICK
from trained import fit_clone, made

from zonkey.testing import linear_problem
from zonkey_lab.peers import zsl
from zonkey_lab.peers.networks import BatchLearner, arrays_of
from zonkey_lab.peers.zsl.base import PeerTask

P = linear_problem()
LEARNING = {"n_iter_no_change": None, "batch_size": 24, "device": "cpu"}


# Objectives, by loops over samples and classes.

RNG = np.random.default_rng(5)
N, D, K, M = 14, 6, 4, 3
TASK = PeerTask(
    X=RNG.normal(size=(N, D)).astype(np.float32),
    codes=np.sort(np.arange(N) % M),
    Y=RNG.normal(size=(M, K)),
    seed=11,
)
SMALL = {"n_hidden": 5, "device": "cpu"}


def double(network):
    return {name: array.astype(np.float64) for name, array in arrays_of(network).items()}


def stepped(peer, task=TASK):
    """Return a learner after one step on all samples: losses by optimizer, weights before it.

    The gradients of the last loss are still in the networks.
    """
    learner = peer._learner(task)
    before = {
        name: double(network) if name != "prior" else network.weight.detach().numpy().T.copy()
        for name, network in learner.networks.items()
    }
    losses = {}

    def descend(name, loss):
        losses[name] = loss.item()
        return BatchLearner.descend(learner, name, loss)

    learner.descend = descend
    learner.step(np.arange(len(task.X)), np.random.default_rng(2))
    return learner, losses, before


def assert_gradient(objective, weights, network):
    """Compare central differences of an objective with the gradient left in the network."""
    linear = [step for step in network if hasattr(step, "weight")]
    for i, layer in enumerate(linear):
        for name, gradient in (("W", layer.weight.grad.T), ("b", layer.bias.grad)):
            expected = slope_in_place(objective, weights[f"{name}{i}"])
            assert_allclose(gradient.numpy(), expected, rtol=2e-3, atol=2e-5)


def test_cmt_minimizes_the_squared_error_to_the_prototype():
    learner, losses, before = stepped(made(zsl.CMT, **SMALL))

    def objective():
        total = 0.0
        for x, code in zip(TASK.X, TASK.codes, strict=True):
            z = forward(before["f"], (np.tanh, same), x)
            total += sum((TASK.Y[code][r] - z[r]) ** 2 for r in range(K))
        return total / N

    assert_allclose(losses["f"], objective(), rtol=1e-5)
    assert_gradient(objective, before["f"], learner.networks["f"])


@pytest.mark.parametrize("sign", ["both", "positive"])
def test_dem_minimizes_the_squared_error_of_the_projected_prototype(sign):
    X = TASK.X if sign == "both" else np.abs(TASK.X)
    task = PeerTask(X, TASK.codes, TASK.Y, TASK.seed)
    learner, losses, before = stepped(made(zsl.DEM, **SMALL), task)
    last = same if sign == "both" else relu

    def objective():
        total = 0.0
        for x, code in zip(task.X, task.codes, strict=True):
            center = forward(before["f"], (relu, last), task.Y[code])
            total += sum((x[r] - center[r]) ** 2 for r in range(D))
        return total / N

    assert_allclose(losses["f"], objective(), rtol=1e-5)
    assert_gradient(objective, before["f"], learner.networks["f"])


def test_weight_decay_of_dem_pulls_all_weights_to_zero():
    rate = 0.003
    learner, _, before = stepped(made(zsl.DEM, weight_decay=1e6, learning_rate=rate, **SMALL))
    after = double(learner.networks["f"])
    for name, array in before["f"].items():  # the first step of Adam has the sign of the gradient
        assert_allclose(after[name], array - rate * np.sign(array), rtol=1e-3, atol=1e-6)


def divergence(m, s, mu, t):
    """KL of two normal distributions with diagonal covariances; s and t are variances."""
    return sum(
        0.5 * (np.log(t[r] / s[r]) + (s[r] + (m[r] - mu[r]) ** 2) / t[r] - 1) for r in range(len(m))
    )


LATENT, LAM, RECONSTRUCTION = 3, 0.7, 2.5


def test_vzsl_minimizes_divergence_margin_and_error():
    peer = made(zsl.VZSL, n_latent=LATENT, lam=LAM, reconstruction=RECONSTRUCTION, **SMALL)
    learner = peer._learner(TASK)
    prior = RNG.normal(size=(K, 2 * LATENT)).astype(np.float32) / 2  # not 0, as at the beginning
    learner.networks["prior"].weight.data = learner.tensor(prior.T.copy())  # `step` changes it
    learner.networks["prior"].weight.requires_grad_(True)
    learner.optimizers = {"all": learner.adam(*learner.networks, learning_rate=1e-3)}
    encoder, decoder = (double(learner.networks[name]) for name in ("encoder", "decoder"))
    loss = learner.step(np.arange(N), np.random.default_rng(2)).item()
    # `step` drew its noise for samples in this order.
    noise = learner.noise(np.random.default_rng(2), N, LATENT).numpy()
    X, Y = TASK.X / np.sqrt(np.mean(TASK.X**2)), TASK.Y / np.sqrt(np.mean(TASK.Y**2))

    def objective():
        total = 0.0
        for x, code, e in zip(X, TASK.codes, noise, strict=True):
            out = forward(encoder, (relu, same), x)
            m, s = out[:LATENT], np.exp(out[LATENT:])
            between = []
            for y in Y:
                of_class = y @ prior
                between.append(divergence(m, s, of_class[:LATENT], np.exp(of_class[LATENT:])))
            decoded = forward(decoder, (relu, same), m + np.sqrt(s) * e)
            error = sum((x[r] - decoded[r]) ** 2 for r in range(D)) / D
            margin = np.log(sum(np.exp(-value) for value in between))
            total += between[code] + LAM * margin + RECONSTRUCTION * error
        return total / N

    assert_allclose(loss, objective(), rtol=1e-5)
    assert_gradient(objective, encoder, learner.networks["encoder"])
    assert_gradient(objective, decoder, learner.networks["decoder"])


def test_sp_aen_minimizes_ranking_reconstruction_and_adversarial_losses():
    margin, reconstruction, adversarial = 0.45, 0.7, 1.8
    weights = {"margin": margin, "reconstruction": reconstruction, "adversarial": adversarial}
    learner, losses, before = stepped(made(zsl.SPAEN, **weights, **SMALL))
    square = np.mean([sum(a * a for a in x) for x in TASK.X])
    S, after = [unit(y) for y in TASK.Y], double(learner.networks["D"])
    others = np.random.default_rng(2).integers(N, size=N)

    def embedded(name, x):
        return unit(forward(before[name], (leaky, same), x))

    def probability(arrays, z):
        return sigmoid(forward(arrays, (leaky, same), z)[0])

    def ranking(e, code):
        wrong = (s for j, s in enumerate(S) if j != code)
        return sum(max(0.0, margin - e @ S[code] + e @ s) for s in wrong)

    def told_apart():
        real = sum(np.log(probability(before["D"], embedded("F", TASK.X[i]))) for i in others)
        fake = sum(np.log(1 - probability(before["D"], embedded("E", x))) for x in TASK.X)
        return -(real + fake) / N

    def objective():
        total = 0.0
        for x, code in zip(TASK.X, TASK.codes, strict=True):
            e, f = embedded("E", x), embedded("F", x)
            back = forward(before["G"], (leaky, same), f)
            total += ranking(e, code) + ranking(f, code)
            total += reconstruction * sum((x[r] - back[r]) ** 2 for r in range(D)) / square
            total -= adversarial * np.log(probability(after, e))
        return total / N

    assert_allclose(losses["D"], told_apart(), rtol=1e-5)
    assert_allclose(losses["EFG"], objective(), rtol=1e-5)
    for name in "EFG":
        assert_gradient(objective, before[name], learner.networks[name])


# Predictions, by loops.


def scores_of(peer, score, **parameters):
    model = fit_clone(P, peer, candidates="all", **parameters)
    expected = [[score(model, x, y) for y in P.prototypes.values()] for x in P.X_new]
    return model.decision_function(P.X_new), np.array(expected)


def cmt_score(model, x, y):
    z = forward(model.weights_, (np.tanh, same), x)
    return z @ z - sum((z - y) ** 2)


def dem_score(model, x, y):
    return x @ x - sum((x - forward(model.weights_, (relu, same), y)) ** 2)


def sp_aen_score(model, x, y):
    return unit(forward(model.weights_, (leaky, same), x)) @ unit(y)


@pytest.mark.parametrize(("i", "score"), [(0, cmt_score), (1, dem_score), (3, sp_aen_score)])
def test_scores_are_distances_or_cosines(i, score):
    found, expected = scores_of(EMBEDDING_QUICK[i], score)
    assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_vzsl_compares_divergences():
    def score(model, x, y):
        out, of_class = forward(model.weights_, (relu, same), x), y @ model.weights_["prior"]
        m, s = out[:LATENT], np.exp(out[LATENT:])
        return -divergence(m, s, of_class[:LATENT], np.exp(of_class[LATENT:]))

    settings = {"n_latent": LATENT, "learning_rate": 0.02}
    found, expected = scores_of(EMBEDDING_QUICK[2], score, **settings)
    shared = expected - found  # the same for all classes of a sample
    assert_allclose(shared, np.broadcast_to(shared[:, :1], shared.shape), atol=1e-9)
    assert np.ptp(found, axis=1).min() > 1e-3


def test_projections_and_embeddings_are_what_scores_compare():
    model = P.fit_clone(EMBEDDING_QUICK[1])
    expected = [forward(model.weights_, (relu, same), y) for y in P.prototypes.values()]
    assert_allclose(model.project(P.prototypes), expected, rtol=1e-9, atol=1e-12)
    model = P.fit_clone(EMBEDDING_QUICK[0])
    expected = [forward(model.weights_, (np.tanh, same), x) for x in P.X_new]
    assert_allclose(model.embed(P.X_new), expected, rtol=1e-9, atol=1e-12)
    assert_allclose(np.linalg.norm(P.fit_clone(EMBEDDING_QUICK[3]).embed(P.X_new), axis=1), 1)


# What is learned.


def test_dem_recovers_a_planted_network():
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(60, 3))
    centers = np.maximum(np.maximum(Y @ rng.normal(size=(3, 8)), 0) @ rng.normal(size=(8, 5)), 0)
    prototypes = dict(enumerate(Y))
    model = made(
        zsl.DEM,
        prototypes,
        n_hidden=40,
        weight_decay=1e-5,
        learning_rate=0.01,
        random_state=1,
        **LEARNING,
    )
    seen = np.repeat(np.arange(50), 4)
    model.fit(centers[seen], seen)
    assert model._output == "relu"  # no feature is negative
    far = np.mean((centers[50:] - centers[:50].mean(axis=0)) ** 2)
    assert np.mean((model.project(Y[50:]) - centers[50:]) ** 2) < 0.1 * far


def test_the_divergence_of_vzsl_uses_the_variance_of_the_class():
    rng = np.random.default_rng(0)
    prototypes = {"narrow": [1.0, 0.0], "wide": [0.0, 1.0], "middle": [0.5, 0.5]}
    X = np.concatenate([0.1 * rng.normal(size=(60, 4)), 3 * rng.normal(size=(60, 4))])
    y = np.repeat(["narrow", "wide"], 60)
    settings = {"n_hidden": 24, "n_latent": 3, "learning_rate": 0.02, "max_iter": 30}
    model = made(zsl.VZSL, prototypes, candidates=["narrow", "wide"], random_state=0, **settings)
    model.fit(X.astype(np.float32), y)
    assert model.score(X.astype(np.float32), y) > 0.9  # their means are the same


def test_the_reconstructing_branch_of_sp_aen_changes_what_is_learned():
    peer = EMBEDDING[3]
    weights = [
        fit_clone(P, peer, max_iter=2, **changed).weights_["W0"]
        for changed in ({}, {"adversarial": 0.0}, {"reconstruction": 5.0}, {"margin": 0.1})
    ]
    for other in weights[1:]:
        assert np.abs(other - weights[0]).max() > 1e-4
