"""Whole recipes, from raw features to predictions, under a name that reports can cite."""

from .paper import paper
from .recommended import recommended, recommended_few_shot

__all__ = ["paper", "recommended", "recommended_few_shot"]
