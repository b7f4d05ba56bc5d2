"""What the project is named after: a zebra synthesized from a horse, and what it comes out as."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.synthesis import synthesize
from ..datasets import load_emoji
from ..estimators import ZeroShotClassifier
from ..linalg.arrays import nearest
from ..preprocessing import FeatureNormalizer

_SHOWN = 5


@dataclass(frozen=True)
class Zonkey:
    """One class nobody has seen, the class it was made of, and what came out.

    Attributes
    ----------
    label, source : str
        The class taken out of training, and the one whose samples were moved toward it.
    looks_like : dict of str to dict
        Share of the synthesized samples that each class is nearest to, by the mean of its real
        samples, the source aside; for printed and for unscaled perturbation.
    """

    label: str
    source: str
    looks_like: dict[str, dict[str, float]]

    def record(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        return {"label": self.label, "source": self.source, "looks_like": self.looks_like}


def synthesize_a_zebra(label: str = "zebra", source: str = "horse") -> Zonkey:
    """Take one class out of all the data, synthesize it from another, and look at the result."""
    data = load_emoji()
    known = data.y != label
    normalizer = FeatureNormalizer().fit(data.X[known])
    X, y = normalizer.transform(data.X).astype(np.float64), data.y
    prototypes = data.prototypes.normalized()
    model = ZeroShotClassifier(prototypes, synthesis=None).fit(X[known], y[known])
    means = np.stack([X[y == name].mean(axis=0) for name in prototypes.labels.tolist()])
    raw = X[y == source]
    looks = {}
    for how, scaling in (("as printed", "squared-norm"), ("unscaled", None)):
        made = synthesize(
            model.projection_,
            prototypes.subset([label]).matrix.astype(np.float64),
            prototypes.subset([source]).matrix.astype(np.float64),
            [raw],
            rho=1.0,
            n_neighbors=1,
            n_synthetic=len(raw),
            scaling=scaling,
            rng=np.random.default_rng(0),
        )
        best = prototypes.labels[nearest(made.features, means, 2)]
        looks[how] = _shares(np.where(best[:, 0] == source, best[:, 1], best[:, 0]))
    return Zonkey(label, source, looks)


def _shares(labels: np.ndarray) -> dict[str, float]:
    names, counts = np.unique(labels, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_SHOWN]
    return {str(names[i]): float(counts[i] / len(labels)) for i in order}
