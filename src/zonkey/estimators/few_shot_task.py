"""One few-shot task: a support set in the coordinates where learning is cheap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.frame import BaseClasses, Frame, frame_without_base
from ..core.projection import NormalEquations


@dataclass(frozen=True, eq=False)
class Task:
    """One support set, in the coordinates of its frame."""

    frame: Frame
    X_u: np.ndarray
    codes: np.ndarray
    Y_u: np.ndarray
    base: BaseClasses | None

    @classmethod
    def of(
        cls, X_u: np.ndarray, codes: np.ndarray, Y_u: np.ndarray, base: BaseClasses | None
    ) -> Task:
        """Express support samples, with their rows of Y_u, and prototypes in a fitting frame."""
        frame = frame_without_base(X_u, Y_u) if base is None else base.frame(Y_u)
        return cls(frame, frame.features(X_u), codes, frame.semantics(Y_u), base)

    def initial_equations(self) -> NormalEquations:
        """Return what W^(0) is learnt from: the base classes, or the support set without any."""
        if self.base is not None:
            return self.frame.equations
        Y = self.Y_u[self.codes]
        return NormalEquations(self.X_u.T @ self.X_u, Y.T @ Y, self.X_u.T @ Y)


def spread_of(Y: np.ndarray) -> float:
    """Return the root mean squared distance of prototypes from their mean.

    Of a single prototype, or of equal ones, it is their length, which is all there is to go by.
    """
    deviations = Y - Y.mean(axis=0)
    if not deviations.any():
        deviations = Y
    return float(np.sqrt(np.mean(np.sum(deviations**2, axis=1))))
