import os
from pathlib import Path

import numpy as np
import pytest
from small_data import small_dataset
from tiny_benchmark import folder_contents, write_folder

from made_up_benchmarks import write_imnet, write_simple_cnn
from zonkey.files.dataset import DataError
from zonkey.files.emoji import load_emoji
from zonkey_lab.paper.bench.sources import (
    find_source,
    find_sources,
    split_names,
    validation_view,
)

ROOT = Path(os.environ.get("ZONKEY_DATA", Path(__file__).parents[5] / "shared" / "data"))


def test_the_embedded_data_are_always_there(tmp_path):
    assert list(find_sources(tmp_path)) == ["emoji", "emoji-cnn"]
    assert find_source("Emoji", tmp_path).load().sha256 == load_emoji().sha256


def refusal(name, folder):
    with pytest.raises(DataError) as error:
        find_source(name, folder)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_data_that_are_not_there_say_which_files_go_where(tmp_path):
    place = tmp_path / "xlsa17" / "data" / "CUB"
    assert refusal("CUB", tmp_path) == (
        f"The data set 'cub' needs res101.mat and att_splits.mat in {place}; there is no file. Run "
        "`zonkey data fetch cub`, or pass the folder that holds xlsa17 by --folder or ZONKEY_DATA."
    )
    place.mkdir(parents=True)
    for name in ("a.mat", "b.mat"):
        (place / name).touch()
    assert "; it holds a.mat, b.mat. Run" in refusal("cub", tmp_path)
    line = refusal("ImNet", tmp_path)
    assert f"needs ImNet_2_demo_data.mat in {tmp_path / 'imnet'}; there is no file" in line
    assert "Put them there. The data of the authors' code of SAE" in line
    assert "conv4.npz and conv4_train64.npz" in refusal("mini-imagenet-cnn", tmp_path)


def test_an_unknown_name_says_which_there_are(tmp_path):
    line = refusal("imagenet", tmp_path)
    benchmarks = "awa1, awa2, cub, sun, apy, emoji-pictures, imnet, mini-imagenet"
    assert f"emoji, emoji-cnn, {benchmarks}" in line
    assert line.endswith("got 'imagenet'. Did you mean 'imnet'?")


def test_names_may_be_separated_by_commas_and_in_any_case():
    assert split_names(["AWA2,cub", "sun", " CUB ,,"]) == ["awa2", "cub", "sun"]
    assert split_names([]) == []


@pytest.mark.parametrize("above", ["", "xlsa17", "xlsa17/data"])
def test_any_folder_above_the_data_may_be_passed(tmp_path, above):
    write_folder(tmp_path / "xlsa17" / "data" / "AWA2", folder_contents())
    source = find_source("AwA2", tmp_path / above)
    assert source.name == "awa2"
    assert source.load() is source.load_shots()  # in memory once


def test_the_simple_cnn_of_mini_imagenet_is_a_data_set_of_its_own(tmp_path):
    _, validation = write_simple_cnn(tmp_path, per_class=3)
    source = find_source("mini-imagenet-cnn", tmp_path)
    assert source.load_shots().shape == (300, 1600)
    assert len(source.load_validation().unseen_classes) == 16
    assert "mini-imagenet" not in find_sources(tmp_path)
    validation.unlink()
    assert "it holds conv4.npz" in refusal("mini-imagenet-cnn", tmp_path)


def test_parameters_on_imagenet_are_chosen_on_classes_of_its_own(tmp_path):
    write_imnet(tmp_path, seen=10, unseen=3, per_class=3, test=2)
    source = find_source("imnet", tmp_path)
    view = source.load_validation()
    assert set(view.unseen_classes) == set(source.load().split.val_classes)
    assert len(view.unseen_classes) == 2


@pytest.mark.parametrize(
    ("files", "chosen"),
    [(["res101", "other"], "res101"), (["vit"], "vit"), (["a", "b"], None), ([], None)],
)
def test_features_are_those_of_the_paper_or_the_only_ones(tmp_path, files, chosen):
    contents = folder_contents()
    given = contents.pop("res101")
    for size, name in enumerate(files):
        contents[name] = {**given, "features": np.ones((5 + size, 24))}
    write_folder(tmp_path / "xlsa17" / "data" / "CUB", contents)
    sources = find_sources(tmp_path)
    if chosen is None:
        assert "cub" not in sources
    else:
        assert sources["cub"].load().shape == (24, 5 + files.index(chosen))


def test_few_shot_validation_on_emoji_keeps_the_styles_apart():
    data = load_emoji(split="few-shot")
    view = validation_view(data)
    assert set(view.unseen_classes) == set(data.split.val_classes)
    assert not set(view.unseen_classes) & set(data.unseen_classes)
    novel = view.y[view.split.novel]
    assert len(novel) == 5 * len(view.unseen_classes)
    assert np.unique(view.y[view.split.query], return_counts=True)[1].tolist() == [1] * 200


def test_data_without_validation_classes_cannot_be_chosen_on():
    data = small_dataset()
    plain = type(data)(
        "plain",
        data.X,
        data.y,
        data.prototypes,
        type(data.split)(data.split.train, data.split.test_unseen),
    )
    with pytest.raises(DataError, match="no validation classes"):
        validation_view(plain)


@pytest.mark.skipif(not (ROOT / "mini_imagenet").exists(), reason=f"no research data in {ROOT}")
def test_validation_of_mini_imagenet_comes_from_the_backbone_that_never_saw_it():
    source = find_sources(ROOT)["mini-imagenet"]
    test, validation = source.load_shots(), source.load_validation()
    assert len(test.unseen_classes) == 20
    assert len(validation.unseen_classes) == 16
    assert not set(test.unseen_classes) & set(validation.unseen_classes)
