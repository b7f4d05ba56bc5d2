"""How fits behaved: what the guard on mu did, and how far W moved from its start (BPL0)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..records import Record, unpack
from .collection import Study
from .measures import ABSENT, average_seeds

START = "BPL0"  # the initial projection of Algorithm 1


def fit_columns(study: Study) -> dict[str, dict[str, str]]:
    """Return texts by model, by heading; without columns that would be empty."""
    if study.experiment.protocol in ("trials", "all-classes"):
        texts = {model: shots_guard_text(runs) for model, runs in study.runs.items()}
        shown = {model: text or ABSENT for model, text in texts.items()}
        return {"guard on mu": shown} if any(texts.values()) else {}
    if study.experiment.protocol != "zero-shot":
        return {}
    wanted: dict[str, Callable[[list[Record]], str | None]] = {"guard on mu": guard_text}
    if study.experiment.name == "alternatives":
        start = study.collection.runs("zero-shot", study.data, START)
        wanted[f"W moved from {START} (%)"] = moved_text
        wanted[f"predictions equal to {START}'s (%)"] = lambda runs: _format_share(
            compare_to_start(runs, start)
        )
    found = {}
    for heading, tell in wanted.items():
        texts = {model: tell(runs) for model, runs in study.runs.items()}
        if any(texts.values()):
            found[heading] = {model: text or ABSENT for model, text in texts.items()}
    return found


def guard_text(runs: Sequence[Record]) -> str | None:
    """Return in how many steps and seeds mu was lowered or a step indefinite; None without mu."""
    known = [run["results"] for run in runs if _competes(run["results"])]
    if not known:
        return None
    n_steps = sum(len(results["mu"]) for results in known)
    is_off = runs[0]["settings"].get("model", {}).get("guard") is False
    texts = ["off"] if is_off else []
    for key, what in (("n_lowered", "lowered mu"), ("n_indefinite", "indefinite")):
        counts = [results.get(key, 0) for results in known]
        if any(counts):
            seeds = f"{sum(count > 0 for count in counts)} of {len(known)} seeds"
            texts.append(f"{what} in {sum(counts)} of {n_steps} steps ({seeds})")
    idle = f"{'definite' if is_off else 'idle'} in all {n_steps} steps"
    return "; ".join(texts if len(texts) > is_off else [*texts, idle])


def shots_guard_text(runs: Sequence[Record]) -> str | None:
    """Return in which share of the steps of few-shot fits mu was lowered; None without mu."""
    found = []
    for run in runs:
        steps = run["results"].get("steps") or ()
        known = [steps] if isinstance(steps, dict) else [each for each in steps if each]
        if not known or not any(each["mean_mu"] or each["n_lowered"] for each in known):
            continue
        n, lowered, indefinite = (
            sum(each[name] for each in known) for name in ("n", "n_lowered", "n_indefinite")
        )
        is_off = run["settings"].get("model", {}).get("guard") is False
        text = f"lowered mu in {100 * lowered / n:.0f} % of {n} steps"
        if is_off:
            text = f"off; {100 * indefinite / n:.0f} % of {n} steps indefinite"
        shots = f"{run['results']['n_shot']}-shot: " if "n_shot" in run["results"] else ""
        found.append(f"{shots}{text}")
    return "; ".join(found) or None


def _competes(results: dict[str, Any]) -> bool:
    """Whether a fit pushes second-best classes away; other fits have a mu of 0."""
    return any(results.get("mu", ())) or bool(results.get("n_lowered"))


def moved_text(runs: Sequence[Record]) -> str | None:
    """Return the distance of W from its start, relative to the start; None if not known."""
    found = average_seeds(runs, "moved")
    if found is None:
        return None
    percent = 100 * found.mean
    return f"{percent:.0f}" if percent >= 10 else f"{percent:.2g}"


def compare_to_start(runs: Sequence[Record], start: Sequence[Record]) -> float | None:
    """Return the share of predictions that equal those of the start; None if not known."""
    if not runs or not start or start[0]["data"]["sha256"] != runs[0]["data"]["sha256"]:
        return None
    first = predictions(start[0])
    return float(np.mean([np.mean(predictions(run) == first) for run in runs]))


def predictions(run: Record, key: str = "predicted") -> np.ndarray:
    """Return the labels of the test samples of unseen classes: predicted, or the truth."""
    return np.asarray(run["results"]["classes"])[unpack(run["results"][key])]


def _format_share(share: float | None) -> str | None:
    return None if share is None else f"{100 * share:.1f}"
