import os
from pathlib import Path

import numpy as np
import pytest
from small_data import small_dataset
from tiny_benchmark import folder_contents, write_folder

from zonkey.files.dataset import DataError
from zonkey.files.emoji import load_emoji
from zonkey_lab.paper.bench.sources import find_source, find_sources, validation_view

ROOT = Path(os.environ.get("ZONKEY_DATA", Path(__file__).parents[5] / "shared" / "data"))


def test_the_embedded_data_are_always_there(tmp_path):
    assert list(find_sources(tmp_path)) == ["emoji", "emoji-cnn"]
    assert find_source("Emoji", tmp_path).load().sha256 == load_emoji().sha256


def test_an_unknown_name_says_which_there_are_and_what_to_do(tmp_path):
    with pytest.raises(DataError, match=r"emoji, emoji-cnn; got 'cub'.*zonkey data fetch cub"):
        find_source("cub", tmp_path)


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
