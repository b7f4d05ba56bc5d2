"""Predictions among up to 100,000 candidates: exact in blocks, and by `CandidateIndex`.

Generated data: 200 seen classes, 512 features, prototypes of 64 dimensions, in 300 groups or
without groups, which are harder to divide into cells. Class means are a smooth function of
prototypes. Each problem is measured in a process of its own. "predict (MB)" is what exact
predictions add to its peak memory; a table of all scores of 2,000 samples would need 800 MB at
100,000 candidates.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np

from recording import in_new_process, save, save_page, show
from zonkey import AnyShotClassifier, CandidateIndex, Prototypes
from zonkey_lab.paper.bench.runner import peak_memory_mb

CANDIDATES = (1_000, 10_000, 100_000)
EFFORTS = (0.02, 0.05, None)
PROTOTYPES = ("in groups", "without groups")
SEEN, DIMENSIONS, FEATURES, SAMPLES = 200, 64, 512, 2_000
GIVEN: dict[str, Any] = {
    "preprocessing": None,
    "prototype_transformer": None,
    "kernel": "rbf",
    "gamma": 0.25,
    "ridge": 0.1,
    "worth": 5.0,
    "seen_penalty": 0.0,
    "temperature": 1.0,
    "adapt_temperature": 0.1,
    "adapt_weight": 0.5,
}


def problem(q: int, form: str) -> tuple[AnyShotClassifier, Any]:
    """Return a fitted model with q candidates, and samples of them."""
    rng = np.random.default_rng(0)
    m = SEEN + q
    Y = rng.normal(size=(m, DIMENSIONS))
    if form == "in groups":
        Y = rng.normal(size=(300, DIMENSIONS))[rng.integers(300, size=m)] + 0.7 * Y
    means = np.tanh(Y @ (rng.normal(size=(DIMENSIONS, 256)) / 8))
    means = (means @ rng.normal(size=(256, FEATURES)) / 16).astype(np.float32)
    y = np.repeat(np.arange(m), [5 if j < SEEN else 0 for j in range(m)])
    X = means[y] + 0.5 * rng.normal(size=(len(y), FEATURES)).astype(np.float32)
    new = SEEN + rng.integers(q, size=SAMPLES)
    X_new = means[new] + 0.5 * rng.normal(size=(SAMPLES, FEATURES)).astype(np.float32)
    names = np.array([f"class {j:06d}" for j in range(m)])
    model = AnyShotClassifier(Prototypes(names, Y), candidates="unseen", **GIVEN)
    return model.fit(X, names[y]), X_new


def timed(work: Any) -> tuple[float, Any]:
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found


def measured(q: int, form: str) -> list[dict[str, Any]]:
    """Return the exact row and one row per effort, all in this process."""
    model, X = problem(q, form)
    before = peak_memory_mb() or 0.0
    seconds, exact = timed(lambda: model.predict_top(X, 5))
    added = (peak_memory_mb() or 0.0) - before
    common = {"candidates": f"{q:,}", "prototypes": form}
    rows = [_row(common, "exact", 0.0, seconds, exact, exact, f"{added:.0f}")]
    building, index = timed(lambda: CandidateIndex(model))
    for effort in EFFORTS:
        index.effort = effort
        seconds, found = timed(lambda: index.predict_top(X, 5))
        name = "default" if effort is None else f"effort {effort}"
        rows.append(_row(common, name, building, seconds, found, exact, ""))
    return rows


def _row(
    common: dict[str, Any],
    name: str,
    building: float,
    seconds: float,
    found: Any,
    exact: Any,
    added: str,
) -> dict[str, Any]:
    shares = [np.isin(a, b).mean() for a, b in zip(exact, found, strict=True)]
    return {
        **common,
        "search": name,
        "build (s)": round(building, 1),
        "samples/s": round(SAMPLES / seconds),
        "recall@1 (%)": round(100 * float(np.mean(found[:, 0] == exact[:, 0])), 2),
        "recall@5 (%)": round(100 * float(np.mean(shares)), 2),
        "predict (MB)": added,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=CANDIDATES[-1], help="number of candidates")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured(*json.loads(options.one))))
        return
    rows: list[dict[str, Any]] = []
    for q in (q for q in CANDIDATES if q <= options.most):
        for form in PROTOTYPES:
            rows += in_new_process(__file__, q, form)
            print(rows[-1], flush=True)
    title = f"Best 5 of very many candidates, {SAMPLES:,} samples of {FEATURES} features"
    show(title, rows)
    save("many_candidates", {"rows": rows})
    if options.write:
        command = "python benchmarks/many_candidates.py --write"
        save_page("many_candidates", title, command, {"": rows})


if __name__ == "__main__":
    main()
