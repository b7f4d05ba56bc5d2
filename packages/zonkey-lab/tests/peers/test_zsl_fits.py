"""What fits of zero-shot peers keep and refuse: earlier models, penalties, degenerate data."""

import pickle

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from peer_cases import CLOSED_FORM
from refusals import refused
from scipy.linalg import LinAlgWarning
from trained import fit_clone, made, make_clone

import zonkey
from zonkey.inference.scorer import LinearScores
from zonkey.parameters import Interval, constraints_of
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
DIRECTIONS = ["feature-to-semantic", "semantic-to-feature"]


def each(peers):
    return pytest.mark.parametrize("peer", peers, ids=lambda peer: type(peer).__name__)


@each(PEERS)
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


@each(CLOSED_FORM)
def test_bad_input_leaves_the_model_as_it_was(peer):
    model = P.fit_clone(peer, candidates="all", seen_penalty="auto")
    chosen, expected = model.seen_penalty_, model.decision_function(P.X_new)
    few = np.isin(P.y, P.seen[:3])
    with refused(ValueError, "at least four classes in y", "got 3", "Pass a number instead"):
        model.fit(P.X[few], P.y[few])
    with pytest.raises(ValueError, match="okapi"):
        model.set_params(candidates=["okapi"]).fit(P.X, P.y)
    assert model.seen_penalty_ == chosen
    assert_array_equal(model.decision_function(P.X_new), expected)
    seen_only = {label: P.prototypes[label] for label in P.seen}
    with refused(ValueError, 'candidates="unseen" needs a class', 'candidates="all"'):
        P.make_clone(peer, prototypes=seen_only).fit(P.X, P.y)


def test_a_penalty_that_cannot_be_chosen_is_refused_before_training(monkeypatch):
    monkeypatch.setattr(zsl.ALE, "_learner", lambda *_: pytest.fail("It is trained."))
    with refused(ValueError, 'seen_penalty="auto" needs prototypes'):
        zsl.ALE(seen_penalty="auto").fit(P.X, P.y)


def test_what_is_not_offered_says_why():
    with pytest.raises(AttributeError, match="not a point in the feature space"):
        _ = zsl.ESZSL().project
    with pytest.raises(AttributeError, match="no point in the semantic space"):
        _ = zsl.ExemplarRegression().embed


@each(CLOSED_FORM)
@pytest.mark.filterwarnings("ignore:Classes should have different centers")  # a kernel of width 0
def test_zeros_are_accepted(peer):
    of_zero = (name for name, range_ in constraints_of(type(peer)).items() if range_ == Interval(0))
    model = fit_clone(P, peer, **dict.fromkeys(of_zero, 0))
    assert np.isfinite(model.decision_function(P.X_new)).all()


# Files


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


# Cosines and rounding in closed form


def test_cosines_depend_neither_on_lengths_nor_is_learning_on_the_direction():
    models = [P.fit_clone(zsl.SAE(direction=direction)) for direction in DIRECTIONS]
    assert_array_equal(models[0].projection_, models[1].projection_)
    model = P.fit_clone(zsl.SAE(), candidates="all", seen_penalty=0.2)
    lengths = np.linspace(0.1, 30, len(P.X_new))[:, None]
    expected = model.decision_function(P.X_new)
    assert_allclose(model.decision_function(lengths * P.X_new), expected, rtol=1e-10)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_zero_vector_has_the_cosine_zero(direction):
    prototypes = {**P.prototypes, P.unseen[0]: np.zeros(5)}
    with pytest.warns(UserWarning, match=f"all zeros; those of '{P.unseen[0]}' are"):
        model = P.fit_clone(zsl.SAE(direction=direction), prototypes=prototypes)
    X = np.concatenate([np.zeros((1, P.X.shape[1])), P.X_new])
    scores = model.decision_function(X)
    assert_array_equal(scores[0], 0)
    assert_array_equal(scores[:, 0], 0)
    assert np.abs(scores[1:, 1:]).min() > 0


@pytest.mark.parametrize(
    ("peer", "changed", "remedy"),
    [
        (zsl.ESZSL(), {"lam": 1e-11}, "Increase `lam`"),
        (zsl.ExemplarRegression(kernel="linear"), {"ridge": 1e-11}, "Increase `ridge`"),
        (zsl.SAE(lam=1.0), {}, "Remove features"),
    ],
)
def test_equations_that_are_lost_in_rounding_are_told(peer, changed, remedy):
    degenerate = {label: np.append(vector, vector[0]) for label, vector in P.prototypes.items()}
    # For SAE, a feature that hardly varies.
    X = np.column_stack([P.X, 1e-5 * P.X[:, 0] ** 2]) if isinstance(peer, zsl.SAE) else P.X
    model = make_clone(P, peer, prototypes=degenerate, **changed)
    with pytest.warns(LinAlgWarning, match=f"not well determined.*{remedy}") as caught:
        model.fit(X, P.y)
    assert caught[0].filename == __file__
