"""Exact kernel regression against landmarks (`n_components`), with up to 20,000 seen classes.

Generated data: 20,000 seen classes of 3 samples and 1,000 unseen ones of 5, in 256 features;
prototypes have 64 dimensions, and class means are a smooth function of them plus a deviation.
Parameters are chosen once and then given, so that seconds and memory are those of the regression.
Each fit runs in a process of its own. "fit (GB)" is what the fit adds to the peak memory of that
process. The embedded emoji (1,001 classes) and, where its files are, CUB follow: all samples of
half of the classes train, the others are unseen.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from recording import save, save_page, show
from zonkey import AnyShotClassifier

SEEN, UNSEEN, DIMENSIONS, FEATURES = 20_000, 1_000, 64, 256
COMPONENTS = (500, 1_000, 2_000, 4_000)
OF_REAL = (50, 100, 200, 400)


def generated(n_seen: int) -> tuple[Any, Any, dict[int, Any], Any, Any]:
    """Return training samples and labels, prototypes, and samples and labels of unseen classes."""
    rng = np.random.default_rng(0)
    m = n_seen + UNSEEN
    groups = rng.normal(size=(200, DIMENSIONS))
    Y = groups[rng.integers(200, size=m)] + 0.7 * rng.normal(size=(m, DIMENSIONS))
    hidden = rng.normal(size=(DIMENSIONS, 512)) / 8
    means = np.tanh(Y @ hidden) @ rng.normal(size=(512, FEATURES)) / 22
    means += 0.4 * rng.normal(size=means.shape)

    def samples(classes: Any, n: int) -> tuple[Any, Any]:
        y = np.repeat(classes, n)
        X = means[y] + 1.0 * rng.normal(size=(len(y), FEATURES))
        return X.astype(np.float32), y

    X, y = samples(np.arange(n_seen), 3)
    X_new, y_new = samples(np.arange(n_seen, m), 5)
    return X, y, dict(enumerate(Y)), X_new, y_new


def given(n_seen: int) -> dict[str, Any]:
    """Return the parameters that are chosen on the generated data, as JSON holds them."""
    X, y, prototypes, *_ = generated(n_seen)
    few = y < 2_000
    model = AnyShotClassifier(prototypes, preprocessing=None, prototype_transformer=None)
    chosen = model.fit(X[few], y[few]).best_params_
    names = ("kernel", "gamma", "ridge", "worth", "seen_penalty", "temperature")
    return {name: chosen[name] for name in names}


def measured(n_seen: int, n_components: int | None, parameters: dict[str, Any]) -> dict[str, Any]:
    """Fit one model in this process."""
    X, y, prototypes, X_new, y_new = generated(n_seen)
    model = AnyShotClassifier(
        prototypes,
        preprocessing=None,
        prototype_transformer=None,
        adapt_temperature=0.01,
        adapt_weight=0.5,
        n_components=n_components,
        **parameters,
    )
    unit = 2**30 if sys.platform == "darwin" else 2**20
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "accuracy (%)": round(100 * model.score(X_new, y_new), 2),
        "fit (s)": round(seconds, 1),
        "fit (GB)": round((peak - before) / unit, 2),
    }


def in_process(*arguments: Any) -> dict[str, Any]:
    """Run `measured` in a new process."""
    command = [sys.executable, __file__, "--one", json.dumps(arguments)]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seen", type=int, default=SEEN, help="number of seen classes")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured(*json.loads(options.one))))
        return
    parameters = given(options.seen)
    print(parameters, flush=True)
    rows = []
    for n_components in (*COMPONENTS, None):
        found = in_process(options.seen, n_components, parameters)
        rows.append({"landmarks": str(n_components or "exact"), **found})
        print(rows[-1], flush=True)


if __name__ == "__main__":
    main()
