"""How good the predictions are, by the measures of the zero-shot literature."""

from .accuracy import hit_at_k, per_class_accuracy
from .bootstrap import PairedInterval, paired_bootstrap_interval
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
    "PairedInterval",
    "SeenUnseenCurve",
    "generalized_scores",
    "hit_at_k",
    "mean_confidence_interval",
    "paired_bootstrap_interval",
    "per_class_accuracy",
    "seen_unseen_curve",
]
