"""Few-shot systems on frozen features that came after the paper: formulas by loops, contracts."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from peer_cases import BASE, TEXTS, P
from sklearn.linear_model import LogisticRegression

from zonkey.testing import shots_problem
from zonkey_lab.peers.base import sort_samples
from zonkey_lab.peers.fsl import (
    BaseSamples,
    DistributionCalibration,
    GaussianDiscriminant,
    LPPlusPlus,
    SimpleShot,
    TipAdapter,
)
from zonkey_lab.peers.fsl.base import Support
from zonkey_lab.peers.fsl.distribution_calibration import _deviations, _statistics
from zonkey_lab.peers.fsl.texts import text_classifier

JOINT = shots_problem(n_features=5, n_attributes=5)  # texts in the space of features


def unit(x, base: BaseSamples | None = BASE):
    """Return a feature less the mean of base samples, of length 1."""
    x = np.asarray(x, dtype=float) - (0 if base is None else sum(base.X) / len(base.X))
    return x / math.sqrt(sum(a * a for a in x))


def support_of(p, base):
    return Support(*sort_samples(p.X_support, p.y_support), 0, base)


def mapped_texts(ridge):
    """Return texts in the feature space: class means regressed on prototypes, with intercept."""
    Y = np.stack([P.prototypes[label] for label in BASE.classes])
    M = np.stack([np.mean([unit(x) for x in P.X_base[P.y_base == c]], 0) for c in BASE.classes])
    left_out = 0.0
    for j in range(len(Y)):
        rest = np.arange(len(Y)) != j
        fitted = regressed(Y[rest], M[rest], ridge)
        left_out += np.square(fitted(Y[j]) - M[j]).sum()
    fitted = regressed(Y, M, ridge)
    return left_out, np.stack([fitted(P.prototypes[c]) for c in np.unique(P.y_support)])


def regressed(Y, M, ridge):
    origin, mean = Y.mean(axis=0), M.mean(axis=0)
    Yc = Y - origin
    W = np.linalg.solve(Yc.T @ Yc + ridge * np.eye(Y.shape[1]), Yc.T @ (M - mean))
    return lambda y: (y - origin) @ W + mean


def test_texts_are_mapped_by_the_ridge_that_predicts_left_out_classes_best():
    Y = np.stack([P.prototypes[label] for label in BASE.classes])
    scale = np.mean([np.sum((y - Y.mean(axis=0)) ** 2) for y in Y])
    errors = {ridge: mapped_texts(scale * ridge) for ridge in 10.0 ** np.arange(-3, 4)}
    _, T = min(errors.values(), key=lambda found: found[0])
    expected = [t / np.linalg.norm(t) for t in T]
    assert_allclose(text_classifier(P.prototypes, support_of(P, BASE)), expected, rtol=1e-7)


def test_texts_of_a_joint_space_are_not_mapped():
    novel = {label: v for label, v in JOINT.prototypes.items() if label.startswith("novel")}
    expected = [v / np.linalg.norm(v) for v in novel.values()]
    for base in (None, BaseSamples(JOINT.X_base, JOINT.y_base)):
        assert_allclose(text_classifier(novel, support_of(JOINT, base)), expected)
    mapped = text_classifier(JOINT.prototypes, support_of(JOINT, base))
    assert np.abs(mapped - expected).max() > 0.1


def test_texts_that_cannot_be_mapped_are_refused():
    novel = {label: v for label, v in P.prototypes.items() if label.startswith("novel")}
    for base in (None, BASE):
        with pytest.raises(ValueError, match=r"10 dimensions of the features .* got 5\. Pass"):
            P.fit_clone(TipAdapter(novel, base))
    with pytest.raises(ValueError, match="No prototype for the class 'novel 00'"):
        P.fit_clone(TipAdapter({"novel 01": [1.0] * 10}))


@pytest.mark.parametrize("estimator", TEXTS, ids=lambda model: type(model).__name__)
def test_texts_decide_between_samples_that_say_nothing(estimator):
    # All shots are equal: texts alone can tell the classes apart.
    label = np.unique(P.y_support)
    X = np.tile(P.X_support[:1], (len(label), 1))
    model = P.make_clone(estimator).fit(X, label)
    assert model.score(P.X_query, P.y_query) > 0.6
    model = P.make_clone(estimator, prototypes=None).fit(X, label)
    assert model.score(P.X_query, P.y_query) <= 0.26


def test_tip_adapter_by_loops():
    X, y = P.X_support[1:], P.y_support[1:]  # one class has a shot less
    model = TipAdapter(P.prototypes, BASE, alpha=40.0, beta=2.0).fit(X, y)
    T = text_classifier(P.prototypes, support_of(P, BASE))
    n = len(y) / len(T)
    expected = np.zeros((len(P.X_query), len(T)))
    for i, x in enumerate(P.X_query):
        for k, label in enumerate(model.classes_):
            own = X[y == label]
            cache = n * sum(math.exp(-2.0 * (1 - unit(x) @ unit(f))) for f in own) / len(own)
            expected[i, k] = 100 * unit(x) @ T[k] + 40.0 * cache
    assert_allclose(model.decision_function(P.X_query), expected, rtol=1e-9)


def test_tip_adapter_finds_classes_of_two_modes():
    # The mean of each class is that of the other; only single samples tell them apart.
    X = np.array([[1, 0.1], [-1, -0.1], [0.1, 1], [-0.1, -1]])
    y = ["flat", "flat", "steep", "steep"]
    assert TipAdapter(beta=9.0).fit(X, y).score(2 * X + 0.3, y) == 1
    assert GaussianDiscriminant().fit(X, y).score(2 * X + 0.3, y) < 1


@pytest.mark.parametrize("base", [BASE, None])
@pytest.mark.parametrize("shrinkage", [0.3, None])
def test_gaussian_discriminant_by_loops(base, shrinkage):
    texts = P.prototypes if base is not None else None
    model = P.fit_clone(GaussianDiscriminant(texts, base, alpha=0.4, shrinkage=shrinkage))
    d, labels = P.X_support.shape[1], model.classes_
    groups = [[unit(x, base) for x in P.X_support[P.y_support == label]] for label in labels]
    means = [sum(group) / len(group) for group in groups]
    if base is not None:
        groups = groups + [[unit(x) for x in P.X_base[P.y_base == c]] for c in base.classes]
    S = np.zeros((d, d))
    for group in groups:
        for x in group:
            S += np.outer(x - sum(group) / len(group), x - sum(group) / len(group))
    S /= sum(map(len, groups)) - 1
    n = len(P.X_support)
    if shrinkage is None:  # the estimator as printed, up to a factor of the precision
        ratio = (1 - d / (n - 1 + d)) / (n - 1)
        precision = np.linalg.inv(ratio * ((n - 1) * S + np.trace(S) * np.eye(d)))
    else:
        precision = np.linalg.inv(0.7 * S + 0.3 * np.trace(S) / d * np.eye(d))
    T = text_classifier(texts, support_of(P, base))
    expected = np.zeros((len(P.X_query), len(labels)))
    for i, x in enumerate(P.X_query):
        for k, m in enumerate(means):
            score = unit(x, base) @ precision @ m - m @ precision @ m / 2
            expected[i, k] = 100 * unit(x, base) @ T[k] + 0.4 * score
    assert_allclose(model.decision_function(P.X_query), expected, rtol=1e-8, atol=1e-8)


def test_gaussian_discriminant_knows_noisy_directions_from_base_samples():
    # Feature 0 is noise in base classes, features 1 and 2 tell classes apart.
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(40, 1)) * [1.0, 0, 0]
    means = np.repeat([[0, 1, 0], [0, 0, 1], [0, -1, 0], [0, 0, -1]], 10, axis=0)
    base = BaseSamples(noise + means + 0.01 * rng.normal(size=(40, 3)), np.repeat([0, 1, 2, 3], 10))
    shots, queries = [[1, 0.8, 0.1], [-1, 0.1, 0.8]], [[-2, 1.6, 0.1], [2, 0.1, 1.6]]
    found = GaussianDiscriminant(None, base, shrinkage=0.01).fit(shots, [8, 9]).predict(queries)
    assert_array_equal(found, [8, 9])
    assert_array_equal(SimpleShot(base).fit(shots, [8, 9]).predict(queries), [9, 8])


def test_gaussian_discriminant_of_one_shot_without_base_is_the_nearest_mean():
    label = np.unique(P.y_support)
    X = np.stack([P.X_support[P.y_support == c][0] for c in label])
    model = GaussianDiscriminant(alpha=1.0).fit(X, label)
    units = np.stack([unit(x, None) for x in X])
    assert_allclose(model.coef_, 10 * units)
    assert_allclose(model.intercept_, -5.0)


def probe_loss(W, alpha, F, T, codes):
    loss = 0.0
    for f, own in zip(F, codes, strict=True):
        logits = [f @ (w + a * t) for w, a, t in zip(W, alpha, T, strict=True)]
        loss -= logits[own] - math.log(sum(map(math.exp, logits)))
    return loss / len(F)


def test_linear_probe_by_finite_differences_and_full_matrices():
    s = support_of(P, BASE)
    F, T = np.stack([unit(x) for x in s.X]), text_classifier(P.prototypes, s)
    W = np.stack([F[s.codes == k].mean(axis=0) for k in range(s.n_classes)])
    alpha = np.full(len(T), 7.0 * np.mean([f @ T[k] for f, k in zip(F, s.codes, strict=True)]))
    step_w = 2 * len(F) / np.linalg.eigvalsh(F.T @ F)[-1]
    step_alpha = np.array([2 * len(F) / sum((f @ t) ** 2 for f in F) for t in T])

    def gradient(values, loss):
        found = np.zeros_like(values)
        for place in np.ndindex(values.shape):
            step = np.zeros_like(values)
            step[place] = 1e-5
            found[place] = (loss(values + step) - loss(values - step)) / 2e-5
        return found

    for number in range(1, 12):
        W = W - step_w * gradient(W, lambda V, a=alpha: probe_loss(V, a, F, T, s.codes))
        if number == 10:
            alpha = alpha - step_alpha * gradient(
                alpha, lambda a, V=W: probe_loss(V, a, F, T, s.codes)
            )
    model = P.fit_clone(LPPlusPlus(P.prototypes, BASE, text_scale=7.0, n_steps=11))
    assert_allclose(model.alpha_, alpha, rtol=1e-6)
    assert_allclose(model.coef_, W + alpha[:, None] * T, rtol=1e-5, atol=1e-6)
    assert model.loss_ == pytest.approx(probe_loss(W, alpha, F, T, s.codes), rel=1e-6)


def test_linear_probe_never_raises_the_loss():
    losses = [
        P.fit_clone(LPPlusPlus(P.prototypes, BASE, text_scale=40.0, n_steps=n)).loss_
        for n in (*range(1, 25), 200)
    ]
    assert (np.diff(losses) < 0).all()


def test_linear_probe_lowers_the_multiplier_of_a_wrong_text():
    wrong = dict(P.prototypes)
    wrong["novel 00"], wrong["novel 01"] = wrong["novel 01"], wrong["novel 00"]
    model = P.fit_clone(LPPlusPlus(wrong, BASE, text_scale=20.0, n_steps=400))
    assert model.alpha_[:2].max() < model.alpha_[2:].min()
    assert model.score(P.X_query, P.y_query) > 0.75


def test_sampled_deviations_have_the_calibrated_covariance():
    _, roots = _statistics(BASE, 0.7)
    some = [roots[4], roots[7]]
    drawn = _deviations(some, 0.3, 200_000, np.random.default_rng(0))
    expected = np.full((10, 10), 0.3)
    for j in (4, 7):
        X = P.X_base[P.y_base == BASE.classes[j]]
        expected += np.cov((np.sign(X) * np.abs(X) ** 0.7).T) / 2
    assert_allclose(drawn.mean(axis=0), 0, atol=0.01)
    assert_allclose(np.cov(drawn.T), expected, atol=0.01)


def test_calibration_by_loops():
    # Base classes without spread: all sampled features are the calibrated means.
    X_base = np.repeat([[9.0, 1.0], [4.0, 16.0], [25.0, 25.0]], 2, axis=0)
    base = BaseSamples(X_base, np.repeat(["a", "b", "c"], 2))
    model = DistributionCalibration(base, power=0.5, n_neighbors=2, alpha=0.0, n_samples=7, C=0.3)
    X, y = np.array([[16.0, 4.0], [-1.0, 9.0]]), np.array(["x", "y"])
    means = np.array([[3.0, 1.0], [2.0, 4.0], [5.0, 5.0]])
    samples, labels = [], []
    for x, label in zip(X, y, strict=True):
        t = np.array([math.copysign(math.sqrt(abs(a)), a) for a in x])
        near = sorted(range(3), key=lambda j, t=t: np.linalg.norm(t - means[j]))[:2]
        samples += [t] + [(t + means[near[0]] + means[near[1]]) / 3] * 7
        labels += [label] * 8
    expected = LogisticRegression(C=0.3, max_iter=1000).fit(samples, labels)
    fitted = model.fit(X, y)
    assert_allclose(fitted.coef_, np.array([-expected.coef_[0], expected.coef_[0]]) / 2, rtol=1e-3)
    assert_allclose(np.diff(fitted.intercept_), expected.intercept_, rtol=1e-3)


def test_calibration_learns_the_spread_of_similar_base_classes():
    # Around shots, feature 0 varies as in the nearest base class; it must get little weight.
    rng = np.random.default_rng(0)
    X = np.concatenate([c + rng.normal(size=(60, 2)) * [3, 0.1] for c in ([40, 40], [40, 44])])
    base = BaseSamples(X, np.repeat([0, 1], 60))
    shots, y = [[44, 41], [36, 43]], [8, 9]
    model = DistributionCalibration(
        base, power=1.0, n_neighbors=1, alpha=0.0, n_samples=200, random_state=0
    )
    queries = [[36, 40.5], [44, 43.5]]
    assert_array_equal(model.fit(shots, y).predict(queries), y)
    model.set_params(base=None)
    assert_array_equal(model.fit(shots, y).predict(queries), y[::-1])


def test_many_classes():
    p = shots_problem(n_base=20, n_novel=200, n_shots=2, noise=0.1, n_attributes=10, n_features=30)
    base = BaseSamples(p.X_base, p.y_base)
    for kind in (GaussianDiscriminant, LPPlusPlus, TipAdapter):
        assert p.fit_clone(kind(p.prototypes, base)).score(p.X_query, p.y_query) > 0.6
    model = DistributionCalibration(base, n_samples=10)
    assert p.fit_clone(model).score(p.X_query, p.y_query) > 0.6
