"""The systems of a comparison by name: which of them can run on this machine, and at what cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.util import find_spec
from typing import Any

from zonkey.files.dataset import Dataset

from ..paper.bench.models import FEW_SHOT, ZERO_SHOT, AnyShotModel, FewShotModel, ZeroShotModel
from ..paper.experiments import (
    END_TO_END,
    PEERS,
    PUBLISHED_SIZES,
    RANDOM,
    RECOMMENDED,
    SHOT_PEERS,
    STARTS_FROM,
    TORCH_PEERS,
    TRANSDUCTIVE_SHOTS,
)
from .simple import NearestPrototype

ZERO, SHOTS = "zero-shot", "few-shot"  # tasks
_OTHER = {ZERO: SHOTS, SHOTS: ZERO}
NEAREST = "nearest prototype"
# Classifiers of `zonkey.evaluate` that know seen classes only.
SEEN_ONLY = {"nearest mean": "nearest-mean", "logistic regression": "logistic"}
_OWN = {NEAREST: ZeroShotModel({}, {"centered": [True, False]}, "raw", NearestPrototype)}
# Networks on pixels take no features; those of a published size take hours.
_LEFT_OUT = {*END_TO_END, *PUBLISHED_SIZES}
_EVERY: dict[str, dict[str, Any]] = {
    ZERO: {**ZERO_SHOT, **_OWN},
    SHOTS: {name: spec for name, spec in FEW_SHOT.items() if name not in _LEFT_OUT},
}
_USUAL: dict[str, tuple[str, ...]] = {
    ZERO: (
        *SEEN_ONLY, NEAREST, "FPL", "RPL", "BPL", "BPL, as printed", "BPL, unscaled", "exemplars",
        "exemplars, recommended features", "ESZSL, recommended features", *PEERS, *TORCH_PEERS,
        RECOMMENDED,
    ),
    SHOTS: (
        "NN", "nearest mean", "shots alone", "prototype alone", "BPL (SFSP1)",
        "BPL (SFSP1), unscaled", *SHOT_PEERS, *TRANSDUCTIVE_SHOTS, RECOMMENDED,
    ),
}  # fmt: skip
# Seconds of one fit with default parameters to the 7057 training samples of CUB with 1280
# features, on one core; systems without an entry take about `_USUAL_COST`.
_COSTS = {
    "nearest mean": 0.1, "logistic regression": 4.0, NEAREST: 0.1, "RPL": 0.5, "exemplars": 0.1,
    "exemplars, recommended features": 1.0, "ESZSL, recommended features": 1.0, "DAP": 1.4,
    "ConSE": 1.3, "SSE": 1.4, "DeViSE": 1.5, "SJE": 0.9, "ALE": 1.1, "LATEM": 2.3, "ESZSL": 0.6,
    "SynC": 1.6, "SAE": 0.6, "EXEM": 1.3, "recommended": 0.1, "BPL, ridge chosen": 1.5,
}  # fmt: skip
_USUAL_COST, _TORCH_COST = 0.8, 30.0
_SAMPLES, _FEATURES, _CLASSES = 7057, 1280, 150  # that these seconds are of
# Systems that compare samples with all seen classes, and seen classes with each other.
_BY_PAIRS = ("DeViSE", "SJE", "ALE", "LATEM", "SynC", "ConSE", "logistic regression")
_BY_CLASSES = ("SSE", "EXEM", "exemplars", "recommended")
GROUPS = ("numpy", "torch", "all")


@dataclass(frozen=True)
class System:
    """A system of a comparison, on zero-shot or on few-shot tasks."""

    name: str
    task: str = ZERO

    @property
    def spec(self) -> Any:
        """The entry of the catalog; None for classifiers that know seen classes only."""
        return None if self.is_seen_only else _EVERY[self.task][self.name]

    @property
    def is_seen_only(self) -> bool:
        """Whether it knows no class without samples."""
        return self.task == ZERO and self.name in SEEN_ONLY

    @property
    def is_random(self) -> bool:
        """Whether its results depend on the seed."""
        if self.task == ZERO:
            return self.name in RANDOM
        return isinstance(self.spec, FewShotModel) and self.spec.is_trained

    @property
    def chooses_itself(self) -> bool:
        """Whether it chooses its parameters itself, on folds of its own."""
        return isinstance(self.spec, AnyShotModel)

    @property
    def is_transductive(self) -> bool:
        """Whether it learns from unlabeled test samples."""
        return bool(getattr(self.spec, "is_transductive", False))

    @property
    def uses_torch(self) -> bool:
        """Whether torch trains it."""
        return bool(getattr(getattr(self.spec, "classifier", None), "uses_torch", False))

    def seconds_per_fit(self, data: Dataset) -> float:
        """Return about how long a fit takes on one core."""
        usual = _TORCH_COST if self.uses_torch else _USUAL_COST
        n_classes = len(data.seen_classes) / _CLASSES
        size = n_classes**2 if self.name in _BY_CLASSES else len(data.split.train) / _SAMPLES
        size *= data.shape[1] / _FEATURES * (n_classes if self.name in _BY_PAIRS else 1.0)
        return _COSTS.get(self.name, usual) * max(0.02, size)

    def reason_against(self, data: Dataset) -> str | None:
        """Return why it cannot run on this machine or these data; None if it can."""
        if self.uses_torch and not has_torch():
            return "needs torch, which is not installed"
        if self.name == NEAREST and data.shape[1] != data.prototypes.n_dimensions:
            return "samples and prototypes are not vectors of one space"
        return None


@cache
def has_torch() -> bool:
    """Whether torch is installed."""
    return find_spec("torch") is not None


def find_systems(names: Sequence[str] | None, task: str = ZERO) -> list[System]:
    """Return the systems of these names and groups; None: the usual ones.

    Among few-shot systems there may be transductive ones, which have a table of their own.
    """
    every = [System(name, task) for name in dict.fromkeys((*_USUAL[task], *_EVERY[task]))]
    # A choice that starts from that of another system is no choice under the same conditions.
    every = [one for one in every if task == SHOTS or one.name not in STARTS_FROM]
    every = [one for one in every if task == SHOTS or not one.is_transductive]
    usual = [one for one in every if one.name in _USUAL[task]]
    if not names:
        return usual
    folded = {one.name.casefold(): one for one in every}
    groups = {
        "numpy": [one for one in usual if not one.uses_torch],
        "torch": [one for one in usual if one.uses_torch],
        "all": every,
    }
    found: dict[System, None] = {}
    for name in names:
        asked = " ".join(name.casefold().split())
        if asked in groups:
            found |= dict.fromkeys(groups[asked])
        elif asked in folded:
            found[folded[asked]] = None
        else:
            spelled = {key: one.name for key, one in folded.items()}
            others = {key.casefold() for key in (*_USUAL[_OTHER[task]], *_EVERY[_OTHER[task]])}
            kind = task if asked in others else ""
            _refuse(name, [*folded, *GROUPS], spelled, kind)
    return list(found)


def _refuse(name: str, known: list[str], spelled: dict[str, str], task: str) -> None:
    if task:  # a system of the other one
        hint = "Leave out" if task == SHOTS else "Add"
        raise ValueError(f"`models` must name {task} systems; got {name!r}. {hint} --shots.")
    near = get_close_matches(name.casefold(), known, n=3, cutoff=0.5)
    remedy = "`zonkey methods` lists them."
    if near:
        remedy = f"Did you mean {' or '.join(repr(spelled.get(each, each)) for each in near)}?"
    raise ValueError(
        f"`models` must name systems, or one of {', '.join(GROUPS)}; got {name!r}. {remedy}"
    )


def split_names(given: Sequence[str] | None) -> list[str] | None:
    """Return names from texts with commas between them; names of systems may hold commas."""
    if not given:
        return None
    known = {name.casefold() for specs in _EVERY.values() for name in specs}
    found: list[str] = []
    for text in given:
        parts = [part.strip() for part in text.split(",")]
        while parts:
            # The longest run of parts that is a name, else one part.
            n = next((n for n in range(len(parts), 0, -1) if _join(parts[:n]) in known), 1)
            found.append(", ".join(parts[:n]))
            parts = parts[n:]
    return [name for name in found if name]


def _join(parts: Sequence[str]) -> str:
    return ", ".join(parts).casefold()
