"""Few resamples for the tests of evaluations: only those of intervals need many."""

import pytest

from zonkey.evaluation import measures


@pytest.fixture(scope="module", autouse=True)
def few_resamples():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measures, "N_DRAWS", 50)
        yield
