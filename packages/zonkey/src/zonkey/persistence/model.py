"""Model files: one safetensors file per fitted model, checked when it is loaded.

A file holds arrays and a JSON header: schema, estimators by name, parameters, labels, prototypes,
facts about the training, versions and notes. Names are looked up in a list of classes; nothing is
unpickled or imported by name.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..arrays import to_numpy
from ..encoders.image_encoder import split_encoder
from ..inference.scorer import NearestPrototypeMixin, ScoresMixin, unwrap
from .container import StorageError, quote_text, read_arrays, read_header, write_arrays
from .forms import FORMS
from .packing import pack, unpack_file

_KIND = "model"
_FACTS = "_file_facts"  # attribute of loaded models: what a later `save` writes again
_MOST_SHOWN = 5  # entries of a list on the model card
_GIVEN = ("notes", "license", "scores", "training")
_SUMMARY = (
    *("estimator", "n_features", "n_candidates", "n_seen", "n_unseen", "labels"),
    *("training", "chosen", "scores"),
)
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
        `WithinClassWhitener`, and scikit-learn's `Normalizer`, `StandardScaler` and `PCA`. Of an
        `ImageEncoder` in front, the file keeps the name and revision, not the weights; `load`
        refuses another revision. `model.save(path)` does the same. Arrays on a device are copied
        to the host.
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
    facts = _earlier_facts(model) | {name: v for name, v in given.items() if v is not None}
    facts = {name: _check_fact(name, value) for name, value in facts.items()}
    content, arrays = pack(model, FORMS)
    encoder = split_encoder(model)[0]
    if encoder is not None:
        facts["training"] = {**facts.get("training", {}), "encoder": encoder.spec_}
    # A file that could not be loaded must not replace one that can.
    unpack_file(path, {"content": content}, arrays, FORMS)
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
    facts = _facts_of(path, header)
    model = unpack_file(path, header, arrays, FORMS)
    if not isinstance(unwrap(model)[1], ScoresMixin):
        raise StorageError(
            f"{Path(path).name} must hold a fitted classifier; it holds something else. Pass "
            "another file."
        )
    setattr(model, _FACTS, (facts, *_state(model)))
    return model


def load_for_features(path: str | os.PathLike[str]) -> Any:
    """Read a model, and leave out the encoder that a pipeline starts with; the facts tell of it.

    Parameters
    ----------
    path : str or path-like
        File to read.

    Returns
    -------
    estimator or Pipeline
        The fitted model, which takes features.
    """
    model = load(path)
    rest = split_encoder(model)[1]
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
        f"- License: {_strip_markdown(info.get('license', 'not stated'))}",
        f"- Input: {summary['n_features']} features",
        f"- Answers: one of {summary['n_candidates']} classes",
        f"- Saved: {info['created']}, {info['bytes']:,} bytes, schema {info['schema']}",
        "",
        "## Classes",
        "",
        f"{summary['n_seen']} with training samples, {summary['n_unseen']} known by a description "
        "only.",
        "",
        *_label_lines(summary["labels"]),
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


def _facts_of(path: Any, header: dict[str, Any]) -> dict[str, Any]:
    """Return what `save` was told, as far as the header has it in the right form."""
    for name, kind in {"summary": dict, "versions": dict, "created": str}.items():
        if type(header.get(name)) is not kind:
            raise StorageError(
                f"{Path(path).name} must have the entry {name!r} in its header; it has none that "
                "can be used. Save the model again."
            )
    missing = {*_SUMMARY} - {*header["summary"]}
    if missing or "zonkey" not in header["versions"]:
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


def _state(model: Any) -> tuple[Any, Any]:
    """Return objects that only a fit replaces, and that any change of the answers replaces."""
    last = unwrap(model)[1]
    fitted = getattr(last, "_choice", _arrays(last))
    return fitted, getattr(last, "_scores", getattr(last, "_decision", None))


def _arrays(last: Any) -> Any:
    """Return the array that a fit has learned, None if it is not fitted."""
    if isinstance(last, NearestPrototypeMixin):
        return last._get_learned() if hasattr(last, "prototypes_") else None
    return getattr(last, "references_", None)


def _earlier_facts(model: Any) -> dict[str, Any]:
    """Return the facts of the file that a model came from, as far as they still hold."""
    facts, fitted, decided = getattr(model, _FACTS, ({}, None, None))
    now = _state(model)
    stale = set() if fitted is now[0] else {"training", "scores"}
    stale |= set() if decided is now[1] else {"scores"}
    return {name: value for name, value in facts.items() if name not in stale}


def _entries(facts: Mapping[str, Any]) -> list[str]:
    return [f"- {_strip_markdown(name)}: {_strip_markdown(value)}" for name, value in facts.items()]


def _strip_markdown(value: Any) -> str:
    """Return one line without Markdown."""
    if isinstance(value, Mapping):
        value = ", ".join(f"{key} {part}" for key, part in value.items() if part is not None)
    if isinstance(value, list) and len(value) > _MOST_SHOWN:
        value = f"{len(value)}, from {value[0]} to {value[-1]}"
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _label_lines(labels: list[Any], most: int = 100) -> list[str]:
    shown = ", ".join(_strip_markdown(label) for label in labels[:most])
    return [shown + (f", and {len(labels) - most} more" if len(labels) > most else "")]


def _versions() -> dict[str, str]:
    packages = {name: version(name) for name in ("zonkey", "numpy", "scipy", "scikit-learn")}
    return {"python": platform.python_version(), **packages}


def _summary(model: Any) -> dict[str, Any]:
    """Return what can be said of a model in JSON, for those who read only the header."""
    steps, last = unwrap(model)
    seen, unseen = (to_numpy(getattr(last, f"{name}_classes_", [])) for name in ("seen", "unseen"))
    names = [type(step).__name__ for _, step in ([] if steps is None else steps.steps)]
    known = getattr(last, "prototypes_", None)
    labels = to_numpy(last.classes_).tolist()
    score = getattr(last, "best_score_", float("nan"))
    candidates = getattr(last, "candidates", "all")
    return {
        "estimator": " > ".join([*names, type(last).__name__]),
        "n_features": int(_n_features(model)),
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


def _n_features(model: Any) -> int:
    """Return the number of features that a model or pipeline takes."""
    rest = split_encoder(model)[1]
    first = rest[0] if isinstance(rest, Pipeline) else rest
    return first.n_features_in_


def _list_chosen(last: Any) -> dict[str, Any]:
    if hasattr(last, "best_params_"):
        return last.best_params_
    hidden = ("prototypes", "base", "candidates", "verbose", "random_state")
    parameters = last.get_params(deep=False).items()
    return {name: value for name, value in parameters if name not in hidden}


def _training(last: Any) -> dict[str, Any]:
    """Return a fingerprint of what was learned: equal data and parameters give an equal one."""
    evidence = getattr(last, "_evidence", None)
    if evidence is None:
        learned = _arrays(last)
        learned = np.empty(0) if learned is None else learned
        seen, facts = to_numpy(getattr(last, "seen_classes_", last.classes_)), {}
    else:
        learned, seen = evidence.sums, evidence.labels[evidence.counts > 0]
        facts = {"n_samples": float(evidence.counts.sum())}
    text = "\0".join(map(str, seen.tolist())).encode("utf-8", "replace")
    digest = hashlib.sha256(text + np.ascontiguousarray(to_numpy(learned)).tobytes())
    return {**facts, "n_classes": len(seen), "fingerprint": digest.hexdigest()}
