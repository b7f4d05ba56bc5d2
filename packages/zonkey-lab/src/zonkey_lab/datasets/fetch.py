"""Fetch data sets: download the archive with pooch, resume after interruption, unpack safely."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PureWindowsPath
from typing import Any

from zonkey.config import cache_folder
from zonkey.errors import DataError
from zonkey.files.readers import join_lines
from zonkey.optional import require_package
from zonkey.plugins import LAB

from .registry import PLACED, REGISTRY, Remote, find_remote

_CHUNK = 1 << 16  # bytes


def fetch_dataset(
    name: str,
    *,
    folder: Path | str | None = None,
    registry: Mapping[str, Remote] = REGISTRY,
    progress: bool = False,
    timeout: float = 30.0,
) -> Path:
    """Return the folder of a data set; download and unpack it unless it exists.

    Parameters
    ----------
    name : str
        Name of the data set, in upper or lower case.
    folder : Path or str, default=None
        Folder of all data sets. By default `$ZONKEY_DATA`, else the user's cache.
    registry : mapping of {str: Remote}
        Data sets that can be fetched.
    progress : bool, default=False
        Whether to show a progress bar on stderr.
    timeout : float, default=30.0
        Seconds to wait for the server.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    DataError
        If the data set cannot be fetched. The next call resumes an interrupted download.
    """
    remote = find_remote(name, registry)
    root = data_folder(folder)
    target = root / remote.members
    if not _is_complete(target, remote.required):
        archive = _fetch_archive(remote, root, progress, timeout)
        extract(archive, root, remote.members, remote.required)
    return target


def find_dataset(
    name: str, *, folder: Path | str | None = None, registry: Mapping[str, Remote] = REGISTRY
) -> Path | None:
    """Return the folder of a data set that was fetched or put there; None if it is incomplete."""
    entry = PLACED.get(name) or find_remote(name, registry)
    found = data_folder(folder) / entry.members
    with suppress(DataError):
        return found if _is_complete(found, entry.required) else None


def data_folder(folder: Path | str | None = None) -> Path:
    """Return the folder of all data: `folder`, else $ZONKEY_DATA, else the user's cache."""
    chosen = folder or os.environ.get("ZONKEY_DATA") or cache_folder()
    return Path(chosen).expanduser().absolute()


def _fetch_archive(remote: Remote, folder: Path, progress: bool, timeout: float) -> Path:
    """Return the archive of a data set, downloaded unless it exists."""
    pooch = _pooch()
    file = folder / remote.file

    def download(url: str, temporary: str, _: Any) -> None:
        part = file.with_name(f"{file.name}.part")
        _download(pooch, url, part, progress, timeout)
        damage = find_damage(part)
        if damage is not None:
            part.unlink()  # resuming it would fail again
            raise DataError(
                f"The file from {url} must be a complete zip archive; it is not ({damage}). Run "
                f"the same command again, or download the file by hand to {file}."
            )
        part.replace(temporary)

    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel("ERROR")  # its log repeats our messages
    try:
        with _one_line_failures(remote.url, file), _lock_folder(folder):
            options = {"fname": file.name, "path": folder, "downloader": download}
            pooch.retrieve(remote.url, remote.sha256, **options)
    finally:
        logger.setLevel(level)
    return file


def _download(pooch: Any, url: str, part: Path, progress: bool, timeout: float) -> None:
    """Append the missing bytes to a partial file; pooch itself always starts from nothing."""
    import requests

    start = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity"}  # positions refer to the uncompressed file
    if start:
        headers["Range"] = f"bytes={start}-"

    def handle_reply(reply: Any, **_: Any) -> None:
        opened.callback(reply.close)  # pooch leaves it open if the download fails
        if start and reply.status_code == 200:  # the server sends the whole file
            handle.truncate(0)

    options = {"timeout": timeout, "headers": headers, "hooks": {"response": handle_reply}}
    loader = pooch.HTTPDownloader(progressbar=progress, chunk_size=_CHUNK, **options)
    with part.open("ab") as handle, ExitStack() as opened:
        try:
            loader(url, handle, None)
        except requests.HTTPError as error:
            if not (start and getattr(error.response, "status_code", 0) == 416):  # it is complete
                raise


@contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Let one process at a time write partial files to a folder."""
    try:
        import fcntl
    except ImportError:  # Windows cannot lock a folder
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network drives have no locks
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise DataError(
                    f"One process at a time can download to {folder}; another one does. Wait."
                ) from None
        yield
    finally:
        os.close(handle)


@contextmanager
def _one_line_failures(url: str, file: Path) -> Iterator[None]:
    """Turn errors of pooch, the network and the disk into a one-line DataError."""
    import requests

    by_hand = f"or download the file by hand to {file}"
    try:
        yield
    except requests.HTTPError as error:
        reply: Any = error.response
        raise DataError(
            f"The server must send {url}; it answered {reply.status_code} {reply.reason}. Try "
            f"again later, {by_hand}."
        ) from None
    except requests.RequestException as error:  # also an OSError
        raise DataError(
            f"Downloading {url} failed or stalled ({type(error).__name__}). Check the network and "
            f"run the same command again to resume, {by_hand}."
        ) from None
    except OSError as error:
        remedy = "Choose another, or set ZONKEY_DATA."
        if error.errno == errno.ENOSPC:
            remedy = "Make room, then run the same command again to resume."
        raise DataError(
            f"The data folder {file.parent} must be writable; it is not "
            f"({error.strerror or error}). {remedy}"
        ) from None
    except ValueError as error:  # ours, or of pooch: the hash differs, or tqdm is missing
        raise DataError(join_lines(error)) from None


def find_damage(archive: Path) -> str | None:
    """Return what is wrong with a zip archive after reading all of it; None if nothing is."""
    try:
        with zipfile.ZipFile(archive) as opened:
            damaged = opened.testzip()
    except Exception as error:  # damaged headers raise errors of many types
        return join_lines(error)
    return None if damaged is None else f"the entry {damaged!r} is damaged"


# Not pooch.Unzip: an interruption would leave half a folder, which looks complete.


def extract(archive: Path, folder: Path, members: str, required: Sequence[str] = ()) -> None:
    """Extract the folder `members` of a zip archive to `folder`, completely or not at all."""
    target = folder / members
    try:
        with zipfile.ZipFile(archive) as opened:
            for member in opened.infolist():
                _require_harmless(member, archive)
            wanted = _members_under(opened, members, required, archive)
            with tempfile.TemporaryDirectory(prefix=".extracting-", dir=folder) as temporary:
                opened.extractall(temporary, wanted)
                target.parent.mkdir(parents=True, exist_ok=True)
                with suppress(OSError):
                    target.rmdir()  # an empty folder, which Windows does not rename onto
                try:
                    (Path(temporary) / members).replace(target)
                except OSError:
                    if not _is_complete(target, required):  # else another process was faster
                        raise
    except DataError:
        raise
    except OSError as error:
        raise DataError(
            f"Extracting {archive} to {target} failed ({error.strerror or error}). Check that the "
            "archive is readable, and the folder writable."
        ) from None
    except Exception as error:  # damaged headers raise errors of many types
        raise DataError(
            f"The archive {archive} is damaged or incomplete, or not a plain zip file "
            f"({join_lines(error)}). Delete it and fetch it again."
        ) from None


def _is_complete(folder: Path, required: Sequence[str]) -> bool:
    """Whether a folder has all required files; False if it is empty, an error if it lacks some."""
    try:
        names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    except OSError as error:
        raise DataError(
            f"The folder {folder} must be readable; it is not ({error.strerror}). Change its mode, "
            "or set ZONKEY_DATA."
        ) from None
    missing = " and ".join(name for name in required if name not in names)
    if names and missing:
        raise DataError(
            f"The folder {folder} must hold {' and '.join(required)}; it lacks {missing}. Move it "
            f"away, or add {missing}."
        )
    return bool(names)


def _require_harmless(member: zipfile.ZipInfo, archive: Path) -> None:
    """Refuse an entry that would be written outside the folder."""
    path = PureWindowsPath(member.filename)  # knows drives and both separators
    if path.anchor or ".." in path.parts or stat.S_ISLNK(member.external_attr >> 16):
        raise DataError(
            f"The archive {archive} must hold plain files below its own folder; got the entry "
            f"{member.filename!r}. Do not use it: delete it and inform its distributor."
        )


def _members_under(
    opened: zipfile.ZipFile, folder: str, required: Sequence[str], archive: Path
) -> list[zipfile.ZipInfo]:
    prefix = f"{folder.strip('/')}/"
    members = [member for member in opened.infolist() if member.filename.startswith(prefix)]
    names = {member.filename for member in members if not member.is_dir()}
    missing = [prefix + name for name in required if prefix + name not in names]
    if missing or not names:
        raise DataError(
            f"The archive {archive} must hold {' and '.join(missing) or f'the folder {folder}'}; "
            "it does not. Delete it and fetch it again."
        )
    return members


def _pooch() -> Any:
    return require_package("pooch", "Fetching data", distribution=LAB)
