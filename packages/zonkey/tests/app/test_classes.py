"""Classes of a model file: listed, added and removed, by one process at a time."""

import shutil
import time
from threading import Thread

import numpy as np
import pytest

import zonkey
from model_files import FEATURES, SEEN, UNSEEN, files, table
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
        time.sleep(0.3)  # both would have read the same file
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


def test_removed(model, tmp_path):
    changed = app.remove_classes(model, ["seen 1"], tmp_path / "other.zonkey")
    assert (changed.removed, changed.classes) == (["seen 1"], len([*SEEN, *UNSEEN]) - 1)
    assert "seen 1" in [row["label"] for row in app.list_classes(model)]
