"""Complete models by name, from raw features to predictions."""

from .models import paper, recommended, rpl
from .pretraining import pretrained, pretrained_encoders

__all__ = ["paper", "pretrained", "pretrained_encoders", "recommended", "rpl"]
