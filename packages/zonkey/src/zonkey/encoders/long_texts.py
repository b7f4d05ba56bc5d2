"""Split texts that are longer than an encoder takes into parts, whose vectors are averaged."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..labels import warn_user

Part = tuple[str, int]  # a part of a text, and its number of tokens


def split_texts(texts: Sequence[str], backend: Any, template: str = "{}") -> list[list[Part]]:
    """Return the parts of each text that fit an encoder beside a template; most have one.

    An encoder that does not count tokens gets whole texts.
    """
    count = getattr(backend, "count_tokens", None)
    most = getattr(backend, "max_tokens", sys.maxsize)
    if count is None:
        return [[(text, 1)] for text in texts]
    rest = template.replace("{}", "").strip()
    most = max(1, most - (count([rest])[0] if rest else 0))
    return [
        # A token has a byte at least, so a short text need not be counted.
        [(text, 1)] if len(text.encode("utf-8", "replace")) <= most else _split(text, most, count)
        for text in texts
    ]


def _split(text: str, most: int, count: Any) -> list[Part]:
    """Return parts of at most so many tokens, cut between words."""
    words = text.split()
    pieces = [
        piece
        for word, n in zip(words, count(words), strict=True)
        for piece in _cut(word, n, most, count)
    ]
    if sum(n for _, n in pieces) <= most:
        return [(text, 1)]
    parts: list[Part] = []
    held: list[str] = []
    n_held = 0
    for piece, n in pieces:
        if held and n_held + n > most:
            parts.append((" ".join(held), n_held))
            held, n_held = [], 0
        held.append(piece)
        n_held += n
    return [*parts, (" ".join(held), n_held)]


def _cut(word: str, n: int, most: int, count: Any) -> Iterator[Part]:
    """Yield a word, or pieces of one that alone is too long, such as text without spaces."""
    if n <= most or len(word) == 1:
        yield word, n
        return
    middle = len(word) // 2
    for piece in (word[:middle], word[middle:]):
        yield from _cut(piece, count([piece])[0], most, count)


def join_parts(vectors: np.ndarray, parts: Sequence[Sequence[Part]]) -> np.ndarray:
    """Return a vector per text: the mean over its parts, weighted by their tokens."""
    lengths = [len(found) for found in parts]
    if max(lengths) == 1:
        return vectors
    weights = np.array([n for found in parts for _, n in found], np.float32)[:, None]
    starts = np.cumsum([0, *lengths[:-1]])
    sums = np.add.reduceat(weights * vectors, starts, axis=0)
    return sums / np.add.reduceat(weights, starts, axis=0)


def tell_split(n: int, total: int, encoder: Any) -> None:
    """Warn in one line how many texts were split."""
    if n:
        are = "is" if n == 1 else "are"
        most = getattr(encoder, "max_tokens", None)
        name = getattr(encoder, "name", type(encoder).__name__)
        warn_user(
            f"Texts should have at most {most} tokens for {name}; {n} of {total} {are} longer. "
            "Their vectors are means over parts."
        )
