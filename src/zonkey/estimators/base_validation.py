"""Whether base classes fit a few-shot task: checks with errors that name the remedy."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.frame import BaseClasses
from ..core.labels import listed, require_same_kind
from ..core.moments import Moments
from ..core.prototypes import Prototypes
from ..linalg.arrays import Array, place_of, same_place


def as_base(base: Any) -> BaseClasses | None:
    """Return base classes ready for many fits, or None."""
    if base is None or isinstance(base, BaseClasses):
        return base
    if isinstance(base, Moments):
        return BaseClasses(base)
    raise TypeError(
        f"`base` must be Moments, BaseClasses or None; got {type(base).__name__}. "
        "Gather Moments(prototypes).update(X_base, y_base)."
    )


def joined_prototypes(given: Any, base: BaseClasses | None, labels: np.ndarray) -> Prototypes:
    """Return the prototypes given, those of the base for all other classes, or one-hot ones."""
    if given is None:
        return Prototypes.one_hot(labels) if base is None else base.moments.prototypes
    given = Prototypes.coerce(given)
    if base is None:
        return given
    _require_agreement(given, base.prototypes)
    others = np.setdiff1d(base.moments.prototypes.labels, given.labels)
    return given.extended(base.moments.prototypes.subset(others)) if others.size else given


def require_samples_like(base: BaseClasses, X: Array) -> None:
    """Refuse a support set from another feature space, or in another place."""
    if base.moments.n_features != X.shape[1]:
        raise ValueError(
            f"The support set must have the {base.moments.n_features} features of the base "
            f"classes; got {X.shape[1]}. Use the same encoder for both."
        )
    if not same_place(base.moments.A0, X):
        raise ValueError(
            f"The support set must be where the base classes are, {place_of(base.moments.A0)}; got "
            f"{place_of(X)}. Move the samples, or take `to_numpy()` of the base moments."
        )


def require_disjoint(base: BaseClasses, novel: np.ndarray) -> None:
    """Refuse novel classes that are base classes too."""
    overlap = np.intersect1d(base.moments.seen_labels, novel)
    if overlap.size:
        raise ValueError(
            f"Novel classes must not be among the base classes; {listed(overlap)} came in "
            "both. Leave them out of the base moments, or out of the support set."
        )


def require_samples(base: BaseClasses) -> None:
    """Refuse base classes that left nothing to perturb."""
    labels = base.prototypes.labels
    kept = [base.moments.samples_of(label).shape[0] for label in labels.tolist()]
    empty = labels[[n == 0 for n in kept]]
    if empty.size:
        raise ValueError(
            'synthesis="base" needs a raw sample of every base class; the moments keep none of '
            f"{listed(empty)} (n_reserve={base.moments.n_reserve}). Gather them again with a "
            'larger `n_reserve`, or use synthesis="support".'
        )


def _require_agreement(given: Prototypes, of_base: Prototypes) -> None:
    """Refuse base prototypes other than those that the base moments were gathered with."""
    if given.n_dimensions != of_base.n_dimensions:
        raise ValueError(
            f"Prototypes must have the {of_base.n_dimensions} dimensions of the base prototypes; "
            f"got {given.n_dimensions}. Use the same semantic space, or moments.with_prototypes."
        )
    require_same_kind(labels=given.labels, prototypes=of_base.labels)
    both = np.intersect1d(given.labels, of_base.labels)
    if not both.size:
        return
    # To the precision of float32, in which either may have been stored.
    near = np.isclose(given.subset(both).matrix, of_base.subset(both).matrix, rtol=1e-5)
    other = both[~near.all(axis=1)]
    if other.size:
        raise ValueError(
            f"Prototypes of base classes must be those of the base moments; {listed(other)} came "
            "with others. Leave base classes out, or pass moments.with_prototypes(prototypes)."
        )
