"""Drawn few-shot trials."""

import numpy as np
import pytest
from refusals import refused

from zonkey.evaluation.protocols import draw_trial

Y = np.repeat([f"c{j}" for j in range(8)], 12)


def drawn(seed=0, **options):
    options = {"n_way": 3, "n_shot": 2, "n_query": 5, **options}
    return draw_trial(Y, np.unique(Y)[:6], rng=np.random.default_rng(seed), **options)


def test_every_class_has_its_shots_and_queries():
    trial = drawn(n_way=4, n_shot=3, n_query=6)
    labels, counts = np.unique(Y[trial.support], return_counts=True)
    assert len(labels) == 4
    assert set(counts) == {3}
    queries, counts = np.unique(Y[trial.query], return_counts=True)
    assert queries.tolist() == labels.tolist()
    assert set(counts) == {6}
    assert not set(trial.support) & set(trial.query)
    assert len(set(trial.query)) == len(trial.query)


def test_only_the_given_classes_are_drawn():
    seen = {label for seed in range(40) for label in Y[drawn(seed).support]}
    assert seen == set(np.unique(Y)[:6])


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


def test_the_seed_decides():
    np.testing.assert_array_equal(drawn(1).support, drawn(1).support)
    assert drawn(1).support.tolist() != drawn(2).support.tolist()


def test_more_ways_than_classes():
    with pytest.raises(ValueError, match="at most the number of novel classes, 6; got 7"):
        drawn(n_way=7)


@pytest.mark.parametrize(("n_shot", "n_query"), [(8, 5), (12, None), (1, 12)])
def test_more_samples_than_there_are(n_shot, n_query):
    with pytest.raises(ValueError, match=r"has 12 samples.*Lower `n_shot` or `n_query`"):
        drawn(n_shot=n_shot, n_query=n_query)


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


@pytest.mark.parametrize(("n_shot", "n_query"), [(4, None), (1, 2), (5, 1)])
def test_too_few_shots_or_queries_of_the_kind_asked_for_are_refused(n_shot, n_query):
    y = np.repeat(["a", "b"], 5)
    sizes = {"n_way": None, "n_shot": n_shot, "n_query": n_query}
    with pytest.raises(ValueError, match="`queries` fixes which are queries"):
        draw_trial(y, ["a", "b"], **sizes, rng=np.random.default_rng(0), queries=[3, 4, 9])


def test_numbers_of_queries_are_drawn_and_add_up():
    y, sizes = np.repeat(list("abcd"), 60), {"n_way": 4, "n_shot": 1, "n_query": 10}
    counts = np.array(
        [
            [np.sum(y[trial.query] == label) for label in "abcd"]
            for seed in range(300)
            for trial in [
                draw_trial(
                    y, list("abcd"), **sizes, concentration=2.0, rng=np.random.default_rng(seed)
                )
            ]
        ]
    )
    assert set(counts.sum(axis=1)) == {40}
    assert counts.mean(axis=0) == pytest.approx([10] * 4, abs=1.0)
    # Variance of a Dirichlet-multinomial: n p (1 - p) (n + a) / (1 + a), a = 4 * 2.
    assert counts.var() == pytest.approx(40 * 0.25 * 0.75 * 48 / 9, rel=0.15)


def test_a_class_must_be_able_to_get_all_queries():
    y, sizes = np.repeat(["a", "b"], 6), {"n_way": 2, "n_shot": 1, "concentration": 2.0}
    rng = np.random.default_rng(0)
    with refused(ValueError, "has 6 samples; 1 shots and 6 queries need 7"):
        draw_trial(y, ["a", "b"], **sizes, n_query=3, rng=rng)
    with refused(ValueError, "`concentration` needs `n_query`"):
        draw_trial(y, ["a", "b"], **sizes, n_query=None, rng=rng)
