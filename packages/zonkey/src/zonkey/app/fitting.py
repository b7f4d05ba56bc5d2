"""Fit a model to samples and classes, and write it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import Problem
from ..persistence.model import model_info, save
from .fitting_in_chunks import learn_in_chunks
from .fitting_in_memory import PRESETS, FitInput, learn_in_memory, name_kept_samples
from .fitting_labels import check_multi_label, learn_labels, refuse_multi_label
from .inputs import check_classes, check_sources, hint_at_swapped_tables
from .progress import Progress, Step, ignore
from .sources import Encoders, check_encoder
from .targets import check_target


@dataclass(frozen=True)
class Fitted:
    """What `fit` has learned from and written.

    What the model has learned is in `info`.

    Parameters
    ----------
    output : str
        Model file.
    info : dict
        What the model file says, see `zonkey.model_info`.
    n_samples : int
        Samples learned from.
    n_left_out : int or None
        Rows marked `test`; None if unknown.
    columns, unused : sequence of str
        Columns of a table that are features, and those that are neither features nor labels.
    skipped : sequence of str
        What was wrong with the pictures that could not be read.
    joined : dict of {str: str}
        Labels of pictures that are classes in another spelling, and these classes.
    seconds : float
        Time it took.

    See Also
    --------
    fit : Returns it.

    Examples
    --------
    >>> from zonkey.app import Fitted
    >>> Fitted("m.zonkey", info={}, n_samples=9, n_left_out=0, columns=["f1", "f2"]).columns
    ['f1', 'f2']
    """

    output: str
    info: dict[str, Any]
    n_samples: int
    n_left_out: int | None
    columns: Sequence[str] = ()
    unused: Sequence[str] = ()
    skipped: Sequence[str] = ()
    joined: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0


def fit(
    source: str | Path,
    classes: str | Path | None,
    output: str | Path,
    *,
    candidates: str = "all",
    preset: str = "recommended",
    unlabeled: str | Path | None = None,
    chunks: bool = False,
    multi_label: bool = False,
    missing: str = "negative",
    precision: float | None = None,
    encoder: str | None = None,
    text_encoder: str | None = None,
    text_column: str | None = None,
    text_columns: Sequence[str] | None = None,
    templates: Sequence[str] | None = None,
    on_error: str = "raise",
    cache: bool = True,
    label_column: str | None = None,
    feature_columns: Sequence[str] | None = None,
    id_columns: Sequence[str] = (),
    labels: str | Path | None = None,
    features_key: str | None = None,
    labels_key: str | None = None,
    notes: str | None = None,
    license: str | None = None,
    random_state: int = 0,
    progress: Progress = ignore,
) -> Fitted:
    """Learn from samples and classes, and write a model file.

    A column `split` of the samples may mark rows: those marked `test` are left out, and parameters
    of the recommended model are chosen on the classes marked `val`.

    Parameters
    ----------
    source : str or Path
        Pictures in one folder per class, or texts or features with labels.
    classes : str, Path or None
        File of names, descriptions or prototypes. None: the labels of pictures and texts are their
        names; features have no prototypes.
    output : str or Path
        Model file to write.
    candidates : {"unseen", "all"}, default="all"
        Classes to choose from: all, or those without samples.
    preset : {"recommended", "paper"}, default="recommended"
        Recommended model, or the paper's with its default parameters.
    unlabeled : str or Path, default=None
        Unlabeled samples of the candidate classes to adapt to.
    chunks : bool, default=False
        Read features in chunks, for files larger than memory. After an interruption, the same call
        resumes from the folder `output` + ".progress".
    multi_label : bool, default=False
        Whether samples may have several labels, or none: the label of a sample is then a text such
        as `a|b`, and the model a `MultiLabelClassifier`.
    missing : {"negative", "unknown"}, default="negative"
        What it means that one of several labels is not marked: that it does not apply, or that
        nobody knows.
    precision : float, default=None
        Wanted share, in (0, 1], of right predictions of each of several labels. None: thresholds of
        the best F1.
    encoder : str, default=None
        Encoder of the samples, by default efficientnet-lite0 for pictures, minilm-l6 for texts.
    text_encoder : str, default=None
        Encoder of the classes, by default that of the samples if it encodes texts, else minilm-l6.
    text_column : str, default=None
        Column of the texts in a table of samples; by default `text`, `texts` or `sentence`, else
        the only column of text that holds no labels.
    text_columns : sequence of str, default=None
        Columns that describe the classes; by default all columns of text.
    templates : sequence of str, default=None
        Sentences around the texts of classes.
    on_error : {"raise", "skip"}, default="raise"
        What happens to pictures that cannot be read, and to blank texts.
    cache : bool, default=True
        Whether features of pictures and texts are kept in the user's cache folder.
    label_column : str, default=None
        Column of the labels in a table.
    feature_columns, id_columns : sequence of str, default=None and ()
        Columns of a table that are features, and that are not; see `zonkey.datasets.load_features`.
    labels : str or Path, default=None
        File of the labels, if the source holds arrays without labels.
    features_key, labels_key : str, default=None
        Names of features and labels in a file of several arrays.
    notes, license : str, default=None
        Texts for the model file.
    random_state : int, default=0
        Seed.
    progress : callable, default=ignore
        Called with each `Step`.

    Returns
    -------
    Fitted
        What was learned from, and written.
    """
    started = time.perf_counter()
    source, output = Path(source), Path(output)
    classes = None if classes is None else Path(classes)
    check_classes(source, classes)
    check_sources(unlabeled=unlabeled)
    if text_column is None:
        check_encoder(encoder, source, unlabeled)
    if preset not in PRESETS:
        names = " or ".join(PRESETS)
        raise Problem("`preset`", f"must be {names}", f"got {preset!r}", "Correct it.")
    check_target("output", output, source, classes, unlabeled, labels)
    encoders = Encoders(
        encoder=encoder,
        text_encoder=text_encoder,
        templates=templates,
        text_columns=text_columns,
        on_error=on_error,
        cache=cache,
    )
    keys = {
        "labels": labels,
        "features_key": features_key,
        "labels_key": labels_key,
        "text_column": text_column,
        "feature_columns": feature_columns,
        "id_columns": id_columns,
    }
    unlabeled = None if unlabeled is None else Path(unlabeled)
    training = FitInput(source, classes, encoders, unlabeled, label_column, keys, progress)
    parameters = {"candidates": candidates, "random_state": random_state}
    learn = learn_in_chunks if chunks else learn_in_memory
    if multi_label:
        check_multi_label(candidates=candidates, preset=preset, unlabeled=unlabeled, chunks=chunks)
        learn, parameters = learn_labels, {"random_state": random_state}
        parameters |= {"missing": missing, "precision": precision}
    else:
        refuse_multi_label(missing=missing, precision=precision)

    def write(model: Any, names: list[str] | None, called: Any) -> None:
        progress(Step("Writing"))
        facts = training.facts(names) | name_kept_samples(model, called)
        save(model, output, notes=notes, license=license, training=facts)

    with hint_at_swapped_tables(source, classes) if classes else nullcontext():
        found = learn(training, preset, parameters, output, write)
    seconds = round(time.perf_counter() - started, 2)
    return Fitted(str(output), model_info(output), **found, seconds=seconds)
