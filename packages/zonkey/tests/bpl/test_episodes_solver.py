"""How episodes solve their equations: together or one by one, to a tolerance, some for longer."""

from dataclasses import replace

import numpy as np
import pytest
from all_pairs import all_pairs
from reference_few_shot import (
    algorithm_1,
    initial_projection,
    matrices,
    printed_weights,
    query_weights,
    relative_changes,
)
from turned import EXACT, Turned, several

from zonkey.bpl import episodes, lowrank
from zonkey.bpl.algorithm1 import learn
from zonkey.bpl.episodes import Episodes
from zonkey.bpl.lowrank import is_cheaper_by_inverse
from zonkey.bpl.projection import NormalEquations
from zonkey.bpl.sylvester import Status

LEARNING = {"alpha": 0.3, "mu": 0.1, "max_iter": 4, "tol": 0.0}
# Where samples are few, where they span little, and where a shared inverse serves episodes.
SHAPES = [
    {"shots": 1, "m": 1, "d": 40, "n": 60},
    {"shots": 1, "m": 6, "d": 30, "n": 60, "blur": 1e-9},
    {"shots": 1, "m": 6, "d": 30, "n": 60, "blur": 0.3},
]


@pytest.fixture
def direct(monkeypatch):
    """A list with an entry for every time that equations were solved one by one."""
    calls, one_by_one = [], Episodes._solve_one_by_one
    monkeypatch.setattr(
        Episodes, "_solve_one_by_one", lambda *args: calls.append(1) or one_by_one(*args)
    )
    return calls


def start(problems, beta=0.3, **options):
    W = initial_projection(problems[0][0], beta)
    return W, Turned(problems, W, beta=beta, **options)


def naive_mean(turned, t, W, learning=LEARNING, beta=0.3):
    """The mean over the episodes of a task, by loops."""
    options = {"beta": beta, "tie_tol": 1e-3, "rule": "second-best"}
    pairs = zip(turned.problems[t], turned.sets[t], strict=True)
    ends = [algorithm_1(p, W, *made, **options, **learning)[-1] for p, made in pairs]
    return np.mean(ends, axis=0)


def in_single(turned, beta):
    """The same episodes in float32."""
    equations, made = turned.equations, turned.synthesized
    arrays = equations.A0, equations.B0, equations.C0, made.features, turned.Y_u, turned.support[0]
    *single, features, Y_u, X_u = (M.astype(np.float32) for M in arrays)
    return Episodes(
        NormalEquations(*single),
        replace(made, features=features),
        Y_u,
        (X_u, turned.support[1]),
        **(EXACT | {"beta": np.float64(beta)}),
    )


def relative_error(got, expected):
    return np.linalg.norm(got - expected) / np.linalg.norm(expected)


@all_pairs({"shape": SHAPES, "solver_tol": [1e-3, 1e-6, 1e-9, 1e-12]})
def test_the_error_of_a_step_is_within_the_tolerance(direct, shape, solver_tol):
    problems = several(3, 2, 3, **shape)
    W, turned = start(problems, solver_tol=solver_tol)
    one = LEARNING | {"max_iter": 1}
    found, _ = turned.learn(W, **one)
    errors = [relative_error(found[t], naive_mean(turned, t, W, one)) for t in range(2)]
    assert max(errors) < solver_tol
    assert not direct


def test_a_loose_tolerance_saves_work(monkeypatch):
    problems, applied = several(3, 1, 2, **SHAPES[2]), []
    image = lowrank.Operator.apply
    monkeypatch.setattr(
        lowrank.Operator, "apply", lambda self, Z: applied.append(1) or image(self, Z)
    )
    counts = []
    for solver_tol in (1e-3, 5e-7, 1e-12):
        applied.clear()
        W, turned = start(problems, solver_tol=solver_tol)
        turned.learn(W, **LEARNING)
        counts.append(len(applied))
    assert counts == sorted(counts)
    assert counts[0] < counts[2]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_tolerance_is_never_below_rounding(dtype):
    _, turned = start(several(4))
    made = replace(turned.synthesized, features=turned.synthesized.features.astype(dtype))
    arrays = [turned.equations.A0, turned.equations.B0, turned.equations.C0, turned.Y_u]
    *equations, Y_u = (M.astype(dtype) for M in arrays)
    support = turned.support[0].astype(dtype), turned.support[1]
    parts = NormalEquations(*equations), made, Y_u, support
    assert Episodes(*parts, beta=0.1, solver_tol=1e-30).solver_tol == 32 * np.finfo(dtype).eps
    assert Episodes(*parts, beta=0.1).solver_tol == max(5e-7, 32 * np.finfo(dtype).eps)


@pytest.mark.parametrize("shape", [*SHAPES, {"shots": 2, "m": 3}])
def test_float32_is_kept_and_close(shape):
    W, turned = start(several(5, 2, 2, **shape))
    expected = learn(turned.episodes, turned.U.T @ W, **LEARNING)
    there = in_single(turned, 0.3)
    course = learn(there, (turned.U.T @ W).astype(np.float32), **LEARNING)
    assert course.W.dtype == np.float32
    assert relative_error(course.W, expected.W) < 1e-4


@all_pairs({"limit": ["_MAX_STEPS", "_MAX_REFINEMENTS"], "shape": SHAPES})
def test_the_direct_solve_stands_in_where_the_iteration_does_not_converge(
    monkeypatch, direct, limit, shape
):
    W, turned = start(several(6, 2, 2, **shape))
    monkeypatch.setattr(lowrank, limit, 0)
    found, course = turned.learn(W, **LEARNING)
    # The Woodbury formula comes first, if samples have few directions.
    by_formula = limit == "_MAX_STEPS" and "blur" in shape
    assert len(direct) == (0 if by_formula else 4)
    assert course.statuses == {Status.SOLVED}
    for t in range(2):
        assert relative_error(found[t], naive_mean(turned, t, W)) < 1e-10


# Without the guard, and with so strong a push that equations are indefinite.
UNGUARDED = {"alpha": 0.7, "mu": 0.95, "max_iter": 3, "tol": 0.0, "guard": False}
PUSHED = {"shots": 1, "m": 6, "d": 30, "n": 60, "noise": 0.3}


def pushed(seed=1, blur=0.1):
    return start(several(seed, 2, 3, **PUSHED, blur=blur), beta=0.05, rho=0.8)


def assert_as_printed(turned, W):
    """Learn without the guard, compare with loops, and return the course."""
    found, course = turned.learn(W, **UNGUARDED)
    learning = {name: value for name, value in UNGUARDED.items() if name != "guard"}
    for t in range(2):
        assert relative_error(found[t], naive_mean(turned, t, W, learning, beta=0.05)) < 1e-8
    return course


@pytest.mark.parametrize(("seed", "blur"), [(0, 1e-9), (1, 0.03), (2, 0.3), (3, 0.03)])
def test_indefinite_equations_are_solved_as_printed(direct, seed, blur):
    W, turned = pushed(seed, blur)
    course = assert_as_printed(turned, W)
    assert course.indefinite.any()
    assert course.statuses == {Status.SOLVED}
    assert not direct


@pytest.mark.parametrize("reason", ["not converged", "almost singular"])
def test_an_episode_that_the_formula_does_not_solve_is_solved_by_a_dense_factorization(
    monkeypatch, direct, reason
):
    W, turned = pushed()
    refine, loses, asked = episodes.refine_by_inverse, episodes._loses_digits, []

    def one_fails(*args):
        Z, solved = refine(*args)
        Z[1, 2], solved[1, 2] = np.nan, False
        asked.append(1)
        return Z, solved

    def first_does(D):
        found = loses(D)
        if D.ndim == 4:
            asked.append(1)
            found[0, 0] = True
        return found

    if reason == "not converged":
        monkeypatch.setattr(episodes, "refine_by_inverse", one_fails)
    else:
        monkeypatch.setattr(episodes, "_loses_digits", first_does)
    course = assert_as_printed(turned, W)
    assert asked == direct != []
    assert course.statuses == {Status.SOLVED}


def test_indefinite_equations_in_float32():
    W, turned = pushed()
    expected, _ = turned.learn(W, **UNGUARDED)
    there = in_single(turned, 0.05)
    course = learn(there, (turned.U.T @ W).astype(np.float32), **UNGUARDED)
    assert course.W.dtype == np.float32
    assert course.indefinite.any()
    assert relative_error(turned.U @ course.W, expected) < 1e-3


def test_the_formula_is_for_few_directions_only(direct):
    assert is_cheaper_by_inverse(640, 30, 85)
    assert not is_cheaper_by_inverse(640, 120, 85)
    assert not is_cheaper_by_inverse(320, 105, 100)
    shape = PUSHED | {"shots": 3, "d": 60, "n": 90, "q": 8, "k": 12}
    W, turned = start(several(1, 1, 2, **shape, blur=0.1), beta=0.05, rho=0.8)
    _, course = turned.learn(W, **UNGUARDED)
    assert course.indefinite.any()
    assert direct


def test_the_direct_solve_stands_in_for_many_samples(direct):
    W, turned = start(several(7, 1, 2, shots=6, m=30, d=8))
    found, _ = turned.learn(W, **LEARNING)
    assert len(direct) == 4
    assert relative_error(found[0], naive_mean(turned, 0, W)) < 1e-10


def test_the_direct_solve_stands_in_where_base_classes_say_nothing_of_some_directions(direct):
    # Of 20 directions the base classes know 5; support and query sets fill up the rest.
    problems = several(8, 2, 2, n=5, p=5, d=20, k=6, shots=3, m=3)
    W = np.random.default_rng(8).normal(size=(20, 6))
    turned = Turned(problems, W, beta=0.0)
    one = LEARNING | {"max_iter": 1, "mu": 0.0}
    found, course = turned.learn(W, **one)
    assert direct == [1]
    assert course.statuses == {Status.SOLVED}
    for t in range(2):
        assert relative_error(found[t], naive_mean(turned, t, W, one, beta=0.0)) < 1e-8


def test_singular_equations_have_the_least_squares_solution_of_least_norm(monkeypatch, direct):
    # Few enough samples for conjugate gradients, which would divide by next to nothing.
    monkeypatch.setattr(episodes, "refine_in_single", None)
    problems = several(9, 2, 2, n=4, p=2, q=2, d=20, k=8, shots=1, m=2, blur=0.0)
    W = np.random.default_rng(9).normal(size=(20, 8))
    turned = Turned(problems, W, beta=0.0)
    found, course = turned.learn(W, alpha=0.3, mu=0.1, max_iter=1, tol=0.0)
    assert course.statuses == {Status.SINGULAR}
    assert len(direct) == 1
    for t, own in enumerate(problems):
        ends = []
        for problem, (X_g, targets) in zip(own, turned.sets[t], strict=True):
            eta, xi = query_weights(problem, W, X_g, targets, 1e-3, "second-best")
            weights = eta - 0.1 * xi, printed_weights(xi, 0.1)
            A, B, C = matrices(problem, X_g, *weights, 0.3, 0.0)
            operator = np.kron(A, np.eye(8)) + np.kron(np.eye(20), B)
            ends.append(np.linalg.lstsq(operator, C.reshape(-1), rcond=1e-12)[0].reshape(20, 8))
        assert relative_error(found[t], np.mean(ends, axis=0)) < 1e-8


@pytest.mark.parametrize("shape", [*SHAPES, {"shots": 2, "m": 3}])
def test_episodes_end_on_their_own(shape):
    problems = several(10, 2, 3, **(shape | {"blur": 1.0}))
    W, turned = start(problems)
    options = {"beta": 0.3, "tie_tol": 1e-3, "rule": "second-best"}
    longest = LEARNING | {"alpha": 0.6, "max_iter": 8}
    changes = np.array(
        [
            [
                relative_changes(algorithm_1(p, W, *made, **options, **longest))
                for p, made in zip(own, turned.sets[t], strict=True)
            ]
            for t, own in enumerate(problems)
        ]
    )
    tol = float(np.median(changes[..., 2]))  # after the third step about half have ended
    learning = longest | {"tol": tol}
    found, course = turned.learn(W, **learning)
    steps = np.argmax(changes <= tol, axis=-1) + 1
    steps[(changes > tol).all(axis=-1)] = 8
    assert len(np.unique(steps)) > 1
    assert course.changes.shape == course.mu.shape == (steps.max(), 2, 3)
    for t, h in np.ndindex(2, 3):
        taken = steps[t, h]
        np.testing.assert_allclose(
            course.changes[:taken, t, h], changes[t, h, :taken], rtol=1e-6, atol=1e-12
        )
        np.testing.assert_array_equal(course.mu[:taken, t, h], 0.1)
        assert np.isnan(course.changes[taken:, t, h]).all()
        assert np.isnan(course.mu[taken:, t, h]).all()
    for t in range(2):
        assert relative_error(found[t], naive_mean(turned, t, W, learning)) < 1e-9


@pytest.mark.parametrize(
    ("shape", "size"),
    [(SHAPES[0], 1e-9), (SHAPES[1], 1e6), (SHAPES[2], 1e-9), ({"shots": 2, "m": 3}, 1e6)],
)
def test_the_unit_of_features_and_prototypes_is_of_no_account(shape, size):
    problems = several(12, 2, 2, **shape)
    W, turned = start(problems)
    names = ("X", "Y_s", "X_u", "Y_u", "epsilon")
    scaled = [
        [replace(p, **{name: size * getattr(p, name) for name in names}) for p in own]
        for own in problems
    ]
    other = Turned(scaled, W, beta=0.3 * size**2)
    assert relative_error(other.learn(W, **LEARNING)[0], turned.learn(W, **LEARNING)[0]) < 1e-9
