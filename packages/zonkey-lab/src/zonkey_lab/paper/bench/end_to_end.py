"""Few-shot systems whose network is trained on pictures, not on features that are given.

They learn and predict as those of `peers.fsl`. torch predicts, too: model files cannot hold them.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from zonkey.parameters import Count, Flag, Interval

from ...peers.base import load_torch, parameter
from ...peers.fsl import BaseSamples
from ...peers.fsl.base import Support
from ...peers.fsl.meta import EpisodeLearner, MetaPeer
from ...peers.training import Training
from .pictures import (
    AdaptedLearner,
    EncodedClassifier,
    EncodedMatching,
    EncodedPrototypical,
    EncodedRelation,
    PictureLearner,
)


class EndToEnd(MetaPeer):
    """A few-shot system with the network of four blocks, which is trained on pictures.

    A block is a convolution of 3 x 3 pixels, batch normalization, ReLU and 2 x 2 max pooling.
    Training begins at random weights; pictures are shifted by up to 5 pixels, and half of the
    batches mirrored. The state that is best in episodes of validation classes is kept.

    Publications train longer: up to 60,000 steps of MAML and 500,000 episodes of relation networks.
    Here, training ends after 15 epochs of 100 episodes without a gain, or at `max_iter`, 120 epochs
    (60 of MAML). A number of epochs near `max_iter` says that more would have helped.

    Parameters
    ----------
    n_channels : int, default=64
        Number of channels of each block.

    Attributes
    ----------
    weights_ : dict of ndarray
        Weights of the networks, by their names in torch.
    """

    n_channels: int = parameter(default=64, within=Count())

    _kind: ClassVar[type[PictureLearner]]
    _own = Training(max_iter=120, n_iter_no_change=15, batch_size=4, learning_rate=1e-3)

    def _learner(self, base: BaseSamples) -> EpisodeLearner:
        return self._kind(*load_torch(self), base, self)

    def _keep(self, learner: EpisodeLearner) -> dict[str, Any]:
        return {**super()._keep(learner), "_trained": learner}

    def _adapt(self, support: Support) -> dict[str, Any]:
        if len(set(support.counts.tolist())) > 1:
            raise ValueError(
                "The support set must have equally many pictures of each class; got from "
                f"{support.counts.min()} to {support.counts.max()}. Leave some out."
            )
        return {"_shots": support.X.reshape(support.n_classes, -1, support.X.shape[1])}

    def _scores(self, X: np.ndarray) -> np.ndarray:
        fitted = vars(self)
        return fitted["_trained"].score(fitted["_shots"], X)


class PrototypicalEndToEnd(EndToEnd):
    """Prototypical network: the nearest mean of the features of the shots.

    Differences from the publication: four episodes per step, and a learning rate that does not
    fall.

    Parameters
    ----------
    n_way : int or None, default=20
        Number of classes in an episode. 20 as published for five shots; it has 30 for one.

    References
    ----------
    J. Snell, K. Swersky, R. Zemel. Prototypical networks for few-shot learning. NeurIPS 2017.
    """

    n_way: int | None = parameter(default=20, within=Count(2, (None,)))

    _kind = EncodedPrototypical


class MatchingEndToEnd(EndToEnd):
    """Matching network: shots vote, weighted by the cosines of their features with a sample's.

    Differences from the publication: cosines are multiplied by a learned number.

    Parameters
    ----------
    full_context : bool, default=False
        Whether features depend on the whole support set, by LSTMs.
    n_steps : int, default=5
        Number of steps of the LSTM that reads the support set for a sample.

    References
    ----------
    O. Vinyals, C. Blundell, T. Lillicrap, K. Kavukcuoglu, D. Wierstra. Matching networks for one
    shot learning. NeurIPS 2016.
    """

    full_context: bool = parameter(default=False, within=Flag("Use False: LSTMs take long."))
    n_steps: int = parameter(default=5, within=Count())

    _kind = EncodedMatching


class RelationEndToEnd(EndToEnd):
    """Relation network: convolutions compare the feature maps of a class and of a sample.

    As published, the last two blocks do not pool, and the comparison has two blocks more and a
    layer of 8 units. Differences: maps of several shots are averaged instead of summed, and
    convolutions are padded.

    References
    ----------
    F. Sung, Y. Yang, L. Zhang, T. Xiang, P. H. S. Torr, T. M. Hospedales. Learning to compare:
    relation network for few-shot learning. CVPR 2018.
    """

    _kind = EncodedRelation


class MAMLEndToEnd(EndToEnd):
    """MAML: initial weights of all layers from which a few gradient steps learn new classes.

    Differences from the publication: batch normalization takes the statistics of the support set,
    for its samples and for queries; in the authors' code those of each batch, so that a prediction
    depends on the other queries. As many steps adapt to new classes as in training, where the
    publication takes 10 instead of 5.

    Parameters
    ----------
    n_channels : int, default=32
        Number of channels of each block. 32 as in the publication.
    n_steps : int, default=5
        Number of inner steps. 5 as in the publication.
    inner_learning_rate : float, default=0.01
        Size of inner steps. 0.01 as in the publication.
    first_order : bool, default=False
        Whether second derivatives are left out.

    References
    ----------
    C. Finn, P. Abbeel, S. Levine. Model-agnostic meta-learning for fast adaptation of deep
    networks. ICML 2017.
    """

    n_channels: int = parameter(default=32, within=Count())
    n_steps: int = parameter(default=5, within=Count())
    inner_learning_rate: float = parameter(default=0.01, within=Interval(0, open_below=True))
    first_order: bool = parameter(default=False, within=Flag("Use False, as in the publication."))

    _kind = AdaptedLearner
    _has_outputs = True
    _own = Training(max_iter=60, n_iter_no_change=15, batch_size=4, learning_rate=1e-3)


class ClassifierEndToEnd(EndToEnd):
    """The baseline: a classifier of base classes, and the nearest mean of its features.

    Training minimizes the cross-entropy of all base classes; episodes only decide when to stop.
    """

    _kind = EncodedClassifier
    _own = Training(max_iter=120, n_iter_no_change=15, batch_size=128, learning_rate=1e-3)
