"""Time and memory of the paper's default fit with thousands of unseen classes.

240 samples of 16 features of 8 seen classes; the prototypes have 16, 85 or 300 dimensions. Each fit
runs in a process of its own, on one thread. "fit (MB)" is what the fit adds to the peak memory of
that process. With ``--before PATH``, the folder of the package of an older checkout is measured
too, at 1,000 classes and 16 dimensions, and the projections are compared.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import zonkey
from recording import save, save_markdown, show

CLASSES, OF_BEFORE = (1_000, 2_000, 5_000, 10_000), (1_000, 16)
CLASSES_WITH_ENTROPY = (1_000, 2_000)  # gradient descent evaluates the losses about 200 times
DIMENSIONS = (16, 85, 300)


def problem(n_unseen: int, k: int) -> tuple[Any, Any, dict[int, Any]]:
    """Return samples of 8 seen classes, and prototypes of all classes."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(8 + n_unseen, k))
    y = np.arange(240) % 8
    hidden = rng.normal(size=(k, 16)) / k**0.5
    return vectors[y] @ hidden + rng.normal(size=(240, 16)) / 2, y, dict(enumerate(vectors))


def measure(n_unseen: int, k: int, competition: str, file: str) -> dict[str, float]:
    """Fit one model, write its projection, and return seconds and peak memory in MB."""
    import resource
    import time
    import warnings

    from zonkey import ZeroShotClassifier

    def peak() -> float:
        unit = 2**20 if sys.platform == "darwin" else 2**10
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit

    warnings.simplefilter("ignore")  # the guard may lower mu
    X, y, prototypes = problem(n_unseen, k)
    model = ZeroShotClassifier(prototypes, competition=competition, random_state=0)
    before, start = peak(), time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - start
    fitted = peak()
    start = time.perf_counter()
    model.predict(np.tile(X, (40, 1)))
    predicting = time.perf_counter() - start
    np.save(file, model.projection_)
    return {
        "seconds": seconds,
        "peak (MB)": fitted,
        "of the fit (MB)": fitted - before,
        "predict (s)": predicting,
        "predict (MB)": peak() - before,
    }


def measured(package: str, n_unseen: int, k: int, competition: str) -> tuple[dict[str, Any], Any]:
    """Run `measure` in a new process that imports the package from a folder."""
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "projection.npy")
        source = "\n".join(
            [
                "from __future__ import annotations",
                "import json, sys, numpy as np",
                "from typing import Any",
                inspect.getsource(problem),
                inspect.getsource(measure),
                f"print(json.dumps(measure({n_unseen}, {k}, {competition!r}, {file!r})))",
            ]
        )
        environment = {**os.environ, "PYTHONPATH": package, "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-c", source]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return json.loads(done.stdout.splitlines()[-1]), np.load(file)


def row(n_unseen: int, k: int, competition: str, old: str | None) -> dict[str, Any]:
    here = str(Path(zonkey.__file__).parent.parent)
    own, W = measured(here, n_unseen, k, competition)
    found: dict[str, Any] = {
        "competition": competition,
        "k": k,
        "unseen classes": n_unseen,
        "fit (s)": round(own["seconds"], 2),
        "fit (MB)": round(own["of the fit (MB)"]),
        "process (MB)": round(own["peak (MB)"]),
        "predict 9,600 (s)": round(own["predict (s)"], 2),
        "predict (MB)": round(own["predict (MB)"]),
    }
    if old is None:
        return found
    found |= {"before (s)": "", "before (MB)": "", "difference of W": ""}
    if (n_unseen, k) == OF_BEFORE:  # with more of either it took gigabytes and minutes
        before, expected = measured(old, n_unseen, k, competition)
        error = np.linalg.norm(W - expected) / np.linalg.norm(expected)
        found["before (s)"] = f"{before['seconds']:.1f}"
        found["before (MB)"] = f"{before['of the fit (MB)']:.0f}"
        found["difference of W"] = f"{error:.0e}"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", help="folder of the package of an older checkout")
    options = parser.parse_args()
    cases = [(n, k, "second-best") for k in DIMENSIONS for n in CLASSES]
    cases += [(n, k, "entropy") for k in DIMENSIONS for n in CLASSES_WITH_ENTROPY]
    rows = []
    for case in cases:
        rows.append(row(*case, options.before))
        print(rows[-1], flush=True)
    title = "240 x 16 samples of 8 seen classes, many unseen classes, one thread"
    show(title, rows)
    save("many_classes", {"rows": rows})
    save_markdown("many_classes", title, "python benchmarks/many_classes.py", rows)


if __name__ == "__main__":
    main()
