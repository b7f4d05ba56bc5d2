"""Low-rank forms of episodes against sums over their samples, with the error they claim."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zonkey.bpl.episodes import EpisodeSpan


def drawn(seed=0, *, T=2, E=3, n_u=3, q=2, d=14, n=12, noise=1e-6):
    """Return samples near the span of support sets and centers, both of these, and weights."""
    rng = np.random.default_rng(seed)
    X_u, centers = rng.normal(size=(T, n_u, d)), rng.normal(size=(T, q, d))
    shares = rng.normal(size=(T, E, n, n_u + q))
    X = shares @ np.concatenate([X_u, centers], axis=1)[:, None]
    X = X + noise * rng.normal(size=X.shape)
    return X, X_u, centers, rng.uniform(0, 2, size=(T, E, n))


def summed(X, weights, scale=1.0):
    """scale X' diag(weights) X of every episode, sample by sample."""
    T, E, n, d = X.shape
    sums = np.zeros((T, E, d, d))
    for t, h, i in np.ndindex(T, E, n):
        sums[t, h] += scale * weights[t, h, i] * np.outer(X[t, h, i], X[t, h, i])
    return sums


def formed(G, w):
    return (G * w[..., None, :]) @ np.swapaxes(G, -1, -2)


def norms(M):
    return np.linalg.norm(M, ord=2, axis=(-2, -1))


@given(
    seed=st.integers(0, 2**32 - 1),
    noise=st.sampled_from([0.0, 1e-9, 1e-5, 1e-2, 1.0]),
    n_u=st.integers(1, 4),
    q=st.integers(1, 3),
    scale=st.floats(0.01, 3),
    level=st.sampled_from([1e-14, 1e-9, 1e-4, 1.0]),
)
@settings(deadline=None, max_examples=60)
def test_an_update_is_within_the_level_asked_for(seed, noise, n_u, q, scale, level):
    X, X_u, centers, weights = drawn(seed, n_u=n_u, q=q, noise=noise)
    span = EpisodeSpan(X, X_u, centers)
    G, w = span.update(weights, scale, level)
    expected = summed(X, weights, scale)
    rounding = 1e-13 * norms(expected).max()
    assert norms(formed(G, w) - expected).max() <= level + rounding
    assert (w >= 0).all()
    if G.shape[-1] == X.shape[2]:  # all samples
        np.testing.assert_array_equal(G, np.swapaxes(X, -1, -2))
        np.testing.assert_allclose(w, scale * weights, rtol=1e-15)


@given(
    seed=st.integers(0, 2**32 - 1),
    noise=st.floats(-12, 0),
    faint=st.floats(-12, 0),
    dead=st.integers(0, 11),
)
@settings(deadline=None, max_examples=60)
def test_the_measured_error_bounds_what_is_left_out(seed, noise, faint, dead):
    """Also where samples hardly have a share of a direction, or where some have no weight."""
    X, X_u, centers, weights = drawn(seed, T=1, E=1, noise=10.0**noise)
    X[..., 3:, :] -= (1 - 10.0**faint) * (X[..., 3:, :] @ X_u[0, 0])[..., None] * X_u[0, 0]
    weights[..., :dead] = 0
    known = EpisodeSpan(X, X_u, centers)._factors(weights)
    expected = summed(X, weights)
    left = norms(expected - formed(known.G, np.ones(known.G.shape[:2] + known.G.shape[3:])))
    assert left.max() <= known.left_out + 1e-13 * norms(expected).max()
    # No more than the bound by the trace of a power allows.
    assert known.left_out <= len(weights[0, 0]) ** 0.25 * left.max() + 1e-13 * norms(expected).max()


@pytest.mark.parametrize(("noise", "order"), [(1e-3, 1e-5), (1e-5, 1e-9)])
def test_what_is_left_out_is_of_second_order(noise, order):
    X, X_u, centers, weights = drawn(1, noise=noise)
    left_out = EpisodeSpan(X, X_u, centers)._factors(weights).left_out
    assert 1e-3 * order < left_out < 100 * order


@pytest.mark.parametrize("T", [1, 3])
def test_the_common_part_is_that_of_the_mean_without_noise(T):
    X, X_u, centers, weights = drawn(2, T=T, E=4, noise=0.0)
    common = EpisodeSpan(X, X_u, centers).common(weights)
    mean = summed(X, weights).mean(axis=1)
    assert common.shape == (T, 14, 5)
    np.testing.assert_allclose(formed(common, np.ones((T, 5))), mean, rtol=0, atol=1e-10)


def test_weights_that_change_are_noticed_and_equal_ones_kept():
    X, X_u, centers, weights = drawn(3)
    span = EpisodeSpan(X, X_u, centers)
    first, _ = span.update(weights, 0.5, 1e-3)
    again, w = span.update(weights * (1 + 1e-16), 0.7, 1e-3)
    assert again is first
    np.testing.assert_array_equal(w, np.full((2, 3, 5), 0.7))
    for changed in (1.1 * weights, np.where(np.arange(12) == 5, 0.3, weights)):
        G, w = span.update(changed, 0.7, 1e-3)
        assert G is not first
        np.testing.assert_allclose(formed(G, w), summed(X, changed, 0.7), rtol=0, atol=1e-9)
        common = span.common(changed)
        fresh = EpisodeSpan(X, X_u, centers).common(changed)
        np.testing.assert_array_equal(common, fresh)


@pytest.mark.parametrize(
    ("shape", "short"),
    [
        ({"n": 10, "d": 14}, True),
        ({"n": 9, "d": 14}, False),
        ({"n": 20, "d": 10}, True),
        ({"n": 20, "d": 9}, False),
        ({"n": 0, "d": 14}, False),
    ],
)
def test_more_directions_than_half_of_samples_or_features_are_not_few(shape, short):
    X, X_u, centers, weights = drawn(4, **shape, noise=0.0)
    span = EpisodeSpan(X, X_u, centers)
    assert span.is_short is short
    G, w = span.update(weights, 0.4, 1e-6)
    assert G.shape[-1] == (5 if short else shape["n"])
    np.testing.assert_allclose(formed(G, w), summed(X, weights, 0.4), rtol=0, atol=1e-10)
    assert (span.common(weights) is None) is not short


@pytest.mark.parametrize(("E", "shared"), [(1, False), (2, True)])
def test_an_inverse_is_shared_by_enough_episodes_only(E, shared):
    # 25 directions of 100 features cost 25 + 12.5 steps; a shared inverse saves 32 an episode.
    X, X_u, centers, weights = drawn(5, T=1, E=E, n_u=20, q=5, d=100, n=60)
    assert (EpisodeSpan(X, X_u, centers).common(weights) is not None) is shared


@pytest.mark.parametrize("nothing", ["samples", "weights", "span", "second samples"])
def test_zeros_and_repeated_samples_are_no_trouble(nothing):
    X, X_u, centers, weights = drawn(6, noise=0.0)
    if nothing == "samples":
        X = 0 * X
    if nothing == "weights":
        weights = 0 * weights
    if nothing == "span":
        X_u, centers = 0 * X_u, 0 * centers
    if nothing == "second samples":
        X_u[:, 1] = X_u[:, 0]
        centers[:, 1] = 2 * centers[:, 0]
        X = X[..., :3] @ np.ones((3, 1)) * X_u[:, None, :1] + centers[:, None, :1]
    span = EpisodeSpan(X, X_u, centers)
    G, w = span.update(weights, 0.5, 1e-6)
    assert np.isfinite(G).all()
    assert np.isfinite(span.common(weights)).all()
    np.testing.assert_allclose(formed(G, w), summed(X, weights, 0.5), rtol=0, atol=1e-9)
