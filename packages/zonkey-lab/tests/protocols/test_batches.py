"""Trials learned together, on the host or on a device: the figures of trials learned one by one."""

import numpy as np
import pytest
from libraries import in_every_library
from numpy.testing import assert_array_equal
from refusals import refused
from sklearn.base import BaseEstimator
from sklearn.pipeline import make_pipeline

from zonkey import FewShotClassifier, Moments, NearestSupport
from zonkey.preprocessing import FeatureNormalizer
from zonkey.testing import linear_problem
from zonkey_lab.protocols import large_scale, n_way_k_shot

P = linear_problem(n_classes=20, noise=2.5)
NUMBERS = {label: j for j, label in enumerate(P.prototypes)}
PROTOTYPES = {NUMBERS[label]: vector for label, vector in P.prototypes.items()}
Y_BASE, Y_NEW = ([NUMBERS[label] for label in y] for y in (P.y, P.y_new))
NOVEL = [NUMBERS[label] for label in P.unseen]
# So much noise that the seed of a trial shows in its figure.
OF_MODEL = {"n_episodes": 1, "noise": 5.0, "alpha": 0.9, "competition": "assigned"}
OPTIONS = {"n_way": 4, "n_shot": 2, "n_query": 3, "n_trials": 7, "random_state": 3}


def few_shot(convert=np.array, **parameters):
    base = Moments.from_arrays(convert(P.X), convert(Y_BASE), PROTOTYPES)
    return FewShotClassifier(base=base, **OF_MODEL, **parameters)


def accuracies(models=None, convert=np.array, **options):
    models = {"BPL": few_shot(convert), "NN": NearestSupport()} if models is None else models
    found = n_way_k_shot(models, convert(P.X_new), convert(Y_NEW), NOVEL, **(OPTIONS | options))
    assert all(isinstance(figures, np.ndarray) for figures in found.values())
    return found


def assert_same_figures(found, expected):
    assert found.keys() == expected.keys()
    for name, figures in expected.items():
        assert len(np.unique(figures)) > 2
        assert_array_equal(found[name], figures)


@pytest.fixture
def sizes(monkeypatch):
    """Return a list of how many tasks were learned together each time."""
    seen, original = [], FewShotClassifier.fit_tasks
    monkeypatch.setattr(
        FewShotClassifier,
        "fit_tasks",
        lambda self, tasks, **o: seen.append(len(tasks)) or original(self, tasks, **o),
    )
    return seen


@pytest.mark.parametrize(
    ("batch_size", "expected"),
    [(None, []), (1, []), (2, [2, 2, 2]), (3, [3, 3]), (np.int64(7), [7]), (100, [7])],
)
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_batches_change_no_figure(sizes, batch_size, expected, n_jobs):
    assert_same_figures(accuracies(batch_size=batch_size, n_jobs=n_jobs), accuracies())
    assert sizes == expected  # the last trial alone is fitted as such


class Part(BaseEstimator):
    """Takes a seed of its own."""

    def __init__(self, random_state=None):
        self.random_state = random_state


class WithAPart(FewShotClassifier):
    def __init__(self, base=None, *, part=None, random_state=None):
        super().__init__(base=base, **OF_MODEL, random_state=random_state)
        self.part = part


@pytest.mark.parametrize("kind", ["seeds of parts", "pipeline"])
def test_models_that_cannot_be_learned_together_are_fitted_one_by_one(sizes, kind):
    model = few_shot()
    if kind == "pipeline":
        models = {"BPL": make_pipeline(FeatureNormalizer(), model)}
    else:
        models = {"BPL": WithAPart(model.base, part=Part())}
    assert_same_figures(accuracies(models, batch_size=4), accuracies(models))
    assert sizes == []


@pytest.mark.parametrize("value", [0, -3, 2.5, "all"])
def test_a_batch_has_at_least_one_trial(value):
    expected = "`batch_size` must be an integer of at least 1"
    with refused((TypeError, ValueError), expected, f"got {value!r}"):
        accuracies(batch_size=value)


# Samples on a device


@in_every_library
def test_samples_may_be_on_a_device_where_trials_are_learned_together(sizes, library):
    found = accuracies(convert=library)
    assert sizes == [7]
    assert_same_figures(found, accuracies())


@in_every_library
def test_all_classes_at_once_on_a_device(library):
    options = {"shots": (1, 2), "n_repeats": 2, "top": (1, 2), "random_state": 5}
    found, expected = (
        large_scale(
            {"BPL": few_shot(convert), "NN": NearestSupport()},
            *(convert(P.X_new), convert(Y_NEW), NOVEL),
            **options,
        )
        for convert in (library, np.array)
    )
    assert_same_figures(found, expected)
    from_zero, expected = (
        large_scale(
            {"BPL": few_shot(convert)},
            *(convert(P.X_new), Y_NEW, NOVEL),
            **options | {"shots": (0, 1)},
        )
        for convert in (library, np.array)
    )
    assert_array_equal(from_zero["BPL"], expected["BPL"])
