"""The report: a summary of claims, and one section per experiment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..experiments import EXPERIMENTS, is_zero_shot
from ..printed import find_printed
from ..records import Record
from .blocks import (
    Block,
    Cell,
    Code,
    Document,
    Drawing,
    Part,
    Section,
    TableBlock,
    Text,
    round_text,
)
from .claims import READINGS, RULES, Judgment, find_changed, judge
from .classes import class_tables, confusions, find_confused
from .collection import Collection, Study, parameters_of
from .comparisons import compare_predictions, comparison_table, on_top_blocks, on_top_summary
from .figures import draw_confusions, experiment_drawing
from .measures import ABSENT, accuracies_by_step, average_repetitions, average_seeds, shots_label
from .rules import FAILS, REPRODUCES, UNDECIDED
from .tables import (
    LABELS,
    accuracy_column,
    compares,
    describe_features,
    experiment_table,
    own_tables,
    sensitivity_profiles,
)

TITLE = "Measured results next to the figures of the paper"
_OURS = "BPL"
_WITH_RIDGES = ("pure-zsl", "ablation")
_RIDGE_NOTE = Text(
    'FPL, RPL and "BPL, ridge chosen" have their ridge (beta) chosen; the other BPL models keep '
    "the paper's beta of 0.01.",
    is_dim=True,
)
_MEANINGS = {
    "as printed": "mu is never lowered, even if a step is indefinite",
    "unscaled": "the perturbation is not divided by the squared norm of W",
    "per neighbor": "every neighboring seen class gives 15 samples",
    "sampled base": "every episode draws base samples of its own",
}
_CALIBRATION_NOTE = Text(
    "HM, calibrated: the harmonic mean at the penalty of seen classes chosen on held-out training "
    "classes.",
    is_dim=True,
)
QUICK_BANNER = Text(
    "Quick runs: few seeds, folds and trials; a look, not figures to cite.", is_banner=True
)
_HEADINGS = ("claim of the paper", "source", "data", "evidence")
_MOST_CLASSES = 50  # that a confusion matrix can show


def build_report(collection: Collection) -> Document:
    """Return a summary, and one section per experiment with records."""
    sections = [summary_section(collection)]
    for studies in collection.studies().values():
        experiment = studies[0].experiment
        source = f"{experiment.paper} of the paper" if experiment.paper else "Not in the paper"
        parts = [Part(study.data, experiment_blocks(study)) for study in studies]
        note = f"{source}; zonkey bench {experiment.name}."
        sections.append(Section(experiment.title, parts, note))
    return Document(TITLE, sections)


def experiment_blocks(study: Study) -> list[Block]:
    """Return the blocks of an experiment on a data set."""
    name, runs = study.experiment.name, study.firsts
    blocks: list[Block | None] = [
        QUICK_BANNER if study.is_quick else None,
        describe_data(study.run),
        experiment_table(study),
        *own_tables(study),
        _spread_note(study),
        _RIDGE_NOTE if name in _WITH_RIDGES else None,
        _readings_note(runs),
        _CALIBRATION_NOTE if "hm_calibrated" in study.experiment.metrics else None,
        chosen_parameters(study),
        preset_note(runs.values()),
        experiment_drawing(study),
        comparison_table(study),
        *(on_top_blocks(study) if name == "on-top" else []),
    ]
    if name == "pure-zsl":
        shown = runs.get(_OURS) or list(runs.values())[-1]
        blocks += class_blocks(shown, f"{name}-{study.data}-confusions")
    blocks += describe_repetition(study)
    return [block for block in blocks if block is not None]


def _readings_note(models: Iterable[str]) -> Text | None:
    """Explain the readings of the paper that the models' names mention."""
    names = [part for model in models for part in model.split(", ")]
    found = [f"{name}, {meaning}" for name, meaning in _MEANINGS.items() if name in names]
    return Text(f"Readings: {'; '.join(found)}.", is_dim=True) if found else None


def _spread_note(study: Study) -> Text | None:
    """Explain the figures after the plus-minus sign."""
    results, settings = study.run["results"], study.run["settings"]
    n_seeds = max(len(found) for found in study.runs.values())
    text = None
    match study.experiment.protocol:
        case "zero-shot" if n_seeds > 1:
            text = (
                f"In percent; mean ± standard deviation over {n_seeds} seeds if the model is "
                "random."
            )
        case "trials":
            text = (
                f"In percent; mean ± half the 95 % interval over {results['n_trials']} trials of "
                f"{results['n_way']} classes and {results['n_query']} queries each. The paper "
                "states neither the number of queries nor how parameters are chosen: both are our "
                "choice."
            )
        case "unlabeled" | "unlabeled-trials":
            text = (
                "In percent; in trials, mean ± half the 95 % interval. HM: test samples of seen "
                "and unseen classes are in one unlabeled batch. Dirichlet(2): the shares of "
                "the classes among the queries are drawn, and every query counts alike."
            )
        case "all-classes":
            text = (
                f"In percent; mean ± standard deviation over {len(results['hit@1'])} draws of "
                f"shots, all {results['n_novel']} novel classes at once."
            )
        case _ if "n_folds" in settings:
            text = f"Mean ± standard deviation over {settings['n_folds']} class-wise folds."
    return None if text is None else Text(text, is_dim=True)


def class_blocks(run: Record, name: str) -> list[Block]:
    """Return best and worst classes, all classes, frequent confusions, and the matrix."""
    who = f"{run['model']}, seed {run['seed']}"
    names, matrix = confusions(run)
    shown = np.arange(len(names)) if len(names) <= _MOST_CLASSES else find_confused(matrix)
    caption = f"Confusion matrix of {who}: share of the samples of a class, in percent."
    if len(shown) < len(names):
        caption += f" The {len(shown)} of {len(names)} classes that are confused most often."
    return [
        *class_tables(names, matrix, who),
        Drawing(name, caption, lambda: draw_confusions(names, matrix, shown)),
    ]


def describe_data(run: Record) -> Text:
    """Return split, sizes and features of the data."""
    data = run["data"]
    sizes = data["n_samples"]
    return Text(
        f"{data['name']}, split {data['split']}: {sizes['train']} training samples of "
        f"{data['n_seen']} classes, {sizes['test_unseen']} test samples of {data['n_unseen']} "
        f"unseen classes (chance: {100 / max(1, data['n_unseen']):.1f} %). Features: "
        f"{describe_features(run)}, {data['n_features']} dimensions.",
        is_dim=True,
    )


def chosen_parameters(study: Study) -> TableBlock:
    """Return preset and parameters of every model, and the classes they were chosen on."""
    rows = []
    for model, runs in study.runs.items():
        for run in {run["protocol"]: run for run in runs}.values():  # the same for every seed
            preset = run["settings"]["preset"]
            is_one_of_many = len(study.by_protocol) > 1 and "n_shot" in run["results"]
            shots = f", {shots_label(run)}" if is_one_of_many else ""
            where = _choice(parameters_of(run), study.collection.selection_of(run))
            rows.append([f"{model}{shots}", preset, *where])
            zero = run["settings"].get("zero_parameters")
            if zero is not None and 0 in run["results"].get("shots", ()):
                where = _choice(zero, study.collection.zero_selection_of(run))
                rows.append([f"{model}, K = 0, as for zero-shot learning", preset, *where])
    headings = ["model", "preset", "chosen", "chosen on"]
    return TableBlock(headings, rows, "Chosen parameters")


def preset_note(runs: Iterable[Record]) -> Text | None:
    """Describe the presets, if some model does not have the paper's."""
    if all(run["settings"]["preset"] == "paper" for run in runs):
        return None
    return Text(
        "Preset paper: features and prototypes at unit length. Preset recommended: features "
        "power-transformed, centered, brought to unit length and whitened within classes, "
        "prototypes power-transformed, centered and brought to unit length, all learned from "
        "training classes. The model recommended chooses the powers and the shrinkage, and centers "
        "the prototypes of all classes.",
        is_dim=True,
    )


def describe_repetition(study: Study) -> list[Block]:
    """Return commands, seeds and hashes, and the cost of the runs."""
    runs = [run for found in study.runs.values() for run in found]
    commands = sorted({run.get("command") or ABSENT for run in runs})
    seeds = sorted({run["seed"] for run in runs})
    hashes = sorted({run["data"]["sha256"][:16] for run in runs})
    zonkeys = sorted({run["versions"]["zonkey"] for run in runs})
    text = (
        f"Seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}; data sha256 "
        f"{', '.join(hashes)}; zonkey {', '.join(zonkeys)}."
    )
    blocks: list[Block] = [Code("\n".join(commands)), Text(text, is_dim=True)]
    # Zero-shot and few-shot runs may have different splits of the same data.
    found = {(is_zero_shot(run["protocol"]), run["data"]["sha256"]) for run in runs}
    if len(found) > len(dict(found)) or len(zonkeys) > 1:
        warning = "These runs differ in data or version: run the command again before you compare."
        blocks.append(Text(warning))
    return [*blocks, _cost(runs)]


def _cost(runs: list[Record]) -> TableBlock:
    seconds = [run["seconds"] for run in runs]
    memory = [run["peak_memory_mb"] for run in runs if run.get("peak_memory_mb")]
    versions = sorted(
        {", ".join(f"{name} {number}" for name, number in run["versions"].items()) for run in runs}
    )
    machines = sorted(
        {f"{run['machine']['system']}, {run['machine']['cpus']} cores" for run in runs}
    )
    row = [
        str(len(runs)),
        f"{sum(seconds):.1f} s",
        f"{max(memory):.0f} MB" if memory else ABSENT,
        "; ".join(machines),
        "; ".join(versions),
    ]
    headings = ["runs", "total wall time", "peak memory", "machine", "versions"]
    return TableBlock(headings, [row], is_page_only=True)


def _choice(chosen: dict[str, Any] | None, selection: Record | None) -> list[str]:
    """Return parameters, the classes they were chosen on, and the size of the grid."""
    if not chosen:
        return ["nothing to choose", ABSENT]
    text = ", ".join(f"{name} {value}" for name, value in sorted(chosen.items()))
    if selection is None:
        return [text, "not recorded"]
    settings, n_points = selection["settings"], len(selection["results"]["points"])
    if not n_points:
        classes = "validation" if settings.get("validation") else "held-out training"
        return [text, f"{classes} classes, by the model itself"]
    if "n_folds" in settings:
        where = f"{settings['n_folds']} class-wise folds of the training classes"
    elif settings["n_trials"] is None:
        where = "all validation classes at once"
    else:
        where = f"{settings['n_trials']} trials of validation classes"
    rest = f"; the rest as for {settings['start_of']}" if "start_of" in settings else ""
    return [text, f"{where}, {n_points} points{rest}"]


def summary_section(collection: Collection) -> Section:
    """Return the claims by verdict, what depends on the reading, and what the paper has not."""
    judgments = judge(collection)
    found = findings(judgments)
    yes, no, open_ = (len(found[verdict]) for verdict in (REPRODUCES, FAILS, UNDECIDED))
    counts = f"reproduced {yes}, not reproduced {no}, undecided {open_}"
    opening: list[Block] = [
        *_quick_note(collection),
        Text(f"Claims of the paper, counted for each data set and reading: {counts}."),
        *(Text(rule, is_dim=True) for rule in RULES),
        Text(
            f"About {yes + no + open_} claims are tested at 95 % each, without correction for "
            "multiple tests: some verdicts may be due to chance.",
            is_dim=True,
        ),
        *_comparability(collection),
    ]
    if collection.n_left_out:
        text = f"{collection.n_left_out} records with other settings than seed 0 are left out."
        opening.append(Text(text, is_dim=True))
    titles = {
        REPRODUCES: "What reproduces",
        FAILS: "What does not reproduce",
        UNDECIDED: "What the records leave undecided",
    }
    readings = ("claim of the paper", "source", "data", *READINGS)
    parts = [
        Part("In short", opening),
        *(_list_rows(title, _HEADINGS, found[verdict]) for verdict, title in titles.items()),
        _list_rows("Which verdicts change with the reading", readings, _list_by_reading(judgments)),
        _list_rows("What we add", ("addition", "data", "result"), additions(collection)),
    ]
    return Section("Summary", parts)


def _quick_note(collection: Collection) -> list[Text]:
    """Name the experiments with quick runs, by data set."""
    found: dict[str, list[str]] = {}
    for studies in collection.studies().values():
        for study in studies:
            if study.is_quick:
                found.setdefault(study.data, []).append(study.experiment.title)
    return [Text(f"Quick runs of {data}: {'; '.join(names)}.") for data, names in found.items()]


def _list_by_reading(judgments: list[Judgment]) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for found in find_changed(judgments):
        one = next(iter(found.values()))
        text = one.claim.text.format(**one.finding.facts)
        verdicts = [found[name].finding.verdict if name in found else ABSENT for name in READINGS]
        rows.append([text, one.claim.source, one.data, *verdicts])
    return rows


def _list_rows(title: str, headings: Sequence[str], rows: list[list[Cell]]) -> Part:
    return Part(title, [TableBlock(headings, rows) if rows else Text("Nothing.")])


def findings(judgments: Iterable[Judgment]) -> dict[str, list[list[Cell]]]:
    """Return rows of claim, source, data set and evidence, by verdict."""
    found: dict[str, list[list[Cell]]] = {REPRODUCES: [], FAILS: [], UNDECIDED: []}
    for judgment in judgments:
        finding, source = judgment.finding, judgment.claim.source
        where = f"{judgment.data}, quick runs" if judgment.is_quick else judgment.data
        found[finding.verdict].append([judgment.text, source, where, finding.evidence])
    return found


def additions(collection: Collection) -> list[list[Cell]]:
    """Return rows of name, data set and result for what the paper does not have."""
    found: list[list[Cell]] = []
    for name, tell in _ADDITIONS.items():
        for data in collection.data_names:
            result = tell(collection, data)
            if result:
                found.append([name, data, result])
    return found


def _comparability(collection: Collection) -> list[Text]:
    """Name the data sets on which the paper used other features."""
    texts = []
    for data in collection.data_names:
        run = collection.first("zero-shot", data, "BPL")
        metric = "hit@5" if data == "imnet" else "zsl"
        figure = find_printed(EXPERIMENTS["pure-zsl"].source, data, metric).get("BPL")
        if run and figure and not compares(run, figure):
            text = f"{data}: the paper used {figure.features} features, these records"
            rest = "Figures are not comparable; rankings may be."
            texts.append(Text(f"{text} {describe_features(run)}. {rest}"))
    return texts


def _tell_any_shot(collection: Collection, data: str) -> str | None:
    run = collection.first("all-classes", data, "BPL (SFSP1)")
    if run is None or 0 not in run["results"]["shots"]:
        return None
    shots = run["results"]["shots"]
    ends = [average_repetitions(run, "hit@1", number) for number in (shots[0], shots[-1])]
    low, high = (value.percent() for value in ends if value is not None)
    return f"one model from K = 0 (hit@1 {low}) to K = {shots[-1]} (hit@1 {high})"


def _tell_area(collection: Collection, data: str) -> str | None:
    found = accuracy_column(collection.study("generalized-zsl", data), "ausuc").values
    texts = [f"{model} {value.percent()}" for model, value in found.items() if value is not None]
    return ", ".join(texts) or None


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
