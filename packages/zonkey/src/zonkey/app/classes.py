"""List, add and remove the classes of a model file, without fitting again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import Problem
from ..inference.scorer import unwrap
from ..labels import format_labels
from ..persistence.lock import lock_model
from ..persistence.model import save
from ..prototypes import Prototypes
from ..tree import Tree
from .inputs import check_classes, check_sources, find_spellings
from .models import LoadedModel, ignore_missing_names, read_rows, require_labeled
from .progress import Progress, ignore
from .sources import TEXT_ENCODER
from .targets import check_target


@dataclass(frozen=True)
class ChangedClasses:
    """What was changed in a model file.

    Labels are as in the model.

    Parameters
    ----------
    output : str
        File that was written.
    added, removed : list
        Labels.
    learned : dict of {str: int}
        Number of samples learned from, by label.
    joined : dict of {str: str}
        Labels of the samples that are classes in another spelling, and these classes.
    classes, candidates : int
        Their numbers now.

    See Also
    --------
    add_classes : Returns it, as `remove_classes` does.

    Examples
    --------
    >>> from zonkey.app import ChangedClasses
    >>> ChangedClasses("a.zonkey", added=["zebra"], removed=[], classes=3, candidates=3).added
    ['zebra']
    """

    output: str
    added: list[Any]
    removed: list[Any]
    learned: dict[str, int] = field(default_factory=dict)
    joined: dict[str, str] = field(default_factory=dict)
    classes: int = 0
    candidates: int = 0


def list_classes(model: str | Path) -> list[dict[str, Any]]:
    """List the classes of a model.

    Parameters
    ----------
    model : str or Path
        Model file.

    Returns
    -------
    list of dict
        Label, kind ("seen" or "unseen"), whether it is a candidate, and with a tree the nodes above
        it, for each class.
    """
    check_sources(model=model)
    return LoadedModel.load(model).rows()


@ignore_missing_names()
def add_classes(
    model: str | Path,
    classes: str | Path | None = None,
    shots: str | Path | None = None,
    output: str | Path | None = None,
    *,
    encoder: str | None = None,
    text_encoder: str | None = None,
    text_column: str | None = None,
    text_columns: Sequence[str] | None = None,
    on_error: str = "raise",
    cache: bool = True,
    label_column: str | None = None,
    progress: Progress = ignore,
) -> ChangedClasses:
    """Add classes by descriptions or prototypes, by labeled samples, or by both.

    Parameters
    ----------
    model : str or Path
        Model file.
    classes : str or Path, default=None
        File of names, descriptions or prototypes. Known classes in it are skipped.
    shots : str or Path, default=None
        Labeled pictures, texts or features to learn from.
    output : str or Path, default=None
        File to write, by default the model file.
    encoder, text_encoder : str, default=None
        Encoders of samples and classes, by default those of the model.
    text_column : str, default=None
        Column of the texts in `shots`, by default that of the training if there is one.
    text_columns : sequence of str, default=None
        Columns of texts in `classes`.
    on_error : {"raise", "skip"}, default="raise"
        What happens to pictures that cannot be read, and to blank texts.
    cache : bool, default=True
        Whether features of pictures and texts are kept in the user's cache folder.
    label_column : str, default=None
        Column of the labels in a table.
    progress : callable, default=ignore
        Called with each `Step`.

    Returns
    -------
    ChangedClasses
        What was changed.
    """
    target = Path(output or model)
    check_classes(None, classes)
    check_sources(model=model, shots=shots)
    check_target("output", target, classes, shots)
    if classes is None and shots is None:
        raise Problem(
            "Classes come with `classes` or `shots`; got none. Pass one of them.",
            option=("classes", "shots"),
        )
    if shots is None and encoder is not None:
        rule, what = "must be left out without `shots`", "there are no pictures to encode"
        options = "encoder", "shots"
        raise Problem("`encoder`", rule, what, "Leave it out.", option=options)
    with lock_model(target):  # else a class that another process adds meanwhile would be lost
        loaded = LoadedModel.load(
            model,
            encoder=encoder,
            text_encoder=text_encoder,
            text_columns=text_columns,
            on_error=on_error,
            cache=cache,
        )
        before = loaded.rows()  # `partial_fit` changes the model
        if classes is not None:
            loaded = loaded.replace_last(_add_prototypes(loaded, Path(classes), label_column))
        learned, joined = {}, {}
        if shots is not None:
            columns = {"label_column": label_column, "text_column": text_column}
            loaded, learned, joined = _learn_shots(loaded, shots, columns, progress)
        return _write(before, loaded, target, learned=learned, joined=joined)


def remove_classes(
    model: str | Path, labels: Sequence[str], output: str | Path | None = None
) -> ChangedClasses:
    """Remove classes; the regression learned from their samples stays.

    Parameters
    ----------
    model : str or Path
        Model file.
    labels : sequence of str
        Labels of classes.
    output : str or Path, default=None
        File to write, by default the model file.

    Returns
    -------
    ChangedClasses
        What was changed.
    """
    target = Path(output or model)
    check_sources(model=model)
    check_target("output", target)
    with lock_model(target):
        loaded = LoadedModel.load(model)
        loaded.require("without_classes", "Removing classes")
        gone = loaded.convert_labels(np.array(labels)).tolist()
        known = [row["label"] for row in loaded.rows()]
        unknown = [label for label in gone if label not in known]
        if unknown:
            raise Problem(
                f"LABEL must be a class of the model; got {unknown[0]!r}, and it has "
                f"{format_labels(np.array(known))}. See zonkey classes list."
            )
        return _write(loaded.rows(), loaded.replace_last(loaded.last.without_classes(gone)), target)


def _add_prototypes(loaded: LoadedModel, path: Path, label_column: str | None) -> Any:
    """Return the classifier with the new classes of a file of prototypes."""
    loaded.require("with_classes", "Adding classes")
    read, _ = loaded.encoders.prototypes(path, label_column)
    known = loaded.last.prototypes_
    read = read if known is None else _order_columns(read, known, path.name)
    given = _convert_labels(loaded, read.at_leaves())
    if known is not None and _are_scaled(loaded, known):
        given = given.normalized()
    old = np.array([]) if known is None else np.intersect1d(given.labels, known.labels)
    # Vectors of texts differ a little between devices.
    near = 1e-3 if TEXT_ENCODER in loaded.encoders.facts else 1e-6
    for label in old:
        if known is not None and not np.allclose(given[label], known[label], rtol=1e-4, atol=near):
            raise Problem(
                f"A known class keeps its prototype; that of {str(label)!r} in {path.name} differs "
                "from that of the model. Leave it out, or fit again."
            )
    new = np.setdiff1d(given.labels, old)
    if not new.size:
        raise Problem(
            f"{path.name} must have a new class; the model knows all {len(given)}. Add one."
        )
    return loaded.last.with_classes(given.subset(new))


def _convert_labels(loaded: LoadedModel, read: Prototypes) -> Prototypes:
    """Return prototypes of a file with labels of the type of the model's."""
    labels, tree = loaded.convert_labels(read.labels), read.tree
    if tree is not None:
        pairs = tree.parents.items()
        nodes = loaded.convert_labels(np.array([node for node, _ in pairs]))
        named = dict(zip(tree.nodes.tolist(), nodes.tolist(), strict=True))
        tree = Tree({named[node]: named.get(parent) for node, parent in pairs})
    return Prototypes(labels, read.matrix, read.dimension_names, tree)


def _order_columns(given: Prototypes, known: Prototypes, file: str) -> Prototypes:
    """Return prototypes with their columns in the order of the known ones, if both have names."""
    theirs, own = given.dimension_names, known.dimension_names
    if theirs is None or own is None or theirs == own:
        return given
    missing = [name for name in own if name not in theirs]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise Problem(
            f"{file} must have the columns of the known prototypes; "
            f"{format_labels(np.array(missing), 3)} {verb} missing. Name the columns as in "
            "training."
        )
    order = [theirs.index(name) for name in own]
    if len(order) < len(theirs):
        extra = [name for name in theirs if name not in own]
        raise Problem(
            f"{file} must have the columns of the known prototypes only; it also has "
            f"{format_labels(np.array(extra), 3)}. Remove them."
        )
    return Prototypes(given.labels, given.matrix[:, order], own, given.tree)


def _are_scaled(loaded: LoadedModel, known: Prototypes) -> bool:
    """Whether the model was made with prototypes of unit length, as the paper's preset does it."""
    lengths = np.linalg.norm(known.matrix, axis=1)
    return loaded.last is not loaded.model and bool(np.allclose(lengths[lengths > 0], 1, atol=1e-4))


def _learn_shots(
    loaded: LoadedModel, source: str | Path, columns: dict[str, str | None], progress: Progress
) -> tuple[LoadedModel, dict[str, int], dict[str, str]]:
    """Return the model after learning from further samples.

    Also returns their number per class, and their labels that are a class in another spelling.
    """
    loaded.require("partial_fit", "Learning from `shots`", option="shots")
    stream = loaded.stream(source, with_labels=True, **columns)
    given = read_rows(stream, "Reading", progress, labeled=True)
    labels, inverse = np.unique(require_labeled(given.labels, source), return_inverse=True)
    joined = find_spellings("shots", labels.tolist(), [str(row["label"]) for row in loaded.rows()])
    y = np.array([joined.get(label, label) for label in labels.tolist()])[inverse]
    steps, last = unwrap(loaded.model)
    X = given.matrix if steps is None else steps.transform(given.matrix)
    learned = {label: int(n) for label, n in zip(*np.unique(y, return_counts=True), strict=True)}
    last = last.partial_fit(X, loaded.convert_labels(y))
    return loaded.replace_last(last), {str(label): n for label, n in learned.items()}, joined


def _write(
    before: list[dict[str, Any]], after: LoadedModel, target: Path, **learned: dict[str, Any]
) -> ChangedClasses:
    """Write the changed model, and return what changed."""
    was, now = ({row["label"]: row for row in rows} for rows in (before, after.rows()))
    # The encoders stay the same, whatever was learned.
    save(after.model, target, training=after.encoders.facts or None)
    return ChangedClasses(
        str(target),
        added=[label for label in now if label not in was],
        removed=[label for label in was if label not in now],
        classes=len(now),
        candidates=sum(row["candidate"] for row in now.values()),
        **learned,
    )
