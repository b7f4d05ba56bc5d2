"""The experiments of section 5 of the paper, and five more, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .catalog import FEW_SHOT

_ABLATION = ("FPL", "RPL", "BPL0", "BPL1", "BPL")
_SHOT_MODELS = tuple(FEW_SHOT)
_RECOMMENDED = "recommended"
_BEYOND = (
    "BPL", "BPL0", "RPL", "SAE (F to S)", "SAE (S to F)", "ESZSL", "exemplars",
    "BPL0, recommended features", "RPL, recommended features", "ESZSL, recommended features",
    "exemplars, recommended features", _RECOMMENDED,
)  # fmt: skip
_ON_TOP = (
    _RECOMMENDED, "recommended + BPL1, unscaled", "recommended + BPL, unscaled",
    "recommended + BPL", "recommended + assigned, unscaled",
)  # fmt: skip
_ZERO_SHOT_PROTOCOLS = ("zero-shot", "map", "convergence", "selection")


@dataclass(frozen=True)
class Experiment:
    """What one table or figure needs.

    Attributes
    ----------
    name, title : str
    paper : str
        Label of the table or figure in the paper; "" for what the paper does not have.
    source : str
        Table of the paper whose printed figures stand beside, as in `printed`.
    protocol : str
        What is measured: a key of `runner.PROTOCOLS`.
    models : tuple of str
    metrics : tuple of str
        Entries of the results that the table shows.
    subject : str
        Model that the others are compared with, without which there is nothing to tell; "" for the
        paper's own.
    """

    name: str
    title: str
    paper: str
    source: str
    protocol: str
    models: tuple[str, ...]
    metrics: tuple[str, ...]
    subject: str = ""


_LIST = (
    Experiment(
        "pure-zsl", "Zero-shot learning", "Table pzsl", "pzsl", "zero-shot",
        (*_ABLATION, "BPL, unscaled"), ("zsl", "hit@5"),
    ),
    Experiment(
        "generalized-zsl", "Generalized zero-shot learning", "Table gsrl", "gsrl", "zero-shot",
        (*_ABLATION, "BPL, unscaled"), ("acc_s", "acc_u", "hm", "ausuc"),
    ),
    Experiment("ablation", "Ablation", "Fig. comp", "", "zero-shot", _ABLATION, ("zsl",)),
    Experiment("tsne", "Maps of unseen classes", "Fig. vis", "", "map", _ABLATION, ()),
    Experiment(
        "alternatives", "Alternatives to competition", "Table gradopt", "gradopt", "zero-shot",
        ("without ambiguity handling", "minimum entropy", "BPL"), ("zsl",),
    ),
    Experiment(
        "large-scale-fsl", "All novel classes at once", "Fig. metafsl1", "", "all-classes",
        _SHOT_MODELS, ("hit@1", "hit@5"),
    ),
    Experiment(
        "synthesis", "Synthesis from shots or from base samples", "Table datagen", "datagen",
        "all-classes", ("BPL (SFSP1)", "BPL (SFSP2)"), ("hit@1", "hit@5"),
    ),
    Experiment(
        "runtime", "Time of a few-shot fit", "Table fsltime", "fsltime", "runtime",
        ("BPL (SFSP1)", "BPL (SFSP2)"), ("seconds",),
    ),
    Experiment(
        "mini-imagenet", "5-way trials", "Table metafsl", "metafsl", "trials",
        _SHOT_MODELS, ("accuracies",),
    ),
    Experiment("sensitivity", "Sensitivity to parameters", "", "", "selection", ("BPL",), ()),
    Experiment("convergence", "Convergence of Algorithm 1", "", "", "convergence", ("BPL",), ()),
    Experiment(
        "any-shot", "From no shot to several", "", "", "all-classes",
        ("BPL (SFSP1)", "BPL (SFSP2)", _RECOMMENDED), ("hit@1", "hit@5"),
    ),
    Experiment(
        "beyond", "Beyond the paper: the recommended model and its peers", "", "", "zero-shot",
        _BEYOND, ("zsl", "hm", "hm_calibrated", "ausuc"), subject=_RECOMMENDED,
    ),
    Experiment(
        "on-top", "Do synthesis and competition help on top?", "", "", "zero-shot",
        _ON_TOP, ("zsl", "hm", "ausuc"), subject=_RECOMMENDED,
    ),
)  # fmt: skip
EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in _LIST}


@dataclass(frozen=True)
class Scale:
    """How much is run: many seeds and trials for figures to cite, few for a quick look."""

    n_seeds: int = 5
    n_folds: int = 5
    n_trials: int = 600
    n_selection_trials: int = 60
    n_repeats: int = 5
    most_shots: int = 5
    quick: bool = False

    def options(self, protocol: str) -> dict[str, Any]:
        """Return what a protocol takes beside model, data, parameters and seed."""
        if protocol.startswith("trials"):
            return {"n_trials": self.n_trials}
        if protocol == "all-classes":
            return {"most_shots": self.most_shots, "n_repeats": self.n_repeats}
        if protocol == "runtime":
            return {"most_shots": self.most_shots}
        return {"quick": True} if protocol == "convergence" and self.quick else {}


FULL = Scale()
QUICK = Scale(
    n_seeds=2,
    n_folds=3,
    n_trials=30,
    n_selection_trials=10,
    n_repeats=2,
    most_shots=3,
    quick=True,
)


def is_zero_shot(protocol: str) -> bool:
    """Say whether a protocol is of zero-shot models; others are of few-shot ones."""
    return protocol in _ZERO_SHOT_PROTOCOLS
