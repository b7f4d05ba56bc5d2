"""The steps of `AnyShotClassifier.fit`, which returns the fitted state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from ..arrays import Array, is_device_array, namespace, place_like, to_numpy
from ..constraints import check_labeled, check_semantics, validate_samples
from ..inference.projection import choose_labels
from ..labels import as_labels, format_labels, format_value, require_same_kind, warn_user
from ..parameters import check_parameters, is_auto
from ..preprocessing import FeatureNormalizer
from ..prototypes import Prototypes
from ..streaming.reduce import Pass
from ..tree import Tree
from .adapting import Reserve
from .choice import Choice, find_tree_part, learn_kernel, steps_of
from .choosing import POWERS, Choosing
from .evidence import Evidence, Regression
from .held_out import FEWEST_CLASSES, TrainingData
from .priors import find_masses, read_class_weight, read_priors
from .refining import mean_square
from .shot_folds import Names
from .shots import ShotChoosing, choose_for_names, select_classes
from .sources import FitSource, open_source
from .spaces import find_shift, place_among, require_joint
from .state import (
    BY_SHOTS,
    USUAL_WORTH,
    AnyShotState,
    FitSettings,
    add_sums,
    choose_candidates,
    refuse_inner,
)
from .survey import KeptSamples

_MANY_ANCHORS = 16_000
_MOST_PRODUCTS = 2**36  # to score all samples once: half a minute or a minute for a refinement
_MATRICES = 3  # of the size of the kernel, held at a time
_ANY_LABELS: dict[str, np.ndarray] = dict.fromkeys(("unseen", "all"), np.zeros(1))
# Equal prototypes carry no information about other classes.
_NO_PROTOTYPES = {
    "prototype_transformer": None,
    "kernel": "linear",
    "gamma": 1.0,
    "ridge": 1.0,
    "tree_weight": 0.0,
    "worth": 0.0,
}
_CHOSEN = ("preprocessing", "prototype_transformer", "kernel", "gamma", "ridge", "worth")
_OF_TREES = "tree_weight"


def fit_state(model: Any, X: Any, y: Any, sample_weight: Any, validation: Any) -> AnyShotState:
    """Fit the parameters of a model to labeled samples; return its state."""
    _check_all_parameters(model)
    seed = check_random_state(model.random_state).randint(2**31 - 1)
    given, tree = read_given(model)
    _check_kernel(model, given)
    choose_labels(model.candidates, _ANY_LABELS, as_labels, 0)  # a name, or labels
    checked = _check_validation(model, validation, given)
    powers = POWERS if is_auto(model.preprocessing) else ()
    source = open_source(model, X, y, sample_weight, seed, powers)
    matched = _match_labels(given, source.used)
    given, tree = matched, tree if matched is given else None  # numbers have no tree
    refuse_inner(tree, source.used)
    candidates = _check_candidates(model, given, source.used)
    priors = read_priors(model.priors, candidates)
    class_weight = read_class_weight(model.class_weight, np.union1d(candidates, source.used))
    others = _validation(checked, source.like, given, source.labels, seed)
    compares = not model.transfer and model.kernel != "precomputed"
    space = model.space if compares else "separate"
    shift = find_shift(space, source.kept, given, source.labels)
    # Where all candidates have samples, these can choose, and none without competes with them.
    has_samples = bool(np.isin(candidates, source.used).all())
    is_complete = has_samples and not model.transfer and len(source.used) > 1
    competes = isinstance(model.candidates, str) and model.candidates == "all"
    by_hm = competes and not (model.transfer or is_complete)
    if given is not None and others is None and not is_complete:
        _warn_of_few(model, np.intersect1d(given.labels, source.used))
    choice, steps = _choose_parameters(model, source, given, others, seed, shift, tree, by_hm=by_hm)
    regression = _learn_map(model, given, steps, seed, tree)
    if is_complete:
        choice, steps = _choose_by_shots(
            model, source, regression, choice, shift, seed, class_weight
        )
    preprocessing = steps["preprocessing"]
    state = AnyShotState(
        evidence=Evidence.make_empty(source.labels[:0], like=source.like),
        regression=regression,
        choice=choice,
        steps=steps,
        preprocessing=None if preprocessing is None else source.fit_clone(preprocessing),
        targets=freeze_candidates(model.candidates),
        settings=_freeze_settings(model, seed, class_weight),
        shift=shift,
        priors=priors,
    )
    state = replace(state, evidence=_gather_evidence(model, source, given, state.fitted_steps))
    state = replace(state, reserve=_reserve_samples(model, state, source, others))
    if is_auto(model.seen_penalty):
        state = replace(state, choice=_penalize_in_full(choice, state.evidence))
    state = state.learn().join_tree(tree)
    if is_complete:
        state = state.refine(_prepared_samples(state, source))
    source.close()
    return state


def _choose_by_shots(
    model: Any,
    source: FitSource,
    regression: Regression | None,
    choice: Choice,
    shift: np.ndarray | None,
    seed: int,
    class_weight: Any,
) -> tuple[Choice, dict[str, Any]]:
    """Let left-out samples choose; return the choice and the parameters of the steps of `fit`."""
    fixed = _fixed_parameters(model)
    if model.worth == BY_SHOTS:
        del fixed["worth"]
    kept, labels = select_classes(source.kept, source.labels, seed)
    counts = np.bincount(kept.codes, kept.weights)
    placed = None
    if shift is not None and regression is not None:
        placed = place_like(place_among(labels, regression.prototypes, shift), kept.X)
    names = Names.read(labels, regression, place_like(np.zeros(1), kept.X), counts, placed)
    masses = find_masses(class_weight, labels, counts)
    choice = ShotChoosing(kept, names, choice, fixed, seed, masses).run()
    if regression is None:
        fixed |= _NO_PROTOTYPES
    return choice, steps_of(choice.point, fixed)


def _prepared_samples(
    state: AnyShotState, source: FitSource
) -> tuple[Array, np.ndarray, np.ndarray]:
    """Return samples to refine with, the positions of their classes, and weights.

    These are all samples in memory, unless they are very many, and those kept of chunks.
    """
    X, codes, weights = source.list_samples(_MOST_PRODUCTS)
    used = np.unique(codes)
    return state.prepare(X), np.searchsorted(used, codes), weights


def fit_names(model: Any, X: Any) -> AnyShotState:
    """Learn from prototypes alone, in the space of the samples, or also from unlabeled samples.

    Unlabeled samples tell how far they lie from the prototypes; without any, nothing tells.
    """
    _check_all_parameters(model)
    seed = check_random_state(model.random_state).randint(2**31 - 1)
    given, tree = read_given(model)
    require_joint(given, None)
    assert given is not None
    Y = given.matrix.astype(np.float64)
    centered = X is not None  # prototypes alone may lie around another point than samples
    X = validate_samples(model, X if centered else Y, reset=True)
    require_joint(given, X.shape[1])
    shift = to_numpy(namespace(X).mean(X, axis=0)) - Y.mean(axis=0)
    fixed = _fixed_parameters(model)
    unfitted: Any = fixed.get("preprocessing", FeatureNormalizer(center=centered))
    preprocessing: Any = unfitted
    placed = place_like(Y + shift, X)
    if unfitted is not None:
        preprocessing = clone(unfitted)
        preprocessing.fit(X)
        placed = preprocessing.transform(placed)
    choice = choose_for_names(fixed, mean_square(placed), centered=centered)
    steps: dict[str, Any] = {
        "preprocessing": unfitted,
        "prototype_transformer": None,
        "kernel": choice.point.kernel,
        "gamma": choice.point.gamma,
        "ridge": choice.point.ridge,
        "tree_weight": 0.0,
    }
    steps |= {name: value for name, value in fixed.items() if name in steps}
    like = namespace(X).astype(X[:1, :], namespace(X).float64)
    state = AnyShotState(
        evidence=Evidence.make_empty(given.labels, like=like),
        regression=_learn_map(model, given, steps, seed, tree),
        choice=choice,
        steps=steps,
        preprocessing=preprocessing,
        targets=freeze_candidates(model.candidates),
        settings=_freeze_settings(model, seed, read_class_weight(model.class_weight, given.labels)),
        shift=shift,
    )
    state = replace(state, priors=read_priors(model.priors, state.find_candidates()))
    return state.learn().join_tree(tree)


def read_given(model: Any) -> tuple[Prototypes | None, Tree | None]:
    """Return the prototypes of the classes without children, and the tree of all."""
    if model.prototypes is None:
        return None, None
    given = Prototypes.coerce(model.prototypes)
    if given.tree is None:
        return given, None
    return given.at_leaves().with_parents(None), given.tree


def _check_all_parameters(model: Any) -> None:
    check_parameters(model)
    if not isinstance(model.transfer, bool | np.bool_) or (
        model.transfer and model.prototypes is None
    ):
        raise ValueError(
            "`transfer` must be False, or True with prototypes of classes without samples; got "
            f"{model.transfer!r} and {'no ' if model.prototypes is None else ''}prototypes. Pass "
            "both, or leave it out."
        )
    for name in ("preprocessing", "prototype_transformer"):
        value = getattr(model, name)
        if value is not None and not is_auto(value) and not hasattr(value, "transform"):
            raise TypeError(
                f'`{name}` must be a scikit-learn transformer, "auto" or None; got {value!r}. '
                "Use for instance FeatureNormalizer(power=0.5)."
            )
    if model.space == "joint" and (model.transfer or model.kernel == "precomputed"):
        name = "transfer=True" if model.transfer else 'kernel="precomputed"'
        raise ValueError(
            '`space` must be "auto" or "separate" where prototypes are not compared with samples; '
            f'got "joint" and {name}. Leave one out.'
        )
    if model.kernel == "precomputed" and hasattr(model.prototype_transformer, "transform"):
        raise ValueError(
            '`prototype_transformer` must be None with kernel="precomputed", whose prototypes '
            f"are kernel values; got {type(model.prototype_transformer).__name__}. Transform "
            "before the kernel."
        )


def _check_kernel(model: Any, given: Prototypes | None) -> None:
    if model.kernel != "precomputed" or given is None:
        return
    if given.n_dimensions != len(given):
        raise ValueError(
            'kernel="precomputed" needs prototypes that are kernel values with all classes, in '
            f"sorted order of the labels: {len(given)} each; got {given.n_dimensions}. Pass a "
            "square kernel matrix."
        )


def _check_validation(
    model: Any, validation: Any, given: Prototypes | None
) -> tuple[Array, np.ndarray] | None:
    """Return validation samples and their labels."""
    if validation is None:
        return None
    is_pair = isinstance(validation, tuple | list) and len(validation) == 2
    if given is None or not is_pair:
        got = (
            "no prototypes"
            if is_pair
            else f"{type(validation).__name__}, {format_value(validation)}"
        )
        raise ValueError(
            "`validation` must be a pair (X, y) of samples of classes with prototypes; got "
            f"{got}. Pass validation=(X, y) and prototypes."
        )
    X, y = check_labeled(model, *validation)
    labels = to_numpy(y) if is_device_array(y) else as_labels(y)
    classes, counts = np.unique(labels, return_counts=True)
    if len(classes) < 2 or counts.min() < 2:
        raise ValueError(
            "`validation` must have at least two classes of at least two samples; got "
            f"{len(classes)} classes, the smallest of {counts.min()}. Pass more, or None."
        )
    given.positions(classes)  # refuses classes without a prototype
    return X, labels


def _check_candidates(model: Any, given: Prototypes | None, used: np.ndarray) -> np.ndarray:
    """Return the candidates; refuse those and prototypes that do not fit classes with samples."""
    if given is not None:
        _check_prototypes(given, used)
    unseen = None if given is None else np.setdiff1d(given.labels, used)
    if model.transfer and not isinstance(model.candidates, str):
        seen = np.intersect1d(as_labels(model.candidates), used)
        if seen.size:
            raise ValueError(
                "With `transfer`, candidates must be classes without samples in `fit`; got "
                f"samples of {format_labels(seen)}. Pass them to `partial_fit` of the fitted "
                "model."
            )
    known = used if given is None else np.union1d(given.labels, used)
    known = unseen if model.transfer and unseen is not None else known
    candidates = choose_candidates(model.candidates, known, unseen)
    if given is not None:
        anchors = np.intersect1d(used, given.labels)
        _check_size(model, len(anchors))
        check_semantics(given, anchors, np.intersect1d(candidates, given.labels))
    return candidates


def _check_size(model: Any, n_anchors: int) -> None:
    if model.n_components is None and n_anchors > _MANY_ANCHORS:
        warn_user(
            f"The exact regression is for up to {_MANY_ANCHORS:,} classes with prototype and "
            f"samples; {n_anchors:,} need about {_MATRICES * 8 * n_anchors**2 / 2**30:.0f} GB "
            "and minutes. Pass n_components=2000."
        )


def _warn_of_few(model: Any, anchors: np.ndarray) -> None:
    names = [name for name in (*_CHOSEN, "seen_penalty") if is_auto(getattr(model, name))]
    if 1 < len(anchors) < FEWEST_CLASSES and set(names) - {"worth"}:
        warn_user(
            f"Usual values of {', '.join(names)} are used: choosing them needs at least "
            f"{FEWEST_CLASSES} classes with samples and prototype; got {len(anchors)}."
        )


def _choose_parameters(
    model: Any,
    source: FitSource,
    given: Prototypes | None,
    others: KeptSamples | None,
    seed: int,
    shift: np.ndarray | None,
    tree: Tree | None,
    *,
    by_hm: bool,
) -> tuple[Choice, dict[str, Any]]:
    """Choose parameters; return the choice and the parameters of the steps of `fit`."""
    fixed = _fixed_parameters(model)
    if given is None:
        given = Prototypes(source.labels, np.zeros((len(source.labels), 1)))
        fixed |= _NO_PROTOTYPES
    elif fixed.get("kernel") == "precomputed":
        fixed |= {"prototype_transformer": None, "gamma": 1.0}
    if not is_auto(model.seen_penalty):
        fixed["seen_penalty"] = float(model.seen_penalty)
    wanted = {*_CHOSEN} if tree is None else {*_CHOSEN, _OF_TREES}
    needed = wanted - {*fixed} or is_auto(model.seen_penalty) or is_auto(model.temperature)
    start = Choosing.start(fixed, joint=shift is not None)
    choice = Choice(start, fixed.get("worth", 0.0))
    if needed:
        found = np.searchsorted(given.labels, source.labels)
        found = np.minimum(found, len(given) - 1)
        of_labels = np.where(given.labels[found] == source.labels, found, -1)
        prototypes = given.matrix.astype(np.float64)
        placed = None if shift is None else place_like(prototypes + shift, source.like)
        data = TrainingData.from_kept(source.kept, of_labels, prototypes, others, placed)
        choice = Choosing(
            data,
            fixed,
            n_seen=len(source.used),
            transfer=bool(model.transfer),
            by_hm=by_hm,
            n_shots=model.n_shots,
            seed=seed,
            tree=None if tree is None else (tree, given.labels),
        ).run()
    if not is_auto(model.seen_penalty):
        choice = replace(choice, penalty=float(model.seen_penalty))
    return choice, steps_of(choice.point, fixed)


def _fixed_parameters(model: Any) -> dict[str, Any]:
    """Return the parameters that are not chosen."""
    fixed = {name: getattr(model, name) for name in _CHOSEN if not is_auto(getattr(model, name))}
    if model.worth == BY_SHOTS:
        fixed["worth"] = USUAL_WORTH
    if not is_auto(model.tree_weight):
        fixed[_OF_TREES] = float(model.tree_weight)
    return fixed


def _learn_map(
    model: Any, given: Prototypes | None, steps: dict[str, Any], seed: int, tree: Tree | None
) -> Regression | None:
    """Return the map of prototypes, learned from all that were given."""
    if given is None:
        return None
    Y, transformer, kernel = learn_kernel(given.matrix.astype(np.float64), steps)
    ridge, n_components = float(steps["ridge"]), model.n_components
    part = find_tree_part(tree, steps["tree_weight"], kernel, Y)
    return Regression(given, given.labels, transformer, kernel, ridge, n_components, seed, part)


def _gather_evidence(
    model: Any, source: FitSource, given: Prototypes | None, steps: Any
) -> Evidence:
    """Return the samples of each class after some steps."""
    sums = source.gather(steps, Pass.SUMS)
    described = source.labels[:0] if given is None else given.labels
    evidence = add_sums(Evidence.make_empty(described, like=sums.sums), sums)
    if not model.transfer:
        return evidence
    foreign = np.isin(evidence.labels, source.used)
    return replace(evidence.without(source.used), is_foreign=foreign)


def _reserve_samples(
    model: Any, state: AnyShotState, source: FitSource, others: KeptSamples | None
) -> Reserve | None:
    """Return samples to simulate tasks with: of validation classes if there are any."""
    refines = state.choice.refinement is not None
    if not (refines or is_auto(model.adapt_temperature) or is_auto(model.adapt_weight)):
        return None
    if refines or others is None or state.regression is None:
        return Reserve.from_kept(source.kept, state.prepare, source.labels, refines=refines)
    known = state.regression.prototypes
    rows, places = np.unique(others.codes, return_inverse=True)
    priors = state.predict_priors(known.matrix[rows], labels=known.labels[rows])
    few = replace(others, codes=places)
    return Reserve.from_kept(few, state.prepare, known.labels[rows], priors)


def _freeze_settings(model: Any, seed: int, class_weight: Any) -> FitSettings:
    return FitSettings(
        temperature=None if is_auto(model.temperature) else float(model.temperature),
        worth_by_shots=isinstance(model.worth, str) and model.worth == BY_SHOTS,
        n_shots=model.n_shots,
        adapt_temperature=model.adapt_temperature,
        adapt_weight=model.adapt_weight,
        seed=seed,
        class_weight=class_weight,
    )


def _validation(
    checked: tuple[Array, np.ndarray] | None,
    like: Array,
    given: Prototypes | None,
    labels: np.ndarray,
    seed: int,
) -> KeptSamples | None:
    """Return samples of validation classes; their codes are rows of the prototypes."""
    if checked is None or given is None:
        return None
    X, new = checked
    overlap = np.intersect1d(new, labels)
    if overlap.size:
        raise ValueError(
            f"Validation classes must not be among the training classes; {format_labels(overlap)} "
            "came in both. Leave them out of one."
        )
    if X.shape[1] != like.shape[1]:
        raise ValueError(
            f"Validation samples must have the {like.shape[1]} features of the training samples; "
            f"got {X.shape[1]}. Use the same encoder for both."
        )
    return KeptSamples.choose(place_like(X, like), given.positions(new), given.labels, seed)


def _match_labels(given: Prototypes | None, labels: np.ndarray) -> Prototypes | None:
    """Return prototypes with numbers as labels if y has the numbers of their sorted names.

    `cross_val_predict` and ensembles of scikit-learn replace the labels of y so.
    """
    if given is None or given.labels.dtype.kind != "U" or labels.dtype.kind not in "iu":
        return given
    if not np.array_equal(labels, np.arange(len(given))):
        raise ValueError(
            "Labels must be of one kind to be compared, or the numbers of all sorted names; got "
            f"labels {format_labels(labels)} and prototypes of {format_labels(given.labels)}. "
            "Convert them to one type. For cross_val_predict and ensembles of scikit-learn, which "
            "number the classes of y, pass the prototypes of these classes and no others."
        )
    warn_user(
        "Numbers in y were taken for the sorted names of prototypes, as cross_val_predict and "
        f"ensembles of scikit-learn number them; 0 is {format_value(given.labels[0])} and "
        f"{len(given) - 1} is {format_value(given.labels[-1])}. If they are in another order, use "
        "the same labels in y and prototypes."
    )
    return Prototypes(labels, given.matrix, given.dimension_names)


def _check_prototypes(given: Prototypes, labels: np.ndarray) -> None:
    require_same_kind(labels=labels, prototypes=given.labels)
    if not np.isin(labels, given.labels).any():
        raise ValueError(
            f"At least one class of y needs a prototype; got labels {format_labels(labels)} and "
            f"prototypes of {format_labels(given.labels)}. Use the same names in both."
        )


def _penalize_in_full(choice: Choice, evidence: Evidence) -> Choice:
    """Return the choice with the penalty of many samples; the mean over classes was chosen."""
    counts = evidence.counts[evidence.is_anchor]
    shares = counts / (counts + choice.worth) if counts.size else np.ones(1)
    return replace(choice, penalty=choice.penalty / float(np.mean(shares)))


def freeze_candidates(candidates: Any) -> Any:
    """Return candidates that do not change if the user changes a list."""
    if isinstance(candidates, str) or not np.ndim(candidates):
        return candidates
    return as_labels(candidates).copy()
