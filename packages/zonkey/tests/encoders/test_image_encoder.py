"""Pictures to features: order, errors, bounded prefetch, threads that end, and the cache."""

import gc
import os
import shutil
import subprocess
import sys
import threading
import time
import weakref
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from zonkey.encoders import image_encoder as module
from zonkey.encoders import registry
from zonkey.encoders.image_encoder import ImageEncoder

Image = pytest.importorskip("PIL.Image")
from zonkey.encoders.collection import Pictures  # noqa: E402
from zonkey.encoders.pictures import PictureError  # noqa: E402

N = 23


class Backend:
    """Features of a picture: mean red, green and blue. It counts, and can be told to fail."""

    name, revision, n_features = "colors", "0123456789abcdef", 3

    def __init__(self):
        self.batches, self.n_prepared, self.fail_at = [], 0, None
        self.alive, self.most_alive = 0, 0
        self.lock = threading.Lock()

    def prepare(self, image):
        sample = np.asarray(image.resize((4, 4), Image.Resampling.BOX))
        with self.lock:
            self.n_prepared += 1
            self.alive += 1
            self.most_alive = max(self.most_alive, self.alive)
        weakref.finalize(sample, self._freed)
        return sample

    def _freed(self):
        with self.lock:
            self.alive -= 1

    def encode(self, batch):
        if len(self.batches) == self.fail_at:
            raise KeyboardInterrupt
        self.batches.append(len(batch))
        return batch.mean(axis=(1, 2), dtype=np.float32)


class Colors:
    """The same as an object with `transform`."""

    revision = "1"

    def __init__(self):
        self.n_seen = 0

    def transform(self, images):
        self.n_seen += len(images)
        return [np.asarray(image, float).mean(axis=(0, 1)) for image in images]


@pytest.fixture
def backend(monkeypatch):
    found = Backend()
    found.loaded = []

    def load(model, device="cpu"):
        time.sleep(0.01)  # threads that load the same model meet here
        found.loaded.append((model, device))
        return found

    monkeypatch.setattr(registry, "image_backend", load, raising=False)
    monkeypatch.setattr(module, "_backends", {})
    return found


class Reads(Counter):
    """How often each picture was read; each reading may take some seconds."""

    seconds = 0


@pytest.fixture
def reads(monkeypatch):
    counted, read = Reads(), Pictures.read

    def count(self, i):
        counted[i] += 1
        time.sleep(counted.seconds)
        return read(self, i)

    monkeypatch.setattr(Pictures, "read", count)
    return counted


@pytest.fixture
def encoder(backend, tmp_path):
    return ImageEncoder("colors", batch_size=4, cache=tmp_path / "cache")


def color(i):
    return (i % 256, 7 * i % 256, 255 - i % 256)


EXPECTED = np.array([color(i) for i in range(N)], np.float32)


@pytest.fixture
def folder(tmp_path):
    return drawn(tmp_path / "photos")


def drawn(folder, numbers=range(N)):
    """Draw one plain picture per number; the files look old."""
    folder.mkdir(exist_ok=True)
    for i in numbers:
        path = folder / f"{i:04d}.png"
        Image.new("RGB", (8, 6), color(i)).save(path)
        past = time.time_ns() - 100_000_000_123
        os.utime(path, ns=(past, past))
    return folder


def live_threads():
    return [t for t in threading.enumerate() if t.name.startswith("zonkey-pictures")]


# Features


@pytest.mark.parametrize(("batch_size", "n_jobs"), [(1, 3), (4, -1), (N, None), (100, 1)])
def test_rows_are_in_the_order_of_the_pictures(backend, folder, batch_size, n_jobs):
    X = ImageEncoder("colors", batch_size=batch_size, n_jobs=n_jobs).transform(folder)
    assert X.dtype == np.float32
    np.testing.assert_array_equal(X, EXPECTED)
    full, rest = divmod(N, batch_size)
    assert backend.batches == [batch_size] * full + [rest] * (rest > 0)
    assert not live_threads()


def test_all_kinds_of_pictures_give_the_same_features(backend, folder):
    paths = sorted(folder.iterdir())[:4]
    images = [Image.open(path) for path in paths]
    sources = (
        paths,
        [str(path) for path in paths],
        [path.read_bytes() for path in paths],
        images,
        [np.asarray(image) for image in images],
        Pictures.of(paths),
    )
    for source in sources:
        np.testing.assert_array_equal(ImageEncoder("colors").transform(source), EXPECTED[:4])
    assert backend.loaded == [("colors", "auto")]  # once for all encoders


def test_an_object_with_transform_is_a_model(folder):
    X = ImageEncoder(Colors(), batch_size=4).fit_transform(folder)
    assert X.dtype == np.float32
    np.testing.assert_allclose(X, EXPECTED, rtol=1e-6)
    spec = ImageEncoder(Colors()).spec_
    assert spec.items() >= {"name": "Colors", "revision": "1", "dimension": 3}.items()

    class Wrong:
        def transform(self, images):
            return np.zeros((len(images), 2, 2))

    with pytest.raises(ValueError, match=r"Wrong.transform must return one row per image; got sha"):
        ImageEncoder(Wrong()).transform(folder)


# scikit-learn


def test_models_are_shared_by_name_and_device(backend):
    with ThreadPoolExecutor(4) as pool:
        for device in ("cpu", "cuda"):
            list(pool.map(lambda device: ImageEncoder("colors", device=device).spec_, [device] * 4))
    assert backend.loaded == [("colors", "cpu"), ("colors", "cuda")]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"model": 3}, r"`model` must be the name .* got 3\. Choose"),
        ({"model": Colors}, r"`model` must be the name .* got <class "),
        ({"cache": ""}, "`cache` must be True, a folder or None; got ''"),
        ({"batch_size": 0}, "`batch_size` must be an integer of at least 1; got 0"),
        ({"n_jobs": 0}, "`n_jobs` must be an integer of at least 1; got 0"),
        ({"on_error": "skip"}, "`on_error` must be one of 'raise', 'nan'; got 'skip'"),
        ({"cache": 1.5}, "`cache` must be True, a folder or None; got 1.5"),
    ],
)
def test_wrong_parameters_are_named(backend, folder, parameters, message):
    encoder = ImageEncoder(**({"model": "colors"} | parameters))
    for call in (encoder.fit, encoder.transform, lambda X: next(encoder.blocks(Pictures.of(X)))):
        with pytest.raises((ValueError, TypeError), match=message):
            call(folder)


# Errors


@pytest.fixture
def damaged(folder):
    for i in (2, 17):
        (folder / f"{i:04d}.png").write_bytes(b"no picture")
    return folder


def test_damaged_pictures_are_refused_or_become_nan_with_one_warning(backend, damaged):
    encoder = ImageEncoder("colors", batch_size=4)
    with pytest.raises(PictureError, match=r"0002\.png"):
        encoder.transform(damaged)
    assert not backend.batches
    assert not live_threads()
    encoder.set_params(on_error="nan")
    with pytest.warns(UserWarning, match=r"2 of 23 are not.* NaN\. The first: .*0002\.png") as told:
        X = encoder.transform(damaged)
    assert len(told) == 1
    assert np.flatnonzero(np.isnan(X).all(axis=1)).tolist() == [2, 17]
    kept = np.delete(np.arange(N), [2, 17])
    np.testing.assert_array_equal(X[kept], EXPECTED[kept])


def test_blocks_leave_out_damaged_pictures_and_list_them(backend, encoder, damaged, tmp_path):
    encoder.set_params(on_error="nan")
    for n_cached in (0, N - 2):
        blocks = list(encoder.blocks(Pictures.of(damaged)))
        seen = np.concatenate([block.rows for block in blocks])
        assert sorted(seen) == [i for i in range(N) if i not in (2, 17)]
        errors = [str(error) for block in blocks for error in block.errors]
        assert len(errors) == 2
        assert "0017.png" in errors[1]
        assert sum(block.n_cached for block in blocks) == n_cached
    backend.batches.clear()
    (block,) = encoder.blocks(Pictures.of([damaged / "0002.png"]))
    assert block.X.shape == (0, 3)
    assert len(block.errors) == 1
    assert not backend.batches


@pytest.mark.parametrize("on_error", ["raise", "nan"])
def test_errors_of_the_model_are_raised(backend, folder, monkeypatch, on_error):
    def fail(image):
        raise RuntimeError("no memory on the device")

    monkeypatch.setattr(backend, "prepare", fail)
    with pytest.raises(RuntimeError, match="no memory on the device"):
        ImageEncoder("colors", on_error=on_error).transform(folder)
    assert not live_threads()


# Threads and memory


def test_at_most_three_batches_are_decoded(backend):
    pixels = np.zeros((6, 8, 3), np.uint8)
    encoder = ImageEncoder("colors", batch_size=5, n_jobs=4)
    for _ in encoder.blocks(Pictures.of([pixels] * 120)):
        time.sleep(0.002)  # threads would run ahead
        assert backend.most_alive <= 15
    assert backend.most_alive > 5  # they do work ahead
    assert backend.n_prepared == 120
    gc.collect()
    assert backend.alive == 0


def test_decoding_goes_on_during_inference(backend, folder, monkeypatch, reads):
    encode = backend.encode

    def slow(batch):
        first = backend.n_prepared
        for _ in range(200):
            if len(backend.batches) or backend.n_prepared > first:
                return encode(batch)
            time.sleep(0.01)
        raise AssertionError("nothing was decoded during inference")

    monkeypatch.setattr(backend, "encode", slow)
    reads.seconds = 0.005
    ImageEncoder("colors", batch_size=4, n_jobs=1).transform(folder)


def test_a_caller_that_stops_early_stops_the_threads(backend, folder, reads):
    reads.seconds = 0.02
    blocks = ImageEncoder("colors", batch_size=5, n_jobs=1).blocks(Pictures.of(folder))
    next(blocks)
    assert live_threads()
    blocks.close()
    assert not live_threads()
    assert backend.n_prepared < 10  # of 15 that were waiting


def test_ctrl_c_stops_the_threads_and_loses_one_batch(backend, encoder, folder):
    backend.fail_at = 3
    with pytest.raises(KeyboardInterrupt):
        encoder.transform(folder)
    assert not live_threads()
    backend.fail_at = None
    backend.batches.clear()
    np.testing.assert_array_equal(encoder.transform(folder), EXPECTED)
    assert sum(backend.batches) == N - 12


# Cache


def test_a_second_run_reads_no_picture(backend, encoder, folder, reads):
    np.testing.assert_array_equal(encoder.transform(folder), EXPECTED)
    assert reads == dict.fromkeys(range(N), 1)
    reads.clear()
    backend.batches.clear()
    blocks = list(clone(encoder).blocks(Pictures.of(folder)))
    assert [block.n_cached for block in blocks] == [4, 4, 4, 4, 4, 3]
    np.testing.assert_array_equal(encoder.transform(folder), EXPECTED)
    assert not reads
    assert not backend.batches


def test_moved_files_and_archives_are_read_once_and_not_decoded(
    backend, encoder, folder, tmp_path, reads
):
    encoder.transform(folder)
    archive = Path(shutil.make_archive(str(tmp_path / "photos"), "zip", folder))
    past = time.time_ns() - 100_000_000_123
    os.utime(archive, ns=(past, past))
    for place, n_reads in ((folder.rename(tmp_path / "moved"), 2), (archive, 3)):
        for _ in range(2):  # the new place is known after one more reading
            np.testing.assert_array_equal(encoder.transform(place), EXPECTED)
            assert reads == dict.fromkeys(range(N), n_reads)
    assert backend.n_prepared == N


def test_a_changed_file_is_encoded_again(backend, encoder, folder):
    encoder.transform(folder)
    Image.new("RGB", (8, 6), (1, 2, 3)).save(folder / "0005.png")
    X = encoder.transform(folder)
    assert X[5].tolist() == [1, 2, 3]
    np.testing.assert_array_equal(np.delete(X, 5, axis=0), np.delete(EXPECTED, 5, axis=0))
    assert backend.n_prepared == N + 1


def test_only_new_pictures_are_encoded_in_full_batches(backend, encoder, tmp_path):
    folder = drawn(tmp_path / "photos", range(0, N, 2))
    encoder.transform(folder)
    drawn(folder, range(1, N, 2))
    backend.batches.clear()
    np.testing.assert_array_equal(encoder.transform(folder), EXPECTED)
    assert backend.batches == [4, 4, 3]


def test_rows_of_a_block_are_in_order(encoder, tmp_path):
    encoder.transform(drawn(tmp_path / "some", range(1, N, 2)))
    blocks = list(encoder.blocks(Pictures.of(drawn(tmp_path / "all"))))
    assert {block.n_cached for block in blocks[:-1]} == {2}  # by content
    np.testing.assert_array_equal(np.concatenate([block.rows for block in blocks]), range(N))
    np.testing.assert_array_equal(np.concatenate([block.X for block in blocks]), EXPECTED)


def test_pixels_are_found_by_their_values_and_shape(backend, tmp_path):
    encoder = ImageEncoder("colors", cache=tmp_path / "cache")
    wide = np.arange(6 * 8 * 3, dtype=np.uint8).reshape(6, 8, 3)
    pictures = [wide, wide.reshape(8, 6, 3), Image.fromarray(wide), wide + 1]
    first = encoder.transform(pictures)
    n_prepared = backend.n_prepared
    np.testing.assert_array_equal(encoder.transform(pictures), first)
    assert backend.n_prepared == n_prepared
    np.testing.assert_array_equal(first[0], first[2])
    assert (first[0] != first[3]).all()


def test_an_object_is_cached_by_its_own_revision_only(folder, tmp_path):
    cached = Colors()
    for _ in range(2):
        ImageEncoder(cached, cache=tmp_path / "cache").transform(folder)
    assert cached.n_seen == N + 2  # each run asks for the number of features

    class Nameless:
        def transform(self, images):
            return np.zeros((len(images), 2))

    with pytest.warns(UserWarning, match="Nameless has none, and nothing is cached"):
        ImageEncoder(Nameless(), cache=tmp_path / "cache").transform(folder)


_KILLED = """
import sys, time
sys.path.insert(0, sys.argv[1])
from test_image_encoder import Colors, ImageEncoder, Pictures

class Slow(Colors):
    def transform(self, images):
        time.sleep(0.05)
        return super().transform(images)

encoder = ImageEncoder(Slow(), batch_size=3, cache=sys.argv[3])
for block in encoder.blocks(Pictures.of(sys.argv[2])):
    print(len(block.rows), flush=True)
"""


def test_a_killed_process_loses_at_most_one_batch(folder, tmp_path):
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", _KILLED, here, str(folder), str(tmp_path / "cache")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([p for p in sys.path if p])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        for _ in range(3):
            assert process.stdout.readline() == b"3\n"
        process.kill()
    again = type("Slow", (Colors,), {})()
    encoder = ImageEncoder(again, batch_size=3, cache=tmp_path / "cache")
    np.testing.assert_allclose(encoder.transform(folder), EXPECTED, rtol=1e-6)
    assert again.n_seen <= N - 9 + 1  # one asks for the number of features
