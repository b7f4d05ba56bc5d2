"""The demonstration on the embedded emoji: the run, its record, and its page."""

from __future__ import annotations

import json
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..core.frame import BaseClasses
from ..core.moments import Moments
from ..core.storage import write_whole
from ..core.synthesis import synthesize
from ..datasets import EmojiDataset, load_emoji
from ..datasets.emoji import THUMBNAIL
from ..estimators import FewShotClassifier, NearestSupport, ZeroShotClassifier
from ..evaluation import large_scale, seen_unseen_scores, zero_shot_scores
from ..linalg.arrays import nearest
from ..metrics import SeenUnseenCurve
from ..model_selection import ZeroShotSearchCV
from ..preprocessing import FeatureNormalizer
from ..presets import paper, recommended, recommended_few_shot
from .drawing import draw_hits, draw_trade_off, file_bytes, new_figure
from .pages import data_address, render, write_page
from .records import environment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Chosen on the validation classes. The page shows the guesses of the last model; its grid is a
# part of the preset's, to save time.
GRIDS: dict[str, Any] = {
    "BPL0": {},
    "paper (BPL)": {
        "zeroshotclassifier__rho": [0.1, 0.5],
        "zeroshotclassifier__alpha": [0.1, 0.5],
        "zeroshotclassifier__mu": [0.1],
    },
    "recommended": (
        {"power__power": [0.5, 1.0], "whiten__shrinkage": [0.25, 1.0, 4.0]},
        {"classify__gamma": [0.5, 1.0, 2.0], "classify__beta": [0.03, 0.1, 0.3]},
    ),
}
SHOTS = (0, 1, 2, 3, 4)
MAPPED_GROUPS = ("Animals & Nature", "Food & Drink", "Travel & Places")
HEADINGS = {
    "unseen_only": "unseen",
    "hit@5": "hit@5",
    "acc_s": "acc_s",
    "acc_u": "acc_u",
    "hm": "HM",
    "ausuc": "AUSUC",
}
_TOP, _REPEATS, _N_LOOKS = (1, 5), 2, 5
_SIDE = 32  # pixels per side of a thumbnail as shown; the sheet has more for fine screens
_N_CLASSES, _N_GUESSES, _N_PAIRS = 18, 5, 18


@dataclass(frozen=True, eq=False)
class DemoResult:
    """The record of the run, and what else the page shows."""

    record: dict[str, Any]
    data: EmojiDataset
    model: ZeroShotClassifier
    X_unseen: np.ndarray
    curves: dict[str, SeenUnseenCurve]


def run_demo(seed: int, say: Callable[[str], None] = lambda _: None) -> DemoResult:
    """Run the demonstration; `say` receives progress messages."""
    start = time.perf_counter()
    data = load_emoji()
    models = {
        "BPL0": paper(data.prototypes, synthesis=None, random_state=seed),
        "paper (BPL)": paper(data.prototypes, random_state=seed),
        "recommended": recommended(data.prototypes, random_state=seed).estimator,
    }
    held_out = np.isin(data.y_train, data.split.val_classes)
    fold = (np.flatnonzero(~held_out), np.flatnonzero(held_out))
    rows, curves, best, unseen = [], {}, None, np.empty(0)
    for name, estimator in models.items():
        say(f"{name}: choosing parameters on validation classes, fitting, testing")
        search = ZeroShotSearchCV(estimator, GRIDS[name], cv=[fold])
        best = search.fit(data.X_train, data.y_train).best_estimator_
        seen, unseen = (best[:-1].transform(X) for X in (data.X_test_seen, data.X_test_unseen))
        tests = (unseen, data.y_test_unseen)
        scores = zero_shot_scores(best[-1], *tests)
        general, curves[name] = seen_unseen_scores(best[-1], seen, data.y_test_seen, *tests)
        chosen = {key.split("__", 1)[1]: value for key, value in search.best_params_.items()}
        chosen |= getattr(search, "calibration_", {})
        scores = {"unseen_only": scores.pop("zsl"), **scores, **general}
        rows.append({"model": name, "chosen": chosen, **scores})
    assert best is not None
    say("From no shot to four: the any-shot curve")
    shots = any_shot_curves(seed)
    say("A zebra synthesized from a horse")
    record = {
        "command": f"zonkey demo --seed {seed}",
        "seed": seed,
        "data": data.record(),
        "models": rows,
        "any_shot": shots,
        "zonkey": synthesize_a_zebra(),
        "seconds": round(time.perf_counter() - start, 1),
        **environment(),
    }
    return DemoResult(record, data, best[-1], unseen, curves)


def any_shot_curves(seed: int) -> dict[str, Any]:
    """Return hit@1 and hit@5 among all novel classes, by number of shots.

    Shots and queries are drawn in different styles. Models without prototypes need a shot.
    """
    data = load_emoji(split="few-shot")
    plain = FeatureNormalizer().fit(data.X_train).transform(data.X)
    fused = recommended_few_shot(data.X_train, data.y_train, data.prototypes)
    prototypes = data.prototypes.normalized()
    base = BaseClasses(Moments(prototypes).update(plain[data.split.base], data.y_train))
    # The paper averages ten episodes; two give the same curve in a fifth of the time.
    models = {
        "BPL0": (plain, FewShotClassifier(prototypes, base=base, synthesis=None), SHOTS),
        "paper (BPL)": (plain, FewShotClassifier(prototypes, base=base, n_episodes=2), SHOTS),
        "nearest shot": (plain, NearestSupport(), SHOTS[1:]),
        "recommended": (fused[0].transform(data.X), fused[-1], SHOTS),
    }
    curves = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        for name, (X, model, shots) in models.items():
            options = {"shots": shots, "top": _TOP, "n_repeats": _REPEATS, "random_state": seed}
            hits = large_scale(
                {name: model}, X, data.y, data.unseen_classes, queries=data.split.query, **options
            )[name]
            means = np.mean(hits, axis=0)
            curves[name] = {
                "shots": list(shots),
                **{f"hit@{k}": means[:, i].tolist() for i, k in enumerate(_TOP)},
            }
    return {
        "warnings": sorted({str(warning.message) for warning in caught}),
        "n_novel": len(data.unseen_classes),
        "n_queries": len(data.split.query),
        "n_repeats": _REPEATS,
        "curves": curves,
    }


def synthesize_a_zebra(label: str = "zebra", source: str = "horse") -> dict[str, Any]:
    """Leave one class out of all data, synthesize it from another, and classify the result.

    `looks_like` is the share of synthesized samples nearest to the mean of each class, without the
    source, for printed and for unscaled perturbation.
    """
    data = load_emoji()
    known = data.y != label
    normalizer = FeatureNormalizer().fit(data.X[known])
    X, y = np.asarray(normalizer.transform(data.X), np.float64), data.y
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
        best = prototypes.labels[np.asarray(nearest(made.features, means, 2))]
        names = np.where(best[:, 0] == source, best[:, 1], best[:, 0])
        # Ties by name, so that the record is the same on every machine.
        counts = Counter(sorted(names.tolist())).most_common(_N_LOOKS)
        looks[how] = {str(name): n / len(names) for name, n in counts}
    return {"label": label, "source": source, "looks_like": looks}


def write_demo(result: DemoResult, folder: Path) -> tuple[Path, Path]:
    """Write page and record into a folder; each file is complete or absent."""
    page = write_page(folder / "index.html", demo_page(result))
    record = folder / "record.json"
    write_whole(record, (json.dumps(result.record, indent=2) + "\n").encode())
    return page, record


def demo_page(result: DemoResult) -> str:
    """Return the page; it needs no other file."""
    data, record = result.data, result.record
    curves = {
        f"{name} (area {100 * curve.area:.1f} %)": (curve.unseen, curve.seen)
        for name, curve in result.curves.items()
    }
    shots = record["any_shot"]["curves"]
    hits = {name: (curve["shots"], curve, {}) for name, curve in shots.items()}
    figures = {
        "shots": draw_hits(hits, "labeled pictures per class"),
        "trade_off": draw_trade_off(curves),
        "map": draw_map(data, result.model, result.X_unseen),
    }
    return render(
        "demo.html",
        record=record,
        side=_SIDE,
        sheet=data_address("image/webp", data.sheet),
        sheet_size=[_SIDE * size / THUMBNAIL for size in data.sheet_size],
        place=lambda label: [_SIDE * place / THUMBNAIL for place in data.place(label)],
        columns=["model", "chosen", *HEADINGS.values()],
        rows=model_rows(record),
        n_classes=_N_CLASSES,
        guesses=_guesses(result),
        confusions=_confusions(result),
        zonkey=record["zonkey"],
        mapped=", ".join(MAPPED_GROUPS),
        figures={
            name: data_address("image/png", file_bytes(figure, ["png"])["png"])
            for name, figure in figures.items()
        },
        attribution=data.attribution,
    )


def model_rows(record: dict[str, Any]) -> list[list[str]]:
    """Return the table of models as text, one row per model."""
    rows = []
    for row in record["models"]:
        chosen = ", ".join(
            f"{name} {f'{value:.3g}' if isinstance(value, float) else value}"
            for name, value in row["chosen"].items()
        )
        figures = [f"{100 * row[key]:.1f}" for key in HEADINGS]
        rows.append([row["model"], chosen or "-", *figures])
    return rows


def _guesses(result: DemoResult) -> list[dict[str, Any]]:
    """Return the best guesses for one test picture of some unseen classes from every group."""
    data, rng = result.data, np.random.default_rng(result.record["seed"])
    groups = sorted(set(data.groups.values()))
    members = {
        group: [c for c in data.unseen_classes if data.groups[c] == group] for group in groups
    }
    each = -(-_N_CLASSES // len(groups))
    chosen = [str(c) for group in groups for c in rng.permutation(members[group])[:each]]
    cards = []
    for label in chosen[:_N_CLASSES]:
        position = rng.choice(np.flatnonzero(data.y_test_unseen == label))
        best = result.model.predict_top(result.X_unseen[[position]], _N_GUESSES)[0]
        style = str(data.styles[data.split.test_unseen[position]])
        words = ", ".join(data.keywords[label][:6])
        cards.append({"label": label, "style": style, "words": words, "best": best.tolist()})
    return cards


def _confusions(result: DemoResult) -> list[tuple[str, str, int, int]]:
    """Return the most frequent pairs of true and predicted class, with counts."""
    truth = result.data.y_test_unseen
    predicted = np.asarray(result.model.predict(result.X_unseen))
    wrong = Counter((str(a), str(b)) for a, b in zip(truth, predicted, strict=True) if a != b)
    return [(a, b, n, int(np.sum(truth == a))) for (a, b), n in wrong.most_common(_N_PAIRS)]


def draw_map(data: EmojiDataset, model: ZeroShotClassifier, X_unseen: np.ndarray) -> Figure:
    """Draw test pictures of unseen classes and their projected prototypes in two dimensions."""
    from matplotlib.offsetbox import AnnotationBbox, OffsetImage
    from sklearn.manifold import TSNE

    labels = [name for name in data.unseen_classes if data.groups[name] in MAPPED_GROUPS]
    chosen = np.isin(data.y_test_unseen, labels)
    centers = np.asarray(model.project(model.prototypes_.subset(labels)))
    units = centers / np.linalg.norm(centers, axis=1, keepdims=True)
    points = np.concatenate([X_unseen[chosen], units])
    places = TSNE(perplexity=12, init="pca", metric="cosine", random_state=0).fit_transform(points)
    samples, projected = places[: chosen.sum()], places[chosen.sum() :]
    figure = new_figure(9, 9)
    axis = figure.subplots()
    for name, place in zip(data.y_test_unseen[chosen], samples, strict=True):
        j = int(np.searchsorted(labels, name))
        axis.plot(*zip(place, projected[j], strict=True), color="0.85", linewidth=0.5, zorder=0)
    for name, place in zip(data.y_test_unseen[chosen], samples, strict=True):
        picture = OffsetImage(data.thumbnail(str(name)), zoom=0.2)
        axis.add_artist(AnnotationBbox(picture, tuple(place), frameon=False))
    axis.plot(*projected.T, "x", color="black", markersize=5, label="projected prototype")
    axis.update_datalim(places)
    axis.autoscale_view()
    axis.set(xticks=[], yticks=[])
    axis.legend(loc="upper right")
    return figure
