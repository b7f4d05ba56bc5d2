"""Decode one picture of any kind to an upright RGB image on white, in bounded memory."""

from __future__ import annotations

import io
import os
import struct
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from ..errors import DataError
from ..files.readers import join_lines
from ..labels import check_count, format_value
from ..optional import require_package

if TYPE_CHECKING:
    from PIL.Image import Image

PICTURE_ENDINGS = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".mpo", ".png", ".apng", ".gif", ".webp", ".bmp"),
    *(".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm", ".avif", ".jp2", ".heic", ".heif"),
)
MOST_PIXELS = 178_000_000  # just below the number from which some of Pillow's readers refuse

# Other formats of Pillow are rare, and EPS would start another program. HEIF is known to Pillow
# if the user has registered a reader of it.
_FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM", "AVIF", "JPEG2000", "HEIF")
_CHANNELS = (1, 3, 4)
_ORIENTATION = 0x0112  # tag of EXIF, whose values from 2 on mean these turns of Pillow
_TURNS = {
    **{2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM", 5: "TRANSPOSE"},
    **{6: "ROTATE_270", 7: "TRANSVERSE", 8: "ROTATE_90"},
}
_MANY_PIXELS = 1 << 25  # from which pictures are decoded one after the other
_one_large_picture = threading.Lock()
_locks = [threading.Lock() for _ in range(64)]  # of images, by their address


class PictureError(DataError):
    """A picture that cannot be read.

    The message is a single line that names the picture, the problem and the remedy.

    Parameters
    ----------
    subject, rule, received, remedy : str
        Parts of the message, see `Problem`.
    option : str or iterable of str, default=()
        Parameters of Python that the message names.

    See Also
    --------
    Pictures : An ordered collection of pictures.

    Examples
    --------
    >>> from zonkey.encoders.pictures import PictureError, open_picture
    >>> try:
    ...     open_picture(b"no picture", "cat.jpg")
    ... except PictureError as error:
    ...     print(str(error).split(";")[0])
    cat.jpg must be a picture in a format such as JPEG, PNG, GIF or TIFF
    """


def open_picture(source: Any, name: str | None = None, *, at_least: int | None = None) -> Image:
    """Decode a picture to an upright RGB image.

    The first frame of an animation is taken. Transparent parts become white. The EXIF orientation
    is applied. Color profiles are not. The result is `source` itself if that is such an image.

    `source` is the path or content of a file, or pixels: an array of shape (height, width),
    (height, width, channels) or (channels, height, width) with 1, 3 or 4 channels, and of type
    uint8, uint16, bool, or float between 0 and 1. Anything else, damage, and more than 178 million
    pixels are a PictureError, which calls the picture `name`.

    `at_least` is the number of pixels to which the shorter side is going to be resized. A picture
    whose shorter side is at least four times that is decoded at a fraction of its size, and stays
    at least twice that.
    """
    pillow = require_package("PIL.Image", "Reading pictures")
    is_path = isinstance(source, str | os.PathLike)
    name = name or (os.fspath(source) if is_path else "The picture")
    if at_least is not None:
        at_least = check_count("at_least", at_least, 1)
    with name_picture(name):
        if isinstance(source, pillow.Image):
            return _convert_upright(source, name, at_least)
        if is_path:
            with Path(source).open("rb") as file:
                return _decode(file, name, at_least)
        if isinstance(source, bytes | bytearray | memoryview):
            return _decode(io.BytesIO(source), name, at_least)
        if hasattr(source, "__array__"):
            return _convert_upright(pillow.fromarray(_pixels(source, name)), name, at_least)
    raise PictureError(
        f"{name} must be a path, bytes, a PIL image or an array; got {format_value(source)}. Pass "
        "one of these."
    )


@contextmanager
def name_picture(name: str) -> Iterator[None]:
    """Turn any failure to read a picture into a one-line PictureError that names it."""
    try:
        yield
    except (PictureError, ImportError):
        raise
    except FileNotFoundError:
        raise PictureError(f"{name} does not exist. Check the path.") from None
    except IsADirectoryError:
        raise PictureError(f"{name} must be a picture; it is a folder. Pass its files.") from None
    except PermissionError:
        raise PictureError(
            f"{name} must be readable; permission denied. Change its mode."
        ) from None
    except MemoryError:
        raise PictureError(f"{name} must fit into memory; it does not. Shrink it.") from None
    except Exception as error:  # readers of damaged files raise errors of any type
        if type(error).__name__ == "DecompressionBombError":  # of Pillow
            raise _make_size_error(name) from None
        raise PictureError(
            f"{name} must be a whole picture; it is damaged or cut short "
            f"({join_lines(error)[:80]}). Download or save it again."
        ) from None


def is_picture_name(name: str) -> bool:
    """Whether the ending of a file is that of a picture."""
    return name.casefold().endswith(PICTURE_ENDINGS)


def _make_size_error(name: str, size: tuple[int, int] | None = None) -> PictureError:
    found = f"{size[0]} x {size[1]}" if size else "more"
    return PictureError(
        f"{name} must have at most {MOST_PIXELS // 10**6} million pixels; it has {found}. Shrink "
        "it, or cut it into parts."
    )


# Files


def _decode(file: BinaryIO, name: str, at_least: int | None) -> Image:
    image = _open_by_content(file, name)
    if image.width * image.height > MOST_PIXELS:
        raise _make_size_error(name, image.size)
    if at_least is not None:
        # Only JPEG can be decoded at 1/2, 1/4 or 1/8 of its size. A square is safe to ask for
        # before the orientation is known.
        image.draft(None, (2 * at_least, 2 * at_least))
    is_large = image.width * image.height > _MANY_PIXELS
    with _decode_alone() if is_large else nullcontext():
        return _convert_upright(image, name, at_least)


@contextmanager
def _decode_alone() -> Iterator[None]:
    """Decode one large picture at a time: each thread would need the memory of one.

    Pillow's reader of TIFF warns of large pictures when it decodes them. The filter is not safe in
    threads, which is why only the one that decodes a large picture sets it.
    """
    category = require_package("PIL.Image", "Reading pictures").DecompressionBombWarning
    with _one_large_picture, warnings.catch_warnings():
        warnings.simplefilter("ignore", category)
        yield


def _open_by_content(file: BinaryIO, name: str) -> Any:
    """Open a file by its content, and read no pixel.

    The same as `PIL.Image.open` without its limit and warning of large pictures: that limit belongs
    to the user, and a filter of warnings is not safe in threads.
    """
    pillow = require_package("PIL.Image", "Reading pictures")
    start = file.read(16)
    if not start:
        raise PictureError(f"{name} must be a picture; the file is empty. Save it again.")
    pillow.init()
    for kind in _FORMATS:
        if kind not in pillow.OPEN:
            continue
        factory, accepts = pillow.OPEN[kind]
        with suppress(SyntaxError, IndexError, TypeError, struct.error):  # not this format
            # The answer is text if Pillow was built without the library of a format.
            if accepts is None or accepts(start) in (True, 1):
                file.seek(0)
                return factory(file, "")
    is_heif = start[4:8] == b"ftyp" and start[8:12] in (b"heic", b"heix", b"mif1", b"msf1")
    found = "it is a HEIF file" if is_heif else "its content is of no such format, or damaged"
    raise PictureError(
        f"{name} must be a picture in a format such as JPEG, PNG, GIF or TIFF; {found}. Save it as "
        "JPEG or PNG."
    )


# Pixels


def _convert_upright(image: Any, name: str, at_least: int | None) -> Any:
    """Return an image in RGB, possibly smaller, and turned as its EXIF data say."""
    with _locks[id(image) // 16 % len(_locks)]:  # an image of the user may be in other threads too
        image.load()  # first: PNG may have EXIF data at its end, and TIFF is turned by Pillow
        orientation = _orientation(image)
    image = _rgb(image, name)
    factor = 1 if at_least is None else min(image.size) // (2 * at_least)
    if factor > 1:
        # Whole blocks only, else the last block would be stretched to the size of the others.
        (left, width), (top, height) = (
            (side % factor // 2, side // factor * factor) for side in image.size
        )
        image = image.reduce(factor, (left, top, left + width, top + height))
    turn = _TURNS.get(orientation)
    if turn is not None:
        transpose = require_package("PIL.Image", "Reading pictures").Transpose
        image = image.transpose(transpose[turn])
        image.info.clear()  # else the result would be turned again
    return image


def _orientation(image: Any) -> Any:
    try:
        return image.getexif().get(_ORIENTATION)
    except Exception:  # damaged EXIF data do not make a picture useless
        return None


def _rgb(image: Any, name: str) -> Any:
    pillow = require_package("PIL.Image", "Reading pictures")
    if image.mode == "F" or image.mode.startswith("I"):
        image = pillow.fromarray(_eight_bits(image, name))
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        image = pillow.new("RGB", image.size, "white")
        image.paste(layer, mask=layer)
        return image
    return image if image.mode == "RGB" else image.convert("RGB")


def _eight_bits(image: Any, name: str) -> np.ndarray:
    """Return the grey values of an image with more than 8 bits per pixel as uint8."""
    values = np.asarray(image)
    if values.dtype.kind == "u" or (image.mode == "I" and image.format in ("PNG", "PPM")):
        return (values >> 8).astype(np.uint8)  # 16 bits, as Pillow shortens those of colors
    low, high = values.min(), values.max()
    if not np.isfinite(high - low):
        raise PictureError(f"{name} must hold finite numbers; it has NaN or inf. Replace them.")
    # The range is not stored in the file: take the smallest usual one that holds all values.
    if low < 0 or high > 65535:
        values = (values - float(low)) * (255 / max(float(high) - float(low), 1e-30))
    elif high > 255:
        values = values / 257
    elif image.mode == "F" and high <= 1:
        values = values * 255
    return np.round(values).astype(np.uint8)


def _pixels(source: Any, name: str) -> np.ndarray:
    """Return an array as uint8 of shape (height, width) or (height, width, 3 or 4)."""
    values = np.asarray(source)
    shape = values.shape
    if values.ndim == 3 and shape[2] not in _CHANNELS and shape[0] in _CHANNELS:
        values = np.moveaxis(values, 0, 2)
    if values.ndim == 3 and values.shape[2] == 1:
        values = values[:, :, 0]
    if not values.size or values.ndim not in (2, 3) or values.shape[2:] not in ((), (3,), (4,)):
        raise PictureError(
            f"{name} must be an array of shape (height, width), (height, width, channels) or "
            f"(channels, height, width) with 1, 3 or 4 channels; got shape {shape}. Pass several "
            "pictures as a list."
        )
    if values.dtype == np.bool_:
        values = values * np.uint8(255)
    elif values.dtype == np.uint16:
        values = values >> 8
    elif values.dtype.kind == "f":
        if not (values.min() >= 0 and values.max() <= 1):  # also if there is a NaN
            raise PictureError(
                f"{name} must hold floats between 0 and 1; got {values.min():.6g} to "
                f"{values.max():.6g}. Scale them, or convert the array to uint8."
            )
        values = np.round(values * 255)
    elif values.dtype != np.uint8:
        raise PictureError(
            f"{name} must be an array of uint8, uint16, bool, or floats between 0 and 1; got "
            f"{values.dtype}. Convert it, with array.astype(np.uint8) if it holds 0 to 255."
        )
    return np.ascontiguousarray(values, dtype=np.uint8)
