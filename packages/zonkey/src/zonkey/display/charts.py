"""Charts that the demonstration and the report share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from .drawing import add_grid, escape_dollars, line_style, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_hits(
    curves: Mapping[str, tuple[Iterable[int], Mapping[str, ArrayLike], Mapping[str, ArrayLike]]],
    label: str,
) -> Figure:
    """Draw hit@1 and hit@5 against the number of shots.

    `curves` maps each model to numbers of shots, shares by metric, and spreads by metric (if
    known).
    """
    figure = new_figure(9, 3.6)
    axes = figure.subplots(1, 2, sharex=True)
    for axis, metric in zip(axes, ("hit@1", "hit@5"), strict=True):
        for i, (model, (shots, shares, spreads)) in enumerate(curves.items()):
            heights = 100 * np.asarray(shares[metric])
            error = 100 * np.asarray(spreads[metric]) if metric in spreads else None
            axis.errorbar(
                list(shots),
                heights,
                yerr=error,
                label=escape_dollars(model),
                capsize=2,
                **line_style(i),
            )
        axis.set(xlabel=label, ylabel=f"{metric} (%)", ylim=(0, None))
        add_grid(axis)
    axes[0].set_xticks(sorted({n_shot for shots, *_ in curves.values() for n_shot in shots}))
    axes[1].legend(fontsize=8)
    return figure


def draw_trade_off(curves: Mapping[str, tuple[ArrayLike, ArrayLike]]) -> Figure:
    """Draw accuracy on seen against unseen classes, for growing penalties on seen classes.

    `curves` are the two accuracies, unseen first, by legend text.
    """
    figure = new_figure(6.5, 4.6)
    axis = figure.subplots()
    for i, (label, curve) in enumerate(curves.items()):
        unseen, seen = (100 * np.asarray(values) for values in curve)
        style = {**line_style(i), "markevery": max(1, len(seen) // 8)}
        axis.plot(unseen, seen, label=escape_dollars(label), **style)
    axis.set(xlabel="accuracy on unseen classes (%)", ylabel="accuracy on seen classes (%)")
    axis.legend(fontsize=9)
    add_grid(axis)
    return figure
