"""Algorithm 1 for many few-shot episodes at a time (section 4.3 of the paper).

The episodes of a task differ only by the noise in their synthesized samples; tasks over the same
base classes differ by their support sets. All of them take their steps together. One batched
product replaces a loop. The episodes of a task share one eigendecomposition of B-hat and one exact
inverse; a few conjugate gradient steps correct for what is specific to each episode. Indefinite
equations, which conjugate gradients cannot solve, have an inverse per episode.

A support sample enters A-hat, B-hat and C-hat (Eqs. 20 to 22, erplAt0 to erplCt0) like a
synthesized one with a fixed delta: 1 for its own class, 0 for the others. So both sets form one
list of samples, of which the last ones, the labeled, do not compete.

Axes: T tasks, E episodes per task. W is stored transposed, as Z (T, E, k, d), one system per row.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from array_api_compat import device

from ..arrays import Array, epsilon, is_device_array, namespace, one_hot, place_like, to_numpy
from ..threads import available_threads
from .algorithm1 import Algorithm1, B_hat_of, C_hat_rows, Sides, keeps_its_share, lower_mu
from .assignment import Shares, compete, competing_shares, losses
from .lowrank import (
    Operator,
    SharedInverse,
    UpdatedFactor,
    is_cheaper_by_inverse,
    is_cheaper_by_iteration,
    refine_by_inverse,
    refine_in_single,
)
from .projection import NormalEquations
from .sylvester import Status, near_singular_level, solve
from .synthesis import Synthesized

# Conjugate gradient steps, of 4 r d k operations each, that a shared inverse saves.
_SAVED_STEPS = 8
# On a device, a basis serves while class weights differ by at most this share of the largest.
_FAR = 0.1
# Losses of an episode that are summed in blocks: too many for a device, or for a host's cache.
_LARGE, _UNCACHED = 2**22, 2**17
_MANY = 16  # decompositions for which several threads pay off


@dataclass(frozen=True, eq=False)
class _Iterates:
    """Z = W' of every episode and the prototypes Y, in the coordinates of `basis`."""

    Z: Array
    Y: Array
    basis: SemanticBasis | None  # W = Z'V'; None is the identity
    span: EpisodeSpan


class Episodes(Algorithm1):
    """Algorithm 1 for T x E episodes over the same base classes.

    `equations` are those of the base classes, in coordinates in which A0 is diagonal (`Frame`).
    `synthesized` has features (T, E, N_g, d) and targets (T, 1, N_g) or (T, E, N_g). Y_u is
    (T, q, k), and `support` a pair X_u (T, N_u, d) and codes (T, N_u). `solver_tol` is the relative
    error of W that a step may leave, never below rounding; `options` are further parameters of
    `Algorithm1`.
    """

    def __init__(
        self,
        equations: NormalEquations,
        synthesized: Synthesized,
        Y_u: Array,
        support: tuple[Array, Array],
        *,
        solver_tol: float = 5e-7,
        **options: Any,
    ) -> None:
        super().__init__(equations, synthesized, Y_u, **options)
        xp = namespace(Y_u)
        X_u, codes = support
        X_g = synthesized.features
        self.shape = X_g.shape[:2]
        self.solver_tol = max(float(solver_tol), 32 * epsilon(Y_u))
        self.X_u = X_u
        self.X_g = X_g
        self.X = xp.concat([X_g, self._repeat_per_episode(X_u)], axis=2)
        labels = self._repeat_per_episode(one_hot(codes, Y_u.shape[1], like=X_u))
        self._of_support = Shares.from_weights(labels, self._repeat_per_episode(X_u))
        self._bases = SemanticBases(equations.B0, Y_u, beta=self.beta)

    @cached_property
    def _narrow(self) -> Array:
        # Devices are as fast in float64, and may compute float32 in TF32.
        X_g, xp = self.X_g, namespace(self.X_g)
        return X_g if is_device_array(X_g) else xp.astype(X_g, xp.float32)

    @cached_property
    def _squared_norms(self) -> Array:
        return namespace(self.X_g).vecdot(self.X_g, self.X_g)

    def _repeat_per_episode(self, M: Array) -> Array:
        """Repeat M (T, n, m) for all episodes of a task."""
        return namespace(M).broadcast_to(M[:, None, :, :], (*self.shape, *M.shape[1:]))

    def start(self, W: Array) -> _Iterates:
        """Return the state of the loop at W^(0) = W (d x k), the same for all episodes."""
        xp = namespace(W)
        rows = xp.matrix_transpose(W)
        Z = xp.broadcast_to(rows, (*self.shape, *rows.shape))
        return _Iterates(Z, self.Y_u, None, EpisodeSpan(self.X, self.X_u, self.Y_u @ rows))

    def result(self, state: _Iterates) -> Array:
        """Return the mean over the episodes of each task."""
        xp = namespace(state.Z)
        mean = xp.matrix_transpose(xp.mean(state.Z, axis=1))
        return mean if state.basis is None else mean @ xp.matrix_transpose(state.basis.V)

    def weights(self, state: _Iterates) -> tuple[Shares, Shares]:
        """Return eta and xi of all samples, as sums; the support keeps its classes."""
        xp = namespace(state.Z)
        most = _LARGE if is_device_array(self.X_g) else _UNCACHED
        is_large = self.X_g.shape[2] * self.Y_u.shape[1] > most
        eta, xi = self._compete_in_blocks(state) if is_large else self._compete(state)
        support = self._of_support
        of_samples = xp.concat([eta.of_samples, support.of_samples], axis=2)
        of_classes = eta.of_classes + support.of_classes
        eta = Shares(of_samples, of_classes, eta.features + support.features)
        unmoved = xp.zeros_like(support.of_samples)
        return eta, replace(xi, of_samples=xp.concat([xi.of_samples, unmoved], axis=2))

    def _compete(self, state: _Iterates) -> tuple[Shares, Shares]:
        """Return eta and xi of the synthesized samples, of all episodes at a time."""
        xp = namespace(state.Z)
        W = xp.matrix_transpose(state.Z)
        # The same for all classes: rounding it does not change which class is best.
        XW = self._narrow @ xp.astype(W, self._narrow.dtype)
        of_XW = xp.astype(xp.vecdot(XW, XW), W.dtype)
        f = losses(W, self.X_g, state.Y[:, None, :, :], self._squared_norms, of_XW)
        eta, xi = compete(f, self.targets, self.rule, self.tie_tol)
        return Shares.from_weights(eta, self.X_g), Shares.from_weights(xi, self.X_g)

    def _compete_in_blocks(self, state: _Iterates) -> tuple[Shares, Shares]:
        """Return the same, episode by episode and in bounded memory."""
        xp = namespace(state.Z)
        targets = xp.broadcast_to(self.targets, self.X_g.shape[:3])
        found = [
            competing_shares(
                xp.matrix_transpose(state.Z[t, h, :, :]),
                self.X_g[t, h, :, :],
                state.Y[t, :, :],
                targets[t, h, :],
                rule=self.rule,
                tie_tol=self.tie_tol,
            )
            for t, h in np.ndindex(*self.shape)
        ]
        eta, xi = (Shares.stack(own, self.shape) for own in zip(*found, strict=True))
        return eta, xi

    def solve(
        self, state: _Iterates, eta: Shares, xi: Shares, alpha: float, mu: Any, active: np.ndarray
    ) -> tuple[_Iterates, np.ndarray, set[Status]]:
        """Solve Eq. 15 (erpllinear1) of every episode; those that had ended keep their Z."""
        xp = namespace(self.X)
        mT = xp.matrix_transpose
        delta = eta.subtract(xi, xp.asarray(mu, dtype=self.X.dtype, device=device(self.X)))
        basis = self._bases.of(delta.of_classes, alpha, state.basis)
        Z, Y = state.Z, state.Y
        if state.basis is None or basis.V is not state.basis.V:
            turn = mT(basis.V) if state.basis is None else mT(basis.V) @ state.basis.V
            Z, Y = turn[:, None, :, :] @ Z, self.Y_u @ basis.V
        found, statuses = self._solve_together(state.span, basis, delta, alpha, Z)
        change = _relative_changes(Z, found)
        if not active.all():
            found = xp.where(place_like(active, Z)[:, :, None, None], found, Z)
        return _Iterates(found, Y, basis, state.span), change, statuses

    def safe_mu(self, eta: Shares, xi: Shares, alpha: float, mu: float) -> np.ndarray:
        """Return the mu of every episode; those of a task with the same counts share one."""

        def of_group(pulled: Any, pushed: Any, sides: Sides) -> float:
            return lower_mu(pulled, pushed, mu, sides)

        return self._ask_by_counts(eta, xi, alpha, mu, of_group, if_safe=mu)

    def is_definite(self, eta: Shares, xi: Shares, alpha: float, mu: float) -> np.ndarray:
        """Return whether every episode has a definite equation, beyond rounding."""

        def of_one(pulled: Any, pushed: Any, sides: Sides) -> bool:
            return sides.are_definite(pulled - mu * pushed)

        return self._ask_by_counts(eta, xi, alpha, mu, of_one, if_safe=True, together=False)

    def _ask_by_counts(
        self,
        eta: Shares,
        xi: Shares,
        alpha: float,
        mu: float,
        of_group: Callable[[Any, Any, Sides], Any],
        *,
        if_safe: Any,
        together: bool = True,
    ) -> np.ndarray:
        """Evaluate `of_group` for every episode, once per distinct class counts if `together`."""
        found = np.full(self.shape, if_safe)
        if not mu:
            return found
        pulled, pushed = (to_numpy(M.of_classes) for M in (eta, xi))
        of_samples = eta.subtract(xi, mu).of_samples
        for t in range(self.shape[0]):
            if keeps_its_share(pulled[t], pushed[t], mu):
                continue
            counts = np.stack([pulled[t], pushed[t]], axis=1)
            distinct, which = np.unique(counts, axis=0, return_inverse=True)
            for i, (pulls, pushes) in enumerate(distinct):
                group = np.flatnonzero(which.reshape(-1) == i).tolist()
                for episodes in [group] if together else [[h] for h in group]:
                    sides = self._sides(t, episodes, of_samples, alpha)
                    found[t, episodes] = of_group(pulls, pushes, sides)
        return found

    def _sides(self, t: int, episodes: list[int], of_samples: Array, alpha: float) -> Sides:
        """Return what holds for all these episodes of a task, which share their counts."""

        def terms(h: int) -> dict[str, Any]:
            return self.A_terms(of_samples[t, h, :], alpha)

        of_first = terms(episodes[0])
        least = float(self.equations.factor.values[0])
        return Sides(
            B_hat=partial(self._bases.B_hat, t, alpha=alpha),
            least_of_A=of_first["scale"] * least + of_first["shift"],
            A_is_at_least=lambda x: all(
                self._A_of(t, h).is_at_least(x, **terms(h)) for h in episodes
            ),
        )

    def _A_of(self, t: int, h: int) -> UpdatedFactor:
        F = namespace(self.X).matrix_transpose(self.X[t, h, :, :])
        return UpdatedFactor(self.equations.A0, self.equations.factor, F)

    def _solve_together(
        self, span: EpisodeSpan, basis: SemanticBasis, delta: Shares, alpha: float, start: Array
    ) -> tuple[Array, set[Status]]:
        """Return Z of every episode in the basis of its task; conjugate gradients come first."""
        if not self._is_iterative(span):
            return self._solve_one_by_one(basis, delta, alpha)
        xp = namespace(self.X)
        mT = xp.matrix_transpose
        terms = self.A_terms(delta.of_samples, alpha)
        lam = terms["scale"] * self.equations.factor.values + terms["shift"]
        D = lam + basis.values[:, :, None]
        smallest = float(xp.min(D))
        if smallest <= 0 or bool(xp.any(_loses_digits(D))):
            return self._solve_directly(span, basis, delta, alpha)
        Y = (self.Y_u @ basis.V)[:, None, :, :]
        C0 = (mT(basis.V) @ mT(self.equations.C0))[:, None, :, :]
        R = C_hat_rows(C0, Y, delta, alpha)
        G, w = span.update(delta.of_samples, alpha, 0.5 * self.solver_tol * smallest)
        apart = () if basis.apart is None else (Y, basis.apart)
        operator = Operator(D[:, None, :, :], G, w, *apart)
        common = span.common(delta.of_samples)
        inverse = None
        if common is not None:
            D, common = (xp.astype(M, xp.float32) for M in (D, alpha**0.5 * common))
            inverse = SharedInverse(D, common)
        Z, _, converged = refine_in_single(operator, R, start, 0.5 * self.solver_tol, inverse)
        if not converged:
            return self._solve_directly(span, basis, delta, alpha)
        return Z, {Status.SOLVED}

    def _is_iterative(self, span: EpisodeSpan) -> bool:
        """Whether conjugate gradients cost less than one factorization per episode."""
        return span.is_short or is_cheaper_by_iteration(
            self.X.shape[3], self.X.shape[2], self.Y_u.shape[2]
        )

    def _solve_directly(
        self, span: EpisodeSpan, basis: SemanticBasis, delta: Shares, alpha: float
    ) -> tuple[Array, set[Status]]:
        """Return Z of every episode by the Woodbury formula, which needs no definite operator.

        Each episode has the eigenbasis of its own B-hat, so that no systems are coupled. What the
        formula does not solve, or only at a higher cost, is solved by dense factorizations.
        """
        xp = namespace(self.X)
        mT = xp.matrix_transpose
        d, k = self.X.shape[3], self.Y_u.shape[2]
        if not span.is_short or not is_cheaper_by_inverse(d, span.n_directions, k):
            return self._solve_one_by_one(basis, delta, alpha)
        omega, V = self._bases.decompose_episodes(delta.of_classes, alpha)
        terms = self.A_terms(delta.of_samples, alpha)
        D = terms["scale"] * self.equations.factor.values + terms["shift"] + omega[..., None]
        lost = _loses_digits(D)
        D = xp.where(lost[:, :, None, None], xp.ones_like(D), D)
        n = self.shape[0] * self.shape[1]
        G = alpha**0.5 * span.approximation(delta.of_samples)
        inverse = SharedInverse(xp.reshape(D, (n, k, d)), xp.reshape(G, (n, d, G.shape[3])))
        Z, solved = refine_by_inverse(
            Operator(D, mT(self.X), terms["weights"]),
            C_hat_rows(mT(V) @ mT(self.equations.C0), self.Y_u[:, None, :, :] @ V, delta, alpha),
            0.5 * self.solver_tol,
            lambda M: xp.reshape(inverse(xp.reshape(M, (n, 1, k, d))), M.shape),
        )
        Z = mT(basis.V)[:, None, :, :] @ (V @ Z)
        solved = to_numpy(solved) & ~to_numpy(lost)
        if solved.all():
            return Z, {Status.SOLVED}
        dense, statuses = self._solve_one_by_one(basis, delta, alpha, ~solved)
        statuses |= {Status.SOLVED} if solved.any() else set()
        return xp.where(place_like(solved, Z)[:, :, None, None], Z, dense), statuses

    def _solve_one_by_one(
        self, basis: SemanticBasis, delta: Shares, alpha: float, asked: np.ndarray | None = None
    ) -> tuple[Array, set[Status]]:
        """Return Z of every episode by dense factorizations; zeros for those not `asked` for."""
        xp = namespace(self.X)
        mT = xp.matrix_transpose
        rows, statuses = [], set()
        C = C_hat_rows(mT(self.equations.C0), self.Y_u[:, None, :, :], delta, alpha)
        for t, h in np.ndindex(*self.shape):
            if asked is not None and not asked[t, h]:
                rows.append(xp.zeros_like(C[t, h, :, :]))
                continue
            A = self._A_of(t, h).to_dense(**self.A_terms(delta.of_samples[t, h, :], alpha))
            of_classes = to_numpy(delta.of_classes[t, h, :])
            B = place_like(self._bases.B_hat(t, of_classes, alpha), A)
            solution = solve(A, B, mT(C[t, h, :, :]))
            statuses.add(solution.status)
            rows.append(mT(basis.V[t, :, :]) @ mT(solution.value))
        return xp.reshape(xp.stack(rows), (*self.shape, *rows[0].shape)), statuses


def _loses_digits(D: Array) -> Array:
    """Return, per matrix, whether its smallest number loses most digits of the others."""
    xp = namespace(D)
    sizes = xp.abs(D)
    level = near_singular_level(D, xp.max(sizes, axis=(-2, -1)))
    return xp.min(sizes, axis=(-2, -1)) <= level


class EpisodeSpan:
    """Low-rank forms of the updates of A0 by T x E episodes.

    Synthesized samples are deviations of the support set around projected prototypes, plus a
    little noise: they have far fewer directions than samples. With F = X' diag(w)^(1/2) (d x N)
    and an orthonormal S (d x s) that spans support set and projected prototypes, the update F F'
    of A0 is approximated by G G', G = F Q, where Q is an orthonormal basis of F'S (Nystrom). The
    rest, F (I - Q Q') F', is of second order in the noise, and measured.

    X (T, E, N, d) are the samples of the episodes, X_u (T, N_u, d) and `centers` (T, q, d) the
    support sets and the projected prototypes.
    """

    def __init__(self, X: Array, X_u: Array, centers: Array) -> None:
        xp = namespace(X)
        self.X = X
        self._known: _Factors | None = None
        around = xp.matrix_transpose(xp.concat([X_u, centers], axis=1))
        # Almost as many directions as samples or features: nothing to gain.
        self.is_short = 2 * around.shape[-1] <= min(X.shape[-2:])
        if self.is_short:
            self._S, _ = xp.linalg.qr(around)
            self._XS = X @ self._S[:, None, :, :]

    def update(self, weights: Array, scale: float, level: float) -> tuple[Array, Array]:
        """Return G (T, E, d, r) and w (T, E, r) with G diag(w) G' = `scale` X' diag(weights) X.

        The error is at most `level` in norm; if fewer directions cannot reach it, G is X'.
        """
        xp = namespace(weights)
        if self.is_short:
            known = self._factors(weights)
            if scale * known.left_out <= level:
                return known.G, xp.full_like(known.G[:, :, 0, :], scale)
        return xp.matrix_transpose(self.X), scale * weights

    @property
    def n_directions(self) -> int:
        """Number s of directions of support set and projected prototypes."""
        return self._S.shape[-1]

    def approximation(self, weights: Array) -> Array:
        """Return G (T, E, d, s) that approximates X' diag(weights) X by G G', with any error."""
        return self._factors(weights).G

    def common(self, weights: Array) -> Array | None:
        """Return G (T, d, s) of the mean of the episodes, or None if that saves nothing."""
        if not self.is_short:
            return None
        _, E, _, d = self.X.shape
        s = self._S.shape[-1]
        if s + 2 * s * s / d > 4 * _SAVED_STEPS * E:
            return None
        return self._factors(weights).common

    def _factors(self, weights: Array) -> _Factors:
        """Return the factors of these weights, cached because weights rarely change."""
        xp = namespace(weights)
        if self._known is None or not _are_close(self._known.weights, weights):
            mT = xp.matrix_transpose
            weighted = weights[..., None] * self._XS
            FFS, core = mT(self.X) @ weighted, mT(self._XS) @ weighted
            root = _inverse_root(core)
            G = FFS @ root
            rest = xp.sqrt(weights)[..., None] * (self.X - (self._XS @ root) @ mT(G))
            common = xp.mean(FFS, axis=1) @ _inverse_root(xp.mean(core, axis=1))
            self._known = _Factors(weights, G, _largest_eigenvalue(rest @ mT(rest)), common)
        return self._known


@dataclass(frozen=True, eq=False)
class _Factors:
    """Low-rank forms for given weights, and the norm of the rest."""

    weights: Array
    G: Array
    left_out: float
    common: Array


def _are_close(known: Array, weights: Array) -> bool:
    """Whether weights differ by rounding only."""
    xp = namespace(weights)
    return bool(xp.all(xp.abs(weights - known) <= 16 * epsilon(weights)))


def _largest_eigenvalue(gram: Array) -> float:
    """Return a bound of the eigenvalues of positive semidefinite matrices: ||M^4||_tr^(1/4)."""
    xp = namespace(gram)
    square = gram @ gram
    return float(xp.max(xp.sum(square * square, axis=(-2, -1)))) ** 0.25


def _inverse_root(core: Array) -> Array:
    """Return M with M M' the pseudo-inverse of a positive semidefinite matrix."""
    xp = namespace(core)
    values, vectors = xp.linalg.eigh(core)
    rounding = 10 * core.shape[-1] * epsilon(core) * values[..., -1:]
    kept = values > xp.where(rounding > 0, rounding, xp.zeros_like(rounding))
    roots = xp.astype(kept, values.dtype) / xp.sqrt(xp.where(kept, values, xp.ones_like(values)))
    return vectors * roots[..., None, :]


@dataclass(frozen=True, eq=False)
class _Reference:
    """Decompositions of the mean B-hat of T tasks, each with its own alpha and class weights."""

    alpha: np.ndarray
    of_classes: np.ndarray
    values: np.ndarray
    V: np.ndarray


@dataclass(frozen=True, eq=False)
class SemanticBasis:
    """Eigenvalues (T, k) and eigenvectors (T, k, k) of a matrix close to B-hat of each task.

    `apart` (T, E, q) is e_h, the remaining class weights of each episode; None if all are zero.
    """

    values: Array
    V: Array
    apart: Array | None
    reference: _Reference


class SemanticBases:
    """B-hat, Eq. 21 (erplBt0), of T tasks for any class weights, and its eigenbases.

    Small eigendecompositions are slow on a GPU, so they run on the host. There the mean over the
    episodes is diagonalized at every step. On a device, a basis serves while B-hat stays close:

        B-hat_h = tau (B_ref - beta I) + beta I + Y'diag(e_h) Y,
        tau = (1-alpha) / (1-alpha_ref).

    The last term has the rank of the number of classes; conjugate gradients handle it.
    """

    def __init__(self, B0: Array, Y_u: Array, *, beta: float) -> None:
        self._B0, self._Y = to_numpy(B0), to_numpy(Y_u)
        self._like = Y_u
        self._far = _FAR if is_device_array(Y_u) else 0.0
        self._beta = beta

    def B_hat(self, tasks: int | np.ndarray, of_classes: np.ndarray, alpha: float) -> np.ndarray:
        """Return B-hat of some tasks for class weights (..., q), on the host."""
        Y = self._Y[tasks]
        B = B_hat_of(self._B0, Y, of_classes, alpha, beta=self._beta)
        return to_numpy(B)

    def of(self, of_classes: Array, alpha: float, known: SemanticBasis | None) -> SemanticBasis:
        """Return bases for episodes with class weights (T, E, q); reuse known ones if close."""
        counts = to_numpy(of_classes)
        reference = self._update(counts, alpha, None if known is None else known.reference)
        same = known is not None and reference is known.reference
        tau = (1 - alpha) / (1 - reference.alpha)
        values = tau[:, None] * (reference.values - self._beta) + self._beta
        apart = self._measure_distance(counts, alpha, reference)
        rounding = 64 * np.finfo(counts.dtype).eps * np.abs(counts).max(initial=1.0)
        return SemanticBasis(
            self._place(values),
            known.V if same and known is not None else self._place(reference.V),
            None if np.abs(apart).max() <= rounding else self._place(apart),
            reference,
        )

    def decompose_episodes(self, of_classes: Array, alpha: float) -> tuple[Array, Array]:
        """Return eigenvalues (T, E, k) and eigenvectors (T, E, k, k) of B-hat of every episode.

        Episodes of a task with the same class weights share a decomposition.
        """
        counts = to_numpy(of_classes)
        T, E, q = counts.shape
        tasks = np.repeat(np.arange(T), E)
        rows = np.column_stack([tasks, counts.reshape(T * E, q)])
        _, first, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        B = self.B_hat(tasks[first], counts.reshape(T * E, q)[first], alpha)
        xp, which = namespace(of_classes), place_like(which.reshape(-1), of_classes)
        values, V = (xp.take(self._place(M), which, axis=0) for M in _decompose(B))
        k = values.shape[1]
        return xp.reshape(values, (T, E, k)), xp.reshape(V, (T, E, k, k))

    def _place(self, M: np.ndarray) -> Array:
        """Return host numbers on the device of the prototypes, in their dtype."""
        return place_like(M.astype(self._Y.dtype, copy=False), self._like)

    def _measure_distance(
        self, counts: np.ndarray, alpha: float, reference: _Reference
    ) -> np.ndarray:
        """Return e_h of every episode."""
        tau = (1 - alpha) / (1 - reference.alpha)
        known = (tau * reference.alpha)[:, None] * reference.of_classes
        return alpha * counts - known[:, None, :]

    def _update(self, counts: np.ndarray, alpha: float, known: _Reference | None) -> _Reference:
        """Diagonalize again for the tasks that are no longer close to what is known."""
        mean = counts.mean(axis=1)
        if known is None:
            T, q = mean.shape
            k = len(self._B0)
            nothing = np.empty((T, k)), np.empty((T, k, k))
            known, far = _Reference(np.empty(T), np.empty((T, q)), *nothing), np.full(T, True)
        else:
            gone = np.abs(self._measure_distance(counts, alpha, known)).max(axis=(1, 2))
            weights = known.alpha * np.abs(known.of_classes).max(axis=1)
            far = gone > self._far * weights
        if not far.any():
            return known
        parts = known.alpha, known.of_classes, known.values, known.V
        alphas, of_classes, values, V = (part.copy() for part in parts)
        alphas[far], of_classes[far] = alpha, mean[far]
        values[far], V[far] = _decompose(self.B_hat(np.flatnonzero(far), mean[far], alpha))
        return _Reference(alphas, of_classes, values, V)


def _decompose(M: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvalues and eigenvectors of a stack of symmetric matrices."""
    if len(M) < _MANY:
        return np.linalg.eigh(M)
    workers = available_threads()
    with ThreadPoolExecutor(workers) as pool:
        found = list(pool.map(np.linalg.eigh, np.array_split(M, min(workers, len(M)))))
    values, V = zip(*found, strict=True)
    return np.concatenate(values), np.concatenate(V)


def _relative_changes(before: Array, after: Array) -> np.ndarray:
    """Return ||after - before||_F / ||before||_F per episode, or the numerator if that is 0."""
    xp = namespace(before)
    lengths = [to_numpy(xp.sum(xp.vecdot(M, M), axis=-1)) for M in (after - before, before)]
    return np.sqrt(lengths[0] / np.where(lengths[1] > 0, lengths[1], 1.0))
