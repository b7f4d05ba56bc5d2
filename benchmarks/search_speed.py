"""Cost of a grid search over rho, alpha and mu on AwA-shaped data, in units of single fits.

`ZeroShotSearchCV` over 5 x 5 x 5 points and 3 class-wise folds is compared with the time of one
fit from raw samples. Some points are also fitted and scored by a naive loop over raw folds and
must have the same score.
"""

from __future__ import annotations

import time
import warnings

import numpy as np

from fit_speed import awa_shaped
from recording import save, save_markdown, show
from zonkey import ZeroShotClassifier
from zonkey.model_selection import ClassKFold, ZeroShotSearchCV

GRID = {
    "rho": [0.1, 0.3, 0.5, 0.7, 0.9],
    "alpha": [0.01, 0.05, 0.1, 0.3, 0.5],
    "mu": [0.01, 0.05, 0.1, 0.3, 0.5],
}
FOLDS, REPEATS, CHECKED, SEED = 3, 3, 5, 0


def naive_scores(model, X, y, seen, points) -> np.ndarray:
    """Fit and score points on the raw samples of every fold."""
    scores = []
    for train, test in ClassKFold(FOLDS).split(X, y):
        own = model.set_params(prototypes=model.prototypes.subset(seen))
        scores.append(
            [own.set_params(**p).fit(X[train], y[train]).score(X[test], y[test]) for p in points]
        )
    return np.transpose(scores)


def main() -> None:
    warnings.simplefilter("ignore")  # the guard on mu warns at every strong competition
    X, y, prototypes = awa_shaped(SEED)
    # Additional noise: scores that are all 1 would agree trivially.
    X = X + np.random.default_rng(1).normal(scale=0.05, size=X.shape)
    model = ZeroShotClassifier(prototypes, random_state=SEED)
    single = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        model.fit(X, y)
        single.append(time.perf_counter() - start)
    start = time.perf_counter()
    search = ZeroShotSearchCV(model, GRID, cv=FOLDS).fit(X, y)
    taken = time.perf_counter() - start
    results = search.cv_results_
    chosen = np.random.default_rng(SEED).choice(len(results["params"]), CHECKED, replace=False)
    points = [results["params"][i] for i in chosen]
    # The search draws one seed for all fits.
    seed = np.random.RandomState(SEED).randint(2**31 - 1)
    naive = ZeroShotClassifier(prototypes, random_state=seed)
    expected = naive_scores(naive, X, y, np.unique(y), points)
    found = np.transpose([results[f"split{i}_test_score"][chosen] for i in range(FOLDS)])
    difference = float(np.abs(found - expected).max())
    if difference:
        raise SystemExit(f"Search and naive loop differ by {difference:.1e} in a score.")
    fit = float(np.median(single))
    rows = [
        {"what": "one fit from raw samples", "seconds": round(fit, 2), "single fits": 1.0},
        {
            "what": f"search, {len(results['params'])} points x {FOLDS} folds, and the refit",
            "seconds": round(taken, 1),
            "single fits": round(taken / fit, 1),
        },
    ]
    title = (
        f"Grid search over rho, alpha, mu: n={len(y)}, d={X.shape[1]}; scores of {CHECKED} points "
        "in all folds equal those of a naive loop"
    )
    show(title, rows)
    save("search_speed", {"rows": rows, "seed": SEED, "grid": GRID})
    save_markdown("search_speed", title, "python benchmarks/search_speed.py", rows)


if __name__ == "__main__":
    main()
