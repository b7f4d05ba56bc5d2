"""FewShotClassifier: every parameter reaches the mathematics, and nothing else does."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.exceptions import ConvergenceWarning

from zonkey import Moments
from zonkey.bpl.few_shot import FewShotClassifier
from zonkey.testing import linear_problem

# Noise that makes classes compete, without which many parameters have nothing to decide.
P = linear_problem(noise=1.5)
N_SUPPORT = 13  # not a multiple of the 4 novel classes: some have more shots than others


def fitted(p=P, rows=range(N_SUPPORT), **parameters):
    base = Moments.from_arrays(p.X, p.y, p.prototypes)
    defaults = {"prototypes": p.prototypes, "base": base, "random_state": 0}
    return FewShotClassifier(**(defaults | parameters)).fit(p.X_new[rows], p.y_new[rows])


def test_the_seed_decides_and_nothing_else():
    first = fitted(random_state=3).projection_
    assert_array_equal(fitted(random_state=3).projection_, first)
    assert_array_equal(fitted(random_state=np.random.RandomState(3)).projection_, first)
    shared = np.random.RandomState(3)
    one, two = (fitted(random_state=shared).projection_ for _ in range(2))
    assert np.abs(one - two).max() > 1e-6
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    fitted()
    assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_steps_of_all_episodes_are_counted():
    assert fitted(n_episodes=3, max_iter=2, tol=0.0).n_iter_ == 6
    assert fitted(n_episodes=3, tol=0.0).n_iter_ == 15
    assert fitted(n_episodes=3, tol=1e9).n_iter_ == 3


@pytest.mark.filterwarnings("ignore:`mu` was lowered", "ignore:The equation was indefinite")
@pytest.mark.parametrize("subset", [None, 2])
def test_mu_of_every_step_is_kept(subset):
    options = {"n_episodes": 3, "max_iter": 4, "tol": 0.0, "base_samples_per_class": subset}
    calm = fitted(**options, mu=0.2, alpha=0.01)
    assert_array_equal(calm.mu_, np.full(12, 0.2))
    lowered = fitted(**options, mu=0.9, alpha=0.9)
    assert lowered.mu_.shape == (lowered.n_iter_,)
    assert (lowered.mu_ < 0.9).any()
    assert lowered.n_indefinite_ == calm.n_indefinite_ == 0
    printed = fitted(**options, mu=0.9, alpha=0.9, guard=False)
    assert_array_equal(printed.mu_, np.full(12, 0.9))
    assert 0 < printed.n_indefinite_ <= 12
    assert_array_equal(fitted(**options, competition="assigned").mu_, np.zeros(12))


@pytest.mark.parametrize("parameters", [{}, {"synthesis": "base"}, {"base": None}])
@pytest.mark.parametrize("competition", ["second-best", None, "assigned"])
def test_an_easy_problem_is_solved_from_one_shot(parameters, competition):
    p = linear_problem()
    first = [p.y_new.tolist().index(label) for label in p.unseen]
    model = fitted(p, first, competition=competition, **parameters)
    assert model.score(p.X_new, p.y_new) > 0.7


def test_a_step_that_the_guard_changed_is_reported_where_fit_was_called():
    base = Moments.from_arrays(P.X, P.y, P.prototypes)
    model = FewShotClassifier(P.prototypes, base=base, mu=0.9, alpha=0.9)
    with pytest.warns(ConvergenceWarning, match="`mu` was lowered from 0.9 to") as caught:
        model.fit(P.X_new[:N_SUPPORT], P.y_new[:N_SUPPORT])
    assert {warning.filename for warning in caught} == {__file__}
    model.set_params(guard=False)
    with pytest.warns(ConvergenceWarning, match=r"indefinite in \d+ of \d+ steps") as caught:
        model.fit(P.X_new[:N_SUPPORT], P.y_new[:N_SUPPORT])
    assert [warning.filename for warning in caught] == [__file__]
    # Only second best pushes.
    fitted(competition=None, mu=0.9, alpha=0.9)
