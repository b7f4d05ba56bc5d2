import dataclasses

import pytest

from zonkey.files.dataset import DataError
from zonkey.files.emoji import load_emoji
from zonkey_lab.datasets.registry import EMBEDDED, REGISTRY, find_remote


def test_the_benchmarks_share_one_archive_and_differ_in_its_folder():
    names = ("awa1", "awa2", "cub", "sun", "apy")
    assert {REGISTRY[name].file for name in names} == {"xlsa17.zip"}
    assert len({REGISTRY[name].url for name in names}) == 1
    folders = [REGISTRY[name].members for name in names]
    assert folders == [f"xlsa17/data/{name}" for name in ("AWA1", "AWA2", "CUB", "SUN", "APY")]


def test_every_address_is_secure():
    assert all(remote.url.startswith("https://") for remote in REGISTRY.values())


def test_every_data_set_names_the_files_it_is_not_complete_without():
    required = {remote.required for remote in REGISTRY.values()}
    assert required == {("res101.mat", "att_splits.mat")}


def test_what_is_said_of_the_emoji_is_what_their_loader_says():
    (emoji,) = EMBEDDED
    data = load_emoji()
    assert (emoji.license, emoji.citation) == (data.license, data.citation)
    assert emoji.about.endswith("; load with zonkey.datasets.load_emoji()")


@pytest.mark.parametrize("entry", [*REGISTRY.values(), *EMBEDDED], ids=lambda entry: entry.name)
def test_no_entry_points_to_what_is_not_installed(entry):
    assert "docs/" not in f"{entry.license} {entry.citation} {entry.about}"


@pytest.mark.parametrize("entry", [*REGISTRY.values(), *EMBEDDED], ids=lambda entry: entry.name)
def test_every_entry_states_its_terms_in_one_line(entry):
    assert entry.name == entry.name.lower()
    for text in (entry.license, entry.citation, entry.about):
        assert text == " ".join(text.split()) != ""


@pytest.mark.parametrize(
    ("name", "author"),
    [
        ("awa1", "Lampert"),
        ("awa2", "Xian"),
        ("cub", "Wah"),
        ("sun", "Patterson"),
        ("apy", "Farhadi"),
    ],
)
def test_citations_name_those_who_made_the_data(name, author):
    assert author in REGISTRY[name].citation
    assert "Xian" in REGISTRY[name].citation


def test_an_entry_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        REGISTRY["cub"].url = "elsewhere"
    with pytest.raises(TypeError):
        REGISTRY["cub"] = REGISTRY["sun"]


def test_an_unknown_name_is_refused_with_those_that_are_known():
    with pytest.raises(DataError) as refusal:
        find_remote("AwA-2")
    assert str(refusal.value) == (
        "A data set must be one of awa1, awa2, cub, sun, apy; got 'AwA-2'. Did you mean 'awa2'?"
    )


def test_an_embedded_data_set_needs_no_fetching():
    with pytest.raises(DataError, match="is part of the package"):
        find_remote("Emoji")
