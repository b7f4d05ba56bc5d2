"""Peers that go by attributes, by mixtures of seen classes, or by exemplars; and DIPL."""

import functools
import math

import numpy as np
import pytest
from by_loops import cosine, sigmoid, slope
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import solve_sylvester
from sklearn.svm import NuSVR

from zonkey import ZeroShotClassifier
from zonkey.testing import linear_problem
from zonkey_lab.peers import zsl
from zonkey_lab.peers.convex import (
    linear_classifiers,
    logistic_loss,
    softmax_loss,
    squared_hinge_loss,
)
from zonkey_lab.peers.zsl.sse import MixtureMargin, mixtures

# Mixtures of eight seen classes reach few points of five dimensions: in this problem the unseen
# classes lie where they reach.
REACHED = functools.partial(linear_problem, seed=6)
P = REACHED()


# Linear classifiers


RNG = np.random.default_rng(5)
CODES = np.repeat(np.arange(4), [5, 9, 7, 4])
SAMPLES = RNG.normal(size=(4, 3))[CODES] + RNG.normal(size=(len(CODES), 3)) + [30, 0, -2]
MEAN = SAMPLES.mean(axis=0)
BITS = np.array([[1, -1], [-1, -1], [1, 1], [-1, 1]], np.float32)[CODES]


def softmax_by_loops(S):
    return sum(math.log(sum(map(math.exp, s))) - s[c] for s, c in zip(S, CODES, strict=True))


def logistic_by_loops(S):
    return sum(math.log1p(math.exp(-t * s)) for s, t in zip(S.flat, BITS.flat, strict=True))


def hinge_by_loops(S):
    total = 0.0
    for s, c in zip(S, CODES, strict=True):
        total += sum(max(0, 1 - (1 if j == c else -1) * s[j]) ** 2 for j in range(4))
    return total


LOSSES = {
    "softmax": (softmax_loss(CODES), softmax_by_loops, 4),
    "logistic": (logistic_loss(BITS), logistic_by_loops, 2),
    "squared hinge": (squared_hinge_loss(CODES, 4), hinge_by_loops, 4),
}
each_loss = pytest.mark.parametrize("name", LOSSES)


@each_loss
def test_a_loss_is_the_naive_one_with_its_gradient(name):
    loss, naive, m = LOSSES[name]
    S = 2 * np.random.default_rng(1).normal(size=(len(CODES), m))
    value, gradient = loss(S.copy())
    assert value == pytest.approx(naive(S))
    assert_allclose(gradient, slope(naive, S), atol=1e-7)


def test_the_logistic_loss_of_large_scores_is_finite():
    S = np.outer(np.linspace(-500, 500, len(CODES)), [1, 1]).astype(np.float32)
    value, gradient = logistic_loss(BITS)(S.copy())
    assert value == pytest.approx(np.maximum(-BITS * S, 0).sum(), rel=1e-3)
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize("ridge", [0.05, 4.0])
@each_loss
def test_classifiers_minimize_the_loss_and_the_ridge(name, ridge):
    loss, naive, m = LOSSES[name]

    def objective(W, b):
        return naive(SAMPLES @ W + b) + ridge / 2 * np.sum(W * W)

    W, b = linear_classifiers(SAMPLES, loss, m, ridge=ridge, curvature=0.3, tol=0.0)
    steps = [h.reshape(W.shape) / 100 for h in np.eye(W.size)]
    steps = [(h, -MEAN @ h) for h in steps] + [(0 * W, h / 100) for h in np.eye(m)]
    for of_W, of_b in steps:  # those of W turn around the mean, so that b need not follow
        for sign in (-1, 1):
            assert objective(W + sign * of_W, b + sign * of_b) > (1 - 1e-6) * objective(W, b)


@pytest.mark.parametrize("scale", [1e-20, 1e20])
def test_classifiers_scale_with_the_features(scale):
    options = {"curvature": 0.1, "tol": 0.0}
    expected = linear_classifiers(SAMPLES, softmax_loss(CODES), 4, ridge=0.7, **options)
    ridge = 0.7 * scale**2
    W, b = linear_classifiers(SAMPLES * scale, softmax_loss(CODES), 4, ridge=ridge, **options)
    size = np.abs(expected[0]).max()
    assert_allclose(W * scale, expected[0], rtol=1e-4, atol=1e-4 * size)
    assert_allclose(b, expected[1], rtol=1e-3, atol=1e-3)


# Each system against its formulas


PENALTY = 0.3


def assert_scores(peer, score):
    """Compare `decision_function` with score(model, x, y), up to a number for each sample."""
    model = P.fit_clone(peer, candidates="all", seen_penalty=PENALTY)
    expected = np.array(
        [
            [score(model, x, y) - PENALTY * (label in P.seen) for label, y in P.prototypes.items()]
            for x in P.X_new
        ]
    )
    found = model.decision_function(P.X_new)
    shift = (found - expected)[:, :1]
    assert_allclose(found - shift, expected, rtol=1e-8, atol=1e-9 * np.abs(expected).max())


def seen_matrix():
    return np.stack([P.prototypes[label] for label in P.seen])


@pytest.mark.parametrize("threshold", [None, 0.4, "high"])
def test_dap_scores_are_log_posteriors(threshold):
    seen = seen_matrix()
    if threshold == "high":  # one attribute has no seen class
        threshold = seen.max(axis=0).min() + 1e-3
    bound = seen.mean(axis=0) if threshold is None else np.full(5, threshold)
    shares = (seen > bound).mean(axis=0)

    def posterior(model, x, y):
        total = 0.0
        for m in range(5):
            if 0 < shares[m] < 1:
                p = sigmoid(x @ model.classifiers_[:, m] + model.intercepts_[m])
                has = y[m] > bound[m]
                total += math.log(p if has else 1 - p)
                total -= math.log(shares[m] if has else 1 - shares[m])
        return total

    assert_scores(zsl.DAP(threshold=threshold, ridge=3.0), posterior)


def test_dap_recovers_planted_attributes():
    rng = np.random.default_rng(2)
    hidden = rng.normal(size=(6, 15))
    bits = rng.permutation(64)[:40, None] >> np.arange(6) & 1
    prototypes = dict(enumerate((bits - 0.5) * rng.uniform(0.5, 2, bits.shape)))
    y = np.repeat(np.arange(30), 10)
    X = (bits[y] - 0.5) @ hidden + 0.05 * rng.normal(size=(300, 15))
    new = np.arange(30, 40)
    model = zsl.DAP(prototypes, threshold=0.0, ridge=0.01).fit(X, y)
    assert_array_equal(model.predict((bits[new] - 0.5) @ hidden), new)


@pytest.mark.parametrize("n_top", [1, 3, 8, 100])
def test_conse_combines_the_likeliest_prototypes(n_top):
    seen = seen_matrix()

    def combined(model, x):
        odds = np.exp(
            [x @ w + b for w, b in zip(model.classifiers_.T, model.intercepts_, strict=True)]
        )
        best = np.argsort(-odds)[:n_top]
        return sum(odds[j] * seen[j] for j in best) / sum(odds[j] for j in best)

    peer = zsl.ConSE(n_top=n_top, ridge=50.0)
    assert_scores(peer, lambda model, x, y: cosine(combined(model, x), y))
    model = P.fit_clone(zsl.ConSE(n_top=n_top, ridge=50.0))
    assert_allclose(model.embed(P.X_new), [combined(model, x) for x in P.X_new], rtol=1e-9)


@pytest.mark.parametrize("sigma", [0.4, 1.7])
def test_sync_mixes_classifiers_of_phantom_classes(sigma):
    seen = seen_matrix()
    apart = [np.sum((a - b) ** 2) for i, a in enumerate(seen) for b in seen[:i]]
    unit = sigma**2 * np.median(apart)

    def similarities(y):
        shares = np.array([math.exp(-np.sum((y - b) ** 2) / unit) for b in seen])
        return shares / shares.sum()

    S = np.stack([similarities(y) for y in seen])

    def score(model, x, y):
        V = np.linalg.solve(S, model.classifiers_.T)
        offsets = np.linalg.solve(S, model.intercepts_)
        return sum(s * (v @ x + o) for s, v, o in zip(similarities(y), V, offsets, strict=True))

    assert_scores(zsl.SynC(sigma=sigma, lam=5.0), score)


def test_sync_keeps_the_classifiers_of_seen_classes():
    model = P.fit_clone(zsl.SynC(sigma=1.3, lam=20.0), candidates=P.seen)
    expected = P.X_new @ model.classifiers_ + model.intercepts_
    assert_allclose(model.decision_function(P.X_new), expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize(("gamma", "C", "nu"), [(0.4, 3.0, 0.3), (2.0, 50.0, 0.8)])
def test_exem_is_regression_to_the_means_of_components(gamma, C, nu, standardize):
    seen = seen_matrix()
    apart = [np.sum((a - b) ** 2) for i, a in enumerate(seen) for b in seen[:i]]
    width = gamma / np.median(apart)
    peer = zsl.EXEM(n_components=4, gamma=gamma, C=C, nu=nu, standardize=standardize)
    model = P.fit_clone(peer)
    centered = P.X - P.X.mean(axis=0)
    axes = np.linalg.svd(centered)[2][:4].T
    signs = np.sign(np.sum(axes * model.components_, axis=0))
    assert_allclose(model.components_, axes * signs, atol=1e-6)
    Z = centered @ model.components_
    groups = [Z[label == P.y] for label in P.seen]
    scales = np.ones(4)
    if standardize:
        scales = np.mean([np.sqrt(np.mean((g - g.mean(axis=0)) ** 2, axis=0)) for g in groups], 0)
    means = np.stack([g.mean(axis=0) for g in groups])
    exemplars = np.empty((len(P.prototypes), 4))
    for r in range(4):
        target = (means[:, r] - means[:, r].mean()) / means[:, r].std()
        machine = NuSVR(gamma=width, C=C, nu=nu, tol=1e-6).fit(seen, target)
        predicted = machine.predict(np.stack([*P.prototypes.values()]))
        exemplars[:, r] = means[:, r].mean() + means[:, r].std() * predicted
    of = dict(zip(P.prototypes, exemplars, strict=True))
    found = P.fit_clone(peer, candidates="all").project(P.prototypes)
    expected = exemplars @ model.components_.T + P.X.mean(axis=0)
    assert_allclose(found, expected, atol=0.01 * np.abs(expected).max())
    distances = [
        [np.sum(((z - of[label]) / scales) ** 2) for label in P.unseen]
        for z in (P.X_new - P.X.mean(axis=0)) @ model.components_
    ]
    scores = -model.decision_function(P.X_new)
    offsets = np.mean(distances - scores, axis=1, keepdims=True)
    assert_allclose(scores + offsets, distances, atol=0.02 * np.max(distances))


@pytest.mark.parametrize("gamma", [0.02, 0.7])
def test_a_mixture_is_the_best_point_of_the_simplex(gamma):
    rng = np.random.default_rng(3)
    B, Y = rng.normal(size=(6, 4)) + 2, rng.normal(size=(20, 4)) + 2

    def loss(z, y):
        return gamma / 2 * np.sum(z**2) + np.sum((y - sum(map(np.multiply, z, B))) ** 2) / 2

    Z = mixtures(Y, B, gamma)
    assert (Z >= 0).all()
    assert_allclose(Z.sum(axis=1), 1)
    assert (Z == 0).any()
    for z, y in zip(Z, Y, strict=True):
        gradient = slope(lambda z, y=y: loss(z, y), z)
        # Conditions of the optimum: equal where z is positive, not smaller elsewhere.
        least = gradient[z > 1e-9]
        assert_allclose(least, least.mean(), atol=1e-6)
        assert (gradient >= least.mean() - 1e-6).all()


def test_a_prototype_between_seen_ones_is_their_mixture():
    B = np.random.default_rng(4).normal(size=(5, 7))
    shares = np.array([[0.5, 0, 0.3, 0, 0.2], [0, 1, 0, 0, 0]])
    assert_allclose(mixtures(shares @ B, B, 1e-9), shares, atol=1e-6)


def margin_by_loops(X, codes, Z, M, lam, w, V):
    (n, d), m = X.shape, len(M)
    total = 0.0
    for x, c in zip(X, codes, strict=True):
        f = [sum(w[k] * (min(x[k], V[s, k]) - V[s, k] / 2) for k in range(d)) for s in range(m)]
        for j in range(m):
            if j != c:
                gap = sum(f[s] * (Z[c, s] - Z[j, s]) for s in range(m))
                total += max(0, 1 - Z[c] @ Z[j] - gap) ** 2
    return total / n + lam / 2 * (np.sum(w**2) + d * np.sum((V - M) ** 2))


def test_the_margin_of_sse_is_the_printed_one_with_its_gradient():
    rng = np.random.default_rng(8)
    X, codes, M = rng.normal(size=(7, 3)), np.array([0, 1, 2, 3, 0, 2, 1]), rng.normal(size=(4, 3))
    Z = rng.dirichlet(np.ones(4), size=4)
    X, Z, M = (part.astype(np.float32) for part in (X, Z, M))
    margin = MixtureMargin(X, codes, Z, M, 0.3)
    flat = rng.normal(size=3 + 12) / 2
    V = margin.parts(flat)[1]
    assert_allclose(V, M + flat[3:].reshape(4, 3) / math.sqrt(3), rtol=1e-6)
    value, gradient = margin(flat)

    def naive(flat):
        moved = flat[3:].reshape(4, 3) / math.sqrt(3)
        wide = (part.astype(float) for part in (X, Z, M))
        X_, Z_, M_ = wide
        return margin_by_loops(X_, codes, Z_, M_, 0.3, flat[:3], M_ + moved)

    assert value == pytest.approx(naive(flat), rel=1e-5)
    assert_allclose(gradient, slope(naive, flat), atol=1e-4)
    assert_allclose(margin.parts(margin.start())[1], M)


@pytest.mark.parametrize("n_samples", [4, None])
def test_sse_compares_mixtures_with_similarities(n_samples):
    seen, gamma = seen_matrix(), 0.3

    def score(model, x, y):
        z = mixtures(y[None], seen, gamma)[0]
        f = [
            sum(w * (min(a, b) - b / 2) for w, a, b in zip(model.weights_, x, v, strict=True))
            for v in model.bounds_
        ]
        return z @ f

    assert_scores(zsl.SSE(gamma=gamma, lam=0.02, n_samples=n_samples, max_iter=6), score)


def test_sse_learns_from_the_scaled_samples():
    # Rounding differs with the order of the samples, and grows with the number of steps.
    peer = zsl.SSE(gamma=0.3, n_samples=None, max_iter=2)
    model, few = P.fit_clone(peer), P.fit_clone(peer, n_samples=4)
    assert np.abs(few.weights_ - model.weights_).max() > 1e-3
    longer = P.make_clone(peer).fit(64 * P.X, P.y)
    assert_allclose(64 * longer.weights_, model.weights_, rtol=1e-3)
    assert model.n_iter_ == 2


@pytest.mark.parametrize(
    "peer",
    [
        zsl.ConSE(n_top=6, ridge=1.0),
        zsl.SSE(gamma=0.5, lam=0.002, n_samples=8),
        zsl.SynC(sigma=0.8, lam=1.0),
        zsl.EXEM(gamma=0.5, C=30.0, n_components=9),
    ],
    ids=lambda peer: type(peer).__name__,
)
def test_planted_mixtures_are_recovered(peer):
    """Unseen classes are halfway between two seen ones, in both spaces."""
    rng = np.random.default_rng(4)
    Y, hidden = rng.normal(size=(8, 10)), rng.normal(size=(10, 40)) / math.sqrt(40)
    between = (Y[::2] + Y[1::2]) / 2
    prototypes = dict(enumerate([*Y, *between]))
    y, y_new = np.repeat(np.arange(8), 10), np.repeat(np.arange(8, 12), 6)
    X = Y[y] @ hidden + 0.1 * rng.normal(size=(80, 40))
    X_new = between[y_new - 8] @ hidden + 0.1 * rng.normal(size=(24, 40))
    assert peer.set_params(prototypes=prototypes).fit(X, y).score(X_new, y_new) > 0.95


# DIPL


def test_dipl_gives_unlabeled_samples_to_their_best_class_with_constant_weights():
    alpha, beta = 0.35, 0.2
    model = P.make_clone(zsl.DIPL(alpha=alpha, beta=beta, max_iter=3))
    W = P.fit_clone(zsl.DIPL(beta=beta)).projection_
    S, Y_u = np.array([P.prototypes[c] for c in P.y]), np.array([P.prototypes[c] for c in P.unseen])
    objective = []
    for step in range(4):
        losses = [
            [np.sum((W.T @ x - y) ** 2) + np.sum((x - W @ y) ** 2) for y in Y_u] for x in P.X_new
        ]
        labeled = np.sum((P.X @ W - S) ** 2) + np.sum((P.X - S @ W.T) ** 2)
        free = sum(min(row) for row in losses)
        objective.append((1 - alpha) * labeled + alpha * free + 2 * beta * np.sum(W**2))
        if step == 3:
            break
        taken = Y_u[np.argmin(losses, axis=1)]
        A = (1 - alpha) * P.X.T @ P.X + alpha * P.X_new.T @ P.X_new + beta * np.eye(len(W))
        B = (1 - alpha) * S.T @ S + alpha * taken.T @ taken + beta * np.eye(S.shape[1])
        W = solve_sylvester(A, B, 2 * (1 - alpha) * P.X.T @ S + 2 * alpha * P.X_new.T @ taken)
    model.fit_transductive(P.X, P.y, P.X_new)
    assert model.is_transductive_
    assert_allclose(model.projection_, W, rtol=1e-7, atol=1e-9)
    n_steps = model.n_iter_  # fewer than 3 once all samples keep their classes
    assert_allclose(model.objective_, objective[: n_steps + 1], rtol=1e-9)
    assert (np.diff(model.objective_) <= 1e-9 * objective[0]).all()


def test_dipl_lowers_the_printed_objective():
    alpha, beta = 0.3, 0.1
    model = P.make_clone(zsl.DIPL(alpha=alpha, beta=beta, max_iter=1))
    W0 = model.fit(P.X, P.y).projection_
    assert not model.is_transductive_
    assert model.n_iter_ == 0
    W = model.fit_transductive(P.X, P.y, P.X_new).projection_

    def error(W, x, y):
        return np.sum((W.T @ x - y) ** 2) + np.sum((x - W @ y) ** 2)

    def objective(W):
        labeled = sum(error(W, x, P.prototypes[c]) for x, c in zip(P.X, P.y, strict=True))
        free = sum(min(error(W, x, P.prototypes[c]) for c in P.unseen) for x in P.X_new)
        return (1 - alpha) * labeled + alpha * free + 2 * beta * np.sum(W**2)

    assert model.objective_[0] == pytest.approx(objective(W0), rel=1e-6)
    assert objective(W) < objective(W0)


def test_dipl_starts_from_bidirectional_projection():
    model = P.fit_clone(zsl.DIPL(beta=0.7))
    start = P.fit_clone(ZeroShotClassifier(synthesis=None, beta=0.7))
    assert_allclose(model.projection_, start.projection_, rtol=1e-9)


def test_unlabeled_samples_mend_a_shift():
    rng = np.random.default_rng(1)
    shifted = P.X_new + 1.2 * rng.normal(size=P.X_new.shape[1])
    alone = P.fit_clone(zsl.DIPL()).score(shifted, P.y_new)
    model = P.make_clone(zsl.DIPL(alpha=0.6)).fit_transductive(P.X, P.y, shifted)
    assert model.score(shifted, P.y_new) >= alone
