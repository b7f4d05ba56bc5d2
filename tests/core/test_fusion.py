"""Prototypes against shots: the printed formula, known variances, classes held out by loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import solve_sylvester

from zonkey.core.fusion import (
    posterior_centers,
    prototype_error,
    prototype_worth,
    simulated_variances,
    within_class_variance,
    worth_of_shots,
)
from zonkey.core.moments import Moments
from zonkey.core.projection import NormalEquations, directed_projection

LARGEST = 1e6
SETTINGS = [("sample", 0.0), ("sample", 0.3), ("class", 0.0), ("class", 0.3), ("class", 1.0)]


def simulated_worth(moments, **options):
    """Return n0 if the shots say nothing, so that base classes decide."""
    nothing = np.empty((0, 1))
    of_base = simulated_variances(moments, **options)
    return worth_of_shots(nothing, nothing, np.empty(0), float("nan"), of_base)


class TestPosteriorCenters:
    @settings(deadline=None, max_examples=50)
    @given(
        seed=st.integers(0, 10**6),
        shots=st.lists(st.integers(0, 30), min_size=1, max_size=6),
        worth=st.sampled_from([0.0, 0.01, 1.0, 7.5, 1e6]),
    )
    def test_equal_the_printed_formula(self, seed, shots, worth):
        rng = np.random.default_rng(seed)
        prior, means = rng.normal(size=(2, len(shots), 4))
        centers = posterior_centers(prior, means, np.array(shots), worth)
        for j, K in enumerate(shots):
            weighted = K * means[j] + worth * prior[j]
            expected = weighted / (K + worth) if K + worth else prior[j]
            np.testing.assert_allclose(centers[j], expected, rtol=1e-12, atol=1e-14)

    @pytest.mark.parametrize(
        ("shots", "worth", "expected"),
        [(0, 3.0, [1, 2]), (0, 0.0, [1, 2]), (4, 0.0, [5, 10]), (1, 3.0, [2, 4]), (3, 1.0, [4, 8])],
    )
    def test_by_hand(self, shots, worth, expected):
        centers = posterior_centers(
            np.array([[1.0, 2.0]]), np.array([[5.0, 10.0]]), np.array([shots]), worth
        )
        np.testing.assert_array_equal(centers, [expected])

    @pytest.mark.parametrize("worth", [0, 0.1, 2.0, np.float64(2.0), LARGEST])
    def test_float32_stays_float32(self, worth):
        prior, means = np.random.default_rng(0).normal(size=(2, 4, 3))
        counts = np.array([0, 1, 5, 100])
        exact = posterior_centers(prior, means, counts, worth)
        single = posterior_centers(*(M.astype(np.float32) for M in (prior, means)), counts, worth)
        assert exact.dtype == np.float64
        assert single.dtype == np.float32
        np.testing.assert_allclose(single, exact, rtol=1e-5, atol=1e-6)

    def test_inputs_are_left_untouched(self):
        prior, means, counts = np.ones((2, 3)), np.zeros((2, 3)), np.array([0, 2])
        posterior_centers(prior, means, counts, 1.0)
        assert prior.all()
        assert not means.any()
        np.testing.assert_array_equal(counts, [0, 2])


class TestPrototypeWorth:
    @pytest.mark.parametrize(("tau2", "sigma2"), [(3.0, 12.0), (40.0, 5.0), (0.5, 0.5)])
    def test_known_variances_are_found(self, tau2, sigma2):
        """In many dimensions a squared distance is all but its mean."""
        rng = np.random.default_rng(1)
        d, counts = 4000, np.arange(40) % 9 + 2
        centers = rng.normal(size=(40, d))
        prior = centers + (tau2 / d) ** 0.5 * rng.normal(size=centers.shape)
        means, scatter = np.empty_like(centers), 0.0
        for j, K in enumerate(counts):
            shots = centers[j] + (sigma2 / d) ** 0.5 * rng.normal(size=(K, d))
            means[j] = sum(shots) / K
            scatter += sum(np.sum((x - means[j]) ** 2) for x in shots)
        found = within_class_variance(scatter, counts)
        assert found == pytest.approx(sigma2, rel=0.01)
        assert prototype_worth(prior, means, counts, found) == pytest.approx(
            sigma2 / tau2, rel=0.03
        )

    def test_equals_loops(self):
        rng = np.random.default_rng(2)
        prior, means = rng.normal(size=(2, 6, 5))
        counts = np.array([1, 2, 3, 50, 1, 7])
        tau2 = 0.0
        for j, K in enumerate(counts):
            tau2 += (sum((prior[j] - means[j]) ** 2) - 1.7 / K) / 6
        assert prototype_error(prior, means, counts, 1.7) == pytest.approx(tau2, rel=1e-12)
        worth = prototype_worth(prior, means, counts, 1.7)
        assert isinstance(worth, float)
        assert worth == pytest.approx(1.7 / tau2, rel=1e-12)

    @pytest.mark.parametrize(
        ("error", "sigma2"),
        [(0.0, 2.0), (0.1, 2.0), (0.0, 0.0)],
        ids=["exact", "less than by chance", "nothing differs"],
    )
    def test_is_capped_where_the_prototype_has_no_error(self, error, sigma2):
        means = np.random.default_rng(3).normal(size=(4, 5))
        assert prototype_worth(means + error, means, np.full(4, 3), sigma2) == LARGEST

    def test_a_ratio_beyond_the_cap_is_capped(self):
        means = np.zeros((2, 1))
        counts = np.full(2, 10**9)
        assert prototype_worth(means + 1.0, means, counts, 1e8) == LARGEST
        assert prototype_worth(means + 1.0, means, counts, 1e5) == pytest.approx(1e5, rel=1e-3)

    def test_samples_that_do_not_differ_need_no_prototype(self):
        assert prototype_worth(np.ones((2, 3)), np.zeros((2, 3)), np.array([1, 4]), 0.0) == 0.0


class TestWorthOfShots:
    # Squared distances of 4 and 9 from prototypes to means, of 2 shots and of 1.
    SHOTS = np.array([[2.0, 0.0], [0.0, 3.0]]), np.zeros((2, 2)), np.array([2, 1])
    UNKNOWN = float("nan")

    @pytest.mark.parametrize(
        ("sigma2", "of_base", "expected"),
        [
            (2.0, (50.0, 7.0), 2 / ((3 + 7 + 7) / 3)),  # the base is one more class
            (2.0, (50.0, -1.0), 2 / ((3 + 7 - 1) / 3)),
            (12.0, (50.0, 6.0), 12 / (6 / 3)),  # tau^2 of the shots is -2.5, so 0
            (12.0, (50.0, 0.0), LARGEST),
            (0.0, (50.0, 7.0), 0.0),
            (2.0, (UNKNOWN, UNKNOWN), 2 / 5),  # the shots alone
            (12.0, (50.0, UNKNOWN), LARGEST),
            (UNKNOWN, (50.0, 8.0), 50 / 8),  # the base alone
            (UNKNOWN, (50.0, -8.0), LARGEST),
            (UNKNOWN, (50.0, UNKNOWN), UNKNOWN),
            (UNKNOWN, (UNKNOWN, UNKNOWN), UNKNOWN),
        ],
    )
    def test_by_hand(self, sigma2, of_base, expected):
        worth = worth_of_shots(*self.SHOTS, sigma2, of_base)
        assert worth == pytest.approx(expected, rel=1e-12, nan_ok=True)


class TestWithinClassVariance:
    def test_by_hand(self):
        # Two classes: 1, 3, 5 around 3 and -1, 1 around 0; 5 samples less 2 means.
        assert within_class_variance(4 + 0 + 4 + 1 + 1, np.array([3, 2])) == pytest.approx(10 / 3)

    def test_single_samples_add_nothing(self):
        assert within_class_variance(6.0, np.array([1, 4, 1])) == 2.0

    @pytest.mark.parametrize("counts", [[1], [1, 1, 1], []])
    def test_is_not_known_without_two_samples_of_a_class(self, counts):
        assert np.isnan(within_class_variance(0.0, np.array(counts, int)))

    def test_is_not_negative_where_rounding_is(self):
        assert within_class_variance(-1e-15, np.array([2, 2])) == 0.0


def gathered(samples, Y):
    """Moments of samples by class, with prototypes of classes without samples in between."""
    prototypes = {2 * j: y for j, y in enumerate(Y)}
    prototypes |= {2 * j + 1: -y for j, y in enumerate(Y[:3])}
    moments = Moments(prototypes)
    for j, X in enumerate(samples):
        moments.update(X, [2 * j] * len(X))
    return moments


def drawn(seed, p, d=6, k=4, noise=0.5):
    """Samples of classes of different sizes around projected prototypes with an error."""
    rng = np.random.default_rng(seed)
    Y, W = rng.normal(size=(p, k)), rng.normal(size=(d, k))
    sizes = rng.integers(1, 9, size=p)
    sizes[0] = 5
    centers = Y @ W.T + 0.4 * rng.normal(size=(p, d))
    return [c + noise * rng.normal(size=(n, d)) for c, n in zip(centers, sizes, strict=True)], Y


def alike(seed, p):
    """Samples of classes that differ in mean and number of samples only."""
    rng = np.random.default_rng(seed)
    samples, Y = drawn(seed, p)
    deviations = rng.normal(size=(3, 6))
    deviations -= deviations.mean(axis=0)
    return [X.mean(axis=0) + np.tile(deviations, (len(X), 1)) for X in samples], Y


def folds_of(p):
    """At most ten parts of the classes in a drawn order, the larger ones first."""
    n = min(p, 10)
    order = np.random.default_rng(0).permutation(p).tolist()
    sizes = [p // n + (i < p % n) for i in range(n)]
    starts = [sum(sizes[:i]) for i in range(n)]
    return [order[a : a + size] for a, size in zip(starts, sizes, strict=True)]


def naive_variances(samples, prior):
    """sigma^2 and tau^2 from raw samples and the projected prototype of each class."""
    means = [sum(X) / len(X) for X in samples]
    scatter = sum(np.sum((x - m) ** 2) for X, m in zip(samples, means, strict=True) for x in X)
    sigma2 = scatter / sum(len(X) - 1 for X in samples)
    errors = [np.sum((prior[j] - m) ** 2) - sigma2 / len(samples[j]) for j, m in enumerate(means)]
    return sigma2, sum(errors) / len(errors)


def without(samples, Y, held, per, beta, forward):
    """W of all classes but some, of explicit moments with the scatter of all of them shared."""
    d, k = samples[0].shape[1], Y.shape[1]
    means = [sum(X) / len(X) for X in samples]
    pooled = np.zeros((d, d))
    for X, m in zip(samples, means, strict=True):
        for x in X:
            pooled += np.outer(x - m, x - m)
    pooled /= sum(len(X) for X in samples)
    A, B, C = np.zeros((d, d)), np.zeros((k, k)), np.zeros((d, k))
    for j, m in enumerate(means):
        if j not in held:
            weight = len(samples[j]) if per == "sample" else 1
            A += weight * (np.outer(m, m) + pooled)
            B += weight * np.outer(Y[j], Y[j])
            C += weight * np.outer(m, Y[j])
    left, right = A + beta * np.eye(d), B + beta * np.eye(k)
    return solve_sylvester(forward * left, (1 - forward) * right, C)


class TestSimulatedWorth:
    @pytest.mark.parametrize(("per", "forward"), SETTINGS)
    @pytest.mark.parametrize("p", [2, 7, 10, 23])
    @pytest.mark.parametrize("beta", [0.05, 3.0])
    def test_equals_leaving_classes_out_by_loops(self, per, forward, p, beta):
        samples, Y = drawn(p, p)
        prior = {}
        for held in folds_of(p):
            W = without(samples, Y, held, per, beta, forward)
            prior |= {j: W @ Y[j] for j in held}
        options = {"beta": beta, "forward": forward, "per": per}
        sigma2, tau2 = naive_variances(samples, prior)
        found = simulated_variances(gathered(samples, Y), **options)
        assert found == pytest.approx((sigma2, tau2), rel=1e-9)
        worth = simulated_worth(gathered(samples, Y), **options)
        assert 0 < worth < LARGEST
        assert worth == pytest.approx(sigma2 / tau2, rel=1e-9)

    @pytest.mark.parametrize(("per", "forward"), SETTINGS)
    def test_is_that_of_the_other_classes_alone_where_all_scatter_alike(self, per, forward):
        samples, Y = alike(30, 12)
        prior = {}
        for held in folds_of(12):
            kept = [j for j in range(12) if j not in held]
            moments = gathered([samples[j] for j in kept], Y[kept])
            equations = NormalEquations.of(moments, per)
            W = directed_projection(equations, 0.3, forward).value
            prior |= {j: W @ Y[j] for j in held}
        found = simulated_variances(gathered(samples, Y), beta=0.3, forward=forward, per=per)
        assert found == pytest.approx(naive_variances(samples, prior), rel=1e-9)

    def test_settings_matter(self):
        moments = gathered(*drawn(31, 12))
        found = {
            round(simulated_worth(moments, beta=0.3, forward=forward, per=per), 6)
            for per, forward in SETTINGS
        }
        assert len(found) == len(SETTINGS)

    def test_better_prototypes_are_worth_more(self):
        samples, Y = drawn(32, 40)
        options = {"beta": 0.1, "forward": 0.0, "per": "class"}
        blurred = Y + np.random.default_rng(0).normal(size=Y.shape)
        good, bad = (simulated_worth(gathered(samples, M), **options) for M in (Y, blurred))
        assert good > 2 * bad

    @pytest.mark.parametrize("per", ["sample", "class"])
    def test_exact_prototypes_are_worth_as_much_as_there_is(self, per):
        rng = np.random.default_rng(33)
        Y, W = rng.normal(size=(8, 3)), rng.normal(size=(5, 3))
        samples = [W @ y + np.outer([1, -1], rng.normal(size=5)) for y in Y]
        assert simulated_worth(gathered(samples, Y), beta=1e-9, forward=0.0, per=per) == LARGEST

    @pytest.mark.parametrize("forward", [0.0, 0.3])
    @pytest.mark.parametrize("size", [1, 5])
    def test_one_class_says_nothing(self, size, forward):
        X = np.random.default_rng(34).normal(size=(size, 4))
        options = {"beta": 0.1, "forward": forward, "per": "sample"}
        moments = gathered([X], np.ones((1, 2)))
        assert np.isnan(simulated_worth(moments, **options))
        sigma2 = np.var(X, axis=0, ddof=1).sum() if size > 1 else float("nan")
        expected = pytest.approx((sigma2, float("nan")), nan_ok=True)
        assert simulated_variances(moments, **options) == expected

    @pytest.mark.parametrize("forward", [0.0, 0.3])
    @pytest.mark.parametrize("p", [2, 12])
    def test_one_sample_a_class_says_nothing(self, p, forward):
        samples, Y = drawn(35, p)
        moments = gathered([X[:1] for X in samples], Y)
        assert np.isnan(simulated_worth(moments, beta=0.1, forward=forward, per="class"))

    def test_classes_that_were_taken_away_say_nothing(self):
        moments = gathered(*drawn(36, 3))
        nothing = moments - moments
        assert np.isnan(simulated_worth(nothing, beta=0.1, forward=0.3, per="class"))

    def test_moments_are_left_untouched(self):
        moments = gathered(*drawn(37, 5))
        kept = moments.A0.copy(), moments.class_sums.copy(), moments.counts.copy()
        simulated_worth(moments, beta=0.1, forward=0.3, per="class")
        simulated_worth(moments, beta=0.1, forward=0.3, per="sample")
        for got, expected in zip(
            (moments.A0, moments.class_sums, moments.counts), kept, strict=True
        ):
            np.testing.assert_array_equal(got, expected)
