"""One picture of any kind becomes an upright RGB image on white, or an error that names it."""

import io
import struct
import sys
import threading
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from all_pairs import all_pairs
from PIL import Image

from zonkey.encoders import pictures
from zonkey.encoders.pictures import MOST_PIXELS, PictureError, open_picture

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


def content(image, kind="PNG", **options):
    """Return a file in memory."""
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def colors(height=24, width=16, channels=3, seed=0):
    """Return random pixels."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)


def quadrants(width=48, height=32):
    """Return a picture whose corners tell how it was turned: red, green, blue, white."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[: height // 2, : width // 2] = RED
    pixels[: height // 2, width // 2 :] = GREEN
    pixels[height // 2 :, : width // 2] = BLUE
    pixels[height // 2 :, width // 2 :] = WHITE
    return Image.fromarray(pixels)


def pixels_of(*args, **options):
    image = open_picture(*args, **options)
    assert image.mode == "RGB"
    return np.asarray(image)


# Sources


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM", "WEBP", "JPEG2000", "GIF"])
def test_a_file_by_path_and_by_content_gives_the_stored_pixels(tmp_path, kind):
    pixels = colors() // 64 * 64  # few colors, so that a palette holds all
    options = {"WEBP": {"lossless": True}}.get(kind, {})
    stored = content(Image.fromarray(pixels), kind, **options)
    path = tmp_path / "any name"  # the content tells the format
    path.write_bytes(stored)
    for source in (path, str(path), stored, bytearray(stored), memoryview(stored)):
        np.testing.assert_array_equal(pixels_of(source), pixels)


@pytest.mark.parametrize("kind", ["JPEG", "AVIF"])
def test_lossy_files_give_nearly_the_stored_pixels(kind):
    gradient = np.linspace(0, 255, 64, dtype=np.uint8)[:, None, None] * np.ones(3, np.uint8)
    pixels = np.broadcast_to(gradient, (64, 48, 3)).copy()
    found = pixels_of(content(Image.fromarray(pixels), kind, quality=95))
    assert np.abs(found.astype(int) - pixels).max() < 12


def test_a_file_is_closed_after_reading(tmp_path):
    path = tmp_path / "a.gif"
    first, second = Image.new("RGB", (4, 4), RED), Image.new("RGB", (4, 4), BLUE)
    first.save(path, save_all=True, append_images=[second])
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        image = open_picture(path)
    path.unlink()
    assert image.getpixel((0, 0)) == RED


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (colors()[:, :, 0], colors()[:, :, [0, 0, 0]]),
        (colors()[:, :, :1], colors()[:, :, [0, 0, 0]]),
        (colors()[None, :, :, 0], colors()[:, :, [0, 0, 0]]),
        (colors(), colors()),
        (colors().transpose(2, 0, 1), colors()),
        (colors()[:, ::-1], colors()[:, ::-1]),
        (colors().astype(np.uint16) * 256 + 77, colors()),
        (colors() / 255, colors()),
        ((colors() / 255).astype(np.float16), None),
        (colors() > 127, (colors() > 127) * np.uint8(255)),
        (colors(1, 1), colors(1, 1)),
        (colors(3, 5), colors(3, 5)),  # rows first if both readings are possible
    ],
)
def test_arrays_of_all_shapes_and_types(given, expected):
    before = given.copy()
    found = pixels_of(given)
    if expected is None:  # half precision
        assert np.abs(found.astype(int) - colors()).max() <= 1
    else:
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(given, before)


def test_alpha_of_an_array_shows_white():
    layered = np.dstack([np.zeros((2, 3, 3), np.uint8), np.array([[0, 128, 255]] * 2, np.uint8)])
    np.testing.assert_array_equal(pixels_of(layered)[0, :, 0], [255, 127, 0])
    planes = np.ascontiguousarray(layered.transpose(2, 0, 1))  # (4, 2, 3): rows first
    assert pixels_of(np.tile(planes, (1, 4, 4))).shape == (8, 12, 3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.zeros((5, 5, 2), np.uint8), r"got shape \(5, 5, 2\)"),
        (np.zeros((2, 5, 5), np.uint8), r"got shape \(2, 5, 5\)"),
        (np.zeros(5, np.uint8), r"got shape \(5,\)"),
        (np.zeros((0, 5, 3), np.uint8), r"got shape \(0, 5, 3\)"),
        (np.zeros((1, 5, 5, 3), np.uint8), "as a list"),
        (np.zeros((5, 5), np.int64), "got int64"),
        (np.full((5, 5), 1.5), "got 1.5 to 1.5"),
        (np.full((5, 5), -0.1), "between 0 and 1"),
        (np.full((5, 5), np.nan), "between 0 and 1"),
        (np.full((5, 5), "x"), "got <U1"),
        (7, "must be a path, bytes, a PIL image or an array; got 7"),
        (None, "got None"),
    ],
)
def test_other_arrays_and_objects_are_refused(given, message):
    with pytest.raises(PictureError, match=rf"\Acat 7 [^\n]*{message}[^\n]*\Z"):
        open_picture(given, "cat 7")


# Modes


def test_one_bit_and_grey_pictures():
    pixels = colors()[:, :, 0]
    bits = Image.fromarray(pixels).convert("1", dither=Image.Dither.NONE)
    np.testing.assert_array_equal(pixels_of(content(bits))[:, :, 1], (pixels > 127) * 255)
    np.testing.assert_array_equal(pixels_of(content(Image.fromarray(pixels)))[:, :, 2], pixels)


def row(mode, *pixels, palette=None):
    """Return an image of one row."""
    image = Image.new(mode, (len(pixels), 1))
    if palette is not None:
        image.putpalette(palette)
    image.putdata(pixels)
    return image


PALETTE = [*RED, *BLUE, 0, 0, 0]
CLEAR, GREY, HALF = (0, 0, 0, 0), (177,) * 3, (127,) * 3
CLEAR_FIRST = {"transparency": b"\0\xff\x80"}
TRANSPARENT = [
    (row("LA", (100, 0), (100, 128), (100, 255)), "PNG", {}, [WHITE, GREY, (100,) * 3]),
    (row("RGBA", (*RED, 255), CLEAR), "PNG", {}, [RED, WHITE]),
    (row("RGBA", (*RED, 255), CLEAR), "WEBP", {"lossless": True}, [RED, WHITE]),
    (row("RGBA", (*RED, 255), CLEAR), "TIFF", {}, [RED, WHITE]),
    (row("P", 0, 1, palette=PALETTE), "PNG", {}, [RED, BLUE]),
    (row("P", 0, 1, palette=PALETTE), "GIF", {}, [RED, BLUE]),
    (row("P", 0, 1, palette=PALETTE), "PNG", {"transparency": 0}, [WHITE, BLUE]),
    (row("P", 0, 1, palette=PALETTE), "GIF", {"transparency": 0}, [WHITE, BLUE]),
    (row("P", 0, 1, 2, palette=PALETTE), "PNG", CLEAR_FIRST, [WHITE, BLUE, HALF]),
    (row("RGB", RED, GREEN), "PNG", {"transparency": RED}, [WHITE, GREEN]),
]


@pytest.mark.parametrize(("image", "kind", "options", "expected"), TRANSPARENT)
def test_transparent_parts_are_white(image, kind, options, expected):
    assert pixels_of(content(image, kind, **options)).tolist() == [[*map(list, expected)]]


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "PPM"])
def test_16_bits_of_grey_keep_their_brightness(kind):
    image = Image.fromarray(np.array([[0, 255, 256, 32768, 65535]], np.uint16))
    for source in (image, content(image, kind)):
        assert pixels_of(source)[0, :, 0].tolist() == [0, 0, 1, 128, 255]


def test_16_bits_in_the_other_byte_order_and_per_color():
    values = Image.frombytes("I;16B", (2, 1), bytes([0x80, 0x00, 0xFF, 0xFF]))
    assert pixels_of(values)[0, :, 0].tolist() == [128, 255]
    rows = b"\0" + struct.pack(">6H", 0, 0x8001, 0xFFFF, 0x1234, 0xFF00, 0x00FF)
    assert pixels_of(png(2, 1, rows, depth=16)).tolist() == [[[0, 128, 255], [18, 255, 0]]]


@pytest.mark.parametrize(
    ("mode", "values", "expected"),
    [
        ("I", [0, 128, 255], [0, 128, 255]),  # 8 bits in wide numbers
        ("I", [0, 257 * 7, 65535], [0, 7, 255]),
        ("I", [-100, 2, 100], [0, 130, 255]),
        ("I", [0, 1 << 20, 1 << 21], [0, 128, 255]),
        ("I", [-7, -7, -7], [0, 0, 0]),
        ("F", [0, 0.5, 1], [0, 128, 255]),
        ("F", [0, 100.4, 255], [0, 100, 255]),
        ("F", [0, 32896, 65535], [0, 128, 255]),
        ("F", [-1, 0, 1], [0, 128, 255]),
    ],
)
def test_32_bits_of_grey_are_scaled_to_the_range_that_they_use(mode, values, expected):
    image = Image.fromarray(np.array([values], {"I": np.int32, "F": np.float32}[mode]))
    assert image.mode == mode
    for source in (image, content(image, "TIFF")):
        assert pixels_of(source)[0, :, 0].tolist() == expected


def test_floats_that_are_not_finite_are_refused():
    image = Image.fromarray(np.array([[0, np.nan]], np.float32))
    with pytest.raises(PictureError, match=r"^x\.tif must hold finite numbers"):
        open_picture(content(image, "TIFF"), "x.tif")


def test_cmyk():
    image = Image.new("CMYK", (32, 32), (0, 255, 255, 0))  # red
    np.testing.assert_array_equal(pixels_of(content(image, "TIFF"))[0, 0], RED)
    # Pillow writes the mark of Adobe, whose programs store inverted values.
    stored = content(image, "JPEG", quality=95)
    assert b"Adobe" in stored
    assert np.abs(pixels_of(stored).astype(int) - RED).max() < 4


@pytest.mark.parametrize("mode", ["YCbCr", "HSV"])
def test_other_color_spaces(mode):
    image = Image.new("RGB", (2, 2), RED).convert(mode)
    assert np.abs(pixels_of(image).astype(int) - RED).max() < 3


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF", "AVIF", "MPO"])
def test_the_first_frame_of_several(kind):
    frames = [Image.new("RGB", (48, 48), color) for color in (RED, GREEN, BLUE)]
    options = {"lossless": True} if kind == "WEBP" else {}
    stored = content(frames[0], kind, save_all=True, append_images=frames[1:], **options)
    with Image.open(io.BytesIO(stored)) as image:
        assert image.n_frames == 3
    assert np.abs(pixels_of(stored).astype(int) - RED).max() < 4


# Orientation


def turned(orientation, kind, picture=None, **options):
    """Return a file whose EXIF data tell how to turn it."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    return content(picture or quadrants(), kind, exif=exif, **options)


@all_pairs(
    {"orientation": range(1, 9), "kind": ["JPEG", "PNG", "WEBP", "TIFF"], "at_least": [None, 4]}
)
def test_every_orientation(kind, orientation, at_least):
    options = {"JPEG": {"quality": 95, "subsampling": 0}, "WEBP": {"lossless": True}}.get(kind, {})
    stored = turned(orientation, kind, **options)
    found = open_picture(stored, at_least=at_least)
    # Rows of corners: red green / blue white, turned as the standard says.
    r, g, b, w = RED, GREEN, BLUE, WHITE
    corners = {
        1: (r, g, b, w),
        2: (g, r, w, b),
        3: (w, b, g, r),
        4: (b, w, r, g),
        5: (r, b, g, w),
        6: (b, r, w, g),
        7: (w, g, b, r),
        8: (g, w, r, b),
    }[orientation]
    size = (48, 32) if orientation < 5 else (32, 48)
    small = 1 if at_least is None else 4
    assert found.size == (size[0] // small, size[1] // small)
    right, bottom = found.width - 1, found.height - 1
    places = (0, 0), (right, 0), (0, bottom), (right, bottom)
    for place, corner in zip(places, corners, strict=True):
        assert np.abs(np.subtract(found.getpixel(place), corner)).max() < 8
    # A second reading must not turn it again.
    assert open_picture(found, at_least=at_least).size == found.size


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_an_image_that_is_not_loaded_yet_is_turned_once(kind):
    stored = turned(6, kind)
    with Image.open(io.BytesIO(stored)) as image:
        found = open_picture(image)
    np.testing.assert_array_equal(np.asarray(found), pixels_of(stored))
    assert found.size == (32, 48)


def test_an_image_of_the_user_is_turned_and_left_unchanged():
    with Image.open(io.BytesIO(turned(6, "JPEG"))) as image:
        assert open_picture(image, at_least=2).size == (4, 6)
        assert image.size == (48, 32)
        assert image.getexif()[0x0112] == 6
        assert open_picture(image.convert("L")).size == (32, 48)


@pytest.mark.parametrize("value", [0, 9, 300])
def test_an_unknown_orientation_is_no_orientation(value):
    assert open_picture(turned(value, "JPEG")).size == (48, 32)
    damaged = content(quadrants(), "PNG", exif=b"Exif\0\0not EXIF at all")
    assert open_picture(damaged).size == (48, 32)


# Size


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
@pytest.mark.parametrize("size", [(1000, 700), (700, 1000), (640, 480), (200, 3000), (99, 99)])
def test_both_sides_stay_twice_as_long_as_wanted(kind, size):
    ramp = np.linspace(0, 255, size[0], dtype=np.uint8)
    pixels = np.broadcast_to(ramp[None, :, None], (size[1], size[0], 3)).copy()
    stored = content(Image.fromarray(pixels), kind)
    for wanted in (8, 50, 224):
        found = open_picture(stored, at_least=wanted)
        whole = open_picture(stored)
        assert min(found.size) >= min(2 * wanted, *whole.size)
        assert min(found.size) < 4 * wanted or found.size == whole.size
        shape = (32, 32)
        close = np.abs(
            np.asarray(found.resize(shape, Image.Resampling.BICUBIC)).astype(int)
            - np.asarray(whole.resize(shape, Image.Resampling.BICUBIC))
        )
        assert close.max() <= 3 + 255 / (2 * wanted)  # it moves by less than a pixel


@pytest.mark.parametrize("size", [(1, 1), (1, 10_000), (10_000, 1)])
def test_tiny_and_narrow_pictures(size):
    stored = content(Image.new("RGB", size, GREEN))
    with pytest.raises(ValueError, match="at_least"):
        open_picture(stored, at_least=0)
    for at_least in (None, 224):
        found = open_picture(stored, at_least=at_least)
        assert found.size == size
        assert found.getpixel((size[0] - 1, size[1] - 1)) == GREEN


def png(width, height, rows, depth=8, color=2):
    """Return a PNG file whose header may lie."""

    def chunk(kind, body):
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)
    parts = chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def jpeg_of_size(width, height):
    """Return a JPEG file whose header lies."""
    stored = bytearray(content(quadrants(), "JPEG"))
    frame = stored.index(b"\xff\xc0")
    stored[frame + 5 : frame + 9] = struct.pack(">HH", height, width)
    return bytes(stored)


@pytest.mark.parametrize(
    "stored",
    [
        png(60_000, 60_000, b""),
        png(2**31 - 1, 2**31 - 1, b""),
        png(MOST_PIXELS + 1, 1, b""),
        jpeg_of_size(65_000, 65_000),
        b"BM" + bytes(8) + struct.pack("<IIiiHHIIiiII", 54, 40, 50_000, 50_000, 1, 24, *[0] * 6),
        b"P6 50000 50000 255\n",
        content(Image.new("L", (1, 1)), "GIF").replace(
            b"GIF87a\1\0\1\0", b"GIF87a\xff\xff\xff\xff"
        ),
    ],
)
@pytest.mark.parametrize("at_least", [None, 224])
def test_more_pixels_than_allowed_are_refused_before_decoding(stored, at_least):
    limit = Image.MAX_IMAGE_PIXELS
    with pytest.raises(PictureError, match=r"^b\.png must have at most 178 million pixels; it has"):
        open_picture(stored, "b.png", at_least=at_least)
    assert limit == Image.MAX_IMAGE_PIXELS


def test_pictures_beyond_the_limit_of_pillow_are_read_without_a_warning(monkeypatch, recwarn):
    monkeypatch.setattr(pictures, "_MANY_PIXELS", 300)
    for kind in ("PNG", "JPEG", "GIF", "TIFF", "BMP"):
        stored = content(Image.new("L", (30, 20), 9), kind)
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 400)
        with pytest.warns(Image.DecompressionBombWarning):
            Image.open(io.BytesIO(stored)).close()
        assert open_picture(stored).getpixel((29, 19)) == (9, 9, 9)
    assert [str(w.message) for w in recwarn] == []


def test_large_pictures_are_decoded_one_after_the_other(monkeypatch):
    monkeypatch.setattr(pictures, "_MANY_PIXELS", 10)
    most, now, lock = [], [], threading.Lock()
    plain = pictures._convert_upright

    def counted(*args):
        with lock:
            now.append(1)
            most.append(len(now))
        result = plain(*args)
        with lock:
            now.pop()
        return result

    monkeypatch.setattr(pictures, "_convert_upright", counted)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(open_picture, [content(Image.fromarray(colors(200, 200)))] * 8))
    assert most == [1] * 8


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_threads_share_an_image_that_is_not_loaded_yet(kind):
    stored = turned(6, kind, Image.fromarray(colors(300, 200)))
    expected = pixels_of(stored)
    for _ in range(3):
        image = Image.open(io.BytesIO(stored))
        with ThreadPoolExecutor(8) as pool:
            for found in pool.map(open_picture, [image] * 16):
                np.testing.assert_array_equal(np.asarray(found), expected)


# Damage


KINDS = ["JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF", "PPM", "AVIF"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_cut_short_is_named(tmp_path, kind):
    stored = content(Image.fromarray(colors(64, 64)), kind)
    for share in (0.02, 0.3, 0.6, 0.95):
        (tmp_path / "cat.jpg").write_bytes(stored[: int(len(stored) * share)])
        with pytest.raises(PictureError, match=r"\Aanimals/cat\.jpg must be a [^\n]*\.\Z"):
            open_picture(tmp_path / "cat.jpg", "animals/cat.jpg")


@pytest.mark.parametrize("kind", KINDS)
def test_random_damage_gives_a_picture_or_an_error_that_names_it(kind):
    rng = np.random.default_rng(0)
    stored = np.frombuffer(content(Image.fromarray(colors(32, 32)), kind), np.uint8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow warns of damaged tags
        for _ in range(60):
            damaged = stored.copy()
            places = rng.integers(0, min(len(stored), rng.choice([64, 4096])), 4)
            damaged[places] = rng.integers(0, 256, 4)
            message = ""
            try:
                assert open_picture(damaged.tobytes(), "x").mode == "RGB"
            except PictureError as error:
                message = str(error)
            assert not message or message.startswith("x must ")


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (b"", "the file is empty"),
        (b"P", "no such format, or damaged"),
        (b"a text, and no picture", "no such format, or damaged"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "no such format, or damaged"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "no such format, or damaged"),
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "it is a HEIF file"),
    ],
)
def test_files_that_are_no_pictures(tmp_path, stored, message):
    path = tmp_path / "x.jpg"
    path.write_bytes(stored)
    with pytest.raises(PictureError, match=rf"\A{path} must be a picture.*{message}"):
        open_picture(path)


def test_a_missing_file_a_folder_and_a_missing_pillow(tmp_path, monkeypatch):
    with pytest.raises(PictureError, match=r"none\.png does not exist\. Check the path\.$"):
        open_picture(tmp_path / "none.png")
    with pytest.raises(PictureError, match=r"it is a folder\. Pass its files\.$"):
        open_picture(tmp_path)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ImportError, match=r'needs pillow. Run: pip install "zonkey\[images\]"'):
        open_picture(b"x")
