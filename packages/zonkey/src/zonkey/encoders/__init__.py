"""Pictures and texts to vectors: encoders with the interface of scikit-learn's transformers."""

from .class_texts import ClassTexts, class_texts
from .collection import Pictures
from .image_encoder import ImageEncoder
from .pictures import PictureError
from .registry import EncoderInfo, list_encoders
from .text_encoder import TextEncoder

__all__ = [
    "ClassTexts",
    "EncoderInfo",
    "ImageEncoder",
    "PictureError",
    "Pictures",
    "TextEncoder",
    "class_texts",
    "list_encoders",
]
