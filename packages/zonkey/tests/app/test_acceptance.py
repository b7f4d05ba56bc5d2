"""A wanted precision of files: shown by held-out rows, or by those that `fit` left out."""

import json

import numpy as np
import pandas as pd
import pytest
from refusals import refusal

import zonkey
from model_files import zonkey_does
from zonkey import app
from zonkey.errors import Problem

RNG = np.random.default_rng(2)
MEANS = 1.5 * RNG.normal(size=(6, 5))
LABELS = np.array(["ant", "bee", "cow", "dog", "elk", "fox"])


def write(path, n):
    codes = np.repeat(np.arange(6), n)
    X = MEANS[codes] + RNG.normal(size=(len(codes), 5))
    frame = pd.DataFrame(X.astype(np.float32), columns=[f"f{i}" for i in range(5)])
    frame.insert(0, "label", LABELS[codes])
    frame.to_csv(path, index=False)
    return X.astype(np.float32), LABELS[codes]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("acceptance")
    for name, n in (("train", 30), ("held", 60), ("test", 100)):
        write(folder / f"{name}.csv", n)
    app.fit(folder / "train.csv", None, output=folder / "m.zonkey")
    return folder


def read(path):
    frame = pd.read_csv(path)
    return frame.drop(columns="label").to_numpy(np.float32), frame["label"].to_numpy(str)


@pytest.mark.parametrize("held_out", [None, "held.csv"])
def test_predictions_have_the_precision(made, tmp_path, held_out):
    given = {} if held_out is None else {"held_out": made / held_out}
    found = app.predict(made / "m.zonkey", made / "test.csv", precision=0.9, **given)
    model = zonkey.load(made / "m.zonkey")
    labeled = () if held_out is None else read(made / held_out)
    expected = model.with_precision(0.9, *labeled)
    assert found.precision == expected.precision_
    X, y = read(made / "test.csv")
    answers = np.array(found.answers["predicted"])
    assert answers.tolist() == expected.predict(X).tolist()
    accepted = answers != "unknown"
    assert np.mean(answers[accepted] == y[accepted]) > 0.87
    assert abs(accepted.mean() - found.precision.coverage) < 0.12
    plain = app.predict(made / "m.zonkey", made / "test.csv")
    assert plain.precision is None
    page = tmp_path / "page.html"
    result = app.evaluate(made / "m.zonkey", made / "test.csv", page, precision=0.9, **given)
    assert result.scores["rejected_seen"] == pytest.approx(1 - accepted.mean())
    (note,) = result.models[0].notes
    assert str(expected.precision_) in note
    assert note in result.summary()
    assert note in page.read_text("utf-8")


def test_what_is_refused(made):
    both = made / "m.zonkey", made / "test.csv"
    calls = {
        "takes the place of `reject_below`": {"precision": 0.9, "reject_below": 0.5},
        "`held_out` shows a `precision`; got none": {"held_out": made / "held.csv"},
        "`precision` must be between 0 and 1; got 95": {"precision": 95},
        "cannot be shown with these 180 samples": {"precision": 0.9999},
    }
    for expected, options in calls.items():
        for command in (app.predict, app.evaluate):
            assert expected in refusal(command, *both, error=Problem, **options)
    told = refusal(app.predict, *both, error=Problem, precision=0.9, candidates="ant,bee")
    assert "among 6 classes, not 2" in told
    assert "`held_out`" in told


def test_commands_say_what_was_chosen(made, tmp_path):
    options = "--precision", "0.9", "--held-out", made / "held.csv"
    done = zonkey_does("predict", made / "m.zonkey", made / "test.csv", *options)
    assert done.exit_code == 0, done.output
    assert "Answers are accepted from 0." in done.stderr
    assert "of 360 samples" in done.stderr
    output = tmp_path / "a.csv"
    done = zonkey_does(
        "predict", made / "m.zonkey", made / "test.csv", *options, "-o", output, "--json"
    )
    record = json.loads(done.stdout)
    assert record["precision"]["wanted"] == 0.9
    assert record["precision"]["n_samples"] == 360
    done = zonkey_does("predict", made / "m.zonkey", made / "test.csv", *options[2:])
    assert done.exit_code == 2
    assert "--held-out shows a --precision" in done.stderr
    done = zonkey_does("evaluate", made / "m.zonkey", made / "test.csv", *options[:2])
    assert "to reach 90 %" in done.stdout
