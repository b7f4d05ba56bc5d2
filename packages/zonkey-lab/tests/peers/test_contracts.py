"""What every peer keeps: both contracts, files, predictions without torch, epochs, penalties."""

import sys
from functools import partial

import numpy as np
import peer_cases as cases
import pytest
from contracts import few_shot_contract, zero_shot_contract
from numpy.testing import assert_allclose, assert_array_equal
from refusals import refused
from sklearn_checks import parametrize_with_sklearn_checks
from trained import fit_clone, make_clone

import zonkey
from zonkey.testing import linear_problem, zero_shot
from zonkey_lab.peers import fsl, zsl

P = linear_problem()
# Mixtures of eight seen classes reach few points of five dimensions: in this problem the unseen
# classes lie where they reach.
REACHED = partial(linear_problem, seed=6)
BY_SAMPLES = [*cases.CLOSED_FORM, *cases.MIXTURES]
TRAINED = [*cases.RANKING, *cases.EMBEDDING_QUICK, *cases.GENERATIVE_QUICK]
EPISODIC = [
    *cases.meta_peers(cases.BASE),
    *cases.metric_peers(cases.BASE, n_iter_no_change=None),
    *cases.SHOTS,
]
OFFERED = {  # project, embed
    **dict.fromkeys(("ESZSL", "ConSE", "CMT", "SPAEN", "DeViSE", "SJE", "ALE"), (False, True)),
    **dict.fromkeys(("ExemplarRegression", "EXEM", "DEM"), (True, False)),
    **dict.fromkeys(("SAE", "DIPL"), (True, True)),
}


def each(peers):
    return pytest.mark.parametrize("peer", peers, ids=lambda peer: type(peer).__name__)


@parametrize_with_sklearn_checks(
    [
        *cases.CLOSED_FORM,
        zsl.SAE(direction="semantic-to-feature"),
        *(type(peer)() for peer in cases.MIXTURES),
        *cases.RANKING,
        *cases.EMBEDDING_ON_BLOBS,
        *cases.GENERATIVE_ON_BLOBS,
        *cases.meta_peers(),
        *cases.metric_peers(n_episodes=2, max_iter=1, batch_size=2),
        *(fsl.SimpleShot(), fsl.SimpleShot(normalization=None), *cases.SHOTS_ON_BLOBS),
        *(type(peer)() for peer in cases.WITH_TEXTS),
        *(fsl.BDCSPN(), fsl.LaplacianShot(), fsl.PTMAP(), fsl.TIM()),
        fsl.PTMAP(normalization=None),
    ],
    in_full=(
        *(zsl.ESZSL, zsl.DAP, zsl.ALE, zsl.CVAE),
        *(fsl.PrototypicalNetwork, fsl.SimpleShot, fsl.BDCSPN),
    ),
    expected_failed_checks=lambda estimator: (
        {
            "check_non_transformer_estimators_n_iter": "without prototypes there is no unseen "
            "class, and so no step"
        }
        if isinstance(estimator, zsl.DIPL)
        else {}
    ),
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@zero_shot_contract(
    cases.CLOSED_FORM_FITTING,
    cases.MIXTURES,
    cases.RANKING,
    cases.EMBEDDING,
    cases.GENERATIVE_QUICK,
)
def test_zero_shot_contract(estimator, check, monkeypatch):
    if type(estimator) in map(type, cases.MIXTURES):
        monkeypatch.setattr(zero_shot, "linear_problem", REACHED)
    if check.__name__ == "check_unseen_accuracy":
        known = {type(peer): peer for peer in cases.GENERATIVE}
        estimator = known.get(type(estimator), estimator)
    check(estimator)


@few_shot_contract(
    [fsl.SimpleShot(cases.BASE), fsl.SimpleShot(normalization="unit"), *cases.SHOTS],
    cases.meta_peers(cases.BASE),
    cases.metric_peers(cases.BASE, n_iter_no_change=None),
    [*cases.WITH_TEXTS, *(type(peer)() for peer in cases.WITH_TEXTS)],
    cases.TRANSDUCTIVE,
)
def test_few_shot_contract(estimator, check):
    check(estimator)


@each([*BY_SAMPLES, *TRAINED])
def test_a_saved_model_has_the_same_scores(peer, tmp_path):
    model = P.fit_clone(peer, candidates="all", seen_penalty=0.3)
    model.save(tmp_path / "model.zonkey")
    found = zonkey.load(tmp_path / "model.zonkey")
    assert_array_equal(found.decision_function(P.X_new), model.decision_function(P.X_new))
    assert getattr(found, "n_iter_", 0) == getattr(model, "n_iter_", 0)
    if hasattr(model, "with_classes"):
        both = [m.with_classes({"new": np.linspace(-1, 1, 5)}) for m in (found, model)]
    else:
        both = [m.with_candidates(P.unseen) for m in (found, model)]
    assert_array_equal(*(m.decision_function(P.X_new) for m in both))


@each([fsl.SimpleShot(cases.BASE), *EPISODIC, *cases.WITH_TEXTS])
def test_a_saved_few_shot_model_has_the_same_scores(peer, tmp_path):
    model, X = cases.P.fit_clone(peer), cases.P.X_query
    zonkey.save(model, tmp_path / "model.zonkey")
    found = zonkey.load(tmp_path / "model.zonkey")
    assert_array_equal(found.decision_function(X), model.decision_function(X))
    assert getattr(found, "loss_curve_", []) == getattr(model, "loss_curve_", [])


@each([*cases.EMBEDDING_QUICK, *cases.metric_peers(cases.BASE, n_iter_no_change=None)])
def test_torch_is_not_needed_to_predict(peer, monkeypatch):
    problem = P if isinstance(peer, tuple(map(type, cases.EMBEDDING_QUICK))) else cases.P
    X = P.X_new if problem is P else problem.X_query
    model = problem.fit_clone(peer)
    expected = model.predict(X)
    monkeypatch.setitem(sys.modules, "torch", None)
    assert_array_equal(model.predict(X), expected)
    if problem is not P:
        model.set_params(base=None)
    with refused(ImportError, f"Training {type(peer).__name__}"):
        model.fit(X, model.predict(X))


@each([*BY_SAMPLES, *TRAINED])
def test_a_penalty_is_chosen_on_held_out_classes(peer):
    model = P.fit_clone(peer, candidates="all", seen_penalty="auto")
    free = P.fit_clone(peer, candidates="all").decision_function(P.X_new)
    shift = model.seen_penalty_ * np.isin(model.classes_, P.seen)
    assert_allclose(model.decision_function(P.X_new), free - shift, atol=1e-9 * np.abs(free).max())


@each([*cases.RANKING, *cases.EMBEDDING, *cases.GENERATIVE_QUICK])
def test_the_number_of_epochs_is_chosen_on_held_out_classes(peer):
    model = fit_clone(P, peer, max_iter=7, n_iter_no_change=2)
    scores = model.validation_scores_
    assert model.n_iter_ == np.argmax(scores) + 1 == len(model.loss_curve_)
    assert len(scores) == min(7, model.n_iter_ + 2)
    whole = fit_clone(P, peer, max_iter=model.n_iter_, n_iter_no_change=None)
    assert (whole.n_iter_, whole.validation_scores_) == (model.n_iter_, [])
    for name, array in getattr(model, "weights_", {}).items():
        assert_array_equal(whole.weights_[name], array)
    few = np.isin(P.y, P.seen[:3])
    model = make_clone(P, peer, max_iter=3).fit(P.X[few], P.y[few])
    assert (model.n_iter_, model.validation_scores_) == (3, [])


@each([*BY_SAMPLES, *TRAINED])
def test_methods_without_a_meaning_are_not_offered(peer):
    model = P.fit_clone(peer)
    offered = hasattr(model, "project"), hasattr(model, "embed")
    assert offered == OFFERED.get(type(peer).__name__, (False, False))
    is_generative = type(peer) in map(type, cases.GENERATIVE_QUICK)
    for method in ("explain", "with_classes"):
        assert hasattr(model, method) != is_generative
    if hasattr(model, "explain"):
        assert model.explain(P.X_new[0]).label == model.predict(P.X_new[:1])[0]
