"""The page of the demonstration: guesses, confusions, the zonkey, curves and a map."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.storage import write_whole
from ...datasets import EmojiDataset
from ...datasets.emoji import THUMBNAIL
from ..drawing import draw_hits, draw_trade_off, file_bytes, new_figure
from ..pages import data_address, render, write_page
from .run import DemoResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ...estimators import ZeroShotClassifier

MAPPED_GROUPS = ("Animals & Nature", "Food & Drink", "Travel & Places")
HEADINGS = {
    "unseen_only": "unseen",
    "hit@5": "hit@5",
    "acc_s": "acc_s",
    "acc_u": "acc_u",
    "hm": "HM",
    "ausuc": "AUSUC",
}
_SIDE = 32  # pixels per side of a thumbnail as shown; the sheet has more for fine screens
_N_CLASSES, _N_GUESSES, _N_PAIRS = 18, 5, 18


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
    figures = {
        "shots": draw_any_shot(record["any_shot"]),
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
        zonkey=result.zonkey,
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


def draw_any_shot(record: dict[str, Any]) -> Figure:
    """Draw hit@1 and hit@5 against the number of shots."""
    curves = {name: (curve["shots"], curve, {}) for name, curve in record["curves"].items()}
    return draw_hits(curves, "labeled pictures per class")


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
