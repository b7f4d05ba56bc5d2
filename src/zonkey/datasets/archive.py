"""Take one folder out of a zip archive: safely, and all of it or nothing."""

from __future__ import annotations

import lzma
import shutil
import stat
import struct
import tempfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath, PureWindowsPath

from .errors import DataError
from .registry import readable

_LARGEST = 20_000_000_000  # bytes; no data set of the registry comes near
_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    UnicodeDecodeError,
)


def extract(archive: Path, folder: Path, members_prefix: str) -> Path:
    """Extract one folder of a zip archive.

    A folder that is there already is left alone: it was renamed into place when complete.

    Parameters
    ----------
    archive : Path
    folder : Path
        Where to extract to; the archive's folders are made again below it.
    members_prefix : str
        The folder to extract, as the archive calls it.

    Returns
    -------
    Path
        `folder / members_prefix`.
    """
    target = folder / members_prefix
    if target.is_dir():
        return target
    try:
        with zipfile.ZipFile(archive) as opened:
            for member in opened.infolist():
                _check_harmless(member, archive)
            members = _under(opened, members_prefix, archive)
            _check_size(members, folder, archive)
            _extract_at_once(opened, members, folder, members_prefix)
    except _DAMAGED as error:
        raise DataError(
            f"The archive {archive} is damaged or incomplete ({_one_line(error)}). Delete it and "
            "fetch it again."
        ) from None
    except (NotImplementedError, RuntimeError) as error:  # unknown compression, encryption
        raise DataError(
            f"The archive {archive} must be a plain zip file; {_one_line(error)}. Unpack it by "
            f"hand to {target}."
        ) from None
    except OSError as error:
        raise DataError(
            f"Extracting {archive} to {target} failed ({error.strerror or _one_line(error)}). See "
            "that the archive can be read, and the folder written to."
        ) from None
    return target


def check_space(folder: Path, needed: int, what: str) -> None:
    """Raise DataError unless the disk of `folder` has room for `needed` bytes."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise DataError(
            f"{what} needs {readable(needed)} in {folder}; {readable(free)} are free, "
            f"{readable(needed - free)} are missing. Make room, or choose another folder."
        )


def _check_harmless(member: zipfile.ZipInfo, archive: Path) -> None:
    """Raise DataError for an entry that would be written outside the folder."""
    name = member.filename.replace("\\", "/")
    outside = (
        ".." in PurePosixPath(name).parts
        or PurePosixPath(name).is_absolute()
        or PureWindowsPath(name).drive
    )
    if outside or stat.S_ISLNK(member.external_attr >> 16):
        raise DataError(
            f"The archive {archive} must hold plain files below its own folder; got the entry "
            f"{member.filename!r}. Do not use it: delete it and tell who gave it to you."
        )


def _under(opened: zipfile.ZipFile, members_prefix: str, archive: Path) -> list[zipfile.ZipInfo]:
    beginning = members_prefix.strip("/") + "/"
    members = [member for member in opened.infolist() if member.filename.startswith(beginning)]
    if not any(not member.is_dir() for member in members):
        raise DataError(
            f"The archive {archive} must hold the folder {members_prefix}; it does not. Delete it "
            "and fetch it again."
        )
    return members


def _check_size(members: list[zipfile.ZipInfo], folder: Path, archive: Path) -> None:
    # The declared sizes are to be relied on: `zipfile` never writes more than an entry declares.
    total = sum(member.file_size for member in members)
    if total > _LARGEST:
        raise DataError(
            f"The archive {archive} must unpack to {readable(_LARGEST)} at most; it declares "
            f"{readable(total)}. Do not use it: delete it and fetch it again."
        )
    check_space(folder, total, f"Extracting {archive.name}")


def _extract_at_once(
    opened: zipfile.ZipFile, members: list[zipfile.ZipInfo], folder: Path, members_prefix: str
) -> None:
    target = folder / members_prefix
    with tempfile.TemporaryDirectory(prefix=".extracting-", dir=folder) as temporary:
        opened.extractall(temporary, members)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            (Path(temporary) / members_prefix).replace(target)
        except OSError:
            if not target.is_dir():  # otherwise another process was faster
                raise


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
