"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, StrEnum
from typing import Any

import typer

MODEL = typer.Argument(help="Model file, as written by `zonkey fit`.", metavar="MODEL")
JSON = typer.Option("--json", help="Print JSON instead of text.")
ANSWERS = typer.Option(
    "--output", "-o", help="File to write: csv, tsv, jsonl, parquet or npz; - is standard output."
)
TOP = typer.Option(min=1, help="Number of best classes to write.")
PROBA = typer.Option("--proba", help="Write the probabilities of these classes too.")
NOVELTY = typer.Option("--novelty", help="Write how unlike all classes each sample is: 0 is alike.")
SUMMARY_JSON = typer.Option(
    "--json", help="Print a summary as JSON; on standard output, the answers as jsonl."
)
LABEL_COLUMN = typer.Option(
    help="Column of the labels in a table; by default label, class, y or target."
)
LABELS = typer.Option(help="File of the labels, if SOURCE holds arrays without labels.")
FEATURES_KEY = typer.Option(help="Name of the features in a file of several arrays.")
LABELS_KEY = typer.Option(help="Name of the labels in a file of several arrays.")
ENCODER = typer.Option(
    help="Encoder of the samples, see `zonkey encoders`; by default that of the model. Needed if "
    "its files are in another place now."
)
NO_CACHE = typer.Option(
    "--no-cache",
    help="Neither use nor keep features of pictures and texts in the user's cache folder.",
)
ON_ERROR = typer.Option(
    help="What happens if a picture cannot be read or a text is blank: raise stops, skip leaves it "
    "out."
)
TEXT_COLUMN = typer.Option(
    help="Column of the texts in a table; by default text, texts or sentence, else the only column "
    "of text that holds no labels."
)
REJECT_BELOW = typer.Option(
    min=0,
    max=1,
    help='Probability below which the answer is "unknown", or in a tree of classes the deepest '
    "node that reaches it.",
)
PRECISION = typer.Option(
    help="Instead of --reject-below: wanted share of right answers among those that are not "
    '"unknown", such as 0.95.'
)
HELD_OUT = typer.Option(
    help="Labeled samples that show the precision, and that the model has not learned from; by "
    "default those that were left out to choose its parameters."
)
LEVEL = typer.Option(
    min=1,
    help="Level of the tree of classes to answer at; 1 is the top. A class above it stands for "
    "itself.",
)
PATH = typer.Option("--path", help="Write the path from the top of the tree to the answer too.")
BINS = typer.Option(
    help="Table with the columns class and bin: answer with the most probable bin, a name for the "
    "union of its classes. Bins may overlap."
)
TEXT = typer.Option(
    "--text",
    help="Column of CLASSES that describes the class; by default all columns of text. Repeat it "
    "for several.",
)


OnError = StrEnum("OnError", {"stop": "raise", "skip": "skip"})


def pass_on(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a command as those of the function of `zonkey.app` that it calls.

    `given` is `locals()`, so this must be the first statement of a command.
    """
    passed = {name: v.value if isinstance(v, Enum) else v for name, v in given.items()}
    passed.pop("as_json", None)
    if "no_cache" in passed:
        passed["cache"] = not passed.pop("no_cache")
    return passed
