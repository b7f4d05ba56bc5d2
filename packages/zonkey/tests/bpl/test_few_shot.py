"""FewShotClassifier against plain loops over raw samples, in the original coordinates."""

import numpy as np
import pytest
from all_pairs import all_pairs
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.linalg import solve_sylvester

from zonkey import Moments, NearestSupport
from zonkey.bpl.few_shot import FewShotClassifier
from zonkey.testing import linear_problem

# Noise makes classes compete; with 20 attributes the prototypes do not span their space.
PROBLEMS = {
    "5 attributes": linear_problem(noise=1.5),
    "20 attributes": linear_problem(noise=1.5, n_attributes=20),
}
P = PROBLEMS["5 attributes"]
N_SUPPORT = 13  # not a multiple of the 4 novel classes: some have more shots than others

# All off their defaults.
ODD = {
    "rho": 0.8,
    "alpha": 0.3,
    "mu": 0.2,
    "beta": 0.7,
    "n_synthetic": 3,
    "n_neighbors": 2,
    "noise": 0.6,
    "solver_tol": 0.0,
    "n_episodes": 3,
    "tie_tol": 0.05,
    "max_iter": 4,
    "tol": 1e-6,
}


def support_of(p, rows=range(N_SUPPORT)):
    return p.X_new[list(rows)], p.y_new[list(rows)]


def base_of(p):
    return Moments.from_arrays(p.X, p.y, p.prototypes)


def fitted(p=P, rows=range(N_SUPPORT), *, based=True, **parameters):
    base = base_of(p) if based else None
    defaults = {"prototypes": p.prototypes, "base": base, "random_state": 0}
    return FewShotClassifier(**(defaults | parameters)).fit(*support_of(p, rows))


# The method in the original coordinates, from raw samples, one sample at a time.


def outer_sum(U, V, weights=None):
    weights = np.ones(len(U)) if weights is None else weights
    return sum(
        (w * np.outer(u, v) for w, u, v in zip(weights, U, V, strict=True)),
        start=np.zeros((U.shape[1], V.shape[1])),
    )


def episodes_by_loops(p, X_u, y_u, *, based, random_state=0, n_base=None, **options):
    """Return the projection that each episode ends with."""
    o = ODD | {"synthesis": "support", "competition": "second-best", "scaling": "squared-norm"}
    o |= options | {"based": based, "base": base_of(p)}
    novel = sorted(set(y_u.tolist()))
    Y_u = np.array([p.prototypes[label] for label in novel])
    codes = np.array([novel.index(label) for label in y_u])
    X_s, y_s = (p.X, p.y) if based else (p.X[:0], p.y[:0])
    Y_s = np.array([p.prototypes[label] for label in y_s]).reshape(len(y_s), Y_u.shape[1])
    seed = np.random.RandomState(random_state).randint(2**31 - 1)
    projections = []
    for h in range(o["n_episodes"]):
        rng = np.random.default_rng([seed, h])
        if n_base is not None:
            X_s, Y_s = drawn_base(p, n_base, o, rng)
        start = (X_s, Y_s) if based else (X_u, Y_u[codes])
        W_0 = solve_sylvester(
            outer_sum(start[0], start[0]) + o["beta"] * np.eye(X_u.shape[1]),
            outer_sum(start[1], start[1]) + o["beta"] * np.eye(Y_u.shape[1]),
            2 * outer_sum(*start),
        )
        synthesize = {"support": from_support, "base": from_base, None: nothing}[o["synthesis"]]
        X_g, targets = synthesize(p, W_0, X_u, codes, Y_u, o, rng)
        projections.append(algorithm_1(W_0, (X_s, Y_s), (X_u, Y_u[codes]), X_g, targets, Y_u, o))
    return projections


def drawn_base(p, n, o, rng):
    """Return the base samples of an episode and their prototypes; `o` gets their moments."""
    X, y = [], []
    for label in sorted(set(p.y.tolist())):
        pool = base_of(p).samples_of(label)
        X += [pool[i] for i in rng.choice(len(pool), n, replace=False)]
        y += [label] * n
    o["base"] = Moments.from_arrays(X, y, p.prototypes)
    return np.array(X), np.array([p.prototypes[label] for label in y])


def divisor(W, o):
    return np.sum(W**2) if o["scaling"] else 1.0


def nothing(p, W, X_u, codes, Y_u, o, rng):
    return X_u[:0], codes[:0]


def from_support(p, W, X_u, codes, Y_u, o, rng):
    """Eq. 19 (generate1)."""
    Y = Y_u
    if o["based"]:
        Y = np.array([*Y_u, *(p.prototypes[label] for label in sorted(set(p.y.tolist())))])
    lengths = [np.sum((y - Y.mean(axis=0)) ** 2) for y in Y]
    spread = np.sqrt(np.mean(lengths if any(lengths) else [np.sum(y**2) for y in Y]))
    n, k = len(X_u), Y.shape[1]
    epsilon = rng.normal(scale=o["noise"] * spread / k**0.5, size=(o["n_synthetic"], n, k))
    X_g, targets = [], []
    for draw in epsilon:
        for x, j, e in zip(X_u, codes, draw, strict=True):
            mean = X_u[codes == j].mean(axis=0)
            X_g.append((x - mean) + o["rho"] * W @ (Y_u[j] + e) / divisor(W, o))
            targets.append(j)
    return np.array(X_g), np.array(targets)


def from_base(p, W, X_u, codes, Y_u, o, rng):
    """Eq. 1 (generate), with as many samples in all as Eq. 19 (generate1) would give."""
    base, wanted = o["base"], round(o["n_synthetic"] * len(X_u) / len(Y_u))
    X_g, targets = [], []
    for j, y in enumerate(Y_u):
        by_distance = sorted(p.seen, key=lambda label: np.sum((y - p.prototypes[label]) ** 2))
        for rank, label in enumerate(by_distance[: o["n_neighbors"]]):
            pool = base.samples_of(label)
            count = wanted // o["n_neighbors"] + (rank < wanted % o["n_neighbors"])
            rows = [i for _ in range(-(-count // len(pool))) for i in rng.permutation(len(pool))]
            step = o["rho"] * W @ (y - p.prototypes[label]) / divisor(W, o)
            X_g += [pool[i] + step for i in rows[:count]]
            targets += [j] * count
    return np.array(X_g), np.array(targets)


def algorithm_1(W, base, support, X_g, targets, Y_u, o):
    """Algorithm 1 with Eqs. 20 (erplAt0) to 22 (erplCt0)."""
    for t in range(o["max_iter"]):
        alpha = 0.99**t * o["alpha"]
        delta = [shares(W, x, Y_u, j, o) for x, j in zip(X_g, targets, strict=True)]
        pairs = [(i, j) for i in range(len(X_g)) for j in range(len(Y_u))]
        query = X_g[[i for i, _ in pairs]], Y_u[[j for _, j in pairs]]
        weights = [delta[i][j] for i, j in pairs]
        A, B, C = (
            (1 - alpha) * outer_sum(base[a], base[b])
            + alpha * outer_sum(support[a], support[b])
            + alpha * outer_sum(query[a], query[b], weights)
            for a, b in [(0, 0), (1, 1), (0, 1)]
        )
        ridge = [o["beta"] * np.eye(n) for n in W.shape]
        before, W = W, solve_sylvester(A + ridge[0], B + ridge[1], 2 * C)
        if np.linalg.norm(W - before) <= o["tol"] * np.linalg.norm(before):
            break
    return W


def shares(W, x, Y_u, target, o):
    """delta_i of Eqs. 16 (subgrad01) and 17 (subgrad11)."""
    if o["competition"] == "assigned":
        return np.eye(len(Y_u))[target]
    f = [np.sum((W.T @ x - y) ** 2) + np.sum((x - W @ y) ** 2) for y in Y_u]

    def tied(among):
        least = min((f[j] for j in among), default=None)
        return [j for j in among if f[j] == least or f[j] - least < o["tie_tol"] * least]

    best = tied(range(len(f)))
    second = tied([j for j in range(len(f)) if j not in best])
    mu = o["mu"] if o["competition"] == "second-best" else 0.0
    return np.array(
        [(j in best) / len(best) - mu * (j in second) / max(1, len(second)) for j in range(len(f))]
    )


def assert_as_by_loops(p, rows, *, based, n_base=None, **options):
    model = fitted(p, rows, based=based, base_samples_per_class=n_base, **(ODD | options))
    episodes = episodes_by_loops(p, *support_of(p, rows), based=based, n_base=n_base, **options)
    expected = np.mean(episodes, axis=0)
    tolerance = 1e-8 * np.abs(expected).max()
    assert_allclose(model.projection_, expected, rtol=1e-8, atol=tolerance)


@all_pairs(
    {
        "name": PROBLEMS,
        "competition": ["second-best", None, "assigned"],
        "scaling": ["squared-norm", None],
        "synthesis, based": [
            ("support", True),
            ("base", True),
            (None, True),
            ("support", False),
            (None, False),
        ],
    }
)
def test_the_projection_is_that_of_the_printed_formulas(
    name, competition, synthesis, based, scaling
):
    options = {"competition": competition, "synthesis": synthesis, "scaling": scaling}
    assert_as_by_loops(PROBLEMS[name], range(N_SUPPORT), based=based, **options)


# 8 base classes: with 40 features, three samples of each and the support set do not span them.
WIDE = linear_problem(noise=1.5, n_features=40)


@all_pairs(
    {
        "problem": [P, WIDE],
        "scaling": ["squared-norm", None],
        "synthesis": ["support", "base", None],
    }
)
def test_every_episode_may_draw_base_samples_of_its_own(problem, scaling, synthesis):
    options = {"synthesis": synthesis, "scaling": scaling, "n_base": 3}
    assert_as_by_loops(problem, range(N_SUPPORT), based=True, **options)


def test_all_base_samples_are_the_base_in_every_episode():
    n = int(np.unique(P.y, return_counts=True)[1].min())
    settings = ODD | {"synthesis": None}
    everything = fitted(**settings, base_samples_per_class=n)
    assert_allclose(everything.projection_, fitted(**settings).projection_, rtol=1e-7, atol=1e-9)


def test_tasks_that_draw_base_samples_are_as_if_learned_alone():
    settings = ODD | {"base_samples_per_class": 2, "prototypes": P.prototypes, "base": base_of(P)}
    tasks = [support_of(P), support_of(P, range(3, 9))]
    together = FewShotClassifier(**settings).fit_tasks(tasks, random_states=[5, 6])
    for model, task, seed in zip(together, tasks, [5, 6], strict=True):
        alone = FewShotClassifier(**settings, random_state=seed).fit(*task)
        assert_allclose(model.projection_, alone.projection_, rtol=1e-12)
        assert_allclose(model.mu_, alone.mu_)


FIRST = [P.y_new.tolist().index(label) for label in P.unseen]
ONE_CLASS = np.flatnonzero(P.y_new == P.unseen[2]).tolist()


@pytest.mark.parametrize(
    ("rows", "synthesis", "based"),
    [
        (FIRST, "base", True),
        (FIRST[:2], "support", False),
        (ONE_CLASS, "support", True),
        (ONE_CLASS[:1], "support", False),
        (ONE_CLASS[:1], "base", True),
        ([*FIRST[:1], *ONE_CLASS], "support", True),
        (range(len(P.y_new)), "support", True),
    ],
)
def test_support_sets_of_every_shape(rows, synthesis, based):
    assert_as_by_loops(P, rows, based=based, synthesis=synthesis)


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    n_classes=st.integers(3, 9),
    n_features=st.integers(1, 8),
    n_attributes=st.integers(1, 12),
    n_support=st.integers(1, 6),
    based=st.booleans(),
    synthesis=st.sampled_from(["support", "base", None]),
)
# Rounding in the 2 attributes, which the base classes span, must not count as a third.
@example(
    seed=1172, n_classes=7, n_features=3, n_attributes=2, n_support=1, based=True, synthesis=None
)
def test_any_shape(seed, n_classes, n_features, n_attributes, n_support, based, synthesis):
    p = linear_problem(
        n_classes=n_classes,
        n_features=n_features,
        n_attributes=n_attributes,
        noise=1.0,
        seed=seed,
    )
    # Without the push, whose guard may look at other eigenvalues in smaller coordinates.
    options = {"competition": None, "synthesis": synthesis if based else "support"}
    assert_as_by_loops(p, range(n_support), based=based, n_neighbors=1, **options)


def test_the_tolerance_of_the_solver_is_far_below_what_matters():
    p = PROBLEMS["20 attributes"]
    exact = fitted(p, solver_tol=0.0).projection_
    default = fitted(p).projection_
    assert np.linalg.norm(default - exact) <= 1e-6 * np.linalg.norm(exact)


@pytest.mark.parametrize("model", [FewShotClassifier(), NearestSupport()], ids=str)
def test_one_shot_of_each_of_many_classes_is_no_cause_for_a_warning(model):
    X, y = np.random.default_rng(0).normal(size=(30, 4)), np.array([f"c{i:02d}" for i in range(30)])
    assert model.fit(X, y).predict(X[:3]).shape == (3,)
