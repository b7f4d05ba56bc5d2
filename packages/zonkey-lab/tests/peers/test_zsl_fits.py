"""What every fit of a peer keeps: the model of an earlier fit that fails, and shared progress."""

import pickle

import pytest
import torch
from numpy.testing import assert_array_equal
from refusals import refused
from trained import made

import zonkey
from zonkey.inference.scorer import LinearScores
from zonkey.testing import linear_problem
from zonkey_lab.peers import zsl
from zonkey_lab.peers.zsl import base

torch.set_num_threads(1)

P = linear_problem()
SMALL = {"n_hidden": 4, "device": "cpu"}
PEERS = [
    zsl.ESZSL(),
    zsl.DAP(),
    made(zsl.ALE, max_iter=2),
    made(zsl.CMT, max_iter=2, **SMALL),
    made(zsl.CVAE, max_iter=2, n_synthetic=3, **SMALL),
]


def name_of(peer):
    return type(peer).__name__


@pytest.mark.parametrize("peer", PEERS, ids=name_of)
@pytest.mark.parametrize("late", [True, False], ids=["last step", "penalty"])
def test_a_failed_fit_leaves_the_model_as_it_was(monkeypatch, peer, late):
    model = P.fit_clone(peer, candidates="all")
    before, scores = pickle.dumps(model.__getstate__()), model.decision_function(P.X_new)

    def stopped(*_):
        raise KeyboardInterrupt

    if late:
        monkeypatch.setattr(LinearScores, "check", stopped)
    else:
        model.set_params(seen_penalty="auto")
        monkeypatch.setattr(base, "calibrate", stopped)
    with pytest.raises(KeyboardInterrupt):
        model.fit(2 * P.X[:, :-1], P.y)
    model.set_params(seen_penalty=0.0)
    assert pickle.dumps(model.__getstate__()) == before
    assert_array_equal(model.decision_function(P.X_new), scores)


def test_a_penalty_that_cannot_be_chosen_is_refused_before_training(monkeypatch):
    monkeypatch.setattr(zsl.ALE, "_learner", lambda *_: pytest.fail("It is trained."))
    with refused(ValueError, 'seen_penalty="auto" needs prototypes'):
        zsl.ALE(seen_penalty="auto").fit(P.X, P.y)


def test_a_generator_of_a_missing_device_chooses_from_other_candidates(tmp_path):
    model = P.fit_clone(PEERS[-1])
    expected = model.with_candidates("all").decision_function(P.X_new)
    model._synthesis["device"] = f"cuda:{torch.cuda.device_count()}"
    zonkey.save(model, tmp_path / "model.zonkey")
    loaded = zonkey.load(tmp_path / "model.zonkey")
    found = loaded.with_candidates("all").decision_function(P.X_new)
    assert found.shape == expected.shape
    if not torch.cuda.is_available():
        assert_array_equal(found, expected)


def test_a_stored_dipl_keeps_what_it_learned(tmp_path):
    model = P.make_clone(zsl.DIPL()).fit_transductive(P.X, P.y, P.X_new)
    model.save(tmp_path / "model.zonkey")
    loaded = zonkey.load(tmp_path / "model.zonkey")
    assert {*vars(loaded)} >= {*vars(model)}
    assert loaded.moved_ == model.moved_ > 0
    assert_array_equal(loaded.mu_, model.mu_)
