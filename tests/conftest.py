"""A browser to open pages in, for tests of several packages."""

import shutil
import subprocess

import pytest

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
