"""Prediction by the nearest projected prototype, against loops over samples and candidates."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal

from zonkey import AnyShotClassifier, FewShotClassifier, Moments, Prototypes, ZeroShotClassifier
from zonkey.config import config_context
from zonkey.inference import scorer as scoring
from zonkey.metrics import per_class_accuracy
from zonkey.testing import linear_problem

P = linear_problem(noise=1.5)
ALL = list(P.prototypes)
X = np.concatenate([P.X_new, P.X])  # unseen and seen classes
Y = np.concatenate([P.y_new, P.y])


def fitted(**parameters):
    return P.fit_clone(ZeroShotClassifier(), **parameters)


def scores_by_loops(model, labels, penalty=0.0):
    """-||x - W y||^2, or -||W'x - y||^2, less the penalty of seen classes."""
    W = model.projection_
    scores = np.empty((len(X), len(labels)))
    for i, x in enumerate(X):
        for j, label in enumerate(labels):
            y = P.prototypes[label]
            error = W.T @ x - y if model.direction == "forward" else x - W @ y
            own = W.T @ x if model.direction == "forward" else x
            scores[i, j] = np.sum(own**2) - np.sum(error**2) - penalty * (label in P.seen)
    return scores


@pytest.mark.parametrize(
    ("direction", "candidates", "penalty"),
    [
        ("both", "unseen", 2.5),
        ("forward", "all", 2.5),
        ("reverse", "all", -1.0),
        ("both", [P.seen[3], P.unseen[0], P.unseen[2]], -1.0),
        ("forward", [P.seen[3], P.unseen[0], P.unseen[2]], 0.0),
    ],
)
def test_scores_are_distances_less_penalty(direction, candidates, penalty):
    model = fitted(direction=direction, candidates=candidates, seen_penalty=penalty)
    labels = {"unseen": P.unseen, "all": ALL}.get(str(candidates), sorted(candidates))
    expected = scores_by_loops(model, labels, penalty)
    assert_allclose(model.decision_function(X), expected, rtol=1e-9, atol=1e-9)
    assert_array_equal(model.predict(X), np.array(labels)[expected.argmax(axis=1)])
    for k in (3, None):  # None: five, or all
        ranking = np.argsort(-expected, axis=1)[:, : k or 5]
        assert_array_equal(model.predict_top(X, k), np.array(labels)[ranking])


@pytest.mark.parametrize(("dtype", "scale"), [(np.float32, 3e4), (np.float64, 1e9)])
def test_large_features_do_not_drown_what_tells_candidates_apart(dtype, scale):
    # ||x||^2, the same for all candidates, is so large here that its rounding is larger
    # than the difference between them.
    model = fitted(candidates="all", synthesis=None)
    model.projection_ = model.projection_.astype(dtype)
    shifted = (X + scale * np.ones(X.shape[1])).astype(dtype)
    W = model.projection_.astype(np.longdouble)
    centers = model.prototypes_.matrix @ W.T
    exact = 2 * shifted.astype(np.longdouble) @ centers.T - (centers**2).sum(axis=1)
    ranked = np.sort(exact, axis=1)
    clear = ranked[:, -1] - ranked[:, -2] > 100 * np.finfo(dtype).eps * np.abs(ranked[:, -1])
    assert clear.sum() > 5
    np.testing.assert_array_equal(
        model.predict(shifted)[clear], model.classes_[exact.argmax(axis=1)][clear]
    )


def test_a_model_without_semantic_space_takes_no_new_classes():
    model = ZeroShotClassifier().fit(P.X, P.y)
    with pytest.raises(ValueError, match=r"needs a semantic space.*Fit with prototypes"):
        model.with_classes({"new": np.ones(len(model.classes_))})


def test_a_failed_fit_leaves_the_old_model_whole():
    model = ZeroShotClassifier(P.prototypes, candidates="all").fit(P.X, P.y)
    expected = model.predict(X)
    model.set_params(prototypes=dict.fromkeys(P.prototypes, np.ones(5)), candidates=["okapi"])
    with pytest.raises(ValueError, match="okapi"):
        model.fit(P.X, P.y)
    assert_array_equal(model.predict(X), expected)


@pytest.mark.parametrize(
    ("numbers", "direction"),
    [(1, "both"), (37, "forward"), (10 * len(ALL), "both"), (2**24, "forward")],
)
def test_results_do_not_depend_on_the_size_of_blocks(numbers, direction):
    model = fitted(candidates="all", direction=direction, seen_penalty=0.5)
    expected = model.decision_function(X), model.predict(X), model.predict_top(X, 4)
    with config_context(working_memory=4 * numbers / 2**20):
        blocks = list(model.scorer_.blocks(X))
        rows = max(1, numbers // max(len(ALL), X.shape[1]))
        assert [len(block) for block in blocks[:-1]] == [rows] * (len(blocks) - 1)
        assert_allclose(model.decision_function(X), expected[0], rtol=1e-10, atol=1e-10)
        assert_array_equal(model.predict(X), expected[1])
        assert_array_equal(model.predict_top(X, 4), expected[2])


@given(
    hnp.arrays(
        np.float64, st.tuples(st.integers(1, 5), st.integers(1, 9)), elements=st.floats(-2, 2)
    )
    | hnp.arrays(np.float64, (3, 12), elements=st.sampled_from([-np.inf, 0.0, 1.0])),
    st.data(),
)
@settings(deadline=None, max_examples=50)
def test_top_columns_are_those_of_a_stable_sort(scores, data):
    k = data.draw(st.integers(1, scores.shape[1]))
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    before = scores.copy()
    for few in (0, 16):  # all at once, and one by one
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(scoring, "_FEW", few)
            assert_array_equal(scoring.best_columns(scores, k), expected)
    assert_array_equal(scores, before)


def test_score_is_the_mean_of_per_class_accuracies():
    model = fitted(candidates="all")
    few = slice(len(P.y_new) + 5)  # classes of unequal size
    for weight in (None, np.linspace(0.5, 2, few.stop)):
        expected = per_class_accuracy(Y[few], model.predict(X[few]), sample_weight=weight)
        assert model.score(X[few], Y[few], sample_weight=weight) == expected


def test_project_and_embed_are_the_two_directions_of_the_projection():
    model = fitted()
    W = model.projection_
    assert_allclose(model.embed(X), [W.T @ x for x in X])
    expected = np.array([W @ P.prototypes[label] for label in ALL])
    rows = np.stack(list(P.prototypes.values()))
    shuffled = dict(reversed(P.prototypes.items()))
    frame = pd.DataFrame(rows[::-1], index=ALL[::-1])
    for prototypes in (rows, rows.tolist(), shuffled, frame, Prototypes(ALL, rows)):
        assert_allclose(model.project(prototypes), expected)
    assert_allclose(model.project(rows[0]), expected[:1])
    assert model.project(rows.astype(int)).dtype == np.float64
    assert fitted().fit(P.X.astype(np.float32), P.y).project(rows).dtype == np.float32


@pytest.mark.parametrize("kind", [ZeroShotClassifier, AnyShotClassifier])
def test_prototypes_with_other_dimensions_are_not_projected(kind):
    rows = np.stack(list(P.prototypes.values()))
    names = [f"attribute {i}" for i in range(rows.shape[1])]
    model = kind(Prototypes(ALL, rows, names)).fit(P.X, P.y)
    expected = model.project(rows)
    assert_allclose(model.project(pd.DataFrame(rows, ALL, names)), expected)
    for other in (names[::-1], [*names[:-1], "mane"]):
        with pytest.raises(ValueError, match=r"in the same order; number .*Reorder the columns"):
            model.project(pd.DataFrame(rows, ALL, other))


@pytest.mark.parametrize("candidates", ["unseen", "all"])
def test_added_classes_are_as_good_as_given_ones_where_nothing_is_synthesized(candidates):
    label, parameters = P.unseen[0], {"synthesis": None, "candidates": candidates}
    model = fitted(prototypes=P.without(label), **parameters)
    added = model.with_classes({label: P.prototypes[label]})
    expected = fitted(**parameters)
    assert_array_equal(added.classes_, expected.classes_)
    assert_array_equal(added.unseen_classes_, expected.unseen_classes_)
    assert_allclose(added.decision_function(X), expected.decision_function(X), atol=1e-9)
    # The parameters have been extended as well.
    assert_array_equal(added.fit(P.X, P.y).classes_, expected.classes_)


def test_candidates_may_come_in_any_container():
    chosen = [P.unseen[2], P.seen[1]]
    for candidates in (chosen, tuple(chosen), np.array(chosen), pd.Series(chosen), chosen * 2):
        assert_array_equal(fitted(candidates=candidates).classes_, sorted(chosen))
        assert_array_equal(fitted().with_candidates(candidates).classes_, sorted(chosen))


def test_other_candidates_keep_the_parameters():
    model = ZeroShotClassifier().fit(P.X, P.y)
    other = model.with_candidates([P.seen[0]]).with_candidates("unseen")
    assert other.prototypes is None
    assert_array_equal(other.classes_, model.classes_)


def test_scores_have_the_dtype_of_the_samples_and_all_its_digits():
    model = fitted(candidates="all", seen_penalty=1)
    scores = model.decision_function(X.astype(np.float32))
    assert scores.dtype == np.float32
    assert_allclose(scores, model.decision_function(X), rtol=1e-4, atol=1e-3)
    narrow = ZeroShotClassifier(P.prototypes, synthesis=None, candidates="all")
    narrow.fit(P.X.astype(np.float32), P.y)
    centers = narrow.prototypes_.matrix @ narrow.projection_.astype(np.float64).T
    expected = 2 * X @ centers.T - (centers**2).sum(axis=1)
    assert_allclose(narrow.decision_function(X), expected, rtol=1e-12, atol=1e-12)


# What prediction reads is fixed by `fit`


def few_shot(**parameters):
    base = Moments.from_arrays(P.X, P.y, P.prototypes)
    settings = {"base": base, "n_episodes": 2, "random_state": 0, **parameters}
    return FewShotClassifier(P.prototypes, **settings).fit(P.X_new[:12], P.y_new[:12])


@pytest.mark.parametrize("fit", [fitted, few_shot])
def test_parameters_of_copies_are_those_they_predict_with(fit):
    model = fit(candidates=P.unseen[:2])
    model.set_params(candidates="all")
    other = model.with_candidates(P.seen)
    assert other.get_params()["candidates"] is P.seen
    wider = model.with_classes({"okapi": np.ones(5)})
    assert wider.get_params()["candidates"] == [*P.unseen[:2], "okapi"]
    assert "okapi" in wider.get_params()["prototypes"]
    assert_array_equal(wider.classes_, [*P.unseen[:2], "okapi"])
    assert model.candidates == "all"
    assert_array_equal(model.classes_, P.unseen[:2])
