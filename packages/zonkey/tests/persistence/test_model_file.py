"""Model files: an exact round trip, and one clear line for every damaged file."""

import copy
import json
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, PowerTransformer, StandardScaler

import zonkey
from zonkey import (
    AnyShotClassifier,
    FewShotClassifier,
    Moments,
    NearestSupport,
    Prototypes,
    StorageError,
    ZeroShotClassifier,
    presets,
)
from zonkey.model_selection import ZeroShotSearchCV
from zonkey.persistence.container import SCHEMA, write_arrays
from zonkey.persistence.forms import StorableClasses
from zonkey.persistence.packing import pack

FILES = Path(__file__).parent / "files"
LABELS = np.array(["ass", "cat", "emu", "fox", "hen", "owl", "pig", "yak"])
RNG = np.random.default_rng(0)
MATRIX = RNG.uniform(size=(8, 4))
LOOKS = RNG.normal(size=(4, 6))
CODES = np.repeat(np.arange(6), 12)  # pig and yak are unseen
X = MATRIX[CODES] @ LOOKS + RNG.normal(size=(72, 6)) / 2
Y = LABELS[CODES]
X_NEW = MATRIX[[6, 7, 6]] @ LOOKS + RNG.normal(size=(3, 6)) / 2
KNOWN = Prototypes(LABELS, MATRIX, ["stripes", "mane", "beak", "horns"])
BY_NUMBER = dict(enumerate(MATRIX))


def any_shot(**parameters):
    return AnyShotClassifier(parameters.pop("prototypes", KNOWN), **parameters)


def base_classes():
    return Moments.from_arrays(X, Y, KNOWN)


MODELS = {
    "recommended": lambda: presets.recommended(KNOWN, candidates="all").fit(X, Y),
    "numbers": lambda: any_shot(prototypes=BY_NUMBER, random_state=3).fit(X, CODES),
    "no prototypes": lambda: any_shot(prototypes=None).fit(X, Y),
    "fixed": lambda: any_shot(
        preprocessing=None,
        prototype_transformer=StandardScaler(),
        kernel="poly",
        gamma=0.3,
        ridge=0.2,
        worth=2.5,
        n_shots=2,
        seen_penalty=0.1,
        temperature=0.7,
        adapt_temperature=0.1,
        adapt_weight=0.5,
        random_state=np.random.RandomState(0),
        candidates=["pig", "yak", "ass"],
    ).fit(X, Y),
    "scikit-learn's steps": lambda: any_shot(
        preprocessing=make_pipeline(StandardScaler(), PCA(4), Normalizer())
    ).fit(X, Y),
    "frozen step": lambda: any_shot(
        preprocessing=FrozenEstimator(StandardScaler().fit(X)), reject_below=0.4, candidates="all"
    ).fit(X, Y),
    "transferred": lambda: (
        any_shot(transfer=True, worth="shots", temperature=0.7, adapt_weight=0.5)
        .fit(X, Y)
        .partial_fit(np.repeat(X_NEW, 2, axis=0), np.repeat(["yak", "pig", "gnu"], 2))
    ),
    "precomputed": lambda: any_shot(
        prototypes=Prototypes(LABELS, MATRIX @ MATRIX.T), kernel="precomputed"
    ).fit(X, Y),
    "float32": lambda: any_shot().fit(X.astype(np.float32), Y),
    "more samples": lambda: any_shot().fit(X, Y).partial_fit(X_NEW, ["yak", "pig", "gnu"]),
    "validation": lambda: any_shot().fit(X[:48], Y[:48], validation=(X[48:], Y[48:])),
    "more classes": lambda: any_shot().fit(X, Y).with_classes({"gnu": [0, 0.1, 0.2, 0.3]}),
    "fewer classes": lambda: any_shot().fit(X, Y).without_classes(["ass", "pig"]),
    "adapted": lambda: any_shot(candidates="all").fit(X, Y).adapt(X[::3] + 0.1),
    "tensors": lambda: any_shot(prototypes=BY_NUMBER).fit(
        torch.from_numpy(X), torch.from_numpy(CODES)
    ),
    "paper": lambda: presets.paper(KNOWN, candidates="all", random_state=0).fit(X, Y),
    "forward": lambda: ZeroShotClassifier(KNOWN, direction="forward", seen_penalty=0.3).fit(X, Y),
    "reverse": lambda: presets.rpl(KNOWN, candidates=("pig", "yak")).fit(X, Y),
    "one-hot": lambda: ZeroShotClassifier().fit(X, Y),
    "few-shot": lambda: FewShotClassifier(KNOWN, base=base_classes(), random_state=0).fit(
        X_NEW, ["pig", "yak", "pig"]
    ),
    "nearest": lambda: NearestSupport().fit(X, Y),
    "in a pipeline": lambda: make_pipeline(Normalizer(), ZeroShotClassifier(KNOWN)).fit(X, Y),
}
_fitted = {}


def fitted(case):
    if case not in _fitted:
        _fitted[case] = MODELS[case]()
    return copy.deepcopy(_fitted[case])


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
    for name in ("seen_classes_", "unseen_classes_", "n_features_in_", "temperature_"):
        if hasattr(last, name):
            np.testing.assert_array_equal(getattr(other, name), getattr(last, name))
    if hasattr(model, "predict_proba"):
        P = model.predict_proba(queries)
        np.testing.assert_allclose(again.predict_proba(queries), P, digits, digits)
        assert again.best_params_.keys() == model.best_params_.keys()
        assert again.is_transductive_ == model.is_transductive_


def test_a_loaded_model_goes_on_as_the_original_does(tmp_path):
    model = fitted("recommended")
    again = saved(model, tmp_path / "a.zonkey")
    new = {"gnu": [0.1, 0.2, 0.9, 0.4]}
    pairs = [
        (
            m.adapt(X[::2]),
            m.with_classes(new),
            m.with_candidates("unseen"),
            m.without_classes(["ass"]),
        )
        for m in (model, again)
    ]
    for one, other in zip(*pairs, strict=True):
        assert_same(one, other)
    assert again.explain(X[0]).to_dict() == model.explain(X[0]).to_dict()
    assert_same(model.partial_fit(X_NEW, ["yak"] * 3), again.partial_fit(X_NEW, ["yak"] * 3))
    assert_same(clone(model).fit(X, Y), clone(again).fit(X, Y))
    assert_same(pickle.loads(pickle.dumps(again)), again)


def test_loading_does_not_change_later_with_the_file(tmp_path):
    path = tmp_path / "a.zonkey"
    again = saved(fitted("recommended"), path)
    expected = again.predict_proba(X)
    fitted("forward").save(path)  # replaced while `again` is in use
    np.testing.assert_array_equal(again.predict_proba(X), expected)
    assert_same(again.adapt(X[::2]), fitted("recommended").adapt(X[::2]))


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


# Damaged files. Each is refused in one line that names it.


def refused(path, message):
    with pytest.raises(StorageError, match=message) as error:
        zonkey.load(path)
    text = str(error.value)
    assert text.startswith(path.name)
    assert "\n" not in text


@pytest.fixture
def path(tmp_path):
    zonkey.save(fitted("adapted"), tmp_path / "a.zonkey")
    return tmp_path / "a.zonkey"


@pytest.mark.parametrize("share", [0.0, 0.001, 0.01, 0.3, 0.9, 0.9999])
def test_a_truncated_file_is_refused(share, path):
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    refused(path, "cut short|that zonkey has saved")


def test_bytes_at_the_end_are_refused(path):
    path.write_bytes(path.read_bytes() + b"0")
    refused(path, "1 bytes follow")


def test_any_flipped_bit_is_noticed(path):
    content = path.read_bytes()
    for position in np.linspace(0, len(content) - 1, 150).astype(int):
        path.write_bytes(
            content[:position] + bytes([content[position] ^ 0x10]) + content[position + 1 :]
        )
        with pytest.raises(StorageError) as error:
            zonkey.load(path).adapt(X)  # the reserved samples are checked when they are read
        assert "\n" not in str(error.value)


def test_a_newer_file_is_refused(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("zonkey.persistence.container.SCHEMA", SCHEMA + 1)
        zonkey.save(fitted("forward"), tmp_path / "a.zonkey")
    refused(tmp_path / "a.zonkey", f"newer zonkey, with schema {SCHEMA + 1}; this version reads up")


def test_files_of_something_else_are_refused(tmp_path):
    path = tmp_path / "a.zonkey"
    path.write_bytes(pickle.dumps(fitted("nearest")))
    refused(path, "must be a file that zonkey has saved")
    save_file({"x": np.eye(3)}, path)
    refused(path, "must be a file that zonkey has saved")
    save_file({"x": np.eye(3)}, path, {"zonkey": "[]", "zonkey_sha256": "0"})
    refused(path, "its header was altered")
    base_classes().save(path)
    refused(path, "must hold model; it holds 'moments'")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        zonkey.load(tmp_path / "b.zonkey")
    with pytest.raises(StorageError, match="it is a folder"):
        zonkey.load(tmp_path)
    for odd in (path / "b", "a\0b"):
        with pytest.raises(StorageError, match="cannot be read"):
            zonkey.load(odd)


def header_of(path):
    with safe_open(path, "numpy") as file:
        return json.loads(file.metadata()["zonkey"])


@pytest.mark.parametrize("content", [5, "x", [1], None, {"$": "dict", "parts": {}}])
def test_content_that_is_no_classifier_is_refused(content, path):
    rewritten(path, unchanged, content=content)
    refused(path, "must hold a fitted classifier|cannot be loaded")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"summary": {}}, "incomplete header"),
        ({"versions": 3}, "must have the entry 'versions'"),
        ({"notes": 5}, "`notes` must be text"),
        ({"scores": [1]}, "`scores` must be a mapping"),
    ],
)
def test_headers_in_another_form_are_refused(change, message, path):
    rewritten(path, unchanged, **change)
    refused(path, message)
    with pytest.raises(StorageError, match=message):
        zonkey.model_card(path)


@pytest.mark.parametrize(
    "entry",
    [
        {"shape": [0, 10**30]},
        {"shape": [-1, -8]},
        {"shape": [8.0]},
        {"shape": [True]},
        {"shape": {"8": 1}},
        {"shape": [1] * 101},
        {"data_offsets": [0.0, 8.0]},
        {"data_offsets": [8, 0]},
        {"dtype": "F7"},
    ],
)
def test_tables_of_arrays_in_another_form_are_refused(entry, path):
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    outer = json.loads(content[8 : 8 + length])
    name = next(name for name in outer if name.endswith("counts"))
    outer[name] |= entry
    text = json.dumps(outer).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + length :])
    refused(path, "table of arrays was altered")


def test_text_of_a_file_is_shortened_in_messages(path):
    header = header_of(path)
    kind = "a\nb\x1b[31m" + "x" * 10**6
    arrays = load_file(path)
    del header["checksums"], header["schema"], header["kind"]
    write_arrays(path, kind, header, arrays)
    with pytest.raises(StorageError, match="must hold model; it holds") as error:
        zonkey.load(path)
    assert len(str(error.value)) < 250
    assert str(error.value).isprintable()


def rewritten(path, change, **entries):
    """Write the file again with right checksums, after a change of its content and arrays."""
    arrays, header = load_file(path), header_of(path)
    change(header["content"], arrays)
    header |= entries
    del header["checksums"], header["schema"]
    write_arrays(path, header.pop("kind"), header, arrays)


def unchanged(node, arrays):
    """Leave content and arrays as they are."""


def with_array(name, new):
    def change(_, arrays):
        (found,) = [key for key in arrays if key.endswith(name)]
        arrays[found] = new(arrays[found])

    return change


def with_part(where, value):
    def change(node, _):
        *before, last = where.split("/")
        for name in before:
            node = node["parts"][name]
        if value is None:
            del node["parts"][last]
        else:
            node["parts"][last] = value

    return change


def first_nan(array):
    array = array.copy()
    array.flat[0] = np.nan
    return array


CONTRADICTIONS = {
    "NaN": (
        with_array("evidence/sums", first_nan),
        "'state/_state/evidence/sums' has NaN or infinity",
    ),
    "infinity": (with_array("whitening_", lambda W: W + np.inf), "has NaN or infinity"),
    "sums": (with_array("evidence/sums", lambda S: S[:, 1:]), "must have the shape 8 x 5"),
    "rows": (with_array("evidence/sums", lambda S: S[1:]), "must have the shape 8 x any"),
    "type": (with_array("evidence/sums", lambda S: S > 0), "has the wrong type, bool"),
    "counts": (with_array("evidence/counts", lambda n: -n), "contradict each other"),
    "no counts": (with_array("evidence/counts", lambda n: 0 * n), "contradict each other"),
    "squares": (with_array("evidence/squares", lambda n: n / 100), "contradict each other"),
    "described": (with_array("is_described", lambda b: ~b), "must have a prototype each"),
    "centers": (with_array("_state/centers", lambda C: C[:2]), "must have the shape 8 x"),
    "whitening": (with_array("whitening_", lambda W: W[:3]), "'whitening_' must have the shape"),
    "reserve": (with_array("/reserve/X", lambda M: M[:, 1:]), "differ in width"),
    "bounds": (with_array("/reserve/bounds", lambda b: b[::-1].copy()), "bounds of the reserved"),
    "offsets": (with_array("adapted/offsets", lambda b: b[1:]), "must have the shape"),
    "prototypes": (with_array("prototypes/matrix", lambda Y: Y[1:]), "got 8 labels and 7 rows"),
    "no centers": (with_part("state/_state/centers", None), "'centers' has the wrong type"),
    "no ridge": (with_part("state/_state/regression/ridge", None), "ridge"),
    "negative worth": (
        with_part("state/_state/choice/worth", -1.0),
        "must be a number of at least 0; got '-1.0'",
    ),
    "foreign class": (
        with_part("state/_state/evidence", {"$": "os.system", "parts": {}}),
        "'os.system'",
    ),
    "temperature": (with_part("state/_state/settings/temperature", "hot"), "contradict|must be"),
    "temperatures": (
        with_part("state/_state/choice/temperatures/new", False),
        "'new' must be a number",
    ),
    "rejection": (
        with_part("state/_state/settings/rejection/below", "x"),
        "'reject_below' must be a number",
    ),
    "settings": (with_part("state/_state/settings", 0.5), "contradict each other"),
    "huge centers": (with_array("adapted/centers", lambda C: 1e300 * C), "must be finite"),
    "unfitted": (with_part("state", {"$": "dict", "parts": {}}), "AnyShotClassifier needs"),
    "float16": (
        with_array("_state/centers", lambda C: first_nan(C).astype(np.float16)),
        "has NaN or infinity",
    ),
    "features": (with_part("state/n_features_in_", 1.5), "number of features must be positive"),
    "wide text": (
        with_part(
            "state/_state/evidence/labels", {"$": "text", "values": ["x" * 10**6, *"abcdefg" * 99]}
        ),
        "must be of similar lengths",
    ),
    "foreign name": (with_part("state/score", 3), "has no attribute"),
    "parameter": (with_part("parameters/nonsense", 3), "nonsense"),
    "labels": (
        with_part(
            "state/_state/evidence/labels", {"$": "text", "values": [*LABELS[::-1].tolist()]}
        ),
        "must be sorted and distinct",
    ),
    "text": (
        with_part("state/_state/evidence/labels", {"$": "text", "values": [1, 2]}),
        "must be a list of strings",
    ),
    "array": (with_part("state/_state/centers", {"$": "array", "name": "no"}), "'no' is missing"),
}


@pytest.mark.parametrize("case", CONTRADICTIONS)
def test_parts_that_contradict_each_other_are_refused(case, path):
    change, message = CONTRADICTIONS[case]
    rewritten(path, change)
    refused(path, message)


def projections():
    return {
        "projection": (with_array("projection_", lambda W: W[1:]), "must have the shape"),
        "scores": (with_array("form/centers", lambda C: C[:1]), "must have the shape"),
        "width": (with_array("form/centers", lambda C: C[:, 1:]), "as wide as the features"),
        "seen": (
            with_part("state/_scorer/seen", {"$": "text", "values": ["gnu"]}),
            "needs a prototype",
        ),
        "candidates": (
            with_part("state/_scorer/labels", {"$": "text", "values": ["ass", "cat"]}),
            "must be the same classes",
        ),
        "no scores": (with_part("state/_scorer/form", None), "missing"),
    }


def scaled(scaler):
    return make_pipeline(scaler, NearestSupport())


def with_state(name, value):
    """Change an attribute of the first step of a pipeline, or remove it if None."""

    def change(node, _):
        state = node["parts"]["steps"][0][1]["parts"]["state"]["parts"]
        state.pop(name)
        if value is not None:
            state[name] = value

    return change


STEPS = {
    "mean": (with_array("mean_", lambda m: m[:1]), "'mean_' must have the shape"),
    "scale": (with_array("scale_", lambda s: 0 * s), "must not be zero"),
    "n": (with_state("n_features_in_", 3), "must have the shape|do not fit"),
    "missing": (with_state("scale_", None), "StandardScaler needs"),
}


@pytest.mark.parametrize("case", STEPS)
def test_steps_that_do_not_fit_are_refused(case, tmp_path):
    zonkey.save(scaled(StandardScaler()).fit(X, Y), tmp_path / "a.zonkey")
    change, message = STEPS[case]
    rewritten(tmp_path / "a.zonkey", change)
    refused(tmp_path / "a.zonkey", message)


@pytest.mark.parametrize("case", projections())
def test_projections_that_contradict_their_classes_are_refused(case, tmp_path):
    fitted("reverse").save(tmp_path / "a.zonkey")
    change, message = projections()[case]
    rewritten(tmp_path / "a.zonkey", change)
    refused(tmp_path / "a.zonkey", message)


def test_references_that_contradict_their_classes_are_refused(tmp_path):
    fitted("nearest").save(tmp_path / "a.zonkey")
    rewritten(tmp_path / "a.zonkey", with_array("reference_codes_", lambda codes: 0 * codes))
    refused(tmp_path / "a.zonkey", "Every class needs a reference")


def test_nothing_is_unpickled_or_imported(path, monkeypatch):
    def fail(*args, **options):
        raise AssertionError("unpickled")

    monkeypatch.setattr(pickle, "loads", fail)
    monkeypatch.setattr(pickle, "load", fail)
    monkeypatch.setattr(pickle, "Unpickler", fail)
    assert zonkey.load(path).predict(X).shape == (72,)


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
