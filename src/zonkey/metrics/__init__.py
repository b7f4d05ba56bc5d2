"""How good the predictions are, by the measures of the zero-shot literature."""

from .accuracy import hit_at_k, per_class_accuracy
from .generalized import (
    GeneralizedScores,
    SeenUnseenCurve,
    generalized_scores,
    seen_unseen_curve,
)
from .intervals import MeanInterval, mean_confidence_interval

__all__ = [
    "GeneralizedScores",
    "MeanInterval",
    "SeenUnseenCurve",
    "generalized_scores",
    "hit_at_k",
    "mean_confidence_interval",
    "per_class_accuracy",
    "seen_unseen_curve",
]
