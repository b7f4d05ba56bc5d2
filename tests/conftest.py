"""What tests of several packages share, because it takes long."""

import pytest

from zonkey.cli.demo import run_demo


@pytest.fixture(scope="session")
def demo():
    """Return the demonstration, run once."""
    return run_demo(seed=0)
