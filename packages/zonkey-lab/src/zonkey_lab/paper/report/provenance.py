"""How the runs of a data set were made: commands, seeds, hashes, versions, machines, cost."""

from __future__ import annotations

import re

from ..experiments import is_zero_shot
from ..records import Record
from .blocks import Block, Code, TableBlock, Text
from .collection import Collection
from .measures import ABSENT

_MODEL = re.compile(r""" --(model|device) ('[^']*'|\S+)""")


def provenance_blocks(collection: Collection, data: str) -> list[Block]:
    """Return commands, seeds, hashes, versions and machines, and the cost of the runs."""
    runs = collection.of_data(data)
    commands = sorted({_MODEL.sub("", run.get("command") or ABSENT) for run in runs})
    seeds = sorted({run["seed"] for run in runs})
    hashes = sorted({run["data"]["sha256"][:16] for run in runs})
    zonkeys = sorted({run["versions"]["zonkey"] for run in runs})
    text = (
        f"Seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}; data sha256 "
        f"{', '.join(hashes)}; zonkey {', '.join(zonkeys)}; {_describe_torch(runs)}."
    )
    note = Text("Commands; some with --model, for a part of the models.", is_dim=True)
    blocks: list[Block] = [note, Code("\n".join(commands)), Text(text, is_dim=True)]
    # Zero-shot and few-shot runs may have different splits of the same data.
    found = {(is_zero_shot(run["protocol"]), run["data"]["sha256"]) for run in runs}
    if len(found) > len(dict(found)) or len(zonkeys) > 1:
        warning = "These runs differ in data or version: run the commands again before you compare."
        blocks.append(Text(warning))
    return [*blocks, _cost(runs)]


def _describe_torch(runs: list[Record]) -> str:
    """Return the versions of torch and the GPUs that runs name."""
    torch = sorted({run["versions"]["torch"] for run in runs if "torch" in run["versions"]})
    gpus = sorted({run["machine"]["gpu"] for run in runs if run["machine"].get("gpu")})
    text = f"torch {', '.join(torch)}" if torch else "no version of torch recorded"
    return f"{text}; GPU: {', '.join(gpus)}" if gpus else text


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
