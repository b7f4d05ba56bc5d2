"""Accuracy of the recommended presets on CUB and mini-ImageNet.

Zero-shot: `presets.recommended` on the training classes of CUB, with attributes and with sentences.
Reported are the accuracy among unseen classes, and the harmonic mean with the penalty chosen on
held-out classes. Few-shot: `presets.recommended_few_shot` chooses on the 16 validation classes with
a backbone trained on 64 classes; the choice is applied to the backbone trained on 80. No parameter
is chosen on test classes.
"""

from __future__ import annotations

from typing import Any

from mini_imagenet import folder
from recording import save, show
from zonkey import presets
from zonkey.datasets import load_mini_imagenet, load_xlsa17
from zonkey.evaluation import n_way_k_shot, seen_unseen_scores, zero_shot_scores
from zonkey.metrics import mean_confidence_interval
from zonkey.presets.few_shot import FewShotData

CARRIED = ("kernel", "gamma", "beta", "prototype_transformer", "fusion", "temperature")


def cub(semantics: str) -> dict[str, Any]:
    data = load_xlsa17(
        folder().parent / "xlsa17" / "data" / "CUB",
        features="efficientnet_lite0",
        semantics=f"{semantics}_splits",
    )
    search = presets.recommended(data.prototypes, random_state=0).fit(data.X_train, data.y_train)
    steps, last = search.best_estimator_[:-1], search.best_estimator_[-1]
    seen, unseen = (steps.transform(part) for part in (data.X_test_seen, data.X_test_unseen))
    general, _ = seen_unseen_scores(last, seen, data.y_test_seen, unseen, data.y_test_unseen)
    return {
        **zero_shot_scores(last, unseen, data.y_test_unseen),
        **general,
        "chosen": {name: str(value) for name, value in search.best_params_.items()},
        "calibration": search.calibration_,
        "validation score": search.best_score_,
        "sha256": data.sha256,
    }


def mini_imagenet(seeds: range) -> dict[str, Any]:
    early = load_mini_imagenet(folder() / "wrn28_10_train64.npz", novel="val")
    late = load_mini_imagenet(folder() / "wrn28_10.npz", novel="test")
    novel = early.split.novel
    validation = (early.X[novel], early.y[novel])
    chosen = presets.recommended_few_shot(
        early.X_train, early.y_train, early.prototypes, validation=validation
    )
    settings = {name: getattr(chosen[-1], name) for name in CARRIED}
    of_steps = {
        "power__power": chosen[0].estimator["power"].power,
        "whiten__shrinkage": chosen[0].estimator["whiten"].shrinkage,
    }
    steps, base = FewShotData(late.X_train, late.y_train, late.prototypes).prepared(of_steps)
    model = chosen[-1].set_params(prototypes=late.prototypes, base=base)
    novel = late.split.novel
    X, y = steps.transform(late.X[novel]), late.y[novel]
    results: dict[str, Any] = {}
    for n_shot in (1, 5):
        for seed in seeds:
            found = n_way_k_shot(
                {"": model}, X, y, late.unseen_classes, n_shot=n_shot, random_state=seed
            )[""]
            interval = mean_confidence_interval(found)
            results[f"{n_shot}-shot, seed {seed}"] = [interval.mean, interval.half_width]
    chosen_text = {name: str(value) for name, value in {**of_steps, **settings}.items()}
    return {**results, "chosen": chosen_text, "sha256": [early.sha256, late.sha256]}


def main() -> None:
    record = {f"cub, {name}": cub(name) for name in ("att", "sent")}
    rows = [
        {"data": name, **{key: f"{100 * row[key]:.2f}" for key in ("zsl", "hm", "ausuc")}}
        for name, row in record.items()
    ]
    show("presets.recommended (%)", rows)
    shots = mini_imagenet(range(3))
    show(
        "presets.recommended_few_shot, 5-way, 600 trials (%)",
        [
            {"trials": name, "accuracy": f"{100 * value[0]:.2f} +- {100 * value[1]:.2f}"}
            for name, value in shots.items()
            if isinstance(value, list) and isinstance(value[0], float)
        ],
    )
    path = save("recommended", {**record, "mini-imagenet": shots, "trials": 600})
    print(f"Record: {path}")


if __name__ == "__main__":
    main()
