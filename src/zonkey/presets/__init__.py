"""Whole recipes, from raw features to predictions, under a name that reports can cite."""

from .few_shot import recommended_few_shot
from .paper import paper
from .recommended import recommended

__all__ = ["paper", "recommended", "recommended_few_shot"]
