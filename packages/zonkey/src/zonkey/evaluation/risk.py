"""How many answers are wrong if only the most probable ones are given."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..metrics import RiskCoverageCurve, risk_coverage_curve
from . import plots
from .measures import Measured

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class RiskMixin:
    """The risk-coverage curve of an evaluation."""

    models: tuple[Measured, ...]
    _choose_set: Callable[[str | None], str]

    def risk_coverage(self, among: str | None = None) -> RiskCoverageCurve:
        """Return the share of wrong answers if the least probable ones are not given.

        Parameters
        ----------
        among : {"unseen", "seen", "all"}, default=None
            Candidates, as for `confusions`.

        Returns
        -------
        RiskCoverageCurve
            The curve; its thresholds are probabilities.
        """
        curve = find_risk(self.models[0], self._choose_set(among))
        if curve is None:
            raise ValueError(
                "The risk-coverage curve needs a model with probabilities; "
                f"{self.models[0].name} has none. Use AnyShotClassifier."
            )
        return curve

    def plot_risk(self, among: str | None = None) -> Figure:
        """Draw the share of wrong answers against the share of samples that are answered.

        Parameters
        ----------
        among : {"unseen", "seen", "all"}, default=None
            Candidates, as for `confusions`.

        Returns
        -------
        matplotlib.figure.Figure
            Curves of the model and of baselines with probabilities.
        """
        self.risk_coverage(among)
        chosen = self._choose_set(among)
        curves = {model.name: find_risk(model, chosen) for model in self.models}
        return plots.draw_risk({name: one for name, one in curves.items() if one is not None})


def find_risk(model: Measured, among: str) -> RiskCoverageCurve | None:
    """Return the curve of a model, None if it has no probabilities."""
    answers = model.answers.get(among)
    if answers is None or answers.confidence is None:
        return None
    right = answers.right.astype(int)
    return risk_coverage_curve(np.ones_like(right), right, answers.confidence)
