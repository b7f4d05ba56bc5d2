"""The demonstration on picture files: draw emoji, encode them, fit, and search by typed text."""

from __future__ import annotations

import io
import json
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from ..anyshot.classifier import AnyShotClassifier
from ..display.pages import data_address, render, write_page
from ..encoders import ImageEncoder, Pictures, TextEncoder
from ..environment import environment
from ..files.emoji import DRAWN_STYLES, QUERY_STYLE, EmojiDataset, load_emoji
from ..optional import require_package
from ..persistence.container import write_whole
from ..presets import recommended

# What can be drawn and named. Encoding all groups would take twice as long.
GROUPS = ("Animals & Nature", "Food & Drink", "Travel & Places", "Objects")
NAMES = ("a striped horse", "a yellow fruit", "something hot to drink", "a machine that flies")
TEMPLATE = "a picture of {}"
_N_FITTING, _N_GUESSES, _N_CARDS = 8, 3, 36
_TOP = 5


@dataclass(frozen=True, eq=False)
class PictureDemoResult:
    """The record of the run, and the folder of the drawn pictures."""

    record: dict[str, Any]
    pictures: Path
    attribution: str


@dataclass(frozen=True, eq=False)
class _TestPictures:
    """Pictures in the style that the model has not learned from."""

    files: np.ndarray  # of str
    X: np.ndarray
    y: np.ndarray
    is_unseen: np.ndarray


def run_picture_demo(
    names: Sequence[str], folder: Path, seed: int, say: Callable[[str], None] = lambda _: None
) -> PictureDemoResult:
    """Draw emoji into a folder, learn from some, and name others by text.

    The model learns from pictures of seen classes in two styles. Test pictures are in a third, by
    other artists. Features are kept in the folder for the next run.
    """
    start = time.perf_counter()
    data, names = load_emoji(), list(dict.fromkeys(names or NAMES))
    texts = TextEncoder(templates=TEMPLATE)
    typed = texts.prototypes(names)  # fails before the work, not after it
    classes = [name for name in data.groups if data.groups[name] in GROUPS]
    say("Drawing emoji")
    draw_pictures(data, classes, folder / "emoji")
    pictures = Pictures.of(folder / "emoji")
    # A folder of an earlier version may hold more.
    pictures = pictures.subset(np.flatnonzero(np.isin(np.asarray(pictures.labels), classes)))
    encoder = ImageEncoder(cache=folder / "features")
    X = _encode_pictures(pictures, encoder, say)
    y = np.asarray(pictures.labels)
    is_test = np.array([PurePosixPath(name).stem == QUERY_STYLE for name in pictures.names])
    test = _TestPictures(
        np.array(pictures.names)[is_test],
        X[is_test],
        y[is_test],
        np.isin(y[is_test], data.unseen_classes),
    )
    say("Learning what names look like")
    model = recommended(
        texts.prototypes({name: _describe_class(data, name) for name in classes}),
        random_state=seed,
    ).fit(X[~is_test], y[~is_test])
    given = "".join(f" --name {shlex.quote(name)}" for name in names)
    record = {
        "command": f"zonkey demo pictures --seed {seed}{given}",
        "seed": seed,
        "n_seen": int(np.sum(~test.is_unseen)),
        "n_unseen": int(np.sum(test.is_unseen)),
        "n_train": int(np.sum(~is_test)),
        "encoder": encoder.spec_,
        "text_encoder": texts.spec_,
        "scores": picture_scores(model, test),
        "names": find_fitting(model, typed, names, test),
        "guesses": _guesses(model.with_candidates("unseen"), test, seed),
        "seconds": round(time.perf_counter() - start, 1),
        **environment(),
    }
    return PictureDemoResult(record, folder / "emoji", data.attribution)


def draw_pictures(data: EmojiDataset, classes: Sequence[str], folder: Path) -> None:
    """Write `CLASS/STYLE.png`: all styles of seen classes, the test style of unseen ones."""
    image = require_package("PIL.Image", "Drawing emoji")
    unseen = set(data.unseen_classes.tolist())
    for name in classes:
        (folder / name).mkdir(parents=True, exist_ok=True)
        for style in (QUERY_STYLE,) if name in unseen else DRAWN_STYLES:
            buffer, path = io.BytesIO(), folder / name / f"{style}.png"
            image.fromarray(data.thumbnail(name, style)).save(buffer, "PNG")
            # The cache knows files that have not changed without reading them.
            if not path.exists() or path.read_bytes() != buffer.getvalue():
                path.write_bytes(buffer.getvalue())


def _encode_pictures(
    pictures: Pictures, encoder: ImageEncoder, say: Callable[[str], None]
) -> np.ndarray:
    X = np.empty((len(pictures), encoder.spec_["dimension"]), np.float32)
    done = 0
    for block in encoder.blocks(pictures):
        X[block.rows] = block.X
        done += len(block.rows)
        say(f"Encoding pictures: {done} of {len(pictures)}")
    return X


def _describe_class(data: EmojiDataset, name: str) -> str:
    words = data.keywords[name]
    return f"{name} ({', '.join(words)})" if words else name


def picture_scores(model: AnyShotClassifier, test: _TestPictures) -> list[dict[str, Any]]:
    """Return accuracies of unseen classes among themselves and among all, and of seen ones."""
    tasks = (
        ("unseen", "unseen", test.is_unseen),
        ("unseen", "all", test.is_unseen),
        ("seen", "all", ~test.is_unseen),
    )
    scores = []
    for pictures, among, rows in tasks:
        chosen = model.with_candidates(among)
        n_classes = len(np.asarray(chosen.classes_))
        best = np.asarray(chosen.predict_top(test.X[rows], _TOP))
        is_right = best == test.y[rows][:, None]
        scores.append(
            {
                "pictures": pictures,
                "among": among,
                "n_pictures": int(rows.sum()),
                "n_classes": n_classes,
                "accuracy": float(is_right[:, 0].mean()),
                f"hit@{_TOP}": float(is_right.any(axis=1).mean()),
                "chance": 1 / n_classes,
            }
        )
    return scores


def find_fitting(
    model: AnyShotClassifier, typed: Any, names: Sequence[str], test: _TestPictures
) -> list[dict[str, Any]]:
    """Return the test pictures that fit each typed name best, of seen and unseen classes.

    A name that is not a class yet becomes one, known by its text only. Pictures are ranked by their
    score for it.
    """
    new = np.setdiff1d(names, np.asarray(model.classes_))
    extended = model.with_classes(typed.subset(new)) if new.size else model
    scores = np.asarray(extended.decision_function(test.X))
    found = []
    for name in names:
        column = int(np.flatnonzero(extended.classes_ == name)[0])
        best = np.argsort(-scores[:, column], kind="stable")[:_N_FITTING]
        rows = [
            {
                "file": str(test.files[i]),
                "label": str(test.y[i]),
                "is_unseen": bool(test.is_unseen[i]),
            }
            for i in best
        ]
        found.append({"name": name, "best": rows})
    return found


def _guesses(model: AnyShotClassifier, test: _TestPictures, seed: int) -> list[dict[str, Any]]:
    """Return the best guesses for random pictures of unseen classes, among unseen classes."""
    rows = np.random.default_rng(seed).permutation(np.flatnonzero(test.is_unseen))[:_N_CARDS]
    best = np.asarray(model.predict_top(test.X[rows], _N_GUESSES))
    return [
        {"file": str(test.files[i]), "label": str(test.y[i]), "best": guesses.tolist()}
        for i, guesses in zip(rows, best, strict=True)
    ]


def write_picture_demo(result: PictureDemoResult, folder: Path) -> tuple[Path, Path]:
    """Write page and record into a folder; each file is complete or absent."""
    page = write_page(folder / "index.html", picture_page(result))
    record = folder / "record.json"
    write_whole(record, (json.dumps(result.record, indent=2) + "\n").encode())
    return page, record


def picture_page(result: PictureDemoResult) -> str:
    """Return the page; it needs no other file."""
    return render(
        "zonkey.demo",
        "picture_demo.html",
        record=result.record,
        columns=["pictures of", "among", "accuracy", f"hit@{_TOP}", "chance"],
        rows=score_rows(result.record),
        address=lambda file: data_address("image/png", (result.pictures / file).read_bytes()),
        attribution=result.attribution,
    )


def score_rows(record: dict[str, Any]) -> list[list[str]]:
    """Return the table of accuracies as text."""
    return [
        [
            f"{row['n_pictures']} {row['pictures']} classes",
            f"{row['n_classes']} {row['among']} classes".replace("all ", ""),
            *(f"{100 * row[key]:.1f}" for key in ("accuracy", f"hit@{_TOP}", "chance")),
        ]
        for row in record["scores"]
    ]
