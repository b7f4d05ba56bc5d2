import io
import stat
import zipfile

import pytest
from http_server import leave_free, names_in, zip_of

from zonkey.datasets import archive as archive_module
from zonkey.datasets.archive import extract, find_damage
from zonkey.datasets.errors import DataError

MEMBERS = {
    "bundle/data/A/one.txt": b"first" * 100,
    "bundle/data/A/deep/two.txt": b"second",
    "bundle/data/AB/three.txt": b"third",
    "bundle/README": b"read me",
}


@pytest.fixture
def packed(tmp_path):
    """Write an archive beside an empty folder to extract to."""

    def pack(content):
        (tmp_path / "out").mkdir()
        archive = tmp_path / "bundle.zip"
        archive.write_bytes(content if isinstance(content, bytes) else zip_of(content))
        return archive, tmp_path / "out"

    return pack


def refusal_of(archive, folder, prefix="bundle/data/A", required=()):
    """Return the message of the refusal, which must be one line and leave nothing behind."""
    before = names_in(folder.parent)
    with pytest.raises(DataError) as refusal:
        extract(archive, folder, prefix, required)
    assert names_in(folder.parent) == before
    message = str(refusal.value)
    assert "\n" not in message
    return message


def test_only_the_wanted_folder_is_extracted(packed):
    archive, out = packed(MEMBERS)
    assert extract(archive, out, "bundle/data/A") == out / "bundle/data/A"
    files = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert files == {
        out / "bundle/data/A/one.txt": b"first" * 100,
        out / "bundle/data/A/deep/two.txt": b"second",
    }


def test_a_second_folder_of_the_archive_joins_the_first(packed):
    archive, out = packed(MEMBERS)
    extract(archive, out, "bundle/data/A")
    extract(archive, out, "bundle/data/AB")
    assert names_in(out / "bundle/data") == [
        "A",
        "A/deep",
        "A/deep/two.txt",
        "A/one.txt",
        "AB",
        "AB/three.txt",
    ]


def test_a_folder_that_is_there_already_is_left_alone(packed):
    archive, out = packed(b"not even an archive")
    mine = out / "bundle/data/A/mine.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    assert extract(archive, out, "bundle/data/A") == mine.parent
    assert names_in(mine.parent) == ["mine.txt"]


def test_an_empty_folder_is_filled(packed):
    archive, out = packed(MEMBERS)
    (out / "bundle/data/A").mkdir(parents=True)
    assert names_in(extract(archive, out, "bundle/data/A")) == ["deep", "deep/two.txt", "one.txt"]


def test_a_folder_without_all_required_files_is_refused_and_left_alone(packed):
    archive, out = packed(MEMBERS)
    folder = out / "bundle/data/A"
    folder.mkdir(parents=True)
    (folder / "mine.txt").write_text("mine")
    assert refusal_of(archive, out, required=("one.txt", "mine.txt")) == (
        f"The folder {folder} must hold one.txt and mine.txt; got one without one.txt. Move it "
        "away, or put one.txt there."
    )
    assert (folder / "mine.txt").read_text() == "mine"


def test_an_archive_without_a_required_file_is_refused(packed):
    archive, out = packed(MEMBERS)
    assert refusal_of(archive, out, required=("one.txt", "three.txt")) == (
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
    message = refusal_of(archive, out)
    assert "must hold plain files below its own folder" in message
    assert repr(name) in message


def test_a_symbolic_link_is_refused(packed):
    link = zipfile.ZipInfo("bundle/data/A/link")
    link.create_system = 3
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    message = refusal_of(*packed({**MEMBERS, link: b"/etc/passwd"}))
    assert "'bundle/data/A/link'" in message


@pytest.mark.parametrize("kept", [0, 100, 900, -1])
def test_a_truncated_archive_is_refused(packed, kept):
    message = refusal_of(*packed(zip_of(MEMBERS)[:kept]))
    assert "is damaged or incomplete" in message
    assert message.endswith("Delete it and fetch it again.")


def test_a_damaged_member_is_refused(packed):
    content = zip_of(MEMBERS)
    assert content.count(b"second") == 1
    message = refusal_of(*packed(content.replace(b"second", b"secund")))
    assert "Bad CRC-32" in message


def test_damage_in_compressed_data_is_refused(packed, tmp_path):
    path = tmp_path / "compressed.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("bundle/data/A/one.txt", bytes(range(256)) * 20)
        start = opened.getinfo("bundle/data/A/one.txt").header_offset + 60
    content = bytearray(path.read_bytes())
    content[start : start + 30] = b"\xff" * 30
    assert "is damaged or incomplete" in refusal_of(*packed(bytes(content)))


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


def test_an_encrypted_archive_is_refused(packed):
    content = bytearray(zip_of({"bundle/data/A/one.txt": b"first"}))
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + flags] |= 1
    assert "encrypted" in refusal_of(*packed(bytes(content)))


@pytest.mark.parametrize("prefix", ["bundle/data/B", "bundle/data/one", "undle"])
def test_a_folder_that_the_archive_lacks_is_refused(packed, prefix):
    message = refusal_of(*packed(MEMBERS), prefix)
    assert f"must hold the folder {prefix}; it does not" in message


def test_an_archive_larger_than_any_data_set_is_refused(packed, monkeypatch):
    monkeypatch.setattr(archive_module, "_LARGEST", 505)
    message = refusal_of(*packed(MEMBERS))
    assert "must unpack to 505 bytes at most; it declares 506 bytes" in message


def test_a_disk_too_small_is_told_before_anything_is_written(packed, monkeypatch):
    leave_free(monkeypatch, 100)
    message = refusal_of(*packed(MEMBERS))
    assert "needs 506 bytes" in message
    assert "100 bytes are free, 406 bytes are missing" in message


def test_a_failure_while_writing_leaves_nothing(packed, monkeypatch):
    def extract_a_little(self, path, members):
        self.extract(members[0], path)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "extractall", extract_a_little)
    assert "No space left on device" in refusal_of(*packed(MEMBERS))


def test_a_file_in_the_place_of_the_folder_is_refused_and_kept(packed):
    archive, out = packed(MEMBERS)
    (out / "bundle/data").mkdir(parents=True)
    (out / "bundle/data/A").write_text("mine")
    assert "Not a directory" in refusal_of(archive, out)
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
    assert names_in(extract(archive, out, "bundle/data/A")) == ["theirs.txt"]
    assert names_in(out) == ["bundle", "bundle/data", "bundle/data/A", "bundle/data/A/theirs.txt"]
