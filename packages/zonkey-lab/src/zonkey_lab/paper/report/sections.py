"""The report: what reproduces on one screen, and the details of every experiment behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ..records import Record
from .blocks import Block, Document, Drawing, Part, Section, Text
from .claims import judge
from .classes import class_tables, confusions, find_confused
from .collection import Collection, Study
from .comparisons import comparison_table
from .evidence import evidence_section, rules_section
from .figures import draw_confusions, experiment_drawing
from .fits import guard_table
from .parameters import parameter_blocks
from .provenance import provenance_blocks
from .summary import claims_section, opening_section
from .tables import experiment_tables, own_tables

TITLE = "The claims of the paper, measured"
_OURS = "BPL"
_HOW_TO_READ = (
    "In percent unless a heading says otherwise. Figures of models that draw random numbers: mean "
    "± standard deviation over seeds. As printed: mu is never lowered, even if a step is "
    "indefinite. Unscaled: the perturbation is not divided by the squared norm of W. Per "
    "neighbor: every neighboring seen class gives 15 samples. Sampled base: every episode draws "
    'base samples of its own. FPL, RPL and "BPL, ridge chosen" have their ridge (beta) chosen; '
    "other BPL models keep the paper's 0.01. Features and prototypes have unit length; in models "
    "named recommended they are power-transformed, centered, brought to unit length and whitened "
    "within classes, all learned from training classes. HM, calibrated: the harmonic mean at the "
    "penalty of seen classes chosen on held-out training classes."
)
QUICK_BANNER = Text(
    "Quick runs: few seeds, folds and trials; a look, not figures to cite.", is_banner=True
)
_QUERIES = {None: "", True: "; queries fixed", False: "; all other samples are queries"}
_MOST_CLASSES = 50  # that a confusion matrix can show
_CONTAINED = {"synthesis": "large-scale-fsl"}  # whose tables have all figures of the other
_WITH_GUARD = ("pure-zsl", "alternatives", "on-top", "large-scale-fsl", "mini-imagenet")


def build_report(collection: Collection) -> Document:
    """Return what was done and found, a picture per table of the paper, and the details."""
    judged = judge(collection)
    studies = collection.studies()
    sections = [
        opening_section(collection, judged),
        claims_section(judged),
        pictures_section(studies),
        evidence_section(collection, judged),
        details_section(studies),
        runs_section(collection),
        rules_section(),
    ]
    return Document(TITLE, [section for section in sections if section.parts])


def pictures_section(studies: Mapping[str, list[Study]]) -> Section:
    """Return one picture for every table and figure of the paper, of the first data set."""
    firsts = [found[0] for found in studies.values() if found[0].experiment.paper]
    drawings = (_lead(study) for study in firsts if study.experiment.protocol != "map")
    parts = [Part("", [drawing]) for drawing in drawings if drawing is not None]
    return Section("One picture per table", parts)


def _lead(study: Study) -> Drawing | None:
    drawing = experiment_drawing(study)
    if drawing is None:
        return None
    caption = f"{study.experiment.paper}. {drawing.caption}"
    return replace(drawing, caption=caption, is_leading=True)


def details_section(studies: Mapping[str, list[Study]]) -> Section:
    """Return the tables of every experiment, folded."""
    parts = []
    for i, study in ((i, study) for found in studies.values() for i, study in enumerate(found)):
        experiment = study.experiment
        if experiment.name in _CONTAINED and study.data in _data_of(studies, experiment.name):
            continue
        source = experiment.paper or "not in the paper"
        title = f"{experiment.title}, {study.data} ({source}; zonkey bench {experiment.name})"
        is_shown = i == 0 and experiment.paper and experiment.protocol != "map"
        parts.append(Part(title, experiment_blocks(study, not is_shown), is_folded=True))
    return Section("Tables of every experiment", parts, _HOW_TO_READ)


def _data_of(studies: Mapping[str, list[Study]], name: str) -> set[str]:
    """Return the data sets of the experiment that contains another one."""
    return {study.data for study in studies.get(_CONTAINED[name], ())}


def runs_section(collection: Collection) -> Section:
    """Return chosen parameters, commands and versions by data set, folded."""
    parts = []
    for data in collection.data_names:
        chosen = parameter_blocks(collection, data)
        if chosen:
            parts.append(Part(f"Chosen parameters, {data}", chosen, is_folded=True))
        blocks = provenance_blocks(collection, data)
        parts.append(Part(f"Commands and versions, {data}", blocks, is_folded=True))
    return Section("How the runs were made", parts)


def experiment_blocks(study: Study, with_drawing: bool = True) -> list[Block]:
    """Return the blocks of an experiment on a data set."""
    name, runs = study.experiment.name, study.firsts
    blocks: list[Block | None] = [
        QUICK_BANNER if study.is_quick else None,
        *experiment_tables(study),
        *own_tables(study),
        _spread_note(study),
        experiment_drawing(study) if with_drawing else None,
        guard_table(study) if name in _WITH_GUARD else None,
        comparison_table(study),
    ]
    if name == "pure-zsl":
        shown = runs.get(_OURS) or list(runs.values())[-1]
        blocks += class_blocks(shown, f"{name}-{study.data}-confusions")
    return [block for block in blocks if block is not None]


def _spread_note(study: Study) -> Text | None:
    """Explain the figures after the plus-minus sign."""
    results, settings = study.run["results"], study.run["settings"]
    is_fixed, text = results.get("queries_fixed"), None
    match study.experiment.protocol:
        case "trials":
            text = (
                f"Mean ± half the 95 % interval over {results['n_trials']} trials of "
                f"{results['n_way']} classes, queries per class: {results['n_query']}. The paper "
                "states neither the number of queries nor how parameters are chosen: both are our "
                "choice."
            )
        case "unlabeled" | "unlabeled-trials":
            text = (
                "In trials, mean ± half the 95 % interval. HM: test samples of seen "
                "and unseen classes are in one unlabeled batch. Dirichlet(2): the shares of "
                "the classes among the queries are drawn, and every query counts alike."
            )
        case "all-classes":
            text = (
                f"Mean ± standard deviation over {len(results['hit@1'])} draws of shots, all "
                f"{results['n_novel']} novel classes at once{_QUERIES[is_fixed]}."
            )
        case _ if "n_folds" in settings:
            text = f"Mean ± standard deviation over {settings['n_folds']} class-wise folds."
    n_seeds = max(len(runs) for found in study.by_protocol.values() for runs in found.values())
    if text and n_seeds > 1:
        text += f" Trained systems: over {n_seeds} seeds of the training, too."
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
