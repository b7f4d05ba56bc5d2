"""FewShotClassifier against plain loops over raw samples, in the original coordinates."""

from dataclasses import replace

import numpy as np
import pytest
from all_pairs import all_pairs
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from reference import generate
from reference_few_shot import FewShot, algorithm_1, initial_projection, query_set

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


def episodes_by_loops(p, X_u, y_u, *, based, random_state=0, n_base=None, **options):
    """Return the projection that each episode ends with, in the original coordinates."""
    o = ODD | {"synthesis": "support", "competition": "second-best", "scaling": "squared-norm"}
    o |= options
    novel, seen = sorted(set(y_u.tolist())), sorted(set(p.y.tolist()))
    codes = np.array([novel.index(label) for label in y_u])
    Y_u, Y_s = (np.array([p.prototypes[label] for label in own]) for own in (novel, seen))
    labels = np.array([seen.index(label) for label in p.y])
    noise = o["noise"] * spread(np.concatenate([Y_u, Y_s]) if based else Y_u)
    base = p.X, labels, Y_s
    problem = FewShot(*(base if based else (p.X[:0], labels[:0], Y_s)), X_u, codes, Y_u, None)
    seed = np.random.RandomState(random_state).randint(2**31 - 1)
    projections = []
    for h in range(o["n_episodes"]):
        rng = np.random.default_rng([seed, h])
        pools = [base_of(p).samples_of(label) for label in seen]
        if n_base is not None:
            pools = [own[rng.choice(len(own), n_base, replace=False)] for own in pools]
            labels = np.repeat(np.arange(len(seen)), n_base)
            problem = replace(problem, X=np.concatenate(pools), labels=labels)
            moments = Moments.from_arrays(problem.X, np.array(seen)[labels], p.prototypes)
            pools = [moments.samples_of(label) for label in seen]
        start = problem if based else replace(problem, X=X_u, labels=codes, Y_s=Y_u)
        W = initial_projection(start, o["beta"])
        if o["synthesis"] == "base":
            made = synthesize_from_base(problem, W, pools, o, rng)
        else:
            m = 0 if o["synthesis"] is None else o["n_synthetic"]
            size = (m, *Y_u[codes].shape)
            epsilon = rng.normal(scale=noise / Y_u.shape[1] ** 0.5, size=size)
            drawn = replace(problem, epsilon=epsilon)
            made = query_set(drawn, W, o["rho"], divided=o["scaling"] is not None)
        learning = {name: o[name] for name in ("alpha", "beta", "tie_tol", "max_iter", "tol")}
        mu = o["mu"] if o["competition"] == "second-best" else 0.0
        path = algorithm_1(problem, W, *made, mu=mu, rule=o["competition"], **learning)
        projections.append(path[-1])
    return projections


def spread(Y):
    """Root mean squared distance of prototypes from their mean; the length of a single one."""
    lengths = [np.sum((y - Y.mean(axis=0)) ** 2) for y in Y]
    return np.sqrt(np.mean(lengths if any(lengths) else [np.sum(y**2) for y in Y]))


def synthesize_from_base(problem, W, pools, o, rng):
    """Eq. 1 (generate), with as many samples in all as Eq. 19 (generate1) would give."""
    wanted, Y_s = round(o["n_synthetic"] * len(problem.X_u) / len(problem.Y_u)), problem.Y_s
    X_g, targets = [], []
    for j, y in enumerate(problem.Y_u):
        by_distance = sorted(range(len(Y_s)), key=lambda i: np.sum((y - Y_s[i]) ** 2))
        for rank, i in enumerate(by_distance[: o["n_neighbors"]]):
            count = wanted // o["n_neighbors"] + (rank < wanted % o["n_neighbors"])
            rounds = range(-(-count // len(pools[i])))
            rows = [row for _ in rounds for row in rng.permutation(len(pools[i]))][:count]
            divided = o["scaling"] is not None
            X_g += [generate(pools[i][r], W, y, Y_s[i], o["rho"], divided=divided) for r in rows]
            targets += [j] * count
    return np.array(X_g), np.array(targets)


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
    assert np.linalg.norm(fitted(p).projection_ - exact) <= 1e-6 * np.linalg.norm(exact)


@pytest.mark.parametrize("model", [FewShotClassifier(), NearestSupport()], ids=str)
def test_one_shot_of_each_of_many_classes_is_no_cause_for_a_warning(model):
    X, y = np.random.default_rng(0).normal(size=(30, 4)), np.array([f"c{i:02d}" for i in range(30)])
    assert model.fit(X, y).predict(X[:3]).shape == (3,)
