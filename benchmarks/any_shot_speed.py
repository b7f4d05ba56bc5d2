"""Time of `AnyShotClassifier.fit`, choosing included, and of its regression alone.

Baselines: the eigendecomposition of a matrix of the size of the features; the same preset in
another checkout, with ``--before PATH`` (the folder that holds its package); scikit-learn's Ridge
from prototypes to features for the regression alone. With ``--device cuda`` one large problem of
254,000 samples, 800 seen and 360 unseen classes is fitted on the GPU instead.
"""

from __future__ import annotations

import argparse
import inspect
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
from sklearn.linear_model import Ridge

from recording import save, show
from zonkey import AnyShotClassifier

SIZES = {"CUB": (7057, 1280, 150, 50, 312), "2,048 features": (7057, 2048, 150, 50, 312)}
LARGE = (254_000, 1024, 800, 360, 300)
GIVEN: dict[str, Any] = {
    "preprocessing": None,
    "prototype_transformer": None,
    "kernel": "linear",
    "gamma": 1.0,
    "ridge": 0.1,
    "worth": 8.0,
    "seen_penalty": 0.0,
    "temperature": 1.0,
    "adapt_temperature": 0.01,
    "adapt_weight": 1.0,
}


def problem(n: int, d: int, n_seen: int, n_unseen: int, k: int) -> tuple[Any, Any, dict[int, Any]]:
    """Return rectified linear features of generated classes, and prototypes."""
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(n_seen + n_unseen, k)).astype(np.float32)
    y = rng.integers(n_seen, size=n)
    hidden = rng.normal(size=(k, d)).astype(np.float32) / k**0.5
    X = vectors[y] @ hidden + rng.normal(size=(n, d)).astype(np.float32)
    return np.maximum(X, 0), y, dict(enumerate(vectors))


def seconds(action: Callable[[], Any], repeats: int = 3) -> float:
    """Return the shortest of a few times."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def count_eigh(d: int, action: Callable[[], Any]) -> int:
    """Return how many eigendecompositions of size d an action takes."""
    sizes = []
    original = np.linalg.eigh

    def counted(A: Any, *args: Any, **kwargs: Any) -> Any:
        sizes.append(A.shape[-1])
        return original(A, *args, **kwargs)

    with (
        mock.patch("numpy.linalg.eigh", counted),
        mock.patch("array_api_compat.numpy.linalg.eigh", counted),
    ):
        action()
    return sizes.count(d)


def before(path: str, sizes: tuple[int, ...]) -> float:
    """Return the time of the preset in another checkout."""
    source = "\n".join(
        [
            "import time, numpy as np",
            "from typing import Any",
            inspect.getsource(problem),
            "from zonkey import presets",
            f"X, y, prototypes = problem(*{sizes})",
            "model = presets.recommended(prototypes, candidates='unseen')",
            "start = time.perf_counter()",
            "model.fit(X, y)",
            "print(time.perf_counter() - start)",
        ]
    )
    command = [sys.executable, "-c", source]
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def row(name: str, sizes: tuple[int, ...], old: str | None) -> dict[str, Any]:
    X, y, prototypes = problem(*sizes)
    d, k = sizes[1], sizes[4]
    A = X[: 2 * d].T.astype(np.float64) @ X[: 2 * d]
    of_eigh = seconds(lambda: np.linalg.eigh(A))
    model = AnyShotClassifier(prototypes, candidates="unseen")
    fit = seconds(lambda: model.fit(X, y))
    alone = AnyShotClassifier(prototypes, candidates="unseen", **GIVEN)
    given = seconds(lambda: alone.fit(X, y), 5)
    Y = np.stack([prototypes[label] for label in y])
    ridge = seconds(lambda: Ridge(alpha=1.0).fit(Y, X), 5)
    found = {
        "data": f"{name}: {sizes[0]:,} x {d:,}, {sizes[2]} + {sizes[3]} classes, k = {k}",
        "fit (s)": fit,
        "eigh(d) (s)": of_eigh,
        "eigh(d) calls": count_eigh(d, lambda: model.fit(X, y)),
        "regression alone (s)": given,
        "Ridge (s)": ridge,
        "regression / Ridge": given / ridge,
    }
    if old:
        found["before (s)"] = before(old, sizes)
        found["before / fit"] = found["before (s)"] / fit
    return found


def on_device(device: str) -> dict[str, Any]:
    import torch

    X, y, prototypes = problem(*LARGE)
    on_gpu = torch.asarray(X, device=device), torch.asarray(y, device=device)
    rows: dict[str, Any] = {}
    for candidates in ("unseen", "all"):
        model = AnyShotClassifier(prototypes, candidates=candidates)

        def fit(model: Any = model) -> None:
            model.fit(*on_gpu)
            torch.cuda.synchronize()

        rows[f"fit, {candidates}"] = seconds(fit, 2)
    model = AnyShotClassifier(prototypes, candidates="unseen").fit(*on_gpu)
    rows["predict"] = seconds(lambda: model.predict(on_gpu[0]).cpu())
    rows["adapt, 20,000 samples"] = seconds(lambda: model.adapt(on_gpu[0][:20_000]), 1)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", help="folder of the package of an older checkout")
    parser.add_argument("--device", help="fit one large problem on this device")
    options = parser.parse_args()
    if options.device:
        found = on_device(options.device)
        title = f"254,000 x 1,024, 800 + 360 classes on {options.device} (s)"
        show(title, [{"step": name, "seconds": f"{value:.2f}"} for name, value in found.items()])
        return
    table = [row(name, sizes, options.before) for name, sizes in SIZES.items()]
    shown = [
        {name: f"{v:.3g}" if isinstance(v, float) else v for name, v in line.items()}
        for line in table
    ]
    show("AnyShotClassifier, 2 cores", shown)
    print(f"Record: {save('any_shot_speed', {'rows': table})}")


if __name__ == "__main__":
    main()
