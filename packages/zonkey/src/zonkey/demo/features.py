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

from ..anyshot.classifier import AnyShotClassifier
from ..arrays import find_nearest
from ..bpl.few_shot import FewShotClassifier
from ..bpl.frame import BaseClasses
from ..bpl.moments import Moments
from ..bpl.nearest_support import NearestSupport
from ..bpl.synthesis import synthesize
from ..bpl.zero_shot import ZeroShotClassifier
from ..display.charts import draw_hits, draw_trade_off
from ..display.drawing import file_bytes, new_figure
from ..display.pages import data_address, render, write_page
from ..environment import environment
from ..evaluation.protocols import (
    draw_trial,
    fit_shots,
    seen_unseen_scores,
    zero_shot_scores,
)
from ..files.emoji import THUMBNAIL, EmojiDataset, load_emoji
from ..metrics import SeenUnseenCurve, hit_at_k
from ..model_selection import ZeroShotSearchCV
from ..persistence.container import write_whole
from ..preprocessing import FeatureNormalizer
from ..presets import paper, recommended

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The paper's parameters, chosen on the validation classes. The recommended model chooses its own.
GRIDS: dict[str, Any] = {
    "BPL0": {},
    "paper (BPL)": {
        "zeroshotclassifier__rho": [0.1, 0.5],
        "zeroshotclassifier__alpha": [0.003, 0.1, 0.5],
        "zeroshotclassifier__mu": [0.1],
    },
}
OURS = "recommended"
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
    """The record of the run, and the other data of the page."""

    record: dict[str, Any]
    data: EmojiDataset
    model: AnyShotClassifier  # the recommended one, among unseen classes
    curves: dict[str, SeenUnseenCurve]


def run_demo(seed: int, say: Callable[[str], None] = lambda _: None) -> DemoResult:
    """Run the demonstration; `say` receives progress messages."""
    start = time.perf_counter()
    data = load_emoji()
    papers = {
        "BPL0": paper(data.prototypes, synthesis=None, random_state=seed),
        "paper (BPL)": paper(data.prototypes, random_state=seed),
    }
    held_out = np.isin(data.y_train, data.split.val_classes)
    fold = (np.flatnonzero(~held_out), np.flatnonzero(held_out))
    rows, curves = [], {}
    for name, estimator in papers.items():
        say(f"{name}: choosing parameters on validation classes, fitting, testing")
        search = ZeroShotSearchCV(estimator, GRIDS[name], cv=[fold])
        best = search.fit(data.X_train, data.y_train).best_estimator_
        chosen = {key.split("__", 1)[1]: value for key, value in search.best_params_.items()}
        figures, curves[name] = _scores(data, best[-1], best[:-1].transform)
        rows.append({"model": name, "chosen": chosen, **figures})
    say(f"{OURS}: choosing parameters on held-out training classes, fitting, testing")
    model = recommended(data.prototypes, random_state=seed)
    model.fit(data.X_train, data.y_train)
    unseen = model.with_candidates("unseen")
    figures, curves[OURS] = _scores(data, unseen)
    rows.append({"model": OURS, "chosen": _read_choice(model), **figures})
    say("The same with unlabeled pictures")
    unlabeled = {
        "model": f"{OURS} + unlabeled pictures",
        "n_unlabeled": len(data.y_test_unseen),
        "unseen_only": unseen.adapt(data.X_test_unseen).score(
            data.X_test_unseen, data.y_test_unseen
        ),
    }
    say("From no shot to four: the any-shot curve")
    # All pictures of seen classes, as the other models of the curve have them.
    base = model.with_candidates("unseen").partial_fit(data.X_test_seen, data.y_test_seen)
    shots = any_shot_curves(base, seed)
    say("A zebra synthesized from a horse")
    record = {
        "command": f"zonkey demo --seed {seed}",
        "seed": seed,
        "data": data.record(),
        "models": rows,
        "unlabeled": unlabeled,
        "any_shot": shots,
        "zonkey": synthesize_a_zebra(),
        "seconds": round(time.perf_counter() - start, 1),
        **environment(),
    }
    return DemoResult(record, data, unseen, curves)


def _scores(
    data: EmojiDataset, model: Any, prepare: Callable[[Any], Any] = np.asarray
) -> tuple[dict[str, float], SeenUnseenCurve]:
    """Return the figures of a model among unseen and among all classes, and its curve."""
    seen, unseen = prepare(data.X_test_seen), prepare(data.X_test_unseen)
    scores = zero_shot_scores(model, unseen, data.y_test_unseen)
    general, curve = seen_unseen_scores(model, seen, data.y_test_seen, unseen, data.y_test_unseen)
    return {"unseen_only": scores["zsl"], "hit@5": scores["hit@5"], **general}, curve


def _read_choice(model: AnyShotClassifier) -> dict[str, Any]:
    """Return the plain values that the recommended model has chosen."""
    steps = model.best_params_["preprocessing"]
    found = {"power": steps["power"].power, "shrinkage": steps["whiten"].shrinkage}
    names = ("kernel", "gamma", "ridge", "worth", "seen_penalty")
    return {**found, **{name: model.best_params_[name] for name in names}}


def any_shot_curves(ours: AnyShotClassifier, seed: int) -> dict[str, Any]:
    """Return hit@1 and hit@5 among all novel classes, by number of shots.

    Shots and queries are drawn in different styles. Models without prototypes need a shot. `ours`
    is the recommended model, fitted on the base classes.
    """
    data = load_emoji(split="few-shot")
    plain = FeatureNormalizer().fit(data.X_train).transform(data.X)
    prototypes = data.prototypes.normalized()
    base = BaseClasses(Moments(prototypes).update(plain[data.split.base], data.y_train))
    # The paper averages ten episodes; two give the same curve in a fifth of the time.
    models = {
        "BPL0": (plain, FewShotClassifier(prototypes, base=base, synthesis=None), SHOTS),
        "paper (BPL)": (plain, FewShotClassifier(prototypes, base=base, n_episodes=2), SHOTS),
        "nearest shot": (plain, NearestSupport(), SHOTS[1:]),
        OURS: (data.X, ours, SHOTS),
    }
    curves = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        for name, (X, model, shots) in models.items():
            hits = [
                [_hits_of_shots(model, X, data, K, (seed, repeat)) for K in shots]
                for repeat in range(_REPEATS)
            ]
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


def _hits_of_shots(
    model: Any, X: np.ndarray, data: EmojiDataset, n_shot: int, seeds: tuple[int, int]
) -> list[float]:
    """Return hit@1 and hit@5 of a model that learned from some shots of each novel class."""
    rng = np.random.default_rng(seeds)
    novel = np.unique(data.unseen_classes)
    sizes: dict[str, Any] = {"n_way": None, "n_shot": n_shot, "n_query": None}
    trial = draw_trial(data.y, novel, **sizes, queries=data.split.query, rng=rng)
    seed = int(rng.integers(2**31 - 1))
    fitted = fit_shots(model, X[trial.support], data.y[trial.support], novel, seed)
    best = fitted.predict_top(X[trial.query], max(_TOP))
    return [hit_at_k(data.y[trial.query], best, k) for k in _TOP]


def synthesize_a_zebra() -> dict[str, Any]:
    """Leave the zebra out of all data, synthesize it from the horse, and classify the result.

    `looks_like` is the share of synthesized samples nearest to the mean of each class, without the
    source, for printed and for unscaled perturbation.
    """
    label, source = "zebra", "horse"
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
        best = prototypes.labels[np.asarray(find_nearest(made.features, means, 2))]
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
        "map": draw_map(data, result.model),
    }
    return render(
        "zonkey.demo",
        "demo.html",
        record=record,
        side=_SIDE,
        sheet=data_address("image/webp", data.sheet),
        sheet_size=[_SIDE * size / THUMBNAIL for size in data.sheet_size],
        place=lambda label: [_SIDE * place / THUMBNAIL for place in data.place(label)],
        columns=["model", "chosen", *HEADINGS.values()],
        rows=model_rows(record),
        unlabeled=unlabeled_line(record),
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


def unlabeled_line(record: dict[str, Any]) -> str:
    """Return the change by unlabeled pictures, marked as not comparable."""
    found = record["unlabeled"]
    return (
        f"{found['model']}: unseen {100 * found['unseen_only']:.1f}. Transductive: it also learned "
        f"from the {found['n_unlabeled']} unlabeled test pictures; not comparable with the table."
    )


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
        best = result.model.predict_top(data.X_test_unseen[[position]], _N_GUESSES)[0]
        style = str(data.styles[data.split.test_unseen[position]])
        words = ", ".join(data.keywords[label][:6])
        cards.append({"label": label, "style": style, "words": words, "best": best.tolist()})
    return cards


def _confusions(result: DemoResult) -> list[tuple[str, str, int, int]]:
    """Return the most frequent pairs of true and predicted class, with counts."""
    truth = result.data.y_test_unseen
    predicted = np.asarray(result.model.predict(result.data.X_test_unseen))
    wrong = Counter((str(a), str(b)) for a, b in zip(truth, predicted, strict=True) if a != b)
    return [(a, b, n, int(np.sum(truth == a))) for (a, b), n in wrong.most_common(_N_PAIRS)]


def draw_map(data: EmojiDataset, model: Any) -> Figure:
    """Draw test pictures of unseen classes and their projected prototypes in two dimensions."""
    from matplotlib.offsetbox import AnnotationBbox, OffsetImage
    from sklearn.manifold import TSNE

    labels = [name for name in data.unseen_classes if data.groups[name] in MAPPED_GROUPS]
    chosen = np.isin(data.y_test_unseen, labels)
    centers = np.asarray(model.project(model.prototypes_.subset(labels)))
    units = centers / np.linalg.norm(centers, axis=1, keepdims=True)
    samples = np.asarray(model.preprocessing_.transform(data.X_test_unseen[chosen]))
    points = np.concatenate([samples, units])
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
