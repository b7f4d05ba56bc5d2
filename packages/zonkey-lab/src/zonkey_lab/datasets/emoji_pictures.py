"""Load the pictures of the emoji data set as pixels, for networks that are trained on them.

The package holds features only. `python tools/build_emoji_pictures.py` draws the pictures from the
packages that the features were made of, and writes one file.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from zonkey.errors import DataError
from zonkey.files.dataset import Dataset, LazyMatrix
from zonkey.files.emoji import load_emoji
from zonkey.files.readers import require_existing, stored_arrays

_REMEDY = "Draw them again with `python tools/build_emoji_pictures.py`."


class PictureDataset(Dataset):
    """Pictures as rows of numbers, with their drawing styles.

    Parameters
    ----------
    name : str
        Name of the data set.
    features : LazyMatrix or ndarray
        The pictures.
    like : EmojiDataset
        The embedded data set, with the same samples.

    Attributes
    ----------
    styles : ndarray of str of shape (n_samples,)
        Drawing style of each sample.
    """

    def __init__(self, name: str, features: LazyMatrix | np.ndarray, like: Any) -> None:
        side = int((features.shape[1] // 3) ** 0.5)
        spaces = {space: like.prototypes_of(space) for space in like.spaces}
        super().__init__(
            name,
            features,
            like.y,
            spaces,
            like.split,
            license=like.license,
            citation=like.citation,
            about={"features": f"pictures of {side} x {side} pixels"},
        )
        self.styles = like.styles
        self._like = like
        self._seal()

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(PictureDataset, self.name, np.asarray(self.X), self._like), ()


def load_emoji_pictures(path: str | Path, *, split: str = "few-shot") -> PictureDataset:
    """Load the pictures of the emoji data set.

    Samples, labels, prototypes and splits are those of `zonkey.datasets.load_emoji`.

    Parameters
    ----------
    path : str or Path
        The `.npz` file of tools/build_emoji_pictures.py: `pictures` (n x side x side x 3, uint8),
        and `names` and `styles` of all pictures.
    split : {"few-shot", "zero-shot"}, default="few-shot"
        As for the embedded data set.

    Returns
    -------
    PictureDataset
        The data set. A sample has 3 x side x side numbers from 0 to 1, channel by channel.
    """
    known = load_emoji(split=split)
    path = require_existing(path, (".npz",))
    arrays = {array.name: array for array in stored_arrays(path)}
    missing = [name for name in ("pictures", "names", "styles") if name not in arrays]
    if missing:
        raise DataError(f"A file of pictures must have {missing[0]!r}; {path} has none. {_REMEDY}")
    for name, expected in (("names", known.y), ("styles", known.styles)):
        found = arrays[name].read().astype(str)
        if not np.array_equal(found, expected):
            raise DataError(
                f"The {name} in {path} must be those of the embedded data set, in its order; they "
                f"are not. {_REMEDY}"
            )
    n, shape = len(known.y), arrays["pictures"].shape
    if len(shape) != 4 or shape != (n, shape[1], shape[1], 3):
        raise DataError(
            f"`pictures` must have the shape ({n}, side, side, 3); {path} has {shape}. {_REMEDY}"
        )

    def read() -> np.ndarray:
        rows = arrays["pictures"].read().transpose(0, 3, 1, 2).reshape(n, -1)
        return rows.astype(np.float32) / 255

    matrix = LazyMatrix((n, 3 * shape[1] ** 2), np.float32, read, str(path))
    return PictureDataset("emoji-pictures", matrix, known)
