"""Every command and option has a help text, and docs/cli.md shows it."""

import pytest

import cli_docs

COMMANDS = dict(cli_docs.commands())
PAGE = cli_docs.PAGE.read_text("utf-8")


def test_the_page_shows_every_command_once():
    shown = [name for name, _ in cli_docs.BLOCK.findall(PAGE)]
    assert sorted(shown) == sorted(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_everything_is_described_and_shown(name):
    assert cli_docs.block(name) in PAGE, "stale: run python tools/cli_docs.py"
    command = COMMANDS[name]
    assert command.help, name
    text = " ".join(cli_docs.help_text(name).split())
    assert " ".join(command.help.split("\n")[0].split()) in text
    for parameter in command.params:
        if parameter.name == "help":
            continue
        assert parameter.help, f"{name}: {parameter.name}"
        assert parameter.help.endswith((".", ")")), f"{name}: {parameter.name}"
        joined = "".join(parameter.help.split())  # lines may break at a hyphen
        assert joined in text.replace(" ", "")
        options = [option for option in parameter.opts if option.startswith("-")]
        assert all(option in text for option in options), f"{name}: {options}"


def test_a_stale_page_is_noticed():
    page = cli_docs.block("zonkey predict")
    stale = page.replace("--proba ", "--probability ", 1)
    assert cli_docs.renewed(stale) == page != stale
