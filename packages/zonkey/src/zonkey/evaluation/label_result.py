"""LabelEvaluation: figures of several labels per sample, a table of labels, and one page."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..display.drawing import shorten_name
from ..metrics.calibration import confidence_bins
from ..metrics.multilabel import average_precisions
from . import plots
from .measures import N_BINS, Measured
from .tables import describe_model, format_figure, lay_out, list_figures, make_frame

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TITLES = {
    "micro_f1": "micro F1",
    "macro_f1": "macro F1",
    "macro_f1_seen": "macro F1 of seen labels",
    "macro_f1_unseen": "macro F1 of unseen labels",
    "mean_average_precision": "mAP",
    "mean_average_precision_seen": "mAP of seen labels",
    "mean_average_precision_unseen": "mAP of unseen labels",
    "ranking_loss": "ranking loss",
    "ece": "ECE",
}
_MEANINGS = {
    "micro_f1": "harmonic mean of precision and recall over all pairs of sample and label",
    "macro_f1": "mean of the F1 of each label that applies to some sample",
    "mean_average_precision": "mean over labels of the area under precision against recall; it "
    "does not depend on thresholds",
    "ranking_loss": "share of pairs of a label that applies and one that does not that are ordered "
    "wrongly; 0 is best",
    "ece": "expected calibration error: mean gap between the probability of a label and how often "
    "it applies; 0 is best",
}
_HEADLINES = ("micro_f1", "macro_f1", "mean_average_precision", "ece")
_LONGEST_NAME = 80
_COLUMNS = (
    *("label", "kind", "n", "n_predicted", "precision", "recall", "f1"),
    *("average_precision", "threshold"),
)


@dataclass(frozen=True, eq=False, repr=False)
class LabelEvaluation:
    """Figures of a model of several labels on test samples, as `evaluate` returns them.

    Values are between 0 and 1; printed tables show percent. Figures are ``micro_f1``, ``macro_f1``,
    ``mean_average_precision``, ``ranking_loss`` and ``ece``; with test samples of seen and of
    unseen labels also ``macro_f1_seen``, ``macro_f1_unseen``, ``mean_average_precision_seen`` and
    ``mean_average_precision_unseen``. Labels that apply to no test sample are left out of means
    over labels. Intervals are percentiles of resampled samples.

    Parameters
    ----------
    models : tuple of Measured
        Figures of the model, then of the baseline.
    labels : ndarray of shape (n_labels,)
        All labels of the model.
    is_seen : ndarray of shape (n_labels,)
        Whether they have training samples.
    truth, proba, predicted : ndarray of shape (n_samples, n_labels)
        True labels (-1 is unknown), probabilities and predictions.
    thresholds : ndarray of shape (n_labels,)
        Probabilities from which on labels are predicted.
    confidence : float
        Confidence level of the intervals.
    provenance : dict
        Date, versions, seed, data and model, ready for JSON.

    See Also
    --------
    zonkey.evaluate : Makes an evaluation.

    Examples
    --------
    >>> import numpy as np
    >>> import zonkey
    >>> rng = np.random.default_rng(0)
    >>> Y = (rng.random((80, 2)) < 0.5).astype(int)
    >>> X = Y @ [[3.0, 0.0], [0.0, 3.0]] + rng.normal(size=(80, 2))
    >>> model = zonkey.MultiLabelClassifier(preprocessing=None).fit(X[:60], Y[:60])
    >>> result = zonkey.evaluate(model, X[60:], Y[60:])
    >>> print(result.summary().splitlines()[0])
    MultiLabelClassifier: 20 samples, 2 labels (2 seen, 0 unseen), 1.0 per sample
    """

    models: tuple[Measured, ...]
    labels: np.ndarray
    is_seen: np.ndarray
    truth: np.ndarray
    proba: np.ndarray
    predicted: np.ndarray
    thresholds: np.ndarray
    confidence: float
    provenance: Mapping[str, Any]

    @property
    def scores(self) -> dict[str, float]:
        """Figures of the model by name."""
        return dict(self.models[0].scores)

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """Ends of the confidence interval of each figure of the model."""
        return dict(self.models[0].intervals)

    def to_frame(self) -> Any:
        """Return all figures of the model and of the baseline as a table.

        Returns
        -------
        pandas.DataFrame
            One row per model and figure: `model`, `measure`, `value`, `low` and `high` (ends of
            the interval), and `n`, the number of samples.
        """
        return list_figures(self.models)

    def per_label(self) -> Any:
        """Return the figures of the model for each label.

        Returns
        -------
        pandas.DataFrame
            One row per label: `label`, `kind` (seen or unseen), `n` (samples that it applies to),
            `n_predicted`, `precision`, `recall`, `f1`, `average_precision` (missing where they do
            not exist), and the `threshold` of its probability.
        """
        return make_frame([[*row.values()] for row in self._label_rows()], [*_COLUMNS])

    def plot_calibration(self) -> Figure:
        """Draw how often labels apply against the probability that the model states.

        Returns
        -------
        matplotlib.figure.Figure
            One diagram of all pairs of sample and label.
        """
        return plots.draw_calibration({"all": self._calibration()})

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON.

        Returns
        -------
        dict
            Figures, intervals, baselines, labels, bins of calibration and provenance.
        """
        first, *others = (describe_model(model) for model in self.models)
        return {
            **first,
            "confidence": self.confidence,
            "baselines": others,
            "labels": self._label_rows(),
            "calibration": self._calibration(),
            "provenance": dict(self.provenance),
        }

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write one page with all figures and tables; it needs no other file.

        Parameters
        ----------
        path : path-like
            File to write. It is complete or absent.

        Returns
        -------
        Path
            The file.
        """
        from ..display.pages import write_page

        return write_page(Path(path), self._page())

    def summary(self) -> str:
        """Return the figures as a plain-text table, in percent.

        Returns
        -------
        str
            One line per figure, one column per model, with intervals.
        """
        data = self.provenance["data"]["name"]
        title = f"{self.models[0].name}{f' on {data}' if data else ''}: {self._sizes_text()}"
        return lay_out(title, self.models, self._titles(), self.confidence)

    def __repr__(self) -> str:
        return self.summary()

    def _titles(self) -> dict[str, str]:
        return {name: text for name, text in _TITLES.items() if name in self.scores}

    def _sizes_text(self) -> str:
        n, m = self.truth.shape
        seen = int(self.is_seen.sum())
        mean = (self.truth == 1).sum(axis=1).mean()
        many = f"{m:,} label{'s' if m > 1 else ''}"
        return f"{n:,} samples, {many} ({seen:,} seen, {m - seen:,} unseen), {mean:.1f} per sample"

    def _label_rows(self) -> list[dict[str, Any]]:
        """Return one row per label, ready for JSON."""
        Y, n = self.truth, len(self.truth)
        known, on, said = Y >= 0, Y == 1, self.predicted == 1
        hits, positives = (on & said).sum(axis=0), on.sum(axis=0)
        answers = (known & said).sum(axis=0)
        areas = average_precisions(Y, self.proba, np.ones((1, n)))[0]
        return [
            {
                "label": self.labels[j].item(),
                "kind": "seen" if self.is_seen[j] else "unseen",
                "n": int(positives[j]),
                "n_predicted": int(answers[j]),
                "precision": _ratio(hits[j], answers[j]),
                "recall": _ratio(hits[j], positives[j]),
                "f1": _ratio(2 * hits[j], positives[j] + answers[j]) if positives[j] else None,
                "average_precision": None if np.isnan(areas[j]) else float(areas[j]),
                "threshold": float(self.thresholds[j]),
            }
            for j in range(len(self.labels))
        ]

    def _calibration(self) -> dict[str, Any]:
        """Return the bins of probability, ready for JSON."""
        known = self.truth >= 0
        P, Y = self.proba[known], self.truth[known]
        bins = confidence_bins(P, N_BINS)
        counts, stated, true = (
            np.bincount(bins, weights=weights, minlength=N_BINS) for weights in (None, P, Y)
        )
        edges = np.linspace(0, 1, N_BINS + 1)
        return {
            "error": self.scores["ece"],
            "low": edges[:-1].tolist(),
            "high": edges[1:].tolist(),
            "count": counts.astype(int).tolist(),
            "confidence": [_ratio(s, c) for s, c in zip(stated, counts, strict=True)],
            "accuracy": [_ratio(s, c) for s, c in zip(true, counts, strict=True)],
        }

    def _page(self) -> str:
        """Return the page."""
        from ..display.drawing import file_bytes
        from ..display.pages import data_address, render

        picture = file_bytes(self.plot_calibration(), ["png"])["png"]
        rows = [
            {
                "title": text,
                "meaning": _MEANINGS.get(name, ""),
                "cells": [format_figure(model, name) for model in self.models],
            }
            for name, text in self._titles().items()
        ]
        return render(
            "zonkey.evaluation",
            "labels.html",
            evaluation=self,
            title=f"Evaluation of {self.models[0].name}",
            sizes=self._sizes_text(),
            tiles=[
                (_TITLES[name], format_figure(self.models[0], name), _MEANINGS[name])
                for name in _HEADLINES
            ],
            rows=rows,
            labels=[_cells(row) for row in self._sorted_rows()],
            columns=[name.replace("_", " ") for name in _COLUMNS],
            calibration=data_address("image/png", picture),
        )

    def _sorted_rows(self) -> list[dict[str, Any]]:
        """Return the rows of labels, worst F1 first, those without samples last."""
        return sorted(self._label_rows(), key=lambda r: (r["f1"] is None, r["f1"] or 0.0))


def _ratio(a: Any, b: Any) -> float | None:
    return float(a / b) if b else None


def _cells(row: dict[str, Any]) -> list[str]:
    """Return a row of the page; shares are in percent."""
    found = []
    for name, value in row.items():
        if name == "label":
            found.append(shorten_name(str(value), _LONGEST_NAME))
        elif isinstance(value, float):
            found.append(f"{100 * value:.0f}")
        else:
            found.append("" if value is None else str(value))
    return found
