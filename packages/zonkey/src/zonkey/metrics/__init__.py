"""Metrics of zero-shot and few-shot learning."""

from .accuracy import hit_at_k, per_class_accuracy
from .calibration import (
    best_penalty,
    best_temperature,
    expected_calibration_error,
)
from .generalized import SeenUnseenCurve, generalized_scores, seen_unseen_curve
from .intervals import mean_confidence_interval, paired_bootstrap_interval
from .selective import (
    PrecisionThreshold,
    RiskCoverageCurve,
    precision_threshold,
    risk_coverage_curve,
)
from .tree import hierarchical_scores, level_accuracy, tree_distance

__all__ = [
    "PrecisionThreshold",
    "RiskCoverageCurve",
    "SeenUnseenCurve",
    "best_penalty",
    "best_temperature",
    "expected_calibration_error",
    "generalized_scores",
    "hierarchical_scores",
    "hit_at_k",
    "level_accuracy",
    "mean_confidence_interval",
    "paired_bootstrap_interval",
    "per_class_accuracy",
    "precision_threshold",
    "risk_coverage_curve",
    "seen_unseen_curve",
    "tree_distance",
]
