"""Model files: one safetensors file per fitted model, checked when it is loaded.

A file holds arrays and a JSON header: schema, estimators by name, parameters, labels, prototypes,
facts about the training, versions and notes. Names are looked up among the entry points
`zonkey.models`; nothing is unpickled or imported by name. A classifier has `__zonkey_learned__`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..arrays import to_numpy
from ..environment import versions
from ..errors import StorageError, reword
from .checks import quote_text
from .container import read_header, write_arrays
from .forms import StorableClasses, is_encoder
from .packing import load_object, pack, unpack_file

_KIND = "model"
_FACTS = "_file_facts"  # attribute of loaded models: what a later `save` writes again
_GIVEN = ("notes", "license", "scores", "training")
_SUMMARY = {
    *("estimator", "n_features", "n_candidates", "n_seen", "n_unseen", "labels"),
    *("training", "chosen", "scores"),
}
# The largest array, which only `adapt` and `explain` need; first its name in older files.
_LAZY = ("/_reserve/X", "/reserve/X")
_CLASSES = StorableClasses()


class Learned(NamedTuple):
    """What a fitted classifier learned, for the header of its file."""

    values: Any  # an array whose hash identifies the training; None if there is none
    labels: Any  # classes with samples
    n_samples: float | None = None
    fitted: Any = None  # an object that only a fit replaces
    answers: Any = None  # an object that any change of the answers replaces


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
        `WithinClassWhitener`, and scikit-learn's `Normalizer`, `StandardScaler` and `PCA`. Of an
        `ImageEncoder` or `TextEncoder` in front, the file keeps the name and revision, not the
        weights; `load` refuses another revision. `model.save(path)` does the same. Arrays on a
        device are copied to the host.
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
    if not _is_classifier(model):
        raise TypeError(
            "A file holds one fitted classifier of zonkey, or a pipeline that ends with one; got "
            f"{type(model).__name__}. Save such a model, for instance the `best_estimator_` of a "
            "search."
        )
    check_is_fitted(model)
    given = dict(zip(_GIVEN, (notes, license, scores, training), strict=True))
    facts = _earlier_facts(model) | {name: v for name, v in given.items() if v is not None}
    facts = {name: _check_fact(name, value) for name, value in facts.items()}
    content, arrays = pack(model, _CLASSES)
    encoder = _split_encoder(model)[0]
    if encoder is not None:
        facts["training"] = {**facts.get("training", {}), "encoder": encoder.spec_}
    # A file that could not be loaded must not replace one that can.
    unpack_file(path, {"content": content}, arrays, _CLASSES)
    header = {
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
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
        The fitted model, in NumPy arrays. If the file names the encoder of its samples, `predict`
        and the like also take the path of a picture, a folder or an archive, or, if they are texts,
        a list of them or the path of their file.

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
    header, model = load_object(path, _KIND, _CLASSES, _LAZY)
    facts = _facts_of(path, header)
    if not _is_classifier(model):
        raise StorageError(
            f"{Path(path).name} must hold a fitted classifier; it holds something else. Pass "
            "another file."
        )
    setattr(model, _FACTS, (facts, *_state(model)))
    _accept_paths(model, facts.get("training", {}).get("encoder"))
    return model


@dataclass(frozen=True)
class PathEncoder:
    """Encode paths of pictures, or texts, as in training; the encoder is loaded at first use."""

    spec: Mapping[str, Any]  # name, revision and dimension of the encoder

    def __call__(self, paths: Any) -> Any:
        """Return features of pictures (one, a list, a folder, an archive, a table) or of texts.

        Texts are a list of them, or the path of a file.
        """
        is_text = self.spec.get("kind") == "text"
        encoder: Any = _CLASSES["TextEncoder" if is_text else "ImageEncoder"]
        with reword(StorageError, {}):  # its message says what to do
            encoder = encoder.from_spec(dict(self.spec))
        return encoder.transform(os.fspath(paths) if isinstance(paths, os.PathLike) else paths)


def _accept_paths(model: Any, spec: Any) -> None:
    """Let a model of features also take paths of pictures, if its file names an encoder."""
    first = _first_of(model)
    if isinstance(spec, Mapping) and not is_encoder(first):
        first.path_encoder_ = PathEncoder(spec)


def load_for_features(path: str | os.PathLike[str]) -> Any:
    """Read a model without the encoder that a pipeline starts with; the facts describe it."""
    model = load(path)
    rest = _split_encoder(model)[1]
    setattr(rest, _FACTS, getattr(model, _FACTS))
    return rest


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
    _facts_of(path, header)
    about = {name: value for name, value in header.items() if name not in ("content", "checksums")}
    return {"file": str(path), "bytes": Path(path).stat().st_size, **about}


def _facts_of(path: Any, header: dict[str, Any]) -> dict[str, Any]:
    """Return the options of `save` that the header holds in the right form."""
    for name, kind in {"summary": dict, "versions": dict, "created": str}.items():
        if type(header.get(name)) is not kind:
            raise StorageError(
                f"{Path(path).name} must have the entry {name!r} in its header; it has none that "
                "can be used. Save the model again."
            )
    if _SUMMARY - {*header["summary"]} or "zonkey" not in header["versions"]:
        raise StorageError(f"{Path(path).name} has an incomplete header. Save the model again.")
    try:
        return {name: _check_fact(name, header[name]) for name in _GIVEN if name in header}
    except TypeError as error:
        raise StorageError(f"{Path(path).name} cannot be loaded. {error}") from None


def _check_fact(name: str, value: Any) -> Any:
    """Return a fact in a form that JSON holds."""
    if name in ("notes", "license"):
        if not isinstance(value, str):
            raise TypeError(f"`{name}` must be text; got {quote_text(value)}. Pass a string.")
        return value
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise TypeError(
            f"`{name}` must be a mapping of names to values; got {quote_text(value)}. Pass a dict."
        )
    plain = {key: v.item() if isinstance(v, np.generic) else v for key, v in value.items()}
    try:
        json.dumps(plain, allow_nan=False)
    except (TypeError, ValueError):
        raise TypeError(
            f"`{name}` must hold finite numbers, text and lists; got {quote_text(value)}. Leave "
            "the rest out."
        ) from None
    return plain


def _first_of(model: Any) -> Any:
    return model[0] if isinstance(model, Pipeline) else model


def _last_of(model: Any) -> Any:
    """Return the classifier of a pipeline."""
    return model[-1] if isinstance(model, Pipeline) else model


def _is_classifier(model: Any) -> bool:
    return hasattr(type(_last_of(model)), "__zonkey_learned__")


def _split_encoder(model: Any) -> tuple[Any, Any]:
    """Return the encoder that a pipeline starts with, None if it does not, and the rest."""
    if isinstance(model, Pipeline) and is_encoder(model[0]):
        return model[0], model[1:]
    return None, model


def _state(model: Any) -> tuple[Any, Any]:
    """Return the object that only a fit replaces, and the one that any change replaces."""
    learned = _last_of(model).__zonkey_learned__()
    return learned.fitted, learned.answers


def _earlier_facts(model: Any) -> dict[str, Any]:
    """Return the facts of the file that a model came from, as far as they still hold."""
    facts, fitted, decided = getattr(model, _FACTS, ({}, None, None))
    now = _state(model)
    stale = set() if fitted is now[0] else {"training", "scores"}
    stale |= set() if decided is now[1] else {"scores"}
    return {name: value for name, value in facts.items() if name not in stale}


def _summary(model: Any) -> dict[str, Any]:
    """Return a summary of a model in JSON, for readers of the header only."""
    last = _last_of(model)
    steps = model.steps if isinstance(model, Pipeline) else [("", model)]
    seen, unseen = (to_numpy(getattr(last, f"{name}_classes_", [])) for name in ("seen", "unseen"))
    known = getattr(last, "prototypes_", None)
    labels = to_numpy(last.classes_).tolist()
    score = getattr(last, "best_score_", float("nan"))
    candidates = getattr(last, "candidates", "all")
    tree = getattr(last, "tree_", None)
    levels = {} if tree is None else {"tree": {"levels": tree.n_levels, "inner": len(tree.inner)}}
    return {
        **levels,
        "estimator": " > ".join(type(step).__name__ for _, step in steps),
        "n_features": int(_first_of(_split_encoder(model)[1]).n_features_in_),
        "n_dimensions": None if known is None else known.n_dimensions,
        "n_seen": len(seen),
        "n_unseen": len(unseen),
        "n_candidates": len(labels),
        "candidates": candidates if isinstance(candidates, str) else "listed",
        "labels": labels,
        "is_transductive": bool(getattr(last, "is_transductive_", False)),
        "chosen": {key: str(value) for key, value in _list_chosen(last).items()},
        "scores": {} if np.isnan(score) else {"accuracy on held-out classes": float(score)},
        "training": _training(last),
    }


def _list_chosen(last: Any) -> dict[str, Any]:
    if hasattr(last, "best_params_"):
        return last.best_params_
    hidden = ("prototypes", "base", "candidates", "verbose", "random_state")
    parameters = last.get_params(deep=False).items()
    return {name: value for name, value in parameters if name not in hidden}


def _training(last: Any) -> dict[str, Any]:
    """Return a fingerprint of what was learned: equal data and parameters give an equal one."""
    learned = last.__zonkey_learned__()
    values = np.empty(0) if learned.values is None else to_numpy(learned.values)
    seen = to_numpy(learned.labels)
    facts = {} if learned.n_samples is None else {"n_samples": learned.n_samples}
    text = "\0".join(map(str, seen.tolist())).encode("utf-8", "replace")
    digest = hashlib.sha256(text + np.ascontiguousarray(values).tobytes())
    return {**facts, "n_classes": len(seen), "fingerprint": digest.hexdigest()}
