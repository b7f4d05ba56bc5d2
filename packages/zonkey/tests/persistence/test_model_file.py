"""Model files: an exact round trip, what is refused, and files of every released schema."""

import json
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from models_to_store import (
    CODES,
    KNOWN,
    LABELS,
    LOOKS,
    MATRIX,
    MODELS,
    X_NEW,
    X,
    Y,
    any_shot,
    fitted,
)
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import PowerTransformer, StandardScaler

import zonkey
from zonkey import Moments, NearestSupport, StorageError, presets
from zonkey.model_selection import ZeroShotSearchCV
from zonkey.persistence.container import SCHEMA
from zonkey.persistence.forms import StorableClasses
from zonkey.persistence.packing import pack

FILES = Path(__file__).parent / "files"


def saved(model, path, **facts):
    zonkey.save(model, path, **facts)
    return zonkey.load(path)


def assert_same(one, other):
    """All that a file holds of two models is equal, bit by bit."""
    (node, arrays), (other_node, others) = (pack(m, StorableClasses()) for m in (one, other))
    assert node == other_node
    assert arrays.keys() == others.keys()
    for name, array in arrays.items():
        assert array.dtype == others[name].dtype
        np.testing.assert_array_equal(array, others[name], err_msg=name)


@pytest.mark.parametrize("case", MODELS)
def test_round_trip_is_exact(case, tmp_path):
    model = fitted(case)
    again = saved(model, tmp_path / "a.zonkey")
    assert_same(model, again)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.zonkey"]
    queries = np.concatenate([X, X_NEW])
    np.testing.assert_array_equal(again.predict(queries), model.predict(queries))
    scores = model.decision_function(queries)
    # Squared lengths of centers are summed anew, and torch adds up in another order.
    digits = 1e-14 if case == "tensors" else 0
    np.testing.assert_allclose(again.decision_function(queries), scores, digits, digits)
    last, other = (m[-1] if hasattr(m, "steps") else m for m in (model, again))
    np.testing.assert_array_equal(other.classes_, last.classes_)
    for name in ("seen_classes_", "unseen_classes_", "n_features_in_"):
        if hasattr(last, name):
            np.testing.assert_array_equal(getattr(other, name), getattr(last, name))
    if hasattr(model, "predict_proba"):
        P = model.predict_proba(queries)
        np.testing.assert_allclose(again.predict_proba(queries), P, digits, digits)
        assert again.best_params_.keys() == model.best_params_.keys()
    if hasattr(model, "temperature_"):
        np.testing.assert_allclose(other.temperature_, last.temperature_, digits)
        assert again.is_transductive_ == model.is_transductive_


def test_a_loaded_model_goes_on_as_the_original_does(tmp_path):
    """Also after its file was replaced."""
    path, model = tmp_path / "a.zonkey", fitted("recommended")
    again = saved(model, path)
    fitted("forward").save(path)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    changes = [
        lambda m: m.adapt(X[::2]),
        lambda m: m.with_classes({"gnu": [0.1, 0.2, 0.9, 0.4]}),
        lambda m: m.with_candidates("unseen"),
        lambda m: m.without_classes(["ass"]),
        lambda m: pickle.loads(pickle.dumps(m)),
        lambda m: m.partial_fit(X_NEW, ["yak"] * 3),
        lambda m: clone(m),
    ]
    assert again.explain(X[0]).to_dict() == model.explain(X[0]).to_dict()
    for change in changes:
        assert_same(change(model), change(again))


def test_names_of_features_and_dimensions_are_kept(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(6)])
    again = saved(any_shot().fit(frame, Y), tmp_path / "a.zonkey")
    assert again.feature_names_in_.tolist() == [*frame]
    assert again.prototypes_.dimension_names == KNOWN.dimension_names
    with pytest.raises(ValueError, match="feature names"):
        again.predict(frame[[*frame][::-1]])


def test_base_classes_are_not_stored_and_a_refit_says_so(tmp_path):
    again = saved(fitted("few-shot"), tmp_path / "a.zonkey")
    with pytest.raises(TypeError, match="`base` must be Moments, BaseClasses or None; got str"):
        again.fit(X_NEW, ["pig", "yak", "pig"])


def test_facts_are_stored_and_kept_by_the_next_file(tmp_path):
    facts = {"notes": "two\nlines", "license": "CC0", "scores": {"zsl": 0.5}, "training": {"a": 1}}
    again = saved(fitted("recommended"), tmp_path / "a.zonkey", **facts)
    again.save(tmp_path / "b.zonkey")
    info = zonkey.model_info(tmp_path / "b.zonkey")
    assert {name: info[name] for name in facts} == facts
    again.with_classes({"gnu": [0, 0, 1, 0]}).save(tmp_path / "b.zonkey", license="MIT")
    info = zonkey.model_info(tmp_path / "b.zonkey")
    kept = {"notes": facts["notes"], "license": "MIT", "training": facts["training"]}
    assert {name: info.get(name) for name in facts} == {**kept, "scores": None}
    assert info["schema"] == SCHEMA
    assert info["bytes"] == (tmp_path / "b.zonkey").stat().st_size
    assert info["versions"]["zonkey"] == zonkey.__version__
    summary = info["summary"]
    assert summary["estimator"] == "AnyShotClassifier"
    assert (summary["n_seen"], summary["n_unseen"], summary["n_features"]) == (6, 3, 6)
    assert summary["labels"] == sorted([*LABELS.tolist(), "gnu"])
    assert summary["training"]["n_samples"] == 72
    json.dumps(info)


@pytest.mark.parametrize("case", ["recommended", "reverse"])
def test_facts_about_other_training_data_are_forgotten(case, tmp_path):
    facts = {"notes": "birds", "scores": {"zsl": np.float32(0.5)}, "training": {"n": np.int64(3)}}
    again = saved(fitted(case), tmp_path / "a.zonkey", **facts)
    assert zonkey.model_info(tmp_path / "a.zonkey")["training"] == {"n": 3}
    again.fit(X[:40] * 3, Y[:40]).save(tmp_path / "b.zonkey")
    info = zonkey.model_info(tmp_path / "b.zonkey")
    assert info["notes"] == "birds"
    assert not {"scores", "training"} & {*info}


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"notes": 5}, "`notes` must be text; got '5'"),
        ({"license": b"MIT"}, "`license` must be text"),
        ({"scores": [1]}, "`scores` must be a mapping"),
        ({"scores": {"zsl": np.nan}}, "`scores` must hold finite numbers"),
        ({"training": {"X": np.eye(2)}}, "`training` must hold finite numbers, text and lists"),
    ],
)
def test_facts_that_a_file_cannot_hold_are_refused(facts, message, tmp_path):
    with pytest.raises(TypeError, match=message):
        fitted("forward").save(tmp_path / "a.zonkey", **facts)
    assert not [*tmp_path.iterdir()]


def test_noise_free_samples_give_a_model_that_loads(tmp_path):
    repeated = np.repeat(MATRIX[:6] @ LOOKS, 12, axis=0)
    for samples in (repeated, repeated.astype(np.float32)):
        model = any_shot(candidates="all").fit(samples, Y)
        again = saved(model, tmp_path / "a.zonkey")
        np.testing.assert_array_equal(again.predict_proba(X_NEW), model.predict_proba(X_NEW))


def test_big_endian_arrays_are_stored(tmp_path):
    numbers = CODES.astype(">i4")
    again = saved(NearestSupport().fit(X, numbers), tmp_path / "a.zonkey")
    np.testing.assert_array_equal(again.predict(X), CODES)


def test_links_and_modes_of_an_old_file_are_kept(tmp_path):
    path, link = tmp_path / "a.zonkey", tmp_path / "latest.zonkey"
    fitted("forward").save(path)
    path.chmod(0o600)
    link.symlink_to(path)
    fitted("nearest").save(link)
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o600
    assert isinstance(zonkey.load(path), NearestSupport)
    with pytest.raises(FileNotFoundError, match=r"The folder .*nowhere does not exist"):
        fitted("forward").save(tmp_path / "nowhere" / "a.zonkey")
    fitted("forward").save(tmp_path / ("n" * 240))


def test_a_file_that_is_overwritten_in_place_is_noticed(tmp_path):
    path = tmp_path / "a.zonkey"
    again = saved(fitted("recommended"), path)
    path.write_bytes(b"0" * 50)
    assert again.predict(X).shape == (72,)
    with pytest.raises(StorageError, match="reserve/X' was altered"):
        again.adapt(X)


def test_the_fingerprint_follows_the_training_data(tmp_path):
    prints = []
    for case, samples in (("a", X), ("b", X), ("c", X + 1e-9)):
        any_shot(kernel="linear").fit(samples, Y).save(tmp_path / case)
        prints.append(zonkey.model_info(tmp_path / case)["summary"]["training"]["fingerprint"])
    assert prints[0] == prints[1] != prints[2]


@pytest.mark.parametrize("case", ["recommended", "paper", "nearest", "numbers"])
def test_model_cards_say_what_the_model_is(case, tmp_path):
    path = tmp_path / "my birds.zonkey"
    zonkey.save(fitted(case), path, notes="Photos <b>of</b> birds.", license="CC0")
    card = zonkey.model_card(path)
    assert card.startswith("# my birds\n")
    parts = ("License: CC0", "6 features", "## Training", 'zonkey.load("my birds.zonkey")')
    for text in (*parts, "Photos", "of</b> birds."):
        assert text in card


def test_only_fitted_models_of_known_classes_are_saved(tmp_path):
    path = tmp_path / "a.zonkey"
    with pytest.raises(ValueError, match="not fitted"):
        any_shot().save(path)
    foreign = any_shot(preprocessing=PowerTransformer()).fit(X, Y)
    with pytest.raises(TypeError, match=r"A file can hold .*; got PowerTransformer\. Use"):
        foreign.save(path)
    search = ZeroShotSearchCV(presets.rpl(KNOWN), {"beta": [0.1, 1.0]}, cv=2).fit(X, Y)
    for other in (search, StandardScaler().fit(X), LogisticRegression().fit(X, Y)):
        with pytest.raises(TypeError, match=f"got {type(other).__name__}. .*`best_estimator_` of"):
            zonkey.save(other, path)
    assert not [*tmp_path.iterdir()]


# Files of every released schema load for ever: never change or remove one.


@pytest.mark.parametrize("file", sorted(FILES.glob("*.zonkey")), ids=lambda file: file.name)
def test_old_files_load(file):
    model = zonkey.load(file)
    expected = json.loads(file.with_suffix(".json").read_text("utf-8"))
    assert model.predict(np.array(expected["X"])).tolist() == expected["predicted"]
    scores = model.decision_function(np.array(expected["X"]))
    np.testing.assert_allclose(scores, expected["scores"], rtol=1e-9, atol=1e-12)


def test_attributes_and_parameters_that_old_files_lack_have_a_value():
    last = zonkey.load(FILES / "schema-1-paper.zonkey")[-1]
    assert (last.guard, last.step_size, last.n_indefinite_) == (True, 1.0, 0)
    assert np.isnan(last.moved_)
    few = zonkey.load(FILES / "schema-1-few-shot.zonkey")
    assert (few.base_samples_per_class, few.n_indefinite_, few.mu_.size) == (None, 0, 0)


def test_old_moments_load():
    moments = Moments.load(FILES / "schema-1.moments")
    np.testing.assert_allclose(moments.A0, X.T @ X)
    assert moments.unseen_labels.tolist() == ["pig", "yak"]


def test_there_is_a_file_of_the_present_schema():
    found = {int(re.match(r"schema-(\d+)", file.name)[1]) for file in FILES.glob("*.zonkey")}
    assert found == {*range(1, SCHEMA + 1)}
    assert sum(file.stat().st_size for file in FILES.iterdir()) < 500_000
