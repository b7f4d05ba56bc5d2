"""Explanation: why a model gave its answer for one sample, as text, table, JSON and picture."""

from __future__ import annotations

import copy
import math
import textwrap
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..display.drawing import COLORS, escape_controls, escape_dollars, new_figure
from ..optional import require_package
from ..parameters import check_option

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Explanation"]

_COLUMNS = {
    "classes": ("label", "kind", "n_samples", "score", "margin", "probability", "penalty"),
    "seen_classes": (
        *("label", "kind", "share_winner", "share_runner_up"),
        *("pull_winner", "pull_runner_up", "difference"),
    ),
    "samples": ("row", "label", "pull_winner", "pull_runner_up", "difference", "distance"),
    "attributes": (
        *("attribute", "dimension", "sample", "winner", "runner_up", "mean"),
        *("effect_winner", "effect_runner_up", "difference"),
    ),
}
_HEADINGS = {
    "classes": "Best classes",
    "seen_classes": "Seen classes",
    "samples": "Labeled samples",
    "attributes": "Attributes",
}
_COLUMN_NAMES = {"label": "class", "n_samples": "samples"}
# Columns that are measured in the same unit, by the start of their names.
_UNITS = {
    "score": ("score", "margin", "penalty"),
    "share": ("share",),
    "pull": ("pull", "effect", "difference"),
    "distance": ("distance", "prototype_distance"),
    "value": ("sample", "winner", "runner_up", "mean"),
}
_SHOWN = 5  # rows of each part in the text
_DRAWN = 8  # bars of each panel
_LONGEST = 32  # characters of a name
_WINNER = {"color": COLORS[0]}
_RUNNER_UP = {"color": COLORS[4], "hatch": "///"}  # distinct in gray, too
_OTHERS = {"color": "#BBBBBB"}


@dataclass(frozen=True)
class Explanation:
    """Explanation of the answer of a model for one sample.

    The explanation compares the winner, the class of highest score, with the runner-up. It has
    four parts, each a list of rows:

    ``classes``
        The best classes: score, margin (how far it is below the winner), probability (None if the
        model has none), number of labeled samples (None if the model does not keep it), and the
        penalty that was subtracted from the score, less what the share of the class adds
        (`priors`, or shares that `adapt` has estimated). ``kind`` is "seen", "unseen" or "novel".
    ``seen_classes``
        Contributions of classes with samples to the winner's score. In `AnyShotClassifier`, the
        center c of a class is a weighted sum of class means: c = sum_j a_j m_j. The weights come
        from the regression on prototypes, and from the own samples of the class. ``share`` is a_j,
        and ``pull`` is 2 a_j x'm_j with the preprocessed sample x. The pulls of all rows add up to
        the term 2 x'c of the score. After `adapt`, a row without label, of kind "unlabeled
        samples", holds what they changed; one of kind "mean of all classes" what pulls classes of
        few samples. The regression still uses removed classes; their kind is
        "removed". The centers of other models have no such weights. For these, the rows are the
        seen classes by the distance of their prototypes from that of the winner; ``distance`` is
        from the sample to their center (None if the model compares in another way).
    ``samples``
        Labeled samples that pull towards the winner rather than the runner-up, strongest first. A
        sample x_i of class j with weight w_i, out of a total n_j, has the pull
        2 (a_j w_i / n_j) x'x_i. ``row`` is its position in the X of `fit`, ``distance`` that from
        the sample, both preprocessed. At most 50 are listed, of those that the model keeps: up to
        64 per class, none of `partial_fit`.
    ``attributes``
        Dimensions of the semantic space. ``effect`` is the decrease of the score of a class if this
        one number of its prototype is replaced by its mean over all known classes: positive numbers
        support the class. Nothing else changes: nothing is relearned, the prior of a class with
        samples is the one learned from the other classes, and the changes by `adapt` stay fixed.
        ``sample`` is the value that `embed` reads from the sample.

    Columns that end in ``winner`` and ``runner_up`` are of these two classes, and ``difference`` is
    the first minus the second: positive numbers speak for the winner. Without a runner-up, its
    columns are None and the difference is the value of the winner.

    Parameters
    ----------
    label : label
        The winner: the class of highest score.
    runner_up : label or None
        The second best class, None if there is a single candidate.
    margin : float or None
        Score of the winner minus that of the runner-up.
    answer : label or list
        What `predict` returns: `label`, or the label of rejected samples. Of several labels: a list
        of all that apply.
    penalty : dict
        ``winner`` and ``runner_up``: what was subtracted from their scores. ``label_without``: the
        class that would have won without any penalty.
    parts : dict of {str: list of dict}
        Rows of each part.
    notes : dict of {str: str}
        What the numbers of a part mean, or why it is empty.

    See Also
    --------
    zonkey.explain : Explain the answer of a model or a pipeline.
    AnyShotClassifier : The recommended model.

    Examples
    --------
    >>> import numpy as np
    >>> from zonkey import AnyShotClassifier, Prototypes
    >>> labels = ["horse", "tiger", "rabbit", "zebra", "donkey"]
    >>> values = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 0, 1]])
    >>> prototypes = Prototypes(labels, values, ["horse-like", "striped", "long ears"])
    >>> rng = np.random.default_rng(0)
    >>> looks = rng.normal(size=(3, 64))
    >>> X = np.repeat(values[:3], 50, axis=0) @ looks + rng.normal(size=(150, 64))
    >>> model = AnyShotClassifier(prototypes, candidates="unseen")
    >>> model = model.fit(X, np.repeat(labels[:3], 50))
    >>> explanation = model.explain(looks[0] + looks[1])
    >>> explanation
    Explanation(zebra, probability 1.00, before donkey by 1.302)
    >>> for row in explanation.to_dict()["attributes"]:
    ...     print(row["attribute"], round(row["difference"], 2))
    long ears 0.62
    striped 0.38
    horse-like -0.29
    """

    label: Any
    runner_up: Any
    margin: float | None
    answer: Any
    penalty: dict[str, Any]
    parts: dict[str, list[dict[str, Any]]]
    notes: dict[str, str]

    @property
    def rejected(self) -> bool:
        """Whether the model rejects the sample: `predict` does not return the winner."""
        return not isinstance(self.answer, list) and self.answer != self.label

    def name_samples(self, names: Mapping[int, str]) -> Explanation:
        """Return the same with names of labeled samples.

        Parameters
        ----------
        names : mapping of {int: str}
            Names by ``row``, such as files of pictures; the others have None.

        Returns
        -------
        Explanation
            Its rows of ``samples`` have the column ``name``, after ``row``.
        """
        if not names:
            return self
        rows = [
            {"row": row["row"], "name": names.get(row["row"]), **row}
            for row in self.parts["samples"]
        ]
        return replace(self, parts={**self.parts, "samples": rows})

    def table(self) -> str:
        """Return the explanation as plain text, with up to five rows of each part.

        Returns
        -------
        str
            Lines of aligned columns. Control characters in names are escaped.
        """
        blocks = ["\n".join(self._headlines())]
        left_out = {"dimension", *(["difference"] if self.runner_up is None else [])}
        for part, heading in _HEADINGS.items():
            rows = self.parts[part]
            most = len(rows) if part == "classes" else _SHOWN  # as many as were asked for
            some = f" ({most} of {len(rows)})" if len(rows) > most else ""
            hidden = left_out | ({"row"} if rows and "name" in rows[0] else set())
            lines = [f"{heading}{some}: {self.notes[part]}", *_align_rows(rows[:most], hidden)]
            blocks.append("\n".join(lines))
        return "\n\n".join(blocks)

    def to_frame(self, part: str) -> Any:
        """Return one part as a DataFrame.

        Parameters
        ----------
        part : {"classes", "seen_classes", "samples", "attributes"}
            The part.

        Returns
        -------
        pandas.DataFrame
            All rows of the part.
        """
        check_option("part", part, tuple(_COLUMNS))
        pandas = require_package("pandas", "Explanation.to_frame")
        rows = self.parts[part]
        return pandas.DataFrame(rows, columns=[*(rows[0] if rows else _COLUMNS[part])])

    def to_dict(self) -> dict[str, Any]:
        """Return everything in plain Python types, ready for JSON.

        Returns
        -------
        dict
            The attributes by name, and the rows of each part. Missing values are None.
        """
        names = ("label", "runner_up", "margin", "answer", "rejected", "penalty")
        own = {name: getattr(self, name) for name in names}
        return copy.deepcopy({**own, **self.parts, "notes": self.notes})

    def plot(self) -> Figure:
        """Draw the best classes, the pull of seen classes and the effect of attributes.

        Returns
        -------
        matplotlib.figure.Figure
            Three panels. In the last two, bars to the right speak for the winner and bars to the
            left for the runner-up.
        """
        drawn = [self.parts[part][:_DRAWN] for part in ("classes", "seen_classes", "attributes")]
        height = 1.8 + 0.34 * max(3, *map(len, drawn))
        figure = new_figure(14, height)
        classes, seen, attributes = figure.subplots(1, 3, gridspec_kw={"wspace": 0.06})
        _draw_classes(classes, drawn[0])
        if drawn[1] and "difference" not in drawn[1][0]:
            self._draw_distances(seen, drawn[1])
        else:
            self._draw_differences(seen, "seen_classes", "Pull of seen classes")
        of = "winner" if self.runner_up is None else "winner / runner-up"
        title = f"Effect of attributes\n(value of {of})"
        self._draw_differences(attributes, "attributes", title)
        best = "Rejected; best class" if self.rejected else "Winner"
        title = f"{best}: {escape_dollars(format_name(self.label))}"
        if self.runner_up is not None:
            title += f"     Runner-up: {escape_dollars(format_name(self.runner_up))}"
        figure.suptitle(title, fontsize=13)
        return figure

    def __repr__(self) -> str:
        words = [format_name(self.label) + (" (rejected)" if self.rejected else "")]
        chance = self.parts["classes"][0]["probability"]
        if chance is not None:
            words.append(f"probability {chance:.2f}")
        if self.margin is not None:
            words.append(f"before {format_name(self.runner_up)} by {_number(self.margin)}")
        return f"Explanation({', '.join(words)})"

    def _headlines(self) -> list[str]:
        """Return winner, rejection, runner-up and penalty, one line each."""
        chance = self.parts["classes"][0]["probability"]
        probability = "" if chance is None else f", probability {chance:.3f}"
        lines = [f"winner:    {format_name(self.label)}{probability}"]
        if isinstance(self.answer, list):
            lines.append(f"predicted: {', '.join(map(format_name, self.answer)) or 'no label'}")
        if self.rejected:
            lines.append(f"rejected:  the answer is {format_name(self.answer)}")
        if self.margin is None:
            lines.append("runner-up: none, there is a single candidate")
        else:
            lines.append(
                f"runner-up: {format_name(self.runner_up)}, behind by {_number(self.margin)}"
            )
        winner, runner_up = self.penalty["winner"], self.penalty["runner_up"]
        without = self.penalty["label_without"]
        if winner or runner_up or without != self.label:
            off = f"{_number(winner)} off the winner"
            off += "" if runner_up is None else f", {_number(runner_up)} off the runner-up"
            same = "the same class" if without == self.label else format_name(without)
            lines.append(f"penalty:   {off}; without penalties, {same} would win")
        return lines

    def _draw_differences(self, axis: Axes, part: str, title: str) -> None:
        """Draw the evidence for the winner and for the runner-up."""
        rows = self.parts[part][:_DRAWN]
        axis.set_title(title)
        if not rows:
            _draw_nothing(axis, self.notes[part])
            return
        values = [row["difference"] for row in rows]
        styles = [_WINNER if value >= 0 else _RUNNER_UP for value in values]
        _draw_bars(axis, [_name(row) + _values(row) for row in rows], values, styles)
        axis.axvline(0, color="black", linewidth=0.8)
        far = 1.1 * max(map(abs, values)) or 1.0
        axis.set_xlim(-far, far)
        against = "against" if self.runner_up is None else "for runner-up"
        below: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
        for text, place in ((against, "left"), ("for winner", "right")):
            axis.annotate(text, (place == "right", 0), (0, -28), ha=place, va="center", **below)
        axis.locator_params(axis="x", nbins=4)

    def _draw_distances(self, axis: Axes, rows: list[dict[str, Any]]) -> None:
        """Draw how far the prototypes of seen classes are from those of winner and runner-up."""
        axis.set_title("Distance of prototypes from seen ones")
        styles = {
            "winner": (_WINNER, self.label, -0.19),
            "runner_up": (_RUNNER_UP, self.runner_up, 0.19),
        }
        for name, (style, label, offset) in styles.items():
            values = [row[f"prototype_distance_{name}"] for row in rows]
            if values[0] is not None:
                look = {"height": 0.36, "edgecolor": "white", "linewidth": 0, **style}
                places = [i + offset for i in range(len(rows))]
                axis.barh(places, values, label=escape_dollars(format_name(label)), **look)
        _set_names(axis, [_name(row) for row in rows])
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=2, frameon=False)


def format_name(name: Any) -> str:
    """Return a name for a terminal: control characters escaped, long names cut."""
    text = str(name)
    return escape_controls(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}...")


def _name(row: dict[str, Any]) -> str:
    """Return the name of a class or an attribute; unlabeled samples have none but their kind."""
    if "attribute" in row:
        return format_name(row["attribute"])
    return row["kind"] if row["label"] is None else format_name(row["label"])


def _align_rows(rows: Sequence[dict[str, Any]], left_out: set[str]) -> list[str]:
    """Return rows as lines of text: a heading, text to the left, numbers to the right."""
    if not rows:
        return []
    columns = []
    for name in rows[0]:
        values = [row[name] for row in rows]
        is_name = name in ("label", "attribute")
        if name in left_out or (not is_name and all(value is None for value in values)):
            continue
        if is_name:
            texts = [_name(row) for row in rows]
        elif name == "kind":
            texts = values
        elif name == "name":
            texts = ["-" if value is None else format_name(value) for value in values]
        else:
            alike = [row[other] for row in rows for other in row if _unit(other) == _unit(name)]
            form = _form([value for value in alike if value is not None])
            sign = "+" if _unit(name) == "pull" else ""
            texts = ["-" if value is None else _format_value(value, form, sign) for value in values]
        heading = _COLUMN_NAMES.get(name, name.replace("_", " "))
        heading = heading.replace("runner up", "runner-up")
        width = max(map(_width, [heading, *texts]))
        left = is_name or name in ("kind", "name")
        columns.append([_pad_text(text, width, left=left) for text in [heading, *texts]])
    return [f"  {'  '.join(line)}".rstrip() for line in zip(*columns, strict=True)]


def _unit(name: str) -> str:
    """Return the unit of a column; columns of one unit have the same decimals."""
    return next((unit for unit, starts in _UNITS.items() if name.startswith(starts)), name)


def _form(values: Sequence[float]) -> str:
    """Return a format that gives the largest number at least three digits."""
    if all(isinstance(value, int) for value in values):
        return "d"
    largest = max(map(abs, values)) or 1.0
    if not 1e-4 <= largest < 1e6:
        return ".2e"
    order = math.floor(math.log10(largest))
    return f".{max(0, 3 - order if order >= 0 else 2 - order)}f"


def _format_value(value: float, form: str, sign: str = "") -> str:
    text = format(value, sign + form)
    # A number that is rounded to zero has no sign.
    return text if text.strip("+-0.") or form == "d" else format(0.0, sign + form)


def _number(value: float) -> str:
    return _format_value(value, _form([value])) if value else "0"


def _width(text: str) -> int:
    """Return the number of terminal columns of a text."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def _pad_text(text: str, width: int, *, left: bool) -> str:
    blanks = " " * (width - _width(text))
    return text + blanks if left else blanks + text


def _values(row: dict[str, Any]) -> str:
    """Return the value of an attribute in winner and runner-up, nothing for a class."""
    if "attribute" not in row:
        return ""
    values = [row[name] for name in ("winner", "runner_up") if row[name] is not None]
    return f" ({' / '.join(format(value, '.2g') for value in values)})"


def _draw_bars(
    axis: Axes, names: list[str], values: list[float], styles: Sequence[dict[str, Any]]
) -> None:
    """Draw horizontal bars from top to bottom."""
    for i, (value, style) in enumerate(zip(values, styles, strict=True)):
        axis.barh(i, value, height=0.7, edgecolor="white", linewidth=0, **style)
    _set_names(axis, names)


def _set_names(axis: Axes, names: list[str]) -> None:
    axis.set_yticks(range(len(names)), [escape_dollars(name) for name in names])
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.tick_params(axis="y", length=0)
    axis.spines[["top", "right", "left"]].set_visible(False)


def _draw_classes(axis: Axes, rows: list[dict[str, Any]]) -> None:
    """Draw probabilities, or scores if there are none."""
    has_chances = rows[0]["probability"] is not None
    axis.set_title("Probability" if has_chances else "Score relative to the winner")
    values = [row["probability"] if has_chances else -row["margin"] for row in rows]
    styles = [_WINNER, _RUNNER_UP, *[_OTHERS] * len(rows)][: len(rows)]
    _draw_bars(axis, [_name(row) for row in rows], values, styles)
    side = 1 if has_chances else -1
    form = ".1%" if has_chances else _form(values)
    for i, value in enumerate(values):
        ha = "left" if has_chances else "right"
        text = _format_value(value, form)
        axis.annotate(
            text, (value, i), (4 * side, 0), textcoords="offset points", va="center", ha=ha
        )
    axis.set_xlim(*sorted((0, 1.25 * max(values, key=abs) or -1)))
    if has_chances:
        most = min(1.0, axis.get_xlim()[1])
        axis.set_xticks([tick for tick in axis.get_xticks() if 0 <= tick <= most])


def _draw_nothing(axis: Axes, reason: str) -> None:
    text = escape_dollars("\n".join(textwrap.wrap(reason, 40)))
    axis.text(0.5, 0.5, text, ha="center", va="center", transform=axis.transAxes)
    axis.set_axis_off()
