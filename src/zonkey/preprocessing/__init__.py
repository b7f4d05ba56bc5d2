"""What is done to features before they reach a classifier."""

from .normalizer import FeatureNormalizer

__all__ = ["FeatureNormalizer"]
