"""The printed formulas of the paper in plain loops, and small problems to try them on.

Functions bear the paper's equation labels. They know raw samples only, loop over samples
and classes, and take no short cut that the library takes: no moments, no Gram forms, no
eigenbases.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_sylvester

from zonkey.bpl.assignment import Shares, compete, losses
from zonkey.bpl.projection import NormalEquations
from zonkey.bpl.symmetric import Factor
from zonkey.bpl.synthesis import Synthesized


@dataclass(frozen=True, eq=False)
class Problem:
    """Seen samples X (n x d) with labels, prototypes Y_s and Y_u, and a set X_g."""

    X: np.ndarray
    labels: np.ndarray
    Y_s: np.ndarray
    Y_u: np.ndarray
    X_g: np.ndarray
    targets: np.ndarray

    @property
    def Y(self):
        """The prototype of every seen sample, n x k."""
        return self.Y_s[self.labels]

    def equations(self, dtype=np.float64):
        X, Y = self.X, self.Y
        return NormalEquations(*(M.astype(dtype) for M in (X.T @ X, Y.T @ Y, X.T @ Y)))

    def synthesized(self, dtype=np.float64):
        return Synthesized(self.X_g.astype(dtype), self.targets, np.zeros_like(self.targets))


def random_problem(seed=0, *, n=30, d=7, k=4, p=5, q=4, n_g=20, noise=0.6):
    """Draw a problem with a common projection and enough noise to make classes compete."""
    rng = np.random.default_rng(seed)
    Y_s, Y_u = rng.normal(size=(p, k)), rng.normal(size=(q, k))
    W = rng.normal(size=(d, k)) / (d + k) ** 0.5
    labels, targets = np.arange(n) % p, np.arange(n_g) % q
    X = Y_s[labels] @ W.T + noise * rng.normal(size=(n, d))
    X_g = Y_u[targets] @ W.T + noise * rng.normal(size=(n_g, d))
    return Problem(X, labels, Y_s, Y_u, X_g, targets)


def generate(x_s, W, y_u, y_s, rho, *, divided=True):
    squared_norm = sum(entry**2 for row in W for entry in row)
    offset = [rho * sum(row[b] * (y_u[b] - y_s[b]) for b in range(len(y_u))) for row in W]
    return x_s + np.array(offset) / (squared_norm if divided else 1)


def f_ij(W, x, y):
    return np.sum((W.T @ x - y) ** 2) + np.sum((x - W @ y) ** 2)


def f(W, X_g, Y_u):
    return np.array([[f_ij(W, x, y) for y in Y_u] for x in X_g])


def best_classes(f_i, epsilon):
    """j(i): the ratio of Eq. 16 (subgrad01), which the minimum itself passes even where it is 0."""
    return tied(f_i, range(len(f_i)), epsilon)


def subgrad01(f_i, epsilon):
    return shares(best_classes(f_i, epsilon), len(f_i))


def subgrad11(f_i, epsilon):
    taken = best_classes(f_i, epsilon)
    others = [j for j in range(len(f_i)) if j not in taken]
    return shares(tied(f_i, others, epsilon), len(f_i))


def subgrad0(f_i):
    return shares([j for j in range(len(f_i)) if f_i[j] == min(f_i)], len(f_i))


def subgrad1(f_i):
    others = [j for j in range(len(f_i)) if f_i[j] != min(f_i)]
    smallest = min((f_i[j] for j in others), default=None)
    return shares([j for j in others if f_i[j] == smallest], len(f_i))


def tied(f_i, allowed, epsilon):
    if not len(allowed):
        return []
    m = min(f_i[j] for j in allowed)
    return [j for j in allowed if f_i[j] == m or (m > 0 and (f_i[j] - m) / m < epsilon)]


def shares(members, q):
    return np.array([1 / len(members) if j in members else 0.0 for j in range(q)])


def eta_and_xi(problem, W, epsilon, rule="second-best"):
    """Eqs. 16 (subgrad01) and 17 (subgrad11), and the two ablations of section 5.1.3."""
    losses = f(W, problem.X_g, problem.Y_u)
    eta = np.array([subgrad01(f_i, epsilon) for f_i in losses])
    xi = np.array([subgrad11(f_i, epsilon) for f_i in losses])
    if rule == "assigned":
        eta = np.array([shares([j], losses.shape[1]) for j in problem.targets])
    return eta, xi if rule == "second-best" else np.zeros_like(xi)


def erplAt(problem, of_samples, alpha, beta):
    """Eq. 12 (erplAt), where every entry of `of_samples` is printed as 1 - mu."""
    seen = sum(np.outer(x, x) for x in problem.X)
    competing = sum(w * np.outer(x, x) for w, x in zip(of_samples, problem.X_g, strict=True))
    return (1 - alpha) * seen + alpha * competing + beta * np.eye(problem.X.shape[1])


def erplBt(problem, delta, alpha, beta):
    seen = sum(np.outer(y, y) for y in problem.Y)
    competing = sum(
        delta[i, j] * np.outer(y, y)
        for i in range(len(problem.X_g))
        for j, y in enumerate(problem.Y_u)
    )
    return (1 - alpha) * seen + alpha * competing + beta * np.eye(problem.Y_u.shape[1])


def erplCt(problem, delta, alpha):
    seen = sum(np.outer(x, y) for x, y in zip(problem.X, problem.Y, strict=True))
    competing = sum(
        delta[i, j] * np.outer(x, y)
        for i, x in enumerate(problem.X_g)
        for j, y in enumerate(problem.Y_u)
    )
    return 2 * (1 - alpha) * seen + 2 * alpha * competing


def seen_loss(problem, W):
    return sum(f_ij(W, x, y) for x, y in zip(problem.X, problem.Y, strict=True))


def over_one_plus_gamma(problem, W, competing, alpha, beta):
    """(seen + 2 nu ||W||^2 + gamma competing) / (1 + gamma), in the paper's gamma and nu."""
    gamma = alpha / (1 - alpha)
    nu = beta * (1 + gamma)
    total = seen_loss(problem, W) + 2 * nu * np.sum(W**2) + gamma * competing
    return total / (1 + gamma)


def erplobj(problem, W, alpha, mu, beta, epsilon=0.0):
    """Eq. 2 (erplobj) over 1 + gamma."""
    competing = 0.0
    for f_i in f(W, problem.X_g, problem.Y_u):
        taken = best_classes(f_i, epsilon)
        others = [f_i[j] for j in range(len(f_i)) if j not in taken]
        competing += min(f_i) - mu * min(others, default=0.0)
    return over_one_plus_gamma(problem, W, competing, alpha, beta)


def linearized(problem, W, delta, alpha, beta):
    """The estimate of Eq. 2 (erplobj) (over 1 + gamma) in which delta is held fixed."""
    competing = np.sum(delta * f(W, problem.X_g, problem.Y_u))
    return over_one_plus_gamma(problem, W, competing, alpha, beta)


def entropyobj(problem, W, alpha, beta):
    """Eq. 23 (entropyobj) over 1 + gamma."""
    entropy = 0.0
    for f_i in f(W, problem.X_g, problem.Y_u):
        P = [np.exp(-f_ij) / sum(np.exp(-f_il) for f_il in f_i) for f_ij in f_i]
        entropy -= sum(P_ij * np.log(P_ij) for P_ij in P)
    return over_one_plus_gamma(problem, W, entropy, alpha, beta)


def initial_projection(problem, beta):
    """W^(0) of Algorithm 1, step 2: the model with alpha = 0."""
    nothing = np.zeros((len(problem.X_g), len(problem.Y_u)))
    A = erplAt(problem, nothing[:, 0], 0.0, beta)
    B = erplBt(problem, nothing, 0.0, beta)
    return solve_sylvester(A, B, erplCt(problem, nothing, 0.0))


def algorithm_1(problem, W, *, alpha, mu, beta, epsilon, max_iter, tol, rule):
    """Return W^(0), W^(1), ... and the delta that led to each but the first.

    Samples without a second best count for 1 in Eq. 12 (erplAt) instead of 1 - mu, which is
    what a vanishing gradient asks for.
    """
    path, deltas = [W], []
    while len(path) <= max_iter:
        alpha_t = 0.99 ** (len(path) - 1) * alpha
        eta, xi = eta_and_xi(problem, path[-1], epsilon, rule)
        delta = eta - mu * xi
        of_samples = [1 - mu if any(xi_i) else 1.0 for xi_i in xi]
        A = erplAt(problem, of_samples, alpha_t, beta)
        B = erplBt(problem, delta, alpha_t, beta)
        path.append(solve_sylvester(A, B, erplCt(problem, delta, alpha_t)))
        deltas.append(delta)
        if np.linalg.norm(path[-1] - path[-2]) / np.linalg.norm(path[-2]) <= tol:
            break
    return path, deltas


def finite_differences(function, W, step=1e-4):
    """Central differences of a function of a matrix; exact for a quadratic one."""
    gradient = np.zeros_like(W)
    for position in np.ndindex(*W.shape):
        offset = np.zeros_like(W)
        offset[position] = step
        gradient[position] = (function(W + offset) - function(W - offset)) / (2 * step)
    return gradient


def weights_at(competition, W):
    """f, eta and xi at W as matrices, which a competition never forms."""
    f = losses(W, competition.X, competition.Y_u)
    return f, *compete(f, competition.targets, competition.rule, competition.tie_tol)


def summed(competition, *weights):
    """Matrices of weights as a competition takes them."""
    sums = [Shares.from_weights(M, competition.X) for M in weights]
    return sums if len(sums) > 1 else sums[0]


def assert_sums(shares, weights, X):
    """Check sums of weights (N x q) of the samples X (N x d) against loops."""
    (n, q), tolerance = weights.shape, 1e-10 * max(1.0, np.abs(X).sum())
    np.testing.assert_allclose(shares.of_samples, [sum(row) for row in weights], atol=1e-12)
    np.testing.assert_allclose(shares.of_classes, [sum(c) for c in weights.T], atol=1e-10)
    for j in range(q):
        expected = sum((weights[i, j] * X[i] for i in range(n)), np.zeros(X.shape[1]))
        np.testing.assert_allclose(shares.features[j], expected, atol=tolerance)


def solved(competition, eta, xi, alpha, mu, start=None):
    """The solution of Eq. 15 (erpllinear1), and the mu that the guard left."""
    eta, xi = summed(competition, eta, xi)
    used = competition.safe_mu(eta, xi, alpha, mu)
    return competition.solution(eta.subtract(xi, used), alpha, start), used


def alphas_of(competition):
    """Return a list that, from now on, gets the alpha of every step."""
    alphas, solve = [], competition.solve

    def noted(state, eta, xi, alpha, mu, active):
        alphas.append(alpha)
        return solve(state, eta, xi, alpha, mu, active)

    competition.solve = noted
    return alphas


def smallest(M):
    """The smallest eigenvalue of a symmetric matrix."""
    return np.linalg.eigvalsh(M)[0]


def halved(mu, is_safe):
    """The first half of mu that is safe, until a thousandth of it is not."""
    asked = mu
    for _ in range(100):
        if is_safe(mu):
            return mu
        if mu <= 1e-3 * asked:
            return 0.0
        mu /= 2
    raise AssertionError("never given up")


def decomposed(monkeypatch):
    """Return a list that, from now on, gets the shape of every matrix that is decomposed."""
    shapes, decompose = [], Factor.from_matrix
    monkeypatch.setattr(Factor, "from_matrix", lambda M: shapes.append(M.shape) or decompose(M))
    return shapes
