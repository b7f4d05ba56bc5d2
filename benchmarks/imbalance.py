"""Imbalanced classes and wanted precisions on real data.

Training sets have between 1 and `MOST` samples per class, log-uniformly. Answers are measured on
test samples of even shares of classes, and of those of the training samples. Then, on balanced
shots, what precision accepted answers have whose threshold `with_precision` has chosen.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import defaultdict
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from everywhere_data import SETS, Missing, Problem
from recording import save, save_page, show
from zonkey import AnyShotClassifier
from zonkey.metrics import expected_calibration_error

MOST, DRAWS, BATCH = 50, 3, 1000
NAMES = ("newsgroups", "wordnet", "drawings", "banking77", "mini_imagenet")
SHOTS, WANTED, HELD_OUT = (3, 5, 20, 50), (0.8, 0.9, 0.95), 500
Row = dict[str, Any]


def draw_uneven(problem: Problem, rng: np.random.Generator) -> np.ndarray:
    """Return rows of training samples: 1 to 50 of each class, log-uniformly."""
    counts = np.round(np.exp(rng.uniform(0, np.log(MOST), problem.n_classes))).astype(int)
    return draw_shots(problem, counts, rng)


def draw_shots(problem: Problem, counts: Any, rng: np.random.Generator) -> np.ndarray:
    counts = np.broadcast_to(counts, problem.n_classes)
    rows = [
        rng.permutation(np.flatnonzero(problem.y == k))[: max(1, n)] for k, n in enumerate(counts)
    ]
    return np.concatenate(rows)


def answer(problem: Problem, rows: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return the probabilities of test samples by every method."""
    X, y, T = problem.X[rows], problem.y[rows], problem.X_test
    shares = np.bincount(y) / len(y)
    of_test = shares[problem.y_test] / np.bincount(problem.y_test)[problem.y_test]
    batch = T[rng.choice(len(T), BATCH, p=of_test / of_test.sum())]
    found = {}
    named = {k: problem.P[k] for k in range(problem.n_classes)}
    for suffix, prototypes in (("", None), (", names", named)):
        model: Any = AnyShotClassifier(prototypes).fit(X, y)
        found[f"zonkey{suffix}"] = model.predict_proba(T)
        found[f"zonkey{suffix}, known shares"] = model.with_priors(shares).predict_proba(T)
        estimated = model.with_priors(model.estimate_priors(batch))
        found[f"zonkey{suffix}, estimated shares"] = estimated.predict_proba(T)
        plain: Any = AnyShotClassifier(prototypes, class_weight=None).fit(X, y)
        found[f"zonkey{suffix}, class_weight=None"] = plain.predict_proba(T)
    middle = X.mean(axis=0)
    U, V = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (X - middle, T - middle))
    for weight in ("balanced", None):
        other = LogisticRegression(C=30, class_weight=weight, max_iter=200).fit(U, y)
        found[f"logistic regression, class_weight={weight}"] = other.predict_proba(V)
    return found


def measure(P: np.ndarray, y: np.ndarray, shares: np.ndarray) -> Row:
    """Return accuracy and calibration error under even shares and under those of training."""
    right = P.argmax(axis=1) == y
    P = P / P.sum(axis=1, keepdims=True)
    found = {}
    for name, wanted in (("even", np.ones_like(shares)), ("training", shares)):
        weights = wanted[y] / np.bincount(y)[y]
        found[f"accuracy, {name}"] = 100 * float(np.average(right, weights=weights))
        error = expected_calibration_error(
            y, P, np.arange(P.shape[1]), sample_weight=weights / weights.mean()
        )
        found[f"ECE, {name}"] = 100 * error
    return found


def compare_methods(problem: Problem, draws: int) -> list[Row]:
    """Return the mean figures of every method over imbalanced draws."""
    parts: dict[str, list[Row]] = defaultdict(list)
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        rows = draw_uneven(problem, rng)
        counts = np.bincount(problem.y[rows])
        for method, P in answer(problem, rows, rng).items():
            parts[method].append(measure(P, problem.y_test, counts / counts.sum()))
    return [
        {"data": problem.name, "method": method}
        | {key: round(float(np.mean([one[key] for one in found])), 1) for key in found[0]}
        for method, found in parts.items()
    ]


def compare_precisions(problem: Problem) -> list[Row]:
    """Return wanted and reached precisions, in percent."""
    rows = []
    rng = np.random.default_rng(0)
    order = rng.permutation(len(problem.X_test))
    n_held = min(HELD_OUT, len(order) // 2)
    held, fresh = order[:n_held], order[n_held:]
    for n in (n for n in SHOTS if n <= np.bincount(problem.y).max()):
        some = draw_shots(problem, n, rng)
        named = {k: problem.P[k] for k in range(problem.n_classes)}
        model: Any = AnyShotClassifier(named).fit(problem.X[some], problem.y[some])
        P = model.predict_proba(problem.X_test[fresh])
        right = P.argmax(axis=1) == problem.y_test[fresh]
        for wanted in WANTED:
            row = {"data": problem.name, "shots": n, "accuracy": round(100 * right.mean(), 1)}
            row["wanted"] = 100 * wanted
            given = {"left out": (), "held out": (problem.X_test[held], problem.y_test[held])}
            for name, samples in given.items():
                reached = coverage = "-"
                try:
                    below = model.with_precision(wanted, *samples).reject_below
                    accepted = P.max(axis=1) >= below
                    reached = f"{100 * right[accepted].mean():.1f}"
                    coverage = f"{100 * accepted.mean():.0f}"
                except ValueError:
                    pass
                row |= {f"{name}: precision": reached, f"{name}: coverage": coverage}
            rows.append(row)
    return rows


NOTES = f"""
Percent, means of {DRAWS} draws of 1 to {MOST} training samples per class, log-uniformly. Accuracy
and calibration error (ECE) on test samples weighted to even shares of classes, and to the shares of
the training samples. "known shares": `with_priors` of the training shares; "estimated shares":
those that `estimate_priors` finds in {BATCH} unlabeled test samples of training shares. Logistic
regression (C=30) learns from centered samples of unit length. Names: prototypes of the names.

Precision: with names; thresholds of `with_precision(wanted)` by left-out training samples, and by
{HELD_OUT} labeled test samples (at most half), measured on the others. A dash: the samples cannot
show it.
Figures of research data (Banking77, mini-ImageNet) are printed and in the record only.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, help="data sets")
    parser.add_argument("--draws", type=int, default=DRAWS, help="imbalanced draws")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    found: dict[str, list[Row]] = {"Imbalanced classes": [], "Wanted precision": []}
    public: dict[str, str] = {}
    for name in given.only:
        try:
            problem = SETS[name]()
        except Missing as error:
            print(f"{name} is left out: {error}")
            continue
        if problem.is_public:
            public[problem.name] = problem.sha256
        made = compare_methods(problem, given.draws), compare_precisions(problem)
        for heading, rows in zip(found, made, strict=True):
            show(f"{heading}: {problem.name}", rows, width=160)
            found[heading] += rows
    print(f"Record: {save('imbalance', {'rows': found})}")
    if given.only == NAMES and given.draws == DRAWS:
        kept = {
            heading: [row for row in rows if row["data"] in public]
            for heading, rows in found.items()
        }
        hashes = ", ".join(f"{name} {sha[:12]}" for name, sha in public.items())
        seconds = time.perf_counter() - start
        below = f"{NOTES}\n{seconds:.0f} s for all sets; SHA-256 of the features: {hashes}.\n"
        command = "python benchmarks/imbalance.py"
        title = "Imbalanced classes and wanted precision"
        path = save_page("imbalance", title, command, kept, below=below)
        print(f"Page: {path}")


if __name__ == "__main__":
    main()
