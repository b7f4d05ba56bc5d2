"""Counts what comes to the host from tensors and from arrays of the strict library."""

from collections.abc import Iterator
from contextlib import contextmanager

import array_api_strict
import pytest
import torch

# Everything by which values leave a tensor. A copy to the CPU by `to` is told by its arguments.
READERS = {
    torch.Tensor: (
        *("cpu", "numpy", "tolist", "item", "__array__", "__dlpack__"),
        *("__float__", "__int__", "__bool__", "__index__", "__complex__"),
    ),
    type(array_api_strict.asarray(0)): (
        *("to_device", "__array__", "__dlpack__"),
        *("__float__", "__int__", "__bool__", "__index__", "__complex__"),
    ),
}


@contextmanager
def counted_transfers() -> Iterator[list[tuple[int, str]]]:
    """Yield a list to which every read of values adds how many they were, and by which method.

    The device of these tests is the CPU, so that nothing is really moved.
    """
    seen: list[tuple[int, str]] = []

    def counting(name, method):
        def counted(self, *args, **kwargs):
            if name != "to" or _is_to_cpu(args, kwargs):
                seen.append((_size(self), name))
            return method(self, *args, **kwargs)

        return counted

    with pytest.MonkeyPatch.context() as patch:
        for kind, names in READERS.items():
            for name in (*names, *(("to",) if kind is torch.Tensor else ())):
                patch.setattr(kind, name, counting(name, getattr(kind, name)))
        yield seen


def assert_few(transfers: list[tuple[int, str]], most: int) -> None:
    """Check that something was read, so that the count is no accident, and never many values."""
    assert transfers
    assert [found for found in transfers if found[0] > most] == []


def _size(array) -> int:
    return array.numel() if isinstance(array, torch.Tensor) else array.size


def _is_to_cpu(args, kwargs) -> bool:
    given = (*args, kwargs.get("device"))
    return any(str(value) == "cpu" for value in given if isinstance(value, str | torch.device))
