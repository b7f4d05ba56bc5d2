"""`zonkey classes`: list, add and remove the classes of a model, without fitting again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .errors import one_line_errors, require_file
from .options import ENCODER, JSON, LABEL_COLUMN, MODEL, NO_CACHE, ON_ERROR, TEXT, OnError

if TYPE_CHECKING:
    from ..prototypes import Prototypes
    from .loading import LoadedModel

classes_app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Classes of a model: list, add, remove.",
)

_UNCHANGED = "the model is unchanged"
_OUTPUT = typer.Option(
    "--output", "-o", help="Model file to write; by default MODEL itself.", show_default=False
)


@classes_app.command("list")
def list_classes(model: Annotated[Path, MODEL], as_json: Annotated[bool, JSON] = False) -> None:
    """List the classes of a model.

    Each is seen or unseen, and a candidate if the model chooses from it.
    """
    with one_line_errors(_UNCHANGED):
        from .loading import LoadedModel

        rows = _rows(LoadedModel.load(model))
    if as_json:
        typer.echo(json.dumps(rows))
        return
    for row in rows:
        kind = f"{row['kind']}{'' if row['candidate'] else ', no candidate'}"
        typer.echo(f"{row['label']}\t{kind}")


@classes_app.command("add")
def add_classes(
    model: Annotated[Path, MODEL],
    classes: Annotated[
        Path | None,
        typer.Argument(
            help="Names, descriptions or prototypes of new classes, as in training. Known classes "
            "in it are skipped.",
            metavar="CLASSES",
            show_default=False,
        ),
    ] = None,
    shots: Annotated[
        str | None,
        typer.Option(
            help="Labeled pictures or features, of new or of known classes, to learn from."
        ),
    ] = None,
    output: Annotated[Path | None, _OUTPUT] = None,
    encoder: Annotated[str | None, ENCODER] = None,
    text_encoder: Annotated[
        str | None,
        typer.Option(
            help="Encoder of the texts; by default that of the model. Needed if its files are in "
            "another place now.",
            show_default=False,
        ),
    ] = None,
    text: Annotated[list[str] | None, TEXT] = None,
    on_error: Annotated[OnError, ON_ERROR] = OnError.stop,
    no_cache: Annotated[bool, NO_CACHE] = False,
    label_column: Annotated[str | None, LABEL_COLUMN] = None,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Add classes by their descriptions or prototypes, by labeled samples, or by both."""
    target = output or model
    with one_line_errors(_UNCHANGED):
        require_file("--output", target, classes, shots)
        if classes is None and shots is None:
            raise ValueError("Classes come with CLASSES or --shots; got none. Pass one of them.")
        from .loading import LoadedModel

        loaded = LoadedModel.load(
            model,
            encoder=encoder,
            text_encoder=text_encoder,
            text_columns=text,
            on_error=on_error.value,
            cache=not no_cache,
        )
        before = _rows(loaded)
        if classes is not None:
            loaded = loaded.replace_last(_add_prototypes(loaded, classes, label_column))
        learned: dict[str, int] = {}
        if shots is not None:
            last, learned = _learn_shots(loaded, shots, label_column)
            loaded = loaded.replace_last(last)
        _finish(before, loaded, target, as_json, learned)


@classes_app.command("remove")
def remove_classes(
    model: Annotated[Path, MODEL],
    labels: Annotated[list[str], typer.Argument(help="Labels of classes.", metavar="LABEL")],
    output: Annotated[Path | None, _OUTPUT] = None,
    as_json: Annotated[bool, JSON] = False,
) -> None:
    """Remove classes.

    What their samples taught about other classes stays.
    """
    target = output or model
    with one_line_errors(_UNCHANGED):
        require_file("--output", target)
        import numpy as np

        from ..labels import format_labels
        from .loading import LoadedModel

        loaded = LoadedModel.load(model)
        loaded.require("without_classes", "Removing classes")
        gone = loaded.convert_labels(np.array(labels)).tolist()
        before = _rows(loaded)
        known = [row["label"] for row in before]
        unknown = [label for label in gone if label not in known]
        if unknown:
            raise ValueError(
                f"LABEL must be a class of the model; got {unknown[0]!r}, and it has "
                f"{format_labels(np.array(known))}. See zonkey classes list."
            )
        _finish(before, loaded.replace_last(loaded.last.without_classes(gone)), target, as_json)


def _add_prototypes(loaded: LoadedModel, path: Path, label_column: str | None) -> Any:
    """Return the classifier with the new classes of a file of prototypes."""
    import numpy as np

    from ..prototypes import Prototypes
    from .encoding import TEXT_ENCODER

    loaded.require("with_classes", "Adding classes")
    read, _ = loaded.encoders.prototypes(path, label_column)
    known = loaded.last.prototypes_
    read = read if known is None else _order_columns(read, known, path.name)
    given = Prototypes(loaded.convert_labels(read.labels), read.matrix, read.dimension_names)
    if known is not None and _are_scaled(loaded, known):
        given = given.normalized()
    old = np.array([]) if known is None else np.intersect1d(given.labels, known.labels)
    # Vectors of texts differ a little between devices.
    near = 1e-3 if TEXT_ENCODER in loaded.encoders.facts else 1e-6
    for label in old:
        if known is not None and not np.allclose(given[label], known[label], rtol=1e-4, atol=near):
            raise ValueError(
                f"A known class keeps its prototype; that of {str(label)!r} in {path.name} differs "
                "from that of the model. Leave it out, or fit again."
            )
    new = np.setdiff1d(given.labels, old)
    if not new.size:
        raise ValueError(
            f"{path.name} must have a new class; the model knows all {len(given)}. Add one."
        )
    return loaded.last.with_classes(given.subset(new))


def _order_columns(given: Prototypes, known: Prototypes, file: str) -> Prototypes:
    """Return prototypes with their columns in the order of the known ones, if both have names."""
    import numpy as np

    from ..labels import format_labels
    from ..prototypes import Prototypes

    theirs, own = given.dimension_names, known.dimension_names
    if theirs is None or own is None or theirs == own:
        return given
    missing = [name for name in own if name not in theirs]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise ValueError(
            f"{file} must have the columns of the known prototypes; "
            f"{format_labels(np.array(missing), 3)} {verb} missing. Name the columns as in "
            "training."
        )
    order = [theirs.index(name) for name in own]
    if len(order) < len(theirs):
        extra = [name for name in theirs if name not in own]
        raise ValueError(
            f"{file} must have the columns of the known prototypes only; it also has "
            f"{format_labels(np.array(extra), 3)}. Remove them."
        )
    return Prototypes(given.labels, given.matrix[:, order], own)


def _are_scaled(loaded: LoadedModel, known: Prototypes) -> bool:
    """Whether the model was made with prototypes of unit length, as the paper's preset does it."""
    import numpy as np

    lengths = np.linalg.norm(known.matrix, axis=1)
    return loaded.last is not loaded.model and bool(np.allclose(lengths[lengths > 0], 1, atol=1e-4))


def _learn_shots(
    loaded: LoadedModel, source: str, label_column: str | None
) -> tuple[Any, dict[str, int]]:
    """Return the classifier after learning from further samples, and their number per class."""
    import numpy as np

    from ..inference.scorer import unwrap
    from .loading import read_rows

    loaded.require("partial_fit", "Learning from --shots")
    stream = loaded.stream(source, with_labels=True, label_column=label_column)
    X, y, _ = read_rows(stream, "Reading", labeled=True)
    if y is None or not len(y):
        raise ValueError(f"{source} must have rows with a label; it has none. Add some.")
    _require_same_spelling(np.unique(y).tolist(), loaded)
    steps, last = unwrap(loaded.model)
    X = X if steps is None else steps.transform(X)
    labels, counts = np.unique(y, return_counts=True)
    learned = dict(zip(labels.tolist(), counts.tolist(), strict=True))
    return last.partial_fit(X, loaded.convert_labels(y)), learned


def _require_same_spelling(labels: list[str], loaded: LoadedModel) -> None:
    """Refuse labels that differ from those of the model in case, spaces and underscores only."""
    from ..files.own import plain_label

    known = {str(row["label"]) for row in _rows(loaded)}
    plain = {plain_label(label.replace("_", " ")): label for label in known}
    for label in labels:
        same = plain.get(plain_label(label.replace("_", " ")), label)
        if label not in known and same != label:
            raise ValueError(
                f"--shots must spell classes as the model does; {label!r} is new to it, and "
                f"{same!r} is known. Rename one that is the same class."
            )


def _finish(
    before: list[dict[str, Any]],
    after: LoadedModel,
    target: Path,
    as_json: bool,
    learned: dict[str, int] | None = None,
) -> None:
    """Write the changed model, and say what changed."""
    from ..persistence.model import save

    was, now = ({row["label"]: row for row in rows} for rows in (before, _rows(after)))
    # The encoders stay the same, whatever was learned.
    save(after.model, target, training=after.encoders.facts or None)
    record = {
        "output": str(target),
        "added": [label for label in now if label not in was],
        "removed": [label for label in was if label not in now],
        "learned": learned or {},
        "classes": len(now),
        "candidates": sum(row["candidate"] for row in now.values()),
    }
    if as_json:
        typer.echo(json.dumps(record))
        return
    for name in ("added", "removed"):
        if record[name]:
            typer.echo(f"{name.capitalize()}: {', '.join(map(str, record[name]))}")
    if learned:
        n = sum(learned.values())
        typer.echo(f"Learned: {n} sample{'s' * (n > 1)} of {', '.join(learned)}")
    typer.echo(f"{target}: {record['classes']} classes, {record['candidates']} candidates")


def _rows(loaded: LoadedModel) -> list[dict[str, Any]]:
    """Return label, kind and whether it is a candidate for each class of a model."""
    import numpy as np

    last = loaded.last
    candidates = set(np.asarray(last.classes_).tolist())
    seen = set(np.asarray(getattr(last, "seen_classes_", last.classes_)).tolist())
    unseen = set(np.asarray(getattr(last, "unseen_classes_", [])).tolist())
    return [
        {
            "label": label,
            "kind": "seen" if label in seen else "unseen",
            "candidate": label in candidates,
        }
        for label in sorted(seen | unseen | candidates)
    ]
