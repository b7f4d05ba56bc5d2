"""Time of a prediction among many classes, relative to the matrix product of its scores.

The product uses the same blocks of samples and discards its results. A prediction also subtracts a
constant per class, finds the best class, and validates its input.
"""

from __future__ import annotations

import time

import numpy as np

from recording import save, save_markdown, show
from zonkey import Prototypes, ZeroShotClassifier
from zonkey.config import rows_per_block

N, D, K, CLASSES, SEEN = 40_000, 2_048, 85, 10_000, 50
REPEATS = 3


def main() -> None:
    rng = np.random.default_rng(0)
    prototypes = Prototypes(np.arange(CLASSES), rng.standard_normal((CLASSES, K)))
    y = np.repeat(np.arange(SEEN), 4)
    X = rng.standard_normal((len(y), D)).astype(np.float32)
    model = ZeroShotClassifier(prototypes, synthesis=None, candidates="all").fit(X, y)
    queries = rng.standard_normal((N, D)).astype(np.float32)
    centers = model.project(prototypes).astype(np.float32)
    rows = rows_per_block(4 * max(CLASSES, D))

    def bare() -> None:
        for start in range(0, N, rows):
            _ = queries[start : start + rows] @ centers.T

    def best_of(work) -> float:
        times = []
        for _ in range(REPEATS):
            start = time.perf_counter()
            work()
            times.append(time.perf_counter() - start)
        return min(times)

    floor = best_of(bare)
    table = [{"what": "matrix product of the scores", "seconds": round(floor, 2), "ratio": 1.0}]
    for name, work in {
        "predict": lambda: model.predict(queries),
        "predict_top, k = 5": lambda: model.predict_top(queries, 5),
    }.items():
        seconds = best_of(work)
        table.append(
            {"what": name, "seconds": round(seconds, 2), "ratio": round(seconds / floor, 3)}
        )
    title = f"Prediction: {N:,} x {D:,} queries, {CLASSES:,} classes, float32, best of {REPEATS}"
    show(title, table)
    save("predict_speed", {"rows": table})
    save_markdown("predict_speed", title, "python benchmarks/predict_speed.py", table)


if __name__ == "__main__":
    main()
