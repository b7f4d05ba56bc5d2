"""Warnings that mean nothing to whoever runs hundreds of fits."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from scipy.linalg import LinAlgWarning
from sklearn.exceptions import ConvergenceWarning


@contextmanager
def quiet() -> Iterator[None]:
    """Keep silent where a guard acts or an equation is near singular: extreme points do that."""
    with warnings.catch_warnings():
        for category in (ConvergenceWarning, LinAlgWarning):
            warnings.simplefilter("ignore", category)
        yield
