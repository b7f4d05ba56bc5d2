"""The exact inverse of one operator, as a preconditioner for many that are close to it.

By the formula of Woodbury the operator Z -> D * Z + Z G G', whose rows are systems of their own,
has the inverse

    z_j = (r_j - v_j G') / D_j,      v_j = (r_j / D_j) G S_j^-1,      S_j = I + G' diag(D_j)^-1 G,

with one matrix S_j (r x r) for each row. Where many problems differ by little, one set of these
serves them all.
"""

from __future__ import annotations

from .arrays import Array, namespace


class SharedInverse:
    """The inverse of Z -> D * Z + Z G G', applied to any number of problems at a time.

    Parameters
    ----------
    D : array of shape (T, k, d)
        Positive.
    G : array of shape (T, d, r)
    """

    def __init__(self, D: Array, G: Array) -> None:
        xp = namespace(D)
        T, k, d = D.shape
        r = G.shape[2]
        self.D = D[:, None, :, :]
        self.G = G[:, None, :, :]
        # All S_j at once, as one product: entry (a, b) of S_j is sum_i G_ia G_ib / D_ji.
        squares = xp.reshape(G[:, :, :, None] * G[:, :, None, :], (T, d, r * r))
        S = xp.reshape((1 / D) @ squares, (T, k, r, r))
        identity = xp.eye(r, dtype=D.dtype, device=D.device)
        self._S_inverse = xp.linalg.inv(S + identity)

    def __call__(self, R: Array) -> Array:
        """Return the solution for right-hand sides R of shape (T, E, k, d)."""
        xp = namespace(R)
        Z = R / self.D
        # Systems in front and problems behind: each S_j meets all of its right-hand sides at once.
        V = xp.permute_dims(Z @ self.G, (0, 2, 1, 3)) @ self._S_inverse
        correction = xp.permute_dims(V, (0, 2, 1, 3)) @ xp.matrix_transpose(self.G)
        correction /= self.D
        Z -= correction
        return Z
