"""All few-shot peers: support sets and base classes of unusual sizes and types."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from peer_cases import BASE, P
from refusals import refused
from trained import made, make_clone, nest

from zonkey.testing import shots_problem
from zonkey_lab.peers import fsl
from zonkey_lab.peers.fsl import BDCSPN, MAPSSVM, SNAIL, BaseSamples, PrototypicalNetwork
from zonkey_lab.peers.fsl.base import Support

PEERS = [name for name in fsl.__all__ if name != "BaseSamples"]
SMALL = {"n_hidden": 8, "max_iter": 2, "n_episodes": 4, "prototypes": P.prototypes}


def fitted(name, X, y, **parameters):
    model = getattr(fsl, name)()
    own = {key: value for key, value in nest(SMALL).items() if key in model.get_params()}
    return make_clone(P, model, base=BASE, **own, **parameters).fit(X, y)


@pytest.mark.parametrize("n_shots", [1, 3])
@pytest.mark.parametrize("name", PEERS)
def test_one_class(name, n_shots):
    label = P.y_support[0]
    rows = np.flatnonzero(P.y_support == label)[:n_shots]
    model = fitted(name, P.X_support[rows], P.y_support[rows])
    assert model.decision_function(P.X_query).shape == (len(P.X_query), 1)
    assert np.unique(model.predict(P.X_query)) == [label]


@pytest.mark.parametrize("name", PEERS)
def test_unequal_shots(name):
    rows = np.flatnonzero((P.y_support != "novel 01") | (np.arange(len(P.y_support)) % 5 == 0))
    counts = np.unique(P.y_support[rows], return_counts=True)[1]
    assert len(set(counts.tolist())) > 1
    assert len(counts) == 4
    model = fitted(name, P.X_support[rows], P.y_support[rows])
    assert model.score(P.X_query, P.y_query) > 0.7  # some favor classes with more shots


@pytest.mark.parametrize("name", PEERS)
def test_scores_have_the_dtype_of_the_samples_whatever_that_of_the_support_set(name):
    model = fitted(name, P.X_support, P.y_support)
    assert model.decision_function(P.X_query.astype(np.float32)).dtype == np.float32
    model = fitted(name, P.X_support.astype(np.float32), P.y_support)
    assert model.decision_function(P.X_query).dtype == np.float64


def test_base_samples_keep_what_was_used_last(monkeypatch):
    monkeypatch.setattr("zonkey_lab.peers.fsl.base._MOST_KEPT", 2)
    base, calls = BaseSamples(P.X_base, P.y_base), []
    for key in "abaca":
        base.learn_once(key, lambda key=key: calls.append(key))
    assert calls == ["a", "b", "c"]
    base.learn_once("b", lambda: calls.append("b"))
    assert calls == ["a", "b", "c", "b"]


def test_classes_with_too_few_samples_are_not_held_out():
    single, first = np.unique(shots_problem(n_base=60, seed=5).y_base, return_index=True)
    X = np.concatenate([P.X_base, shots_problem(n_base=60, seed=5).X_base[first]])
    y = np.concatenate([P.y_base, np.char.add("single ", single)])
    model = made(PrototypicalNetwork, n_episodes=4, max_iter=2, n_shot=2)
    for seed in range(5):
        model.base = BaseSamples(X, y, random_state=seed)
        assert len(model.fit(P.X_support, P.y_support).validation_scores_) == 2


def test_episodes_have_at_most_sixty_classes_unless_asked():
    many = Support(np.zeros((90, 2)), np.arange(90), np.arange(90), 0, BASE)
    assert PrototypicalNetwork()._choose_sizes(many, own=False).n_way == 60
    assert PrototypicalNetwork(n_way=70)._choose_sizes(many, own=False).n_way == 70
    assert SNAIL()._choose_sizes(many, own=False).n_way == 90  # one output per class


def test_scores_of_map_ssvm_with_one_class_are_mean_cosines():
    rows = P.y_support == P.y_support[0]
    model = fitted("MAPSSVM", P.X_support[rows], P.y_support[rows])
    assert isinstance(model, MAPSSVM)
    expected = model._embed(P.X_support[rows]).mean(axis=0)
    np.testing.assert_allclose(model.coef_[0], expected, rtol=1e-6)


def test_very_unequal_weights_of_bd_cspn():
    model = fitted("BDCSPN", P.X_support, P.y_support, temperature=1e5).adapt(P.X_query)
    assert isinstance(model, BDCSPN)
    assert np.isfinite(model.centers_).all()


@pytest.mark.parametrize("validation", [BASE, (P.X_base,), P.X_base])
def test_validation_that_is_no_pair_is_refused(validation):
    with refused(TypeError, "`validation` must be a tuple", "got", "Pass samples and labels"):
        BaseSamples(P.X_base, P.y_base, validation=validation)


def test_threads_wait_for_each_other_only_if_they_learn_the_same():
    base, both, calls = BaseSamples([[0.0], [1.0]], ["a", "b"]), Barrier(2, timeout=30), []

    def meet(key):
        calls.append(key)
        both.wait()  # it would time out if one waited for the other
        return key

    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda key: base.learn_once(key, lambda: meet(key)), ["a", "b", "a", "b"])
    assert list(found) == ["a", "b", "a", "b"]
    assert sorted(calls) == ["a", "b"]


def test_what_failed_is_learned_again():
    base = BaseSamples([[0.0], [1.0]], ["a", "b"])
    with pytest.raises(ZeroDivisionError):
        base.learn_once("a", lambda: 1 / 0)
    assert base.learn_once("a", lambda: 3) == 3
    assert pickle.loads(pickle.dumps(base)).learn_once("a", lambda: 4) == 3
