"""Equal weight for every class, however many samples it has, against loops over its samples."""

from dataclasses import dataclass

import numpy as np
import pytest
from reference import decomposed, f_ij, finite_differences

from zonkey.core.moments import Moments
from zonkey.core.projection import NormalEquations, directed_projection, reverse_projection
from zonkey.core.prototypes import Prototypes

NAMES = ["zebra", "ape", "mule", "emu"]  # not in sorted order
UNSEEN = {"cat": [9.0, -9.0, 9.0], "yak": [7.0, 7.0, 7.0]}  # between the others, when sorted
SHARES = [0.0, 0.3, 0.5, 1.0]
WEIGHTS = ["sample", "class"]


@dataclass(frozen=True, eq=False)
class Classes:
    """Samples of each class by name, and prototypes of these and of two more."""

    samples: dict[str, np.ndarray]
    prototypes: dict[str, np.ndarray]

    def moments(self, dtype=float):
        labels = np.repeat(list(self.samples), [len(X) for X in self.samples.values()])
        vectors = {name: np.asarray(y, dtype) for name, y in (self.prototypes | UNSEEN).items()}
        return Moments.from_arrays(np.vstack(list(self.samples.values())), labels, vectors)

    def repeated(self, name, times):
        """The same with every sample of one class so many times."""
        more = np.tile(self.samples[name], (times, 1))
        return Classes(self.samples | {name: more}, self.prototypes)

    def pairs(self):
        """Each class as its samples and its prototype."""
        return [(X, self.prototypes[name]) for name, X in self.samples.items()]

    def loss(self, W, forward, beta):
        """The objective of the family, in which the samples of each class weigh 1 together."""
        errors = sum(f_ij(W, x, y, forward) / len(X) for X, y in self.pairs() for x in X)
        return errors + 2 * beta * np.sum(W**2)


def drawn(seed, sizes=(3, 9, 1, 20), d=5):
    rng = np.random.default_rng(seed)
    samples = {
        name: rng.normal(size=d) + rng.uniform(0.2, 2) * rng.normal(size=(n, d))
        for name, n in zip(NAMES, sizes, strict=True)
    }
    return Classes(samples, {name: rng.normal(size=3) for name in NAMES})


def alike(seed, repeats=(1, 4, 2, 7), d=5):
    """Classes that differ in mean and number of samples only."""
    rng = np.random.default_rng(seed)
    deviations = rng.normal(size=(6, d))
    deviations -= deviations.mean(axis=0)
    samples = {
        name: rng.normal(size=d) + np.tile(deviations, (n, 1))
        for name, n in zip(NAMES, repeats, strict=True)
    }
    return Classes(samples, {name: rng.normal(size=3) for name in NAMES})


def balanced(classes, dtype=float):
    return NormalEquations.of(classes.moments(dtype), "class")


def mean(X):
    return sum(X) / len(X)


def assert_close(got, expected, tolerance=1e-11):
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("sizes", [(3, 9, 1, 20), (1, 1, 1, 1), (2, 2, 2, 50)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_matrices_equal_loops_over_class_means(sizes, dtype):
    classes = drawn(0, sizes)
    equations = balanced(classes, dtype)
    pairs = [(X, y.astype(dtype).astype(float)) for X, y in classes.pairs()]
    pooled = sum(np.outer(x - mean(X), x - mean(X)) for X, _ in pairs for x in X)
    means = sum(np.outer(mean(X), mean(X)) for X, _ in pairs)
    assert_close(equations.B0, sum(np.outer(y, y) for _, y in pairs))
    assert_close(equations.C0, sum(np.outer(mean(X), y) for X, y in pairs))
    assert_close(equations.A0, means + 4 / sum(sizes) * pooled)
    assert {M.dtype for M in (equations.A0, equations.B0, equations.C0)} == {np.dtype(float)}


def test_features_are_exact_where_every_class_scatters_alike():
    classes = alike(1)
    expected = sum(np.outer(x, x) / len(X) for X, _ in classes.pairs() for x in X)
    assert_close(balanced(classes).A0, expected)
    # Elsewhere they take the pooled scatter for that of each class.
    unlike = drawn(1)
    expected = sum(np.outer(x, x) / len(X) for X, _ in unlike.pairs() for x in X)
    assert np.abs(balanced(unlike).A0 - expected).max() > 0.1


@pytest.mark.parametrize("size", [1, 6])
def test_classes_of_one_size_only_change_the_unit(size):
    classes = drawn(2, (size,) * 4)
    equations, moments = balanced(classes), classes.moments()
    assert_close(equations.A0, moments.A0 / size)
    assert_close(equations.B0, moments.B0 / size)
    assert_close(equations.C0, moments.C0 / size)


@pytest.mark.parametrize("name", NAMES)
def test_ten_times_the_samples_of_a_class_change_nothing(name):
    classes = drawn(3)
    more = classes.repeated(name, 10)
    before, after = balanced(classes), balanced(more)
    assert_close(after.B0, before.B0)
    assert_close(after.C0, before.C0)

    def learned(of, per):
        return reverse_projection(NormalEquations.of(of.moments(), per), 0.3).value

    assert_close(learned(more, "class"), learned(classes, "class"))
    assert np.abs(learned(more, "sample") - learned(classes, "sample")).max() > 1e-2


@pytest.mark.parametrize("forward", SHARES)
def test_nor_do_they_in_any_direction_where_every_class_scatters_alike(forward):
    classes = alike(4)
    before, after = (
        directed_projection(balanced(c), 0.3, forward).value
        for c in (classes, classes.repeated("emu", 10))
    )
    assert_close(after, before)


@pytest.mark.parametrize("forward", SHARES)
@pytest.mark.parametrize("beta", [0.01, 0.7])
def test_gradient_of_the_balanced_loss_vanishes(forward, beta):
    classes = alike(5, d=4)
    equations = balanced(classes)
    W = directed_projection(equations, beta, forward).value

    def slope(at):
        differences = finite_differences(lambda V: classes.loss(V, forward, beta), at, step=1e-2)
        return np.abs(differences).max()

    assert slope(W) < 1e-9 * classes.loss(0 * W, forward, beta)
    assert slope(W + 0.1) > 1e-2
    ridge = 2 * beta * np.sum(W**2)
    loss = equations.loss(W, forward) + ridge
    assert loss == pytest.approx(classes.loss(W, forward, beta), rel=1e-11)


@pytest.mark.parametrize("beta", [0.0, 0.2, 5.0])
def test_the_reverse_direction_is_ridge_regression_of_class_means(beta):
    classes = drawn(6)
    means = np.array([mean(X) for X, _ in classes.pairs()])
    Y = np.array([y for _, y in classes.pairs()])
    stacked = np.vstack([Y, beta**0.5 * np.eye(3)])
    expected = np.linalg.lstsq(stacked, np.vstack([means, np.zeros((3, 5))]))[0].T
    W = reverse_projection(balanced(classes), beta).value
    assert_close(W, expected, 1e-10)


@pytest.mark.parametrize("options", [(), ("sample",)])
def test_samples_weigh_alike_unless_asked_otherwise(options):
    moments = drawn(7).moments()
    equations = NormalEquations.of(moments, *options)
    assert_close(equations.A0, moments.A0)
    assert_close(equations.B0, moments.B0)
    assert_close(equations.C0, moments.C0)
    assert not np.allclose(equations.A0, balanced(drawn(7)).A0)


def test_moments_are_left_untouched():
    moments = drawn(8).moments()
    kept = moments.A0.copy(), moments.class_sums.copy(), moments.counts.copy()
    equations = NormalEquations.of(moments, "class")
    for M in (equations.A0, equations.B0, equations.C0):
        M[:] = np.nan  # even where someone writes to them
    for got, expected in zip((moments.A0, moments.class_sums, moments.counts), kept, strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("per", WEIGHTS)
def test_moments_without_samples_are_refused(per):
    empty = Moments(Prototypes(NAMES, np.eye(4)))
    with pytest.raises(ValueError, match="have no samples yet"):
        NormalEquations.of(empty, per)


class TestTwins:
    @pytest.mark.parametrize("per", WEIGHTS)
    def test_share_one_decomposition(self, monkeypatch, per):
        moments = drawn(9).moments()
        other = moments.with_prototypes({name: [float(len(name))] for name in NAMES})
        first = NormalEquations.of(moments, per)
        second = NormalEquations.of(other, per, twin=first)
        third = NormalEquations.of(moments, per, twin=second)
        shapes = decomposed(monkeypatch)
        assert not third.is_factorized
        assert third.factor is second.factor is first.factor
        assert second.loss(np.ones((5, 1)), 0.7) > 0
        assert third.is_factorized
        assert shapes == [(5, 5)]

    @pytest.mark.parametrize("per", WEIGHTS)
    @pytest.mark.parametrize("forward", SHARES)
    def test_learn_what_they_would_learn_alone(self, per, forward):
        moments = drawn(10).moments()
        vectors = np.random.default_rng(10).normal(size=(4, 2))
        other = moments.with_prototypes(dict(zip(NAMES, vectors, strict=True)))
        twin = NormalEquations.of(other, per, twin=NormalEquations.of(moments, per))
        alone = NormalEquations.of(other, per)
        W = directed_projection(twin, 0.2, forward).value
        assert_close(W, directed_projection(alone, 0.2, forward).value)
        assert twin.loss(W, forward) == pytest.approx(alone.loss(W, forward), rel=1e-12)

    def test_without_one_each_decomposes_its_own(self, monkeypatch):
        moments = drawn(11).moments()
        shapes = decomposed(monkeypatch)
        one, other = (NormalEquations.of(moments, per) for per in WEIGHTS)
        assert one.factor is not other.factor
        assert shapes == [(5, 5), (5, 5)]
