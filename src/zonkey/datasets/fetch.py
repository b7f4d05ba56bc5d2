"""Fetch data sets from their makers: resumable, verified, and never half there."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..core.storage import write_whole
from .archive import check_vacant, extract, find_damage, is_complete
from .download import download, forget_part
from .errors import DataError
from .registry import REGISTRY, Remote, find_remote

_PINS = "checksums.json"


def fetch_dataset(
    name: str,
    *,
    folder: Path | str | None = None,
    registry: Mapping[str, Remote] = REGISTRY,
    progress: bool = False,
    timeout: float = 30.0,
) -> Path:
    """Return the folder of a data set, fetched and extracted unless it is there already.

    Parameters
    ----------
    name : str
        One of the registry, in upper or lower case.
    folder : Path or str, default=None
        Where data sets lie; None: see `data_folder`.
    registry : mapping {name: Remote}
    progress : bool, default=False
        Show a progress bar on stderr.
    timeout : float, default=30.0
        Seconds without a sign of the server until the call gives up.

    Returns
    -------
    Path

    Raises
    ------
    DataError
        In one line, with the remedy. What has come so far is kept, and the next call goes on.
    """
    found = find_dataset(name, folder=folder, registry=registry)
    if found is not None:
        return found
    remote = find_remote(name, registry)
    check_vacant(data_folder(folder) / remote.members, remote.required)  # before the download
    archive = fetch(name, folder=folder, registry=registry, progress=progress, timeout=timeout)
    return extract(archive, archive.parent, remote.members, remote.required)


def find_dataset(
    name: str, *, folder: Path | str | None = None, registry: Mapping[str, Remote] = REGISTRY
) -> Path | None:
    """Return the folder of a data set that was fetched before; None if it is not complete."""
    remote = find_remote(name, registry)
    found = data_folder(folder) / remote.members
    return found if is_complete(found, remote.required) else None


def data_folder(folder: Path | str | None = None) -> Path:
    """Return the folder of all data: `folder`, else $ZONKEY_DATA, else the user's cache."""
    chosen = folder or os.environ.get("ZONKEY_DATA") or _pooch().os_cache("zonkey")
    return Path(chosen).expanduser().absolute()


def fetch(
    name: str,
    *,
    folder: Path | str | None = None,
    registry: Mapping[str, Remote] = REGISTRY,
    progress: bool = False,
    timeout: float = 30.0,
) -> Path:
    """Return the archive that holds a data set, downloaded unless it is there already.

    The parameters are those of `fetch_dataset`. The archive is verified against the registry's
    hash; where there is none, against the hash of the first download, which `checksums.json` in
    the data folder keeps once the whole archive could be read.
    """
    remote = find_remote(name, registry)
    _pooch()  # before the work, not after it
    file = data_folder(folder) / remote.file
    with _alone_in(file.parent):
        expected = remote.sha256 or _read_pins(file.parent).get(file.name)
        if file.exists():
            digest = _verify(file, file, remote, expected)
        else:
            part = download(remote.url, file, size=remote.size, progress=progress, timeout=timeout)
            try:
                digest = _verify(part, file, remote, expected)
            except DataError:
                forget_part(file)  # going on with it would end here again
                raise
            part.replace(file)
            forget_part(file)
        if expected is None:
            _pin(file, digest)
    return file


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Make a folder, and keep other processes from fetching into it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder):
            yield
    except OSError as error:
        raise DataError(
            f"The data folder {folder} must be one to write to; it is not "
            f"({error.strerror or type(error).__name__}). Choose another, or set ZONKEY_DATA."
        ) from None


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock a folder: two processes that write one partial file would spoil it."""
    try:
        import fcntl
    except ImportError:  # Windows has no lock that leaves no file behind
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataError(
                f"Only one process can fetch into {folder}; another is at it. Wait until it is "
                "done, then run the same command again."
            ) from None
        except OSError:  # some network drives have no locks
            pass
        yield
    finally:
        os.close(handle)


def _verify(path: Path, file: Path, remote: Remote, expected: str | None) -> str:
    """Return the hash of what lies at `path` and is to be `file`, if it is what it should be."""
    if file.suffix == ".zip" and not zipfile.is_zipfile(path):
        if path == file:
            raise DataError(f"The file {file} must be a zip archive; it is not. Delete it.")
        raise DataError(
            f"The file from {remote.url} must be a zip archive; got something else, perhaps the "
            f"login page of a network. Download it by hand and put it to {file}."
        )
    digest = _pooch().file_hash(str(path), alg="sha256")
    if expected is None:
        _check_whole(path, file, remote)  # or the hash of a damaged file would be kept
        return digest
    if digest == expected:
        return digest
    if path == file:
        subject = f"The file {file} is damaged or of another version"
        remedy = "Delete it, then run the same command again."
    elif remote.sha256:
        subject = f"The file from {remote.url} is damaged or of another version"
        remedy = f"Try again later, or download it by hand and put it to {file}."
    else:
        subject = f"The file at {remote.url} has changed since it was first fetched"
        remedy = f"To accept it, delete the line of {file.name} in {file.with_name(_PINS)}."
    raise DataError(f"{subject}: its SHA-256 must be {expected}; got {digest}. {remedy}")


def _check_whole(path: Path, file: Path, remote: Remote) -> None:
    """Raise DataError for a zip archive of which not all can be read."""
    damage = find_damage(path) if file.suffix == ".zip" else None
    if damage is None:
        return
    if path == file:
        raise DataError(
            f"The file {file} must be a zip archive that can be read to its end; it cannot "
            f"({damage}). Delete it and run the same command again, or unpack it there by hand."
        )
    raise DataError(
        f"The file from {remote.url} must be a zip archive that can be read to its end; it cannot "
        f"({damage}). Run the same command again, or download it by hand and unpack it in "
        f"{file.parent}."
    )


def _read_pins(folder: Path) -> dict[str, str]:
    """Return the hashes of first downloads, by file name."""
    path = folder / _PINS
    try:
        pins = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError:
        pins = None
    if not isinstance(pins, dict) or not all(isinstance(pin, str) for pin in pins.values()):
        raise DataError(
            f"The file {path} must be a JSON object of file names and hashes; it is not. Delete "
            "it, then run the same command again."
        )
    return pins


def _pin(file: Path, digest: str) -> None:
    path = file.with_name(_PINS)
    pins = {**_read_pins(file.parent), file.name: digest}
    write_whole(path, (json.dumps(pins, indent=2, sort_keys=True) + "\n").encode())


def _pooch() -> Any:
    try:
        import pooch
    except ImportError:
        raise ImportError(
            'Fetching data needs pooch; install it with pip install "zonkey[data]".'
        ) from None
    return pooch
