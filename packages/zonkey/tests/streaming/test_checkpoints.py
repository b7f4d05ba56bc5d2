"""Checkpoints: a pass that was interrupted or killed gives the same bits, or one clear error."""

import errno
import os
import random
import shutil
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from all_pairs import all_pairs

from zonkey import Chunks, Moments
from zonkey.persistence.container import StorageError
from zonkey.streaming import checkpoint as module
from zonkey.streaming.checkpoint import PassCheckpoint, State
from zonkey.streaming.reduce import ClassSums

N, D = 230, 5
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, D)).astype(np.float32)
Y = np.array(["ass", "horse", "mule"])[RNG.integers(0, 3, N)]
PROTOTYPES = {"ass": [1.0, 0.0], "horse": [0.5, 2.0], "mule": [0.0, 1.0]}
OPTIONS = {"n_reserve": 3, "seed": 5}


class Stop(Exception):
    pass


def stopping_after(n):
    """Return a function of progress that stops after so many chunks, and the rows it saw."""
    seen = []

    def progress(_, n_rows, __):
        seen.append(n_rows)
        if len(seen) == n:
            raise Stop

    return progress, seen


def pairs(rows, X=X, y=Y):
    return [(X[i : i + rows], y[i : i + rows]) for i in range(0, len(X), rows)]


def moments_of(chunks, **options):
    return Moments(PROTOTYPES, **{**OPTIONS, **options}).update(chunks)


def assert_same_bits(found, expected):
    assert found.A0.tobytes() == expected.A0.tobytes()
    assert found.class_sums.tobytes() == expected.class_sums.tobytes()
    assert found.counts.tolist() == expected.counts.tolist()
    for label in expected.seen_labels:
        assert found.samples_of(label).tobytes() == expected.samples_of(label).tobytes()
        assert found.samples_of(label).dtype == expected.samples_of(label).dtype


SOURCES = {
    "array": lambda **options: Chunks(X, Y, rows=20, **options),
    "list": lambda **options: Chunks(pairs(20), **options),
    "function": lambda **options: Chunks(lambda: iter(pairs(20)), **options),
    "iterator": lambda **options: Chunks(iter(pairs(20)), **options),
    "mixed": lambda **options: Chunks(
        [(X.astype(float), y) if i % 3 == 1 else (X, y) for i, (X, y) in enumerate(pairs(20))],
        **options,
    ),
    "with empty": lambda **options: Chunks(
        [*pairs(20)[:2], (X[:0], Y[:0]), (X[:0], Y[:0]), *pairs(20)[2:]], **options
    ),
}


@all_pairs({"source": SOURCES, "every": [1, 2, 5], "stop": [1, 4, 7, 12]})
def test_an_interrupted_pass_goes_on_with_the_same_bits(tmp_path, source, every, stop):
    folder = tmp_path / "kept"
    expected = moments_of(SOURCES[source]())
    progress, _ = stopping_after(stop)
    with pytest.raises(Stop):
        moments_of(SOURCES[source](checkpoint=folder, every=every, progress=progress))
    progress, after = stopping_after(None)
    found = moments_of(SOURCES[source](checkpoint=folder, every=every, progress=progress))
    assert_same_bits(found, expected)
    assert not folder.exists()
    if source != "with empty":
        assert after == [min(20 * i, N) for i in range(stop // every * every + 1, 13)]


def test_a_pass_that_was_done_is_not_done_again(tmp_path):
    calls = []

    class Count:
        total = 0

        def update(self, chunk):
            calls.append(chunk.number)
            self.total += len(chunk.X)

        def parts(self):
            return {"total": self.total}

        def restore(self, parts):
            self.total = parts["total"]

    chunks, again = (Chunks(X, Y, rows=100, checkpoint=tmp_path / "kept") for _ in range(2))
    assert chunks.reduce(Count(), "first", "key").total == N
    assert chunks.reduce(Count(), "second", "key").total == N
    assert calls == [0, 1, 2, 0, 1, 2]
    assert again.reduce(Count(), "first", "key").total == N
    assert len(calls) == 6
    assert again.map(np.sign).reduce(Count(), "first", "key").total == N  # a state of its own
    for other, key in ((again, "another key"), (again.map(np.square), "key")):
        with pytest.raises(StorageError, match=FOREIGN):
            other.reduce(Count(), "first", key)
    again.close()
    assert PassCheckpoint(tmp_path / "kept").names() == ["second"]  # which `again` did not run
    chunks.map(np.sign).close()  # copies know it, too
    assert not (tmp_path / "kept").exists()


def test_what_is_read(tmp_path):
    reads = []

    class Array:
        shape = X.shape

        def __getitem__(self, rows):
            reads.append(rows.start)
            return X[rows]

    moments_of(Chunks(Array(), Y, rows=50, checkpoint=tmp_path / "kept"))
    assert reads == [0, 50, 100, 150, 200]
    interrupted(tmp_path / "kept", Array(), rows=50, every=1)
    reads.clear()
    moments_of(Chunks(Array(), Y, rows=50, checkpoint=tmp_path / "kept"))
    assert reads == [100, 150, 200]  # the last one to compare, and what is left


FOREIGN = r"must belong to this computation; it was written for other data, chunks or parameters"


def interrupted(folder, X=X, y=Y, rows=20, every=2):
    progress, _ = stopping_after(3)
    with pytest.raises(Stop):
        moments_of(Chunks(X, y, rows=rows, checkpoint=folder, every=every, progress=progress))


OTHERS = {
    "rows": ((X, Y), {"rows": 21}),
    "fewer rows": ((X[:-1], Y[:-1]), {}),  # its first chunk is the same
    "samples": ((X * 2, Y), {}),
    "dtype": ((X.astype(float), Y), {}),
    "labels": ((X, Y[::-1]), {}),
    "pairs": ((pairs(20),), {"rows": None}),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_a_checkpoint_of_another_computation_is_refused(tmp_path, kind):
    interrupted(tmp_path / "kept")
    args, options = OTHERS[kind]
    with pytest.raises(StorageError, match=FOREIGN):
        moments_of(Chunks(*args, checkpoint=tmp_path / "kept", **{"rows": 20, **options}))
    with pytest.raises(StorageError, match=FOREIGN):
        moments_of(Chunks(X, Y, rows=20, checkpoint=tmp_path / "kept"), seed=6)


@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "other"])
def test_a_damaged_checkpoint(tmp_path, damage):
    interrupted(tmp_path / "kept")
    path = tmp_path / "kept" / "passes" / "moments.pass"
    content = path.read_bytes()
    Moments(PROTOTYPES).update(X, Y).save(tmp_path / "moments")
    other = (tmp_path / "moments").read_bytes()
    flipped = content[:-9] + bytes([content[-9] ^ 1]) + content[-8:]
    path.write_bytes(
        {"cut": content[:-5], "changed": flipped, "empty": b"", "other": other}[damage]
    )
    words = r"\A[^\n]+ it is damaged, or of another version\. Remove the folder to begin again\.\Z"
    with pytest.raises(StorageError, match=words):
        moments_of(Chunks(X, Y, rows=20, checkpoint=tmp_path / "kept"))


def test_folders_in_use_or_that_cannot_be_written(tmp_path):
    folder = tmp_path / "kept"
    with PassCheckpoint(folder).lock(), pytest.raises(StorageError, match="in use by another one"):
        moments_of(Chunks(X, Y, checkpoint=folder))
    interrupted(folder)  # an error frees it
    moments_of(Chunks(X, Y, rows=20, checkpoint=folder))
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match=r"must be a folder to write to; .*\(Not a directory\)"):
        moments_of(Chunks(X, Y, checkpoint=tmp_path / "file" / "kept"))


def test_a_full_disk_costs_the_checkpoint_only(tmp_path, monkeypatch):
    interrupted(tmp_path / "kept")
    before = (tmp_path / "kept" / "passes" / "moments.pass").read_bytes()
    seen = []

    def full(*_):
        seen.append((tmp_path / "kept" / "passes" / "moments.pass").read_bytes() == before)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, "write_arrays", full)
    with pytest.warns(UserWarning, match=r"could not be \(No space left .*Make room on"):
        found = moments_of(Chunks(X, Y, rows=20, checkpoint=tmp_path / "kept", every=2))
    assert len(seen) == 6
    assert all(seen)
    assert_same_bits(found, moments_of(Chunks(X, Y, rows=20)))


def test_only_own_files_are_removed(tmp_path):
    kept, own = PassCheckpoint(tmp_path), tmp_path / "passes"
    own.mkdir()
    for path in (tmp_path / "notes.txt", own / "notes.csv", own / "x.part"):
        path.write_text("x")
    with kept.lock():
        kept.write("a", "b", State({"x": np.eye(2)}, 1, 2, "", whole=False))
    left = own / "a.pass.0123456789ab.part"  # by a process that was killed
    left.write_text("half")
    with kept.lock():
        assert not left.exists()
        assert kept.read("a", "b").n_rows == 2
    kept.remove(["a"])
    kept.remove(["a"])
    assert sorted(path.name for path in own.iterdir()) == ["notes.csv", "x.part"]
    assert (tmp_path / "notes.txt").exists()


def test_other_computations_keep_their_states(tmp_path):
    folder = tmp_path / "kept"
    interrupted(folder)
    other = Chunks(X, Y, rows=50, checkpoint=folder)
    other.reduce(ClassSums(), "sums")
    assert PassCheckpoint(folder).names() == ["moments", "sums"]
    other.close()
    assert PassCheckpoint(folder).names() == ["moments"]
    progress, after = stopping_after(None)
    moments_of(Chunks(X, Y, rows=20, checkpoint=folder, progress=progress))
    assert after[0] == 60  # went on
    assert not folder.exists()


def test_states_stay_while_another_computation_uses_the_folder(tmp_path):
    chunks = Chunks(X, Y, rows=50, checkpoint=tmp_path / "kept")
    chunks.reduce(ClassSums(), "score", purpose="score")
    assert not (tmp_path / "kept").exists()  # a score needs no checkpoint
    chunks.reduce(ClassSums(), "sums")
    with PassCheckpoint(tmp_path / "kept").lock():
        chunks.map(np.sign).close()
        assert PassCheckpoint(tmp_path / "kept").names() == ["sums"]


def test_a_folder_that_vanishes(tmp_path):
    def progress(_, n_rows, __):
        if n_rows == 60:
            shutil.rmtree(tmp_path / "kept")
        if n_rows == 100:
            raise Stop

    with pytest.raises(Stop):
        moments_of(Chunks(X, Y, rows=20, checkpoint=tmp_path / "kept", every=1, progress=progress))
    assert PassCheckpoint(tmp_path / "kept").names() == ["moments"]


def changed_in(chunk):
    """Return pairs whose other chunks are the same."""
    parts = pairs(20)
    parts[chunk] = (parts[chunk][0] + 1, parts[chunk][1])
    return parts


CHANGES = {
    "last chunk": lambda: changed_in(1),
    "cut": lambda: [(X[:20], Y[:20]), (X[20:35], Y[20:35]), (X[35:], Y[35:])],
    "labels": lambda: [(X[:20], Y[:20]), (X[20:40], Y[20:40][::-1])],
    "fewer": lambda: pairs(20)[:1],
}


@pytest.mark.parametrize("kind", CHANGES)
def test_pairs_that_changed_after_the_first(tmp_path, kind):
    interrupted(tmp_path / "kept", pairs(20), None, None)
    with pytest.raises(StorageError, match=FOREIGN):
        moments_of(Chunks(CHANGES[kind](), checkpoint=tmp_path / "kept"))


def test_pairs_that_are_more_than_those_of_a_whole_pass(tmp_path):
    Chunks(pairs(50)[:2], checkpoint=tmp_path / "kept").reduce(ClassSums(), "sums")
    again = Chunks(pairs(50)[:2], checkpoint=tmp_path / "kept")
    assert again.reduce(ClassSums(), "sums").labels.tolist() == ["ass", "horse", "mule"]
    with pytest.raises(StorageError, match="written for other data"):
        Chunks(pairs(50), checkpoint=tmp_path / "kept").reduce(ClassSums(), "sums")


@pytest.mark.parametrize("kind", ["later labels", "file"])
def test_arrays_that_changed_where_nothing_was_read(tmp_path, kind):
    np.save(tmp_path / "x.npy", X)
    M, other = np.load(tmp_path / "x.npy", mmap_mode="r"), Y.copy()
    interrupted(tmp_path / "kept", M)
    if kind == "file":
        os.utime(tmp_path / "x.npy", ns=(1, 1))
    else:
        other[-1] = "ass" if other[-1] != "ass" else "mule"
    with pytest.raises(StorageError, match=FOREIGN):
        moments_of(Chunks(M, other, rows=20, checkpoint=tmp_path / "kept"))


def test_functions_that_cannot_be_compared(tmp_path):
    held = threading.Lock()
    chunks = Chunks(X, Y, rows=50, checkpoint=tmp_path / "kept")
    with pytest.raises(TypeError, match=r"everything it depends on can be compared.*pass a `key`"):
        chunks.map(lambda X: held and X).reduce(ClassSums(), "sums")
    chunks.map(lambda X: held and X, "as it is").reduce(ClassSums(), "sums")
    again = Chunks(X, Y, rows=50, checkpoint=tmp_path / "kept")
    again.map(lambda X: X * 1, "as it is").reduce(ClassSums(), "sums")  # stands for the other
    with pytest.raises(StorageError, match="written for other data"):
        again.map(lambda X: X * 1, "another").reduce(ClassSums(), "sums")


CHILD = """
import sys
import numpy as np
from zonkey import Chunks, Moments

folder = sys.argv[1]

def progress(name, n_rows, n_total):
    print(n_rows, flush=True)
    sys.stdin.readline()  # until the parent lets it go on

X = np.load(f"{folder}/x.npy", mmap_mode="r")
y = np.load(f"{folder}/y.npy")
prototypes = {i: [float(i), 1.0] for i in range(5)}
chunks = Chunks(X, y, rows=100, checkpoint=f"{folder}/kept", every=2, progress=progress)
Moments(prototypes, n_reserve=4, seed=1).update(chunks).save(f"{folder}/moments")
"""


def test_a_pass_that_is_killed_again_and_again_gives_the_same_bits(tmp_path):
    rng = np.random.default_rng(1)
    np.save(tmp_path / "x.npy", rng.normal(size=(4050, 16)).astype(np.float16))
    np.save(tmp_path / "y.npy", rng.integers(0, 4, 4050))
    command = [sys.executable, "-c", CHILD, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    chance, starts = random.Random(2), []
    for kill in (True, True, False):
        with subprocess.Popen(command, **pipes) as child:
            lines = []
            n = chance.randint(3, 8) if kill else None
            for line in child.stdout:
                lines.append(int(line))
                child.stdin.write("\n")
                child.stdin.flush()
                if len(lines) == n:
                    time.sleep(chance.uniform(0, 0.004))  # anywhere in the next chunk
                    child.kill()
                    break
            starts.append(lines[0])
        assert (child.returncode == 0) == (not kill)
    assert starts == sorted(set(starts))  # every one went on from a later chunk
    chunks = Chunks(np.load(tmp_path / "x.npy"), np.load(tmp_path / "y.npy"), rows=100)
    expected = Moments({i: [float(i), 1.0] for i in range(5)}, n_reserve=4, seed=1).update(chunks)
    assert_same_bits(Moments.load(tmp_path / "moments"), expected)
    assert not (tmp_path / "kept").exists()
