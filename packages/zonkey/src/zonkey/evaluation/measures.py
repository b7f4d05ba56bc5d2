"""Figures of a classifier from its answers, and their confidence intervals.

Every figure is a function of how often each sample counts. The value counts each sample once; the
interval comes from resampled counts, which are the same for all models.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from ..metrics import SeenUnseenCurve
from ..metrics.calibration import confidence_bins
from ..metrics.generalized import class_shares, curve_of_margins, harmonic_mean
from ..metrics.intervals import class_bootstrap, interval_of
from ..tree import Tree
from .answers import SETS, Answers, Strangeness
from .tree_figures import EDGES, TREE_MEANINGS, TREE_ORDER, TREE_WORDS, list_ratios

N_BINS = 15
N_DRAWS = 1000
DETECTED = 0.95  # share of strangers above the threshold of the false rejections
_NEARLY = 1 - 1e-12  # rounding must not ask for one stranger more
_AMONG = {
    "unseen": "among unseen",
    "seen": "among seen",
    "all": "among all",
    "strangers": "of strangers",
}
_TITLES = {
    "acc_s": "acc_s",
    "acc_u": "acc_u",
    "hm": "HM",
    "ausuc": "AUSUC",
    "auroc_novelty": "AUROC of novelty",
    "auroc_doubt": "AUROC of low probability",
    "false_rejections": f"rejected at {100 * DETECTED:g} % of strangers",
}
_WORDS = {
    "accuracy": "accuracy",
    "ece": "ECE",
    "aurc": "AURC",
    "rejected": "rejected",
    "selective_accuracy": "accuracy of answered",
}
_MEANINGS = {
    "accuracy": "share of correct answers, mean over classes; candidates are the classes of the "
    "same kind",
    "acc_s": "accuracy on seen classes if all classes are candidates",
    "acc_u": "accuracy on unseen classes if all classes are candidates",
    "hm": "harmonic mean of the accuracies on seen (acc_s) and on unseen classes (acc_u) if all "
    "classes are candidates: high only if both are",
    "ausuc": "area under the seen-unseen accuracy curve: acc_s against acc_u for all penalties "
    "of seen classes",
    "hit": "hit@k: share of samples whose class is among the k best answers",
    "ece": "expected calibration error: mean gap between the probability of an answer and how "
    "often such answers are right; 0 is best",
    "aurc": "area under the risk-coverage curve: share of wrong answers, mean over all shares of "
    "samples that are answered, the most probable answers first; 0 is best",
    "rejected": "share of samples without an answer, because their highest probability is too low",
    "selective_accuracy": "share of correct answers among those given",
    "auroc_novelty": "how often a sample of none of the classes (a stranger) is more novel than "
    "one of the classes; 50 % is a guess",
    "auroc_doubt": "the same for the highest probability instead of the novelty: how often that of "
    "a stranger is lower",
    "false_rejections": "share of samples of the classes that are rejected with them if the "
    f"threshold of the novelty rejects {100 * DETECTED:g} % of the strangers",
}
_ORDER = (
    *("accuracy", "acc_s", "acc_u", "hm", "ausuc", "hit", "ece", "aurc", "rejected", "selective"),
    *("auroc_novelty", "auroc_doubt", "false"),
)
_WORDS |= TREE_WORDS
_MEANINGS |= TREE_MEANINGS
_ORDER += TREE_ORDER


def title_of(measure: str) -> str:
    """Return the name of a measure in tables, such as "hit@5 among unseen"."""
    if measure in _TITLES:
        return _TITLES[measure]
    word, _, among = measure.rpartition("_")
    start, at, number = word.partition("@")
    word = f"{_WORDS[start]} {number}" if at and start in _WORDS else _WORDS.get(word, word)
    return f"{word} {_AMONG[among]}"


def meaning_of(measure: str) -> str:
    """Return what a measure says."""
    word = measure if measure in _MEANINGS else measure.rpartition("_")[0].partition("@")[0]
    return _MEANINGS[word]


def place_of(measure: str) -> tuple[int, int, int]:
    """Return the place of a measure in tables, as a key to sort by."""
    among = measure.rpartition("_")[2]
    number = measure.partition("@")[2].partition("_")[0]
    first = next(i for i, start in enumerate(_ORDER) if measure.startswith(start))
    return first, SETS.index(among) if among in SETS else 0, int(number or 0)


@dataclass(frozen=True, eq=False)
class Measured:
    """A model's answers and figures."""

    name: str
    answers: Mapping[str, Answers]  # by set of candidates
    curve: SeenUnseenCurve | None  # None without samples or candidates of both kinds
    scores: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    sizes: dict[str, int]  # numbers of samples that the scores are based on
    notes: tuple[str, ...] = ()  # what a reader of the figures should know


class _Steps:
    """Sums over the samples of equal value, by ascending values."""

    def __init__(self, values: np.ndarray) -> None:
        self._order = np.argsort(values, kind="stable")
        _, self._starts = np.unique(values[self._order], return_index=True)

    def sums(self, counts: np.ndarray, *weights: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the sums of counts times weights, for each row of counts."""
        ordered = counts[:, self._order]
        for weight in weights:
            yield np.add.reduceat(ordered * weight[self._order], self._starts, axis=1)


class Figures:
    """Figures of one model as functions of the sample counts.

    `margins` are the best seen score less the best unseen one of each sample, with true label `y`;
    `mixed` says whether the model under evaluation knows classes of both kinds. `strangeness` is of
    these samples and of strangers, samples of classes that the model does not know; their counts
    follow those of the others.
    """

    def __init__(
        self,
        name: str,
        answers: Mapping[str, Answers],
        margins: np.ndarray | None,
        y: np.ndarray,
        is_seen: np.ndarray,
        *,
        mixed: bool,
        k: Sequence[int],
        notes: tuple[str, ...] = (),
        strangeness: Strangeness | None = None,
        n_strangers: int = 0,
        trees: Mapping[str, Tree] | None = None,
    ) -> None:
        self.name, self.answers, self.notes = name, answers, notes
        self._n, self._n_strangers, self._strangeness = len(y), n_strangers, strangeness
        self._ratios: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self._gaps: dict[str, tuple[csr_array, np.ndarray]] = {}
        self._risks: dict[str, tuple[_Steps, Answers]] = {}
        self.curve: SeenUnseenCurve | None = None
        among_all = self._spread(answers["all"], answers["all"].right)
        for kind, short, members in (("unseen", "acc_u", ~is_seen), ("seen", "acc_s", is_seen)):
            share = np.zeros(self._n)
            share[members] = class_shares(y[members])
            if kind in answers:
                right = self._spread(answers[kind], answers[kind].right)
                self._ratios[f"accuracy_{kind}"] = right * share, share
            if mixed and members.any():
                self._ratios[short] = among_all * share, share
        self._has_both = "acc_s" in self._ratios and "acc_u" in self._ratios
        for among in answers:
            if mixed or among != "all":  # else the same as for its only kind
                self._add_shares(among, answers[among], k)
            one = answers[among]
            if trees and among in trees and one.nodes is not None and mixed == (among == "all"):
                found = list_ratios(trees[among], one.nodes, y[one.positions])
                for word, pair in found.items():
                    parts = (self._spread(one, part) for part in pair)
                    self._ratios[f"{word}_{among}"] = next(parts), next(parts)
        if self._has_both and margins is not None:
            lost = self._ratios["accuracy_seen"][0]
            won = self._ratios["accuracy_unseen"][0]
            self.curve = curve_of_margins(margins, lost, won)
            self._margins, self._moved = _Steps(margins), (lost, won)
        strange = {} if strangeness is None else strangeness.rankings()
        self._rankings = {name: _Steps(-values) for name, values in strange.items()}

    def _add_shares(self, name: str, answers: Answers, k: Sequence[int]) -> None:
        """Add the figures in which every sample has the same weight."""
        inside = self._spread(answers, np.ones(len(answers.positions)))
        for number in k:
            hits = answers.right if number == 1 else None
            if answers.rank is not None and number < answers.n_candidates:
                hits = answers.rank < number
            if hits is not None:
                self._ratios[f"hit@{number}_{name}"] = self._spread(answers, hits), inside
        if answers.confidence is not None:
            gap = answers.right - answers.confidence
            place = (answers.positions, confidence_bins(answers.confidence, N_BINS))
            gaps = csr_array((gap, place), shape=(self._n, N_BINS))
            self._gaps[f"ece_{name}"] = gaps, inside
            self._risks[f"aurc_{name}"] = _Steps(-answers.confidence), answers
        if answers.rejected is not None:
            answered = self._spread(answers, ~answers.rejected)
            self._ratios[f"rejected_{name}"] = inside - answered, inside
            if answers.nodes is None:  # else an inner node is an answer, too
                right = self._spread(answers, answers.right & ~answers.rejected)
                self._ratios[f"selective_accuracy_{name}"] = right, answered

    def _spread(self, answers: Answers, values: np.ndarray) -> np.ndarray:
        """Return values for all samples, 0 for those without an answer."""
        spread = np.zeros(self._n)
        spread[answers.positions] = values
        return spread

    def values(self, counts: np.ndarray) -> dict[str, np.ndarray]:
        """Return the figures for each row of counts; NaN where none of their samples counts."""
        every, counts = counts, counts[:, : self._n]
        found = {
            name: _divide(counts @ numerator, counts @ denominator)
            for name, (numerator, denominator) in self._ratios.items()
        }
        if self._has_both:
            found["hm"] = np.asarray(harmonic_mean(found["acc_s"], found["acc_u"]))
        if self.curve is not None:
            found["ausuc"] = self._areas(counts)
        for name, (gaps, inside) in self._gaps.items():
            sizes = np.abs(gaps.T @ counts.T).sum(axis=0)
            found[name] = _divide(sizes, counts @ inside)
        for name, (steps, answers) in self._risks.items():
            found[name] = _area_of_risk(steps, counts[:, answers.positions], answers.right)
        if self._strangeness is not None:
            found |= self._tell_strangers(every, self._strangeness)
        return {
            name: found[name] if name.startswith(EDGES) else np.clip(found[name], 0.0, 1.0)
            for name in sorted(found, key=place_of)
        }

    def sizes(self) -> dict[str, int]:
        """Return the number of samples that each figure is based on."""
        inside = {name: pair[1] for name, pair in (self._ratios | self._gaps).items()}
        sizes = {name: int(np.count_nonzero(mask)) for name, mask in inside.items()}
        sizes |= {name: len(answers.positions) for name, (_, answers) in self._risks.items()}
        sizes |= dict.fromkeys(("hm", "ausuc"), self._n)
        sizes["rejected_strangers"] = self._n_strangers
        return sizes | dict.fromkeys(
            ("auroc_novelty", "auroc_doubt", "false_rejections"), self._n + self._n_strangers
        )

    def _areas(self, counts: np.ndarray) -> np.ndarray:
        """Return the area under the curve by the trapezoid rule, for each row of counts."""
        lost, won = self._margins.sums(counts, *self._moved)
        after = lost[:, ::-1].cumsum(axis=1)[:, ::-1] - lost  # left of acc_s beyond each threshold
        return np.sum(won * (after + lost / 2), axis=1)

    def _tell_strangers(self, counts: np.ndarray, found: Strangeness) -> dict[str, np.ndarray]:
        """Return how many strangers are rejected, and how well the novelty tells them apart."""
        figures, n = {}, self._n
        if found.rejected is not None:
            strange = counts[:, n:]
            rejected = _divide(strange @ found.rejected[n:], strange.sum(axis=1))
            figures["rejected_strangers"] = rejected
        is_stranger = np.arange(counts.shape[1]) >= n
        for name, steps in self._rankings.items():
            known, strange = steps.sums(counts, ~is_stranger, is_stranger)  # strangest first
            above, n_known, m = strange.cumsum(axis=1), known.sum(axis=1), strange.sum(axis=1)
            wins = np.sum(known * (above - strange / 2), axis=1)
            figures[f"auroc_{name}"] = _divide(wins, n_known * m)
            if name == "novelty":
                enough = above >= DETECTED * m[:, None] * _NEARLY
                falsely = known.cumsum(axis=1)[np.arange(len(m)), enough.argmax(axis=1)]
                figures["false_rejections"] = _divide(falsely, n_known * (m > 0))
        return figures


def _area_of_risk(steps: _Steps, counts: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the area under the risk-coverage curve for each row of counts."""
    n, wrong = steps.sums(counts, np.ones(len(right)), ~right)
    answered = n.cumsum(axis=1)
    risk = wrong.cumsum(axis=1) / np.maximum(answered, 1e-12)
    return _divide(np.sum(n * risk, axis=1), answered[:, -1])


def _divide(numerators: np.ndarray, denominators: np.ndarray) -> np.ndarray:
    """Return the ratios, NaN where a denominator is 0."""
    nothing = np.full(len(numerators), np.nan)
    return np.divide(numerators, denominators, out=nothing, where=denominators > 0)


def measure_figures(
    figures: Sequence[Figures],
    class_of: np.ndarray,
    kind_of_class: np.ndarray,
    confidence: float,
    seed: int,
) -> list[Measured]:
    """Return figures with intervals of several models, all from the same resamples.

    Classes are resampled among those of their kind: seen, unseen or strangers.
    """
    draws: list[list[dict[str, np.ndarray]]] = [[] for _ in figures]
    for counts in class_bootstrap(class_of, kind_of_class, N_DRAWS, seed):
        for own, model in zip(draws, figures, strict=True):
            own.append(model.values(counts))
    once = np.ones((1, len(class_of)))
    results = []
    for own, model in zip(draws, figures, strict=True):
        values = {name: float(value[0]) for name, value in model.values(once).items()}
        scores = {name: value for name, value in values.items() if not np.isnan(value)}
        intervals = {
            name: interval_of(
                value,
                np.concatenate([block[name] for block in own]),
                confidence,
                highest=np.inf if name.startswith(EDGES) else 1.0,
            )
            for name, value in scores.items()
        }
        sizes = model.sizes()
        results.append(
            Measured(
                name=model.name,
                answers=model.answers,
                curve=model.curve,
                scores=scores,
                intervals=intervals,
                sizes={name: sizes[name] for name in scores},
                notes=model.notes,
            )
        )
    return results
