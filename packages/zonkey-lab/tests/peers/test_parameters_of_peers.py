"""Every parameter of every peer is refused just outside its range, and accepted inside."""

import re

import pytest
from parameter_cases import cases_of, undeclared, values_of

from zonkey.labels import format_value
from zonkey.parameters import check_parameters, constraints_of
from zonkey.testing import linear_problem
from zonkey_lab.peers import Training, fsl, zsl

P = linear_problem()
SYSTEMS = [getattr(part, name) for part in (zsl, fsl) for name in part.__all__]
SYSTEMS = [kind for kind in SYSTEMS if hasattr(kind, "fit")]
# Checked elsewhere: data, objects, seeds, and lists with an entry for each class.
UNDECLARED = {"prototypes", "base", "candidates", "random_state", "training", "priors", "verbose"}


def refusal(name, value):
    return f"`{name}` must be .*; got {re.escape(format_value(value))}. [A-Z]"


each_system = pytest.mark.parametrize("kind", SYSTEMS)


def values_by_name(kind, which):
    """Yield parameters with values at the ends of their range (0), or just outside of it (1)."""
    known = kind().get_params()  # others are settled by the class
    return ((name, value) for name, value in cases_of(kind)[which] if name in known)


@each_system
def test_values_outside_the_range_are_refused_when_learning_starts(kind):
    for name, value in values_by_name(kind, 1):
        model = kind(**{name: value})  # stored as it came
        with pytest.raises(ValueError, match=refusal(name, value)):
            model.fit(P.X, P.y)


@each_system
def test_values_at_the_ends_of_the_range_are_accepted(kind):
    for name, value in values_by_name(kind, 0):
        check_parameters(kind(**{name: value}))


OF_TRAININGS = [
    (name, value)
    for name, constraint in constraints_of(Training).items()
    for value in (["tpu", "cuda:x", None] if name == "device" else values_of(constraint)[1])
]


@pytest.mark.parametrize(("name", "value"), [*OF_TRAININGS, ("max_iter", 0), ("max_iter", 1.5)])
def test_trainings_outside_the_range_are_refused(name, value):
    model = zsl.SJE(P.prototypes, training=Training(**{name: value}))
    with pytest.raises(ValueError, match=refusal(name, value)):
        model.fit(P.X, P.y)


def test_few_shot_systems_may_stay_untrained_but_not_for_less_than_no_epoch():
    model = fsl.PrototypicalNetwork(training=Training(max_iter=-1))
    with pytest.raises(ValueError, match=refusal("max_iter", -1)):
        model.fit(P.X, P.y)


@each_system
def test_every_parameter_is_declared_or_checked_elsewhere(kind):
    assert undeclared(kind) <= UNDECLARED
