"""Write MATLAB files with SciPy."""

import numpy as np
from scipy.io import savemat


def save_mat(path, variables, *, compressed=False):
    """Write arrays as matrices, a list as a column of cells, and a string as text."""
    cells = {name: _column(value) for name, value in variables.items()}
    savemat(path, cells, do_compression=compressed)


def _column(value):
    if not isinstance(value, list):
        return value
    column = np.empty((len(value), 1), dtype=object)
    column[:, 0] = value
    return column
