"""Competitive bidirectional projection learning: Algorithm 1 of the paper.

With gamma = alpha/(1-alpha) and nu = beta (1+gamma), Eq. erplobj divided by 1 + gamma is

    F(W) = (1-alpha) sum_s (||W'x - y||^2 + ||x - W y||^2) + 2 beta ||W||^2
           + alpha sum_g (min_j f_ij - mu min_{j not in j(i)} f_ij).

The two errors, here and in f_ij, may weigh differently: a = 2 forward and b = 2 - a times.
Both minima are linearized at W^(t) as sum_j delta_ij f_ij, and the next W makes the gradient
vanish, which is the Sylvester equation A-hat W + W B-hat = C-hat.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..linalg.arrays import Array, identity_like, namespace, squared_norm
from ..linalg.lowrank import UpdatedFactor
from ..linalg.sylvester import Factor, Solution, solve
from . import assignment
from .assignment import Rule
from .guard import safe_mu
from .projection import NormalEquations
from .synthesis import Synthesized

DECAY = 0.99  # alpha_t = 0.99^t alpha

OnStep = Callable[[int, float, float], None]


@dataclass(frozen=True)
class Step:
    """One pass of Algorithm 1.

    Attributes
    ----------
    change : float
        ||W^(t+1) - W^(t)||_F / ||W^(t)||_F.
    alpha, mu : float
        Weights used; `mu` is smaller than asked for where B-hat would be indefinite.
    solution : Solution or None
        Of the Sylvester equation; None for a step of gradient descent.
    """

    change: float
    alpha: float
    mu: float
    solution: Solution | None


@dataclass(frozen=True, eq=False)
class Path:
    """The projection found, and how.

    Attributes
    ----------
    W : array of shape (d, k)
    objective : list of float
        F at W^(0), then after every step, all with the alpha asked for: with the
        alpha_t of each step the values would not compare.
    steps : list of Step
    converged : bool
        Whether the last relative change of W was at most `tol`.
    """

    W: Array
    objective: list[float]
    steps: list[Step]
    converged: bool


class Competition:
    """The fixed raw material of Algorithm 1: seen moments, X_g and Y_u.

    Parameters
    ----------
    equations : NormalEquations
        A0, B0, C0 of the seen samples.
    synthesized : Synthesized
        X_g (N_g x d) and the class each sample was made for.
    Y_u : array of shape (q, k)
    beta : float
    tie_tol : float
        epsilon of Eqs. subgrad01 and subgrad11.
    forward : float, default=0.5
        Share of the error from features to semantics, half in the paper.
    rule : {"second-best", "best", "assigned"}
        "second-best" is the paper's model; "best" leaves out the second term (mu = 0);
        "assigned" trusts the class each sample was made for.
    """

    def __init__(
        self,
        equations: NormalEquations,
        synthesized: Synthesized,
        Y_u: Array,
        *,
        beta: float,
        tie_tol: float = 1e-3,
        rule: Rule = "second-best",
        forward: float = 0.5,
    ) -> None:
        self.equations = equations
        self.forward = float(forward)
        self._a, self._b = 2 * self.forward, 2 - 2 * self.forward
        self.targets = synthesized.targets
        self.Y_u = Y_u
        self.X = synthesized.features
        self.beta = float(beta)  # a NumPy scalar would turn float32 arrays into float64
        self.tie_tol = tie_tol
        self.rule: Rule = rule
        self._squared_norms = namespace(self.X).sum(self.X * self.X, axis=1)
        if self._a:
            F = namespace(self.X).matrix_transpose(self.X)
            self._A = UpdatedFactor(equations.A0, equations.factor, F)

    def weights(self, W: Array) -> tuple[Array, Array, Array]:
        """Return f, eta and xi at W."""
        f = assignment.losses(W, self.X, self.Y_u, self._squared_norms, forward=self.forward)
        return f, *assignment.compete(f, self.targets, self.rule, self.tie_tol)

    def A_hat(self, delta: Array, alpha: float) -> Array:
        """Eq. erplAt, with sum_j delta_ij for the printed 1 - mu.

        The two agree wherever there is a second best; where there is none, only the sum
        makes the gradient vanish.
        """
        if not self._a:
            return namespace(delta).zeros_like(self.equations.A0)
        return self._A.dense(**self._A_terms(delta, alpha))

    def B_hat(self, delta: Array, alpha: float) -> Array:
        """Eq. erplBt."""
        return self._B_hat(namespace(delta).sum(delta, axis=0), alpha)

    def _B_hat(self, of_classes: Array, alpha: float) -> Array:
        B0, Y = self.equations.B0, self.Y_u
        weighted = (Y.T * of_classes[None, :]) @ Y
        return self._b * ((1 - alpha) * B0 + alpha * weighted + self.beta * identity_like(B0))

    def C_hat(self, delta: Array, alpha: float) -> Array:
        """Eq. erplCt."""
        # In this order the product is the cheaper one: there are fewer classes than dimensions.
        return 2 * (1 - alpha) * self.equations.C0 + 2 * alpha * ((self.X.T @ delta) @ self.Y_u)

    def objective(self, W: Array, f: Array, delta: Array, alpha: float) -> float:
        """Return F(W), given f and delta = eta - mu xi at W (Eq. erplobj over 1 + gamma).

        The minima are relaxed as in Eqs. subgrad01 and subgrad11: the mean over the classes
        that are tied for one, which is what the algorithm linearizes.
        """
        competing = float(namespace(W).sum(delta * f))
        seen = self.equations.loss(W, self.forward)
        return (1 - alpha) * seen + 2 * self.beta * squared_norm(W) + alpha * competing

    def solve(
        self, eta: Array, xi: Array, alpha: float, mu: float, start: Array | None = None
    ) -> tuple[Solution, float]:
        """Solve Eq. erpllinear1, with less mu where that would be unsafe; return the mu used too.

        The solver begins at `start`, usually the last W.
        """
        mu = self._safe_mu(eta, xi, alpha, mu)
        delta = eta - mu * xi
        B, C = Factor.of(self.B_hat(delta, alpha)), self.C_hat(delta, alpha)
        if not self._a:
            return solve(Factor.zeros(C.shape[0], like=C), B, C), mu
        return self._A.solve(B, C, **self._A_terms(delta, alpha), start=start), mu

    def _safe_mu(self, eta: Array, xi: Array, alpha: float, mu: float) -> float:
        if not self._b:  # no class enters the operator where the reverse error has no weight
            return mu
        xp = namespace(eta)
        terms = self._A_terms(eta - mu * xi, alpha)
        least = 0.0
        if self._a:
            least = terms["scale"] * float(self.equations.factor.values[0]) + terms["shift"]
        return safe_mu(
            xp.sum(eta, axis=0),
            xp.sum(xi, axis=0),
            mu,
            B_hat=lambda of_classes: self._B_hat(of_classes, alpha),
            least_of_A=least,
            A_is_at_least=lambda x: bool(self._a) and self._A.is_at_least(x, **terms),
        )

    def _A_terms(self, delta: Array, alpha: float) -> dict:
        of_samples = namespace(delta).sum(delta, axis=1)
        a = self._a
        return {"scale": a * (1 - alpha), "shift": a * self.beta, "weights": a * alpha * of_samples}


def learn(
    competition: Competition,
    W: Array,
    *,
    alpha: float,
    mu: float,
    max_iter: int = 5,
    tol: float = 1e-4,
    on_step: OnStep | None = None,
) -> Path:
    """Run Algorithm 1 from the initial projection W^(0) = W.

    `on_step(t, objective, change)` is called after every step, for those who watch.
    """
    alpha, mu = float(alpha), float(mu)
    guess = W
    f, eta, xi = competition.weights(W)
    objective = [competition.objective(W, f, eta - mu * xi, alpha)]
    steps: list[Step] = []
    while len(steps) < max_iter and not (steps and steps[-1].change <= tol):
        alpha_t = DECAY ** len(steps) * alpha
        solution, mu_t = competition.solve(eta, xi, alpha_t, mu, start=guess)
        previous, W = W, solution.value
        # Once samples keep their classes, what moves W is alpha_t, by DECAY times the last move.
        guess = W + DECAY * (W - previous) if steps else W
        f, eta, xi = competition.weights(W)
        steps.append(Step(relative_change(previous, W), alpha_t, mu_t, solution))
        objective.append(competition.objective(W, f, eta - mu * xi, alpha))
        if on_step is not None:
            on_step(len(steps), objective[-1], steps[-1].change)
    return Path(W, objective, steps, converged=bool(steps) and steps[-1].change <= tol)


def relative_change(before: Array, after: Array) -> float:
    """Return ||after - before||_F / ||before||_F (the numerator alone where `before` is 0)."""
    size = squared_norm(before)
    return (squared_norm(after - before) / (size or 1.0)) ** 0.5
