"""Evaluation protocols: zero-shot and generalized scores, few-shot trials that can be resumed."""

from .protocols import large_scale, n_way_k_shot, seen_unseen_scores, zero_shot_scores
from .trials import draw_trial

__all__ = ["draw_trial", "large_scale", "n_way_k_shot", "seen_unseen_scores", "zero_shot_scores"]
