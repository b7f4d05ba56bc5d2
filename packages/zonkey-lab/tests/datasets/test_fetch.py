import errno
import hashlib
import io
import os
import random
import socket
import stat
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from http_server import interrupt_downloads, names_in, serving, zip_of

from zonkey.files.dataset import DataError
from zonkey_lab.datasets.fetch import data_folder, extract, fetch_dataset, find_damage, find_dataset
from zonkey_lab.datasets.registry import Remote

CONTENT = random.Random(0).randbytes(300_000)
ARCHIVE = zip_of({"stripes/a.bin": CONTENT})
OTHER = zip_of({"stripes/a.bin": random.Random(1).randbytes(300_000)})
BLOCK = 65_536  # bytes written at a time
PART = ["stripes.zip.part"]
WHOLE = ["stripes", "stripes.zip", "stripes/a.bin"]


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def remote_of(url, **fields):
    terms = {"license": "none", "citation": "none", "about": "stripes"}
    known = {"name": "stripes", "url": url, "size": 300_000, "sha256": None, "members": "stripes"}
    return Remote(**{**terms, **known, **fields})


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(ARCHIVE) as server:
        yield server


@pytest.fixture
def get(server, tmp_path):
    """Fetch the data set from the server, or as `fields` of the registry say."""

    def get(*, timeout=5, progress=False, **fields):
        registry = {"stripes": remote_of(**{"url": server.url("stripes.zip"), **fields})}
        options = {"folder": tmp_path, "timeout": timeout, "progress": progress}
        return fetch_dataset("stripes", registry=registry, **options) / "a.bin"

    return get


def refusal_of(call, *arguments, **named):
    with pytest.raises(DataError) as refusal:
        call(*arguments, **named)
    message = str(refusal.value)
    assert "\n" not in message
    return message


def test_a_data_set_is_fetched_once_by_its_name_in_any_case(get, server, tmp_path):
    registry = {"stripes": remote_of(server.url("stripes.zip"))}
    with pytest.raises(DataError, match="must be one of stripes; got 'strips'"):
        fetch_dataset("strips", folder=tmp_path, registry=registry)
    assert get() == tmp_path / "stripes" / "a.bin"
    assert get().read_bytes() == CONTENT
    assert names_in(tmp_path) == WHOLE
    assert fetch_dataset("Stripes", folder=str(tmp_path), registry=registry).is_dir()
    assert server.seen_ranges() == [None]


def test_redirects_are_followed(get, server):
    server.redirects["/stripes.zip"] = "/moved/elsewhere"
    assert get().read_bytes() == CONTENT
    assert len(server.seen) == 2


def test_a_truncated_reply_is_kept_and_resumed(get, server, tmp_path):
    server.cut_at = 150_000
    message = refusal_of(get)
    assert "failed or stalled" in message
    assert "run the same command again to resume" in message
    assert names_in(tmp_path) == PART
    kept = (tmp_path / PART[0]).read_bytes()
    assert 2 * BLOCK <= len(kept) <= 150_000
    assert ARCHIVE.startswith(kept)
    server.cut_at = None
    assert get().read_bytes() == CONTENT
    assert server.seen_ranges() == [None, f"bytes={len(kept)}-"]
    assert names_in(tmp_path) == WHOLE


def test_an_interrupted_fetch_is_resumed(get, server, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        interrupt_downloads(patch)
        with pytest.raises(KeyboardInterrupt):
            get()
    assert names_in(tmp_path) == PART
    assert get().read_bytes() == CONTENT
    assert server.seen_ranges() == [None, f"bytes={BLOCK}-"]


def test_a_server_without_ranges_starts_anew(get, server, tmp_path):
    (tmp_path / PART[0]).write_bytes(ARCHIVE[:1000])
    server.ranges = False
    assert get().read_bytes() == CONTENT
    assert server.seen_ranges() == ["bytes=1000-"]


def test_a_complete_part_is_taken_as_it_is(get, server, tmp_path):
    (tmp_path / PART[0]).write_bytes(ARCHIVE)
    assert get().read_bytes() == CONTENT
    assert server.seen_ranges() == [f"bytes={len(ARCHIVE)}-"]
    assert names_in(tmp_path) == WHOLE


@pytest.mark.parametrize("known", [None, sha256(ARCHIVE)], ids=["unknown hash", "known hash"])
def test_a_part_of_another_version_is_found_and_dropped(get, tmp_path, known):
    (tmp_path / PART[0]).write_bytes(OTHER[:1000])
    assert "must be a complete zip archive; it is not" in refusal_of(get, sha256=known)
    assert names_in(tmp_path) == []
    assert get(sha256=known).read_bytes() == CONTENT


def test_an_archive_of_the_wrong_hash_is_refused(get, tmp_path):
    message = refusal_of(get, sha256=sha256(OTHER))
    assert f"expected {sha256(OTHER)} but got {sha256(ARCHIVE)}" in message
    assert names_in(tmp_path) == []


def test_an_archive_put_there_by_hand_is_used_if_its_hash_is_right(get, server, tmp_path):
    (tmp_path / "stripes.zip").write_bytes(ARCHIVE)
    assert get().read_bytes() == CONTENT
    assert server.seen == []
    assert names_in(tmp_path) == WHOLE
    (tmp_path / "stripes" / "a.bin").unlink()
    (tmp_path / "stripes.zip").write_bytes(OTHER)
    assert get(sha256=sha256(ARCHIVE)).read_bytes() == CONTENT
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("status", "kept"),
    [("403 Forbidden", b""), ("404 Not Found", ARCHIVE[:1000]), ("503 Service Unavailable", b"")],
)
def test_an_error_of_the_server_is_told_and_keeps_the_part(get, server, tmp_path, status, kept):
    (tmp_path / PART[0]).write_bytes(kept)
    server.status = int(status[:3])
    message = refusal_of(get)
    assert f"{server.url('stripes.zip')}; it answered {status}. Try again later" in message
    assert message.endswith(f"or download the file by hand to {tmp_path / 'stripes.zip'}.")
    assert (tmp_path / PART[0]).read_bytes() == kept


def test_a_slow_reply_is_given_up_and_one_that_stalls_is_resumed(get, server, tmp_path):
    server.delay = 0.6
    assert "failed or stalled (ReadTimeout). Check the network" in refusal_of(get, timeout=0.1)
    server.delay, server.cut_at, server.stall = 0, 150_000, 0.6
    assert "failed or stalled" in refusal_of(get, timeout=0.1)
    assert (tmp_path / PART[0]).stat().st_size >= 2 * BLOCK
    server.cut_at, server.stall = None, 0
    assert get().read_bytes() == CONTENT
    assert len([asked for asked in server.seen_ranges() if asked]) == 1


def test_no_connection_is_told_with_address_and_remedy(get, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/stripes.zip"
    assert refusal_of(get, url=url) == (
        f"Downloading {url} failed or stalled (ConnectionError). Check the network and run the "
        "same command again to resume, or download the file by hand to "
        f"{tmp_path / 'stripes.zip'}."
    )


def test_a_folder_that_is_a_file_is_refused(server, tmp_path):
    (tmp_path / "file").write_text("mine")
    registry = {"stripes": remote_of(server.url("stripes.zip"))}
    message = refusal_of(fetch_dataset, "stripes", folder=tmp_path / "file", registry=registry)
    assert f"The data folder {tmp_path / 'file'} must be writable; it is not" in message


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_told(get, tmp_path):
    (tmp_path / PART[0]).symlink_to("/dev/full")
    assert "(No space left on device). Make room, then run" in refusal_of(get)


def test_one_process_at_a_time_downloads_to_a_folder(get, server, tmp_path):
    fcntl = pytest.importorskip("fcntl")
    handle = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        assert "another one does. Wait." in refusal_of(get)
    finally:
        os.close(handle)
    assert server.seen == []
    assert get().read_bytes() == CONTENT


@pytest.mark.parametrize("lock", [None, OSError(errno.ENOLCK, "No locks available")])
def test_locks_are_optional(get, monkeypatch, lock):
    def flock(*arguments):
        raise lock

    fcntl = lock and SimpleNamespace(flock=flock, LOCK_EX=2, LOCK_NB=4)
    monkeypatch.setitem(sys.modules, "fcntl", fcntl)
    assert get().read_bytes() == CONTENT


def test_a_folder_that_cannot_be_read_is_told(get, tmp_path, monkeypatch):
    def iterdir(path):
        raise PermissionError(errno.EACCES, "Permission denied")

    (tmp_path / "stripes").mkdir()
    monkeypatch.setattr(Path, "iterdir", iterdir)
    assert "must be readable; it is not (Permission denied)" in refusal_of(get)


def damaged(content):
    """Change one byte of the data in an archive, which only reading it reveals."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def test_a_damaged_download_is_dropped_and_the_next_one_taken(get, server, tmp_path):
    start = f"The file from {server.url('stripes.zip')} must be a complete zip archive; it is not "
    end = f"Run the same command again, or download the file by hand to {tmp_path / 'stripes.zip'}."
    for content, reason in (
        (b"<html>Please log in</html>", "(File is not a zip file)"),
        (damaged(ARCHIVE), "(the entry 'stripes/a.bin' is damaged)"),
    ):
        server.content = content
        assert refusal_of(get) == f"{start}{reason}. {end}"
        assert names_in(tmp_path) == []
    server.content = ARCHIVE
    assert get().read_bytes() == CONTENT
    assert names_in(tmp_path) == WHOLE


def test_a_damaged_archive_put_there_by_hand_is_told_and_not_deleted(get, tmp_path):
    file = tmp_path / "stripes.zip"
    file.write_bytes(damaged(ARCHIVE))
    assert f"The archive {file} is damaged or incomplete" in refusal_of(get)
    assert names_in(tmp_path) == ["stripes.zip"]


def test_a_progress_bar_is_shown_on_stderr_only_if_requested(get, tmp_path, capsys):
    get().unlink()
    assert capsys.readouterr() == ("", "")
    for name in ("stripes", "stripes.zip"):
        path = tmp_path / name
        path.rmdir() if path.is_dir() else path.unlink()
    get(progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "100%" in shown.err


def test_without_pooch_the_extra_is_named(get, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r'needs pooch. Run: .*"zonkey-lab\[data\]"'):
        get()


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
        name: remote_of(
            server.url("all.zip"), members=f"all/{name.upper()}", required=(f"{name}.txt",)
        )
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
    assert names_in(tmp_path / "all") == ["A", "A/a.txt", "B", "B/b.txt"]


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
    assert refusal_of(fetch_dataset, "a", **two_sets) == (
        f"The folder {folder} must hold a.txt; it lacks a.txt. Move it away, or add a.txt."
    )
    assert server.seen == []
    assert names_in(two_sets["folder"]) == ["all", "all/A", "all/A/mine.txt"]


# Extracting one folder of an archive

MEMBERS = {
    "bundle/data/A/one.txt": b"first" * 100,
    "bundle/data/A/deep/two.txt": b"second",
    "bundle/data/AB/three.txt": b"third",
    "bundle/README": b"read me",
}


@pytest.fixture
def packed(tmp_path):
    """Write an archive next to an empty folder to extract to."""

    def pack(content):
        (tmp_path / "out").mkdir()
        archive = tmp_path / "bundle.zip"
        archive.write_bytes(content if isinstance(content, bytes) else zip_of(content))
        return archive, tmp_path / "out"

    return pack


def refused_extraction(archive, folder, members="bundle/data/A", required=()):
    """Return the message of the refusal, which must leave nothing behind."""
    before = names_in(folder.parent)
    message = refusal_of(extract, archive, folder, members, required)
    assert names_in(folder.parent) == before
    return message


def test_only_the_wanted_folder_is_extracted(packed):
    archive, out = packed(MEMBERS)
    extract(archive, out, "bundle/data/A")
    files = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert files == {
        out / "bundle/data/A/one.txt": b"first" * 100,
        out / "bundle/data/A/deep/two.txt": b"second",
    }


def test_an_archive_without_a_required_file_is_refused(packed):
    archive, out = packed(MEMBERS)
    assert refused_extraction(archive, out, required=("one.txt", "three.txt")) == (
        f"The archive {archive} must hold bundle/data/A/three.txt; it does not. Delete it and "
        "fetch it again."
    )


@pytest.mark.parametrize(
    "name",
    [
        "../outside.txt",
        "bundle/data/A/../../../../outside.txt",
        "/tmp/outside.txt",
        "..\\outside.txt",
        "C:/outside.txt",
        "C:outside.txt",
        "\\\\host\\share\\outside.txt",
    ],
)
def test_an_entry_that_leads_outside_is_refused(packed, name):
    archive, out = packed({**MEMBERS, name: b"gotcha"})
    message = refused_extraction(archive, out)
    assert "must hold plain files below its own folder" in message
    assert repr(name) in message


def test_a_symbolic_link_is_refused(packed):
    link = zipfile.ZipInfo("bundle/data/A/link")
    link.create_system = 3
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    message = refused_extraction(*packed({**MEMBERS, link: b"/etc/passwd"}))
    assert "'bundle/data/A/link'" in message


def encrypted():
    content = bytearray(zip_of({"bundle/data/A/one.txt": b"first"}))
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + flags] |= 1
    return bytes(content)


def damaged_in_compressed_data():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("bundle/data/A/one.txt", bytes(range(256)) * 20)
        start = opened.getinfo("bundle/data/A/one.txt").header_offset + 60
    content = bytearray(buffer.getvalue())
    content[start : start + 30] = b"\xff" * 30
    return bytes(content)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        *((zip_of(MEMBERS)[:kept], "is damaged or incomplete") for kept in (0, 100, 900, -1)),
        (zip_of(MEMBERS).replace(b"second", b"secund"), "Bad CRC-32"),
        (damaged_in_compressed_data(), "is damaged or incomplete"),
        (encrypted(), "encrypted"),
    ],
    ids=["0", "100", "900", "-1", "changed", "compressed", "encrypted"],
)
def test_a_broken_archive_is_refused(packed, content, reason):
    message = refused_extraction(*packed(content))
    assert reason in message
    assert message.endswith("Delete it and fetch it again.")


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_every_changed_byte_is_found_or_does_no_harm(packed, method):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as opened:
        opened.writestr("bundle/data/A/one.txt", b"of A, striped")
    content = buffer.getvalue()
    archive, out = packed(content)
    assert find_damage(archive) is None
    found = set()
    for place in range(len(content)):
        archive.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        if find_damage(archive) is not None:
            found.add(place)
            continue
        folder = out / str(place)
        folder.mkdir()
        extract(archive, folder, "bundle/data/A")
        assert (folder / "bundle/data/A/one.txt").read_bytes() == b"of A, striped"
    start = content.index(b"one.txt") + len("one.txt")
    assert found.issuperset(range(start, content.index(b"PK\x01\x02")))  # all of the data


@pytest.mark.parametrize("members", ["bundle/data/B", "bundle/data/one", "undle"])
def test_a_folder_that_the_archive_lacks_is_refused(packed, members):
    message = refused_extraction(*packed(MEMBERS), members)
    assert f"must hold the folder {members}; it does not" in message


def test_a_failure_while_writing_leaves_nothing(packed, monkeypatch):
    def extract_a_little(self, path, members):
        self.extract(members[0], path)
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(zipfile.ZipFile, "extractall", extract_a_little)
    assert os.strerror(28) in refused_extraction(*packed(MEMBERS))


def test_a_file_in_the_place_of_the_folder_is_refused_and_kept(packed):
    archive, out = packed(MEMBERS)
    (out / "bundle/data").mkdir(parents=True)
    (out / "bundle/data/A").write_text("mine")
    assert "Not a directory" in refused_extraction(archive, out)
    assert (out / "bundle/data/A").read_text() == "mine"


def test_a_folder_that_another_process_extracted_meanwhile_is_kept(packed, monkeypatch):
    archive, out = packed(MEMBERS)
    original = zipfile.ZipFile.extractall

    def extract_while_another_does(self, path, members):
        original(self, path, members)
        theirs = out / "bundle/data/A/theirs.txt"
        theirs.parent.mkdir(parents=True)
        theirs.write_text("theirs")

    monkeypatch.setattr(zipfile.ZipFile, "extractall", extract_while_another_does)
    extract(archive, out, "bundle/data/A")
    assert names_in(out) == ["bundle", "bundle/data", "bundle/data/A", "bundle/data/A/theirs.txt"]
