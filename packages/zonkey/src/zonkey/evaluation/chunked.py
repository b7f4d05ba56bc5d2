"""Answers to samples in chunks: only labels, hashes and answers leave the place of a chunk."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..inference.predict import ChunkAnswers
from ..labels import require_same_kind
from ..streaming.chunks import Chunked
from ..streaming.reduce import Pass
from ..streaming.sources import Chunk, check_chunk, get_labels
from .answers import Answers, Strangeness, Subject, answers_of

_DIGEST = 16  # bytes


@dataclass(frozen=True, eq=False)
class Answered:
    """Labels and digests of all samples, and what each model says of them.

    Answers are to samples of classes under evaluation only.
    """

    y: np.ndarray
    digests: np.ndarray
    answers: list[tuple[dict[str, Answers], np.ndarray | None]]
    strangeness: list[Strangeness]


def answer_chunks(chunks: Chunked, subjects: Sequence[Subject], seen: np.ndarray) -> Answered:
    """Return the answers of classifiers in one pass; the first one's classes are evaluated."""
    answer = partial(_answer_chunk, tuple(subjects), seen, chunks.feature_names)
    found = chunks.reduce(ChunkAnswers(answer), Pass.EVALUATION, purpose="score").in_order()
    starts = np.cumsum([0, *(chunk["n_known"] for chunk in found)])[:-1]
    answers = []
    for models in zip(*(chunk["models"] for chunk in found), strict=True):
        parts: dict[str, list[Answers]] = {}
        for model, start in zip(models, starts, strict=True):
            for name, fields in model["answers"].items():
                part = Answers(**fields)
                part = replace(part, positions=part.positions + start)
                parts.setdefault(name, []).append(part)
        margins = [model["margins"] for model in models if model["margins"] is not None]
        joined = {name: Answers.join(some) for name, some in parts.items()}
        answers.append((joined, np.concatenate(margins) if margins else None))
    strangeness = [
        Strangeness.join([Strangeness(**part) for part in parts])
        for parts in zip(*(chunk["strangeness"] for chunk in found), strict=True)
    ]
    labels = [chunk["y"] for chunk in found if len(chunk["y"])] or [np.empty(0)]
    digests = np.concatenate([chunk["digests"] for chunk in found])
    return Answered(np.concatenate(labels), digests, answers, strangeness)


def _answer_chunk(
    subjects: tuple[Subject, ...], seen: np.ndarray, names: tuple[str, ...] | None, chunk: Chunk
) -> dict[str, Any]:
    """Return what the classifiers say of a chunk; the first one may need names of features."""
    y, labels = get_labels(chunk), subjects[0].labels
    require_same_kind(y=y, classes=labels)
    known = np.isin(y, labels)
    models, strangeness = [], []
    X = chunk.X if known.all() else chunk.X[known]
    for i, one in enumerate(subjects):
        own, whole = X, chunk.X
        if i == 0 and names is not None:
            own, whole = (_add_names(rows, names) for rows in (own, whole))
        answers, margins = answers_of(one, own, y[known], seen)
        parts = {name: vars(part) for name, part in answers.items()}
        models.append({"answers": parts, "margins": margins})
        strangeness.append(vars(Strangeness.of(one, whole, len(y))))
    return {
        "y": y,
        "digests": row_digests(chunk.X),
        "n_known": int(known.sum()),
        "models": models,
        "strangeness": strangeness,
    }


def _add_names(X: np.ndarray, names: tuple[str, ...]) -> Any:
    import pandas as pd

    return pd.DataFrame(X, columns=list(names))


def row_digests(X: Any) -> np.ndarray:
    """Return a hash of each row, shape (n, 16); numbers are hashed as chunks hold them."""
    X = np.asarray(X)
    if X.ndim == 2 and X.dtype.kind in "iuf" and X.shape[1]:
        rows: Any = np.ascontiguousarray(_as_in_chunks(X))
    else:
        rows = [repr(row).encode() for row in X.tolist()]
    found = b"".join(hashlib.blake2b(row, digest_size=_DIGEST).digest() for row in rows)
    return np.frombuffer(found, np.uint8).reshape(len(X), _DIGEST)


def _as_in_chunks(X: np.ndarray) -> np.ndarray:
    try:
        return check_chunk(X, None, 0).X
    except (TypeError, ValueError):  # not finite: the model decides
        return X
