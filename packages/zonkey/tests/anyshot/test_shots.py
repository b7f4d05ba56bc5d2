"""Choices by left-out samples: surprise as loops, usual values, and few or uneven samples."""

import math

import numpy as np
import pytest
from joint_cases import JointWorld, accuracy, joint
from numpy.testing import assert_allclose
from reference_posterior import left_out_of_all, ridge_matrix, score

from zonkey import AnyShotClassifier
from zonkey.anyshot.choice import Choice, Point
from zonkey.anyshot.posterior import even_lengths
from zonkey.anyshot.shot_folds import Names
from zonkey.anyshot.shots import ShotChoosing, usual_power
from zonkey.anyshot.spaces import share_along
from zonkey.anyshot.survey import KeptSamples
from zonkey.anyshot.usual import usual_one_shot, usual_temperature

WORLD = JointWorld(1, n_classes=5, d=7)
COUNTS = np.array([6, 2, 1, 4, 5])
X, Y = WORLD.draw(COUNTS)
X_NEW, Y_NEW = WORLD.draw(60)
WEIGHTS = np.linspace(0.5, 2, len(Y))


def choosing(described, *, placed, judges):
    """Return the choice among samples as they are; all counts and weights are uneven."""
    kept = KeptSamples.choose(X, Y, np.arange(5), 0, WEIGHTS)
    counts = np.bincount(Y, WEIGHTS)
    V = WORLD.vectors[described]
    Q = np.where(described[:, None], WORLD.vectors - WORLD.vectors.mean(axis=0), 0.0)
    names = Names(described, V @ V.T, counts, 0.4, Q if placed else None)
    fixed = {"preprocessing": None} | ({} if judges else {"worth": 2.5})
    return ShotChoosing(kept, names, Choice(Point(), 0.0), fixed, 0), V @ V.T, Q


def loop_surprise(chosen, K, Q, described, worth, T, *, placed, judges):
    """Return the mean surprise of left-out samples, and their mean squared length."""
    total = weight = 0.0
    counts = np.bincount(Y, WEIGHTS)
    anchors = np.flatnonzero(described)
    Lambda = ridge_matrix(K, counts[anchors], 0.4)
    for fold in chosen.folds:
        own, n = np.zeros((5, 7)), np.zeros(5)
        for i in fold.fitted:
            own[chosen.codes[i]] += chosen.weights[i] * chosen.X[i]
            n[chosen.codes[i]] += chosen.weights[i]
        M = own / n[:, None]
        s = 0.0
        if placed:
            along = sum(float(M[j] @ Q[j]) for j in anchors)
            s = max(0.0, along / sum(float(Q[j] @ Q[j]) for j in anchors))
        R = M[anchors] - s * Q[anchors]
        of = counts[anchors]
        F = np.stack([left_out_of_all(i, K, Lambda, R, of) for i in range(len(anchors))])
        trust = min(1.0, max(0.0, float(np.sum(R * F) / np.sum(F * F)))) if judges else 1.0
        prior = s * Q
        prior[anchors] += trust * F
        n0 = np.where(described, worth, 0.0)
        centers = (n0[:, None] * prior + own) / (n0 + n)[:, None]
        pull_unnamed(centers, own, n, described, fold, chosen)
        squares = [float(c @ c) for c in centers]
        others = [j for j in range(5) if j not in anchors]
        if others:
            usual = sum(squares[j] for j in anchors) / len(anchors)
            ratio = usual / (sum(squares[j] for j in others) / len(others))
            centers[others] *= math.sqrt(min(1.0, ratio))
        for i in fold.out:
            scores = [score(chosen.X[i], c, 0.0) / T for c in centers]
            top = max(scores)
            norm = top + math.log(sum(math.exp(value - top) for value in scores))
            share = chosen.weights[i] / counts[chosen.codes[i]]
            total += share * (norm - scores[chosen.codes[i]])
            weight += share
    first = chosen.folds[0].out
    return total / weight, np.mean([chosen.X[i] @ chosen.X[i] for i in first])


def pull_unnamed(centers, own, n, described, fold, chosen):
    """Pull centers of classes without a name to the mean of all: posterior ones of that prior."""
    plain = [j for j in range(5) if not described[j]]
    if len(plain) < 2 or len({n[j] for j in plain}) == 1:
        return
    away = 0.0
    for j in range(5):
        if n[j] > 1:
            rows = [i for i in fold.fitted if chosen.codes[i] == j]
            away += sum(chosen.weights[i] * float(chosen.X[i] @ chosen.X[i]) for i in rows)
            away -= float(own[j] @ own[j]) / n[j]
    within = away / sum(n[j] - 1 for j in range(5) if n[j] > 1)
    middle = sum(centers) / 5
    apart = [float((centers[j] - middle) @ (centers[j] - middle)) for j in plain]
    between = sum(n[j] * a - within for j, a in zip(plain, apart, strict=True))
    between = max(between / sum(n[j] for j in plain), 0.02 * within)
    largest = max(n[j] for j in plain)
    for j in plain:
        factor = n[j] / (n[j] + within / between) / (largest / (largest + within / between))
        centers[j] = middle + factor * (centers[j] - middle)


def loop_names(fold):
    """Return how surely class means lie along their names, and the length of these."""
    rows = [j for j in range(5) if fold.described[j]]
    means, n = fold.sums[rows] / fold.counts[rows, None], fold.counts[rows]
    prior = fold.prior[rows]
    squares = sum(float(f @ f) for f in prior) / len(rows)
    samples = sum(float(x @ x) for x in fold.out.X) / len(fold.out.X)
    if not squares:
        return 0.0, 0.0
    return share_along(means, prior, n), math.sqrt(squares / samples)


@pytest.mark.parametrize("described", [[1, 1, 1, 1, 1], [1, 1, 0, 1, 0]], ids=["all", "some"])
@pytest.mark.parametrize("placed", [True, False])
@pytest.mark.parametrize("judges", [True, False])
@pytest.mark.parametrize("worth", [0.0, 3.0])
def test_surprise_of_left_out_samples(described, placed, judges, worth):
    described = np.array(described, bool)
    chosen, K, Q = choosing(described, placed=placed, judges=judges)
    totals = sorted(WEIGHTS[j == Y].sum() for j in range(5))
    usual, spread = 0.09 / totals[2] ** 0.2 * max(1.0, 10 / math.sqrt(chosen.X.shape[1])), 0.5
    usual *= 1 + 1 / len(Y)
    folds = chosen._learn(None)
    if placed:
        share, of_names = np.mean([loop_names(fold) for fold in folds], axis=0)
        share *= described.mean()
        usual *= (0.16 * of_names / usual) ** share
        spread += share * (0.35 - spread)
    found, T = chosen.judge(folds, worth)
    surprises = {}
    for factor in (1.0, 2**-0.5, 2**0.5):
        value, length = loop_surprise(
            chosen, K, Q, described, worth, T * factor, placed=placed, judges=judges
        )
        doublings = math.log2(T * factor / (usual * length))
        n_out = sum(WEIGHTS[Y != 2])  # each is left out once, but the sample of a single one
        surprises[factor] = value + (doublings / spread) ** 2 / 2 / n_out
    assert found == pytest.approx(surprises.pop(1.0), rel=1e-4)
    assert found <= min(surprises.values()) + 1e-6


@pytest.mark.parametrize("degrees", [3, 200])
def test_usual_power_by_the_tails(degrees):
    X = np.random.default_rng(4).standard_t(degrees, size=(80, 40))
    numbers = [v / math.sqrt(sum(u * u for u in row)) for row in X for v in row]
    square = sum(v**2 for v in numbers) / len(numbers)
    excess = sum(v**4 for v in numbers) / len(numbers) / square**2 - 3
    assert usual_power(X) == (0.5 if excess > 1 else 1.0)
    assert usual_power(X) == (0.5 if degrees == 3 else 1.0)
    assert usual_power(0 * X) == 1.0


@pytest.mark.parametrize("d", [6, 120])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 9])
def test_usual_temperature_of_single_samples(n, d):
    X = np.random.default_rng(5).normal(size=(n, d)) * 3
    length = sum(float(x @ x) for x in X) / n
    products = [float(a @ b) / length for i, a in enumerate(X) for j, b in enumerate(X) if i != j]
    mean = sum(products) / max(1, len(products))
    scatter = sum((v - mean) ** 2 for v in products) / max(1, len(products))
    free = max(0, n * (n - 3) / 2)
    scatter = (free * scatter + 3 * max(0.01, 1 / d)) / (free + 3)
    wanted = 1.7 * length * math.sqrt(scatter / math.log(20))
    assert usual_one_shot(X) == pytest.approx(wanted)
    assert usual_one_shot(2 * X) == pytest.approx(4 * wanted)


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
@pytest.mark.parametrize(("n", "d", "n_classes"), [(1, 30, 5), (7, 400, 300)])
def test_usual_temperature_of_samples_and_names(n, d, n_classes, share):
    of_samples = 0.09 * n**-0.2 * max(1, 10 / math.sqrt(d)) * 13 / 12
    of_names = 0.16 * 0.3
    wanted = of_samples ** (1 - share) * of_names**share
    wanted *= math.sqrt(math.log(20) / math.log(max(20, n_classes)))
    found, spread = usual_temperature(n, d, 12, n_classes, (share, 0.3))
    assert found == pytest.approx(wanted)
    assert spread == pytest.approx(0.5 * (1 - share) + 0.35 * share)


def test_temperature_of_seen_and_unseen_names_follows_their_length():
    world, rng = JointWorld(2, n_classes=12, d=60), np.random.default_rng(3)
    rest, found = rng.normal(size=(12, 60)), []
    rest *= np.linalg.norm(world.vectors) / np.linalg.norm(rest)
    for length in (1.0, 0.5):  # of the part of the samples that names tell
        X = (length * world.vectors + np.sqrt(1 - length**2) * rest)[:9]
        model = joint({j: world.prototypes[j] for j in range(12)}).fit(X, np.arange(9))
        found.append(model.temperature_)
    assert found[1] < 0.5 * found[0]


# Few and uneven samples.


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("space", ["joint", "separate"])
def test_names_of_some_classes_help(n, space):
    gains = []
    for seed in range(4):
        world = JointWorld(seed, n_classes=8, d=20, noise=2.0)
        samples, later = world.draw(n), world.draw(40)
        names = [{j: world.prototypes[j] for j in range(k)} for k in (0, 3, 8)]
        models = [
            AnyShotClassifier(some or None, space=space if some else "auto") for some in names
        ]
        gains.append([accuracy(model.fit(*samples), *later) for model in models])
    none, some, every = np.mean(gains, axis=0)
    assert some > none - 0.02
    assert every > none - 0.02
    assert space == "separate" or every > some > none


def test_centers_without_names_are_as_long_as_others():
    centers = np.array([[3.0, 4.0], [0.0, 12.0], [9.0, 12.0], [1.0, 0.0]])
    described, used = np.array([1, 0, 0, 0], bool), np.array([1, 1, 1, 0], bool)
    found = even_lengths(centers, described, used)
    factor = math.sqrt(25 / ((144 + 225) / 2))
    assert_allclose(found, centers * np.array([[1], [factor], [factor], [1]]))
    assert_allclose(even_lengths(0.1 * found, ~described, used), 0.1 * found)  # never longer
    for same in (used, ~used):
        assert_allclose(even_lengths(centers, same, used), centers)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("named", [True, False])
def test_few_samples_of_few_classes_are_no_proof(n, n_classes, named):
    for seed in range(4):
        world = JointWorld(seed, n_classes=n_classes, d=10, noise=3.0)
        X, y = world.draw(n)
        model = joint(world.prototypes) if named else AnyShotClassifier()
        with np.errstate(all="raise", under="ignore"):
            X_new, y_new = world.draw(30)
            found = model.fit(X, y).predict_proba(X_new)
        assert found.max() < 1
        assert -np.log(found[np.arange(len(y_new)), y_new]).mean() < 6


@pytest.mark.parametrize("given", ["joint", "none"])
@pytest.mark.parametrize("case", ["one with many", "copies", "a copy each", "opposite", "half"])
def test_uneven_samples(given, case):
    X1, y1 = WORLD.draw(1)
    prototypes = WORLD.prototypes
    if case == "one with many":
        more, _ = WORLD.draw([40], [2])
        X1, y1 = np.concatenate([X1, more]), np.concatenate([y1, np.full(40, 2)])
    elif case in ("copies", "a copy each"):
        times = 5 if case == "copies" else np.array([2, 1, 1, 1, 1])
        X1, y1 = np.repeat(X1, times, axis=0), np.repeat(y1, times)
    elif case == "opposite":
        prototypes = dict(enumerate(-WORLD.vectors))
    else:
        prototypes = {j: v for j, v in prototypes.items() if j in (0, 3, 4)}
    model = joint(prototypes) if given == "joint" else AnyShotClassifier()
    found = model.fit(X1, y1).predict_proba(X_NEW)
    assert np.isfinite(found).all()
    assert found.max() < 1
    assert accuracy(model, X_NEW, Y_NEW) > 0.25


def test_one_of_many_classes_with_two_samples():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(201, 2048)), np.append(np.arange(200), 7)
    for seed in range(3):
        model = AnyShotClassifier(preprocessing=None, random_state=seed).fit(X, y)
        assert np.isfinite(model.temperature_)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_noise_as_prototypes_does_no_harm(n):
    with_noise, without = {"auto": [], "joint": []}, []
    for seed in range(4):
        world = JointWorld(seed, n_classes=10, d=16)
        X, y = world.draw(n)
        X_new, y_new = world.draw(40)
        noise = np.random.default_rng(99 + seed).normal(size=world.vectors.shape)
        for space, found in with_noise.items():
            model = AnyShotClassifier(dict(enumerate(noise)), space=space).fit(X, y)
            found.append(accuracy(model, X_new, y_new))
        without.append(accuracy(AnyShotClassifier().fit(X, y), X_new, y_new))
    for found in with_noise.values():
        assert np.mean(found) > np.mean(without) - 0.025


def test_names_help_where_they_say_something():
    gains = {1: [], 4: []}
    for seed, n in ((seed, n) for seed in range(4) for n in gains):
        world = JointWorld(seed, n_classes=10, d=16)
        X, y = world.draw(n)
        X_new, y_new = world.draw(40)
        named, other = joint(world.prototypes).fit(X, y), AnyShotClassifier().fit(X, y)
        gains[n].append(accuracy(named, X_new, y_new) - accuracy(other, X_new, y_new))
    assert np.mean(gains[1]) > 0.1
    assert np.mean(gains[4]) > 0


def test_given_parameters_are_kept():
    given = {"worth": 4.0, "temperature": 0.3, "ridge": 0.6, "preprocessing": None}
    model = joint(WORLD.prototypes, **given).fit(X, Y)
    assert {name: model.best_params_[name] for name in given} == given
    more = model.partial_fit(X_NEW, Y_NEW).best_params_
    assert {name: more[name] for name in given} == given
    assert_allclose(model.predict_proba(X_NEW).sum(axis=1), 1)


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("n_features", [1, 2, 4])
def test_few_features_and_few_samples_are_no_proof(n, n_features):
    samples = np.vstack([np.eye(1, n_features), -np.eye(1, n_features) * np.ones((n, 1))])
    samples[1:, -1] += 0.1 * np.arange(n)
    model = AnyShotClassifier().fit(samples, [0, *[1] * n])
    assert 0.6 < np.max(model.predict_proba(samples)) < 0.999
