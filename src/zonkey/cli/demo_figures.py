"""The figures of the demonstration: any-shot curve, and a map of new classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..datasets import EmojiDataset
from ..report.drawing import add_grid, line_style, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..estimators import ZeroShotClassifier

MAPPED_GROUPS = ("Animals & Nature", "Food & Drink", "Travel & Places")


def draw_any_shot(record: dict[str, Any]) -> Figure:
    """Draw hit@1 and hit@5 against the number of shots."""
    figure = new_figure(9, 3.6)
    axes = figure.subplots(1, 2, sharex=True)
    for axis, key in zip(axes, ("hit@1", "hit@5"), strict=True):
        for i, (name, curve) in enumerate(record["curves"].items()):
            values = [100 * value for value in curve[key]]
            axis.plot(curve["shots"], values, label=name, **line_style(i))
        axis.set(xlabel="labeled pictures a class", ylabel=f"{key} (%)", ylim=(0, None))
        add_grid(axis)
    axes[0].set_xticks(range(5))
    axes[1].legend()
    return figure


def draw_map(data: EmojiDataset, model: ZeroShotClassifier, X_unseen: np.ndarray) -> Figure:
    """Draw test pictures of unseen classes and their projected prototypes in two dimensions."""
    from matplotlib.offsetbox import AnnotationBbox, OffsetImage
    from sklearn.manifold import TSNE

    labels = [name for name in data.unseen_classes if data.groups[name] in MAPPED_GROUPS]
    chosen = np.isin(data.y_test_unseen, labels)
    centers = model.project(model.prototypes_.subset(labels))
    points = np.concatenate([X_unseen[chosen], _unit(centers)])
    places = TSNE(perplexity=12, init="pca", metric="cosine", random_state=0).fit_transform(points)
    samples, projected = places[: chosen.sum()], places[chosen.sum() :]
    figure = new_figure(9, 9)
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
