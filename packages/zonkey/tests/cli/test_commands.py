import subprocess
import sys

import pytest
from typer.testing import CliRunner

import zonkey
from zonkey.cli import app


def test_version():
    done = CliRunner().invoke(app, ["--version"])
    assert done.exit_code == 0
    assert done.output.strip() == f"zonkey {zonkey.__version__}"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "demo"),
        (["demo"], "emoji"),
        (["data"], "fetch"),
        (["data", "check"], "prototypes"),
        (["data", "fetch"], "resumes"),
    ],
)
def test_help_describes_itself(arguments, said):
    done = CliRunner().invoke(app, [*arguments, "--help"])
    assert done.exit_code == 0
    assert said in done.output


HELP_OF_EVERYTHING = """
import sys
import typer.main
from typer.testing import CliRunner
from zonkey.cli import app

def ask(command, words):
    assert CliRunner().invoke(app, [*words, "--help"]).exit_code == 0
    for name, inner in getattr(command, "commands", {}).items():
        ask(inner, [*words, name])

ask(typer.main.get_command(app), [])
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def test_help_imports_nothing_heavy():
    done = subprocess.run(
        [sys.executable, "-c", HELP_OF_EVERYTHING], capture_output=True, text=True, check=True
    )
    imported = set(done.stdout.split())
    assert "zonkey" in imported
    assert not imported & {"numpy", "scipy", "sklearn", "pandas", "pyarrow", "matplotlib", "rich"}


def test_the_package_is_a_program():
    done = subprocess.run(
        [sys.executable, "-m", "zonkey", "--help"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("Usage: zonkey [OPTIONS] COMMAND")
