"""ClassKFold: what its folds promise, and its use inside scikit-learn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.dummy import DummyClassifier
from sklearn.model_selection import GridSearchCV, check_cv, cross_val_score

from zonkey.model_selection import ClassKFold


def held_out_classes(splitter, y):
    """The set of test classes of each fold, in order."""
    y = np.asarray(y)
    return [set(y[test].tolist()) for _, test in splitter.split(y, y)]


labels = st.lists(st.integers(-3, 12) | st.just(40), min_size=2, max_size=60).filter(
    lambda y: len(set(y)) >= 2
)


@given(labels, st.data(), st.booleans())
@settings(deadline=None, max_examples=50)
def test_folds_partition_the_classes(y, data, shuffle):
    n_classes = len(set(y))
    n_splits = data.draw(st.integers(2, n_classes))
    splitter = ClassKFold(n_splits, shuffle=shuffle, random_state=3 if shuffle else None)
    X, y = np.zeros((len(y), 1)), np.array(y)
    held_out = []
    tested = []
    for train, test in splitter.split(X, y):
        assert not set(y[train]) & set(y[test])
        assert sorted([*train, *test]) == list(range(len(y)))
        assert np.all(np.diff(train) > 0)
        assert np.all(np.diff(test) > 0)
        held_out.append(set(y[test].tolist()))
        tested.extend(test)
    assert sorted(tested) == list(range(len(y)))
    assert len(held_out) == n_splits == splitter.get_n_splits(X, y)
    sizes = [len(classes) for classes in held_out]
    assert sum(sizes) == n_classes
    assert max(sizes) - min(sizes) <= 1


@given(st.permutations(["a", "b", "b", "c", "d", "d", "d", "e"]), st.booleans())
@settings(deadline=None, max_examples=25)
def test_order_of_samples_does_not_matter(y, shuffle):
    splitter = ClassKFold(3, shuffle=shuffle, random_state=0 if shuffle else None)
    assert held_out_classes(splitter, y) == held_out_classes(splitter, sorted(y))


def test_without_shuffling_neighbors_in_sorted_order_go_together():
    y = ["e", "a", "d", "b", "c", "a"]
    assert held_out_classes(ClassKFold(2), y) == [{"a", "b", "c"}, {"d", "e"}]


def test_shuffling_is_reproducible_and_does_shuffle():
    y = np.arange(40)
    first = held_out_classes(ClassKFold(4, shuffle=True, random_state=1), y)
    splitter = ClassKFold(4, shuffle=True, random_state=1)
    assert held_out_classes(splitter, y) == held_out_classes(splitter, y) == first
    assert held_out_classes(ClassKFold(4, shuffle=True, random_state=2), y) != first
    assert held_out_classes(ClassKFold(4), y) != first
    stream = ClassKFold(4, shuffle=True, random_state=np.random.RandomState(1))
    assert held_out_classes(stream, y) != held_out_classes(stream, y)


def test_features_may_be_sparse_and_groups_are_ignored():
    y = [0, 1, 2, 0]
    X = sparse.eye_array(4, format="csr")
    with_groups = ClassKFold(3).split(X, y, groups=[1, 1, 1, 1])
    assert [test.tolist() for _, test in with_groups] == [[0, 3], [1], [2]]


class OffsetClassifier(ClassifierMixin, BaseEstimator):
    """Predicts the rounded feature plus an offset: right on unseen classes for offset 0."""

    def __init__(self, offset=0):
        self.offset = offset

    def fit(self, X, y):  # noqa: ARG002
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.rint(X[:, 0]).astype(int) + self.offset


def test_scoring_only_meets_unseen_classes():
    y = np.repeat(np.arange(6), 4)
    X = y[:, None] + 0.1
    memorized = cross_val_score(DummyClassifier(), X, y, cv=ClassKFold(3))
    assert memorized.tolist() == [0.0] * 3
    assert cross_val_score(OffsetClassifier(), X, y, cv=ClassKFold(3)).tolist() == [1.0] * 3
    assert check_cv(ClassKFold(3)).get_n_splits() == 3
    cv = ClassKFold(3, shuffle=True, random_state=0)
    search = GridSearchCV(OffsetClassifier(), {"offset": [2, 0, 1]}, cv=cv).fit(X, y)
    assert search.best_params_ == {"offset": 0}
    assert clone(search).cv.n_splits == search.n_splits_ == 3


@pytest.mark.parametrize(
    ("splitter", "y", "message"),
    [
        (ClassKFold(2), None, r"needs y, .* got None. Call split\(X, y\)"),
        (ClassKFold(3), [1, 2, 2], r"n_splits=3 folds, got 2 class\(es\) in y. Lower n_splits"),
        (ClassKFold(), [1, 1, 1], "n_splits=5"),
        (ClassKFold(1), [1, 2, 3], "n_splits=2 or more"),
        (ClassKFold(2.5), [1, 2, 3], "must be of Integral type"),
        (ClassKFold(2, random_state=0), [1, 2, 3], "set shuffle=True"),
        (ClassKFold(2), [1, 2], "inconsistent numbers of samples"),
        (ClassKFold(2), [[1, 2], [2, 1], [3, 3]], "1d array"),
        (ClassKFold(2), [1.0, 2.0, np.nan], "y must not be missing; 1 of 3 are NaN"),
        (ClassKFold(2), np.array([1.0, 2.0, np.nan]), "y contains NaN"),
        (ClassKFold(2), np.array(["a", 1, None], dtype=object), "all strings or all numbers"),
        (ClassKFold(2), np.ma.masked_array([1, 2, 3], mask=[0, 1, 0]), "1 masked entries of 3"),
    ],
)
def test_bad_input_fails_at_the_call(splitter, y, message):
    with pytest.raises((TypeError, ValueError), match=message):
        splitter.split(np.zeros((3, 1)), y)
