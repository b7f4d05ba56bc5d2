"""A pretrained model of 1,000 classes of pictures: `pretrained`.

The last layer of a network that was trained on ImageNet has a row per class, which points toward
the features of its pictures. Kernel ridge regression of rows on names predicts the features of any
other class name. Inner nodes of WordNet take part: "bird" is the mean of its classes.
"""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from ..anyshot.classifier import AnyShotClassifier
from ..encoders import ImageEncoder, TextEncoder
from ..encoders.text_encoder import NAME_TEMPLATES
from ..labels import format_value
from ..parameters import check_option
from ..persistence.container import read_arrays
from ..preprocessing import FeatureNormalizer
from ..prototypes import Prototypes
from ..tree import Tree

KIND = "pretrained base"
_NAMES = ("efficientnet-lite0",)
_LEVEL = 0.16  # typical feature, whose square root is subtracted before features get unit length
_SCALE = 0.25  # length of a row of the head, where features of pictures have unit length
_SURE = 1e4  # number of samples that a row of the head counts as: its direction is certain
_FIXED: dict[str, Any] = {
    "kernel": "rbf",
    "gamma": 4.0,
    "ridge": 0.3,
    "worth": "shots",
    "seen_penalty": 0.0,
    "temperature": 0.02,
    "adapt_temperature": 0.0025,
    "adapt_weight": 0.25,
    "transfer": True,
}


@dataclass(frozen=True, eq=False)
class Base:
    """Rows of the head, vectors of texts and names; leaves of the hierarchy come first."""

    rows: np.ndarray  # n_nodes x d: unit rows of the leaves, and their means for inner nodes
    vectors: np.ndarray  # n_nodes x k: text vectors
    names: np.ndarray  # each once
    members: tuple[np.ndarray, ...]  # leaves below each inner node

    @classmethod
    def from_file(cls, path: Path) -> Base:
        """Read the file that tools/build_base.py makes."""
        _, arrays = read_arrays(path, KIND)
        leaves, vectors = (
            arrays[name].astype(np.float64) * arrays[scale][:, None]
            for name, scale in (("rows", "row_scales"), ("vectors", "vector_scales"))
        )
        bounds = arrays["bounds"]
        members = tuple(np.split(arrays["members"], bounds[1:-1]))
        means = [leaves[below].mean(axis=0) for below in members]
        names = np.array(arrays["names"].tobytes().decode().split("\n"))
        return cls(np.vstack([leaves, means]), vectors, names, members)

    @property
    def n_leaves(self) -> int:
        """Number of classes of ImageNet."""
        return len(self.names) - len(self.members)

    @property
    def labels(self) -> list[str]:
        """Labels of all nodes, which no class of a user has."""
        return [f"{name} [WordNet]" for name in self.names]

    @property
    def shown(self) -> Prototypes:
        """The classes of ImageNet."""
        return Prototypes(self.names[: self.n_leaves], self.vectors[: self.n_leaves])

    def make_tree(self) -> Tree:
        """Return a tree of the classes; the parent is the smallest inner node with more of them.

        WordNet has several nodes above some. Of nodes with the same classes the last is taken.
        """
        n = self.n_leaves
        by_classes = {frozenset(below.tolist()): n + j for j, below in enumerate(self.members)}
        inner = sorted((below for below in by_classes if len(below) > 1), key=len)
        nodes = [*((frozenset((i,)), i, 0) for i in range(n))]
        nodes += [(below, by_classes[below], start) for start, below in enumerate(inner, 1)]
        parents = {
            self.names[node].item(): next(
                (self.names[by_classes[above]].item() for above in inner[start:] if below <= above),
                None,
            )
            for below, node, start in nodes
        }
        parents = Tree(parents).restrict(self.names[:n]).parents
        n_children = Counter(parents.values())

        def find_parent(node: Any) -> Any:
            above = parents[node]
            is_lone = above is not None and n_children[above] == 1
            return find_parent(above) if is_lone else above

        return Tree({node: find_parent(node) for node in parents if n_children[node] != 1})

    def without(self, leaves: np.ndarray) -> Base:
        """Return the base without some leaves, and without nodes that have no other leaves."""
        gone = np.zeros(self.n_leaves, bool)
        gone[leaves] = True
        kept = [below[~gone[below]] for below in self.members]
        n, places = self.n_leaves, np.cumsum(~gone) - 1
        nodes = np.flatnonzero([len(below) > 0 for below in kept])
        means = [self.rows[kept[j]].mean(axis=0) for j in nodes]
        used = np.concatenate([np.flatnonzero(~gone), n + nodes])
        return Base(
            np.vstack([self.rows[:n][~gone], *means]),
            self.vectors[used],
            self.names[used],
            tuple(places[kept[j]] for j in nodes),
        )


@cache
def _base(name: str) -> Base:
    resource = files("zonkey.presets") / "data" / f"{name}.base"
    return Base.from_file(Path(str(resource)))


def pretrained_encoders(name: str = "efficientnet-lite0") -> tuple[ImageEncoder, TextEncoder]:
    """Return the encoders of the pictures and texts that a pretrained model takes.

    Parameters
    ----------
    name : {"efficientnet-lite0"}, default="efficientnet-lite0"
        Name of the model.

    Returns
    -------
    images : ImageEncoder
        Encoder of pictures.
    texts : TextEncoder
        Encoder of names and descriptions of classes.
    """
    check_option("name", name, _NAMES)
    return ImageEncoder(name), TextEncoder(templates=list(NAME_TEMPLATES))


def imagenet_tree(name: str = "efficientnet-lite0") -> Tree:
    """Return the classes of ImageNet in a tree of WordNet, made of what a pretrained model holds.

    Parameters
    ----------
    name : {"efficientnet-lite0"}, default="efficientnet-lite0"
        Name of the model.

    Returns
    -------
    Tree
        The 1,000 classes of ``pretrained(name)`` and the inner nodes above them, each with at least
        two classes.

    See Also
    --------
    pretrained : The model that knows these classes.

    Examples
    --------
    >>> from zonkey.presets import imagenet_tree
    >>> imagenet_tree().path("pizza")[-3:]
    ('nutriment', 'dish (nutriment)', 'pizza')
    """
    check_option("name", name, _NAMES)
    return _base(name).make_tree()


def pretrained(
    name: str = "efficientnet-lite0", classes: Any = None, **parameters: Any
) -> AnyShotClassifier:
    """Return a fitted model that recognizes pictures by the names of classes, without training.

    It takes features of `ImageEncoder(name)`. It starts from the 1,000 classes of ImageNet that the
    network was trained on; classes with other names are predicted from their texts. A few labeled
    pictures (`partial_fit`) and unlabeled ones (`adapt`) make it better.

    Parameters
    ----------
    name : {"efficientnet-lite0"}, default="efficientnet-lite0"
        Encoder whose last layer the model starts from.
    classes : list of str, mapping, ClassTexts, path, str or Prototypes, default=None
        Classes to choose from: names, ``{label: text or texts}``, or what
        `zonkey.encoders.class_texts` accepts; or prototypes that the text encoder of
        `pretrained_encoders` made. None: the 1,000 classes of ImageNet.
    **parameters : dict
        Parameters of `AnyShotClassifier` instead of those that were chosen here, except
        `prototypes`, `candidates` and `preprocessing`.

    Returns
    -------
    AnyShotClassifier
        Fitted classifier. Add classes with
        ``model.with_classes(pretrained_encoders()[1].prototypes([...]))``.

    See Also
    --------
    imagenet_tree : The classes of ImageNet in the tree of WordNet, for `with_tree`.
    pretrained_encoders : The encoders of pictures and texts.
    recommended : The model to fit if there are labeled pictures of many classes.

    Examples
    --------
    >>> from zonkey import presets
    >>> model = presets.pretrained(classes=["cat", "dog", "truck"])
    >>> model.classes_.tolist()
    ['cat', 'dog', 'truck']
    """
    check_option("name", name, _NAMES)
    taken = [key for key in ("prototypes", "candidates", "preprocessing") if key in parameters]
    if taken:
        raise ValueError(
            f"`{taken[0]}` of a pretrained model must be left out; got "
            f"{format_value(parameters[taken[0]])}. Pass `classes`."
        )
    base = _base(name)
    if classes is None:
        classes = base.shown
    elif not isinstance(classes, Prototypes):
        classes = pretrained_encoders(name)[1].prototypes(classes)
    return fit_on_base(base, classes, **parameters)


def fit_on_base(base: Base, known: Prototypes, **parameters: Any) -> AnyShotClassifier:
    """Return a model of these classes that has learned from a base."""
    model = AnyShotClassifier(
        Prototypes(base.labels, base.vectors).extended(known),
        candidates=known.at_leaves().labels.tolist(),
        preprocessing=None,
        prototype_transformer=FeatureNormalizer(center=True),
        **{**_FIXED, **parameters},
    )
    with warnings.catch_warnings():
        # A class of ImageNet by name has the text of a hidden one.
        warnings.filterwarnings("ignore", "Prototypes of different classes should differ")
        model.fit(_SCALE * base.rows, base.labels, np.full(len(base.names), _SURE))
    # Classifier rows are already in the preprocessed space; only image features are transformed.
    prepare = FeatureNormalizer(power=0.5, center=True)
    prepare.fit(np.full((1, base.rows.shape[1]), _LEVEL))
    return model.with_preprocessing(prepare)
