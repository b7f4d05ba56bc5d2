"""Write MATLAB files of version 5 with SciPy and of version 7.3 as MATLAB itself lays them out."""

import h5py
import numpy as np
from scipy.io import savemat

HEADER_7_3 = (
    "MATLAB 7.3 MAT-file, Platform: GLNXA64, Created on: Thu Sep 19 14:46:48 2019 HDF5 schema"
)
CLASSES = {"f8": "double", "f4": "single", "i2": "int16", "u1": "uint8", "b1": "logical"}


def save_mat(path, variables, version="5", *, compressed=False):
    """Write arrays as matrices, a list as a column of cells, and a string as text."""
    if version == "5":
        cells = {name: _column(value) for name, value in variables.items()}
        savemat(path, cells, do_compression=compressed)
        return
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, value in variables.items():
            _write(file, file, name, value)
    with path.open("r+b") as file:
        file.write(HEADER_7_3.ljust(124).encode() + b"\x00\x02IM")


def _column(value):
    if not isinstance(value, list):
        return value
    column = np.empty((len(value), 1), dtype=object)
    column[:, 0] = value
    return column


def _write(file, group, name, value):
    if isinstance(value, list):
        places = [
            _write(file, file.require_group("#refs#"), f"{name}{number}", cell).ref
            for number, cell in enumerate(value)
        ]
        stored = np.array([places], dtype=h5py.ref_dtype)
        return _dataset(group, name, stored, "cell", (len(value), 1))
    if isinstance(value, str):
        codes = np.array([list(value)]).reshape(1, -1)
        stored = codes.view("<u4").astype("<u2") if value else codes
        return _dataset(group, name, stored.T, "char", (0, 0) if not value else stored.shape)
    if value.dtype.kind == "U":
        stored = np.array([list(line) for line in value]).view("<u4").astype("<u2")
        return _dataset(group, name, stored.T, "char", stored.shape)
    kind = CLASSES[value.dtype.str[1:]]
    stored = value.astype("u1") if kind == "logical" else value
    return _dataset(group, name, stored.T, kind, value.shape)


def _dataset(group, name, stored, kind, shape):
    empty = 0 in shape
    dataset = group.create_dataset(name, data=np.array(shape, dtype="<u8") if empty else stored)
    dataset.attrs["MATLAB_class"] = np.bytes_(kind)
    if empty:
        dataset.attrs["MATLAB_empty"] = np.uint8(1)
    return dataset
