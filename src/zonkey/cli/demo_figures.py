"""The figures of the demonstration: any-shot curve, seen against unseen, a map of new classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..datasets import EmojiDataset
from ..metrics import SeenUnseenCurve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..estimators import ZeroShotClassifier

# Told apart by line and marker, not by colour alone.
_LINES = ("-", "--", "-.", ":")
_MARKERS = ("o", "s", "^", "D")
MAPPED_GROUPS = ("Animals & Nature", "Food & Drink", "Travel & Places")


def draw_any_shot(record: dict[str, Any]) -> Figure:
    """Draw hit@1 and hit@5 against the number of shots."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes = figure.subplots(1, 2, sharex=True)
    for axis, key in zip(axes, ("hit@1", "hit@5"), strict=True):
        for i, (name, curve) in enumerate(record["curves"].items()):
            values = [100 * value for value in curve[key]]
            style = {"linestyle": _LINES[i], "marker": _MARKERS[i]}
            axis.plot(curve["shots"], values, label=name, **style)
        axis.set(xlabel="labelled pictures a class", ylabel=f"{key} (%)", ylim=(0, None))
        axis.grid(alpha=0.3)
    axes[0].set_xticks(range(5))
    axes[1].legend()
    return figure


def draw_trade_off(curves: dict[str, SeenUnseenCurve]) -> Figure:
    """Draw accuracy on seen against that on unseen classes, as the penalty on seen ones grows."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2, 4), layout="constrained")
    axis = figure.subplots()
    for i, (name, curve) in enumerate(curves.items()):
        label = f"{name} (area {100 * curve.area:.1f} %)"
        axis.plot(100 * curve.unseen, 100 * curve.seen, linestyle=_LINES[i], label=label)
    axis.set(xlabel="accuracy on unseen classes (%)", ylabel="accuracy on seen classes (%)")
    axis.legend(fontsize=9)
    axis.grid(alpha=0.3)
    return figure


def draw_map(data: EmojiDataset, model: ZeroShotClassifier, X_unseen: np.ndarray) -> Figure:
    """Draw test pictures of unseen classes and their projected prototypes in two dimensions."""
    from matplotlib.figure import Figure
    from matplotlib.offsetbox import AnnotationBbox, OffsetImage
    from sklearn.manifold import TSNE

    labels = [name for name in data.unseen_classes if data.groups[name] in MAPPED_GROUPS]
    chosen = np.isin(data.y_test_unseen, labels)
    centres = model.project(model.prototypes_.subset(labels))
    points = np.concatenate([X_unseen[chosen], _unit(centres)])
    places = TSNE(perplexity=12, init="pca", metric="cosine", random_state=0).fit_transform(points)
    samples, projected = places[: chosen.sum()], places[chosen.sum() :]
    figure = Figure(figsize=(9, 9), layout="constrained")
    axis = figure.subplots()
    for name, place in zip(data.y_test_unseen[chosen], samples, strict=True):
        j = int(np.searchsorted(labels, name))
        axis.plot(*zip(place, projected[j], strict=True), color="0.85", linewidth=0.5, zorder=0)
    for name, place in zip(data.y_test_unseen[chosen], samples, strict=True):
        picture = OffsetImage(data.thumbnail(str(name)), zoom=0.2)
        axis.add_artist(AnnotationBbox(picture, tuple(place), frameon=False))
    axis.plot(*projected.T, "x", color="black", markersize=5, label="projected prototype")
    axis.update_datalim(places)
    axis.autoscale_view()
    axis.set(xticks=[], yticks=[])
    axis.legend(loc="upper right")
    return figure


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
