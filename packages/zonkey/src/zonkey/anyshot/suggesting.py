"""What a person should label next: groups to accept at a time, and single samples.

A group has one answer and lies near each other in the preprocessed space, so that a person sees at
a glance whether all of it is right. Groups of sure samples are large. Those of others are small,
about five samples near each other, so that errors are alone, or all of one kind. With probabilities
that are calibrated, m of the n samples of a group are right on average, and accepting it takes one
action, and one more for each that is wrong. What it tells of its class shrinks with what is known,

    useful = log(1 + m / (worth + n_c)) / (1 + n - m),

with the worth of a prototype and the n_c samples that the class has, those of better groups with
the same answer included.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..arrays import is_device_array, softmax, take_rows, to_numpy
from ..blocks import row_blocks
from ..constraints import require_memory
from ..inference.scorer import Rejection, labels_at
from ..labels import as_labels, check_count, format_value
from ..samples import pick_rows
from .novelty import NoveltyMixin, make_novelty
from .remembering import Remembered, hash_id

_SURE = 0.3  # probability of being wrong, up to which groups are large
_FEWEST, _MOST_WRONG = 5, 1.0  # samples of a group that is split; expected errors in larger ones
_ROUNDS, _SMALL_SIDE = 10, 0.05
_UNSURE = 0.5  # probability below which a sample may be unlike all classes
_SHOWN = 20  # groups


@dataclass(frozen=True, eq=False)
class Suggestions:
    """Groups of unlabeled samples that a person accepts at a time, most useful first.

    Groups are numbered from 0, the most useful one. Within a group, the most typical sample comes
    first.

    Parameters
    ----------
    order : ndarray of shape (n_samples,)
        Positions of the samples, group after group.
    group : ndarray of shape (n_samples,)
        Number of the group of each sample.
    answer : ndarray of shape (n_samples,)
        Suggested label of each sample; "unknown" or -1, or the `reject_label` of the model, if it
        is unlike all classes.
    probability : ndarray of shape (n_samples,)
        Probability of the best class.
    useful : ndarray of shape (n_groups,)
        What a human action for each group is expected to tell of its class.
    is_unlike : ndarray of shape (n_groups,)
        Whether the samples of each group are unlike all classes, so that a person may name a new
        one.

    See Also
    --------
    AnyShotClassifier.suggest : Returns it.

    Examples
    --------
    >>> from zonkey import AnyShotClassifier
    >>> X, y = [[0.0, 1.0], [0.1, 0.9], [1.0, 0.0], [0.9, 0.2]], ["cat", "cat", "dog", "dog"]
    >>> model = AnyShotClassifier(preprocessing=None, temperature=0.1).fit(X, y)
    >>> print(model.suggest([[0.9, 0.0], [0.0, 0.9], [0.1, 1.1]]))
    2 groups of 3 samples, most useful first
    group  samples  probability  answer
        0        2         1.00  cat
        1        1         1.00  dog
    """

    order: np.ndarray
    group: np.ndarray
    answer: np.ndarray
    probability: np.ndarray
    useful: np.ndarray
    is_unlike: np.ndarray

    def rows_of(self, group: int) -> np.ndarray:
        """Return the positions of the samples of a group, the most typical one first.

        Parameters
        ----------
        group : int
            Number of the group.

        Returns
        -------
        ndarray
            Positions.
        """
        return self.order[self.group[self.order] == group]

    def __str__(self) -> str:
        n = len(self.useful)
        lines = [f"{n} groups of {len(self.order)} samples, most useful first"]
        lines.append("group  samples  probability  answer")
        for group in range(min(n, _SHOWN)):
            rows = self.rows_of(group)
            answer = "(unlike all classes)" if self.is_unlike[group] else self.answer[rows[0]]
            mean = self.probability[rows].mean()
            lines.append(f"{group:>5}  {len(rows):>7}  {mean:>11.2f}  {answer}")
        return "\n".join([*lines, *(["..."] if n > _SHOWN else [])])


class SuggestingMixin(NoveltyMixin):
    """Which samples to label next, in groups or one by one, and learning each of them once."""

    partial_fit: Callable[..., Any]
    _settle: Callable[..., None]

    def suggest(self, X: Any, *, group_size: int = 50, novelty_above: float = 1.0) -> Suggestions:
        """Group unlabeled samples by answer and likeness, so that a person accepts many at a time.

        Groups of sure answers are large, others small. Samples that are unlike all classes come in
        groups without an answer: a person may name a new class. Learn from what was accepted with
        `partial_fit`, or with `learn_once`, and suggest again: answers of the others get better.

        The time grows with the number of samples, and with its logarithm: 100,000 samples of 384
        features and 100 classes take seven seconds on one core. Besides `X`, the memory needed is
        that of the preprocessed samples of the most frequent answer.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples without labels.
        group_size : int, default=50
            Largest number of samples in a group.
        novelty_above : float, default=1.0
            A sample is unlike all classes if its `novelty` is above this number, and its best
            class has a probability below one half. Infinity: none is.

        Returns
        -------
        Suggestions
            Groups, answers and probabilities.
        """
        check_count("group_size", group_size, 1)
        require_memory(X)
        X = self._validate(X)
        best, chance, novelty = self._answer_in_blocks(X)
        is_unlike: Any = (novelty > novelty_above) & (chance < _UNSURE)
        kinds = np.where(is_unlike, -1, best)
        groups, useful = self._rank(self._split(X, kinds, chance, group_size), kinds, chance)
        number = np.empty(len(kinds), np.intp)
        for i, rows in enumerate(groups):
            number[rows] = i
        labels = to_numpy(self.scorer_.labels)
        rejection = Rejection(None, self.scorer_.rejection.label)
        return Suggestions(
            order=np.concatenate(groups),
            group=number,
            answer=to_numpy(rejection.apply(labels_at(labels, best), is_unlike, labels)),
            probability=chance,
            useful=useful,
            is_unlike=np.array([is_unlike[rows[0]] for rows in groups]),
        )

    def _split(
        self, X: Any, kinds: np.ndarray, chance: np.ndarray, group_size: int
    ) -> list[np.ndarray]:
        """Return groups of samples of one kind, which is a position of a class or -1."""
        groups, order = [], np.argsort(kinds, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(kinds[order])) + 1):
            Z = to_numpy(self.state_.prepare(take_rows(X, rows))).astype(np.float32)
            wrong = 1 - _chance_of_right(rows, kinds, chance)
            groups += [rows[part] for part in split_alike(Z, wrong, group_size)]
        return groups

    def _answer_in_blocks(self, X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return position and probability of the best class, and the novelty, of each sample."""
        n, width = X.shape[0], max(X.shape[1], len(self.scorer_.labels))
        best, chance, novelty = np.empty(n, np.intp), np.empty(n), np.empty(n)
        scorer = self.scorer_
        unlike = make_novelty(self.state_, scorer.temperature or 1.0)
        for rows in row_blocks(0, n, width, X):
            block, start = X[rows, :], rows.start
            novelty[rows] = np.concatenate([to_numpy(part) for part in unlike.finite_blocks(block)])
            for scores in scorer.finite_blocks(block):
                P = to_numpy(softmax(scores / scorer.temperature))
                part = slice(start, start + len(P))
                start += len(P)
                best[part], chance[part] = P.argmax(axis=1), P.max(axis=1)
        return best, chance, novelty

    def _rank(
        self, groups: list[np.ndarray], kinds: np.ndarray, chance: np.ndarray
    ) -> tuple[list[np.ndarray], np.ndarray]:
        """Return the groups in order, and how useful each is after those before it."""
        evidence = self.state_.evidence
        places = np.searchsorted(evidence.labels, to_numpy(self.scorer_.labels))
        worth = max(self.state_.choice.worth_in_use, 1.0)
        known = np.append(evidence.counts[places], 0.0)  # the last: a class that has no name yet
        kind = np.array([kinds[rows[0]] for rows in groups])
        right = np.array([_chance_of_right(rows, kinds, chance).sum() for rows in groups])
        cost = 1 + np.array([len(rows) for rows in groups]) - right
        found: list[np.ndarray] = []
        useful = []

        def gain(i: int) -> float:
            return float(np.log1p(right[i] / (worth + known[kind[i]])) / cost[i])

        waiting = [(-gain(i), i) for i in range(len(groups))]
        heapq.heapify(waiting)
        while waiting:
            before, i = heapq.heappop(waiting)
            if -gain(i) > before:  # a better group of this class came meanwhile
                heapq.heappush(waiting, (-gain(i), i))
                continue
            found.append(groups[i])
            useful.append(-before)
            if kind[i] >= 0:
                known[kind[i]] += right[i]
        return found, np.array(useful)

    def most_informative(self, X: Any, n: int) -> np.ndarray:
        """Choose the samples whose labels would help most, if each is labeled alone.

        The most uncertain sample comes first; each next one is uncertain and unlike those before.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples without labels.
        n : int
            Number of samples to choose.

        Returns
        -------
        ndarray of shape (n,)
            Positions of the samples, best first.
        """
        n = check_count("n", n, 1)
        require_memory(X)
        value = to_numpy(self.uncertainty(X)).astype(np.float64)
        if n > len(value):
            raise ValueError(
                f"`n` must be at most the number of samples, {len(value)}; got {n}. Ask for fewer."
            )
        Z = to_numpy(self.state_.prepare(self._validate(X))).astype(np.float64)
        Z /= np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1e-12)
        chosen: list[int] = []
        unlike = np.ones(len(value))
        for _ in range(n):
            gain = value * unlike
            gain[chosen] = -1.0
            chosen.append(int(gain.argmax()))
            unlike = np.minimum(unlike, 1 - np.clip(Z @ Z[chosen[-1]], 0, 1))
        return np.array(chosen)

    def learn_once(self, X: Any, y: Any, ids: Any) -> np.ndarray:
        """Learn from those samples that were not learned in this way before, by `partial_fit`.

        The model, and its file, remember the hashes of the ids. Samples of `fit` and `partial_fit`
        have no ids. A learned label cannot be changed, as it has gone into sums and choices: remove
        its class with `without_classes`, which also forgets the ids, or start from an earlier
        model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Labels, of known or of new classes.
        ids : list of str
            Id of each sample, such as a file name. Samples of the same id must have the same label,
            and the first one of them is learned.

        Returns
        -------
        ndarray of shape (n_samples,)
            Whether each sample was new, and so was learned.
        """
        y = to_numpy(y) if is_device_array(y) else as_labels(y)
        keys = np.array([hash_id(each) for each in ids], dtype=np.uint64)
        if not len(keys) == len(y) == len(X):
            raise ValueError(
                f"X, y and ids must have equal lengths; got {len(X)}, {len(y)} and {len(keys)}. "
                "Pass one label and one id per sample."
            )
        known = self.state_.remembered or Remembered.make(keys[:0], y[:0])
        known = known.forget(self.state_.hidden)
        distinct, first, places = np.unique(keys, return_index=True, return_inverse=True)
        _require_same(y, y[first][places], ids, "it also has")
        was_known, labels = known.find(distinct)
        before = y[first].astype(np.result_type(y, labels) if len(labels) else y.dtype)
        before[was_known] = labels
        _require_same(y, before[places], ids, "the model has learned it as")
        is_new = np.zeros(len(keys), bool)
        is_new[first[~was_known]] = True
        rows = np.flatnonzero(is_new)
        if len(rows):
            self.partial_fit(pick_rows(X, rows), y[rows])
            self._settle(replace(self.state_, remembered=known.add(keys[rows], y[rows])))
        return is_new


def _chance_of_right(rows: np.ndarray, kinds: np.ndarray, chance: np.ndarray) -> np.ndarray:
    """Return the probabilities of samples of one kind; nothing tells which class strangers have."""
    return np.full(len(rows), 0.5) if kinds[rows[0]] < 0 else chance[rows]


def split_alike(Z: np.ndarray, wrong: np.ndarray, most: int) -> list[np.ndarray]:
    """Split samples into groups that lie near each other, in each the most typical one first.

    `wrong` is the probability that the answer of a sample is wrong. Sure samples are in groups of
    at most `most`. Groups of others are small, unless at most one is expected to be wrong: an error
    is then alone, or the whole group is of another class.
    """
    sure = wrong <= _SURE
    waiting = [part for part in (np.flatnonzero(~sure), np.flatnonzero(sure)) if len(part)]
    found = []
    while waiting:
        rows = waiting.pop()
        is_pure = sure[rows[0]] or len(rows) <= _FEWEST or wrong[rows].sum() <= _MOST_WRONG
        if len(rows) <= most and is_pure:
            away = np.square(Z[rows] - Z[rows].mean(axis=0)).sum(axis=1)
            # Two samples are equally far from their mean, but for rounding: the surer one is first.
            away = np.round(away / max(float(away.max()), 1e-30), 4)
            found.append(rows[np.lexsort((wrong[rows], away))])
            continue
        side = halve(Z[rows])
        waiting += [rows[~side], rows[side]]
    return found


def halve(Z: np.ndarray) -> np.ndarray:
    """Return which samples are in the first of two parts; both have some.

    The parts are those of 2-means, from the main direction of the samples. If one is very small, or
    all samples are equal, the parts are halves along this direction instead: groups of single
    samples would take too long to find and to look at.
    """
    M = Z - Z.mean(axis=0)
    direction = M[np.square(M).sum(axis=1).argmax()]
    for _ in range(_ROUNDS // 2):
        direction = M.T @ (M @ direction)
        direction = direction / max(float(np.linalg.norm(direction)), 1e-30)
    along = M @ direction
    side = along > 0
    for _ in range(_ROUNDS):
        if side.all() or not side.any():
            break
        first, second = M[side].mean(axis=0), M[~side].mean(axis=0)
        before, side = side, M @ (first - second) > (first @ first - second @ second) / 2
        if np.array_equal(before, side):
            break
    fewer = min(int(side.sum()), len(side) - int(side.sum()))
    if fewer < max(1, _SMALL_SIDE * len(side)):
        side = np.zeros(len(side), bool)
        side[np.argsort(-along, kind="stable")[: len(side) // 2]] = True
    return side


def _require_same(y: np.ndarray, other: np.ndarray, ids: Any, how: str) -> None:
    """Refuse a sample with two labels."""
    differs = np.flatnonzero(y != other)
    if differs.size:
        i = int(differs[0])
        more = f", and {len(differs) - 1} more" if len(differs) > 1 else ""
        raise ValueError(
            f"A sample has one label; {format_value([*ids][i])} has {format_value(y[i])}, and "
            f"{how} {format_value(other[i])}{more}. Correct it or leave it out; a class that was "
            "learned by mistake can be removed."
        )
