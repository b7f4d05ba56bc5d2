"""evaluate: every figure of a fitted classifier on labeled test samples, in one call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import _num_samples

from ..arrays import is_device_array, to_numpy
from ..constraints import are_paths, encode_paths
from ..encoders.collection import Pictures
from ..environment import versions
from ..files.dataset import Dataset
from ..hashing import hash_object
from ..inference.scorer import unwrap
from ..labels import as_labels, check_count, format_labels, require_same_kind, warn_user
from ..parameters import check_option
from ..prototypes import Prototypes
from ..samples import pick_rows
from ..streaming.accept import as_chunks
from ..threads import limit_calls
from ..tree import Tree
from .answers import Strangeness, Subject, answers_of, unwrap_search
from .baselines import BASELINES, BaselineData, fit_baselines, training_of
from .chunked import Answered, answer_chunks, row_digests
from .label_result import LabelEvaluation
from .measures import N_DRAWS, Figures, measure_figures
from .multilabel import evaluate_labels, is_multi_label
from .result import Evaluation

_LONGEST = 200  # characters of a parameter in the provenance
_STRANGER = 2  # kind of a class; 0 is unseen, 1 seen
_PART = 4096  # rows; fixed, because a value that is not finite changes the hashes of its part


@limit_calls
def evaluate(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    baselines: Any = (),
    training: Any = None,
    k: Any = (1, 5),
    confidence: float = 0.95,
    random_state: int = 0,
) -> Any:
    """Evaluate a fitted classifier on labeled samples of seen and unseen classes.

    Classes that the model has training samples of are seen, its other classes are unseen. Samples
    of unseen classes are classified among the unseen classes, samples of seen classes among the
    seen ones, and all samples among all classes. The model is neither fitted nor changed.

    Parameters
    ----------
    model : estimator
        Fitted classifier of this library, a Pipeline that ends in one, or a search. Of any other
        fitted scikit-learn classifier, all classes are seen.
    X : array-like of shape (n_samples, n_features), Chunks, Dask collection, Dataset or path
        Test samples, or a data set, whose parts `test_seen` and `test_unseen` are used. Chunks are
        answered one by one, those of Dask arrays and data frames where they live; only answers are
        kept. Or a folder of pictures, if the file of the model names their encoder.
    y : array-like of shape (n_samples,), default=None
        Labels; None if X is a data set or `Chunks`, or a folder with one folder per class. Samples
        of classes that the model does not know are strangers: a warning names them, and figures
        say how well the model tells them from the others.
    baselines : str or sequence of str, default=()
        Models to compare with: "nearest-mean" and "logistic" (regression), which know seen classes
        only, "ridge" (regression of class means on prototypes) and "paper" (the paper's model as
        printed). Their parameters are fixed or chosen on training classes.
    training : tuple of (X, y), default=None
        Samples that baselines learn from: those that the model was fitted on. Notes of a baseline
        name seen classes without samples. None: the training part of the data set.
    k : int or sequence of int, default=(1, 5)
        Values of k in hit@k. If k is not below the number of candidates, hit@k is always 1 and is
        left out, except hit@1, the share of correct answers.
    confidence : float, default=0.95
        Confidence level of the intervals.
    random_state : int, default=0
        Seed of the intervals and of baselines.

    Returns
    -------
    Evaluation or LabelEvaluation
        Figures with intervals, tables, plots and a page; the latter of a `MultiLabelClassifier`.

    See Also
    --------
    zonkey.metrics : The figures one by one.

    Notes
    -----
    Of a `MultiLabelClassifier`, y has any of the forms that its `fit` takes, samples are in memory,
    k is not used, the only baseline is "logistic", one per label, and intervals are those of 500
    resamples of the samples.

    If the candidates of the model are a list, everything is restricted to it: other classes are
    neither candidates nor evaluated. Candidates are those of `fit` and of the methods called since:
    `partial_fit` makes a list of the unseen classes. For a `FewShotClassifier`, base classes are
    the seen and novel classes the unseen ones.

    Accuracies among unseen, among seen and among all classes (acc_s, acc_u) are means over classes.
    In hit@k, calibration errors and shares of rejected samples, every sample has the same weight.
    Accuracies and hit@k take the best class of a sample even if the model rejects it
    (`reject_below`).

    Intervals are percentiles of 1,000 resamples, moved so that the mean of the resamples lies at
    the figure. Each resample draws classes among the seen and among the unseen ones, one less than
    there are, which corrects the variance for small numbers of classes, and then samples of each
    drawn class. Intervals therefore cover other classes as well as other samples. All models are
    evaluated on the same resamples. If accuracies differ much between fewer than 10 classes,
    intervals are still too narrow: in simulations, 95 % intervals covered the truth in 78 to 86 %
    of all cases for 2 such classes, and in 90 to 93 % for 5. If classes are similar, intervals are
    too wide (96 to 99 %). An interval of an accuracy of exactly 0 or 1 has no width, whatever the
    number of samples.

    Examples
    --------
    >>> from zonkey import ZeroShotClassifier, evaluate
    >>> from zonkey.testing import linear_problem
    >>> problem = linear_problem()
    >>> model = problem.fit_clone(ZeroShotClassifier())
    >>> result = evaluate(model, problem.X_new, problem.y_new, k=(1, 2))
    >>> result.scores["accuracy_unseen"] > 0.9
    True
    >>> low, high = result.intervals["accuracy_unseen"]
    >>> sorted(result.scores)
    ['acc_u', 'accuracy_unseen', 'hit@1_all', 'hit@1_unseen', 'hit@2_all', 'hit@2_unseen']
    """
    k = _check_k(k)
    names = _check_names(baselines)
    seed = check_count("random_state", random_state, 0)
    level = isinstance(confidence, Real) and not isinstance(confidence, bool)
    if not level or not 0 < confidence < 1:
        raise ValueError(f"`confidence` must be between 0 and 1; got {confidence!r}. Use 0.95.")
    if are_paths(X):
        X, y = _encode_pictures(model, X, y)
    if is_multi_label(unwrap_search(model)):
        return _evaluate_labels(model, X, y, names, training, float(confidence), seed)
    subject, chunks = Subject.from_model(model), as_chunks(X, y)
    data = _Samples.from_source(X, y) if chunks is None else _Samples(X, np.empty(0))
    learned = None
    if names:
        prototypes = getattr(subject.model, "prototypes_", None) or data.prototypes
        given = data.training if training is None else training
        learned = training_of(given, data.X, prototypes, subject.seen, subject.labels, seed)
    models = list(_models(subject, names, learned))
    answers = strangeness = None
    if chunks is not None:
        found = answer_chunks(chunks, [one for _, one, _ in models], subject.seen)
        data, answers, strangeness = _Samples.from_answers(found), found.answers, found.strangeness
    kept, is_stranger = data.restrict_to(subject), ~np.isin(data.y, subject.labels)
    if answers is None:
        given = [(one, kept.give_to(one, subject)) for _, one, _ in models]
        answers = [answers_of(*one, kept.y, subject.seen) for one in given]
    n_strangers = int(is_stranger.sum())
    if not n_strangers:
        strangeness = None
    elif strangeness is None:
        given = [(one, data.give_to(one, subject)) for _, one, _ in models]
        strangeness = [Strangeness.of(*one, len(data.y)) for one in given]
    classes, class_of = np.unique(kept.y, return_inverse=True)
    is_seen = np.isin(classes, subject.seen)
    mixed = 0 < len(subject.seen) < len(subject.labels)
    figures = [
        Figures(
            name,
            *answers[i],
            kept.y,
            is_seen[class_of],
            mixed=mixed,
            k=k,
            notes=notes,
            strangeness=strangeness[i].put_last(is_stranger) if strangeness else None,
            n_strangers=n_strangers,
            trees=one.trees,
        )
        for i, (name, one, notes) in enumerate(models)
    ]
    others, other_of = np.unique(data.y[is_stranger], return_inverse=True)
    drawn = np.concatenate([class_of, len(classes) + other_of])
    kinds = np.concatenate([is_seen.astype(int), np.full(len(others), _STRANGER)])
    return Evaluation(
        models=tuple(measure_figures(figures, drawn, kinds, float(confidence), seed)),
        classes=classes,
        is_seen=is_seen,
        class_of=class_of,
        labels=subject.labels,
        confidence=float(confidence),
        provenance=_provenance(model, subject, data, len(kept.y), seed),
        class_names=data.class_names,
        tree=subject.trees.get("all"),
    )


def _evaluate_labels(
    model: Any,
    X: Any,
    y: Any,
    names: tuple[str, ...],
    training: Any,
    confidence: float,
    seed: int,
) -> LabelEvaluation:
    """Evaluate a model of several labels, of samples in memory."""
    if isinstance(X, Dataset) or as_chunks(X) is not None:
        raise TypeError(
            "Samples with several labels must be arrays in memory; got "
            f"{type(X).__name__}. Pass evaluate(model, X, y)."
        )
    X = to_numpy(X) if is_device_array(X) else X

    def describe(n: int, n_draws: int) -> dict[str, Any]:
        _, last = unwrap(unwrap_search(model))
        subject = Subject(last, None, last.classes_, last.seen_classes_, {})
        data = _Samples(None, np.zeros(n), fingerprint=_fingerprint(_digests(X, n), np.zeros(n)))
        return {**_provenance(model, subject, data, n, seed), "n_resamples": n_draws}

    return evaluate_labels(
        unwrap_search(model),
        X,
        y,
        baselines=names,
        training=training,
        confidence=confidence,
        seed=seed,
        describe=describe,
    )


def _encode_pictures(model: Any, paths: Any, y: Any) -> tuple[Any, Any]:
    """Return features and labels of pictures; without `y`, those of their folders or table."""
    if y is not None or isinstance(paths, list | tuple):
        return encode_paths(model, paths), y
    pictures = Pictures.of(paths)
    if pictures.labels is None:
        raise ValueError(
            f"`y` must hold the label of each picture; got None, and {pictures.source} has no "
            "labels. Pass them, or put the pictures into one folder per class."
        )
    used = pictures.labels != ""
    if pictures.split is not None:
        used &= pictures.split == "test"
    rows = np.flatnonzero(used)
    return encode_paths(model, paths)[rows], pictures.labels[rows]


@dataclass(frozen=True, eq=False)
class _Samples:
    """Test samples, and what is known about them."""

    X: Any
    y: np.ndarray
    name: str | None = None
    fingerprint: str = ""
    training: Any = None
    prototypes: Prototypes | None = None
    class_names: Mapping[Any, str] = field(default_factory=dict)

    @classmethod
    def from_source(cls, X: Any, y: Any) -> _Samples:
        """Return checked samples of arrays or of the test part of a data set."""
        if isinstance(X, Dataset):
            return cls._from_dataset(X, y)
        if y is None:
            raise ValueError(
                "`y` must hold the label of each sample of X; got None. Pass evaluate(model, X, "
                "y), or a Dataset instead of X."
            )
        labels = as_labels(to_numpy(y) if is_device_array(y) else y, "y")
        n = _num_samples(X)
        if n != len(labels) or not n:
            raise ValueError(
                f"`X` and `y` must have one row per sample and at least one; got {n} and "
                f"{len(labels)}. Pass X and y of the same samples."
            )
        return cls(X, labels, fingerprint=_fingerprint(_digests(X, n), labels))

    @classmethod
    def from_answers(cls, found: Answered) -> _Samples:
        """Return what is known about samples in chunks, without the samples."""
        if not len(found.y):
            raise ValueError("X must have at least one sample; got none. Check the source.")
        return cls(None, found.y, fingerprint=_fingerprint(found.digests, found.y))

    def give_to(self, one: Subject, subject: Subject) -> Any:
        """Return the samples; baselines learn from arrays, without names of features."""
        return self.X if one is subject or issparse(self.X) else to_numpy(self.X)

    @classmethod
    def _from_dataset(cls, data: Dataset, y: Any) -> _Samples:
        if y is not None:
            raise ValueError(
                f"`y` must be None if X is a Dataset, which has labels; got {type(y).__name__}. "
                "Leave it out."
            )
        test = np.concatenate([data.split.test_seen, data.split.test_unseen])
        if not test.size:
            raise ValueError(
                f"The data set {data.name!r} must have test samples; its split has none. Pass X "
                "and y, or another split."
            )
        return cls(
            data.X[test],
            data.y[test],
            name=data.name,
            fingerprint=data.sha256[:16],
            training=(data.X_train, data.y_train),
            prototypes=data.prototypes,
            class_names=dict(data.class_names),
        )

    def restrict_to(self, subject: Subject) -> _Samples:
        """Return the samples of classes under evaluation; warn if others are left out."""
        require_same_kind(y=self.y, classes=subject.labels)
        known = np.isin(self.y, subject.labels)
        if known.all():
            return self
        others = np.unique(self.y[~known])
        _refuse_inner(subject.trees.get("all"), others)
        what = f"{len(self.y) - known.sum()} of {len(self.y)} samples, of {format_labels(others)}"
        if not known.any():
            raise ValueError(
                f"`y` must have labels of the {len(subject.labels)} classes under evaluation, "
                f"{format_labels(subject.labels)}; all are others: {what}. Correct the labels, or "
                "add the classes to the model."
            )
        warn_user(
            f"Strangers: {what}, which are not among the {len(subject.labels)} classes under "
            "evaluation; accuracies leave them out. If the model should know them, correct the "
            "labels, or add the classes to the model.",
        )
        X = None if self.X is None else pick_rows(self.X, np.flatnonzero(known))
        return replace(self, X=X, y=self.y[known])


def _refuse_inner(tree: Tree | None, others: np.ndarray) -> None:
    """Refuse nodes above classes as labels: their samples are no strangers."""
    inner = others[:0] if tree is None else np.intersect1d(others, tree.inner)
    if inner.size:
        raise ValueError(
            "`y` must have labels of classes, which have no children in the tree; got "
            f"{format_labels(inner)}. Leave those samples out."
        )


def _models(
    subject: Subject, names: tuple[str, ...], training: BaselineData | None
) -> Iterator[tuple[str, Subject, tuple[str, ...]]]:
    """Yield name, classifier and notes of the model and of each baseline."""
    notes: tuple[str, ...] = ()
    if getattr(subject.model, "is_transductive_", False):
        notes = ("it learned from unlabeled samples as well (transductive); do not compare.",)
    chosen = getattr(subject.model, "precision_", None)
    if chosen is not None:
        notes = (*notes, f"answers are {chosen}, to reach {100 * chosen.wanted:g} %.")
    found, left_out = ([], ()) if training is None else fit_baselines(names, training)
    yield type(subject.model).__name__, subject, (*notes, *left_out)
    for name, model, own in found:
        yield name, Subject.from_model(model), own


def _check_k(k: Any) -> tuple[int, ...]:
    values = [k] if isinstance(k, Integral) else list(k) if np.iterable(k) else []
    if not values:
        raise ValueError(f"`k` must be an integer or several; got {k!r}. Use (1, 5).")
    return tuple(sorted({check_count("k", value, 1) for value in values}))


def _check_names(baselines: Any) -> tuple[str, ...]:
    several = np.iterable(baselines) and not isinstance(baselines, str)
    names: tuple[Any, ...] = tuple(baselines) if several else (baselines,)
    for name in names:
        check_option("baselines", name, BASELINES)
    return tuple(dict.fromkeys(names))


def _fingerprint(digests: np.ndarray, y: np.ndarray) -> str:
    """Return a hash of samples and labels, which is the same for samples in chunks."""
    return hash_object(digests, np.array(y.tolist()) if y.dtype.kind == "U" else y)[:16]


def _digests(X: Any, n: int) -> np.ndarray:
    """Return a hash of each sample, read in blocks."""
    parts = []
    for start in range(0, n, _PART):
        block = pick_rows(X, np.arange(start, min(start + _PART, n)))
        parts.append(row_digests(block.toarray() if issparse(block) else to_numpy(block)))
    return np.concatenate(parts)


def _provenance(
    model: Any, subject: Subject, data: _Samples, n_used: int, seed: int
) -> dict[str, Any]:
    """Return what is needed to repeat the evaluation, ready for JSON."""
    model, last = unwrap_search(model), subject.model
    parameters = getattr(last, "best_params_", None) or last.get_params(deep=False)
    steps = [type(step).__name__ for _, step in model.steps] if isinstance(model, Pipeline) else []
    return {
        "date": datetime.now().astimezone().isoformat(timespec="seconds"),
        "seed": seed,
        "n_resamples": N_DRAWS,
        "versions": versions(),
        "data": {
            "name": data.name,
            "fingerprint": data.fingerprint,
            "n_samples": n_used,
            "n_left_out": len(data.y) - n_used,
        },
        "model": {
            "class": type(last).__name__,
            "steps": steps,
            "n_seen": len(subject.seen),
            "n_unseen": len(subject.labels) - len(subject.seen),
            "parameters": {
                name: _simplify(value)
                for name, value in parameters.items()
                if name not in ("prototypes", "candidates", "base")
            },
        },
    }


def _simplify(value: Any) -> Any:
    """Return a parameter as a number or as short text."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else str(value)
    text = " ".join(str(value).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"
