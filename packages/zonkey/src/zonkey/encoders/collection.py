"""Ordered collections of pictures in folders, archives, tables and lists, read one at a time."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

import numpy as np

from ..errors import DataError
from ..files.readers import (
    FOLDER,
    SEPARATORS,
    ZARR,
    decode_text,
    ending_of,
    read_text,
    translate_errors,
)
from ..labels import format_value
from .archives import TAR_ENDINGS, ZIP_ENDINGS, files_of, read_file
from .picture_table import SPLITS, Columns, PictureTable, lists_pictures
from .pictures import PICTURE_ENDINGS, is_picture_name, name_picture, open_picture

if TYPE_CHECKING:
    from PIL.Image import Image

TABLES = ("metadata.csv", "metadata.tsv")
_NUMBER = re.compile("[0-9]+")


@dataclass(frozen=True, eq=False, repr=False)
class Pictures(Sequence["Image"]):
    """An ordered collection of pictures that are read one at a time.

    Make one with `Pictures.of`. Indexing decodes a picture; several threads may do so at once.

    Parameters
    ----------
    names : list of str
        Name of each picture: its path inside the source, or "picture 1" and so on.
    files : object with a method `read`
        Returns the content of a picture for its key.
    keys : list
        Key of each picture.
    source : str
        Where the pictures are from.
    labels : ndarray of str, default=None
        Label of each picture, "" where it is missing. None if the source has none at all.
    split : ndarray of str, default=None
        "train", "val" or "test" for each picture, "" where it is missing. None if the source has
        no split.
    columns : dict of {str: list of str}
        Further columns of the table, without those of paths, labels and the split.
    n_ignored : int, default=0
        Number of files of the source that are left out: not pictures by their ending, or not in the
        table. Hidden files are not counted.

    See Also
    --------
    PictureError : Raised for a picture that cannot be read.

    Examples
    --------
    >>> import numpy as np
    >>> from zonkey.encoders.collection import Pictures
    >>> pictures = Pictures.of([np.zeros((4, 6), dtype=np.uint8), "cat.jpg"])
    >>> pictures.names
    ['picture 1', 'cat.jpg']
    >>> pictures[0].size
    (6, 4)
    """

    names: list[str]
    files: Any
    keys: list[Any]
    source: str
    labels: np.ndarray | None = None
    split: np.ndarray | None = None
    columns: dict[str, list[str]] = field(default_factory=dict)
    n_ignored: int = 0

    @classmethod
    def of(
        cls, source: Any, *, label_column: str | None = None, path_column: str | None = None
    ) -> Pictures:
        """List the pictures of a source, and decode none.

        A folder or an archive holds pictures in one folder per class, whose name is the label; or
        such folders below `train`, `val` and `test`; or pictures without folders; or a table
        `metadata.csv` with a row per picture. A single folder around all others in an archive is
        no label. Pictures are sorted by name, numbers by value; those of tables keep their order.

        Parameters
        ----------
        source : str, path, list, bytes, PIL image, array or Pictures
            A folder; a zip or tar archive; a csv or tsv file with a column of paths relative to
            it; a file of a picture; or pictures themselves: anything that `open_picture` takes,
            or a list of such.
        label_column : str, default=None
            Column of the labels in a table. By default `label`, `class`, `y` or `target`.
        path_column : str, default=None
            Column of the paths in a table. By default `file_name`, `file`, `path`, `image`,
            `filename` or `picture`.

        Returns
        -------
        Pictures
            The pictures.

        Raises
        ------
        DataError
            If the source has no picture, or its table cannot be used.
        """
        wanted = Columns(label_column, path_column)
        if not isinstance(source, str | os.PathLike):
            found = source if isinstance(source, Pictures) else _list_items(source)
            wanted.require_table(None, found.source)
            return found
        path = _check_path(source)
        if path.is_dir() or _ends(path, (*ZIP_ENDINGS, *TAR_ENDINGS)):
            return _list_files(_require_existing(path), wanted)
        if _ends(path, SEPARATORS):
            return _read_table(_require_existing(path), wanted)
        if not _ends(path, PICTURE_ENDINGS) and path.exists():
            raise DataError(
                f"Pictures must be a folder, a zip or tar archive, a csv with a column of paths, "
                f"or a file such as .jpg or .png; got {path.name}. Pass one of these."
            )
        wanted.require_table(None, path.name)
        return cls(
            [_format_name(path.name)],
            _Items(),
            [str(_require_existing(path).absolute())],
            str(path),
        )

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return self.subset(range(*i.indices(len(self))))
        return self.open(index(i))

    def __repr__(self) -> str:
        return f"Pictures({len(self)} of {self.source})"

    def read(self, i: int) -> Any:
        """Return a picture before decoding.

        Parameters
        ----------
        i : int
            Position of the picture.

        Returns
        -------
        bytes, PIL image or array
            The content of a file, or the object itself in a list of images or arrays.

        Raises
        ------
        PictureError
            If the file cannot be read.
        """
        key = self.keys[i]
        with name_picture(self.names[i]):
            return self.files.read(key)

    def open(self, i: int, *, at_least: int | None = None) -> Image:
        """Return a picture as an upright RGB image.

        Parameters
        ----------
        i : int
            Position of the picture.
        at_least : int, default=None
            Length to which the shorter side is going to be resized; see `open_picture`.

        Returns
        -------
        PIL.Image.Image
            The picture.

        Raises
        ------
        PictureError
            If the picture is damaged or too large.
        """
        return open_picture(self.read(i), self.names[i], at_least=at_least)

    def subset(self, rows: Any) -> Pictures:
        """Return some of the pictures.

        Parameters
        ----------
        rows : array-like of int or bool, shape (n,)
            Positions of the pictures, or which of them to keep.

        Returns
        -------
        Pictures
            The pictures, in the order of the positions.
        """
        kept = np.arange(len(self))[np.asarray(rows, dtype=None if len(rows) else np.intp)]

        def taken(values: list[Any]) -> list[Any]:
            return [values[row] for row in kept]

        return replace(
            self,
            names=taken(self.names),
            keys=taken(self.keys),
            labels=None if self.labels is None else self.labels[kept],
            split=None if self.split is None else self.split[kept],
            columns={name: taken(cells) for name, cells in self.columns.items()},
        )


def is_pictures(source: Any) -> bool:
    """Whether a path given to a command means pictures, without decoding any.

    True for a folder without features, the ending of a picture or archive, and a csv or tsv file
    with a column of paths that is not a table of features.
    """
    if not isinstance(source, str | os.PathLike) or not os.fspath(source):
        return False
    try:
        path = Path(source)
        if ending_of(path) in (ZARR, FOLDER):
            return False
        if path.is_dir() or _ends(path, (*PICTURE_ENDINGS, *ZIP_ENDINGS, *TAR_ENDINGS)):
            return True
        return _ends(path, SEPARATORS) and path.is_file() and lists_pictures(path)
    except Exception:  # the reader of the path reports what is wrong
        return False


def _ends(path: Path, endings: Iterable[str]) -> bool:
    return path.name.casefold().endswith(tuple(endings))


def _check_path(source: Any) -> Path:
    """Return a path that can be looked up."""
    if not os.fspath(source):
        raise DataError("Pictures must have a path; got empty text. Pass '.' for this folder.")
    path = Path(source)
    try:
        path.exists()
    except OSError as error:
        raise DataError(f"{path} must be a path; {error.strerror}. Check it.") from None
    return path


def _require_existing(path: Path) -> Path:
    if not path.exists():
        raise DataError(f"{path} does not exist. Check the path.")
    return path


# Pictures by themselves


class _Items:
    """Pictures by themselves: the key is a path, or the picture."""

    def read(self, key: Any) -> Any:
        return read_file(Path(key)) if isinstance(key, str | os.PathLike) else key


def _list_items(source: Any) -> Pictures:
    source = _take_column(source)
    is_bytes = isinstance(source, bytes | bytearray | memoryview)
    is_image = hasattr(source, "getbands")  # of PIL, which need not be installed
    is_array = hasattr(source, "__array__") and getattr(source, "ndim", 1) in (0, 2, 3)
    if is_bytes or is_image or is_array:
        items = [source]
    elif isinstance(source, Iterable) and not isinstance(source, Mapping | Set):
        items = list(source)
    else:
        raise DataError(
            "Pictures must be a path, a picture or a list of pictures; got "
            f"{format_value(source)}. Pass one of these."
        )
    if not items:
        raise DataError("Pictures must be at least one; got an empty list. Pass a picture.")
    names = [
        (isinstance(item, str | os.PathLike) and _format_name(os.fspath(item)))
        or f"picture {number}"
        for number, item in enumerate(items, start=1)
    ]
    source = f"{len(items)} pictures" if len(items) > 1 else names[0]
    return Pictures(names, _Items(), items, source)


def _take_column(source: Any) -> Any:
    """Return the values of a table of one column, such as a DataFrame of paths; others as is."""
    is_table = getattr(source, "ndim", 0) == 2 and hasattr(source, "__array__")
    values = np.asarray(source) if is_table else source
    if not is_table or values.dtype.kind not in "OUTS":  # pixels
        return source
    if values.shape[1] != 1:
        raise DataError(
            f"Pictures of a table must be one column; got {values.shape[1]}. Choose the column of "
            "paths."
        )
    return values[:, 0]


# Folders and archives


def _list_files(path: Path, wanted: Columns) -> Pictures:
    files = files_of(path)
    names = sorted(files.names, key=_make_sort_key)
    pictures = [name for name in names if is_picture_name(name)]
    tables = [name for name in names if posixpath.basename(name) in TABLES]
    top = "" if path.is_dir() else _single_folder([*pictures, *tables])
    table = next((top + name for name in TABLES if top + name in tables), None)
    wanted.require_table(table, path.name)
    if table is not None:
        with translate_errors(Path(table)):
            content = files.read(table)
        rows = PictureTable.parse(decode_text(content, Path(table)), Path(table), wanted)
        by_path = {_normalize_path(name.removeprefix(top)): name for name in names}
        keys = rows.require_found([by_path.get(_normalize_path(cell)) for cell in rows.paths])
        n_ignored = len(names) - len(set(keys)) - 1 + files.n_skipped
        about = rows.labels, rows.split, rows.columns, n_ignored
        return Pictures([_format_name(key) for key in keys], files, keys, str(path), *about)
    n_ignored = len(names) - len(pictures) + files.n_skipped
    if not pictures:
        others = f"; {n_ignored} other files are in it" if n_ignored else "; it is empty"
        raise DataError(
            f"{path} must hold pictures that end in .jpg, .png or the like{others}. Check the path."
        )
    shown_names = [_format_name(name) for name in pictures]
    labels, split = _labels_by_folder([name.removeprefix(top) for name in shown_names])
    return Pictures(shown_names, files, pictures, str(path), labels, split, {}, n_ignored)


def _single_folder(names: list[str]) -> str:
    """Return the folder that holds all files, unless its name is that of a split."""
    tops = {name.partition("/")[:2] for name in names}
    if len(tops) != 1:
        return ""
    top, slash = tops.pop()
    return top + slash if slash and top.casefold() not in SPLITS else ""


def _labels_by_folder(names: list[str]) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return labels and the split by the first folders of paths, None if there are none."""
    tops = [name.partition("/") for name in names]
    split = None
    if all(slash and top.casefold() in SPLITS for top, slash, _ in tops):
        split = np.asarray([SPLITS[top.casefold()] for top, _, _ in tops])
        tops = [rest.partition("/") for _, _, rest in tops]
    labels = [normalize("NFC", top) if slash else "" for top, slash, _ in tops]
    return np.asarray(labels) if any(labels) else None, split


def _make_sort_key(name: str) -> tuple[str, str]:
    """Return a key that sorts by folder, and numbers in names by value."""
    return _NUMBER.sub(_prefix_length, name.casefold().replace("/", "\0")), name


def _prefix_length(number: re.Match[str]) -> str:
    digits = number[0].lstrip("0")
    return f"{len(digits):05}{digits}"


def _normalize_path(name: str) -> str:
    """Return a relative path in one spelling."""
    return normalize("NFC", posixpath.normpath(name.strip().replace("\\", "/")))


def _format_name(name: str) -> str:
    """Return a file name that can be written as UTF-8, which not all can."""
    return name.encode("utf-8", "replace").decode("utf-8")


# Tables


def _read_table(path: Path, wanted: Columns) -> Pictures:
    table = PictureTable.parse(read_text(path), path, wanted)

    def find_file(cell: str) -> str | None:
        for spelled in (cell, cell.replace("\\", "/")):
            full = path.parent.absolute() / spelled
            if cell and full.is_file():
                return str(full)
        return None

    keys = table.require_found([find_file(cell) for cell in table.paths])
    about = table.labels, table.split, table.columns
    names = [cell.replace("\\", "/") for cell in table.paths]
    return Pictures(names, _Items(), keys, str(path), *about)
