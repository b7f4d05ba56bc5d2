"""A data set made ready for few-shot protocols: base moments, novel samples, queries."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..core.frame import BaseClasses
from ..core.moments import Moments
from ..core.prototypes import Prototypes
from ..datasets import Dataset
from .preparation import Preset, feature_steps

_N_WAY, _N_QUERY = 5, 15


@dataclass(frozen=True, eq=False)
class Shots:
    """Features of novel classes after the steps of a preset, and the base classes as moments.

    Attributes
    ----------
    X, y : ndarray
        Samples of novel classes.
    classes : ndarray
    queries : ndarray or None
        Positions in X of samples that are queries only.
    prototypes : Prototypes
        Of base and novel classes.
    base : BaseClasses
    """

    X: np.ndarray
    y: np.ndarray
    classes: np.ndarray
    queries: np.ndarray | None
    prototypes: Prototypes
    base: BaseClasses

    @cached_property
    def most_shots(self) -> int:
        """How many shots every class can spare, one query kept."""
        spare = self.y if self.queries is None else np.delete(self.y, self.queries)
        least = int(np.unique(spare, return_counts=True)[1].min())
        return least - 1 if self.queries is None else least

    def trial_sizes(self, n_shot: int) -> dict[str, Any]:
        """Return ways, shots and queries of small trials, as far as there are samples."""
        n_shot = min(n_shot, self.most_shots)
        asked = self.y if self.queries is None else self.y[self.queries]
        least = int(np.unique(asked, return_counts=True)[1].min())
        n_query = min(_N_QUERY, least - n_shot if self.queries is None else least)
        n_way = min(_N_WAY, len(self.classes))
        return {"n_way": n_way, "n_shot": n_shot, "n_query": n_query, "queries": self.queries}


def prepared_shots(data: Dataset, preset: Preset = "paper") -> Shots:
    """Gather the moments of the base classes, and the samples of the novel ones.

    What a preset learns of features it learns from the base classes. Prototypes are brought to unit
    length for the paper's; for the recommended one they stay, as the model transforms them.
    """
    steps = feature_steps(preset).fit(data.X_train, data.y_train)
    prototypes = data.prototypes.normalized() if preset == "paper" else data.prototypes
    moments = Moments(prototypes).update(steps.transform(data.X_train), data.y_train)
    novel = data.split.novel
    asked = np.flatnonzero(np.isin(novel, data.split.query))
    return Shots(
        X=steps.transform(data.X[novel]),
        y=data.y[novel],
        classes=data.unseen_classes,
        queries=asked if len(asked) else None,
        prototypes=prototypes,
        base=BaseClasses(moments),
    )
