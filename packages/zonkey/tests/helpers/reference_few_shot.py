"""The printed formulas of section 4 in plain loops, and small few-shot problems to try them on.

As in `reference`, functions bear the paper's equation labels, know raw samples in their original
coordinates only, and take no short cut: the moments of the support set are summed on their own,
and every equation is solved densely by Bartels and Stewart.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from reference import f, f_ij, shares, subgrad01, subgrad11
from scipy.linalg import solve_sylvester

from zonkey.bpl.moments import Moments
from zonkey.bpl.projection import NormalEquations
from zonkey.prototypes import Prototypes


@dataclass(frozen=True, eq=False)
class FewShot:
    """Base samples X with labels, support samples X_u with codes, and epsilon (m x N_u x k)."""

    X: np.ndarray
    labels: np.ndarray
    Y_s: np.ndarray
    X_u: np.ndarray
    codes: np.ndarray
    Y_u: np.ndarray
    epsilon: np.ndarray

    def moments(self):
        return Moments.from_arrays(self.X, self.labels, Prototypes(range(len(self.Y_s)), self.Y_s))

    def equations(self):
        return NormalEquations(*sums(self.X, self.Y_s[self.labels]))

    @property
    def support(self):
        return self.X_u, self.codes


def random_few_shot(
    seed=0, *, n=25, d=6, k=4, p=5, q=4, shots=2, m=3, noise=0.6, blur=0.4, extra=0
):
    """Draw a problem with a common projection; `extra` unbalances the support set."""
    rng = np.random.default_rng(seed)
    Y_s, Y_u = rng.normal(size=(p, k)), rng.normal(size=(q, k))
    W = rng.normal(size=(d, k)) / (d + k) ** 0.5
    labels = np.arange(n) % p
    codes = rng.permutation(np.concatenate([np.tile(np.arange(q), shots), np.zeros(extra, int)]))
    X = Y_s[labels] @ W.T + noise * rng.normal(size=(n, d))
    X_u = Y_u[codes] @ W.T + noise * rng.normal(size=(len(codes), d))
    epsilon = blur * rng.normal(size=(m, len(codes), k))
    return FewShot(X, labels, Y_s, X_u, codes, Y_u, epsilon)


def class_mean(problem, j):
    members = [x for x, code in zip(problem.X_u, problem.codes, strict=True) if code == j]
    return sum(members) / len(members)


def generate1(x_u, mean, W, y_u, epsilon_i, rho, *, divided=True):
    squared_norm = sum(entry**2 for row in W for entry in row)
    v = [y_u[b] + epsilon_i[b] for b in range(len(y_u))]
    center = [rho * sum(row[b] * v[b] for b in range(len(v))) for row in W]
    # W = 0 moves nothing, whatever it is divided by.
    return (x_u - mean) + np.array(center) / (squared_norm if divided and squared_norm else 1)


def query_set(problem, W, rho, *, divided=True):
    """All synthesized samples of an episode and their classes, one round of epsilon at a time."""
    features, targets = [], []
    for round_ in problem.epsilon:
        for i, (x, j) in enumerate(zip(problem.X_u, problem.codes, strict=True)):
            mean, y = class_mean(problem, j), problem.Y_u[j]
            features.append(generate1(x, mean, W, y, round_[i], rho, divided=divided))
            targets.append(j)
    d = problem.X_u.shape[1]
    return np.array(features).reshape(-1, d), np.array(targets, dtype=np.int64)


def sums(X, Y):
    """sum x x', sum y y' and sum x y' over labeled samples: A0, B0, C0 or A_u, B_u, C_u."""
    d, k = X.shape[1], Y.shape[1]
    A, B, C = np.zeros((d, d)), np.zeros((k, k)), np.zeros((d, k))
    for x, y in zip(X, Y, strict=True):
        A += np.outer(x, x)
        B += np.outer(y, y)
        C += np.outer(x, y)
    return A, B, C


def erplAt0(A0, A_u, X_g, of_samples, alpha, beta):
    """Eq. 20 (erplAt0), where every entry of `of_samples` is printed as 1 - mu."""
    query = np.zeros_like(A0)
    for w, x in zip(of_samples, X_g, strict=True):
        query += w * np.outer(x, x)
    return (1 - alpha) * A0 + alpha * A_u + alpha * query + beta * np.eye(len(A0))


def erplBt0(B0, B_u, delta, Y_u, alpha, beta):
    query = np.zeros_like(B0)
    for delta_i in delta:
        for delta_ij, y in zip(delta_i, Y_u, strict=True):
            query += delta_ij * np.outer(y, y)
    return (1 - alpha) * B0 + alpha * B_u + alpha * query + beta * np.eye(len(B0))


def erplCt0(C0, C_u, X_g, delta, Y_u, alpha):
    query = np.zeros_like(C0)
    for x, delta_i in zip(X_g, delta, strict=True):
        for delta_ij, y in zip(delta_i, Y_u, strict=True):
            query += delta_ij * np.outer(x, y)
    return 2 * (1 - alpha) * C0 + 2 * alpha * C_u + 2 * alpha * query


def matrices(problem, X_g, delta, of_samples, alpha, beta):
    """The three matrices of Eq. 15 (erpllinear1), from raw samples of the three sets."""
    A0, B0, C0 = sums(problem.X, problem.Y_s[problem.labels])
    A_u, B_u, C_u = sums(problem.X_u, problem.Y_u[problem.codes])
    return (
        erplAt0(A0, A_u, X_g, of_samples, alpha, beta),
        erplBt0(B0, B_u, delta, problem.Y_u, alpha, beta),
        erplCt0(C0, C_u, X_g, delta, problem.Y_u, alpha),
    )


def query_weights(problem, W, X_g, targets, tie_tol, rule):
    """eta and xi, "only related to the small query set"."""
    q = len(problem.Y_u)
    losses = f(W, X_g, problem.Y_u).reshape(-1, q)
    eta = [subgrad01(f_i, tie_tol) for f_i in losses]
    xi = [subgrad11(f_i, tie_tol) if rule == "second-best" else np.zeros(q) for f_i in losses]
    if rule == "assigned":
        eta = [shares([j], q) for j in targets]
    return np.reshape(eta, (-1, q)), np.reshape(xi, (-1, q))


def printed_weights(xi, mu):
    """1 - mu, or 1 for a sample without a second best (see `reference.algorithm_1`)."""
    return [1 - mu if any(xi_i) else 1.0 for xi_i in xi]


def three_sets(problem, W, X_g, delta, alpha, beta):
    """The objective, over 1 + gamma, in which delta is held fixed: base, support and query."""
    base = own_loss(W, problem.X, problem.Y_s[problem.labels])
    support = own_loss(W, problem.X_u, problem.Y_u[problem.codes])
    query = np.sum(delta * f(W, X_g, problem.Y_u).reshape(delta.shape))
    return (1 - alpha) * base + alpha * support + alpha * query + 2 * beta * np.sum(W**2)


def own_loss(W, X, Y):
    """The loss of labeled samples, each with its own prototype."""
    return sum(f_ij(W, x, y) for x, y in zip(X, Y, strict=True))


def initial_projection(problem, beta):
    """W^(0): "setting alpha = 0, with all base class samples"."""
    A0, B0, C0 = sums(problem.X, problem.Y_s[problem.labels])
    A, B = A0 + beta * np.eye(len(A0)), B0 + beta * np.eye(len(B0))
    return solve_sylvester(A, B, 2 * C0)


def algorithm_1(problem, W, X_g, targets, *, alpha, mu, beta, tie_tol, max_iter, tol, rule):
    """Return W^(0), W^(1), ... of one episode with a given query set."""
    path = [W]
    while len(path) <= max_iter:
        alpha_t = 0.99 ** (len(path) - 1) * alpha
        eta, xi = query_weights(problem, path[-1], X_g, targets, tie_tol, rule)
        of_samples, delta = printed_weights(xi, mu), eta - mu * xi
        found = matrices(problem, X_g, delta, of_samples, alpha_t, beta)
        path.append(solve_sylvester(*found))
        if relative_changes(path)[-1] <= tol:
            break
    return path


def relative_changes(path):
    """||W^(t+1) - W^(t)|| / ||W^(t)|| of every step; the numerator alone where W^(t) is 0."""
    return [
        np.linalg.norm(after - before) / (np.linalg.norm(before) or 1.0)
        for before, after in pairwise(path)
    ]


def episode(problem, *, rho, beta, divided=True, **options):
    """Run a whole episode: W^(0) from the base classes, a query set, Algorithm 1."""
    W = initial_projection(problem, beta)
    X_g, targets = query_set(problem, W, rho, divided=divided)
    return algorithm_1(problem, W, X_g, targets, beta=beta, **options)
