"""Registry of the data sets: address, size, license and citation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from zonkey.errors import DataError
from zonkey.files.dataset import did_you_mean
from zonkey.files.emoji import CITATION as EMOJI_CITATION
from zonkey.files.emoji import LICENSE as EMOJI_LICENSE


@dataclass(frozen=True)
class Remote:
    """A data set that is one folder of a zip archive on the web."""

    name: str  # lower case
    url: str  # address of the archive, which several data sets may share
    size: int  # of the archive in bytes, approximately
    sha256: str | None  # of the archive; None if its makers publish none
    members: str  # folder in the archive, and in the data folder
    license: str
    citation: str
    about: str
    required: tuple[str, ...] = ()  # files without which the folder is incomplete

    @property
    def file(self) -> str:
        """Name of the archive in the data folder."""
        return self.url.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class Manual:
    """A data set that nobody offers at a fixed address: users put its files into a folder."""

    name: str
    members: str  # folder in the data folder
    required: tuple[str, ...]  # files without which the folder is incomplete
    source: str  # where they come from
    license: str
    citation: str
    about: str


@dataclass(frozen=True)
class Embedded:
    """A data set that is part of the package."""

    name: str
    license: str
    citation: str
    about: str


_XIAN = (
    "Y. Xian, C. H. Lampert, B. Schiele, Z. Akata. Zero-Shot Learning - A Comprehensive Evaluation "
    "of the Good, the Bad and the Ugly. IEEE TPAMI, 2018."
)


def _benchmark(name: str, about: str, license: str, source: str = "") -> Remote:
    """Return a data set of xlsa17, the archive of features and splits by Xian et al."""
    return Remote(
        name=name,
        url="https://datasets.d2.mpi-inf.mpg.de/xian/xlsa17.zip",
        size=879_000_000,
        sha256=None,
        members=f"xlsa17/data/{name.upper()}",
        license=f"Features and splits: research use. {license}",
        citation=f"{source} {_XIAN}".strip(),
        about=f"{about}; ResNet-101 features and the proposed splits",
        required=("res101.mat", "att_splits.mat"),
    )


_REMOTES = (
    _benchmark(
        "awa1",
        "Animals with Attributes: 30475 images, 50 animals, 85 attributes",
        "The images themselves are not distributed.",
        "C. H. Lampert, H. Nickisch, S. Harmeling. Attribute-Based Classification for Zero-Shot "
        "Visual Object Categorization. IEEE TPAMI, 2014.",
    ),
    _benchmark(
        "awa2",
        "Animals with Attributes 2: 37322 images, 50 animals, 85 attributes",
        "Images: each has its own license, see https://cvml.ista.ac.at/AwA2/.",
    ),
    _benchmark(
        "cub",
        "Caltech-UCSD Birds 200-2011: 11788 images, 200 birds, 312 attributes",
        "Images: non-commercial research and education.",
        "C. Wah, S. Branson, P. Welinder, P. Perona, S. Belongie. The Caltech-UCSD "
        "Birds-200-2011 Dataset. Technical report CNS-TR-2011-001, California Institute of "
        "Technology, 2011.",
    ),
    _benchmark(
        "sun",
        "SUN Attribute: 14340 images, 717 scenes, 102 attributes",
        "Images: see https://cs.brown.edu/~gmpatter/sunattributes.html.",
        "G. Patterson, C. Xu, H. Su, J. Hays. The SUN Attribute Database: Beyond Categories for "
        "Deeper Scene Understanding. IJCV, 2014.",
    ),
    _benchmark(
        "apy",
        "aPascal and aYahoo: 15339 images, 32 classes of objects, 64 attributes",
        "Images: see https://vision.cs.uiuc.edu/attributes/.",
        "A. Farhadi, I. Endres, D. Hoiem, D. Forsyth. Describing Objects by their Attributes. "
        "CVPR, 2009.",
    ),
)

REGISTRY: Mapping[str, Remote] = MappingProxyType({remote.name: remote for remote in _REMOTES})

_MINI_IMAGENET = "O. Vinyals et al. Matching Networks for One Shot Learning. NIPS, 2016."
_OWN_FEATURES = (
    "Your own features: a backbone trained on the 80 classes that are not novel, and one trained "
    "on 64 of them to choose parameters. Arrays: see zonkey_lab.datasets.load_mini_imagenet."
)
_PLACED = (
    Manual(
        name="emoji-pictures",
        members="emoji-pictures",
        required=("pictures.npz",),
        source="`python tools/build_emoji_pictures.py` of the source code draws them.",
        license=EMOJI_LICENSE,
        citation=EMOJI_CITATION,
        about="The pictures of the emoji data set as pixels, for networks trained on them",
    ),
    Manual(
        name="imnet",
        members="imnet",
        required=("ImNet_2_demo_data.mat",),
        source="The data of the authors' code of SAE, https://github.com/Elyorcv/SAE.",
        license="ImageNet terms of access: non-commercial research and education.",
        citation="E. Kodirov, T. Xiang, S. Gong. Semantic Autoencoder for Zero-Shot Learning. "
        "CVPR, 2017.",
        about="ImageNet, 1000 seen classes of ILSVRC2012 and 360 unseen ones of ILSVRC2010: 254000 "
        "images, 1000 word vector dimensions; GoogLeNet features",
    ),
    Manual(
        name="mini-imagenet",
        members="mini_imagenet",
        required=("wrn28_10.npz", "wrn28_10_train64.npz"),
        source=_OWN_FEATURES,
        license="ImageNet terms of access: non-commercial research and education.",
        citation=_MINI_IMAGENET,
        about="mini-ImageNet, 100 classes of 600 images; features of a wide residual network",
    ),
    Manual(
        name="mini-imagenet-cnn",
        members="mini_imagenet",
        required=("conv4.npz", "conv4_train64.npz"),
        source=_OWN_FEATURES,
        license="ImageNet terms of access: non-commercial research and education.",
        citation=_MINI_IMAGENET,
        about="mini-ImageNet, 100 classes of 600 images; features of the simple CNN of four blocks",
    ),
)
PLACED: Mapping[str, Manual] = MappingProxyType({placed.name: placed for placed in _PLACED})

EMBEDDED = (
    Embedded(
        name="emoji",
        license=EMOJI_LICENSE,
        citation=EMOJI_CITATION,
        about="Emoji in five drawing styles, described by their Unicode names; load with "
        "zonkey.datasets.load_emoji()",
    ),
)


def find_remote(name: str, registry: Mapping[str, Remote] = REGISTRY) -> Remote:
    """Return the data set with this name, which can be fetched; case is ignored."""
    wanted = name.strip().lower()
    if wanted in registry:
        return registry[wanted]
    if wanted in PLACED:
        placed = PLACED[wanted]
        raise DataError(
            f"A data set to fetch must have a public address; {wanted!r} has none. Put "
            f"{' and '.join(placed.required)} into the folder {placed.members} of $ZONKEY_DATA, or "
            f"of the folder that you pass. {placed.source}"
        )
    if wanted in (embedded.name for embedded in EMBEDDED):
        raise DataError(f"The data set {wanted!r} is part of the package; it needs no fetching.")
    raise unknown_name(name, registry)


def unknown_name(name: str, names: Mapping[str, object]) -> DataError:
    """Return the error for an unknown data set, with the most similar known name."""
    remedy = did_you_mean(name.strip().lower(), names, "Choose one of them.")
    return DataError(f"A data set must be one of {', '.join(names)}; got {name!r}. {remedy}")
