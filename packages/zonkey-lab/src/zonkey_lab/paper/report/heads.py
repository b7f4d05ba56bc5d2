"""Trained few-shot systems: heads over frozen features, and what they are without training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..records import Record
from .collection import Study
from .measures import shots_label

# Systems that are published as networks, and what their head equals before the first step.
HEADS: Mapping[str, str] = {
    "LSL": "logistic regression on the shots",
    "Matching Net": "a vote of the shots by cosine",
    "Meta-Learn LSTM": "close to SimpleShot",
    "MAML": "close to SimpleShot",
    "MAML, first order": "close to SimpleShot",
    "Prototypical Net": "SimpleShot",
    "mAP-SSVM": "mean cosines with the shots",
    "Relation Net": "close to SimpleShot",
    "SNAIL": "a soft nearest-neighbor rule",
    "PPA": "products with class means",
}
HEAD_NOTE = (
    "Head: trained on frozen features; the publication trains a whole network. Untrained: no epoch "
    "improved validation classes (max_iter 0), and the head equals what is named."
)
_EPOCHS = "max_iter"


def untrained_shots(runs: Sequence[Record]) -> list[int]:
    """Return the numbers of shots for which the chosen number of epochs is 0."""
    results, settings = runs[0]["results"], runs[0]["settings"]
    by_shots = settings.get("parameters_by_shots")
    if by_shots is not None:
        return [int(K) for K, chosen in by_shots.items() if chosen.get(_EPOCHS) == 0]
    shots = results.get("shots", [results.get("n_shot", 0)])
    return list(shots) if settings.get("parameters", {}).get(_EPOCHS) == 0 else []


def untrained_text(runs: Sequence[Record], only: int | None = None) -> str:
    """Return that a head is untrained, and what it equals; "" if it is trained.

    Of several numbers of shots, if it is untrained with all of them, or with `only` so many.
    """
    if not runs or runs[0]["model"] not in HEADS:
        return ""
    shots = runs[0]["results"].get("shots", [runs[0]["results"].get("n_shot", 0)])
    wanted = {K for K in shots if K} if only is None else {only}
    if not wanted <= {*untrained_shots(runs)}:
        return ""
    return f"untrained ({_EPOCHS} 0: {HEADS[runs[0]['model']]})"


def describe_heads(study: Study) -> dict[str, str]:
    """Return which models of few-shot tables are heads, and with which shots untrained."""
    if study.experiment.protocol not in ("trials", "all-classes"):
        return {}
    found: dict[str, str] = dict.fromkeys(study.runs, "")
    for protocol, runs_of in study.by_protocol.items():
        for model, runs in runs_of.items():
            if model not in HEADS:
                continue
            text = found[model] = found[model] or "head"
            shots = untrained_shots(runs)
            if shots:
                which = shots_label(runs[0]) if "trials" in protocol else _list_shots(shots)
                rest = f"untrained, {which}"
                equal = "" if "untrained" in text else f": {HEADS[model]}"
                found[model] = f"{text}; {rest}{equal}"
    return found if any(found.values()) else {}


def _list_shots(shots: Sequence[int]) -> str:
    return f"K = {', '.join(map(str, shots))}"
