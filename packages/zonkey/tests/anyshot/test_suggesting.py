"""Groups of samples to label, and samples that are learned once."""

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refused

import zonkey
from zonkey import AnyShotClassifier
from zonkey.anyshot import suggesting
from zonkey.anyshot.suggesting import halve, split_alike

RNG = np.random.default_rng(0)
CENTERS = np.array([[4.0, 0, 0, 0], [0, 4.0, 0, 0], [0, 0, 4.0, 0]])
LABELS = np.array(["ant", "bee", "cow"])


def draw(counts, seed, spread=1.0):
    """Return samples around the centers, and their labels."""
    codes = np.repeat(np.arange(len(counts)), counts)
    noise = np.random.default_rng(seed).normal(size=(len(codes), 4))
    return CENTERS[codes] + spread * noise, LABELS[codes]


X_TRAIN, Y_TRAIN = draw((2, 3, 9), 1)
X_NEW, Y_NEW = draw((70, 40, 30), 2, 1.6)
GIVEN = {"preprocessing": None, "worth": 3.0, "temperature": 2.0, "ridge": 0.1}


def fitted(**options):
    return AnyShotClassifier(**{**GIVEN, **options}).fit(X_TRAIN, Y_TRAIN)


def naive_order(groups, answers, right, counts, worth):
    """Return the groups in order of what is gained per action, one best group after another."""
    counts, waiting, found = dict(counts), list(range(len(groups))), []
    while waiting:
        gains = []
        for i in waiting:
            known = worth + counts[answers[i]]
            gains.append(np.log(1 + right[i] / known) / (1 + len(groups[i]) - right[i]))
        best = int(np.argmax(gains))
        found.append((waiting[best], gains[best]))
        if answers[waiting[best]] is not None:
            counts[answers[waiting[best]]] += right[waiting[best]]
        del waiting[best]
    return found


@pytest.mark.parametrize(("size", "novelty_above"), [(50, 1.0), (7, 0.6), (1, np.inf)])
def test_groups_are_in_the_order_of_what_an_action_tells(size, novelty_above):
    model = fitted()
    found = model.suggest(X_NEW, group_size=size, novelty_above=novelty_above)
    P, novelty = model.predict_proba(X_NEW), model.novelty(X_NEW)
    unlike = (novelty > novelty_above) & (P.max(axis=1) < 0.5)
    assert_array_equal(found.answer, np.where(unlike, "unknown", model.predict(X_NEW)))
    assert_allclose(found.probability, P.max(axis=1))
    groups = [found.rows_of(i) for i in range(len(found.useful))]
    assert_array_equal(np.sort(np.concatenate(groups)), np.arange(len(X_NEW)))
    answers = []
    for number, rows in enumerate(groups):
        assert 1 <= len(rows) <= size
        assert len({*found.answer[rows]}) == 1
        assert_array_equal(found.group[rows], number)
        assert_array_equal(unlike[rows], found.is_unlike[number])
        answers.append(None if unlike[rows[0]] else found.answer[rows[0]])
        away = [sum((x - X_NEW[rows].mean(axis=0)) ** 2) for x in X_NEW[rows]]
        assert (np.diff(away) >= -1e-5).all()  # the most typical one comes first
    right = [
        len(rows) / 2 if answer is None else P.max(axis=1)[rows].sum()
        for rows, answer in zip(groups, answers, strict=True)
    ]
    worth = max(model.state_.choice.worth_in_use, 1.0)
    counts = {"ant": 2, "bee": 3, "cow": 9, None: 0}
    expected = naive_order(groups, answers, right, counts, worth)
    assert [i for i, _ in expected] == [*range(len(groups))]
    assert_allclose(found.useful, [gain for _, gain in expected])


def test_unsure_groups_are_small_and_sure_ones_are_large():
    Z, wrong = RNG.normal(size=(200, 3)), np.repeat([0.001, 0.4], 100)
    groups = split_alike(Z, wrong, 50)
    assert_array_equal(np.sort(np.concatenate(groups)), np.arange(200))
    sure = [rows for rows in groups if wrong[rows].max() < 0.1]
    assert sum(map(len, sure)) == 100
    assert len(sure) <= 100 // 20
    for rows in groups:
        assert len({*wrong[rows]}) == 1
        assert len(rows) <= suggesting._FEWEST or wrong[rows].sum() <= 1 or wrong[rows][0] < 0.1


def test_parts_are_those_that_lie_apart():
    Z = np.concatenate([RNG.normal(size=(30, 5)), RNG.normal(size=(20, 5)) + 8])
    side = halve(Z)
    assert_array_equal(side, side[0] == (np.arange(50) < 30))
    order = RNG.permutation(50)
    again = halve(Z[order])
    assert_array_equal(again == again[0], side[order] == side[order][0])


@pytest.mark.parametrize("n", [2, 3, 40])
def test_equal_samples_are_divided_too(n):
    assert halve(np.ones((n, 3))).sum() == n // 2
    groups = split_alike(np.ones((n, 3)), np.full(n, 0.5), 5)
    assert sum(map(len, groups)) == n
    assert max(map(len, groups)) <= 5


def test_a_lonely_sample_does_not_make_a_group_of_its_own():
    Z = np.concatenate([RNG.normal(size=(99, 2)), [[1000.0, 0.0]]])
    assert halve(Z).sum() == 50


def test_groups_do_not_depend_on_the_order_of_samples():
    model, order = fitted(), RNG.permutation(len(X_NEW))
    one, other = model.suggest(X_NEW), model.suggest(X_NEW[order])
    assert_allclose(one.useful, other.useful)
    for number in range(len(one.useful)):
        rows = order[other.rows_of(number)]  # equal probabilities are in the order of samples
        assert_array_equal(np.sort(one.rows_of(number)), np.sort(rows))


def test_the_surer_one_of_a_pair_comes_first():
    Z = RNG.normal(size=(2, 30)).astype(np.float32)
    for wrong in ([0.1, 0.2], [0.2, 0.1]):
        assert_array_equal(split_alike(Z, np.array(wrong), 5)[0], np.argsort(wrong))


def test_small_blocks_give_the_same():
    model, X = fitted(), X_NEW.copy()
    state = model.state_
    one = model.suggest(X)
    assert model.state_ is state
    assert_array_equal(X, X_NEW)
    with zonkey.config_context(working_memory=0.001):
        other = model.suggest(X_NEW)
    assert_array_equal(one.order, other.order)
    assert_allclose(one.probability, other.probability)


def test_strangers_come_without_an_answer():
    strangers = np.array([0, 0, 0, 9.0]) + RNG.normal(size=(20, 4)) / 4
    model = fitted(reject_label="none", temperature=200.0)
    novel = model.novelty(strangers)
    found = model.suggest(np.concatenate([X_NEW, strangers]), novelty_above=novel.min() - 1e-6)
    rows = np.arange(len(X_NEW), len(X_NEW) + 20)
    unlike = found.is_unlike[found.group[rows]]
    assert_array_equal(unlike, model.predict_proba(strangers).max(axis=1) < 0.5)
    assert unlike.any()
    assert {*found.answer[rows[unlike]]} == {"none"}
    assert "(unlike all classes)" in str(found)


def test_text_form():
    found = fitted().suggest(X_NEW, group_size=2)
    lines = str(found).splitlines()
    assert lines[0] == f"{len(found.useful)} groups of 140 samples, most useful first"
    assert lines[-1] == "..."
    assert lines[2].split()[0] == "0"


def test_two_classes_and_many():
    X, y = draw((5, 5), 3)
    found = AnyShotClassifier(preprocessing=None).fit(X, y).suggest(X_NEW[:3])
    assert {*found.answer} <= {"ant", "bee"}
    n = 3000
    names = zonkey.Prototypes([f"{i:05d}" for i in range(n)], RNG.normal(size=(n, 16)))
    model = AnyShotClassifier(names, space="joint").fit()
    found = model.suggest(names.matrix + 0.01)
    assert_array_equal(found.answer, names.labels)
    assert len(found.useful) == n


@pytest.mark.parametrize("size", [0, 1.5, "many"])
def test_wrong_sizes_are_refused(size):
    with refused(ValueError, "`group_size` must be an integer of at least 1"):
        fitted().suggest(X_NEW, group_size=size)


# Learning once

IDS = [f"é {i}" for i in range(len(X_NEW))]


def test_samples_are_learned_once(tmp_path):
    model, same = fitted(), fitted()
    assert model.learn_once(X_NEW[:4], Y_NEW[:4], IDS[:4]).all()
    is_new = model.learn_once(X_NEW[2:8], Y_NEW[2:8], IDS[2:8])
    assert_array_equal(is_new, [False, False, True, True, True, True])
    same.partial_fit(X_NEW[:4], Y_NEW[:4]).partial_fit(X_NEW[4:8], Y_NEW[4:8])
    assert_allclose(model.predict_proba(X_NEW), same.predict_proba(X_NEW))
    before = model.predict_proba(X_NEW)
    others = [model.with_candidates(["ant", "bee"]), model.without_classes(["cow"])]
    model.save(tmp_path / "m.zonkey")
    for other in (model, *others, zonkey.load(tmp_path / "m.zonkey")):
        assert not other.learn_once(X_NEW[:8], Y_NEW[:8], IDS[:8]).any()
    assert_array_equal(model.predict_proba(X_NEW), before)
    assert fitted().state_.remembered is None


@pytest.mark.parametrize("convert", [pd.DataFrame, pl.DataFrame, list])
def test_samples_of_any_kind_are_learned(convert):
    columns = {f"f{i}": column for i, column in enumerate(X_NEW[:4].T)}
    given, y = X_NEW[:4].tolist() if convert is list else convert(columns), ["a", "a", "b", "b"]
    model = AnyShotClassifier(preprocessing=None).fit(given, y)
    assert model.learn_once(given, y, IDS[:4]).all()  # names of columns are kept: no warning
    assert_array_equal(model.state_.evidence.counts, [4, 4])


def test_repeated_ids_are_one_sample():
    model = fitted()
    rows = [5, 6, 5, 5]
    is_new = model.learn_once(X_NEW[rows], Y_NEW[rows], [IDS[row] for row in rows])
    assert_array_equal(is_new, [True, True, False, False])
    assert model.state_.evidence.counts.sum() == len(X_TRAIN) + 2


def test_another_label_is_refused_and_nothing_is_learned():
    model = fitted()
    with refused(ValueError, "A sample has one label; 'a' has 'ant', and it also has 'bee'"):
        model.learn_once(X_NEW[:3], ["bee", "cow", "ant"], ["a", "b", "a"])
    model.learn_once(X_NEW[:1], ["bee"], ["a"])
    before = model.state_
    with refused(ValueError, "'a' has 'giraffe', and the model has learned it as 'bee'"):
        model.learn_once(X_NEW[:2], ["giraffe", "cow"], ["a", "b"])
    assert model.state_ is before
    # A class that was learned by mistake is removed, and its samples may get another label.
    other = model.without_classes(["bee"])
    assert other.learn_once(X_NEW[:1], ["giraffe"], ["a"]).all()
    assert not other.learn_once(X_NEW[:1], ["giraffe"], ["a"]).any()
    with refused(ValueError, "A sample has one label; 'a'"):
        other.learn_once(X_NEW[:1], ["cow"], ["a"])


def test_lengths_must_agree():
    with refused(ValueError, "X, y and ids must have equal lengths; got 2, 2 and 1"):
        fitted().learn_once(X_NEW[:2], Y_NEW[:2], ["a"])


def test_a_class_without_samples_has_its_prior_even_if_that_is_worth_nothing():
    names = zonkey.Prototypes(LABELS, CENTERS[:, :3])
    state = AnyShotClassifier(names, **GIVEN).fit(X_TRAIN[:5], Y_TRAIN[:5]).state_
    (unseen,) = np.flatnonzero(state.evidence.counts == 0)
    worthless = replace(state, choice=replace(state.choice, worth=0.0, refinement=None)).learn()
    assert_allclose(worthless.centers[unseen], state.find_priors()[unseen])
    assert_allclose(worthless.centers[0], X_TRAIN[:2].mean(axis=0))
    assert np.isfinite(worthless.make_scorer().penalties).all()
