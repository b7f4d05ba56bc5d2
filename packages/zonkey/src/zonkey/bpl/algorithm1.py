"""Algorithm 1 of the paper: competitive bidirectional projection learning (section 3.3).

With gamma = alpha/(1-alpha) and nu = beta (1+gamma), Eq. 2 (erplobj) divided by 1 + gamma is

    F(W) = (1-alpha) sum_s (||W'x - y||^2 + ||x - W y||^2) + 2 beta ||W||^2
           + alpha sum_g (min_j f_ij - mu min_{j not in j(i)} f_ij),

where f_ij is the loss of giving sample i to class j. Both minima are linearized at W^(t) as
sum_j delta_ij f_ij with delta = eta - mu xi (Eqs. 5 to 7). The next W makes the gradient vanish:
Eq. 8 (erpllinear) with Eqs. 9 to 11, the Sylvester equation A-hat W + W B-hat = C-hat.

`learn` is the loop over an `Algorithm1`. `Competition` solves one large equation per step,
`Episodes` (core/episodes.py) many small ones together. Leading axes of arrays are separate
problems.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..arrays import Array, epsilon, full_single_precision, identity_like, namespace, squared_norm
from .assignment import Rule, Shares, competing_shares
from .lowrank import UpdatedFactor
from .projection import NormalEquations
from .sylvester import Solution, Status
from .symmetric import Factor
from .synthesis import Synthesized

DECAY = 0.99  # alpha_t = 0.99^t alpha
MAX_ITER = 5  # "converges very quickly (t <= 5)"
_SMALLEST_MU = 1e-3  # share of mu below which the guard drops competition
# Share of the curvature without competition that the guard keeps. With less, the equation is about
# to lose definiteness: hardly more steps pass, and their solutions grow by orders of magnitude.
_SAFE_SHARE = 0.05

OnStep = Callable[[int, float, float], None]


@dataclass(frozen=True, eq=False)
class Course:
    """The projection found, and the steps that led to it.

    Attributes
    ----------
    W : array of shape (d, k)
        For episodes, the mean over the episodes of each task, shape (T, d, k).
    changes : ndarray of shape (n_steps, ...)
        Relative change of W per step; NaN after an episode has ended.
    mu : ndarray of shape (n_steps, ...)
        mu per step, smaller than requested if the guard lowered it.
    indefinite : ndarray of shape (n_steps, ...)
        Whether the equation of a step was indefinite; never with the guard.
    objective : list of float
        F at W^(0) and after every step, all with the requested alpha: values with different
        alpha_t would not compare. Empty for episodes.
    statuses : set of Status
        Of all equations solved.
    converged : bool
        Whether the last change was at most `tol`.
    """

    W: Array
    changes: np.ndarray
    mu: np.ndarray
    objective: list[float]
    statuses: set[Status]
    converged: bool
    indefinite: np.ndarray = field(default_factory=lambda: np.empty(0, bool))


def learn(
    problem: Algorithm1,
    W: Array,
    *,
    alpha: float,
    mu: float,
    max_iter: int | None = None,
    tol: float = 1e-4,
    guard: bool = True,
    decay: float = DECAY,
    on_step: OnStep | None = None,
) -> Course:
    """Run Algorithm 1 from the initial projection W^(0) = W, by default for 5 steps.

    alpha is multiplied by `decay` after every step.
    `guard` lowers mu in steps whose equation would lose its curvature. Without it mu stays, and
    indefinite equations are counted. `on_step(t, objective, change)` is called after every step.
    """
    alpha, mu = float(alpha), float(mu)
    max_iter = MAX_ITER if max_iter is None else max_iter
    active, converged = np.full(problem.shape, True), np.full(problem.shape, False)
    objective, changes, used, indefinite = [], [], [], []
    statuses: set[Status] = set()
    with full_single_precision(W):
        state = problem.start(W)
        while True:
            done = len(changes) >= max_iter or not active.any()
            if done and not problem.has_objective:
                break
            eta, xi = problem.weights(state)
            if problem.has_objective:
                objective.append(problem.objective(state.W, eta.subtract(xi, mu), alpha))
                if changes and on_step is not None:
                    on_step(len(changes), objective[-1], float(changes[-1]))
            if done:
                break
            alpha_t = decay ** len(changes) * alpha
            mu_t: Any = problem.safe_mu(eta, xi, alpha_t, mu) if guard else mu
            lost = False if guard else ~problem.is_definite(eta, xi, alpha_t, mu)
            state, change, solved = problem.solve(state, eta, xi, alpha_t, mu_t, active)
            statuses |= solved
            changes.append(np.where(active, change, np.nan))
            used.append(np.where(active, mu_t, np.nan))
            indefinite.append(active & lost)
            converged |= active & (change <= tol)
            active = active & (change > tol)
        W = problem.result(state)

    def stack(steps: list[Any], dtype: type) -> np.ndarray:
        return np.array(steps, dtype).reshape(len(steps), *problem.shape)

    return Course(
        W,
        stack(changes, float),
        stack(used, float),
        objective,
        statuses,
        converged=bool(converged.all()),
        indefinite=stack(indefinite, bool),
    )


@dataclass(frozen=True, eq=False)
class _Iterate:
    """W^(t), and the last move W^(t) - W^(t-1) from the second step on."""

    W: Array
    is_initial: bool = True
    move: Array | None = None


class Algorithm1(ABC):
    """Fixed data of Algorithm 1, and the steps that `learn` takes with it.

    `equations` has A0, B0 and C0 of the seen samples, `synthesized` has X_g and the class each
    sample was made for, Y_u is (..., q, k). `tie_tol` is epsilon of Eqs. 16 (subgrad01) and 17
    (subgrad11).
    """

    has_objective = False
    shape: tuple[int, ...] = ()  # of the problems solved together

    def __init__(
        self,
        equations: NormalEquations,
        synthesized: Synthesized,
        Y_u: Array,
        *,
        beta: float,
        tie_tol: float = 1e-3,
        rule: Rule = "second-best",
    ) -> None:
        self.equations = equations
        self.X = synthesized.features
        self.targets = synthesized.targets
        self.Y_u = Y_u
        self.beta = float(beta)  # a NumPy scalar would turn float32 arrays into float64
        self.tie_tol = tie_tol
        self.rule: Rule = rule

    @abstractmethod
    def start(self, W: Array) -> Any:
        """Return the state of the loop at W^(0)."""

    @abstractmethod
    def result(self, state: Any) -> Array:
        """Return the projection of a state."""

    @abstractmethod
    def weights(self, state: Any) -> tuple[Shares, Shares]:
        """Return eta and xi at the current W."""

    @abstractmethod
    def safe_mu(self, eta: Shares, xi: Shares, alpha: float, mu: float) -> Any:
        """Return mu, or less if the equation would lose its curvature."""

    @abstractmethod
    def is_definite(self, eta: Shares, xi: Shares, alpha: float, mu: float) -> np.ndarray:
        """Return whether the equation with this mu is positive definite, beyond rounding."""

    @abstractmethod
    def solve(
        self, state: Any, eta: Shares, xi: Shares, alpha: float, mu: Any, active: np.ndarray
    ) -> tuple[Any, np.ndarray, set[Status]]:
        """Solve Eq. 15 (erpllinear1); return the next state, the relative change and statuses."""

    def objective(self, W: Array, delta: Shares, alpha: float) -> float:
        """Return F(W), if the problem records it (`has_objective`)."""
        del W, delta, alpha
        return float("nan")

    def A_terms(self, of_samples: Array, alpha: float) -> dict[str, Any]:
        """Return scale, shift and weights of A-hat = scale A0 + shift I + X' diag(weights) X.

        This is Eq. 12 (erplAt), and Eq. 20 (erplAt0) with support samples among X, with
        `of_samples`, sum_j delta_ij, in place of the printed 1 - mu. They are equal if there is a
        second best. If there is none, only the sum makes the gradient vanish.
        """
        return {"scale": 1 - alpha, "shift": self.beta, "weights": alpha * of_samples}


class Competition(Algorithm1):
    """Algorithm 1 for one problem, by one large Sylvester equation per step.

    X_g has the shape (N_g, d) and Y_u the shape (q, k).
    """

    has_objective = True

    def start(self, W: Array) -> _Iterate:
        """Return W^(0), without a last move."""
        return _Iterate(W)

    @cached_property
    def _A(self) -> UpdatedFactor:
        F = namespace(self.X).matrix_transpose(self.X)
        return UpdatedFactor(self.equations.A0, self.equations.factor, F)

    def result(self, state: _Iterate) -> Array:
        """Return W."""
        return state.W

    def weights(self, state: _Iterate) -> tuple[Shares, Shares]:
        """Return eta and xi at W, as sums."""
        rules: dict[str, Any] = {"rule": self.rule, "tie_tol": self.tie_tol}
        return competing_shares(state.W, self.X, self.Y_u, self.targets, **rules)

    def A_hat(self, delta: Shares, alpha: float) -> Array:
        """Eq. 12 (erplAt) as a matrix."""
        return self._A.to_dense(**self.A_terms(delta.of_samples, alpha))

    def B_hat(self, of_classes: Array, alpha: float) -> Array:
        """Eq. 13 (erplBt), given the sums of delta over the samples."""
        return B_hat_of(self.equations.B0, self.Y_u, of_classes, alpha, beta=self.beta)

    def C_hat(self, delta: Shares, alpha: float) -> Array:
        """Eq. 14 (erplCt)."""
        mT = namespace(self.Y_u).matrix_transpose
        return mT(C_hat_rows(mT(self.equations.C0), self.Y_u, delta, alpha))

    def objective(self, W: Array, delta: Shares, alpha: float) -> float:
        """Return F(W), Eq. 2 (erplobj) over 1 + gamma, given delta = eta - mu xi at W.

        The minima are relaxed as in Eqs. 16 (subgrad01) and 17 (subgrad11): the mean over tied
        classes, which is what the algorithm linearizes.
        """
        seen = self.equations.loss(W)
        return (1 - alpha) * seen + 2 * self.beta * squared_norm(W) + alpha * delta.loss

    def solve(
        self, state: _Iterate, eta: Shares, xi: Shares, alpha: float, mu: Any, active: np.ndarray
    ) -> tuple[_Iterate, np.ndarray, set[Status]]:
        """Solve Eq. 15 (erpllinear1), starting where the last moves point to."""
        del active  # a single problem is active while the loop runs
        # Once samples keep their classes, W moves only by alpha_t: DECAY times the last move.
        start = state.W if state.move is None else state.W + DECAY * state.move
        solution = self.solution(eta.subtract(xi, mu), alpha, start)
        W = solution.value
        following = _Iterate(W, False, None if state.is_initial else W - state.W)
        return following, np.asarray(relative_change(state.W, W)), {solution.status}

    def solution(self, delta: Shares, alpha: float, start: Array | None = None) -> Solution:
        """Solve Eq. 15 (erpllinear1) for given weights; an iterative solver begins at `start`."""
        B, C = Factor.from_matrix(self.B_hat(delta.of_classes, alpha)), self.C_hat(delta, alpha)
        return self._A.solve(B, C, **self.A_terms(delta.of_samples, alpha), start=start)

    def safe_mu(self, eta: Shares, xi: Shares, alpha: float, mu: float) -> float:
        """Return mu, or less if A-hat and B-hat would leave too little curvature."""
        sides = self._sides(eta, xi, alpha, mu)
        return lower_mu(eta.of_classes, xi.of_classes, mu, sides)

    def is_definite(self, eta: Shares, xi: Shares, alpha: float, mu: float) -> np.ndarray:
        """Return whether no eigenvalue of A-hat is the negative of one of B-hat, or less."""
        if keeps_its_share(eta.of_classes, xi.of_classes, mu):
            return np.asarray(True)
        sides = self._sides(eta, xi, alpha, mu)
        return np.asarray(sides.are_definite(eta.subtract(xi, mu).of_classes))

    def _sides(self, eta: Shares, xi: Shares, alpha: float, mu: float) -> Sides:
        terms = self.A_terms(eta.subtract(xi, mu).of_samples, alpha)
        return Sides(
            B_hat=lambda of_classes: self.B_hat(of_classes, alpha),
            least_of_A=terms["scale"] * float(self.equations.factor.values[0]) + terms["shift"],
            A_is_at_least=lambda x: self._A.is_at_least(x, **terms),
        )


def B_hat_of(B0: Array, Y_u: Array, of_classes: Array, alpha: float, *, beta: float) -> Array:
    """Eqs. 13 (erplBt) and 21 (erplBt0), given the weights (..., q) of the classes Y_u (..., q, k).

    `of_classes` sums delta over the samples; labeled support samples count 1 for their class.
    """
    weighted = namespace(Y_u).matrix_transpose(Y_u) @ (of_classes[..., None] * Y_u)
    return (1 - alpha) * B0 + alpha * weighted + beta * identity_like(B0)


def C_hat_rows(C0_rows: Array, Y_u: Array, delta: Shares, alpha: float) -> Array:
    """Eqs. 14 (erplCt) and 22 (erplCt0), transposed: one row per semantic dimension."""
    mT = namespace(Y_u).matrix_transpose
    return 2 * (1 - alpha) * C0_rows + 2 * alpha * (mT(Y_u) @ delta.features)


@dataclass(frozen=True, eq=False)
class Sides:
    """The questions of the guard about the operator W -> A-hat W + W B-hat.

    `B_hat` takes class weights to B-hat. `least_of_A` is a lower bound of the eigenvalues of A-hat.
    If it does not decide, `A_is_at_least` says whether no eigenvalue of A-hat is below a number.
    """

    B_hat: Callable[[Any], Array]
    least_of_A: float
    A_is_at_least: Callable[[float], bool]

    def are_definite(self, of_classes: Array, uncontested: Array | None = None) -> bool:
        """Whether all eigenvalues of the operator exceed rounding.

        If those of B-hat without competition are given (`uncontested`), also whether the operator
        keeps a share of its curvature without competition.
        """
        values = self.eigenvalues_of_B(of_classes)
        least = float(values[0])
        without = values if uncontested is None else uncontested
        rounding = values.shape[0] * epsilon(values) * float(without[-1])
        needed = rounding - least
        if uncontested is not None:
            share = _SAFE_SHARE * float(uncontested[0]) - least
            needed = max(needed, share / (1 - _SAFE_SHARE))
        return self.least_of_A >= needed or self.A_is_at_least(needed)

    def eigenvalues_of_B(self, of_classes: Array) -> Array:
        """Return the eigenvalues of B-hat, in ascending order."""
        return namespace(of_classes).linalg.eigvalsh(self.B_hat(of_classes))


def lower_mu(pulled: Array, pushed: Array, mu: float, sides: Sides) -> float:
    """Return mu, or the first of its halves that leaves enough curvature; 0 if none does.

    Classes that are often second best get negative weight in B-hat. As the smallest eigenvalue of
    the operator W -> A-hat W + W B-hat approaches zero the solution grows without bound; below
    zero it is not a minimizer. So every step keeps a twentieth of the curvature without
    competition. `pulled` and `pushed` (q) are the sums of eta and xi over the samples.
    """
    if keeps_its_share(pulled, pushed, mu):
        return mu
    uncontested = sides.eigenvalues_of_B(pulled)
    asked = mu
    while mu > 0 and not sides.are_definite(pulled - mu * pushed, uncontested):
        mu = mu / 2 if mu > _SMALLEST_MU * asked else 0.0
    return mu


def keeps_its_share(pulled: Array, pushed: Array, mu: float) -> bool:
    """Whether every class keeps enough of its samples for B-hat to keep its curvature."""
    return not mu or bool(namespace(pulled).all(pulled - mu * pushed >= _SAFE_SHARE * pulled))


def relative_change(before: Array, after: Array) -> float:
    """Return ||after - before||_F / ||before||_F, or the numerator if `before` is 0."""
    size = squared_norm(before)
    return (squared_norm(after - before) / (size or 1.0)) ** 0.5
