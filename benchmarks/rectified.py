"""Generated zero-shot problems: rectified linear features, with one argument per factor.

A class has a prototype y of unit length. The center of its samples is V y + offset, with a random
matrix V and a random offset of the class that prototypes do not explain. Samples scatter around
it, are rectified as behind the last layer of a network, and get unit length.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from scipy.stats import norm

from zonkey import Prototypes

N_FEATURES, N_SAMPLES = 256, 30


@dataclass(frozen=True)
class Setting:
    """Factors of a problem. Noise and offset are relative to the spread of V y between classes.

    Attributes
    ----------
    n_seen, n_dimensions, n_unseen : int
        Seen classes, dimensions of the prototypes, unseen classes.
    prototypes : {"gaussian", "uniform", "binary"}
        "gaussian": values around zero. "uniform": continuous values in [0, 1]. "binary": 0 or 1.
        Both of the latter have a common part, the mean prototype.
    noise : float
        Standard deviation of samples around their class.
    offset : float
        Standard deviation of class centers around V y.
    common : float
        Mean of the values of a prototype, relative to their standard deviation between classes,
        before they are made uniform or binary. Gaussian prototypes with a mean share a part.
    shift : float
        Standard deviation, per dimension, of one step from seen to unseen prototypes, relative to
        the standard deviation between classes.
    rectified : bool
        Whether negative features become 0. If not, features have no common mean.
    """

    n_seen: int = 40
    n_dimensions: int = 85
    n_unseen: int = 20
    prototypes: str = "gaussian"
    noise: float = 1.0
    offset: float = 0.3
    common: float = 0.0
    shift: float = 0.0
    rectified: bool = True

    @property
    def slug(self) -> str:
        """A name for files, different for different settings."""
        return "_".join(f"{getattr(self, field.name)}" for field in fields(self))


@dataclass(frozen=True, eq=False)
class Problem:
    """Training samples of seen classes, test samples of unseen ones, prototypes of both."""

    X: np.ndarray
    y: np.ndarray
    X_unseen: np.ndarray
    y_unseen: np.ndarray
    Y: np.ndarray
    n_seen: int

    @property
    def prototypes(self) -> Prototypes:
        """Prototypes by label; labels are row numbers, those of seen classes come first."""
        return Prototypes(np.arange(len(self.Y)), self.Y)


def generate(setting: Setting, seed: int, n_samples: int = N_SAMPLES) -> Problem:
    """Draw a problem; settings that differ in one factor share the other random numbers."""
    p, m = setting.n_seen, setting.n_seen + setting.n_unseen
    of_prototypes, of_looks, of_offsets, of_samples = np.random.default_rng(seed).spawn(4)
    step = of_prototypes.standard_normal(setting.n_dimensions)
    latent = setting.common + of_prototypes.standard_normal((m, setting.n_dimensions))
    latent[p:] += setting.shift * step
    forms = {"gaussian": latent, "uniform": norm.cdf(latent), "binary": 1.0 * (latent > 0)}
    Y = _unit(forms[setting.prototypes])
    V = of_looks.standard_normal((setting.n_dimensions, N_FEATURES))
    V /= np.sqrt(np.var(Y[:p], axis=0).sum())  # V y has variance 1 between seen classes
    centers = Y @ V + setting.offset * of_offsets.standard_normal((m, N_FEATURES))
    y = np.repeat(np.arange(m), n_samples)
    X = centers[y] + setting.noise * of_samples.standard_normal((len(y), N_FEATURES))
    X = _unit(np.maximum(X, 0) if setting.rectified else X)
    seen = y < p
    return Problem(X[seen], y[seen], X[~seen], y[~seen], Y, p)


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)
