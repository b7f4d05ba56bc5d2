"""One hash of objects: by content, not by sharing, memory layout or caches."""

import copy
import math
from functools import partial

import numpy as np
import pytest

from zonkey import Moments
from zonkey.hashing import hash_object
from zonkey.preprocessing import WithinClassWhitener


def times(factor):
    return lambda X: X * factor


class Slots:
    __slots__ = ("factor", "itself")

    def __init__(self, factor):
        self.factor, self.itself = factor, self

    def __call__(self, X):
        return X * self.factor


FUNCTIONS = {
    "lambda": (lambda X: X * 2, lambda X: X * 3),
    "closure": (times(2), times(3)),
    "array": (times(np.ones(5)), times(np.zeros(5))),
    "default": (lambda X, a=2: X * a, lambda X, a=3: X * a),
    "slots": (Slots(2), Slots(3)),
    "method": (Slots(2).__call__, Slots(3).__call__),
    "ufunc": (np.sign, np.sqrt),
    "partial": (partial(np.multiply, 2), partial(np.multiply, 3)),
    "builtin": (math.sqrt, math.exp),
}


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_hash_of_functions(kind):
    one, other = FUNCTIONS[kind]
    assert hash_object(one) != hash_object(other)
    assert hash_object(one) == hash_object(copy.deepcopy(one))


def test_hash_depends_on_content_only():
    a, b = np.arange(6.0).reshape(2, 3), "text"
    assert hash_object([a, a, b]) == hash_object([a.copy(), np.asfortranarray(a), "te" + b[2:]])
    assert hash_object({"a": 1, "b": 2}) == hash_object({"b": 2, "a": 1})
    assert hash_object({1, 2, 3}) == hash_object({3, 2, 1})
    assert hash_object(np.array(["a", 1], object)) == hash_object(["a", 1])
    values = [1, 1.5, True, None, "1", b"1", [1], [[1]], [1, 23], [12, 3], {"a": 1}, {1}]
    values += [np.ones(1), np.ones((1, 1)), np.ones(1, np.float32)]
    values += [WithinClassWhitener(1), WithinClassWhitener(2)]
    assert len(set(map(hash_object, values))) == len(values)


def test_hash_of_moments_ignores_what_they_share():
    moments = Moments({"a": [1.0], "b": [2.0]}).update(np.eye(3), ["a", "b", "a"])
    assert hash_object(moments) == hash_object(moments.copy())
    assert hash_object(moments) != hash_object(moments - moments)
