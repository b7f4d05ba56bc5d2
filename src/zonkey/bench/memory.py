"""The most memory that one run has held."""

from __future__ import annotations

import sys
from pathlib import Path

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def reset_peak_memory() -> None:
    """Begin to count anew, where the system can."""
    try:
        _CLEAR.write_text("5")
    except OSError:  # not Linux, or not allowed: the count goes on from earlier runs
        return


def peak_memory_mb() -> float | None:
    """Return the peak since the last reset in MB; without one, that of the process so far."""
    if _STATUS.exists():
        for line in _STATUS.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return round(int(line.split()[1]) / 1024, 1)
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (1 << 20 if sys.platform == "darwin" else 1 << 10), 1)
