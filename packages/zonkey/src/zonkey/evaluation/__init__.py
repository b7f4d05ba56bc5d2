"""Evaluate fitted models: every figure in one call, and scores of the usual protocols."""

from .evaluating import evaluate
from .label_result import LabelEvaluation
from .protocols import draw_trial, seen_unseen_scores, zero_shot_scores
from .result import Evaluation

__all__ = [
    "Evaluation",
    "LabelEvaluation",
    "draw_trial",
    "evaluate",
    "seen_unseen_scores",
    "zero_shot_scores",
]
