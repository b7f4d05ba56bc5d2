import numpy as np
import pytest
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from zonkey import Moments, Prototypes
from zonkey.bpl.few_shot import FewShotClassifier
from zonkey.bpl.nearest_support import NearestSupport
from zonkey.bpl.zero_shot import ZeroShotClassifier
from zonkey.evaluation.protocols import draw_trial
from zonkey.metrics import hit_at_k, per_class_accuracy
from zonkey.preprocessing import FeatureNormalizer
from zonkey_lab.protocols import large_scale, n_way_k_shot


@pytest.fixture(scope="module")
def world():
    """Twelve base and eight novel classes, features linear in the prototypes, with noise."""
    rng = np.random.default_rng(0)
    labels = np.array([f"c{j:02d}" for j in range(20)])
    Y, M = rng.normal(size=(20, 6)), rng.normal(size=(6, 15)) / 3
    y = np.repeat(labels, 15)
    X = np.repeat(Y, 15, axis=0) @ M + rng.normal(size=(300, 15)) * 0.7
    prototypes = Prototypes(labels, Y)
    base = np.isin(y, labels[:12])
    moments = Moments.from_arrays(X[base], y[base], prototypes)
    model = FewShotClassifier(base=moments, n_episodes=2, max_iter=2)
    return X, y, labels[12:], model


OPTIONS = {"n_way": 4, "n_shot": 2, "n_query": 5, "n_trials": 6, "random_state": 3}


def models(world):
    return {"BPL": world[3], "NN": NearestSupport()}


def test_accuracy_of_every_trial_by_hand(world):
    X, y, novel, model = world
    results = n_way_k_shot(models(world), X, y, novel, **OPTIONS)
    assert {name: len(figures) for name, figures in results.items()} == {"BPL": 6, "NN": 6}
    for number in range(6):
        rng = np.random.default_rng([3, number])
        trial = draw_trial(y, novel, n_way=4, n_shot=2, n_query=5, rng=rng)
        seed = int(rng.integers(2**31 - 1))
        support, query = (X[trial.support], y[trial.support]), (X[trial.query], y[trial.query])
        neighbor = KNeighborsClassifier(1).fit(*support).predict(query[0])
        assert results["NN"][number] == per_class_accuracy(query[1], neighbor)
        ours = clone(model).set_params(random_state=seed).fit(*support)
        assert results["BPL"][number] == pytest.approx(ours.score(*query), abs=1e-12)


def test_figures_depend_on_the_trials_alone(world):
    X, y, novel, model = world
    expected = n_way_k_shot(models(world), X, y, novel, **OPTIONS)["BPL"]
    numpys = {name: np.int64(value) for name, value in OPTIONS.items()}
    for options in ({"n_jobs": 2}, {"n_trials": 8}, numpys):
        found = n_way_k_shot({"BPL": model}, X, y, novel, **{**OPTIONS, **options})["BPL"]
        np.testing.assert_array_equal(found[:6], expected)
    shots = {"shots": np.arange(1, 3), "n_repeats": 1, "top": [np.int64(1)]}
    assert large_scale({"NN": NearestSupport()}, X, y, novel, **shots)["NN"].shape == (1, 2, 1)


def test_progress_is_shown_only_when_asked(world, capsys):
    X, y, novel, _ = world
    n_way_k_shot({"NN": NearestSupport()}, X, y, novel, **OPTIONS)
    assert capsys.readouterr().out == ""
    n_way_k_shot({"NN": NearestSupport()}, X, y, novel, progress=True, **OPTIONS)
    assert "Running trials" in capsys.readouterr().out


def test_all_classes_at_once_by_hand(world):
    X, y, novel, _ = world
    options = {"shots": (1, 3), "n_repeats": 2, "top": (1, 3), "random_state": 5}
    results = large_scale(models(world), X, y, novel, **options)
    assert {figures.shape for figures in results.values()} == {(2, 2, 2)}
    for repeat in range(2):
        for place, K in enumerate((1, 3)):
            rng = np.random.default_rng([5, repeat])
            trial = draw_trial(y, novel, n_way=None, n_shot=K, n_query=None, rng=rng)
            top = NearestSupport().fit(X[trial.support], y[trial.support])
            top = top.predict_top(X[trial.query], 3)
            expected = [hit_at_k(y[trial.query], top, k) for k in (1, 3)]
            assert results["NN"][repeat, place].tolist() == expected
    assert (results["BPL"][..., 1] >= results["BPL"][..., 0]).all()


def test_no_shot_is_zero_shot(world):
    X, y, novel, model = world
    options = {"n_repeats": 2, "top": (1, 2)}
    curve = large_scale({"model": model}, X, y, novel, shots=(0, 1, 5), **options)["model"]
    assert curve.shape == (2, 3, 2)
    labels = np.concatenate([model.base.seen_labels, novel])
    for repeat in range(2):
        rng = np.random.default_rng([0, repeat])
        draw_trial(y, novel, n_way=None, n_shot=0, n_query=None, rng=rng)
        seed = int(rng.integers(2**31 - 1))
        zero = ZeroShotClassifier(
            model.base.prototypes.subset(labels), max_iter=2, random_state=seed
        ).fit_moments(model.base)
        assert zero.classes_.tolist() == novel.tolist()
        members = np.isin(y, novel)
        top = zero.predict_top(X[members], 2)
        assert curve[repeat, 0].tolist() == [hit_at_k(y[members], top, k) for k in (1, 2)]
    few = large_scale({"model": model}, X, y, novel, shots=(1, 5), **options)
    np.testing.assert_array_equal(curve[:, 1:], few["model"])
    turned = large_scale({"model": model}, X, y, novel, shots=(5, 0), **options)
    np.testing.assert_array_equal(turned["model"], curve[:, [2, 0]])


def test_a_pipeline_is_seeded_too(world):
    X, y, novel, model = world
    noisy = clone(model).set_params(noise=3.0, alpha=0.7)
    pipeline = {"BPL": make_pipeline(FeatureNormalizer(), noisy)}
    first, second = (n_way_k_shot(pipeline, X, y, novel, **OPTIONS) for _ in range(2))
    np.testing.assert_array_equal(first["BPL"], second["BPL"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"random_state": None}, "`random_state` must be an integer of at least 0; got None"),
        ({"n_shot": 0}, "`n_shot` must be an integer of at least 1; got 0"),
        ({"n_query": -1}, "`n_query` must be an integer of at least 1; got -1"),
        ({"n_trials": 2.5}, "`n_trials` must be an integer of at least 1; got 2.5"),
        ({"classes": ["c13", "okapi"]}, "'okapi' has none in y"),
        ({"models": NearestSupport()}, "must be a mapping of names to estimators"),
        ({"X": np.ones((3, 15))}, "one row per sample; got 3 and 300"),
    ],
)
def test_bad_input_is_named(world, changes, message):
    X, y, novel, model = world
    given = {"models": {"BPL": model}, "X": X, "y": y, "classes": novel, **OPTIONS, "n_way": 2}
    with pytest.raises((TypeError, ValueError), match=message):
        n_way_k_shot(**{**given, **changes})
