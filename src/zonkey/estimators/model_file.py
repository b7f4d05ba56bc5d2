"""Model files: one safetensors file per fitted model, checked when it is loaded.

A file holds arrays and a JSON header: schema, estimators by name, parameters, labels, prototypes,
facts about the training, versions and notes. Names are looked up in a list of classes; nothing is
unpickled or imported by name.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.utils.validation import check_is_fitted

from ..core.evidence import Evidence, Regression
from ..core.kernels import PrototypeKernel
from ..core.packing import (
    PROTOTYPES,
    Form,
    pack,
    require_labels,
    require_shape,
    require_that,
    unpacked,
)
from ..core.prototypes import Prototypes
from ..core.storage import SCHEMA, StorageError, read_arrays, read_header, write_arrays
from ..linalg.arrays import to_numpy
from ..preprocessing import FeatureNormalizer, WithinClassWhitener
from .adapting import Adapted, Reserve
from .any_shot import AnyShotClassifier
from .choosing import Choice, Point, Temperatures
from .few_shot import FewShotClassifier
from .nearest_support import NearestSupport
from .scoring import Decision, LinearScores, Rejection, unwrapped
from .zero_shot import ZeroShotClassifier

_KIND = "model"
_FACTS = "_file_facts"  # attribute of loaded models: what a later `save` writes again
_MOST_SHOWN = 5  # entries of a list on the model card
_NOT_STORED = "not stored"
_LAZY = ("/_reserve/X",)  # the largest array, which only `adapt` and `explain` need


def save(
    model: Any,
    path: str | os.PathLike[str],
    *,
    notes: str | None = None,
    license: str | None = None,
    scores: Mapping[str, float] | None = None,
    training: Mapping[str, Any] | None = None,
) -> None:
    """Write a fitted model to one file, whole or not at all.

    Parameters
    ----------
    model : estimator or Pipeline
        Fitted classifier of zonkey, or a pipeline of one and transformers: `FeatureNormalizer`,
        `WithinClassWhitener`, and scikit-learn's `Normalizer`, `StandardScaler` and `PCA`.
        `model.save(path)` does the same. Arrays on a device are copied to the host.
    path : str or path-like
        File to write; `.zonkey` is the usual ending.
    notes : str, default=None
        Free text for those who use the model. None: those of the file that the model came from.
    license : str, default=None
        License of the model. None: that of the file that the model came from.
    scores : mapping of {str: float}, default=None
        Measured accuracies, for the model card.
    training : mapping, default=None
        Facts about the training data, such as file names.

    See Also
    --------
    load : Read the file.
    model_card : A page about the model.
    """
    if hasattr(model, "best_estimator_"):
        raise TypeError(
            f"A file holds one fitted model; got the search {type(model).__name__}. Save its "
            "best_estimator_."
        )
    check_is_fitted(model)
    given = {"notes": notes, "license": license, "scores": scores, "training": training}
    facts = {**getattr(model, _FACTS, {}), **{k: v for k, v in given.items() if v is not None}}
    facts = {
        name: value if isinstance(value, str) else dict(value) for name, value in facts.items()
    }
    content, arrays = pack(model, _FORMS)
    header = {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": _versions(),
        "summary": _summary(model),
        **facts,
        "content": content,
    }
    write_arrays(path, _KIND, header, arrays)


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that `save` wrote.

    Parameters
    ----------
    path : str or path-like
        File to read.

    Returns
    -------
    estimator or Pipeline
        The fitted model, in NumPy arrays.

    Raises
    ------
    StorageError
        If the file is damaged, altered, too new or inconsistent. It is a ValueError, of one line.

    Examples
    --------
    >>> import tempfile, zonkey
    >>> X, y = [[0.0, 1.0], [0.1, 0.9], [1.0, 0.0]], ["horse", "horse", "tiger"]
    >>> model = zonkey.presets.rpl({"horse": [0, 1], "tiger": [1, 0], "zebra": [1, 1]}).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/animals.zonkey")
    ...     zonkey.load(f"{folder}/animals.zonkey").predict([[0.6, 0.6]])
    array(['zebra'], dtype='<U5')
    """
    header, arrays = read_arrays(path, _KIND, _LAZY)
    model = unpacked(path, header, arrays, _FORMS)
    names = ("notes", "license", "scores", "training")
    setattr(model, _FACTS, {name: header[name] for name in names if name in header})
    return model


def model_info(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what a model file says about itself, without reading its arrays.

    Parameters
    ----------
    path : str or path-like
        Model file.

    Returns
    -------
    dict
        Summary of the model (estimator, numbers of features and classes, labels, chosen
        parameters), facts about the training, scores, notes, license, versions, schema and size.
    """
    header = read_header(path, _KIND)
    about = {name: value for name, value in header.items() if name not in ("content", "checksums")}
    return {"file": str(path), "bytes": Path(path).stat().st_size, **about}


def model_card(path: str | os.PathLike[str]) -> str:
    """Return a page about a model file, in Markdown.

    Parameters
    ----------
    path : str or path-like
        Model file.

    Returns
    -------
    str
        The page: what the model is, what it was trained on, how well it does, how to use it.
    """
    info = model_info(path)
    summary, name = info["summary"], Path(path).name
    lines = [f"# {Path(path).stem}", "", info.get("notes", ""), ""]
    lines += [
        f"- Model: `{summary['estimator']}` of zonkey {info['versions']['zonkey']}",
        f"- License: {info.get('license', 'not stated')}",
        f"- Input: {summary['n_features']} features",
        f"- Answers: one of {summary['n_candidates']} classes",
        f"- Saved: {info['created']}, {info['bytes']:,} bytes, schema {info['schema']}",
        "",
        "## Classes",
        "",
        f"{summary['n_seen']} with training samples, {summary['n_unseen']} known by a description "
        "only.",
        "",
        *_wrapped_labels(summary["labels"]),
        "",
        "## Training",
        "",
        *_entries(summary["training"] | info.get("training", {})),
        "",
        "## Parameters",
        "",
        *_entries(summary["chosen"]),
        "",
        "## Accuracy",
        "",
        *(_entries(summary["scores"] | info.get("scores", {})) or ["Not stated."]),
        "",
        "## Use",
        "",
        "```python",
        "import zonkey",
        "",
        f'model = zonkey.load("{name}")',
        "model.predict(X)",
        "```",
        "",
    ]
    return "\n".join(lines)


def _entries(facts: Mapping[str, Any]) -> list[str]:
    return [f"- {_plain(name)}: {_plain(value)}" for name, value in facts.items()]


def _plain(value: Any) -> str:
    """Return one line without Markdown."""
    if isinstance(value, list) and len(value) > _MOST_SHOWN:
        value = f"{len(value)}, from {value[0]} to {value[-1]}"
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _wrapped_labels(labels: list[Any], most: int = 100) -> list[str]:
    shown = ", ".join(_plain(label) for label in labels[:most])
    return [shown + (f", and {len(labels) - most} more" if len(labels) > most else "")]


def _versions() -> dict[str, str]:
    packages = {name: version(name) for name in ("zonkey", "numpy", "scipy", "scikit-learn")}
    return {"python": platform.python_version(), **packages}


def _summary(model: Any) -> dict[str, Any]:
    """Return what can be said of a model in JSON, for those who read only the header."""
    steps, last = unwrapped(model)
    seen, unseen = (to_numpy(getattr(last, f"{name}_classes_", [])) for name in ("seen", "unseen"))
    names = [type(step).__name__ for _, step in ([] if steps is None else steps.steps)]
    known = getattr(last, "prototypes_", None)
    labels = to_numpy(last.classes_).tolist()
    score = getattr(last, "best_score_", float("nan"))
    of_task = "candidates" if isinstance(getattr(last, "candidates", None), str) else None
    return {
        "estimator": " > ".join([*names, type(last).__name__]),
        "n_features": int(_n_features(model)),
        "n_dimensions": None if known is None else known.n_dimensions,
        "n_seen": len(seen),
        "n_unseen": len(unseen),
        "n_candidates": len(labels),
        "candidates": last.candidates if of_task else "listed",
        "labels": labels,
        "is_transductive": bool(getattr(last, "is_transductive_", False)),
        "chosen": {key: str(value) for key, value in _chosen(last).items()},
        "scores": {} if np.isnan(score) else {"accuracy on held-out classes": float(score)},
        "training": _training(last),
    }


def _n_features(model: Any) -> int:
    """Return the number of features that a model or pipeline takes."""
    first = model[0] if isinstance(model, Pipeline) else model
    return first.n_features_in_


def _chosen(last: Any) -> dict[str, Any]:
    if hasattr(last, "best_params_"):
        return last.best_params_
    hidden = ("prototypes", "base", "candidates", "verbose", "random_state")
    parameters = last.get_params(deep=False).items()
    return {name: value for name, value in parameters if name not in hidden}


def _training(last: Any) -> dict[str, Any]:
    """Return a fingerprint of what was learned: equal data and parameters give an equal one."""
    evidence = getattr(last, "_evidence", None)
    if evidence is None:
        learned = getattr(last, "projection_", getattr(last, "references_", np.empty(0)))
        seen, facts = to_numpy(getattr(last, "seen_classes_", last.classes_)), {}
    else:
        learned, seen = evidence.sums, evidence.labels[evidence.counts > 0]
        facts = {"n_samples": float(evidence.counts.sum())}
    text = "\0".join(map(str, seen.tolist())).encode("utf-8", "replace")
    digest = hashlib.sha256(text + np.ascontiguousarray(to_numpy(learned)).tobytes())
    return {**facts, "n_classes": len(seen), "fingerprint": digest.hexdigest()}


# What is stored of each class, and what is checked.


def _estimator(
    cls: type,
    state: tuple[str, ...],
    check: Callable[[Any], None] | None = None,
    parameters: Callable[[dict[str, Any]], dict[str, Any]] = dict,
) -> Form:
    """Store the parameters of an estimator and its fitted attributes, if it has them."""

    def take(model: Any) -> dict[str, Any]:
        values = vars(model)
        names = (*state, "n_features_in_", "feature_names_in_")
        found = {name: values[name] for name in names if name in values}
        return {"parameters": parameters(model.get_params(deep=False)), "state": found}

    def make(parts: dict[str, Any]) -> Any:
        model = cls(**parts["parameters"])
        unknown = {*parts["state"]} - {*state, "n_features_in_", "feature_names_in_"}
        require_that(not unknown, f"{cls.__name__} has no attribute {sorted(unknown)}.")
        vars(model).update(parts["state"])
        if check is not None and parts["state"]:
            check(model)
        return model

    return Form(cls, take, make)


def _storable(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return parameters in forms that a file holds."""
    stored = dict(parameters)
    if stored.get("prototypes") is not None:
        stored["prototypes"] = Prototypes.coerce(stored["prototypes"])
    if isinstance(stored.get("random_state"), np.random.RandomState | np.random.Generator):
        stored["random_state"] = None  # its state is used up
    candidates = stored.get("candidates")
    if candidates is not None and not isinstance(candidates, str):
        stored["candidates"] = np.asarray(candidates).tolist()
    if stored.get("base") is not None:
        stored["base"] = _NOT_STORED  # refused by a later `fit`, unlike None
    return stored


def _check_evidence(evidence: Any) -> None:
    require_labels("evidence/labels", evidence.labels)
    m = len(evidence.labels)
    require_shape("evidence/sums", evidence.sums, m, None)
    for name in ("counts", "squares"):
        require_shape(f"evidence/{name}", getattr(evidence, name), m)
    for name in ("is_described", "is_hidden"):
        require_shape(f"evidence/{name}", getattr(evidence, name), m, kinds="b")
    n = evidence.counts
    lengths = np.einsum("ij,ij->i", evidence.sums, evidence.sums)
    fits = (n >= 0).all() and not lengths[n == 0].any()
    fits = fits and (evidence.squares * n >= lengths * (1 - 1e-6)).all()
    require_that(bool(fits), "Counts, sums and squares of the classes contradict each other.")


def _check_regression(regression: Any) -> None:
    require_labels("regression/known", regression.known)
    inside = np.isin(regression.known, regression.prototypes.labels).all()
    require_that(bool(inside), "Every known class of the regression must have a prototype.")
    require_that(float(regression.ridge) >= 0, "The ridge penalty must not be negative.")


def _check_kernel(kernel: Any) -> None:
    require_that(float(kernel.gamma) >= 0, "The width of the kernel must not be negative.")


def _take_decision(decision: Decision) -> dict[str, Any]:
    parts = {entry.name: getattr(decision, entry.name) for entry in fields(Decision)}
    listed = decision.candidates
    return {**parts, "candidates": listed if isinstance(listed, str) else np.asarray(listed)}


def _check_scores(scores: Any) -> None:
    require_shape("scores/centers", scores.centers, None, None)
    q, d = scores.centers.shape
    require_shape("scores/constants", scores.constants, q)
    if scores.M is not None:
        require_shape("scores/M", scores.M, None, d)


def _check_reserve(reserve: Any) -> None:
    require_labels("reserve/labels", reserve.labels)
    m = len(reserve.labels)
    require_shape("reserve/X", reserve.X, None, None)
    n, d = getattr(reserve.X, "values", reserve.X).shape
    require_shape("reserve/bounds", reserve.bounds, m + 1, kinds="i")
    require_shape("reserve/weights", reserve.weights, n)
    require_shape("reserve/rows", reserve.rows, n if reserve.priors is None else 0, kinds="i")
    if reserve.priors is not None:
        require_shape("reserve/priors", reserve.priors, m, d)
    bounds = reserve.bounds
    fits = bounds[0] == 0 and bounds[-1] == n and (np.diff(bounds) >= 0).all()
    require_that(bool(fits), "The bounds of the reserved samples contradict their number.")


def _check_adapted(adapted: Any) -> None:
    require_labels("adapted/labels", adapted.labels)
    require_shape("adapted/centers", adapted.centers, len(adapted.labels), None)
    require_shape("adapted/offsets", adapted.offsets, len(adapted.labels))


def _check_any_shot(model: Any) -> None:
    evidence, regression, d = model._evidence, model._regression, model._evidence.sums.shape[1]
    require_shape("_class_centers", model._class_centers, len(evidence.labels), d)
    widths = {"features": d, "preprocessing": _width(model.preprocessing_, model.n_features_in_)}
    if model._reserve is not None:
        X = model._reserve.X
        widths["reserve"] = getattr(X, "values", X).shape[1]
    if model._adapted is not None:
        widths["adapted"] = model._adapted.centers.shape[1]
    require_that(len({*widths.values()}) == 1, f"Arrays of one space differ in width: {widths}.")
    described = evidence.labels[evidence.is_described]
    known = described[:0] if regression is None else regression.prototypes.labels
    require_that(np.array_equal(described, known), "Described classes must have a prototype each.")
    positive = model.worth_ >= 0 and model._choice.worth >= 0
    require_that(positive, "The worth of prototypes must not be negative.")
    model._centered = evidence
    model._settle(like=None)


def _width(step: Any, n: int) -> int:
    """Return the number of columns that a fitted transformer makes of n, which must fit it."""
    if step is None or isinstance(step, str):
        return n
    if isinstance(step, Pipeline):
        for _, part in step.steps:
            n = _width(part, n)
        return n
    if isinstance(step, FrozenEstimator):
        return _width(step.estimator, n)
    require_that(step.n_features_in_ == n, f"A step takes {step.n_features_in_} of {n} columns.")
    return int(step.n_components_) if isinstance(step, PCA) else n


def _check_projection(model: Any) -> None:
    """Set what follows from the decision; it must fit the prototypes and the projection."""
    decision, known = model._decision, model.prototypes_
    require_shape("projection_", model.projection_, model.n_features_in_, None)
    require_labels("seen", decision.seen)
    require_labels("labels", decision.labels)
    everything = np.concatenate([decision.seen, decision.labels])
    require_that(bool(np.isin(everything, known.labels).all()), "Every class needs a prototype.")
    same = decision.known is not None and np.array_equal(decision.known.labels, decision.labels)
    require_that(same, "The candidates and their prototypes must be the same classes.")
    require_that(decision.scores is not None, "The scores of the classes are missing.")
    assert decision.scores is not None
    n_rows, width = decision.scores.centers.shape
    M = decision.scores.M
    taken = width if M is None else M.shape[0]
    fits = n_rows == len(decision.labels) and taken in model.projection_.shape
    require_that(fits, "The scores must have a row for each class, as wide as the features.")
    model.seen_classes_ = decision.seen
    model.unseen_classes_ = np.setdiff1d(known.labels, decision.seen)
    model.classes_ = decision.labels


def _check_support(model: Any) -> None:
    require_labels("classes_", model.classes_)
    require_shape("references_", model.references_, None, model.n_features_in_)
    require_shape("reference_codes_", model.reference_codes_, len(model.references_), kinds="i")
    codes = np.unique(to_numpy(model.reference_codes_))
    require_that(
        np.array_equal(codes, np.arange(len(model.classes_))), "Every class needs a reference."
    )


def _check_whitener(model: Any) -> None:
    require_shape("whitening_", model.whitening_, model.n_features_in_, model.n_features_in_)


def _check_normalizer(model: Any) -> None:
    if model.mean_ is not None:
        require_shape("mean_", model.mean_, model.n_features_in_)


def _make_pipeline(parts: dict[str, Any]) -> Pipeline:
    return Pipeline([(name, step) for name, step in parts["steps"]])


_PROJECTION = ("projection_", "seen_penalty_", "prototypes_", "_decision")
_LEARNED = ("n_iter_", "objective_", "mu_", "changes_", "converged_", "is_transductive_")

_FORMS: dict[str, Form] = {
    form.name: form
    for form in (
        PROTOTYPES,
        Form.of_fields(Evidence, _check_evidence),
        Form.of_fields(Regression, _check_regression),
        Form.of_fields(PrototypeKernel, _check_kernel),
        Form.of_fields(LinearScores, _check_scores),
        Form.of_fields(Reserve, _check_reserve),
        Form.of_fields(Adapted, _check_adapted),
        *map(Form.of_fields, (Choice, Point, Temperatures, Rejection)),
        Form(Decision, _take_decision, lambda parts: Decision(**parts)),
        _estimator(FeatureNormalizer, ("mean_", "_power", "_norm"), _check_normalizer),
        _estimator(WithinClassWhitener, ("whitening_",), _check_whitener),
        _estimator(Normalizer, ()),
        _estimator(StandardScaler, ("mean_", "var_", "scale_", "n_samples_seen_")),
        _estimator(
            PCA,
            (
                "components_",
                "mean_",
                "explained_variance_",
                "explained_variance_ratio_",
                "singular_values_",
                "n_components_",
                "n_samples_",
                "noise_variance_",
            ),
        ),
        Form(
            FrozenEstimator,
            lambda frozen: {"estimator": frozen.estimator},
            lambda parts: FrozenEstimator(parts["estimator"]),
        ),
        Form(
            Pipeline,
            lambda pipeline: {"steps": [[name, step] for name, step in pipeline.steps]},
            _make_pipeline,
        ),
        _estimator(
            AnyShotClassifier,
            (
                "preprocessing_",
                "worth_",
                "_evidence",
                "_regression",
                "_choice",
                "_steps",
                "_targets",
                "_adapted",
                "_reserve",
                "_settings",
                "_rejection",
                "_fixed_temperature",
                "_n_shots",
                "_class_centers",
            ),
            _check_any_shot,
            _storable,
        ),
        _estimator(
            ZeroShotClassifier,
            (*_PROJECTION, *_LEARNED, "_in_semantic_space"),
            _check_projection,
            _storable,
        ),
        _estimator(
            FewShotClassifier,
            (*_PROJECTION, "n_iter_", "novel_classes_"),
            _check_projection,
            _storable,
        ),
        _estimator(NearestSupport, ("classes_", "references_", "reference_codes_"), _check_support),
    )
}


def allow(kind: type[BaseEstimator], state: tuple[str, ...] = ()) -> None:
    """Let files hold another classifier that predicts by the nearest projected prototype.

    Parameters
    ----------
    kind : type
        The class; its name must be new.
    state : tuple of str, default=()
        Its fitted attributes besides those of `NearestPrototypeMixin`.
    """
    if kind.__name__ in _FORMS:
        raise ValueError(f"Class names in model files must be distinct; got {kind.__name__} again.")
    form = _estimator(kind, (*_PROJECTION, *state), _check_projection, _storable)
    _FORMS[form.name] = form


__all__ = ["SCHEMA", "StorageError", "allow", "load", "model_card", "model_info", "save"]
