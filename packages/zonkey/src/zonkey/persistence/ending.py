"""Files that are removed if the process is told to end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_kept: list[Path] = []


@contextmanager
def remove_if_ended(path: Path) -> Iterator[None]:
    """Remove an unfinished file or a lock at SIGTERM too, which runs no `finally`.

    Leave the exit to a program that handles the signal.
    """
    in_main = threading.current_thread() is threading.main_thread()
    installs = in_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    _kept.append(path)
    if installs:
        signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        _kept.remove(path)
        if installs:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _end(number: int, _: Any) -> None:
    for path in _kept:
        path.unlink(missing_ok=True)
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
