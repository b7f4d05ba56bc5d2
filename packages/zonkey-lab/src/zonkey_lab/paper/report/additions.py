"""What the laboratory measures that the paper does not have, in one line each."""

from __future__ import annotations

from collections.abc import Callable

from ..experiments import EXPERIMENTS, RECOMMENDED
from .blocks import Cell, round_text
from .collection import Collection
from .comparisons import compare_predictions, on_top_summary
from .measures import accuracies_by_step, average_repetitions, average_seeds
from .tables import LABELS, accuracy_column, sensitivity_profiles


def additions(collection: Collection) -> list[list[Cell]]:
    """Return rows of name, data set and result for what the paper does not have."""
    found: list[list[Cell]] = []
    for name, tell in _ADDITIONS.items():
        for data in collection.data_names:
            result = tell(collection, data)
            if result:
                found.append([name, data, result])
    return found


def _tell_any_shot(collection: Collection, data: str) -> str | None:
    runs = collection.runs("all-classes", data, "BPL (SFSP1)")
    shots = runs[0]["results"]["shots"] if runs else []
    if 0 not in shots:
        return None
    ends = [average_repetitions(runs, "hit@1", number) for number in (shots[0], shots[-1])]
    low, high = (value.percent() for value in ends if value is not None)
    return f"one model from K = 0 (hit@1 {low}) to K = {shots[-1]} (hit@1 {high})"


def _tell_area(collection: Collection, data: str) -> str | None:
    found = accuracy_column(collection.study("generalized-zsl", data), "ausuc").values
    known = ((model, found.get(model)) for model in ("BPL0", "BPL", RECOMMENDED))
    return ", ".join(f"{model} {value.percent()}" for model, value in known if value) or None


def _tell_sensitivity(collection: Collection, data: str) -> str | None:
    run = collection.first(EXPERIMENTS["sensitivity"].protocol, data, "BPL")
    if run is None:
        return None
    texts = []
    for name, profile in sensitivity_profiles(run).items():
        means = [value.mean for value in profile.values()]
        ends = f"{min(profile)} to {max(profile)}"
        texts.append(f"{100 * (max(means) - min(means)):.1f} along {name} ({ends})")
    return f"points of validation accuracy: {', '.join(texts)}" if texts else None


def _tell_steps(collection: Collection, data: str) -> str | None:
    run = collection.first("convergence", data, "BPL")
    if run is None:
        return None
    accuracies = accuracies_by_step(run)
    shown = sorted({0, 5, max(accuracies)} & set(accuracies))
    return "accuracy " + ", ".join(f"{100 * accuracies[t]:.1f} at t = {t}" for t in shown)


def _tell_selection(collection: Collection, data: str) -> str | None:
    chosen = {
        (run["protocol"], model)
        for name in EXPERIMENTS
        for model, runs in collection.study(name, data).runs.items()
        for run in (collection.selection_of(found) for found in runs)
        if run is not None and run["results"]["chosen"]
    }
    text = "choices of parameters, each on training or validation classes"
    return f"{len(chosen)} {text}; the runner refuses test classes" if chosen else None


def _tell_recommended(collection: Collection, data: str) -> Cell | None:
    """Compare the recommended model with the paper's."""
    models = (EXPERIMENTS["beyond"].subject, "BPL")
    runs = [collection.runs("zero-shot", data, model) for model in models]
    comparison = compare_predictions(*runs)
    if comparison is None:
        return None
    texts = []
    for metric in ("zsl", "hm_calibrated"):
        ours, papers = (average_seeds(found, metric) for found in runs)
        if ours is not None and papers is not None:
            figures = f"{ours.percent()}, that of {models[1]} {papers.percent()}"
            texts.append(f"{LABELS[metric]} {figures}")

    def write(digits: int) -> str:
        return "; ".join([*texts, f"difference of accuracy {comparison.text(digits)}"])

    return round_text(write)


_ADDITIONS: dict[str, Callable[[Collection, str], Cell | None]] = {
    "Any-shot curve": _tell_any_shot,
    "Area under the seen-unseen curve (AUSUC)": _tell_area,
    "Sensitivity to parameters": _tell_sensitivity,
    "Accuracy step by step": _tell_steps,
    "Honest selection": _tell_selection,
    "Recommended model": _tell_recommended,
    "Synthesis and competition on recommended features": on_top_summary,
}
