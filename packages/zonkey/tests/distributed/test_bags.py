"""Bags of pictures: features are made on workers, and are those of the same pictures here."""

import pickle

import dask.array as da
import dask.bag as db
import numpy as np
import pytest

from zonkey.encoders import ImageEncoder
from zonkey.encoders.pictures import PictureError

Image = pytest.importorskip("PIL.Image")
pytest.importorskip("onnxruntime")


@pytest.fixture
def paths(tmp_path):
    rng = np.random.default_rng(0)
    found = []
    for number in range(5):
        found.append(str(tmp_path / f"{number}.png"))
        Image.fromarray(rng.integers(0, 255, (20, 24, 3), np.uint8)).save(found[-1])
    return found


def test_features_of_a_bag_are_lazy_and_those_in_memory(client, paths):
    encoder = ImageEncoder(n_jobs=1)
    features = encoder.transform(db.from_sequence(paths, npartitions=3))
    assert isinstance(features, da.Array)
    expected = encoder.transform(paths)
    assert features.dtype == expected.dtype
    assert np.isnan(features.shape[0])
    assert features.shape[1] == expected.shape[1]
    np.testing.assert_allclose(features.compute(), expected, rtol=1e-4, atol=1e-5)
    assert len(pickle.dumps(encoder)) < 2_000  # weights do not travel


def test_partitions_may_be_empty_and_the_cache_serves_workers(client, paths, tmp_path):
    folder = tmp_path / "cache"
    bag = db.from_sequence(paths, npartitions=5).filter(lambda path: not path.endswith("2.png"))
    encoder = ImageEncoder(cache=folder, n_jobs=1)
    features = encoder.transform(bag).compute()
    assert len(features) == 4
    assert list(folder.rglob("*"))
    again = [block.n_cached for block in encoder.blocks(_pictures(paths))]
    assert sum(again) == 4
    np.testing.assert_array_equal(encoder.transform(bag).compute(), features)


def _pictures(paths):
    from zonkey.encoders.collection import Pictures

    return Pictures.of(paths)


def test_pictures_that_cannot_be_read(client, paths, tmp_path):
    (tmp_path / "3.png").write_bytes(b"no picture")
    bag = db.from_sequence(paths, npartitions=5)
    with pytest.raises(PictureError, match=r"3\.png"):
        ImageEncoder(n_jobs=1).transform(bag).compute()
    features = ImageEncoder(n_jobs=1, on_error="nan").transform(bag).compute()
    assert np.isnan(features).all(axis=1).tolist() == [False, False, False, True, False]
