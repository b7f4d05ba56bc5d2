"""Where figures come from: data, chosen parameters, and the command that repeats them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..bench import Experiment
from .blocks import Block, Code, Table, Text
from .collection import Collection, parameters_of
from .measures import shots_label
from .tables import ABSENT, features_used

Record = dict[str, Any]


def about_data(run: Record) -> Text:
    """Return what was learned from and tested on."""
    data = run["data"]
    sizes = data["n_samples"]
    return Text(
        f"{data['name']}, split {data['split']}: {sizes['train']} training samples of "
        f"{data['n_seen']} classes, {sizes['test_unseen']} test samples of {data['n_unseen']} "
        f"unseen classes (chance: {100 / max(1, data['n_unseen']):.1f} %). Features: "
        f"{features_used(run)}, {data['n_features']} dimensions.",
        is_dim=True,
    )


def chosen_parameters(experiment: Experiment, data: str, collection: Collection) -> Table | None:
    """Return preset and parameters of every model, and which classes they were chosen on."""
    rows = []
    several = len(collection.protocols(experiment, data)) > 1
    for runs in collection.of(experiment, data).values():
        for run in _one_a_protocol(runs):
            shots = f", {shots_label(run)}" if several else ""
            where = _choice(parameters_of(run), collection.selection_of(run))
            rows.append([f"{run['model']}{shots}", preset_of(run), *where])
            zero = run["settings"].get("zero_parameters")
            if zero is not None and 0 in run["results"].get("shots", ()):
                where = _choice(zero, collection.zero_selection_of(run))
                name = f"{run['model']}, K = 0, as for zero-shot learning"
                rows.append([name, preset_of(run), *where])
    headings = ["model", "preset", "chosen", "chosen on"]
    return Table(headings, rows, "Chosen parameters") if rows else None


def preset_of(run: Record) -> str:
    """Return which preprocessing came first; older records know but one."""
    return run["settings"].get("preset", "paper")


def preset_note(runs: Iterable[Record]) -> Text | None:
    """Say what the presets do, where some model has another one than the paper's."""
    if all(preset_of(run) == "paper" for run in runs):
        return None
    return Text(
        "Preset paper: features and prototypes at unit length. Preset recommended: features "
        "power-transformed, centered, brought to unit length and whitened within classes, "
        "prototypes power-transformed, centered and brought to unit length, all learned from "
        "training classes.",
        is_dim=True,
    )


def how_to_repeat(experiment: Experiment, data: str, collection: Collection) -> list[Block]:
    """Return the commands, seeds and hashes, and what the runs took."""
    runs = [run for found in collection.of(experiment, data).values() for run in found]
    commands = sorted({run.get("command") or ABSENT for run in runs})
    seeds = sorted({run["seed"] for run in runs})
    hashes = sorted({run["data"]["sha256"][:16] for run in runs})
    zonkeys = sorted({run["versions"]["zonkey"] for run in runs})
    text = (
        f"Seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}; data sha256 "
        f"{', '.join(hashes)}; zonkey {', '.join(zonkeys)}."
    )
    blocks: list[Block] = [Code("\n".join(commands)), Text(text, is_dim=True)]
    if len(hashes) > 1 or len(zonkeys) > 1:
        warning = "These runs differ in data or version: run the command again before you compare."
        blocks.append(Text(warning))
    return [*blocks, _cost(runs)]


def _cost(runs: list[Record]) -> Table:
    seconds = [run["seconds"] for run in runs]
    memory = [run["peak_memory_mb"] for run in runs if run.get("peak_memory_mb")]
    versions = sorted({_versions(run) for run in runs})
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
    headings = ["runs", "wall time in all", "peak memory", "machine", "versions"]
    return Table(headings, [row], is_page_only=True)


def _versions(run: Record) -> str:
    return ", ".join(f"{name} {number}" for name, number in run["versions"].items())


def _one_a_protocol(runs: list[Record]) -> list[Record]:
    return list({run["protocol"]: run for run in reversed(runs)}.values())[::-1]


def _choice(chosen: dict[str, Any] | None, selection: Record | None) -> list[str]:
    text = parameters_text(chosen or {}) or "nothing to choose"
    return [text, selected_on(selection) if chosen else ABSENT]


def parameters_text(parameters: dict[str, Any]) -> str:
    """Return parameters as text, sorted."""
    return ", ".join(f"{name} {value}" for name, value in sorted(parameters.items()))


def selected_on(selection: Record | None) -> str:
    """Return which classes parameters were chosen on, and by how much."""
    if selection is None:
        return "not recorded"
    n_points = len(selection["results"]["points"])
    settings = selection["settings"]
    rest = f"; the rest as for {settings['start_of']}" if "start_of" in settings else ""
    if not n_points:
        return "no classes to choose on"
    if "n_folds" in settings:
        where = f"{settings['n_folds']} class-wise folds of the training classes"
    elif settings["n_trials"] is None:
        where = "all validation classes at once"
    else:
        where = f"{settings['n_trials']} trials of validation classes"
    return f"{where}, {n_points} points{rest}"
