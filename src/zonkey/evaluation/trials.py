"""One few-shot trial: which classes, which support samples, which queries."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core.labels import as_labels, listed


class Trial(NamedTuple):
    """Positions of the support and of the query samples of one trial."""

    support: np.ndarray
    query: np.ndarray


def draw_trial(
    y: Any,
    classes: Any,
    *,
    n_way: int | None,
    n_shot: int,
    n_query: int | None,
    rng: np.random.Generator,
    queries: Any = None,
) -> Trial:
    """Draw classes, then support and query samples of each, without overlap.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels of all samples.
    classes : array-like
        Novel classes to draw from.
    n_way : int or None
        Classes a trial; None takes all of them.
    n_shot : int
        Support samples a class.
    n_query : int or None
        Query samples a class; None takes all that are left.
    rng : numpy Generator
    queries : array-like of int, default=None
        Positions of samples that are queries and never shots, all others being shots and never
        queries. None: any sample may be either.
    """
    y, classes = as_labels(y), np.unique(as_labels(classes))
    if n_way is not None:
        if n_way > len(classes):
            raise ValueError(
                f"`n_way` must be at most the number of novel classes, {len(classes)}; got {n_way}."
                " Ask for fewer ways or give more classes."
            )
        classes = rng.choice(classes, n_way, replace=False)
    support, query = [], []
    of_classes = [np.flatnonzero(y == label) for label in classes]
    unknown = classes[[not len(members) for members in of_classes]]
    if unknown.size:
        raise ValueError(
            f"Novel classes need samples; {listed(unknown)} has none in y. Correct `classes`."
        )
    for label, members in zip(classes, of_classes, strict=True):
        members = rng.permutation(members)
        shots, rest = members[:n_shot], members[n_shot:]
        if queries is not None:
            asked = np.isin(members, queries)
            shots, rest = members[~asked][:n_shot], members[asked]
        if len(shots) < n_shot or len(rest) < (n_query or 1):
            raise ValueError(
                f"Class {str(label)!r} has {len(members)} samples; {n_shot} shots and "
                f"{n_query or 'at least 1'} queries need {n_shot + (n_query or 1)}"
                f"{'' if queries is None else ', of the kind that serves for each'}. Lower "
                "`n_shot` or `n_query`."
            )
        support.append(shots)
        query.append(rest if n_query is None else rest[:n_query])
    return Trial(np.concatenate(support), np.concatenate(query))
