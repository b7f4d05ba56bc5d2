"""Arguments and options that several commands share."""

from __future__ import annotations

import typer

MODEL = typer.Argument(help="Model file, as written by `zonkey fit`.", metavar="MODEL")
JSON = typer.Option("--json", help="Print JSON instead of text.")
LABEL_COLUMN = typer.Option(
    help="Column of the labels in a table; by default label, class, y or target."
)
LABELS = typer.Option(help="File of the labels, if FEATURES holds arrays without labels.")
FEATURES_KEY = typer.Option(help="Name of the features in a file of several arrays.")
LABELS_KEY = typer.Option(help="Name of the labels in a file of several arrays.")
