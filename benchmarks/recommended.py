"""Accuracy and calibration of the recommended model, with and without unlabeled samples.

Zero-shot: `presets.recommended` on the training classes of CUB, with attributes and with sentences,
and on the embedded emoji. Few-shot: parameters are chosen on the 16 validation classes with a
backbone trained on 64 classes, and applied to the backbone trained on 80. No parameter is chosen on
test classes. Figures with unlabeled samples are transductive: the samples that are scored, without
their labels, took part.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mini_imagenet import folder
from recording import save, show
from zonkey import AnyShotClassifier, presets
from zonkey.evaluation.protocols import draw_trial
from zonkey.files.emoji import load_emoji
from zonkey.metrics import expected_calibration_error, mean_confidence_interval
from zonkey_lab.datasets.mini_imagenet import load_mini_imagenet
from zonkey_lab.datasets.xlsa17 import load_xlsa17
from zonkey_lab.protocols import n_way_k_shot

TRIALS, QUERIES = 600, 15
CALIBRATION_TRIALS = 100


def harmonic_mean(model: Any, data: Any) -> float:
    seen = model.score(data.X_test_seen, data.y_test_seen)
    unseen = model.score(data.X_test_unseen, data.y_test_unseen)
    return 2 * seen * unseen / (seen + unseen)


def error(model: Any, X: Any, y: Any) -> float:
    return expected_calibration_error(y, model.predict_proba(X), model.classes_)


def zero_shot(data: Any) -> list[dict[str, Any]]:
    """Return rows without and with unlabeled samples, for both tasks."""
    both = np.concatenate([data.X_test_seen, data.X_test_unseen])
    truth = np.concatenate([data.y_test_seen, data.y_test_unseen])
    rows = []
    for candidates in ("unseen", "all"):
        model = presets.recommended(data.prototypes, candidates=candidates)
        model.fit(data.X_train, data.y_train)
        X, y = (both, truth) if candidates == "all" else (data.X_test_unseen, data.y_test_unseen)
        for unlabeled in (False, True):
            used = model.adapt(X) if unlabeled else model
            score = harmonic_mean(used, data) if candidates == "all" else used.score(X, y)
            rows.append(
                {
                    "data": data.name,
                    "measure": "HM" if candidates == "all" else "unseen",
                    "unlabeled": "yes" if unlabeled else "no",
                    "score": score,
                    "calibration error": error(used, X, y),
                    "chosen": {name: str(value) for name, value in used.best_params_.items()},
                }
            )
    return rows


def few_shot() -> list[dict[str, Any]]:
    """Return rows for one and five shots, inductive and with unlabeled queries."""
    early = load_mini_imagenet(folder() / "wrn28_10_train64.npz", novel="val")
    late = load_mini_imagenet(folder() / "wrn28_10.npz", novel="test")
    X_val, y_val = early.X[early.split.novel], early.y[early.split.novel]
    X, y = late.X[late.split.novel], late.y[late.split.novel]
    rows = []
    # One model for any number of shots; few is hardest.
    model = presets.recommended(early.prototypes, candidates="unseen", n_shots=1)
    model.fit(early.X_train, early.y_train, validation=(X_val, y_val))
    for n_shot in (1, 5):
        task = {"n_way": 5, "n_shot": n_shot, "n_query": QUERIES, "rng": np.random.default_rng(0)}
        trial = draw_trial(y_val, np.unique(y_val), **task)
        adapted = model.with_shots(X_val[trial.support], y_val[trial.support])
        adapted = adapted.adapt(X_val[trial.query])
        for source, unlabeled, concentration in (
            (model, False, None),
            (adapted, True, None),
            (adapted, True, 2.0),
        ):
            used = AnyShotClassifier(late.prototypes, candidates="unseen", **source.best_params_)
            used.fit(late.X_train, late.y_train)
            options = {"n_shot": n_shot, "n_query": QUERIES, "n_trials": TRIALS}
            options |= {"adapt": unlabeled, "concentration": concentration}
            found = n_way_k_shot({"": used}, X, y, late.unseen_classes, **options, n_jobs=2)[""]
            interval = mean_confidence_interval(found)
            queries = "balanced" if concentration is None else f"Dirichlet({concentration:g})"
            rows.append(
                {
                    "data": f"mini-ImageNet, {n_shot}-shot, {queries}",
                    "measure": "accuracy",
                    "unlabeled": "yes" if unlabeled else "no",
                    "score": interval.mean,
                    "half width": interval.half_width,
                    "calibration error": None
                    if concentration
                    else trial_error(used, X, y, n_shot, unlabeled),
                    "chosen": {name: str(value) for name, value in used.best_params_.items()},
                }
            )
    return rows


def trial_error(model: Any, X: Any, y: Any, n_shot: int, unlabeled: bool) -> float:
    """Return the calibration error over some balanced trials."""
    shares, truth = [], []
    for number in range(CALIBRATION_TRIALS):
        rng = np.random.default_rng([0, number])
        trial = draw_trial(y, np.unique(y), n_way=5, n_shot=n_shot, n_query=QUERIES, rng=rng)
        used = model.with_shots(X[trial.support], y[trial.support])
        used = used.adapt(X[trial.query]) if unlabeled else used
        shares.append(used.predict_proba(X[trial.query]))
        truth.append(np.searchsorted(used.classes_, y[trial.query]))
    return expected_calibration_error(np.concatenate(truth), np.concatenate(shares), np.arange(5))


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def main() -> None:
    cub = folder().parent / "xlsa17" / "data" / "CUB"
    rows = []
    for semantics in ("att", "sent"):
        data = load_xlsa17(cub, features="efficientnet_lite0", semantics=f"{semantics}_splits")
        rows += [{**row, "data": f"CUB, {semantics}"} for row in zero_shot(data)]
    rows += few_shot()
    rows += zero_shot(load_emoji())
    shown = [
        {
            "data": row["data"],
            "measure": row["measure"],
            "unlabeled": row["unlabeled"],
            "score (%)": f"{100 * row['score']:.1f}",
            "ECE": _percent(row["calibration error"]),
        }
        for row in rows
    ]
    show("presets.recommended", shown)
    print(f"Record: {save('recommended', {'rows': rows, 'trials': TRIALS})}")


if __name__ == "__main__":
    main()
