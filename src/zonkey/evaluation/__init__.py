"""Evaluate fitted models; protocols of zero-shot and generalized scores and few-shot trials."""

from .evaluating import evaluate
from .protocols import large_scale, n_way_k_shot, seen_unseen_scores, zero_shot_scores
from .result import Evaluation
from .trials import draw_trial

__all__ = [
    "Evaluation",
    "draw_trial",
    "evaluate",
    "large_scale",
    "n_way_k_shot",
    "seen_unseen_scores",
    "zero_shot_scores",
]
