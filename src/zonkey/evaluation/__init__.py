"""Protocols of few-shot learning: how trials are drawn, run, resumed and summed up."""

from .protocols import any_shot, large_scale, n_way_k_shot
from .trials import Trial, draw_trial

__all__ = ["Trial", "any_shot", "draw_trial", "large_scale", "n_way_k_shot"]
