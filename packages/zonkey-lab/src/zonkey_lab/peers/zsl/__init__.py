"""Zero-shot systems to compare with: those of the paper's tables, and two that came after."""

from .ale import ALE
from .cada_vae import CADAVAE
from .cmt import CMT
from .conse import ConSE
from .cvae import CVAE
from .dap import DAP
from .dem import DEM
from .devise import DeViSE
from .dipl import DIPL
from .eszsl import ESZSL
from .exem import EXEM
from .exemplars import ExemplarRegression
from .f_clswgan import FCLSWGAN
from .latem import LATEM
from .sae import SAE
from .sje import SJE
from .sp_aen import SPAEN
from .sse import SSE
from .sync import SynC
from .tf_vaegan import TFVAEGAN
from .vzsl import VZSL

__all__ = [
    "ALE",
    "CADAVAE",
    "CMT",
    "CVAE",
    "DAP",
    "DEM",
    "DIPL",
    "ESZSL",
    "EXEM",
    "FCLSWGAN",
    "LATEM",
    "SAE",
    "SJE",
    "SPAEN",
    "SSE",
    "TFVAEGAN",
    "VZSL",
    "ConSE",
    "DeViSE",
    "ExemplarRegression",
    "SynC",
]
