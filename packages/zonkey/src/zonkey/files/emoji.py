"""Load the embedded emoji: 1,336 classes in five drawing styles, described by Unicode names.

Features are the 256 leading principal components (of the training pictures) of an
EfficientNet-Lite0, or 128 of a small network that is trained on the base classes alone. Prototypes
are MiniLM embeddings of the CLDR short name and keywords. A quarter of the classes is unseen. Made
by tools/build_emoji.py and tools/build_simple_cnn.py; sources: data/ATTRIBUTION.md, licenses:
data/licenses.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from functools import cache, partial
from importlib.resources import files
from types import MappingProxyType
from typing import Any

import numpy as np

from ..errors import DataError
from ..optional import require_package
from ..prototypes import Prototypes
from .dataset import Dataset, LazyMatrix, Split

QUERY_STYLE = "twemoji"  # its artists drew none of the other styles
THUMBNAIL, _COLUMNS = 48, 40  # as in tools/build_emoji.py
# Styles of the thumbnails, one per artist -> file and position among the sheets in it.
_SHEETS = {
    "fluent-flat": ("emoji.webp", 0),
    "noto": ("emoji-styles.webp", 0),
    "twemoji": ("emoji-styles.webp", 1),
}
DRAWN_STYLES = tuple(_SHEETS)
LICENSE = (
    "pictures MIT, Apache-2.0 and CC BY 4.0; names Unicode-3.0; see load_emoji().attribution, and "
    "zonkey/datasets/data/licenses for the texts"
)
CITATION = (
    "Noto Emoji (Google), Twemoji (Twitter and contributors), Fluent Emoji (Microsoft), "
    "Unicode CLDR, EfficientNet-Lite0 (Google), all-MiniLM-L6-v2"
)
_SPACES = ("text", "name")
# Features -> file, and a description.
_FEATURES = {
    "efficientnet-lite0": ("emoji.npz", "EfficientNet-Lite0, 256 principal components"),
    "simple-cnn": ("emoji-cnn.npz", "four convolutional blocks, 128 principal components"),
}


class EmojiDataset(Dataset):
    """The embedded emoji data set.

    In addition to a `Dataset` it has drawing styles, descriptions and thumbnails. Load it with
    `load_emoji`.

    Parameters
    ----------
    file : mapping of {str: ndarray}
        Arrays of the embedded file.
    split : Split
        Training and test samples.
    spaces : dict of {str: Prototypes}
        Semantic spaces, the default first.
    features : str, default="efficientnet-lite0"
        Name of the features.

    Attributes
    ----------
    styles : ndarray of str of shape (n_samples,)
        Drawing style of each sample.
    characters : mapping of {str: str}
        Unicode character of each class.
    groups : mapping of {str: str}
        Unicode group of each class.
    keywords : mapping of {str: tuple of str}
        CLDR keywords of each class.
    attribution : str
        Sources and licenses.

    See Also
    --------
    load_emoji : Load this data set.

    Examples
    --------
    >>> from zonkey.datasets import load_emoji
    >>> data = load_emoji()
    >>> data.groups["zebra"], data.thumbnail("zebra").shape
    ('Animals & Nature', (48, 48, 3))
    """

    def __init__(
        self,
        file: Any,
        split: Split,
        spaces: dict[str, Prototypes],
        features: str = "efficientnet-lite0",
    ) -> None:
        names = file["names"]
        X, (place, about) = file["features"], _FEATURES[features]
        super().__init__(
            "emoji",
            LazyMatrix(X.shape, np.float32, lambda: X.astype(np.float32), place),
            names[file["labels"]],
            spaces,
            split,
            license=LICENSE,
            citation=CITATION,
            about={"features": about},
        )
        self.styles = file["style_names"][file["styles"]]
        self.styles.flags.writeable = False
        self.characters = _map_names(names, file["characters"].tolist())
        self.groups = _map_names(names, file["groups"].tolist())
        words = [tuple(filter(None, text.split(" | "))) for text in file["keywords"].tolist()]
        self.keywords = _map_names(names, words)
        self.attribution = str(file["attribution"])
        self._features_name = features
        self._rows = {name: row for row, name in enumerate(names.tolist())}
        self._seal()

    def __reduce__(self) -> tuple[Any, ...]:
        split = self.split.name.split()[1]
        options = {"split": split, "space": self.spaces[0], "features": self._features_name}
        return partial(load_emoji, **options), ()

    @property
    def sheet_size(self) -> tuple[int, int]:
        """Width and height of the sheet in pixels."""
        return _COLUMNS * THUMBNAIL, -(-len(self._rows) // _COLUMNS) * THUMBNAIL

    @property
    def sheet(self) -> bytes:
        """WebP picture with a thumbnail of every class, 40 per row."""
        return _file("emoji.webp")

    def place(self, label: str) -> tuple[int, int]:
        """Return the position of a thumbnail on the sheet.

        Parameters
        ----------
        label : str
            A class.

        Returns
        -------
        left : int
            Distance from the left edge in pixels.
        top : int
            Distance from the top edge in pixels.
        """
        row = self._rows[label]
        return row % _COLUMNS * THUMBNAIL, row // _COLUMNS * THUMBNAIL

    def thumbnail(self, label: str, style: str = "fluent-flat") -> np.ndarray:
        """Return the picture of a class.

        Parameters
        ----------
        label : str
            A class.
        style : {"fluent-flat", "noto", "twemoji"}, default="fluent-flat"
            Drawing style: Microsoft's, Google's or Twitter's.

        Returns
        -------
        ndarray of shape (48, 48, 3)
            Red, green and blue from 0 to 255.
        """
        if style not in _SHEETS:
            raise DataError(
                f"`style` must be one of {', '.join(_SHEETS)}; got {style!r}. The other styles "
                "have features only."
            )
        name, above = _SHEETS[style]
        left, top = self.place(label)
        top += above * self.sheet_size[1]
        return _pixels(name)[top : top + THUMBNAIL, left : left + THUMBNAIL]


@cache
def _pixels(name: str) -> np.ndarray:
    image = require_package("PIL.Image", "Drawing emoji")
    with image.open(io.BytesIO(_file(name))) as picture:
        return np.asarray(picture.convert("RGB"))


def _file(name: str) -> bytes:
    return (files("zonkey.files") / "data" / name).read_bytes()


def _map_names(names: np.ndarray, values: list[Any]) -> Mapping[str, Any]:
    return MappingProxyType(dict(zip(names.tolist(), values, strict=True)))


def load_emoji(
    *, split: str = "zero-shot", space: str = "text", features: str = "efficientnet-lite0"
) -> EmojiDataset:
    """Load the embedded emoji pictures.

    Parameters
    ----------
    split : {"zero-shot", "few-shot"}, default="zero-shot"
        "zero-shot": four pictures of each of 1,001 seen classes are for training. The fifth, in a
        style that changes from class to class, and all pictures of the 335 unseen classes are for
        test. "few-shot": the seen classes are base classes with all their pictures, the unseen ones
        are novel; their pictures in the style "twemoji" are queries, all others may be shots.
    space : {"text", "name"}, default="text"
        Default semantic space: embeddings of short name and keywords, or of the name only.
    features : {"efficientnet-lite0", "simple-cnn"}, default="efficientnet-lite0"
        "efficientnet-lite0" was trained on ImageNet; "simple-cnn" has four convolutional blocks
        and was trained from scratch on the base classes, without validation classes.

    Returns
    -------
    EmojiDataset
        The data set.

    Examples
    --------
    >>> from zonkey.datasets import load_emoji
    >>> data = load_emoji()
    >>> data.X_train.shape, len(data.unseen_classes), data.groups["zebra"]
    ((4004, 256), 335, 'Animals & Nature')
    """
    if features not in _FEATURES:
        raise DataError(f"`features` must be one of {', '.join(_FEATURES)}; got {features!r}.")
    file = _arrays("emoji.npz")
    if features != "efficientnet-lite0":
        file["features"] = _arrays(_FEATURES[features][0])["features"]
    if split not in ("zero-shot", "few-shot"):
        raise DataError(f'`split` must be "zero-shot" or "few-shot"; got {split!r}.')
    if space not in _SPACES:
        raise DataError(f'`space` must be "text" or "name"; got {space!r}.')
    order = sorted(_SPACES, key=lambda key: key != space)
    spaces = {key: Prototypes(file["names"], file[key].astype(np.float32)) for key in order}
    return EmojiDataset(file, _split(file, split), spaces, features)


def _arrays(name: str) -> dict[str, np.ndarray]:
    with (files("zonkey.files") / "data" / name).open("rb") as stream:
        return dict(np.load(stream, allow_pickle=False))


def _split(file: dict[str, np.ndarray], kind: str) -> Split:
    unseen = file["unseen"][file["labels"]]
    parts = {"test_unseen": unseen}
    if kind == "zero-shot":
        parts |= {"train": file["train"], "test_seen": ~file["train"] & ~unseen}
    else:
        in_style = file["style_names"][file["styles"]] == QUERY_STYLE
        parts |= {"train": ~unseen, "query": unseen & in_style}
    positions = {part: np.flatnonzero(mask) for part, mask in parts.items()}
    return Split(**positions, val_classes=file["names"][file["val"]], name=f"emoji {kind} v1")
