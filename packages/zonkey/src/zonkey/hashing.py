"""Hash any object by its content, equal across processes.

Unlike a hash of a pickle, it does not depend on shared objects or memory layout. Functions are
hashed by their code and the values they refer to.
"""

from __future__ import annotations

import copyreg
import hashlib
from collections.abc import Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from .arrays import is_device_array, to_numpy

_PLAIN = bool | int | float | complex | str | bytes
_VALUES = (_PLAIN, np.generic, np.ndarray, list, tuple, dict)


def hash_object(*values: Any) -> str:
    """Return 64 hexadecimal digits, equal for equal numbers, arrays, functions and objects of them.

    An object with a method `fingerprint` is hashed by the text that it returns, so that a class can
    leave out caches.
    """
    digest = hashlib.sha256()
    for value in values:
        _feed(digest, value, ())
    return digest.hexdigest()


def _feed(digest: Any, value: Any, above: tuple[int, ...]) -> None:
    if is_device_array(value):
        value = to_numpy(value)
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        digest.update(str((value.dtype.str, value.shape)).encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    elif value is None or isinstance(value, _PLAIN | np.generic):
        plain = value.item() if isinstance(value, np.generic) else value
        digest.update(f"{plain!r};".encode(errors="surrogatepass"))
    elif id(value) in above:  # it holds itself
        digest.update(f"<{len(above) - above.index(id(value))} above>".encode())
    else:
        kind, parts = _take_apart(value)
        digest.update(f"{kind}[{len(parts)}]".encode())
        for part in parts:
            _feed(digest, part, (*above, id(value)))


def _take_apart(value: Any) -> tuple[str, list[Any]]:
    """Return the kind of an object, and its parts."""
    if isinstance(value, np.ndarray | list | tuple):
        return "", list(value)
    if isinstance(value, set | frozenset):
        return "set", sorted(hash_object(item) for item in value)
    if isinstance(value, Mapping):
        pairs = sorted(value.items(), key=lambda item: str(item[0]))
        return "dict", [part for pair in pairs for part in pair]
    if isinstance(value, ModuleType):
        return value.__name__, []
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}", []
    if isinstance(value, CodeType):
        return "code", [value.co_code, value.co_consts, value.co_names]
    if isinstance(value, FunctionType):
        code, held = value.__code__, [cell.cell_contents for cell in value.__closure__ or ()]
        known = {name: value.__globals__.get(name) for name in code.co_names}
        known = {name: known[name] for name in known if isinstance(known[name], _VALUES)}
        kind = f"{value.__module__}.{value.__qualname__}"
        return kind, [code, held, known, value.__defaults__, value.__kwdefaults__]
    if callable(getattr(value, "fingerprint", None)):
        return type(value).__qualname__, [value.fingerprint()]
    return type(value).__qualname__, _reduce_object(value)


def _reduce_object(value: Any) -> list[Any]:
    """Return the parts from which an object could be rebuilt."""
    try:
        by_type = copyreg.dispatch_table.get(type(value))
        found: Any = value.__reduce_ex__(4) if by_type is None else by_type(value)
    except Exception as error:
        raise TypeError(
            "A computation resumes only if everything it depends on can be compared; got "
            f"{type(value).__name__} ({error}). Use plain values, arrays or estimators; for a "
            "function of chunks, pass a `key` that identifies it."
        ) from None
    if isinstance(found, str):
        return [getattr(value, "__module__", ""), found]
    make, arguments, state, *items = (*found, None, None, None)[:5]
    return [make, arguments, state, *(None if part is None else list(part) for part in items)]


_WORDS = 512  # per row of the table that a checksum adds up


def checksum(array: np.ndarray) -> str:
    """Return a hash of the bytes, dtype and shape of an array.

    The bytes are words in a table, whose row and column sums are hashed. One changed or moved
    word changes some of them, and adding is ten times faster than SHA-256 of all bytes.
    """
    data = array.reshape(-1).view(np.uint8)
    n = len(data) // (8 * _WORDS) * 8 * _WORDS
    table = data[:n].view(np.uint64).reshape(-1, _WORDS)
    found = hashlib.sha256(f"{array.dtype.str} {array.shape}".encode())
    for sums in (table.sum(axis=0), table.sum(axis=1)):
        found.update(sums.tobytes())
    found.update(data[n:].tobytes())
    return found.hexdigest()[:32]
