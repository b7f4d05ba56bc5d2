"""Time of one Sylvester equation, relative to scipy.linalg.solve_sylvester in the same run.

A second table lists the terms of the cost model that chooses the path of the solver, in multiples
of the multiply-adds of a matrix product of the same size.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import solve_sylvester

from recording import save, save_markdown, show
from zonkey.bpl.sylvester import cheapest_path, solve
from zonkey.bpl.symmetric import Factor, Tridiagonal

SIZES = ((512, 85), (1024, 85), (2048, 85), (2048, 312), (1024, 1000))
COST_SIZES = ((64, 20), (128, 40), (256, 85), (512, 85), (1024, 85), (1024, 1000), (2048, 85))
PATHS = {"auto": {}, "eigen": {"path": "eigen"}, "tridiagonal": {"path": "tridiagonal"}}


def best_of(n: int, work: Callable[[], Any]) -> tuple[float, Any]:
    times, result = [], None
    for _ in range(n):
        start = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - start)
    return min(times), result


def problem(d: int, k: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    X = rng.standard_normal((2 * d, d)) * np.logspace(0, -2, d)
    Y = rng.standard_normal((2 * k, k))
    return X.T @ X + 0.01 * np.eye(d), Y.T @ Y + 0.01 * np.eye(k), rng.standard_normal((d, k))


def compared(d: int, k: int, rng: np.random.Generator) -> dict[str, Any]:
    A, B, C = problem(d, k, rng)
    scipy_time, expected = best_of(2, lambda: solve_sylvester(A, B, C))
    times, errors = {}, []
    for name, options in PATHS.items():
        times[name], solution = best_of(3, partial(solve, A, B, C, **options))
        errors.append(np.linalg.norm(solution.value - expected) / np.linalg.norm(expected))
    path = cheapest_path(d, k)
    factor = {"eigen": Factor, "tridiagonal": Tridiagonal}[path].of(A)
    times["factor kept"], _ = best_of(3, lambda: solve(factor, B, C))
    return {
        "d": d,
        "k": k,
        "scipy (s)": round(scipy_time, 3),
        "auto is": path,
        **{f"{name} (s)": round(seconds, 4) for name, seconds in times.items()},
        "scipy / auto": round(scipy_time / times["auto"], 1),
        "scipy / factor kept": round(scipy_time / times["factor kept"], 1),
        "largest relative difference": float(f"{max(errors):.1e}"),
    }


def unit_costs(d: int, k: int, rng: np.random.Generator) -> dict[str, Any]:
    A, _, C = problem(d, k, rng)
    unit = best_of(3, lambda: A @ A)[0] / d**3
    eigh, _ = best_of(3, lambda: Factor.from_matrix(A))
    sytrd, factor = best_of(3, lambda: Tridiagonal.from_matrix(A))
    there, Z = best_of(5, lambda: factor.to_basis(C))
    back, _ = best_of(5, lambda: factor.from_basis(Z))
    systems, _ = best_of(5, lambda: factor.solve_shifted(Z, np.ones(k)))
    return {
        "d": d,
        "k": k,
        "eigh / d^3": round(eigh / unit / d**3, 1),
        "tridiagonal / d^3": round(sytrd / unit / d**3, 1),
        "Q'C and Q Z / (2 d^2 k)": round((there + back) / unit / (2 * d**2 * k), 1),
        "systems / (d k)": round(systems / unit / (d * k)),
    }


def main() -> None:
    rng = np.random.default_rng(0)
    rows = [compared(d, k, rng) for d, k in SIZES]
    title = "One Sylvester equation A W + W B = C, A (d x d) and B (k x k) symmetric"
    show(title, rows)
    costs = [unit_costs(d, k, rng) for d, k in COST_SIZES]
    show("Costs in multiply-adds of a d x d matrix product", costs)
    save("sylvester_speed", {"rows": rows, "costs": costs})
    save_markdown("sylvester_speed", title, "python benchmarks/sylvester_speed.py", rows)


if __name__ == "__main__":
    main()
