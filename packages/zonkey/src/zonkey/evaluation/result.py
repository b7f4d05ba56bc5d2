"""Evaluation: figures with intervals, tables by class, plots, and one page."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..display.drawing import shorten_name
from ..labels import check_count
from ..metrics import SeenUnseenCurve
from ..metrics.calibration import confidence_bins
from ..optional import require_package
from ..parameters import check_option
from ..tree import Tree
from . import plots
from .answers import SETS, Answers, positions_in
from .measures import N_BINS, Measured, meaning_of, place_of, title_of
from .risk import RiskMixin, find_risk
from .tree_figures import EDGES, list_nodes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_POINTS = 500  # of a curve in `to_dict`
_MOST_IN_MATRIX = 20  # classes
_HEADLINES = ("accuracy_unseen", "hm", "ausuc", "accuracy_seen", "hit@5_unseen", "ece_all")
_MOST_HEADLINES = 4
_LONGEST_NAME = 80  # characters of a class on the page
_LONG_TABLE = 25  # rows; longer tables are folded


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(RiskMixin):
    """Figures of a classifier on test samples, as `evaluate` returns them.

    Values are between 0 and 1; printed tables show percent. Names of figures: ``accuracy_unseen``
    and ``accuracy_seen`` are per-class accuracies among the classes of one kind. ``acc_s`` and
    ``acc_u`` are those of seen and unseen classes if all classes are candidates, ``hm`` is their
    harmonic mean, and ``ausuc`` the area under the curve of both for all penalties of seen classes.
    ``hit@5_unseen``, ``ece_unseen`` (expected calibration error), ``aurc_unseen`` (area under the
    risk-coverage curve), ``rejected_unseen`` and ``selective_accuracy_unseen`` (accuracy of what is
    not rejected) exist for the candidates ``unseen``, ``seen`` and ``all``. ``auroc_novelty`` is
    how often a sample of a class that the model does not know (a stranger) is more novel than one
    of a class that it knows, ``auroc_doubt`` how often its highest probability is lower,
    ``false_rejections`` the share of the latter above the novelty that 95 % of the strangers reach,
    and ``rejected_strangers`` the share of strangers that `predict` rejects. With a tree of classes
    there are also ``level@1_all``, the accuracy at the top, and so on; ``tree_precision_all``,
    ``tree_recall_all`` and ``tree_f1_all`` of nodes and those above them; ``tree_distance_all``,
    the mean number of edges between answer and truth; and with rejection ``tree_held_all``, how
    often the answered node holds the true class. A figure is absent if the model or the samples do
    not allow it.

    Parameters
    ----------
    models : tuple of Measured
        Answers and figures of the model, then of the baselines.
    classes : ndarray of shape (n_classes,)
        Classes with test samples.
    is_seen : ndarray of shape (n_classes,)
        Whether they are seen.
    class_of : ndarray of shape (n_samples,)
        Position in `classes` of the class of each sample.
    labels : ndarray
        All classes that the model chose from.
    confidence : float
        Confidence level of the intervals.
    provenance : dict
        Date, versions, seed, data and model, ready for JSON.
    class_names : mapping, default={}
        Names of classes in plots and on the page; a class without one is shown by its label.
    tree : Tree, default=None
        Tree of all classes that the model chose from.

    See Also
    --------
    zonkey.evaluate : Makes an evaluation.

    Examples
    --------
    >>> import zonkey
    >>> from sklearn.linear_model import LogisticRegression
    >>> model = LogisticRegression().fit([[0], [1], [2], [3]], ["cat", "cat", "owl", "owl"])
    >>> result = zonkey.evaluate(model, [[0.2], [2.8], [1.4]], ["cat", "owl", "owl"], k=1)
    >>> print(result.summary().splitlines()[0])
    LogisticRegression: 3 samples of 2 classes (2 seen, 0 unseen)
    >>> result.scores["accuracy_seen"]
    0.75
    >>> result.confusions()["predicted"].tolist()
    ['cat']
    """

    models: tuple[Measured, ...]
    classes: np.ndarray
    is_seen: np.ndarray
    class_of: np.ndarray
    labels: np.ndarray
    confidence: float
    provenance: Mapping[str, Any]
    class_names: Mapping[Any, str] = field(default_factory=dict)
    tree: Tree | None = None

    @property
    def scores(self) -> dict[str, float]:
        """Figures of the model by name, each between 0 and 1."""
        return dict(self.models[0].scores)

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """Ends of the confidence interval of each figure of the model."""
        return dict(self.models[0].intervals)

    @property
    def curve(self) -> SeenUnseenCurve | None:
        """Accuracies of the model at all penalties added to its own; None without a curve."""
        return self.models[0].curve

    def to_frame(self) -> Any:
        """Return all figures of the model and of the baselines as a table.

        Returns
        -------
        pandas.DataFrame
            One row per model and figure: `model`, `measure`, `value`, `low` and `high` (ends of
            the interval), and `n`, the number of samples.
        """
        rows = [
            [model.name, name, value, *model.intervals[name], model.sizes[name]]
            for model in self.models
            for name, value in model.scores.items()
        ]
        return _frame(rows, ["model", "measure", "value", "low", "high", "n"])

    def per_class(self) -> Any:
        """Return the figures of the model for each class with samples.

        Returns
        -------
        pandas.DataFrame
            One row per class: `class`, `kind` (seen or unseen), `n`, `accuracy_among_kind`,
            `accuracy_among_all`, `wrong_answer` and `wrong_count` (the most frequent one), and
            `truth_probability`, the mean probability of the true class. The last three are among
            all classes if there are samples of both kinds, else among the classes of the kind.
        """
        rows = self._class_rows()
        frame = _frame(rows, list(rows[0]))
        # As objects: next to a missing value, integers would become floats.
        wrong = type(frame["n"])([row["wrong_answer"] for row in rows], dtype=object)
        return frame.assign(wrong_answer=wrong).astype({"truth_probability": float})

    def per_node(self) -> Any:
        """Return the figures of the model for each node of the tree above classes with samples.

        Returns
        -------
        pandas.DataFrame
            One row per node, each followed by what is below it: `node`, `level`, `n` samples,
            `accuracy` (share of samples with an answer below this node, too), and `wrong_answer`
            and `wrong_count`, the most frequent other node at the same level.
        """
        rows = self._node_rows()
        frame = _frame(rows, ["node", "level", "n", "accuracy", "wrong_answer", "wrong_count"])
        return frame.assign(
            wrong_answer=type(frame["n"])([row["wrong_answer"] for row in rows], dtype=object)
        )

    def confusions(self, most: int | None = 20, among: str | None = None) -> Any:
        """Return the most frequent mistakes of the model.

        Parameters
        ----------
        most : int, default=20
            Number of pairs. None: all.
        among : {"unseen", "seen", "all"}, default=None
            Candidates. None: all classes if there are samples of both kinds, else the classes of
            the kind.

        Returns
        -------
        pandas.DataFrame
            One row per pair of classes, most frequent first: `true`, `predicted`, `count`, and
            `share` of the samples of the true class.
        """
        return _frame(self._pairs(most, among), ["true", "predicted", "count", "share"])

    def plot_curve(self) -> Figure:
        """Draw accuracy on seen against unseen classes for all penalties of seen classes.

        Returns
        -------
        matplotlib.figure.Figure
            Curves of the model and of the baselines; markers are the models as they are.
        """
        points = {
            model.name: (model.scores["acc_u"], model.scores["acc_s"])
            for model in self.models
            if "hm" in model.scores
        }
        if not points:
            raise ValueError(
                "The curve needs samples of seen and of unseen classes; got "
                f"{self._sizes_text()}. Evaluate samples of both."
            )
        curves = {model.name: model.curve for model in self.models if model.curve is not None}
        return plots.draw_curve(curves, points)

    def plot_calibration(self) -> Figure:
        """Draw how often answers are right against the probability that the model states.

        Returns
        -------
        matplotlib.figure.Figure
            One diagram per set of candidates.
        """
        bins = self._calibration()
        if not bins:
            raise ValueError(
                "Calibration needs a model with probabilities; "
                f"{self.models[0].name} has none. Use AnyShotClassifier."
            )
        return plots.draw_calibration(bins)

    def plot_classes(self) -> Figure:
        """Draw the accuracy of each class, best first.

        Returns
        -------
        matplotlib.figure.Figure
            A bar per class, or for many classes a curve and the classes at both ends.
        """
        rows = [{**row, "name": self._name(row["class"])} for row in self._class_rows()]
        among = self._choose_set(None)
        column = "accuracy_among_all" if among == "all" else "accuracy_among_kind"
        return plots.draw_classes(rows, column, f"accuracy among {among}")

    def plot_confusions(self, most: int = 20, among: str | None = None) -> Figure:
        """Draw the confusion matrix of a few classes, or the most frequent mistakes of many.

        Parameters
        ----------
        most : int, default=20
            Number of mistakes, if there are more than 20 classes.
        among : {"unseen", "seen", "all"}, default=None
            Candidates, as for `confusions`.

        Returns
        -------
        matplotlib.figure.Figure
            The matrix, one true class per row, or bars.
        """
        answers = self._answers(among)
        true, predicted = self._codes(answers)
        used = np.union1d(true, predicted)
        if len(used) <= _MOST_IN_MATRIX:
            counts = np.zeros((len(used), len(used)))
            places = np.searchsorted(used, true), np.searchsorted(used, predicted)
            np.add.at(counts, places, 1)
            shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
            return plots.draw_matrix(shares, [self._name(self.labels[i]) for i in used])
        pairs = [
            {**pair, **{key: self._name(pair[key]) for key in ("true", "predicted")}}
            for pair in self._pairs(most, among)
        ]
        return plots.draw_confusions(pairs)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON.

        Returns
        -------
        dict
            Figures, intervals, baselines, classes, the 20 most frequent confusions, bins of
            calibration, both curves (at most 500 points each) and provenance.
        """
        risk = find_risk(self.models[0], self._choose_set(None))
        first, *others = (_model_dict(model) for model in self.models)
        return {
            **first,
            "confidence": self.confidence,
            "baselines": others,
            "classes": self._class_rows(),
            "confusions": self._pairs(20, None),
            **({} if self.tree is None else {"nodes": self._node_rows()}),
            "calibration": self._calibration(),
            "curve": None if self.curve is None else _thin_curve(self.curve, "unseen", "seen"),
            "risk_coverage": None
            if risk is None
            else _thin_curve(risk, "coverage", "risk", "thresholds"),
            "provenance": dict(self.provenance),
        }

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write one page with all figures, tables and plots; it needs no other file.

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
        header, *rows = self._table()
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        lines = [
            "  ".join(
                cell.ljust(width) if i == 0 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in (header, *rows)
        ]
        notes = [f"{model.name}: {note}" for model in self.models for note in model.notes]
        return "\n".join([self._title(), "", *lines, *([""] if notes else []), *notes])

    def __repr__(self) -> str:
        return self.summary()

    # Tables.

    def _table(self) -> list[list[str]]:
        """Return the heading and one row per figure, as text in percent."""
        header = [f"percent, {100 * self.confidence:g} % interval"]
        rows = [
            [title_of(name), *(" ".join(_cell(model, name)).strip() for model in self.models)]
            for name in self._measures()
        ]
        return [[*header, *(model.name for model in self.models)], *rows]

    def _class_rows(self) -> list[dict[str, Any]]:
        """Return one row per class, sorted by kind and label, ready for JSON."""
        answers = self.models[0].answers
        of_kind = [answers[name] for name in ("unseen", "seen") if name in answers]
        counts = np.bincount(self.class_of, minlength=len(self.classes))
        among_kind = sum(self._sums(one, one.right) for one in of_kind) / counts
        among_all = self._sums(answers["all"], answers["all"].right) / counts
        shown = self._answers(None)
        truth = None if shown.truth is None else self._sums(shown, shown.truth) / counts
        wrong: dict[Any, dict[str, Any]] = {}
        for pair in self._pairs(None, None):
            wrong.setdefault(pair["true"], pair)
        rows = []
        for i in np.lexsort((np.arange(len(self.classes)), self.is_seen)):
            label = self.classes[i].item()
            worst = wrong.get(label, {})
            rows.append(
                {
                    "class": label,
                    "kind": "seen" if self.is_seen[i] else "unseen",
                    "n": int(counts[i]),
                    "accuracy_among_kind": float(among_kind[i]),
                    "accuracy_among_all": float(among_all[i]),
                    "wrong_answer": worst.get("predicted"),
                    "wrong_count": worst.get("count", 0),
                    "truth_probability": None if truth is None else float(truth[i]),
                }
            )
        return rows

    def _node_rows(self) -> list[dict[str, Any]]:
        """Return one row per node of the tree, in the order of reading, ready for JSON."""
        if self.tree is None:
            raise ValueError(
                f"Figures of nodes need a tree of classes; {self.models[0].name} has none. Fit "
                "with Prototypes(labels, matrix, parents=...)."
            )
        true, predicted = self._codes(self._answers(None))
        return list_nodes(self.tree, self.labels[true], self.labels[predicted])

    def _sums(self, answers: Answers, values: np.ndarray) -> np.ndarray:
        """Return the sum of the values of each class."""
        places = self.class_of[answers.positions]
        return np.bincount(places, weights=values, minlength=len(self.classes))

    def _pairs(self, most: int | None, among: str | None) -> list[dict[str, Any]]:
        """Return mistakes by frequency, ties in the order of the labels, ready for JSON."""
        if most is not None:
            most = check_count("most", most, 1)
        true, predicted = self._codes(self._answers(among))
        totals = np.bincount(true, minlength=len(self.labels))
        wrong = true != predicted
        pairs, counts = np.unique(
            np.stack([true[wrong], predicted[wrong]], axis=1), axis=0, return_counts=True
        )
        order = np.argsort(-counts, kind="stable")[:most]
        return [
            {
                "true": self.labels[i].item(),
                "predicted": self.labels[j].item(),
                "count": int(count),
                "n": int(totals[i]),
                "share": float(count / totals[i]),
            }
            for (i, j), count in zip(pairs[order], counts[order], strict=True)
        ]

    def _codes(self, answers: Answers) -> tuple[np.ndarray, np.ndarray]:
        """Return the true and the predicted class of each answer, as positions in `labels`."""
        places = positions_in(self.labels, self.classes)
        true, known = places[self.class_of[answers.positions]], answers.predicted >= 0
        return true[known], answers.predicted[known]

    def _calibration(self) -> dict[str, dict[str, Any]]:
        """Return the bins of confidence by set of candidates, ready for JSON."""
        found = {}
        for name, answers in self.models[0].answers.items():
            if answers.confidence is None or f"ece_{name}" not in self.scores:
                continue
            bins = confidence_bins(answers.confidence, N_BINS)
            sums = [
                np.bincount(bins, weights=weights, minlength=N_BINS)
                for weights in (None, answers.confidence, answers.right)
            ]
            edges = np.linspace(0, 1, N_BINS + 1)
            found[name] = {
                "error": self.scores[f"ece_{name}"],
                "low": edges[:-1].tolist(),
                "high": edges[1:].tolist(),
                "count": sums[0].astype(int).tolist(),
                "confidence": _ratios(sums[1], sums[0]),
                "accuracy": _ratios(sums[2], sums[0]),
            }
        return found

    # What is shown.

    def _answers(self, among: str | None) -> Answers:
        return self.models[0].answers[self._choose_set(among)]

    def _choose_set(self, among: str | None) -> str:
        """Return the set of candidates to show; None means the widest with a choice."""
        answers = self.models[0].answers
        if among is None:
            kinds = [name for name in ("unseen", "seen") if name in answers]
            return "all" if len(kinds) > 1 else kinds[0]
        check_option("among", among, tuple(name for name in SETS if name in answers))
        return among

    def _name(self, label: Any) -> str:
        return shorten_name(self.class_names.get(label, str(label)), _LONGEST_NAME)

    def _title(self) -> str:
        data = self.provenance["data"]["name"]
        return f"{self.models[0].name}{f' on {data}' if data else ''}: {self._sizes_text()}"

    def _sizes_text(self) -> str:
        n_seen, n = int(self.is_seen.sum()), len(self.classes)
        samples = f"{len(self.class_of):,} sample{'s' if len(self.class_of) > 1 else ''}"
        classes = f"{n:,} class{'es' if n > 1 else ''}"
        return f"{samples} of {classes} ({n_seen:,} seen, {n - n_seen:,} unseen)"

    def _page(self) -> str:
        """Return the page."""
        from ..display.drawing import file_bytes
        from ..display.pages import data_address, render

        drawn = {"classes": self.plot_classes(), "confusions": self.plot_confusions()}
        if "hm" in self.scores:
            drawn["curve"] = self.plot_curve()
        if self._calibration():
            drawn["calibration"] = self.plot_calibration()
            drawn["risk"] = self.plot_risk()
        tiles = [name for name in _HEADLINES if name in self.scores][:_MOST_HEADLINES]
        names = self._measures()
        meanings = [meaning_of(name) for name in names]
        rows = [
            {
                "title": title_of(name),
                "meaning": meaning if meaning not in meanings[:i] else "",
                "cells": [_cell(model, name) for model in self.models],
            }
            for i, (name, meaning) in enumerate(zip(names, meanings, strict=True))
        ]
        return render(
            "zonkey.evaluation",
            "evaluation.html",
            evaluation=self,
            title=f"Evaluation of {self.models[0].name}",
            sizes=self._sizes_text(),
            tiles=[(title_of(n), _cell(self.models[0], n), meaning_of(n)) for n in tiles],
            rows=rows,
            among=self._choose_set(None),
            classes=self._class_table(),
            nodes=[] if self.tree is None else self._node_table(),
            long=_LONG_TABLE,
            confusions=[
                [
                    self._name(row["true"]),
                    self._name(row["predicted"]),
                    str(row["count"]),
                    f"{100 * row['share']:.0f}",
                ]
                for row in self._pairs(20, None)
            ],
            pictures={
                name: data_address("image/png", file_bytes(figure, ["png"])["png"])
                for name, figure in drawn.items()
            },
        )

    def _class_table(self) -> list[list[str]]:
        """Return the table of classes as text, worst first."""
        rows = sorted(self._class_rows(), key=lambda row: row["accuracy_among_kind"])
        return [
            [
                self._name(row["class"]),
                row["kind"],
                str(row["n"]),
                f"{100 * row['accuracy_among_kind']:.0f}",
                f"{100 * row['accuracy_among_all']:.0f}",
                "" if row["wrong_answer"] is None else self._name(row["wrong_answer"]),
                str(row["wrong_count"] or ""),
                *(
                    []
                    if row["truth_probability"] is None
                    else [f"{100 * row['truth_probability']:.0f}"]
                ),
            ]
            for row in rows
        ]

    def _node_table(self) -> list[list[str]]:
        """Return the tree as text, indented by level."""
        return [
            [
                "\N{NO-BREAK SPACE}" * 4 * (row["level"] - 1) + self._name(row["node"]),
                str(row["n"]),
                f"{100 * row['accuracy']:.0f}",
                "" if row["wrong_answer"] is None else self._name(row["wrong_answer"]),
                str(row["wrong_count"] or ""),
            ]
            for row in self._node_rows()
        ]

    def _measures(self) -> list[str]:
        """Return the names of all figures, in the order of the table."""
        names = {name for model in self.models for name in model.scores}
        return sorted(names, key=place_of)


def _frame(rows: Sequence[Any], columns: list[str]) -> Any:
    pandas = require_package("pandas", "A table of an evaluation")
    return pandas.DataFrame(rows, columns=columns)


def _model_dict(model: Measured) -> dict[str, Any]:
    return {
        "model": model.name,
        "scores": dict(model.scores),
        "intervals": {name: list(ends) for name, ends in model.intervals.items()},
        "n": dict(model.sizes),
        "notes": list(model.notes),
    }


def _cell(model: Measured, name: str) -> tuple[str, str]:
    """Return a figure and its interval, in percent; a dash if the model has none."""
    if name not in model.scores:
        return "-", ""
    low, high = model.intervals[name]
    if name.startswith(EDGES):
        return f"{model.scores[name]:.2f}", f"[{low:.2f}, {high:.2f}]"
    return f"{100 * model.scores[name]:.1f}", f"[{100 * low:.1f}, {100 * high:.1f}]"


def _ratios(sums: np.ndarray, counts: np.ndarray) -> list[float | None]:
    return [float(s / c) if c else None for s, c in zip(sums, counts, strict=True)]


def _thin_curve(curve: Any, *names: str) -> dict[str, list[float]]:
    """Return at most a few hundred points of a curve, both ends included."""
    n = len(getattr(curve, names[0]))
    kept = np.unique(np.linspace(0, n - 1, min(n, _MOST_POINTS)).round().astype(int))
    return {name: getattr(curve, name)[kept].tolist() for name in names}
