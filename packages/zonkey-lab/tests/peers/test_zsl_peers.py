"""What peers in closed form keep: scikit-learn's contract, this project's, and refusals."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from peer_cases import CLOSED_FORM
from refusals import refused
from scipy.linalg import LinAlgWarning
from trained import fit_clone, make_clone

from zonkey.parameters import Interval, constraints_of
from zonkey.testing import linear_problem
from zonkey_lab.peers import zsl

P = linear_problem()
DIRECTIONS = ["feature-to-semantic", "semantic-to-feature"]


each_peer = pytest.mark.parametrize("peer", CLOSED_FORM, ids=lambda peer: type(peer).__name__)


def test_what_is_not_offered_says_why():
    with pytest.raises(AttributeError, match="not a point in the feature space"):
        _ = zsl.ESZSL().project
    with pytest.raises(AttributeError, match="no point in the semantic space"):
        _ = zsl.ExemplarRegression().embed


@each_peer
def test_too_few_classes_to_choose_a_penalty_leave_the_old_model_whole(peer):
    model = P.fit_clone(peer, candidates="all", seen_penalty="auto")
    chosen, expected = model.seen_penalty_, model.decision_function(P.X_new)
    few = np.isin(P.y, P.seen[:3])
    with refused(ValueError, "at least four classes in y", "got 3", "Pass a number instead"):
        model.fit(P.X[few], P.y[few])
    assert model.seen_penalty_ == chosen
    assert_array_equal(model.decision_function(P.X_new), expected)


@each_peer
def test_a_number_is_the_penalty_in_use(peer):
    model = P.fit_clone(peer, candidates="all", seen_penalty=1)
    assert model.seen_penalty_ == 1.0
    expected = model.decision_function(P.X_new)
    model.set_params(seen_penalty=2.5)  # takes effect in the next fit
    assert_array_equal(model.decision_function(P.X_new), expected)
    free = P.fit_clone(peer, candidates="all").decision_function(P.X_new)
    shift = 2.5 * np.isin(model.classes_, P.seen)
    assert_allclose(model.fit(P.X, P.y).decision_function(P.X_new), free - shift, rtol=1e-12)


@each_peer
@pytest.mark.filterwarnings("ignore:Classes should have different centers")  # a kernel of width 0
def test_zeros_are_accepted(peer):
    of_zero = (name for name, range_ in constraints_of(type(peer)).items() if range_ == Interval(0))
    model = fit_clone(P, peer, **dict.fromkeys(of_zero, 0))
    assert np.isfinite(model.decision_function(P.X_new)).all()


@each_peer
def test_a_failed_fit_leaves_the_old_model_whole(peer):
    model = P.fit_clone(peer, candidates="all")
    expected = model.decision_function(P.X_new)
    model.set_params(prototypes=dict.fromkeys(P.prototypes, np.ones(5)), candidates=["okapi"])
    with pytest.raises(ValueError, match="okapi"):
        model.fit(P.X, P.y)
    assert_array_equal(model.decision_function(P.X_new), expected)


@each_peer
def test_all_classes_seen_leaves_no_candidate(peer):
    seen_only = {label: P.prototypes[label] for label in P.seen}
    with refused(ValueError, 'candidates="unseen" needs a class', 'candidates="all"'):
        P.make_clone(peer, prototypes=seen_only).fit(P.X, P.y)


def test_the_direction_of_comparison_does_not_change_what_is_learned():
    models = [P.fit_clone(zsl.SAE(direction=direction)) for direction in DIRECTIONS]
    assert_array_equal(models[0].projection_, models[1].projection_)


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


def test_cosines_do_not_depend_on_lengths():
    model = P.fit_clone(zsl.SAE(), candidates="all", seen_penalty=0.2)
    lengths = np.linspace(0.1, 30, len(P.X_new))[:, None]
    expected = model.decision_function(P.X_new)
    assert_allclose(model.decision_function(lengths * P.X_new), expected, rtol=1e-10)


DEGENERATE = {label: np.append(vector, vector[0]) for label, vector in P.prototypes.items()}


@pytest.mark.parametrize(
    ("peer", "ridge"), [(zsl.ESZSL(), "lam"), (zsl.ExemplarRegression(kernel="linear"), "ridge")]
)
def test_a_ridge_that_is_lost_in_rounding_is_told(peer, ridge):
    model = make_clone(P, peer, prototypes=DEGENERATE, **{ridge: 1e-11})
    with pytest.warns(LinAlgWarning, match=f"not well determined.*Increase `{ridge}`") as caught:
        model.fit(P.X, P.y)
    assert caught[0].filename == __file__


def test_features_that_hardly_vary_are_told():
    X = np.column_stack([P.X, 1e-5 * P.X[:, 0] ** 2])
    model = P.make_clone(zsl.SAE(lam=1.0), prototypes=DEGENERATE)
    with pytest.warns(LinAlgWarning, match=r"not well determined.*Remove features"):
        model.fit(X, P.y)
