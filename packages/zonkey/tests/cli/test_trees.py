"""Trees of classes and bins, from files to answers."""

import io
import json

import numpy as np
import pandas as pd
import pytest

import zonkey
from model_files import (
    FEATURES,
    MATRIX,
    SEEN,
    TEST,
    TRAIN,
    UNSEEN,
    K,
    done,
    few_simulations,
    refused,
    samples,
    table,
    zonkey_does,
)
from zonkey import AnyShotClassifier, BinClassifier, Prototypes, app, presets
from zonkey.encoders import TextEncoder, class_texts
from zonkey.files.bins import read_bins
from zonkey.files.classes import read_prototypes
from zonkey.files.own import load_features
from zonkey.presets import pretraining

__all__ = ["few_simulations"]

LABELS = [*SEEN, *UNSEEN]
PARENTS = {label: ("left" if i % 2 else "right") for i, label in enumerate(LABELS)}
PARENTS |= {"left": "all", "seen 0": ""}
ATTRIBUTES = [f"attribute {i}" for i in range(K)]
BINS = {"a": SEEN[:3], "b": [*SEEN[2:], *UNSEEN[:2]]}  # overlap, and leave one out


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trees")
    labels = [*LABELS, "left"]
    frame = pd.DataFrame(np.vstack([MATRIX, MATRIX[:1]]), columns=ATTRIBUTES)
    frame.insert(0, "class", labels)
    frame.insert(2, "Parent", [PARENTS[label] for label in labels])
    frame.to_csv(folder / "prototypes.csv", index=False)
    table(TRAIN, 1).to_parquet(folder / "features.parquet")
    table(TEST, 2).to_csv(folder / "test.csv", index=False)
    pairs = [(label, name) for name, own in BINS.items() for label in own]
    pd.DataFrame(pairs, columns=["class", "bin"]).to_csv(folder / "bins.csv", index=False)
    done("fit", folder / "features.parquet", folder / "prototypes.csv", "-o", folder / "m.zonkey")
    return folder


def answers(*arguments):
    return pd.read_csv(io.StringIO(done("predict", *arguments)))


def test_prototypes_are_read_with_their_tree(made, tmp_path):
    known = read_prototypes(made / "prototypes.csv")
    assert known.dimension_names == tuple(ATTRIBUTES)
    assert known.tree.path("seen 1") == ("all", "left", "seen 1")
    assert known.tree.path("seen 0") == ("seen 0",)
    # "right" and "all" have no row: they have the mean of their children.
    right = [label for label in LABELS if PARENTS[label] == "right"]
    np.testing.assert_allclose(known["right"], known.subset(right).matrix.mean(axis=0))
    np.testing.assert_allclose(known["all"], known["left"])
    parents = np.array([known.tree.parents[label] or "" for label in known.labels.tolist()])
    np.savez(tmp_path / "p.npz", labels=known.labels, matrix=known.matrix, parents=parents)
    assert read_prototypes(tmp_path / "p.npz").tree == known.tree
    frame = pd.DataFrame({"label": ["x", "y"], "parent": [0, 1], "f": [2.0, 3.0]})
    frame.to_csv(tmp_path / "numbers.csv", index=False)
    numbers = read_prototypes(tmp_path / "numbers.csv")  # of numbers, it is an attribute
    assert numbers.tree is None
    assert numbers.dimension_names == ("parent", "f")


def test_files_are_checked(made):
    text = done("data", "check", made / "features.parquet", made / "prototypes.csv")
    assert f"prototypes.csv has {len(LABELS)} classes" in text  # nodes are no classes


def test_a_wrong_tree_is_refused(made, tmp_path):
    frame = pd.read_csv(made / "prototypes.csv")
    frame.loc[frame["class"] == "left", "Parent"] = "seen 1"
    frame.to_csv(tmp_path / "p.csv", index=False)
    line = refused("fit", made / "features.parquet", tmp_path / "p.csv", "-o", tmp_path / "m")
    assert "p.csv: A node of a tree must not be above itself" in line


def test_fit_is_the_library(made):
    model = zonkey.load(made / "m.zonkey")
    tree = read_prototypes(made / "prototypes.csv").tree
    given = Prototypes(LABELS, MATRIX, ATTRIBUTES, tree)
    same = AnyShotClassifier(given).fit(samples(TRAIN, 1), TRAIN)
    X = samples(TEST, 2)
    np.testing.assert_array_equal(model.predict_proba(X), same.predict_proba(X))
    assert model.tree_ == tree
    assert set(model.classes_) == {*LABELS}


def test_answers_at_a_level_and_paths(made):
    model, X = zonkey.load(made / "m.zonkey"), samples(TEST, 2)
    options = made / "m.zonkey", made / "test.csv", "--path", "--proba", "--top", "2"
    found = answers(*options, "--level", "2")
    numbered = ["top_1", "top_2", "proba_1", "proba_2"]
    assert [*found.columns] == ["id", "label", "predicted", "path", *numbered]
    assert found["predicted"].tolist() == model.predict(X, level=2).tolist()
    P = np.sort(model.predict_proba(X, level=2), axis=1)[:, ::-1]
    np.testing.assert_allclose(found[["proba_1", "proba_2"]], P[:, :2], atol=1e-6)
    assert set(found["path"]) <= {"all > left", "seen 0", *(f"right > {j}" for j in LABELS)}
    plain = answers(*options)
    assert plain["predicted"].tolist() == model.predict(X).tolist()
    assert plain["path"].str.split(" > ").map(tuple).tolist() == model.predict_path(X).tolist()
    sure = answers(*options, "--reject-below", "0.9")
    assert sure["predicted"].tolist() == model.with_rejection(0.9).predict(X).tolist()


def test_info_and_classes_show_the_tree(made):
    assert "Tree:       3 levels, 3 inner nodes\n" in done("info", made / "m.zonkey")
    summary = json.loads(done("info", made / "m.zonkey", "--json"))["summary"]
    assert summary["tree"] == {"levels": 3, "inner": 3}
    lines = done("classes", "list", made / "m.zonkey").splitlines()
    assert "seen 1\tseen\tall > left" in lines
    assert "seen 0\tseen" in lines
    rows = app.list_classes(made / "m.zonkey")
    assert next(row for row in rows if row["label"] == "unseen 0")["above"] == ["right"]


def test_new_classes_join_the_tree(made, tmp_path):
    frame = pd.DataFrame(MATRIX[:1] + 1, columns=ATTRIBUTES)
    frame.insert(0, "class", ["new"])
    frame.insert(1, "parent", ["left"])
    frame.to_csv(tmp_path / "new.csv", index=False)
    done("classes", "add", made / "m.zonkey", tmp_path / "new.csv", "-o", tmp_path / "m.zonkey")
    assert zonkey.load(tmp_path / "m.zonkey").tree_.path("new") == ("all", "left", "new")


def test_samples_may_be_labeled_at_inner_nodes(made, tmp_path):
    labels = np.where(np.arange(len(TRAIN)) % 3 == 1, [PARENTS[label] for label in TRAIN], TRAIN)
    labels = np.where(labels == "", TRAIN, labels)
    frame = table(TRAIN, 1).assign(label=labels)
    frame.to_csv(tmp_path / "x.csv", index=False)
    done("fit", tmp_path / "x.csv", made / "prototypes.csv", "-o", tmp_path / "m.zonkey")
    model = zonkey.load(tmp_path / "m.zonkey")
    assert set(model.classes_) == {*LABELS}
    assert model.score(samples(TRAIN, 5), TRAIN) > 0.9
    data = load_features(tmp_path / "x.csv", made / "prototypes.csv")
    assert {"left", "right"} <= {*data.y}
    line = refused(
        *("fit", tmp_path / "x.csv", made / "prototypes.csv", "-o", tmp_path / "n", "--chunks")
    )
    assert "must be in memory" in line


# Bins


def test_bins_are_sums_of_classes(made):
    model, X = zonkey.load(made / "m.zonkey"), samples(TEST, 2)
    P, labels = model.predict_proba(X), model.classes_.tolist()
    sums = np.array([[sum(p[labels.index(j)] for j in own) for own in BINS.values()] for p in P])
    binned = model.with_bins(BINS)
    assert binned.classes_.tolist() == ["a", "b"]
    np.testing.assert_allclose(binned.predict_proba(X), sums, rtol=1e-6)
    assert binned.predict(X).tolist() == ["ab"[i] for i in sums.argmax(axis=1)]
    rejecting = model.with_rejection(0.99, "none").with_bins(BINS).predict(X)
    np.testing.assert_array_equal(rejecting == "none", sums.max(axis=1) < 0.99)
    found = answers(made / "m.zonkey", made / "test.csv", "--bins", made / "bins.csv", "--proba")
    assert found["predicted"].tolist() == binned.predict(X).tolist()
    assert binned.set_params(bins={"c": UNSEEN}).predict_proba(X).shape == (len(X), 1)
    np.testing.assert_allclose(found["proba_1"], sums.max(axis=1), atol=1e-6)


def test_bins_are_evaluated(made, tmp_path):
    options = made / "m.zonkey", made / "test.csv", "--bins", made / "bins.csv"
    scores = json.loads(done("evaluate", *options, "--html", tmp_path / "page.html", "--json"))
    model, X = zonkey.load(made / "m.zonkey"), samples(TEST, 2)
    answered = model.with_bins(BINS).predict(X)
    inside = np.array([any(label in own for own in BINS.values()) for label in TEST])
    assert 0 < (~inside).sum() == (UNSEEN[2] == TEST).sum()
    right = [label in BINS[name] for label, name in zip(TEST, answered, strict=True)]
    assert scores["provenance"]["data"]["n_samples"] == inside.sum()
    assert scores["scores"]["hit@1_seen"] == pytest.approx(np.mean(np.array(right)[inside]))
    assert (tmp_path / "page.html").stat().st_size > 1000
    with pytest.raises(ValueError, match=r"answer every sample with a bin.* below 0\.9"):
        zonkey.evaluate(model.with_rejection(0.9).with_bins(BINS), X, np.repeat("a", len(X)))


def test_the_smallest_bin_stands_for_a_class():
    class Model(AnyShotClassifier):
        classes_ = np.array(["x", "y", "z"])

        def __sklearn_is_fitted__(self):
            return True

    binned = BinClassifier(Model(), {"big": ["x", "y"], "small": ["x"]})
    assert binned.bins_of(["x", "y", "z"]).tolist() == ["small", "big", ""]
    assert binned.bins_of(["x", "y", "z"], ["big", "small", "big"]).tolist() == ["big", "big", ""]
    assert binned.fit() is binned


def test_wrong_bins_are_refused(made, tmp_path):
    model = made / "m.zonkey", made / "test.csv"
    (tmp_path / "a.csv").write_text("class,bin\nseen 1,a\nseen 99,a\n")
    line = refused("predict", *model, "--bins", tmp_path / "a.csv")
    assert "'a' holds 'seen 99'" in line
    (tmp_path / "b.csv").write_text("class,box\nseen 1,a\n")
    line = refused("predict", *model, "--bins", tmp_path / "b.csv")
    assert "must have the columns `class` and `bin`; its columns are class, box" in line
    (tmp_path / "c.csv").write_text("class,bin\nseen 1,a\nseen 2,\n")
    assert "row 2 below the heading" in refused("predict", *model, "--bins", tmp_path / "c.csv")
    line = refused("predict", *model, "--bins", made / "bins.csv", "--level", "1")
    assert "--level must be left out with --bins" in line
    line = refused("evaluate", *model, "--bins", made / "bins.csv", "--reject-below", "0.5")
    assert "--reject-below must be left out with --bins" in line
    for command in (("predict", *model), ("classify", model[1])):
        line = refused(*command, "--bins", made / "bins.csv", "--precision", "0.9")
        assert "--precision must be left out with --bins" in line
    line = refused("predict", *model, "--bins", made / "bins.csv", "--top", "3")
    assert "at most the 2 candidates" in line
    with pytest.raises(TypeError, match="nonempty mapping"):
        _ = zonkey.load(made / "m.zonkey").with_bins({}).classes_
    assert read_bins(made / "bins.csv") == BINS


def test_a_model_without_a_tree_is_refused(made, tmp_path):
    table(TRAIN, 1).to_csv(tmp_path / "x.csv", index=False)
    pd.DataFrame(MATRIX, index=pd.Index(LABELS, name="class")).to_csv(tmp_path / "p.csv")
    done("fit", tmp_path / "x.csv", tmp_path / "p.csv", "-o", tmp_path / "m")
    for option in (("--level", "1"), ("--path",)):
        line = refused("predict", tmp_path / "m", made / "test.csv", *option)
        assert f"{option[0]} needs a tree of classes" in line
    assert FEATURES[0] in table(TRAIN, 1).columns


# Texts

ROWS = """class,description,parent
lost card,a card that is lost or stolen,card
Card,,problem
declined card,a card payment is declined,card
exchange rate,the rate of foreign currency,money
refund,money back,money
"""


@pytest.fixture
def classes(tmp_path):
    (tmp_path / "classes.csv").write_text(ROWS)
    return tmp_path / "classes.csv"


def test_texts_of_classes_have_parents(classes, tmp_path):
    found = class_texts(classes)
    assert found.parents["lost card"] == "Card"  # spelled as its row
    assert found.texts[found.labels.tolist().index("refund")] == ["refund", "refund: money back"]
    (tmp_path / "two.csv").write_text("class,parent\na,x\na,\nb,x\n")
    assert class_texts(tmp_path / "two.csv").parents == {"a": "x", "b": "x"}
    (tmp_path / "spelled.csv").write_text("class,parent\na,Big x\nb,big_x\na,big x\n")
    assert class_texts(tmp_path / "spelled.csv").parents == {"a": "Big x", "b": "Big x"}
    (tmp_path / "odd.csv").write_text("class,parent\na,x\na,y\nb,x\n")
    with pytest.raises(zonkey.errors.DataError, match="one parent; 'a' has 'x' and 'y' in odd"):
        class_texts(tmp_path / "odd.csv")
    frame = pd.read_csv(classes)
    assert class_texts(frame).parents == found.parents
    assert class_texts("a, b").parents is None


def test_texts_are_classified_in_a_tree(classes, tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    monkeypatch.setenv("ZONKEY_CACHE", str(tmp_path / "cache"))
    prototypes = TextEncoder().prototypes(classes)
    assert prototypes.tree.path("lost card") == ("problem", "Card", "lost card")
    np.testing.assert_allclose(prototypes["problem"], prototypes["Card"])
    said = ["somebody stole my card", "how many dollars for one euro", "I was declined"]
    pd.DataFrame({"text": said}).to_csv(tmp_path / "said.csv", index=False)
    options = tmp_path / "said.csv", "--classes", classes, "--encoder", "minilm-l6"
    found = zonkey_does("classify", *options, "--level", "1", "--path")
    assert found.exit_code == 0, found.output
    frame = pd.read_csv(io.StringIO(found.stdout))
    assert frame["predicted"].tolist() == ["problem", "money", "problem"]
    assert frame["path"].tolist() == ["problem", "money", "problem"]
    (tmp_path / "bins.csv").write_text("class,bin\nlost card,urgent\ndeclined card,urgent\n")
    for below, expected in ((0.0, {"urgent"}), (1.0, {"unknown"})):  # also where bins answer
        limits = {"bins": tmp_path / "bins.csv", "reject_below": below}
        binned = app.classify(tmp_path / "said.csv", classes, encoder="minilm-l6", **limits)
        assert {*binned.answers["predicted"]} == expected
    labeled = pd.DataFrame({"text": said, "label": ["lost card", "refund", "declined card"]})
    labeled.to_csv(tmp_path / "labeled.csv", index=False)
    binned = app.classify(
        tmp_path / "labeled.csv", classes, encoder="minilm-l6", bins=limits["bins"]
    )
    assert (binned.labeled, binned.agreeing) == (2, 2)  # "refund" is in no bin
    written = tmp_path / "p.csv"
    done("embed", classes, "--classes", "-o", written)
    assert read_prototypes(written).tree == prototypes.tree
    done("embed", classes, "--classes", "-o", tmp_path / "p.npz")
    assert read_prototypes(tmp_path / "p.npz").tree == prototypes.tree


def test_pictures_are_classified_in_the_tree_of_wordnet(tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    image = pytest.importorskip("PIL.Image")
    monkeypatch.setenv("ZONKEY_CACHE", str(tmp_path / "cache"))
    whole = pretraining._base("efficientnet-lite0")
    small = whole.without(np.flatnonzero(np.arange(whole.n_leaves) % 32))
    monkeypatch.setattr(pretraining, "_base", {"efficientnet-lite0": small}.__getitem__)
    image.new("RGB", (64, 64), "red").save(tmp_path / "red.png")
    found = zonkey_does("classify", tmp_path / "red.png", "--level", "2", "--path", "--proba")
    assert found.exit_code == 0, found.output
    frame = pd.read_csv(io.StringIO(found.stdout))
    tree = presets.imagenet_tree()
    assert frame["predicted"][0] in tree.at_level(2)
    assert frame["path"][0] == " > ".join(tree.path(frame["predicted"][0]))
    assert 0 < frame["proba_1"][0] <= 1
