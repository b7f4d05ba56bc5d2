"""Pictures as blocks of features: order, columns, skipped pictures, memory."""

import os
import time
import tracemalloc

import numpy as np
import pytest

from zonkey.encoders.image_encoder import ImageEncoder
from zonkey.encoders.stream import PictureStream
from zonkey.files.dataset import DataError

Image = pytest.importorskip("PIL.Image")

N = 12


class Colors:
    """Features of a picture: mean red, green and blue."""

    revision = "1"

    def transform(self, images):
        return [np.asarray(image, float).mean(axis=(0, 1)) for image in images]


def color(i):
    return (i % 256, 7 * i % 256, 255 - i % 256)


EXPECTED = np.array([color(i) for i in range(N)], np.float32)


def draw(path, i):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 6), color(i)).save(path)
    past = time.time_ns() - 100_000_000_123  # the cache trusts the times of old files only
    os.utime(path, ns=(past, past))


@pytest.fixture
def photos(tmp_path):
    """One folder per class."""
    for i in range(N):
        draw(tmp_path / "photos" / ("cat" if i < 5 else "dog") / f"{i:02}.png", i)
    return tmp_path / "photos"


def read(stream):
    blocks = list(stream)
    return blocks, np.concatenate([block.X for block in blocks])


def carried(blocks, name):
    return [cell for block in blocks for cell in block.carried[name]]


def test_blocks_hold_features_names_and_labels(photos):
    stream = PictureStream(photos, ImageEncoder(Colors(), batch_size=5), with_labels=True)
    assert (stream.done, stream.total) == (0, N)
    blocks, X = read(stream)
    np.testing.assert_allclose(X, EXPECTED, rtol=1e-6)
    assert [*blocks[0].carried] == ["file", "label"]
    assert carried(blocks, "file")[:2] == ["cat/00.png", "cat/01.png"]
    labels = ["cat"] * 5 + ["dog"] * 7
    assert carried(blocks, "label") == labels
    assert np.concatenate([block.labels for block in blocks]).tolist() == labels
    assert (stream.done, stream.columns, stream.unused, stream.skipped) == (N, None, (), [])
    with pytest.raises(DataError, match=r"Pictures need labels; .*cat have none\. Put them into"):
        PictureStream(photos / "cat", ImageEncoder(Colors()), with_labels=True)


def test_columns_of_a_table_come_along(photos):
    (photos / "metadata.csv").write_text(
        "file_name,place,kind,split\ndog/07.png,sea,big,test\ncat/01.png,zoo,,train\n"
    )
    encoder = ImageEncoder(Colors())
    (block,), X = read(PictureStream(photos, encoder, with_labels=True, label_column="kind"))
    np.testing.assert_allclose(X, EXPECTED[[7, 1]], rtol=1e-6)
    assert block.carried == {
        "file": ["dog/07.png", "cat/01.png"],
        "place": ["sea", "zoo"],
        "label": ["big", ""],
        "split": ["test", "train"],
    }
    assert block.labels.tolist() == ["big", ""]


@pytest.mark.parametrize("n_stored", [0, 1, 7, N])
def test_order_does_not_depend_on_the_cache(photos, tmp_path, n_stored):
    encoder = ImageEncoder(Colors(), batch_size=2, cache=tmp_path / "cache")
    paths = sorted(photos.rglob("*.png"))
    if n_stored:
        encoder.transform(paths[N - n_stored :])
    stream = PictureStream(photos, encoder)
    done = [(stream.done, len(block.X)) for block in stream]
    assert [n for n, _ in done] == np.cumsum([n for _, n in done]).tolist()
    blocks, X = read(stream)
    np.testing.assert_allclose(X, EXPECTED, rtol=1e-6)
    assert carried(blocks, "file") == [f"{p.parent.name}/{p.name}" for p in paths]


@pytest.mark.parametrize("damaged", [[0], [3, 4], [N - 1], [2, 11]])
def test_damaged_pictures_are_skipped_and_named(photos, tmp_path, damaged):
    paths = sorted(photos.rglob("*.png"))
    for i in damaged:
        paths[i].write_bytes(b"no picture")
    stream = PictureStream(
        photos, ImageEncoder(Colors(), batch_size=2, cache=tmp_path / "cache"), on_error="skip"
    )
    for _ in range(2):  # the second time with features from the cache
        blocks, X = read(stream)
        np.testing.assert_allclose(X, np.delete(EXPECTED, damaged, axis=0), rtol=1e-6)
        assert len(carried(blocks, "label")) == N - len(damaged)
        assert stream.done == N
        names = [f"{paths[i].parent.name}/{paths[i].name}" for i in damaged]
        assert [str(error).split()[0] for error in stream.skipped] == names
    with pytest.raises(DataError, match=rf"^{names[0]} must be a picture"):
        list(PictureStream(photos, ImageEncoder(Colors(), on_error="nan")))


def test_nothing_but_damaged_pictures_is_an_error(tmp_path):
    for i in range(3):
        (tmp_path / f"{i}.png").write_bytes(b"no picture")
    stream = PictureStream(tmp_path, ImageEncoder(Colors()), on_error="skip")
    with pytest.raises(DataError, match=r"none of its 3 can\. The first: 0\.png must be"):
        list(stream)


class Wide:
    """Many features, so that a few hundred pictures would fill memory."""

    revision = "1"

    def transform(self, images):
        return np.zeros((len(images), 5_000), np.float32)


def test_memory_does_not_grow_with_the_number_of_pictures(tmp_path):
    """The first picture is not in the cache; those behind it are, and must not all wait for it."""
    folder = tmp_path / "photos"
    draw(folder / "0.png", 0)
    for i in range(1, 1_000):
        (folder / f"{i}.png").hardlink_to(folder / "0.png")
    draw(folder / "aaa.png", 1)
    encoder = ImageEncoder(Wide(), batch_size=2, cache=tmp_path / "cache", n_jobs=1)
    stored = [folder / f"{i}.png" for i in range(1_000)]
    for _ in PictureStream(stored, encoder):
        pass
    stream = PictureStream([folder / "aaa.png", *stored], encoder)
    tracemalloc.start()
    n = sum(len(block.X) for block in stream)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert n == 1_001
    assert most < 1_001 * 5_000 * 4 / 2
