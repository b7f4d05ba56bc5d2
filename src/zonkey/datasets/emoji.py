"""Emoji: pictures of 1,336 classes in five drawing styles, described by their Unicode names.

Embedded in the package, so that nothing has to be downloaded. Features are the 256 leading
principal components (of the training pictures) of an EfficientNet-Lite0; prototypes are MiniLM
embeddings of the CLDR short name and keywords. A quarter of the classes is never seen in training.
Made by tools/build_emoji.py; sources: data/ATTRIBUTION.md, licenses: data/licenses.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial
from importlib.resources import files
from types import MappingProxyType
from typing import Any

import numpy as np

from ..core.prototypes import Prototypes
from .dataset import Dataset
from .errors import DataError
from .lazy import LazyMatrix
from .split import Split

QUERY_STYLE = "twemoji"  # drawn by other hands than the other styles
THUMBNAIL, _COLUMNS = 48, 40  # as in tools/build_emoji.py
LICENSE = (
    "pictures MIT, Apache-2.0 and CC BY 4.0; names Unicode-3.0; see load_emoji().attribution, and "
    "zonkey/datasets/data/licenses for the texts"
)
CITATION = (
    "Noto Emoji (Google), Twemoji (Twitter and contributors), Fluent Emoji (Microsoft), "
    "Unicode CLDR, EfficientNet-Lite0 (Google), all-MiniLM-L6-v2"
)


class EmojiDataset(Dataset):
    """The emoji data set; see `load_emoji`.

    Attributes
    ----------
    styles : ndarray of str
        Drawing style of each sample.
    characters, groups, keywords : dict
        Of each class: the character, the Unicode group, the CLDR keywords.
    attribution : str
        Sources and licenses.
    """

    def __init__(self, file: Any, split: Split, spaces: dict[str, Prototypes]) -> None:
        names = file["names"]
        X = file["features"]
        super().__init__(
            "emoji",
            LazyMatrix(X.shape, np.float32, lambda: X.astype(np.float32), "emoji.npz"),
            names[file["labels"]],
            spaces,
            split,
            license=LICENSE,
            citation=CITATION,
            about={"features": "EfficientNet-Lite0, 256 principal components"},
        )
        self.styles = file["style_names"][file["styles"]]
        self.styles.flags.writeable = False
        self.characters = _by_name(names, file["characters"].tolist())
        self.groups = _by_name(names, file["groups"].tolist())
        words = [tuple(filter(None, text.split(" | "))) for text in file["keywords"].tolist()]
        self.keywords = _by_name(names, words)
        self.attribution = str(file["attribution"])
        self._rows = {name: row for row, name in enumerate(names.tolist())}
        self._seal()

    def __reduce__(self) -> tuple[Any, ...]:
        split = self.split.name.split()[1]
        return partial(load_emoji, split=split, space=self.spaces[0]), ()

    @property
    def sheet_size(self) -> tuple[int, int]:
        """Width and height of the sheet in pixels."""
        return _COLUMNS * THUMBNAIL, -(-len(self._rows) // _COLUMNS) * THUMBNAIL

    @property
    def sheet(self) -> bytes:
        """A WebP picture with a thumbnail of every class, 40 a row."""
        return (files("zonkey.datasets") / "data" / "emoji.webp").read_bytes()

    def place(self, label: str) -> tuple[int, int]:
        """Return left and top of the thumbnail of a class on the sheet, in pixels."""
        row = self._rows[label]
        return row % _COLUMNS * THUMBNAIL, row // _COLUMNS * THUMBNAIL

    def thumbnail(self, label: str) -> np.ndarray:
        """Return the picture of a class, 48 x 48 x 3, 0 to 255."""
        left, top = self.place(label)
        return self._pixels[top : top + THUMBNAIL, left : left + THUMBNAIL]

    @cached_property
    def _pixels(self) -> np.ndarray:
        import io

        from PIL import Image

        with Image.open(io.BytesIO(self.sheet)) as picture:
            return np.asarray(picture.convert("RGB"))


def _by_name(names: np.ndarray, values: list[Any]) -> Mapping[str, Any]:
    return MappingProxyType(dict(zip(names.tolist(), values, strict=True)))


def load_emoji(*, split: str = "zero-shot", space: str = "text") -> EmojiDataset:
    """Load the embedded emoji pictures.

    Parameters
    ----------
    split : {"zero-shot", "few-shot"}, default="zero-shot"
        "zero-shot": learn from four pictures of each of 1,001 seen classes; the fifth, in a style
        that changes from class to class, and all pictures of the 335 unseen classes are for test.
        "few-shot": the seen classes are base classes with all their pictures, the unseen ones are
        novel; their pictures in the style "twemoji" are queries, all others may be shots.
    space : {"text", "name"}, default="text"
        Semantic space that comes first: embeddings of short name and keywords, or of the name.

    Examples
    --------
    >>> data = load_emoji()
    >>> data.X_train.shape, len(data.unseen_classes), data.groups["zebra"]
    ((4004, 256), 335, 'Animals & Nature')
    """
    with (files("zonkey.datasets") / "data" / "emoji.npz").open("rb") as stream:
        file = dict(np.load(stream, allow_pickle=False))
    makers = {"zero-shot": _zero_shot, "few-shot": _few_shot}
    if split not in makers:
        raise DataError(f'`split` must be "zero-shot" or "few-shot"; got {split!r}.')
    spaces = {key: Prototypes(file["names"], file[key].astype(np.float32)) for key in _SPACES}
    if space not in spaces:
        raise DataError(f'`space` must be "text" or "name"; got {space!r}.')
    ordered = {space: spaces.pop(space), **spaces}
    return EmojiDataset(file, makers[split](file), ordered)


_SPACES = ("text", "name")


def _zero_shot(file: dict[str, np.ndarray]) -> Split:
    unseen = file["unseen"][file["labels"]]
    return Split(
        train=np.flatnonzero(file["train"]),
        test_seen=np.flatnonzero(~file["train"] & ~unseen),
        test_unseen=np.flatnonzero(unseen),
        val_classes=file["names"][file["val"]],
        name="emoji zero-shot v1",
    )


def _few_shot(file: dict[str, np.ndarray]) -> Split:
    unseen = file["unseen"][file["labels"]]
    in_style = file["style_names"][file["styles"]] == QUERY_STYLE
    return Split(
        train=np.flatnonzero(~unseen),
        test_unseen=np.flatnonzero(unseen),
        query=np.flatnonzero(unseen & in_style),
        val_classes=file["names"][file["val"]],
        name="emoji few-shot v1",
    )
