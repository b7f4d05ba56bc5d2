"""CVAE, f-CLSWGAN, CADA-VAE and TF-VAEGAN: objectives, the final classifier, contracts."""

import math

import numpy as np
import pytest
import torch
from by_loops import forward, leaky, relu, same, sigmoid, slope
from numpy.testing import assert_allclose, assert_array_equal
from peer_cases import GENERATIVE, GENERATIVE_QUICK
from refusals import refused
from sklearn.base import clone
from trained import fit_clone, made

from zonkey import config_context
from zonkey.persistence.forms import take_parts
from zonkey.prototypes import Prototypes
from zonkey.testing import linear_problem
from zonkey_lab.peers import zsl
from zonkey_lab.peers.networks import apply_layers, arrays_of, layers, network_of
from zonkey_lab.peers.zsl import generative
from zonkey_lab.peers.zsl.base import PeerTask

P = linear_problem()


each_peer = pytest.mark.parametrize("peer", GENERATIVE_QUICK, ids=lambda peer: type(peer).__name__)
each_fitting = pytest.mark.parametrize("peer", GENERATIVE, ids=lambda peer: type(peer).__name__)


# Objectives, by loops over samples and features.

RNG = np.random.default_rng(5)
N, D, K, M = 11, 6, 4, 3
X = RNG.normal(size=(N, D)).astype(np.float32)
TASK = PeerTask(X=X, codes=np.sort(np.arange(N) % M), Y=RNG.normal(size=(M, K)), seed=11)
SMALL = {"n_hidden": 5, "min_steps": 1, "device": "cpu"}
SCALED = (X - X.min(axis=0)) / math.sqrt(np.mean((X - X.min(axis=0)) ** 2.0))
Y = (TASK.Y / math.sqrt(np.mean(TASK.Y**2)))[TASK.codes]
IN_RANGE = (X - X.min(axis=0)) / (X.max(axis=0) - X.min(axis=0))


def output(network, activations, x):
    """Return the output of layers, of the first ones if there are fewer activations."""
    return forward(arrays_of(network), activations, x)


def noises(n, width):
    """Return random numbers as an array and as a tensor."""
    values = RNG.normal(size=(n, width)).astype(np.float32)
    return values, torch.as_tensor(values)


def batch(learner):
    return learner.batch(np.arange(N))


def within_variance():
    total = 0.0
    for c in range(M):
        members = SCALED[TASK.codes == c]
        total += sum(float(np.sum((x - members.mean(axis=0)) ** 2)) for x in members)
    return total / (N * D)


def normal(network, hidden, x, noise):
    """Return a draw from an encoded distribution, its divergence, mean and deviation."""
    out = output(network, (*hidden, same), x)
    mean, variance = out[: len(out) // 2], np.exp(out[len(out) // 2 :])
    terms = (m**2 + v - 1 - math.log(v) for m, v in zip(mean, variance, strict=True))
    return mean + np.sqrt(variance) * noise, sum(terms) / 2, mean, np.sqrt(variance)


def test_features_and_prototypes_are_scaled_alike():
    learner = made(zsl.CVAE, **SMALL)._learner(TASK)
    x, y = batch(learner)
    assert_allclose(x, SCALED, rtol=1e-5, atol=1e-6)
    assert_allclose(y, Y, rtol=1e-5)
    assert_allclose(learner.within_variance(), within_variance(), rtol=1e-5)


@pytest.mark.parametrize("kind", [zsl.CADAVAE, zsl.TFVAEGAN])
@pytest.mark.parametrize("scaling", ["each", "all"])
def test_features_are_divided_by_their_own_ranges_or_by_the_largest(kind, scaling):
    values = X * np.array([1, 10, 0, 0.1, 3, 2], dtype=np.float32) - 4  # one is constant
    task = PeerTask(X=values, codes=TASK.codes, Y=TASK.Y, seed=11)
    learner = made(kind, scaling=scaling, **SMALL)._learner(task)
    ranges = [max(column) - min(column) for column in values.T]
    found = np.asarray(batch(learner)[0])
    for row, scaled in zip(values, found, strict=True):
        for j in range(D):
            size = max(ranges) if scaling == "all" else ranges[j] or 1
            assert_allclose(scaled[j], (row[j] - min(values[:, j])) / size, rtol=1e-5, atol=1e-6)
    assert found.max() == pytest.approx(1)
    assert (found[:, 3].max() < 0.1) == (scaling == "all")  # a small feature stays small


@pytest.mark.parametrize("kind", [zsl.CADAVAE, zsl.TFVAEGAN])
def test_samples_of_a_prediction_are_scaled_as_those_of_the_training(kind):
    quick = next(peer for peer in GENERATIVE_QUICK if isinstance(peer, kind))
    ranges = np.ptp(P.X, axis=0)
    for scaling, expected in (("each", ranges), ("all", np.full_like(ranges, ranges.max()))):
        model = P.fit_clone(clone(quick).set_params(scaling=scaling))
        assert_allclose(model.weights_["size"], expected, rtol=1e-5)
        larger = clone(model).fit(3 * P.X + 5, P.y)
        found, known = larger.decision_function(3 * P.X + 5), model.decision_function(P.X)
        assert np.abs(found - known).max() < 0.01 * np.abs(known).max()  # rounding grows


def test_cvae_minimizes_error_and_divergence():
    learner = made(zsl.CVAE, n_latent=3, **SMALL)._learner(TASK)
    noise, given = noises(N, 3)
    total = 0.0
    for x, y, e in zip(SCALED, Y, noise, strict=True):
        z, apart, *_ = normal(learner.networks["encoder"], (relu,), np.append(x, y), e)
        decoded = output(learner.networks["decoder"], (relu, same), np.append(z, y))
        total += sum((x - decoded) ** 2) / (2 * within_variance()) + apart
    assert_allclose(learner.loss(*batch(learner), given).item(), total / N, rtol=1e-4)


@pytest.mark.parametrize(
    ("n_done", "shares"),
    [
        (0, (0, 0, 0)),
        (7, (7 / 18, 14 / 54, 1)),
        (10, (10 / 18, 29 / 54, 1)),
        (19, (1, 1, 1)),
    ],
)
def test_cada_vae_minimizes_its_five_losses(n_done, shares):
    beta, gamma, delta = 0.7, 1.3, 2.9
    peer = made(zsl.CADAVAE, beta=beta, gamma=gamma, delta=delta, n_latent=3, max_iter=20, **SMALL)
    learner = peer._learner(TASK)
    learner.n_done = n_done
    weights = [beta * shares[0], gamma * shares[1], delta * shares[2]]
    (noise_x, given_x), (noise_y, given_y) = noises(N, 3), noises(N, 3)
    nets, total = learner.networks, 0.0

    def error(z, name, target):
        return sum(abs(target - output(nets[f"to {name}"], (relu, same), z)))

    unit = TASK.Y[TASK.codes] / math.sqrt(np.mean([y @ y for y in TASK.Y]))
    for x, y, e, f in zip(IN_RANGE, unit, noise_x, noise_y, strict=True):
        z_x, apart_x, mean_x, width_x = normal(nets["features"], (relu,), x, e)
        z_y, apart_y, mean_y, width_y = normal(nets["prototypes"], (relu,), y, f)
        total += error(z_x, "features", x) + error(z_y, "prototypes", y)
        total += weights[0] * (apart_x + apart_y)
        total += weights[1] * (error(z_y, "features", x) + error(z_x, "prototypes", y))
        squares = sum((mean_x - mean_y) ** 2) + sum((width_x - width_y) ** 2)
        total += weights[2] * math.sqrt(squares)
    found = learner.loss(*batch(learner), given_x, given_y).item()
    assert_allclose(found, total / N, rtol=1e-4)


def test_the_critic_maximizes_the_distance_with_bounded_slopes():
    learner = made(zsl.FCLSWGAN, **SMALL)._learner(TASK)
    fake, share = RNG.random((N, D)).astype(np.float32), RNG.random((N, 1)).astype(np.float32)

    def critic(x, y):
        return output(learner.networks["critic"], (leaky, same), np.append(x, y))[0]

    total = 0.0
    for x, y, f, s in zip(SCALED, Y, fake, share, strict=True):
        steepness = np.linalg.norm(slope(lambda z, y=y: critic(z, y), s * x + (1 - s) * f))
        total += critic(f, y) - critic(x, y) + 10 * (steepness - 1) ** 2
    found = learner.critic_loss(*batch(learner), torch.as_tensor(fake), torch.as_tensor(share))
    assert_allclose(found.item(), total / N, rtol=1e-3)
    # The slopes are part of what is learned.
    found.backward()
    assert learner.networks["critic"][0].weight.grad.abs().max() > 0


def test_the_generator_is_to_fool_the_critic_and_the_classifier():
    learner = made(zsl.FCLSWGAN, cls_weight=3.5, **SMALL)._learner(TASK)
    rows, total = np.arange(N), 0.0
    found = learner.generator_loss(rows, np.random.default_rng(2)).item()
    noise = learner.noise(np.random.default_rng(2), N, K).numpy()  # the same again
    W, b = generative.softmax_regression(torch, learner.X, TASK.codes, M, ridge=3e-4)
    for y, e, c in zip(Y, noise, TASK.codes, strict=True):
        x = output(learner.networks["generator"], (leaky, relu), np.append(e, y))
        logits = W @ x + b
        wrong = math.log(sum(np.exp(logits - logits[c])))
        real = output(learner.networks["critic"], (leaky, same), np.append(x, y))[0]
        total += 3.5 * wrong - real
    assert_allclose(found, total / N, rtol=1e-4)


def cycle_error(decoder, x, y):
    """Return the weighted error of the decoded prototype of a sample, as printed in the code."""
    decoded = output(decoder, (leaky, same), x)
    error = abs(y / np.linalg.norm(y) - decoded / np.linalg.norm(decoded))
    return sum(error**2 / np.linalg.norm(error) * error)


@pytest.mark.parametrize("feedback", [False, True])
def test_tf_vaegan_minimizes_its_four_losses(feedback):
    peer = made(zsl.TFVAEGAN, gan_weight=2.5, cycle_weight=1.7, **SMALL)
    learner = peer._learner(TASK)
    nets, (noise, given), total = learner.networks, noises(N, K), 0.0
    last = nets["generator"][2:]
    for x, y, e in zip(IN_RANGE, Y, noise, strict=True):
        z, apart, *_ = normal(nets["encoder"], (leaky, leaky), np.append(x, y), e)
        hidden = output(nets["generator"], (leaky,), np.append(z, y))
        fake = output(last, (sigmoid,), hidden)
        if feedback:
            h = output(nets["decoder"], (leaky,), fake)
            fake = output(last, (sigmoid,), hidden + output(nets["feedback"], (leaky, leaky), h))
        total += apart - sum(x * np.log(fake) + (1 - x) * np.log(1 - fake))
        total -= 2.5 * output(nets["critic"], (leaky, same), np.append(fake, y))[0]
        total += 1.7 * cycle_error(nets["decoder"], fake, y)
    found = learner.vaegan_loss(*batch(learner), given, feedback)
    assert_allclose(found.item(), total / N, rtol=1e-4)


def test_the_feedback_is_a_constant_of_the_first_attempt():
    learner = made(zsl.TFVAEGAN, **SMALL)._learner(TASK)
    learner.networks["feedback"].requires_grad_(False)
    _, y = batch(learner)
    learner.generate(torch, learner.networks, y, torch.ones(N, K), feedback=True).sum().backward()
    assert all(w.grad is None for w in learner.networks["decoder"].parameters())


def test_the_decoder_of_prototypes_learns_from_real_and_from_synthesized_samples():
    learner = made(zsl.TFVAEGAN, **SMALL)._learner(TASK)
    decoder, rng = learner.networks["decoder"], np.random.default_rng(0)
    expected = sum(cycle_error(decoder, x, y) for x, y in zip(IN_RANGE, Y, strict=True))
    assert_allclose(learner.cycle_loss(*batch(learner)).item(), expected / N, rtol=1e-4)

    def moves(step):
        before = arrays_of(decoder)["W0"]
        step()
        return np.abs(arrays_of(decoder)["W0"] - before).max() > 0

    rows = np.arange(N)
    assert moves(lambda: learner.critic_step(rows, rng))
    assert moves(lambda: learner.descend("generator", learner.generator_loss(rows, rng)))
    learner = made(zsl.TFVAEGAN, cycle_weight=0, **SMALL)._learner(TASK)
    decoder = learner.networks["decoder"]
    assert moves(lambda: learner.critic_step(rows, rng))
    assert not moves(lambda: learner.descend("generator", learner.generator_loss(rows, rng)))


def test_a_file_of_an_older_tf_vaegan_is_refused():
    model = P.fit_clone(GENERATIVE_QUICK[3])
    parts = take_parts(model)
    scales = {**parts["state"]["weights_"], "size": np.ones(1)}
    old = {**parts, "state": {**parts["state"], "weights_": scales}}
    with refused(ValueError, "must hold features scaled to [0, 1]", "Fit it again"):
        zsl.TFVAEGAN.__zonkey_upgrade__(old)


def test_a_critic_learns_five_times_as_often():
    learner = made(zsl.FCLSWGAN, batch_size=4, **SMALL)._learner(TASK)
    taken, descend = [], learner.descend
    learner.descend = lambda name, loss: [taken.append(name), descend(name, loss)][1]
    learner.epoch(np.random.default_rng(0))
    assert taken == ([*["critic"] * 5, "generator"]) * 3


def test_an_epoch_has_a_least_number_of_steps():
    settings = {"batch_size": 4, **SMALL, "min_steps": 8}
    learner = made(zsl.CVAE, **settings)._learner(TASK)
    taken, step = [], learner.step
    learner.step = lambda rows, rng: [taken.append(rows), step(rows, rng)][1]
    loss = learner.epoch(np.random.default_rng(0))
    assert len(taken) == 9  # three passes of three batches
    assert_array_equal(np.bincount(np.concatenate(taken)), np.full(N, 3))
    assert 0 < loss < np.inf
    assert made(zsl.CVAE)._learner(TASK).min_steps == 100


@pytest.mark.parametrize("classifier", ["ale", "softmax"])
def test_training_stops_on_the_classifier_that_is_used(classifier, monkeypatch):
    monkeypatch.setattr(generative, "_FEW", 7)
    peer = made(zsl.FCLSWGAN, classifier=classifier, n_synthetic=7, **SMALL)
    learner = peer._learner(TASK)
    prototypes = np.random.default_rng(1).normal(size=(4, K))
    found = learner.scores(X, prototypes)
    noise = learner.noise(np.random.default_rng(TASK.seed), 28, K)
    y = learner.tensor(np.repeat(prototypes, 7, axis=0)) / float(learner.scales["of_prototypes"][0])
    with torch.no_grad():
        Z = learner.synthesize(torch, learner.networks, y, noise)
    codes = np.repeat(np.arange(4), 7)
    peer.weights_, peer._synthesis = learner.scales, {"classifier": classifier, "seed": TASK.seed}
    W, b = peer._classifier(torch, Z, codes, Prototypes(np.arange(4), prototypes))
    assert_allclose(found, SCALED @ W.T + b, rtol=1e-4, atol=1e-4)


# The final classifier.


def cross_entropy(W, b, Z, codes):
    """Return the mean over classes of the mean cross-entropy."""
    counts, total = np.bincount(codes), 0.0
    for z, c in zip(Z, codes, strict=True):
        logits = W @ z + b
        total += math.log(sum(np.exp(logits - logits[c]))) / counts[c]
    return total / len(counts)


@pytest.mark.parametrize(("given", "ridge"), [(None, 0.005), (0.1, 0.1)])
def test_softmax_regression_has_the_least_penalized_cross_entropy(given, ridge):
    Z = RNG.normal(size=(30, 3)) + 5
    codes = np.argmax(Z + RNG.normal(size=Z.shape), axis=1)
    samples = torch.as_tensor(Z.astype(np.float32))
    W, b = generative.softmax_regression(torch, samples, codes, 3, ridge=given)
    length = math.sqrt(np.mean(np.sum((Z - Z.mean(axis=0)) ** 2, axis=1)))

    def objective(parameters):
        W, b = parameters[:9].reshape(3, 3), parameters[9:]
        penalty = ridge / 2 * np.sum((length * W) ** 2)
        return cross_entropy(W, b, Z, codes) + penalty

    found = np.append(W.ravel(), b).astype(float)
    assert np.abs(slope(objective, found)).max() < 2e-3
    assert objective(found) < objective(0.9 * found)
    assert objective(found) < objective(1.1 * found)


def test_softmax_regression_tells_classes_apart_however_many_there_are():
    doubts = []
    for n_classes in (4, 100):
        Z = torch.eye(n_classes).repeat(3, 1)
        codes = np.tile(np.arange(n_classes), 3)
        W, b = generative.softmax_regression(torch, Z, codes, n_classes)
        own = torch.softmax(Z @ torch.as_tensor(W).T + torch.as_tensor(b), dim=1).diagonal()
        doubts.append(1 - own.min().item())
    assert max(doubts) < 0.1


def test_softmax_regression_acts_alike_in_every_unit():
    Z = torch.as_tensor(RNG.normal(size=(40, 4)).astype(np.float32))
    codes = np.arange(40) % 4
    W, b = generative.softmax_regression(torch, Z, codes, 4)
    W8, b8 = generative.softmax_regression(torch, 8 * Z, codes, 4)
    assert_allclose(8 * W8, W, rtol=1e-4, atol=1e-5)
    assert_allclose(b8, b, rtol=1e-4, atol=1e-5)


def training_set(model, known):
    Z, codes = model._training_set(torch, known)
    return Z.numpy(), codes


@each_peer
def test_unseen_classes_have_synthesized_samples_and_seen_ones_real_ones(peer):
    model = P.fit_clone(peer, n_synthetic=4, candidates="all")
    Z, codes = training_set(model, model.scorer_.prototypes)
    n_seen = 2 if isinstance(peer, zsl.CADAVAE) else 4
    expected = [n_seen if label in P.seen else 4 for label in model.classes_]
    assert_array_equal(np.bincount(codes), expected)
    if n_seen == 4:  # the same samples as prediction sees
        label = P.seen[2]
        rows = model._map_samples(P.X[P.y == label])
        own = Z[codes == list(model.classes_).index(label)]
        nearest = [np.abs(rows - z).max(axis=1).min() for z in own]
        assert max(nearest) < 1e-4


def test_fewer_real_samples_than_synthesized_ones_are_all_taken():
    model = P.fit_clone(GENERATIVE_QUICK[0], n_synthetic=20, candidates="all")
    _, codes = training_set(model, model.scorer_.prototypes)
    assert_array_equal(np.bincount(codes), [9 if c in P.seen else 20 for c in model.classes_])
    model = P.fit_clone(GENERATIVE_QUICK[2], n_synthetic=40, candidates="all")  # repeated
    _, codes = training_set(model, model.scorer_.prototypes)
    assert_array_equal(np.bincount(codes), [20 if c in P.seen else 40 for c in model.classes_])


@each_peer
def test_scores_are_the_logits_of_the_classifier(peer):
    parameters = {"classifier": "softmax"} if isinstance(peer, zsl.FCLSWGAN) else {}
    model = fit_clone(P, peer, candidates="all", seen_penalty=0.5, **parameters)
    Z, codes = model._training_set(torch, model.scorer_.prototypes)
    balanced = not isinstance(peer, zsl.CADAVAE)
    W, b = generative.softmax_regression(torch, Z, codes, len(model.classes_), balanced=balanced)
    penalty = 0.5 * np.isin(model.classes_, P.seen)
    expected = [W @ z + b - penalty for z in model._map_samples(P.X_new)]
    assert_allclose(model.decision_function(P.X_new), expected, rtol=1e-6, atol=1e-6)


def test_the_ranking_of_gan_and_ale_is_that_of_ale_on_synthesized_features():
    model = P.fit_clone(GENERATIVE[1])
    Z, codes = training_set(model, model.scorer_.prototypes)
    features = Z * model.weights_["size"] + model.weights_["low"]
    labels = model.classes_[codes]
    settings = {"learning_rate": 1.0, "max_iter": 20, "n_iter_no_change": None}
    ranked = made(zsl.ALE, P.prototypes, candidates=P.unseen, random_state=0, **settings)
    ranked.fit(features.astype(np.float32), labels)
    expected = ranked.decision_function(P.X_new)
    found = model.decision_function(P.X_new)
    assert np.corrcoef(found.ravel(), expected.ravel())[0, 1] > 0.98


@each_peer
def test_prediction_maps_samples_as_training_does(peer):
    model = P.fit_clone(peer)
    networks = {
        name: network_of(torch, "cpu", generative.part_of(model.weights_, name), activations)
        for name, activations in model._kind.kept.items()
    }
    scaled = generative.scale_features(P.X_new.astype(np.float32), model.weights_)
    with torch.no_grad():
        expected = model._kind.encode(torch, networks, torch.as_tensor(scaled))
    assert_allclose(model._map_samples(P.X_new), expected, rtol=1e-4, atol=1e-5)


def test_a_network_is_rebuilt_from_its_arrays():
    activations = ("tanh", "leaky_relu", "sigmoid")
    arrays = arrays_of(layers(torch, [3, 5, 2, 4], activations))
    network = network_of(torch, "cpu", arrays, activations)
    X = RNG.normal(size=(7, 3)).astype(np.float32)
    with torch.no_grad():
        found = network(torch.as_tensor(X)).numpy()
    assert_allclose(found, apply_layers(arrays, activations, X), rtol=1e-5, atol=1e-6)


@each_peer
def test_prediction_trains_no_classifier(peer, monkeypatch):
    model = P.fit_clone(peer, candidates="all")
    expected = model.decision_function(P.X_new)

    def refuse(*_):
        raise AssertionError("a classifier is trained")

    monkeypatch.setattr(type(peer), "_linear_scores", refuse)
    assert_array_equal(model.decision_function(P.X_new), expected)
    narrow = model.decision_function(P.X_new.astype(np.float32))
    assert_allclose(narrow, expected, rtol=1e-4, atol=1e-4)


def test_copies_train_a_classifier_for_other_candidates_only(monkeypatch):
    model, trained = P.fit_clone(GENERATIVE_QUICK[0]), []
    learn = type(model)._classifier

    def count(self, *given):
        trained.append(len(given[-1]))
        return learn(self, *given)

    monkeypatch.setattr(type(model), "_classifier", count)
    same = model.with_candidates(model.unseen_classes_.tolist()).with_candidates("unseen")
    assert trained == []
    assert same.candidates == "unseen"
    assert_array_equal(same.decision_function(P.X_new), model.decision_function(P.X_new))
    among_all = model.with_candidates("all")
    assert trained == [len(model.prototypes_)]
    among_all.with_candidates("all")
    assert len(trained) == 1
    among_all.seen_penalty_ = 1.5
    punished = among_all.with_candidates("all").decision_function(P.X_new)
    seen = np.isin(among_all.classes_, among_all.seen_classes_)
    assert_allclose(
        among_all.decision_function(P.X_new) - punished, 1.5 * seen + 0 * punished, atol=1e-4
    )


def test_many_samples_are_mapped_in_blocks():
    model = P.fit_clone(GENERATIVE_QUICK[3])
    expected = model.decision_function(P.X_new)
    with config_context(working_memory=0.002):
        assert_allclose(model.decision_function(P.X_new), expected, rtol=1e-9, atol=1e-12)


# What is learned.


@each_fitting
def test_units_and_origin_of_the_features_do_not_matter(peer):
    # Predictions may differ: the order of the samples, and so their batches, depends on the values.
    assert P.make_clone(peer).fit(8 * P.X + 3, P.y).score(8 * P.X_new + 3, P.y_new) > 0.7


def test_synthesized_features_vary_around_the_class():
    model = P.fit_clone(GENERATIVE[0])
    known = Prototypes.coerce(P.prototypes).subset(P.unseen[:1])
    Z, _ = training_set(model, known)
    truth = model._map_samples(P.X_new[P.y_new == P.unseen[0]]).mean(axis=0)
    others = model._map_samples(P.X).mean(axis=0)
    assert np.linalg.norm(Z.mean(axis=0) - truth) < np.linalg.norm(others - truth)
    assert Z.std(axis=0).max() > 0
