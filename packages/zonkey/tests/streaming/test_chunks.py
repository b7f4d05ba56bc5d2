"""Chunks against sums in loops: every source, bounded memory, errors that name the chunk."""

import pickle
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from functools import partial

import h5py
import numpy as np
import pandas as pd
import pytest
import zarr
from all_pairs import all_pairs
from scipy.sparse import csr_array

from zonkey import Chunks, Moments
from zonkey.streaming.accept import as_chunks
from zonkey.streaming.sources import check_chunk, get_labels, read_ahead

N, D = 103, 4
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D)).astype(np.float32)
Y = np.array(["ass", "horse", "mule"])[RNG.integers(0, 3, N)]
PROTOTYPES = {"ass": [1.0, 0.0], "horse": [0.5, 2.0], "mule": [0.0, 1.0], "zebra": [3.0, 1.0]}


class Sums:
    """A reduction in loops: sums and counts by label, and the numbers of chunks."""

    def __init__(self):
        self.sums, self.numbers, self.lengths = {}, [], []

    def update(self, chunk):
        for x, label in zip(chunk.X.tolist(), get_labels(chunk).tolist(), strict=True):
            total = self.sums.setdefault(str(label), [0.0] * len(x))
            self.sums[str(label)] = [a + b for a, b in zip(total, x, strict=True)]
        self.numbers.append(chunk.number)
        self.lengths.append(len(chunk.X))

    def parts(self):
        return {"sums": self.sums, "numbers": self.numbers, "lengths": self.lengths}

    def restore(self, parts):
        self.__init__()
        self.sums, self.numbers, self.lengths = parts["sums"], parts["numbers"], parts["lengths"]


def naive_sums(X=X, y=Y):
    sums = {}
    for x, label in zip(X.tolist(), y.tolist(), strict=True):
        sums[label] = [a + b for a, b in zip(sums.get(label, [0.0] * D), x, strict=True)]
    return sums


def pairs(rows, X=X, y=Y):
    return [(X[i : i + rows], y[i : i + rows]) for i in range(0, len(X), rows)]


def wait_for_readers():
    """Fail if a thread that reads ahead does not end."""
    end = time.monotonic() + 20
    while any(thread.name == "zonkey-read-ahead" for thread in threading.enumerate()):
        assert time.monotonic() < end
        time.sleep(0.01)


def memory_map(folder):
    np.save(folder / "x.npy", X)
    return np.load(folder / "x.npy", mmap_mode="r"), Y


def h5_arrays(folder, kind="S"):
    file = h5py.File(folder / "x.h5", "w")
    file["X"], file["y"] = X, Y.astype(kind)
    return file["X"], file["y"]


def zarr_arrays(folder):
    group = zarr.open_group(folder / "x.zarr", mode="w")
    text = Y.astype(np.dtypes.StringDType())
    return group.create_array("X", data=X, chunks=(10, D)), group.create_array("y", data=text)


ARRAYS = {
    "memory map": memory_map,
    "h5, bytes": h5_arrays,
    "h5, text": partial(h5_arrays, kind=object),
    "zarr": zarr_arrays,
    "array": lambda _: (X, Y),
}


@all_pairs({"source": ARRAYS, "rows": [1, 7, 50, 1000]})
def test_arrays_in_chunks(tmp_path, source, rows):
    chunks = Chunks(*ARRAYS[source](tmp_path), rows=rows)
    found = chunks.reduce(Sums(), "sums")
    assert found.sums == naive_sums()
    assert found.numbers == list(range(-(-N // rows)))
    assert sum(found.lengths) == chunks.n_rows == N
    np.testing.assert_array_equal(chunks.apply(lambda X: X[:, 0] * 2), X[:, 0] * 2)
    check_moments(chunks, 1e-12)


def test_pairs():
    for given in (pairs(10), lambda: iter(pairs(10)), iter(pairs(10))):
        chunks = Chunks(given)
        assert chunks.n_rows is None
        assert chunks.reduce(Sums(), "sums").sums == naive_sums()
        if isinstance(given, Iterator):
            with pytest.raises(ValueError, match="must read the chunks more than once; got an ite"):
                chunks.reduce(Sums(), "more")
        else:
            assert chunks.reduce(Sums(), "more").sums == naive_sums()


def test_what_comes_in_chunks_by_itself(tmp_path):
    for source in ("memory map", "h5, bytes", "zarr"):
        assert isinstance(as_chunks(*ARRAYS[source](tmp_path)), Chunks)
    assert as_chunks(X, Y) is None
    given = Chunks(X, Y)
    assert as_chunks(given) is given
    with pytest.raises(ValueError, match="y must be None if X is Chunks"):
        as_chunks(given, Y)


def check_moments(chunks, tolerance):
    """Compare moments of chunks with those in memory."""
    found, expected = (
        Moments(PROTOTYPES, n_reserve=5, seed=3).update(*given) for given in ((chunks,), (X, Y))
    )
    np.testing.assert_allclose(found.A0, expected.A0, rtol=tolerance)
    np.testing.assert_allclose(found.class_sums, expected.class_sums, tolerance, tolerance)
    assert found.counts.tolist() == expected.counts.tolist()
    for label in found.seen_labels:
        np.testing.assert_array_equal(found.samples_of(label), expected.samples_of(label))


@pytest.mark.parametrize("dtype", ["f2", "i1", "u1", "i2", ">f4", "f8", "i8", ">f8"])
def test_types(tmp_path, dtype):
    values = (X * 20 + 100).astype(dtype)
    np.save(tmp_path / "x.npy", values)
    chunks = list(Chunks(np.load(tmp_path / "x.npy", mmap_mode="r"), rows=40))
    wide = dtype in ("f8", "i8", ">f8")
    assert {chunk.X.dtype for chunk in chunks} == {np.dtype(np.float64 if wide else np.float32)}
    np.testing.assert_array_equal(np.concatenate([c.X for c in chunks]), values.astype(float))


def test_chunks_of_different_types_add_up():
    parts = pairs(30)
    parts[1] = (parts[1][0].astype(np.float64), parts[1][1])
    parts[2] = (parts[2][0].astype(np.float64).tolist(), parts[2][1].tolist())
    check_moments(Chunks(parts), 1e-12)


def test_parts_of_a_stored_array_are_read_whole(tmp_path):
    group = zarr.open_group(tmp_path / "x.zarr", mode="w")
    array = group.create_array("X", shape=(100_000, 2), chunks=(30_000, 2), dtype="f4")
    assert [len(chunk.X) for chunk in Chunks(array)] == [60_000, 40_000]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("how", ["whole", "slice", "private"])
def test_memory_maps_that_know_their_file_and_others(tmp_path, order, how):
    np.save(tmp_path / "x.npy", np.asarray(X, order=order))
    M = np.load(tmp_path / "x.npy", mmap_mode="c" if how == "private" else "r")
    expected = X.copy()
    if how == "slice":
        M, expected = M[5:], expected[5:]
    if how == "private":
        M[3] = expected[3] = 7.0  # in memory only
    found = np.concatenate([chunk.X for chunk in Chunks(M, rows=9)])
    np.testing.assert_array_equal(found, expected)


def test_a_file_that_is_cut_short_while_it_is_read(tmp_path):
    M, _ = memory_map(tmp_path)
    content = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "x.npy").write_bytes(content[:-20])
    with pytest.raises(ValueError, match=r"x\.npy must be whole; it ends before row 103"):
        list(Chunks(M, rows=40))


def test_empty_chunks_are_left_out():
    parts = pairs(40)
    parts.insert(1, (np.empty((0, D)), np.array([], str)))
    found = Chunks(parts).reduce(Sums(), "sums")
    assert (found.sums, found.numbers) == (naive_sums(), [0, 2, 3])
    for source in ([], [(np.empty((0, D)), np.array([], str))], np.empty((0, 3))):
        for use in (lambda chunks: chunks.reduce(Sums(), "sums"), lambda chunks: chunks.apply(len)):
            with pytest.raises(ValueError, match="at least one sample; got no chunk"):
                use(Chunks(source))


def test_transformed_chunks():
    chunks = Chunks(X, Y, rows=20)
    twice, expected = chunks.map(lambda X: X * 2).map(lambda X: X + 1), X * 2 + 1
    assert twice.reduce(Sums(), "sums").sums == naive_sums(expected)
    np.testing.assert_array_equal(twice.apply(lambda X: X.sum(axis=1)), expected.sum(axis=1))
    assert chunks.reduce(Sums(), "sums").sums == naive_sums()
    for read in (twice, twice.read_labeled()):
        found = list(read)
        np.testing.assert_array_equal(np.concatenate([chunk.X for chunk in found]), expected)
        np.testing.assert_array_equal(np.concatenate([chunk.y for chunk in found]), Y)
    with pytest.raises(ValueError, match="must have labels"):
        list(Chunks(X).read_labeled())
    with pytest.raises(ValueError, match=r"\AChunk 0: X must be finite numbers; got NaN"):
        chunks.map(lambda X: X * np.nan).reduce(Sums(), "sums")


def test_progress():
    seen = []
    options = {"rows": 60, "progress": lambda *args: seen.append(args)}
    Chunks(X, Y, **options).reduce(Sums(), "a pass")
    Chunks(pairs(60), progress=options["progress"]).reduce(Sums(), "p")
    Chunks(X, **options).apply(lambda X: X[:, 0])
    assert seen == [
        *(("a pass", 60, N), ("a pass", N, N), ("p", 60, None), ("p", N, None)),
        *(("apply", 60, N), ("apply", N, N)),
    ]


def test_a_generator_that_reuses_its_memory():
    def source():
        own, labels = np.empty((1, D), np.float32), np.array(["", "horse"])[:1]
        for x, label in zip(X, Y, strict=True):
            own[:], labels[:] = x, label
            yield own, labels

    for given in (source, source()):
        assert Chunks(given).reduce(Sums(), "sums").sums == naive_sums()


def frames(*columns):
    return [
        (pd.DataFrame(X[i : i + 40], columns=list(names)), pd.Series(Y[i : i + 40]))
        for i, names in zip(range(0, N, 40), columns, strict=True)
    ]


def test_names_of_data_frames():
    parts, names = frames("abcd", "abcd", "abcd"), ("a", "b", "c", "d")
    for given in (parts, lambda: iter(parts), iter(parts)):
        chunks = Chunks(given)
        assert chunks.feature_names == names
        assert chunks.reduce(Sums(), "sums").sums == naive_sums()
        assert chunks.feature_names == names
        assert chunks.map(np.sign).feature_names is None
    once = Chunks(iter(parts))
    once.reduce(Sums(), "sums")
    assert once.feature_names == names  # found on the way
    with pytest.raises(ValueError, match=r"same order; chunk 1 has 'b', 'a', .*before have 'a',"):
        Chunks(frames("abcd", "bacd", "abcd")).reduce(Sums(), "sums")
    assert Chunks(pairs(40)).feature_names is None
    whole = Chunks(pd.DataFrame(X, columns=list("abcd"), index=np.arange(N)[::-1]), Y, rows=40)
    assert whole.feature_names == names
    assert whole.reduce(Sums(), "sums").sums == naive_sums()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps files that are mapped")
def test_a_map_whose_file_is_removed_or_replaced(tmp_path):
    M, _ = memory_map(tmp_path)
    (tmp_path / "x.npy").unlink()
    for _ in range(2):
        found = np.concatenate([chunk.X for chunk in Chunks(M, rows=40)])
        np.testing.assert_array_equal(found, X)
        np.save(tmp_path / "x.npy", X * 2)


def test_chunks_of_arrays_can_be_pickled(tmp_path):
    for array in (memory_map(tmp_path)[0], memory_map(tmp_path)[0][:], X):
        chunks = pickle.loads(pickle.dumps(Chunks(array, Y, rows=40)))
        assert chunks.reduce(Sums(), "sums").sums == naive_sums()


def most_memory(run):
    tracemalloc.start()
    run()
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found


def test_results_are_held_once_and_may_be_of_different_types():
    wide = np.ones((4000, 50))
    most = most_memory(lambda: Chunks(wide, rows=100).apply(lambda X: X + 1))
    assert most < 1.3 * wide.nbytes
    found = Chunks(X, rows=50).apply(lambda X: ["ass"] * 50 if len(X) == 50 else ["zebra"] * 3)
    assert found.tolist() == ["ass"] * 100 + ["zebra"] * 3


BAD = np.where(np.arange(N)[:, None] == 50, np.nan, X)
FAULTS = {
    "NaN": ([*pairs(20)[:2], (BAD[40:60], Y[40:60])], r"\AChunk 2: X must be finite numbers"),
    "width": ([*pairs(20)[:1], (X[:5, :3], Y[:5])], "chunk 1 has 3, those before have 4"),
    "labels": ([*pairs(20)[:1], (X[:5], Y[:4])], "chunk 1 has 5 samples and 4 labels"),
    "missing": ([(X[:2], ["ass", None])], "Chunk 0: y must be all strings"),
    "unknown": ([*pairs(20)[:1], (X[:2], ["ass", "cow"])], "Chunk 1: No prototype for .*'cow'"),
    "scale": ([*pairs(20)[:1], (X[:2] * 1e30, Y[:2])], "Chunk 1: X must have values of a usual"),
    "no labels": ([(X[:2], None)], "must have labels"),
    "no pairs": ([X[:2, 0]], r"Chunks must be pairs \(X, y\); got"),
    "text": ([(np.array([["a"]]), ["ass"])], "Chunk 0: X must be finite numbers; got dtype"),
}  # fmt: skip


@pytest.mark.parametrize("kind", FAULTS)
def test_faults_name_the_chunk(kind):
    source, words = FAULTS[kind]
    moments = Moments(PROTOTYPES)
    with pytest.raises((TypeError, ValueError), match=words):
        moments.update(Chunks(source))
    assert moments.n_samples == 0
    wait_for_readers()


@pytest.mark.parametrize(
    ("args", "options", "words"),
    [
        ((X, Y), {"rows": 0}, "`rows` must be an integer of at least 1; got 0"),
        ((X, Y), {"rows": True}, "`rows` must be an integer"),
        ((X, Y), {"every": 1.5}, "`every` must be an integer"),
        ((pairs(9), Y), {}, "`y` and `rows` must be None if X is made of pairs"),
        ((pairs(9),), {"rows": 3}, "`y` and `rows` must be None"),
        ((X, Y), {"every": None}, "`every` must be an integer"),
        (("x.npy", Y), {}, r"got the path 'x\.npy'. Use zonkey\.datasets\.open_chunks"),
        ((csr_array(X), Y), {}, "got csr_array, which is sparse"),
        ((7,), {}, "X must be an array with rows, pairs"),
        ((X, Y[:-1]), {}, "y must have one label for each of the 103 samples; got 102"),
        ((X, Y), {"checkpoint": __file__}, "`checkpoint` must be a folder; .* is a file"),
    ],
)
def test_parameters(args, options, words):
    with pytest.raises((TypeError, ValueError), match=words):
        Chunks(*args, **options)


def test_an_error_of_the_source_is_the_users():
    class OwnError(Exception):
        pass

    def source():
        yield pairs(50)[0]
        raise OwnError("the disk is gone")

    with pytest.raises(OwnError, match="the disk is gone"):
        Chunks(source).reduce(Sums(), "sums")


def test_at_most_a_few_chunks_are_in_memory():
    size = 100_000

    def source():
        for i in range(1, 13):
            yield np.full((5, size // 40), float(i)), Y[:5]

    class Slow(Sums):
        def update(self, _):
            time.sleep(0.005)  # the reader is ahead

    # One is used, one is ready, one is read and copied.
    assert 2 <= most_memory(lambda: Chunks(source).reduce(Slow(), "sums")) / size < 5
    assert most_memory(lambda: Chunks(source).apply(lambda X: X[:1, 0].copy())) / size < 5


def test_the_next_item_is_read_while_one_is_used():
    started = [threading.Event() for _ in range(4)]

    def source():
        for i, event in enumerate(started):
            event.set()
            yield i

    for i in read_ahead(source()):
        if i < 3:
            assert started[i + 1].wait(5)
        time.sleep(0.01)
        assert i > 1 or not started[i + 2].is_set()


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_a_consumer_that_stops_ends_the_reader_and_closes_the_source(error):
    closed = threading.Event()

    def source():
        try:
            while True:
                yield pairs(50)[0]
        finally:
            closed.set()

    class Stopping(Sums):
        def update(self, chunk):
            if chunk.number == 2:
                raise error

    with pytest.raises(error):
        Chunks(source).reduce(Stopping(), "sums")
    assert closed.wait(5)
    wait_for_readers()


def test_a_source_that_never_answers_does_not_hide_an_error():
    release = threading.Event()

    def source():
        yield pairs(50)[0]
        release.wait(30)

    class Failing(Sums):
        def update(self, _):
            raise RuntimeError("in the consumer")

    start = time.monotonic()
    with pytest.raises(RuntimeError, match="in the consumer"):
        Chunks(source).reduce(Failing(), "sums")
    assert time.monotonic() - start < 10
    release.set()


def test_chunks_are_aligned_in_memory():
    chunk = check_chunk([[1, 2]], [7], 3)
    assert (chunk.X.dtype, chunk.y.tolist(), chunk.number) == (np.float64, [7], 3)
    rows = np.random.default_rng(0).normal(size=(9, 5))
    received = np.frombuffer(b"." + rows.tobytes(), np.float64, offset=1).reshape(9, 5)
    assert not received.flags.aligned
    chunk = check_chunk(received, None, 0)
    assert chunk.X.flags.aligned
    np.testing.assert_array_equal(chunk.X.T @ chunk.X, rows.T @ rows)


def test_python_ends_after_the_thread_that_reads_ahead(tmp_path):
    script = (
        "import sys, time, pathlib\n"
        "from zonkey.streaming.sources import read_ahead\n"
        "def items():\n"
        "    yield 1\n"
        "    time.sleep(0.3)\n"
        "    pathlib.Path(sys.argv[1]).touch()\n"
        "    yield 2\n"
        "next(read_ahead(items()))\n"
    )
    target = tmp_path / "read"
    subprocess.run([sys.executable, "-c", script, str(target)], check=True)
    assert target.exists()
