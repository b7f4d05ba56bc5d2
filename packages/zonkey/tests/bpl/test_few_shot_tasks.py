"""FewShotClassifier.fit_tasks: many support sets learned together, each as if it were alone."""

import numpy as np
import pandas as pd
import pytest
from decompositions import watched_decompositions
from few_shot_cases import BASE, SYNTHESES, P, prepared
from numpy.testing import assert_array_equal
from refusals import refused
from scipy.linalg import LinAlgWarning
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from zonkey import FewShotClassifier, Moments
from zonkey.bpl import tasks as few_shot_task
from zonkey.bpl.frame import BaseClasses
from zonkey.testing import linear_problem

EXACT = {"solver_tol": 0.0}
OF_TWO = np.flatnonzero(np.isin(P.y_new, P.unseen[:2]))
OF_OTHERS = np.flatnonzero(np.isin(P.y_new, P.unseen[2:]))
# Of one shape, with the same and with other classes; of other shapes; of a single class.
ROWS = [
    range(13),
    range(11, 24),
    OF_TWO[:5],
    OF_OTHERS[:5],
    range(9),
    np.flatnonzero(P.y_new == P.unseen[3])[:3],
    range(12, -1, -1),
]
TASKS = [(P.X_new[list(rows)], P.y_new[list(rows)]) for rows in ROWS]
SEEDS = [0, 5, 2, 2, 7, 1, 0]
CONFIGURATIONS = [
    *[{"synthesis": synthesis} for synthesis in SYNTHESES],
    {"base": None},
    {"base": None, "prototypes": None},
    {"base": None, "synthesis": None, "alpha": 0.4},
    {"competition": None, "rho": 0.8, "scaling": None},
    {"competition": "assigned", "synthesis": "base", "n_neighbors": 2},
    {"alpha": 0.4, "mu": 0.2, "max_iter": 3, "n_synthetic": 7, "noise": 0.5, "tie_tol": 0.05},
    {"candidates": "all", "seen_penalty": 0.5},
]


def relative_error(W, expected):
    return np.linalg.norm(W - expected) / np.linalg.norm(expected)


def assert_as_if_alone(model, alone, tol):
    assert relative_error(model.projection_, alone.projection_) <= tol
    assert model.projection_.dtype == alone.projection_.dtype
    for name in ("classes_", "novel_classes_", "seen_classes_", "unseen_classes_"):
        assert_array_equal(getattr(model, name), getattr(alone, name))
    assert (model.n_iter_, model.n_features_in_) == (alone.n_iter_, alone.n_features_in_)
    assert model.prototypes_ == alone.prototypes_
    assert_array_equal(model.predict(P.X_new), alone.predict(P.X_new))


def assert_each_as_if_alone(model, tol, tasks=TASKS, seeds=SEEDS):
    found = model.fit_tasks(tasks, random_states=seeds)
    assert len(found) == len(tasks)
    for one, (X, y), seed in zip(found, tasks, seeds, strict=True):
        assert_as_if_alone(one, clone(model).set_params(random_state=seed).fit(X, y), tol)


@pytest.mark.parametrize("parameters", CONFIGURATIONS, ids=str)
def test_each_model_is_that_of_a_fit_alone(parameters):
    assert_each_as_if_alone(prepared(**parameters, **EXACT), tol=1e-9)


@pytest.mark.filterwarnings("ignore:The equation was indefinite")
def test_each_model_without_the_guard_is_that_of_a_fit_alone(monkeypatch):
    # As on a device, where tasks are learned together.
    monkeypatch.setattr(few_shot_task, "is_device_array", lambda _: True)
    p = linear_problem(n_features=70, n_attributes=40, noise=1.0)
    base = Moments.from_arrays(p.X, p.y, p.prototypes)
    model = FewShotClassifier(
        p.prototypes, base=base, alpha=0.9, mu=0.9, guard=False, n_episodes=3, **EXACT
    )
    tasks = [(p.X_new[rows], p.y_new[rows]) for rows in (slice(0, 4), slice(4, 8))]
    for one, task in zip(model.fit_tasks(tasks, random_states=[3, 4]), tasks, strict=True):
        alone = clone(model).set_params(random_state=one.random_state).fit(*task)
        assert relative_error(one.projection_, alone.projection_) <= 1e-9
        assert one.n_indefinite_ == alone.n_indefinite_ > 0


@pytest.mark.parametrize("synthesis", SYNTHESES)
@pytest.mark.parametrize("n_attributes", [9, 40])
def test_with_more_features_than_samples_or_than_prototypes_span(synthesis, n_attributes):
    p = linear_problem(n_features=70, n_attributes=n_attributes, noise=1.0)
    base = Moments.from_arrays(p.X, p.y, p.prototypes)
    model = FewShotClassifier(p.prototypes, base=base, synthesis=synthesis, mu=0.01, **EXACT)
    tasks = [(p.X_new[rows], p.y_new[rows]) for rows in (slice(0, 4), slice(4, 8), slice(0, 20))]
    for one, task in zip(model.fit_tasks(tasks, random_states=[3, 4, 5]), tasks, strict=True):
        alone = clone(model).set_params(random_state=one.random_state).fit(*task)
        assert relative_error(one.projection_, alone.projection_) <= 1e-9
        assert one.n_iter_ == alone.n_iter_


@pytest.mark.parametrize("budget", [1, 500, 2**20])
@pytest.mark.parametrize("synthesis", SYNTHESES)
def test_memory_decides_what_is_learned_together_and_nothing_else(monkeypatch, budget, synthesis):
    model = prepared(synthesis=synthesis, n_episodes=5, **EXACT)
    expected = model.fit_tasks(TASKS, random_states=SEEDS)
    courses, original = [], few_shot_task._course

    def noted(model, tasks, W, generators):
        courses.append((len(tasks), len(generators[0])))
        return original(model, tasks, W, generators)

    monkeypatch.setattr(few_shot_task, "_course", noted)
    # As on a device, where tasks are learned together.
    monkeypatch.setattr(few_shot_task, "is_device_array", lambda _: True)
    monkeypatch.setenv("ZONKEY_WORKING_MEMORY", str(budget * 8 / 128 / 2**20))
    for one, other in zip(model.fit_tasks(TASKS, random_states=SEEDS), expected, strict=True):
        assert_as_if_alone(one, other, 1e-9)
    n_episodes = 1 if synthesis is None else 5
    assert sum(n * m for n, m in courses) == len(TASKS) * n_episodes
    if budget == 1:
        assert set(courses) == {(1, 1)}
    if budget == 2**20:
        assert sorted(n for n, _ in courses) == [1, 1, 2, 3]  # one for each shape


# Seeds


@pytest.mark.parametrize("given", [True, False])
def test_a_generator_is_drawn_from_as_by_one_fit_after_the_other(given):
    shared = np.random.RandomState(3)
    model = prepared(**EXACT) if given else prepared(random_state=shared, **EXACT)
    assert model.fit_tasks([]) == []
    states = [shared] * len(TASKS) if given else None
    found = model.fit_tasks(TASKS, random_states=states)
    expected = prepared(random_state=np.random.RandomState(3), **EXACT)
    for one, task in zip(found, TASKS, strict=True):
        assert relative_error(one.projection_, expected.fit(*task).projection_) <= 1e-9


# What the copies are


@pytest.mark.parametrize("base", [BASE, BaseClasses(BASE)], ids=["moments", "kept"])
@pytest.mark.parametrize("synthesis", SYNTHESES)
def test_base_classes_are_shared_and_diagonalized_once(base, synthesis):
    model = prepared(base=base, synthesis=synthesis)
    if base is not BASE:
        model.fit(*TASKS[0])
    with watched_decompositions() as seen:
        found = model.fit_tasks(TASKS)
    assert seen.times(BASE.A0) == (base is BASE)
    assert all(one.base is base for one in found)


def test_containers_and_dtypes_may_differ_from_task_to_task():
    X, y = TASKS[0]
    names = [f"feature {i}" for i in range(10)]
    tasks = [
        (X, y),
        (X.astype(np.float32), y.tolist()),
        (pd.DataFrame(X, columns=names), pd.Series(y)),
        (X.tolist(), y.astype(object)),
    ]
    plain, narrow, named, listed = prepared(**EXACT).fit_tasks(iter(tasks))
    assert narrow.projection_.dtype == np.float32
    assert_array_equal(named.feature_names_in_, names)
    assert not any(hasattr(one, "feature_names_in_") for one in (plain, narrow, listed))
    for one in (named, listed):
        assert_array_equal(one.projection_, plain.projection_)
    assert relative_error(narrow.projection_, plain.projection_) < 1e-6


def test_steps_are_counted_task_by_task():
    found = prepared(n_episodes=3, max_iter=2, tol=0.0).fit_tasks(TASKS)
    assert [one.n_iter_ for one in found] == [6] * len(TASKS)
    early = prepared(n_episodes=4, tol=1e9).fit_tasks(TASKS)
    assert [one.n_iter_ for one in early] == [4] * len(TASKS)
    # Where `tol` decides, some episodes end before others of the same task, or of another.
    mixed = prepared(n_episodes=5, max_iter=20, tol=0.004, alpha=0.3, **EXACT)
    found = mixed.fit_tasks([TASKS[0], TASKS[1], TASKS[6]])
    assert len({one.n_iter_ for one in found}) > 1
    alone = [clone(mixed).fit(*task).n_iter_ for task in (TASKS[0], TASKS[1], TASKS[6])]
    assert [one.n_iter_ for one in found] == alone


# What is warned of and refused


def test_trouble_is_reported_once_where_fit_tasks_was_called():
    model = prepared(mu=0.9, alpha=0.9)
    with pytest.warns(ConvergenceWarning, match=r"`mu` was lowered from 0.9 to .* steps") as seen:
        found = model.fit_tasks(TASKS)
    assert [warning.filename for warning in seen] == [__file__]
    n_steps = sum(one.n_iter_ for one in found)
    assert f"of {n_steps} steps" in str(seen[0].message)
    prepared(competition=None, mu=0.9, alpha=0.9).fit_tasks(TASKS)  # only second best pushes


@pytest.mark.parametrize("parameters", [{"synthesis": None}, {}], ids=str)
def test_an_undetermined_projection_is_reported_where_fit_tasks_was_called(parameters):
    p = linear_problem(n_features=90, n_attributes=9)  # more than so few samples span
    base = Moments.from_arrays(p.X, p.y, p.prototypes)
    model = FewShotClassifier(p.prototypes, base=base, beta=0.0, competition=None, **parameters)
    with pytest.warns(LinAlgWarning, match=r"beta=0.0.*Increase `beta`") as seen:
        model.fit_tasks([(p.X_new, p.y_new), (p.X_new[:9], p.y_new[:9])])
    assert [warning.filename for warning in seen] == [__file__]


@pytest.mark.parametrize("states", [[], [1], range(8)], ids=str)
def test_a_seed_for_each_task_or_none_at_all(states):
    said = f"got {len(states)}. Leave it out"
    with refused(ValueError, "`random_states` must hold one for each of the 7 tasks", said):
        prepared().fit_tasks(TASKS, random_states=states)


X, Y = TASKS[0]
BAD_TASKS = [
    (X[:, :4], Y),
    (np.where(X[3, 3] == X, np.nan, X), Y),
    (X[:5], Y),
    (P.X[:5], P.y[:5]),
    (X, np.where(Y[0] == Y, "class nobody knows", Y)),
    (X[:0], Y[:0]),
]


@pytest.mark.parametrize("bad", BAD_TASKS, ids=range(len(BAD_TASKS)))
def test_a_bad_task_among_good_ones_is_refused_as_by_fit(bad):
    with pytest.raises(ValueError, match=r"\S") as alone:
        prepared().fit(*bad)
    with pytest.raises(ValueError, match=r"\S") as together:
        prepared().fit_tasks([TASKS[0], bad, TASKS[1]])
    assert str(together.value) == str(alone.value)
