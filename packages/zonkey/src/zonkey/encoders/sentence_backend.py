"""Text models of the sentence-transformers library."""

from __future__ import annotations

import numpy as np

from ..optional import require_package, torch_device
from .transformers_backend import content_tokens, token_counts
from .weights import load_quietly, locate_model

_PREFIX = "sentence-transformers"


class SentenceTexts:
    """Vectors of texts as the modules of the model give them, in float32."""

    space: str | None = None

    def __init__(self, source: str, device: str) -> None:
        package = require_package("sentence_transformers", "A model of sentence-transformers")
        device = torch_device(device)
        folder, self.name, self.revision = locate_model(_PREFIX, source, owner=_PREFIX)
        with load_quietly(self.name, "a model of sentence-transformers"):
            self._model = package.SentenceTransformer(
                str(folder), device=device, trust_remote_code=False
            ).float()
            self.n_features = self.encode(["a"]).shape[1]
            self._tokenizer = self._model.tokenizer
        longest = getattr(self._model, "max_seq_length", None)
        self.max_tokens = content_tokens(self._tokenizer, longest)

    def encode(self, texts: list[str]) -> np.ndarray:
        """Return one vector per text in float32."""
        vectors = self._model.encode(
            texts, batch_size=len(texts), show_progress_bar=False, convert_to_numpy=True
        )
        return np.asarray(vectors, np.float32)

    def count_tokens(self, texts: list[str]) -> list[int]:
        """Return the number of tokens of each text, without those around it."""
        return token_counts(self._tokenizer, texts)
