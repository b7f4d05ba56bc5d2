"""Encoders by name: what a backend offers, and the list of those that need no path."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..files.dataset import did_you_mean
from ..labels import format_value

DEFAULT_IMAGE = "efficientnet-lite0"
DEFAULT_TEXT = "minilm-l6"
PREFIXES = ("onnx", "transformers", "sentence-transformers")
_DATA = Path(__file__).parent / "data"
_DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?")
_ENCODES = {"image": "pictures", "text": "texts"}


class ImageBackend(Protocol):
    """A loaded model of pictures."""

    name: str
    revision: str  # 16 hex digits: hash of weights and preprocessing
    n_features: int
    size: int  # pixels to which the shorter side of a picture is resized, at most
    space: str | None  # encoders that name the same space give vectors that can be compared

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
    space: str | None
    max_tokens: int  # of a text; what is longer is cut off

    def encode(self, texts: list[str]) -> np.ndarray:
        """Return one vector per text in float32."""
        ...

    def count_tokens(self, texts: list[str]) -> list[int]:
        """Return the number of tokens of each text, without those around it."""
        ...


@dataclass(frozen=True)
class EncoderInfo:
    """An encoder of the list.

    `list_encoders` makes these; nothing is loaded.

    Parameters
    ----------
    name : str
        Name to pass as `model`.
    kind : {"image", "text", "joint"}
        What it encodes; "joint" encodes pictures and texts in one space.
    dimension : int
        Number of features.
    megabytes : float
        Size of its files in 10^6 bytes.
    license : str
        License of the weights.
    extra : str
        Extra of zonkey that it needs.
    embedded : bool
        Whether its files are part of the package; others are downloaded at first use.
    text : str
        Description.
    target : str
        Full name of the model.

    See Also
    --------
    list_encoders : All of them.

    Examples
    --------
    >>> from zonkey.encoders import list_encoders
    >>> info = list_encoders()[0]
    >>> info.name, info.kind, info.dimension, info.license
    ('efficientnet-lite0', 'image', 1280, 'Apache-2.0')
    """

    name: str
    kind: str
    dimension: int
    megabytes: float
    license: str
    extra: str
    embedded: bool
    text: str
    target: str


# Name, kind, dimension, megabytes, license, description and target. Embedded ones are their own
# target; the size of their files is read from disk.
_TABLE = (
    (DEFAULT_IMAGE, "image", 1280, 0.0, "Apache-2.0", "EfficientNet-Lite0, trained on ImageNet-1k",
     DEFAULT_IMAGE),
    (DEFAULT_TEXT, "text", 384, 0.0, "Apache-2.0", "all-MiniLM-L6-v2, English sentences",
     DEFAULT_TEXT),
    ("clip-vit-b32", "joint", 512, 605.0, "MIT", "CLIP ViT-B/32",
     "transformers:openai/clip-vit-base-patch32"),
    ("siglip-base", "joint", 768, 813.0, "Apache-2.0", "SigLIP ViT-B/16, 224 pixels",
     "transformers:google/siglip-base-patch16-224"),
    ("dinov2-base", "image", 768, 346.0, "Apache-2.0", "DINOv2 ViT-B/14",
     "transformers:facebook/dinov2-base"),
    ("all-mpnet-base-v2", "text", 768, 438.0, "Apache-2.0", "MPNet, English sentences",
     "sentence-transformers:sentence-transformers/all-mpnet-base-v2"),
    ("multilingual-minilm", "text", 384, 471.0, "Apache-2.0", "MiniLM, sentences in 50 languages",
     "sentence-transformers:sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2"),
)  # fmt: skip


def _describe(
    name: str, kind: str, size: int, megabytes: float, license: str, text: str, target: str
) -> EncoderInfo:
    embedded = name == target
    extra = "images" if embedded else target.partition(":")[0]
    return EncoderInfo(name, kind, size, megabytes, license, extra, embedded, text, target)


_ENCODERS = {row[0]: _describe(*row) for row in _TABLE}


def list_encoders() -> list[EncoderInfo]:
    """Return the encoders that have a short name.

    Any other model is named by its backend: `onnx:PATH`, `transformers:NAME_OR_PATH`,
    `sentence-transformers:NAME_OR_PATH`.

    Returns
    -------
    list of EncoderInfo
        Name, kind, dimension, size, license and extra of each; embedded ones first.

    Examples
    --------
    >>> from zonkey.encoders.registry import list_encoders
    >>> [info.name for info in list_encoders() if info.embedded]
    ['efficientnet-lite0', 'minilm-l6']
    """
    return [
        replace(info, megabytes=_size(info.name)) if info.embedded else info
        for info in _ENCODERS.values()
    ]


def image_backend(model: str, device: str = "cpu") -> ImageBackend:
    """Load a model of pictures; the vectors of joint pairs such as CLIP have unit length."""
    name, prefix, source = _resolve(model, "image", device)
    if prefix == "onnx":
        from .onnx_backend import OnnxImages

        return OnnxImages(source, device, name)
    if prefix == "transformers":
        from .transformers_backend import TransformersImages

        return TransformersImages(source, device)
    raise ValueError(
        f"`model` must encode pictures; got {model!r}, and {prefix} encodes texts. Write "
        f"'transformers:{source}' if it is a joint model."
    )


def text_backend(model: str, device: str = "cpu") -> TextBackend:
    """Load a model of texts; the vectors of joint pairs such as CLIP have unit length."""
    name, prefix, source = _resolve(model, "text", device)
    if prefix == "onnx":
        from .onnx_backend import OnnxTexts

        return OnnxTexts(source, device, name)
    if prefix == "transformers":
        from .transformers_backend import TransformersTexts

        return TransformersTexts(source, device)
    from .sentence_backend import SentenceTexts

    return SentenceTexts(source, device)


_FACTS = ("name", "revision", "dimension")  # which every `spec_` has


def check_spec(spec: Any) -> dict[str, Any]:
    """Return facts about an encoder, which name its model."""
    if not isinstance(spec, dict) or any(key not in spec for key in _FACTS):
        raise ValueError(
            f"The facts about an encoder must be its name, revision and dimension; got "
            f"{format_value(spec)}. Pass its `spec_`."
        )
    return spec


def require_same_model(found: dict[str, Any], spec: dict[str, Any]) -> None:
    """Refuse an encoder that is not the one of the given facts."""
    changed = next((key for key in _FACTS if found[key] != spec[key]), None)
    if changed is not None:
        raise ValueError(
            f"The encoder {spec['name']} must have the {changed} {format_value(spec[changed])} of "
            f"the training; it has {format_value(found[changed])}. Restore its files, or encode "
            "and fit again."
        )


def share_space(one: Any, other: Any) -> bool:
    """Whether vectors of two encoders, given by their `spec_`, can be compared with each other.

    True for the same encoder, and for a pair such as CLIP, which names its space.
    """
    if not isinstance(one, dict) or not isinstance(other, dict):
        return False
    if one.get("space") is not None and one["space"] == other.get("space"):
        return True
    return all(one.get(key) == other.get(key) for key in ("name", "revision", "kind"))


def _resolve(model: str, kind: str, device: str) -> tuple[str | None, str, str]:
    """Return the embedded name or None, the prefix, and the path or name behind it."""
    if not isinstance(device, str) or not _DEVICE.fullmatch(device):
        raise ValueError(
            f"`device` must be 'cpu', 'cuda', 'cuda:1' or 'auto'; got {device!r}. Pass one of them."
        )
    if not isinstance(model, str):
        raise ValueError(f"`model` must be the name of an encoder; got {model!r}. Pass text.")
    info = _ENCODERS.get(model)
    if info is not None:
        if info.kind not in (kind, "joint"):
            raise ValueError(
                f"`model` must encode {_ENCODES[kind]}; {model!r} encodes {_ENCODES[info.kind]}. "
                f"Choose one of {', '.join(_names(kind))}."
            )
        if info.embedded:
            return model, "onnx", str(_DATA / f"{model}.onnx")
        model = info.target
    prefix, colon, source = model.partition(":")
    if not colon or prefix not in PREFIXES or not source:
        raise _make_unknown_error(model, _names(kind))
    return None, prefix, source


def _names(kind: str) -> list[str]:
    return [info.name for info in _ENCODERS.values() if info.kind in (kind, "joint")]


def _make_unknown_error(model: str, known: list[str]) -> ValueError:
    forms = ", ".join(f"{prefix}:..." for prefix in PREFIXES)
    if model.endswith(".onnx"):
        remedy = f"Write 'onnx:{model}'."
    elif "/" in model and ":" not in model:
        remedy = f"Write 'transformers:{model}'."
    else:
        remedy = did_you_mean(model.lower(), known, "Choose one of them.")
    return ValueError(
        f"`model` must be one of {', '.join(known)}, or {forms}; got {model!r}. {remedy}"
    )


def _size(name: str) -> float:
    files = [_DATA / f"{name}{ending}" for ending in (".onnx", ".json", ".tokenizer.json")]
    return sum(file.stat().st_size for file in files if file.exists()) / 1e6
