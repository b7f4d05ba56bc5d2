"""What moments refuse: nothing changes, and one line says why."""

import re

import numpy as np
import pytest
from scipy.sparse import csr_array

from zonkey import Moments


@pytest.mark.parametrize("value", [-1, 1.5, "3", None, True], ids=repr)
@pytest.mark.parametrize("name", ["n_reserve", "seed"])
def test_counts_that_are_none(name, value):
    expected = re.escape(f"`{name}` must be an integer of at least 0; got {value!r}. Pass 0 or")
    with pytest.raises(ValueError, match=expected):
        Moments({"a": [1.0]}, **{name: value})


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (csr_array(np.eye(2)), r"csr_array, which is sparse\. Pass its \.toarray"),
        (np.ma.masked_array(np.eye(2), mask=np.eye(2)), "2 masked entries of 4"),
        ([[1.0], [1.0, 2.0]], "with rows of one length"),
        (np.eye(2).astype(object), r"finite numbers; got dtype object\. Convert"),
        (np.full((2, 2), np.longdouble("1e400")), "got NaN or infinity"),
        (np.full((2, 2), 1e200), r"usual size, from 1e-75 to 1e\+75 in float64"),
        (np.full((2, 2), 1e-20, np.float32), r"usual size, from 1e-15 to 1e\+15 in float32"),
    ],
    ids=["sparse", "masked", "ragged", "objects", "long", "huge", "tiny"],
)
def test_samples_that_are_refused_change_nothing(samples, message):
    moments = Moments({"a": [1.0]})
    with pytest.raises((TypeError, ValueError), match=message):
        moments.update(samples, ["a", "a"])
    assert moments.n_samples == 0


def test_half_precision_and_zeros_are_of_a_usual_size():
    moments = Moments({"a": [1.0]}).update(np.full((2, 3), 60000, np.float16), ["a", "a"])
    assert moments.update(np.zeros((1, 3)), ["a"]).n_samples == 3
