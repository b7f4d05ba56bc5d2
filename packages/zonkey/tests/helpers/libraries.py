"""Array libraries and devices that the same code has to serve, for tests of several packages."""

import array_api_strict
import numpy as np
import pytest
import torch
from array_api_compat import device

# The arrays are small: threads would wait for each other for longer than they work.
torch.set_num_threads(1)


class Library:
    """Takes NumPy arrays to a library and device, and back."""

    def __init__(self, name):
        self.name = name
        strict = name in ("CPU_DEVICE", "device1")
        self.xp = array_api_strict if strict else torch
        self.device = array_api_strict.Device(name) if strict else torch.device("cpu")

    def __call__(self, M):
        # Copied: a tensor would share its memory with M.
        return self.xp.asarray(np.array(M), device=self.device)

    def numpy(self, M):
        """Return what must be an array of this library on this device."""
        assert isinstance(M, type(self.xp.asarray(0.0)))
        assert device(M) == self.device
        if self.xp is torch:
            return M.numpy()
        return np.asarray(M.to_device(array_api_strict.Device("CPU_DEVICE")))

    def __repr__(self):
        return self.name


# Arrays on the second device of the strict library cannot become NumPy arrays unnoticed.
LIBRARIES = [Library(name) for name in ("torch", "CPU_DEVICE", "device1")]
TORCH = LIBRARIES[0]
in_every_library = pytest.mark.parametrize("library", LIBRARIES, ids=repr)
