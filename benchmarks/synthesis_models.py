"""Models of when_synthesis_helps.py: what is chosen on folds, and what is measured."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import make_pipeline

from rectified import Problem
from zonkey import Prototypes, ZeroShotClassifier, presets
from zonkey.bpl.synthesis import synthesize
from zonkey.metrics import per_class_accuracy
from zonkey.model_selection import ClassKFold, ZeroShotSearchCV
from zonkey.preprocessing import FeatureNormalizer

N_FOLDS, N_POINTS, N_SYNTHETIC, BETA = 3, 8, 15, 0.01
COMPETING = {"alpha": [0.1, 0.3], "mu": [0.1, 0.3], "rho": [0.5, 1.0]}
PULLING = {"alpha": [0.05, 0.1, 0.2, 0.4], "rho": [0.5, 1.0]}
RIDGE = {"beta": np.geomspace(0.01, 100, 8).tolist()}


@dataclass(frozen=True)
class Model:
    """Parameters of a ZeroShotClassifier, the grid to choose from, and the data it gets.

    Attributes
    ----------
    fixed, grid : dict
        An empty grid: nothing is chosen.
    centered : bool
        Whether the mean training sample is subtracted from features, then unit length restored.
    constant : bool
        Whether prototypes get a further entry that is 1 for every class.
    """

    fixed: dict[str, Any] = field(default_factory=dict)
    grid: dict[str, list[Any]] = field(default_factory=dict)
    centered: bool = False
    constant: bool = False


NONE, UNSCALED = {"synthesis": None}, {"scaling": None}
MODELS = {
    "BPL0": Model(NONE),
    "BPL0, ridge chosen": Model(NONE, RIDGE),
    "BPL0, centered": Model(NONE, centered=True),
    "BPL0, constant": Model(NONE, constant=True),
    "BPL": Model({}, COMPETING),
    "BPL, unscaled": Model(UNSCALED, COMPETING),
    "BPL, unscaled, centered": Model(UNSCALED, COMPETING, centered=True),
    "BPL, unscaled, constant": Model(UNSCALED, COMPETING, constant=True),
    "BPL1": Model({"competition": None}, PULLING),
    "BPL1, unscaled": Model({**UNSCALED, "competition": None}, PULLING),
    "without ambiguity handling": Model({"competition": "assigned"}, PULLING),
    "without ambiguity handling, unscaled": Model({**UNSCALED, "competition": "assigned"}, PULLING),
    "RPL": Model({"direction": "reverse"}, RIDGE),
    "RPL, centered": Model({"direction": "reverse"}, RIDGE, centered=True),
}


def points_of(grid: dict[str, list[Any]], n_points: int) -> list[dict[str, list[Any]]]:
    """Return evenly spaced points of a grid, as grids of one point; one empty point if empty."""
    points = list(ParameterGrid(grid))
    chosen = np.unique(np.linspace(0, len(points) - 1, n_points).astype(int))
    name = "zeroshotclassifier__{}".format
    return [{name(key): [value] for key, value in points[i].items()} for i in chosen]


def tried(name: str, problem: Problem, n_points: int = N_POINTS) -> dict[str, Any]:
    """Choose the parameters of a model on folds, fit it, and score it on the unseen classes."""
    if name == "recommended":
        model = presets.recommended(problem.prototypes, candidates="unseen")
        model.fit(problem.X, problem.y)
        return {"score": model.score(problem.X_unseen, problem.y_unseen)}
    form = MODELS[name]
    Y = np.column_stack([problem.Y, np.ones(len(problem.Y))]) if form.constant else problem.Y
    classifier = ZeroShotClassifier(
        Prototypes(np.arange(len(Y)), Y), **{"beta": BETA, "random_state": 0, **form.fixed}
    )
    steps = FeatureNormalizer(center=form.centered)  # unit length, which samples have already
    folds = ClassKFold(N_FOLDS, shuffle=True, random_state=0)
    points = points_of(form.grid, n_points)
    search = ZeroShotSearchCV(make_pipeline(steps, classifier), points, cv=folds)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        best = search.fit(problem.X, problem.y).best_estimator_
    chosen = {key.rpartition("__")[2]: value for key, value in search.best_params_.items()}
    X, X_unseen = best[0].transform(problem.X), best[0].transform(problem.X_unseen)
    centers = Y[problem.n_seen :] @ best[-1].projection_.T
    return {
        "fold score": search.best_score_,
        "chosen": chosen,
        "guarded fits": len(caught),
        **judged(centers, X.mean(axis=0), X_unseen, problem.y_unseen),
    }


def judged(centers: np.ndarray, mean: np.ndarray, X: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return accuracy and geometry of projected prototypes, one row per unseen class.

    Attributes
    ----------
    score : accuracy
    balanced : accuracy after each class loses the score that it gives to the mean training sample
    bias : standard deviation of these scores over the classes
    size : mean distance of projected prototypes from their mean
    tilt : `tilt`
    alignment : mean cosine between projected prototypes and true class means, both centered
    largest class : predictions of the most predicted class, 1 being its fair share
    """
    classes = np.unique(y)
    of_mean = scores(mean, centers)
    predicted = np.argmax(scores(X, centers), axis=1)
    truth = np.array([X[y == label].mean(axis=0) for label in classes])
    spread, true_spread = centers - centers.mean(axis=0), truth - truth.mean(axis=0)
    lengths = np.linalg.norm(spread, axis=1)
    cosines = np.sum(spread * true_spread, axis=1) / lengths / np.linalg.norm(true_spread, axis=1)
    balanced = np.argmax(scores(X, centers) - of_mean, axis=1)
    return {
        "score": per_class_accuracy(y, classes[predicted]),
        "balanced": per_class_accuracy(y, classes[balanced]),
        "bias": float(np.std(of_mean, ddof=1)),
        "size": float(lengths.mean()),
        "tilt": tilt(centers, mean),
        "alignment": float(cosines.mean()),
        "largest class": largest_class(predicted, len(classes)),
    }


def scores(X: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """Return squared distances to the centers with a minus sign, up to a term of the sample."""
    return 2 * X @ centers.T - np.sum(centers**2, axis=1)


def tilt(centers: np.ndarray, mean: np.ndarray) -> float:
    """Return how unequally projected prototypes treat the mean training sample.

    It is the standard deviation over classes of the score of that sample, divided by the mean
    squared distance between two projected prototypes.
    """
    between = 2 * np.var(centers, axis=0, ddof=1).sum()
    return float(np.std(scores(mean, centers), ddof=1) / between)


def largest_class(predicted: np.ndarray, n_classes: int) -> float:
    """Return the number of predictions of the most predicted class, 1 being its fair share."""
    return float(np.unique(predicted, return_counts=True)[1].max() * n_classes / len(predicted))


def data_measures(problem: Problem) -> dict[str, float]:
    """Return what the data and the synthesized samples are like."""
    model = ZeroShotClassifier(problem.prototypes, synthesis=None, beta=BETA)
    W = np.asarray(model.fit(problem.X, problem.y).projection_)
    Y_s, Y_u = np.split(problem.Y, [problem.n_seen])
    samples = [problem.X[problem.y == j] for j in range(problem.n_seen)]
    found = {
        "mean share": float(np.sum(problem.X.mean(axis=0) ** 2)),  # samples have length 1
        "prototype mean share": float(np.sum(Y_s.mean(axis=0) ** 2)),
        "rank": int(np.linalg.matrix_rank(Y_s)),
    }
    for scaling in ("squared-norm", None):
        made = synthesize(
            W,
            Y_u,
            Y_s,
            samples,
            rho=1.0,
            n_neighbors=3,
            n_synthetic=N_SYNTHETIC,
            scaling=scaling,
            rng=np.random.default_rng(0),
        )
        centers = Y_u @ W.T
        targets, sources = np.asarray(made.targets), np.asarray(made.sources)
        nearest = np.argmax(scores(np.asarray(made.features), centers), axis=1)
        moves = (Y_u[targets] - Y_s[sources]) @ W.T / (np.sum(W**2) if scaling else 1.0)
        name = "printed" if scaling else "unscaled"
        found[f"own share, {name}"] = float(np.mean(nearest == targets))
        found[f"largest share, {name}"] = largest_class(nearest, len(Y_u))
        found[f"length, {name}"] = float(np.linalg.norm(moves, axis=1).mean())
    return found
