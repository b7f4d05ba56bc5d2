"""Semantic feature synthesis: every sample traced back to a raw one, every count counted."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import generate

from zonkey.bpl.synthesis import (
    perturb,
    raw_material,
    synthesize,
)


def material(seed=0, *, d=6, k=4, p=5, q=3, n=12):
    rng = np.random.default_rng(seed)
    W, Y_u, Y_s = (rng.normal(size=shape) for shape in ((d, k), (q, k), (p, k)))
    return W, Y_u, Y_s, [rng.normal(size=(n, d)) for _ in range(p)]


def run(parts, *, seed=0, **options):
    defaults = {"rho": 0.5, "n_neighbors": 3, "n_synthetic": 15}
    return synthesize(*parts, **(defaults | options), rng=np.random.default_rng(seed))


def naive_neighbors(Y_u, Y_s, k_g):
    """k_g nearest seen classes of each unseen one, by distances computed one by one."""
    return [sorted(range(len(Y_s)), key=lambda j: sum((y - Y_s[j]) ** 2))[:k_g] for y in Y_u]


def drawn_rows(parts, made, *, rho, divided=True):
    """Undo Eq. 1 (generate): the position, in its source class, of the row behind every sample."""
    W, Y_u, Y_s, samples = parts
    rows = []
    for x_g, j, source in zip(made.features, made.targets, made.sources, strict=True):
        candidates = [
            generate(x, W, Y_u[j], Y_s[source], rho, divided=divided) for x in samples[source]
        ]
        fits = [i for i, x in enumerate(candidates) if np.allclose(x, x_g, rtol=0, atol=1e-12)]
        assert len(fits) == 1, "a synthesized sample is no perturbed row of its source class"
        rows.append(fits[0])
    return rows


@pytest.mark.parametrize("per", ["class", "neighbor"])
@pytest.mark.parametrize("scaling", ["squared-norm", None])
def test_raw_material_serves_any_projection(per, scaling):
    W, Y_u, Y_s, samples = parts = material(11)
    counts = {"n_neighbors": 2, "n_synthetic": 7, "per": per}
    raw = raw_material(Y_u, Y_s, samples, **counts, rng=np.random.default_rng(4))
    neighbors = naive_neighbors(Y_u, Y_s, 2)
    for x, j, source in zip(raw.features, raw.targets, raw.sources, strict=True):
        assert source in neighbors[j]
        assert (samples[source] == x).all(axis=1).sum() == 1
    before = raw.features.copy()
    for other, rho in ((W, 0.3), (-2 * W, 5.0), (0 * W, 0.3)):
        made = perturb(raw, other, Y_u, Y_s, rho=rho, scaling=scaling)
        for x_g, x, j, source in zip(
            made.features, raw.features, made.targets, made.sources, strict=True
        ):
            divided = scaling is not None
            expected = x
            if other.any():
                expected = generate(x, other, Y_u[j], Y_s[source], rho, divided=divided)
            np.testing.assert_allclose(x_g, expected, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(raw.features, before)
    # Both steps at once draw the same.
    made = perturb(raw, W, Y_u, Y_s, rho=0.5, scaling=scaling)
    at_once = run(parts, seed=4, scaling=scaling, **counts)
    for name in ("features", "targets", "sources"):
        np.testing.assert_array_equal(getattr(made, name), getattr(at_once, name))


@pytest.mark.parametrize("size", [1, 10, 30])
def test_samples_are_moved_in_blocks(monkeypatch, size):
    parts = material(17)
    expected = run(parts)
    monkeypatch.setenv("ZONKEY_WORKING_MEMORY", str(size / 2**12))
    np.testing.assert_allclose(run(parts).features, expected.features, rtol=0, atol=1e-14)


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    d=st.integers(1, 6),
    k=st.integers(1, 4),
    p=st.integers(1, 5),
    q=st.integers(1, 4),
    n=st.integers(1, 12),
    n_neighbors=st.integers(1, 7),
    n_synthetic=st.integers(1, 9),
    per=st.sampled_from(["class", "neighbor"]),
)
def test_sources_targets_and_counts_for_any_shape(
    seed, d, k, p, q, n, n_neighbors, n_synthetic, per
):
    parts = material(seed, d=d, k=k, p=p, q=q, n=n)
    made = run(parts, n_neighbors=n_neighbors, n_synthetic=n_synthetic, per=per)
    k_g = min(n_neighbors, p)
    in_all = n_synthetic * (q if per == "class" else q * k_g)
    assert made.features.shape == (in_all, d)
    assert made.targets.shape == made.sources.shape == (in_all,)
    expected = Counter()
    for j, neighbors in enumerate(naive_neighbors(parts[1], parts[2], k_g)):
        for rank, source in enumerate(neighbors):
            share = n_synthetic // k_g + (rank < n_synthetic % k_g)
            expected[j, source] = n_synthetic if per == "neighbor" else share
    pairs = zip(made.targets.tolist(), made.sources.tolist(), strict=True)
    assert Counter(pairs) == +expected
    rows = drawn_rows(parts, made, rho=0.5)
    # Every sample is used equally often, up to one.
    for (j, source), number in expected.items():
        here = (made.targets == j) & (made.sources == source)
        uses = np.bincount(np.array(rows, int)[here], minlength=n)
        assert uses.sum() == number
        assert uses.max() - uses.min() <= 1


def test_neighbors_at_the_same_distance_come_in_their_own_order():
    W, Y_u, _, samples = material(3)
    made = run((W, Y_u, np.ones((5, 4)), samples), n_neighbors=2, n_synthetic=3)
    assert Counter(made.sources.tolist()) == {0: 6, 1: 3}


def test_no_samples_asked_for_gives_none():
    made = run(material(13), n_synthetic=0)
    assert made.features.shape == (0, 6)
    assert made.targets.shape == made.sources.shape == (0,)
    assert made.targets.dtype == made.sources.dtype == np.int64


def test_float32_is_kept_whatever_the_dtype_of_the_raw_samples():
    W, Y_u, Y_s, samples = material(16)
    exact = run((W, Y_u, Y_s, samples))
    single = tuple(M.astype(np.float32) for M in (W, Y_u, Y_s))
    for raw in (np.float32, np.float64):
        made = run((*single, [M.astype(raw) for M in samples]))
        assert made.features.dtype == np.float32
        np.testing.assert_array_equal(made.sources, exact.sources)
        np.testing.assert_allclose(made.features, exact.features, atol=1e-5)
