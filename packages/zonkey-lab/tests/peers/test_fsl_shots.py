"""SimpleShot, LSL, PPA and mAP-SSVM: objectives by loops, planted solutions, contracts, resume."""

from itertools import permutations

import numpy as np
import pytest
import torch
from by_loops import forward, relu, same, softmax, unit
from numpy.testing import assert_allclose, assert_array_equal
from peer_cases import BASE, SHOTS, TINY, P
from trained import made

from zonkey_lab.peers.fsl import LSL, MAPSSVM, PPA, BaseSamples, SimpleShot
from zonkey_lab.peers.fsl.lsl import (
    _Generator,
    _Head,
    analogies,
    cluster_centers,
    draw_pairs,
    logistic_regression,
)
from zonkey_lab.peers.fsl.map_ssvm import hinge
from zonkey_lab.peers.fsl.ppa import draw_one, halves
from zonkey_lab.peers.networks import arrays_of
from zonkey_lab.peers.training import batches, count_batches

CPU = {"device": "cpu"}
ALL_EPOCHS = {"n_iter_no_change": None, **CPU}
each_trained = pytest.mark.parametrize("peer", SHOTS, ids=lambda peer: type(peer).__name__)


@each_trained
def test_one_shot_per_class_is_enough(peer):
    y, rows = np.unique(P.y_support, return_index=True)
    model = P.make_clone(peer).fit(P.X_support[rows], y)
    assert model.score(P.X_query, P.y_query) > 0.7


@pytest.mark.parametrize("peer", [made(LSL, max_iter=1, **TINY), made(PPA, max_iter=1, **CPU)])
def test_one_shot_without_base_classes(peer):
    y, rows = np.unique(P.y_support, return_index=True)
    model = P.make_clone(peer).fit(P.X_support[rows], y)
    assert_array_equal(model.predict(P.X_support[rows]), y)


def _learner_of(peer):
    model = P.make_clone(peer)
    model.episode_sizes = model._choose_sizes(None, own=False)
    return model._learner(BASE)


def centered(x):
    return unit(x - sum(P.X_base) / len(P.X_base))


# SimpleShot


@pytest.mark.parametrize("normalization", ["centered", "unit", None])
def test_scores_are_distances_from_means(normalization):
    def transformed(x):
        steps = {"centered": centered, "unit": unit, None: lambda x: x}
        return steps[normalization](x)

    model = P.fit_clone(SimpleShot(BASE, normalization=normalization))
    expected = np.empty((len(P.X_query), len(model.classes_)))
    for i, x in enumerate(P.X_query):
        for j, label in enumerate(model.classes_):
            rows = [transformed(row) for row in P.X_support[P.y_support == label]]
            gap = transformed(x) - sum(rows) / len(rows)
            expected[i, j] = -sum(a * a for a in gap)
    assert_allclose(model.decision_function(P.X_query), expected, rtol=1e-9, atol=1e-12)


# PPA


def phi(arrays, a):
    return unit(a + forward(arrays, (relu, same), a))


@pytest.mark.parametrize("mean_weight", [0.0, 0.3, 1.0])
def test_ppa_mixes_weights_of_means_and_of_single_samples(mean_weight):
    options = {"learning_rate": 0.01, **ALL_EPOCHS}
    model = P.fit_clone(made(PPA, BASE, mean_weight=mean_weight, max_iter=3, **options))
    assert np.abs(model.weights_["W1"]).max() > 1e-3  # phi has left the identity
    expected = np.empty((len(P.X_query), len(model.classes_)))
    for j, label in enumerate(model.classes_):
        rows = [centered(row) for row in P.X_support[P.y_support == label]]
        w = mean_weight * phi(model.weights_, sum(rows) / len(rows))
        w = w + (1 - mean_weight) * sum(phi(model.weights_, a) for a in rows) / len(rows)
        expected[:, j] = [w @ centered(x) for x in P.X_query]
    assert_allclose(model.decision_function(P.X_query), expected, rtol=1e-6, atol=1e-7)


def test_ppa_minimizes_the_cross_entropy_among_base_classes():
    learner = _learner_of(made(PPA, BASE, **CPU))
    rng = np.random.default_rng(4)
    for weights in learner.networks["phi"].parameters():
        weights.data = learner.tensor(rng.normal(size=weights.shape) / 3)
    arrays = arrays_of(learner.networks["phi"])
    statistics, rows = rng.normal(size=(len(BASE.classes), BASE.n_features)), np.arange(3, 40, 4)
    total = 0.0
    for row in rows:
        scores = [10 * phi(arrays, s) @ centered(BASE.X[row]) for s in statistics]
        total += np.log(sum(np.exp(scores))) - scores[BASE.codes[row]]
    found = learner.base_loss(learner.tensor(statistics), rows)
    assert_allclose(found.item(), total / len(rows), rtol=1e-5)


@pytest.mark.parametrize("mean_weight", [0.0, 0.25, 1.0])
def test_statistics_of_ppa_are_means_or_single_samples(mean_weight):
    learner = _learner_of(made(PPA, BASE, mean_weight=mean_weight, **CPU))
    kept, classified = halves(BASE.counts, np.random.default_rng(1))
    assert_array_equal(np.sort(np.concatenate([kept, classified])), np.arange(len(BASE.X)))
    assert_array_equal(np.bincount(BASE.codes[kept]), 5)  # of nine
    means, rng, n_means, seen = learner.means(kept), np.random.default_rng(2), 0, set()
    for _ in range(40):
        for j, s in enumerate(learner.statistics(means, kept, rng).numpy()):
            own = [row for row in kept if BASE.codes[row] == j]
            inputs = [centered(BASE.X[row]) for row in own]
            if np.allclose(s, sum(inputs) / len(inputs), atol=1e-6):
                n_means += 1
            else:
                (row,) = [
                    r for r, a in zip(own, inputs, strict=True) if np.allclose(s, a, atol=1e-6)
                ]
                seen.add(row)
    assert abs(n_means / (40 * len(BASE.classes)) - mean_weight) < 0.07
    assert len(seen) == (0 if mean_weight == 1 else len(kept))


def test_each_step_of_ppa_may_classify_one_sample_of_every_class(monkeypatch):
    learner = _learner_of(made(PPA, BASE, mean_weight=1.0, n_batches=30, **CPU))
    seen = []
    original = learner.base_loss

    def noted(statistics, rows):
        seen.append((statistics.numpy(), rows))
        return original(statistics, rows)

    monkeypatch.setattr(learner, "base_loss", noted)
    assert learner.epoch(np.random.default_rng(3)) > 0
    assert len(seen) == 30
    assert len({tuple(rows) for _, rows in seen}) == 30
    for statistics, rows in seen:
        assert_array_equal(BASE.codes[rows], np.arange(len(BASE.classes)))
        for j in (0, 7):  # of five of nine samples, without the classified one
            own = np.array([centered(x) for x in BASE.X[BASE.codes == j]])
            first = np.flatnonzero(BASE.codes == j)[0]
            left = np.delete(own, rows[j] - first, axis=0)
            inside = np.linalg.lstsq(left.T, statistics[j], rcond=None)[0]
            assert_allclose(left.T @ np.round(5 * inside) / 5, statistics[j], atol=1e-5)
            assert np.round(5 * inside).sum() == 5


@pytest.mark.parametrize("sizes", [[3, 0, 2], [1], [0, 5]])
def test_one_sample_is_drawn_of_each_class_that_has_any(sizes):
    sizes, rng = np.array(sizes), np.random.default_rng(0)
    drawn = np.array([draw_one(sizes, rng) for _ in range(300)])
    codes = np.repeat(np.arange(len(sizes)), sizes)
    assert_array_equal(codes[drawn], np.tile(np.flatnonzero(sizes), (300, 1)))
    assert set(drawn.ravel()) == set(range(len(codes)))


def nuisance_problem(rng, n_base=20, d=6):
    """Samples vary much along the last two features, in all classes; classes differ in the others.

    A mean of few samples is misled by it, unless base classes have taught to ignore it.
    """
    means = rng.normal(size=(n_base + 5, d)) * np.array([1] * (d - 2) + [0, 0])
    scales = np.array([0.1] * (d - 2) + [2.5, 2.5])

    def drawn(classes, n):
        y = np.repeat(classes, n)
        return means[y] + scales * rng.normal(size=(len(y), d)), y

    novel = np.arange(n_base, n_base + 5)
    return drawn(np.arange(n_base), 20), drawn(novel, 1), drawn(novel, 40)


@pytest.mark.parametrize(
    "peer",
    [
        made(PPA, mean_weight=0.2, learning_rate=0.01, max_iter=30, **ALL_EPOCHS),
        made(MAPSSVM, ap_weight=2.0, n_query=5, learning_rate=0.02, max_iter=2, **ALL_EPOCHS),
    ],
    ids=lambda peer: type(peer).__name__,
)
def test_base_classes_teach_what_to_ignore(peer):
    base, support, query = nuisance_problem(np.random.default_rng(0))
    base = BaseSamples(*base)
    before = SimpleShot(base).fit(*support).score(*query)
    after = peer.set_params(base=base).fit(*support).score(*query)
    assert before < 0.6
    assert after > before + 0.2


# mAP-SSVM


def average_precision(is_relevant):
    found, total = 0, 0.0
    for place, relevant in enumerate(is_relevant, 1):
        if relevant:
            found += 1
            total += found / place
    return total / found


@pytest.mark.parametrize("ap_weight", [0.0, 0.4, 1.0, 5.0])
@pytest.mark.parametrize(("p", "n"), [(1, 4), (3, 3), (4, 2), (2, 1)])
def test_hinge_is_the_maximum_over_all_rankings(ap_weight, p, n):
    rng = np.random.default_rng(p + 10 * n)
    positives, negatives = rng.uniform(-1, 1, (4, p)), rng.uniform(-1, 1, (4, n))
    found = hinge(torch, torch.tensor(positives), torch.tensor(negatives), ap_weight).numpy()
    for q in range(4):
        s, best = np.concatenate([positives[q], negatives[q]]), -np.inf
        for ranking in permutations(range(p + n)):
            place = np.argsort(ranking)
            score = sum(
                (1 if place[i] < place[p + j] else -1) * (s[i] - s[p + j]) / (p * n)
                for i in range(p)
                for j in range(n)
            )
            loss = 1 - average_precision([item < p for item in ranking])
            best = max(best, score + ap_weight * loss)
        right = sum(s[i] - s[p + j] for i in range(p) for j in range(n)) / (p * n)
        assert_allclose(found[q], best - right, rtol=1e-9, atol=1e-12)


def test_every_sample_of_an_episode_ranks_all_others():
    peer = made(MAPSSVM, BASE, ap_weight=0.6, n_way=3, n_shot=2, n_query=2, **CPU)
    learner = _learner_of_sizes(peer)
    rng = np.random.default_rng(3)
    support, query = rng.normal(size=(2, 3, 2, 10)), rng.normal(size=(2, 3, 2, 10))
    total, n_queries = 0.0, 0
    for e in range(2):
        points = np.concatenate([support[e], query[e]], axis=1)  # 3 x 4 x 10
        for j, k in np.ndindex(3, 4):
            cosines = {(a, b): unit(points[j, k]) @ unit(points[a, b]) for a, b in np.ndindex(3, 4)}
            own = [[cosines[j, b] for b in range(4) if b != k]]
            others = [[cosines[a, b] for a, b in np.ndindex(3, 4) if a != j]]
            total += hinge(torch, torch.tensor(own), torch.tensor(others), 0.6).item()
            n_queries += 1
    found = learner.loss(learner.tensor(support), learner.tensor(query), rng)
    assert_allclose(found.item(), total / n_queries, rtol=1e-5)


def _learner_of_sizes(peer):
    class Sizes:
        n_classes, counts = 4, np.array([3])

    peer.episode_sizes = peer._choose_sizes(Sizes, own=False)
    return peer._learner(BASE)


def test_map_ssvm_scores_the_ranking_that_puts_a_class_first():
    rows = np.arange(len(P.X_support))[2:]  # classes of different sizes
    X, y = P.X_support[rows], P.y_support[rows]
    model = made(MAPSSVM, BASE, n_episodes=5, max_iter=2, learning_rate=0.01, **ALL_EPOCHS).fit(
        X, y
    )
    arrays = model.weights_
    assert np.abs(arrays["W0"]).max() > 1e-3

    def embedded(x):
        return unit(centered(x) + forward(arrays, (same,), centered(x)))

    for x, scores in zip(P.X_query, model.decision_function(P.X_query), strict=True):
        cosines = np.array([embedded(x) @ embedded(row) for row in X])
        for label, score in zip(model.classes_, scores, strict=True):
            own, others = cosines[y == label], cosines[y != label]
            pairs = [a - b for a in own for b in others]
            assert_allclose(score, sum(pairs) / len(pairs), rtol=1e-6, atol=1e-7)


# LSL


def test_sgm_is_the_squared_gradient_of_the_classifier():
    head = _Head(made(LSL, BASE, sgm=0.7, **CPU), BASE)
    rng = np.random.default_rng(5)
    for network in head.networks.values():
        for weights in network.parameters():
            weights.data = head.tensor(rng.normal(size=weights.shape) / 3)
    V, C = (arrays_of(head.networks[name]) for name in ("head", "classifier"))
    rows, total = np.arange(1, 50, 6), 0.0
    for row in rows:
        x = centered(BASE.X[row])
        h = torch.tensor(x + forward(V, (same,), x))
        W = torch.tensor(C["W0"].astype(np.float64), requires_grad=True)
        loss = -torch.log_softmax(h @ W + torch.tensor(C["b0"]), 0)[BASE.codes[row]]
        (slope,) = torch.autograd.grad(loss, W)
        total += loss.item() + 0.7 * slope.square().sum().item()
    head.optimizers["all"] = torch.optim.SGD(head.networks["head"].parameters(), lr=0.0)
    assert_allclose(head.step(rows, rng).item(), total / len(rows), rtol=1e-5)


def test_larger_sgm_shrinks_features():
    lengths = []
    for sgm in (0.0, 30.0):
        taught = made(LSL, BASE, sgm=sgm, max_iter=20, learning_rate=0.01, **TINY)._teach(BASE)
        Z = np.stack([centered(x) for x in BASE.X])
        lengths.append(np.linalg.norm(taught.shrink(Z), axis=1).mean())
    assert lengths[1] < 0.5 * lengths[0]


def test_analogies_are_the_best_pairs_of_other_classes():
    rng = np.random.default_rng(6)
    codes = np.repeat(np.arange(4), [3, 4, 1, 2])
    centers = rng.normal(size=(10, 5))

    def gap(a, b):
        return unit(centers[b] - centers[a])

    expected = set()
    for a, b in permutations(range(10), 2):
        if codes[a] != codes[b]:
            continue
        others = [
            (c, d)
            for c, d in permutations(range(10), 2)
            if codes[c] == codes[d] and codes[c] != codes[a]
        ]
        c, d = max(others, key=lambda pair: gap(a, b) @ gap(*pair))
        if gap(a, b) @ gap(c, d) > 0:
            expected.add((a, b, c, d))
    found = analogies(centers, codes)
    assert {tuple(map(int, row)) for row in found} == expected
    assert len(found) == len(expected)


def test_no_analogies_without_a_second_class():
    assert analogies(np.eye(3), np.array([0, 0, 1])).shape == (0, 4)
    assert analogies(np.eye(2), np.array([0, 1])).shape == (0, 4)


def test_centers_are_means_of_clusters():
    rng = np.random.default_rng(7)
    places = np.array([[0, 0], [9, 0], [0, 9.0]])
    Z = np.concatenate([np.repeat(places, 4, axis=0) + 0.01 * rng.normal(size=(12, 2)), places[:2]])
    centers, codes = cluster_centers(Z, np.array([12, 2]), 3, seed=1)
    assert_array_equal(codes, [0, 0, 0, 1, 1])
    order = np.lexsort(centers[:3].round().T[::-1])
    assert_allclose(centers[:3][order], [[0, 0], [0, 9], [9, 0]], atol=0.05)
    assert_array_equal(centers[3:], places[:2])  # no more samples than clusters


def test_pairs_are_drawn_from_one_class_and_differ():
    codes = np.repeat(np.arange(4), [3, 1, 2, 4])
    first, second = draw_pairs(codes, 4000, np.random.default_rng(8))
    assert_array_equal(codes[first], codes[second])
    assert np.all(first != second)
    seen, counts = np.unique(np.column_stack([first, second]), axis=0, return_counts=True)
    assert len(seen) == 6 + 2 + 12
    of = codes[seen[:, 0]]
    for j, n_pairs in ((0, 6), (2, 2), (3, 12)):  # each of three classes alike, then each pair
        assert_allclose(counts[of == j] * 3 * n_pairs / 4000, 1, atol=0.35)


def test_generator_minimizes_error_and_cross_entropy():
    peer = made(LSL, BASE, error_weight=3.5, n_hidden=4, **CPU)
    head = _Head(peer, BASE)
    rng = np.random.default_rng(9)
    centers, codes = rng.normal(size=(8, 10)), np.repeat(np.arange(4), 2)
    quadruples = np.array([[0, 1, 4, 5], [3, 2, 0, 1], [6, 7, 2, 3]])
    generator = _Generator(peer, 0, head, centers, codes, quadruples)
    for weights in generator.networks["f"].parameters():
        weights.data = head.tensor(rng.normal(size=weights.shape) / 3)
    f = arrays_of(generator.networks["f"])
    C, total = arrays_of(head.networks["classifier"]), 0.0
    for a, b, c, d in quadruples:
        x = np.concatenate([centers[a], centers[c], centers[d]])
        found = centers[a] + centers[d] - centers[c] + forward(f, (relu, relu, same), x)
        p = softmax(C["W0"].T @ found + C["b0"])
        total += 3.5 * sum((centers[b] - found) ** 2) - np.log(p[codes[a]])
    assert_allclose(generator.step(np.arange(3), rng).item(), total / 3, rtol=1e-5)


@pytest.mark.parametrize("d", [3, 40])
def test_logistic_regression_has_no_slope(d):
    rng = np.random.default_rng(10)
    X, codes = 1 + rng.normal(size=(15, d)), np.arange(15) % 3
    W, b = logistic_regression(X, codes, 0.05)
    errors = np.array([softmax(W @ x + b) for x in X]) - np.eye(3)[codes]
    scale = np.abs(errors.T @ X).max()
    assert_allclose(errors.T @ X / 15 + 0.05 * W, 0, atol=0.02 * max(scale / 15, 0.1))
    assert_allclose(errors.sum(axis=0) / 15, 0, atol=5e-3)


def test_hallucinated_samples_fill_up_classes():
    taught = made(LSL, BASE, max_iter=1, **TINY)._teach(BASE)
    H = np.random.default_rng(11).normal(size=(6, 10))
    codes = np.array([0, 1, 1, 1, 2, 2])
    found, of = taught.hallucinate(H, codes, 3, np.random.default_rng(0))
    assert_array_equal(of, [0, 0, 2])
    # f is small after one epoch: what is added to a shot of the class is a displacement.
    gaps = {
        (i, j): taught.centers[j] - taught.centers[i]
        for i, j in permutations(range(len(taught.codes)), 2)
        if taught.codes[i] == taught.codes[j]
    }
    for row, label in zip(found, of, strict=True):
        nearest = min(
            np.linalg.norm(row - shot - gap) / np.linalg.norm(gap)
            for shot in H[codes == label]
            for gap in gaps.values()
        )
        assert nearest < 0.6
    assert len(taught.hallucinate(H, codes, 0, np.random.default_rng(0))[0]) == 0


def test_hallucination_transfers_the_variation_of_base_classes():
    base, support, query = nuisance_problem(np.random.default_rng(1), d=12)
    base = BaseSamples(*base)
    found = {
        n: made(
            LSL,
            base,
            n_synthetic=n,
            n_clusters=8,
            n_hidden=32,
            sgm=0.0,
            weight_decay=1e-2,
            max_iter=3,
            learning_rate=1e-5,  # the map stays the identity: hallucination alone must help
            random_state=0,
            **CPU,
        )
        .fit(*support)
        .score(*query)
        for n in (0, 60)
    }
    assert found[60] > found[0] + 0.15


@pytest.mark.parametrize(
    ("n", "size"), [(1, 4), (4, 4), (5, 4), (6, 4), (7, 3), (9, 2), (157, 128)]
)
def test_batches_are_counted_before_they_are_drawn(n, size):
    assert count_batches(n, size) == len([*batches(n, size, np.random.default_rng(0))])


def test_the_generator_takes_so_many_steps_at_a_falling_rate(monkeypatch):
    rates = []
    original = _Generator.step

    def noted(self, rows, rng):
        found = original(self, rows, rng)
        rates.append(self.optimizers["f"].param_groups[0]["lr"])
        return found

    monkeypatch.setattr(_Generator, "step", noted)
    base = BaseSamples(P.X_base, P.y_base)
    options = {"batch_size": 16, "learning_rate": 0.01, "max_iter": 2, "random_state": 0}
    counts = {}
    for n_steps in (None, 13):
        rates.clear()
        model = P.make_clone(made(LSL, base, n_steps=n_steps, **TINY, **options))
        model.fit(P.X_support, P.y_support)
        counts[n_steps] = len(rates)
        assert model.n_iter_ == 2
        if n_steps is None:
            assert set(rates) == {0.01}
    n_batches = counts[None] // 2
    assert counts[13] == -(-13 // n_batches) * n_batches >= 13
    assert len(model.loss_curve_) == -(-13 // n_batches)
    assert_allclose(rates, [0.01] * 5 + [0.001] * 4 + [0.0001] * (counts[13] - 9))
