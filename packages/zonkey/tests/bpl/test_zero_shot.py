"""ZeroShotClassifier: every parameter reaches the mathematics, and what a fit leaves behind."""

import tracemalloc

import numpy as np
import pytest
from all_pairs import all_pairs
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import LinAlgWarning, solve_sylvester
from sklearn.exceptions import ConvergenceWarning

from zonkey import Moments, Prototypes, ZeroShotClassifier
from zonkey.bpl.algorithm1 import Competition, learn
from zonkey.bpl.entropy import EntropyObjective, minimize_entropy
from zonkey.bpl.projection import (
    NormalEquations,
    bidirectional_projection,
)
from zonkey.bpl.synthesis import synthesize
from zonkey.testing import linear_problem

# Noise that makes classes compete, without which many parameters have nothing to decide.
NOISY = linear_problem(noise=1.5)

# All off their defaults.
ODD = {
    "rho": 0.8,
    "alpha": 0.3,
    "mu": 0.2,
    "beta": 0.7,
    "n_neighbors": 2,
    "n_synthetic": 7,
    "tie_tol": 0.05,
    "tol": 1e-6,
}


def fitted(p=NOISY, **parameters):
    return p.fit_clone(ZeroShotClassifier(), **parameters)


def prototype_rows(p, labels):
    return np.stack([p.prototypes[label] for label in labels])


def equations(p):
    Y = prototype_rows(p, p.y)
    return NormalEquations(p.X.T @ p.X, Y.T @ Y, p.X.T @ Y)


def synthesized(p, W, *, per="class", scaling="squared-norm", random_state=0):
    """X_g as the fit draws it: kept samples and order of draws follow one seed."""
    seed = np.random.RandomState(random_state).randint(2**31 - 1)
    moments = Moments.from_arrays(p.X, p.y, p.prototypes, n_reserve=64, seed=seed)
    return synthesize(
        W,
        prototype_rows(p, p.unseen),
        prototype_rows(p, p.seen),
        [moments.samples_of(label) for label in p.seen],
        rho=ODD["rho"],
        n_neighbors=ODD["n_neighbors"],
        n_synthetic=ODD["n_synthetic"],
        per=per,
        scaling=scaling,
        rng=np.random.default_rng(seed),
    )


def by_algorithm_1(p, rule, *, max_iter=5, **options):
    W = bidirectional_projection(equations(p), ODD["beta"]).value
    Y_u = prototype_rows(p, p.unseen)
    competition = Competition(
        equations(p),
        synthesized(p, W, **options),
        Y_u,
        beta=ODD["beta"],
        tie_tol=ODD["tie_tol"],
        rule=rule,
    )
    mu = ODD["mu"] if rule == "second-best" else 0.0
    return learn(competition, W, alpha=ODD["alpha"], mu=mu, max_iter=max_iter, tol=ODD["tol"]), W


def test_closed_forms_solve_the_printed_equations():
    X, Y, beta = NOISY.X, prototype_rows(NOISY, NOISY.y), 2.5
    A, B = X.T @ X + beta * np.eye(X.shape[1]), Y.T @ Y + beta * np.eye(Y.shape[1])
    for parameters, W in [
        ({"direction": "forward"}, np.linalg.solve(A, X.T @ Y)),
        ({"direction": "reverse"}, np.linalg.solve(B, Y.T @ X).T),
        ({"synthesis": None}, solve_sylvester(A, B, 2 * X.T @ Y)),
    ]:
        model = fitted(**ODD | {"beta": beta}, **parameters)  # the others have no effect
        assert_allclose(model.projection_, W, rtol=1e-8)
        assert (model.moved_, model.n_iter_, model.converged_) == (0.0, 0, True)


@all_pairs(
    {
        "competition": ["second-best", None, "assigned"],
        "guard": [True, False],
        "options, core_options": [
            ({}, {}),
            ({"max_iter": 2}, {"max_iter": 2}),
            ({"synthetic_per": "neighbor"}, {"per": "neighbor"}),
            ({"scaling": None}, {"scaling": None}),
            ({"random_state": 3}, {"random_state": 3}),
        ],
    }
)
def test_competition_is_that_of_the_core(competition, guard, options, core_options):
    model = fitted(**ODD, competition=competition, guard=guard, **options)
    path, W0 = by_algorithm_1(NOISY, competition, **core_options)
    assert model.moved_ == pytest.approx(np.linalg.norm(path.W - W0) / np.linalg.norm(W0))
    assert model.n_indefinite_ == 0  # the guard is not needed
    assert_allclose(model.projection_, path.W, rtol=1e-8, atol=1e-12)
    assert_allclose(model.objective_, path.objective, rtol=1e-9)
    assert (model.n_iter_, model.converged_) == (len(path.changes), path.converged)


@pytest.mark.parametrize(("max_iter", "step_size"), [(None, 1.0), (4, 30.0)])
def test_minimum_entropy_is_that_of_the_core(max_iter, step_size):
    model = fitted(**ODD, competition="entropy", max_iter=max_iter, step_size=step_size)
    W = bidirectional_projection(equations(NOISY), ODD["beta"]).value
    objective = EntropyObjective(
        equations(NOISY),
        synthesized(NOISY, W).features,
        prototype_rows(NOISY, NOISY.unseen),
        alpha=ODD["alpha"],
        beta=ODD["beta"],
    )
    options = {"max_iter": max_iter or 100, "tol": ODD["tol"], "step_size": step_size}
    path = minimize_entropy(objective, W, **options)
    # A hundred line searches amplify the rounding of the moments.
    assert_allclose(model.projection_, path.W, rtol=1e-5, atol=1e-6)
    assert_allclose(model.objective_[-1], path.objective[-1], rtol=1e-9)
    assert len(model.objective_) == model.n_iter_ + 1
    assert model.n_iter_ <= (max_iter or 100)
    assert model.moved_ == pytest.approx(np.linalg.norm(path.W - W) / np.linalg.norm(W), rel=1e-5)


def test_fitted_attributes():
    model = fitted(prototypes=Prototypes.coerce(NOISY.prototypes), tol=0.0)
    assert_array_equal(model.seen_classes_, NOISY.seen)
    assert_array_equal(model.unseen_classes_, NOISY.unseen)
    assert_array_equal(model.classes_, NOISY.unseen)
    assert model.prototypes_ == Prototypes.coerce(NOISY.prototypes)
    assert model.n_features_in_ == NOISY.X.shape[1]
    assert (model.n_iter_, model.converged_) == (5, False)
    assert fitted(tol=0.1).converged_


def test_without_prototypes_classes_are_axes_and_there_is_nothing_unseen():
    model = ZeroShotClassifier().fit(NOISY.X, NOISY.y)
    assert_array_equal(model.prototypes_.matrix, np.eye(len(NOISY.seen)))
    assert_array_equal(model.classes_, NOISY.seen)
    assert model.unseen_classes_.size == 0
    assert model.n_iter_ == 0


@pytest.mark.parametrize("competition", ["second-best", "entropy"])
def test_verbose_prints_a_line_a_step(capsys, competition):
    fitted(competition=competition)
    assert capsys.readouterr().out == ""
    model = fitted(competition=competition, verbose=1)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == model.n_iter_ > 0
    for step, line in enumerate(lines, start=1):
        assert line.startswith(f"[zonkey] step {step}: objective ")
        assert f"{model.objective_[step]:.6g}" in line


def test_without_the_guard_mu_stays_and_indefinite_steps_are_reported_once():
    model = NOISY.make_clone(ZeroShotClassifier(alpha=0.9, mu=0.9, guard=False))
    with pytest.warns(
        ConvergenceWarning, match=r"indefinite in \d of 5 steps with mu=0.9: .* guard=True"
    ) as seen:
        model.fit(NOISY.X, NOISY.y)
    assert [warning.filename for warning in seen] == [__file__]
    assert model.n_indefinite_ > 0
    assert f"indefinite in {model.n_indefinite_} of 5" in str(seen[0].message)
    assert model.mu_.tolist() == [0.9] * 5
    model.set_params(guard=True)
    with pytest.warns(ConvergenceWarning, match=r"`mu` was lowered from 0.9 to .* Decr") as seen:
        model.fit(NOISY.X, NOISY.y)
    assert [warning.filename for warning in seen] == [__file__]
    assert model.n_indefinite_ == 0
    assert min(model.mu_) < 0.9


@pytest.mark.filterwarnings("ignore:`mu` was lowered")
@pytest.mark.parametrize("competition", ["second-best", "entropy"])
def test_many_unseen_classes_fit_in_little_memory(competition):
    rng = np.random.default_rng(0)
    prototypes = rng.normal(size=(1008, 40))  # so wide that the guard looks at every step
    y = np.arange(240) % 8
    X = prototypes[y] @ rng.normal(size=(40, 16)) / 6 + rng.normal(size=(240, 16)) / 2
    options = {"competition": competition, "max_iter": 1, "random_state": 0}
    model = ZeroShotClassifier(dict(enumerate(prototypes)), **options)
    tracemalloc.start()
    try:
        model.fit(X, y)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 60e6  # the losses of 15,000 samples alone have 120 MB


@pytest.mark.filterwarnings("ignore:`mu` was lowered")
def test_attributes_that_say_nothing_new_change_nothing_not_even_the_guard():
    turned = np.linalg.qr(np.random.default_rng(0).normal(size=(35, 35)))[0][:5]
    wider = {label: vector @ turned for label, vector in NOISY.prototypes.items()}
    narrow, wide = fitted(alpha=0.9, mu=0.9), fitted(alpha=0.9, mu=0.9, prototypes=wider)
    assert min(narrow.mu_) < 0.9
    assert_array_equal(wide.mu_, narrow.mu_)
    assert_allclose(wide.projection_, narrow.projection_ @ turned, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("parameters", [{"direction": "forward"}, {"synthesis": None}])
def test_undetermined_projection_is_reported(parameters):
    # Neither the features nor the attributes of so few samples and classes span their space.
    p = linear_problem(n_features=90, n_attributes=9)
    model = p.make_clone(ZeroShotClassifier(beta=0.0, **parameters))
    with pytest.warns(LinAlgWarning, match=r"beta=0.0.*Increase `beta`") as seen:
        model.fit(p.X, p.y)
    assert [warning.filename for warning in seen] == [__file__]
    assert np.isfinite(model.projection_).all()
    p.fit_clone(ZeroShotClassifier(beta=0.01, **parameters))  # nothing to warn of


def test_without_a_forward_error_the_scatter_is_never_formed(monkeypatch):
    options = {"direction": "reverse", "random_state": 3}
    seed = np.random.RandomState(3).randint(2**31 - 1)
    complete = Moments.from_arrays(NOISY.X, NOISY.y, NOISY.prototypes, seed=seed)
    expected = ZeroShotClassifier(NOISY.prototypes, **options).fit_moments(complete)
    monkeypatch.setattr(Moments, "A0", property(lambda _: pytest.fail("A0 was formed")))
    model = ZeroShotClassifier(NOISY.prototypes, **options).fit(NOISY.X, NOISY.y)
    assert_allclose(model.projection_, expected.projection_, rtol=1e-12)
