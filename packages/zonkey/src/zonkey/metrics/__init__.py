"""Metrics of zero-shot and few-shot learning."""

from .accuracy import hit_at_k, per_class_accuracy
from .calibration import (
    SelectiveAccuracy,
    best_penalty,
    best_temperature,
    expected_calibration_error,
    selective_accuracy,
)
from .generalized import SeenUnseenCurve, generalized_scores, seen_unseen_curve
from .intervals import mean_confidence_interval, paired_bootstrap_interval
from .multilabel import mean_average_precision, multilabel_calibration_error

__all__ = [
    "SeenUnseenCurve",
    "SelectiveAccuracy",
    "best_penalty",
    "best_temperature",
    "expected_calibration_error",
    "generalized_scores",
    "hit_at_k",
    "mean_average_precision",
    "mean_confidence_interval",
    "multilabel_calibration_error",
    "paired_bootstrap_interval",
    "per_class_accuracy",
    "seen_unseen_curve",
    "selective_accuracy",
]
