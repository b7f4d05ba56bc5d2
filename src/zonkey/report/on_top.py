"""Whether synthesis and competition help on top of the recommended model, in plain words."""

from __future__ import annotations

from ..bench import EXPERIMENTS
from .blocks import Block, Cell, Text, rounded
from .collection import Collection
from .confidence import Comparison, compare_predictions

HELPS, NO_HELP, UNTOLD = "helps", "does not help", "cannot be told"
_WORTHWHILE = 0.005  # half a point: less is not worth synthesizing anything for
_RULE = Text(
    "Helps: the interval of the paired difference lies above 0. Does not help: it excludes a gain "
    "of half a point. Else the records cannot tell.",
    is_dim=True,
)


def verdict_of(comparison: Comparison) -> str:
    """Say whether the first model helps over the second, if the interval can tell."""
    if comparison.sign() > 0:
        return HELPS
    return NO_HELP if comparison.sign(-_WORTHWHILE) < 0 else UNTOLD


def on_top_comparisons(data: str, collection: Collection) -> dict[str, Comparison]:
    """Return what each model adds to the recommended one, by model."""
    experiment = EXPERIMENTS["on-top"]
    plain = collection.runs("zero-shot", data, experiment.subject)
    found = {
        model: compare_predictions(collection.runs("zero-shot", data, model), plain)
        for model in experiment.models
        if model != experiment.subject
    }
    return {model: comparison for model, comparison in found.items() if comparison is not None}


def on_top_blocks(data: str, collection: Collection) -> list[Block]:
    """Return one sentence on all models, and the rule behind it."""
    found = on_top_comparisons(data, collection)
    if not found:
        return []
    verdicts = [f"{model} {_told(verdict_of(found[model]))}" for model in found]
    text = "Synthesis on top of the recommended model, its kernel and ridge as chosen without it: "
    return [Text(f"{text}{'; '.join(verdicts)}."), _RULE]


def on_top_summary(collection: Collection, data: str) -> Cell | None:
    """Return verdicts and differences for the summary."""
    found = on_top_comparisons(data, collection)
    if not found:
        return None

    def written(digits: int) -> str:
        return "; ".join(
            f"{model} {_told(verdict_of(comparison))} ({comparison.full_text(digits)})"
            for model, comparison in found.items()
        )

    return rounded(written)


def _told(verdict: str) -> str:
    return "cannot be told to help" if verdict == UNTOLD else verdict
