"""Which parts of an object a file holds: those that its class declares.

=============================== ====================================================================
fields of a dataclass           all of them, if it is not an estimator
`__zonkey_fields__`             names of attributes, besides those of base classes; of an estimator
                                they are the fitted ones, and its parameters are stored as well
`__zonkey_parameters__()`       parameters of an estimator in forms that a file holds
`__zonkey_parts__()`            instead of all these: the parts by name, and
`__zonkey_make__(parts)`        the class method that makes an object of them
`__zonkey_upgrade__(parts)`     class method that translates the parts of older files
`__zonkey_validate__()`         refuses parts that contradict each other, and sets what follows
                                from them; an estimator that is not fitted is not asked
=============================== ====================================================================

A class that is to be in files also needs its name in the table of an entry point of the group
`zonkey.models`. Files of every released version stay readable: a change of what a class stores
needs `__zonkey_upgrade__`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from ..plugins import find_plugins, load_plugin
from .checks import require_finite, require_shape, require_that

_OF_ESTIMATORS = ("n_features_in_", "feature_names_in_")
_SCIKIT_LEARN: dict[type, tuple[str, ...]] = {
    FrozenEstimator: (),
    Normalizer: (),
    PCA: (
        "components_",
        "mean_",
        "explained_variance_",
        "explained_variance_ratio_",
        "singular_values_",
        "n_components_",
        "n_samples_",
        "noise_variance_",
    ),
    Pipeline: (),
    StandardScaler: ("mean_", "var_", "scale_", "n_samples_seen_"),
}


class StorableClasses(Mapping[str, type]):
    """All classes that files may hold, by name: those of zonkey first, then those of plugins."""

    def __getitem__(self, name: str) -> type:
        for table in self._tables():
            if name in table:
                return table[name]
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({name for table in self._tables() for name in table}))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _tables(self) -> Iterator[Mapping[str, type]]:
        yield {cls.__name__: cls for cls in _SCIKIT_LEARN}
        # Plugins are imported only for a name that zonkey does not have.
        for name in sorted(find_plugins("models"), key=lambda name: name != "zonkey"):
            yield load_plugin("models", name) or {}


def take_parts(value: Any) -> dict[str, Any]:
    """Return the parts of an object that a file holds."""
    cls = type(value)
    if hasattr(cls, "__zonkey_parts__"):
        return value.__zonkey_parts__()
    if cls is Pipeline:
        return {"steps": [[name, step] for name, step in value.steps]}
    if cls is FrozenEstimator:
        return {"estimator": value.estimator}
    names = _fields_of(cls)
    if not issubclass(cls, BaseEstimator):
        return {name: getattr(value, name) for name in names}
    adapted = getattr(value, "__zonkey_parameters__", None)
    parameters = value.get_params(deep=False) if adapted is None else adapted()
    used_up = np.random.RandomState | np.random.Generator  # a file does not hold such a state
    parameters = {
        name: None if isinstance(given, used_up) else given for name, given in parameters.items()
    }
    known = vars(value)
    return {"parameters": parameters, "state": {n: known[n] for n in names if n in known}}


def make_object(cls: type, parts: dict[str, Any]) -> Any:
    """Rebuild an object from its parts; refuse parts that do not fit."""
    kind: Any = cls
    value: Any
    if hasattr(kind, "__zonkey_upgrade__"):
        parts = kind.__zonkey_upgrade__(parts)
    if hasattr(kind, "__zonkey_make__"):
        value = kind.__zonkey_make__(parts)
    elif kind is Pipeline:
        value = _make_pipeline(parts["steps"])
    elif kind is FrozenEstimator or not issubclass(kind, BaseEstimator):
        value = kind(**parts)
    else:
        value = kind(**parts["parameters"])
        if not _restore(value, parts["state"]):
            return value
    if hasattr(kind, "__zonkey_validate__"):
        value.__zonkey_validate__()
    return value


def _fields_of(cls: type) -> tuple[str, ...]:
    """Return the names of the stored parts of a class."""
    if is_dataclass(cls) and not issubclass(cls, BaseEstimator):
        return tuple(entry.name for entry in fields(cls))
    own = [vars(base).get("__zonkey_fields__", ()) for base in reversed(cls.__mro__)]
    names = {*_SCIKIT_LEARN.get(cls, ()), *(name for part in own for name in part)}
    return (*sorted(names), *(_OF_ESTIMATORS if issubclass(cls, BaseEstimator) else ()))


def _restore(model: Any, state: dict[str, Any]) -> bool:
    """Set the fitted attributes; return whether there are any."""
    cls = type(model)
    if not state and not issubclass(cls, ClassifierMixin):
        return False  # a step that is only a parameter need not be fitted
    names = {*_fields_of(cls)}
    unknown, missing = {*state} - names, names - {*state, "feature_names_in_"}
    require_that(not unknown, f"{cls.__name__} has no attribute {sorted(unknown)}.")
    require_that(not missing, f"{cls.__name__} needs {sorted(missing)}.")
    n = state["n_features_in_"]
    require_that(type(n) is int and n > 0, "The number of features must be positive.")
    vars(model).update(state)
    if cls is PCA:
        require_shape("components_", model.components_, model.n_components_, n)
        require_shape("mean_", model.mean_, n)
        require_shape("explained_variance_", model.explained_variance_, model.n_components_)
    if cls is StandardScaler:
        for name in ("mean_", "var_", "scale_"):
            if state[name] is not None:
                require_shape(name, state[name], n)
        require_that(model.scale_ is None or model.scale_.all(), "Scales must not be zero.")
    return True


def _make_pipeline(named: list[Any]) -> Pipeline:
    """Return a pipeline; if it is fitted, check that the widths of its steps fit together."""
    pipeline = Pipeline([(name, step) for name, step in named])
    steps: list[Any] = [step for _, step in named if not isinstance(step, str | None)]
    width = None
    if is_encoder(steps[0]):
        width = steps.pop(0).spec_["dimension"]
    n = getattr(steps[0], "n_features_in_", None)
    if n is None:
        return pipeline
    require_that(width in (None, n), f"A step takes {n} of the {width} features.")
    *before, last = steps

    def prepare() -> Any:
        row = np.ones((1, n))
        for step in before:
            row = step.transform(row)
        return row

    width = require_finite("Pipeline", prepare).shape[1]
    require_that(last.n_features_in_ == width, "Steps of the pipeline do not fit together.")
    return pipeline


def is_encoder(step: Any) -> bool:
    """Whether a step is an encoder, which makes features of pictures and names its model."""
    return hasattr(type(step), "spec_")  # of the class: the model is not loaded
