"""The experiments of the paper as data, and the runner that measures them."""

from .experiments import EXPERIMENTS, FULL, QUICK, Experiment, Scale
from .printed import PRINTED, Printed
from .records import Records
from .runner import run_experiments
from .sources import available

__all__ = [
    "EXPERIMENTS",
    "FULL",
    "PRINTED",
    "QUICK",
    "Experiment",
    "Printed",
    "Records",
    "Scale",
    "available",
    "run_experiments",
]
