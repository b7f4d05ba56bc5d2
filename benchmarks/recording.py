"""Run benchmarks in processes of their own, show their results, and store a record per run."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent


def in_new_process(file: str, *arguments: Any) -> Any:
    """Run ``file --one "[arguments]"``, and return what it prints in its last line; all in JSON."""
    command = [sys.executable, file, "--one", json.dumps(arguments)]
    quiet = {**os.environ, "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, env=quiet, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def show(title: str, rows: list[dict[str, Any]], *, width: int = 120) -> None:
    """Print rows as a table."""
    table = Table(title=title)
    for name in rows[0]:
        table.add_column(name, justify="left" if isinstance(rows[0][name], str) else "right")
    for row in rows:
        table.add_row(
            *(value if isinstance(value, str) else f"{value:g}" for value in row.values())
        )
    Console(width=width).print(table)


def environment() -> dict[str, Any]:
    """Return versions, date and machine."""
    names = ("zonkey", "numpy", "scipy", "scikit-learn")
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in names},
        "machine": {"processor": _processor(), "cpus": os.cpu_count()},
    }


def save(name: str, record: dict[str, Any]) -> Path:
    """Write a record atomically."""
    path = HERE / "records" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps({**environment(), **record}, indent=2) + "\n", encoding="utf-8")
    part.replace(path)
    return path


def save_markdown(
    name: str, title: str, command: str, rows: list[dict[str, Any]], *, below: str = ""
) -> Path:
    """Write one table to benchmarks/results; only for generated or embedded data."""
    return save_page(name, title, command, {"": rows}, below=below)


def save_page(
    name: str,
    title: str,
    command: str,
    tables: dict[str, list[dict[str, Any]]],
    *,
    machine: str = "",
    below: str = "",
) -> Path:
    """Write tables with headings, then a text, to benchmarks/results; see `save_markdown`."""
    described = environment()
    versions = ", ".join(f"{key} {value}" for key, value in described["versions"].items())
    host = f"{described['machine']['processor']}, {described['machine']['cpus']} CPUs"
    origin = f"`{command}`, {described['date'][:10]}, Python {described['python']}, {versions}"
    lines = [f"# {title}", "", f"{origin}; {host}{machine and ', ' + machine}."]
    for heading, rows in tables.items():
        lines += ["", f"## {heading}"] if heading else []
        lines += ["", "| " + " | ".join(rows[0]) + " |", "|" + "---|" * len(rows[0])]
        for row in rows:
            cells = (value if isinstance(value, str) else f"{value:g}" for value in row.values())
            lines.append("| " + " | ".join(cells) + " |")
    path = HERE / "results" / f"{name}.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n" + below, encoding="utf-8")
    return path


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
