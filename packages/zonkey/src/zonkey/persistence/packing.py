"""Turn objects of listed classes into JSON and arrays, and back.

Only listed classes are restored, so a file cannot decide what code runs. JSON objects
have a key "$" that names what they encode.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..arrays import is_device_array, to_numpy
from ..errors import StorageError
from ..optional import format_install
from ..plugins import LAB
from .checks import quote_text
from .container import Stored, read_arrays, write_arrays
from .forms import make_object, take_parts

_KIND = "$"
_MOST_TEXT = 2**26  # characters of an array of text, which is as wide as its longest entry
_CONTRADICTIONS = (TypeError, ValueError, AttributeError, IndexError, RecursionError)


Classes = Mapping[str, type]


def pack(value: Any, classes: Classes) -> tuple[Any, dict[str, np.ndarray]]:
    """Return JSON for a value, and the arrays that it refers to by name."""
    packer = _Packer(classes)
    return packer.node(value, ""), packer.arrays


@dataclass
class _Packer:
    classes: Classes
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
        if self.classes.get(type(value).__name__) is type(value):
            return self._object(value, path)
        raise TypeError(
            f"A file can hold objects of these classes: {', '.join(self.classes)}; got "
            f"{type(value).__name__}. Use one of these."
        )

    def _object(self, value: Any, path: str) -> dict[str, Any]:
        if id(value) in self.names:
            return {_KIND: "same", "as": self.names[id(value)][0]}
        self.names[id(value)] = (path, value)
        kind = type(value).__name__
        return {_KIND: kind, "path": path, **self._parts(take_parts(value), path)}

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


@dataclass
class _Unpacker:
    arrays: Mapping[str, Any]
    classes: Classes
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
        if kind not in self.classes:
            raise StorageError(
                f"Its class {quote_text(kind)} is not installed. If it is one of the compared "
                f"systems, run: {format_install(LAB)}. If not, update zonkey."
            )
        self.made[node["path"]] = make_object(self.classes[kind], parts)
        return self.made[node["path"]]


def _texts(values: Any, dtype: type) -> np.ndarray:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise StorageError("Text in a file must be a list of strings. Save it again.")
    lengths = [len(value) for value in values]
    if len(values) * max(lengths, default=0) > max(_MOST_TEXT, 16 * sum(lengths)):
        raise StorageError("Text in a file must be of similar lengths to fit into memory.")
    return np.array(values, dtype=dtype)


def unpack_file(
    path: Any, header: dict[str, Any], arrays: Mapping[str, Any], classes: Classes
) -> Any:
    """Return the value given to `pack`; arrays are not copied.

    Any contradiction in the parts is an error of one line that names the file.
    """
    try:
        return _Unpacker(arrays, classes).value(header["content"])
    except StorageError as error:
        reason = str(error)
    except KeyError as error:
        reason = f"The part {quote_text(error.args[0])} is missing. Save the file again."
    except (*_CONTRADICTIONS, ArithmeticError, MemoryError) as error:
        reason = f"Its parts contradict each other ({quote_text(error)}). Save the file again."
    raise StorageError(f"{Path(path).name} cannot be loaded. {reason}")


def save_object(path: Any, kind: str, value: Any, classes: Classes, **header: Any) -> None:
    """Write a value to one file, atomically."""
    node, arrays = pack(value, classes)
    write_arrays(path, kind, {**header, "content": node}, arrays)


def load_object(
    path: Any, kind: str, classes: Classes, lazy: Collection[str] = ()
) -> tuple[dict[str, Any], Any]:
    """Return the header of a file and the value in it; `lazy` as in `read_arrays`."""
    header, arrays = read_arrays(path, kind, lazy)
    return header, unpack_file(path, header, arrays, classes)
