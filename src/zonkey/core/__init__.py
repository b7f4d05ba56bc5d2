"""The mathematics of the paper: moments, projection, synthesis, competition."""

from .competition import Competition, Path, Step, learn
from .entropy import EntropyObjective, minimize_entropy
from .frame import BaseClasses, Frame
from .moments import Moments
from .projection import (
    NormalEquations,
    bidirectional_projection,
    forward_projection,
    reverse_projection,
)
from .prototypes import Prototypes
from .synthesis import Synthesized, synthesize, synthesize_from_support

__all__ = [
    "BaseClasses",
    "Competition",
    "EntropyObjective",
    "Frame",
    "Moments",
    "NormalEquations",
    "Path",
    "Prototypes",
    "Step",
    "Synthesized",
    "bidirectional_projection",
    "forward_projection",
    "learn",
    "minimize_entropy",
    "reverse_projection",
    "synthesize",
    "synthesize_from_support",
]
