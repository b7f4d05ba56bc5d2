"""DeViSE, SJE, ALE and LATEM: contracts, printed losses by loops, training."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from peer_cases import RANKING
from trained import made

from zonkey.testing import linear_problem
from zonkey_lab.peers import zsl
from zonkey_lab.peers.zsl.base import PeerTask
from zonkey_lab.peers.zsl.bilinear import RankingLearner

P = linear_problem()
each_peer = pytest.mark.parametrize("peer", RANKING, ids=lambda peer: type(peer).__name__)


# The printed losses of one sample, from its scores F and the number c of its class.


def hinges(F, c, margin):
    return [max(0.0, margin + F[j] - F[c]) for j in range(len(F)) if j != c]


def devise_loss(F, c, margin=1.0):
    return sum(hinges(F, c, margin))


def sje_loss(F, c):
    return max(F[j] + (j != c) - F[c] for j in range(len(F)))


def ale_loss(F, c):
    rank = sum(h > 0 for h in hinges(F, c, 1.0))
    return sum(1 / k for k in range(1, rank + 1)) / max(rank, 1) * sum(hinges(F, c, 1.0))


LOSSES = [
    (made(zsl.DeViSE, margin=0.7, learning_rate=0.3), lambda F, c: devise_loss(F, c, 0.7)),
    (made(zsl.SJE, learning_rate=3.0), sje_loss),
    (made(zsl.ALE, learning_rate=0.7), ale_loss),
    (made(zsl.LATEM, n_matrices=1, learning_rate=0.7), devise_loss),
    (made(zsl.LATEM, n_matrices=3, learning_rate=0.7), devise_loss),
]


def mean_loss(loss, matrices, task):
    values = []
    for x, c in zip(task.X.astype(np.float64), task.codes, strict=True):
        F = [max(float(x @ W @ y) for W in matrices) for y in task.Y]
        values.append(loss(F, c))
    return np.mean(values)


def small_task(n_dimensions, m=5, d=3, n=11):
    rng = np.random.default_rng(2)
    X, Y = rng.normal(size=(n, d)), rng.normal(size=(m, n_dimensions))
    return PeerTask.from_samples(X.astype(np.float32), np.arange(n) % m, Y, seed=1)


@pytest.mark.parametrize("n_dimensions", [2, 8], ids=["few dimensions", "many dimensions"])
@pytest.mark.parametrize(("peer", "loss"), LOSSES, ids=lambda part: getattr(part, "__name__", None))
def test_a_step_follows_the_gradient_of_the_printed_loss(peer, loss, n_dimensions):
    task = small_task(n_dimensions)
    learner = peer._learner(task)
    task = replace(task, X=learner.X)  # LATEM standardizes the features
    assert learner.R.shape[1] == min(n_dimensions, len(task.Y))
    start = 0.3 * np.random.default_rng(4).normal(size=learner.W.shape)
    learner.W = learner.mean = start.astype(np.float32)
    before = learner.matrices().astype(np.float64)
    value = learner._descend(task.X, task.codes) / len(task.X)
    learner.mean = learner.W
    change = learner.matrices() - before

    assert value == pytest.approx(mean_loss(loss, before, task), rel=1e-5)
    size = np.mean(np.sum(task.X**2, axis=1)) * np.mean(np.sum(task.Y**2, axis=1))
    gradient, h = np.zeros_like(before), 1e-6
    for place in np.ndindex(*before.shape):
        around = []
        for sign in (h, -h):
            moved = before.copy()
            moved[place] += sign
            around.append(mean_loss(loss, moved, task))
        gradient[place] = (around[0] - around[1]) / (2 * h)
    expected = -peer.schedule.learning_rate / size * gradient
    assert np.abs(expected).max() > 1e-3
    assert_allclose(change, expected, atol=1e-5 * np.abs(expected).max() + 1e-6)


def test_the_model_is_a_mean_in_which_late_steps_count_more():
    task, places = small_task(4, n=55), []

    class Watched(RankingLearner):
        def _descend(self, X, codes):
            loss = super()._descend(X, codes)
            places.append(self.W.copy())
            return loss

    learner = Watched(task, made(zsl.SJE, batch_size=5))
    for number in range(2):
        learner.epoch(np.random.default_rng(number))
    assert len(places) == 22
    terms = [places[i] for i in (2, 10, 13, 21)]  # every eighth step, and the last of each epoch
    expected = sum(n * W for n, W in enumerate(terms, 1)) / (1 + 2 + 3 + 4)
    assert_allclose(learner.mean, expected, rtol=1e-5, atol=1e-6)
    assert_allclose(learner.export()["projection_"], learner.mean, rtol=1e-7)


def planted(sign_flips=False, n_seen=24, n_unseen=8, k=6, d=12):
    """Draw unit prototypes, and samples near A y, or near A y and -A y."""
    rng = np.random.default_rng(8)
    Y = rng.normal(size=(n_seen + n_unseen, k))
    Y /= np.linalg.norm(Y, axis=1, keepdims=True)
    A = np.linalg.qr(rng.normal(size=(d, k)))[0]
    codes = np.repeat(np.arange(len(Y)), 30)
    X = Y[codes] @ A.T
    X *= rng.choice([-1, 1], len(X))[:, None] if sign_flips else 1
    X += 0.05 * rng.normal(size=X.shape)
    seen = codes < n_seen
    return dict(enumerate(Y)), X[seen], codes[seen], X[~seen], codes[~seen]


LONG = {"batch_size": 20, "max_iter": 30, "n_iter_no_change": 4}
OFF_DEFAULT = [
    made(zsl.DeViSE, margin=0.3, learning_rate=1.0, **LONG),
    made(zsl.SJE, learning_rate=5.0, **LONG),
    made(zsl.ALE, learning_rate=5.0, **LONG),
    made(zsl.LATEM, n_matrices=3, learning_rate=2.0, **LONG),
]


@pytest.mark.parametrize("peer", OFF_DEFAULT, ids=lambda peer: type(peer).__name__)
def test_a_planted_compatibility_is_recovered(peer):
    prototypes, X, y, X_new, y_new = planted()
    model = peer.set_params(prototypes=prototypes, random_state=3).fit(X, y)
    assert model.score(X_new, y_new) > 0.9
    assert model.with_candidates("all").score(X, y) > 0.7
    start = (
        peer.set_params(training__n_iter_no_change=None, training__max_iter=8).fit(X, y).loss_curve_
    )
    assert start[-1] < 0.8 * start[0]


def test_several_matrices_learn_what_one_cannot():
    prototypes, X, y, X_new, y_new = planted(sign_flips=True, n_seen=60)
    options = {"n_iter_no_change": None, "max_iter": 20, "random_state": 3}
    one = made(zsl.DeViSE, prototypes, **options).fit(X, y)
    two = made(zsl.LATEM, prototypes, n_matrices=2, **options).fit(X, y)
    assert one.score(X_new, y_new) < 0.5
    assert two.score(X_new, y_new) > 0.9
    W, V = (part.ravel() / np.linalg.norm(part) for part in two.projections_)
    assert W @ V < -0.5, "one matrix for each sign"


def test_the_compatibility_of_latem_is_the_largest_of_its_matrices():
    model = P.fit_clone(
        made(zsl.LATEM, n_matrices=3, max_iter=5), candidates="all", seen_penalty=0.3
    )
    Y = np.stack([P.prototypes[label] for label in model.classes_])
    expected = [
        [max(x @ W @ y for W in model.projections_) - 0.3 * (label in P.seen) for label, y in pairs]
        for x in P.X_new - P.X.mean(axis=0)
        for pairs in [list(zip(model.classes_, Y, strict=True))]
    ]
    assert model.projections_.shape == (3, P.X.shape[1], 5)
    assert_allclose(model.center_, P.X.mean(axis=0), rtol=1e-6)
    assert_allclose(model.decision_function(P.X_new), expected, rtol=1e-6, atol=1e-6)
    projected = model.projections_ @ Y.T
    winners = np.einsum("nd,kdm->knm", P.X_new - model.center_, projected).argmax(axis=0)
    assert len(np.unique(winners)) > 1


@each_peer
@pytest.mark.parametrize("n_dimensions", [4, 8])
def test_lengths_of_features_and_prototypes_are_only_units(peer, n_dimensions):
    task = small_task(n_dimensions)
    other = replace(task, X=8 * task.X, Y=task.Y / 4)  # exact in floating point
    learners = peer._learner(task), peer._learner(other)
    for learner in learners:
        learner.epoch(np.random.default_rng(0))
    one, two = learners
    assert_allclose(two.scores(other.X, other.Y), one.scores(task.X, task.Y), rtol=1e-5, atol=1e-6)


def test_latem_standardizes_each_feature():
    rng = np.random.default_rng(6)
    scales, shifts = rng.uniform(0.01, 100, P.X.shape[1]), rng.normal(size=P.X.shape[1])
    task = PeerTask.from_samples(
        P.X.astype(np.float32), P.y, np.stack([P.prototypes[label] for label in P.seen]), seed=1
    )
    other = replace(task, X=(task.X * scales + shifts).astype(np.float32))
    one, two = (made(zsl.LATEM)._learner(each) for each in (task, other))
    expected = (P.X - P.X.mean(axis=0)) / P.X.std(axis=0)
    assert_allclose(np.sort(one.X, axis=0), np.sort(expected, axis=0), rtol=1e-4, atol=1e-5)
    assert_allclose(two.X, one.X, atol=2e-3)
    constant = np.concatenate([task.X, np.full((len(task.X), 1), 7, np.float32)], axis=1)
    assert not made(zsl.LATEM)._learner(replace(task, X=constant)).X[:, -1].any()


def test_only_the_ratio_of_rate_and_margin_matters():
    expected = P.fit_clone(made(zsl.DeViSE, margin=0.1, learning_rate=0.3, max_iter=6))
    model = P.fit_clone(made(zsl.DeViSE, margin=0.4, learning_rate=1.2, max_iter=6))
    assert_allclose(model.projection_, 4 * expected.projection_, rtol=1e-4, atol=1e-5)
    other = P.fit_clone(made(zsl.DeViSE, margin=0.4, learning_rate=0.3, max_iter=6))
    assert np.abs(other.projection_ - model.projection_).max() > 0.01


@each_peer
def test_the_model_depends_on_neither_order_nor_precision(peer):
    order = np.random.default_rng(5).permutation(len(P.y))
    X = P.X.astype(np.float32)
    expected = P.make_clone(peer).fit(X, P.y).decision_function(P.X_new)
    for X_other in (X[order], X[order].astype(np.float64)):
        found = P.make_clone(peer).fit(X_other, P.y[order]).decision_function(P.X_new)
        assert_array_equal(found, expected)
