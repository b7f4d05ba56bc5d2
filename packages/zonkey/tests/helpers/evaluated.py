"""A small problem to evaluate models on, and every figure as loops from its definition."""

import math
from itertools import pairwise

import numpy as np

from zonkey import AnyShotClassifier
from zonkey.files.dataset import Dataset, Split
from zonkey.prototypes import Prototypes

RNG = np.random.default_rng(5)
LABELS = [f"c{j:02d}" for j in range(12)]
SEEN, UNSEEN = LABELS[:7], LABELS[7:]
_Y = RNG.normal(size=(12, 4))
PROTOTYPES = Prototypes(LABELS, _Y)
_MEANS = _Y @ RNG.normal(size=(4, 6))


def draw(labels, sizes, noise=2.5):
    y = np.repeat(labels, sizes)
    y = y[RNG.permutation(len(y))]
    means = _MEANS[np.searchsorted(LABELS, y)]
    return means + noise * RNG.normal(size=means.shape), y


X_TRAIN, Y_TRAIN = draw(SEEN, [9, 5, 6, 7, 8, 9, 5], noise=1.0)
# Classes of all sizes; "c05" and "c10" are candidates without test samples.
X, Y = draw([n for n in LABELS if n not in ("c05", "c10")], [1, 4, 9, 3, 12, 6, 8, 2, 5, 7])
IS_SEEN = np.isin(Y, SEEN)
FIXED = {
    "preprocessing": None,
    "prototype_transformer": None,
    "kernel": "linear",
    "gamma": 1.0,
    "ridge": 0.3,
    "worth": 2.0,
    "seen_penalty": 1.1,
    "temperature": 6.0,
    "adapt_temperature": 3.0,
    "adapt_weight": 0.5,
}


def fitted(prototypes=PROTOTYPES, X=X_TRAIN, y=Y_TRAIN, **parameters):
    parameters = {"candidates": "all", **FIXED, **parameters}
    return AnyShotClassifier(prototypes, **parameters).fit(X, y)


class NaiveFigures:
    """Figures from scores (n x q), or from probabilities if there are any, one loop each.

    `repeats` is how often each sample is repeated: all figures are those of the longer list.
    """

    def __init__(self, y, classes, scores, probabilities=None, repeats=None):
        self.samples = [
            i for i in range(len(y)) for _ in range(1 if repeats is None else int(repeats[i]))
        ]
        self.y, self.classes = list(y), list(classes)
        self.scores, self.probabilities = scores, probabilities

    def ranking(self, i):
        return sorted(range(len(self.classes)), key=lambda j: (-self.scores[i][j], j))

    def answer(self, i):
        return self.classes[self.ranking(i)[0]]

    def accuracy(self, sizes=None):
        """Return the mean over classes; `sizes` is how many samples stand for one class."""
        right, total = {}, {}
        for i in self.samples:
            label = self.y[i]
            total[label] = total.get(label, 0) + 1
            right[label] = right.get(label, 0) + (self.answer(i) == label)
        if sizes is None:
            return sum(right[j] / total[j] for j in total) / len(total)
        drawn = {j: total[j] / sizes[j] for j in total}  # how often the class was drawn
        return sum(right[j] / sizes[j] for j in total) / sum(drawn.values())

    def hits(self, k):
        found = 0
        for i in self.samples:
            found += self.y[i] in [self.classes[j] for j in self.ranking(i)[:k]]
        return found / len(self.samples)

    def calibration_error(self, n_bins=15):
        bins = [[] for _ in range(n_bins)]
        for i in self.samples:
            top = max(self.probabilities[i])
            right = self.answer(i) == self.y[i]
            bins[max(0, math.ceil(top * n_bins) - 1)].append((right, top))
        gaps = [abs(sum(right - top for right, top in one)) for one in bins]
        return sum(gaps) / len(self.samples)

    def risk_area(self):
        """Return the mean share of wrong answers over all samples, by falling probability."""
        sure = {i: max(self.probabilities[i]) for i in self.samples}
        total = 0.0
        for i in self.samples:
            answered = [j for j in self.samples if sure[j] >= sure[i]]
            total += sum(self.answer(j) != self.y[j] for j in answered) / len(answered)
        return total / len(self.samples)


def naive_area(y, classes, scores, seen, weights):
    """Return the area under the curve, by trying a penalty in every gap between thresholds.

    `weights` is the weight of each sample in the accuracy of its kind.
    """
    own = [classes.index(label) for label in y]
    is_seen = [label in seen for label in classes]
    margins = []
    for row in scores:
        best = [max(s for s, kind in zip(row, is_seen, strict=True) if kind == k) for k in (1, 0)]
        margins.append(best[0] - best[1])
    cuts = sorted(set(margins))
    middles = [(a + b) / 2 for a, b in pairwise(cuts)]
    points = []
    for penalty in [cuts[0] - 1, *middles, cuts[-1] + 1]:
        accuracy = {True: 0.0, False: 0.0}
        for row, j, weight in zip(scores, own, weights, strict=True):
            shifted = [s - penalty * kind for s, kind in zip(row, is_seen, strict=True)]
            accuracy[is_seen[j]] += weight * (shifted.index(max(shifted)) == j)
        points.append((accuracy[False], accuracy[True]))
    return sum((u2 - u1) * (s1 + s2) / 2 for (u1, s1), (u2, s2) in pairwise(points))


def columns(model, X, *, proba=False):
    """Return one column per class."""
    if proba:
        return np.asarray(model.predict_proba(X), float)
    scores = np.asarray(model.decision_function(X), float)
    return scores if scores.ndim == 2 else np.stack([0 * scores, scores], axis=1)


def expected_scores(model, X, y, seen, labels, k):
    """Return all figures of a classifier of this library, by loops."""
    sets = {
        "unseen": [label for label in labels if label not in seen],
        "seen": [label for label in labels if label in seen],
        "all": list(labels),
    }
    found, correct = {}, {}
    mixed = sets["unseen"] and sets["seen"]
    for name, candidates in sets.items():
        rows = [i for i in range(len(y)) if name == "all" or (y[i] in seen) == (name == "seen")]
        if not candidates or not rows or (name == "all" and not mixed):
            continue
        chosen = model.with_candidates(candidates)
        P = columns(chosen, X[rows], proba=True) if hasattr(model, "predict_proba") else None
        naive = NaiveFigures(y[rows], candidates, columns(chosen, X[rows]), P)
        for number in k:
            if number == 1 or number < len(candidates):
                found[f"hit@{number}_{name}"] = naive.hits(number)
        if P is not None:
            found[f"ece_{name}"] = naive.calibration_error()
            found[f"aurc_{name}"] = naive.risk_area()
        if name != "all":
            found[f"accuracy_{name}"] = naive.accuracy()
            continue
        for kind, short in (("seen", "acc_s"), ("unseen", "acc_u")):
            of_kind = [i for i in range(len(y)) if (y[i] in seen) == (kind == "seen")]
            if of_kind:
                scores = columns(chosen, X[of_kind])
                correct[short] = NaiveFigures(y[of_kind], candidates, scores).accuracy()
    found |= correct
    if len(correct) == 2:
        s, u = correct["acc_s"], correct["acc_u"]
        found["hm"] = 2 * s * u / (s + u) if s + u else 0.0
        weights = [
            1 / (list(y).count(label) * len({b for b in y if (b in seen) == (label in seen)}))
            for label in y
        ]
        scores = columns(model.with_candidates(sets["all"]), X).tolist()
        found["ausuc"] = naive_area(list(y), sets["all"], scores, seen, weights)
    return found


def dataset(**options):
    n = len(Y_TRAIN)
    split = Split(
        train=np.arange(n),
        test_seen=n + np.flatnonzero(IS_SEEN),
        test_unseen=n + np.flatnonzero(~IS_SEEN),
    )
    everything = np.concatenate([X_TRAIN, X]), np.concatenate([Y_TRAIN, Y])
    return Dataset("made up", *everything, PROTOTYPES, split, **options)
