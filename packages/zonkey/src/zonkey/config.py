"""Settings that hold for all of zonkey: working memory, threads, the folder of the cache.

`set_config` changes a setting for the process, `config_context` for the code inside it:

    with zonkey.config_context(working_memory=16):
        model.predict(X)

A setting never changes an answer, only time and memory.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

_process: dict[str, Any] = {}  # values given to set_config
# Values overridden by the surrounding `config_context`s. Each thread starts with none.
_overrides: ContextVar[dict[str, Any]] = ContextVar("zonkey_config", default={})  # noqa: B039


def get_config() -> dict[str, Any]:
    """Return the settings that hold here.

    Returns
    -------
    settings : dict
        A copy. `set_config` documents the settings.
    """
    return {
        "working_memory": _memory_of_environment(),
        "threads": None,
        **_process,
        **_overrides.get(),
    }


def set_config(*, working_memory: float | None = None, threads: int | None = None) -> None:
    """Change settings of this process; None leaves a setting as it is.

    A surrounding `config_context` still overrides them until it ends.

    Parameters
    ----------
    working_memory : float, optional
        MiB that the temporary arrays of one step may take. Work on more rows is divided into
        blocks. Default: $ZONKEY_WORKING_MEMORY, else 64.
    threads : int, optional
        Most threads that a step may use. Default: the cores that this process may use. A lower
        limit of NumPy's threads, such as $OPENBLAS_NUM_THREADS, applies as well.
    """
    _process.update(_check_settings(working_memory=working_memory, threads=threads))


@contextmanager
def config_context(
    *, working_memory: float | None = None, threads: int | None = None
) -> Iterator[None]:
    """Change settings inside a `with` block; None leaves a setting as it is.

    Applies to this thread or asyncio task only.

    Parameters
    ----------
    working_memory : float, optional
        As in `set_config`.
    threads : int, optional
        As in `set_config`.

    Yields
    ------
    None
    """
    given = _check_settings(working_memory=working_memory, threads=threads)
    token = _overrides.set({**_overrides.get(), **given})
    try:
        yield
    finally:
        _overrides.reset(token)


def rows_per_block(bytes_per_row: float, *, at_most: int | None = None) -> int:
    """Return the number of rows, at least one, whose temporary arrays fit into working memory."""
    n_rows = int(get_config()["working_memory"] * 2**20 / max(1, bytes_per_row))
    return max(1, n_rows if at_most is None else min(n_rows, at_most))


def cache_folder(*parts: str) -> Path:
    """Return a folder, maybe missing, below $ZONKEY_CACHE or else `zonkey` in the user's cache."""
    chosen = os.environ.get("ZONKEY_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute().joinpath(*parts)
    if sys.platform == "win32":
        found, usual = os.environ.get("LOCALAPPDATA"), Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        found, usual = None, Path.home() / "Library" / "Caches"
    else:
        found, usual = os.environ.get("XDG_CACHE_HOME"), Path.home() / ".cache"
    return Path(found or usual).joinpath("zonkey", *parts)


def _memory_of_environment() -> float:
    text = os.environ.get("ZONKEY_WORKING_MEMORY", "64")
    try:
        return _check_memory(float(text))
    except ValueError:
        raise ValueError(
            "The environment variable ZONKEY_WORKING_MEMORY must be a positive number of MiB; "
            f"got {text!r}. Set it to 64, or unset it."
        ) from None


def _check_settings(**given: Any) -> dict[str, Any]:
    found = {name: value for name, value in given.items() if value is not None}
    if "working_memory" in found:
        found["working_memory"] = _check_memory(found["working_memory"])
    threads = found.get("threads", 1)
    if not isinstance(threads, int) or threads < 1:
        raise ValueError(
            f"threads must be an integer of at least 1; got {threads!r}. Omit it to use all cores."
        )
    return found


def _check_memory(value: Any) -> float:
    try:
        if 0 < value < float("inf"):
            return value
    except TypeError:
        pass
    raise ValueError(
        f"working_memory must be a positive number of MiB; got {value!r}. The default is 64."
    )
