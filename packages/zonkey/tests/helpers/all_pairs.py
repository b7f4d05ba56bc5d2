"""Parametrize by rows in which every two values of different parameters meet."""

from itertools import combinations, product

import pytest


def all_pairs(axes):
    """Return a decorator like a stack of `pytest.mark.parametrize`, of far fewer cases.

    `axes` maps each name, or names separated by commas, to its values.
    """
    sizes = [len(list(values)) for values in axes.values()]
    values = [list(values) for values in axes.values()]
    names = [[name.strip() for name in names.split(",")] for names in axes]
    rows = [_flat(row, names, values) for row in rows_of_pairs(sizes)]
    return pytest.mark.parametrize([name for some in names for name in some], rows)


def rows_of_pairs(sizes):
    """Return positions of values, a row per case, greedily: as many new pairs as possible."""
    missing = {
        (i, a, j, b)
        for i, j in combinations(range(len(sizes)), 2)
        for a, b in product(range(sizes[i]), range(sizes[j]))
    }
    candidates = list(product(*map(range, sizes)))
    rows = []
    while missing:
        best = max(candidates, key=lambda row: len(missing & _pairs(row)))
        missing -= _pairs(best)
        rows.append(best)
    return sorted(rows)


def _pairs(row):
    return {(i, row[i], j, row[j]) for i, j in combinations(range(len(row)), 2)}


def _flat(row, names, values):
    chosen = [own[i] for own, i in zip(values, row, strict=True)]
    return [
        value
        for some, one in zip(names, chosen, strict=True)
        for value in (one if len(some) > 1 else [one])
    ]
