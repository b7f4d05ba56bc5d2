"""Complete models by name, from raw features to predictions."""

from .models import paper, recommended, rpl

__all__ = ["paper", "recommended", "rpl"]
