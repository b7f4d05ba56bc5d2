"""Time of one Sylvester equation, against scipy.linalg.solve_sylvester in the same run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import solve_sylvester

from recording import save, save_markdown, show
from zonkey.linalg import Factor, solve

SIZES = ((512, 85), (1024, 85), (2048, 85), (2048, 312))


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def problem(d: int, k: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    X = rng.standard_normal((2 * d, d)) * np.logspace(0, -2, d)
    Y = rng.standard_normal((2 * k, k))
    return X.T @ X + 0.01 * np.eye(d), Y.T @ Y + 0.01 * np.eye(k), rng.standard_normal((d, k))


def main() -> None:
    rng = np.random.default_rng(0)
    rows = []
    for d, k in SIZES:
        A, B, C = problem(d, k, rng)
        scipy_time, expected = timed(lambda: solve_sylvester(A, B, C))  # noqa: B023
        fresh_time, solution = timed(lambda: solve(A, B, C))  # noqa: B023
        factor = Factor.of(A)
        kept_time, _ = timed(lambda: solve(factor, B, C))  # noqa: B023
        error = np.linalg.norm(solution.value - expected) / np.linalg.norm(expected)
        rows.append(
            {
                "d": d,
                "k": k,
                "scipy (s)": round(scipy_time, 3),
                "zonkey (s)": round(fresh_time, 3),
                "factor kept (s)": round(kept_time, 4),
                "ratio": round(scipy_time / fresh_time, 1),
                "ratio, factor kept": round(scipy_time / kept_time, 1),
                "relative difference": float(f"{error:.1e}"),
            }
        )
    title = "One Sylvester equation A W + W B = C, A (d x d) and B (k x k) symmetric"
    show(title, rows)
    save("sylvester_speed", {"rows": rows})
    save_markdown("sylvester_speed", title, "python benchmarks/sylvester_speed.py", rows)


if __name__ == "__main__":
    main()
