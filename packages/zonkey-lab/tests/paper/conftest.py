"""Made-up records of every experiment for tests of the report; one thread for all tests."""

import pytest
import torch
from made_up_records import MadeUp
from threadpoolctl import threadpool_limits

from zonkey_lab.paper.report.collection import read_collection


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Matrices are small: more threads would wait for each other, above all those of t-SNE."""
    torch.set_num_threads(1)
    with threadpool_limits(1):
        yield


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    return MadeUp(tmp_path_factory.mktemp("runs")).everything()


@pytest.fixture(scope="session")
def collection(made):
    return read_collection(made.records.folder)


@pytest.fixture
def fresh(tmp_path):
    """Return what writes records into a folder that is empty."""
    return MadeUp(tmp_path)
