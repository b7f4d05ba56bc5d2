"""Which of several files holds the features, which the prototypes and which the labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from .array_files import ARRAY_ENDINGS, stored_arrays
from .errors import DataError
from .feature_files import FEATURE_KEYS, as_features, pick_features
from .files import existing_file, read_text
from .label_files import pick_labels
from .prototype_files import PROTOTYPE_KEYS
from .sheets import TABLE_ENDINGS
from .tables import Table

TableReader = Callable[[Path], tuple[Table | None, list[str]]]


def assign_roles(
    files: dict[str, Path], paths: Sequence[Path], table_of: TableReader
) -> tuple[dict[str, Path], list[Path]]:
    """Work out what each file is.

    Parameters
    ----------
    files : dict of Path
        Files of known role: "features", "prototypes" or "labels".
    paths : sequence of Path
        The others.
    table_of : callable
        Reads a table; see `examine_table`.

    Returns
    -------
    files : dict of Path
        One file a role.
    left : list of Path
        Files too many.
    """
    files = dict(files)
    guesses = {path: _guess(path, table_of) for path in paths}
    # Of two that look like features the longer one is. Of two that look like prototypes the shorter
    # one has the features, a sample a class: classes without a sample have prototypes too.
    alike = [path for path in paths if guesses[path][0] == "prototypes"]
    if len(alike) > 1 and "features" not in {*files, *(role for role, _ in guesses.values())}:
        guesses[min(alike, key=lambda path: guesses[path][1])] = ("features", 0)
    unclear = []
    for path in sorted(paths, key=lambda path: -guesses[path][1]):
        role = guesses[path][0]
        if role is None or role in files:
            unclear.append(path)
        else:
            files[role] = path
    left = []
    for path in sorted(unclear, key=paths.index):
        free = _free_roles(files)
        if free:
            files[free[0]] = path
        else:
            left.append(path)
    return files, left


def _free_roles(files: dict[str, Path]) -> list[str]:
    is_table = "features" in files and files["features"].suffix.lower() in TABLE_ENDINGS
    roles = ("features", "prototypes") if is_table else ("features", "prototypes", "labels")
    return [role for role in roles if role not in files]


def _guess(path: Path, table_of: TableReader) -> tuple[str | None, int]:
    """Return what a file looks like, None where it does not say, and its number of rows."""
    ending = path.suffix.lower()
    if ending in (".txt", ".json"):
        return ("labels" if ending == ".txt" else "prototypes"), 0
    try:
        existing_file(path, (*TABLE_ENDINGS, *ARRAY_ENDINGS))
        if ending in TABLE_ENDINGS:
            return _guess_of_table(path, table_of)
        return _guess_of_arrays(path)
    except (DataError, ImportError):
        return None, 0


def _guess_of_table(path: Path, table_of: TableReader) -> tuple[str | None, int]:
    if path.suffix.lower() == ".csv" and not set(",;\t") & set(read_text(path).split("\n", 1)[0]):
        return "labels", 0
    table, _ = table_of(path)
    return _guess_of_labels(None if table is None else table.labels)


def _guess_of_arrays(path: Path) -> tuple[str | None, int]:
    arrays = stored_arrays(path)
    names = {array.name for array in arrays}
    if names & set(PROTOTYPE_KEYS) and not names & set(FEATURE_KEYS):
        return "prototypes", 0
    if path.suffix.lower() == ".npy":
        n = max(arrays[0].shape, default=0)
        return ("labels" if n == np.prod(arrays[0].shape) else "features"), n
    return _guess_of_labels(pick_labels(arrays, len(as_features(pick_features(arrays)))))


def _guess_of_labels(labels: np.ndarray | None) -> tuple[str | None, int]:
    """Take a label that comes twice for that of a sample, not of a prototype."""
    if labels is None:
        return None, 0
    repeated = len(np.unique(labels)) < len(labels)
    return ("features" if repeated else "prototypes"), len(labels)
