"""Lifted prototypes: inner products are the kernel, and learning with them is learning with it."""

import copy
import pickle

import array_api_strict as strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_few_shot import random_few_shot, sums

from zonkey.core.kernels import Lift, kernel_matrix
from zonkey.core.projection import NormalEquations, bidirectional_projection, reverse_projection

COMPUTED = ["linear", "rbf", "poly", "arccos"]
OPTIONS = {"gamma": 0.4, "degree": 2, "coef0": 0.6}


def drawn(seed, p=6, q=5, k=4):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(p, k)) + 0.5, rng.normal(size=(q, k)) + 0.5


def unit(Y_s, kind):
    """Return what a relative gamma is divided by, from loops over rows."""
    pairs = [sum((y - z) ** 2) for i, y in enumerate(Y_s) for z in Y_s[:i]]
    units = {"rbf": np.median(pairs or [1.0]), "poly": np.mean([sum(y * y) for y in Y_s])}
    return units.get(kind, 1.0)


def kernel(kind, Y, Z, Y_s, *, gamma=1.0, **options):
    return kernel_matrix(kind, Y, Z, gamma=gamma / unit(Y_s, kind), **options)


def assert_close(got, expected, tolerance=1e-12):
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def assert_lifts(lift, Y_s, Y_u, options, tolerance=1e-12):
    """Compare inner products in the span with the kernel, of seen and of unseen classes."""
    both = np.vstack([Y_s, Y_u])
    K = kernel(lift.kind, both, both, Y_s, **options)
    lifted = lift.transform(both)
    assert lifted.shape == (len(both), lift.rank)
    error = tolerance * K.max()
    with_seen = lifted @ lift.transform(Y_s).T
    np.testing.assert_allclose(with_seen, K[:, : len(Y_s)], rtol=0, atol=error)
    # No class is longer in the span than it is.
    assert (np.sum(lifted**2, axis=1) <= np.diag(K) + error).all()


@pytest.mark.parametrize("kind", COMPUTED)
@pytest.mark.parametrize(
    "options", [{}, {"gamma": 0.4}, {"gamma": 3.0}, {"degree": 2}, {"coef0": 0.0}, OPTIONS], ids=str
)
def test_inner_products_are_the_kernel(kind, options):
    Y_s, Y_u = drawn(0)
    lift = Lift.of(Y_s, kind, **options)
    assert lift.rank == (4 if kind == "linear" else 6)
    assert_lifts(lift, Y_s, Y_u, options)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(COMPUTED),
    p=st.integers(1, 8),
    q=st.integers(1, 4),
    k=st.integers(1, 8),
    gamma=st.floats(0.2, 2.0),
)
def test_any_shape_is_lifted(seed, kind, p, q, k, gamma):
    Y_s, Y_u = drawn(seed, p, q, k)
    options = {"gamma": gamma, "degree": 2, "coef0": 0.6}
    lift = Lift.of(Y_s, kind, **options)
    assert lift.rank <= (min(p, k) if kind == "linear" else p)
    # Of a nearly singular kernel half the digits of an unseen class may be lost.
    assert_lifts(lift, Y_s, Y_u, options, 1e-6)


@pytest.mark.parametrize("kind", COMPUTED)
def test_the_formula_of_the_coordinates(kind):
    Y_s, Y_u = drawn(1, k=9)
    w, V = np.linalg.eigh(kernel(kind, Y_s, Y_s, Y_s, **OPTIONS))
    expected = [V.T @ k_y / np.sqrt(w) for k_y in kernel(kind, Y_u, Y_s, Y_s, **OPTIONS)]
    # The sign of an eigenvector is of no account.
    got = Lift.of(Y_s, kind, **OPTIONS).transform(Y_u)
    assert_close(np.abs(got), np.abs(expected), 1e-10)


@pytest.mark.parametrize("kind", COMPUTED)
def test_copies_of_prototypes_add_no_dimension(kind):
    Y_s, Y_u = drawn(2, p=7, k=9)
    twice = np.vstack([Y_s, Y_s[:4], Y_s[::-1]])
    lift = Lift.of(twice, kind, degree=2)
    assert lift.rank == 7
    once = Lift.of(Y_s, kind, gamma=unit(Y_s, kind) * lift.gamma, degree=2)
    assert once.gamma == pytest.approx(lift.gamma)
    # Two bases of one span: unseen classes have the same inner products as well.
    both = np.vstack([Y_s, Y_u])
    got, expected = lift.transform(both), once.transform(both)
    assert_close(got @ got.T, expected @ expected.T)


@pytest.mark.parametrize(("p", "k"), [(12, 3), (40, 5), (4, 4)])
def test_linear_lift_of_prototypes_that_span_the_space_is_a_rotation(p, k):
    Y_s, Y_u = drawn(3, p=p, k=k)
    lift = Lift.of(Y_s, "linear", gamma=5.0)
    assert lift.rank == k
    both = np.vstack([Y_s, Y_u])
    lifted = lift.transform(both)
    assert_close(lifted @ lifted.T, both @ both.T)


def test_linear_lift_of_few_prototypes_is_the_part_in_their_span():
    Y_s, Y_u = drawn(4, p=3, k=8)
    lift = Lift.of(Y_s, "linear")
    assert lift.rank == 3
    inside = Y_u @ np.linalg.pinv(Y_s) @ Y_s
    lifted = lift.transform(Y_u)
    assert_close(lifted @ lifted.T, inside @ inside.T)


@pytest.mark.parametrize("size", [1e-6, 1e6])
@pytest.mark.parametrize("kind", ["rbf", "poly"])
def test_a_relative_gamma_makes_the_size_of_the_prototypes_of_no_account(kind, size):
    Y_s, Y_u = drawn(5)
    here = Lift.of(Y_s, kind, **OPTIONS)
    there = Lift.of(size * Y_s, kind, **OPTIONS)
    assert there.gamma * size**2 == pytest.approx(here.gamma, rel=1e-12)
    products = here.transform(Y_u) @ here.transform(Y_s).T
    assert_close(there.transform(size * Y_u) @ there.transform(size * Y_s).T, products, 1e-10)


@pytest.mark.parametrize("kind", COMPUTED)
@pytest.mark.parametrize("k", [4, 9])
def test_a_precomputed_kernel_is_the_same_kernel(kind, k):
    Y_s, Y_u = drawn(6, k=k)
    computed = Lift.of(Y_s, kind, **OPTIONS)
    K_s, K_u = (kernel(kind, Y, Y_s, Y_s, **OPTIONS) for Y in (Y_s, Y_u))
    given_values = Lift.of(K_s, "precomputed", gamma=7.0, degree=9, coef0=-3.0)
    assert given_values.rank == computed.rank
    np.testing.assert_allclose(given_values.transform(K_s), computed.transform(Y_s), atol=1e-11)
    np.testing.assert_allclose(given_values.transform(K_u), computed.transform(Y_u), atol=1e-11)


def test_one_seen_class():
    lift = Lift.of(np.array([[3.0, 4.0]]), "linear")
    assert lift.rank == 1
    np.testing.assert_allclose(
        np.abs(lift.transform(np.array([[3.0, 4.0], [4.0, -3.0]]))), [[5], [0]]
    )
    # No pair to take a width from: gamma is used as it is.
    assert Lift.of(np.array([[3.0, 4.0]]), "rbf", gamma=0.3).gamma == 0.3


@pytest.mark.parametrize("kind", ["linear", "arccos", "poly", "precomputed"])
def test_of_nothing_but_zeros_one_direction_is_kept(kind):
    lift = Lift.of(np.zeros((3, 3)), kind, gamma=2.5, coef0=0.0)
    assert lift.gamma == 2.5
    assert lift.rank == 1
    np.testing.assert_allclose(np.linalg.norm(lift.basis), 1.0)
    Y_u = np.zeros((2, 3)) if kind == "precomputed" else np.ones((2, 3))
    np.testing.assert_array_equal(lift.transform(Y_u), np.zeros((2, 1)))


def test_what_is_below_rounding_is_left_out():
    for smallest, rank in {1e-2: 3, 1e-12: 3, 1e-16: 2, 0.0: 2, -1e-9: 2}.items():
        assert Lift.of(np.diag([5.0, smallest, 1.0]), "precomputed").rank == rank
    lift = Lift.of(np.diag([1.0, 1e-9, 1.0]).astype(np.float32), "precomputed")
    assert lift.rank == 2
    assert lift.transform(np.eye(3, dtype=np.float32)).dtype == np.float32


def test_what_is_no_larger_than_the_error_below_zero_is_left_out():
    """A kernel from float32 shows by its negative eigenvalues which positive ones mean nothing."""
    assert Lift.of(np.diag([1.0, -3e-8, 2e-8, 4e-8]), "precomputed").rank == 2
    rng = np.random.default_rng(7)
    Y_s = rng.normal(size=(60, 4)).astype(np.float32)
    K_s = (Y_s @ Y_s.T).astype(np.float64)
    assert np.linalg.matrix_rank(K_s, hermitian=True) > 50
    assert Lift.of(K_s, "precomputed").rank < 40


class TestLearning:
    """Projections in the span against the same in the original space, and the dual."""

    @pytest.mark.parametrize(("p", "k"), [(5, 12), (9, 4)])
    def test_with_the_linear_kernel_is_learning_from_the_prototypes(self, p, k):
        problem = random_few_shot(8, n=40, p=p, k=k)
        lift = Lift.of(problem.Y_s, "linear")
        Y_s = lift.transform(problem.Y_s)
        there = NormalEquations(*sums(problem.X, Y_s[problem.labels]))
        W = bidirectional_projection(problem.equations(), 0.3).value
        W_there = bidirectional_projection(there, 0.3).value
        assert_close(lift.transform(problem.Y_u) @ W_there.T, problem.Y_u @ W.T, 1e-10)
        assert there.loss(W_there) == pytest.approx(problem.equations().loss(W), rel=1e-10)

    @pytest.mark.parametrize("kind", COMPUTED)
    def test_in_reverse_is_kernel_ridge_regression(self, kind):
        problem = random_few_shot(9, n=40)
        lift = Lift.of(problem.Y_s, kind, **OPTIONS)
        equations = NormalEquations(*sums(problem.X, lift.transform(problem.Y_s)[problem.labels]))
        W = reverse_projection(equations, 0.3).value
        of_samples = problem.Y_s[problem.labels]
        K = kernel(kind, of_samples, of_samples, problem.Y_s, **OPTIONS)
        dual = np.linalg.solve(K + 0.3 * np.eye(40), problem.X)
        expected = kernel(kind, problem.Y_u, of_samples, problem.Y_s, **OPTIONS) @ dual
        assert_close(lift.transform(problem.Y_u) @ W.T, expected, 1e-10)


@pytest.mark.parametrize(
    ("K_s", "message"),
    [
        (np.ones((3, 4)), r"square matrix of at least one row; got shape \(3, 4\)\. Pass one row"),
        (np.ones(3), r"square matrix.*got shape \(3,\)"),
        (np.ones((0, 0)), r"at least one row; got shape \(0, 0\)"),
        (np.diag([1.0, np.nan]), "must be finite; got NaN or infinity. Remove"),
        (np.diag([1.0, np.inf]), "must be finite"),
        (np.array([[2.0, 1.0], [0.5, 2.0]]), r"must be symmetric; got.* by up to 0\.5\. Pass"),
        (np.array([[2.0, 1.0], [1.0 + 3e-6, 2.0]]), "must be symmetric"),
        (np.diag([5.0, -0.25]), r"no negative eigenvalue; got -0\.25 beside 5\. Choose"),
        (np.diag([5.0, -6e-6]), "no negative eigenvalue"),
        (np.diag([-1.0, -2.0]), "got -2 beside -1"),
    ],
    ids=str,
)
def test_what_is_no_kernel_is_refused_in_one_line(K_s, message):
    with pytest.raises(ValueError, match=message) as error:
        Lift.of(K_s, "precomputed")
    assert "\n" not in str(error.value)


def test_rounding_is_forgiven_where_more_is_refused():
    for K_s in (
        np.array([[2.0, 1.0], [1.0 + 1e-6, 2.0]]),
        np.diag([5.0, -4e-6]),
        np.diag([5.0, 1.0, -8e-6]).astype(np.float32),
    ):
        assert Lift.of(K_s, "precomputed").rank == len(K_s) - (K_s.min() < 0)
    skewed = np.array([[2.0, 1.0], [1.0 + 1e-6, 2.0]])
    mirrored = Lift.of(skewed.T, "precomputed")
    np.testing.assert_array_equal(mirrored.basis, Lift.of(skewed, "precomputed").basis)


@pytest.mark.parametrize(
    ("kind", "options"), [("poly", {"coef0": -2.0}), ("rbf", {"gamma": -1.0})], ids=str
)
def test_parameters_that_make_no_kernel_are_refused(kind, options):
    with pytest.raises(ValueError, match="no negative eigenvalue"):
        Lift.of(drawn(10)[0], kind, **options)


@pytest.mark.parametrize("kind", COMPUTED)
def test_no_seen_class_at_all_is_refused(kind):
    with pytest.raises(ValueError, match=r"at least one row; got shape \(0, 0\)"):
        Lift.of(np.ones((0, 4)), kind)


def test_an_unknown_kernel_is_refused():
    with pytest.raises(ValueError, match=r"must be one of linear, .*got 'sigmoid'"):
        Lift.of(drawn(11)[0], "sigmoid")


@pytest.mark.parametrize("kind", [*COMPUTED, "precomputed"])
def test_rows_of_another_length_are_refused_in_one_line(kind):
    Y_s = drawn(12)[0]
    lift = Lift.of(Y_s @ Y_s.T if kind == "precomputed" else Y_s, kind)
    columns = 6 if kind == "precomputed" else 4
    for shape in ((2, columns - 1), (columns,)):
        with pytest.raises(
            ValueError,
            match=rf"must have the {columns} columns of the seen classes; got shape \({shape[0]},",
        ) as error:
            lift.transform(np.ones(shape))
        assert "\n" not in str(error.value)


def test_parameters_may_be_numpy_scalars():
    Y_s, Y_u = (M.astype(np.float32) for M in drawn(13))
    options = {name: np.float64(value) for name, value in OPTIONS.items()}
    lift = Lift.of(Y_s, "poly", **options)
    assert type(lift.gamma) is float
    assert lift.transform(Y_u).dtype == np.float32
    np.testing.assert_array_equal(
        lift.transform(Y_u), Lift.of(Y_s, "poly", **OPTIONS).transform(Y_u)
    )


def test_inputs_stay_as_they_are_and_a_lift_can_be_kept():
    Y_s, Y_u = drawn(14)
    Y_s.flags.writeable = Y_u.flags.writeable = False
    lift = Lift.of(Y_s, "rbf", **OPTIONS)
    expected = lift.transform(Y_u)
    for kept in (pickle.loads(pickle.dumps(lift)), copy.deepcopy(lift)):
        np.testing.assert_array_equal(kept.transform(Y_u), expected)


@pytest.mark.parametrize("kind", [*COMPUTED, "precomputed"])
@pytest.mark.parametrize("name", ["CPU_DEVICE", "device1"])
def test_the_standard_is_enough(kind, name):
    there = strict.Device(name)
    Y_s, Y_u = drawn(15)
    if kind == "precomputed":
        Y_s, Y_u = Y_s @ Y_s.T, Y_u @ Y_s.T
    here = Lift.of(Y_s, kind, **OPTIONS)
    lift = Lift.of(strict.asarray(Y_s, device=there), kind, **OPTIONS)
    got = lift.transform(strict.asarray(Y_u, device=there))
    assert got.device == there
    got = np.asarray(got.to_device(strict.Device("CPU_DEVICE")))
    assert lift.rank == here.rank
    assert lift.gamma == pytest.approx(here.gamma, rel=1e-14)
    np.testing.assert_allclose(np.abs(got), np.abs(here.transform(Y_u)), atol=1e-10)
