"""Maps of unseen classes: which classes and samples, where prototypes fall, ratios of scatters."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from sklearn.manifold import TSNE
from small_data import small_dataset, use_source

from zonkey_lab.paper.bench import protocols, runner
from zonkey_lab.paper.bench.protocols import measure_map, scatter_ratios
from zonkey_lab.paper.experiments import EXPERIMENTS, QUICK
from zonkey_lab.paper.records import Records

UNSEEN = ["c08", "c09", "c10", "c11"]
CHOSEN = {"rho": 0.7, "alpha": 0.2, "mu": 0.05}


@pytest.fixture
def mapped(monkeypatch):
    """Return the points that are given to t-SNE, one array per map."""
    given = []

    class Recorded(TSNE):
        def fit_transform(self, X, y=None):
            given.append(X)
            return super().fit_transform(X, y)

    monkeypatch.setattr(protocols, "TSNE", partial(Recorded, max_iter=250))
    return given


def naive_ratios(X, predicted, centers):
    within = between = near = total = 0.0
    mean = X.mean(axis=0)
    for x, label in zip(X, predicted, strict=True):
        group = X[predicted == label].mean(axis=0)
        within += sum((x - group) ** 2)
        between += sum((group - mean) ** 2)
        near += sum((x - centers[label]) ** 2)
        total += sum((x - mean) ** 2)
    return within / between, near / total


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ratios_of_scatters_agree_with_a_loop_over_samples(dtype):
    rng = np.random.default_rng(0)
    X, centers = rng.normal(size=(30, 4)) + 2, rng.normal(size=(5, 4))
    predicted = rng.integers(0, 4, size=30)  # nothing is taken for the last class
    found = scatter_ratios(X.astype(dtype), predicted, centers.astype(dtype))
    tolerance = 1e-10 if dtype == np.float64 else 1e-5
    assert tuple(found.values()) == pytest.approx(
        naive_ratios(X, predicted, centers), rel=tolerance
    )


def test_one_predicted_class_has_no_compactness():
    X = np.random.default_rng(0).normal(size=(5, 3))
    found = scatter_ratios(X, np.zeros(5, dtype=int), X[:1])
    assert found["compactness"] is None
    assert found["centering"] > 1
    nothing = scatter_ratios(np.ones((5, 3)), np.zeros(5, dtype=int), X[:1])
    assert nothing == {"compactness": None, "centering": None}


@pytest.mark.parametrize(("n_classes", "n_shown"), [(None, 4), (2, 2), (50, 4)])
def test_all_unseen_classes_are_mapped_or_as_many_as_asked_for(mapped, n_classes, n_shown):
    data = small_dataset()
    found = measure_map(data, "BPL", CHOSEN, 0, n_classes=n_classes)
    assert found["n_classes"] == len(found["classes"]) == len(found["prototypes"]) == n_shown
    assert set(found["classes"]) <= set(UNSEEN)
    assert found["classes"] == sorted(found["classes"])
    assert len(found["samples"]) == len(found["truth"]) == len(found["predicted"]) == 9 * n_shown
    again = measure_map(data, "BPL0", {}, 0, n_classes=n_classes)
    assert again["classes"] == found["classes"]
    assert again["truth"] == found["truth"]
    samples = [points[: 9 * n_shown] for points in mapped]
    assert np.array_equal(*samples)  # the same for every model


def test_prototypes_are_mapped_as_they_are_compared_with_samples(mapped):
    data = small_dataset()
    found = measure_map(data, "BPL", CHOSEN, 0)
    (points,) = mapped
    X, centers = points[:36], points[36:]
    lengths = np.linalg.norm(centers, axis=1)
    assert np.ptp(lengths) > 0.01  # W y, not brought to unit length
    distances = ((X[:, None] - centers[None]) ** 2).sum(axis=2)
    assert found["predicted"] == distances.argmin(axis=1).tolist()
    ratios = scatter_ratios(X, np.array(found["predicted"]), centers)
    assert {name: found[name] for name in ratios} == ratios


def test_many_samples_are_thinned(mapped, monkeypatch):
    monkeypatch.setattr(protocols, "_MOST_MAPPED", 20)
    found = measure_map(small_dataset(), "BPL0", {}, 0)
    assert np.bincount(found["truth"]).tolist() == [5] * 4
    monkeypatch.setattr(protocols, "_MAP_SAMPLES", 3)
    found = measure_map(small_dataset(), "BPL0", {}, 0)
    assert np.bincount(found["truth"]).tolist() == [3] * 4


@pytest.mark.parametrize(("asked", "n_shown"), [(None, 4), (3, 3)])
def test_the_bench_maps_as_many_classes_as_asked_for(tmp_path, monkeypatch, asked, n_shown):
    use_source(monkeypatch)
    monkeypatch.setattr(protocols, "TSNE", partial(TSNE, max_iter=250))
    experiment = replace(EXPERIMENTS["tsne"], models=("BPL0",))
    scale = replace(QUICK, map_classes=asked)
    *_, step = runner.run_experiments([experiment], ["small"], Records(tmp_path), scale)
    assert step.record["results"]["n_classes"] == n_shown
    assert step.record["settings"].get("n_classes") == asked
