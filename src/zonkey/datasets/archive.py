"""Take one folder out of a zip archive: safely, and all of it or nothing."""

from __future__ import annotations

import lzma
import shutil
import stat
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Sequence
from contextlib import suppress
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
_UNREADABLE = (NotImplementedError, RuntimeError, OSError, ValueError)  # of damaged headers


def extract(archive: Path, folder: Path, members_prefix: str, required: Sequence[str] = ()) -> Path:
    """Extract one folder of a zip archive.

    A folder that is complete already is left alone; one that lacks some files is refused, as
    those that are there may be of another version.

    Parameters
    ----------
    archive : Path
    folder : Path
        Where to extract to; the archive's folders are made again below it.
    members_prefix : str
        The folder to extract, as the archive calls it.
    required : sequence of str, default=()
        Files that the folder must hold.

    Returns
    -------
    Path
        `folder / members_prefix`.
    """
    target = folder / members_prefix
    if is_complete(target, required):
        return target
    check_vacant(target, required)
    try:
        with zipfile.ZipFile(archive) as opened:
            for member in opened.infolist():
                _check_harmless(member, archive)
            members = _under(opened, members_prefix, required, archive)
            _check_size(members, folder, archive)
            _extract_at_once(opened, members, folder, members_prefix, required)
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


def is_complete(folder: Path, required: Sequence[str]) -> bool:
    """Whether a folder holds anything at all, and all `required` files."""
    there = _names_in(folder)
    return bool(there) and there.issuperset(required)


def check_vacant(folder: Path, required: Sequence[str]) -> None:
    """Raise DataError for a folder that is neither complete nor empty."""
    there = _names_in(folder)
    missing = " and ".join(name for name in required if name not in there)
    if there and missing:
        raise DataError(
            f"The folder {folder} must hold {' and '.join(required)}; got one without {missing}. "
            f"Move it away, or put {missing} there."
        )


def find_damage(archive: Path) -> str | None:
    """Return what is wrong with a zip archive, having read all of it; None if nothing is."""
    try:
        with zipfile.ZipFile(archive) as opened:
            damaged = opened.testzip()
    except (*_DAMAGED, *_UNREADABLE) as error:
        return _one_line(error)
    return None if damaged is None else f"the entry {damaged!r} is damaged"


def _names_in(folder: Path) -> set[str]:
    try:
        return {path.name for path in folder.iterdir()}
    except OSError:  # it is not there, or no folder, or may not be read
        return set()


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


def _under(
    opened: zipfile.ZipFile, members_prefix: str, required: Sequence[str], archive: Path
) -> list[zipfile.ZipInfo]:
    beginning = members_prefix.strip("/") + "/"
    members = [member for member in opened.infolist() if member.filename.startswith(beginning)]
    if not any(not member.is_dir() for member in members):
        raise DataError(
            f"The archive {archive} must hold the folder {members_prefix}; it does not. Delete it "
            "and fetch it again."
        )
    names = {member.filename for member in members}
    missing = [beginning + name for name in required if beginning + name not in names]
    if missing:
        raise DataError(
            f"The archive {archive} must hold {' and '.join(missing)}; it does not. Delete it and "
            "fetch it again."
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
    opened: zipfile.ZipFile,
    members: list[zipfile.ZipInfo],
    folder: Path,
    members_prefix: str,
    required: Sequence[str],
) -> None:
    target = folder / members_prefix
    with tempfile.TemporaryDirectory(prefix=".extracting-", dir=folder) as temporary:
        opened.extractall(temporary, members)
        target.parent.mkdir(parents=True, exist_ok=True)
        with suppress(OSError):
            target.rmdir()  # an empty folder, which Windows does not rename onto
        try:
            (Path(temporary) / members_prefix).replace(target)
        except OSError:
            if not is_complete(target, required):  # otherwise another process was faster
                raise


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
