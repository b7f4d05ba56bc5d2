"""The summary on top: what reproduces, what does not, and what is added, told by rules."""

from __future__ import annotations

from collections.abc import Callable

from ..bench import EXPERIMENTS
from ..bench.printed import printed
from .blocks import Block, Cell, Part, Section, Table, Text, rounded
from .claims import CLAIMS
from .collection import Collection
from .confidence import compare_predictions
from .diagnostics import sensitivity_profiles
from .measures import accuracies_by_step, over_repetitions, over_seeds
from .on_top import on_top_summary
from .rules import FAILS, REPRODUCES, RULES, UNDECIDED
from .tables import LABELS, compares, features_used

QUICK_BANNER = Text(
    "Quick runs: few seeds, folds and trials; a look, not figures to cite.", is_banner=True
)
_HEADINGS = ("claim of the paper", "source", "data", "evidence")


def summary_section(collection: Collection) -> Section:
    """Return what reproduces, what does not, what is undecided, and what is added."""
    found = findings(collection)
    yes, no, open_ = (len(found[verdict]) for verdict in (REPRODUCES, FAILS, UNDECIDED))
    counts = f"reproduced {yes}, not reproduced {no}, undecided {open_}"
    opening: list[Block] = [
        *([QUICK_BANNER] if collection.quick_names else []),
        Text(f"Claims of the paper, counted for each data set: {counts}."),
        *(Text(rule, is_dim=True) for rule in RULES),
        Text(
            f"About {yes + no + open_} claims are judged at 95 % each, without correction for "
            "their number: one or another may be luck.",
            is_dim=True,
        ),
        *_comparability(collection),
    ]
    if collection.quick_names:
        text = f"Data sets with quick runs: {', '.join(sorted(collection.quick_names))}."
        opening.insert(1, Text(text))
    if collection.n_left_out:
        text = f"{collection.n_left_out} records of other settings than seed 0 are left out."
        opening.append(Text(text, is_dim=True))
    titles = {
        REPRODUCES: "What reproduces",
        FAILS: "What does not reproduce",
        UNDECIDED: "What the records leave undecided",
    }
    parts = [Part("In short", opening)]
    for verdict, title in titles.items():
        rows = found[verdict]
        block = Table(_HEADINGS, rows) if rows else Text("Nothing.")
        parts.append(Part(title, [block]))
    added = additions(collection)
    block = Table(("addition", "data", "result"), added) if added else Text("Nothing.")
    return Section("Summary", [*parts, Part("What we add", [block])])


def findings(collection: Collection) -> dict[str, list[list[Cell]]]:
    """Return rows of claim, source, data set and evidence, by verdict."""
    found: dict[str, list[list[Cell]]] = {REPRODUCES: [], FAILS: [], UNDECIDED: []}
    for claim in CLAIMS:
        for data in collection.data_names:
            finding = claim.test(collection, data)
            if finding is not None:
                text = claim.text.format(**finding.facts)
                found[finding.verdict].append([text, claim.source, data, finding.evidence])
    return found


def additions(collection: Collection) -> list[list[Cell]]:
    """Return rows of what the paper does not have: name, data set, result."""
    found: list[list[Cell]] = []
    for name, tell in _ADDITIONS.items():
        for data in collection.data_names:
            result = tell(collection, data)
            if result:
                found.append([name, data, result])
    return found


def _comparability(collection: Collection) -> list[Text]:
    """Say of which data sets the paper's figures stand on other features."""
    texts = []
    experiment = EXPERIMENTS["pure-zsl"]
    for data in collection.data_names:
        runs = collection.runs("zero-shot", data, "BPL")
        metric = "hit@5" if data == "imnet" else "zsl"
        figure = printed(experiment.source, data, metric).get("BPL")
        if runs and figure and not compares(runs[0], figure):
            texts.append(
                Text(
                    f"{data}: the paper used {figure.features} features, these records "
                    f"{features_used(runs[0])}. Figures do not compare; orders of models may."
                )
            )
    return texts


def _any_shot(collection: Collection, data: str) -> str | None:
    run = collection.first("all-classes", data, "BPL (SFSP1)")
    if run is None or 0 not in run["results"]["shots"]:
        return None
    shots = run["results"]["shots"]
    ends = [over_repetitions(run, "hit@1", number) for number in (shots[0], shots[-1])]
    low, high = (value.percent() for value in ends if value is not None)
    return f"one model from K = 0 (hit@1 {low}) to K = {shots[-1]} (hit@1 {high})"


def _area(collection: Collection, data: str) -> str | None:
    found = {
        model: over_seeds(collection.runs("zero-shot", data, model), "ausuc")
        for model in EXPERIMENTS["generalized-zsl"].models
    }
    texts = [f"{model} {value.percent()}" for model, value in found.items() if value is not None]
    return ", ".join(texts) or None


def _sensitivity(collection: Collection, data: str) -> str | None:
    run = collection.first("selection", data, "BPL")
    if run is None:
        return None
    texts = []
    for name, profile in sensitivity_profiles(run).items():
        means = [value.mean for value in profile.values()]
        ends = f"{min(profile)} to {max(profile)}"
        texts.append(f"{100 * (max(means) - min(means)):.1f} along {name} ({ends})")
    return f"points of validation accuracy: {', '.join(texts)}" if texts else None


def _steps(collection: Collection, data: str) -> str | None:
    run = collection.first("convergence", data, "BPL")
    if run is None:
        return None
    accuracies = accuracies_by_step(run)
    shown = sorted({0, 5, max(accuracies)} & set(accuracies))
    return "accuracy " + ", ".join(f"{100 * accuracies[t]:.1f} at t = {t}" for t in shown)


def _selection(collection: Collection, data: str) -> str | None:
    chosen = {
        (run["protocol"], model)
        for experiment in EXPERIMENTS.values()
        for model, runs in collection.of(experiment, data).items()
        for run in (collection.selection_of(found) for found in runs)
        if run is not None and run["results"]["points"]
    }
    if not chosen:
        return None
    return (
        f"{len(chosen)} choices of parameters, each on training or validation classes; the runner "
        "refuses test classes"
    )


def _recommended(collection: Collection, data: str) -> Cell | None:
    """Set the recommended model beside the paper's."""
    models = (EXPERIMENTS["beyond"].subject, "BPL")
    runs = [collection.runs("zero-shot", data, model) for model in models]
    comparison = compare_predictions(*runs)
    if comparison is None:
        return None
    texts = []
    for metric in ("zsl", "hm_calibrated"):
        ours, papers = (over_seeds(found, metric) for found in runs)
        if ours is not None and papers is not None:
            figures = f"{ours.percent()}, that of {models[1]} {papers.percent()}"
            texts.append(f"{LABELS[metric]} {figures}")

    def written(digits: int) -> str:
        return "; ".join([*texts, f"difference of accuracy {comparison.full_text(digits)}"])

    return rounded(written)


_ADDITIONS: dict[str, Callable[[Collection, str], Cell | None]] = {
    "Any-shot curve": _any_shot,
    "Area under the seen-unseen curve (AUSUC)": _area,
    "Sensitivity to parameters": _sensitivity,
    "Accuracy step by step": _steps,
    "Honest selection": _selection,
    "Recommended model": _recommended,
    "Synthesis and competition on top of it": on_top_summary,
}
