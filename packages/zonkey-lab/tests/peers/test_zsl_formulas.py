"""Peers, and the preset that is a one-way regression, against naively evaluated equations."""

import math
import tracemalloc

import numpy as np
import pytest
from by_loops import cosine, slope
from numpy.testing import assert_allclose, assert_array_equal

from zonkey import AnyShotClassifier, ZeroShotClassifier, presets
from zonkey_lab.peers import zsl

RNG = np.random.default_rng(3)
D, K = 6, 4
COUNTS = {"ant": 5, "bee": 0, "cow": 3, "dog": 7, "elk": 0, "fox": 4, "gnu": 6}
PROTOTYPES = {label: RNG.normal(size=K) for label in COUNTS}
LABELS = RNG.permutation([label for label, n in COUNTS.items() for _ in range(n)])
X = RNG.normal(size=(len(LABELS), D)) + RNG.normal(size=D)
X_NEW = RNG.normal(size=(5, D))
SEEN = [label for label, n in COUNTS.items() if n]
PENALTY = 0.3


def fitted(peer, **parameters):
    parameters = {"prototypes": PROTOTYPES, "candidates": "all", **parameters}
    return peer(seen_penalty=PENALTY, **parameters).fit(X, LABELS)


def assert_scores(model, score):
    """Compare `decision_function` with score(x, y) of each sample and class."""
    expected = [
        [score(x, PROTOTYPES[label]) - PENALTY * (label in SEEN) for label in PROTOTYPES]
        for x in X_NEW
    ]
    assert_array_equal(model.classes_, list(PROTOTYPES))
    assert_allclose(model.decision_function(X_NEW), expected, rtol=1e-9, atol=1e-11)


def assert_flat(objective, W):
    """Require that a quadratic has no slope at W; central differences are exact for it."""
    steep = slope(objective, W + 0.1, step=0.5)
    assert np.abs(slope(objective, W, step=0.5)).max() < 1e-8 * np.abs(steep).max()


def closeness(x, center):
    return np.sum(x**2) - np.sum((x - center) ** 2)


@pytest.mark.parametrize("lam", [0.05, 3.0])
def test_sae_solves_its_sylvester_equation_and_minimizes_both_errors(lam):
    SS, XX, SX = np.zeros((K, K)), np.zeros((D, D)), np.zeros((K, D))
    for x, label in zip(X, LABELS, strict=True):
        SS += np.outer(PROTOTYPES[label], PROTOTYPES[label])
        XX += np.outer(x, x)
        SX += np.outer(PROTOTYPES[label], x)
    # (S S') W + lam W (X X') as one matrix that acts on the rows of W written one after another.
    operator = np.kron(SS, np.eye(D)) + lam * np.kron(np.eye(K), XX)
    W = np.linalg.solve(operator, (1 + lam) * SX.ravel()).reshape(K, D)
    model = fitted(zsl.SAE, lam=lam)
    assert_allclose(model.projection_, W.T, rtol=1e-9)
    assert_allclose(model.embed(X_NEW), [W @ x for x in X_NEW], rtol=1e-9)
    assert_allclose(model.project(PROTOTYPES), [W.T @ s for s in PROTOTYPES.values()], rtol=1e-9)

    def objective(W):
        return sum(
            np.sum((x - W.T @ PROTOTYPES[label]) ** 2)
            + lam * np.sum((W @ x - PROTOTYPES[label]) ** 2)
            for x, label in zip(X, LABELS, strict=True)
        )

    assert_flat(objective, model.projection_.T)


def test_sae_compares_by_the_cosine_in_either_space():
    model = fitted(zsl.SAE, lam=2.5)
    W = model.projection_.T
    assert_scores(model, lambda x, s: cosine(W @ x, s))
    model = fitted(zsl.SAE, lam=2.5, direction="semantic-to-feature")
    assert_scores(model, lambda x, s: cosine(x, W.T @ s))


@pytest.mark.parametrize("n_features", [D, 2], ids=["few classes", "more classes than features"])
def test_sae_encodes_what_a_ridge_regression_of_the_labels_predicts(n_features):
    samples, queries, lam, ridge = X[:, :n_features], X_NEW[:, :n_features], 0.4, 0.7
    one_hot = np.array([[float(label == own) for label in SEEN] for own in LABELS])
    XX = sum(np.outer(x, x) for x in samples)
    P = np.linalg.inv(XX + ridge * np.eye(n_features)) @ samples.T @ one_hot
    Z, S = samples @ P, np.array([PROTOTYPES[label] for label in LABELS])
    m = len(SEEN)
    operator = np.kron(S.T @ S, np.eye(m)) + lam * np.kron(np.eye(K), Z.T @ Z)
    W = np.linalg.solve(operator, (1 + lam) * (S.T @ Z).ravel()).reshape(K, m)
    options = {"prototypes": PROTOTYPES, "candidates": "all", "lam": lam, "reduction": ridge}
    model = zsl.SAE(**options).fit(samples, LABELS)
    assert_allclose(model.embed(queries), queries @ P @ W.T, rtol=1e-8)
    expected = [[cosine(W @ P.T @ x, s) for s in PROTOTYPES.values()] for x in queries]
    assert_allclose(model.decision_function(queries), expected, rtol=1e-8, atol=1e-11)
    model = zsl.SAE(direction="semantic-to-feature", **options).fit(samples, LABELS)
    expected = [[cosine(P.T @ x, W.T @ s) for s in PROTOTYPES.values()] for x in queries]
    assert_allclose(model.decision_function(queries), expected, rtol=1e-8, atol=1e-11)
    if n_features == D:
        centers = [W.T @ s for s in PROTOTYPES.values()]
        assert_allclose(model.project(PROTOTYPES), centers, rtol=1e-8)


@pytest.mark.parametrize(
    ("gamma", "lam", "negative"), [(0.2, 4.0, -1.0), (7.0, 0.03, -1.0), (0.5, 0.2, 0.0)]
)
def test_eszsl_is_the_printed_product_and_minimizes_its_error(gamma, lam, negative):
    X_, S = X.T, np.column_stack([PROTOTYPES[label] for label in SEEN])
    Y = np.array([[1 if own == label else negative for label in SEEN] for own in LABELS])
    left = np.linalg.inv(X_ @ X_.T + gamma * np.eye(D))
    V = left @ X_ @ Y @ S.T @ np.linalg.inv(S @ S.T + lam * np.eye(K))
    model = fitted(zsl.ESZSL, gamma=gamma, lam=lam, negative=negative)
    assert_allclose(model.projection_, V, rtol=1e-9)
    assert_allclose(model.embed(X_NEW), [V.T @ x for x in X_NEW], rtol=1e-9)
    assert_scores(model, lambda x, s: x @ V @ s)

    def objective(V):
        return (
            np.sum((X_.T @ V @ S - Y) ** 2)
            + gamma * np.sum((V @ S) ** 2)
            + lam * np.sum((X_.T @ V) ** 2)
            + gamma * lam * np.sum(V**2)
        )

    assert_flat(objective, model.projection_)


def median_squared_distance():
    pairs = [(a, b) for i, a in enumerate(SEEN) for b in SEEN[:i]]
    return np.median([np.sum((PROTOTYPES[a] - PROTOTYPES[b]) ** 2) for a, b in pairs])


def mean_squared_length():
    return np.mean([PROTOTYPES[label] @ PROTOTYPES[label] for label in SEEN])


def arc_cosine(a, b):
    angle = math.acos(cosine(a, b))
    lengths = math.sqrt(a @ a) * math.sqrt(b @ b)
    return lengths * (math.sin(angle) + (math.pi - angle) * math.cos(angle)) / math.pi


KERNELS = {
    "rbf": lambda a, b, g: math.exp(-g * np.sum((a - b) ** 2) / median_squared_distance()),
    "poly": lambda a, b, g: (g * (a @ b) / mean_squared_length() + 1) ** 3,
    "linear": lambda a, b, _: a @ b,
    "arccos": lambda a, b, _: arc_cosine(a, b) if (a != b).any() else a @ a,
}


def class_means():
    return np.stack([X[label == LABELS].mean(axis=0) for label in SEEN])


@pytest.mark.parametrize(("gamma", "ridge"), [(0.4, 0.02), (1.7, 1.5)])
@pytest.mark.parametrize("kernel", KERNELS)
def test_exemplars_are_kernel_ridge_regression_on_class_means(kernel, gamma, ridge):
    seen = [PROTOTYPES[label] for label in SEEN]
    gram = np.array([[KERNELS[kernel](a, b, gamma) for b in seen] for a in seen])

    def exemplar(y):
        of_y = np.array([KERNELS[kernel](y, b, gamma) for b in seen])
        weights = np.linalg.solve(gram + ridge * np.eye(len(seen)), of_y)
        return sum(w * m for w, m in zip(weights, class_means(), strict=True))

    model = fitted(zsl.ExemplarRegression, kernel=kernel, gamma=gamma, ridge=ridge)
    expected = [exemplar(y) for y in PROTOTYPES.values()]
    assert_allclose(model.projection_, class_means().T, rtol=1e-12)
    assert_allclose(model.project(PROTOTYPES), expected, rtol=1e-8)
    assert_scores(model, lambda x, y: closeness(x, exemplar(y)))


def test_linear_exemplars_are_ridge_regression_and_those_without_a_ridge_are_means():
    ridge, S = 0.7, np.stack([PROTOTYPES[label] for label in SEEN])
    W = class_means().T @ S @ np.linalg.inv(S.T @ S + ridge * np.eye(K))
    model = fitted(zsl.ExemplarRegression, kernel="linear", ridge=ridge)
    assert_allclose(model.project(PROTOTYPES), [W @ y for y in PROTOTYPES.values()], rtol=1e-9)
    model = fitted(zsl.ExemplarRegression, ridge=0.0)
    seen = {label: PROTOTYPES[label] for label in SEEN}
    assert_allclose(model.project(seen), class_means(), rtol=1e-9)


def test_exemplars_of_a_singular_kernel_are_the_limit_of_a_vanishing_ridge():
    S = np.stack([PROTOTYPES[label] for label in SEEN])
    W = np.linalg.lstsq(S, class_means())[0].T  # five classes in four dimensions
    model = fitted(zsl.ExemplarRegression, kernel="linear", ridge=0.0)
    assert_allclose(model.project(PROTOTYPES), [W @ y for y in PROTOTYPES.values()], rtol=1e-9)
    twins = {**PROTOTYPES, "cow": PROTOTYPES["ant"]}
    with pytest.warns(UserWarning, match="those of 'ant' and 'cow' are equal"):
        model = fitted(zsl.ExemplarRegression, prototypes=twins, ridge=0.0)
    ant, cow = class_means()[:2]
    assert_allclose(model.project([twins["ant"]])[0], (ant + cow) / 2, rtol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("ridge", [0.0, 1e-6, 0.1])
def test_exemplars_keep_the_digits_of_float32(kernel, ridge):
    model = zsl.ExemplarRegression(PROTOTYPES, kernel=kernel, ridge=ridge)
    expected = model.fit(X, LABELS).project(PROTOTYPES)
    found = model.fit(X.astype(np.float32), LABELS).project(PROTOTYPES)
    assert found.dtype == np.float32
    assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("ridge", [0.0, 0.1])
@pytest.mark.filterwarnings("ignore:Classes should have different centers")
def test_exemplars_of_equal_prototypes_are_equal_and_finite(kernel, ridge):
    zeros = {label: np.zeros(K) for label in PROTOTYPES}
    with pytest.warns(UserWarning, match=r"all zeros; those of 'ant'.* are\. Check"):
        model = fitted(zsl.ExemplarRegression, prototypes=zeros, kernel=kernel, ridge=ridge)
    shared = 1 if kernel in ("rbf", "poly") else 0  # k(0, 0)
    share = shared * len(SEEN) / (shared * len(SEEN) + ridge or 1)
    expected = np.broadcast_to(share * class_means().mean(axis=0), (len(COUNTS), D))
    assert_allclose(model.project(zeros), expected, rtol=1e-9)


def test_exemplars_do_not_need_the_scatter():
    class Watched(zsl.ExemplarRegression):
        def _solve(self, moments, dtype):
            self.scatter_ = moments.scatter
            return super()._solve(moments, dtype)

    assert fitted(Watched).scatter_ is False


@pytest.mark.parametrize(("peer", "ridge"), [(presets.rpl, "beta"), (zsl.ESZSL, "lam")])
def test_a_singular_equation_gives_the_limit_of_a_vanishing_ridge(peer, ridge):
    longer = {label: np.append(vector, vector[0]) for label, vector in PROTOTYPES.items()}
    limit = fitted(peer, prototypes=longer, **{ridge: 1e-7}).projection_
    model = fitted(peer, prototypes=longer, **{ridge: 0.0})
    assert_allclose(model.projection_, limit, atol=1e-6 * np.abs(limit).max())


WIDE = {label: RNG.normal(size=40) for label in COUNTS}  # more dimensions than classes


def test_sae_and_eszsl_stay_in_the_span_of_few_prototypes():
    S = np.stack([WIDE[label] for label in SEEN]).T
    Y = np.stack([WIDE[label] for label in LABELS])
    model = fitted(zsl.SAE, prototypes=WIDE, lam=1.7)
    W = model.projection_.T
    error = Y.T @ Y @ W + W @ (1.7 * X.T @ X) - 2.7 * Y.T @ X
    assert np.abs(error).max() < 1e-9 * np.abs(2.7 * Y.T @ X).max()
    targets = np.where(np.array(SEEN)[None, :] == LABELS[:, None], 1.0, -0.4)
    model = fitted(zsl.ESZSL, prototypes=WIDE, gamma=0.7, lam=0.3, negative=-0.4)
    left = np.linalg.inv(X.T @ X + 0.7 * np.eye(D))
    expected = left @ X.T @ targets @ S.T @ np.linalg.inv(S @ S.T + 0.3 * np.eye(40))
    assert_allclose(model.projection_, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    "make",
    [
        lambda known: zsl.SAE(known),
        lambda known: zsl.ESZSL(known),
        lambda known: zsl.ExemplarRegression(known),
        lambda known: ZeroShotClassifier(known, alpha=0.01, mu=0.001),
        lambda known: AnyShotClassifier(known),
    ],
    ids=["SAE", "ESZSL", "exemplars", "paper", "recommended"],
)
def test_no_matrix_over_pairs_of_dimensions_is_made(make):
    k = 3000
    known = {label: RNG.normal(size=k) for label in COUNTS}
    tracemalloc.start()
    try:
        make(known).fit(X, LABELS).predict(X_NEW)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * k * k / 2
