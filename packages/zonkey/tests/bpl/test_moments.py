"""Moments against the printed sums, and the same for any chunks, order, merging or removal."""

import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file
from scipy.sparse import csr_array

from zonkey.bpl.moments import Moments
from zonkey.config import config_context
from zonkey.persistence.container import StorageError, write_arrays
from zonkey.persistence.packing import pack
from zonkey.prototypes import Prototypes

LABELS = ["ass", "horse", "mule", "zebra"]
PROTOTYPES = Prototypes(LABELS, np.random.default_rng(9).normal(size=(4, 3)))


def drawn(seed, n, d=3, kind="normal"):
    """Return samples, and labels among which the last class may be missing."""
    rng = np.random.default_rng(seed)
    if kind == "normal":
        X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-3, 4, size=d)
    else:  # few values: many equal rows
        X = rng.integers(0, 2, (n, d)).astype(float)
    return X, np.array(LABELS)[rng.integers(0, 4, n)]


samples = st.builds(
    drawn,
    st.integers(0, 2**32),
    st.integers(1, 40),
    st.integers(1, 5),
    st.sampled_from(["normal", "binary"]),
)
sizes = st.sampled_from([0, 1, 2, 5, 64])
seeds = st.sampled_from([0, 1, 12345])


def gathered(X, y, **options):
    return Moments(PROTOTYPES, **options).update(X, y)


def naive_sums(X, y):
    d, k = X.shape[1], PROTOTYPES.n_dimensions
    A0, B0, C0 = np.zeros((d, d)), np.zeros((k, k)), np.zeros((d, k))
    class_sums = np.zeros((len(LABELS), d))
    for x, label in zip(X, y, strict=True):
        vector = PROTOTYPES.matrix[LABELS.index(label)]
        A0 += np.outer(x, x)
        B0 += np.outer(vector, vector)
        C0 += np.outer(x, vector)
        class_sums[LABELS.index(label)] += x
    return {"A0": A0, "B0": B0, "C0": C0, "class_sums": class_sums}


def assert_close(got, expected, total):
    """Compare up to rounding, which is relative to all that was ever added."""
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-13 * np.abs(total).sum())


def assert_same(got, expected):
    """Compare sums to rounding, counts and samples exactly."""
    np.testing.assert_array_equal(got.counts, expected.counts)
    for name in ("A0", "B0", "C0", "class_sums"):
        assert_close(getattr(got, name), getattr(expected, name), getattr(expected, name))
    for label in LABELS:
        np.testing.assert_array_equal(got.samples_of(label), expected.samples_of(label))


def state(moments):
    """Return all that moments hold, to see that it stays the same to the last bit."""
    if "?" in repr(moments):
        return "fresh", moments.counts.tolist()
    held = [moments.samples_of(label).tobytes() for label in moments.prototypes]
    arrays = (moments.counts, moments.A0, moments.class_sums)
    return [array.tobytes() for array in arrays], held


def multiset(rows):
    return Counter(map(tuple, rows.tolist()))


@pytest.mark.parametrize("memory", [1e-6, 0.001, 64])  # MiB: one row a block, some, all
@given(samples)
@settings(deadline=None, max_examples=25)
def test_the_sums_are_the_printed_ones(memory, data):
    X, y = data
    with config_context(working_memory=memory):
        moments = gathered(X, y)
    for name, expected in naive_sums(X, y).items():
        assert_close(getattr(moments, name), expected, expected)
    assert moments.counts.tolist() == [list(y).count(label) for label in LABELS]
    assert moments.n_samples == len(X)
    assert moments.n_features == X.shape[1]
    assert moments.seen_labels.tolist() == sorted(set(y))
    assert moments.unseen_labels.tolist() == sorted(set(LABELS) - set(y))
    np.testing.assert_array_equal(moments.A0, moments.A0.T)


@given(samples, sizes, seeds, st.data())
@settings(deadline=None, max_examples=50)
def test_neither_order_nor_chunks_nor_merging_matter(data_set, n_reserve, seed, data):
    X, y = data_set
    options = {"n_reserve": n_reserve, "seed": seed}
    order = np.array(data.draw(st.permutations(range(len(X)))))
    parts = np.split(order, sorted(data.draw(st.lists(st.integers(0, len(X)), max_size=5))))
    whole, chunked = gathered(X, y, **options), Moments(PROTOTYPES, **options)
    pieces = [Moments(PROTOTYPES, **options)]  # which has seen nothing, and adds nothing
    for part in parts:
        chunked.update(X[part], y[part])
        pieces.append(gathered(X[part], y[part], **options))
    while len(pieces) > 1:  # pairs in any order: every tree of merges
        pieces = list(data.draw(st.permutations(pieces)))
        pieces.append(pieces.pop() + pieces.pop())
    assert_same(chunked, whole)
    assert_same(pieces[0], whole)


@given(samples, sizes, st.data())
@settings(deadline=None, max_examples=50)
def test_a_part_can_be_subtracted(data_set, n_reserve, data):
    X, y = data_set
    gone = np.array(data.draw(st.lists(st.booleans(), min_size=len(X), max_size=len(X))))
    whole = gathered(X, y, n_reserve=n_reserve)
    left = whole - gathered(X[gone], y[gone], n_reserve=n_reserve)
    never = Moments(PROTOTYPES, n_reserve=n_reserve).update(X[~gone], y[~gone])
    np.testing.assert_array_equal(left.counts, never.counts)
    for name in ("A0", "B0", "C0", "class_sums"):
        total = max(np.abs(getattr(whole, name)).sum(), np.abs(X).sum() ** 2)
        np.testing.assert_allclose(getattr(left, name), getattr(never, name), atol=1e-13 * total)
    np.testing.assert_array_equal(left.class_sums[never.counts == 0], 0.0)
    for label in LABELS:
        held, remaining = left.samples_of(label), X[~gone & (y == label)]
        assert multiset(held) <= multiset(remaining)
        # The lowest of what remains, so still a random choice; and all, if all were held.
        np.testing.assert_array_equal(held, never.samples_of(label)[: len(held)])
        if (y == label).sum() <= n_reserve or gone[y == label].all():
            assert len(held) == min(n_reserve, len(remaining))
    for label in left.unseen_labels:  # nor does it matter to what comes later
        for moments in (left, never):
            moments.update(-X[:3], [label] * len(X[:3]))
        np.testing.assert_array_equal(left.samples_of(label), never.samples_of(label))
    whole.subtract(whole)
    assert not whole.A0.any()
    assert whole.n_samples == 0


def test_other_prototypes_keep_samples_and_their_limits():
    X, y = drawn(1, 60)
    whole = gathered(X, y, n_reserve=3) - gathered(X[:20], y[:20], n_reserve=3)
    space = Prototypes(["aardvark", *LABELS], np.arange(5.0)[:, None])
    moved = whole.with_prototypes(space)
    np.testing.assert_array_equal(moved.A0, whole.A0)
    for label in whole.seen_labels:
        row = moved.prototypes.positions([label])
        np.testing.assert_array_equal(moved.samples_of(label), whole.samples_of(label))
        np.testing.assert_array_equal(
            moved.class_sums[row], whole.class_sums[whole.prototypes.positions([label])]
        )
    np.testing.assert_allclose(moved.C0, moved.class_sums.T @ space.matrix)
    # What was lost to the subtraction stays lost: both accept the same further samples.
    moved.update(X, y)
    whole.update(X, y)
    for label in whole.seen_labels:
        np.testing.assert_array_equal(moved.samples_of(label), whole.samples_of(label))


def test_float32_is_summed_in_float64():
    rng, n = np.random.default_rng(2), 20_000
    X32 = (1000 + rng.random((n, 3))).astype(np.float32)
    y = np.array(LABELS)[rng.integers(0, 4, n)]
    single, double = gathered(X32, y, n_reserve=6), gathered(X32.astype(float), y, n_reserve=6)
    for label in LABELS:
        assert len(single.samples_of(label)) == min(6, (y == label).sum())
    assert_same(single, double)
    assert single.A0.dtype == single.class_sums.dtype == np.float64
    exact = [[int(a) / 2**28 for a in row] for row in _exact_gram(X32)]
    np.testing.assert_allclose(single.A0, exact, rtol=1e-12)
    assert single.samples_of("ass").dtype == np.float32
    assert double.samples_of("ass").dtype == np.float64


def _exact_gram(X32):
    whole = (X32.astype(float) * 2**14).astype(np.int64)  # exact: the unit of these is 2**-14
    assert (whole == X32.astype(float) * 2**14).all()
    objects = whole.astype(object)
    return objects.T @ objects


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.float16, ">f4"])
def test_other_numbers_are_summed_in_float64(dtype):
    X, y = np.random.default_rng(0).integers(0, 127, (500, 3)), np.array(LABELS * 125)
    got = gathered(X.astype(dtype), y, n_reserve=4)
    assert_same(got, gathered(X.astype(float), y, n_reserve=4))
    np.testing.assert_array_equal(got.A0, X.T @ X)
    assert got.samples_of("ass").dtype.kind == "f"
    large = Moments({"a": [1.0]}).update(np.full((2, 3), 60_000, np.float16), ["a", "a"])
    assert large.update(np.zeros((1, 3)), ["a"]).n_samples == 3


INVALID = {
    "unknown label": (np.ones((2, 3)), ["ass", "okapi"], ValueError, "No prototype.*'okapi'"),
    "other kind": (np.ones((2, 3)), [1, 2], ValueError, "one kind"),
    "mixed labels": (np.ones((2, 3)), ["ass", 1], TypeError, "all strings or all numbers"),
    "missing label": (np.ones((2, 3)), ["ass", None], TypeError, "NoneType"),
    "2-D labels": (np.ones((2, 3)), [["ass"], ["ass"]], ValueError, "one-dimensional"),
    "nan": ([[1, 2, 3], [1, np.nan, 3]], ["ass"] * 2, ValueError, "finite.*Impute or drop"),
    "infinity": ([[1, 2, 3], [1, -np.inf, 3]], ["ass"] * 2, ValueError, "finite"),
    "text": ([["1", "2", "3"]], ["ass"], ValueError, "finite numbers; got dtype <U1"),
    "complex": (np.ones((1, 3)) * 1j, ["ass"], ValueError, "got dtype complex"),
    "objects": (np.array([[1, None, 2]]), ["ass"], ValueError, "got dtype object"),
    "1-D": (np.ones(3), ["ass"] * 3, ValueError, r"matrix.*got shape \(3,\)"),
    "3-D": (np.ones((1, 3, 1)), ["ass"], ValueError, r"got shape \(1, 3, 1\)"),
    "no feature": (np.ones((2, 0)), ["ass"] * 2, ValueError, r"at least one.*\(2, 0\)"),
    "fewer labels": (np.ones((2, 3)), ["ass"], ValueError, "got 2 and 1"),
    "fewer samples": (np.ones((1, 3)), ["ass"] * 2, ValueError, "got 1 and 2"),
    "no labels": (np.ones((1, 3)), [], ValueError, "got 1 and 0"),
    "sparse": (csr_array(np.eye(3)), ["ass"] * 3, TypeError, r"is sparse\. Pass its \.toarray"),
    "masked": (
        np.ma.masked_array(np.eye(3), mask=np.eye(3)),
        ["ass"] * 3,
        TypeError,
        "3 masked entries of 9",
    ),
    "ragged": ([[1.0], [1.0, 2.0]], ["ass"] * 2, ValueError, "with rows of one length"),
    "long": (np.full((1, 3), np.longdouble("1e400")), ["ass"], ValueError, "got NaN or infinity"),
    "huge": (np.full((1, 3), 1e200), ["ass"], ValueError, r"from 1e-75 to 1e\+75 in float64"),
    "tiny": (
        np.full((1, 3), 1e-20, np.float32),
        ["ass"],
        ValueError,
        r"from 1e-15 to 1e\+15 in float32",
    ),
}


@pytest.mark.parametrize("used", [False, True], ids=["fresh", "used"])
@pytest.mark.parametrize("case", INVALID)
def test_an_invalid_update_changes_nothing(case, used):
    X, y, error, message = INVALID[case]
    moments = gathered(*drawn(0, 20)) if used else Moments(PROTOTYPES)
    before = state(moments)
    with pytest.raises(error, match=message):
        moments.update(X, y)
    if used:
        with pytest.raises(ValueError, match="the 3 features of earlier updates; got 2"):
            moments.update(np.ones((1, 2)), ["ass"])
    assert state(moments) == before
    assert ("?" in repr(moments)) == (not used)


@pytest.mark.parametrize("value", [-1, 1.5, "3", None, True], ids=repr)
@pytest.mark.parametrize("name", ["n_reserve", "seed"])
def test_counts_that_are_none(name, value):
    expected = re.escape(f"`{name}` must be an integer of at least 0; got {value!r}. Pass 0 or")
    with pytest.raises(ValueError, match=expected):
        Moments(PROTOTYPES, **{name: value})


INCOMPATIBLE = {
    "prototypes": (Moments({"a": [1.0]}), "same prototypes"),
    "vectors": (Moments(Prototypes(LABELS, np.ones((4, 3)))), "same prototypes"),
    "n_reserve": (Moments(PROTOTYPES, n_reserve=63), r"\[64, 0, True\] and \[63, 0, True\]"),
    "seed": (
        Moments(PROTOTYPES, seed=1),
        r"`seed` and `scatter`; got \[64, 0, True\] and \[64, 1, True\]",
    ),
    "features": (gathered(*drawn(0, 5, d=2)), "3 and 2 dimensions"),
}


@pytest.mark.parametrize("case", INCOMPATIBLE)
@pytest.mark.parametrize("method", ["merge", "subtract", "__add__", "__sub__"])
def test_incompatible_moments_are_not_combined(case, method):
    other, message = INCOMPATIBLE[case]
    moments = gathered(*drawn(0, 20))
    before = state(moments)
    with pytest.raises(ValueError, match=message):
        getattr(moments, method)(other)
    with pytest.raises(TypeError, match="got int"):
        getattr(moments, method)(3)
    assert state(moments) == before


def test_more_than_was_added_cannot_be_subtracted():
    moments = gathered(np.eye(3), ["ass", "ass", "mule"])
    other, before = gathered(np.eye(3), ["ass", "mule", "mule"]), state(moments)
    with pytest.raises(ValueError, match=r"'mule'.* has 1, got 2 to subtract.*part of the same"):
        moments.subtract(other)
    assert state(moments) == before


def test_moments_that_have_seen_nothing_say_so(tmp_path):
    fresh = Moments(PROTOTYPES)
    for ask in (
        *(lambda name=name: getattr(fresh, name) for name in ("A0", "C0", "class_sums")),
        lambda: fresh.n_features,
        lambda: fresh.samples_of("ass"),
        lambda: fresh.fingerprint(),
        lambda: fresh.save(tmp_path / "fresh.moments"),
    ):
        with pytest.raises(ValueError, match=r"no samples yet; call `update"):
            ask()
    assert list(tmp_path.iterdir()) == []
    assert (fresh.n_samples, fresh.seen_labels.tolist()) == (0, [])
    np.testing.assert_array_equal(fresh.B0, np.zeros((3, 3)))
    assert fresh.copy().merge(fresh).subtract(fresh).n_samples == 0


@pytest.mark.parametrize("prototypes", [PROTOTYPES, {1: [1.0], 2: [2.0]}])
def test_an_empty_chunk_is_no_news_but_for_the_features(prototypes):
    moments = Moments(prototypes).update(np.empty((0, 2)), [])
    assert moments.A0.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert moments.samples_of(moments.prototypes.labels[0]).shape == (0, 2)
    assert repr(moments).startswith("Moments(0 samples x 2, 0 of")


STORED = {
    "strings": lambda: gathered(*drawn(0, 60), n_reserve=3, seed=5),
    "integers": lambda: Moments.from_arrays(np.eye(4), [3, 1, 1, 3], {1: [1], 2: [2], 3: [3]}),
    "single": lambda: gathered(drawn(0, 20)[0].astype(np.float32), ["ass"] * 20, n_reserve=3),
    "no reserve": lambda: gathered(*drawn(0, 20), n_reserve=0),
    "no samples": lambda: Moments(PROTOTYPES).update(np.empty((0, 3)), []),
    "subtracted": lambda: STORED["strings"]() - gathered(*_half(), n_reserve=3, seed=5),
}


def _half():
    X, y = drawn(0, 60)
    return X[:30], y[:30]


@pytest.mark.parametrize("case", STORED)
def test_what_is_saved_is_loaded(case, tmp_path):
    moments, path = STORED[case](), tmp_path / "moments of mine"
    moments.save(str(path))
    again = Moments.load(path)
    assert state(again) == state(moments)
    assert again.prototypes == moments.prototypes
    assert again.prototypes.labels.dtype == moments.prototypes.labels.dtype
    assert (again.n_reserve, again.seed) == (moments.n_reserve, moments.seed)
    label = moments.prototypes.labels[0]
    more = np.random.default_rng(1).normal(size=(50, moments.n_features))
    for each in (moments, again):  # and it continues as the original does
        each.update(more, [label] * 50)
    assert state(again) == state(moments)
    assert state(again - moments) == state(moments - moments)
    assert [entry.name for entry in tmp_path.iterdir()] == ["moments of mine"]


def _contents(**changes):
    """Write moments with some parts replaced, or left out if None."""

    def write(path):
        node, arrays = pack(gathered(*drawn(0, 20)), {"Moments": Moments, "Prototypes": Prototypes})
        for name, change in changes.items():
            parts = node["parts"]
            if change is None:
                del parts[name]
            else:
                arrays[name] = change(arrays[name])
        write_arrays(path, "moments", {"content": node}, arrays)

    return write


WRONG_FILES = {
    "empty": (lambda path: path.touch(), "must be a file that zonkey has saved"),
    "text": (lambda path: path.write_text("label,vector"), "must be a file that zonkey has saved"),
    "archive": (lambda path: path.write_bytes(b"PK\x03\x04" + bytes(100)), "that zonkey has saved"),
    "other tensors": (lambda path: save_file({"X": np.eye(2)}, path), "that zonkey has saved"),
    "negated A0": (_contents(A0=lambda A: -A), "A0 must be the scatter of the samples"),
    "asymmetric A0": (_contents(A0=np.tril), "A0 must be the scatter of the samples"),
    "indefinite A0": (
        _contents(
            A0=lambda A: np.sqrt(np.outer(A.diagonal(), A.diagonal())) * (1.9 * np.eye(3) - 0.9)
        ),
        "A0 must be the scatter of the samples",
    ),
    "small A0": (_contents(A0=lambda A: A / 100), "A0 must be the scatter of the samples"),
    "A0 of another size": (_contents(A0=lambda A: A[1:, 1:]), "'A0' must have the shape"),
    "no A0": (_contents(A0=None), "The part 'A0' is missing"),
    "no counts": (_contents(counts=None), "The part 'counts' is missing"),
    "negative counts": (_contents(counts=lambda n: n - 100), "must not be negative"),
    "no samples": (_contents(counts=lambda n: 0 * n), "without samples must be zero"),
    "float counts": (_contents(counts=lambda n: 1.0 * n), "'counts' has the wrong type"),
    "class_sums": (_contents(class_sums=lambda S: S[:2]), "'class_sums' must have the shape"),
    "reserve": (
        _contents(**{"reserve/reserve_lengths": lambda n: 1000 + n}),
        "must be among those that were counted",
    ),
    "rows": (
        _contents(**{"reserve/reserve_rows": lambda X: X[:, 1:]}),
        "'reserve_rows' must have the shape",
    ),
}


@pytest.mark.parametrize("case", WRONG_FILES)
def test_a_wrong_file_is_refused(case, tmp_path):
    path = tmp_path / "wrong.moments"
    write, message = WRONG_FILES[case]
    write(path)
    with pytest.raises(StorageError, match=rf"^wrong\.moments .*{re.escape(message)}") as error:
        Moments.load(path)
    assert "\n" not in str(error.value)
