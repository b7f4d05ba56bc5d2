import subprocess
import sys

from typer.testing import CliRunner

import zonkey
from zonkey.cli import app


def test_version():
    done = CliRunner().invoke(app, ["--version"])
    assert done.exit_code == 0
    assert done.output.strip() == f"zonkey {zonkey.__version__}"


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
