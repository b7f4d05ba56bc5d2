import json
import re
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest
import torch
from refusals import refusal

from zonkey import Prototypes
from zonkey.files.check import check_files
from zonkey.files.classes import read_prototypes, read_rows
from zonkey.files.own import load_features
from zonkey.files.streams import FeatureStream

RNG = np.random.default_rng(0)
CLASSES = ["01", "ass", "horse", "NA", "zebra"]
Y = np.array(CLASSES[:4] * 6)
X = RNG.normal(size=(24, 3)) / 3
MATRIX = RNG.normal(size=(5, 2)) / 3


def read_table(path, label_column=None):
    return read_rows(FeatureStream(path, label_column=label_column))


def features_frame(X=X, y=Y):
    frame = pd.DataFrame(X, columns=["f1", "f2", "f3"])
    frame.insert(1, "label", y)
    return frame


def prototypes_frame():
    return pd.DataFrame(MATRIX, columns=["stripes", "size"]).assign(name=CLASSES)


def write_features(path):
    """Write the features in the format of the ending."""
    if path.suffix == ".parquet":
        features_frame().to_parquet(path)
    elif path.suffix in (".csv", ".tsv"):
        features_frame().to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    elif path.suffix == ".npz":
        np.savez(path, X=X, y=Y)
    elif path.suffix == ".h5":
        with h5py.File(path, "w") as file:
            file["features"], file["labels"] = X, Y.tolist()
    elif path.suffix == ".pt":
        torch.save({"features": torch.tensor(X), "labels": Y.tolist()}, path)
    else:
        np.save(path, X)
        path.with_suffix(".txt").write_text("\n".join(Y))
        return {"labels": path.with_suffix(".txt")}
    return {}


def write_prototypes(path):
    if path.suffix == ".parquet":
        prototypes_frame().to_parquet(path)
    elif path.suffix == ".npz":
        np.savez(path, prototypes=MATRIX, labels=CLASSES)
    elif path.suffix == ".json":
        vectors = zip(CLASSES, MATRIX.tolist(), strict=True)
        path.write_text(json.dumps(dict(vectors)))
    else:
        prototypes_frame().to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    return path


@pytest.fixture
def files(tmp_path):
    """Features and prototypes as tables, which tests then change."""
    write_features(tmp_path / "animals.csv")
    write_prototypes(tmp_path / "words.csv")
    return tmp_path / "animals.csv", tmp_path / "words.csv"


FORMATS = [".csv", ".tsv", ".parquet", ".npz", ".npy", ".h5", ".pt"]


# Every format of features and every one of prototypes
PAIRS = [*zip(FORMATS, [".csv", ".tsv", ".parquet", ".npz", ".json", ".csv", ".npz"], strict=True)]


@pytest.mark.parametrize(("ending", "prototypes"), PAIRS)
def test_formats_give_the_same_data(tmp_path, ending, prototypes):
    path = tmp_path / f"animals{ending}"
    known = write_prototypes(tmp_path / f"words{prototypes}")
    extra = write_features(path)
    data = load_features(path, known, **extra, unseen=["ass"])
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, Y)
    assert data.prototypes == Prototypes(CLASSES, MATRIX)
    assert data.name == "animals"
    assert data.record()["features_file"] == path.name
    assert data.record()["prototypes_file"] == known.name
    reference = tmp_path / "reference.npz"
    write_features(reference)
    known = write_prototypes(tmp_path / "reference.json")
    assert data.sha256 == load_features(reference, known, unseen=["ass"]).sha256
    # What each file holds is inferred, in any order.
    paths = [path, tmp_path / f"words{prototypes}", *extra.values()]
    for given in (paths, paths[::-1]):
        report = check_files(given)
        assert report.problems == []
        assert f"animals{ending} is read as features." in report.facts
        assert f"words{prototypes} is read as prototypes." in report.facts
        assert ("animals.txt is read as labels." in report.facts) == (ending == ".npy")


def test_the_example_of_the_manual_is_read(tmp_path):
    text = (Path(__file__).parents[4] / "docs" / "data.md").read_text("utf-8")
    paths = [tmp_path / "features.csv", tmp_path / "prototypes.csv"]
    for path, content in zip(paths, re.findall(r"```csv\n(.*?)```", text, re.S), strict=True):
        path.write_text(content)
    report = check_files(paths)
    assert report.problems == []
    assert "2 classes are seen; 2 are known by prototype only: 'okapi', 'zebra'." in report.facts
    call = re.search(r"load_features\(.*, unseen=\[\"(\w+)\"\]\)", text)
    assert load_features(*paths, unseen=[call[1]]).unseen_classes.tolist() == ["tiger"]


def test_features_stay_on_disk_until_they_are_used(tmp_path):
    path = tmp_path / "animals.npy"
    data = load_features(path, write_prototypes(tmp_path / "w.json"), **write_features(path))
    np.save(path, X + 1)
    np.testing.assert_array_equal(data.X, X + 1)
    assert isinstance(data.X.base, np.memmap)
    assert data.about["labels_file"] == "animals.txt"


def test_whole_numbers_and_their_text_are_one_class(tmp_path):
    np.savez(tmp_path / "x.npz", features=X, labels=np.arange(24) % 4)
    (tmp_path / "p.csv").write_text("class,a\n0,1\n1,2\n2,3\n3,4\n10,5\n")
    data = load_features(tmp_path / "x.npz", tmp_path / "p.csv")
    assert data.seen_classes.tolist() == ["0", "1", "2", "3"]
    assert data.prototypes.labels.tolist() == ["0", "1", "10", "2", "3"]


def test_named_classes_are_held_out_with_a_part_of_the_others(files):
    data = load_features(*files, unseen=["ass", "01"], test_size=0.4)
    assert data.unseen_classes.tolist() == ["01", "ass"]
    np.testing.assert_array_equal(data.split.test_unseen, np.flatnonzero(np.isin(Y, ["01", "ass"])))
    # 0.4 x 6 samples, rounded, of each of two classes
    assert np.unique(data.y_test_seen, return_counts=True)[1].tolist() == [2, 2]
    assert np.unique(data.y_train, return_counts=True)[1].tolist() == [4, 4]
    parts = data.split.train, data.split.test_seen, data.split.test_unseen
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(24))


@pytest.mark.parametrize(("unseen", "n"), [(1, 1), (3, 3), (0.5, 2), (0.01, 1), ("ass", 1)])
def test_number_and_fraction_of_unseen_classes(files, unseen, n):
    data = load_features(*files, unseen=unseen)
    assert len(data.unseen_classes) == n
    assert len(data.seen_classes) == 4 - n


def test_the_seed_decides_what_is_held_out(files):
    drawn = [load_features(*files, unseen=2, random_state=seed).sha256 for seed in (0, 0, 1, 2, 3)]
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) > 2


def test_every_class_keeps_a_training_sample(files):
    data = load_features(*files, unseen=["ass"], test_size=0.99)
    assert data.seen_classes.tolist() == ["01", "NA", "horse"]
    assert np.unique(data.y_train, return_counts=True)[1].tolist() == [1, 1, 1]


def test_a_column_split_is_obeyed(files, tmp_path):
    marks = np.where(Y == "ass", "test", np.where(Y == "NA", "val", "Train"))
    marks[0] = "test"
    features_frame().assign(Split=marks).to_csv(files[0], index=False)
    np.savez(tmp_path / "x.npz", features=X, labels=Y, split=marks)
    for path in (files[0], tmp_path / "x.npz"):
        data = load_features(path, files[1])
        assert data.shape == (24, 3)
        assert data.unseen_classes.tolist() == ["ass"]
        assert data.split.test_seen.tolist() == [0]
        assert data.split.val_classes.tolist() == ["NA"]
        assert len(data.split.train) == 17
    assert "`unseen` must be None" in refusal(load_features, *files, unseen=1)
    told = "3 classes are seen and 1 unseen by the column `split`: 'ass'; 1 are known by prototype"
    assert f"{told} only: 'zebra'." in check_files(files).facts
    np.savez(path, features=X, labels=Y, split=np.where(Y == "ass", "tset", "train"))
    assert "of x.npz says 'tset'" in refusal(load_features, path, files[1])
    np.savez(path, features=X, labels=Y, split=np.arange(24) % 5)  # folds are something else
    assert len(load_features(path, files[1]).split.train) == 24


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda marks: [*marks[:1], "tset", *marks[2:]], "row 3 of animals.csv says 'tset'"),
        (lambda marks: ["val"] * 12 + ["test"] * len(marks[12:]), "no row `train`"),
        (lambda marks: ["val", *marks[1:]], "'01' of animals.csv have rows `train` too"),
    ],
)
def test_a_wrong_column_split_is_refused(files, change, words):
    features_frame().assign(split=change(["train"] * 24)).to_csv(files[0], index=False)
    assert words in refusal(load_features, *files)
    assert any(words in line for line in check_files(files).problems)


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"unseen": 4}, "got 4. Choose 1 to 3"),
        ({"unseen": 0}, "got 0. Choose 1 to 3"),
        ({"unseen": 1.5}, "got 1.5"),
        ({"unseen": np.inf}, "got inf"),
        ({"unseen": CLASSES[:4]}, "got 4 labels"),
        ({"unseen": []}, "got 0 labels"),
        ({"unseen": ["zebra"]}, "'zebra' have none"),
        ({"unseen": True}, "`unseen` must be a list"),
        ({"unseen": 1, "test_size": 1.0}, "`test_size` must be"),
        ({"label_column": "kind"}, "got 'kind', and the columns are 'f1', 'label', 'f2', 'f3'"),
        ({"labels": "y.txt"}, "animals.csv is a table"),
        (
            {"features_key": "X"},
            "`features_key` must be None for a table; got 'X'",
        ),
        ({"labels_key": "y"}, "`labels_key` must be None for a table; got 'y', and animals.csv"),
    ],
)
def test_parameters_out_of_range(files, keywords, words):
    assert words in refusal(load_features, *files, **keywords)


def test_what_a_report_needs_is_passed_on(files):
    names = {"01": "quagga", 7: "seven"}
    told = {"license": "CC0-1.0", "citation": "Noah, Ark 1", "class_names": names}
    data = load_features(*files, **told)
    assert (data.license, data.citation) == ("CC0-1.0", "Noah, Ark 1")
    assert [data.name_of(label) for label in ("01", "7", "ass")] == ["quagga", "seven", "ass"]
    assert load_features(*files).license == load_features(*files).citation == "not stated"


NO_HEADING = "first line of p.csv must name the columns; it holds numbers such as"
# A table of prototypes -> labels and vectors, or words of the line that it is refused with
PROTOTYPES = {
    "horse,1,2,3\nzebra,4,5,7\nass,4,4,8\n": NO_HEADING,
    "quagga,0,1,2\nzebra,4,5,7\nass,4,4,8\n": NO_HEADING,
    "7,8,9,10\nzebra,4,5,7\nass,4,4,8\n": NO_HEADING,
    "label,7.5,1\nzebra,1,2\nass,3,4\n": (["ass", "zebra"], [[3, 4], [1, 2]]),
    "species,0,1,2,3,4,5,6,7\nzebra,1,1,1,1,1,1,1,1\n": (["zebra"], [[1] * 8]),
    # An index without a name keeps its zeros; the only column of text holds the labels.
    ",0,1\n01,1,2\n1,3,4\n": (["01", "1"], [[1, 2], [3, 4]]),
    "size,kind,mane\n1,ass,0\n2,zebra,1\n3,01,1\n": (
        ["01", "ass", "zebra"],
        [[3, 1], [1, 0], [2, 1]],
    ),
    # An attribute in words is not taken for them.
    "id,size,tail\n0,1,True\n1,1,False\n": "Row 2, column 'tail' of p.csv must be a finite number",
    "id,size,tail\n0,1,yes\n1,1,no\n2,1,no\n": "must be a finite number; got 'yes'",
}


@pytest.mark.parametrize("text", PROTOTYPES)
def test_tables_of_prototypes(tmp_path, text):
    (tmp_path / "p.csv").write_text(text)
    expected = PROTOTYPES[text]
    if isinstance(expected, str):
        assert expected in refusal(read_prototypes, tmp_path / "p.csv")
        return
    found = read_prototypes(tmp_path / "p.csv")
    assert (found.labels.tolist(), found.matrix.tolist()) == expected


def test_transposed_prototypes_are_called_so(files):
    turned = prototypes_frame().set_index("name").T.rename_axis("attribute").reset_index()
    turned.to_csv(files[1], index=False)
    line = refusal(load_features, *files)
    assert "words.csv looks transposed, with the classes '01', 'NA', 'ass'" in line
    assert check_files(features=files[0], prototypes=files[1]).problems == [line]
    path = files[1].with_suffix(".npz")
    np.savez(path, prototypes=MATRIX.T, labels=CLASSES)
    line = refusal(read_prototypes, path)
    assert "a label for each of the 2 rows" in line
    assert "looks transposed: save its .T" in line


def test_a_table_of_likeness_has_classes_as_rows_and_columns(files):
    likeness = pd.DataFrame(np.eye(5), columns=CLASSES).assign(name=CLASSES)
    likeness.to_csv(files[1], index=False)
    assert load_features(*files).prototypes == Prototypes(CLASSES, np.eye(5))


def test_row_numbers_of_pandas_are_no_features(tmp_path):
    path = tmp_path / "x.parquet"
    features_frame()[3:].to_parquet(path)
    assert read_table(path).columns == ("f1", "f2", "f3")
    features_frame().set_index("label").to_parquet(path)
    table = read_table(path)
    assert (table.labels.tolist(), table.columns) == (Y.tolist(), ("f1", "f2", "f3"))
    prototypes_frame().set_index("name").to_parquet(path)
    assert read_prototypes(path) == Prototypes(CLASSES, MATRIX)
    prototypes_frame().to_csv(tmp_path / "p.csv")
    assert read_prototypes(tmp_path / "p.csv").dimension_names == ("stripes", "size")
    prototypes_frame().set_index("size").to_csv(tmp_path / "p.csv", index_label="")
    assert "column 1 of p.csv has none" in refusal(read_prototypes, tmp_path / "p.csv")


def test_parquet_labels_that_are_numbers_or_categories(tmp_path):
    path = tmp_path / "x.parquet"
    single = pd.DataFrame({"a": [0.12345678, 2]}, dtype=np.float32)
    for labels, expected in (
        ([7, 10], ["7", "10"]),
        ([7.0, 10.0], ["7", "10"]),
        (pd.Categorical(["b", "a"]), ["b", "a"]),
    ):
        single.assign(label=labels).to_parquet(path)
        table = read_table(path)
        assert table.labels.tolist() == expected
        assert table.matrix.dtype == np.float32


def test_parquet_labels_beyond_what_floats_tell_apart_are_refused(tmp_path):
    path = tmp_path / "x.parquet"
    pd.DataFrame({"label": [1.0, 2.0**53 + 2], "a": [1, 2]}).to_parquet(path)
    line = refusal(read_table, path)
    assert "Row 2, column 'label' of x.parquet must be exact" in line
    assert f"got {2**53 + 2}." in line
    pd.DataFrame({"label": pd.array([1, None], "Float64"), "a": [1, 2]}).to_parquet(path)
    assert "Row 2, column 'label' of x.parquet is empty" in refusal(read_table, path)


def test_good_files_have_facts_and_no_problem(files):
    report = check_files(files)
    assert report.problems == []
    assert report.warnings == []
    assert "animals.csv is read as features." in report.facts
    assert "words.csv is read as prototypes." in report.facts
    assert "animals.csv has 24 samples of 3 features (float64)." in report.facts
    assert "words.csv has 5 classes of 2 dimensions." in report.facts
    assert "4 classes have samples: 6 to 6 each, median 6." in report.facts
    assert "4 classes are seen; 1 are known by prototype only: 'zebra'." in report.facts


def test_of_two_tables_with_repeated_labels_the_longer_one_has_the_features(files):
    with files[1].open("a") as file:
        file.write("1,2,ass\n")
    report = check_files([files[1], files[0]])
    assert "animals.csv is read as features." in report.facts
    assert len(report.problems) == 1
    assert "'ass' has 2 in words.csv" in report.problems[0]


@pytest.mark.parametrize(("n", "order"), [(4, 1), (4, -1), (5, 1)])
def test_of_two_tables_without_repeated_labels_the_shorter_or_first_has_the_features(
    files, n, order
):
    features_frame(X[:n], CLASSES[:n]).to_csv(files[0], index=False)
    report = check_files(files[::order])
    assert report.problems == []
    assert "animals.csv is read as features." in report.facts


def test_one_file_too_many(files, tmp_path):
    (tmp_path / "third.json").write_text('{"a": [1]}')
    report = check_files([*files, tmp_path / "third.json"])
    assert len(report.problems) == 1
    assert "is one too many" in report.problems[0]


def test_all_problems_are_found_in_one_go(files):
    frame = features_frame().astype({"f2": object})
    frame.loc[3, "f2"], frame.loc[5, "f2"], frame.loc[8, "f3"] = "1,5", "x", np.nan
    frame.loc[[1, 2], "label"] = ["Ass", "hosre"]
    frame.to_csv(files[0], index=False)
    prototypes = prototypes_frame()
    prototypes.loc[5] = [1.0, 1.0, "ass"]
    prototypes.loc[6] = [*MATRIX[4], "quagga"]
    prototypes.to_csv(files[1], index=False)
    report = check_files(files)
    expected = [
        "Row 5, column 'f2' of animals.csv must be a finite number; got '1,5' (and 1 more in this",
        "Row 10, column 'f3' of animals.csv is empty.",
        "'ass' has 2 in words.csv, in rows 3, 7.",
        "'quagga' and 'zebra' have the same in words.csv",
        "'Ass' of animals.csv has none in words.csv. Did you mean 'ass'?",
        "'hosre' of animals.csv has none in words.csv. Did you mean 'horse'?",
    ]
    assert len(report.problems) == len(expected)
    for line, words in zip(report.problems, expected, strict=True):
        assert words in line
        assert "\n" not in line
    assert any(
        "'Ass', 'ass' of animals.csv differ only in case" in line for line in report.warnings
    )


def test_no_label_in_common_is_said_once(files):
    features_frame(y=np.arange(24) % 4).to_csv(files[0], index=False)
    (line,) = check_files(files).problems
    assert "animals.csv has '0', '1', '2'" in line
    assert "words.csv has '01', 'NA', 'ass'" in line
    assert line == refusal(load_features, *files)


def test_many_problems_of_a_kind_are_counted(tmp_path):
    labels = [f"class {chr(97 + i)}{chr(97 + i) * 9}" for i in range(20)]
    np.savez(tmp_path / "x.npz", features=np.eye(40), labels=[*labels, *labels])
    np.savez(tmp_path / "p.npz", prototypes=np.eye(2), labels=[labels[0], "other"])
    problems = check_files([tmp_path / "x.npz", tmp_path / "p.npz"]).problems
    assert len(problems) == 11
    assert problems[-1] == "There are 9 more classes without a prototype."


def test_warnings_about_features(tmp_path):
    values = X.copy()
    values[:, 0] = 7
    values[5], values[4] = values[1], values[0]
    values[:, 2] *= 1e5
    np.savez(tmp_path / "x.npz", features=values, labels=["once", *Y[1:]])
    report = check_files([tmp_path / "x.npz"])
    joined = " ".join(report.warnings)
    assert "1 of 3 features in x.npz are constant" in joined
    assert "2 rows of x.npz repeat an earlier row, 1 of them with another label" in joined
    assert "differ in scale" in joined
    assert "There is only one sample of 'once'." in joined
    assert "There is no file of prototypes" in joined
    assert report.problems == []


def test_a_column_of_row_numbers_is_pointed_out(tmp_path):
    features_frame().assign(number=np.arange(24) + 1).to_csv(tmp_path / "x.csv", index=False)
    (line, _) = check_files([tmp_path / "x.csv"]).warnings
    assert line.startswith("Feature 4 of x.csv counts the rows.")


def test_columns_that_are_no_features(tmp_path):
    frame = features_frame().assign(id=np.arange(24), photo_id=7.5, file="a.jpg")
    frame.to_csv(tmp_path / "x.csv", index=False)
    report = check_files([tmp_path / "x.csv"])
    assert "x.csv has 24 samples of 3 features (float64)." in report.facts
    assert (
        "Columns of x.csv that are not used as features: 'id', 'photo_id', 'file'." in report.facts
    )
    assert not [line for line in report.warnings if "counts the rows" in line]
    (tmp_path / "p.json").write_text(json.dumps({label: [1, i] for i, label in enumerate(CLASSES)}))
    data = load_features(tmp_path / "x.csv", tmp_path / "p.json")
    np.testing.assert_array_equal(data.X, X)


def test_warnings_about_prototypes(tmp_path):
    vectors = {"a": [0, 0], "b": [1, 2], "c": [1.001, 2], "A ": [3, 1], "d": [0, 0]}
    (tmp_path / "p.json").write_text(json.dumps(vectors))
    report = check_files([tmp_path / "p.json"])
    assert report.warnings == [
        "The prototype of 'a', 'd' in p.json is all zeros. Check that it is not missing.",
        "The prototypes of 'b' and 'c' in p.json are nearly equal.",
        "The labels 'A ', 'a' of p.json differ only in case or spaces.",
    ]
    assert len(report.problems) == 1
    assert "'a' and 'd' have the same" in report.problems[0]


def test_features_or_labels_alone(tmp_path):
    (tmp_path / "y.txt").write_text("a\nb\n")
    assert "Labels need features" in check_files([tmp_path / "y.txt"]).problems[0]
    np.savez(tmp_path / "x.npz", features=X)
    np.savez(tmp_path / "p.npz", prototypes=MATRIX, labels=CLASSES)
    line = refusal(load_features, tmp_path / "x.npz", tmp_path / "p.npz")
    assert "x.npz holds none" in line
    assert check_files([tmp_path / "p.npz", tmp_path / "x.npz"]).problems == [line]


def test_labels_that_are_no_whole_numbers_are_not_compared(tmp_path):
    np.savez(tmp_path / "x.npz", features=X, labels=X[:, 0])
    known = write_prototypes(tmp_path / "p.json")
    line = refusal(load_features, tmp_path / "x.npz", known)
    assert "Labels must be text or whole numbers; x.npz has" in line
    assert check_files(features=tmp_path / "x.npz", prototypes=known).problems == [line]


def test_nothing_is_written(files):
    before = {path: path.read_bytes() for path in files[0].parent.iterdir()}
    check_files(files)
    _ = load_features(*files).X
    assert {path: path.read_bytes() for path in files[0].parent.iterdir()} == before


def test_lines_of_json(tmp_path):
    marks = np.where(CLASSES[0] == Y, "test", "train")
    rows = zip(Y.tolist(), X.tolist(), marks.tolist(), strict=True)
    lines = [json.dumps({"label": y, "split": mark, "features": x}) for y, x, mark in rows]
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    (tmp_path / "p.json").write_text(json.dumps({label: [1, i] for i, label in enumerate(CLASSES)}))
    paths = tmp_path / "x.jsonl", tmp_path / "p.json"
    data = load_features(*paths)
    np.testing.assert_array_equal(data.X, X)
    assert (data.y.tolist(), data.unseen_classes.tolist()) == (Y.tolist(), [CLASSES[0]])
    assert check_files(paths).problems == []
    for change, words in [
        (('"label": "ass"', '"label": null'), "Row 2, column 'label' of x.jsonl is empty"),
        (('"train"', '"training"'), "row 2 of x.jsonl says 'training'"),
        (("[", "[null, "), "must be a list of 3 numbers in every line of x.jsonl; line 2 has 4"),
    ]:
        changed = lines[1].replace(*change)
        paths[0].write_text("\n".join([lines[0], changed, *lines[2:]]))
        (problem,) = check_files(paths).problems
        assert words in problem
        assert problem == refusal(load_features, *paths)
