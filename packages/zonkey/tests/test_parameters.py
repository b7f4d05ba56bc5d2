"""Every parameter of every estimator is refused just outside its range, and accepted inside."""

import re
from functools import partial

import numpy as np
import pytest
from parameter_cases import cases_of, undeclared

from zonkey import AnyShotClassifier, Moments, MultiLabelClassifier
from zonkey.bpl.few_shot import FewShotClassifier
from zonkey.bpl.nearest_support import NearestSupport
from zonkey.bpl.zero_shot import ZeroShotClassifier
from zonkey.encoders.image_encoder import ImageEncoder
from zonkey.encoders.text_encoder import TextEncoder
from zonkey.labels import format_value
from zonkey.parameters import check_parameters
from zonkey.preprocessing import FeatureNormalizer, WithinClassWhitener
from zonkey.testing import linear_problem

P = linear_problem()
BASE = Moments.from_arrays(P.X, P.y, P.prototypes)
# How each estimator is made, and what it learns from; None: nothing is learned from data.
KINDS = {
    ZeroShotClassifier: (partial(ZeroShotClassifier, P.prototypes), (P.X, P.y)),
    FewShotClassifier: (
        partial(FewShotClassifier, P.prototypes, base=BASE, random_state=0),
        (P.X_new[:9], P.y_new[:9]),
    ),
    NearestSupport: (NearestSupport, (P.X, P.y)),
    FeatureNormalizer: (FeatureNormalizer, (P.X, P.y)),
    WithinClassWhitener: (WithinClassWhitener, (P.X, P.y)),
    AnyShotClassifier: (partial(AnyShotClassifier, P.prototypes), None),
    MultiLabelClassifier: (partial(MultiLabelClassifier, P.prototypes), None),
    ImageEncoder: (ImageEncoder, None),
    TextEncoder: (TextEncoder, None),
}
# Checked elsewhere: data, objects, candidates, seeds.
UNDECLARED = {
    *["prototypes", "base", "candidates", "random_state", "verbose"],
    *["model", "device", "cache", "templates"],
    *["preprocessing", "prototype_transformer", "transfer", "reject_label"],
    *["class_weight", "priors"],
}
# Accepted, but learning cannot use them: numbers out of all proportion, more than there is.
UNUSABLE = {1e300, -1e300, np.int32(2)}


def cases(which):
    return [
        pytest.param(kind, name, value, id=f"{kind.__name__}-{name}-{value}")
        for kind in KINDS
        for name, value in cases_of(kind)[which]
    ]


@pytest.mark.parametrize(("kind", "name", "value"), cases(1))
def test_values_outside_the_range_are_refused_when_learning_starts(kind, name, value):
    make, data = KINDS[kind]
    estimator = make(**{name: value})  # stored as it came
    expected = f"`{name}` must be .*; got {re.escape(format_value(value))}. [A-Z]"
    with pytest.raises(ValueError, match=expected):
        estimator.fit(*(data or [["a"]]))


@pytest.mark.filterwarnings("ignore:`mu` was lowered")  # where alpha or mu is nearly 1
@pytest.mark.parametrize(("kind", "name", "value"), cases(0))
def test_values_at_the_ends_of_the_range_are_accepted(kind, name, value):
    make, data = KINDS[kind]
    estimator = make(**{name: value})
    check_parameters(estimator)
    if data is not None and value not in UNUSABLE:
        learned = estimator.fit(*data)
        values = [v for k, v in vars(learned).items() if k in ("projection_", "whitening_")]
        assert all(np.isfinite(v).all() for v in values)


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_is_declared_or_checked_elsewhere(kind):
    assert undeclared(kind) <= UNDECLARED
