"""What the paper prints for its claims, as short text, from the figures of its tables."""

from __future__ import annotations

from collections.abc import Sequence

from ..printed import PRINTED, find_printed

OWN_RESULTS = "BPL"
_NAMES = {"awa1": "AwA", "cub": "CUB", "sun": "SUN", "imnet": "ImNet"}
_SHOTS = "BPL (SFSP1)"


def systems_of(source: str) -> tuple[str, ...]:
    """Return the other systems of a table of the paper."""
    names = (figure.model for figure in PRINTED if figure.source == source)
    return tuple(dict.fromkeys(name for name in names if name != OWN_RESULTS))


def print_accuracies(source: str, others: Sequence[str] = ()) -> str:
    """Return the paper's figures of a zero-shot table, next to the best of other systems."""
    metric = "hm" if source == "gsrl" else "zsl"
    parts = (_versus(source, data, metric, OWN_RESULTS, others) for data in ("awa1", "cub", "sun"))
    hits = _versus(source, "imnet", "hit@5", OWN_RESULTS, others)
    return ", ".join(part for part in (*parts, hits) if part)


def print_trials(model: str, others: Sequence[str], shots: Sequence[int] = (1, 5)) -> str:
    """Return the printed accuracies of a model in trials, next to the best of other systems."""
    data = "mini-imagenet"
    found = (_versus("metafsl", data, f"{K}-shot", model, others, f"{K}-shot") for K in shots)
    return ", ".join(found)


def print_ends(metric: str) -> str:
    """Return hit@k of the paper's few-shot model with one shot and with five."""
    first, last = (find_printed("datagen", "imnet", f"{metric}, K={K}")[_SHOTS] for K in (1, 5))
    return f"{metric} {first.value} to {last.value}"


def print_first_shot() -> str:
    """Return hit@5 of the paper's models without shots and with one shot."""
    none = find_printed("pzsl", "imnet", "hit@5")[OWN_RESULTS]
    one = find_printed("datagen", "imnet", "hit@5, K=1")[_SHOTS]
    return f"hit@5 {none.value} to {one.value}"


def print_syntheses(metric: str) -> str:
    """Return hit@k of both syntheses with one shot and with five."""
    texts = []
    for K in (1, 5):
        found = find_printed("datagen", "imnet", f"{metric}, K={K}")
        texts.append(f"{found[_SHOTS].value} vs {found['BPL (SFSP2)'].value}")
    return f"{metric} {', '.join(texts)}"


def print_minutes(*models: str) -> str:
    """Return printed minutes."""
    found = find_printed("fsltime", "imnet", "minutes")
    return f"{' vs '.join(f'{found[model].value:,g}' for model in models)} minutes"


def print_balance() -> str:
    """Return the printed ratios of the smaller to the larger of acc_s and acc_u."""
    texts = []
    for data in ("awa1", "cub", "sun"):
        a, b = (
            find_printed("gsrl", data, metric)[OWN_RESULTS].value for metric in ("acc_s", "acc_u")
        )
        texts.append(f"{_NAMES[data]} {100 * min(a, b) / max(a, b):.0f} %")
    return f"ratio {', '.join(texts)}"


def _versus(
    source: str, data: str, metric: str, model: str, others: Sequence[str], label: str = ""
) -> str:
    """Return a figure and the largest of other systems; "" if the paper has none."""
    found = find_printed(source, data, metric)
    if model not in found:
        return ""
    text = f"{label or _NAMES[data]} {found[model].value:.1f}"
    values = [found[other].value for other in others if other in found]
    return f"{text} vs {max(values):.1f}" if values else text
