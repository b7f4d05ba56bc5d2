"""Fixtures of several packages: what takes long or needs a browser."""

import shutil
import subprocess

import pytest

from zonkey.paper.demo.run import run_demo

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--dump-dom",
)


@pytest.fixture(scope="session")
def demo():
    """Return the demonstration, run once."""
    return run_demo(seed=0)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Run all tests of the demonstration on one worker, so that it is computed once."""
    for item in items:
        if "demo" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("demo"))


@pytest.fixture
def open_in_browser(tmp_path_factory):
    """Open a page in Chromium, check for errors, return the resulting document."""
    if CHROMIUM is None:
        pytest.skip("no Chromium to open the page in")

    def open_page(path):
        profile = f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"
        command = [CHROMIUM, *OPTIONS, profile, path.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0
        assert "CONSOLE" not in done.stderr
        return done.stdout

    return open_page
