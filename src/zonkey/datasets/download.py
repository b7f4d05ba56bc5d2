"""Download one file over HTTP, going on where an earlier call was cut off."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .archive import check_space
from .errors import DataError
from .registry import readable

# `pooch.retrieve` downloads to a file of random name and deletes it when anything fails, so that
# nothing is left to go on with. Pooch gives the cache folder and the hash; this is ours.

_CHUNK = 1 << 16  # bytes; as many may be lost where a reply breaks off
_AGAIN = "run the same command again to go on"


def download(url: str, file: Path, *, size: int, progress: bool, timeout: float) -> Path:
    """Download what is missing of a file, and return where it lies, complete but not verified.

    Parameters
    ----------
    url : str
    file : Path
        What the file will be called in the end. It is written to `<file>.part`, which stays there
        when the download fails; `<file>.part.etag` keeps which version of the file it is of.
    size : int
        Bytes, roughly, for servers that do not tell.
    progress : bool
        Show a progress bar on stderr.
    timeout : float
        Seconds without a sign of the server until the call gives up.

    Returns
    -------
    Path
        `<file>.part`.

    Raises
    ------
    DataError
        In one line, with the remedy.
    """
    import requests

    part = part_of(file)
    # Every download keeps a version, if only an empty one; without it the part is not one of ours.
    kept = part.stat().st_size if part.exists() and _etag_of(part).exists() else 0
    with requests.Session() as session:
        for start in (kept, 0):  # from the beginning where the server cannot go on
            with _ask(session, url, file, start, timeout) as reply:
                if start and _tells_whole(reply, start):
                    return part
                if start and not _can_go_on(reply, start, _version_of(part)):
                    continue
                _check_status(reply, file)
                _receive(reply, file, start if reply.status_code == 206 else 0, size, progress)
                break
    return part


def part_of(file: Path) -> Path:
    """Return where a file lies until it is complete."""
    return file.with_name(file.name + ".part")


def forget_part(file: Path) -> None:
    """Remove what has come of a file, so that the next download starts anew."""
    part_of(file).unlink(missing_ok=True)
    _etag_of(part_of(file)).unlink(missing_ok=True)


def _etag_of(part: Path) -> Path:
    return part.with_name(part.name + ".etag")


def _version_of(part: Path) -> str | None:
    try:
        return _etag_of(part).read_text(encoding="latin-1") or None
    except FileNotFoundError:
        return None


def _ask(session: Any, url: str, file: Path, start: int, timeout: float) -> Any:
    """Return the server's reply, whose body is still to be read."""
    import requests

    headers = {"Accept-Encoding": "identity"}  # a position in a compressed reply means nothing
    if start:
        headers["Range"] = f"bytes={start}-"
        version = _version_of(part_of(file))
        if version:
            headers["If-Range"] = version
    try:
        return session.get(url, headers=headers, timeout=timeout, stream=True)
    except requests.RequestException as error:
        raise DataError(
            f"No file came from {url} ({_reason(error, timeout)}); check the network, or download "
            f"it by hand and put it to {file}."
        ) from None


def _reason(error: Exception, timeout: float) -> str:
    import requests

    reasons = {
        requests.exceptions.ConnectTimeout: f"no reply within {timeout:g} s",
        requests.exceptions.ReadTimeout: f"no reply within {timeout:g} s",
        requests.exceptions.SSLError: "the secure connection failed",
        requests.exceptions.ProxyError: "the proxy refused",
        requests.exceptions.ConnectionError: "no connection",
        requests.exceptions.TooManyRedirects: "it redirects without end",
    }
    known = (text for kind, text in reasons.items() if isinstance(error, kind))
    return next(known, type(error).__name__)


def _range_of(reply: Any) -> tuple[int | None, int | None]:
    """Return where the reply starts in the file and how long the file is, as far as it tells."""
    match = re.fullmatch(
        r"bytes (?:(\d+)-\d+|\*)/(?:(\d+)|\*)", reply.headers.get("Content-Range", "")
    )
    first, total = match.groups() if match else (None, None)
    return (int(first) if first else None), (int(total) if total else None)


def _tells_whole(reply: Any, start: int) -> bool:
    return reply.status_code == 416 and _range_of(reply)[1] == start


def _can_go_on(reply: Any, start: int, version: str | None) -> bool:
    """Whether the reply is an error, the whole file, or what follows the kept part of it."""
    if reply.status_code != 206:
        return reply.status_code != 416
    changed = version and _version_in(reply) and _version_in(reply) != version
    return _range_of(reply)[0] == start and not changed


def _version_in(reply: Any) -> str | None:
    """Return what tells this version of the file from others; a weak tag promises too little."""
    etag = reply.headers.get("ETag", "")
    return etag if etag.startswith('"') else reply.headers.get("Last-Modified")


def _check_status(reply: Any, file: Path) -> None:
    if reply.status_code in (200, 206):
        return
    remedy = f"the file may have moved; download it by hand and put it to {file}"
    if reply.status_code >= 500:
        remedy = f"try again later, or download it by hand and put it to {file}"
    status = f"{reply.status_code} {reply.reason or ''}".strip()
    raise DataError(f"The server must send {reply.url}; it answered {status}: {remedy}.")


def _receive(reply: Any, file: Path, start: int, size: int, progress: bool) -> None:
    """Write the body of the reply to the partial file, from position `start` on."""
    import requests

    length = reply.headers.get("Content-Length", "")
    total = start + int(length) if length.isdecimal() else None
    check_space(file.parent, (total or max(size, start)) - start, f"Downloading {file.name}")
    part = part_of(file)
    try:
        with (
            _bar(file.name, start, total or size, progress) as advance,
            part.open("ab" if start else "wb") as handle,
        ):
            if not start:  # after the old part is gone, lest it be taken for the new version
                _etag_of(part).write_text(_version_in(reply) or "", encoding="latin-1")
            for chunk in reply.iter_content(_CHUNK):
                handle.write(chunk)
                advance(len(chunk))
    except requests.RequestException:  # an OSError too, so it comes first
        raise _broken_off(reply.url, part, total) from None
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        came = part.stat().st_size
        raise DataError(
            f"The disk of {file.parent} is full: {readable(came)} of {file.name} are kept, "
            f"{readable(max((total or size) - came, 0))} are missing. Make room, then {_AGAIN}."
        ) from None
    if total is not None and part.stat().st_size < total:
        raise _broken_off(reply.url, part, total)


@contextmanager
def _bar(name: str, start: int, total: int, progress: bool) -> Iterator[Callable[[int], Any]]:
    """Yield a function to call with the number of bytes that came."""
    if not progress:
        yield lambda _: None
        return
    try:
        from tqdm import tqdm
    except ImportError:
        raise ImportError(
            'A progress bar needs tqdm; install it with pip install "zonkey[data]".'
        ) from None
    with tqdm(total=total, initial=start, desc=name, unit="B", unit_scale=True) as bar:
        yield bar.update


def _broken_off(url: str, part: Path, total: int | None) -> DataError:
    came = readable(part.stat().st_size)
    of = f" of {readable(total)}" if total else ""
    return DataError(
        f"The reply of {url} broke off or stalled: {came}{of} are kept in {part}; {_AGAIN}."
    )
