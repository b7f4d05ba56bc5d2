"""Collect seconds and peak memory of recorded runs on emoji, from which `bench` estimates others.

    python tools/build_costs.py --runs docs/runs

Means over seeds. Memory is that of runs without a GPU, whose libraries alone take gigabytes.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from zonkey_lab.paper.records import Record, Records, is_unfinished

TARGET = "packages/zonkey-lab/src/zonkey_lab/paper/bench/costs.json"
_MOST_CPUS = 8  # of machines without a GPU; older records do not name theirs


def collect(records: list[Record]) -> dict[str, dict[str, Any]]:
    """Return [seconds, MB] by protocol and model."""
    runs: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        is_whole = not (record.get("quick") or is_unfinished(record))
        if record["data_name"] == "emoji" and is_whole:
            runs[record["protocol"], record["model"]].append(record)
    costs: dict[str, dict[str, Any]] = defaultdict(dict)
    for (protocol, model), found in sorted(runs.items()):
        seconds = sum(record["seconds"] for record in found) / len(found)
        peaks = [record.get("peak_memory_mb") or 0.0 for record in found if not _has_gpu(record)]
        costs[protocol][model] = [round(seconds, 2), max(peaks) if any(peaks) else None]
    return dict(costs)


def _has_gpu(record: Record) -> bool:
    machine = record["machine"]
    return bool(machine.get("gpu")) or (machine.get("cpus") or 0) > _MOST_CPUS


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, default=Path("docs/runs"))
    costs = collect(list(Records(parser.parse_args().runs)))
    models = [
        f" {json.dumps(protocol)}: {{\n"
        + ",\n".join(f"  {json.dumps(name)}: {json.dumps(found[name])}" for name in found)
        + "\n }"
        for protocol, found in costs.items()
    ]
    Path(TARGET).write_text("{\n" + ",\n".join(models) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
