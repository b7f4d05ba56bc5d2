"""Feature preprocessing as scikit-learn transformers."""

from .normalizer import FeatureNormalizer
from .whitener import WithinClassWhitener

__all__ = ["FeatureNormalizer", "WithinClassWhitener"]
