"""Transformers in chunks: the fit in memory, and chunks that are transformed when they are read."""

import copy

import numpy as np
import pandas as pd
import pytest
import zarr
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from zonkey import AnyShotClassifier, Chunks
from zonkey.preprocessing import FeatureNormalizer, WithinClassWhitener

RNG = np.random.default_rng(0)
Y = np.array(["ass", "bat", "elephant", "cow"])[RNG.integers(4, size=90)]
X = RNG.normal(size=(90, 6)) * [1, 2, 3, 0.1, 1, 1] + 3 * (Y == "cow")[:, None]
TRANSFORMERS = [
    FeatureNormalizer(0.5, center=True),
    FeatureNormalizer(0.8, center=True, norm=None),
    FeatureNormalizer(),
    WithinClassWhitener(0.7),
]


class Open(Chunks):
    def close(self):
        """Leave the state of a checkpoint."""


@pytest.mark.parametrize("transformer", TRANSFORMERS, ids=str)
@pytest.mark.parametrize("rows", [1, 8])
def test_fit_and_transform(transformer, rows):
    expected = transformer.fit(X, Y).transform(X)
    learned = getattr(transformer, "mean_", getattr(transformer, "whitening_", None))
    chunks = Chunks(pd.DataFrame(X, columns=[*"abcdef"]), Y, rows=rows)
    transformer.fit(chunks)
    assert transformer.n_features_in_ == 6
    assert transformer.feature_names_in_.tolist() == [*"abcdef"]
    found = getattr(transformer, "mean_", getattr(transformer, "whitening_", None))
    if learned is not None:
        assert_allclose(found, learned, rtol=1e-12, atol=1e-13)
    later = transformer.transform(chunks)
    assert isinstance(later, Chunks)
    read = later.apply(np.asarray)
    assert_allclose(read, expected, rtol=1e-10, atol=1e-12)
    plain = transformer.fit(X, Y).transform(zarr.array(X))
    assert_allclose(plain, expected, rtol=1e-10, atol=1e-12)


def test_means_far_apart():
    far = X + 1e4 * RNG.normal(size=(4, 6))[np.unique(Y, return_inverse=True)[1]]
    expected = WithinClassWhitener(0.3).fit(far, Y).whitening_
    found = WithinClassWhitener(0.3).fit(Chunks(far, Y, rows=11)).whitening_
    assert_allclose(found, expected, rtol=1e-9, atol=1e-11)


def test_a_pipeline_of_chunks():
    prototypes = {name: RNG.normal(size=3) for name in ("ass", "bat", "elephant", "cow", "dog")}

    def pipeline():
        return make_pipeline(
            FeatureNormalizer(0.5, center=True),
            WithinClassWhitener(0.3),
            AnyShotClassifier(prototypes, candidates="all", preprocessing=None, ridge=0.1),
        )

    expected = pipeline().fit(X, Y)
    found = pipeline().fit(Chunks(X, Y, rows=13))
    assert_allclose(found[-1].centers_, expected[-1].centers_, rtol=1e-10, atol=1e-12)
    assert_array_equal(found.predict(Chunks(X, rows=7)), expected.predict(X))


def test_two_means_of_one_checkpoint_are_told_apart(tmp_path):
    pipeline = make_pipeline(
        FeatureNormalizer(0.5, center=True), FeatureNormalizer(0.5, center=True)
    )
    expected = pipeline.fit(X).transform(X)

    found = pipeline.fit(Open(X, rows=9, checkpoint=tmp_path / "state")).transform(X)
    assert_allclose(found, expected, atol=1e-12)


def test_a_checkpoint_of_other_features_is_refused(tmp_path):
    FeatureNormalizer(center=True).fit(Open(X, rows=9, checkpoint=tmp_path / "state"))
    with pytest.raises(ValueError, match="must belong to this computation"):
        FeatureNormalizer(0.5, center=True).fit(Open(X, rows=9, checkpoint=tmp_path / "state"))


@pytest.mark.parametrize("transformer", TRANSFORMERS, ids=str)
def test_errors(transformer):
    chunks = Chunks(X, Y, rows=30)
    with pytest.raises(ValueError, match="`sample_weight` must be None if X comes in chunks"):
        transformer.fit(chunks, sample_weight=np.ones(90))
    transformer.fit(chunks)
    transformer.fit(Chunks(pd.DataFrame(X, columns=[*"abcdef"]), Y, rows=30))
    other = Chunks(pd.DataFrame(X, columns=[*"abcdeg"]), Y, rows=30)
    with pytest.raises(ValueError, match="Chunks must have the features that"):
        transformer.transform(other)


def test_labels_are_needed_to_whiten():
    with pytest.raises(ValueError, match="must have labels"):
        WithinClassWhitener().fit(Chunks(X, rows=30))


def test_only_a_mean_needs_all_chunks():
    read = []

    def chunks():
        for rows in np.split(X, 9):
            read.append(len(rows))
            yield rows, None

    fitted = FeatureNormalizer(0.5).fit(Chunks(chunks))
    assert fitted.n_features_in_ == 6
    assert fitted.mean_ is None
    assert len(read) <= 3  # the first, and those read ahead
    with pytest.raises(ValueError, match="at least one sample"):
        FeatureNormalizer().fit(Chunks(list))
    scaled = FeatureNormalizer(center=True).fit(X)
    lazy = scaled.transform(Chunks(X, rows=9))
    assert FeatureNormalizer().fit(lazy).n_features_in_ == 6


def test_dask_is_not_computed_without_a_mean():
    da = pytest.importorskip("dask.array")
    n_calls = []
    lazy = da.from_array(X, chunks=(30, 6)).map_blocks(
        lambda rows: n_calls.append(1) or rows, meta=np.empty((0, 6))
    )
    assert FeatureNormalizer().fit(lazy).n_features_in_ == 6
    assert not n_calls


@pytest.mark.parametrize("transformer", TRANSFORMERS, ids=str)
def test_data_frames_are_made_of_arrays_only(transformer):
    chunks = Chunks(X, Y, rows=30)
    expected = transformer.fit(X, Y).transform(X)
    framed = clone(transformer).set_output(transform="pandas")
    for later in (framed.fit(chunks).transform(chunks), framed.fit_transform(chunks)):
        assert isinstance(later, Chunks)
        assert_allclose(later.apply(np.asarray), expected, rtol=1e-10, atol=1e-12)
    assert isinstance(framed.transform(X), pd.DataFrame)
    assert isinstance(framed.fit_transform(X, Y), pd.DataFrame)


def _mean(chunks):
    return FeatureNormalizer(center=True).fit(chunks).mean_


@pytest.mark.parametrize("transformer", [TRANSFORMERS[1], TRANSFORMERS[3]], ids=str)
def test_what_a_transformer_learned_counts_but_for_the_last_digits(transformer, tmp_path):
    def later(fitted):
        return fitted.transform(Chunks(X, Y, rows=9, checkpoint=tmp_path / "state"))

    transformer.fit(X, Y)
    expected = _mean(later(transformer))
    same = copy.copy(transformer)
    name = "mean_" if hasattr(same, "mean_") else "whitening_"
    setattr(same, name, getattr(transformer, name) * (1 + 1e-14))
    assert_array_equal(_mean(later(same)), expected)  # the stored one
    with pytest.raises(ValueError, match="must belong to this computation"):
        _mean(later(clone(transformer).fit(X[:70], Y[:70])))
