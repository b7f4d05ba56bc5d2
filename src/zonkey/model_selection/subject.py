"""What a search looks at: a zero-shot classifier, alone or at the end of a pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state

from ..core.frame import BaseClasses
from ..core.moments import Moments
from ..estimators import ZeroShotClassifier
from ..estimators.calibration import held_out_setting
from ..metrics import per_class_accuracy
from ..validation import check_count

Point = dict[str, Any]

# What is fixed by the protocol: the held-out classes are the candidates, none of them seen, and
# they are described by the prototypes that the estimator came with.
FIXED = ("prototypes", "candidates", "seen_penalty", "seen_prior", "temperature", "reject_below")


@dataclass(frozen=True, eq=False)
class Subject:
    """An estimator in two parts: steps that transform features, and the classifier at the end."""

    model: Any

    @property
    def classifier(self) -> Any:
        """The classifier."""
        return self.model[-1] if isinstance(self.model, Pipeline) else self.model

    @property
    def prefix(self) -> str:
        """What comes before the names of the classifier's parameters."""
        return f"{self.model.steps[-1][0]}__" if isinstance(self.model, Pipeline) else ""

    def divided(self, point: Mapping[str, Any]) -> tuple[Point, Point]:
        """Return the parameters of the steps, and those of the classifier under its own names."""
        own = {
            name.removeprefix(self.prefix): value
            for name, value in point.items()
            if name.startswith(self.prefix)
        }
        return {name: v for name, v in point.items() if not name.startswith(self.prefix)}, own

    def configured(self, point: Mapping[str, Any]) -> Any:
        """Return an unfitted copy of the whole with these parameters."""
        return with_parameters(self.model, point)

    @property
    def has_steps(self) -> bool:
        """Whether anything comes before the classifier."""
        return isinstance(self.model, Pipeline) and len(self.model.steps) > 1

    def steps(self, point: Mapping[str, Any]) -> Pipeline | None:
        """Return unfitted steps with these parameters, or None where there are none."""
        return self.configured(point)[:-1] if self.has_steps else None

    def judged(self, labels: np.ndarray) -> Subject:
        """Return the subject as every point of the grid starts from.

        Only classes with training samples are known, and all points share one seed, so that they
        differ by their parameters and by nothing else.
        """
        last = self.classifier
        wanted = held_out_setting(last, labels, candidates="unseen")
        if hasattr(last, "random_state"):
            wanted["random_state"] = check_random_state(last.random_state).randint(2**31 - 1)
        return Subject(self.configured({f"{self.prefix}{name}": v for name, v in wanted.items()}))


@dataclass(frozen=True, eq=False)
class FoldData:
    """Training and test samples of one fold, after the steps before the classifier."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    moments: Moments | None = None  # of the training samples, where they are known already


def with_parameters(model: Any, parameters: Mapping[str, Any]) -> Any:
    """Return an unfitted copy with these parameters."""
    copy: Any = clone(model)
    # Values are cloned as well: a transformer in a grid must not be changed, or shared by models.
    return copy.set_params(**{name: clone(v, safe=False) for name, v in parameters.items()})


def scorer(subject: Subject, points: list[Point], fold: FoldData) -> Any:
    """Return a function from a point to its score; what points can share is computed here."""
    last = subject.classifier
    classifiers = [with_parameters(last, point) for point in points]
    if not isinstance(last, ZeroShotClassifier):
        samples = (fold.X_train, fold.y_train), (fold.X_test, fold.y_test)
        return lambda point: with_parameters(last, point).fit(*samples[0]).score(*samples[1])
    moments = fold.moments
    if moments is None:
        moments = gathered(classifiers, last, fold.X_train, fold.y_train)
    shared: dict[str, BaseClasses] = {}
    for per in ("sample", "class"):
        weighted = [model for model in classifiers if model.weight_per == per]
        if weighted:
            shared[per] = BaseClasses(moments, per)
        if any(model.uses_scatter for model in weighted):
            _ = shared[per].equations.factor  # here, not by several threads at the same time

    def score(point: Mapping[str, Any]) -> float:
        model = with_parameters(last, point)
        model.fit_moments(shared.get(model.weight_per, moments))
        # The samples were checked with all others, and no point of the grid rejects any.
        return per_class_accuracy(fold.y_test, model._best(fold.X_test))

    return score


def gathered(
    classifiers: Iterable[ZeroShotClassifier],
    like: ZeroShotClassifier,
    X: np.ndarray,
    y: np.ndarray,
) -> Moments:
    """Return moments that keep enough samples for every one of the classifiers."""
    wanted = [m.n_synthetic for m in classifiers if m.direction == "both" and m.synthesis]
    for n_synthetic in wanted:
        check_count("n_synthetic", n_synthetic, 1)
    most: Point = {}
    if wanted:
        most = {"direction": "both", "synthesis": "perturb", "n_synthetic": max(wanted)}
    return with_parameters(like, most).gather(X, y)
