"""The versions and the machine that a figure may depend on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from typing import Any

_PACKAGES = ("zonkey", "numpy", "scipy", "scikit-learn")


def environment() -> dict[str, Any]:
    """Return versions and machine, as stored in every record."""
    machine = {"system": platform.system(), "cpus": os.cpu_count()}
    return {"versions": versions(), "machine": machine}


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages."""
    return {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}
