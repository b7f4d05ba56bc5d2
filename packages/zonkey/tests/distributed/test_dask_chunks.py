"""Dask collections as chunks: the same figures as in memory, the same bits on any scheduler."""

import os
import subprocess
import sys
from functools import partial

import cloudpickle
import dask
import dask.array as da
import dask.dataframe as dd
import joblib
import numpy as np
import pandas as pd
import pytest
from dask.delayed import Delayed
from dask.sizeof import sizeof
from sklearn.base import clone

import distributed
from zonkey import AnyShotClassifier, Moments, ZeroShotClassifier, evaluate
from zonkey.anyshot.survey import Survey
from zonkey.bpl.moments import _Gathering
from zonkey.preprocessing.normalizer import PowerSums
from zonkey.streaming import dask as engine
from zonkey.streaming.accept import as_chunks
from zonkey.streaming.chunks import Chunks
from zonkey.streaming.dask import DaskChunks, _State
from zonkey.streaming.reduce import ClassSums
from zonkey.testing import linear_problem

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import tests

RNG = np.random.default_rng(3)
NAMES = np.array(["horse", "cow", "cat"])
PROTOTYPES = {"horse": [1.0, 2.0], "cow": [0.0, 1.0], "cat": [1.0, 1.0], "zebra": [2.0, 2.0]}
X = RNG.normal(size=(83, 5))
Y = NAMES[RNG.integers(0, 3, len(X))]
FRAME = pd.DataFrame(X, columns=list("abcde")).assign(y=Y)


def moments(X, y=None, **options):
    options = {"n_reserve": 3, "seed": 5, **options}
    return Moments(PROTOTYPES, **options).update(X, y)


def content(found):
    """Return everything moments hold, as bytes."""
    arrays = [found.A0, found.class_sums, found.counts]
    kept = [found.samples_of(label) for label in found.seen_labels.tolist()]
    return [np.asarray(array).tobytes() for array in arrays + kept]


def check_against_memory(found, X=X, y=Y):
    expected = moments(X, y)
    np.testing.assert_allclose(found.A0, expected.A0, rtol=1e-12)
    np.testing.assert_allclose(found.class_sums, expected.class_sums, rtol=1e-12)
    assert found.counts.tolist() == expected.counts.tolist()
    for label in expected.seen_labels.tolist():
        np.testing.assert_array_equal(found.samples_of(label), expected.samples_of(label))


def unknown(array):
    """Return the same array, with chunks of unknown lengths."""
    return array[da.ones(len(array), chunks=array.chunks[0], dtype=bool)]


def in_chunks(n):
    return da.from_array(X, chunks=(-(-len(X) // n), -1))


ROWS = da.from_array(X, chunks=(9, 2))
SOURCES = {
    "labels in memory": lambda: (ROWS, Y),
    "a list of labels": lambda: (ROWS, Y.tolist()),
    "labels in the same chunks": lambda: (ROWS, da.from_array(Y, chunks=9)),
    "labels in other chunks": lambda: (ROWS, da.from_array(Y.astype(object), chunks=50)),
    "one chunk": lambda: (da.from_array(X, chunks=-1), Y),
    "unknown lengths": lambda: (unknown(ROWS), unknown(da.from_array(Y, chunks=9))),
    "unknown lengths of samples": lambda: (unknown(ROWS), da.from_array(Y, chunks=9)),
    "a data frame": lambda: (dd.from_pandas(FRAME, 4)[list("abcde")], dd.from_pandas(FRAME, 4).y),
}


@pytest.mark.parametrize("source", SOURCES)
def test_moments_of_collections_are_those_in_memory(source):
    check_against_memory(moments(*SOURCES[source]()))


def test_partitions_may_be_empty():
    frame = dd.from_pandas(FRAME.sort_values("a"), npartitions=6)
    some = frame[frame.a > 0.8]
    assert 0 in some.map_partitions(len).compute().tolist()
    kept = FRAME[FRAME.a > 0.8]
    found = moments(some[list("abcde")], some.y)
    check_against_memory(found, kept[list("abcde")].to_numpy(), kept.y.tolist())


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float16", "int16", "float32", "int64"])
def test_narrow_numbers_are_read_as_in_other_chunks(dtype):
    narrow = (10 * X + 60).astype(dtype)
    found = moments(da.from_array(narrow, chunks=(9, -1)), Y)
    assert found.counts.tolist() == moments(Chunks(narrow, Y, rows=9)).counts.tolist()
    np.testing.assert_allclose(found.A0, moments(narrow.astype(np.float64), Y).A0, rtol=1e-6)


@pytest.mark.parametrize("n_chunks", [1, 2, 4, 5, 17, 21])
def test_the_tree_takes_up_each_chunk_once(n_chunks):
    check_against_memory(moments(in_chunks(n_chunks), Y))


@pytest.mark.parametrize(
    "scheduler", ["sync", "threads", pytest.param("processes", marks=pytest.mark.exhaustive)]
)
def test_bits_do_not_depend_on_the_scheduler(scheduler, client):
    expected = content(moments(ROWS, Y))
    with dask.config.set(scheduler=scheduler):
        assert content(moments(ROWS, Y)) == expected


def test_bits_do_not_depend_on_the_number_of_workers(client):
    expected = content(moments(ROWS, Y))
    options = {"n_workers": 1, "processes": False, "threads_per_worker": 3}
    with distributed.Client(dashboard_address=":0", **options):
        assert content(moments(ROWS, Y)) == expected
    assert content(moments(client.persist(ROWS), Y)) == expected


def test_a_client_is_used_though_chunks_are_many_and_small(client):
    rows = da.ones((160, 3), chunks=(2, 3))
    assert moments(rows, ["cow"] * 160).n_samples == 160


class Summing:
    """A sum of squares, beside something that never changes; it counts its pickles."""

    n_pickled = 0

    def __init__(self, constant=()):
        self.constant, self.total = constant, 0.0

    def copy_empty(self):
        return Summing(self.constant)

    def update(self, chunk):
        self.total += np.sum(chunk.X**2)

    def merge(self, other):
        self.total += other.total

    def parts(self):
        return {"total": self.total}

    def restore(self, parts):
        self.total = parts["total"]

    def __reduce__(self):
        Summing.n_pickled += 1
        return (Summing, (self.constant,))


def test_the_reduction_is_in_the_graph_once(monkeypatch):
    """So are models: a task has the name of the reduction, not a copy."""
    n, compute, graphs = 10, Delayed.compute, []

    def seen(self, **options):
        graphs.append(self.__dask_graph__())
        return compute(self, **options)

    monkeypatch.setattr(Delayed, "compute", seen)
    chunks = as_chunks(da.ones((2 * n, 3), chunks=(2, 3)) + 1, da.ones(2 * n, chunks=2))
    with dask.config.set(scheduler="sync"):
        assert chunks.reduce(Summing(), "sum").total == 24 * n
    Summing.n_pickled = 0
    (graph,) = graphs
    cloudpickle.dumps(graph)
    assert Summing.n_pickled == 1
    # Tasks that read and reduce a chunk, merges of four, the reduction, and the result.
    assert len(dict(graph)) == n + (3 + 1) + 1 + 1


def test_large_labels_and_prototypes_raise_no_warning_about_the_graph(client):
    """They must be in it, so that any worker can be lost."""
    wide = {j: RNG.normal(size=8_000).tolist() for j in range(200)}
    found = Moments(wide).update(ROWS, np.arange(len(X)) % 7)
    assert found.n_samples == len(X)


def test_dask_knows_the_size_of_states():
    """It counts what a worker holds and moves by it."""
    A0 = moments(np.ones((4, 200)), Y[:4]).A0
    assert A0.nbytes < sizeof(_State({"A0": A0})) < 2 * A0.nbytes


FAULTS = {
    "labels for unknown lengths": (lambda: (unknown(ROWS), Y), "compute_chunk_sizes"),
    "other numbers of chunks": (
        lambda: (unknown(ROWS), da.from_array(Y, chunks=50)),
        r"as many for X as for y; got 10 and 2\. Call \.compute_chunk_sizes",
    ),
    "fewer labels": (lambda: (ROWS, Y[:-1]), "each of the 83 samples; got 82"),
    "a chunk with fewer labels": (
        lambda: (unknown(ROWS[1:].rechunk((9, -1))), da.from_array(Y[:82], chunks=(10, *[8] * 9))),
        r"chunk \d has \d+ samples and \d+ labels",
    ),
    "an unknown class": (
        lambda: (ROWS, np.where(np.arange(len(Y)) == 30, "dog", Y)),
        "Chunk 3: No prototype for the class 'dog'",
    ),
    "a number that is missing": (
        lambda: (da.from_array(np.where(X[70, 1] == X, np.nan, X), chunks=(9, -1)), Y),
        "Chunk 7: X must be finite",
    ),
    "no matrix": (lambda: (ROWS[:, 0], Y), "X must be a matrix"),
    "labels in columns": (lambda: (ROWS, ROWS), "y must be one-dimensional"),
    "a data frame of labels": (
        lambda: (ROWS, dd.from_pandas(FRAME, 4)[["y"]]),
        r"must be one column .* got a data frame of 1 columns\. .* y\['y'\]",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_bad_collections_are_refused(fault):
    source, message = FAULTS[fault]
    with pytest.raises(ValueError, match=message):
        moments(*source())


def test_other_collections_are_refused():
    with pytest.raises(TypeError, match=r"Dask array or a Dask data frame; got .* Series"):
        as_chunks(dd.from_pandas(FRAME, 2).a)


def test_errors_on_workers_are_the_same(client):
    test_bad_collections_are_refused("an unknown class")


PROBLEM = linear_problem()


@pytest.mark.parametrize("method", ["predict", "decision_function", "predict_top"])
def test_predictions_are_lazy_and_those_in_memory(method, client):
    model = PROBLEM.fit_clone(ZeroShotClassifier())
    arguments = (3,) if method == "predict_top" else ()
    expected = getattr(model, method)(PROBLEM.X_new, *arguments)
    rows = da.from_array(PROBLEM.X_new, chunks=(7, 2))
    found = getattr(model, method)(rows, *arguments)
    assert isinstance(found, da.Array)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(found.compute(), expected, rtol=1e-10)
    else:
        np.testing.assert_array_equal(found.compute(), expected)
    lengths = getattr(model, method)(unknown(rows), *arguments)
    assert np.isnan(lengths.shape[0])
    np.testing.assert_array_equal(lengths.compute(), found.compute())


def test_frames_keep_the_names_of_features():
    names = [f"f{j}" for j in range(PROBLEM.X.shape[1])]
    model = ZeroShotClassifier(PROBLEM.prototypes)
    model.fit(pd.DataFrame(PROBLEM.X, columns=names), PROBLEM.y)
    frame = pd.DataFrame(PROBLEM.X_new, columns=names)
    rows = dd.from_pandas(frame, npartitions=3)
    assert DaskChunks.from_dask(rows).feature_names == tuple(names)
    np.testing.assert_array_equal(model.predict(rows).compute(), model.predict(frame))
    with pytest.raises(ValueError, match="Chunks must have the features that ZeroShotClassifier"):
        model.predict(rows[names[::-1]])


def test_mapped_chunks_are_transformed_where_they_are(client):
    chunks = as_chunks(ROWS).map(np.square).map(np.negative)
    np.testing.assert_allclose(chunks.apply(lambda X: X.sum(axis=1)), -(X**2).sum(axis=1))
    assert chunks.reduce(Summing(), "sum").total == pytest.approx((X**4).sum())


@pytest.mark.parametrize("n_chunks", [1, 9])
def test_states_leave_out_what_never_changes(n_chunks, monkeypatch):
    sizes = []
    state = engine._State

    def seen(parts):
        sizes.append(sizeof(state(parts)))
        return state(parts)

    monkeypatch.setattr(engine, "_State", seen)
    constant = np.zeros(100_000)
    chunks = as_chunks(in_chunks(n_chunks)).map(lambda X: X + constant[0])
    with dask.config.set(scheduler="sync"):
        found = chunks.reduce(Summing(constant), "sum")
    assert found.total == pytest.approx(np.sum(X**2))
    assert found.constant is constant
    assert len(sizes) >= n_chunks
    assert max(sizes) < 1_000


def test_merges_do_not_change_what_they_merge():
    """A task may run again with the same inputs."""
    P = {"a": [1.0], "b": [2.0]}
    y = np.array(["a", "b", "b"])
    shift = (np.array(["a", "b"]), np.ones((2, 5)))
    kinds = [
        _Gathering(Moments(P, n_reserve=2)),
        ClassSums(scatter=True, shift=shift),
        PowerSums(0.5),
        Survey(3, (0.5,)),
    ]
    for empty in kinds:
        work = engine._Work(empty, 5)
        states = [
            engine._reduce(X[i : i + 3], y, work=work, block_id=(i, 0))
            for i in range(engine.FAN_IN)
        ]
        before = [cloudpickle.dumps(state.parts) for state in states]
        first = cloudpickle.dumps(engine._merge(states, work).parts)
        assert [cloudpickle.dumps(state.parts) for state in states] == before
        assert cloudpickle.dumps(engine._merge(states, work).parts) == first


EMPTY = ((0, 7, 0, 0, 76, 0), (5,))


@pytest.mark.parametrize("model", [AnyShotClassifier, ZeroShotClassifier])
def test_models_leave_out_empty_chunks(model):
    model = model(PROTOTYPES, candidates="all", random_state=2)
    rows = da.from_array(X, chunks=EMPTY)
    with dask.config.set(scheduler="sync"):
        found, expected = clone(model).fit(rows, Y), clone(model).fit(X, Y)
        if hasattr(found, "partial_fit"):
            found.partial_fit(rows, Y)
            expected.partial_fit(X, Y)
        assert found.score(rows, Y) == expected.score(X, Y)
    A, B = found.decision_function(X), expected.decision_function(X)
    np.testing.assert_allclose(A, B, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(found.predict(rows).compute(), found.predict(X))


def test_no_sample_is_one_clear_error():
    rows, model = da.from_array(X[:0], chunks=(4, -1)), PROBLEM.fit_clone(ZeroShotClassifier())
    error = pytest.raises(ValueError, match="X must have at least one sample; got no chunk")
    none = da.from_array(PROBLEM.X_new[:0], chunks=(4, -1)), np.asarray(PROBLEM.y_new)[:0]
    for action, given in (
        (AnyShotClassifier(PROTOTYPES).fit, (rows, Y[:0])),
        (ZeroShotClassifier(PROTOTYPES).fit, (rows, Y[:0])),
        (model.score, none),
        (partial(evaluate, model), none),
    ):
        with error:
            action(*given)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int32"])
def test_lazy_results_have_the_type_they_tell(dtype):
    model = PROBLEM.fit_clone(ZeroShotClassifier())
    rows = da.from_array((4 * PROBLEM.X_new).astype(dtype), chunks=(7, -1))
    for found in (model.decision_function(rows), as_chunks(rows).apply(np.square)):
        assert found.dtype == found.compute().dtype
    assert as_chunks(rows.astype("float32")).apply(np.square).dtype == np.float32


def test_errors_name_their_chunk_once():
    chunks = as_chunks(ROWS, Y).map(lambda rows: np.where(rows == X[70, 1], np.nan, rows))
    with pytest.raises(ValueError, match=r"^Chunk 7: X must be finite"):
        chunks.reduce(ClassSums(), "sums")


def test_labels_that_are_missing():
    for action in (
        ZeroShotClassifier(PROTOTYPES).fit,
        PROBLEM.fit_clone(ZeroShotClassifier()).score,
    ):
        rows = da.from_array(PROBLEM.X if "score" in action.__name__ else X, chunks=(9, -1))
        with pytest.raises(ValueError, match=r"must (have labels|hold the true label).* Pass "):
            action(rows)


@pytest.mark.parametrize("dtype", ["Float64", "Float32", "double[pyarrow]"])
def test_nullable_columns(dtype):
    frame = dd.from_pandas(FRAME[list("abcde")].astype({"b": dtype, "d": dtype}), npartitions=3)
    expected = FRAME[list("abcde")].astype({"b": dtype, "d": dtype}).to_numpy(float)
    labels = dd.from_pandas(FRAME, npartitions=3).y
    check_against_memory(moments(frame, labels), expected)
    assert DaskChunks.from_dask(frame).feature_names == tuple("abcde")
    missing = FRAME[list("abcde")].astype(dtype)
    missing.iloc[40, 1] = pd.NA
    with pytest.raises(ValueError, match="Chunk 1: X must be finite"):
        moments(dd.from_pandas(missing, npartitions=3), labels)


def _nested(_):
    rows = da.from_array(X, chunks=(9, -1))
    return moments(rows, Y).n_samples


def test_a_reduction_inside_a_task(start):
    """Its tasks need the only thread, on which it waits."""
    with start(n_workers=1) as cluster, distributed.Client(cluster) as client:
        futures = [client.submit(_nested, i, pure=False) for i in range(2)]
        assert client.gather(futures) == [len(X)] * 2
        with joblib.parallel_config(backend="dask"):
            found = joblib.Parallel(n_jobs=2)(joblib.delayed(_nested)(i) for i in range(2))
        assert found == [len(X)] * 2


BITS = """
import dask, dask.array as da, numpy as np
from threadpoolctl import threadpool_info
from zonkey import Moments

def blas():
    return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]

if __name__ == "__main__":
    import distributed

    X = np.random.default_rng(0).normal(size=(1500, 601))
    y, before = np.arange(1500) % 3, blas()
    assert max(before) == 2, before

    def bits():
        rows = da.from_array(X, chunks=(250, -1))
        return Moments({j: [float(j)] for j in range(4)}, n_reserve=2).update(rows, y).A0.tobytes()

    found = []
    for scheduler in ("sync", "threads"):
        with dask.config.set(scheduler=scheduler):
            found.append(bits())
        assert blas() == before
    options = {"processes": False, "n_workers": 1, "dashboard_address": ":0"}
    for n_threads in (1, 2):
        with distributed.Client(threads_per_worker=n_threads, **options):
            found.append(bits())
            found.append(bits())
        assert blas() == before
    print(len(set(found)), end="")
"""


def test_bits_do_not_depend_on_the_threads_of_a_process(tmp_path):
    """Products of other numbers of threads have other last bits, and the user's number stays."""
    script = tmp_path / "bits.py"
    script.write_text(BITS)
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "2")
    run = subprocess.run(
        [sys.executable, script], env=os.environ | threads, capture_output=True, text=True
    )
    assert (run.returncode, run.stdout) == (0, "1"), run.stderr
