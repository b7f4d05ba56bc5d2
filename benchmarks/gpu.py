"""Compare one GPU with all CPU cores of the same machine, on generated data.

`python benchmarks/gpu.py` requires torch and a CUDA device. `--small` runs small problems on the
CPU only, as a test of the script.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy.linalg import solve_sylvester

from recording import save, save_page, show
from zonkey import FewShotClassifier, Moments, Prototypes, ZeroShotClassifier
from zonkey.bpl.frame import BaseClasses
from zonkey.bpl.sylvester import solve
from zonkey.config import rows_per_block
from zonkey_lab.protocols import n_way_k_shot

# TFLOP/s of an H200 (SXM) from its data sheet, dense: float64 and TF32 on tensor cores.
PEAK = {"float64": 67.0, "float32": 67.0, "tf32": 494.5}
FULL: dict[str, Any] = {
    "moments": [(254_000, 1_024, 1_000), (1_280_000, 2_048, 1_000)],
    "solve": [(2_048, 85), (2_048, 312), (1_024, 1_000)],
    "fit": [(19_832, 2_048, 85, 40, 10), (254_000, 1_024, 1_000, 800, 360)],
    "trials": 600,
    "predict": (1_000_000, 2_048, 10_000),
}
SMALL: dict[str, Any] = {
    "moments": [(2_000, 64, 20)],
    "solve": [(64, 9)],
    "fit": [(500, 32, 12, 8, 3)],
    "trials": 20,
    "predict": (2_000, 64, 100),
}


class Bench:
    """Device, problem sizes and timing."""

    def __init__(self, small: bool) -> None:
        self.sizes = SMALL if small else FULL
        self.device = torch.device("cpu" if small else "cuda")
        self.name = "CPU" if small else torch.cuda.get_device_name()

    def seconds(self, work: Callable[[], Any], repeats: int = 3) -> float:
        """Return the shortest time of several runs, after one warm-up run."""
        work()
        return min(self.once(work) for _ in range(repeats))

    def once(self, work: Callable[[], Any]) -> float:
        """Return the time of one run."""
        self.wait()
        start = time.perf_counter()
        work()
        self.wait()
        return time.perf_counter() - start

    def wait(self) -> None:
        """Wait for the device to finish."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def normal(self, *shape: int, seed: int = 0, dtype: Any = torch.float32) -> Any:
        """Return random numbers on the device."""
        generator = torch.Generator(self.device).manual_seed(seed)
        return torch.randn(*shape, device=self.device, dtype=dtype, generator=generator)


def allow_tf32(allowed: bool) -> None:
    torch.backends.cuda.matmul.allow_tf32 = allowed


def figure(value: float, digits: int = 3) -> float:
    return float(f"{value:.{digits}g}")


def moments(bench: Bench) -> list[dict[str, Any]]:
    """Compute A0 and class sums in one pass; on the CPU from an eighth of the samples."""
    rows = []
    for n, d, m in bench.sizes["moments"]:
        X = bench.normal(n, d).abs_()
        y = torch.arange(n, device=bench.device) % m
        prototypes = Prototypes(np.arange(m), np.eye(m))
        part = n // 8
        on_host = X[:part].cpu().numpy(), y[:part].cpu().numpy()
        gather = partial(Moments.from_arrays, prototypes=prototypes, n_reserve=0)
        of_host = bench.once(partial(gather, *on_host))
        exact = gather(X, y).A0
        for kind in ("float64", "float32", "tf32"):
            allow_tf32(kind == "tf32")
            options = {"precision": "double" if kind == "float64" else "single"}
            taken = bench.seconds(partial(gather, X, y, **options), 2)
            error = (gather(X, y, **options).A0 - exact).abs().max() / exact.abs().max()
            rate = 2 * n * d**2 / taken / 1e12
            rows.append(
                {
                    "samples x features": f"{n:,} x {d:,}",
                    "products in": kind,
                    "GPU (s)": figure(taken),
                    "TFLOP/s": figure(rate),
                    "share of peak": figure(rate / PEAK[kind], 2),
                    "CPU, float64 (s)": figure(8 * of_host),
                    "ratio": figure(8 * of_host / taken),
                    "largest error of A0": figure(float(error), 2),
                }
            )
        allow_tf32(False)
    return rows


def sylvester(bench: Bench) -> list[dict[str, Any]]:
    rows = []
    for d, k in bench.sizes["solve"]:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((2 * d, d)) * np.logspace(0, -2, d)
        Y = rng.standard_normal((2 * k, k))
        parts = X.T @ X + 0.01 * np.eye(d), Y.T @ Y + 0.01 * np.eye(k), rng.standard_normal((d, k))
        expected = solve_sylvester(*parts)
        by_scipy = bench.once(lambda: solve_sylvester(*parts))  # noqa: B023
        on_cpu = bench.seconds(lambda: solve(*parts))  # noqa: B023
        for dtype in (torch.float64, torch.float32):
            own = [torch.as_tensor(M, device=bench.device, dtype=dtype) for M in parts]
            taken = bench.seconds(lambda: solve(*own))  # noqa: B023
            value = solve(*own).value.double().cpu().numpy()
            rows.append(
                {
                    "d": d,
                    "k": k,
                    "in": str(dtype).split(".")[1],
                    "scipy, CPU (s)": figure(by_scipy),
                    "zonkey, CPU (s)": figure(on_cpu),
                    "zonkey, GPU (s)": figure(taken),
                    "share of peak": figure(
                        (9 * d**3 + 9 * k**3 + 4 * d * k * (d + k)) / taken / 1e12 / 67, 2
                    ),
                    "ratio to zonkey, CPU": figure(on_cpu / taken),
                    "ratio to scipy": figure(by_scipy / taken),
                    "difference from scipy": figure(
                        float(np.linalg.norm(value - expected) / np.linalg.norm(expected)), 2
                    ),
                }
            )
    return rows


def generated(bench: Bench, n: int, d: int, k: int, seen: int, unseen: int) -> tuple[Any, ...]:
    """Generate rectified features around projected prototypes, as in benchmarks/fit_speed.py."""
    rng = np.random.default_rng(0)
    Y = rng.random((seen + unseen, k))
    Y /= np.linalg.norm(Y, axis=1, keepdims=True)
    y = torch.arange(n, device=bench.device) % seen
    centers = torch.as_tensor(Y, device=bench.device, dtype=torch.float32) @ bench.normal(k, d)
    X = torch.relu(centers[y] + bench.normal(n, d, seed=1))
    X /= X.norm(dim=1, keepdim=True)
    return X, y, Prototypes(np.arange(seen + unseen), Y)


def fits(bench: Bench) -> list[dict[str, Any]]:
    """Fit the paper's model, five steps of Algorithm 1, from raw samples."""
    rows = []
    for n, d, k, seen, unseen in bench.sizes["fit"]:
        X, y, prototypes = generated(bench, n, d, k, seen, unseen)
        model = ZeroShotClassifier(prototypes, tol=0.0, random_state=0)
        taken = bench.seconds(lambda: model.fit(X, y), 2)  # noqa: B023
        W = model.projection_.double().cpu().numpy()
        on_host, labels = X.cpu().numpy(), y.cpu().numpy()
        of_host = bench.once(lambda: model.fit(on_host, labels))  # noqa: B023
        error = np.linalg.norm(W - model.projection_) / np.linalg.norm(W)
        rows.append(
            {
                "samples x features": f"{n:,} x {d:,}",
                "k": k,
                "classes": f"{seen} + {unseen}",
                "CPU (s)": figure(of_host),
                "GPU (s)": figure(taken),
                "ratio": figure(of_host / taken),
                "difference of W": figure(float(error), 2),
            }
        )
    return rows


def operations(shots: int, d: int, base: int) -> float:
    """Return the number of operations of one trial, 10 episodes of 5 steps.

    Counted are the scores of synthesized samples, two products with the update each for a residual
    and for a conjugate-gradient iteration, and one rotation of W.
    """
    k, made, rank = base + 5, 25 * shots, 5 * shots + 5
    return 10 * 5 * (2 * made * d * k + 4 * 2 * d * rank * k + 2 * d * k * k)


def trials(bench: Bench) -> list[dict[str, Any]]:
    """Run 5-way trials in the shape of mini-ImageNet: 80 base classes, 640 features."""
    rng = np.random.default_rng(0)
    base, novel, d, k = 80, 20, 640, 384
    Y = rng.standard_normal((base + novel, k))
    Y /= np.linalg.norm(Y, axis=1, keepdims=True)
    y = np.arange((base + novel) * 600) % (base + novel)
    X = np.maximum(Y[y] @ rng.standard_normal((k, d)) + 4 * rng.standard_normal((len(y), d)), 0)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    prototypes, is_base = Prototypes(np.arange(base + novel), Y), y < base
    on_device = torch.as_tensor(X, device=bench.device)
    inside = torch.as_tensor(is_base, device=bench.device)
    labels = torch.as_tensor(y, device=bench.device)
    rows = []
    for shots in (1, 5):
        options: dict[str, Any] = {"n_shot": shots, "n_trials": bench.sizes["trials"]}
        novel_classes = np.arange(base, base + novel)

        def run(X: Any, y: Any, inside: Any, **more: Any) -> np.ndarray:
            moments = Moments.from_arrays(X[inside], y[inside], prototypes)
            model = FewShotClassifier(base=BaseClasses(moments), tol=0.0)
            return n_way_k_shot({"": model}, X, y, novel_classes, **options, **more)[""]  # noqa: B023

        run(on_device, labels, inside)
        results: dict[str, np.ndarray] = {}
        taken = bench.once(lambda: results.update(gpu=run(on_device, labels, inside)))  # noqa: B023
        # Threads share the interpreter lock: using all cores is not always fastest.
        of_host = min(
            bench.once(lambda: results.update(cpu=run(X, y, is_base, n_jobs=jobs)))  # noqa: B023
            for jobs in (os.cpu_count(), (os.cpu_count() or 2) // 2)
        )
        rows.append(
            {
                "shots": shots,
                "trials": bench.sizes["trials"],
                f"CPU, {os.cpu_count()} cores (s)": figure(of_host),
                "GPU, batched (s)": figure(taken),
                "share of peak": figure(
                    bench.sizes["trials"] * operations(shots, d, base) / taken / 1e12 / 67, 2
                ),
                "ratio": figure(of_host / taken),
                "accuracy, CPU": figure(100 * results["cpu"].mean(), 4),
                "accuracy, GPU": figure(100 * results["gpu"].mean(), 4),
                "trials that differ": int((results["cpu"] != results["gpu"]).sum()),
            }
        )
    return rows


def predictions(bench: Bench) -> list[dict[str, Any]]:
    n, d, m = bench.sizes["predict"]
    prototypes = Prototypes(np.arange(m), np.random.default_rng(0).standard_normal((m, 85)))
    y = torch.arange(200, device=bench.device) % 50
    model = ZeroShotClassifier(prototypes, synthesis=None, candidates="all")
    model.fit(bench.normal(200, d), y)
    X, centers = bench.normal(n, d, seed=1), model.project(prototypes)
    step = rows_per_block(4 * max(m, d))

    def bare() -> None:
        for start in range(0, n, step):
            _ = X[start : start + step] @ centers.T

    rows = []
    for kind in ("float32", "tf32"):
        allow_tf32(kind == "tf32")
        floor = bench.seconds(bare)
        taken = bench.seconds(lambda: model.predict(X))
        top = bench.seconds(lambda: model.predict_top(X, 5))
        rows.append(
            {
                "queries x features, classes": f"{n:,} x {d:,}, {m:,}",
                "products in": kind,
                "bare product (s)": figure(floor),
                "predict (s)": figure(taken),
                "ratio": figure(taken / floor),
                "predict_top, k = 5 (s)": figure(top),
                "ratio of predict_top": figure(top / floor),
            }
        )
    allow_tf32(False)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="small problems, on the CPU")
    small = parser.parse_args().small
    if not small and not torch.cuda.is_available():
        print("No CUDA device: benchmarks/results/gpu.md is unchanged.")
        return
    bench = Bench(small)
    tables = {}
    for heading, work in {
        "Moments: A0 and class sums": moments,
        "One Sylvester equation": sylvester,
        "One fit, paper preset": fits,
        "Few-shot trials, 5-way, 10 episodes x 5 steps": trials,
        "Prediction": predictions,
    }.items():
        tables[heading] = work(bench)
        show(heading, tables[heading])
    record = {"rows": tables, "device": bench.name, "torch": torch.__version__}
    save("gpu", record)
    if bench.device.type == "cuda":
        title = f"{bench.name} compared with {os.cpu_count()} CPU cores of the same machine"
        notes = [
            "Peaks from the data sheet (dense, TFLOP/s): float64 and float32 67, TF32 494.5.",
            "Moments on the CPU: an eighth of the samples, times 8. Sums are float64 in all rows; "
            "the rows name the type of the block products.",
            "Errors of A0 are relative to its largest entry.",
            "Operations of the solver: 9 d^3 + 9 k^3 for two eigendecompositions and 4 d k (d + k) "
            "for products; those of trials are counted by `operations`, and their time includes "
            "drawing noise on the host and prediction.",
            "Trials on the CPU: the better of two runs, with one thread per core and with half as "
            "many.",
        ]
        machine = f"{bench.name}, torch {torch.__version__}"
        below = "\n" + "".join(f"- {note}\n" for note in notes)
        save_page("gpu", title, "python benchmarks/gpu.py", tables, machine=machine, below=below)


if __name__ == "__main__":
    main()
