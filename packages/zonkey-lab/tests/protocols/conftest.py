"""A cluster of two processes for trials on workers."""

import pytest


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Return a cluster that the tests of a file share."""
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": 0}
    folder = tmp_path_factory.mktemp("workers")
    with distributed.LocalCluster(
        processes=True, dashboard_address=":0", local_directory=folder, **options
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    """Return the current client of the cluster."""
    from distributed import Client

    with Client(cluster) as client:
        yield client
