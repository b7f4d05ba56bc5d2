"""Made-up records of every experiment, which several tests of the report read."""

import pytest
from made_up_records import MadeUp

from zonkey.paper.report.collection import read_collection


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    return MadeUp(tmp_path_factory.mktemp("runs")).everything()


@pytest.fixture(scope="session")
def collection(made):
    return read_collection(made.records.folder)
