"""The section of every experiment: table, figure, comparisons, classes, and how to repeat it."""

from __future__ import annotations

from ..bench import Experiment
from .blocks import Block, Part, Report, Section, Text
from .classes import class_blocks
from .collection import Collection
from .comparisons import comparison_table
from .diagnostics import convergence_table, map_table, sensitivity_table
from .experiment_figures import experiment_drawing
from .on_top import on_top_blocks
from .provenance import about_data, chosen_parameters, how_to_repeat, preset_note
from .runtimes import runtime_table
from .summary import QUICK_BANNER, summary_section
from .tables import experiment_table

TITLE = "What zonkey measures, beside what the paper prints"
_OURS = "BPL"
_WITH_RIDGES = ("pure-zsl", "ablation")
_RIDGE_NOTE = Text(
    "FPL and RPL have their ridge (beta) chosen; the BPL models keep the paper's beta of 0.01.",
    is_dim=True,
)


_CALIBRATION_NOTE = Text(
    "HM, calibrated: the harmonic mean with the penalty of seen classes that held-out training "
    "classes ask for. Peers do not choose one.",
    is_dim=True,
)


def build_report(collection: Collection) -> Report:
    """Return a summary, and a section for each experiment that has records."""
    sections = [summary_section(collection)]
    for experiment, names in collection.experiments():
        source = f"{experiment.paper} of the paper" if experiment.paper else "Not in the paper"
        parts = [Part(name, experiment_blocks(experiment, name, collection)) for name in names]
        note = f"{source}; zonkey bench {experiment.name}."
        sections.append(Section(experiment.title, parts, note))
    return Report(TITLE, sections)


def experiment_blocks(experiment: Experiment, data: str, collection: Collection) -> list[Block]:
    """Return all about an experiment on a data set."""
    runs = {model: found[0] for model, found in collection.of(experiment, data).items()}
    blocks: list[Block | None] = [
        QUICK_BANNER if data in collection.quick_names else None,
        about_data(next(iter(runs.values()))),
        experiment_table(experiment, data, collection),
        *_own_tables(experiment, data, collection),
        _spread_note(experiment, data, collection),
        _RIDGE_NOTE if experiment.name in _WITH_RIDGES else None,
        _CALIBRATION_NOTE if "hm_calibrated" in experiment.metrics else None,
        chosen_parameters(experiment, data, collection),
        preset_note(runs.values()),
        experiment_drawing(experiment, data, collection),
        comparison_table(experiment, data, collection),
        *(on_top_blocks(data, collection) if experiment.name == "on-top" else []),
    ]
    if experiment.name == "pure-zsl":
        shown = runs.get(_OURS) or list(runs.values())[-1]
        blocks += class_blocks(shown, f"{experiment.name}-{data}-confusions")
    blocks += how_to_repeat(experiment, data, collection)
    return [block for block in blocks if block is not None]


def _own_tables(experiment: Experiment, data: str, collection: Collection) -> list[Block]:
    runs = {model: found[0] for model, found in collection.of(experiment, data).items()}
    if experiment.name == "runtime":
        return [runtime_table(experiment, data, collection)]
    if experiment.protocol == "map":
        return [map_table(runs)]
    tables = {"selection": sensitivity_table, "convergence": convergence_table}
    make = tables.get(experiment.protocol)
    return [make(run) for run in runs.values()] if make else []


def _spread_note(experiment: Experiment, data: str, collection: Collection) -> Text | None:
    """Say what stands behind the plus-minus."""
    runs = list(collection.of(experiment, data).values())
    first, most = runs[0][0], max(len(found) for found in runs)
    text = None
    if experiment.protocol == "zero-shot" and most > 1:
        text = f"In percent; mean ± standard deviation over {most} seeds where the seed matters."
    elif experiment.protocol == "trials":
        results = first["results"]
        text = (
            f"In percent; mean ± half the 95 % interval over {results['n_trials']} trials of "
            f"{results['n_way']} classes and {results['n_query']} queries each."
        )
    elif experiment.protocol == "all-classes":
        n_repeats, n_novel = len(first["results"]["hit@1"]), first["results"]["n_novel"]
        text = (
            f"In percent; mean ± standard deviation over {n_repeats} draws of shots, all "
            f"{n_novel} novel classes at once."
        )
    elif experiment.protocol == "selection" and "n_folds" in first["settings"]:
        text = f"Mean ± standard deviation over {first['settings']['n_folds']} class-wise folds."
    return None if text is None else Text(text, is_dim=True)
