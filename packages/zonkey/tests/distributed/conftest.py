"""A cluster of two processes, and a limit of time for every test: none may hang."""

import signal
from importlib.util import find_spec

import pytest

if find_spec("distributed") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    import distributed

SECONDS = 300  # for the slowest machine; a test takes a few


@pytest.fixture(autouse=True)
def limit(request):
    """End a test that takes too long with an error."""
    if not hasattr(signal, "SIGALRM"):
        yield
        return

    def stop(number, frame):
        raise TimeoutError(f"{request.node.name} must end within {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="session")
def start(tmp_path_factory):
    """Return a function that starts a cluster of processes."""

    def started(**options):
        options = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": 0, **options}
        folder = tmp_path_factory.mktemp("workers")
        return distributed.LocalCluster(
            processes=True, dashboard_address=":0", local_directory=folder, **options
        )

    return started


@pytest.fixture(scope="module")
def cluster(start):
    """Return a cluster that the tests of a file share; no fault is injected.

    Its threads must end with the file: tests of other files measure memory.
    """
    with start() as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    """Return the current client of the shared cluster."""
    with distributed.Client(cluster) as client:
        yield client
