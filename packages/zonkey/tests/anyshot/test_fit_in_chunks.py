"""Fits and predictions in chunks: those in memory, whatever the chunks, and bit by bit again."""

import tracemalloc
from functools import cache
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
# Little to choose; some samples are kept to adapt with.
QUICK = GIVEN | {"preprocessing": "auto", "adapt_weight": "auto"}


def pairs(X, y, *cuts):
    bounds = [0, *cuts, len(y)]
    return [(X[a:b], y[a:b].tolist()) for a, b in pairwise(bounds)]


BY_CLASS = np.argsort(CODES, kind="stable")
ORDERS = {
    "drawn": np.arange(N),
    "class 5 last": np.argsort(CODES == 5, kind="stable"),
    "by class": BY_CLASS,
}
CUTS = {  # order and cuts
    "one row each": ("drawn", range(1, N)),
    "one chunk": ("drawn", ()),
    "uneven": ("drawn", (1, 17, 18, 70)),
    "a class in the last": ("class 5 last", (40, N - int((CODES == 5).sum()))),
    "sorted by class": ("by class", np.flatnonzero(np.diff(CODES[BY_CLASS])) + 1),
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


def draw_samples(order="drawn", labels="text", dtype="float64"):
    """Return samples and labels in some order, and the prototypes."""
    rows, is_text = ORDERS[order], labels == "text"
    y = (NAMES[CODES] if is_text else CODES)[rows]
    return X[rows].astype(dtype), y, PROTOTYPES if is_text else NUMBERED


@cache
def fit_in_memory(*case):
    rows, y, prototypes = draw_samples(*case)
    return model(prototypes).fit(rows, y)


@cache
def fit_quickly():
    return model(**QUICK).fit(X, NAMES[CODES])


@pytest.mark.parametrize(
    ("cut", "labels", "dtype"),
    [
        *((cut, "text", "float64") for cut in CUTS),
        ("uneven", "numbers", "float64"),
        ("one row each", "text", "float32"),
        ("sorted by class", "text", "float32"),
    ],
)
def test_chunks_give_the_fit_in_memory(cut, labels, dtype):
    order, cuts = CUTS[cut]
    rows, y, prototypes = draw_samples(order, labels, dtype)
    found = model(prototypes).fit(Chunks(pairs(rows, y, *cuts)))
    digits = 1e-10 if dtype == "float64" else 1e-6
    assert_agree(found, fit_in_memory(order, labels, dtype), digits, NEW.astype(dtype))


@pytest.mark.parametrize(
    "parameters",
    [
        GIVEN,
        QUICK,
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
    np.save(tmp_path / "X.npy", X)
    with h5py.File(tmp_path / "X.h5", "w") as file:
        for data in (
            (np.load(tmp_path / "X.npy", mmap_mode="r"), y),
            (file.create_dataset("X", data=X), y),
            (zarr.array(X, chunks=(20, 3)), y),
            (Chunks(lambda: iter(pairs(X, y, 60))),),
        ):
            assert_agree(model(**QUICK).fit(*data), fit_quickly())


def test_dask_arrays():
    da = pytest.importorskip("dask.array")
    rows, labels = da.from_array(X, chunks=(13, 3)), da.from_array(NAMES[CODES], chunks=40)
    found = model(**QUICK).fit(rows, labels)
    assert_agree(found, fit_quickly())
    assert_same_bits(model(**QUICK).fit(rows, labels), found)


@pytest.mark.parametrize("preprocessing", ["auto", None])
def test_further_samples_in_chunks(preprocessing):
    y, more = NAMES[CODES], NAMES[CODES_NEW]
    parameters = GIVEN | {"preprocessing": preprocessing, "candidates": "unseen"}
    one, other = (model(**parameters) for _ in range(2))
    expected = one.fit(X, y).partial_fit(NEW, more)
    found = other.partial_fit(Chunks(X, y, rows=20)).partial_fit(Chunks(NEW, more, rows=5))
    assert_agree(found, expected)
    with pytest.raises(ValueError, match="features"):
        found.partial_fit(Chunks(NEW[:, :5], more, rows=5))


NUMBERS_OF = ("predict_proba", "decision_function", "uncertainty", "novelty", "embed")


def test_predictions_in_chunks(tmp_path):
    fitted = fit_quickly().with_rejection(0.3)
    np.save(tmp_path / "X.npy", NEW)
    for source in (
        Chunks(NEW, rows=4),
        np.load(tmp_path / "X.npy", mmap_mode="r"),
        zarr.array(NEW),
    ):
        for method in NUMBERS_OF:
            close(getattr(fitted, method)(source), getattr(fitted, method)(NEW), 1e-12)
        assert_array_equal(fitted.predict(source), fitted.predict(NEW))
        for n in ((), (2,)):
            assert_array_equal(fitted.predict_top(source, *n), fitted.predict_top(NEW, *n))


def test_scores_in_chunks():
    fitted = fit_quickly()
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
    parts = pairs(X, NAMES[CODES], 20, 50, 51)
    expected = model(**QUICK).fit(Chunks(parts))
    n_failures = 0
    for reading in range(1, 5):  # one to know the data, and three passes
        for number in range(len(parts)):
            source = Faulty(parts, reading, number)
            options = {"checkpoint": tmp_path / f"{reading} {number}", "every": 2}
            found = model(**QUICK)
            try:
                found.fit(Chunks(source, **options))
            except OSError:
                n_failures += 1
                found.fit(Chunks(source, **options))
            assert_same_bits(found, expected)
            assert not (tmp_path / f"{reading} {number}").exists()
    assert n_failures >= 3 * len(parts)  # the first reading needs one chunk only


def stop_at(wanted):
    """Return what ends a fit within a pass."""

    def stop(name, n_rows, _):
        if name.startswith(wanted) and n_rows > 20:
            raise OSError("the disk is gone")

    return stop


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("scatter", {}, {"random_state": 5}),
        (
            "mean",
            {"preprocessing": FeatureNormalizer(0.5, center=True)},
            {"preprocessing": FeatureNormalizer(2.0, center=True)},
        ),
    ],
)
def test_a_checkpoint_of_other_parameters_is_refused(name, before, after, tmp_path):
    options = {"rows": 20, "checkpoint": tmp_path / "state", "every": 1}
    stopped = Chunks(X, NAMES[CODES], **options, progress=stop_at(name))
    with pytest.raises(OSError, match="disk"):
        model(**QUICK | before).fit(stopped)
    with pytest.raises(ValueError, match="must belong to this computation"):
        model(**QUICK | after).fit(Chunks(X, NAMES[CODES], **options))


def test_last_digits_of_what_was_learned_do_not_matter(tmp_path, monkeypatch):
    """They depend on the number of threads, which may differ when a fit resumes."""
    options = {"rows": 20, "checkpoint": tmp_path / "state", "every": 1}
    steps = make_pipeline(FeatureNormalizer(0.5, center=True), WithinClassWhitener(0.3))
    parameters = GIVEN | {"preprocessing": steps}
    expected = model(**parameters).fit(X, NAMES[CODES])
    with pytest.raises(OSError, match="disk"):
        model(**parameters).fit(Chunks(X, NAMES[CODES], **options, progress=stop_at("sums")))
    learn, n_rows = WithinClassWhitener.fit_from, []

    def learn_otherwise(whitener, *args):
        learn(whitener, *args)
        whitener.whitening_ = whitener.whitening_ * (1 + 1e-15)

    monkeypatch.setattr(WithinClassWhitener, "fit_from", learn_otherwise)
    progress = lambda name, n, _: n_rows.append(n) if name == "sums" else None  # noqa: E731
    found = model(**parameters).fit(Chunks(X, NAMES[CODES], **options, progress=progress))
    assert min(n_rows) > 20  # it went on
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
    options = {"rows": 10, "checkpoint": tmp_path / "state", "every": 1}
    y, more = NAMES[CODES], NAMES[CODES_NEW]
    quick = GIVEN | {"preprocessing": FeatureNormalizer(center=True)}
    fitted, other = model(**quick).fit(X, y), model(**quick).fit(X[:-9], y[:-9])
    with pytest.raises(OSError, match="disk"):
        fitted.partial_fit(Chunks(NEW, more, **options, progress=stop_at("more")))
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
        ({"preprocessing": PCA(3)}, {}, "must be one that learns in chunks.* got PCA"),
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
    with pytest.raises(TypeError, match="X must be in memory here; got Chunks"):
        model().fit(X, y, validation=(chunks, None))
    with pytest.raises(ValueError, match=r"not whole|continuous"):
        model(None).fit(Chunks(X, CODES + 0.5, rows=20))
    fitted = model(**QUICK | {"worth": "shots"}).fit(chunks)
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
    fitted = model(**QUICK).fit(chunks)
    assert fitted.feature_names_in_.tolist() == [*"abcdefgh"]
    expected = fit_quickly().predict(X)
    assert_array_equal(fitted.predict(chunks), expected)
    assert_array_equal(fitted.predict(unnamed), expected)
    for method in (fitted.predict, fitted.score, fitted.partial_fit):
        with pytest.raises(ValueError, match="Chunks must have the features that"):
            method(other)
