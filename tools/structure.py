"""Measure the structure of the code base and print it next to the figures of the first version.

    python tools/structure.py

"before" holds the figures of the first development version, "wanted" the goals of its
refactoring. "now" is measured on the package that Python imports. The original count of docstrings covered
fewer objects: the rules of `check_docstrings.py` give 220 of 295 for the same version.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import grimp
import numpy as np
from rich.console import Console
from rich.table import Table

import zonkey
from check_docstrings import failures
from zonkey import FewShotClassifier, Moments, Prototypes, ZeroShotClassifier

PACKAGE = Path(zonkey.__file__).parent
DECAY_FACTOR = 0.99  # of alpha_t = 0.99^t alpha, which only the loop of Algorithm 1 computes


class Row(NamedTuple):
    """One measured property."""

    measured: str
    before: str
    wanted: str
    now: str


def sources() -> dict[Path, str]:
    """Return the text of every Python file of the package."""
    return {path: path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py"))}


def modules_with_one_importer() -> list[str]:
    """Return modules that exactly one other module imports; packages themselves do not count."""
    graph = grimp.build_graph("zonkey")
    return sorted(
        module
        for module in graph.modules
        if not graph.find_children(module)
        and len(graph.find_modules_that_directly_import(module)) == 1
    )


def files_passed(work: Callable[[], Any]) -> set[str]:
    """Return the files of the package in which a call executes at least one function."""
    found: set[str] = set()

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            found.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
    inside = (Path(name) for name in found)
    return {path.relative_to(PACKAGE).as_posix() for path in inside if path.is_relative_to(PACKAGE)}


def generated_problem() -> tuple[np.ndarray, np.ndarray, Prototypes]:
    """Return samples and labels of 8 seen classes, and prototypes of 8 seen and 3 unseen ones."""
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(11, 6))
    y = np.repeat(np.arange(8), 12)
    X = Y[y] @ rng.normal(size=(6, 10)) + 0.3 * rng.normal(size=(len(y), 10))
    return X, y, Prototypes(np.arange(11), Y)


def files_by_call() -> dict[str, set[str]]:
    """Return the files that `predict` and the two kinds of `fit` pass through, with defaults."""
    X, y, prototypes = generated_problem()
    zero_shot = ZeroShotClassifier(prototypes, random_state=0)
    few_shot = FewShotClassifier(base=Moments.from_arrays(X, y, prototypes), random_state=0)
    shots, labels = X[:6], np.repeat([8, 9, 10], 2)
    return {
        "ZeroShotClassifier.fit": files_passed(lambda: zero_shot.fit(X, y)),
        "FewShotClassifier.fit": files_passed(lambda: few_shot.fit(shots, labels)),
        "predict": files_passed(lambda: zero_shot.predict(X)),
    }


def loops_of_algorithm_1() -> list[str]:
    """Return the functions that compute alpha_t, as "file: function".

    They are found by a power whose base is the constant 0.99, or a name that a module of the
    package binds to it.
    """
    trees = {path: ast.parse(text) for path, text in sources().items()}
    names = {
        target.id
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and _is_decay(node.value, set())
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return [
        f"{path.relative_to(PACKAGE).as_posix()}: {function.name}"
        for path, tree in trees.items()
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        and any(
            isinstance(node, ast.BinOp)
            and isinstance(node.op, ast.Pow)
            and _is_decay(node.left, names)
            for node in ast.walk(function)
        )
    ]


def _is_decay(node: ast.expr, names: set[str]) -> bool:
    if isinstance(node, ast.Constant):
        return node.value == DECAY_FACTOR
    return isinstance(node, ast.Name) and node.id in names


def n_parameters(estimator: type) -> int:
    """Return the number of constructor parameters."""
    return len(inspect.signature(estimator).parameters)


def measure() -> list[Row]:
    """Return all rows of the table."""
    texts = sources()
    lines = sum(len(text.splitlines()) for text in texts.values())
    passed = {name: len(files) for name, files in files_by_call().items()}
    failing, total = failures("zonkey")
    parameters = [n_parameters(kind) for kind in (ZeroShotClassifier, FewShotClassifier)]
    fits = [passed["ZeroShotClassifier.fit"], passed["FewShotClassifier.fit"]]
    return [
        Row("files / lines in src", "166 / 21,480", "100 / 16,000", f"{len(texts)} / {lines:,}"),
        Row("modules with one importer", "55", "fewer", str(len(modules_with_one_importer()))),
        Row("files that predict passes through", "10", "<= 4", str(passed["predict"])),
        Row("files that the fits pass through", "27 / 30", "13 / 15", f"{fits[0]} / {fits[1]}"),
        Row("places of Algorithm 1's loop", "2", "1", str(len(loops_of_algorithm_1()))),
        Row("constructor parameters", "30 / 32", "next step", f"{parameters[0]} / {parameters[1]}"),
        Row("objects failing numpydoc rules", "143 of 203", "0", f"{len(failing)} of {total}"),
    ]


def main() -> None:
    """Print the table, then the names behind its counts."""
    table = Table(title="Structure: zero-shot / few-shot where there are two figures")
    for name in Row._fields:
        table.add_column(name)
    for row in measure():
        table.add_row(*row)
    Console(width=100).print(table)
    named = {**files_by_call(), "Algorithm 1": loops_of_algorithm_1()}
    for name, found in {**named, "one importer": modules_with_one_importer()}.items():
        print(f"{name}: {', '.join(sorted(found))}")


if __name__ == "__main__":
    main()
