"""Complete models by name, from raw features to predictions."""

from .few_shot import recommended_few_shot
from .zero_shot import paper, recommended, rpl

__all__ = ["paper", "recommended", "recommended_few_shot", "rpl"]
