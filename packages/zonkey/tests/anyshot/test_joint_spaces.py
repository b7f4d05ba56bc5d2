"""Joint spaces: priors as loops, what must not matter, and when a space is found to be joint."""

import math
import re

import numpy as np
import pytest
from joint_cases import JointWorld, accuracy, joint
from numpy.testing import assert_allclose, assert_array_equal
from reference_posterior import kernel_value, left_out_of_all, predicted, ridge_matrix, width
from sklearn.model_selection import cross_val_score

from zonkey import AnyShotClassifier, Chunks, Prototypes
from zonkey.anyshot.posterior import placed_scale, slope
from zonkey.anyshot.spaces import find_shift
from zonkey.anyshot.survey import KeptSamples
from zonkey.preprocessing import FeatureNormalizer, WithinClassWhitener

WORLD = JointWorld()
X, Y = WORLD.draw([1, 2, 3, 4, 5, 6, 3, 2])
X_NEW, Y_NEW = WORLD.draw(40)
NO_MAP = {"prototype_transformer": None}
FIXED = NO_MAP | {"gamma": 0.7, "ridge": 0.2, "seen_penalty": 0.6, "temperature": 0.3}
CENTERED = FeatureNormalizer(center=True)


def loop_scale(M, Q):
    along = sum(float(m @ q) for m, q in zip(M, Q, strict=True))
    return max(0.0, along / sum(float(q @ q) for q in Q))


def loop_trust(R, F):
    length = sum(float(f @ f) for f in F)
    share = sum(float(r @ f) for r, f in zip(R, F, strict=True)) / length if length else 0.0
    return min(1.0, max(0.0, share))


def naive_priors(model, X, y, *, judges):
    """Return the prior of each class with a prototype, and s q alone."""
    known, prepare = model.prototypes, model.state_.prepare
    counts = {j: int(np.sum(y == j)) for j in known}
    anchors = [j for j in known if counts[j]]
    total = sum(counts[j] for j in anchors)
    raw = sum(X[y == j].sum(axis=0) for j in anchors) / total
    shift = raw - sum(counts[j] * known[j] for j in anchors) / total
    q = {j: prepare((known[j] + shift)[None])[0] for j in known}
    M = np.stack([prepare(X[y == j]).mean(axis=0) for j in anchors])
    Q = np.stack([q[j] for j in anchors])
    s, kind = loop_scale(M, Q), model.best_params_["kernel"]
    gamma = width(np.stack(list(known.values())), kind, model.best_params_["gamma"])
    K = [[kernel_value(kind, known[a], known[b], gamma) for b in anchors] for a in anchors]
    K, R = np.array(K), M - s * Q
    n = [counts[j] for j in anchors]
    Lambda = ridge_matrix(K, n, model.best_params_["ridge"])
    found = np.stack([left_out_of_all(i, K, Lambda, R, n) for i in range(len(anchors))])
    found *= loop_trust(R, found) if judges else 1.0
    priors = {}
    for j in known:
        if j in anchors:
            priors[j] = s * q[j] + found[anchors.index(j)]
        else:
            k = np.array([kernel_value(kind, known[j], known[a], gamma) for a in anchors])
            priors[j] = s * q[j] + predicted(k, K, Lambda, R)
    return priors


@pytest.mark.parametrize("preprocessing", [None, CENTERED], ids=["raw", "centered"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("worth", [2.5, "auto"])
@pytest.mark.parametrize("case", ["all", "some unseen", "one undescribed"])
def test_centers_are_those_of_the_formulas(preprocessing, kernel, worth, case):
    prototypes = {j: v for j, v in WORLD.prototypes.items() if (case, j) != ("one undescribed", 3)}
    rows = ~np.isin(Y, [1, 6]) if case == "some unseen" else np.ones(len(Y), bool)
    given = FIXED | {"preprocessing": preprocessing, "kernel": kernel, "worth": worth}
    model = joint(prototypes, **given).fit(X[rows], Y[rows])
    judges = case != "some unseen" and worth == "auto"
    priors = naive_priors(model, X[rows], Y[rows], judges=judges)
    state, n0 = model.state_, model.worth_
    found, Z = state.find_priors(), state.prepare(X[rows])
    for place, label in enumerate(state.evidence.labels):
        samples = Z[Y[rows] == label]
        total = samples.sum(axis=0)
        wanted = total / max(1, len(samples))
        if label in priors:
            assert_allclose(found[place], priors[label], atol=1e-10)
            wanted = (n0 * priors[label] + total) / (n0 + len(samples))
        if label not in priors:  # as long as the others
            known = [
                c for c, j in zip(state.centers, state.evidence.labels, strict=True) if j in priors
            ]
            usual = sum(float(c @ c) for c in known) / len(known)
            wanted *= min(1.0, math.sqrt(usual / float(wanted @ wanted)))
        assert_allclose(state.centers[place], wanted, atol=1e-10)
    unseen = [j for j in prototypes if j not in Y[rows]]
    if unseen:
        projected = model.project({j: prototypes[j] for j in unseen})
        assert_allclose(projected, [priors[j] for j in unseen], atol=1e-10)


@pytest.mark.parametrize("sign", [-1, 1])
def test_scale_and_trust(sign):
    rng = np.random.default_rng(2)
    Q = rng.normal(size=(6, 4))
    M, out = sign * 0.4 * Q + 0.1 * rng.normal(size=(6, 4)), np.array([0, 1, 0, 0, 1, 0], bool)
    assert placed_scale(M, Q, out) == pytest.approx(loop_scale(M[~out], Q[~out]))
    for F in (Q, 0.1 * Q, 0 * Q):
        assert slope(M, F) == pytest.approx(loop_trust(M, F))


# What must not matter.


def same(model, expected):
    assert_allclose(model.predict_proba(X_NEW), expected.predict_proba(X_NEW), atol=1e-5)
    assert model.worth_ == pytest.approx(expected.worth_, rel=1e-4)


def nearly(model, expected, exactly, shift=0.0, digits=1e-5):
    found, wanted = model.predict_proba(X_NEW + shift), expected.predict_proba(X_NEW)
    assert_allclose(found, wanted, atol=digits if exactly else 0.8)
    assert accuracy(model, X_NEW + shift, Y_NEW) > accuracy(expected, X_NEW, Y_NEW) - 0.1


@pytest.fixture(scope="module", params=["shots", "single", "unseen", "names", "unlabeled"])
def case(request):
    """Return a fit to these samples, which may be moved, with these prototypes."""
    kind, rng = request.param, np.random.default_rng(3)
    X_own, y_own = WORLD.draw(1) if kind == "single" else (X, Y)
    if kind == "unseen":
        X_own, y_own = X_own[y_own != 2], y_own[y_own != 2]

    def fit(prototypes=WORLD.prototypes, shift=0.0, dtype=float, order=None):
        rows = slice(None) if order is None else rng.permutation(len(y_own))
        given = FIXED | {"kernel": "linear", "worth": 2.0}
        given |= {"preprocessing": CENTERED, "prototype_transformer": CENTERED}
        model = joint(prototypes, **(given if kind == "unseen" else {}))
        X_in = (X_own[rows] + shift).astype(dtype)
        if kind in ("names", "unlabeled"):
            return model.fit(*(() if kind == "names" else (X_in,)))
        return model.fit(X_in, y_own[rows])

    return kind, fit


def test_gap_scale_and_order_do_not_matter(case):
    kind, fit = case
    expected, gap = fit(), np.linspace(-4, 4, 12)
    same(fit(order=0), expected)
    same(fit(dict(reversed(WORLD.prototypes.items()))), expected)
    if kind != "names":  # without any sample nothing tells the gap
        same(fit({j: v + gap for j, v in WORLD.prototypes.items()}), expected)
        # Folds follow a hash of the values of samples, so that others are left out.
        nearly(fit(shift=gap), expected, kind != "shots", shift=gap)
    if kind != "unseen":  # there, prototypes lie around another point than samples
        # So they do in folds.
        nearly(fit({j: 3 * v for j, v in WORLD.prototypes.items()}), expected, kind != "shots")
    nearly(fit(dtype=np.float32), expected, kind != "shots", digits=2e-3)


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("given", [WORLD.prototypes, None], ids=["joint", "none"])
def test_weights_count_as_copies(given, n):
    X, y = JointWorld().draw(n)
    again = np.where(y % 2, 2, 1)
    model = AnyShotClassifier(given, space="auto" if given is None else "joint")
    expected = model.fit(np.repeat(X, again, axis=0), np.repeat(y, again)).predict_proba(X_NEW)
    assert_allclose(model.fit(X, y, again).predict_proba(X_NEW), expected, atol=1e-5)


def test_chunks_give_the_fit_in_memory():
    cut = [(X[:9], Y[:9]), (X[9:10], Y[9:10]), (X[10:], Y[10:])]
    same(joint(WORLD.prototypes).fit(Chunks(cut)), joint(WORLD.prototypes).fit(X, Y))


# When a space is joint.


@pytest.mark.parametrize("n", [1, 5])
def test_related_vectors_are_found_and_others_not(n):
    for seed in range(6):
        world = JointWorld(seed, n_classes=16)
        noise = world.rng.normal(size=world.vectors.shape)
        wider = np.hstack([world.vectors, noise])
        X, y = world.draw(n)
        kept = KeptSamples.choose(X, y, np.arange(16), 0)
        for V, is_found in ((world.vectors, True), (noise, False), (wider, False)):
            prototypes = Prototypes.coerce(dict(enumerate(V)))
            assert (find_shift("auto", kept, prototypes, np.arange(16)) is not None) == is_found


def test_which_models_are_joint():
    world = JointWorld(1, n_classes=16)
    X, y = world.draw(5, np.arange(12))
    noise = dict(enumerate(world.rng.normal(size=world.vectors.shape)))
    for prototypes, parameters, is_joint in (
        (world.prototypes, {}, True),
        (noise, {}, False),
        (world.prototypes, {"space": "separate"}, False),
        (world.prototypes, {"transfer": True}, False),
    ):
        given = FIXED | {"kernel": "linear", "worth": 2.0, "preprocessing": None} | parameters
        model = AnyShotClassifier(prototypes, **given).fit(X, y)
        assert (model.state_.shift is not None) == is_joint


@pytest.mark.parametrize(
    ("prototypes", "parameters", "message"),
    [
        (None, {}, 'space="joint" needs prototypes, .*; got none'),
        ({j: v[:7] for j, v in WORLD.prototypes.items()}, {}, "12 features .*; got 7 dim"),
        (WORLD.prototypes, {"transfer": True}, re.escape('"joint" and transfer=True')),
        (dict(enumerate(np.eye(8))), {"kernel": "precomputed"}, 'kernel="precomputed"'),
    ],
)
def test_what_is_not_joint_is_refused(prototypes, parameters, message):
    model = joint(prototypes, **parameters)
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y)
    if prototypes is None or parameters:
        with pytest.raises(ValueError, match='"joint"'):
            model.fit()
    if not parameters:
        with pytest.raises(ValueError, match='space="joint" needs prototypes'):
            model.fit(X)


def test_labels_may_be_missing_only_without_weights_in_a_joint_space():
    for model, options in (
        (joint(WORLD.prototypes), {"sample_weight": np.ones(len(X))}),
        (AnyShotClassifier(WORLD.prototypes), {}),
    ):
        with pytest.raises(ValueError, match="requires y"):
            model.fit(X, **options)


def test_cross_validation():
    X, y = JointWorld().draw(9)
    model = joint(WORLD.prototypes, **FIXED, worth=2.0)
    assert cross_val_score(model, X, y, cv=3).mean() > 0.6


# Names alone.


@pytest.mark.parametrize("scale", [1, 10])
def test_names_alone_predict_as_the_cosine(scale):
    vectors = scale * WORLD.vectors
    model, rows = joint(dict(enumerate(vectors))).fit(), scale * X_NEW
    cosines = rows @ vectors.T / np.linalg.norm(vectors, axis=1)
    assert_array_equal(model.predict(rows), np.argmax(cosines, axis=1))
    moved = joint(dict(enumerate(vectors))).fit(rows)
    around = vectors - vectors.mean(axis=0)
    cosines = (rows - rows.mean(axis=0)) @ around.T / np.linalg.norm(around, axis=1)
    assert_array_equal(moved.predict(rows), np.argmax(cosines, axis=1))
    assert accuracy(moved, rows, Y_NEW) > accuracy(model, rows, Y_NEW)
    raw = joint(dict(enumerate(vectors)), preprocessing=None).fit(rows)
    unscaled = joint(WORLD.prototypes, preprocessing=None).fit(X_NEW)
    assert_allclose(raw.predict_proba(rows), unscaled.predict_proba(X_NEW), atol=1e-9)


def test_names_alone_adapt_to_unlabeled_samples():
    world = JointWorld(2, n_classes=5, d=20)
    X, y = world.draw(60)
    names = joint(world.prototypes).fit()
    start = joint(world.prototypes).fit(X)
    for model in (names, start):
        adapted = model.adapt(X)
        assert adapted.is_transductive_
        assert accuracy(adapted, X, y) >= accuracy(start, X, y)
    assert not names.is_transductive_


def test_names_alone_keep_what_the_user_gave():
    given = {"worth": 3.0, "temperature": 0.2, "seen_penalty": 0.0, "ridge": 0.7}
    model = joint(WORLD.prototypes, **given).fit(X_NEW)
    found = model.partial_fit(X, Y).best_params_
    assert {name: found[name] for name in given} == given
    with pytest.raises(ValueError, match="requires y"):
        joint(WORLD.prototypes, preprocessing=WithinClassWhitener()).fit(X_NEW)
