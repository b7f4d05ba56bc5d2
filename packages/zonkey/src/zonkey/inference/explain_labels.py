"""Explain the probabilities of labels, of which any number may apply to a sample."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import to_numpy
from ..constraints import validate_samples
from .explanation import Explanation
from .scorer import best_columns

_NONE = "none; a model of several labels keeps no samples"
_NO_ATTRIBUTES = "none; log odds are not split into attributes"


def explain_labels(model: Any, row: Any, k: int) -> Explanation:
    """Explain the most probable label of a sample, and the next one."""
    X, scorer, state = validate_samples(model, row, reset=False), model.scorer_, model.state_
    scores = np.concatenate([to_numpy(block) for block in scorer.blocks(X)]).astype(np.float64)
    P, labels = scorer.probabilities(scores)[0], scorer.labels
    scores, best = scores[0], best_columns(P[None], len(labels))[0]
    two = best[:2]
    return Explanation(
        label=labels[best[0]].item(),
        runner_up=labels[best[1]].item() if len(best) > 1 else None,
        margin=float(scores[best[0]] - scores[best[1]]) if len(best) > 1 else None,
        answer=labels[scores > 0].tolist(),
        penalty={"winner": 0.0, "runner_up": 0.0, "label_without": labels[best[0]].item()},
        parts={
            "classes": _best_labels(model, best[:k], scores, P),
            "seen_classes": _evidence(state, np.asarray(scorer.map_samples(X))[0], two, scores),
            "samples": [],
            "attributes": [],
        },
        notes={
            "classes": f"{min(k, len(labels))} of {len(labels)} labels; score is the log odds "
            "above the threshold, so positive where the label is predicted",
            "seen_classes": "what adds up to the score: the log odds above the threshold",
            "samples": _NONE,
            "attributes": _NO_ATTRIBUTES,
        },
    )


def _best_labels(
    model: Any, best: np.ndarray, scores: np.ndarray, P: np.ndarray
) -> list[dict[str, Any]]:
    state, thresholds = model.state_, model.thresholds_
    return [
        {
            "label": state.labels[j].item(),
            "kind": "seen" if state.evidence.counts[j] > 0 else "unseen",
            "n_samples": _plain(state.evidence.counts[j]),
            "score": float(scores[j]),
            "margin": float(scores[best[0]] - scores[j]),
            "probability": float(P[j]),
            "threshold": float(thresholds[j]),
        }
        for j in best
    ]


def _evidence(
    state: Any, z: np.ndarray, two: np.ndarray, scores: np.ndarray
) -> list[dict[str, Any]]:
    """Return what each source of knowledge adds to the scores of winner and runner-up."""
    away = z - state.mean
    parts = {kind: W @ away for kind, W in state.split_weights(two).items()}
    parts["base rate and threshold"] = scores[two] - sum(parts.values())
    rows = [
        {
            "label": None,
            "kind": kind,
            "pull_winner": float(values[0]),
            "pull_runner_up": float(values[1]) if len(two) > 1 else None,
            "difference": float(values[0] - values[1]) if len(two) > 1 else float(values[0]),
        }
        for kind, values in parts.items()
    ]
    return sorted(rows, key=lambda row: -abs(row["difference"]))


def _plain(count: float) -> float | int:
    return int(count) if count == int(count) else float(count)
