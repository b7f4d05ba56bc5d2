"""Explain the answer of a model by the classes, samples and attributes behind its scores."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..arrays import Array, dtype_like, is_device_array, namespace, softmax, to_numpy
from ..config import rows_per_block
from ..constraints import are_paths, encode_paths, validate_samples
from ..labels import check_count
from ..prototypes import Prototypes
from .explain_labels import explain_labels
from .explanation import Explanation
from .scorer import Scorer, best_columns, find_scorer, unwrap

__all__ = ["Explanation", "explain"]

_MOST_SAMPLES = 50

Part = tuple[list[dict[str, Any]], str]  # rows, and a note: what they are, or why there is none


def explain(model: Any, x: Any, k: int = 5) -> Explanation:
    """Explain the answer of a model for one sample.

    Parameters
    ----------
    model : estimator or Pipeline
        Fitted `AnyShotClassifier`, `MultiLabelClassifier`, model with a projection (the paper's
        models and peers), or pipeline that ends with one.
    x : array-like of shape (n_features,) or (1, n_features)
        The sample, as `predict` takes it: also the path of a picture, if the file of the model
        names its encoder.
    k : int, default=5
        Number of best classes to list; all of them if there are fewer.

    Returns
    -------
    Explanation
        Best classes, and the evidence for the winner and for the runner-up. Of several labels,
        these are the two most probable ones, and the evidence is what their prototypes, their
        samples and logistic regression add to the log odds.
    """
    preprocessing, classifier = unwrap(model)
    k = check_count("k", k, 1)
    row = _one_row(encode_paths(model, x))
    if preprocessing is not None:
        row = preprocessing.transform(row)
    scorer = find_scorer(classifier)
    if scorer is not None and scorer.independence is not None:
        return explain_labels(classifier, row, k)
    if scorer is not None and (hasattr(classifier, "state_") or scorer.compare is not None):
        kind = _Posterior if hasattr(classifier, "state_") else _Projection
        return _explanation(kind(_Question.from_row(classifier, row)), k)
    raise TypeError(
        "`explain` needs an AnyShotClassifier, a model with a projection, or a pipeline that ends "
        f"with one; got {type(classifier).__name__}. Of a search, pass `best_estimator_`."
    )


@dataclass(frozen=True, eq=False)
class _Question:
    """A model and one sample, with the scores of the candidates.

    `row` is the sample as given, `X` validated. All that follows is on the host in float64.
    """

    model: Any
    scorer: Scorer
    row: Any
    X: Array
    labels: np.ndarray
    scores: np.ndarray
    probabilities: np.ndarray | None
    best: np.ndarray

    @classmethod
    def from_row(cls, model: Any, row: Any) -> _Question:
        X, scorer = validate_samples(model, row, reset=False), model.scorer_
        scores = namespace(X).concat([*scorer.blocks(X)])
        best = to_numpy(best_columns(scores, len(scorer.labels)))[0]
        probabilities = None
        if scorer.temperature is not None:
            probabilities = _to_host(softmax(scores / scorer.temperature))[0]
        return cls(model, scorer, row, X, scorer.labels, _to_host(scores)[0], probabilities, best)

    @property
    def penalties(self) -> np.ndarray:
        """Penalties subtracted from the scores, including the changes by `adapt`."""
        return _to_host(self.scorer.penalties)

    @property
    def rivals(self) -> list[Any]:
        """Labels of winner and runner-up; of the winner alone if it is the only candidate."""
        return self.labels[self.best[:2]].tolist()


def _explanation(source: _Posterior | _Projection, k: int) -> Explanation:
    q, penalties = source.question, source.question.penalties
    winner, *second = q.best[:2]
    parts = {
        "classes": _best_classes(source, k),
        "seen_classes": source.seen_classes(),
        "samples": source.samples(),
        "attributes": _attributes(source),
    }
    return Explanation(
        label=q.rivals[0],
        runner_up=q.rivals[1] if second else None,
        margin=float(q.scores[winner] - q.scores[second[0]]) if second else None,
        answer=to_numpy(q.scorer.predict(q.X)).tolist()[0],
        penalty={
            "winner": float(penalties[winner]),
            "runner_up": float(penalties[second[0]]) if second else None,
            "label_without": q.labels[np.argmax(q.scores + penalties)].item(),
        },
        parts={name: rows for name, (rows, _) in parts.items()},
        notes={name: note for name, (_, note) in parts.items()},
    )


def _best_classes(source: _Posterior | _Projection, k: int) -> Part:
    """Return the k best candidates."""
    q = source.question
    best = q.best[:k]
    labels = q.labels[best]
    seen = np.isin(labels, to_numpy(q.model.seen_classes_))
    novel = np.isin(labels, to_numpy(getattr(q.model, "novel_classes_", labels[:0])))
    rows = _rows(
        label=labels,
        kind=np.where(novel, "novel", np.where(seen, "seen", "unseen")),
        n_samples=source.n_samples(labels),
        score=q.scores[best],
        margin=q.scores[best[0]] - q.scores[best],
        probability=[None] * len(best) if q.probabilities is None else q.probabilities[best],
        penalty=q.penalties[best],
    )
    return rows, f"{len(best)} of {len(q.labels)} candidates"


def _attributes(source: _Posterior | _Projection) -> Part:
    """Return how the scores of winner and runner-up depend on their prototypes."""
    q, known, reason = source.question, source.question.model.prototypes_, source.explain_absence()
    described = [not reason and label in known for label in q.rivals]
    if not reason and not any(described):
        reason = "neither winner nor runner-up has a prototype"
    if reason:
        return [], f"none; {reason}"
    mean = known.matrix.mean(axis=0, dtype=np.float64)
    values = [known[label] if has else None for label, has in zip(q.rivals, described, strict=True)]
    none = np.zeros(len(mean))  # the score of a class without prototype has no attributes
    effects = [
        source.effects(label, mean) if has else none
        for label, has in zip(q.rivals, described, strict=True)
    ]
    names = known.dimension_names or [f"dimension {i}" for i in range(len(mean))]
    pair = _pair("effect", effects)
    rows = _rows(
        attribute=list(names),
        dimension=np.arange(len(mean)),
        sample=to_numpy(q.model.embed(q.row))[0] if source.embeds else None,
        winner=values[0],
        runner_up=values[1] if len(values) > 1 else None,
        mean=mean,
        **pair,
        order=np.argsort(-np.abs(pair["difference"]), kind="stable"),
    )
    return rows, "effect of a value on the score, compared with the mean of all known classes"


@dataclass(frozen=True, eq=False)
class _Posterior:
    """The answer of an AnyShotClassifier, split into contributions.

    With the class means m_j, weights w of the regression and n0 = `worth`, the center of a class
    with n samples and mean m is

        c = (n0 sum_j w_j m_j + n m) / (n0 + n) = sum_j a_j m_j.

    So the score 2 x'c - ||c||^2 - penalty has the term 2 x'c = sum_j 2 a_j x'm_j.
    """

    question: _Question

    @cached_property
    def state(self) -> Any:
        """What the model has learned, on the host."""
        state = self.question.model.state_
        evidence = replace(state.evidence, sums=to_numpy(state.evidence.sums))
        return replace(state, evidence=evidence, centers=to_numpy(state.centers))

    @property
    def evidence(self) -> Any:
        """The samples of each class."""
        return self.state.evidence

    @cached_property
    def x(self) -> np.ndarray:
        """The preprocessed sample."""
        return _to_host(self.question.scorer.map_samples(self.question.X))[0]

    @cached_property
    def ridge(self) -> Any:
        """What the regression learned from the anchors, None if there are none."""
        regression = self.state.regression
        if regression is None or not self.evidence.is_anchor.any():
            return None
        return regression.solve(self.evidence)

    @property
    def embeds(self) -> bool:
        """Whether the regression maps samples to prototypes; names alone do not."""
        return self.ridge is not None

    @cached_property
    def trust(self) -> float:
        """Factor of what the regression predicts of classes with samples."""
        return self.state.trust

    @cached_property
    def shares(self) -> np.ndarray:
        """The shares a of all class means (m) in the centers of winner and runner-up."""
        return np.stack([self._shares(label) for label in self.question.rivals])

    def n_samples(self, labels: np.ndarray) -> list[Any]:
        """Return the numbers of labeled samples, or the sums of their weights."""
        counts = self.evidence.counts[np.searchsorted(self.evidence.labels, labels)].tolist()
        return [int(n) if n == int(n) else n for n in counts]

    def seen_classes(self) -> Part:
        """Return the share of each class mean in the two centers, and its pull."""
        evidence = self.evidence
        used = np.flatnonzero(self.shares.any(axis=0))
        means = evidence.sums[used] / evidence.counts[used, None]
        shares = self.shares[:, used]
        pulls = 2 * shares * (means @ self.x)
        labels = evidence.labels[used].tolist()
        kinds = np.where(evidence.is_hidden[used], "removed", "seen").tolist()
        rest = self._rest()
        if rest:
            centers = [self._center(label) for label in self.question.rivals]
            moved = np.stack(centers) - shares @ means
            labels, kinds = [*labels, None], [*kinds, rest]
            pulls = np.concatenate([pulls, 2 * (moved @ self.x)[:, None]], axis=1)
            shares = np.concatenate([shares, np.full((len(shares), 1), np.nan)], axis=1)
        pair = _pair("pull", pulls)
        order = np.argsort(-np.abs(pair["difference"]), kind="stable")
        rows = _rows(label=labels, kind=kinds, **_name_both("share", shares), **pair, order=order)
        return rows, "share a of a class mean m in the center, and pull 2 a x'm on the score"

    def _rest(self) -> str:
        """Return what else moved the centers, apart from class means; empty if they explain all."""
        adapted, evidence = self.state.adapted, self.evidence
        if adapted is not None and adapted.chosen["adapt_weight"]:
            return "unlabeled samples"
        refined = self.state.refined
        if self.state.shift is not None or (refined is not None and refined.is_moved):
            return "own prototype, logistic regression"
        with_samples = (evidence.counts > 0) & ~evidence.is_hidden
        plain = with_samples & ~evidence.is_described
        if refined is not None and len(np.unique(evidence.counts[plain])) > 1:
            return "mean of all classes"
        return "common shift" if evidence.is_transferred and with_samples.any() else ""

    def samples(self) -> Part:
        """Return the kept samples that pull most towards the winner."""
        reserve, evidence = self.state.reserve, self.evidence
        if reserve is None:
            return [], (
                "none; the model keeps none, because `adapt_temperature` and `adapt_weight` are "
                "both given"
            )
        if reserve.priors is not None:
            return [], "none; the model keeps samples of the validation classes only"
        of_sample = np.repeat(reserve.labels, np.diff(reserve.bounds))
        places = np.searchsorted(evidence.labels, of_sample)
        X = _to_host(reserve.read().X)
        weights = 2 * reserve.weights / evidence.counts[places] * (X @ self.x)
        pair = _pair("pull", self.shares[:, places] * weights)
        rows = _rows(
            row=reserve.rows,
            label=of_sample,
            **pair,
            distance=np.linalg.norm(X - self.x, axis=1),
            order=np.argsort(-pair["difference"], kind="stable")[:_MOST_SAMPLES],
        )
        return rows, f"strongest pull towards the winner, of the {len(X)} samples the model keeps"

    def explain_absence(self) -> str:
        """Return why there are no attributes, or nothing."""
        regression = self.state.regression
        if regression is None or self.question.model.prototypes_ is None:
            return "the model has no prototypes"
        if regression.kernel.kind == "precomputed":
            return "the numbers of a prototype are values of a precomputed kernel"
        return ""

    def effects(self, label: Any, mean: np.ndarray) -> np.ndarray:
        """Return the score minus that with one number of the prototype replaced by the mean.

        If f becomes f + d, the center becomes c + s d with s = n0 / (n0 + n), and the score changes
        by 2 s d'(x - c) - s^2 ||d||^2. If the class has samples, f is learned from the others. What
        logistic regression adds to the score is taken to stay.
        """
        regression, evidence, ridge = self.state.regression, self.evidence, self.ridge
        place = self._place(label)
        own = None
        if ridge is not None and evidence.is_anchor[place]:
            i = self._find_anchor(label)
            own = self.missed.own_shares()[i] * self.missed.anchor_means()[i]
            ridge = ridge.without(np.flatnonzero(evidence.anchors == label))
        y = regression.prototypes[label].astype(np.float64)
        trust = self.trust if evidence.is_anchor[place] else 1.0

        def predict(Y: np.ndarray) -> np.ndarray:
            found = self.state.predict_priors(Y, ridge, trust)
            if own is None:
                return found
            reach = regression.weights(Y, evidence, ridge).sum(axis=1)
            return found + trust * reach[:, None] * own

        prior = predict(y[None])
        share = self._prior_share(place)
        away = self.x - self._start(label)
        changes = []
        for Y in _replace_one_by_one(y, mean, len(self.x)):
            moved = share * (predict(Y) - prior)
            changes.append(2 * (moved @ away) - np.sum(moved * moved, axis=1))
        return -np.concatenate(changes)

    @cached_property
    def missed(self) -> Any:
        """What the regression learns: what placed prototypes miss of class means, if there are."""
        placed = self.state.place_prototypes()
        return self.evidence if placed is None else placed.subtract_from(self.evidence)

    def _find_anchor(self, label: Any) -> int:
        return int(np.flatnonzero(self.evidence.anchors == label)[0])

    def _weigh_left_out(self, label: Any) -> np.ndarray:
        """Return the weights of the means of anchors in the prior of one of them."""
        i = self._find_anchor(label)
        weights = self.ridge.weigh_left_out(i).copy()
        weights[i] = weights.sum() * self.missed.own_shares()[i]
        return self.trust * weights

    def _place(self, label: Any) -> int:
        return int(np.searchsorted(self.evidence.labels, label))

    def _center(self, label: Any) -> np.ndarray:
        q = self.question
        form: Any = q.scorer.form
        return _to_host(form.centers)[int(np.flatnonzero(q.labels == label)[0])]

    def _start(self, label: Any) -> np.ndarray:
        """Return the center of a class before its refinement by logistic regression."""
        state = self.state
        return self._center(label) if state.refined is None else state.centers[self._place(label)]

    def _prior_share(self, place: int) -> float:
        """Return n0 / (n0 + n) of a class, 0 without prototype."""
        total = self.evidence.totals(self.state.choice.worth_in_use)[place]
        return float(1 - self.evidence.counts[place] / total)

    def _shares(self, label: Any) -> np.ndarray:
        """Return a, the share of each class mean in the center of a class (m)."""
        evidence, place = self.evidence, self._place(label)
        share = self._prior_share(place)
        shares = np.zeros(len(evidence.labels))
        if self.ridge is not None and evidence.is_described[place]:
            if evidence.is_anchor[place]:
                weights = self._weigh_left_out(label)
            else:
                regression = self.state.regression
                y = regression.prototypes[label][None]
                weights = regression.weights(y, evidence, self.ridge, np.array([label]))[0]
            shares[evidence.is_anchor] = share * weights
        shares[place] += 1 - share
        return shares


@dataclass(frozen=True, eq=False)
class _Projection:
    """The answer of a model with a projection: the paper's models and the peers."""

    question: _Question

    @cached_property
    def x(self) -> np.ndarray:
        """The sample as a matrix of one row."""
        return _to_host(self.question.X)

    @property
    def embeds(self) -> bool:
        """Whether the model maps samples to prototypes; some peers do not."""
        return hasattr(self.question.model, "embed")

    def n_samples(self, labels: np.ndarray) -> list[Any]:
        """Return nothing: these models keep no counts."""
        return [None] * len(labels)

    def seen_classes(self) -> Part:
        """Return the seen classes by the distance of their prototypes from the winner's.

        Synthesis chooses neighbors by the same distance.
        """
        model = self.question.model
        seen = to_numpy(model.seen_classes_)
        if model.scorer_.one_hot or not seen.size:
            return [], f"none; {self._WITHOUT if seen.size else 'the model has none'}"
        of_seen = model.prototypes_.subset(seen)
        Y = of_seen.matrix.astype(np.float64)
        apart = [
            np.linalg.norm(Y - model.prototypes_[label], axis=1) for label in self.question.rivals
        ]
        rows = _rows(
            label=of_seen.labels,
            **_name_both("prototype_distance", apart),
            distance=self._distances(of_seen),
            order=np.argsort(apart[0], kind="stable"),
        )
        return rows, "distance of their prototypes, and of the sample from their centers"

    def samples(self) -> Part:
        """Return nothing: these models keep no samples."""
        return [], f"none; {type(self.question.model).__name__} keeps no samples"

    def explain_absence(self) -> str:
        """Return why there are no attributes, or nothing."""
        return self._WITHOUT if self.question.scorer.one_hot else ""

    def effects(self, label: Any, mean: np.ndarray) -> np.ndarray:
        """Return the score minus that with one number of the prototype replaced by the mean."""
        y = self.question.model.prototypes_[label].astype(np.float64)
        changed = [self._scores(Y) for Y in _replace_one_by_one(y, mean, self.x.shape[1])]
        return self._scores(y[None]) - np.concatenate(changed)

    def _scores(self, Y: np.ndarray) -> np.ndarray:
        """Return the scores of classes with these prototypes, without penalty."""
        prototypes = Prototypes(np.arange(len(Y)), Y)
        scores = self.question.scorer.compare_also(prototypes, self.x.dtype).blocks(self.x)
        return np.concatenate([to_numpy(block) for block in scores])[0]

    def _distances(self, prototypes: Prototypes) -> np.ndarray | None:
        """Return the distance of the sample from some centers, None if none is compared."""
        scorer = self.question.scorer
        if not scorer.has_centers or scorer.compare is None or scorer.form is None:
            return None
        own: Any = scorer.form
        float64 = dtype_like("float64", own.centers)
        form, z = scorer.compare(prototypes, float64).like(self.x), scorer.map_samples(self.x)
        z = z if form.M is None else z @ form.M
        return np.linalg.norm(z - form.centers, axis=1)

    _WITHOUT = "the model has no prototypes"


def _one_row(x: Any) -> Any:
    """Return one sample as a matrix of one row; a Series of pandas keeps its names."""
    if are_paths(x):  # of a pipeline that starts with an encoder
        return list(x) if isinstance(x, list | tuple) else [x]
    x = x if hasattr(x, "shape") else np.asarray(x)
    if len(x.shape) == 1:
        x = x if is_device_array(x) or hasattr(x, "iloc") else np.asarray(x)
        x = x.to_frame().T if hasattr(x, "iloc") else x[None, :]
    if len(x.shape) != 2 or x.shape[0] != 1:
        raise ValueError(
            f"`x` must be one sample, a vector or a matrix of one row; got shape {tuple(x.shape)}. "
            "Pass X[i]."
        )
    return x


def _to_host(M: Any) -> np.ndarray:
    return to_numpy(M).astype(np.float64)


def _replace_one_by_one(y: np.ndarray, mean: np.ndarray, width: int) -> Iterator[np.ndarray]:
    """Yield copies of y, of which number i has entry i replaced, in blocks of bounded memory.

    `width` is the length of other rows that are needed for each copy.
    """
    step = rows_per_block(16 * max(len(y), width))
    for start in range(0, len(y), step):
        entries = np.arange(start, min(start + step, len(y)))
        Y = np.tile(y, (len(entries), 1))
        Y[entries - start, entries] = mean[entries]
        yield Y


def _name_both(name: str, values: Sequence[Any] | np.ndarray) -> dict[str, Any]:
    """Return columns of winner and runner-up, the latter None if there is none."""
    second = values[1] if len(values) > 1 else None
    return {f"{name}_winner": values[0], f"{name}_runner_up": second}


def _pair(name: str, values: Sequence[Any] | np.ndarray) -> dict[str, Any]:
    """Return the same with the difference of both."""
    difference = values[0] - values[1] if len(values) > 1 else values[0]
    return {**_name_both(name, values), "difference": difference}


def _rows(order: np.ndarray | None = None, **columns: Any) -> list[dict[str, Any]]:
    """Return one dict per row, of plain Python values; a column of None has no values."""
    lists = {n: v.tolist() if isinstance(v, np.ndarray) else v for n, v in columns.items()}
    size = next(len(values) for values in lists.values() if values is not None)
    places = range(size) if order is None else order.tolist()
    return [
        {
            name: None if values is None else _drop_infinite(values[i])
            for name, values in lists.items()
        }
        for i in places
    ]


def _drop_infinite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
