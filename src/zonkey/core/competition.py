"""Competitive bidirectional projection learning: Algorithm 1 of the paper.

With gamma = alpha/(1-alpha) and nu = beta (1+gamma), Eq. erplobj divided by 1 + gamma is

    F(W) = (1-alpha) sum_s (||W'x - y||^2 + ||x - W y||^2) + 2 beta ||W||^2
           + alpha sum_g (min_j f_ij - mu min_{j not in j(i)} f_ij).

The two errors, here and in f_ij, may weigh differently: a = 2 forward and b = 2 - a times.
Both minima are linearised at W^(t) as sum_j delta_ij f_ij, and the next W makes the gradient
vanish, which is the Sylvester equation A-hat W + W B-hat = C-hat.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ..linalg.arrays import Array, epsilon, identity_like, namespace, squared_norm
from ..linalg.lowrank import UpdatedFactor
from ..linalg.sylvester import Factor, Solution, solve
from . import assignment
from .projection import NormalEquations
from .synthesis import Synthesized

DECAY = 0.99  # alpha_t = 0.99^t alpha
_SMALLEST_MU = 1e-3  # share of mu below which the guard gives up competition altogether
_SAFE_SHARE = 0.25  # of the smallest eigenvalue without competition, which the guard keeps

Rule = Literal["second-best", "best", "assigned"]
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
    """The fixed raw material of Algorithm 1: seen moments, X_g and Y_u; for few shots, X_u too.

    A support sample enters A-hat, B-hat and C-hat (Eqs. erplAt0 to erplCt0) exactly as a
    synthesised one whose delta is fixed: 1 for its own class, 0 for the others. So the two sets
    are one list of samples here, of which the labelled do not compete.

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
    support : tuple of arrays (X_u, codes), default=None
        Labelled samples (N_u x d) of the classes of Y_u, and the row of Y_u of each.
    solver_tol : float, default=0.0
        Relative error of W that a step may leave; 0 asks for rounding.
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
        support: tuple[Array, Array] | None = None,
        solver_tol: float = 0.0,
        forward: float = 0.5,
    ) -> None:
        self.equations = equations
        self.forward = float(forward)
        self._a, self._b = 2 * self.forward, 2 - 2 * self.forward
        self.targets = synthesized.targets
        self.Y_u = Y_u
        self.X, self._labels = synthesized.features, None
        if support is not None:
            X_u, codes = support
            self.X = namespace(X_u).concat([self.X, X_u], axis=0)
            self._labels = assignment.assigned(codes, Y_u.shape[0], like=X_u)
        self.beta = float(beta)  # a NumPy scalar would turn float32 arrays into float64
        self.tie_tol = tie_tol
        self.rule = rule
        self.solver_tol = solver_tol
        self._squared_norms = namespace(self.X).sum(self.X * self.X, axis=1)
        if self._a:
            self._A = UpdatedFactor(equations.A0, equations.factor, self.X.T)

    def weights(self, W: Array) -> tuple[Array, Array, Array]:
        """Return f, eta and xi at W, synthesised samples first."""
        xp = namespace(W)
        f = assignment.losses(W, self.X, self.Y_u, self._squared_norms, forward=self.forward)
        n_g = self.targets.shape[0]
        eta, xi = self._compete(f[:n_g, :])
        if self._labels is not None:
            eta = xp.concat([eta, self._labels], axis=0)
            xi = xp.concat([xi, xp.zeros_like(self._labels)], axis=0)
        return f, eta, xi

    def _compete(self, f: Array) -> tuple[Array, Array]:
        if self.rule == "assigned":
            eta = assignment.assigned(self.targets, self.Y_u.shape[0], like=f)
            return eta, namespace(f).zeros_like(f)
        eta, taken = assignment.best(f, self.tie_tol)
        if self.rule == "best":
            return eta, namespace(f).zeros_like(f)
        return eta, assignment.second_best(f, taken, self.tie_tol)

    def A_hat(self, delta: Array, alpha: float) -> Array:
        """Eqs. erplAt and erplAt0, with sum_j delta_ij for the printed 1 - mu.

        The two agree wherever there is a second best; where there is none, only the sum
        makes the gradient vanish.
        """
        if not self._a:
            return namespace(delta).zeros_like(self.equations.A0)
        return self._A.dense(**self._A_terms(delta, alpha))

    def B_hat(self, delta: Array, alpha: float) -> Array:
        """Eqs. erplBt and erplBt0."""
        return self._B_hat(namespace(delta).sum(delta, axis=0), alpha)

    def _B_hat(self, of_classes: Array, alpha: float) -> Array:
        B0, Y = self.equations.B0, self.Y_u
        weighted = (Y.T * of_classes[None, :]) @ Y
        return self._b * ((1 - alpha) * B0 + alpha * weighted + self.beta * identity_like(B0))

    def C_hat(self, delta: Array, alpha: float) -> Array:
        """Eqs. erplCt and erplCt0."""
        # In this order the product is the cheaper one: there are fewer classes than dimensions.
        return 2 * (1 - alpha) * self.equations.C0 + 2 * alpha * ((self.X.T @ delta) @ self.Y_u)

    def objective(self, W: Array, f: Array, delta: Array, alpha: float) -> float:
        """Return F(W), given f and delta = eta - mu xi at W (Eq. erplobj over 1 + gamma).

        The minima are relaxed as in Eqs. subgrad01 and subgrad11: the mean over the classes
        that are tied for one, which is what the algorithm linearises.
        """
        competing = float(namespace(W).sum(delta * f))
        seen = self.equations.loss(W, self.forward)
        return (1 - alpha) * seen + 2 * self.beta * squared_norm(W) + alpha * competing

    def solve(
        self, eta: Array, xi: Array, alpha: float, mu: float, start: Array | None = None
    ) -> tuple[Solution, float]:
        """Solve Eq. erpllinear1, shrinking mu where the operator would be indefinite.

        Classes that are often second best get negative weight in B-hat. As the smallest
        eigenvalue of the operator falls towards zero the solution grows without bound, and
        below zero it is no minimiser at all; mu is then halved, for this step, until enough
        is left of the curvature that there would be without competition. The solver begins at
        `start`, usually the last W.
        """
        B, mu = self._guarded_B(eta, xi, alpha, mu)
        delta = eta - mu * xi
        C = self.C_hat(delta, alpha)
        if not self._a:
            return solve(Factor.zeros(C.shape[0], like=C), B, C), mu
        terms = self._A_terms(delta, alpha)
        return self._A.solve(B, C, **terms, start=start, tol=self.solver_tol), mu

    def _guarded_B(self, eta: Array, xi: Array, alpha: float, mu: float) -> tuple[Factor, float]:
        """Return B-hat, and the mu that leaves it safe."""
        xp = namespace(eta)
        pulled = xp.sum(eta, axis=0)
        contested = pulled - mu * xp.sum(xi, axis=0) if mu else pulled
        B = Factor.of(self._B_hat(contested, alpha))
        # Where every class keeps such a share of its samples, so does B-hat of its eigenvalues;
        # where the reverse error has no weight, no class enters the operator.
        if not self._b or bool(xp.all(contested >= _SAFE_SHARE * pulled)):
            return B, mu
        uncontested = self._B_hat(pulled, alpha)
        lower = self._least_of_A(alpha)
        if self._is_surely_safe(lower, B, uncontested):
            return B, mu
        return self._guarded(lower, B, Factor.of(uncontested), eta, xi, alpha, mu)

    def _guarded(
        self,
        lower: float,
        B: Factor,
        uncontested: Factor,
        eta: Array,
        xi: Array,
        alpha: float,
        mu: float,
    ) -> tuple[Factor, float]:
        """Halve mu until the operator is safe; return B-hat and the mu that made it so."""
        if not self._is_safe(lower, B, uncontested):
            # The bound on A-hat ignores the synthesised samples: look again with all of it.
            A = self.A_hat(eta - mu * xi, alpha)
            lower = float(namespace(A).linalg.eigvalsh(A)[0])
        asked = mu
        while mu > 0 and not self._is_safe(lower, B, uncontested):
            mu = mu / 2 if mu > _SMALLEST_MU * asked else 0.0
            B = Factor.of(self.B_hat(eta - mu * xi, alpha))
        return B, mu

    def _least_of_A(self, alpha: float) -> float:
        """Return a lower bound of the eigenvalues of A-hat: those of the seen classes alone."""
        if not self._a:
            return 0.0
        return self._a * ((1 - alpha) * float(self.equations.factor.values[0]) + self.beta)

    def _is_surely_safe(self, smallest_of_A: float, B: Factor, uncontested: Array) -> bool:
        """Say so where a bound suffices: no eigenvalue is below the smallest diagonal entry."""
        xp = namespace(uncontested)
        diagonal = xp.linalg.diagonal(uncontested)
        bounds = xp.stack([xp.min(diagonal), xp.sum(diagonal)])  # of smallest and largest
        return self._is_safe(smallest_of_A, B, Factor(bounds, None))

    def _is_safe(self, smallest_of_A: float, B: Factor, uncontested: Factor) -> bool:
        """Say whether enough is left of the curvature that mu = 0 would give."""
        without = smallest_of_A + float(uncontested.values[0])
        rounding = B.values.shape[0] * epsilon(B.values) * float(uncontested.values[-1])
        return smallest_of_A + float(B.values[0]) >= max(_SAFE_SHARE * without, rounding)

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
    track: bool = True,
) -> Path:
    """Run Algorithm 1 from the initial projection W^(0) = W.

    `on_step(t, objective, change)` is called after every step, for those who watch. With
    ``track=False`` the objective is not computed, and is NaN.
    """
    alpha, mu = float(alpha), float(mu)

    def value(W: Array, f: Array, delta: Array) -> float:
        return competition.objective(W, f, delta, alpha) if track else float("nan")

    guess = W
    f, eta, xi = competition.weights(W)
    objective = [value(W, f, eta - mu * xi)]
    steps: list[Step] = []
    while len(steps) < max_iter and not (steps and steps[-1].change <= tol):
        alpha_t = DECAY ** len(steps) * alpha
        solution, mu_t = competition.solve(eta, xi, alpha_t, mu, start=guess)
        previous, W = W, solution.value
        # Once samples keep their classes, what moves W is alpha_t, by DECAY times the last move.
        guess = W + DECAY * (W - previous) if steps else W
        f, eta, xi = competition.weights(W)
        steps.append(Step(relative_change(previous, W), alpha_t, mu_t, solution))
        objective.append(value(W, f, eta - mu * xi))
        if on_step is not None:
            on_step(len(steps), objective[-1], steps[-1].change)
    return Path(W, objective, steps, converged=bool(steps) and steps[-1].change <= tol)


def relative_change(before: Array, after: Array) -> float:
    """Return ||after - before||_F / ||before||_F (the numerator alone where `before` is 0)."""
    size = squared_norm(before)
    return (squared_norm(after - before) / (size or 1.0)) ** 0.5
