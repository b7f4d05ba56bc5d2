"""Measure how well a model does on labeled samples of a source."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import Problem
from ..evaluation import evaluate as evaluate_samples
from ..evaluation.label_result import LabelEvaluation
from ..evaluation.multilabel import is_multi_label
from ..evaluation.result import Evaluation
from ..inference.scorer import unwrap
from .acceptance import Acceptance, refuse_with_bins
from .inputs import check_samples, check_sources
from .models import LoadedModel, bin_model, ignore_missing_names, read_rows, require_labeled
from .progress import Progress, Step, ignore
from .targets import check_target


@ignore_missing_names()
def evaluate(
    model: str | Path,
    source: str | Path,
    html: str | Path | None = None,
    *,
    baselines: Sequence[str] = (),
    training: str | Path | None = None,
    reject_below: float | None = None,
    precision: float | None = None,
    held_out: str | Path | None = None,
    bins: str | Path | None = None,
    encoder: str | None = None,
    text_column: str | None = None,
    on_error: str = "raise",
    cache: bool = True,
    label_column: str | None = None,
    labels: str | Path | None = None,
    features_key: str | None = None,
    labels_key: str | None = None,
    format: str = "csv",
    progress: Progress = ignore,
) -> Evaluation | LabelEvaluation:
    """Measure how well a model does on labeled samples.

    Of a source with a column `split`, only rows marked `test` are used. Samples without a label are
    left out.

    Parameters
    ----------
    model : str or Path
        Model file.
    source : str or Path
        Pictures in one folder per class, or texts or features with labels; "-" is standard input.
    html : str or Path, default=None
        Page to write, with tables and plots.
    baselines : sequence of str, default=()
        Models to compare with, see `zonkey.evaluate`.
    training : str or Path, default=None
        Samples that baselines learn from; by default those of the source that are not marked
        `test`.
    reject_below : float, default=None
        Probability in [0, 1] below which samples are rejected; by default that of the model. The
        share of rejected samples and the accuracy among the others are reported.
    precision : float, default=None
        Instead of `reject_below`: wanted share of right answers among the accepted ones.
    held_out : str or Path, default=None
        Labeled samples that show the precision: neither of the source, nor learned from. By default
        those that `fit` has left out.
    bins : str or Path, default=None
        Table with the columns `class` and `bin`: an answer is right if its bin holds the class.
        Samples of classes in no bin are left out.
    encoder : str, default=None
        Encoder of the samples, by default that of the model.
    text_column : str, default=None
        Column of the texts in a table, by default that of the training if there is one.
    on_error : {"raise", "skip"}, default="raise"
        What happens to pictures that cannot be read, and to blank texts.
    cache : bool, default=True
        Whether features of pictures and texts are kept in the user's cache folder.
    label_column : str, default=None
        Column of the labels in a table.
    labels : str or Path, default=None
        File of the labels, if the source holds arrays without labels.
    features_key, labels_key : str, default=None
        Names of features and labels in a file of several arrays.
    format : str, default="csv"
        Format of standard input.
    progress : callable, default=ignore
        Called with each `Step`.

    Returns
    -------
    Evaluation or LabelEvaluation
        All figures.
    """
    check_samples(model, source)
    check_sources(training=training, bins=bins)
    acceptance = Acceptance(reject_below, precision, held_out)
    if html is not None:
        check_target("html", Path(html), model, source, training, labels, held_out)
    if training is not None and not baselines:
        raise Problem(
            "`training` is what baselines learn from; got it without `baselines`. Name some, or "
            "leave it out.",
            option=("training", "baselines"),
        )
    refuse_with_bins(bins, reject_below=reject_below, precision=precision)
    loaded = LoadedModel.load(model, encoder=encoder, on_error=on_error, cache=cache)
    keys = {"label_column": label_column, "features_key": features_key}
    keys |= {"labels_key": labels_key, "text_column": text_column, "format": format}
    loaded = acceptance.limit(loaded, progress, **keys)
    X, y, train = _split_samples(loaded, source, {**keys, "labels": labels}, progress)
    if baselines and training is not None:
        *_, train = _split_samples(loaded, training, keys, progress, all_training=True)
    if baselines and train is None:
        raise Problem(
            f"`baselines` need training samples; {training or source} marks none in a column "
            "`split`. Pass the samples that the model was fitted on with `training`.",
            option=("baselines", "training"),
        )
    if bins is not None:
        loaded, X, y = _answer_in_bins(loaded, bins, X, y)
    progress(Step("Evaluating"))
    compared: dict[str, Any] = {"baselines": baselines, "training": train} if baselines else {}
    result = evaluate_samples(loaded.model, X, y, **compared)
    if html is not None:
        progress(Step("Drawing the page"))
        result.to_html(html)
    return result


def _answer_in_bins(
    loaded: LoadedModel, bins: str | Path, X: np.ndarray, y: np.ndarray
) -> tuple[LoadedModel, np.ndarray, np.ndarray]:
    """Return a model that answers with bins, and the samples with theirs."""
    binned = bin_model(loaded.last, bins).set_params(reject_below=None)
    steps = unwrap(loaded.model)[0]
    answers = binned.predict(X if steps is None else steps.transform(X))
    own = binned.bins_of(y, answers)
    inside = own != ""
    if not inside.any():
        rule, what = "must hold a class of the samples", f"{Path(bins).name} holds none"
        raise Problem("`bins`", rule, what, "Add it.", option="bins")
    return loaded.replace_last(binned), X[inside], own[inside]


def _split_samples(
    loaded: LoadedModel,
    source: str | Path,
    keys: dict[str, Any],
    progress: Progress,
    *,
    all_training: bool = False,
) -> tuple[np.ndarray, np.ndarray, tuple[np.ndarray, np.ndarray] | None]:
    """Return test samples, their labels, and training samples if a column `split` marks both."""
    stream = loaded.stream(source, with_labels=True, **keys)
    several = is_multi_label(loaded.model)
    read = read_rows(stream, "Reading", progress, labeled=not several)
    X, y = read.matrix, require_labeled(read.labels, source)
    y = y if several else loaded.convert_labels(y)
    if read.marks is None:
        return X, y, (X, y) if all_training else None
    test = read.marks == "test"
    if not all_training and not test.any():
        raise Problem(
            f"The column `split` of {source} must mark rows `test` to evaluate on; it marks "
            "none. Mark some, or remove the column."
        )
    return X[test], y[test], None if test.all() else (X[~test], y[~test])
