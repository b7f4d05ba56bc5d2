"""Trees of classes: flat against tree, answers as deep as sure, rare classes, coarse labels.

    python benchmarks/trees.py --fetch
    python benchmarks/trees.py [--only emoji cub banking77]

Trees are not made by hand: groups and subgroups of emoji are those of Unicode (package
unicode-data), the parent of a bird of CUB is the last word of its name, and that of an intent of
Banking77 the first. The weight of the tree is chosen on held-out training classes. Figures of
research data (CUB, Banking77) are printed and in the record only.
"""

from __future__ import annotations

import argparse
import copy
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from data_packages import Missing, fetch, package, read_files
from everywhere_data import banking77
from mini_imagenet import folder
from recording import save
from zonkey import AnyShotClassifier, Prototypes, Tree
from zonkey.files.emoji import load_emoji
from zonkey.metrics import hierarchical_scores, level_accuracy, per_class_accuracy, tree_distance
from zonkey_lab.datasets.xlsa17 import load_xlsa17

SHOTS, SURE = (1, 2, 5), (0.5, 0.7, 0.9)
_MOST = 5000  # test samples


@dataclass(frozen=True, eq=False)
class Data:
    """Samples with labels, prototypes in a tree, and the classes that are unseen or rare."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    prototypes: Prototypes
    rare: np.ndarray
    space: str = "auto"

    @property
    def tree(self) -> Tree:
        """The tree of all classes."""
        assert self.prototypes.tree is not None
        return self.prototypes.tree

    def fit(self, kept: np.ndarray, **parameters: Any) -> AnyShotClassifier:
        """Return a model that has learned from some training samples."""
        model = AnyShotClassifier(self.prototypes, space=self.space, **parameters)
        return model.fit(self.X[kept], self.y[kept])


def emoji() -> Data:
    """Load emoji with groups and subgroups; a quarter of the classes is rare."""
    data = load_emoji()
    wanted = {str(char).replace("\ufe0f", ""): name for name, char in data.characters.items()}
    parents: dict[str, str] = {}
    group = subgroup = ""
    path = package("unicode-data_")
    (_, text), *_ = read_files(path, r"emoji/emoji-test\.txt$")
    for line in text.decode().splitlines():
        if line.startswith(("# group:", "# subgroup:")):
            kind, name = line[2:].split(": ")
            group, subgroup = (name, "") if kind == "group" else (group, f"{name} ({group})")
        elif found := re.match(r"[0-9A-F ]+; fully-qualified +# (\S+) ", line):
            name = wanted.get(found[1].replace("\ufe0f", ""))
            if name is not None:
                parents |= {name: subgroup, subgroup: group}
    rest = [name for name in data.prototypes if name not in parents]
    parents |= {name: data.groups[name] for name in rest}
    test = data.styles == "twemoji"
    return Data(
        *(data.X[~test], data.y[~test], data.X[test], data.y[test]),
        data.prototypes.with_parents(parents),
        data.unseen_classes,
    )


def cub() -> Data:
    """Load birds; the parent of "Black footed Albatross" is "Albatross"."""
    path = folder().parent / "xlsa17" / "data" / "CUB"
    if not path.exists():
        raise Missing(f"no {path}; set ZONKEY_DATA")
    data = load_xlsa17(path, features="efficientnet_lite0", semantics="att_splits")
    split, y = data.split, data.y
    labels = data.prototypes.labels.tolist()
    known = data.prototypes.with_parents(by_word(labels, lambda name: name.split("_")[-1]))
    train = np.concatenate([split.train, split.test_unseen[::2]])
    test = np.concatenate([split.test_seen, split.test_unseen[1::2]])
    return Data(data.X[train], y[train], data.X[test], y[test], known, data.unseen_classes)


def bank() -> Data:
    """Load intents; the parent of "card_arrival" is "card". Every fourth class is rare."""
    problem = banking77()
    path = folder().parent / "texts" / "banking77" / "train.csv"
    lines = path.read_text(encoding="utf-8").splitlines()[1:]
    names = np.unique([line.rsplit(",", 1)[1] for line in lines if re.search(r",[\w?]+$", line)])
    assert len(names) == problem.n_classes
    parents = by_word(names.tolist(), lambda name: name.lower().split("_")[0])
    known = Prototypes(names, problem.P, parents=parents)
    labels, others = names[problem.y], names[problem.y_test]
    return Data(problem.X, labels, problem.X_test, others, known, names[3::4], "joint")


def by_word(labels: list[str], word_of: Callable[[str], str]) -> dict[str, str | None]:
    """Return a parent of classes that have a word in common."""
    words = {label: f"({word_of(label)})" for label in labels}
    n = Counter(words.values())
    return {label: word if n[word] > 1 else None for label, word in words.items()}


SETS = {"emoji": emoji, "cub": cub, "banking77": bank}


def figures(data: Data, y: np.ndarray, answers: np.ndarray) -> dict[str, float]:
    """Return the figures of answers in percent, and the distance in edges."""
    levels = 100 * level_accuracy(y, answers, data.tree)
    found = {"classes": 100 * per_class_accuracy(y, answers)}
    found |= {f"level {i}": share for i, share in enumerate(levels[:-1], 1)}
    found["hierarchical F1"] = 100 * hierarchical_scores(y, answers, data.tree).f1
    return found | {"distance": tree_distance(y, answers, data.tree)}


def compare_without_samples(data: Data) -> list[dict[str, Any]]:
    """Return figures of unseen classes among themselves, and of all classes."""
    rows = []
    kept = np.flatnonzero(~np.isin(data.y, data.rare))
    is_rare = np.isin(data.y_test, data.rare)
    for name, parameters in (("flat", {"tree_weight": 0.0}), ("tree", {})):
        started = time.perf_counter()
        model = data.fit(kept, **parameters)
        seconds = time.perf_counter() - started
        for among, rows_of in (("unseen", is_rare), ("all", np.full(len(is_rare), True))):
            one = model.with_candidates(among)
            X, y = data.X_test[rows_of][:_MOST], data.y_test[rows_of][:_MOST]
            row = {
                "candidates": among,
                "model": name,
                **figures(data, y, np.asarray(one.predict(X))),
            }
            for level in range(1, data.tree.n_levels):
                right = one.predict(X, level=level) == data.tree.lift(y, level)
                row[f"level {level} by sums"] = 100 * np.mean(right)
            weight = model.best_params_.get("tree_weight", 0.0)
            rows.append({**row, "weight": weight, "fit (s)": round(seconds, 1)})
    return rows


def answer_as_deep_as_sure(data: Data) -> list[dict[str, Any]]:
    """Return how deep answers are, and how often they are right, of all classes."""
    kept = np.flatnonzero(~np.isin(data.y, data.rare))
    model = data.fit(kept)
    X, y = data.X_test[:_MOST], data.y_test[:_MOST]
    rows = []
    for below in (0.0, *SURE):
        paths = model.with_rejection(below).predict_path(X)
        flat = model.with_tree(None).with_rejection(below).predict(X)
        depth = np.array([len(path) for path in paths])
        right = np.array(
            [
                label == path[-1] or label in data.tree.leaves_below(path[-1])
                for path, label in zip(paths, y, strict=True)
                if path
            ]
        )
        is_class = np.array([bool(path) and path[-1] in model.classes_ for path in paths])
        rows.append(
            {
                "at least": below,
                "a class": 100 * np.mean(is_class),
                **{
                    f"inner, level {i}": 100 * np.mean((depth == i) & ~is_class)
                    for i in range(1, data.tree.n_levels)
                },
                "no answer": 100 * np.mean(depth == 0),
                "right of the answers": 100 * np.mean(right),
                "flat: a class": 100 * np.mean(flat != "unknown"),
                "flat: right": 100 * np.mean((flat == y)[flat != "unknown"]),
            }
        )
    return rows


def learn_rare_classes(data: Data) -> list[dict[str, Any]]:
    """Return accuracies of rare classes with few samples, among all classes."""
    order = np.random.default_rng(0).permutation(len(data.y))
    rank = np.full(len(order), -1)
    for label in data.rare:
        rows = order[data.y[order] == label]
        rank[rows] = np.arange(len(rows))
    X, y = data.X_test[:_MOST], data.y_test[:_MOST]
    is_rare = np.isin(y, data.rare)
    parents = np.array([(data.tree.path(label)[-2:-1] or (label,))[0] for label in data.y])
    models = {"flat": data.fit(np.flatnonzero(rank < 0), tree_weight=0.0)}
    models["tree"] = data.fit(np.flatnonzero(rank < 0))
    found = []
    for n in SHOTS:
        few, rest = np.flatnonzero((rank >= 0) & (rank < n)), np.flatnonzero(rank >= n)
        if not (rank == n - 1).any():
            continue
        row: dict[str, Any] = {"samples": n}
        for name, start in models.items():
            model = copy.deepcopy(start).partial_fit(data.X[few], data.y[few])
            answers = model.predict(X)
            row[name] = 100 * per_class_accuracy(y[is_rare], answers[is_rare])
            row[f"others, {name}"] = 100 * per_class_accuracy(y[~is_rare], answers[~is_rare])
            row[f"F1, {name}"] = 100 * hierarchical_scores(y, answers, data.tree).f1
            if name == "tree" and rest.size:
                model.partial_fit(data.X[rest], parents[rest])
                answers = model.predict(X)
                row["and coarse labels"] = 100 * per_class_accuracy(y[is_rare], answers[is_rare])
        found.append(row)
    return found


PARTS = {
    "Classes without samples, flat against tree": compare_without_samples,
    "Answers as deep as sure": answer_as_deep_as_sure,
    "Rare classes": learn_rare_classes,
}


def table(rows: list[dict[str, Any]]) -> str:
    """Return rows as a table in Markdown."""
    names = [*dict.fromkeys(name for row in rows for name in row)]
    lines = [names, ["---"] * len(names)]
    lines += [
        [f"{row[n]:.4g}" if isinstance(row.get(n), float) else str(row.get(n, "-")) for n in names]
        for row in rows
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fetch", action="store_true", help="download the package of emoji groups")
    parser.add_argument("--only", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--parts", nargs="+", type=int, default=[0, 1, 2])
    wanted = parser.parse_args()
    if wanted.fetch:
        print(fetch("unicode-data_"))
        return
    record: dict[str, Any] = {}
    for name in wanted.only:
        try:
            data = SETS[name]()
        except Missing as missing:
            print(f"{name}: {missing}")
            continue
        print(f"{name}: {data.tree}, {len(data.rare)} rare or unseen classes")
        for title in [[*PARTS][i] for i in wanted.parts]:
            rows = PARTS[title](data)
            record.setdefault(name, {})[title] = rows
            print(f"\n{title}\n\n{table(rows)}\n", flush=True)
    print(f"Record: {save('trees_' + '_'.join(wanted.only), {'rows': record})}")


if __name__ == "__main__":
    main()
