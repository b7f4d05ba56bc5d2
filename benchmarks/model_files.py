"""Time to save and load models, next to joblib, which unpickles: not safe for files of others."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import joblib
import numpy as np

import zonkey
from recording import save, save_markdown, show
from zonkey.anyshot.choice import preprocessing

SIZES = ((100, 512), (1_000, 2_048), (5_000, 2_048))


def model_of(n_classes, n_features):
    """Return a model with fixed parameters, which is fitted quickly."""
    rng = np.random.default_rng(0)
    known = zonkey.Prototypes(np.arange(n_classes), rng.normal(size=(n_classes, 300)))
    y = np.repeat(np.arange(n_classes * 4 // 5), 4)
    X = rng.normal(size=(len(y), n_features)).astype(np.float32)
    fixed = {"kernel": "rbf", "gamma": 0.5, "ridge": 0.1, "worth": 4.0}
    steps = {"preprocessing": preprocessing(0.5, 4.0), "prototype_transformer": None}
    model = zonkey.AnyShotClassifier(
        known, candidates="all", seen_penalty=0.1, temperature=1.0, **fixed, **steps
    )
    return model.fit(X, y)


def best(function, repeats=7):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def row(n_classes, n_features, folder):
    model = model_of(n_classes, n_features)
    ours, theirs = folder / "a.zonkey", folder / "a.joblib"
    milliseconds = {
        "save (ms)": best(lambda: model.save(ours), 3),
        "joblib.dump (ms)": best(lambda: joblib.dump(model, theirs), 3),
        "load (ms)": best(lambda: zonkey.load(ours)),
        "joblib.load (ms)": best(lambda: joblib.load(theirs)),
    }
    times = {name: round(1e3 * seconds, 1) for name, seconds in milliseconds.items()}
    ratio = round(times["load (ms)"] / times["joblib.load (ms)"], 2)
    size = {"classes": n_classes, "features": n_features, "MB": round(ours.stat().st_size / 1e6)}
    return {**size, **times, "ratio": ratio}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        rows = [row(*size, Path(folder)) for size in SIZES]
    title = (
        "Model files: best of 3 (save) and 7 (load); checked against alteration, unlike joblib's"
    )
    show(title, rows)
    save("model_files", {"rows": rows})
    save_markdown("model_files", title, "python benchmarks/model_files.py", rows)


if __name__ == "__main__":
    main()
