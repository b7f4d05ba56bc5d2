"""Complete models by name, from raw features to predictions."""

from .models import paper, recommended, rpl
from .pretraining import imagenet_tree, pretrained, pretrained_encoders

__all__ = ["imagenet_tree", "paper", "pretrained", "pretrained_encoders", "recommended", "rpl"]
