"""Files of a folder, a zip or a tar archive: listed once, then read by name in any thread.

Nothing is unpacked under its own name, and no file stays open. A compressed tar archive can be
read in one direction only, so its files are copied to one temporary file first.
"""

from __future__ import annotations

import os
import shutil
import stat
import struct
import tarfile
import tempfile
import weakref
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from ..errors import DataError
from ..files.readers import translate_errors

ZIP_ENDINGS = (".zip",)
TAR_ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
_HIDDEN = ("__macosx", "thumbs.db", "desktop.ini")  # of macOS and Windows
_MOST_BYTES = 1 << 28  # of a file
_SPARE_BYTES = 1 << 29  # that stay free on the disk of temporary files


class Files(Protocol):
    """Files that are read by name. `n_skipped` counts links and other entries without content."""

    names: list[str]  # with forward slashes, in any order
    n_skipped: int

    def read(self, name: str) -> bytes:
        """Return the content of a file; several threads call this at once."""
        ...


def files_of(path: Path) -> Files:
    """List the files of a folder or an archive."""
    if path.is_dir():
        return Folder(path)
    name = path.name.casefold()
    with translate_errors(path):
        return ZipArchive(path) if name.endswith(ZIP_ENDINGS) else TarArchive(path)


def is_hidden(name: str) -> bool:
    """Whether file managers left a file behind, or its folder."""
    return any(part.startswith(".") or part.casefold() in _HIDDEN for part in name.split("/"))


class Folder:
    """Files below a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        with translate_errors(path):
            self.names = [name for name in _names_below(path, "", ()) if not is_hidden(name)]
        self.n_skipped = 0

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        return read_file(self.path / name)


def read_file(path: Path) -> bytes:
    """Return the content of a file of moderate size."""
    about = path.stat()
    if not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):
        raise ValueError("a device or a pipe, which may have no end")
    _require_moderate(about.st_size)
    return path.read_bytes()


def _names_below(folder: Path, prefix: str, above: tuple[tuple[int, int], ...]) -> Iterator[str]:
    """Yield relative names of files. Links are followed, but not to a folder above."""
    about = folder.stat()
    above = (*above, (about.st_dev, about.st_ino))
    if above[-1] in above[:-1]:
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _names_below(Path(entry.path), f"{prefix}{entry.name}/", above)
            elif entry.is_file():
                yield prefix + entry.name


def _require_moderate(n_bytes: int) -> None:
    if n_bytes > _MOST_BYTES:
        raise ValueError(f"{n_bytes / 1e9:.1f} GB are too large for a picture")


class _Packed(NamedTuple):
    """Position of a file in a zip archive."""

    start: int
    n_packed: int
    n_bytes: int
    checksum: int
    method: int


class ZipArchive:
    """Files of a zip archive. Its directory is read once; each read opens the archive anew."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.n_skipped = 0
        self._packed: dict[str, _Packed] = {}
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                self._add(member)
        self.names = list(self._packed)

    def _add(self, member: zipfile.ZipInfo) -> None:
        # Some programs for Windows write backslashes, and folders as names that end in one.
        name = _strip_start(member.filename.replace("\\", "/"))
        if name.endswith("/") or is_hidden(name):
            return
        if member.flag_bits & 1:
            raise DataError(
                f"{self.path.name} must not be encrypted; {name} is. Unpack it, and pass the "
                "folder."
            )
        if stat.S_ISLNK(member.external_attr >> 16):
            self.n_skipped += 1
            return
        self._packed[name] = _Packed(
            member.header_offset,
            member.compress_size,
            member.file_size,
            member.CRC,
            member.compress_type,
        )

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        start, n_packed, n_bytes, checksum, method = self._packed[name]
        _require_moderate(max(n_packed, n_bytes))
        if method not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"compression {method} of the archive; unpack it")
        with self.path.open("rb") as file:
            file.seek(start)
            # The lengths of name and extra field may differ from those in the directory.
            mark, n_name, n_extra = struct.unpack("<4s22xHH", file.read(30))
            if mark != b"PK\x03\x04":
                raise ValueError("the archive has changed")
            file.seek(n_name + n_extra, os.SEEK_CUR)
            content = file.read(n_packed)
        if method == zipfile.ZIP_DEFLATED:
            content = zlib.decompressobj(-zlib.MAX_WBITS).decompress(content, n_bytes + 1)
        if len(content) != n_bytes or zlib.crc32(content) != checksum:
            raise ValueError("the checksum in the archive differs")
        return content


class TarArchive:
    """Files of a tar archive, compressed or not. Links are skipped.

    The temporary copy of a compressed archive is removed with this object. Pickles hold the path
    only, and a copy is made anew.
    """

    def __init__(self, path: Path) -> None:
        self.path = self._content = path.absolute()
        self.n_skipped = 0
        self._spans: dict[str, tuple[int, int]] = {}  # position and length
        try:
            with tarfile.open(path, "r:") as archive:
                for member in archive:
                    if self._is_wanted(member):
                        self._spans[_strip_start(member.name)] = member.offset_data, member.size
        except tarfile.ReadError:  # it is compressed, or damaged
            self._copy()
        self.names = list(self._spans)

    def __reduce__(self) -> tuple[type[TarArchive], tuple[Path]]:
        return type(self), (self.path,)

    def _is_wanted(self, member: tarfile.TarInfo) -> bool:
        if member.isdir() or is_hidden(_strip_start(member.name)):
            return False
        is_plain = member.isreg() and member.sparse is None
        self.n_skipped += not is_plain
        return is_plain

    def _copy(self) -> None:
        """Copy the files one after the other to a temporary one."""
        handle, name = tempfile.mkstemp(prefix="zonkey-", suffix=".pictures")
        self._content = Path(name)
        weakref.finalize(self, _remove, self._content, os.getpid())
        self._spans.clear()
        self.n_skipped = 0
        with os.fdopen(handle, "wb") as copy, tarfile.open(self.path, "r|*") as archive:
            for member in archive:
                if not self._is_wanted(member):
                    continue
                start, name = copy.tell(), _strip_start(member.name)
                self._spans[name] = start, member.size
                if member.size > _MOST_BYTES:
                    continue  # `read` refuses it
                file = archive.extractfile(member)
                while file is not None and (block := file.read(1 << 20)):
                    if shutil.disk_usage(self._content.parent).free < _SPARE_BYTES + len(block):
                        raise DataError(
                            f"{self.path.name} must fit unpacked into {self._content.parent}; the "
                            "disk is nearly full. Unpack it elsewhere, and pass the folder."
                        )
                    copy.write(block)
                self._spans[name] = start, copy.tell() - start

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        start, n_bytes = self._spans[name]
        _require_moderate(n_bytes)
        with self._content.open("rb") as file:
            file.seek(start)
            content = file.read(n_bytes)
        if len(content) < n_bytes:
            raise ValueError("the archive is cut short")
        return content


def _strip_start(name: str) -> str:
    """Return the name of an archived file without a start that means the top folder."""
    return name.removeprefix("./").lstrip("/")


def _remove(path: Path, process: int) -> None:
    if os.getpid() == process:  # a forked process shares the file
        path.unlink(missing_ok=True)
