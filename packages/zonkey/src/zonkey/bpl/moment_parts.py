"""Moments as arrays of a file: storage of raw samples, and checks that sums are possible."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import to_numpy
from ..persistence.checks import require_shape, require_that
from ..streaming.bottom_k import BottomK
from ..streaming.priorities import SIGN

_RULE = "A0 must be the scatter of the samples, as large as their class sums imply."


def pack_samples(few: BottomK) -> dict[str, np.ndarray]:
    """Return raw samples as flat NumPy arrays; priorities are unsigned in files."""
    return {
        "reserve_rows": to_numpy(few.samples()),
        "reserve_priorities": few.priorities.view(np.uint64) ^ SIGN,
        "reserve_lengths": np.bincount(few.codes, minlength=len(few.sizes)),
        "reserve_limits": few.limits.view(np.uint64) ^ SIGN,
    }


def unpack_samples(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return parts of a BottomK from those of `pack_samples`."""
    lengths = arrays["reserve_lengths"]
    return {
        "samples": arrays["reserve_rows"],
        "codes": np.repeat(np.arange(len(lengths)), lengths),
        "priorities": (arrays["reserve_priorities"] ^ SIGN).view(np.int64),
        "limits": (arrays["reserve_limits"] ^ SIGN).view(np.int64),
    }


def check_parts(
    parts: dict[str, Any], m: int, n_reserve: int, has_scatter: bool, digits: int
) -> None:
    """Refuse parts of m classes that no samples can have; A0 is exact to `digits` digits."""
    counts, sums = parts["counts"], parts["class_sums"]
    require_shape("counts", counts, m, kinds="i")
    require_shape("class_sums", sums, m, None)
    require_that(bool((counts >= 0).all()), "Counts of samples must not be negative.")
    if has_scatter:
        require_shape("A0", parts["A0"], sums.shape[1], sums.shape[1])
    _check_sums(parts, has_scatter, 10.0**-digits)
    arrays = parts["reserve"]
    lengths = arrays["reserve_lengths"]
    require_shape("reserve_lengths", lengths, m, kinds="i")
    fits = bool((lengths >= 0).all() and (lengths <= np.minimum(counts, n_reserve)).all())
    require_that(fits, "Raw samples of moments must be among those that were counted.")
    n = int(lengths.sum())
    require_shape("reserve_rows", arrays["reserve_rows"], n, sums.shape[1])
    for name, length in (("reserve_priorities", n), ("reserve_limits", m)):
        require_shape(name, arrays[name], length, kinds="u")


def _check_sums(parts: dict[str, Any], has_scatter: bool, tolerance: float) -> None:
    """Refuse sums that no samples can have: A0 is at least the scatter of the class means.

    Differences of moments lose some digits.
    """
    S, n = parts["class_sums"], parts["counts"]
    require_that(not S[n == 0].any(), "The sum of a class without samples must be zero.")
    least = np.sum(S * S / np.maximum(n, 1)[:, None], axis=0)
    if not has_scatter:
        total = float(np.sum(least))
        require_that(float(parts["squares"]) >= total * (1 - tolerance), _RULE)
        return
    A0 = parts["A0"]
    slack = tolerance * max(float(np.abs(np.diag(A0)).max()), float(least.max()))
    require_that(bool((np.abs(A0 - A0.T) <= slack).all()), _RULE)
    roots = S / np.sqrt(np.maximum(n, 1))[:, None]
    within = A0 - roots.T @ roots
    within.flat[:: len(within) + 1] += slack or 1.0
    try:
        np.linalg.cholesky(within)
    except np.linalg.LinAlgError:
        require_that(False, _RULE)
