"""Text models of the sentence-transformers library."""

from __future__ import annotations

import numpy as np

from ..optional import require_package, torch_device
from .weights import load_quietly, locate_model

_PREFIX = "sentence-transformers"


class SentenceTexts:
    """Vectors of texts as the modules of the model give them, in float32."""

    joint = False

    def __init__(self, source: str, device: str) -> None:
        package = require_package("sentence_transformers", "A model of sentence-transformers")
        device = torch_device(device)
        folder, self.name, self.revision = locate_model(_PREFIX, source, owner=_PREFIX)
        with load_quietly(self.name, "a model of sentence-transformers"):
            self._model = package.SentenceTransformer(
                str(folder), device=device, trust_remote_code=False
            ).float()
            self.n_features = self.encode(["a"]).shape[1]

    def encode(self, texts: list[str]) -> np.ndarray:
        """Return one vector per text in float32."""
        vectors = self._model.encode(
            texts, batch_size=len(texts), show_progress_bar=False, convert_to_numpy=True
        )
        return np.asarray(vectors, np.float32)
