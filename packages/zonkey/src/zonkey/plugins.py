"""Parts that other distributions add: commands, forms of model files, folders of benchmarks.

They are entry points: found if the distribution is installed, imported or not.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

LAB = "zonkey-lab"


@cache
def find_plugins(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group of zonkey, such as "commands", by name."""
    return {point.name: point for point in entry_points(group=f"zonkey.{group}")}


def load_plugin(group: str, name: str) -> Any | None:
    """Return the object behind an entry point, or None if no installed distribution has it."""
    point = find_plugins(group).get(name)
    return None if point is None else point.load()
