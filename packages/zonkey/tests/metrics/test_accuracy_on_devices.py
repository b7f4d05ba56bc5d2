"""Accuracy of predictions on a device, counted there, against that of NumPy."""

import numpy as np
import pytest
from libraries import in_every_library
from transfers import assert_few, counted_transfers

from zonkey.metrics import per_class_accuracy

RNG = np.random.default_rng(0)
Y = np.repeat([3, 5, 7, 11], [9, 20, 1, 30])
PREDICTED = np.where(RNG.random(60) < 0.3, RNG.integers(0, 12, 60), Y)
WEIGHTS = RNG.random(60)


@in_every_library
@pytest.mark.parametrize("labels", [None, [3, 11]])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_accuracy_is_counted_where_predictions_are(library, labels, weights):
    expected = per_class_accuracy(Y, PREDICTED, labels=labels, sample_weight=weights)
    assert 0.3 < expected < 1
    placed = None if weights is None else library(weights)
    given = {"labels": labels, "sample_weight": placed}
    got = [per_class_accuracy(y, library(PREDICTED), **given) for y in (library(Y), Y, Y.tolist())]
    got.append(per_class_accuracy(library(Y.astype(np.float32)), library(PREDICTED), **given))
    got.append(per_class_accuracy(library(Y), PREDICTED, **given))
    assert got == pytest.approx([expected] * 5, rel=1e-14)


@in_every_library
def test_only_numbers_of_classes_come_to_the_host(library):
    y, predicted, weights = library(Y), library(PREDICTED), library(WEIGHTS)
    with counted_transfers() as transfers:
        per_class_accuracy(y, predicted, sample_weight=weights)
    assert_few(transfers, 4)


@in_every_library
@pytest.mark.parametrize(
    ("y", "weights", "message"),
    [
        (Y[1:], None, "one entry for each label of y_true, got 60 for 59"),
        (Y[:0], None, "one entry for each"),
        (Y.astype(str), None, "of one kind"),
        (Y, WEIGHTS[1:], r"must have shape \(60,\) as y_true, got \(59,\)"),
        (Y, -WEIGHTS, r"not negative, got values from -0\.\d+ to"),
    ],
)
def test_what_does_not_fit_is_refused(library, y, weights, message):
    given = None if weights is None else library(weights)
    with pytest.raises(ValueError, match=message):
        per_class_accuracy(y, library(PREDICTED), sample_weight=given)
