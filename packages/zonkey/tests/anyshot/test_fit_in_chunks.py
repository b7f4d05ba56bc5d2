"""Fits and predictions in chunks: those in memory, whatever the chunks, and bit by bit again."""

import tracemalloc
from itertools import pairwise

import h5py
import numpy as np
import pandas as pd
import pytest
import zarr
from any_shot_cases import GIVEN, world
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from zonkey import AnyShotClassifier, Chunks, FewShotClassifier, NearestSupport, ZeroShotClassifier
from zonkey.files.chunks import open_chunks
from zonkey.preprocessing import FeatureNormalizer, WithinClassWhitener

WORLD = world(6, n_classes=15, d=8)
NAMES = np.array([f"{j}" * (1 + j % 4) for j in range(15)])  # of several lengths
X, CODES = WORLD.draw(np.arange(11), np.arange(11) + 5)
ORDER = np.random.default_rng(1).permutation(len(CODES))
X, CODES = X[ORDER], CODES[ORDER]
NEW, CODES_NEW = WORLD.draw(np.arange(8, 15), 6)
# Class 3 has samples and no prototype.
PROTOTYPES = {NAMES[j].item(): v for j, v in WORLD.prototypes.items() if j != 3}
NUMBERED = {j: v for j, v in WORLD.prototypes.items() if j != 3}
N = len(CODES)


def pairs(X, y, *cuts):
    bounds = [0, *cuts, len(y)]
    return [(X[a:b], y[a:b].tolist()) for a, b in pairwise(bounds)]


LAST = np.argsort(CODES == 5, kind="stable")  # a class that only the last chunk has
BY_CLASS = np.argsort(CODES, kind="stable")
CUTS = {
    "one row each": (slice(None), range(1, N)),
    "one chunk": (slice(None), ()),
    "uneven": (slice(None), (1, 17, 18, 70)),
    "a class in the last": (LAST, (40, N - int((CODES == 5).sum()))),
    "sorted by class": (BY_CLASS, np.flatnonzero(np.diff(CODES[BY_CLASS])) + 1),
}


def model(prototypes=PROTOTYPES, **parameters):
    return AnyShotClassifier(prototypes, **({"candidates": "all"} | parameters))


def assert_agree(found, expected, digits=1e-10, rows=NEW):
    for name in ("classes_", "seen_classes_", "unseen_classes_"):
        assert_array_equal(getattr(found, name), getattr(expected, name))
    for name in ("centers_", "worth_", "seen_penalty_", "temperature_", "best_score_"):
        close(getattr(found, name), getattr(expected, name), digits)
    for name in ("decision_function", "predict_proba"):
        close(getattr(found, name)(rows), getattr(expected, name)(rows), digits)
    assert_array_equal(found.state_.evidence.counts, expected.state_.evidence.counts)
    close(found.state_.evidence.squares, expected.state_.evidence.squares, digits)
    assert str(found.best_params_["preprocessing"]) == str(expected.best_params_["preprocessing"])
    assert found.n_features_in_ == expected.n_features_in_
    if expected.state_.reserve is not None:
        assert_array_equal(found.state_.reserve.rows, expected.state_.reserve.rows)
        assert_array_equal(found.state_.reserve.bounds, expected.state_.reserve.bounds)
        assert_allclose(found.state_.reserve.X, expected.state_.reserve.X, rtol=1e-4, atol=1e-6)


def close(found, expected, digits):
    scale = np.max(np.abs(np.nan_to_num(expected)))
    assert_allclose(found, expected, rtol=0, atol=digits * scale)


def assert_same_bits(one, other):
    for name in ("centers_", "worth_", "seen_penalty_", "temperature_"):
        assert_array_equal(getattr(one, name), getattr(other, name))
    assert_array_equal(one.decision_function(NEW), other.decision_function(NEW))
    assert_array_equal(one.state_.reserve.X, other.state_.reserve.X)


@pytest.mark.parametrize("labels", ["text", "numbers"])
@pytest.mark.parametrize("case", CUTS)
def test_chunks_give_the_fit_in_memory(case, labels):
    order, cuts = CUTS[case]
    y = (NAMES[CODES] if labels == "text" else CODES)[order]
    prototypes = PROTOTYPES if labels == "text" else NUMBERED
    expected = model(prototypes).fit(X[order], y)
    assert_agree(model(prototypes).fit(Chunks(pairs(X[order], y, *cuts))), expected)


@pytest.mark.parametrize("case", CUTS)
def test_float32(case):
    order, cuts = CUTS[case]
    rows, y = X[order].astype(np.float32), NAMES[CODES][order]
    found = model().fit(Chunks(pairs(rows, y, *cuts)))
    assert_agree(found, model().fit(rows, y), 1e-6, NEW.astype(np.float32))


@pytest.mark.parametrize(
    "parameters",
    [
        GIVEN,
        GIVEN | {"preprocessing": "auto"},
        {"preprocessing": None, "n_shots": 2},
        {"preprocessing": WithinClassWhitener(0.3)},
        {"preprocessing": FeatureNormalizer(0.7, center=True, norm=None)},
        {
            "preprocessing": make_pipeline(
                FeatureNormalizer(center=True), "passthrough", WithinClassWhitener(), Normalizer()
            )
        },
        {"preprocessing": FrozenEstimator(StandardScaler().fit(X[:40]))},
        {"preprocessing": StandardScaler()},
        {"candidates": "unseen", "random_state": 3},
        {"transfer": True, "candidates": "unseen"},
        {"prototypes": None},
    ],
    ids=lambda parameters: str([*parameters.values()][-1])[:30],
)
def test_other_parameters(parameters):
    y = NAMES[CODES]
    found = model(**parameters).fit(Chunks(pairs(X, y, 30, 31, 77)))
    assert_agree(found, model(**parameters).fit(X, y))


def test_validation_beside_chunks():
    seen = CODES < 8
    options = {"validation": (X[~seen], NAMES[CODES][~seen])}
    rows, y = X[seen], NAMES[CODES][seen]
    expected = model(n_shots=1).fit(rows, y, **options)
    found = model(n_shots=1).fit(Chunks(rows, y, rows=13), **options)
    assert_agree(found, expected)
    close(found.state_.reserve.priors, expected.state_.reserve.priors, 1e-10)


def test_sources(tmp_path):
    y = NAMES[CODES]
    expected = model().fit(X, y)
    np.save(tmp_path / "X.npy", X)
    with h5py.File(tmp_path / "X.h5", "w") as file:
        found = [
            model().fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y),
            model().fit(file.create_dataset("X", data=X), y),
            model().fit(zarr.array(X, chunks=(20, 3)), y),
            model().fit(Chunks(lambda: iter(pairs(X, y, 60)))),
        ]
    for other in found:
        assert_agree(other, expected)


def test_dask_arrays():
    da = pytest.importorskip("dask.array")
    y = NAMES[CODES]
    rows, labels = da.from_array(X, chunks=(13, 3)), da.from_array(y, chunks=40)
    found = model().fit(rows, labels)
    assert_agree(found, model().fit(X, y))
    assert_same_bits(model().fit(rows, labels), found)


@pytest.mark.parametrize("preprocessing", ["auto", None])
def test_further_samples_in_chunks(preprocessing):
    y, more = NAMES[CODES], NAMES[CODES_NEW]
    model_, other = (model(preprocessing=preprocessing, candidates="unseen") for _ in range(2))
    expected = model_.fit(X, y).partial_fit(NEW, more)
    found = other.partial_fit(Chunks(X, y, rows=20)).partial_fit(Chunks(NEW, more, rows=5))
    assert_agree(found, expected)
    with pytest.raises(ValueError, match="features"):
        found.partial_fit(Chunks(NEW[:, :5], more, rows=5))


@pytest.mark.parametrize(
    "method",
    [
        "predict",
        "predict_top",
        "predict_proba",
        "decision_function",
        "uncertainty",
        "novelty",
        "embed",
    ],
)
def test_predictions_in_chunks(method, tmp_path):
    fitted = model(reject_below=0.3).fit(X, NAMES[CODES])
    expected = getattr(fitted, method)(NEW)
    np.save(tmp_path / "X.npy", NEW)
    for source in (
        Chunks(NEW, rows=4),
        np.load(tmp_path / "X.npy", mmap_mode="r"),
        zarr.array(NEW),
    ):
        found = getattr(fitted, method)(source)
        if expected.dtype.kind == "U":
            assert_array_equal(found, expected)
        else:
            close(found, expected, 1e-12)
    assert_array_equal(fitted.predict_top(Chunks(NEW, rows=4), 2), fitted.predict_top(NEW, 2))


def test_scores_in_chunks():
    fitted = model().fit(X, NAMES[CODES])
    expected = fitted.score(NEW, NAMES[CODES_NEW])
    assert fitted.score(Chunks(NEW, NAMES[CODES_NEW], rows=5)) == expected
    assert fitted.score(zarr.array(NEW), NAMES[CODES_NEW]) == expected
    with pytest.raises(ValueError, match="must have labels"):
        fitted.score(Chunks(NEW, rows=5))


@pytest.mark.parametrize(
    "parameters",
    [{}, {"direction": "forward"}, {"direction": "reverse"}, {"prototypes": None}],
    ids=str,
)
def test_the_papers_model(parameters):
    usual = {"prototypes": WORLD.prototypes, "random_state": 0, "candidates": "all"}
    parameters = usual | parameters
    expected = ZeroShotClassifier(**parameters).fit(X, CODES)
    found = ZeroShotClassifier(**parameters).fit(Chunks(pairs(X, CODES, 3, 50)))
    close(found.projection_, expected.projection_, 1e-10)
    close(found.decision_function(Chunks(NEW, rows=9)), expected.decision_function(NEW), 1e-10)
    close(found.embed(Chunks(NEW, rows=9)), expected.embed(NEW), 1e-10)
    assert found.score(Chunks(X, CODES, rows=7)) == expected.score(X, CODES)
    gathered = found.gather(Chunks(pairs(X, CODES, 3, 50)))
    assert gathered.n_samples == N


# Interruptions.


class Faulty:
    """A source of chunks that fails once, before it yields some chunk in some reading."""

    def __init__(self, chunks, reading, number):
        self.chunks, self.at, self.readings = chunks, (reading, number), 0

    def __call__(self):
        self.readings += 1
        for i, pair in enumerate(self.chunks):
            if (self.readings, i) == self.at:
                raise OSError("the disk is gone")
            yield pair


def test_a_fit_that_fails_anywhere_goes_on_to_the_same_bits(tmp_path):
    parts = pairs(X, NAMES[CODES], 20, 50, 51, 90)
    quick = GIVEN | {"preprocessing": "auto", "adapt_weight": "auto"}  # nothing to choose
    expected = model(**quick).fit(Chunks(parts))
    n_failures = 0
    for reading in range(1, 5):  # one to know the data, and three passes
        for number in range(len(parts)):
            source = Faulty(parts, reading, number)
            options = {"checkpoint": tmp_path / f"{reading} {number}", "every": 2}
            found = model(**quick)
            try:
                found.fit(Chunks(source, **options))
            except OSError:
                n_failures += 1
                found.fit(Chunks(source, **options))
            assert_same_bits(found, expected)
            assert not (tmp_path / f"{reading} {number}").exists()
    assert n_failures >= 3 * len(parts)  # the first reading needs one chunk only


def test_a_checkpoint_of_other_parameters_is_refused(tmp_path):
    y = NAMES[CODES]
    parts = pairs(X, y, 20, 50)
    with pytest.raises(OSError, match="disk"):
        model().fit(Chunks(Faulty(parts, 3, 1), checkpoint=tmp_path / "state", every=1))
    with pytest.raises(ValueError, match="must belong to this computation"):
        model(random_state=5).fit(Chunks(parts, checkpoint=tmp_path / "state"))


def test_a_checkpoint_of_another_power_is_refused(tmp_path):
    def powered(power):
        return model(preprocessing=FeatureNormalizer(power, center=True))

    def stop(name, *_):
        if name.startswith("mean"):
            raise OSError("the disk is gone")

    options = {"rows": 20, "checkpoint": tmp_path / "state", "every": 1}
    with pytest.raises(OSError, match="disk"):
        powered(0.5).fit(Chunks(X, NAMES[CODES], **options, progress=stop))
    with pytest.raises(ValueError, match="must belong to this computation"):
        powered(2.0).fit(Chunks(X, NAMES[CODES], **options))


def test_last_digits_of_what_was_learned_do_not_matter(tmp_path, monkeypatch):
    """They depend on the number of threads, which may differ when a fit resumes."""
    options = {"rows": 20, "checkpoint": tmp_path / "state", "every": 1}
    steps = make_pipeline(FeatureNormalizer(0.5, center=True), WithinClassWhitener(0.3))
    parameters = GIVEN | {"preprocessing": steps}
    expected = model(**parameters).fit(X, NAMES[CODES])

    def stop(name, n_rows, _):
        if name == "sums" and n_rows > 40:
            raise OSError("the disk is gone")

    with pytest.raises(OSError, match="disk"):
        model(**parameters).fit(Chunks(X, NAMES[CODES], **options, progress=stop))
    learn, n_rows = WithinClassWhitener.fit_from, []

    def learn_otherwise(whitener, *args):
        learn(whitener, *args)
        whitener.whitening_ = whitener.whitening_ * (1 + 1e-15)

    monkeypatch.setattr(WithinClassWhitener, "fit_from", learn_otherwise)
    progress = lambda name, n, _: n_rows.append(n) if name == "sums" else None  # noqa: E731
    found = model(**parameters).fit(Chunks(X, NAMES[CODES], **options, progress=progress))
    assert min(n_rows) > 40  # it went on
    assert_agree(found, expected)


@pytest.mark.parametrize("state", [None, np.random.RandomState(0)], ids=["none", "generator"])
def test_a_seed_for_a_checkpoint(state, tmp_path):
    read = []
    options = {"checkpoint": tmp_path / "state", "progress": lambda *told: read.append(told)}
    for estimator in (
        model(random_state=state),
        ZeroShotClassifier(WORLD.prototypes, random_state=state),
    ):
        with pytest.raises(ValueError, match="`random_state` must be an integer with a checkpoint"):
            estimator.fit(Chunks(X, CODES, rows=20, **options))
    assert not read
    model(NUMBERED, random_state=np.int64(3), **GIVEN).fit(Chunks(X, CODES, rows=20, **options))


def test_scores_do_not_depend_on_a_checkpoint(tmp_path):
    good = model(**GIVEN).fit(X, NAMES[CODES])
    bad = model(**GIVEN).fit(X, NAMES[np.roll(CODES, 1)])
    for fitted in (good, bad):
        chunks = Chunks(X, NAMES[CODES], rows=20, checkpoint=tmp_path / "state")
        assert fitted.score(chunks) == fitted.score(X, NAMES[CODES])
    assert good.score(X, NAMES[CODES]) != bad.score(X, NAMES[CODES])


def test_further_samples_of_another_model_are_refused(tmp_path):
    """What the preprocessing learned counts, not only its parameters."""

    def stop(*_):
        raise OSError("the disk is gone")

    options = {"rows": 10, "checkpoint": tmp_path / "state", "every": 1}
    y, more = NAMES[CODES], NAMES[CODES_NEW]
    quick = GIVEN | {"preprocessing": FeatureNormalizer(center=True)}
    fitted, other = model(**quick).fit(X, y), model(**quick).fit(X[:-9], y[:-9])
    with pytest.raises(OSError, match="disk"):
        fitted.partial_fit(Chunks(NEW, more, **options, progress=stop))
    with pytest.raises(ValueError, match="must belong to this computation"):
        other.partial_fit(Chunks(NEW, more, **options))
    fitted.partial_fit(Chunks(NEW, more, **options))
    assert not (tmp_path / "state").exists()


def test_other_preprocessing_learns_from_training_rows_only(tmp_path):
    table = {f"f{i}": X[:, i] + (1000 if i == 0 else 0) * (np.arange(N) >= 60) for i in range(8)}
    parts = np.where(np.arange(N) < 60, "train", "test")
    pd.DataFrame(table | {"label": NAMES[CODES], "split": parts}).to_csv(
        tmp_path / "X.csv", index=False
    )
    told = []
    progress = lambda name, n, _: told.append(n) if name == "step" else None  # noqa: E731
    chunks = open_chunks(tmp_path / "X.csv", rows=25, progress=progress)
    found = model(**GIVEN | {"preprocessing": StandardScaler()}).fit(chunks)
    assert_allclose(found.preprocessing_.mean_, X[:60].mean(axis=0), rtol=1e-10)
    assert told[-1] == 60


# Cost.


@pytest.mark.parametrize(
    ("parameters", "options", "message"),
    [
        ({}, {"validation": 3}, "`validation` must be a pair"),
        ({}, {"validation": (X[:1], NAMES[CODES][:1])}, "at least two classes"),
        ({"prototypes": {"0": [1.0], "1": [1.0, 2.0]}}, {}, "must all have the same dimension"),
        ({"kernel": "precomputed", "prototype_transformer": None}, {}, "kernel values"),
        ({"preprocessing": PCA(3)}, {}, "must be one that learns in chunks"),
        ({"preprocessing": make_pipeline(StandardScaler(), PCA(3))}, {}, "learns in chunks"),
        ({"preprocessing": WithinClassWhitener(-1.0)}, {}, "`shrinkage` must be"),
        ({"candidates": "some"}, {}, "`candidates` must be"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_read(parameters, options, message):
    read = []
    chunks = Chunks(X, NAMES[CODES], rows=20, progress=lambda *told: read.append(told))
    with pytest.raises((TypeError, ValueError), match=message):
        model(**parameters).fit(chunks, **options)
    assert not read


def test_an_iterator_is_refused_before_it_is_read():
    for fit in (
        model().fit,
        WithinClassWhitener().fit,
        ZeroShotClassifier(None, candidates="all", random_state=0).fit,
    ):
        left = iter(pairs(X, NAMES[CODES], 50))
        with pytest.raises(ValueError, match="must read the chunks more than once"):
            fit(Chunks(left))
        assert len([*left]) == 2


def test_memory_does_not_grow_with_the_number_of_samples():
    def source(n_chunks):
        def read():
            for i in range(n_chunks):
                rng = np.random.default_rng(i)
                y = rng.integers(4, size=500)
                yield rng.normal(size=(500, 40)) + y[:, None], y

        return read

    def peak(n_chunks):
        tracemalloc.start()
        try:
            model(None, seen_penalty=0.0).fit(Chunks(source(n_chunks)))
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(4)
    assert peak(60) < 1.2 * peak(6)


# Errors.


def test_errors():
    y = NAMES[CODES]
    chunks = Chunks(X, y, rows=20)
    with pytest.raises(ValueError, match="must have labels"):
        model().fit(Chunks(X, rows=20))
    with pytest.raises(ValueError, match="`sample_weight` must be None if X comes in chunks"):
        model().fit(chunks, sample_weight=np.ones(N))
    with pytest.raises(ValueError, match="y must be None if X is Chunks"):
        model().fit(chunks, y)
    with pytest.raises(TypeError, match=r"must be one that learns in chunks.* got PCA"):
        model(preprocessing=PCA(3)).fit(chunks)
    with pytest.raises(ValueError, match="must read the chunks more than once"):
        model().fit(Chunks(iter(pairs(X, y, 50))))
    with pytest.raises(TypeError, match="X must be in memory here; got Chunks"):
        model().fit(X, y, validation=(chunks, None))
    with pytest.raises(ValueError, match=r"not whole|continuous"):
        model(None).fit(Chunks(X, CODES + 0.5, rows=20))
    fitted = model(worth="shots").fit(chunks)
    with pytest.raises(ValueError, match='worth="shots" must have its samples in memory'):
        fitted.partial_fit(chunks)
    for call in (
        lambda: fitted.with_shots(chunks),
        lambda: fitted.most_informative(chunks, 2),
        lambda: FewShotClassifier(WORLD.prototypes).fit(chunks),
        lambda: NearestSupport().fit(chunks),
    ):
        with pytest.raises(TypeError, match="X must be in memory here; got Chunks"):
            call()
    with pytest.raises(TypeError, match="Unlabeled samples must be in memory"):
        fitted.adapt(Chunks(NEW))
    missing = {j: v for j, v in WORLD.prototypes.items() if j != CODES[-1]}
    with pytest.raises(ValueError, match="No prototype for the class"):
        ZeroShotClassifier(missing).fit(Chunks(X, CODES, rows=N - 1))
    with pytest.raises(ValueError, match='seen_penalty="auto" must have its samples in memory'):
        ZeroShotClassifier(WORLD.prototypes, seen_penalty="auto").fit(Chunks(X, CODES))


def test_names_of_features():
    y = NAMES[CODES]
    named = (pd.DataFrame(X, columns=[*names]) for names in ("abcdefgh", "abcdefgx"))
    chunks, other, unnamed = (Chunks(rows, y, rows=20) for rows in (*named, X))
    fitted = model().fit(chunks)
    assert fitted.feature_names_in_.tolist() == [*"abcdefgh"]
    expected = model().fit(X, y).predict(X)
    assert_array_equal(fitted.predict(chunks), expected)
    assert_array_equal(fitted.predict(unnamed), expected)
    for method in (fitted.predict, fitted.score, fitted.partial_fit):
        with pytest.raises(ValueError, match="Chunks must have the features that"):
            method(other)
