"""The trainer of the peers: early stopping, resuming, batches."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from refusals import refused

from zonkey_lab.peers.training import Learner, batches, train


class Walk(Learner):
    """Adds random numbers; its scores are given."""

    def __init__(self, scores=(), stop_at=None):
        self.place, self.n, self.given, self.stop_at = np.zeros(2), 0, scores, stop_at

    def epoch(self, rng):
        if self.n == self.stop_at:
            raise KeyboardInterrupt
        self.place = self.place + rng.normal(size=2)
        self.n += 1
        return float(self.place @ self.place)

    def state(self):
        return {"place": self.place.copy(), "n": self.n}

    def restore(self, state):
        self.place, self.n = state["place"], state["n"]

    def score(self):
        return self.given[self.n - 1]


def test_all_epochs_are_done_without_scores():
    walk = Walk()
    history = train(walk, max_iter=7, seed=3, patience=2)
    assert walk.n == 7 == len(history.losses) == history.best
    assert not history.scores


def test_an_epoch_depends_on_seed_and_number_only():
    long, short, other = Walk(), Walk(), Walk()
    losses = train(long, max_iter=5, seed=3).losses
    assert train(short, max_iter=3, seed=3).losses == losses[:3]
    assert train(other, max_iter=3, seed=4).losses != losses[:3]


@pytest.mark.parametrize(("patience", "n_done"), [(1, 3), (2, 7), (3, 8), (None, 9)])
def test_training_stops_after_epochs_without_a_better_score(patience, n_done):
    walk = Walk([0.1, 0.5, 0.5, 0.6, 0.7, 0.6, 0.7, 0.2, 0.9])
    history = train(walk, max_iter=9, seed=0, score=walk.score, patience=patience)
    assert len(history.losses) == n_done
    assert walk.n == history.best == {3: 2, 7: 5, 8: 5, 9: 9}[n_done]  # back in the best state


def test_a_loss_that_is_not_finite_is_refused():
    walk = Walk()
    walk.epoch = lambda _: np.inf
    with refused(ValueError, "The loss must stay finite", "became inf", "lower `learning_rate`"):
        train(walk, max_iter=2, seed=0)


@pytest.mark.parametrize(
    ("n", "size", "sizes"),
    [
        (10, 5, [5, 5]),
        (11, 5, [5, 6]),
        (13, 5, [5, 5, 3]),
        (3, 5, [3]),
        (1, 5, [1]),
        (4, 1, [1] * 4),
    ],
)
def test_batches_hold_every_sample_once(n, size, sizes):
    found = list(batches(n, size, np.random.default_rng(2)))
    assert [len(batch) for batch in found] == sizes
    assert_array_equal(np.sort(np.concatenate(found)), np.arange(n))
