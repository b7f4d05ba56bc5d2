"""Models of the transformers library: vision models, joint pairs (CLIP, SigLIP), text models."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ..errors import DataError
from ..optional import require_package, torch_device
from .weights import load_quietly, locate_model

# Their first token is trained to represent the picture. Their pooler often has no trained weights.
_FIRST_TOKEN = ("vit", "deit", "dinov2", "dinov2_with_registers", "dinov3_vit")
_UNUSED = ("pooler", "mask_token")  # weights that a checkpoint may lack
_DEFAULT_TOKENS = 512
_PROBES = ((0, (64, 48)), (1, (48, 64)))  # height and width
_ROUNDING = 1e-5


class TransformersImages:
    """Features of pictures: the pooled output of a vision model, or its projection if joint.

    Models of the ViT and DINO families give their first token. Others give their pooled output if
    it is trained, else the mean over tokens. Joint pairs give projected features of unit length.
    """

    def __init__(self, source: str, device: str) -> None:
        self._torch, self._transformers = _packages()
        self._device = torch_device(device)
        folder, self.name, self.revision = locate_model("transformers", source)
        with load_quietly(self.name, "a vision model with an image processor"):
            # The processor on Pillow: that on torchvision gives other values, if it is installed.
            self._processor = self._transformers.AutoImageProcessor.from_pretrained(
                str(folder), use_fast=False, trust_remote_code=False
            )
            samples = self._choose_preparation()
            self._model, missing = _model(self._transformers, folder, self.name)
            self.space = f"{self.name} {self.revision}" if _is_joint(self._model) else None
            self._pooled = not missing
            if self.space:
                _drop(self._model, "text_model")
            self._model.to(self._device)
            self.n_features = self.encode(samples).shape[1]

    def _choose_preparation(self) -> np.ndarray:
        """Choose whether pixels are normalized on the device; return two samples."""
        pillow = require_package("PIL.Image", "Reading pictures")
        noise = np.random.default_rng(0).integers(0, 256, (2, 64 * 48 * 3), dtype=np.uint8)
        images = [pillow.fromarray(noise[i].reshape(*shape, 3)) for i, shape in _PROBES]
        self._options: dict[str, Any] = {}
        expected = [self.prepare(image) for image in images]
        if expected[0].shape != expected[1].shape:
            raise DataError(
                f"{self.name} must give pictures of any shape one size; its image processor keeps "
                "their shape. Set `do_center_crop` in preprocessor_config.json."
            )
        sides = dict(getattr(self._processor, "size", None) or {}).values()
        self.size = max(*expected[0].shape[-2:], *(side for side in sides if side))
        # Pixels in uint8 are a quarter of the memory to stack and to copy to the device.
        self._factor, self._shift = _normalization(self._torch, self._processor, self._device)
        self._options = {"do_rescale": False, "do_normalize": False}
        samples = np.stack([self.prepare(image) for image in images])
        is_same = samples.dtype == np.uint8 and np.allclose(
            self._normalize(samples).cpu(), np.stack(expected), atol=_ROUNDING
        )
        if is_same:
            return samples
        self._options = {}
        return np.stack(expected)

    def prepare(self, image: Any) -> np.ndarray:
        """Return an RGB image as the processor of the model prepares it, in uint8 if possible."""
        arrays = self._processor(images=image, return_tensors="np", **self._options)
        return arrays["pixel_values"][0]

    def _normalize(self, batch: np.ndarray) -> Any:
        pixels = self._torch.from_numpy(np.require(batch, requirements=["C", "W"]))
        pixels = pixels.to(self._device).float()
        return pixels * self._factor - self._shift if self._options else pixels

    def encode(self, batch: np.ndarray) -> np.ndarray:
        """Return the features of a batch in float32."""
        with self._torch.inference_mode():
            return self._features(self._normalize(batch)).float().cpu().numpy()

    def _features(self, pixels: Any) -> Any:
        if self.space:
            return _scale_to_unit(self._torch, self._model.get_image_features(pixel_values=pixels))
        output = self._model(pixel_values=pixels)
        if self._model.config.model_type in _FIRST_TOKEN:
            return output.last_hidden_state[:, 0]
        pooled = getattr(output, "pooler_output", None)
        if pooled is not None and self._pooled:
            return pooled.flatten(1)
        hidden = output.last_hidden_state  # (n, tokens, d) or (n, d, height, width)
        return hidden.mean(1) if hidden.ndim == 3 else hidden.flatten(2).mean(2)


class TransformersTexts:
    """Vectors of texts: the mean over tokens, or projected features of unit length if joint."""

    def __init__(self, source: str, device: str) -> None:
        self._torch, self._transformers = _packages()
        self._device = torch_device(device)
        folder, self.name, self.revision = locate_model("transformers", source)
        with load_quietly(self.name, "a text model with a tokenizer"):
            self._tokenizer = self._transformers.AutoTokenizer.from_pretrained(
                str(folder), trust_remote_code=False
            )
            self._model, _ = _model(self._transformers, folder, self.name)
            self.space = f"{self.name} {self.revision}" if _is_joint(self._model) else None
            if self.space:
                _drop(self._model, "vision_model")
            self._model.to(self._device)
            config = self._model.config
            config = getattr(config, "text_config", config)
            longest = getattr(config, "max_position_embeddings", _DEFAULT_TOKENS)
            self._longest = min(longest, self._tokenizer.model_max_length)
            self.max_tokens = content_tokens(self._tokenizer, self._longest)
            self.n_features = self.encode(["a"]).shape[1]

    def encode(self, texts: list[str]) -> np.ndarray:
        """Return one vector per text in float32."""
        tokens = self._tokens(texts)
        with self._torch.inference_mode():
            if self.space:
                features = _scale_to_unit(self._torch, self._model.get_text_features(**tokens))
            else:
                hidden = self._model(**tokens).last_hidden_state  # (n, tokens, d)
                weight = tokens["attention_mask"].unsqueeze(2).to(hidden.dtype)
                features = (hidden * weight).sum(1) / weight.sum(1).clamp(min=1)
            return features.float().cpu().numpy()

    def count_tokens(self, texts: list[str]) -> list[int]:
        """Return the number of tokens of each text, without those around it."""
        return token_counts(self._tokenizer, texts)

    def _tokens(self, texts: list[str]) -> dict[str, Any]:
        # SigLIP was trained on padded texts without a mask.
        siglip = self._model.config.model_type.startswith("siglip")
        tokens = self._tokenizer(
            texts,
            padding="max_length" if siglip else True,
            truncation=True,
            max_length=self._longest,
            return_tensors="pt",
        ).to(self._device)
        if siglip:
            return {"input_ids": tokens["input_ids"]}
        return {key: tokens[key] for key in tokens if not self.space or key != "token_type_ids"}


def content_tokens(tokenizer: Any, longest: int | None) -> int:
    """Return the number of tokens of a text that a model takes beside the special ones."""
    special = getattr(tokenizer, "num_special_tokens_to_add", lambda: 0)()
    return sys.maxsize if longest is None else longest - special


def token_counts(tokenizer: Any, texts: list[str]) -> list[int]:
    """Return the number of tokens of each text, without special ones."""
    found = tokenizer(texts, add_special_tokens=False, truncation=False, verbose=False)
    return [*map(len, found["input_ids"])]


def _packages() -> tuple[Any, Any]:
    purpose = "A model of transformers"
    transformers = require_package("transformers", purpose)  # its extra has torch too
    return require_package("torch", purpose), transformers


def _model(transformers: Any, folder: Any, name: str) -> tuple[Any, set[str]]:
    """Return a model in float32, and the names of its weights that the folder lacks."""
    model, info = transformers.AutoModel.from_pretrained(
        str(folder), output_loading_info=True, trust_remote_code=False
    )
    missing = set(info["missing_keys"])
    needed = sorted(key for key in missing if not any(word in key for word in _UNUSED))
    if needed:
        raise DataError(
            f"{name} must hold all weights; {len(needed)} are missing, such as {needed[0]}. "
            "Download or save it again."
        )
    return model.float().eval(), missing


def _normalization(torch: Any, processor: Any, device: str) -> tuple[Any, Any]:
    """Return a and b: pixels * a - b is what the processor gives."""
    scale = processor.rescale_factor if getattr(processor, "do_rescale", False) else 1.0
    mean, std = 0.0, 1.0
    if getattr(processor, "do_normalize", False):
        mean, std = np.array(processor.image_mean), np.array(processor.image_std)
    values = np.stack([np.broadcast_to(scale / std, 3), np.broadcast_to(mean / std, 3)])
    factor, shift = torch.tensor(values, dtype=torch.float32, device=device).reshape(2, 3, 1, 1)
    return factor, shift


def _is_joint(model: Any) -> bool:
    return hasattr(model, "get_image_features") and hasattr(model, "get_text_features")


def _drop(model: Any, tower: str) -> None:
    """Free the memory of the tower that is not used."""
    if hasattr(model, tower):
        delattr(model, tower)


def _scale_to_unit(torch: Any, features: Any) -> Any:
    # Transformers 4 returns the features, 5 an object that holds them.
    features = getattr(features, "pooler_output", features)
    return torch.nn.functional.normalize(features, dim=1)
