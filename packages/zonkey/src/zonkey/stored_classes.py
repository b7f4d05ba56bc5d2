"""Classes of zonkey that files may hold: the entry point `zonkey.models` of this distribution."""

from .anyshot.adapting import Adapted, Reserve
from .anyshot.choice import Choice, Point, Temperatures
from .anyshot.classifier import AnyShotClassifier
from .anyshot.evidence import Evidence, Regression
from .anyshot.left_out import LeftOut
from .anyshot.priors import ClassValues
from .anyshot.refining import Refined, Refinement
from .anyshot.state import AnyShotState, FitSettings
from .anyshot.tree_part import TreePart
from .bpl.few_shot import FewShotClassifier
from .bpl.kernels import PrototypeKernel
from .bpl.nearest_support import NearestSupport
from .bpl.zero_shot import ZeroShotClassifier
from .encoders.image_encoder import ImageEncoder
from .encoders.text_encoder import TextEncoder
from .inference.scorer import LinearScores, Rejection, Scorer
from .metrics import PrecisionThreshold
from .preprocessing import FeatureNormalizer, WithinClassWhitener
from .prototypes import Prototypes
from .tree import Tree

# A class that was renamed stays under its old name, too: files of every release load.
CLASSES: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        Adapted,
        AnyShotClassifier,
        AnyShotState,
        Choice,
        ClassValues,
        Evidence,
        FeatureNormalizer,
        FewShotClassifier,
        FitSettings,
        ImageEncoder,
        LeftOut,
        LinearScores,
        NearestSupport,
        Point,
        PrecisionThreshold,
        Prototypes,
        PrototypeKernel,
        Refined,
        Refinement,
        Regression,
        Rejection,
        Reserve,
        Scorer,
        Temperatures,
        TextEncoder,
        Tree,
        TreePart,
        WithinClassWhitener,
        ZeroShotClassifier,
    )
} | {"Decision": Scorer}
