"""Folders, archives, tables and lists of pictures give one collection: names, labels, pixels."""

import gc
import io
import os
import pickle
import struct
import tarfile
import unicodedata
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from zonkey.encoders import archives
from zonkey.encoders.collection import Pictures, is_pictures
from zonkey.encoders.pictures import PictureError
from zonkey.files.dataset import DataError


def picture(value=7, kind="PNG"):
    """Return the file of a picture of one grey value."""
    file = io.BytesIO()
    Image.new("L", (4, 3), value).save(file, kind)
    return file.getvalue()


def value_of(image):
    assert image.mode == "RGB"
    assert image.size == (4, 3)
    return image.getpixel((0, 0))[0]


def values(pictures):
    return [value_of(image) for image in pictures]


def by_value(*names):
    """Return files whose grey values are 1, 2, and so on."""
    return {name: picture(value) for value, name in enumerate(names, start=1)}


def in_folder(tmp_path, files):
    root = tmp_path / "root"
    root.mkdir(exist_ok=True)
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


def in_zip(tmp_path, files, method=zipfile.ZIP_DEFLATED):
    path = tmp_path / "root.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def in_tar(tmp_path, files, ending=".tar"):
    path = tmp_path / f"root{ending}"
    mode = {".tar": "w", ".tar.gz": "w:gz", ".tgz": "w:gz", ".tar.bz2": "w:bz2", ".txz": "w:xz"}
    with tarfile.open(path, mode[ending]) as archive:
        for name, content in files.items():
            about = tarfile.TarInfo(name)
            about.size = len(content)
            archive.addfile(about, io.BytesIO(content))
    return path


def in_tgz(tmp_path, files):
    return in_tar(tmp_path, files, ".tar.gz")


@pytest.fixture(params=[in_folder, in_zip, in_tar, in_tgz])
def packed(request, tmp_path):
    """Write files to a folder or an archive."""
    return lambda files: request.param(tmp_path, files)


# Layouts, the same in folders and archives


def test_folders_are_labels(packed):
    files = by_value("cat/1.png", "cat/2.png", "dog/1.png", "dog/more/deeper/2.png")
    pictures = Pictures.of(packed(files))
    assert pictures.names == list(files)
    assert pictures.labels.tolist() == ["cat", "cat", "dog", "dog"]
    assert pictures.split is None
    assert pictures.columns == {}
    assert pictures.n_ignored == 0
    assert len(pictures) == 4
    assert values(pictures) == [1, 2, 3, 4]
    assert [pictures.read(n) for n in range(4)] == list(files.values())


CAFE = [unicodedata.normalize(form, "café") for form in ("NFC", "NFD")]
LAYOUTS = {
    "no folders": (["a.png", "b.jpg", "C.PNG"], None, None),
    "one beside folders": (["a.png", "cat/b.png"], ["", "cat"], None),
    "split": (
        ["test/cat/3.png", "train/cat/1.png", "train/dog/2.png", "Valid/cat/4.png"],
        ["cat", "cat", "dog", "cat"],
        ["test", "train", "train", "val"],
    ),
    "a class named test": (
        ["cat/1.png", "test/2.png", "train/3.png"],
        ["cat", "test", "train"],
        None,
    ),
    "accents": ([f"{CAFE[1]}/1.png", "x/2.png"], [CAFE[0], "x"], None),
    "odd names": (["#1 %20 'x'.png", "a\nb.png", "Hund/ü 日本 🦓.png"], ["", "", "Hund"], None),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_labels_and_split_by_folders(packed, layout):
    names, labels, split = LAYOUTS[layout]
    pictures = Pictures.of(packed(by_value(*names)))
    assert pictures.names == names
    assert values(pictures) == [*range(1, len(names) + 1)]
    for found, expected in ((pictures.labels, labels), (pictures.split, split)):
        assert found is None if expected is None else found.tolist() == expected


def test_a_table_in_the_folder(packed):
    table = (
        "label,file_name,split,text\n"
        'dog,images/2.png,test,"a dog, asleep"\n'
        "cat,./images/1.png,train,\n"
        ",images\\odd.dat,validation,a wolf\n"
    )
    files = by_value("images/1.png", "images/2.png", "images/odd.dat", "images/left out.png")
    files |= {"metadata.csv": table.encode(), "readme.txt": b"x"}
    pictures = Pictures.of(packed(files))
    assert pictures.names == ["images/2.png", "images/1.png", "images/odd.dat"]
    assert pictures.labels.tolist() == ["dog", "cat", ""]
    assert pictures.split.tolist() == ["test", "train", "val"]
    assert pictures.columns == {"text": ["a dog, asleep", "", "a wolf"]}
    assert pictures.n_ignored == 2
    assert values(pictures) == [2, 1, 3]


def test_a_table_without_labels_or_files(packed):
    files = by_value("cat/1.png") | {"metadata.tsv": b"path\tn\ncat/1.png\t3\n"}
    pictures = Pictures.of(packed(files))
    assert (pictures.labels, pictures.split, pictures.columns) == (None, None, {"n": ["3"]})
    files = {"metadata.csv": b"file\ncat/1.png\ncat 2.png\n3.png\n"}
    expected = r"'cat 2\.png' in row 3 does not \(1 other files are missing too\)"
    with pytest.raises(DataError, match=expected):
        Pictures.of(packed(by_value("cat/1.png") | files))


def test_hidden_files_are_ignored_and_others_are_counted(packed):
    junk = [".DS_Store", "cat/Thumbs.db", "__MACOSX/cat/._1.png", ".git/x.png", "cat/.hidden.png"]
    files = by_value("cat/1.png", "dog/2.png") | dict.fromkeys(junk, b"x")
    files |= {"readme.md": b"x", "cat/notes.txt": b"x", "cat/inner.zip": b"PK\x03\x04"}
    pictures = Pictures.of(packed(files))
    assert pictures.names == ["cat/1.png", "dog/2.png"]
    assert pictures.n_ignored == 3


def test_numbers_in_names_are_sorted_by_value(packed):
    names = ["a/1.png", "a/2.png", "a/10.png", "a b/1.png", "A10/1.png", "b/x.png"]
    names.insert(0, "9" * 100 + ".png")
    names.insert(0, "007.png")
    assert Pictures.of(packed(dict.fromkeys(reversed(names), picture()))).names == names


@pytest.mark.parametrize("files", [{}, {"readme.txt": b"x", "more/a.docx": b"x"}])
def test_no_picture_at_all(packed, files):
    found = f"{len(files)} other files" if files else "it is empty"
    with pytest.raises(DataError, match=rf"must hold pictures .*; {found}"):
        Pictures.of(packed(files))


def test_a_damaged_and_an_empty_picture_are_named_when_opened(packed):
    files = {"cat/1.jpg": b"", "cat/2.jpg": b"text", "cat/3.jpg": picture()[:50]}
    pictures = Pictures.of(packed(files | {"cat/4.jpg": picture(9)}))
    for n, name in enumerate(files):
        with pytest.raises(PictureError, match=rf"^{name} must be a "):
            pictures.open(n)
    assert value_of(pictures.open(3)) == 9


def test_threads_read_at_once_and_pickles_read_again(packed):
    files = {f"{n % 3}/{n}.png": picture(n) for n in range(60)}
    pictures = Pictures.of(packed(files))
    expected = [int(Path(name).stem) for name in pictures.names]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda n: value_of(pictures[n]), range(60))) == expected
    copy = pickle.loads(pickle.dumps(pictures))
    assert values(copy) == expected
    assert copy.labels.tolist() == [name.split("/")[0] for name in copy.names]


def test_a_subset_keeps_what_belongs_to_its_pictures(packed):
    table = b"file,label,split,n\na.png,x,train,1\nb.png,y,test,2\nc.png,z,val,3\n"
    pictures = Pictures.of(packed(by_value("a.png", "b.png", "c.png") | {"metadata.csv": table}))
    for rows in ([2, 0], np.array([2, 0]), [-1, -3]):
        part = pictures.subset(rows)
        assert part.names == ["c.png", "a.png"]
        assert part.labels.tolist() == ["z", "x"]
        assert part.split.tolist() == ["val", "train"]
        assert part.columns == {"n": ["3", "1"]}
        assert values(part) == [3, 1]
    assert pictures.subset(pictures.split != "test").names == ["a.png", "c.png"]
    assert pictures[1:].labels.tolist() == ["y", "z"]
    assert len(pictures.subset([])) == 0
    assert len(pictures) == 3
    with pytest.raises(IndexError):
        pictures.subset([3])
    with pytest.raises(IndexError):
        pictures[3]


# Folders


def test_links_are_followed_but_not_in_circles(tmp_path):
    root = in_folder(tmp_path, by_value("cat/1.png"))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "2.png").write_bytes(picture(2))
    (root / "dog").symlink_to(elsewhere)
    (root / "cat" / "circle").symlink_to(root)
    (root / "cat" / "gone.png").symlink_to(tmp_path / "nowhere.png")
    pictures = Pictures.of(root)
    assert pictures.names == ["cat/1.png", "dog/2.png"]
    assert values(pictures) == [1, 2]


@pytest.mark.skipif(os.name == "nt", reason="file names are text on Windows")
def test_a_name_that_is_no_utf8_can_be_written_and_read(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    (Path(os.fsdecode(os.fsencode(root) + b"/caf\xe9.png"))).write_bytes(picture(5))
    pictures = Pictures.of(root)
    path = root / pictures.keys[0]
    for source in (pictures, Pictures.of(path), Pictures.of([str(path)])):
        assert source.names[0].endswith("caf?.png")
        assert values(source) == [5]


def test_a_relative_path_survives_a_change_of_folder(tmp_path, monkeypatch):
    root = in_folder(tmp_path, by_value("cat/1.png"))
    monkeypatch.chdir(tmp_path)
    everything = [Pictures.of("root"), Pictures.of("root/cat/1.png")]
    monkeypatch.chdir("/")
    assert [value_of(pictures[0]) for pictures in everything] == [1, 1]
    assert everything[0].source == "root"
    (root / "cat/1.png").unlink()
    with pytest.raises(PictureError, match=r"^cat/1\.png does not exist"):
        everything[0].read(0)


def test_a_file_too_large_for_a_picture_is_not_read(packed, monkeypatch):
    monkeypatch.setattr(archives, "_MOST_BYTES", 1000)
    pictures = Pictures.of(packed({"1.png": bytes(2000), "2.png": picture(2)}))
    with pytest.raises(PictureError, match=r"^1\.png .*too large for a picture"):
        pictures.read(0)
    assert value_of(pictures[1]) == 2


# Archives


ARCHIVED = {
    "photos/cat/1.png photos/dog/2.png": (["cat", "dog"], None),
    "photos/1.png": (None, None),
    "data/test/dog/2.png data/train/cat/1.png": (["dog", "cat"], ["test", "train"]),
    "train/cat/1.png": (["cat"], ["train"]),
}


@pytest.mark.parametrize("write", [in_zip, in_tar, in_tgz])
@pytest.mark.parametrize("names", ARCHIVED)
def test_one_folder_around_all_others_is_no_label(tmp_path, write, names):
    labels, split = ARCHIVED[names]
    pictures = Pictures.of(write(tmp_path, by_value(*names.split()) | {"readme.txt": b"x"}))
    assert pictures.names == names.split()
    for found, expected in ((pictures.labels, labels), (pictures.split, split)):
        assert found is None if expected is None else found.tolist() == expected


def test_one_folder_around_a_table(tmp_path):
    files = by_value("data/x/1.png") | {"data/metadata.csv": b"image,class\nx/1.png,cat\n"}
    pictures = Pictures.of(in_zip(tmp_path, files))
    assert pictures.names == ["data/x/1.png"]
    assert pictures.labels.tolist() == ["cat"]


def test_backslashes_in_a_zip_are_slashes(tmp_path):
    path = in_zip(tmp_path, by_value("cat\\1.png", "dog\\more\\2.png") | {"empty\\": b""})
    pictures = Pictures.of(path)
    assert pictures.names == ["cat/1.png", "dog/more/2.png"]
    assert values(pictures) == [1, 2]


def test_compressions_of_a_zip(tmp_path):
    path, files = tmp_path / "root.zip", {"1.png": picture(1), "2.bmp": picture(2, "BMP")}
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        in_zip(tmp_path, files, method)
        assert values(Pictures.of(path)) == [1, 2]
        path.write_bytes(b"a program in front" + path.read_bytes())
        assert values(Pictures.of(path)) == [1, 2]
    in_zip(tmp_path, files, zipfile.ZIP_BZIP2)
    with pytest.raises(PictureError, match=r"^1\.png .*compression 12 of the archive; unpack it"):
        Pictures.of(path).read(0)


def test_an_encrypted_zip_is_refused(tmp_path):
    path = in_zip(tmp_path, by_value("1.png"))
    stored = bytearray(path.read_bytes())
    entry = stored.index(b"PK\x01\x02")
    stored[entry + 8] |= 1
    path.write_bytes(stored)
    expected = r"^root\.zip must not be encrypted; 1\.png is\. Unpack it"
    with pytest.raises(DataError, match=expected):
        Pictures.of(path)


def test_damage_in_a_zip_is_found_by_its_checksum(tmp_path):
    files = {f"{value}.bmp": picture(value, "BMP") for value in (1, 2)}
    path = in_zip(tmp_path, files, zipfile.ZIP_STORED)
    stored = bytearray(path.read_bytes())
    stored[120] ^= 255  # a pixel, which the format itself does not protect
    path.write_bytes(stored)
    pictures = Pictures.of(path)
    with pytest.raises(PictureError, match=r"^1\.bmp .*the checksum in the archive differs"):
        pictures[0]
    assert value_of(pictures[1]) == 2


def test_a_zip_that_expands_beyond_its_promise_is_not_unpacked_further(tmp_path):
    path = in_zip(tmp_path, {"1.png": bytes(1 << 22)})
    stored = bytearray(path.read_bytes())
    entry = stored.index(b"PK\x01\x02")
    stored[entry + 24 : entry + 28] = struct.pack("<I", 100)
    path.write_bytes(stored)
    with pytest.raises(PictureError, match="the checksum in the archive differs"):
        Pictures.of(path).read(0)


def test_links_in_archives_are_not_followed(tmp_path):
    path = tmp_path / "a.tar"
    (tmp_path / "secret.png").write_bytes(picture(9))
    with tarfile.open(path, "w") as archive:
        for name, kind in (("1.png", tarfile.SYMTYPE), ("2.png", tarfile.LNKTYPE)):
            about = tarfile.TarInfo(name)
            about.type, about.linkname = kind, str(tmp_path / "secret.png")
            archive.addfile(about)
        about = tarfile.TarInfo("3.png")
        about.size = len(picture(3))
        archive.addfile(about, io.BytesIO(picture(3)))
        archive.addfile(tarfile.TarInfo("../4.png"))
    pictures = Pictures.of(path)
    assert pictures.names == ["3.png"]
    assert pictures.n_ignored == 2
    link = zipfile.ZipInfo("1.png")
    link.external_attr = 0o120777 << 16
    path = in_zip(tmp_path, {link: str(tmp_path / "secret.png"), "3.png": picture(3)})
    assert Pictures.of(path).names == ["3.png"]


@pytest.mark.parametrize("ending", [".tar", ".tar.gz", ".tgz", ".tar.bz2", ".txz"])
def test_tar_archives_of_every_compression(tmp_path, ending):
    files = by_value("./cat/1.png", "./dog/2.png")
    pictures = Pictures.of(in_tar(tmp_path, files, ending))
    assert pictures.names == ["cat/1.png", "dog/2.png"]
    assert values(pictures) == [1, 2]


def test_the_copy_of_a_compressed_tar_is_removed_with_the_last_user(tmp_path, monkeypatch):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    pictures = Pictures.of(in_tgz(tmp_path, by_value("1.png", "2.png")))
    part = pictures.subset([1])
    del pictures
    assert len(list(temporary.iterdir())) == 1
    assert values(part) == [2]
    copy = pickle.loads(pickle.dumps(part))
    assert len(list(temporary.iterdir())) == 2
    del part, copy
    gc.collect()
    assert not list(temporary.iterdir())


def test_a_compressed_tar_larger_than_the_disk_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "_SPARE_BYTES", 1 << 62)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(DataError, match=r"^root\.tar\.gz must fit unpacked into .* nearly full"):
        Pictures.of(in_tgz(tmp_path, by_value("1.png")))
    gc.collect()
    assert not list(tmp_path.glob("zonkey-*"))


@pytest.mark.parametrize("write", [in_zip, in_tar, in_tgz])
def test_damaged_archives(tmp_path, write):
    path = write(tmp_path, {f"{n}.png": os.urandom(2000) for n in range(9)})
    stored = path.read_bytes()
    for damaged in (stored[: len(stored) // 2 + 700], b"no archive at all", b""):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"must be a whole \.(zip|tar|gz) file"):
            Pictures.of(path)


# Tables by themselves


def test_a_table_of_paths(tmp_path):
    root = in_folder(tmp_path, by_value("images/1.png", "images/2.png"))
    path = root / "list.csv"
    path.write_text(
        f"id,Image,class\n7,images/2.png, dog \n8,images\\1.png,\n9,{root}/images/1.png,x\n"
    )
    pictures = Pictures.of(path)
    assert pictures.names == ["images/2.png", "images/1.png", f"{root}/images/1.png"]
    assert pictures.labels.tolist() == ["dog", "", "x"]
    assert pictures.columns == {"id": ["7", "8", "9"]}
    assert values(pictures) == [2, 1, 1]
    assert values(pickle.loads(pickle.dumps(pictures))) == [2, 1, 1]


def test_columns_by_name(tmp_path):
    root = in_folder(tmp_path, by_value("1.png", "2.png"))
    path = root / "list.tsv"
    path.write_text("photo\tfile\tspecies\n1.png\t2.png\tcat\n")
    pictures = Pictures.of(path, path_column="photo", label_column="species")
    assert pictures.names == ["1.png"]
    assert pictures.labels.tolist() == ["cat"]
    assert pictures.columns == {"file": ["2.png"]}
    assert Pictures.of(path).names == ["2.png"]
    expected = r"`label_column` must name a column of list\.tsv; got 'kind', and it has photo, file"
    with pytest.raises(DataError, match=expected):
        Pictures.of(path, label_column="kind")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,label\n1.png,cat\n", "must have a column of paths, named one of file_name"),
        ("file,label\n", "must have a row per picture"),
        ("file,label\n1.png\n", "row 2 of list.csv has 1"),
        ("file,label\n,cat\n", "'' in row 2 does not"),
        ("file,label\n.,cat\n", "'.' in row 2 does not"),
        ("file,split\n1.png,held out\n", "must hold train, val or test; got 'held out' in row 2"),
        ("file;label\n1.png;cat\n", "separated by semicolons"),
        ("file,file\n1.png,1.png\n", "different names"),
        ("", "is empty"),
        ("file\ncaf\udce9.png\n", "must be UTF-8"),
    ],
)
def test_tables_that_cannot_be_used(tmp_path, text, message):
    root = in_folder(tmp_path, by_value("1.png"))
    path = root / "list.csv"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(DataError, match=rf"\A[^\n]*{message}[^\n]*\Z"):
        Pictures.of(path)
    for source in (root, root / "1.png", [picture()]):
        with pytest.raises(DataError, match=r"`label_column` must be None if there is no table"):
            Pictures.of(source, label_column="kind")


# Lists and single pictures


def test_a_list_of_anything(tmp_path):
    path = tmp_path / "1.png"
    path.write_bytes(picture(1))
    array = np.full((3, 4), 3, np.uint8)
    image = Image.new("RGB", (4, 3), (4, 4, 4))
    items = [path, str(path), picture(2), array, image]
    pictures = Pictures.of(items)
    assert pictures.names == [str(path), str(path), "picture 3", "picture 4", "picture 5"]
    assert pictures.labels is None
    assert pictures.source == "5 pictures"
    assert values(pictures) == [1, 1, 2, 3, 4]
    assert pictures.read(0) == path.read_bytes()
    assert pictures.read(3) is array
    assert pictures.read(4) is image
    assert values(pickle.loads(pickle.dumps(pictures))) == [1, 1, 2, 3, 4]
    assert Pictures.of(pictures) is pictures
    assert values(Pictures.of(tuple(items))) == values(Pictures.of(iter(items)))
    assert values(Pictures.of(np.array([str(path)] * 2))) == [1, 1]
    assert values(Pictures.of(np.stack([array, array + 1]))[0:0]) == []


def test_one_picture_of_any_kind(tmp_path):
    path = tmp_path / "My Cat.JPG"
    path.write_bytes(picture(1))
    pictures = Pictures.of(path)
    assert pictures.names == ["My Cat.JPG"]
    assert pictures.source == str(path)
    for source in (path, str(path), picture(1), np.full((3, 4, 3), 1, np.uint8), pictures[0]):
        assert values(Pictures.of(source)) == [1]


def test_a_table_of_one_column_is_a_list(tmp_path):
    paths = [str(tmp_path / f"{i}.png") for i in range(3)]
    for path in paths:
        Image.new("RGB", (2, 2)).save(path)
    column = np.array(paths)[:, None]
    sources = [column, column.astype(object)]
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"file": paths, "size": [1, 2, 3]}, index=[7, 8, 9])
    for source in (*sources, frame["file"], frame[["file"]], (path for path in paths)):
        pictures = Pictures.of(source)
        assert pictures.names == paths
        assert pictures[2].size == (2, 2)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")
def test_a_file_without_an_end_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    for path in ("/dev/zero", str(tmp_path / "pipe.png")):
        with pytest.raises(PictureError, match="a device or a pipe"):
            Pictures.of([path]).open(0)
    with pytest.raises(PictureError, match="picture 2 must be a picture; it is a folder"):
        Pictures.of([np.zeros((2, 2), np.uint8), ""]).open(1)


def test_an_error_in_a_list_names_the_picture():
    pictures = Pictures.of([picture(), np.zeros((2, 2), int), "nowhere.png"])
    with pytest.raises(PictureError, match=r"^picture 2 must be an array of uint8"):
        pictures.open(1)
    with pytest.raises(PictureError, match=r"^nowhere\.png does not exist"):
        pictures.open(2)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("nowhere", "nowhere does not exist"),
        ("nowhere.zip", "nowhere.zip does not exist"),
        ("nowhere.csv", "nowhere.csv does not exist"),
        ("nowhere.png", "nowhere.png does not exist"),
        ([], "got an empty list"),
        (7, "got 7"),
        (None, "got None"),
        ("features.npz", r"got features\.npz\. Pass one of these\.$"),
        ("", "must have a path; got empty text"),
        ("x" * 5000, "must be a path; File name too long"),
        ({"a.png", "b.png"}, "a list of pictures; got {"),
        ({"a.png": "cat"}, "a list of pictures; got {"),
        (np.array([["a.png", "cat"]]), "must be one column; got 2. Choose the column of paths"),
    ],
)
def test_other_sources_are_refused(tmp_path, monkeypatch, source, message):
    monkeypatch.chdir(tmp_path)
    Path("features.npz").write_bytes(b"x")
    with pytest.raises(DataError, match=message):
        Pictures.of(source)


# Arguments of commands


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.csv", "file_name,label\n1.png,cat\n2.jpg,dog\n", True),
        ("a.tsv", "label\tPATH\ncat\tx/1.webp\n", True),
        ("a.csv", "\ufefffile,label\n1.png,3\n", True),
        ("a.csv", "file,label,width\nnowhere.png,cat,640\n", False),  # may be a feature
        ("a.csv", "file,label,width\nhere.png,cat,640\n", True),
        ("a.csv", "file," + ",".join(f"f{n}" for n in range(9)) + "\nhere.png" + ",1" * 9, False),
        (
            "a.csv",
            "file," + ",".join(f"f{n}" for n in range(2048)) + "\na.png" + ",.5" * 2048,
            False,
        ),
        ("a.csv", "label,f1,f2\ncat,1,2\n", False),
        ("a.csv", "file,label\nfeatures.npy,cat\n", False),
        ("a.csv", "file,label\n", False),
        ("a.csv", "file,label\n\n1.png\n", True),
        ("a.csv", "x,file\n1\n", False),
        ("a.csv", "", False),
        ("a.csv", "\0\udce9\udcff", False),
        ("a.txt", "file\n1.png\n", False),
        ("a.npz", "", False),
        ("a.zip", "", True),
        ("a.TAR.GZ", "", True),
        ("a.JPEG", "", True),
    ],
)
def test_files_that_mean_pictures(tmp_path, name, text, expected):
    (tmp_path / "here.png").write_bytes(picture())
    path = tmp_path / name
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert is_pictures(path) is expected
    assert is_pictures(str(path)) is expected


def test_other_arguments_that_mean_pictures_or_not(tmp_path):
    (tmp_path / "a.csv").write_text("file,text\n" + f"1.png,{'x' * 1000}\n" * 3000)
    assert is_pictures(tmp_path / "a.csv")  # by its start
    assert is_pictures(tmp_path)
    for source in ("", "-", "nowhere", "nowhere.csv", "x" * 5000, "\0", None, 7, [], b"a.png"):
        assert is_pictures(source) is False
