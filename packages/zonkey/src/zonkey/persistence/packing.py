"""Turn objects of listed classes into JSON and arrays, and back.

A class takes part only if it has a `Form`, so nothing in a file decides what code runs. JSON
objects have a key "$" that names what they stand for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays import is_device_array, to_numpy
from ..prototypes import Prototypes
from .container import StorageError, Stored, quote_text

_KIND = "$"
_MOST_TEXT = 2**26  # characters of an array of text, which is as wide as its longest entry
_CONTRADICTIONS = (TypeError, ValueError, AttributeError, IndexError, RecursionError)


@dataclass(frozen=True)
class Form:
    """How objects of a class are stored: `take` returns their parts, `make` builds them again."""

    cls: type
    take: Callable[[Any], dict[str, Any]]
    make: Callable[[dict[str, Any]], Any]

    @property
    def name(self) -> str:
        """Name of the class in files."""
        return self.cls.__name__

    @classmethod
    def from_fields(cls, kind: type, check: Callable[[Any], None] | None = None) -> Form:
        """Store the fields of a dataclass; `check` refuses parts that do not fit together."""
        names = [entry.name for entry in fields(kind)]

        def take(value: Any) -> dict[str, Any]:
            return {name: getattr(value, name) for name in names}

        def make(parts: dict[str, Any]) -> Any:
            value = kind(**parts)
            if check is not None:
                check(value)
            return value

        return cls(kind, take, make)


Forms = Mapping[str, Form]


def pack(value: Any, forms: Forms) -> tuple[Any, dict[str, np.ndarray]]:
    """Return JSON for a value, and the arrays that it refers to by name."""
    packer = _Packer({form.cls: form for form in forms.values()})
    return packer.node(value, ""), packer.arrays


@dataclass
class _Packer:
    forms: dict[type, Form]
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    names: dict[int, tuple[str, Any]] = field(default_factory=dict)  # keeps the arrays alive

    def node(self, value: Any, path: str) -> Any:
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {_KIND: "float", "value": repr(value)}
        if isinstance(value, list):
            return [self.node(item, f"{path}/{i}") for i, item in enumerate(value)]
        if isinstance(value, tuple):
            return {_KIND: "tuple", "items": self.node([*value], path)}
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            return {_KIND: "dict", **self._parts(value, path)}
        if isinstance(value, Stored):
            value = value.read()
        if isinstance(value, np.ndarray) or is_device_array(value):
            return self._array(value, path)
        if type(value) in self.forms:
            return self._object(value, path)
        known = ", ".join(sorted(form.name for form in self.forms.values()))
        raise TypeError(
            f"A file can hold objects of these classes: {known}; got {type(value).__name__}. Use "
            "one of these."
        )

    def _object(self, value: Any, path: str) -> dict[str, Any]:
        if id(value) in self.names:
            return {_KIND: "same", "as": self.names[id(value)][0]}
        self.names[id(value)] = (path, value)
        form = self.forms[type(value)]
        return {_KIND: form.name, "path": path, **self._parts(form.take(value), path)}

    def _parts(self, parts: dict[str, Any], path: str) -> dict[str, Any]:
        return {"parts": {name: self.node(v, f"{path}/{name}") for name, v in parts.items()}}

    def _array(self, value: Any, path: str) -> dict[str, Any]:
        if id(value) in self.names:
            return {_KIND: "array", "name": self.names[id(value)][0]}
        array = to_numpy(value)
        if array.dtype.kind in "UO":
            kind = "text" if array.dtype.kind == "U" else "names"
            return {_KIND: kind, "values": self.node(array.tolist(), path)}
        name = path.strip("/")
        self.names[id(value)] = (name, value)
        self.arrays[name] = array
        return {_KIND: "array", "name": name}


def unpack(node: Any, arrays: Mapping[str, Any], forms: Forms) -> Any:
    """Return the value that `pack` was given; arrays are used as they are."""
    return _Unpacker(arrays, forms).value(node)


@dataclass
class _Unpacker:
    arrays: Mapping[str, Any]
    forms: Forms
    made: dict[str, Any] = field(default_factory=dict)  # objects by path, shared as before

    def value(self, node: Any) -> Any:
        if node is None or isinstance(node, bool | int | float | str):
            return node
        if isinstance(node, list):
            return [self.value(item) for item in node]
        kind = node[_KIND]
        if kind == "array":
            return self.arrays[node["name"]]
        if kind in ("text", "names"):
            return _texts(node["values"], str if kind == "text" else object)
        if kind == "float":
            return float(node["value"])
        if kind == "tuple":
            return tuple(self.value(node["items"]))
        if kind == "same":
            return self.made[node["as"]]
        parts = {name: self.value(part) for name, part in node["parts"].items()}
        if kind == "dict":
            return parts
        if kind not in self.forms:
            raise StorageError(
                f"A file can hold objects of these classes: {', '.join(sorted(self.forms))}; got "
                f"{quote_text(kind)}. Import zonkey_lab.peers, or update zonkey."
            )
        self.made[node["path"]] = self.forms[kind].make(parts)
        return self.made[node["path"]]


def _texts(values: Any, dtype: type) -> np.ndarray:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise StorageError("Text in a file must be a list of strings. Save it again.")
    lengths = [len(value) for value in values]
    if len(values) * max(lengths, default=0) > max(_MOST_TEXT, 16 * sum(lengths)):
        raise StorageError("Text in a file must be of similar lengths to fit into memory.")
    return np.array(values, dtype=dtype)


def unpack_file(path: Any, header: dict[str, Any], arrays: Mapping[str, Any], forms: Forms) -> Any:
    """Return the content of a file; any contradiction in it is a one-line error."""
    try:
        return unpack(header["content"], arrays, forms)
    except StorageError as error:
        reason = str(error)
    except KeyError as error:
        reason = f"The part {quote_text(error.args[0])} is missing. Save the file again."
    except (*_CONTRADICTIONS, ArithmeticError, MemoryError) as error:
        reason = f"Its parts contradict each other ({quote_text(error)}). Save the file again."
    raise StorageError(f"{Path(path).name} cannot be loaded. {reason}")


def require_shape(name: str, array: Any, *shape: int | None, kinds: str = "f") -> None:
    """Refuse an array of another shape or kind of dtype; None stands for any length."""
    if not isinstance(array, np.ndarray | Stored) or array.dtype.kind not in kinds:
        got = getattr(array, "dtype", type(array).__name__)
        raise StorageError(f"The array {name!r} has the wrong type, {got}. Save the file again.")
    fits = len(shape) == len(array.shape) and all(
        want is None or want == have for want, have in zip(shape, array.shape, strict=True)
    )
    if not fits:
        wanted = " x ".join("any" if want is None else str(want) for want in shape)
        raise StorageError(
            f"The array {name!r} must have the shape {wanted}; got {array.shape}. Save the file "
            "again."
        )


def require_number(name: str, value: Any, low: float = -math.inf) -> None:
    """Refuse what is not a finite number of at least `low`."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < low:
        rule = "a finite number" if low == -math.inf else f"a number of at least {low:g}"
        raise StorageError(
            f"{name!r} must be {rule}; got {quote_text(value)}. Save the file again."
        )


def require_labels(name: str, labels: Any) -> None:
    """Refuse labels that are not sorted, distinct text or numbers."""
    require_shape(name, labels, None, kinds="iufbU")
    if len(labels) > 1 and not (labels[1:] > labels[:-1]).all():
        raise StorageError(f"The labels {name!r} must be sorted and distinct. Save the file again.")


def require_that(fits: bool, problem: str) -> None:
    """Refuse parts that contradict each other."""
    if not fits:
        raise StorageError(f"{problem} Save the file again.")


def _make_prototypes(parts: dict[str, Any]) -> Prototypes:
    require_labels("prototypes/labels", parts["labels"])
    require_shape("prototypes/matrix", parts["matrix"], len(parts["labels"]), None)
    return Prototypes(**parts)


PROTOTYPES = Form(
    Prototypes,
    lambda value: {
        "labels": value.labels,
        "matrix": value.matrix,
        "dimension_names": None if value.dimension_names is None else [*value.dimension_names],
    },
    _make_prototypes,
)
