"""Our model and simple methods for everywhere.py: answers for test samples from shots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier

from everywhere_data import Problem
from zonkey import AnyShotClassifier, Prototypes, presets
from zonkey_lab.peers import fsl

LOGIT_SCALE = 100.0  # of cosines, as in CLIP
PENALTIES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)  # of logistic regression
OURS, NAMELESS, PRETRAINED = "ours", "no names", "pretrained"
ADAPTED = "unlabeled"


@dataclass(frozen=True, eq=False)
class Task:
    """Labeled samples of all classes of a problem; labels are positions of classes."""

    problem: Problem
    X: np.ndarray
    y: np.ndarray

    @property
    def least(self) -> int:
        """Number of shots of the class that has fewest."""
        return int(np.bincount(self.y).min())


@dataclass(frozen=True, eq=False)
class Answer:
    """Scores of test samples for all classes, and whether they are probabilities."""

    scores: np.ndarray
    is_probability: bool = True


def unit(X: np.ndarray) -> np.ndarray:
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)


def class_means(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.stack([X[y == code].mean(axis=0) for code in np.unique(y)])


def few_shots(problem: Problem, shots: int, rng: np.random.Generator) -> Task:
    rows = [rng.permutation(np.flatnonzero(problem.y == c))[:shots] for c in np.unique(problem.y)]
    chosen = np.concatenate(rows)
    return Task(problem, problem.X[chosen], problem.y[chosen])


def our_model(problem: Problem, kept: Any = None, **options: Any) -> AnyShotClassifier:
    """Return the recommended model with the prototypes of some classes or of all."""
    labels = np.arange(problem.n_classes) if kept is None else np.sort(kept)
    options["space"] = "joint" if problem.joint else "separate"  # as encoders say it
    return presets.recommended(Prototypes(labels, problem.P[labels]), **options)


def without_shots(problem: Problem, unlabeled: Any = None) -> AnyShotClassifier | None:
    """Return a model that knows names and, if given, samples without labels."""
    if problem.pretrained:
        names = np.array(
            [f"{code:03d}" for code in range(problem.n_classes)]
        )  # texts, as ImageNet's
        model = presets.pretrained(classes=Prototypes(names, problem.P))
    elif problem.joint:
        model = our_model(problem, candidates="all").fit(unlabeled)
    else:
        return None
    return model if unlabeled is None else model.adapt(unlabeled)


def ours(task: Task) -> Answer | None:
    if len(task.X):
        return answer(our_model(task.problem, candidates="all").fit(task.X, task.y), task)
    return None if task.problem.pretrained else answer(without_shots(task.problem), task)


def ours_adapted(task: Task) -> Answer | None:
    """Learn from names and the test samples without labels; only where there is no shot."""
    model = None if len(task.X) else without_shots(task.problem, task.problem.X_test)
    return answer(model, task)


def ours_without_names(task: Task) -> Answer | None:
    return answer(AnyShotClassifier().fit(task.X, task.y), task) if len(task.X) else None


def ours_pretrained(task: Task) -> Answer | None:
    """Start from ImageNet, as `zonkey classify` does; for features of its encoder only."""
    model = without_shots(task.problem) if task.problem.pretrained else None
    if model is not None and len(task.X):
        model.partial_fit(task.X, model.classes_[task.y])
    return answer(model, task)


def answer(model: AnyShotClassifier | None, task: Task) -> Answer | None:
    if model is None:
        return None
    return Answer(np.asarray(model.predict_proba(task.problem.X_test)))


def cosine(task: Task) -> Answer | None:
    problem = task.problem
    if not problem.joint:
        return None
    return Answer(softmax(LOGIT_SCALE * unit(problem.X_test) @ unit(problem.P).T, axis=1))


def nearest_mean(task: Task) -> Answer | None:
    if not len(task.X):
        return None
    mean = task.X.mean(axis=0)
    means = class_means(unit(task.X - mean), task.y)
    return Answer(unit(task.problem.X_test - mean) @ unit(means).T, is_probability=False)


def linear_discriminant(task: Task) -> Answer | None:
    if not len(task.X) or task.least < 2:
        return None
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    model.fit(unit(task.X).astype(np.float64), task.y)
    return Answer(model.predict_proba(unit(task.problem.X_test)))


def neighbors(task: Task) -> Answer | None:
    if not len(task.X):
        return None
    model = KNeighborsClassifier(min(10, task.least), weights="distance", metric="cosine")
    return Answer(model.fit(task.X, task.y).predict_proba(task.problem.X_test))


def logistic(task: Task) -> Answer | None:
    """Fit logistic regression to unit-length features; with one shot nothing can be chosen."""
    if not len(task.X):
        return None
    model: Any = LogisticRegression(C=1.0, max_iter=300)
    if task.least > 1:
        folds = StratifiedKFold(min(3, task.least), shuffle=True, random_state=0)
        options = {"l1_ratios": (0.0,), "use_legacy_attributes": False, "max_iter": 300}
        model = LogisticRegressionCV(Cs=PENALTIES, cv=folds, scoring="neg_log_loss", **options)
    model.fit(unit(task.X).astype(np.float32), task.y)
    return Answer(model.predict_proba(unit(task.problem.X_test).astype(np.float32)))


def peer(kind: Callable[..., Any]) -> Callable[[Task], Answer | None]:
    """Return a few-shot system of the laboratory, with names where they share the space."""

    def of_peer(task: Task) -> Answer | None:
        if not len(task.X):
            return None
        problem = task.problem
        texts = Prototypes(np.arange(problem.n_classes), problem.P) if problem.joint else None
        model = kind(texts).fit(unit(task.X), task.y)
        return Answer(softmax(model.decision_function(unit(problem.X_test)), axis=1))

    return of_peer


METHODS: dict[str, Callable[[Task], Answer | None]] = {
    OURS: ours,
    NAMELESS: ours_without_names,
    PRETRAINED: ours_pretrained,
    ADAPTED: ours_adapted,
    "cosine": cosine,
    "mean": nearest_mean,
    "LDA": linear_discriminant,
    "kNN": neighbors,
    "logistic": logistic,
    "LP++": peer(fsl.LPPlusPlus),
    "GDA": peer(fsl.GaussianDiscriminant),
    "Tip": peer(fsl.TipAdapter),
}
