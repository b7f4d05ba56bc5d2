"""Memory maps, which joblib makes of large arrays: what arrays allow, and the same results."""

import joblib
import numpy as np
import pytest
from any_shot_cases import GIVEN, world
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.decomposition import PCA
from sklearn.ensemble import VotingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from zonkey import AnyShotClassifier, Chunks, ZeroShotClassifier
from zonkey.preprocessing import FeatureNormalizer, WithinClassWhitener
from zonkey.streaming.chunks import Chunked

WORLD = world(6, n_classes=12, d=8)
X, Y = WORLD.draw(np.arange(9), 12)
WEIGHTS = 1.0 + np.arange(len(Y)) % 3


@pytest.fixture
def mapped(tmp_path):
    joblib.dump(X, tmp_path / "X.joblib")
    found = joblib.load(tmp_path / "X.joblib", mmap_mode="r")
    assert isinstance(found, np.memmap)
    return found


def model(**parameters):
    return AnyShotClassifier(WORLD.prototypes, **GIVEN | parameters)


@pytest.mark.parametrize(
    ("parameters", "options"),
    [
        ({}, {"sample_weight": WEIGHTS}),
        ({"preprocessing": PCA(4, random_state=0)}, {}),
        ({"preprocessing": make_pipeline(FeatureNormalizer(0.5), PCA(4, random_state=0))}, {}),
        ({"preprocessing": StandardScaler()}, {}),
        ({"preprocessing": WithinClassWhitener(0.3)}, {"sample_weight": WEIGHTS}),
    ],
)
def test_fit(parameters, options, mapped):
    expected = model(**parameters).fit(X, Y, **options)
    found = model(**parameters).fit(mapped, Y, **options)
    assert_allclose(found.centers_, expected.centers_, rtol=1e-10, atol=1e-12)
    assert_array_equal(found.predict(mapped), expected.predict(X))


@pytest.mark.parametrize("parameters", [{"worth": "shots"}, {"worth": 3.0}])
def test_further_samples(parameters, mapped):
    weights = {"sample_weight": WEIGHTS} if parameters["worth"] == 3.0 else {}
    start = X[::2], Y[::2]
    expected = model(**parameters).fit(*start).partial_fit(X, Y, **weights)
    found = model(**parameters).fit(*start).partial_fit(mapped, Y, **weights)
    assert_allclose(found.centers_, expected.centers_, rtol=1e-10, atol=1e-12)
    assert found.worth_ == expected.worth_


@pytest.mark.parametrize("transformer", [FeatureNormalizer(0.7, True), WithinClassWhitener(0.2)])
def test_transformers_with_weights(transformer, mapped):
    expected = transformer.fit(X, Y, WEIGHTS).transform(X)
    assert_allclose(transformer.fit(mapped, Y, WEIGHTS).transform(X), expected, rtol=1e-12)


def test_a_chosen_penalty(mapped):
    parameters = {"candidates": "all", "seen_penalty": "auto", "random_state": 0}
    expected = ZeroShotClassifier(WORLD.prototypes, **parameters).fit(X, Y)
    found = ZeroShotClassifier(WORLD.prototypes, **parameters).fit(mapped, Y)
    assert found.seen_penalty_ == expected.seen_penalty_
    assert_allclose(found.decision_function(X), expected.decision_function(X), rtol=1e-9)


def test_whatever_needs_no_memory_is_read_in_chunks(mapped, monkeypatch):
    names, reduced = [], Chunked.reduce

    def told(self, reduction, name, *args, **options):
        names.append(name)
        return reduced(self, reduction, name, *args, **options)

    monkeypatch.setattr(Chunked, "reduce", told)
    model(preprocessing="auto").fit(mapped, Y)
    ZeroShotClassifier(WORLD.prototypes, synthesis=None).fit(mapped, Y)
    assert names == ["survey", "scatter", "sums", "moments"]


def test_voting_in_processes():
    rng = np.random.default_rng(0)
    y = rng.integers(5, size=4100)
    large = rng.normal(size=(4100, 32)) + y[:, None]  # above the limit of joblib
    voting = VotingClassifier(
        [
            ("reduced", AnyShotClassifier(**GIVEN | {"preprocessing": PCA(6)})),
            ("whole", AnyShotClassifier(**GIVEN)),
        ]
    )
    weights = {"sample_weight": 1.0 + y % 2}
    expected = voting.fit(large, y, **weights).predict(large[:50])
    found = voting.set_params(n_jobs=2).fit(large, y, **weights).predict(large[:50])
    assert_array_equal(found, expected)


def test_scores_need_labels(mapped):
    fitted = model().fit(X, Y)
    with pytest.raises(ValueError, match="y must hold the true label"):
        fitted.score(mapped)
    assert fitted.score(mapped, Y) == fitted.score(X, Y) == fitted.score(Chunks(mapped, Y))
