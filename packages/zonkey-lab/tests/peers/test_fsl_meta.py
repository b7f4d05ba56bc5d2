"""MAML, Meta-Learner LSTM and SNAIL: algorithms by loops, gradients, planted solutions."""

import math

import numpy as np
import pytest
import torch
from by_loops import relu, sigmoid, slope_in_place
from numpy.testing import assert_allclose, assert_array_equal
from peer_cases import BASE, P, meta_peers
from refusals import refused
from sklearn.base import clone
from trained import made, nest

from zonkey.persistence.forms import make_object, take_parts
from zonkey_lab import protocols
from zonkey_lab.peers.fsl import (
    MAML,
    SNAIL,
    BaseSamples,
    MetaLearnerLSTM,
    SimpleShot,
    meta_lstm,
    snail,
)
from zonkey_lab.peers.fsl import maml as maml_module
from zonkey_lab.peers.fsl.meta import EpisodeSizes

# The networks are meta_peers: threads would wait for each other for longer than they work.

FEW = {"n_query": 4, "n_episodes": 6, "max_iter": 2, "n_iter_no_change": None, "device": "cpu"}


def named(peer):
    return type(peer).__name__ + (" first order" if getattr(peer, "first_order", False) else "")


each_peer = pytest.mark.parametrize("peer", meta_peers(BASE), ids=named)


# Algorithms, by loops.

E, WAY, SHOT, QUERY, D = 2, 3, 2, 4, 4


def learner_of(peer, n_way=WAY, seed=0):
    """Return a learner in double precision, with all weights away from zero, and episodes."""
    peer.episode_sizes = EpisodeSizes(n_way, SHOT, QUERY)
    base = BaseSamples(P.X_base[:, :D], P.y_base, random_state=seed)
    learner = peer._learner(base)
    (network,) = learner.networks.values()
    network.double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in network.parameters():
            weight += 0.3 * torch.randn(weight.shape, generator=generator)
    support = torch.randn((E, n_way, SHOT, D), generator=generator, dtype=torch.float64)
    query = torch.randn((E, n_way, QUERY, D), generator=generator, dtype=torch.float64)
    return learner, network, support, query


def numbers(network):
    return {name: value.detach().numpy().copy() for name, value in network.items()}


def cross_entropy(scores, target):
    top = max(scores)
    return top + math.log(sum(math.exp(s - top) for s in scores)) - scores[target]


def loss_of_head(head, X, codes):
    total = 0.0
    for x, code in zip(X, codes, strict=True):
        z = x + relu(x @ head["W0"] + head["b0"]) @ head["W1"]
        pairs = zip(head["W"].T, head["b"], strict=True)
        total += cross_entropy([z @ column + bias for column, bias in pairs], code)
    return total / len(X)


def differences(objective, arrays, step=1e-5):
    """Return central differences of a function of arrays by name."""
    return {name: slope_in_place(objective, array, step) for name, array in arrays.items()}


def begun(weights, outputs=range(WAY)):
    head = {name: weights[name].copy() for name in ("W0", "b0", "W1")}
    head["W"] = np.stack([weights["W"][:, j] for j in outputs], axis=1)
    head["b"] = np.array([weights["b"][j] for j in outputs])
    return head


def adapted_by_loops(weights, X, codes, n_steps, rate, outputs):
    head = begun(weights, outputs)
    for _ in range(n_steps):
        slopes = differences(lambda head=head: loss_of_head(head, X, codes), head)
        head = {name: head[name] - rate * slopes[name] for name in head}
    return head


def flat(tensor):
    return tensor.flatten(0, 1).numpy()


S_CODES, Q_CODES = np.repeat(np.arange(WAY), SHOT), np.repeat(np.arange(WAY), QUERY)
RATE = 0.4


def test_an_inner_step_of_maml_follows_the_gradient_of_the_cross_entropy():
    _, network, support, _ = learner_of(made(MAML, n_hidden=3, device="cpu"))
    head = begun(numbers(network))
    head["W"] = head["W"] + np.random.default_rng(0).normal(size=head["W"].shape)
    X, Y = flat(support[0]), np.eye(WAY)[S_CODES]
    found = maml_module.gradient(head, X, Y)
    expected = differences(lambda: loss_of_head(head, X, S_CODES), head)
    for name, slope in expected.items():
        assert_allclose(found[name], slope, rtol=1e-6, atol=1e-8)
    after = maml_module.take_step(head, found, RATE)
    assert loss_of_head(after, X, S_CODES) < loss_of_head(head, X, S_CODES)


N_OUTPUTS = 5  # more than the classes of an episode
OUTPUTS = np.argsort(np.random.default_rng(0).random((E, N_OUTPUTS)), axis=1)[:, :WAY]


def meta_gradient(**settings):
    """Return loss and gradient of episodes whose classes begin at `OUTPUTS`, and what they saw."""
    peer = made(MAML, n_hidden=2, n_steps=2, inner_learning_rate=RATE, device="cpu", **settings)
    learner, network, support, query = learner_of(peer, N_OUTPUTS)
    support, query = support[:, :WAY], query[:, :WAY]
    loss = learner.loss(support, query, np.random.default_rng(0))
    loss.backward()
    found = {name: value.grad.numpy() for name, value in network.items()}
    return loss.item(), found, numbers(network), support, query


def test_the_second_order_gradient_of_maml_is_that_of_the_loss_after_the_steps():
    loss, found, weights, support, query = meta_gradient()

    def objective():
        total = 0.0
        for shots, queries, outputs in zip(support, query, OUTPUTS, strict=True):
            head = adapted_by_loops(weights, flat(shots), S_CODES, 2, RATE, outputs)
            total += loss_of_head(head, flat(queries), Q_CODES)
        return total / E

    assert_allclose(loss, objective(), rtol=1e-7)
    expected = differences(objective, weights, step=1e-4)
    for name, slope in expected.items():
        assert_allclose(found[name], slope, rtol=1e-4, atol=1e-6)
        assert np.abs(slope).max() > 1e-3, name  # every part of the initial weights matters


def test_the_first_order_gradient_of_maml_is_that_at_the_adapted_weights():
    loss, found, weights, support, query = meta_gradient(first_order=True)
    total, expected = 0.0, dict.fromkeys(weights, 0.0)
    for shots, queries, outputs in zip(support, query, OUTPUTS, strict=True):
        head = adapted_by_loops(weights, flat(shots), S_CODES, 2, RATE, outputs)
        queries = flat(queries)
        total += loss_of_head(head, queries, Q_CODES) / E
        slopes = differences(lambda h=head, q=queries: loss_of_head(h, q, Q_CODES), head)
        used = np.eye(N_OUTPUTS)[outputs]  # the other outputs do not matter
        slopes |= {"W": slopes["W"] @ used, "b": slopes["b"] @ used}
        expected = {name: expected[name] + slopes[name] / E for name in expected}
    assert_allclose(loss, total, rtol=1e-7)
    exact = meta_gradient()[1]
    for name, slope in expected.items():
        assert_allclose(found[name], slope, rtol=1e-5, atol=1e-8)
        assert np.abs(exact[name] - slope).max() > 0.01 * np.abs(slope).max()


def test_a_fitted_maml_has_taken_the_steps():
    peer = made(
        MAML, BASE, n_hidden=3, n_steps=3, inner_learning_rate=0.02, learning_rate=0.02, **FEW
    )
    model = P.fit_clone(peer)
    X, codes = centered(P.X_support), np.unique(P.y_support, return_inverse=True)[1]
    head = begun({name: w.astype(float) for name, w in model.weights_.items()}, range(4))
    for _ in range(3):
        slopes = differences(lambda head=head: loss_of_head(head, 20 * X, codes), head)
        head = {name: head[name] - 0.02 * slopes[name] for name in head}
    Z = 20 * centered(P.X_query)
    hidden = [z + relu(z @ head["W0"] + head["b0"]) @ head["W1"] for z in Z]
    expected = [z @ head["W"] + head["b"] for z in hidden]
    assert_allclose(model.decision_function(P.X_query), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("first_order", [False, True])
def test_the_initial_outputs_of_maml_are_learned_and_change_predictions(first_order):
    settings = {"n_hidden": 3, "inner_learning_rate": 0.02, "learning_rate": 0.02, **FEW}
    model = P.fit_clone(made(MAML, BASE, first_order=first_order, **settings))
    found, weights = model.decision_function(P.X_query), model.weights_
    assert min(np.abs(weights[name]).max(axis=-1).min() for name in ("W", "b")) > 0
    assert np.ptp(weights["W"], axis=1).max() > 1e-3  # a vector in all columns would not matter
    learned = {key: kept[0] for key, kept in BASE._kept.items() if isinstance(kept[0], dict)}
    (key,) = [key for key, kept in learned.items() if kept.get("weights_") is weights]
    other = BaseSamples(P.X_base, P.y_base)
    without = weights | {name: np.zeros_like(weights[name]) for name in ("W", "b")}
    other.learn_once(key, lambda: BASE._kept[key][0] | {"weights_": without})
    changed = P.make_clone(model, base=other).fit(P.X_support, P.y_support)
    shift = changed.decision_function(P.X_query) - found
    assert np.ptp(shift, axis=1).max() > 1e-3  # not the same shift of all classes


def centered(X):
    rows = X - P.X_base.mean(axis=0)
    return rows / np.sqrt((rows * rows).sum(axis=1))[:, None]


def seen_as(v):
    if abs(v) >= math.exp(-10):
        return [math.log(abs(v)) / 10, math.copysign(1, v)]
    return [-1.0, math.exp(10) * v]


def classifier_by_loops(weights, X, codes, n_way, n_steps, kept=None):
    """Return the weights after the updates; `kept` has losses and gradients of each step."""
    h = len(weights["b0"]) // 4
    W = np.stack([weights["w"]] * n_way, axis=1)
    states = {index: ([0.0] * h, [0.0] * h, 0.0, 0.0) for index in np.ndindex(W.shape)}
    record = []
    for t in range(n_steps):
        if kept is None:
            loss = mean_loss(W, X, codes)
            slopes = differences(lambda W=W: mean_loss(W, X, codes), {"W": W})["W"]
        else:
            loss, slopes = kept[t]
        record.append((loss, slopes))
        after = np.empty(W.shape)
        for index, (hidden, cell, f, i) in states.items():
            g, c = slopes[index], W[index]
            sums = np.array([*seen_as(g), *seen_as(loss), *hidden]) @ weights["W0"] + weights["b0"]
            for u in range(h):
                gates = [sigmoid(sums[n * h + u]) for n in range(3)]
                cell[u] = gates[1] * cell[u] + gates[0] * math.tanh(sums[3 * h + u])
                hidden[u] = gates[2] * math.tanh(cell[u])
            f = sigmoid(np.array([*hidden, c, f, 1]) @ weights["f"])
            i = sigmoid(np.array([*hidden, c, i, 1]) @ weights["i"])
            states[index] = hidden, cell, f, i
            after[index] = f * c - i * g
        W = after
    return W, record


def mean_loss(W, X, codes):
    return sum(cross_entropy(x @ W, code) for x, code in zip(X, codes, strict=True)) / len(X)


def test_the_lstm_updates_each_weight_by_its_gates():
    learner, network, support, query = learner_of(
        made(MetaLearnerLSTM, n_hidden=2, n_steps=3, device="cpu"), seed=1
    )
    weights = numbers(network)
    found = learner.logits(support, query).detach()
    for shots, queries, scores in zip(support, query, found, strict=True):
        W, _ = classifier_by_loops(weights, flat(shots), S_CODES, WAY, 3)
        assert_allclose(scores, flat(queries) @ W, rtol=1e-5, atol=1e-7)


def test_gradients_of_the_lstm_take_those_of_the_classifier_as_constants():
    learner, network, support, query = learner_of(
        made(MetaLearnerLSTM, n_hidden=2, n_steps=3, device="cpu"), seed=2
    )
    learner.loss(support[:1], query[:1], np.random.default_rng(0)).backward()
    weights, X = numbers(network), flat(support[0])
    kept = classifier_by_loops(weights, X, S_CODES, WAY, 3)[1]

    def objective():
        W, _ = classifier_by_loops(weights, X, S_CODES, WAY, 3, kept)
        return mean_loss(W, flat(query[0]), Q_CODES)

    for name, slope in differences(objective, weights).items():
        assert_allclose(network[name].grad.numpy(), slope, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("kind", [MAML, MetaLearnerLSTM])
def test_more_shots_of_a_class_do_not_weigh_more(kind):
    peer = made(kind, BASE, max_iter=0, device="cpu")
    again = np.repeat(np.arange(len(P.y_support)), np.where(P.y_support == P.y_support[0], 3, 1))
    expected = P.make_clone(peer).fit(P.X_support, P.y_support)
    model = P.make_clone(peer).fit(P.X_support[again], P.y_support[again])
    found, alike = (m.decision_function(P.X_query) for m in (model, expected))
    assert_allclose(found, alike, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("library", [np.asarray, torch.as_tensor])
def test_sizes_and_signs_of_small_and_large_numbers(library):
    values = np.array([0.0, 1e-6, -4e-5, -5e-5, 0.3, -200.0, math.exp(-9.9)])
    found = np.asarray(meta_lstm.preprocess(library(values)))
    assert_allclose(found, [seen_as(v) for v in values], rtol=1e-12)


def scores_by_loops(weights, X, labels, x):
    """Return the scores of one query, from the whole sequence."""
    h, n_way = weights["embedding"].shape[1], weights["output"].shape[1]
    rows = [[*(z @ weights["embedding"]), *label] for z, label in zip(X, labels, strict=True)]
    rows.append([*(x @ weights["embedding"]), *[0.0] * n_way])
    n_rates = len([name for name in weights if name.startswith("convolution1")])
    for i in range(3):
        rows = with_attention(rows, weights[f"attention{i}"], h + 1)
        for j in range(n_rates if i < 2 else 0):
            rows = with_convolution(rows, weights[f"convolution{i}_{j}"], 2**j)
    return np.array([*rows[-1], 1.0]) @ weights["output"]


def with_attention(rows, matrix, k):
    new = []
    for t, row in enumerate(rows):
        query = (np.array([*row, 1.0]) @ matrix)[:k]
        past = [np.array([*other, 1.0]) @ matrix for other in rows[: t + 1]]
        powers = [math.exp(query @ other[k : 2 * k] / math.sqrt(k)) for other in past]
        read = sum(p * other[2 * k :] for p, other in zip(powers, past, strict=True))
        new.append([*row, *(read / sum(powers))])
    return new


def with_convolution(rows, matrix, rate):
    new, half = [], matrix.shape[1] // 2
    for t, row in enumerate(rows):
        before = rows[t - rate] if t >= rate else [0.0] * len(row)
        sums = np.array([*row, *before, 1.0]) @ matrix
        gated = [math.tanh(a) * sigmoid(b) for a, b in zip(sums[:half], sums[half:], strict=True)]
        new.append([*row, *gated])
    return new


def test_snail_reads_the_support_set_as_a_sequence_that_ends_with_the_query():
    learner, network, support, query = learner_of(
        made(SNAIL, n_hidden=3, n_filters=2, device="cpu")
    )
    weights = numbers(network)
    names = [name for name in weights if name.startswith("convolution0")]
    assert names == ["convolution0_0", "convolution0_1", "convolution0_2"]  # 7 positions
    found = learner.logits(support, query).detach().numpy()
    for e in range(E):
        for q, x in enumerate(flat(query[e])):
            expected = scores_by_loops(weights, flat(support[e]), np.eye(WAY)[S_CODES], x)
            assert_allclose(found[e, q], expected, rtol=1e-9, atol=1e-9)


def test_a_fitted_snail_scores_by_the_sorted_sequence():
    model = P.fit_clone(
        made(SNAIL, BASE, n_hidden=4, n_filters=3, n_way=6, learning_rate=0.01, **FEW)
    )
    weights = {name: w.astype(float) for name, w in model.weights_.items()}
    order = np.argsort(P.y_support, kind="stable")
    codes = np.unique(P.y_support[order], return_inverse=True)[1]
    found = model.decision_function(P.X_query[:3])
    shots = [np.flatnonzero(codes == j) for j in range(4)]
    X = centered(P.X_support[order])
    # The base class sorts shots by a hash of their values: one of the orders must fit.
    kept = [np.round(row, 6).tolist() for row in model.memory_[:, :4]]
    places = [kept.index(np.round(x @ weights["embedding"], 6).tolist()) for x in X]
    X, labels = X[np.argsort(places)], np.eye(6)[codes[np.argsort(places)]]
    assert sorted(places[:3]) == [0, 1, 2]
    assert [len(rows) for rows in shots] == [3] * 4
    for scores, x in zip(found, centered(P.X_query[:3]), strict=True):
        assert_allclose(scores, scores_by_loops(weights, X, labels, x)[:4], rtol=1e-6, atol=1e-6)


def test_samples_of_a_sequence_see_only_those_before():
    _, network, support, _ = learner_of(made(SNAIL, n_hidden=3, n_filters=2, device="cpu"))
    weights, X, labels = numbers(network), flat(support[0]), np.eye(WAY)[S_CODES]
    whole = snail.channels_of_support(weights, X, labels)
    for n in range(1, len(X)):
        part = snail.channels_of_support(weights, X[:n], labels[:n])
        assert_allclose(part, whole[:n], rtol=1e-10, atol=1e-12)


def test_snail_learns_from_random_orders_and_labels():
    n_way = 5  # more than the classes of the episodes
    learner, _, support, query = learner_of(
        made(SNAIL, n_hidden=3, n_filters=2, device="cpu"), n_way
    )
    support, query, given = support[:, :WAY], query[:, :WAY], []
    learner.found = lambda X, codes, query: (
        given.append((X, codes))
        or torch.eye(n_way, dtype=torch.float64).repeat(len(query), 4, 1)[:, : WAY * QUERY]
    )
    rng = np.random.default_rng(0)
    for _ in range(20):
        learner.loss(support, query, rng)
    shots = support.flatten(1, 2)
    for X, codes in given:
        for e in range(E):
            places = [int((shots[e] == x).all(dim=1).nonzero()) for x in X[e]]
            assert sorted(places) == list(range(WAY * SHOT))
            pairs = {
                (place // SHOT, int(code)) for place, code in zip(places, codes[e], strict=True)
            }
            assert len(pairs) == len({code for _, code in pairs}) == WAY
    codes = torch.stack([codes for _, codes in given])
    assert set(codes.flatten().tolist()) == set(range(n_way))
    assert len({tuple(row.tolist()) for row in codes[:, 0]}) > 10


# What is learned.


def test_untrained_models_are_close_to_nearest_class_means():
    expected = P.fit_clone(SimpleShot(BASE)).predict(P.X_query)
    settings = {**FEW, "max_iter": 1, "learning_rate": 1e-9}
    peers = (MAML, {"n_hidden": 5}), (MetaLearnerLSTM, {}), (SNAIL, {"n_hidden": 10})
    for kind, own in peers:
        found = P.fit_clone(made(kind, BASE, **own, **settings)).predict(P.X_query)
        assert np.mean(found == expected) > 0.9, kind


def planted(draw, n_base=80, n_novel=10, n=12, seed=0):
    """Return base samples, and a function that scores a model in tasks of novel classes."""
    rng = np.random.default_rng(seed)
    drawn = [draw(rng, n) for _ in range(n_base + n_novel)]
    X, y = np.concatenate(drawn), np.repeat(np.arange(n_base + n_novel), n)
    is_base = y < n_base

    def score(model):
        options = {"n_way": 4, "n_shot": 3, "n_query": 8, "n_trials": 20}
        classes = np.arange(n_base, n_base + n_novel)
        found = protocols.n_way_k_shot({"model": model}, X, y, classes, **options)
        return found["model"].mean()

    return BaseSamples(X[is_base], y[is_base]), score


def with_nuisance(rng, n):
    """Samples of a class: three features tell classes apart, nine vary more than these."""
    signal = rng.normal(size=3) + 0.2 * rng.normal(size=(n, 3))
    return np.hstack([signal, 1.5 * rng.normal(size=(n, 9))])


TRAINED = {"n_episodes": 40, "n_iter_no_change": None, "n_query": 5, "device": "cpu"}


FOR_MAML = {"n_hidden": 8, "inner_learning_rate": 0.02, "learning_rate": 0.01, "max_iter": 12}


@pytest.mark.parametrize(
    "peer",
    [
        made(MAML, **FOR_MAML),
        made(MAML, first_order=True, **FOR_MAML),
        made(MetaLearnerLSTM, n_hidden=6, n_steps=3, learning_rate=0.03, max_iter=12),
        made(SNAIL, n_hidden=12, n_filters=2, learning_rate=0.01, max_iter=15),
    ],
    ids=named,
)
def test_training_learns_which_features_matter(peer):
    base, score = planted(with_nuisance)
    assert score(SimpleShot(base)) < 0.45
    model = clone(peer).set_params(base=base, **nest(TRAINED))
    assert score(model) > 0.6


def of_either_sign(rng, n):
    """Samples of a class: only the sizes of the features are those of the class."""
    sizes = np.abs(rng.normal(size=4))
    return (sizes + 0.1 * rng.normal(size=(n, 4))) * rng.choice([-1, 1], size=(n, 4))


def test_the_hidden_layer_of_maml_finds_what_no_linear_model_can():
    base, score = planted(of_either_sign)
    assert score(SimpleShot(base)) < 0.5
    settings = {"n_hidden": 24, "inner_learning_rate": 0.02, "learning_rate": 0.01, "max_iter": 15}
    assert score(made(MAML, base, **settings, **TRAINED)) > 0.7


def test_support_sets_may_have_more_classes_than_episodes():
    model = P.fit_clone(meta_peers(BASE)[2], n_way=2)
    assert model.score(P.X_query, P.y_query) > 0.75


@pytest.mark.parametrize("n", [0, 3])
def test_systems_with_outputs_take_at_most_the_classes_of_an_episode(n):
    peer = meta_peers(BASE)[n]
    with refused(ValueError, "at most the 3 classes of an episode", "got 4", "Pass n_way=4"):
        P.fit_clone(peer, n_way=3)
    few = np.isin(P.y_support, np.unique(P.y_support)[:3])
    model = P.make_clone(peer, n_way=4).fit(P.X_support[few], P.y_support[few])
    assert model.decision_function(P.X_query).shape == (len(P.X_query), 3)


@pytest.mark.parametrize(("n", "name"), [(0, "W"), (3, "output")])
def test_base_classes_may_be_fewer_than_novel_ones(n, name):
    peer = meta_peers(BASE.of_classes(np.arange(3)), n_episodes=12)[n]
    model = P.fit_clone(peer, n_hidden=10)
    assert model.weights_[name].shape[1] == 4
    assert model.score(P.X_query, P.y_query) > 0.75


def test_files_of_maml_with_one_vector_for_all_outputs_are_read():
    model = P.fit_clone(meta_peers(BASE)[0])
    parts = take_parts(model)
    state = {name: dict(v) if isinstance(v, dict) else v for name, v in parts["state"].items()}
    state["weights_"]["w"] = state["weights_"].pop("W")[:, 0]
    for weights in (state["weights_"], state["head_"]):
        del weights["b"]
    found = make_object(MAML, {**parts, "state": state})
    expected = model.decision_function(P.X_query) - model.head_["b"]
    assert_allclose(found.decision_function(P.X_query), expected, rtol=1e-6)
    assert {name: w.shape for name, w in found.weights_.items()} == {
        name: w.shape for name, w in model.weights_.items()
    }


@each_peer
def test_further_support_sets_need_no_torch(peer, monkeypatch):
    base = BaseSamples(P.X_base, P.y_base)
    model = P.fit_clone(peer, base=base)
    expected = model.decision_function(P.X_query)
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    assert_array_equal(model.decision_function(P.X_query), expected)
    assert_array_equal(P.fit_clone(model).decision_function(P.X_query), expected)
