"""What `AnyShotClassifier` chooses: a point of the grids, and everything that is measured there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from ..bpl.kernels import PrototypeKernel
from ..persistence.checks import require_number
from ..preprocessing import FeatureNormalizer, WithinClassWhitener
from ..tree import Tree
from .left_out import LeftOut
from .refining import Refinement
from .tree_part import TreePart


def preprocessing(power: float = 0.5, shrinkage: float = 4.0) -> Pipeline:
    """Return unfitted steps: power, center, unit length, within-class whitening, unit length."""
    return Pipeline(
        [
            ("power", FeatureNormalizer(power=power, center=True)),
            ("whiten", WithinClassWhitener(shrinkage)),
            ("unit", FeatureNormalizer()),
        ]
    )


def prototype_transformer(power: float = 0.7, norm: str | None = "l2") -> FeatureNormalizer:
    """Return the unfitted transformer of prototypes: power, center, unit length."""
    return FeatureNormalizer(power=power, center=True, norm=norm)


@dataclass(frozen=True)
class Point:
    """A point of the grids; None where the user gave the transformer."""

    power: float | None = 0.5
    shrinkage: float | None = 4.0
    prototype_power: float | None = 0.7
    prototype_norm: str | None = "l2"
    kernel: str = "rbf"
    gamma: float = 0.5
    ridge: float = 0.03
    tree_weight: float = 0.0


@dataclass(frozen=True)
class Temperatures:
    """Temperatures among classes without samples, with many, and both together."""

    new: float = 1.0
    old: float = 1.0
    all: float = 1.0

    def __zonkey_validate__(self) -> None:
        for name in ("new", "old", "all"):
            require_number(name, getattr(self, name), np.finfo(float).tiny)


@dataclass(frozen=True)
class Choice:
    """All chosen parameters, and the score on held-out classes (NaN if nothing was chosen).

    `penalty` is the mean over classes with samples.
    """

    point: Point
    worth: float
    penalty: float = 0.0
    temperatures: Temperatures = Temperatures()
    within: float = float("nan")  # variance within classes
    score: float = float("nan")
    refinement: Refinement | None = None  # None: not chosen by shots
    left_out: LeftOut | None = None  # None: nothing could be left out

    @property
    def worth_in_use(self) -> float:
        """Number of samples that a prototype is worth."""
        return self.worth if self.refinement is None else self.refinement.worth

    @classmethod
    def __zonkey_upgrade__(cls, parts: dict[str, Any]) -> dict[str, Any]:
        """Fill in what older files do not have."""
        return {"refinement": None, "left_out": None, **parts}

    def __zonkey_validate__(self) -> None:
        require_number("worth", self.worth, 0)
        require_number("penalty", self.penalty)


JOINT_START = Point(1.0, 64.0, 1.0, "l2", "linear", 1.0, 1.0)


def steps_of(point: Point, fixed: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of `fit` that a point denotes; `fixed` are those the user gave."""
    names = ("preprocessing", "prototype_transformer")
    steps = {name: fixed[name] for name in names if name in fixed}
    if point.power is not None and point.shrinkage is not None:
        steps["preprocessing"] = preprocessing(point.power, point.shrinkage)
    if point.prototype_power is not None:
        form = prototype_transformer(point.prototype_power, point.prototype_norm)
        steps["prototype_transformer"] = form
    names = ("kernel", "gamma", "ridge", "tree_weight")
    return {**steps, **{name: getattr(point, name) for name in names}}


def learn_kernel(Y: np.ndarray, steps: dict[str, Any]) -> tuple[np.ndarray, Any, PrototypeKernel]:
    """Return transformed prototypes, the fitted transformer (or None) and the kernel of them."""
    transformer: Any = steps["prototype_transformer"]
    if transformer is not None:
        transformer = clone(transformer)
        transformer.fit(Y)
        Y = np.asarray(transformer.transform(Y))
    return Y, transformer, PrototypeKernel.from_vectors(Y, steps["kernel"], steps["gamma"])


def find_tree_part(
    tree: Tree | None, weight: float, kernel: PrototypeKernel, Y: np.ndarray
) -> TreePart | None:
    """Return the part of a tree with a weight relative to the kernel of all prototypes."""
    if tree is None or not weight:
        return None
    unit = kernel.mean_of_own(Y, np.arange(len(Y))) or 1.0
    return TreePart(tree, float(weight) * unit)
