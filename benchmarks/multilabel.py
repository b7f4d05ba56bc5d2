"""Several labels per sample, from none to all positives: ours beside one-vs-rest and names.

    python benchmarks/multilabel.py [--quick]

Samples are drawn until each label has a number of positives, so frequent labels have more. The
baselines: one logistic regression per label (scikit-learn), C chosen by three folds on the mean
average precision, predicting at a probability of 0.5, and at thresholds of the best F1 of the same
folds; and cosines with names, at the threshold of the best micro F1 of the drawn samples.
Everything is chosen on drawn samples, and measured on others. Seconds are those of a busy machine.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.multiclass import OneVsRestClassifier

from multilabel_data import MarkedProblem, generate_marked, load_debtags, load_separate
from recording import save_page
from zonkey import MultiLabelClassifier, Prototypes
from zonkey.metrics import mean_average_precision, multilabel_calibration_error

SHOTS = (0, 1, 2, 5, 10, 50, None)
CS, N_FOLDS, N_DRAWS = (1.0, 10.0, 100.0), 3, 3
THRESHOLDS = np.linspace(0.02, 0.9, 45)
Answer = tuple[np.ndarray, np.ndarray]  # probabilities or scores, and predictions


def draw_shots(Y: np.ndarray, k: int | None, seed: int) -> np.ndarray:
    """Return samples, each of which has a label with fewer than k positives before it."""
    if k is None:
        return np.arange(len(Y))
    counts, rows = np.zeros(Y.shape[1]), []
    for i in np.random.default_rng(seed).permutation(len(Y)):
        on = Y[i] > 0
        if (counts[on] < k).any():
            rows.append(i)
            counts[on] += 1
    return np.asarray(rows, int)


def answer_ours(problem: MarkedProblem, rows: np.ndarray, *, names: bool) -> Answer | None:
    prototypes = Prototypes(np.arange(len(problem.P)), problem.P) if names else None
    model = MultiLabelClassifier(prototypes)
    if len(rows):
        model.fit(problem.X[rows], problem.Y[rows])
    elif names and problem.joint:
        model.set_params(space="joint").fit(problem.X)  # without labels
    else:
        return None
    return model.predict_proba(problem.X_test), model.predict(problem.X_test)


def answer_one_vs_rest(problem: MarkedProblem, rows: np.ndarray) -> tuple[Answer, Answer]:
    X, Y = problem.X[rows], problem.Y[rows]
    turn = np.random.default_rng(0).permutation(len(X)) % N_FOLDS
    best: tuple[float, Any, Any] = (-1.0, None, None)
    for C in CS:
        P = np.zeros(Y.shape)
        for i in range(N_FOLDS):
            P[turn == i] = fit_one_vs_rest(X[turn != i], Y[turn != i], C, X[turn == i])
        found = mean_average_precision(Y, P)
        if found > best[0]:
            best = found, C, P
    P = fit_one_vs_rest(X, Y, best[1], problem.X_test)
    scores = np.stack(
        [
            [f1_score(y, p > t, zero_division=0) for t in THRESHOLDS[::3]]
            for y, p in zip(Y.T, best[2].T, strict=True)
        ]
    )
    thresholds = THRESHOLDS[::3][scores.argmax(axis=1)]
    return (P, (P > 0.5).astype(int)), (P, (thresholds < P).astype(int))


def fit_one_vs_rest(X: np.ndarray, Y: np.ndarray, C: float, X_test: np.ndarray) -> np.ndarray:
    """Return probabilities; labels without positives, or without others, are certain."""
    varies = (Y.min(axis=0) == 0) & (Y.max(axis=0) == 1)
    P = np.tile(Y[0].astype(float), (len(X_test), 1))
    if varies.any():
        model = OneVsRestClassifier(LogisticRegression(C=C, max_iter=300))
        P[:, varies] = model.fit(X, Y[:, varies]).predict_proba(X_test).reshape(len(X_test), -1)
    return P


def answer_cosines(problem: MarkedProblem, rows: np.ndarray) -> Answer | None:
    if not problem.joint:
        return None
    S, some = (cosines(X, problem.P) for X in (problem.X_test, problem.X[rows]))
    threshold = 0.35
    if len(rows):
        tried = np.quantile(some, np.linspace(0.5, 0.999, 40))
        Y = problem.Y[rows].ravel()
        found = [f1_score(Y, (some > t).ravel(), zero_division=0) for t in tried]
        threshold = tried[int(np.argmax(found))]
    return S, (threshold < S).astype(int)


def cosines(X: np.ndarray, P: np.ndarray) -> np.ndarray:
    X, P = (A / np.linalg.norm(A, axis=1, keepdims=True) for A in (X, P))
    return X @ P.T


def measure(problem: MarkedProblem, answer: Answer, seconds: float, *, sure: bool) -> list[float]:
    """Return micro F1, macro F1, mean average precision, calibration error and seconds."""
    (P, predicted), Y = answer, problem.Y_test
    used = Y.any(axis=0)
    return [
        float(f1_score(Y, predicted, average="micro", zero_division=0)),
        float(f1_score(Y[:, used], predicted[:, used], average="macro", zero_division=0)),
        mean_average_precision(Y, P),
        multilabel_calibration_error(Y, P) if sure else float("nan"),
        seconds,
    ]


def run(problem: MarkedProblem, k: int | None, seed: int) -> dict[str, list[float]]:
    rows, found = draw_shots(problem.Y, k, seed), {}
    tasks = {
        "ours": lambda: answer_ours(problem, rows, names=True),
        "ours, no names": lambda: answer_ours(problem, rows, names=False),
        "cosine to names": lambda: answer_cosines(problem, rows),
    }
    for name, task in tasks.items():
        start = time.perf_counter()
        answer = task()
        seconds = time.perf_counter() - start
        if answer is not None:
            found[name] = measure(problem, answer, seconds, sure=name != "cosine to names")
    if len(rows) >= 2 * N_FOLDS:
        start = time.perf_counter()
        plain, tuned = answer_one_vs_rest(problem, rows)
        seconds = time.perf_counter() - start
        found["one-vs-rest, at 0.5"] = measure(problem, plain, seconds, sure=True)
        found["one-vs-rest, thresholds"] = measure(problem, tuned, seconds, sure=True)
    return found


def tabulate(problem: MarkedProblem, shots: Any, n_draws: int) -> list[dict[str, Any]]:
    rows = []
    for k in shots:
        draws = [run(problem, k, seed) for seed in range(1 if k in (0, None) else n_draws)]
        for name in draws[0]:
            values = np.mean([draw[name] for draw in draws], axis=0)
            cells = [f"{value:.3f}" for value in values[:3]] + [f"{values[3]:.4f}"]
            cells = ["" if cell == "nan" else cell for cell in cells]
            shown = dict(zip(("micro F1", "macro F1", "mAP", "ECE"), cells, strict=True))
            few = "all" if k is None else str(k)
            rows.append({"positives": few, "method": name, **shown, "s": f"{values[4]:.1f}"})
            print(problem.name, *rows[-1].values(), flush=True)
    return rows


def describe(problem: MarkedProblem) -> str:
    n, m = problem.Y.shape
    return (
        f"{problem.name}: {n} samples to draw from, {len(problem.Y_test)} test samples, {m} "
        f"labels, {problem.Y_test.sum(axis=1).mean():.1f} per sample"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few shots, one draw, no record")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    shots, n_draws = ((0, 2, 10), 1) if options.quick else (SHOTS, N_DRAWS)
    problems = [load() for load in (load_debtags, load_separate, generate_marked)]
    tables = {describe(problem): tabulate(problem, shots, n_draws) for problem in problems}
    if not options.quick:
        below = (__doc__ or "").partition("[--quick]")[2]
        command = "python benchmarks/multilabel.py"
        save_page("multilabel", "Several labels per sample", command, tables, below=below)


if __name__ == "__main__":
    main()
