"""zonkey data list, info and fetch."""

import json
import sys
from functools import partial

import pytest
from http_server import interrupt_downloads, serving, zip_of
from typer.testing import CliRunner

from zonkey.cli import app
from zonkey_lab.datasets.fetch import fetch_dataset
from zonkey_lab.datasets.registry import REGISTRY, Remote

NAMES = [
    "emoji", "awa1", "awa2", "cub", "sun", "apy", "emoji-pictures", "imnet", "mini-imagenet",
    "mini-imagenet-cnn",
]  # fmt: skip


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Call `zonkey data` with tmp_path as the data folder."""
    monkeypatch.setenv("ZONKEY_DATA", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *arguments: CliRunner().invoke(app, ["data", *arguments])


@pytest.fixture
def server(monkeypatch):
    """Serve the archive of a data set `stripes`, the only one to fetch."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serving(zip_of({"all/stripes/a.bin": bytes(200_000)})) as server:
        remote = Remote("stripes", server.url("all.zip"), 9, None, "all/stripes", "-", "-", "-")
        fetch = partial(fetch_dataset, registry={"stripes": remote})
        monkeypatch.setattr("zonkey_lab.datasets.fetch.fetch_dataset", fetch)
        yield server


def put_there(data_folder, name, files):
    """Make the folder of a benchmark with these files in it."""
    folder = data_folder / "xlsa17" / "data" / name
    folder.mkdir(parents=True)
    for file in files:
        (folder / file).touch()
    return folder


def test_list_shows_all_data_sets_and_where_they_lie(data, tmp_path):
    cub = put_there(tmp_path, "CUB", ["res101.mat", "att_splits.mat"])
    put_there(tmp_path, "SUN", [])
    put_there(tmp_path, "AWA2", ["att_splits.mat"])
    done = data("list")
    assert done.exit_code == 0, done.output
    assert "in the package" in done.stdout
    for name in NAMES:
        assert f" {name} " in done.stdout
    assert done.stdout.count("xlsa17.zip, about 879.0 MB") == 5
    assert done.stdout.count("not fetched") == 4
    assert done.stdout.count("not there") == 4
    records = {record["name"]: record for record in json.loads(data("list", "--json").stdout)}
    assert list(records) == NAMES
    assert records["cub"]["where"] == str(cub)
    assert records["sun"]["where"] is None
    assert records["awa2"]["where"] is None
    assert records["emoji"]["embedded"]
    assert records["sun"]["license"] == REGISTRY["sun"].license


def test_list_needs_no_pooch(data, monkeypatch):
    monkeypatch.delenv("ZONKEY_DATA")
    monkeypatch.setitem(sys.modules, "pooch", None)
    records = json.loads(data("list", "--json").stdout)
    assert [record["where"] for record in records] == ["in the package"] + 9 * [None]


def test_info_tells_all_in_unbroken_lines(data):
    done = data("info", "CUB")
    assert done.exit_code == 0, done.output
    lines = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    told = {key.rstrip(":"): value for key, value in lines}
    assert told == {
        "name": "cub",
        "url": REGISTRY["cub"].url,
        "file": "xlsa17.zip",
        "size": "xlsa17.zip, about 879.0 MB",
        "members": "xlsa17/data/CUB",
        "license": REGISTRY["cub"].license,
        "citation": REGISTRY["cub"].citation,
        "about": REGISTRY["cub"].about,
        "required": "res101.mat, att_splits.mat",
    }
    for name in NAMES:
        record = json.loads(data("info", name, "--json").stdout)
        assert record["name"] == name
        assert record["citation"]


def test_info_of_the_emoji_needs_no_other_document(data):
    told = dict(line.split(maxsplit=1) for line in data("info", "emoji").stdout.splitlines())
    assert "Unicode-3.0" in told["license:"]
    assert "Noto Emoji (Google)" in told["citation:"]
    assert told["about:"].endswith("load with zonkey.datasets.load_emoji()")
    assert "required:" not in told


def test_data_without_a_public_address_say_what_to_put_where(data, tmp_path):
    told = dict(line.split(maxsplit=1) for line in data("info", "ImNet").stdout.splitlines())
    assert told["members:"] == "imnet"
    assert told["required:"] == "ImNet_2_demo_data.mat"
    assert "authors' code of SAE" in told["source:"]
    done = data("fetch", "imnet")
    assert done.exit_code == 2
    assert done.stderr == (
        "A data set to fetch must have a public address; 'imnet' has none. Put "
        "ImNet_2_demo_data.mat into the folder imnet of $ZONKEY_DATA, or of the folder that you "
        "pass. The data of the authors' code of SAE, https://github.com/Elyorcv/SAE.\n"
    )
    (tmp_path / "imnet").mkdir()
    (tmp_path / "imnet" / "ImNet_2_demo_data.mat").touch()
    record = json.loads(data("info", "imnet", "--json").stdout)
    assert record["where"] == str(tmp_path / "imnet")


def test_an_incomplete_folder_is_one_line_on_stderr(data, tmp_path):
    folder = put_there(tmp_path, "AWA2", ["att_splits.mat"])
    done = data("fetch", "awa2")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        f"The folder {folder} must hold res101.mat and att_splits.mat; it lacks "
        "res101.mat. Move it away, or add res101.mat.\n"
    )


def test_fetch_prints_the_folder_and_nothing_else_on_stdout(data, server, tmp_path):
    done = data("fetch", "Stripes")
    assert done.exit_code == 0, done.output
    assert done.stdout == f"{tmp_path / 'all' / 'stripes'}\n"
    assert "100%" in done.stderr


def test_quiet_fetch_to_a_folder_of_choice(data, server, tmp_path):
    done = data("fetch", "stripes", "--quiet", "--folder", str(tmp_path / "mine"))
    assert done.exit_code == 0, done.output
    assert done.stdout == f"{tmp_path / 'mine' / 'all' / 'stripes'}\n"
    assert done.stderr == ""
    assert (tmp_path / "mine" / "all" / "stripes" / "a.bin").read_bytes() == bytes(200_000)
    again = data("fetch", "stripes", "--folder", str(tmp_path / "mine"), "--json")
    where = str(tmp_path / "mine" / "all" / "stripes")
    assert json.loads(again.stdout) == {"name": "stripes", "where": where}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["info", "cubs"], "got 'cubs'. Did you mean 'cub'?"),
        (["info", "emojis"], "Did you mean 'emoji'?"),
        (["fetch", "cubs"], "Did you mean 'cub'?"),
        (["fetch", "emoji"], "is part of the package"),
    ],
)
def test_a_wrong_name_is_one_line_on_stderr(data, arguments, text):
    done = data(*arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert text in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_cannot_be_fetched_is_one_line_on_stderr(data, server, monkeypatch):
    def refusal():
        done = data("fetch", "stripes")
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr.count("\n") == 1
        return done.stderr

    server.status = 404
    assert "it answered 404 Not Found" in refusal()
    monkeypatch.setitem(sys.modules, "pooch", None)
    assert refusal() == (
        'Fetching data needs pooch. Run: pip install "zonkey-lab[data]" '
        '(in a clone: pip install -e "packages/zonkey-lab[data]").\n'
    )


def test_an_interrupted_fetch_exits_with_130_and_is_resumed_later(data, server, monkeypatch):
    with monkeypatch.context() as patch:
        interrupt_downloads(patch)
        done = data("fetch", "stripes", "--quiet")
    assert (done.exit_code, done.stdout) == (130, "")
    assert done.stderr == "Interrupted; run the same command again to resume.\n"
    assert data("fetch", "stripes", "--quiet").exit_code == 0
    assert server.seen_ranges() == [None, "bytes=65536-"]
