"""Time of one fit on AwA-shaped data, relative to the same algorithm with SciPy's solver.

Both implementations compute the same moments, synthesize the same samples and take the same five
steps of Algorithm 1. The baseline solves each equation with scipy.linalg.solve_sylvester.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import solve_sylvester

from recording import save, save_markdown, show
from zonkey import Moments, Prototypes, ZeroShotClassifier
from zonkey.bpl.algorithm1 import DECAY, Competition
from zonkey.bpl.projection import NormalEquations
from zonkey.bpl.synthesis import synthesize

N, D, K, SEEN, UNSEEN = 19_832, 2_048, 85, 40, 10
RHO, ALPHA, MU, BETA, STEPS, SEED = 0.5, 0.1, 0.1, 0.01, 5, 0
REPEATS = 3


def awa_shaped(seed: int) -> tuple[np.ndarray, np.ndarray, Prototypes]:
    """Generate rectified, unit-length features around projected attributes."""
    rng = np.random.default_rng(seed)
    Y = rng.random((SEEN + UNSEEN, K))
    Y /= np.linalg.norm(Y, axis=1, keepdims=True)
    y = rng.integers(SEEN, size=N)
    y[:SEEN] = np.arange(SEEN)
    X = np.maximum(Y[y] @ rng.standard_normal((K, D)) + rng.standard_normal((N, D)), 0)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, y, Prototypes(np.arange(SEEN + UNSEEN), Y)


def fit_with_scipy(X: np.ndarray, y: np.ndarray, prototypes: Prototypes) -> np.ndarray:
    """Run the printed algorithm with one Bartels-Stewart solve per step."""
    model = ZeroShotClassifier(prototypes, random_state=SEED)
    moments: Moments = model.gather(X, y)
    A0, B0, C0 = moments.A0, moments.B0, moments.C0
    W = solve_sylvester(A0 + BETA * np.eye(D), B0 + BETA * np.eye(K), 2 * C0)
    Y_s, Y_u = prototypes.matrix[:SEEN], prototypes.matrix[SEEN:]
    rng = np.random.default_rng(np.random.RandomState(SEED).randint(2**31 - 1))
    samples = [moments.samples_of(label) for label in moments.seen_labels]
    X_g = synthesize(W, Y_u, Y_s, samples, rho=RHO, n_neighbors=3, n_synthetic=15, rng=rng)
    game = Competition(_WithoutFactor(A0, B0, C0), X_g, Y_u, beta=BETA)
    for t in range(STEPS):
        alpha = DECAY**t * ALPHA
        eta, xi = game.weights(game.start(W))
        delta = eta.subtract(xi, MU)
        B = game.B_hat(delta.of_classes, alpha)
        W = solve_sylvester(game.A_hat(delta, alpha), B, game.C_hat(delta, alpha))
    return W


class _WithoutFactor(NormalEquations):
    """Normal equations without the factorization, which the baseline does not need."""

    factor = None  # type: ignore[assignment]


def timed(work: Callable[[], Any]) -> tuple[list[float], Any]:
    """Return the times of `REPEATS` runs, and the last result."""
    times, result = [], None
    for _ in range(REPEATS):
        start = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - start)
    return times, result


def main() -> None:
    X, y, prototypes = awa_shaped(SEED)
    parameters = {"rho": RHO, "alpha": ALPHA, "mu": MU, "beta": BETA, "max_iter": STEPS}
    model = ZeroShotClassifier(prototypes, tol=0.0, random_state=SEED, **parameters)
    ours, _ = timed(lambda: model.fit(X, y))
    gathering, _ = timed(lambda: model.gather(X, y))
    product, _ = timed(lambda: X.T @ X)
    floor = float(np.median(product))
    baseline, expected = timed(lambda: fit_with_scipy(X, y, prototypes))
    error = np.linalg.norm(model.projection_ - expected) / np.linalg.norm(expected)
    rows = [
        {
            "fit": name,
            "median (s)": round(float(np.median(times)), 2),
            "worst (s)": round(max(times), 2),
            "share of the baseline": round(float(np.median(times) / np.median(baseline)), 3),
        }
        for name, times in (
            ("with scipy.linalg.solve_sylvester (baseline)", baseline),
            ("zonkey", ours),
            ("of which moments", gathering),
            ("of which A0, one product X'X (lower bound)", product),
        )
    ]
    beyond = float(np.median(ours)) - floor
    print(f"Time beyond A0: {beyond:.2f} s, {beyond / floor:.2f} times the product.")
    title = (
        f"One fit, paper preset, {STEPS} steps: n={N}, d={D}, k={K}, {SEEN}/{UNSEEN} seen/unseen; "
        f"{REPEATS} repetitions; relative difference of W {error:.1e}; time "
        f"beyond A0 {beyond / floor:.2f} times the product that forms it"
    )
    show(title, rows)
    save("fit_speed", {"rows": rows, "relative_difference": float(error), "seed": SEED})
    save_markdown("fit_speed", title, "python benchmarks/fit_speed.py", rows)


if __name__ == "__main__":
    main()
