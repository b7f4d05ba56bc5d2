"""Labels in bulk: accuracy against the number of human actions, beside single labels.

    python benchmarks/bulk.py --save
    python benchmarks/bulk.py --data banking77 --draws 1

A simulated person knows all labels, and labels a pool of samples for a model that starts with
names only, with unlabeled samples, or with one sample per class. Every 50 actions at most, the
model learns from what is new (`partial_fit`) and suggests again. The person's actions:

- single labels: one action per sample, in random order or by `most_informative`;
- groups (`suggest`), or pages of 50 of one answer in order of probability ("sorted"): if 95 % of a
  group have one label, one action gives it to all of them, wrong ones included; if the suggestion
  is right for at least half, one action accepts it, and each wrong sample takes one more;
  otherwise one action rejects the group, and one labels its first sample;
- "groups, then uncertain": half of the actions of each round on groups, half on single samples.

Banking77 is also measured with a quarter of the classes unknown to the model at first.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from data_packages import Missing
from everywhere_data import SETS, Problem
from recording import save_page, show
from zonkey import AnyShotClassifier, Prototypes, presets
from zonkey.metrics import per_class_accuracy

BUDGETS, ROUND, PAGE, DRAWS = (0, 25, 50, 100, 200, 400), 50, 50, 3
ALIKE, WORTH_CORRECTING = 0.95, 0.5
Groups = Iterator[tuple[np.ndarray, Any]]  # positions, the most typical first, and the suggestion


@dataclass(eq=False)
class Person:
    """Somebody who knows the true labels of a pool, and has some actions left."""

    truth: np.ndarray
    left: int = 0
    labels: dict[int, Any] = field(default_factory=dict)  # given so far, by position
    new: list[int] = field(default_factory=list)  # not learned yet

    def give(self, rows: np.ndarray, label: Any) -> None:
        """Give a label to some samples; it takes no action by itself."""
        self.labels |= dict.fromkeys(rows.tolist(), label)
        self.new += rows.tolist()

    def label_one(self, row: int) -> None:
        """Give a sample its label, if an action is left."""
        if self.left > 0:
            self.left -= 1
            self.give(np.array([row]), self.truth[row])

    def look_at(self, rows: np.ndarray, suggested: Any) -> None:
        """Accept a group, correct it, or reject it."""
        self.left -= 1
        labels, counts = np.unique(self.truth[rows], return_counts=True)
        common, is_right = labels[counts.argmax()], self.truth[rows] == suggested
        if counts.max() >= ALIKE * len(rows):
            self.give(rows, common)
        elif is_right.mean() >= WORTH_CORRECTING:
            self.give(rows[is_right], suggested)
            for row in rows[~is_right].tolist():
                self.label_one(row)
        else:
            self.label_one(int(rows[0]))


def in_groups(model: Any, X: np.ndarray) -> Groups:
    found = model.suggest(X)
    for group in range(len(found.useful)):
        rows = found.rows_of(group)
        yield rows, found.answer[rows[0]]


def in_pages(model: AnyShotClassifier, X: np.ndarray) -> Groups:
    """Yield pages of one answer in order of probability, those of the surest samples first."""
    P = np.asarray(model.predict_proba(X))
    best, chance = P.argmax(axis=1), P.max(axis=1)
    pages = []
    for code in np.unique(best):
        rows = np.flatnonzero(best == code)
        rows = rows[np.argsort(-chance[rows], kind="stable")]
        pages += [rows[i : i + PAGE] for i in range(0, len(rows), PAGE)]
    for rows in sorted(pages, key=lambda rows: -float(chance[rows].sum())):
        yield rows, model.classes_[best[rows[0]]]


METHODS: dict[str, Callable[..., Groups] | str] = {
    "groups": in_groups,
    "sorted": in_pages,
    "groups, then uncertain": in_groups,
    "uncertain": "single",
    "random": "single",
}


def first_model(problem: Problem, draw: int, kept: np.ndarray) -> tuple[Any, np.ndarray]:
    """Return a model of the kept classes without labels, or with one each, and the labeled rows."""
    names = np.array([f"{code:03d}" for code in range(problem.n_classes)])
    known = Prototypes(names[kept], problem.P[kept])
    none = np.empty(0, np.intp)
    if problem.pretrained:
        return presets.pretrained(classes=known), none
    space = "joint" if problem.joint else "separate"
    model: Any = presets.recommended(known, space=space, candidates="all")
    if problem.joint:
        return model.fit(problem.X), none
    rng = np.random.default_rng(draw)
    rows = np.array([rng.choice(np.flatnonzero(problem.y == code)) for code in kept])
    return model.fit(problem.X[rows], names[problem.y[rows]]), rows


def label_round(method: str, model: Any, X: np.ndarray, person: Person, seed: int) -> None:
    """Let the person spend the actions that are left."""
    waiting = np.setdiff1d(np.arange(len(X)), [*person.labels])
    n, chosen = min(person.left, len(waiting)), METHODS[method]
    if not n:
        return
    if callable(chosen):
        kept = person.left // 2 if "uncertain" in method else 0
        person.left -= kept
        for rows, suggested in chosen(model, X[waiting]):
            if person.left <= 0:
                break
            person.look_at(waiting[rows], suggested)
        person.left = max(person.left, 0) + kept
        waiting = np.setdiff1d(waiting, [*person.labels])
        n = min(kept, len(waiting))
        if not n:
            return
    rows = np.random.default_rng(seed).permutation(len(waiting))[:n]
    if "uncertain" in method:
        rows = model.most_informative(X[waiting], n)
    for row in waiting[rows].tolist():
        person.label_one(row)


def simulate(problem: Problem, method: str, draw: int, kept: np.ndarray) -> list[dict[str, float]]:
    """Return accuracy on test samples and the labels of the pool after each budget, in percent."""
    model, rows = first_model(problem, draw, kept)
    names = np.array([f"{code:03d}" for code in range(problem.n_classes)])
    pool = np.setdiff1d(np.arange(len(problem.y)), rows)
    X, truth = problem.X[pool], names[problem.y[pool]]
    person, spent, found = Person(truth), 0, []
    for budget in BUDGETS:
        while spent < budget:
            step = min(ROUND, budget - spent)
            person.left, spent = step, spent + step
            label_round(method, model, X, person, 1000 * draw + spent)
            if person.new:
                y = np.array([person.labels[row] for row in person.new], names.dtype)
                model.partial_fit(X[person.new], y)
                person.new.clear()
        given = [label == truth[row] for row, label in person.labels.items()]
        accuracy = per_class_accuracy(names[problem.y_test], model.predict(problem.X_test))
        found.append(
            {
                "accuracy": 100 * float(accuracy),
                "labeled": 100 * sum(given) / len(pool),
                "wrong": len(given) - sum(given),
            }
        )
    return found


def table_of(problem: Problem, draws: int, kept: np.ndarray) -> dict[str, list[dict[str, Any]]]:
    """Return tables of accuracy, share of the pool with the right label, and wrong labels."""
    found = {}
    for method in METHODS:
        # Else nothing is drawn.
        is_drawn = method == "random" or not (problem.joint or problem.pretrained)
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            runs = [simulate(problem, method, draw, kept) for draw in range(draws * is_drawn or 1)]
        found[method] = runs
    tables = {}
    for what, title in (
        ("accuracy", "accuracy on test samples, %"),
        ("labeled", "share of the pool with the right label, %"),
        ("wrong", "wrong labels"),
    ):
        tables[title] = [
            {"method": method}
            | {
                str(budget): round(float(np.mean([run[i][what] for run in runs])), 1)
                for i, budget in enumerate(BUDGETS)
            }
            for method, runs in found.items()
        ]
    return tables


STARTS = {
    "banking77": "names, and the pool without labels",
    "cifar10": "names, by ImageNet",
    "cifar10_joint": "names, and the pool without labels",
    "emoji": "one sample per class",
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", nargs="+", default=[*STARTS], choices=[*STARTS])
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    tables = {}
    for name in options.data:
        try:
            problem = SETS[name]()
        except Missing as missing:
            print(f"{name} is left out: {missing}")
            continue
        every = np.arange(problem.n_classes)
        kinds = {STARTS[name]: every}
        if name == "banking77":
            kinds[f"{STARTS[name]}, for three quarters of the classes"] = every[every % 4 != 0]
        for start, kept in kinds.items():
            for title, rows in table_of(problem, options.draws, kept).items():
                heading = f"{problem.name} ({start}): {title}"
                show(heading, rows)
                tables[heading] = rows
    if options.save:
        about = (
            "\nColumns are numbers of human actions; benchmarks/bulk.py says what an action is. "
            f"First samples and the random order are drawn {options.draws} times.\n"
        )
        command = "python benchmarks/bulk.py --save"
        save_page("bulk", "Labels in bulk, by human actions", command, tables, below=about)


if __name__ == "__main__":
    main()
