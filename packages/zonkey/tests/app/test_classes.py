"""Classes of a model file: listed, added and removed, by one process at a time."""

import json
import shutil
import time
from threading import Thread

import numpy as np
import pandas as pd
import pytest

import zonkey
from model_files import (
    FEATURES,
    MATRIX,
    N_SEEN,
    N_UNSEEN,
    RNG,
    SEEN,
    TEST,
    UNSEEN,
    K,
    files,
    samples,
    table,
)
from zonkey import app
from zonkey.app import models
from zonkey.errors import Problem

__all__ = ["files"]


@pytest.fixture
def model(files, tmp_path):
    return shutil.copy(files / "model.zonkey", tmp_path / "m.zonkey")


def shots(folder, label):
    frame = table(UNSEEN[:1] * 3, 6).assign(label=label)
    frame.to_csv(folder / f"{label}.csv", index=False)
    return folder / f"{label}.csv"


def test_two_additions_at_once(model, tmp_path, monkeypatch):
    """The second waits for the first, and no class is lost."""
    load = models.LoadedModel.load

    def load_slowly(*arguments, **options):
        loaded = load(*arguments, **options)
        time.sleep(0.1)  # both would have read the same file
        return loaded

    monkeypatch.setattr(models.LoadedModel, "load", load_slowly)
    sources = [shots(tmp_path, label) for label in ("okapi", "quagga", "kudu")]
    threads = [Thread(target=app.add_classes, args=(model, None, source)) for source in sources]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    labels = [row["label"] for row in app.list_classes(model)]
    assert labels == sorted([*SEEN, *UNSEEN, "okapi", "quagga", "kudu"])
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".csv"] * 3 + [".zonkey"]


def test_classes_in_another_spelling_are_joined(model, tmp_path):
    changed = app.add_classes(model, None, shots(tmp_path, "SEEN_1"))
    assert (changed.joined, changed.added) == ({"SEEN_1": "seen 1"}, [])
    assert changed.learned == {"seen 1": 3}
    assert len(app.list_classes(model)) == len([*SEEN, *UNSEEN])


def test_a_spelling_of_two_classes_is_refused(model, tmp_path):
    app.add_classes(model, None, shots(tmp_path, "okapi"))
    loaded = zonkey.load(model)
    loaded.partial_fit(np.zeros((2, len(FEATURES))), ["Okapi", "Okapi"]).save(model)
    with pytest.raises(Problem, match="'OKAPI' may be 'Okapi' or 'okapi'"):
        app.add_classes(model, None, shots(tmp_path, "OKAPI"))


NEW = {"new 1": RNG.normal(size=K).tolist(), "new 2": RNG.normal(size=K).tolist()}


@pytest.mark.parametrize("name", ["model", "paper"])
def test_prototypes(files, tmp_path, name):
    (tmp_path / "p.json").write_text(json.dumps({**NEW, SEEN[1]: MATRIX[1].tolist()}))
    output, path = tmp_path / "m.zonkey", files / f"{name}.zonkey"
    changed = app.add_classes(path, tmp_path / "p.json", output=output)
    n = N_SEEN + N_UNSEEN + 2
    assert (changed.added, changed.classes) == ([*NEW], n)
    assert changed.candidates == (n if name == "paper" else N_UNSEEN + 2)
    model, old = zonkey.load(output), zonkey.load(path)
    X = samples(TEST, 2)
    new = zonkey.Prototypes([*NEW], [*NEW.values()])
    if name == "model":
        same = old.with_classes(new)
    else:
        same, model, X = old[-1].with_classes(new.normalized()), model[-1], old[:-1].transform(X)
    np.testing.assert_array_equal(model.decision_function(X), same.decision_function(X))
    assert zonkey.model_info(output)["training"]["features"] == "features.parquet"


def test_samples(files, model, tmp_path):
    frame = table(UNSEEN[:1] * 3, 6).assign(label=["okapi", None, "okapi"])
    frame.to_csv(tmp_path / "shots.csv", index=False)
    assert app.add_classes(model, None, tmp_path / "shots.csv").added == ["okapi"]
    rows = {row["label"]: row for row in app.list_classes(model)}
    assert rows["okapi"] == {"label": "okapi", "kind": "seen", "candidate": True}
    X = frame[FEATURES].to_numpy()[[0, 2]]
    same = zonkey.load(files / "model.zonkey").partial_fit(X, ["okapi", "okapi"])
    np.testing.assert_allclose(zonkey.load(model).predict_proba(X), same.predict_proba(X))


def test_columns_of_prototypes_are_known_by_name(model, tmp_path):
    columns, path = [f"attribute {i}" for i in range(K)], tmp_path / "p.csv"
    new = pd.DataFrame([NEW["new 1"]], index=pd.Index(["new 1"], name="class"), columns=columns)
    found = []
    for names in (columns, columns[::-1]):
        new[names].to_csv(path)
        app.add_classes(model, path, output=tmp_path / "m")
        found.append(zonkey.load(tmp_path / "m").decision_function(samples(TEST, 2)))
    np.testing.assert_array_equal(*found)
    for other, said in {
        "missing": "p.csv must have the columns of the known prototypes; 'attribute 3' is",
        "extra": "it also has 'mane'",
    }.items():
        renamed = new.rename(columns={"attribute 3": "mane"})
        (renamed if other == "missing" else new.assign(mane=1)).to_csv(path)
        with pytest.raises(Problem, match=said):
            app.add_classes(model, path)


def test_removed(model, tmp_path):
    changed = app.remove_classes(model, ["seen 1"], tmp_path / "other.zonkey")
    assert (changed.removed, changed.classes) == (["seen 1"], len([*SEEN, *UNSEEN]) - 1)
    assert "seen 1" in [row["label"] for row in app.list_classes(model)]
