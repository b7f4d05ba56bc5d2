"""Exact kernel regression against landmarks (`n_components`), with 20,000 seen classes.

Generated data: 20,000 seen classes of 3 samples and 1,000 unseen ones, in 128 features. Prototypes
have 10 dimensions, and class means are a smooth function of them plus a deviation. Parameters are
given, so that seconds and memory are those of the regression. Each fit runs in a process of its
own; "fit (GB)" is what the fit adds to the peak memory of that process. The embedded emoji and,
where its files are, CUB follow: the parameters are those that the exact model chooses.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from recording import in_new_process, save, save_page, show
from zonkey import AnyShotClassifier
from zonkey.files.emoji import load_emoji
from zonkey_lab.datasets.xlsa17 import load_xlsa17
from zonkey_lab.paper.bench.runner import peak_memory_mb

SEEN, UNSEEN, DIMENSIONS, FEATURES = 20_000, 1_000, 10, 128
COMPONENTS = (500, 1_000, 2_000, 4_000, None)
OF_REAL = (25, 50, 100, 200, 400, None)
GIVEN: dict[str, Any] = {
    "preprocessing": None,
    "prototype_transformer": None,
    "kernel": "rbf",
    "gamma": 1.0,
    "ridge": 0.1,
    "worth": 10.0,
    "seen_penalty": 0.0,
    "temperature": 1.0,
    "adapt_temperature": 0.1,
    "adapt_weight": 0.5,
}


def generated(n_seen: int) -> dict[str, Any]:
    """Return prototypes, training samples, and samples of unseen classes."""
    rng = np.random.default_rng(0)
    m = n_seen + UNSEEN
    Y = rng.normal(size=(m, DIMENSIONS))
    means = np.sin(Y @ (0.4 * rng.normal(size=(DIMENSIONS, 512))))
    means = means @ rng.normal(size=(512, FEATURES)) / 16 + 0.3 * rng.normal(size=(m, FEATURES))
    y = np.repeat(np.arange(m), 3)
    X = (means[y] + 1.5 * rng.normal(size=(len(y), FEATURES))).astype(np.float32)
    old = y < n_seen
    return {"Y": Y, "X": X[old], "y": y[old], "X_new": X[~old], "y_new": y[~old]}


def measured(file: str, n_components: int | None) -> dict[str, Any]:
    """Fit one model in this process."""
    data = dict(np.load(file))
    prototypes = dict(enumerate(data["Y"]))
    model = AnyShotClassifier(prototypes, candidates="unseen", n_components=n_components, **GIVEN)
    before, start = peak_memory_mb() or 0.0, time.perf_counter()
    model.fit(data["X"], data["y"])
    seconds = time.perf_counter() - start
    added = (peak_memory_mb() or 0.0) - before
    return {
        "accuracy (%)": round(100 * model.score(data["X_new"], data["y_new"]), 2),
        "fit (s)": round(seconds, 1),
        "fit (GB)": round(added / 1024, 2),
    }


def on_generated(n_seen: int, components: list[int | None]) -> list[dict[str, Any]]:
    """Return a row per number of landmarks, each measured in a new process."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "data.npz")
        np.savez(file, **generated(n_seen))
        for n_components in components:
            found = in_new_process(__file__, file, n_components)
            rows.append({"landmarks": _name(n_components), **found})
            print(rows[-1], flush=True)
    return rows


def on_real(name: str, data: Any) -> list[dict[str, Any]]:
    """Return the accuracy on unseen classes by number of landmarks."""
    exact = AnyShotClassifier(data.prototypes, candidates="unseen")
    exact.fit(data.X_train, data.y_train)
    chosen = exact.best_params_ | {"seen_penalty": 0.0, "temperature": 1.0}
    chosen["candidates"] = "unseen"
    rows = []
    for n_components in OF_REAL:
        if n_components is not None and n_components >= len(exact.seen_classes_):
            continue
        model = AnyShotClassifier(data.prototypes, n_components=n_components, **chosen).fit(
            data.X_train, data.y_train
        )
        accuracy = 100 * model.score(data.X_test_unseen, data.y_test_unseen)
        row = {
            "data": name,
            "seen": len(exact.seen_classes_),
            "unseen": len(exact.unseen_classes_),
            "kernel": chosen["kernel"],
            "landmarks": _name(n_components),
            "accuracy (%)": round(accuracy, 2),
        }
        rows.append(row)
        print(row, flush=True)
    return rows


def _name(n_components: int | None) -> str:
    return "exact" if n_components is None else f"{n_components:,}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seen", type=int, default=SEEN, help="number of seen classes")
    parser.add_argument(
        "--exact",
        type=int,
        default=SEEN,
        help="most seen classes for the exact model; 20,000 need about 10 GB",
    )
    parser.add_argument("--data", type=Path, help="folder of the CUB files")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured(*json.loads(options.one))))
        return
    components = [r for r in COMPONENTS if r or options.seen <= options.exact]
    rows = on_generated(options.seen, components)
    show(f"{options.seen:,} seen and {UNSEEN:,} unseen classes", rows)
    real = on_real("emoji", load_emoji())
    if options.data is not None:
        cub = load_xlsa17(options.data, features="efficientnet_lite0")
        show("CUB", on_real("CUB", cub))  # research data: shown, not stored
    show("emoji", real)
    save("many_seen", {"rows": rows, "emoji": real})
    title = f"Landmarks against the exact regression, {options.seen:,} seen classes"
    tables = {f"{options.seen:,} seen and {UNSEEN:,} unseen classes": rows, "Emoji": real}
    if options.write:
        save_page("many_seen", title, "python benchmarks/many_seen.py --write", tables)


if __name__ == "__main__":
    main()
