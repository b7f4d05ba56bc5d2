"""Synthesis from a support set (Eq. 19 (generate1)) against loops, sample by sample."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_few_shot import query_set, random_few_shot
from turned import several

from zonkey.bpl.synthesis import synthesize_from_support

RHO = [0.0, 0.1, 0.5, 0.95, 7.0]


def projection(problem, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(problem.X_u.shape[1], problem.Y_u.shape[1]))


def run(problem, W, *, rho=0.5, scaling="squared-norm"):
    parts = problem.Y_u, problem.X_u, problem.codes, problem.epsilon
    return synthesize_from_support(W, *parts, rho=rho, scaling=scaling)


def assert_printed(problem, W, *, rho=0.5, scaling="squared-norm"):
    made = run(problem, W, rho=rho, scaling=scaling)
    X_g, targets = query_set(problem, W, rho, divided=scaling is not None)
    assert made.features.shape == (problem.epsilon.shape[0] * len(problem.X_u), W.shape[0])
    np.testing.assert_allclose(made.features, X_g, rtol=1e-11, atol=1e-11)
    np.testing.assert_array_equal(made.targets, targets)
    np.testing.assert_array_equal(made.sources, targets)
    return made


def test_a_class_without_support_makes_no_sample_and_no_trouble():
    problem = random_few_shot(9)
    wider = replace(problem, Y_u=np.vstack([problem.Y_u, np.ones((2, 4))]))
    W = projection(problem)
    np.testing.assert_array_equal(run(wider, W).features, run(problem, W).features)
    assert run(wider, W).targets.max() == len(problem.Y_u) - 1


def test_single_precision_stays_single():
    problem = random_few_shot(11)
    W = projection(problem)
    W_32, Y_32, X_32, epsilon_32 = (
        M.astype(np.float32) for M in (W, problem.Y_u, problem.X_u, problem.epsilon)
    )
    made = synthesize_from_support(W_32, Y_32, X_32, problem.codes, epsilon_32, rho=0.5)
    assert made.features.dtype == np.float32
    np.testing.assert_allclose(made.features, query_set(problem, W, 0.5)[0], atol=1e-5)


@pytest.mark.parametrize("scaling", ["squared-norm", None])
@pytest.mark.parametrize("shape", [{"m": 3}, {"m": 0}, {"shots": 1, "extra": 2}, {"q": 1}], ids=str)
def test_a_batch_is_its_members(shape, scaling):
    problems = several(13, 2, 3, **shape)
    W = projection(problems[0][0])
    Y_u, X_u, codes = (
        np.array([getattr(own[0], name) for own in problems]) for name in ("Y_u", "X_u", "codes")
    )
    epsilon = np.array([[p.epsilon for p in own] for own in problems])
    made = synthesize_from_support(W, Y_u, X_u, codes, epsilon, rho=0.3, scaling=scaling)
    for t, h in np.ndindex(2, 3):
        X_g, targets = query_set(problems[t][h], W, 0.3, divided=scaling is not None)
        np.testing.assert_allclose(made.features[t, h], X_g, rtol=1e-11, atol=1e-11)
        # The same for all episodes of a task, which one axis of length 1 stands for.
        np.testing.assert_array_equal(made.targets[t, 0], targets)
        np.testing.assert_array_equal(made.sources[t, 0], targets)
    assert made.targets.shape == (2, 1, made.features.shape[2])


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    d=st.integers(1, 5),
    k=st.integers(1, 4),
    q=st.integers(1, 4),
    shots=st.integers(1, 3),
    extra=st.integers(0, 2),
    m=st.integers(0, 3),
    rho=st.sampled_from(RHO),
    scaling=st.sampled_from(["squared-norm", None]),
)
def test_printed_formula_for_any_shape(seed, d, k, q, shots, extra, m, rho, scaling):
    problem = random_few_shot(seed, d=d, k=k, q=q, shots=shots, extra=extra, m=m)
    assert_printed(problem, projection(problem, seed), rho=rho, scaling=scaling)
