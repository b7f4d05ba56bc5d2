"""Few-shot problems of the reference where A0 is diagonal, T tasks x E episodes at a time."""

from dataclasses import replace

import numpy as np
from reference_few_shot import query_set, random_few_shot, sums

from zonkey.bpl.algorithm1 import learn
from zonkey.bpl.episodes import Episodes
from zonkey.bpl.projection import NormalEquations
from zonkey.bpl.synthesis import Synthesized

# As exact as the solver can be: the reference is exact too.
EXACT = {"beta": 0.01, "tie_tol": 1e-3, "rule": "second-best", "solver_tol": 1e-13}


def several(seed, T=1, E=1, **shape):
    """Draw problems over the same base classes: those of a task differ by their noise alone."""
    base = random_few_shot(seed, **shape)
    shared = {"X": base.X, "labels": base.labels, "Y_s": base.Y_s}
    rng = np.random.default_rng(seed)
    problems = []
    for t in range(T):
        task = replace(random_few_shot(seed + 1000 * t, **shape), **shared)
        # Shuffled, the noise is as large as in the first episode.
        noises = [task.epsilon, *(rng.permuted(task.epsilon, axis=1) for _ in range(E - 1))]
        problems.append([replace(task, epsilon=epsilon) for epsilon in noises])
    return problems


def turned_equations(problem):
    """Return the eigenbasis U of A0, and the equations of the base classes in it."""
    A0, B0, C0 = sums(problem.X, problem.Y_s[problem.labels])
    values, U = np.linalg.eigh(A0)
    return U, NormalEquations(values, B0, U.T @ C0)


class Turned:
    """T x E problems, with query sets synthesized by loops, as `Episodes` takes them."""

    def __init__(self, problems, W, *, rho=0.5, divided=True, **options):
        self.problems = problems
        self.U, self.equations = turned_equations(problems[0][0])
        self.sets = [[query_set(p, W, rho, divided=divided) for p in own] for own in problems]
        first = [own[0] for own in problems]
        features = np.array([[X_g @ self.U for X_g, _ in own] for own in self.sets])
        targets = np.array([[own[0][1]] for own in self.sets])
        self.synthesized = Synthesized(features, targets, targets)
        self.Y_u = np.array([p.Y_u for p in first])
        self.support = np.array([p.X_u @ self.U for p in first]), np.array([p.codes for p in first])
        self.episodes = Episodes(
            self.equations, self.synthesized, self.Y_u, self.support, **(EXACT | options)
        )

    def weights(self, W):
        """Return eta and xi at W, in the original coordinates, the same for all episodes."""
        return self.episodes.weights(self.episodes.start(self.U.T @ W))

    def learn(self, W, **options):
        """Return the mean W (T x d x k), in the original coordinates, and the course."""
        course = learn(self.episodes, self.U.T @ W, **options)
        return self.U @ course.W, course
