"""What errors carry, and how their parameters are renamed."""

import pickle

import pytest

import zonkey
from zonkey.datasets import DataError
from zonkey.errors import Problem


def name_as_option(name):
    return f"--{name.replace('_', '-')}"


@pytest.mark.parametrize("kind", [Problem, DataError, zonkey.StorageError])
def test_parameters_are_renamed_where_they_are_declared(kind):
    error = kind("`label_column`", "must be text", "got `label_column`", "Pass `x`.",
                 option="label_column")  # fmt: skip
    assert str(error) == "`label_column` must be text; got `label_column`. Pass `x`."
    assert (
        error.tell(name_as_option) == "--label-column must be text; got `label_column`. Pass `x`."
    )
    other = error.rename("Or none.", label_column="target")
    assert type(other) is kind
    assert str(other) == "`target` must be text; got `label_column`. Pass `x`. Or none."
    assert other.tell(name_as_option).startswith("--target must")
    again = pickle.loads(pickle.dumps(other))
    assert (str(again), again.options) == (str(other), ("target",))


def test_a_whole_message():
    error = DataError("`a` must be text; got 1. Pass `b`.", option=["a", "b"])
    assert error.tell(name_as_option) == "--a must be text; got 1. Pass --b."
    assert str(error.rename("Or c.", a="z")) == "`z` must be text; got 1. Pass `b`. Or c."
    assert str(DataError("`a` is 1.")) == DataError("`a` is 1.").tell(name_as_option) == "`a` is 1."
