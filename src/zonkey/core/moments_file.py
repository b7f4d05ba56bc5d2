"""Moments in a file: what is written of them, and how it is read again."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

from ..linalg.arrays import is_device_array
from .prototypes import Prototypes
from .reservoir import Reservoir
from .storage import load_npz, save_npz

if TYPE_CHECKING:
    from .moments import Moments

M = TypeVar("M", bound="Moments")


def save_moments(moments: Moments, path: str | os.PathLike[str], version: int) -> None:
    """Write moments to one .npz file, from the memory of the host."""
    here = moments.to_numpy() if is_device_array(moments.A0) else moments
    arrays = {
        "labels": here.prototypes.labels,
        "matrix": here.prototypes.matrix,
        "counts": here.counts,
        "A0": here.A0,
        "class_sums": here.class_sums,
        **here._reservoir.to_arrays(here.n_features),
    }
    save_npz(path, {"format": version, **here._options}, arrays)


def load_moments(cls: type[M], path: str | os.PathLike[str], version: int) -> M:
    """Read what `save_moments` wrote."""
    header, arrays = load_npz(path, what="moments")
    written = header.pop("format")
    if written != version:
        raise ValueError(
            f"{path} has moments of format {written}, this version reads {version}. "
            "Compute them again or use the version that wrote them."
        )
    moments = cls(Prototypes(arrays["labels"], arrays["matrix"]), **header)
    moments.counts = arrays["counts"]
    moments._A0, moments._sums = arrays["A0"], arrays["class_sums"]
    moments._reservoir = Reservoir.from_arrays(arrays, moments.n_reserve, moments.seed)
    return moments
