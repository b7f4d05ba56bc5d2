"""FewShotClassifier with `fusion`: a prototype is the prior of its class, shots are evidence."""

import numpy as np
import pytest
from few_shot_cases import BASE, P, X, Y, fitted, prepared
from numpy.testing import assert_allclose, assert_array_equal
from refusals import NOT_NUMBERS, refused
from scipy.linalg import LinAlgWarning, solve_sylvester
from scipy.spatial.distance import pdist
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import FunctionTransformer

from zonkey import FewShotClassifier, Moments, NearestSupport
from zonkey.core.frame import BaseClasses
from zonkey.core.fusion import simulated_variances
from zonkey.linalg import Factor
from zonkey.testing import linear_problem

X_ALL = np.concatenate([P.X_new, P.X])
ALL = range(len(Y))
FIRST = [Y.tolist().index(label) for label in P.unseen]  # one shot of each class
SHOTS = {j: P.X[P.y == j] for j in P.seen} | {j: X[j == Y] for j in P.unseen}
BETA = 0.7


def fused(rows=ALL, **parameters):
    defaults = {"synthesis": None, "fusion": 2.5, "beta": BETA}
    return prepared(**(defaults | parameters)).fit(X[list(rows)], Y[list(rows)])


def base_projection(forward=0.5):
    Y_s = np.stack([P.prototypes[label] for label in P.y])
    A, B = P.X.T @ P.X + BETA * np.eye(10), Y_s.T @ Y_s + BETA * np.eye(5)
    return solve_sylvester(forward * A, (1 - forward) * B, P.X.T @ Y_s)


def scores_by_loops(centers):
    scores = [[np.sum(x**2) - np.sum((x - c) ** 2) for c in centers] for x in X_ALL]
    return np.array(scores)


def center(prior, samples, worth):
    return (np.sum(samples, axis=0) + worth * prior) / (len(samples) + worth)


def assert_scores(model, centers):
    expected = scores_by_loops(centers)
    assert_allclose(model.decision_function(X_ALL), expected, rtol=1e-8, atol=1e-8)
    assert_array_equal(model.predict(X_ALL), model.classes_[expected.argmax(axis=1)])


# The posterior mean


@pytest.mark.parametrize("worth", [0.01, 1, 2.5, 40.0])
@pytest.mark.parametrize("forward", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("rows", [ALL, FIRST], ids=["several shots", "one shot"])
def test_a_class_is_at_the_posterior_mean(worth, forward, rows):
    model = fused(rows, fusion=worth, forward_weight=forward)
    W, X_s, Y_s = base_projection(forward), X[list(rows)], Y[list(rows)]
    centers = [center(W @ P.prototypes[j], X_s[Y_s == j], worth) for j in P.unseen]
    assert_scores(model, centers)
    assert_allclose(model.projection_, W, rtol=1e-8, atol=1e-11)
    assert model.fusion_ == worth
    assert model.n_iter_ == 0


def test_base_classes_have_many_shots():
    model = fused(candidates="all")
    W = base_projection()
    assert_scores(model, [center(W @ P.prototypes[j], SHOTS[j], 2.5) for j in P.prototypes])
    chosen = [P.seen[2], P.unseen[3], P.seen[0]]
    fewer = fused(candidates=chosen)
    assert_scores(fewer, [center(W @ P.prototypes[j], SHOTS[j], 2.5) for j in sorted(chosen)])
    assert_array_equal(model.with_candidates(chosen).predict(X_ALL), fewer.predict(X_ALL))


@pytest.mark.parametrize("worth", [0.0, 2.5])
def test_a_class_without_shots_is_where_its_prototype_is(worth):
    two = np.flatnonzero(np.isin(Y, P.unseen[:2]))
    new = {"class new": np.arange(5.0)}
    model = fused(two, fusion=worth).with_classes(new).with_candidates([*P.unseen, "class new"])
    W = base_projection()
    vectors = P.prototypes | new
    centers = [
        center(W @ vectors[j], SHOTS[j], worth) if j in P.unseen[:2] else W @ vectors[j]
        for j in model.classes_
    ]
    assert_scores(model, centers)


@pytest.mark.parametrize("synthesis", ["support", "base", None])
def test_what_synthesis_learned_is_a_prior_too(synthesis):
    model = fused(synthesis=synthesis, n_episodes=3)
    if synthesis is not None:
        plain = fitted(synthesis=synthesis, beta=BETA, fusion=None)
        assert_array_equal(model.projection_, plain.projection_)
        assert plain.fusion_ is None
    prior = model.project({j: P.prototypes[j] for j in P.unseen})
    centers = [center(p, SHOTS[j], 2.5) for p, j in zip(prior, P.unseen, strict=True)]
    assert_scores(model, centers)


def test_without_fusion_shots_act_through_the_projection_alone():
    model = fitted(synthesis=None)
    assert model.fusion_ is None
    assert_scores(model, [model.projection_ @ P.prototypes[j] for j in P.unseen])
    assert np.abs(model.projection_ - fused(beta=0.01).projection_).max() > 1e-3


@pytest.mark.parametrize("synthesis", ["support", None])
def test_a_prototype_worth_nothing_leaves_the_mean_of_the_shots(synthesis):
    model = fused(fusion=0, synthesis=synthesis)
    expected = NearestSupport("mean").fit(X, Y)
    assert_array_equal(model.predict(X_ALL), expected.predict(X_ALL))
    differences = model.decision_function(X_ALL) - expected.decision_function(X_ALL)
    assert_allclose(differences, np.sum(X_ALL**2, axis=1)[:, None] * np.ones(4), rtol=1e-9)


@pytest.mark.parametrize("parameters", [{}, {"kernel": "rbf"}, {"forward_weight": 0.1}], ids=str)
def test_a_prototype_worth_a_million_shots_is_all_there_is(parameters):
    model = fused(fusion=1e12, **parameters)
    zero_shot = model.zero_shot(P.unseen)
    assert_allclose(
        model.decision_function(X_ALL), zero_shot.decision_function(X_ALL), rtol=1e-6, atol=1e-6
    )
    assert_array_equal(model.predict(X_ALL), zero_shot.predict(X_ALL))


@pytest.mark.parametrize("candidates", ["novel", "all"])
def test_the_prior_may_be_kernel_ridge_regression(candidates):
    kernel = {"kernel": "rbf", "gamma": 0.4, "forward_weight": 0.0, "weight_per": "class"}
    model = fused(candidates=candidates, **kernel)
    Y_s = np.stack([P.prototypes[j] for j in P.seen])
    gamma = 0.4 / np.median(pdist(Y_s) ** 2)

    def k(y, z):
        return np.exp(-gamma * np.sum((y - z) ** 2))

    means = np.stack([P.X[P.y == j].mean(axis=0) for j in P.seen])
    K = np.array([[k(y, z) for z in Y_s] for y in Y_s])
    G = np.linalg.solve(K + BETA * np.eye(8), means)
    prior = {j: np.array([k(y, z) for z in Y_s]) @ G for j, y in P.prototypes.items()}
    assert_scores(model, [center(prior[j], SHOTS[j], 2.5) for j in model.classes_.tolist()])


def test_single_precision_stays_and_suffices():
    model = prepared(synthesis=None, fusion="auto", candidates="all").fit(np.float32(X), Y)
    scores = model.decision_function(np.float32(X_ALL))
    assert scores.dtype == np.float32
    expected = fitted(synthesis=None, fusion="auto", candidates="all").decision_function(X_ALL)
    assert_allclose(scores, expected, atol=1e-4 * np.abs(expected).max())


# What a prototype is worth


def variances_by_loops(prior, X_s, Y_s):
    """The within-class variance and the squared error of prototypes, both summed over features."""
    labels = sorted(set(Y_s.tolist()))
    around = [x - X_s[Y_s == j].mean(axis=0) for x, j in zip(X_s, Y_s, strict=True)]
    sigma2 = sum(np.sum(d**2) for d in around) / (len(Y_s) - len(labels))
    errors = [
        np.sum((prior[j] - X_s[Y_s == j].mean(axis=0)) ** 2) - sigma2 / np.sum(Y_s == j)
        for j in labels
    ]
    return sigma2, np.mean(errors)


def worth_by_loops(prior, X_s, Y_s):
    sigma2, tau2 = variances_by_loops(prior, X_s, Y_s)
    return sigma2 / tau2


TWO_AND_ONES = [*FIRST, Y.tolist().index(P.unseen[1], FIRST[1] + 1)]


@pytest.mark.parametrize("synthesis", ["support", None])
@pytest.mark.parametrize("rows", [ALL, TWO_AND_ONES], ids=["many", "two of one class"])
def test_several_shots_tell_what_a_prototype_is_worth(synthesis, rows):
    model = fused(rows, fusion="auto", synthesis=synthesis)
    prior = {j: model.project([P.prototypes[j]])[0] for j in P.unseen}
    sigma2, tau2 = variances_by_loops(prior, X[list(rows)], Y[list(rows)])
    _, of_base = simulated_variances(BASE, beta=BETA, forward=0.5, per="sample")
    expected = sigma2 / ((4 * max(tau2, 0) + of_base) / 5)  # as if the base were a fifth class
    assert 0 < expected < 1e5
    assert_allclose(model.fusion_, expected, rtol=1e-9)
    assert model.fusion == "auto"
    same = fused(rows, fusion=model.fusion_, synthesis=synthesis)
    assert_allclose(model.decision_function(X_ALL), same.decision_function(X_ALL), rtol=1e-12)


@pytest.mark.parametrize("per", ["sample", "class"])
@pytest.mark.parametrize("forward", [0.0, 0.5])
def test_from_one_shot_base_classes_play_the_novel_ones(forward, per):
    model = fused(FIRST, fusion="auto", forward_weight=forward, weight_per=per)
    sigma2, tau2 = simulated_variances(BASE, beta=BETA, forward=forward, per=per)
    expected = sigma2 / tau2
    assert model.fusion_ == expected
    if forward == 0:  # where the raw samples of the others are all that W depends on
        prior = {}
        for held in P.seen:
            others = [j for j in P.seen if j != held]
            n = 9 if per == "sample" else 1
            B = sum(n * np.outer(P.prototypes[j], P.prototypes[j]) for j in others)
            C = sum(n * np.outer(P.X[P.y == j].mean(axis=0), P.prototypes[j]) for j in others)
            prior[held] = C @ np.linalg.solve(B + BETA * np.eye(5), P.prototypes[held])
        assert_allclose(expected, worth_by_loops(prior, P.X, P.y), rtol=1e-8)


def simulated(seed, *, sigma, tau, n_base=150, n_novel=60, n_samples=12, d=20, k=5):
    """Class centers off their prototypes by tau a feature, samples off the centers by sigma."""
    rng = np.random.default_rng(seed)
    labels = [f"class {j:03d}" for j in range(n_base + n_novel)]
    vectors = rng.normal(size=(len(labels), k))
    centers = vectors @ rng.normal(size=(k, d)) + tau * rng.normal(size=(len(labels), d))
    samples = np.repeat(centers, n_samples, axis=0)
    samples += sigma * rng.normal(size=samples.shape)
    y = np.repeat(labels, n_samples)
    of_base = y < labels[n_base]
    prototypes = dict(zip(labels, vectors, strict=True))
    base = Moments.from_arrays(samples[of_base], y[of_base], prototypes, n_reserve=0)
    # The error from features to semantics would shrink W, and prototypes would be off by more.
    model = FewShotClassifier(prototypes, base=base, synthesis=None, forward_weight=0.0)
    return model, samples[~of_base], y[~of_base]


@pytest.mark.parametrize(("sigma", "tau"), [(1.0, 1.0), (2.0, 0.7), (0.6, 1.5)])
def test_the_worth_of_prototypes_is_that_of_the_world(sigma, tau):
    model, X_v, y_v = simulated(3, sigma=sigma, tau=tau)
    model.set_params(fusion="auto")
    truth = sigma**2 / tau**2
    assert_allclose(model.worth_of_prototypes(X_v, y_v), truth, rtol=0.2)
    few = np.arange(len(y_v)) % 12 < 5
    assert_allclose(model.fit(X_v[few], y_v[few]).fusion_, truth, rtol=0.3)
    one = np.arange(len(y_v)) % 12 == 0
    assert_allclose(model.fit(X_v[one], y_v[one]).fusion_, truth, rtol=0.2)


def test_worth_of_prototypes_by_loops():
    W = base_projection()
    prior = {j: W @ P.prototypes[j] for j in P.unseen}
    model = prepared(beta=BETA)
    assert_allclose(model.worth_of_prototypes(X, Y), worth_by_loops(prior, X, Y), rtol=1e-9)
    assert not hasattr(model, "projection_")
    lifted = prepared(beta=BETA, kernel="rbf")
    zero_shot = lifted.set_params(synthesis=None).zero_shot(P.unseen)
    prior = {j: zero_shot.project([P.prototypes[j]])[0] for j in P.unseen}
    assert_allclose(lifted.worth_of_prototypes(X, Y), worth_by_loops(prior, X, Y), rtol=1e-7)


def test_prior_and_evidence_together_beat_either():
    reached = {"auto": [], 0.0: [], 1e9: []}
    for seed in range(5):
        model, X_t, y_t = simulated(seed, sigma=2.0, tau=1.0, n_novel=30)
        shots = np.arange(len(y_t)) % 12 < 2
        for fusion, accuracies in reached.items():
            model.set_params(fusion=fusion).fit(X_t[shots], y_t[shots])
            accuracies.append(model.score(X_t[~shots], y_t[~shots]))
    mean = {fusion: np.mean(accuracies) for fusion, accuracies in reached.items()}
    assert mean["auto"] > max(mean[0.0], mean[1e9]) + 0.05


# Many tasks on one base


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"fusion": "auto"},
        {"weight_per": "class", "forward_weight": 0.2},
        {"kernel": "rbf", "fusion": "auto"},
    ],
    ids=str,
)
def test_a_second_task_on_the_same_base_decomposes_nothing(monkeypatch, parameters):
    sizes, original = [], Factor.of
    monkeypatch.setattr(Factor, "of", lambda M: sizes.append(len(M)) or original(M))
    base = BaseClasses(BASE)
    fused(FIRST, base=base, **parameters)
    assert sizes.count(P.X.shape[1])
    sizes.clear()
    other = fused(FIRST[1:], base=base, **parameters)
    assert not sizes
    assert_array_equal(
        other.decision_function(X_ALL), fused(FIRST[1:], **parameters).decision_function(X_ALL)
    )


def test_other_settings_on_the_same_base_are_not_taken_for_these():
    base = BaseClasses(BASE)
    for parameters in (
        {"fusion": "auto"},
        {"fusion": "auto", "beta": 3.0},
        {"fusion": "auto", "forward_weight": 0.1},
        {"fusion": "auto", "weight_per": "class"},
        {"fusion": "auto", "kernel": "rbf"},
        {"fusion": "auto", "kernel": "rbf", "gamma": 0.3},
        {"fusion": "auto", "kernel": "rbf", "gamma": 0.3, "beta": 3.0},
        {"fusion": "auto"},
    ):
        shared, alone = (fused(FIRST, base=b, **parameters) for b in (base, BASE))
        assert shared.fusion_ == alone.fusion_
        assert_array_equal(shared.decision_function(X_ALL), alone.decision_function(X_ALL))


@pytest.mark.parametrize("asked", ["sample", "class"])
@pytest.mark.parametrize("given", ["sample", "class"])
@pytest.mark.parametrize(
    "parameters",
    [{"fusion": "auto"}, {"fusion": None}, {"fusion": "auto", "kernel": "rbf"}],
    ids=str,
)
def test_the_classifier_says_what_weighs_the_same_and_the_base_does_not(given, asked, parameters):
    few = np.flatnonzero((P.y != P.seen[0]) | (np.cumsum(P.y == P.seen[0]) < 3))
    moments = Moments.from_arrays(P.X[few], P.y[few], P.prototypes)
    parameters = parameters | {"forward_weight": 0.3, "weight_per": asked}
    expected = fused(FIRST, base=moments, **parameters)
    model = fused(FIRST, base=BaseClasses(moments, given), **parameters)
    assert model.fusion_ == expected.fusion_
    assert_allclose(model.projection_, expected.projection_, rtol=1e-9, atol=1e-12)
    other = "class" if asked == "sample" else "sample"
    different = fused(FIRST, base=moments, **parameters | {"weight_per": other})
    assert np.abs(different.projection_ - expected.projection_).max() > 1e-3
    assert_allclose(model.worth_of_prototypes(X, Y), expected.worth_of_prototypes(X, Y), rtol=1e-9)


@pytest.mark.parametrize("parameters", [{}, {"kernel": "rbf", "fusion": "auto"}], ids=str)
def test_a_transformer_that_cannot_be_pickled_is_not_taken_for_another(parameters):
    base = BaseClasses(BASE)
    for nameless, function in ((lambda M: np.exp(M), np.exp), (lambda M: np.sin(M), np.sin)):
        model, expected = (
            fused(base=base, prototype_transformer=FunctionTransformer(f), **parameters)
            for f in (nameless, function)
        )
        assert model.fusion_ == expected.fusion_
        assert_array_equal(model.decision_function(X_ALL), expected.decision_function(X_ALL))


# What a fit warns of


def test_an_undetermined_projection_of_the_base_is_reported_where_fit_was_called():
    p = linear_problem(n_features=90, n_attributes=9)  # more than so few samples span
    base = BaseClasses(Moments.from_arrays(p.X, p.y, p.prototypes))
    model = FewShotClassifier(p.prototypes, base=base, synthesis=None, fusion=1.0, beta=0.0)
    for _ in range(2):  # what the base remembers is no better
        with pytest.warns(LinAlgWarning, match=r"beta=0.0.*Increase `beta`") as seen:
            model.fit(p.X_new, p.y_new)
        assert [warning.filename for warning in seen] == [__file__]
    model.set_params(beta=0.01).fit(p.X_new, p.y_new)  # nothing to warn of


# What is refused


@pytest.mark.parametrize(
    "value", [-0.1, "Auto", *[value for value in NOT_NUMBERS if value is not None]], ids=str
)
def test_neither_a_number_nor_auto(value):
    said = f'`fusion` must be "auto" or a number in [0, inf); got {value!r}. Use "auto"'
    with refused(ValueError, said):
        fused(fusion=value)


@pytest.mark.parametrize("fusion", ["auto", 2.5, 0])
def test_without_base_nothing_projects_prototypes(fusion):
    said = f"`fusion` requires base classes.*got fusion={fusion!r} and base=None"
    with pytest.raises(ValueError, match=said + r".*Pass the moments"):
        fused(fusion=fusion, base=None)


def test_the_worth_of_prototypes_needs_base_classes_and_others():
    with refused(ValueError, "learned from base classes; got base=None", "Pass their moments"):
        prepared(base=None).worth_of_prototypes(X, Y)
    with refused(ValueError, "must not be among the base classes", P.seen[0]):
        prepared().worth_of_prototypes(P.X, P.y)
    with refused(ValueError, "must have the 10 features of the base classes", "got 9"):
        prepared().worth_of_prototypes(X[:, 1:], Y)
    with refused(ValueError, "`beta` must be a number", "got -1"):
        prepared(beta=-1).worth_of_prototypes(X, Y)


def test_a_single_base_class_cannot_play_a_novel_one():
    of_one = P.y == P.seen[0]
    base = Moments.from_arrays(P.X[of_one], P.y[of_one], P.prototypes)
    said = 'fusion="auto" measures how samples of a class differ'
    with refused(ValueError, said, "a single base class", "Pass a number"):
        fused(FIRST, base=base, fusion="auto")
    model = fused(base=base, fusion="auto")  # several shots do without
    prior = {j: model.project([P.prototypes[j]])[0] for j in P.unseen}
    assert_allclose(model.fusion_, worth_by_loops(prior, X, Y), rtol=1e-9)


def test_a_fit_that_cannot_measure_leaves_no_half_a_model():
    of_one = P.y == P.seen[0]
    base = Moments.from_arrays(P.X[of_one], P.y[of_one], P.prototypes)
    model = prepared(base=base, fusion="auto", synthesis=None)
    with pytest.raises(ValueError, match="Pass a number"):
        model.fit(X[FIRST], Y[FIRST])
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_one_sample_of_every_class_says_nothing_of_variance():
    rows = [P.y.tolist().index(j) for j in P.seen]
    base = Moments.from_arrays(P.X[rows], P.y[rows], P.prototypes)
    assert np.isnan(simulated_variances(base, beta=BETA, forward=0.5, per="sample")).all()
    with refused(ValueError, 'fusion="auto"', "got one sample per class", "Pass a number"):
        fused(FIRST, base=base, fusion="auto")


def test_the_worth_of_prototypes_needs_two_samples_of_a_class():
    said = "relative to how samples of a class differ; got one sample of each of 4 classes"
    with refused(ValueError, said, "Pass several of some class"):
        prepared().worth_of_prototypes(X[FIRST], Y[FIRST])
