"""Encoders by name: what a backend offers, and the list of those that need no path."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

DEFAULT_IMAGE = "efficientnet-lite0"
DEFAULT_TEXT = "minilm-l6"


class ImageBackend(Protocol):
    """A loaded model of pictures."""

    name: str
    revision: str  # 16 hex digits: hash of weights and preprocessing
    n_features: int

    def prepare(self, image: Any) -> np.ndarray:
        """Return an RGB image as one sample of a batch; several threads call this at once."""
        ...

    def encode(self, batch: np.ndarray) -> np.ndarray:
        """Return the features of a batch in float32."""
        ...


class TextBackend(Protocol):
    """A loaded model of texts."""

    name: str
    revision: str
    n_features: int

    def encode(self, texts: list[str]) -> np.ndarray:
        """Return one vector per text in float32."""
        ...
