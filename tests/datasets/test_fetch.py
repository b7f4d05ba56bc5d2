import errno
import hashlib
import io
import json
import os
import random
import socket
import sys
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import pytest
import requests
from http_server import interrupt_downloads, leave_free, names_in, serving, zip_of

from zonkey.datasets.errors import DataError
from zonkey.datasets.fetch import data_folder, fetch, fetch_dataset, find_dataset
from zonkey.datasets.registry import Remote

CONTENT = random.Random(0).randbytes(300_000)
OTHER = random.Random(1).randbytes(300_000)
BLOCK = 65_536  # what is written at a time
PART = ["stripes.bin.part", "stripes.bin.part.etag"]
WHOLE = ["checksums.json", "stripes.bin"]


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def registry_of(url, **fields):
    terms = {"license": "none", "citation": "none", "about": "stripes"}
    known = {"name": "stripes", "url": url, "size": 300_000, "sha256": None, "members": "stripes"}
    return {"stripes": Remote(**{**terms, **known, **fields})}


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(CONTENT) as server:
        yield server


@pytest.fixture
def get(server, tmp_path):
    """Fetch stripes.bin from the server, or what `fields` of the registry say."""

    def get(*, timeout=5, **fields):
        registry = registry_of(**{"url": server.url("stripes.bin"), **fields})
        return fetch("stripes", folder=tmp_path, registry=registry, timeout=timeout)

    return get


def refusal_of(get, **arguments):
    with pytest.raises(DataError) as refusal:
        get(**arguments)
    message = str(refusal.value)
    assert "\n" not in message
    return message


def leave_part(folder, content, etag_of=CONTENT):
    (folder / PART[0]).write_bytes(content)
    if etag_of is not None:
        (folder / PART[1]).write_text(f'"{hashlib.md5(etag_of).hexdigest()}"')


def test_a_file_is_fetched_once(get, server, tmp_path):
    file = get()
    assert file == tmp_path / "stripes.bin"
    assert file.read_bytes() == CONTENT
    assert names_in(tmp_path) == WHOLE
    assert get() == file
    assert server.seen_ranges() == [None]


def test_names_are_known_in_upper_case_and_unknown_ones_refused(server, tmp_path):
    registry = registry_of(server.url("stripes.bin"))
    assert fetch("Stripes", folder=str(tmp_path), registry=registry).is_file()
    with pytest.raises(DataError, match="must be one of stripes; got 'strips'"):
        fetch("strips", folder=tmp_path, registry=registry)


def test_redirects_are_followed(get, server):
    server.redirects["/stripes.bin"] = "/moved/elsewhere"
    assert get().read_bytes() == CONTENT
    assert len(server.seen) == 2


def test_endless_redirects_are_told(get, server):
    server.redirects["/stripes.bin"] = "/stripes.bin"
    assert "it redirects without end" in refusal_of(get)


def test_a_server_that_does_not_tell_the_length_will_do(get, server):
    server.length = False
    assert get().read_bytes() == CONTENT


def test_a_truncated_reply_is_kept_and_gone_on_with(get, server, tmp_path):
    server.cut_at = 150_000
    message = refusal_of(get)
    assert "131 KB of 300 KB are kept" in message
    assert message.endswith("run the same command again to go on.")
    assert names_in(tmp_path) == PART
    assert (tmp_path / PART[0]).read_bytes() == CONTENT[: 2 * BLOCK]
    server.cut_at = None
    assert get().read_bytes() == CONTENT
    assert server.seen_ranges() == [None, f"bytes={2 * BLOCK}-"]
    assert server.seen[1]["If-Range"] == f'"{hashlib.md5(CONTENT).hexdigest()}"'
    assert names_in(tmp_path) == WHOLE


def test_an_interrupted_fetch_is_gone_on_with(get, server, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        interrupt_downloads(patch)
        with pytest.raises(KeyboardInterrupt):
            get()
    assert names_in(tmp_path) == PART
    assert get().read_bytes() == CONTENT
    assert server.seen_ranges() == [None, f"bytes={BLOCK}-"]


def test_a_reply_that_ends_early_without_an_error_is_found_out(get, tmp_path, monkeypatch):
    original = requests.Response.iter_content
    monkeypatch.setattr(
        requests.Response, "iter_content", lambda self, size: islice(original(self, size), 2)
    )
    assert "131 KB of 300 KB are kept" in refusal_of(get)
    assert names_in(tmp_path) == PART


def test_a_server_without_ranges_starts_anew(get, server, tmp_path):
    leave_part(tmp_path, CONTENT[:1000])
    server.ranges = False
    assert get().read_bytes() == CONTENT
    assert server.seen_ranges() == ["bytes=1000-"]


@pytest.mark.parametrize("obeys_if_range", [True, False])
def test_a_part_of_another_version_is_not_gone_on_with(get, server, tmp_path, obeys_if_range):
    leave_part(tmp_path, OTHER[:1000], etag_of=OTHER)
    server.if_range = obeys_if_range
    assert get().read_bytes() == CONTENT
    assert server.seen_ranges() == ["bytes=1000-"] + ([] if obeys_if_range else [None])


def test_a_part_of_a_server_that_tells_no_version_is_gone_on_with(get, server, tmp_path):
    server.etag, server.cut_at = False, 150_000
    refusal_of(get)
    server.cut_at = None
    assert get().read_bytes() == CONTENT
    assert server.seen_ranges() == [None, f"bytes={2 * BLOCK}-"]
    assert "If-Range" not in server.seen[1]


@pytest.mark.parametrize("length", [1000, 300_000])
def test_a_part_that_no_download_left_is_not_gone_on_with(get, server, tmp_path, length):
    leave_part(tmp_path, OTHER[:length], etag_of=None)
    assert get().read_bytes() == CONTENT
    assert server.seen_ranges() == [None]
    assert names_in(tmp_path) == WHOLE


def test_a_part_that_is_too_long_starts_anew(get, server, tmp_path):
    leave_part(tmp_path, CONTENT + b"more")
    assert get().read_bytes() == CONTENT
    assert server.seen_ranges() == ["bytes=300004-", None]


def test_a_part_that_is_whole_is_taken_as_it_is(get, server, tmp_path):
    leave_part(tmp_path, CONTENT)
    assert get(sha256=sha256(CONTENT)).read_bytes() == CONTENT
    assert server.seen_ranges() == ["bytes=300000-"]
    assert names_in(tmp_path) == ["stripes.bin"]


def test_a_part_of_wrong_bytes_is_found_out_and_dropped(get, tmp_path):
    leave_part(tmp_path, OTHER[:1000])
    assert "is damaged or of another version" in refusal_of(get, sha256=sha256(CONTENT))
    assert names_in(tmp_path) == []
    assert get(sha256=sha256(CONTENT)).read_bytes() == CONTENT


def test_a_file_of_the_wrong_hash_is_refused(get, tmp_path):
    message = refusal_of(get, sha256=sha256(OTHER))
    assert f"must be {sha256(OTHER)}; got {sha256(CONTENT)}" in message
    assert names_in(tmp_path) == []


def test_the_first_download_pins_the_hash_of_a_file_without_one(get, server, tmp_path):
    (tmp_path / "checksums.json").write_text('{"other.bin": "abc"}')
    get().unlink()
    pins = {"other.bin": "abc", "stripes.bin": sha256(CONTENT)}
    assert json.loads((tmp_path / "checksums.json").read_text()) == pins
    server.content = OTHER
    message = refusal_of(get)
    assert "has changed since it was first fetched" in message
    assert f"must be {sha256(CONTENT)}; got {sha256(OTHER)}" in message
    assert f"delete the line of stripes.bin in {tmp_path / 'checksums.json'}" in message
    assert names_in(tmp_path) == ["checksums.json"]
    assert json.loads((tmp_path / "checksums.json").read_text()) == pins


def test_a_file_put_there_by_hand_is_used_and_pinned(get, server, tmp_path):
    (tmp_path / "stripes.bin").write_bytes(OTHER)
    assert get().read_bytes() == OTHER
    assert server.seen == []
    pins = json.loads((tmp_path / "checksums.json").read_text())
    assert pins == {"stripes.bin": sha256(OTHER)}


def test_a_file_damaged_on_disk_is_told_and_not_deleted(get, tmp_path):
    file = get()
    file.write_bytes(OTHER)
    message = refusal_of(get)
    assert f"The file {file} is damaged or of another version" in message
    assert file.read_bytes() == OTHER


@pytest.mark.parametrize("content", ["{", "[]", '{"stripes.bin": 1}', "\x80"])
def test_pins_that_cannot_be_read_are_told_before_the_download(get, server, tmp_path, content):
    (tmp_path / "checksums.json").write_text(content, encoding="latin-1")
    assert "must be a JSON object of file names and hashes" in refusal_of(get)
    assert server.seen == []


@pytest.mark.parametrize(
    ("status", "text", "remedy"),
    [
        (403, "403 Forbidden", "may have moved"),
        (404, "404 Not Found", "may have moved"),
        (500, "500 Internal Server Error", "try again later"),
        (503, "503 Service Unavailable", "try again later"),
    ],
)
@pytest.mark.parametrize("kept", [[], PART])
def test_an_error_of_the_server_is_told_and_keeps_the_part(
    get, server, tmp_path, status, text, remedy, kept
):
    if kept:
        leave_part(tmp_path, CONTENT[:1000])
    server.status = status
    message = refusal_of(get)
    assert text in message
    assert remedy in message
    assert server.url("stripes.bin") in message
    assert names_in(tmp_path) == kept


def test_a_slow_reply_is_given_up(get, server, tmp_path):
    server.delay = 0.6
    message = refusal_of(get, timeout=0.1)
    assert "(no reply within 0.1 s); check the network, or download it by hand" in message
    assert names_in(tmp_path) == []


def test_a_reply_that_stalls_is_kept_and_gone_on_with(get, server, tmp_path):
    server.cut_at, server.stall = 150_000, 0.6
    assert "broke off or stalled: 131 KB of 300 KB are kept" in refusal_of(get, timeout=0.1)
    assert names_in(tmp_path) == PART
    server.cut_at, server.stall = None, 0
    assert get().read_bytes() == CONTENT
    assert server.seen_ranges() == [None, f"bytes={2 * BLOCK}-"]


def test_no_connection_is_told_with_address_and_remedy(get, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/stripes.bin"
    assert refusal_of(get, url=url) == (
        f"No file came from {url} (no connection); check the network, or download it by hand and "
        f"put it to {tmp_path / 'stripes.bin'}."
    )
    assert names_in(tmp_path) == []


def test_an_unknown_host_is_told_alike(get, monkeypatch):
    def fail(*arguments, **options):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr(socket, "getaddrinfo", fail)
    url = "http://nowhere.invalid/stripes.bin"
    assert f"No file came from {url} (no connection)" in refusal_of(get, url=url)


@pytest.mark.parametrize(("length", "needed"), [(True, "299 KB"), (False, "499 KB")])
def test_a_disk_too_small_is_told_before_the_download(
    get, server, tmp_path, monkeypatch, length, needed
):
    leave_free(monkeypatch, 100)
    leave_part(tmp_path, CONTENT[:1000])
    server.length = length
    message = refusal_of(get, size=500_000)
    assert f"Downloading stripes.bin needs {needed} in {tmp_path}; 100 bytes are free" in message
    assert (tmp_path / PART[0]).read_bytes() == CONTENT[:1000]


@pytest.fixture
def failing_disk(monkeypatch):
    """Return a context in which writing fails after the first block."""

    @contextmanager
    def failing(number):
        class Disk(io.FileIO):
            def write(self, block):
                if self.tell() >= BLOCK:
                    raise OSError(number, os.strerror(number))
                return super().write(block)

        def open_part(path, mode="r", *arguments, **options):
            if path.name == PART[0]:
                return Disk(path, mode)
            return original(path, mode, *arguments, **options)

        original = Path.open
        with monkeypatch.context() as patch:
            patch.setattr(Path, "open", open_part)
            yield

    return failing


def test_a_disk_that_fills_on_the_way_keeps_the_part(get, server, tmp_path, failing_disk):
    with failing_disk(errno.ENOSPC):
        message = refusal_of(get)
    assert f"The disk of {tmp_path} is full: 65.5 KB of stripes.bin are kept, 234 KB" in message
    assert names_in(tmp_path) == PART
    assert get().read_bytes() == CONTENT
    assert server.seen_ranges() == [None, f"bytes={BLOCK}-"]


def test_a_disk_that_breaks_on_the_way_is_told(get, tmp_path, failing_disk):
    with failing_disk(errno.EIO):
        assert f"({os.strerror(errno.EIO)})" in refusal_of(get)
    assert names_in(tmp_path) == PART


def test_a_folder_that_is_a_file_is_refused(get, server, tmp_path):
    (tmp_path / "file").write_text("mine")
    registry = registry_of(server.url("stripes.bin"))
    with pytest.raises(DataError, match="must be one to write to; it is not"):
        fetch("stripes", folder=tmp_path / "file", registry=registry)


def test_only_one_process_fetches_into_a_folder(get, server, tmp_path):
    fcntl = pytest.importorskip("fcntl")
    handle = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        assert "another is at it" in refusal_of(get)
    finally:
        os.close(handle)
    assert server.seen == []


@pytest.mark.parametrize("lock", [None, OSError(errno.ENOLCK, "No locks available")])
def test_a_system_without_locks_will_do(get, monkeypatch, lock):
    def flock(*arguments):
        raise lock

    fcntl = lock and SimpleNamespace(flock=flock, LOCK_EX=2, LOCK_NB=4)
    monkeypatch.setitem(sys.modules, "fcntl", fcntl)
    assert get().read_bytes() == CONTENT


def test_another_file_put_there_by_hand_is_refused_and_not_deleted(get, server, tmp_path):
    file = tmp_path / "stripes.zip"
    file.write_text("not an archive")
    message = refusal_of(get, url=server.url("stripes.zip"))
    assert message == f"The file {file} must be a zip archive; it is not. Delete it."
    assert file.exists()


def test_a_login_page_is_not_taken_for_an_archive(get, server, tmp_path):
    server.content = b"<html>Please log in</html>"
    message = refusal_of(get, url=server.url("stripes.zip"))
    assert "must be a zip archive; got something else" in message
    assert names_in(tmp_path) == []


def damaged(content):
    """Return an archive with one byte changed in what it holds, so that only reading it tells."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


ARCHIVE = zip_of({"stripes/a.bin": CONTENT})


def test_a_damaged_first_download_is_not_pinned_and_the_next_one_taken(get, server, tmp_path):
    url = server.url("stripes.zip")
    server.content = damaged(ARCHIVE)
    assert refusal_of(get, url=url) == (
        f"The file from {url} must be a zip archive that can be read to its end; it cannot (the "
        "entry 'stripes/a.bin' is damaged). Run the same command again, or download it by hand "
        f"and unpack it in {tmp_path}."
    )
    assert names_in(tmp_path) == []
    server.content = ARCHIVE
    assert get(url=url).read_bytes() == ARCHIVE
    pins = json.loads((tmp_path / "checksums.json").read_text())
    assert pins == {"stripes.zip": sha256(ARCHIVE)}


def test_a_damaged_archive_put_there_by_hand_is_not_pinned_and_not_deleted(get, server, tmp_path):
    file = tmp_path / "stripes.zip"
    file.write_bytes(damaged(ARCHIVE))
    message = refusal_of(get, url=server.url("stripes.zip"))
    assert f"The file {file} must be a zip archive that can be read to its end" in message
    assert "Delete it and run the same command again" in message
    assert names_in(tmp_path) == ["stripes.zip"]


def test_an_archive_of_a_known_hash_is_not_read_twice(get, server, monkeypatch):
    server.content = ARCHIVE
    monkeypatch.setattr("zonkey.datasets.fetch.find_damage", None)
    file = get(url=server.url("stripes.zip"), sha256=sha256(ARCHIVE))
    assert file.read_bytes() == ARCHIVE


def test_a_progress_bar_is_shown_on_stderr_only_if_asked_for(get, server, tmp_path, capsys):
    get()
    assert capsys.readouterr() == ("", "")
    registry = registry_of(server.url("stripes.bin"))
    fetch("stripes", folder=tmp_path / "again", registry=registry, progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "stripes.bin: 100%" in shown.err


@pytest.mark.parametrize(("package", "progress"), [("pooch", False), ("tqdm", True)])
def test_a_missing_package_is_named_with_its_extra(
    server, tmp_path, monkeypatch, package, progress
):
    monkeypatch.setitem(sys.modules, package, None)
    registry = registry_of(server.url("stripes.bin"))
    with pytest.raises(ImportError, match=rf'needs {package}; .* "zonkey\[data\]"'):
        fetch("stripes", folder=tmp_path, registry=registry, progress=progress)


def test_the_data_folder_is_the_argument_or_the_variable_or_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ZONKEY_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    assert data_folder("elsewhere") == Path.cwd() / "elsewhere"
    monkeypatch.delenv("ZONKEY_DATA")
    assert data_folder().is_absolute()
    assert "zonkey" in data_folder().parts


@pytest.fixture
def two_sets(server, tmp_path):
    """Return options to fetch one of two data sets of one archive."""
    server.content = zip_of({"all/A/a.txt": b"of A", "all/B/b.txt": b"of B"})
    registry = {
        name: registry_of(
            server.url("all.zip"), members=f"all/{name.upper()}", required=(f"{name}.txt",)
        )["stripes"]
        for name in ("a", "b")
    }
    return {"folder": tmp_path, "registry": registry}


def test_data_sets_that_share_an_archive_fetch_it_once(two_sets, server, tmp_path):
    assert find_dataset("a", **two_sets) is None
    assert fetch_dataset("a", **two_sets) == tmp_path / "all" / "A"
    assert find_dataset("a", **two_sets) == tmp_path / "all" / "A"
    assert names_in(tmp_path / "all") == ["A", "A/a.txt"]
    assert (fetch_dataset("B", **two_sets) / "b.txt").read_bytes() == b"of B"
    assert len(server.seen) == 1
    assert names_in(tmp_path) == [
        "all",
        "all.zip",
        "all/A",
        "all/A/a.txt",
        "all/B",
        "all/B/b.txt",
        "checksums.json",
    ]


def test_a_data_set_that_was_extracted_needs_neither_archive_nor_network(two_sets, server):
    folder = two_sets["folder"] / "all" / "A"
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text("mine")
    assert fetch_dataset("a", **two_sets) == folder
    assert server.seen == []
    assert (folder / "a.txt").read_text() == "mine"


def test_an_empty_folder_is_not_taken_for_the_data_set(two_sets):
    folder = two_sets["folder"] / "all" / "A"
    folder.mkdir(parents=True)
    assert find_dataset("a", **two_sets) is None
    assert fetch_dataset("a", **two_sets) == folder
    assert (folder / "a.txt").read_bytes() == b"of A"


def test_an_incomplete_folder_is_told_before_the_download_and_left_alone(two_sets, server):
    folder = two_sets["folder"] / "all" / "A"
    folder.mkdir(parents=True)
    (folder / "mine.txt").write_text("mine")
    assert find_dataset("a", **two_sets) is None
    with pytest.raises(DataError) as refusal:
        fetch_dataset("a", **two_sets)
    assert str(refusal.value) == (
        f"The folder {folder} must hold a.txt; got one without a.txt. Move it away, or put a.txt "
        "there."
    )
    assert server.seen == []
    assert names_in(two_sets["folder"]) == ["all", "all/A", "all/A/mine.txt"]
