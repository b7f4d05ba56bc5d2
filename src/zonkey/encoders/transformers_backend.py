"""Models of the transformers library: vision models, joint pairs (CLIP, SigLIP), text models."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..datasets.dataset import DataError
from ..datasets.readers import required_package
from .weights import folder_revision, loading, model_folder, torch_device

# Their first token is trained to stand for the picture. Their pooler often has no trained weights.
_FIRST_TOKEN = ("vit", "deit", "dinov2", "dinov2_with_registers", "dinov3_vit")
_UNUSED = ("pooler", "mask_token")  # weights that a checkpoint may lack
_DEFAULT_TOKENS = 512


class TransformersImages:
    """Features of pictures: the pooled output of a vision model, or its projection if joint.

    Models of the ViT and DINO families give their first token. Others give their pooled output if
    it is trained, else the mean over tokens. Joint pairs give projected features of unit length.
    """

    def __init__(self, source: str, device: str) -> None:
        self._torch, self._transformers = _packages()
        self._device = torch_device(device)
        folder, canonical = model_folder(source, f"transformers:{source}")
        self.name = f"transformers:{canonical}"
        self.revision = folder_revision(folder)
        with loading(self.name, "a vision model with an image processor"):
            # The processor on Pillow: that on torchvision gives other values, if it is installed.
            self._processor = self._transformers.AutoImageProcessor.from_pretrained(
                str(folder), use_fast=False
            )
            self._model, missing = _model(self._transformers, folder, self.name)
            self.joint = _is_joint(self._model)
            self._pooled = not missing
            if self.joint:
                _drop(self._model, "text_model")
            self._model.to(self._device)
            self.n_features = self.encode(self._samples()).shape[1]

    def _samples(self) -> np.ndarray:
        image = required_package("PIL.Image", "Reading pictures")
        samples = [self.prepare(image.new("RGB", size)) for size in ((64, 48), (48, 80))]
        if samples[0].shape != samples[1].shape:
            raise DataError(
                f"{self.name} must give pictures of any shape one size; its image processor keeps "
                "their shape. Set `do_center_crop` in preprocessor_config.json."
            )
        return np.stack(samples)

    def prepare(self, image: Any) -> np.ndarray:
        """Return an RGB image as the processor of the model prepares it."""
        return self._processor(images=image, return_tensors="np")["pixel_values"][0]

    def encode(self, batch: np.ndarray) -> np.ndarray:
        """Return the features of a batch in float32."""
        pixels = self._torch.from_numpy(np.require(batch, np.float32, ["C", "W"]))
        with self._torch.inference_mode():
            return self._features(pixels.to(self._device)).float().cpu().numpy()

    def _features(self, pixels: Any) -> Any:
        if self.joint:
            return _unit(self._torch, self._model.get_image_features(pixel_values=pixels))
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
        folder, canonical = model_folder(source, f"transformers:{source}")
        self.name = f"transformers:{canonical}"
        self.revision = folder_revision(folder)
        with loading(self.name, "a text model with a tokenizer"):
            self._tokenizer = self._transformers.AutoTokenizer.from_pretrained(str(folder))
            self._model, _ = _model(self._transformers, folder, self.name)
            self.joint = _is_joint(self._model)
            if self.joint:
                _drop(self._model, "vision_model")
            self._model.to(self._device)
            self.n_features = self.encode(["a"]).shape[1]

    def encode(self, texts: list[str]) -> np.ndarray:
        """Return one vector per text in float32."""
        tokens = self._tokens(texts)
        with self._torch.inference_mode():
            if self.joint:
                features = _unit(self._torch, self._model.get_text_features(**tokens))
            else:
                hidden = self._model(**tokens).last_hidden_state  # (n, tokens, d)
                weight = tokens["attention_mask"].unsqueeze(2).to(hidden.dtype)
                features = (hidden * weight).sum(1) / weight.sum(1).clamp(min=1)
            return features.float().cpu().numpy()

    def _tokens(self, texts: list[str]) -> dict[str, Any]:
        config = self._model.config
        text_config = getattr(config, "text_config", config)
        longest = getattr(text_config, "max_position_embeddings", _DEFAULT_TOKENS)
        longest = min(longest, self._tokenizer.model_max_length)
        siglip = config.model_type.startswith("siglip")  # trained on padded texts without a mask
        tokens = self._tokenizer(
            texts,
            padding="max_length" if siglip else True,
            truncation=True,
            max_length=longest,
            return_tensors="pt",
        ).to(self._device)
        if siglip:
            return {"input_ids": tokens["input_ids"]}
        return {key: tokens[key] for key in tokens if not self.joint or key != "token_type_ids"}


def _packages() -> tuple[Any, Any]:
    purpose = "A model of transformers"
    return required_package("torch", purpose), required_package("transformers", purpose)


def _model(transformers: Any, folder: Any, name: str) -> tuple[Any, set[str]]:
    """Return a model in float32, and the names of its weights that the folder lacks."""
    model, info = transformers.AutoModel.from_pretrained(str(folder), output_loading_info=True)
    missing = set(info["missing_keys"])
    needed = sorted(key for key in missing if not any(word in key for word in _UNUSED))
    if needed:
        raise DataError(
            f"{name} must hold all weights; {len(needed)} are missing, such as {needed[0]}. "
            "Download or save it again."
        )
    return model.float().eval(), missing


def _is_joint(model: Any) -> bool:
    return hasattr(model, "get_image_features") and hasattr(model, "get_text_features")


def _drop(model: Any, tower: str) -> None:
    """Free the memory of the tower that is not used."""
    if hasattr(model, tower):
        delattr(model, tower)


def _unit(torch: Any, features: Any) -> Any:
    # Transformers 4 returns the features, 5 an object that holds them.
    features = getattr(features, "pooler_output", features)
    return torch.nn.functional.normalize(features, dim=1)
