"""The picture of the demonstration: imagined numbers, and the trade-off between old and new."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..datasets.numbers import IMAGE_SHAPE, TwoDigitNumbers
from ..metrics import SeenUnseenCurve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SHOWN = 8
_LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))


def draw(
    data: TwoDigitNumbers,
    imagined: np.ndarray,
    curves: dict[str, SeenUnseenCurve],
    path: Path,
) -> None:
    """Draw W y of unseen numbers beside real handwriting, and the seen-unseen curves."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.2), layout="constrained", dpi=130)
    left, right = cast(Any, figure.subfigures(1, 2, width_ratios=[1.25, 1]))
    _draw_numbers(left, data, imagined)
    _draw_curves(right.subplots(), curves)
    figure.savefig(path)


def _draw_numbers(figure, data: TwoDigitNumbers, imagined: np.ndarray) -> None:
    figure.suptitle("Numbers the model has never seen")
    chosen = np.linspace(0, len(data.unseen_classes) - 1, _SHOWN).astype(int)
    axes = figure.subplots(_SHOWN // 2, 4)
    for column, title in enumerate(("imagined", "written") * 2):
        axes[0, column].set_title(title, fontsize=10)
    for place, row in enumerate(chosen):
        label = data.unseen_classes[row]
        pair = axes[place % (_SHOWN // 2), 2 * (place // (_SHOWN // 2)) :]
        written = data.X_test[data.y_test == label][0]
        for axis, picture in zip(pair, (imagined[row], written), strict=False):
            axis.imshow(np.reshape(picture, IMAGE_SHAPE), cmap="gray_r", vmin=0)
            axis.set(xticks=[], yticks=[])
        pair[0].set_ylabel(label, rotation=0, ha="right", va="center", fontsize=12)


def _draw_curves(axis: Axes, curves: dict[str, SeenUnseenCurve]) -> None:
    for (name, curve), line in zip(curves.items(), _LINES, strict=False):
        axis.plot(
            100 * curve.unseen,
            100 * curve.seen,
            linestyle=line,
            label=f"{name} (area {curve.area:.3f})",
        )
    axis.set(
        xlabel="accuracy on unseen numbers (%)",
        ylabel="accuracy on seen numbers (%)",
        title="Seen against unseen, among all 100 numbers",
    )
    axis.legend(loc="lower left", fontsize=9)
    axis.grid(alpha=0.3)
