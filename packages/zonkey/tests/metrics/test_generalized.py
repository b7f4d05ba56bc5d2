"""Generalized scores and the seen-unseen curve against penalize-and-argmax loops."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from zonkey.metrics import generalized_scores, seen_unseen_curve


def naive_generalized(y_true, y_pred, seen_classes):
    """acc_s, acc_u and HM, spelled out."""
    accuracies = {True: [], False: []}
    for label in sorted(set(y_true)):
        hits = [p == t for t, p in zip(y_true, y_pred, strict=True) if t == label]
        accuracies[label in seen_classes].append(sum(hits) / len(hits))
    s, u = (sum(values) / len(values) for values in (accuracies[True], accuracies[False]))
    return s, u, 2 * s * u / (s + u) if s + u else 0.0


def penalized_argmax(scores, classes, seen_classes, penalty):
    """Predictions of the definition: subtract, take the first largest."""
    penalized = np.array(scores, dtype=np.float64)
    for column, label in enumerate(classes):
        if label in seen_classes:
            penalized[:, column] -= penalty
    return [classes[column] for column in penalized.argmax(axis=1)]


def make_problem(seed, n_samples=60, n_seen=4, n_unseen=3, integer=False, seen_first=False):
    """Columns in shuffled order, every class sampled, classes of unequal size."""
    rng = np.random.default_rng(seed)
    n_classes = n_seen + n_unseen
    order = np.arange(n_classes) if seen_first else rng.permutation(n_classes)
    classes = np.array([f"class {i}" for i in range(n_classes)])[order].tolist()
    seen_classes = [f"class {i}" for i in range(n_seen)]
    probability = rng.dirichlet(np.ones(n_classes))
    truth = np.concatenate([np.arange(n_classes), rng.choice(n_classes, n_samples, p=probability)])
    scores = rng.integers(-4, 5, (truth.size, n_classes)) if integer else None
    if scores is None:
        scores = rng.normal(size=(truth.size, n_classes))
        scores[np.arange(truth.size), truth] += 1.0
        scores[:, np.isin(classes, seen_classes)] += 0.7
    return [classes[i] for i in truth], scores, classes, seen_classes


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6)), max_size=25),
    st.sets(st.integers(0, 4), min_size=1),
)
@settings(deadline=None, max_examples=25)
def test_generalized_scores_follow_their_definition(samples, seen):
    y_true = [true for true, _ in samples] + [min(seen), 5]
    y_pred = [predicted for _, predicted in samples] + [min(seen), 0]
    got = generalized_scores(y_true, y_pred, seen)
    assert got._fields == ("seen", "unseen", "harmonic_mean")
    assert got == pytest.approx(naive_generalized(y_true, y_pred, seen))
    assert all(type(value) is float for value in got)


@pytest.mark.parametrize(
    ("y_true", "y_pred", "seen", "message"),
    [
        ([1, 2], [1, 2], [1, 2], "got none of unseen classes among 2. Check `seen_classes`"),
        ([1, 2], [1, 2], [3], "got none of seen classes among 2"),
        ([1, 2], [1, 2], [], "seen_classes must hold at least one"),
        ([1, 2], [1, 2], ["1"], "one kind.*seen_classes like"),
        ([1, 2], ["1", "2"], [1], "one kind.*y_pred like"),
        ([1, 2], [1], [1], "each label of y_true, got 1 for 2"),
    ],
)
def test_generalized_scores_name_bad_input(y_true, y_pred, seen, message):
    with pytest.raises(ValueError, match=message):
        generalized_scores(y_true, y_pred, seen)


@pytest.mark.parametrize(("seed", "dtype"), [(0, np.float64), (1, np.float32), (2, np.float64)])
def test_curve_is_penalize_and_argmax_between_all_thresholds(seed, dtype):
    y_true, scores, classes, seen = make_problem(seed)
    scores = scores.astype(dtype)
    curve = seen_unseen_curve(y_true, scores, classes, [*seen, "no column"])
    finite = curve.penalties[1:-1]
    assert np.all(np.diff(curve.penalties) > 0)
    between = np.concatenate([[finite[0] - 1], (finite[1:] + finite[:-1]) / 2, [finite[-1] + 1]])
    # entry i + 1 of the curve holds below penalties[i + 1], the i-th of these
    for i, penalty in enumerate(between):
        y_pred = penalized_argmax(scores, classes, seen, penalty)
        expected = naive_generalized(y_true, y_pred, seen)
        assert curve.at(penalty) == pytest.approx(expected)
        assert (curve.seen[i + 1], curve.unseen[i + 1]) == pytest.approx(expected[:2])


@pytest.mark.parametrize("seed", range(2))
def test_on_equal_scores_the_seen_class_wins(seed):
    # With seen columns first, "first largest" means "seen on a tie"; small integers make the
    # subtraction exact, and many samples share a threshold.
    y_true, scores, classes, seen = make_problem(seed, integer=True, seen_first=True)
    curve = seen_unseen_curve(y_true, scores, classes, seen)
    assert curve.penalties.size < len(y_true) // 2
    for penalty in np.arange(-10, 10.5, 0.5):
        y_pred = penalized_argmax(scores, classes, seen, penalty)
        assert curve.at(penalty) == pytest.approx(naive_generalized(y_true, y_pred, seen))


def test_a_sample_changes_sides_strictly_above_its_difference():
    curve = seen_unseen_curve(["s", "u"], [[3.0, 1.0], [1.0, 4.0]], ["s", "u"], ["s"])
    assert curve.penalties.tolist() == [-np.inf, -3.0, 2.0, np.inf]
    assert curve.at(-3.0) == (1.0, 0.0, 0.0)
    assert curve.at(np.nextafter(-3.0, 0)) == (1.0, 1.0, 1.0)
    assert curve.at(2.0) == (1.0, 1.0, 1.0)
    assert curve.at(np.nextafter(2.0, 3)) == (0.0, 1.0, 0.0)
    assert (curve.area, curve.best_harmonic_mean) == (1.0, 1.0)
    with pytest.raises(ValueError, match="penalty must be a number, got NaN"):
        curve.at(float("nan"))


@given(st.integers(0, 10_000), st.booleans())
@settings(deadline=None, max_examples=25)
def test_curve_runs_from_all_seen_to_all_unseen(seed, integer):
    y_true, scores, classes, seen = make_problem(seed, n_samples=20, integer=integer)
    curve = seen_unseen_curve(y_true, scores, classes, seen)
    assert (curve.penalties[0], curve.penalties[-1]) == (-np.inf, np.inf)
    assert (curve.unseen[0], curve.seen[-1]) == (0.0, 0.0)
    assert np.all(np.diff(curve.seen) <= 0)
    assert np.all(np.diff(curve.unseen) >= 0)
    assert curve.seen[0] <= 1.0
    assert curve.unseen[-1] <= 1.0
    for penalty, s, u in zip(curve.penalties, curve.seen, curve.unseen, strict=True):
        assert curve.at(penalty)[:2] == (s, u)
    # the ends: each sample goes to its best class of one sort
    for end, wanted in ((-np.inf, True), (np.inf, False)):
        columns = [i for i, label in enumerate(classes) if (label in seen) == wanted]
        best = np.asarray(classes)[columns][np.asarray(scores)[:, columns].argmax(axis=1)]
        assert curve.at(end) == pytest.approx(naive_generalized(y_true, best.tolist(), seen))


def test_area_and_best_harmonic_mean_are_the_limits_of_a_dense_grid():
    y_true, scores, classes, seen = make_problem(1, n_samples=25)
    curve = seen_unseen_curve(y_true, scores, classes, seen)
    grid = np.linspace(curve.penalties[1] - 0.1, curve.penalties[-2] + 0.1, 500)
    points = [
        naive_generalized(y_true, penalized_argmax(scores, classes, seen, p), seen) for p in grid
    ]
    s, u, hm = np.transpose(points)
    by_grid = float(np.sum((u[1:] - u[:-1]) * (s[1:] + s[:-1]) / 2))
    assert curve.area == pytest.approx(by_grid, abs=8e-3)
    assert 0.05 < curve.area < 0.95
    assert curve.best_harmonic_mean == pytest.approx(hm.max(), abs=1e-12)


def test_area_of_a_perfect_and_of_a_useless_classifier():
    y_true, classes = ["s", "u"], ["s", "u"]
    assert seen_unseen_curve(y_true, np.eye(2), classes, ["s"]).area == 1.0
    # indistinguishable samples change sides together: one diagonal
    tied = seen_unseen_curve(y_true, np.zeros((2, 2)), classes, ["s"])
    assert tied.penalties.tolist() == [-np.inf, 0.0, np.inf]
    assert (tied.area, tied.best_harmonic_mean) == (0.5, 0.0)
    swapped = seen_unseen_curve(
        ["a", "b", "x", "y"], np.eye(4)[[1, 0, 3, 2]], list("abxy"), ["a", "b"]
    )
    assert swapped.area == 0.0


def test_differences_are_taken_in_float64_whatever_the_scores():
    whole = np.array([[100, -100], [-50, 100]], dtype=np.int8)
    curve = seen_unseen_curve(["s", "u"], whole, ["s", "u"], ["s"])
    assert curve.penalties.tolist() == [-np.inf, -150.0, 200.0, np.inf]
    close = np.array([[1.0, 0.0], [1.0, 1e-9]], dtype=np.float32)
    assert seen_unseen_curve(["s", "u"], close, ["s", "u"], ["s"]).area == 1.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scores": np.zeros((2, 3))}, r"\(2, 2\), got \(2, 3\)"),
        ({"scores": np.zeros((3, 2))}, r"\(2, 2\), got \(3, 2\)"),
        ({"scores": [[np.nan, 0], [0, 0]]}, "NaN"),
        ({"classes": ["s", "s"]}, "name each column once"),
        ({"classes": ["s", "t"]}, "hold every label of y_true; got no 'u'"),
        ({"classes": [0, 1]}, "one kind.*classes like"),
        ({"seen_classes": [0]}, "one kind.*seen_classes like"),
        ({"seen_classes": ["s", "u"]}, "none of unseen classes"),
        ({"seen_classes": ["t"]}, "none of seen classes"),
    ],
)
def test_seen_unseen_curve_names_bad_input(changes, message):
    labels = ["s", "u"]
    arguments = {"y_true": labels, "scores": np.eye(2), "classes": labels, "seen_classes": ["s"]}
    with pytest.raises(ValueError, match=message):
        seen_unseen_curve(**(arguments | changes))


def test_scores_of_a_computation_graph_are_detached_and_gaps_are_refused():
    scores = torch.tensor([[5.0, 1.0], [2.0, 1.0]])
    labels, seen = ["cat", "owl"], ["cat"]
    expected = seen_unseen_curve(labels, scores.numpy(), labels, seen).area
    assert seen_unseen_curve(labels, scores.requires_grad_(), labels, seen).area == expected
    holes = np.ma.masked_array(scores.detach().numpy(), mask=[[1, 0], [0, 0]])
    with pytest.raises(TypeError, match="scores must have a value in every place; got 1 masked"):
        seen_unseen_curve(labels, holes, labels, seen)
