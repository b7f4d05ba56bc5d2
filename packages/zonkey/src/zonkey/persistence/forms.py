"""What model files hold of each class, and what is checked when they are loaded.

An attribute added to one of these classes needs a value for older files (`since`). Any other change
of attributes changes the files: raise `SCHEMA` in `core.storage`, and translate the content of
older files before it is unpacked.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from ..anyshot.adapting import Adapted, Reserve
from ..anyshot.choosing import Choice, Point, Temperatures
from ..anyshot.classifier import AnyShotClassifier
from ..anyshot.evidence import Evidence, Regression
from ..arrays import to_numpy
from ..bpl.few_shot import FewShotClassifier
from ..bpl.kernels import PrototypeKernel
from ..bpl.nearest_support import NearestSupport
from ..bpl.zero_shot import ZeroShotClassifier
from ..encoders.image_encoder import ImageEncoder, split_encoder
from ..encoders.weights import may_download
from ..inference.scorer import Decision, LinearScores, Rejection, ScoresMixin
from ..parameters import is_auto
from ..preprocessing import FeatureNormalizer, WithinClassWhitener
from ..prototypes import Prototypes
from .container import StorageError
from .packing import PROTOTYPES, Form, require_labels, require_number, require_shape, require_that

_NOT_STORED = "not stored"


def _estimator(
    cls: type,
    state: tuple[str, ...],
    check: Callable[[Any], None] | None = None,
    parameters: Callable[[dict[str, Any]], dict[str, Any]] = dict,
    *,
    required: bool = False,
    since: dict[str, Any] | None = None,
) -> Form:
    """Store the parameters of an estimator and its fitted attributes.

    `required` tells that it must be fitted; a transformer may be a parameter of another estimator.
    `since` has values for those of the attributes that older files lack.
    """

    def take(model: Any) -> dict[str, Any]:
        values = vars(model)
        names = (*state, "n_features_in_", "feature_names_in_")
        found = {name: values[name] for name in names if name in values}
        return {"parameters": parameters(model.get_params(deep=False)), "state": found}

    def make(parts: dict[str, Any]) -> Any:
        model = cls(**parts["parameters"])
        found = {**(since or {}), **parts["state"]} if parts["state"] else {}
        unknown = {*found} - {*state, "n_features_in_", "feature_names_in_"}
        require_that(not unknown, f"{cls.__name__} has no attribute {sorted(unknown)}.")
        if found or required:  # a step that is only a parameter need not be fitted
            missing = {*state, "n_features_in_"} - {*found}
            require_that(not missing, f"{cls.__name__} needs {sorted(missing)}.")
            n = found["n_features_in_"]
            require_that(type(n) is int and n > 0, "The number of features must be positive.")
            vars(model).update(found)
            if check is not None:
                check(model)
        return model

    return Form(cls, take, make)


def _make_storable(parameters: dict[str, Any]) -> dict[str, Any]:
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
    for name in ("is_described", "is_hidden", "is_foreign"):
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
    require_number("seed", regression.seed, 0)
    if regression.n_components is not None:
        require_number("n_components", regression.n_components, 1)


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
    n, d = reserve.X.shape
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
        widths["reserve"] = model._reserve.X.shape[1]
    if model._adapted is not None:
        widths["adapted"] = model._adapted.centers.shape[1]
    require_that(len({*widths.values()}) == 1, f"Arrays of one space differ in width: {widths}.")
    described = evidence.labels[evidence.is_described]
    known = described[:0] if regression is None else regression.prototypes.labels
    require_that(np.array_equal(described, known), "Described classes must have a prototype each.")
    require_number("worth_", model.worth_, 0)
    require_number("_n_shots", model._n_shots, 0)
    for setting in model._settings:
        require_that(is_auto(setting) or setting >= 0, "Settings of `adapt` must be numbers.")
    model._centered = evidence
    with np.errstate(over="ignore", invalid="ignore"):
        model._settle(like=None)
    require_number("temperature_", model.temperature_, np.finfo(float).tiny)
    require_that(bool(np.isfinite(model._scores.constants).all()), "Centers must be finite.")
    _try(model, lambda: model._prepare(np.ones((1, model.n_features_in_))))
    if regression is not None:
        _try(
            model, lambda: regression._coordinates(regression.prototypes.matrix[:1], evidence.sums)
        )


def _try(model: Any, step: Callable[[], Any]) -> None:
    """Refuse a model of which a step fails, or returns NaN."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        fits = bool(np.isfinite(step()).all())
    require_that(fits, f"The arrays of {type(model).__name__} give NaN or infinity.")


def _check_choice(choice: Choice) -> None:
    require_number("worth", choice.worth, 0)
    require_number("penalty", choice.penalty)


def _check_temperatures(found: Temperatures) -> None:
    for name in ("new", "old", "all"):
        require_number(name, getattr(found, name), np.finfo(float).tiny)


def _check_rejection(rejection: Rejection) -> None:
    if rejection.below is not None:
        require_number("reject_below", rejection.below, 0)
    label = rejection.label
    require_that(label is None or isinstance(label, str | int | float), "No label to reject with.")


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
    if "projection_" in vars(model):
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
    require_that(n_rows == len(decision.labels), "The scores must have a row for each class.")
    if "projection_" in vars(model):
        fits = (width if M is None else M.shape[0]) in model.projection_.shape
        require_that(fits, "The scores must be as wide as the features.")
    require_number("penalty", decision.penalty)
    require_number("seen_penalty_", model.seen_penalty_)
    model.seen_classes_ = decision.seen
    model.unseen_classes_ = np.setdiff1d(known.labels, decision.seen)
    model.classes_ = decision.labels
    row = np.ones((1, model.n_features_in_), model._get_learned().dtype)
    _try(model, lambda: np.concatenate([*model._score_blocks(row)]))


def _check_support(model: Any) -> None:
    require_labels("classes_", model.classes_)
    require_shape("references_", model.references_, None, model.n_features_in_)
    require_shape("reference_codes_", model.reference_codes_, len(model.references_), kinds="i")
    codes = np.unique(to_numpy(model.reference_codes_))
    require_that(
        np.array_equal(codes, np.arange(len(model.classes_))), "Every class needs a reference."
    )


def _check_scaler(model: Any) -> None:
    for name in ("mean_", "var_", "scale_"):
        if getattr(model, name) is not None:
            require_shape(name, getattr(model, name), model.n_features_in_)
    require_that(model.scale_ is None or bool(model.scale_.all()), "Scales must not be zero.")


def _check_pca(model: Any) -> None:
    require_shape("components_", model.components_, model.n_components_, model.n_features_in_)
    require_shape("mean_", model.mean_, model.n_features_in_)
    require_shape("explained_variance_", model.explained_variance_, model.n_components_)


def _check_whitener(model: Any) -> None:
    require_shape("whitening_", model.whitening_, model.n_features_in_, model.n_features_in_)


def _check_normalizer(model: Any) -> None:
    if model.mean_ is not None:
        require_shape("mean_", model.mean_, model.n_features_in_)


def _take_encoder(encoder: ImageEncoder) -> dict[str, Any]:
    """Return the name and revision of the model; its weights, and the machine, are no part."""
    if not isinstance(encoder.model, str):
        raise TypeError(
            "An ImageEncoder in a file must have a model that has a name; got "
            f"{type(encoder.model).__name__}. Save the classifier without the encoder."
        )
    return {
        "spec": encoder.spec_,
        "batch_size": encoder.batch_size,
        "on_error": encoder.on_error,
    }


def _make_encoder(parts: dict[str, Any]) -> ImageEncoder:
    unknown = {*parts} - {"spec", "batch_size", "on_error"}  # a file must not choose a cache
    require_that(not unknown, f"ImageEncoder has no part {sorted(unknown)}.")
    token = may_download.set(False)  # a file must not choose what to download
    try:
        return ImageEncoder.from_spec(**parts)
    except ValueError as error:  # its message says what to do
        raise StorageError(str(error)) from None
    finally:
        may_download.reset(token)


def _make_pipeline(parts: dict[str, Any]) -> Pipeline:
    """Return a pipeline; if its first step is fitted, each step takes what the last one makes."""
    pipeline = Pipeline([(name, step) for name, step in parts["steps"]])
    encoder, rest = split_encoder(pipeline)
    steps = [step for _, step in rest.steps if step is not None and not isinstance(step, str)]
    n = getattr(steps[0], "n_features_in_", None)
    if encoder is not None:
        width = encoder.spec_["dimension"]
        require_that(n in (None, width), f"A step takes {n} of the {width} features.")
    if n is not None:
        *before, last = steps
        for step in before:
            n = _width(step, n)
        require_that(last.n_features_in_ == n, "Steps of the pipeline do not fit together.")
        if isinstance(last, ScoresMixin):
            row = np.ones((1, steps[0].n_features_in_))
            _try(pipeline, lambda: rest[:-1].transform(row) if before else row)
    return pipeline


_PROJECTION = ("projection_", "seen_penalty_", "prototypes_", "_decision")
_LEARNED = (
    "n_iter_",
    "objective_",
    "mu_",
    "n_indefinite_",
    "moved_",
    "changes_",
    "converged_",
    "is_transductive_",
)

FORMS: dict[str, Form] = {
    form.name: form
    for form in (
        PROTOTYPES,
        Form.from_fields(Evidence, _check_evidence),
        Form.from_fields(Regression, _check_regression),
        Form.from_fields(PrototypeKernel, _check_kernel),
        Form.from_fields(LinearScores, _check_scores),
        Form.from_fields(Reserve, _check_reserve),
        Form.from_fields(Adapted, _check_adapted),
        Form.from_fields(Choice, _check_choice),
        Form.from_fields(Point),
        Form.from_fields(Temperatures, _check_temperatures),
        Form.from_fields(Rejection, _check_rejection),
        Form(Decision, _take_decision, lambda parts: Decision(**parts)),
        Form(ImageEncoder, _take_encoder, _make_encoder),
        _estimator(FeatureNormalizer, ("mean_", "_power", "_norm"), _check_normalizer),
        _estimator(WithinClassWhitener, ("whitening_",), _check_whitener),
        _estimator(Normalizer, ()),
        _estimator(StandardScaler, ("mean_", "var_", "scale_", "n_samples_seen_"), _check_scaler),
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
            _check_pca,
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
            _make_storable,
            required=True,
        ),
        _estimator(
            ZeroShotClassifier,
            (*_PROJECTION, *_LEARNED, "_in_semantic_space"),
            _check_projection,
            _make_storable,
            required=True,
            since={"n_indefinite_": 0, "moved_": float("nan")},
        ),
        _estimator(
            FewShotClassifier,
            (*_PROJECTION, "n_iter_", "novel_classes_", "mu_", "n_indefinite_"),
            _check_projection,
            _make_storable,
            required=True,
            since={"mu_": np.empty(0), "n_indefinite_": 0},
        ),
        _estimator(
            NearestSupport,
            ("classes_", "references_", "reference_codes_"),
            _check_support,
            required=True,
        ),
    )
}


def allow(
    kind: type[BaseEstimator], state: tuple[str, ...] = (), *, has_projection: bool = True
) -> None:
    """Let files hold another classifier that compares samples with prototypes.

    Parameters
    ----------
    kind : type
        The class; its name must be new.
    state : tuple of str, default=()
        Its fitted attributes besides those of `NearestPrototypeMixin`.
    has_projection : bool, default=True
        Whether it has the attribute `projection_`.
    """
    _require_new(kind)
    own = _PROJECTION if has_projection else _PROJECTION[1:]
    form = _estimator(kind, (*own, *state), _check_projection, _make_storable, required=True)
    FORMS[form.name] = form


def allow_few_shot(kind: type[BaseEstimator], state: tuple[str, ...]) -> None:
    """Let files hold another classifier that is fitted on a support set.

    Parameters
    ----------
    kind : type
        The class; its name must be new.
    state : tuple of str
        Its fitted attributes besides `classes_` and `n_features_in_`: arrays, numbers, texts, and
        dicts and lists of them. Base samples are not stored.
    """
    _require_new(kind)
    form = _estimator(kind, ("classes_", *state), _check_classes, _make_storable, required=True)
    FORMS[form.name] = form


def _check_classes(model: Any) -> None:
    require_labels("classes_", model.classes_)


def _require_new(kind: type[BaseEstimator]) -> None:
    if kind.__name__ in FORMS:
        raise ValueError(f"Class names in model files must be distinct; got {kind.__name__} again.")
