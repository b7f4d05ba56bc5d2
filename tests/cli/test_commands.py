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
