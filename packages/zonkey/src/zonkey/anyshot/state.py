"""State of a fitted `AnyShotClassifier`: one frozen object, and the scorer derived from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np

from ..arrays import Array, namespace, place_like, take_rows, to_numpy
from ..inference.projection import choose_labels
from ..inference.scorer import LinearScores, Scorer
from ..labels import as_labels, format_labels, require_same_kind
from ..metrics import PrecisionThreshold
from ..parameters import is_auto
from ..persistence.checks import require_finite, require_number, require_shape, require_that
from ..prototypes import Prototypes
from ..streaming.reduce import ClassSums
from ..tree import Tree
from .adapting import Adapted, Adapting, Reserve
from .choice import Choice
from .evidence import (
    Evidence,
    Placed,
    Regression,
    class_centers,
    class_priors,
    common_shift,
)
from .posterior import even_lengths, left_out_worth, pull_uneven
from .priors import BALANCED, ClassValues, find_masses
from .refining import Refined, spread_rows
from .remembering import Remembered
from .ridges import Ridge
from .shot_folds import Names
from .shots import ShotChoosing, select_classes
from .survey import KeptSamples

BY_SHOTS = "shots"  # the worth is chosen by further samples
USUAL_WORTH, _WORTHS = 10.0, (1.0, 2.5, 5.0, 10.0, 20.0, 40.0)  # of a prototype, in shots


@dataclass(frozen=True)
class FitSettings:
    """Parameters that later samples and copies need, as they were at `fit`."""

    temperature: float | None  # None is chosen
    worth_by_shots: bool  # whether `partial_fit` chooses the worth anew
    n_shots: int  # samples per new class that parameters were chosen for
    adapt_temperature: Any  # a number or "auto", as the next
    adapt_weight: Any
    seed: int  # of simulated tasks
    class_weight: Any = BALANCED  # None, a name, or weights of classes

    @classmethod
    def __zonkey_upgrade__(cls, parts: dict[str, Any]) -> dict[str, Any]:
        """Leave out the rejection of older files, which follows from parameters."""
        kept = {name: part for name, part in parts.items() if name != "rejection"}
        return {"class_weight": BALANCED, **kept}

    def __zonkey_validate__(self) -> None:
        require_number("n_shots", self.n_shots, 0)
        for setting in (self.adapt_temperature, self.adapt_weight, self.seed):
            require_that(is_auto(setting) or setting >= 0, "Settings of `adapt` must be numbers.")


@dataclass(frozen=True, eq=False)
class AnyShotState:
    """Everything that was learned. Copies of a model differ from it by `replace`."""

    evidence: Evidence
    regression: Regression | None  # of class means on prototypes; None without prototypes
    choice: Choice
    steps: dict[str, Any]  # parameters of `fit` in use
    preprocessing: Any  # fitted transformer of features, or None
    targets: Any  # candidates: a name, or labels
    settings: FitSettings
    # Of all classes (m x d). They follow from evidence, regression and worth, and are kept because
    # learning the priors takes most of the time.
    centers: Any = None
    reserve: Reserve | None = None
    adapted: Adapted | None = None
    shift: np.ndarray | None = None  # places prototypes among raw samples; None: separate spaces
    # Centers after logistic regression, for candidates that all have samples; None if parameters
    # were chosen for classes without samples.
    refined: Refined | None = None
    precision: PrecisionThreshold | None = None  # wanted of accepted answers
    priors: ClassValues | None = None  # shares of classes relative to even ones; None: not given
    tree: Tree | None = None  # in which known classes are leaves
    remembered: Remembered | None = None

    @classmethod
    def __zonkey_upgrade__(cls, parts: dict[str, Any]) -> dict[str, Any]:
        """Fill in what older files do not have."""
        names = ("shift", "refined", "priors", "precision", "tree", "remembered")
        return {**dict.fromkeys(names), **parts}

    @classmethod
    def from_schema_1(cls, found: dict[str, Any], worth: Any) -> Self:
        """Return the state of older files, which had the attributes of a model."""
        temperature, weight, seed = found["_settings"]
        settings = FitSettings(
            temperature=found["_fixed_temperature"],
            worth_by_shots=worth == BY_SHOTS,
            n_shots=found["_n_shots"],
            adapt_temperature=temperature,
            adapt_weight=weight,
            seed=seed,
        )
        settings.__zonkey_validate__()
        names = ("evidence", "regression", "choice", "steps", "targets", "adapted", "reserve")
        parts = {name: found[f"_{name}"] for name in names}
        state = cls(
            settings=settings,
            preprocessing=found["preprocessing_"],
            centers=found["_class_centers"],
            **parts,
        )
        state.__zonkey_validate__()
        return state

    def __zonkey_validate__(self) -> None:
        evidence, regression = self.evidence, self.regression
        d = evidence.sums.shape[1]
        require_shape("centers", self.centers, len(evidence.labels), d)
        widths = {"features": d}
        if self.reserve is not None:
            widths["reserve"] = self.reserve.X.shape[1]
        if self.adapted is not None:
            widths["adapted"] = self.adapted.centers.shape[1]
        fits = len({*widths.values()}) == 1
        require_that(fits, f"Arrays of one space differ in width: {widths}.")
        described = evidence.labels[evidence.is_described]
        known = described[:0] if regression is None else regression.prototypes.labels
        fits = np.array_equal(described, known)
        require_that(fits, "Described classes must have a prototype each.")
        if regression is not None:
            row = regression.prototypes.matrix[:1]
            compute = partial(regression.transform, row, evidence.sums)
            require_finite("AnyShotClassifier", compute)

    def learn(self, prior: Array | None = None) -> Self:
        """Return the state with the centers of its evidence; priors may be given."""
        prior = self.find_priors() if prior is None else prior
        centers = class_centers(self.evidence, prior, self.choice.worth_in_use)
        if self.choice.refinement is not None:
            evidence = self.evidence
            known, within = ~evidence.is_hidden, evidence.variance(np.arange(len(evidence.counts)))
            counts = np.where(known, evidence.counts, 0.0)
            centers = pull_uneven(centers, counts, ~evidence.is_described, within)
            centers = even_lengths(centers, evidence.is_described, evidence.counts > 0)
        return replace(self, centers=centers)

    def find_priors(self) -> Array:
        """Return the prior of each class."""
        return self._find_priors_and_trust()[0]

    @property
    def trust(self) -> float:
        """Factor of what the regression predicts of classes with samples."""
        return self._find_priors_and_trust()[1] if self._judges else 1.0

    @property
    def _judges(self) -> bool:
        """Whether samples judge what the regression predicts."""
        return self.choice.refinement is not None and self.choice.refinement.judges

    def _find_priors_and_trust(self) -> tuple[Array, float]:
        placed = self.place_prototypes()
        return class_priors(self.evidence, self.regression, placed, judge=self._judges)

    def place_prototypes(self) -> Placed | None:
        """Return the prototypes of all classes among the samples; None in separate spaces."""
        if self.shift is None or self.regression is None:
            return None
        evidence, described = self.evidence, self.evidence.is_described
        known = self.regression.prototypes.subset(evidence.labels[described])
        return Placed.learn(spread_rows(self.place(known.matrix), described), evidence)

    def place(self, Y: np.ndarray) -> Array:
        """Return prototypes as preprocessed samples."""
        assert self.shift is not None
        return self.prepare(place_like(np.asarray(Y, np.float64) + self.shift, self.evidence.sums))

    def predict_priors(
        self,
        Y: np.ndarray,
        ridge: Ridge | None = None,
        trust: float = 1.0,
        labels: np.ndarray | None = None,
    ) -> Array:
        """Return the prior of a class without samples for each prototype, a row of Y.

        What the regression predicts is multiplied by `trust`. Labels tell where in the tree the
        classes are.
        """
        regression, evidence, placed = self.regression, self.evidence, self.place_prototypes()
        assert regression is not None
        if placed is None:
            return trust * regression.predict(Y, evidence, ridge, labels)
        own = placed.scale * self.place(Y)
        if not evidence.is_anchor.any():
            return own
        rest = placed.subtract_from(evidence)
        return own + trust * regression.predict(Y, rest, ridge, labels)

    @property
    def fitted_steps(self) -> tuple[Any, ...]:
        """The preprocessing, if there is one."""
        return () if self.preprocessing is None else (self.preprocessing,)

    def prepare(self, X: Array) -> Array:
        """Return preprocessed samples."""
        return X if self.preprocessing is None else self.preprocessing.transform(X)

    # What prediction reads.

    @property
    def unseen(self) -> np.ndarray:
        """Labels of known classes without samples."""
        return self.evidence.known(self.evidence.counts == 0)

    @property
    def seen(self) -> np.ndarray:
        """Labels of known classes with samples."""
        return self.evidence.known(self.evidence.counts > 0)

    @property
    def hidden(self) -> np.ndarray:
        """Labels of classes that were removed."""
        return self.evidence.labels[self.evidence.is_hidden]

    @property
    def prototypes(self) -> Prototypes | None:
        """Prototypes of the known classes that have one."""
        described = self.evidence.known(self.evidence.is_described)
        if self.regression is None or not described.size:
            return None
        known = self.regression.prototypes.subset(described)
        return known if self.tree is None else known.with_parents(self.tree.restrict(described))

    def place_in_tree(self) -> Prototypes:
        """Return the prototypes of all classes, also of removed ones, in the tree."""
        assert self.regression is not None
        every = self.regression.prototypes
        return every.with_parents(None if self.tree is None else self.tree.restrict(every.labels))

    def find_candidates(self) -> np.ndarray:
        """Return the labels of the candidates."""
        unseen = None if self.regression is None else self.unseen
        return choose_candidates(self.targets, self.evidence.known(), unseen)

    def make_scorer(self) -> Scorer:
        """Return what prediction reads."""
        labels = self.find_candidates()
        centers, offsets, penalties = self.compare(labels)
        return Scorer(
            labels,
            LinearScores.from_distances(centers).subtract(offsets + penalties).check(),
            penalties=offsets + penalties,
            seen=self.seen,
            candidates=self.targets,
            temperature=self._temperature_of(np.searchsorted(self.evidence.labels, labels)),
            transform=None if self.preprocessing is None else self.prepare,
            tree=None if self.tree is None else self.tree.restrict(labels),
        )

    def compare(self, labels: np.ndarray) -> tuple[Array, Array, Array]:
        """Return the centers of some classes, and what is subtracted from their scores.

        These are offsets, which the refinement has learned, and penalties, less what shares of
        classes add.
        """
        rows = np.searchsorted(self.evidence.labels, labels)
        centers = start = take_rows(self.centers, rows)
        penalties = place_like(self._penalties_of(rows), centers)
        offsets = namespace(centers).zeros_like(centers[:, 0])
        if self.adapted is not None:
            adapted = self.adapted if self.priors is None else self.adapted.drop_bonus()
            centers, penalties = adapted.apply(labels, centers, penalties)
        estimated = self.adapted is not None and self.adapted.bonus is not None
        if self.priors is not None or not (estimated or self._is_balanced):
            bonus = self._temperature_of(rows) * np.log(self.ratios_of(labels))
            penalties = penalties - place_like(bonus, penalties)
        if self.refined is not None and self.refined.covers(labels):
            centers, offsets = self.refined.apply(labels, start, (centers, offsets))
        return centers, offsets, penalties

    def ratios_of(self, labels: np.ndarray) -> np.ndarray:
        """Return the shares of classes relative to even ones, of a mean of 1."""
        ratios = np.ones(len(labels))
        if self.priors is not None:
            ratios = self.priors.of(labels)
        elif self.adapted is not None and self.adapted.bonus is not None:
            rows = np.searchsorted(self.evidence.labels, labels)
            bonus = ClassValues(self.adapted.labels, np.exp(to_numpy(self.adapted.bonus)))
            ratios = bonus.of(labels) ** (1 / self._temperature_of(rows))
        elif not self._is_balanced:
            ratios = ClassValues(self.seen, self.find_masses(self.seen)).of(labels)
        return ratios / ratios.mean()

    @property
    def _is_balanced(self) -> bool:
        return isinstance(self.settings.class_weight, str)

    def find_masses(self, labels: np.ndarray) -> np.ndarray:
        """Return what classes with samples count in `fit`, relative to their mean."""
        counts = self.evidence.counts[np.searchsorted(self.evidence.labels, labels)]
        return find_masses(self.settings.class_weight, labels, counts)

    def _penalties_of(self, rows: np.ndarray) -> np.ndarray:
        """Return what is subtracted from the scores of some classes, of which some are unseen."""
        if self.refined is not None and self.refined.covers(self.evidence.labels[rows]):
            return np.zeros(len(rows))
        penalties = self.choice.penalty * self.evidence.counts
        return (penalties / self.evidence.totals(self.choice.worth_in_use))[rows]

    def _temperature_of(self, rows: np.ndarray) -> float:
        """Return the temperature for some candidates.

        For candidates of one kind it lies between those of classes without and with many samples,
        as their centers do between prior and mean.
        """
        if self.settings.temperature is not None:
            return self.settings.temperature
        if self.adapted is not None and self.adapted.temperature is not None:
            return self.adapted.temperature
        refined = self.refined
        if refined is not None and refined.covers(self.evidence.labels[rows]):
            return refined.temperature
        found, worth, n_shots = (
            self.choice.temperatures,
            self.choice.worth_in_use,
            self.settings.n_shots,
        )
        counts = self.evidence.counts[rows]
        of_prior = 1 - counts / self.evidence.totals(worth)[rows]
        at_new = worth / (worth + n_shots) if worth else 1.0
        shares = np.minimum(of_prior / at_new, 1.0)
        mixed = shares.max() > 0.5 > shares.min()
        usual = found.all if mixed else float(np.mean(found.old + (found.new - found.old) * shares))
        # The mean of n samples alone is off by 1 / n of their variance; two of them compete.
        blind = np.where(self.evidence.is_described[rows], 0.0, 2 / np.maximum(counts, 1))
        return usual * self._spread_of(rows) * float(1 + blind.mean())

    def _spread_of(self, rows: np.ndarray) -> float:
        """Return the variance within candidates relative to that of the classes of `fit`.

        Features that were trained on the classes of `fit` scatter more in new classes. Less than 1
        only shows that whitening has seen the samples of a class, all the more so if they are few.
        """
        within = self.choice.within
        ratio = self.evidence.variance(rows) / within if within else 0.0
        return max(1.0, ratio)

    def refine(self, samples: tuple[Array, np.ndarray, np.ndarray]) -> Self:
        """Return the state with refined centers of the classes with samples.

        `samples` are preprocessed samples, their positions among these classes, and their weights.
        """
        refinement, labels = self.choice.refinement, self.seen
        assert refinement is not None
        centers = take_rows(self.centers, np.searchsorted(self.evidence.labels, labels))
        masses = self.find_masses(labels)
        return replace(self, refined=Refined.learn(labels, centers, samples, refinement, masses))

    # What later samples and classes change.

    def add_samples(self, sums: ClassSums, shots: Shots | None = None) -> Self:
        """Return the state after further samples; those of `shots` choose the worth."""
        evidence = self.evidence
        require_same_kind(labels=sums.labels, known=evidence.labels)
        refuse_inner(self.tree, sums.labels)
        hidden = np.intersect1d(sums.labels, self.hidden)
        if hidden.size:
            raise ValueError(
                f"The class {format_labels(hidden)} was removed by `without_classes`; got samples "
                "of it. Use the model from before, or another label."
            )
        new = np.setdiff1d(sums.labels[sums.counts > 0], evidence.known())
        targets = self.targets
        if not (isinstance(targets, str) and targets == "all"):
            targets = np.union1d(self.find_candidates(), new)
        wider = replace(self, evidence=add_sums(evidence, sums), targets=targets, adapted=None)
        if self.choice.refinement is not None:
            return wider._refine_again(shots)
        prior = wider.find_priors()
        if shots is not None:
            worth = wider._worth_of(prior, shots)
            wider = replace(wider, choice=replace(self.choice, worth=worth))
        return wider.learn(prior)

    @property
    def knows_names_only(self) -> bool:
        """Whether no sample has told where samples lie, relative to prototypes."""
        return self.shift is not None and not (self.shift.any() or self.evidence.counts.any())

    def forget_refinement(self) -> Self:
        """Return the state as if some candidates had no samples."""
        return replace(self, choice=replace(self.choice, refinement=None), refined=None).learn()

    def _refine_again(self, shots: Shots | None) -> Self:
        """Return the state whose kept samples, with further ones, choose and refine again."""
        if shots is None or (self.reserve is not None and self.reserve.priors is not None):
            return replace(self, refined=None).learn()
        evidence = self.evidence
        reserve = (
            self.reserve.read() if self.reserve is not None else Reserve.make_empty(evidence.sums)
        )
        codes = to_numpy(shots.codes)
        weights = np.ones(len(codes)) if shots.weights is None else to_numpy(shots.weights)
        used = weights > 0
        X = take_rows(place_like(shots.X, evidence.sums), np.flatnonzero(used))
        reserve = reserve.add(X, codes[used], weights[used].astype(np.float64), shots.labels)
        X, codes, weights = samples = reserve.list_samples(self.seen)
        kept = KeptSamples.choose(X, codes, self.seen, 0, weights)
        kept, some = select_classes(kept, self.seen, self.settings.seed)
        placed = self.place_prototypes()
        if placed is not None:
            rows = np.searchsorted(evidence.labels, some)
            placed = take_rows(placed.vectors, rows)
        counts = np.bincount(kept.codes, kept.weights)
        names = Names.read(some, self.regression, evidence.sums, counts, placed)
        fixed: dict[str, Any] = {"preprocessing": None}
        refinement = self.choice.refinement
        if refinement is not None and not refinement.judges:
            fixed["worth"] = self.choice.worth_in_use
        masses = self.find_masses(some)
        choice = ShotChoosing(kept, names, self.choice, fixed, self.settings.seed, masses).run()
        state = replace(self, choice=choice, reserve=reserve, refined=None).learn()
        # Samples of a class that came in chunks were not kept.
        return state.refine(samples) if len(np.unique(codes)) == len(self.seen) else state

    def _worth_of(self, prior: Array, shots: Shots) -> float:
        """Return the worth under which samples of classes with several are most likely."""
        evidence, labels = self.evidence, shots.labels
        rows = np.searchsorted(evidence.labels, labels)
        rows = np.minimum(rows, len(evidence.labels) - 1)  # labels without weight may be unknown
        several = evidence.is_described[rows] & (evidence.counts[rows] >= 2)
        several &= evidence.labels[rows] == labels
        if self.regression is None or several.sum() < 2:
            return self.choice.worth_in_use
        if evidence.is_transferred:
            prior = prior + common_shift(evidence, prior, USUAL_WORTH)[None, :]
        host = to_numpy(shots.codes)
        weights = shots.weights
        shares = np.ones(len(host)) if weights is None else to_numpy(weights).astype(np.float64)
        used, places = np.flatnonzero(several[host]), rows[several]
        X = take_rows(place_like(shots.X, prior), used)
        return left_out_worth(
            namespace(prior).astype(X, prior.dtype),
            place_like((np.cumsum(several) - 1)[host[used]], prior),
            place_like(shares[used], prior),
            take_rows(prior, places),
            take_rows(evidence.sums, places),
            place_like(evidence.counts[places], prior),
            _WORTHS,
        )

    def add_classes(self, prototypes: Prototypes) -> Self:
        """Return the state that also knows these classes, which have no samples."""
        evidence, new = self.evidence, prototypes.labels
        known = np.intersect1d(new, evidence.labels[~evidence.is_described])
        if known.size:
            raise ValueError(
                f"The class {format_labels(known)} has samples and no prototype; got one for it. "
                "Fit again with its prototype."
            )
        assert self.regression is not None
        extended = self.regression.prototypes.extended(prototypes.with_parents(None))
        targets = self.targets
        trees = [tree for tree in (self.tree, prototypes.tree) if tree is not None]
        tree = trees[0].extend(trees[-1]) if trees else None
        part = self.regression.tree_part
        if part is not None and tree is not None:
            part = replace(part, tree=tree)
        wider = replace(
            self,
            evidence=evidence.add_described(new),
            regression=replace(self.regression, prototypes=extended, tree_part=part),
            targets=targets if isinstance(targets, str) else np.union1d(as_labels(targets), new),
        ).join_tree(tree)
        return wider.learn()

    def join_tree(self, tree: Tree | None) -> Self:
        """Return the state whose known classes are leaves of a tree."""
        known = self.evidence.known()
        if tree is not None:
            require_same_kind(nodes=tree.nodes, known=known)
            above = np.intersect1d(known, tree.inner)
            if above.size:
                raise ValueError(
                    "Classes that a model knows must be leaves of the tree; "
                    f"{format_labels(above)} has children. Fit again with this tree, or remove it "
                    "with `without_classes` first."
                )
        return replace(self, tree=tree)

    def remove_classes(self, labels: Any) -> Self:
        """Return the state that no longer knows some classes."""
        gone = known_labels(labels, self.evidence.known())
        if len(gone) == len(self.evidence.known()):
            raise ValueError(
                f"At least one class must stay; got all {len(gone)} to remove. Leave some out."
            )
        targets = self.targets
        return replace(
            self,
            evidence=self.evidence.without(gone),
            targets=targets if isinstance(targets, str) else np.setdiff1d(as_labels(targets), gone),
        ).learn()

    def adapt(self, X: Array) -> Self:
        """Return the state that has learned from unlabeled samples, which are preprocessed."""
        labels = self.find_candidates()
        rows = np.searchsorted(self.evidence.labels, labels)
        settings, reserve, ridge = self.settings, self.reserve, None
        if reserve is not None:  # only tasks that are simulated with the reserve need the rest
            reserve = reserve.read()
            if self.regression is not None and self.evidence.is_anchor.any():
                ridge = self.regression.solve(self.evidence)
        adapting = Adapting(
            evidence=self.evidence,
            candidates=rows,
            centers=take_rows(self.centers, rows),
            penalties=self._penalties_of(rows),
            ridge=ridge,
            prior_worth=self.choice.worth_in_use,
            reserve=reserve,
            placed=self.place_prototypes(),
            trust=self.trust,
            temperature=self._temperature_of(rows),
            shares=None if self.priors is None else self.ratios_of(labels) / len(rows),
        )
        adapted = adapting.run(
            place_like(X, self.evidence.sums),
            temperature=settings.adapt_temperature,
            weight=settings.adapt_weight,
            seed=settings.seed,
        )
        return replace(self, adapted=adapted)


@dataclass(frozen=True, eq=False)
class Shots:
    """A few preprocessed samples in memory; codes are positions in the labels."""

    X: Array
    codes: Array
    weights: Array | None
    labels: np.ndarray


def add_sums(evidence: Evidence, sums: ClassSums) -> Evidence:
    """Return the evidence with the samples of classes of positive weight."""
    used = np.flatnonzero(sums.counts > 0)
    totals = sums.totals()
    kept = take_rows(totals, used)
    kept = place_like(kept, evidence.sums)
    return evidence.add(sums.labels[used], kept, sums.counts[used], sums.squares[used])


def refuse_inner(tree: Tree | None, labels: np.ndarray) -> None:
    """Refuse samples in chunks that are labeled at inner nodes."""
    inner = labels[:0] if tree is None else np.intersect1d(labels, tree.inner)
    if inner.size:
        raise ValueError(
            f"Samples of the inner node {format_labels(inner)} must be in memory, because they are "
            "read several times; got chunks. Pass arrays, or labels of classes without children."
        )


def choose_candidates(targets: Any, known: np.ndarray, unseen: np.ndarray | None) -> np.ndarray:
    """Return the labels of candidates; `unseen` is None without prototypes."""
    named = {"unseen": known if unseen is None else unseen, "all": known}
    return choose_labels(targets, named, lambda labels: known_labels(labels, known), len(known))


def known_labels(labels: Any, known: np.ndarray) -> np.ndarray:
    """Return sorted distinct labels; refuse unknown ones."""
    labels = np.unique(as_labels(labels))
    require_same_kind(labels=labels, known=known)
    missing = np.setdiff1d(labels, known)
    if missing.size:
        raise ValueError(
            f"No prototype and no sample of the class {format_labels(missing)}; the {len(known)} "
            f"known classes are {format_labels(known)}. Correct the label, or add the class."
        )
    return labels
