"""List public docstrings that break scikit-learn's numpydoc rules; exit with status 1 if any does.

Public objects are the classes and functions in any `__all__` of the package, and the public methods
and properties of those classes. The rules are those of scikit-learn's `test_docstrings.py`:
`numpydoc.validate` without the checks in `IGNORED`; the checks in `CLASSES_ONLY` apply to classes.

    python tools/check_docstrings.py [MODULE]
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator
from functools import cached_property
from types import ModuleType
from typing import Any

from numpydoc.validate import validate

IGNORED = {"RT02", "GL01", "GL02"}  # name of a single return value; line of the summary
CLASSES_ONLY = {"ES01", "SA01", "EX01"}  # extended summary, See Also, Examples


def modules(name: str) -> Iterator[ModuleType]:
    """Import a module and, if it is a package, all modules below it."""
    module = importlib.import_module(name)
    yield module
    for found in pkgutil.walk_packages(getattr(module, "__path__", []), f"{name}."):
        yield importlib.import_module(found.name)


def public_objects(name: str) -> dict[str, Any]:
    """Return classes, functions, methods and properties by the path that numpydoc imports."""
    package = name.partition(".")[0]
    found: dict[str, Any] = {}
    for module in modules(name):
        for exported in getattr(module, "__all__", []):
            value = getattr(module, exported)
            if not (inspect.isclass(value) or inspect.isfunction(value)):
                continue
            if value.__module__.partition(".")[0] != package:
                continue
            path = f"{value.__module__}.{value.__qualname__}"
            found[path] = value
            if inspect.isclass(value):
                found |= {f"{path}.{key}": member for key, member in members(value, package)}
    return dict(sorted(found.items()))


def members(owner: type, package: str) -> Iterator[tuple[str, Any]]:
    """Yield public methods and properties that the package itself defines, inherited ones too."""
    for name in dir(owner):
        member = inspect.getattr_static(owner, name)
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            function = member.fget
        elif isinstance(member, cached_property):
            function = member.func
        else:
            function = getattr(owner, name)
        own = inspect.isfunction(function) or inspect.ismethod(function)
        if own and function.__module__.partition(".")[0] == package:
            yield name, member


def violations(path: str, value: Any) -> list[str]:
    """Return "CODE message" for each rule that a docstring breaks."""
    ignored = set(IGNORED)
    if not inspect.isclass(value):
        ignored |= CLASSES_ONLY
    if isinstance(value, property | cached_property):
        ignored.add("PR02")  # numpydoc takes no parameter from the signature of a property
    try:
        errors = validate(path)["errors"]
    except StopIteration:  # numpydoc looks for "def": a property made from a lambda has none
        errors = [] if value.__doc__ else [("GL08", "The object does not have a docstring")]
    return [f"{code} {text}" for code, text in errors if code not in ignored]


def failures(name: str) -> tuple[dict[str, list[str]], int]:
    """Return violations by object, for the objects that have any, and the number of objects."""
    objects = public_objects(name)
    found = {path: violations(path, value) for path, value in objects.items()}
    return {path: broken for path, broken in found.items() if broken}, len(objects)


def main() -> None:
    """Print violations, then their number."""
    failing, total = failures(sys.argv[1] if len(sys.argv) > 1 else "zonkey")
    for path, broken in failing.items():
        print(path, *(f"    {line}" for line in broken), sep="\n")
    print(f"{len(failing)} of {total} public objects break the numpydoc rules.")
    if failing:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
