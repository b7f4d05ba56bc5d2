"""What tests of several packages share: a browser, random numbers, the order on workers."""

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


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Run tests of the demonstration, of all experiments, and of one cluster on one worker each.

    `--dist loadgroup` would do the same, but it does nothing with pytest 9.2 and xdist 3.8.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            file = nodeid.split("::")[0]
            if "tests/distributed/" in file and not file.endswith("test_faults.py"):
                return "tests/distributed"
            together = ("test_demo.py", "test_runner.py", "test_faults.py")
            return file if file.endswith(together) else nodeid

    return Scheduling(config, log)


@pytest.fixture(autouse=True)
def numbers_do_not_depend_on_the_order(request):
    """Let each test draw from the generator of its module as if it were the first."""
    generator = getattr(getattr(request.node, "module", None), "RNG", None)
    if generator is None:
        yield
        return
    state = generator.bit_generator.state
    yield
    generator.bit_generator.state = state


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
