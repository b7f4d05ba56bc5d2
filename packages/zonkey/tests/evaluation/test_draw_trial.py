"""Drawn few-shot trials."""

import numpy as np
import pytest

from zonkey.evaluation.protocols import draw_trial

Y = np.repeat([f"c{j}" for j in range(8)], 12)
QUERIES = np.flatnonzero(np.arange(len(Y)) % 12 >= 9)


def drawn(seed=0, **options):
    options = {"classes": np.unique(Y)[:6], "n_way": 3, "n_shot": 2, "n_query": 5, **options}
    return draw_trial(Y, rng=np.random.default_rng(seed), **options)


def test_every_class_has_its_shots_and_queries():
    drawn_classes = set()
    for seed in range(40):
        trial = drawn(seed, n_shot=3, n_query=6)
        labels, counts = np.unique(Y[trial.support], return_counts=True)
        queries, of_queries = np.unique(Y[trial.query], return_counts=True)
        assert queries.tolist() == labels.tolist()
        assert (counts.tolist(), of_queries.tolist()) == ([3] * 3, [6] * 3)
        assert len({*trial.support, *trial.query}) == 3 * 9
        drawn_classes |= {*labels}
    assert drawn_classes == set(np.unique(Y)[:6])
    np.testing.assert_array_equal(drawn(39, n_shot=3, n_query=6).support, trial.support)


def test_all_classes_and_all_other_samples():
    trial = drawn(n_way=None, n_shot=5, n_query=None)
    assert len(trial.support) == 6 * 5
    assert len(trial.query) == 6 * 7
    assert set(trial.support) | set(trial.query) == set(
        np.flatnonzero(np.isin(Y, np.unique(Y)[:6]))
    )


def test_shots_of_one_seed_are_nested():
    few, more = (drawn(3, n_way=None, n_shot=k, n_query=None) for k in (1, 4))
    assert set(few.support) <= set(more.support)


def test_samples_set_apart_are_queries_and_never_shots():
    y = np.repeat(["a", "b"], 5)
    queries = [4, 3, 9]
    for seed in range(20):
        rng = np.random.default_rng(seed)
        trial = draw_trial(
            y, ["a", "b"], n_way=None, n_shot=2, n_query=None, rng=rng, queries=queries
        )
        assert sorted(trial.query) == [3, 4, 9]
        assert not set(trial.support) & {3, 4, 9}
        assert np.bincount(trial.support // 5).tolist() == [2, 2]
        rng = np.random.default_rng(seed)
        none = draw_trial(y, ["b"], n_way=None, n_shot=0, n_query=1, rng=rng, queries=queries)
        assert none.query.tolist() == [9]


def test_numbers_of_queries_are_drawn_and_add_up():
    y, sizes = np.repeat(list("abcd"), 60), {"n_way": 4, "n_shot": 1, "n_query": 10}
    counts = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        trial = draw_trial(y, list("abcd"), **sizes, concentration=2.0, rng=rng)
        counts.append([np.sum(y[trial.query] == label) for label in "abcd"])
    assert set(np.sum(counts, axis=1)) == {40}
    assert np.mean(counts, axis=0) == pytest.approx([10] * 4, abs=1.0)
    # Variance of a Dirichlet-multinomial: n p (1 - p) (n + a) / (1 + a), a = 4 * 2.
    assert np.var(counts) == pytest.approx(40 * 0.25 * 0.75 * 48 / 9, rel=0.15)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_way": 7}, "at most the number of novel classes, 6; got 7"),
        ({"n_shot": 8, "n_query": 5}, r"has 12 samples.*Lower `n_shot` or `n_query`"),
        ({"n_shot": 12, "n_query": None}, "has 12 samples; 12 shots and at least 1 queries"),
        ({"n_shot": 1, "n_query": 12}, r"has 12 samples.*Lower `n_shot` or `n_query`"),
        # Of each class, the last three samples are queries.
        ({"n_shot": 10, "n_query": None, "queries": QUERIES}, "`queries` fixes which are queries"),
        ({"n_shot": 1, "n_query": 4, "queries": QUERIES}, "`queries` fixes which are queries"),
        # A class must be able to get all queries.
        ({"concentration": 2.0}, "has 12 samples; 2 shots and 30 queries need 32"),
        ({"concentration": 2.0, "n_query": None}, "`concentration` needs `n_query`"),
        ({"classes": ["c0", "zebu"]}, r"need samples; 'zebu' has none"),
    ],
)
def test_what_cannot_be_drawn_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        drawn(**({"n_way": None} | options))
