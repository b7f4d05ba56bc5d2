import dataclasses

import pytest

from zonkey.files.dataset import DataError
from zonkey.files.emoji import load_emoji
from zonkey_lab.datasets.registry import EMBEDDED, PLACED, REGISTRY, find_remote

AUTHORS = {"awa1": "Lampert", "awa2": "Xian", "cub": "Wah", "sun": "Patterson", "apy": "Farhadi"}


def test_the_benchmarks_share_one_secure_archive_and_differ_in_its_folder():
    assert list(REGISTRY) == list(AUTHORS)
    (url,) = {remote.url for remote in REGISTRY.values()}
    assert url.startswith("https://")
    for name, remote in REGISTRY.items():
        assert (remote.file, remote.members) == ("xlsa17.zip", f"xlsa17/data/{name.upper()}")
        assert remote.required == ("res101.mat", "att_splits.mat")
        assert AUTHORS[name] in remote.citation
        assert "Xian" in remote.citation


def test_what_is_said_of_the_emoji_is_what_their_loader_says():
    (emoji,) = EMBEDDED
    data = load_emoji()
    assert (emoji.license, emoji.citation) == (data.license, data.citation)
    assert emoji.about.endswith("; load with zonkey.datasets.load_emoji()")


@pytest.mark.parametrize(
    "entry", [*REGISTRY.values(), *PLACED.values(), *EMBEDDED], ids=lambda entry: entry.name
)
def test_every_entry_states_its_terms_in_one_line(entry):
    assert entry.name == entry.name.lower()
    for text in (entry.license, entry.citation, entry.about):
        assert text == " ".join(text.split()) != ""
        assert "docs/" not in text  # which is not installed


def test_an_entry_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        REGISTRY["cub"].url = "elsewhere"
    with pytest.raises(TypeError):
        REGISTRY["cub"] = REGISTRY["sun"]


def test_names_that_cannot_be_fetched_are_refused():
    with pytest.raises(DataError) as refusal:
        find_remote("AwA-2")
    assert str(refusal.value) == (
        "A data set must be one of awa1, awa2, cub, sun, apy; got 'AwA-2'. Did you mean 'awa2'?"
    )
    with pytest.raises(DataError, match=r"Put conv4\.npz and conv4_train64\.npz into the folder"):
        find_remote("Mini-ImageNet-CNN")
    with pytest.raises(DataError, match="is part of the package"):
        find_remote("Emoji")
