"""PT-MAP, LaplacianShot, TIM and BD-CSPN: algorithms by loops, planted solutions, contracts."""

from math import exp, log

import numpy as np
import pytest
from by_loops import cosine, slope, softmax, unit
from numpy.testing import assert_allclose, assert_array_equal
from peer_cases import BASE, TRANSDUCTIVE, P

import zonkey
from zonkey_lab.peers.fsl import BDCSPN, PTMAP, TIM, LaplacianShot
from zonkey_lab.peers.fsl.laplacian_shot import smooth
from zonkey_lab.peers.fsl.pt_map import transport
from zonkey_lab.peers.fsl.tim import Information, descend
from zonkey_lab.protocols import n_way_k_shot

each_peer = pytest.mark.parametrize("peer", TRANSDUCTIVE, ids=str)


@each_peer
def test_adapted_copies(peer, tmp_path):
    model = P.fit_clone(peer)
    before = model.decision_function(P.X_query)
    adapted = model.adapt(P.X_query)
    scores = adapted.decision_function(P.X_query)
    assert peer.is_transductive
    assert not np.allclose(scores, before)
    assert_array_equal(model.decision_function(P.X_query), before)

    order = np.random.default_rng(0).permutation(len(P.X_query))
    shuffled = model.adapt(P.X_query[order]).decision_function(P.X_query)
    assert_allclose(shuffled, scores, rtol=1e-7, atol=1e-9)
    again = model.adapt(P.X_support).adapt(P.X_query)
    assert_array_equal(again.decision_function(P.X_query), scores)

    zonkey.save(adapted, tmp_path / "model.zonkey")
    loaded = zonkey.load(tmp_path / "model.zonkey")
    assert_array_equal(loaded.decision_function(P.X_query), scores)
    again = loaded.adapt(P.X_support).decision_function(P.X_query)
    assert_array_equal(again, model.adapt(P.X_support).decision_function(P.X_query))

    names = [name for name in model.get_params(deep=False) if name != "base"]
    model.set_params(**dict.fromkeys(names, "none of the values"))
    assert_array_equal(model.adapt(P.X_query).decision_function(P.X_query), scores)


@each_peer
def test_adapted_to_float32_and_to_few_samples(peer):
    X = P.X_support.astype(np.float32)
    queries = P.X_query.astype(np.float32)
    narrow = P.make_clone(peer).fit(X, P.y_support).adapt(queries).decision_function(queries)
    assert narrow.dtype == np.float32
    wide = P.fit_clone(peer).adapt(P.X_query).decision_function(P.X_query)
    assert_allclose(narrow, wide, rtol=2e-3, atol=2e-3 * np.abs(wide).max())
    for n in (1, 2):
        assert np.isfinite(P.fit_clone(peer).adapt(P.X_query[:n]).decision_function(X)).all()


@each_peer
def test_unlabeled_samples_refused(peer):
    model = P.fit_clone(peer)
    with pytest.raises(ValueError, match="features"):
        model.adapt(P.X_query[:, :-1])
    with pytest.raises(ValueError, match="NaN"):
        model.adapt(np.full_like(P.X_query, np.nan))


def test_trials_adapt():
    X, y = np.concatenate([P.X_support, P.X_query]), np.concatenate([P.y_support, P.y_query])
    sizes = {"n_way": 3, "n_shot": 2, "n_query": 2, "n_trials": 3}
    found = n_way_k_shot({"BD-CSPN": BDCSPN(BASE)}, X, y, np.unique(y), adapt=True, **sizes)
    assert found["BD-CSPN"].mean() > 0.7


# The algorithms, by loops


def units(X, center=0):
    return np.array([unit(np.asarray(x, float) - center) for x in X])


def support_by_class(transform):
    classes = np.unique(P.y_support)
    return [transform(P.X_support[P.y_support == label]) for label in classes]


def rectified_by_loops(groups, queries, temperature):
    means = [sum(group) / len(group) for group in groups]
    everything = np.concatenate(groups)
    shift = sum(everything) / len(everything) - sum(queries) / len(queries)
    members = [list(group) for group in groups]
    for z in queries + shift:
        members[int(np.argmax([cosine(z, mean) for mean in means]))].append(z)
    centers = []
    for mean, samples in zip(means, members, strict=True):
        weights = [exp(temperature * cosine(z, mean)) for z in samples]
        centers.append(sum(w * z for w, z in zip(weights, samples, strict=True)) / sum(weights))
    return centers


@pytest.mark.parametrize("temperature", [0.0, 2.5])
def test_bd_cspn_by_loops(temperature):
    center = P.X_base.mean(axis=0)
    groups, queries = support_by_class(lambda X: units(X, center)), units(P.X_query, center)
    centers = rectified_by_loops(groups, queries, temperature)
    expected = [[cosine(z, c) for c in centers] for z in queries]
    adapted = P.fit_clone(BDCSPN(BASE, temperature=temperature)).adapt(P.X_query)
    assert_allclose(adapted.decision_function(P.X_query), expected, rtol=1e-9)


@pytest.mark.parametrize(("k", "smoothness", "n_updates"), [(2, 0.7, 4), (3, 1.4, 1), (0, 0.7, 2)])
def test_laplacian_shot_by_loops(k, smoothness, n_updates):
    groups, queries = support_by_class(units), units(P.X_query)
    centers = rectified_by_loops(groups, queries, 1.0)
    n, m = len(queries), len(centers)
    costs = [[sum((z - c) ** 2) for c in centers] for z in queries]
    gaps = [[sum((z - other) ** 2) for other in queries] for z in queries]
    neighbors = [sorted(set(range(n)) - {i}, key=row.__getitem__) for i, row in enumerate(gaps)]

    y = [softmax([-cost for cost in row]) for row in costs]
    for _ in range(n_updates):
        logits = [
            [-costs[i][j] + smoothness * sum(y[v][j] for v in neighbors[i][:k]) for j in range(m)]
            for i in range(n)
        ]
        y = [softmax(row) for row in logits]
    model = LaplacianShot(n_neighbors=k, smoothness=smoothness, n_steps=n_updates)
    adapted = P.fit_clone(model).adapt(P.X_query)
    assert_allclose(adapted.decision_function(P.X_query), logits, rtol=1e-8, atol=1e-10)


def test_bound_updates_end_when_nothing_changes():
    rng = np.random.default_rng(0)
    scores, neighbors = rng.normal(size=(30, 4)), rng.integers(30, size=(30, 3))
    settled, longer = (smooth(scores, neighbors, 0.2, n) for n in (100, 1000))
    assert_array_equal(settled, longer)
    assert not np.allclose(settled, smooth(scores, neighbors, 0.2, 1))


def sinkhorn(scores, counts, n_steps=5000):
    plan = np.exp(scores - scores.max())
    for _ in range(n_steps):
        plan /= plan.sum(axis=1, keepdims=True)
        plan *= counts / plan.sum(axis=0)
    return plan


@pytest.mark.parametrize("scale", [0.1, 3.0, 20.0])
def test_transport_is_that_of_sinkhorn(scale):
    rng = np.random.default_rng(1)
    counts = np.array([3.0, 10.0, 7.0, 20.0])
    scores = scale * rng.normal(size=(40, 4))
    plan, offsets = transport(scores, counts, np.zeros(4))
    assert_allclose(plan.sum(axis=1), 1, rtol=1e-12)
    assert_allclose(plan.sum(axis=0), counts, atol=1e-5)
    assert_allclose(plan, sinkhorn(scores, counts), atol=1e-4)
    logits = scores + offsets
    by_offsets = np.exp(logits - np.logaddexp.reduce(logits, axis=1)[:, None])
    assert_allclose(by_offsets, plan, atol=1e-10)


def test_transport_from_a_poor_start():
    scores = np.random.default_rng(2).normal(size=(40, 4))
    counts = np.array([10.0, 10.0, 10.0, 10.0])
    expected, _ = transport(scores, counts, np.zeros(4))
    found, _ = transport(scores, counts, np.array([900.0, 0.0, -900.0, 0.0]))
    assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("normalization", ["centered", "unit", None])
@pytest.mark.parametrize("priors", ["uniform", [1, 2, 2, 3], None])
def test_pt_map_by_loops(normalization, priors):
    power, sharpness, step_size = 0.6, 2.0 if normalization else 0.2, 0.4

    def transform(X):
        Z = np.sign(X) * np.abs(X) ** power
        Z = units(Z) if normalization else Z
        return units(Z, sum(Z) / len(Z)) if normalization == "centered" else Z

    classes = np.unique(P.y_support)
    Z_support, Z = transform(P.X_support), transform(P.X_query)
    groups = [Z_support[P.y_support == label] for label in classes]
    shares = np.ones(4) if priors == "uniform" else priors
    counts = None if shares is None else len(Z) * np.array(shares) / sum(shares)
    centers = [sum(group) / len(group) for group in groups]

    def planned():
        scores = np.array([[-sharpness * sum((z - c) ** 2) for c in centers] for z in Z])
        return (
            sinkhorn(scores, counts)
            if counts is not None
            else np.exp(scores - np.logaddexp.reduce(scores, axis=1)[:, None])
        )

    for _ in range(3):
        plan = planned()
        for j, group in enumerate(groups):
            total = sum(group) + sum(plan[i, j] * z for i, z in enumerate(Z))
            mean = total / (len(group) + plan[:, j].sum())
            centers[j] = centers[j] + step_size * (mean - centers[j])
    model = PTMAP(
        power=power,
        normalization=normalization,
        sharpness=sharpness,
        step_size=step_size,
        n_steps=3,
        priors=priors,
    )
    adapted = P.fit_clone(model).adapt(P.X_query)
    assert_allclose(adapted.centers_, centers, atol=1e-5)
    scores = adapted.decision_function(P.X_query)
    plan = np.exp(scores - np.logaddexp.reduce(scores, axis=1)[:, None])
    assert_allclose(plan, planned(), atol=1e-4)


def information(alpha=None, metric="euclidean", **weights):
    rng = np.random.default_rng(0)
    Z, W = rng.normal(size=(14, 6)), 0.5 * rng.normal(size=(3, 6))
    targets = np.eye(3)[[0, 0, 1, 2]]
    parameters = {"support_weight": 0.6, "conditional_weight": 0.3, "temperature": 1.7} | weights
    return Information(units(Z), targets, alpha=alpha, metric=metric, **parameters), W


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("alpha", [None, 2.0, 3.5])
def test_objective_of_tim_by_loops(alpha, metric):
    task, W = information(alpha, metric)

    def entropy(p):
        if alpha is None:
            return -sum(a * log(a) for a in p)
        return (1 - sum(a**alpha for a in p)) / (alpha - 1)

    P_all = []
    for z in task.Z:
        if metric == "cosine":
            weights = [exp(task.temperature * cosine(z, w)) for w in W]
        else:
            weights = [exp(-task.temperature / 2 * sum((z - w) ** 2)) for w in W]
        P_all.append([weight / sum(weights) for weight in weights])
    unlabeled = P_all[4:]
    marginal = [sum(p[j] for p in unlabeled) / 10 for j in range(3)]
    expected = -0.6 * sum(log(P_all[s][y]) for s, y in enumerate([0, 0, 1, 2])) / 4
    expected += -entropy(marginal) + 0.3 * sum(entropy(p) for p in unlabeled) / 10
    assert_allclose(task.value(W), expected, rtol=1e-9)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("alpha", [None, 2.0, 3.5])
def test_gradient_of_tim_by_differences(alpha, metric):
    task, W = information(alpha, metric)
    expected = slope(task.value, W, step=1e-5)
    assert_allclose(task.gradient(W), expected, atol=1e-8)


def test_descent_is_adam():
    def gradient(W):
        return 2 * W + 1

    W = np.array([[1.0, -3.0]])
    expected, first, second = W.copy(), 0.0, 0.0
    for step in range(1, 31):
        g = gradient(expected)
        first, second = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g * g
        bias, spread = 1 - 0.9**step, 1 - 0.999**step
        expected = expected - 0.05 * (first / bias) / (np.sqrt(second / spread) + 1e-8)
    assert_allclose(descend(gradient, W, 30, 0.05), expected, rtol=1e-10)
    assert_array_equal(W, [[1.0, -3.0]])


def test_both_solvers_of_tim_decrease_the_objective():
    task, W = information(support_weight=0.1, conditional_weight=0.1)
    descent = descend(task.gradient, W, 300, 1e-2)
    alternated = W
    for _ in range(50):
        alternated = task.alternate(alternated)
    start, by_descent, by_steps = map(task.value, (W, descent, alternated))
    assert by_descent < start - 0.1
    assert by_steps < start - 0.1


def test_alternated_weights_are_stationary_points_for_fixed_assignments():
    task, W = information(support_weight=0.4, conditional_weight=0.2)
    P_all, unlabeled = task.probabilities(W)
    Q = np.empty_like(unlabeled)
    powers = unlabeled**1.2
    for i in range(10):
        row = [powers[i, j] / np.sqrt(powers[:, j].sum()) for j in range(3)]
        Q[i] = np.array(row) / sum(row)
    expected = np.empty_like(W)
    for j in range(3):
        top, bottom = np.zeros(6), 0.0
        for i, z in enumerate(task.Z):
            weight = 0.4 / 1.2 if i < 4 else 4 / 10
            wanted = task.targets[i, j] if i < 4 else Q[i - 4, j]
            top += weight * (wanted * z + P_all[i, j] * (W[j] - z))
            bottom += weight * wanted
        expected[j] = top / bottom
    assert_allclose(task.alternate(W), expected, rtol=1e-9)


# Planted solutions: one misleading shot per class, which clusters of unlabeled samples correct


def clusters(counts, seed=0, noise=0.25):
    """Return one shot per class off its cluster, and unlabeled samples of the clusters."""
    rng = np.random.default_rng(seed)
    m = len(counts)
    centers = np.eye(m, 12) * 2 + 1
    towards = np.roll(centers, 1, axis=0)
    shots = 0.55 * centers + 0.45 * towards
    y = np.repeat(np.arange(m), counts)
    X = centers[y] + noise * rng.normal(size=(len(y), 12))
    return shots, np.arange(m), np.abs(X), y


def shares_right(model, counts):
    shots, labels, X, y = clusters(counts)
    fitted = model.fit(shots, labels)
    return np.mean(fitted.predict(X) == y), np.mean(fitted.adapt(X).predict(X) == y)


@pytest.mark.parametrize(
    "model",
    [
        BDCSPN(temperature=0.5),
        LaplacianShot(n_neighbors=4, smoothness=1.0),
        PTMAP(step_size=0.4, n_steps=12),
        TIM(temperature=20.0, n_steps=200, learning_rate=1e-3),
        TIM(solver="adm", temperature=20.0, n_steps=60),
        TIM(alpha=3.0, support_weight=0.1, temperature=20.0, n_steps=200, learning_rate=1e-3),
    ],
    ids=str,
)
def test_clusters_correct_misleading_shots(model):
    before, after = shares_right(model, [20] * 5)
    assert before < 0.97
    assert after > before
    assert after > 0.97


def test_unequal_classes_need_their_proportions():
    counts = [60, 4, 4, 4, 4]
    _, equal = shares_right(PTMAP(), counts)
    _, unknown = shares_right(PTMAP(priors=None), counts)
    _, known = shares_right(PTMAP(priors=counts), counts)
    assert known > 0.97
    assert known > equal + 0.2
    assert unknown > equal + 0.2


def test_alpha_tim_allows_unequal_classes():
    counts = [60, 4, 4, 4, 4]
    options = {"temperature": 12.0, "n_steps": 300, "learning_rate": 1e-3}
    _, shannon = shares_right(TIM(**options), counts)
    _, alpha = shares_right(TIM(alpha=5.0, **options), counts)
    assert alpha > shannon + 0.1


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (PTMAP(priors=[1, 2]), "`priors` must be .* each of the 4 classes"),
        (PTMAP(priors=[1, 2, 0, 1]), "`priors` must be"),
        (PTMAP(priors="even"), "`priors` must be"),
        (TIM(alpha=2.0, solver="adm"), "alpha=None"),
        (TIM(metric="cosine", solver="adm"), 'metric="euclidean"'),
    ],
    ids=str,
)
def test_parameters_refused(model, message):
    with pytest.raises(ValueError, match=message):
        P.fit_clone(model)
