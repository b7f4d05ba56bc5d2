import numpy as np
import pytest
from scipy import stats

from zonkey.metrics import mean_confidence_interval


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.99])
def test_interval_is_that_of_the_t_test(confidence):
    values = np.random.default_rng(0).normal(size=9)
    mean, half_width = mean_confidence_interval(values, confidence)
    low, high = stats.ttest_1samp(values, 0).confidence_interval(confidence)
    assert (mean - half_width, mean + half_width) == pytest.approx((low, high))


def test_equal_figures_leave_no_doubt():
    assert mean_confidence_interval([0.5, 0.5, 0.5]) == (0.5, 0.0)


@pytest.mark.parametrize("values", [[], [0.3], [[0.1, 0.2]], [0.1, np.nan]])
def test_too_few_or_not_finite(values):
    with pytest.raises(ValueError, match=r"at least two finite figures.*Run more trials"):
        mean_confidence_interval(values)


@pytest.mark.parametrize("confidence", [0, 1, 95])
def test_confidence_out_of_range(confidence):
    with pytest.raises(ValueError, match=f"between 0 and 1; got {confidence}"):
        mean_confidence_interval([0.1, 0.2], confidence)
