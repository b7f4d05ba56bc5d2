"""Weights on disk: find the folder of a model, hash its files, and load it with one-line errors."""

from __future__ import annotations

import hashlib
import logging
import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..files.readers import join_lines

_SETTINGS = (".json", ".txt", ".model")
_TENSORS = (".safetensors", ".bin")
_SECONDS = 10  # until the hub counts as unreachable
_LONGEST = 200  # characters that are quoted from an error
_COMMIT = re.compile("[0-9a-f]{40}")
EXTERNAL = (".data", "_data")  # endings of files of large weights, behind ".onnx"

may_download: ContextVar[bool] = ContextVar("may_download", default=True)


def files_revision(files: Iterable[Path]) -> str:
    """Return 16 hex digits of the content of files and of their names, in any order."""
    total = hashlib.sha256()
    for file in sorted(files):
        status = file.stat()
        total.update(f"{file.name}\0{_digest(file, status.st_size, status.st_mtime_ns)}".encode())
    return total.hexdigest()[:16]


@lru_cache(maxsize=256)
def _digest(file: Path, size: int, modified: int) -> str:  # noqa: ARG001 - keys of the cache
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def file_state(model: str) -> tuple[Any, ...]:
    """Return what differs as soon as a path means other files: place, size and time."""
    prefix, _, source = model.partition(":")
    if not prefix or not source:
        return ()
    path = Path(source).expanduser().absolute()
    if prefix == "onnx":
        beside = (path.with_suffix(".json"), path.with_suffix(".tokenizer.json"))
        weights = (Path(f"{path}{ending}") for ending in EXTERNAL)
        files = [path, *beside, path.with_name("tokenizer.json"), *weights]
    else:
        files = _model_files(path) if path.is_dir() else []
    found = [(file, file.stat()) for file in files if file.is_file()]
    return tuple((str(file), about.st_size, about.st_mtime_ns) for file, about in found)


def folder_revision(folder: Path) -> str:
    """Return 16 hex digits that change with the weights or settings of a model."""
    in_hub = folder.parent.name == "snapshots" and folder.parents[1].name.startswith("models--")
    if in_hub and _COMMIT.fullmatch(folder.name):  # large files stay shut
        return hashlib.sha256(folder.name.encode()).hexdigest()[:16]
    return files_revision(_model_files(folder))


def _model_files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.suffix in _SETTINGS + _TENSORS)


def locate_model(prefix: str, source: str, owner: str = "") -> tuple[Path, str, str]:
    """Return the folder of a model, its canonical name with the prefix, and its revision."""
    folder, canonical = model_folder(source, f"{prefix}:{source}", owner)
    return folder, f"{prefix}:{canonical}", folder_revision(folder)


def model_folder(source: str, name: str, owner: str = "") -> tuple[Path, str]:
    """Return the folder of a model, and its canonical source: absolute path or name of the hub.

    A model of the hub is downloaded once. After that, the hub is not asked again. `name` is that of
    the model in errors, `owner` that of models of the hub that are named without one.
    """
    path = Path(source).expanduser()
    if path.is_dir():
        _require_model(path, name)
        return path.resolve(), str(path.resolve())
    if path.exists():
        raise DataError(f"{name} must be a folder; it is a file. Pass the folder that holds it.")
    import huggingface_hub as hub  # comes with transformers

    if owner and "/" not in source:
        source = f"{owner}/{source}"
    try:
        folder = Path(hub.snapshot_download(source, local_files_only=True))
        _require_model(folder, name)
    except hub.errors.HFValidationError:
        raise DataError(
            f"{name} must be a folder or the name of a model of the hub; there is no such folder. "
            "Check the path."
        ) from None
    except (OSError, DataError, hub.errors.HfHubHTTPError):  # not downloaded, or only in part
        folder = Path(_download(hub, source, name))
        _require_model(folder, name)
    return folder, source


def _download(hub: Any, source: str, name: str) -> str:
    if not may_download.get():
        raise DataError(
            f"{name} must be on this machine; it is not, and loading a file downloads nothing. "
            "Encode a picture with it first."
        )
    try:
        # Asked once, without the retries of a download: these take minutes without a network.
        files = [
            file.rfilename for file in hub.HfApi().model_info(source, timeout=_SECONDS).siblings
        ]
        tensors = _TENSORS[:1] if any(file.endswith(_TENSORS[0]) for file in files) else _TENSORS
        patterns = [f"*{ending}" for ending in _SETTINGS + tensors]
        return hub.snapshot_download(source, allow_patterns=patterns)
    except (hub.errors.RepositoryNotFoundError, hub.errors.GatedRepoError):
        raise DataError(
            f"{name} must be a model of the hub that you may read; the hub has none of this name. "
            "Check the name, or pass a local folder."
        ) from None
    except Exception as error:  # each HTTP library has its own errors
        raise DataError(
            f"{name} must be downloaded once; the hub could not be reached "
            f"({join_lines(error)[:_LONGEST]}). Connect to the network, or pass a local folder."
        ) from None


def _require_model(folder: Path, name: str) -> None:
    names = [file.name for file in folder.rglob("*")]
    if "config.json" not in names or not any(file.endswith(_TENSORS) for file in names):
        raise DataError(
            f"{name} must be a model with config.json and weights (.safetensors or .bin); {folder} "
            "holds none. Pass the folder that `save_pretrained` wrote."
        )


@contextmanager
def load_quietly(name: str, rule: str) -> Iterator[None]:
    """Load a model without progress bars and log messages; errors are one line."""
    from transformers.utils import logging as messages

    level, bar = messages.get_verbosity(), messages.is_progress_bar_enabled()
    messages.set_verbosity(logging.CRITICAL)
    messages.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except DataError:
        raise
    except ImportError as error:
        raise ImportError(
            f"{name} needs a further package: {join_lines(error)[:_LONGEST]}"
        ) from None
    except Exception as error:  # the libraries raise errors of any type
        raise DataError(
            f"{name} must be {rule}; loading failed ({join_lines(error)[:_LONGEST]}). Pass another "
            "model."
        ) from None
    finally:
        messages.set_verbosity(level)
        if bar:
            messages.enable_progress_bar()
