"""The systems that zonkey is compared with, if the distribution zonkey-lab is installed."""

import sys

from .optional import format_install

try:
    from zonkey_lab.peers import MethodInfo, fsl, list_methods, zsl
except ModuleNotFoundError as error:
    if error.name != "zonkey_lab":
        raise
    raise ModuleNotFoundError(
        "`zonkey.peers` needs the distribution zonkey-lab, which is not installed. "
        f"Run: {format_install('zonkey-lab')}.",
        name="zonkey_lab",
    ) from None

# `from zonkey.peers.zsl import SAE` works too.
sys.modules |= {f"{__name__}.zsl": zsl, f"{__name__}.fsl": fsl}

__all__ = ["MethodInfo", "fsl", "list_methods", "zsl"]
