"""Dask collections as chunks: the same figures as in memory, the same bits on any scheduler."""

import sys

import cloudpickle
import numpy as np
import pytest
from dask.delayed import Delayed
from dask.sizeof import sizeof

from zonkey import Moments, ZeroShotClassifier
from zonkey.core.chunks import Chunks, as_chunks
from zonkey.core.distributed import DaskChunks, _State
from zonkey.testing import linear_problem

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")
distributed = pytest.importorskip("distributed")

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
    "a data frame of known lengths": lambda: (
        dd.from_pandas(FRAME, 4)[list("abcde")].to_dask_array(lengths=True),
        Y,
    ),
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
    assert content(found.copy())[2] == content(moments(Chunks(narrow, Y, rows=9)))[2]
    np.testing.assert_allclose(found.A0, moments(narrow.astype(np.float64), Y).A0, rtol=1e-6)


@pytest.mark.parametrize("n_chunks", [1, 2, 4, 5, 17, 21])
def test_the_tree_takes_up_each_chunk_once(n_chunks):
    rows = da.from_array(X, chunks=(-(-len(X) // n_chunks), -1))
    check_against_memory(moments(rows, Y))


@pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
def test_bits_do_not_depend_on_the_scheduler(scheduler, client):
    expected = content(moments(ROWS, Y))
    with dask.config.set(scheduler=scheduler):
        assert content(moments(ROWS, Y)) == expected


def test_bits_do_not_depend_on_the_number_of_workers(client, cluster):
    expected = content(moments(ROWS, Y))
    options = {"n_workers": 1, "processes": False, "threads_per_worker": 3}
    with (
        distributed.LocalCluster(dashboard_address=":0", **options) as other,
        distributed.Client(other),
    ):
        assert content(moments(ROWS, Y)) == expected
    persisted = client.persist(ROWS)
    assert content(moments(persisted, Y)) == expected


def test_a_client_is_used_though_chunks_are_many_and_small(client):
    n = 80
    rows = da.ones((2 * n, 3), chunks=(2, 3))
    assert moments(rows, ["cow"] * 2 * n).n_samples == 2 * n


class Counting:
    """A reduction that tells how often it was pickled."""

    n_pickled = 0

    def __init__(self):
        self.total = 0

    def update(self, chunk):
        self.total += len(chunk.X)

    def merge(self, other):
        self.total += other.total

    def parts(self):
        return vars(self)

    def restore(self, parts):
        self.total = parts["total"]

    def __reduce__(self):
        Counting.n_pickled += 1
        return (_counted, (self.total,))


def _counted(total):
    counting = Counting()
    counting.total = total
    return counting


def test_the_reduction_is_in_the_graph_once(monkeypatch):
    """So are models: a task has the name of the reduction, not a copy."""
    graphs = []
    compute = Delayed.compute

    def seen(self, **options):
        graphs.append(self.__dask_graph__())
        return compute(self, **options)

    monkeypatch.setattr(Delayed, "compute", seen)
    n = 10
    chunks = as_chunks(da.ones((2 * n, 3), chunks=(2, 3)) + 1, da.ones(2 * n, chunks=2))
    empty = Counting()
    with dask.config.set(scheduler="sync"):
        assert chunks.reduced(empty, "count").total == 2 * n
    assert empty.total == 0
    Counting.n_pickled = 0
    (graph,) = graphs
    cloudpickle.dumps(dict(graph))
    assert Counting.n_pickled == 1
    # Tasks that read and reduce a chunk, merges of four, the reduction, and the result.
    assert len(graph) == n + (3 + 1) + 1 + 1


def test_large_labels_and_prototypes_raise_no_warning_about_the_graph(client):
    """They must be in it, so that any worker can be lost."""
    wide = {j: RNG.normal(size=8_000).tolist() for j in range(200)}
    found = Moments(wide).update(ROWS, np.arange(len(X)) % 7)
    assert found.n_samples == len(X)


def test_dask_knows_the_size_of_states():
    """It counts what a worker holds and moves by it."""
    gathered = moments(np.ones((4, 200)), Y[:4])
    assert gathered.A0.nbytes < sizeof(_State(gathered)) < 2 * gathered.A0.nbytes


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
    source, message = FAULTS["an unknown class"]
    with pytest.raises(ValueError, match=message):
        moments(*source())


PROBLEM = linear_problem()
MODELS = [ZeroShotClassifier()]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("method", ["predict", "decision_function", "predict_top"])
def test_predictions_are_lazy_and_those_in_memory(model, method, client):
    model = PROBLEM.fitted(model)
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
    assert DaskChunks.of(rows).feature_names == tuple(names)
    np.testing.assert_array_equal(model.predict(rows).compute(), model.predict(frame))
    with pytest.raises(ValueError, match="Chunks must have the features that ZeroShotClassifier"):
        model.predict(rows[names[::-1]])


def test_results_of_empty_chunks_are_empty():
    model = PROBLEM.fitted(ZeroShotClassifier())
    rows = da.from_array(PROBLEM.X_new, chunks=((0, len(PROBLEM.X_new), 0), -1))
    np.testing.assert_array_equal(model.predict(rows).compute(), model.predict(PROBLEM.X_new))


def test_mapped_chunks_are_transformed_where_they_are(client):
    chunks = as_chunks(ROWS).map(np.square).map(np.negative)
    np.testing.assert_allclose(chunks.applied(lambda X: X.sum(axis=1)), -(X**2).sum(axis=1))
    assert chunks.reduced(Counting(), "count").total == len(X)
