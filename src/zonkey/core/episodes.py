"""Algorithm 1 for many few-shot episodes at a time (section 4.3 of the paper).

The episodes of a task differ by the noise in their synthesized samples alone, and tasks over the
same base classes by their support sets. All of them take their steps together: one batched product
in place of a loop, one eigendecomposition of B-hat and one exact inverse a task for all of its
episodes, which a few conjugate gradients then correct for what is particular to each.

A support sample enters A-hat, B-hat and C-hat (Eqs. erplAt0 to erplCt0) exactly as a synthesized
one whose delta is fixed: 1 for its own class, 0 for the others. So the two sets are one list of
samples here, of which the labeled, the last, do not compete.

Axes: T tasks, E episodes of each. W is kept transposed, as Z (T, E, k, d), one system a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from array_api_compat import device

from ..linalg.arrays import (
    Array,
    epsilon,
    full_single_precision,
    is_device_array,
    namespace,
    placed_like,
    to_numpy,
)
from ..linalg.conjugate import Operator, refine_in_single
from ..linalg.lowrank import UpdatedFactor, is_cheaper_by_iteration
from ..linalg.shared import SharedInverse
from ..linalg.sylvester import Status, solve
from . import assignment
from .assignment import Rule
from .competition import DECAY
from .guard import keeps_its_share, safe_mu
from .projection import NormalEquations
from .semantic_basis import SemanticBases, SemanticBasis
from .span import EpisodeSpan
from .synthesis import Synthesized


@dataclass(frozen=True, eq=False)
class Course:
    """How the episodes went.

    Attributes
    ----------
    W : array of shape (T, d, k)
        Mean over the episodes of each task.
    changes, mu : ndarrays of shape (steps, T, E)
        Relative change of W and the mu used; NaN where an episode had ended before.
    statuses : set of Status
        Of all equations solved.
    """

    W: Array
    changes: np.ndarray
    mu: np.ndarray
    statuses: set[Status]


class Episodes:
    """The fixed raw material of T x E episodes over the same base classes.

    Parameters
    ----------
    equations : NormalEquations
        Of the base classes, in coordinates where A0 is diagonal (`Frame`).
    synthesized : Synthesized
        Features of shape (T, E, N_g, d); targets of shape (T, 1, N_g) or (T, E, N_g).
    Y_u : array of shape (T, q, k)
    support : tuple of arrays (X_u, codes)
        Of shape (T, N_u, d) and (T, N_u).
    beta, tie_tol, rule, forward
        As for `Competition`.
    solver_tol : float, default=5e-7
        Relative error of W that a step may leave; never less than rounding does.
    """

    def __init__(
        self,
        equations: NormalEquations,
        synthesized: Synthesized,
        Y_u: Array,
        support: tuple[Array, Array],
        *,
        beta: float,
        tie_tol: float = 1e-3,
        rule: Rule = "second-best",
        solver_tol: float = 5e-7,
        forward: float = 0.5,
    ) -> None:
        xp = namespace(Y_u)
        X_u, codes = support
        X_g = synthesized.features
        self.shape = X_g.shape[:2]
        self.equations = equations
        self.forward = float(forward)
        self._a, self._b = 2 * self.forward, 2 - 2 * self.forward
        self.beta = float(beta)
        self.tie_tol = tie_tol
        self.rule: Rule = rule
        self.solver_tol = max(float(solver_tol), 32 * epsilon(Y_u))
        self.targets = synthesized.targets
        self.Y_u = Y_u
        self.X_u = X_u
        self.X_g = X_g
        self.X = xp.concat([X_g, self._for_all_episodes(X_u)], axis=2)
        # A device may have been told to cut float32 short, and is as fast in float64.
        self._narrow = X_g if is_device_array(X_g) else xp.astype(X_g, xp.float32)
        own = assignment.assigned(codes, Y_u.shape[1], like=X_u)
        self._labels = self._for_all_episodes(own)
        self._squared_norms = xp.vecdot(X_g, X_g)
        self._bases = SemanticBases(equations.B0, Y_u, weight=self._b, beta=self.beta)

    def _for_all_episodes(self, M: Array) -> Array:
        """Repeat what the episodes of a task have in common, M of shape (T, n, m)."""
        return namespace(M).broadcast_to(M[:, None, :, :], (*self.shape, *M.shape[1:]))

    def weights(self, Z: Array, Y: Array) -> tuple[Array, Array]:
        """Return eta and xi at W = Z', synthesized samples first, shape (T, E, N, q).

        Z and the prototypes Y (T, q, k) may be in any basis of the semantic space.
        """
        xp = namespace(Z)
        W = xp.matrix_transpose(Z)
        # The same for all classes, so that rounding it does not change which of them is best.
        XW = self._narrow @ xp.astype(W, self._narrow.dtype)
        of_XW = xp.astype(xp.vecdot(XW, XW), Z.dtype)
        f = assignment.losses(
            W, self.X_g, Y[:, None, :, :], self._squared_norms, of_XW, forward=self.forward
        )
        eta, xi = assignment.compete(f, self.targets, self.rule, self.tie_tol)
        eta = xp.concat([eta, self._labels], axis=2)
        return eta, xp.concat([xi, xp.zeros_like(self._labels)], axis=2)

    def learn(self, W: Array, *, alpha: float, mu: float, max_iter: int, tol: float) -> Course:
        """Run Algorithm 1 from W^(0) = W (d x k), the same for all episodes."""
        with full_single_precision(W):
            return self._learn(W, float(alpha), float(mu), max_iter, tol)

    def _learn(self, W: Array, alpha: float, mu: float, max_iter: int, tol: float) -> Course:
        xp = namespace(W)
        mT = xp.matrix_transpose
        Z, Y = xp.broadcast_to(mT(W), (*self.shape, W.shape[1], W.shape[0])), self.Y_u
        basis = None  # of the coordinates of Z and Y: W = Z'V', None for the identity
        span = EpisodeSpan(self.X, self.X_u, self.Y_u @ mT(W))
        active = np.full(self.shape, True)
        changes, used, statuses = [], [], set()
        while len(changes) < max_iter and active.any():
            alpha_t = DECAY ** len(changes) * alpha
            eta, xi = self.weights(Z, Y)
            mu_t = self._safe_mu(eta, xi, alpha_t, mu)
            delta = eta - self._on_device(mu_t)[:, :, None, None] * xi
            previous, basis = basis, self._bases.of(xp.sum(delta, axis=2), alpha_t, basis)
            if basis.V is not (None if previous is None else previous.V):
                turn = mT(basis.V) if previous is None else mT(basis.V) @ previous.V
                Z, Y = turn[:, None, :, :] @ Z, self.Y_u @ basis.V
            found, status = self._solve(span, basis, delta, alpha_t, Z)
            statuses |= status
            change = _relative_changes(Z, found)
            Z = found if active.all() else self._where(active, found, Z)
            changes.append(np.where(active, change, np.nan))
            used.append(np.where(active, mu_t, np.nan))
            active = active & (change > tol)
        mean = mT(xp.mean(Z, axis=1))
        mean = mean if basis is None else mean @ mT(basis.V)
        none = np.empty((0, *self.shape))
        return Course(mean, np.array(changes or none), np.array(used or none), statuses)

    def _where(self, active: np.ndarray, found: Array, Z: Array) -> Array:
        """Return what was found for active episodes, and Z for those that had ended before."""
        mask = placed_like(active, Z)[:, :, None, None]
        return namespace(Z).where(mask, found, Z)

    def _on_device(self, values: np.ndarray) -> Array:
        xp = namespace(self.X)
        return xp.asarray(values, dtype=self.X.dtype, device=device(self.X))

    def _terms(self, alpha: float) -> tuple[float, float]:
        """Return scale and shift of A0 in A-hat."""
        return self._a * (1 - alpha), self._a * self.beta

    def _safe_mu(self, eta: Array, xi: Array, alpha: float, mu: float) -> np.ndarray:
        """Return the mu of every episode; those of a task with the same counts share one."""
        xp = namespace(eta)
        asked = np.full(self.shape, mu)
        if not mu or not self._b:
            return asked
        pulled, pushed = (to_numpy(xp.sum(M, axis=2)) for M in (eta, xi))
        for t in range(self.shape[0]):
            if keeps_its_share(pulled[t], pushed[t], mu):
                continue
            counts = np.stack([pulled[t], pushed[t]], axis=1)
            distinct, which = np.unique(counts, axis=0, return_inverse=True)
            for i, pair in enumerate(distinct):
                episodes = np.flatnonzero(which.reshape(-1) == i)
                asked[t, episodes] = self._safe_mu_of(t, episodes, pair, eta, xi, alpha, mu)
        return asked

    def _safe_mu_of(
        self,
        t: int,
        episodes: np.ndarray,
        counts: np.ndarray,
        eta: Array,
        xi: Array,
        alpha: float,
        mu: float,
    ) -> float:
        """Return a mu that is safe for all these episodes of a task, which share their counts."""
        xp = namespace(eta)
        scale, shift = self._terms(alpha)

        def is_at_least(x: float, h: int) -> bool:
            of_samples = xp.sum(eta[t, h, :, :] - mu * xi[t, h, :, :], axis=-1)
            weights = self._a * alpha * of_samples
            return self._A(t, h).is_at_least(x, scale=scale, shift=shift, weights=weights)

        least = scale * float(self.equations.factor.values[0]) + shift
        pulled, pushed = counts
        return safe_mu(
            pulled,
            pushed,
            mu,
            B_hat=partial(self._bases.B_hat, t, alpha=alpha),
            least_of_A=least,
            A_is_at_least=lambda x: all(is_at_least(x, h) for h in episodes.tolist()),
        )

    def _A(self, t: int, h: int) -> UpdatedFactor:
        F = namespace(self.X).matrix_transpose(self.X[t, h, :, :])
        return UpdatedFactor(self.equations.A0, self.equations.factor, F)

    def _solve(
        self, span: EpisodeSpan, basis: SemanticBasis, delta: Array, alpha: float, start: Array
    ) -> tuple[Array, set[Status]]:
        """Solve Eq. erpllinear1 of every episode in the basis of its task, from Z = `start`."""
        xp = namespace(delta)
        mT = xp.matrix_transpose
        scale, shift = self._terms(alpha)
        D = scale * self.equations.factor.values + shift + basis.values[:, :, None]
        smallest = float(xp.min(D))
        singular = smallest <= epsilon(D) ** 0.75 * float(xp.max(xp.abs(D)))
        if singular or not self._is_iterative(span):
            return self._solve_directly(basis, delta, alpha)
        Y = (self.Y_u @ basis.V)[:, None, :, :]
        R = 2 * (1 - alpha) * (mT(basis.V) @ mT(self.equations.C0))
        R = R[:, None, :, :] + 2 * alpha * (mT(Y) @ (mT(delta) @ self.X))
        weight = self._a * alpha
        of_samples = xp.sum(delta, axis=-1)
        G, w = span.update(of_samples, weight, 0.5 * self.solver_tol * smallest)
        apart = () if basis.apart is None else (Y, basis.apart)
        operator = Operator(D[:, None, :, :], G, w, *apart)
        common = span.common(of_samples)
        inverse = None
        if common is not None:
            D, common = (xp.astype(M, xp.float32) for M in (D, weight**0.5 * common))
            inverse = SharedInverse(D, common)
        Z, _, converged = refine_in_single(operator, R, start, 0.5 * self.solver_tol, inverse)
        if not converged:
            return self._solve_directly(basis, delta, alpha)
        return Z, {Status.SOLVED}

    def _is_iterative(self, span: EpisodeSpan) -> bool:
        """Say whether conjugate gradients cost less than a factorization for each episode."""
        return span.is_short or is_cheaper_by_iteration(
            self.X.shape[3], self.X.shape[2], self.Y_u.shape[2]
        )

    def _solve_directly(
        self, basis: SemanticBasis, delta: Array, alpha: float
    ) -> tuple[Array, set[Status]]:
        """Do the same one by one, by dense factorizations."""
        xp = namespace(delta)
        mT = xp.matrix_transpose
        scale, shift = self._terms(alpha)
        rows, statuses = [], set()
        for t in range(self.shape[0]):
            for h in range(self.shape[1]):
                own = delta[t, h, :, :]
                weights = self._a * alpha * xp.sum(own, axis=-1)
                A = self._A(t, h).dense(scale=scale, shift=shift, weights=weights)
                of_classes = to_numpy(xp.sum(own, axis=0))
                B = placed_like(self._bases.B_hat(t, of_classes, alpha), A)
                C = 2 * (1 - alpha) * self.equations.C0
                C = C + 2 * alpha * ((mT(self.X[t, h, :, :]) @ own) @ self.Y_u[t, :, :])
                solution = solve(A, B, C)
                statuses.add(solution.status)
                rows.append(mT(basis.V[t, :, :]) @ mT(solution.value))
        return xp.reshape(xp.stack(rows), (*self.shape, *rows[0].shape)), statuses


def _relative_changes(before: Array, after: Array) -> np.ndarray:
    """Return ||after - before||_F / ||before||_F of every episode (over 1 where that is 0)."""
    xp = namespace(before)
    lengths = [to_numpy(xp.sum(xp.vecdot(M, M), axis=-1)) for M in (after - before, before)]
    return np.sqrt(lengths[0] / np.where(lengths[1] > 0, lengths[1], 1.0))
