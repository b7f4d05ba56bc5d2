"""Complete models by name, from raw features to predictions."""

from .few_shot import recommended_few_shot
from .zero_shot import exemplars, paper, recommended, rpl

__all__ = ["exemplars", "paper", "recommended", "recommended_few_shot", "rpl"]
