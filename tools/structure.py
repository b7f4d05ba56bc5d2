"""Measure the structure of the code base against its budgets.

    python tools/structure.py           # print the table, and the names behind its counts
    python tools/structure.py --check   # print what is over its budget, and fail

A budget is a limit, not a goal. Raise one only together with the reason, in the same commit.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import grimp
import numpy as np

from check_docstrings import failures
from zonkey import FewShotClassifier, Moments, Prototypes, ZeroShotClassifier

ROOT = Path(__file__).parents[1]
LIBRARY = ROOT / "packages" / "zonkey" / "src" / "zonkey"
LABORATORY = ROOT / "packages" / "zonkey-lab" / "src" / "zonkey_lab"
TESTS = (ROOT / "packages" / "zonkey" / "tests", ROOT / "packages" / "zonkey-lab" / "tests")
DECAY_FACTOR = 0.99  # of alpha_t = 0.99^t alpha, which only the loop of Algorithm 1 computes

# Lines of the packages of the library, a little above what they have; the whole is to become
# smaller. A package that is not named here has the limit of "other".
PACKAGE_LINES = {
    "(files)": 3_180,
    "anyshot": 7_650,
    "app": 4_450,
    "bpl": 5_440,
    "cli": 1_630,
    "encoders": 4_500,
    "evaluation": 3_200,
    "files": 4_020,
    "inference": 3_320,
    "metrics": 1_620,
    "multilabel": 2_150,
    "persistence": 1_270,
    "streaming": 1_990,
    "other": 1_100,
}
# Words that end like participles and are not.
_NOT_PARTICIPLES = {"embed", "feed", "need", "read", "seed", "speed", "spread"}
# Nouns and public names that users know.
_KNOWN_NAMES = {"balanced", "extended", "normalized", "pretrained", "recommended"}
_PREDICATES = ("is_", "has_", "are_", "was_", "keeps_", "with_", "without_", "from_", "to_", "as_")
_BLOCK_SIZE = re.compile(r"_?(BLOCK|ON_DEVICE|MOST_ROWS|ROWS_AT_A_TIME|BLOCK_\w+|\w+_AT_A_TIME)")


@dataclass(frozen=True)
class Row:
    """One measured property, what it may be at most, and the names behind it."""

    measured: str
    now: int
    budget: int
    names: tuple[str, ...] = ()

    @property
    def is_over(self) -> bool:
        """Whether the figure exceeds its budget."""
        return self.now > self.budget


# Sources


@cache
def read_sources() -> dict[str, tuple[Path, str, ast.Module]]:
    """Return path, text and syntax tree of every module of both distributions, by its name."""
    found = {}
    for package in (LIBRARY, LABORATORY):
        for path in sorted(package.rglob("*.py")):
            parts = path.relative_to(package.parent).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            text = path.read_text("utf-8")
            found[name] = (path, text, ast.parse(text))
    return found


def count_lines(folder: Path) -> int:
    """Return the number of lines of the Python files below a folder."""
    return sum(len(path.read_text("utf-8").splitlines()) for path in folder.rglob("*.py"))


def count_package_lines() -> dict[str, int]:
    """Return the lines of each package of the library; single files at its top are "(files)"."""
    counts: dict[str, int] = defaultdict(int)
    for path in LIBRARY.rglob("*.py"):
        parts = path.relative_to(LIBRARY).parts
        counts[parts[0] if len(parts) > 1 else "(files)"] += len(path.read_text().splitlines())
    return dict(counts)


# Imports


def find_cycles() -> list[str]:
    """Return the groups of modules that import each other, also inside functions."""
    graph = grimp.build_graph("zonkey", "zonkey_lab", exclude_type_checking_imports=True)
    edges = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    return [", ".join(sorted(group)) for group in _find_components(edges) if len(group) > 1]


def _find_components(edges: dict[str, set[str]]) -> list[list[str]]:
    """Return the strongly connected components of a graph (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in edges[node]:
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            at = stack.index(node)
            found.append(stack[at:])
            del stack[at:]

    sys.setrecursionlimit(10_000)
    for node in sorted(edges):
        if node not in index:
            visit(node)
    return found


# Names


def find_private_reads() -> list[str]:
    """Return where a module reads a private name that another one of the project defines."""
    defined = {name: _private_names(tree) for name, (_, _, tree) in read_sources().items()}
    everywhere = set().union(*defined.values())
    found = []
    for module, (_, _, tree) in read_sources().items():
        foreign = everywhere - defined[module]
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in foreign:
                if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
                    found.append(f"{module}:{node.lineno} .{node.attr}")
            elif isinstance(node, ast.ImportFrom) and (node.level or "zonkey" in str(node.module)):
                names = (alias.name for alias in node.names if _is_private(alias.name))
                found.extend(f"{module}:{node.lineno} import {name}" for name in names)
    return found


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _private_names(tree: ast.Module) -> set[str]:
    """Return the private functions, classes, fields and attributes that a module defines."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
    return {name for name in found if _is_private(name)}


def find_repeated_classes() -> list[str]:
    """Return the names that stand for more than one class."""
    places: dict[str, list[str]] = defaultdict(list)
    for module, (_, _, tree) in read_sources().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module)
    return [f"{name}: {', '.join(found)}" for name, found in places.items() if len(found) > 1]


def find_participles() -> list[str]:
    """Return functions, but for properties, whose name is a participle."""
    found = []
    for module, (_, _, tree) in read_sources().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and _is_participle(node):
                found.append(f"{module}.{node.name}")
    return found


def _is_participle(node: ast.FunctionDef) -> bool:
    name = node.name.strip("_")
    words = name.split("_")
    ends = [word for word in (words[0], words[-1]) if word.endswith("ed")]
    plain = name.startswith(_PREDICATES) or any(
        "property" in ast.dump(d) for d in node.decorator_list
    )
    return len(words) == 1 and not plain and bool(set(ends) - _NOT_PARTICIPLES - _KNOWN_NAMES)


def find_block_constants() -> list[str]:
    """Return module constants that are sizes of blocks: `zonkey.config` decides them."""
    return [
        f"{module}.{target.id}"
        for module, (_, _, tree) in read_sources().items()
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and _BLOCK_SIZE.fullmatch(target.id)
    ]


# Sizes


def find_long_files(limit: int = 600) -> list[str]:
    """Return the modules of more lines than a limit."""
    lengths = {name: len(text.splitlines()) for name, (_, text, _) in read_sources().items()}
    return [f"{name} ({lines})" for name, lines in lengths.items() if lines > limit]


def find_long_functions(limit: int = 60) -> list[str]:
    """Return functions of more lines than a limit, docstrings and signatures left out."""
    found = []
    for module, (_, _, tree) in read_sources().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                first = node.body[1 if ast.get_docstring(node) and len(node.body) > 1 else 0]
                lines = (node.end_lineno or 0) - first.lineno + 1
                if lines > limit:
                    found.append(f"{module}.{node.name} ({lines})")
    return found


# Call paths


def files_passed(work: Callable[[], Any]) -> set[str]:
    """Return the files of the library in which a call executes at least one function."""
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
    return {path.relative_to(LIBRARY).as_posix() for path in inside if path.is_relative_to(LIBRARY)}


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

    They are found by a power whose base is the constant 0.99, a name that a module of the package
    binds to it, or a parameter that has it by default.
    """
    trees = [(path, tree) for path, _, tree in read_sources().values() if LIBRARY in path.parents]
    names = {
        target.id
        for _, tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and _is_decay(node.value, set())
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return [
        f"{path.relative_to(LIBRARY).as_posix()}: {function.name}"
        for path, tree in trees
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        and any(
            isinstance(node, ast.BinOp)
            and isinstance(node.op, ast.Pow)
            and _is_decay(node.left, names | _decays_by_default(function, names))
            for node in ast.walk(function)
        )
    ]


def _decays_by_default(function: ast.FunctionDef, names: set[str]) -> set[str]:
    """Return the parameters of a function whose default is the constant."""
    given = function.args
    positional = [*given.posonlyargs, *given.args][-len(given.defaults) :] if given.defaults else []
    pairs = [*zip(positional, given.defaults, strict=True)]
    pairs += zip(given.kwonlyargs, given.kw_defaults, strict=True)
    return {each.arg for each, default in pairs if default and _is_decay(default, names)}


def _is_decay(node: ast.expr, names: set[str]) -> bool:
    if isinstance(node, ast.Constant):
        return node.value == DECAY_FACTOR
    return isinstance(node, ast.Name) and node.id in names


# The table


def measure_sizes() -> Iterator[Row]:
    """Yield the rows about numbers of lines."""
    yield Row("lines of the library", count_lines(LIBRARY), 47_300)
    for package, lines in sorted(count_package_lines().items()):
        yield Row(f"  {package}", lines, PACKAGE_LINES.get(package, PACKAGE_LINES["other"]))
    yield Row("lines of the laboratory", count_lines(LABORATORY), 22_000)
    yield Row("lines of the tests", sum(map(count_lines, TESTS)), 55_000)
    for limit, budget, find in ((600, 0, find_long_files), (60, 3, find_long_functions)):
        kind = "files" if find is find_long_files else "functions"
        yield _count(f"{kind} of more than {limit} lines", find(limit), budget)


def measure_structure() -> Iterator[Row]:
    """Yield the rows about imports, names and call paths."""
    yield _count("import cycles", find_cycles(), 0)
    yield _count("reads of another module's private names", find_private_reads(), 0)
    yield _count("class names that stand more than once", find_repeated_classes(), 0)
    yield _count("functions named by participles", find_participles(), 0)
    yield _count("block sizes that are constants", find_block_constants(), 0)
    for call, budget in (
        ("predict", 9),
        ("ZeroShotClassifier.fit", 26),
        ("FewShotClassifier.fit", 26),
    ):
        yield _count(f"files that {call} passes through", sorted(files_by_call()[call]), budget)
    yield _count("places of the loop of Algorithm 1", loops_of_algorithm_1(), 1)
    yield _count("objects without a complete docstring", list(failures("zonkey")[0]), 0)


def _count(measured: str, names: list[str], budget: int) -> Row:
    return Row(measured, len(names), budget, tuple(names))


def main() -> None:
    """Print the table, or only what is over its budget."""
    checking = sys.argv[1:] == ["--check"]
    rows = [*measure_sizes(), *measure_structure()]
    over = [row for row in rows if row.is_over]
    for row in over if checking else rows:
        mark = "  over" if row.is_over else ""
        print(f"{row.measured:<48}{row.now:>8,} of {row.budget:>7,}{mark}")
    for row in over:
        for name in row.names:
            print(f"  {row.measured}: {name}")
    if checking and over:
        sys.exit(1)


if __name__ == "__main__":
    main()
