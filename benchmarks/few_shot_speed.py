"""Time of 600 5-way 5-shot trials, relative to two eigendecompositions per solve.

Both implementations run the same trials, episodes and steps with the same random numbers. The
baseline works in the original coordinates and diagonalizes A-hat and B-hat at each of the 50 solves
of a trial. It is measured on a few trials and scaled.
"""

from __future__ import annotations

import time

import numpy as np
from threadpoolctl import threadpool_limits

import mini_imagenet
from recording import save, show
from zonkey.bpl.algorithm1 import DECAY
from zonkey.bpl.assignment import find_best, find_second_best, losses
from zonkey.bpl.few_shot import FewShotClassifier
from zonkey.bpl.projection import NormalEquations, bidirectional_projection
from zonkey.bpl.sylvester import solve
from zonkey.bpl.synthesis import synthesize_from_support
from zonkey.bpl.tasks import spread_of
from zonkey.evaluation.protocols import draw_trial
from zonkey_lab.protocols import n_way_k_shot

TRIALS, NAIVE_TRIALS, SHOTS, EPISODES, STEPS = 600, 5, 5, 10, 5
PARAMETERS = {"rho": 0.5, "alpha": 0.1, "mu": 0.1, "beta": 0.01, "noise": 0.1}


def naive_fit(data, equations, W0, X, y, seed) -> np.ndarray:
    """Fit one support set with the baseline."""
    known = data.base.moments.prototypes
    novel, codes = np.unique(y, return_inverse=True)
    Y_u = known.subset(novel).matrix
    spread = spread_of(np.concatenate([data.base.prototypes.matrix, Y_u]))
    state = np.random.RandomState(seed).randint(2**31 - 1)
    projections = []
    for episode in range(EPISODES):
        rng = np.random.default_rng([state, episode])
        k = Y_u.shape[1]
        epsilon = rng.normal(scale=PARAMETERS["noise"] * spread / k**0.5, size=(5, len(codes), k))
        X_g = synthesize_from_support(W0, Y_u, X, codes, epsilon, rho=PARAMETERS["rho"]).features
        W = W0
        for t in range(STEPS):
            eta, taken = find_best(losses(W, X_g, Y_u), 1e-3)
            xi = find_second_best(losses(W, X_g, Y_u), taken, 1e-3)
            delta = np.vstack([eta - PARAMETERS["mu"] * xi, np.eye(len(Y_u))[codes]])
            alpha = DECAY**t * PARAMETERS["alpha"]
            hats = printed_matrices(equations, np.vstack([X_g, X]), Y_u, delta, alpha)
            W = solve(*hats, path="eigen").value
        projections.append(W)
    return np.mean(projections, axis=0)


def printed_matrices(equations, X, Y_u, delta, alpha) -> tuple[np.ndarray, ...]:
    """Return A-hat, B-hat and C-hat, Eqs. 20 (erplAt0) to 22 (erplCt0)."""
    A0, B0, C0, beta = equations.A0, equations.B0, equations.C0, PARAMETERS["beta"]
    A = (1 - alpha) * A0 + alpha * (X.T * delta.sum(axis=1)) @ X + beta * np.eye(len(A0))
    B = (1 - alpha) * B0 + alpha * (Y_u.T * delta.sum(axis=0)) @ Y_u + beta * np.eye(len(B0))
    return A, B, 2 * (1 - alpha) * C0 + 2 * alpha * X.T @ delta @ Y_u


def naive_seconds(data, model, n_threads: int) -> tuple[float, float]:
    """Return the time of a baseline trial, and its largest difference from `model`."""
    equations = NormalEquations.from_moments(data.base.moments)
    W0 = bidirectional_projection(equations, PARAMETERS["beta"]).value
    seconds, errors = [], []
    for number in range(NAIVE_TRIALS):
        rng = np.random.default_rng([0, number])
        trial = draw_trial(data.y, data.classes, n_way=5, n_shot=SHOTS, n_query=15, rng=rng)
        X, y = data.X[trial.support], data.y[trial.support]
        with threadpool_limits(n_threads):
            start = time.perf_counter()
            expected = naive_fit(data, equations, W0, X, y, seed=number)
            seconds.append(time.perf_counter() - start)
        W = model.set_params(random_state=number).fit(X, y).projection_
        errors.append(np.linalg.norm(W - expected) / np.linalg.norm(expected))
    return float(np.median(seconds)), float(max(errors))


def main() -> None:
    if not mini_imagenet.folder().exists():
        print(f"No features in {mini_imagenet.folder()}; set ZONKEY_DATA.")
        return
    data = mini_imagenet.load("novel")
    model = FewShotClassifier(base=data.base, n_episodes=EPISODES, tol=0.0, **PARAMETERS)
    rows = []
    for cores, n_trials in ((1, TRIALS // 10), (2, TRIALS)):  # scaled on one core too
        naive, error = naive_seconds(data, model, cores)
        if error > 1e-6:
            raise SystemExit(f"Baseline and zonkey differ by {error:.1e} relative in W.")
        options = {"n_shot": SHOTS, "n_trials": n_trials, "n_jobs": cores, "progress": True}
        start = time.perf_counter()
        n_way_k_shot({"BPL": model}, data.X, data.y, data.classes, **options)
        ours = (time.perf_counter() - start) * TRIALS / n_trials
        rows.append(
            {
                "cores": cores,
                f"naive, {TRIALS} trials scaled from {NAIVE_TRIALS} (s)": round(naive * TRIALS, 1),
                f"zonkey, {TRIALS} trials (s)": round(ours, 1),
                "ratio": round(naive * TRIALS / ours, 1),
                "largest relative difference of W": float(f"{error:.1e}"),
            }
        )
    show(f"{TRIALS} 5-way {SHOTS}-shot trials, {EPISODES} episodes x {STEPS} steps", rows)
    print(f"Record: {save('few_shot_speed', {'rows': rows, 'features_sha256': data.sha256})}")


if __name__ == "__main__":
    main()
