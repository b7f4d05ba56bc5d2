"""The whole road in an array library that allows the standard only, on either of its devices."""

import array_api_strict as strict
import numpy as np
import pytest
from array_api_compat import device
from reference import random_problem

from zonkey.core import (
    Competition,
    EntropyObjective,
    NormalEquations,
    Synthesized,
    bidirectional_projection,
    forward_projection,
    learn,
    minimize_entropy,
    reverse_projection,
    synthesize,
)

DEVICES = ["CPU_DEVICE", "device1"]


class Library:
    """Takes arrays to a library and device, and back."""

    def __init__(self, name):
        self.device = strict.Device(name)

    def __call__(self, M):
        return strict.asarray(M, device=self.device)

    def numpy(self, M):
        assert isinstance(M, type(strict.asarray(0)))
        assert device(M) == self.device
        return np.asarray(M.to_device(strict.Device("CPU_DEVICE")))

    def equations(self, problem):
        plain = problem.equations()
        return NormalEquations(self(plain.A0), self(plain.B0), self(plain.C0))


@pytest.fixture(params=DEVICES)
def library(request):
    return Library(request.param)


@pytest.mark.parametrize(
    "model", [forward_projection, reverse_projection, bidirectional_projection]
)
def test_projections_agree_with_numpy(library, model):
    problem = random_problem(1)
    expected = model(problem.equations(), 0.05)
    solution = model(library.equations(problem), 0.05)
    assert solution.status is expected.status
    np.testing.assert_allclose(library.numpy(solution.value), expected.value, rtol=1e-9)


@pytest.mark.parametrize("rule", ["second-best", "best", "assigned"])
@pytest.mark.parametrize("n_g", [3, 20])  # an iterative and a direct solve
@pytest.mark.parametrize("mu", [0.2, 0.9])  # the second may need the guard
def test_learn_agrees_with_numpy(library, rule, n_g, mu):
    problem = random_problem(2, n_g=n_g)
    plain = problem.synthesized()
    W0 = bidirectional_projection(problem.equations(), 0.01).value
    expected = learn(
        Competition(problem.equations(), plain, problem.Y_u, beta=0.01, rule=rule),
        W0,
        alpha=0.5,
        mu=mu,
    )
    made = Synthesized(library(plain.features), library(plain.targets), library(plain.sources))
    competition = Competition(
        library.equations(problem), made, library(problem.Y_u), beta=0.01, rule=rule
    )
    path = learn(competition, library(W0), alpha=0.5, mu=mu)
    np.testing.assert_allclose(library.numpy(path.W), expected.W, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(path.objective, expected.objective, rtol=1e-9)
    assert [step.mu for step in path.steps] == [step.mu for step in expected.steps]


def test_minimize_entropy_agrees_with_numpy(library):
    problem = random_problem(3)
    weights = {"alpha": 0.4, "beta": 0.02}
    W0 = bidirectional_projection(problem.equations(), 0.02).value
    expected = minimize_entropy(
        EntropyObjective(problem.equations(), problem.X_g, problem.Y_u, **weights), W0, max_iter=20
    )
    objective = EntropyObjective(
        library.equations(problem), library(problem.X_g), library(problem.Y_u), **weights
    )
    path = minimize_entropy(objective, library(W0), max_iter=20)
    np.testing.assert_allclose(library.numpy(path.W), expected.W, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(path.objective, expected.objective, rtol=1e-9)


@pytest.mark.parametrize("per", ["class", "neighbor"])
@pytest.mark.parametrize("scaling", ["squared-norm", None])
def test_synthesize_agrees_with_numpy(library, per, scaling):
    problem = random_problem(4)
    W = np.random.default_rng(0).normal(size=(7, 4))
    samples = [problem.X[problem.labels == j] for j in range(5)]
    options = {"rho": 0.5, "n_neighbors": 3, "n_synthetic": 8, "per": per, "scaling": scaling}
    plain = synthesize(
        W, problem.Y_u, problem.Y_s, samples, **options, rng=np.random.default_rng(1)
    )
    made = synthesize(
        *(library(M) for M in (W, problem.Y_u, problem.Y_s)),
        [library(M) for M in samples],
        **options,
        rng=np.random.default_rng(1),
    )
    np.testing.assert_allclose(library.numpy(made.features), plain.features, rtol=1e-12)
    np.testing.assert_array_equal(library.numpy(made.targets), plain.targets)
    np.testing.assert_array_equal(library.numpy(made.sources), plain.sources)
