"""Answers to samples in chunks: only labels, hashes and answers leave the place of a chunk."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..labels import require_same_kind
from ..streaming.chunks import Chunked
from ..streaming.reduce import Pass
from ..streaming.sources import Chunk, check_chunk, get_labels
from .answers import Answers, Subject, answers_of
from .strangers import Strangeness

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
    empty = _Answering(tuple(subjects), seen, chunks.feature_names)
    return chunks.reduce(empty, Pass.EVALUATION, purpose="score").join()


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


@dataclass
class _Answering:
    """A reduction that keeps the answers to the samples of each chunk, by its number."""

    subjects: tuple[Subject, ...]
    seen: np.ndarray
    names: tuple[str, ...] | None
    found: dict[int, dict[str, Any]] = field(default_factory=dict)

    def copy_empty(self) -> _Answering:
        """Return an empty reduction for the same models."""
        return replace(self, found={})

    def update(self, chunk: Chunk) -> None:
        """Answer the samples of a chunk."""
        y, labels = get_labels(chunk), self.subjects[0].labels
        require_same_kind(y=y, classes=labels)
        known = np.isin(y, labels)
        X = chunk.X if known.all() else chunk.X[known]
        given = [self._add_names(X), *[X] * (len(self.subjects) - 1)]
        whole = [self._add_names(chunk.X), *[chunk.X] * (len(self.subjects) - 1)]
        self.found[chunk.number] = {
            "y": y,
            "digests": row_digests(chunk.X),
            "n_known": int(known.sum()),
            "models": [
                _parts_of(*answers_of(one, own, y[known], self.seen))
                for one, own in zip(self.subjects, given, strict=True)
            ],
            "strangeness": [
                vars(Strangeness.of(one, own, len(y)))
                for one, own in zip(self.subjects, whole, strict=True)
            ],
        }

    def merge(self, other: _Answering) -> None:
        """Merge the answers to other chunks."""
        self.found |= other.found

    def parts(self) -> dict[str, Any]:
        """Return the answers as arrays."""
        return {"found": {str(number): parts for number, parts in self.found.items()}}

    def restore(self, parts: dict[str, Any]) -> None:
        """Restore stored answers."""
        self.found = {int(number): found for number, found in parts["found"].items()}

    def join(self) -> Answered:
        """Return the answers to all samples, in the order of chunks."""
        chunks = [self.found[number] for number in sorted(self.found)]
        starts = np.cumsum([0, *(chunk["n_known"] for chunk in chunks)])
        answers = []
        for i in range(len(self.subjects)):
            models = [chunk["models"][i] for chunk in chunks]
            sets = dict.fromkeys(name for model in models for name in model["answers"])
            margins = [model["margins"] for model in models if model["margins"] is not None]
            answers.append(
                (
                    {
                        name: Answers.join(
                            [
                                _move_answers(model["answers"][name], start)
                                for model, start in zip(models, starts[:-1], strict=True)
                                if name in model["answers"]
                            ]
                        )
                        for name in sets
                    },
                    np.concatenate(margins) if margins else None,
                )
            )
        y = np.concatenate([chunk["y"] for chunk in chunks if len(chunk["y"])] or [np.empty(0)])
        digests = np.concatenate([chunk["digests"] for chunk in chunks])
        strangeness = [
            Strangeness.join([Strangeness(**chunk["strangeness"][i]) for chunk in chunks])
            for i in range(len(self.subjects))
        ]
        return Answered(y, digests, answers, strangeness)

    def _add_names(self, X: np.ndarray) -> Any:
        """Return samples with the feature names that the model may require."""
        if self.names is None:
            return X
        import pandas as pd

        return pd.DataFrame(X, columns=list(self.names))


def _parts_of(answers: dict[str, Answers], margins: np.ndarray | None) -> dict[str, Any]:
    return {"answers": {name: vars(one) for name, one in answers.items()}, "margins": margins}


def _move_answers(parts: dict[str, Any], start: int) -> Answers:
    answers = Answers(**parts)
    return replace(answers, positions=answers.positions + start)
