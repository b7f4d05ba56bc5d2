"""What all readers of files share: guards against wrong files, and lists of what is wrong."""

from __future__ import annotations

import csv
import importlib
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .errors import DataError

MOST = 10  # problems of one kind that are listed before they are counted

# First bytes of a file, and the endings that such a file may have. Long enough that no heading of a
# table is taken for one.
_SIGNATURES: tuple[tuple[bytes, tuple[str, ...]], ...] = (
    (b"\x93NUMPY", (".npy",)),
    (b"\x89HDF\r\n\x1a\n", (".h5", ".hdf5")),
    (b"PAR1\x15", (".parquet",)),
    (b"MATLAB 5", (".mat",)),
    (b"MATLAB 7", (".mat",)),
    (b"\x1f\x8b", (".gz",)),
    (b"\x80\x02", (".pt", ".pth")),
)
_ARCHIVES = (".npz", ".pt", ".pth")


def existing_file(path: str | Path, endings: Sequence[str]) -> Path:
    """Refuse what is no file, has another ending, or does not hold what its ending says."""
    path = Path(path)
    require_file(path)
    if path.suffix.lower() not in endings:
        raise DataError(
            f"The file must end in {' or '.join(endings)}; got {path.name}. Save it in such a "
            "format."
        )
    if path.stat().st_size == 0:
        raise DataError(f"{path.name} is empty. Check what was saved.")
    _require_kind(path)
    return path


def require_file(path: Path) -> None:
    """Refuse a path at which there is no file."""
    if path.is_dir():
        raise DataError(f"{path} must be a file; it is a folder. Pass a file in it.")
    if not path.is_file():
        raise DataError(f"{path} does not exist. Check the path.")


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn whatever a format's reader says about a damaged file into one line."""
    try:
        yield
    except DataError:
        raise
    except PermissionError:
        raise DataError(f"{path} must be readable; you have no permission. Change it.") from None
    except MemoryError:
        raise DataError(
            f"{path.name} must fit into memory; it does not. Save fewer samples, or float32."
        ) from None
    except (OSError, EOFError, ValueError, LookupError, RuntimeError, zipfile.BadZipFile,
            zlib.error, struct.error, csv.Error, tokenize.TokenError) as error:  # fmt: skip
        reason = next(iter(str(error).splitlines()), type(error).__name__)[:80]
        raise DataError(
            f"{path.name} must be a whole {path.suffix.lower()} file; it is damaged or cut short "
            f"({reason}). Copy it, or save it, again."
        ) from None


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file, with the line ends of Unix."""
    with readable(path):
        content = path.read_bytes()
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path.name} must be UTF-8 text; byte 0x{content[error.start]:02x} at position "
            f"{error.start} (line {line}) is not. Save the file as UTF-8."
        ) from None
    if not text.strip("\ufeff \t\r\n"):
        raise DataError(f"{path.name} is empty. Check what was saved.")
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def needed(module: str, extra: str, what: str) -> Any:
    """Import an optional package, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ImportError(
            f"Reading {what} needs {module}; install {module}, or the extra: "
            f'pip install "zonkey[{extra}]" (from a clone: pip install ".[{extra}]").'
        ) from None


def largest_exact(dtype: np.dtype[Any]) -> int:
    """Return up to which number floats of this type hold every whole number: 2^53 for doubles.

    Beyond it two labels may have become one.
    """
    return 2 ** min(np.finfo(dtype).nmant + 1, 53)


def capped(lines: Sequence[str], kind: str, n: int | None = None) -> list[str]:
    """Keep the first few lines and count the others, of n in all."""
    more = (len(lines) if n is None else n) - MOST
    return [*lines[:MOST], f"There are {more} more {kind}."] if more > 0 else list(lines)


def _require_kind(path: Path) -> None:
    """Refuse a file whose first bytes contradict its ending."""
    endings = _endings_of_content(path)
    if endings and path.suffix.lower() not in endings:
        remedies = {
            ".xlsx": "Save the sheet as CSV UTF-8.",
            ".gz": "Unpack it first.",
            ".zip": "Unpack it, and pass the file in it.",
        }
        remedy = remedies.get(endings[0], f"Rename it to {path.stem}{endings[0]}.")
        raise DataError(
            f"{path.name} must hold what its ending says; its content is that of a {endings[0]} "
            f"file. {remedy}"
        )


def _endings_of_content(path: Path) -> tuple[str, ...]:
    with readable(path), path.open("rb") as file:
        start = file.read(8)
    if start.startswith(b"PK\x03\x04"):
        return _endings_of_archive(path)
    return next((endings for mark, endings in _SIGNATURES if start.startswith(mark)), ())


def _endings_of_archive(path: Path) -> tuple[str, ...]:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile:
        # Cut short: a reader of archives says so itself.
        return () if path.suffix.lower() in _ARCHIVES else (".zip",)
    if any(name.endswith("data.pkl") for name in names):
        return ".pt", ".pth"
    if any(name.startswith("xl/") for name in names):
        return (".xlsx",)
    return (".npz",) if any(name.endswith(".npy") for name in names) else (".zip",)
