"""Every mode and format to the colours it shows; what is no whole picture is refused, with a word on what it is."""

from __future__ import annotations

import io
import resource
import struct
import threading
import time
from typing import Any

import numpy as np
import pytest
from PIL import ExifTags, Image, ImageFile, ImageOps, features

from easerve.errors import BadRequest, TooLarge, Unavailable
from easerve.media.decode import decode
from easerve.media.options import MediaOptions
from tests.media.pictures import chunk, decoded, encoded, grey_tiff, noise, png, scene

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:PIL")  # its remarks on broken tags
LOSSY = 12  # grey levels that JPEG, WebP and AVIF may be off on a smooth picture


@pytest.mark.parametrize(
    ("kind", "options", "tolerance"),
    [
        ("PNG", {}, 0),
        ("BMP", {}, 0),
        ("TIFF", {}, 0),
        ("TIFF", {"compression": "tiff_lzw"}, 0),
        ("TIFF", {"compression": "tiff_deflate"}, 0),
        ("WEBP", {"lossless": True}, 0),
        ("WEBP", {"quality": 95}, LOSSY),
        ("JPEG", {"quality": 95}, LOSSY),
        ("JPEG", {"quality": 95, "progressive": True}, LOSSY),
        ("MPO", {"quality": 95, "save_all": True, "append_images": [scene()]}, LOSSY),
        pytest.param(
            "AVIF", {"quality": 95}, LOSSY, marks=pytest.mark.skipif(not features.check("avif"), reason="no AVIF")
        ),
    ],
)
def test_formats_show_their_colours(kind: str, options: dict[str, Any], tolerance: int) -> None:
    pixels = decoded(encoded(scene(), kind, **options))
    assert pixels.dtype == np.uint8
    assert pixels.flags.c_contiguous
    assert pixels.flags.writeable
    assert pixels.shape == (24, 40, 3)
    assert np.abs(pixels.astype(int) - np.asarray(scene())).max() <= tolerance


def _one(mode: str, colour: Any, kind: str = "PNG", **options: Any) -> list[int]:
    image = Image.new(mode, (3, 2), colour)
    pixels = decoded(encoded(image, kind, **options))
    assert pixels.shape == (2, 3, 3)
    assert (pixels == pixels[0, 0]).all()
    return [int(value) for value in pixels[0, 0]]


@pytest.mark.parametrize(
    ("mode", "colour", "kind", "expected"),
    [
        ("1", 1, "PNG", [255] * 3),
        ("1", 0, "TIFF", [0] * 3),
        ("1", 1, "BMP", [255] * 3),
        ("L", 77, "PNG", [77] * 3),
        ("L", 77, "BMP", [77] * 3),
        ("LA", (40, 255), "PNG", [40] * 3),
        ("LA", (0, 0), "PNG", [255] * 3),
        ("LA", (0, 51), "PNG", [204] * 3),
        ("RGBA", (10, 20, 30, 255), "PNG", [10, 20, 30]),
        ("RGBA", (10, 20, 30, 0), "PNG", [255] * 3),
        ("RGBA", (255, 0, 0, 51), "PNG", [255, 204, 204]),
        ("RGBA", (255, 0, 0, 51), "TIFF", [255, 204, 204]),
        ("CMYK", (0, 255, 255, 0), "TIFF", [255, 0, 0]),
        ("CMYK", (0, 0, 0, 255), "TIFF", [0, 0, 0]),
        ("I;16", 65535, "PNG", [255] * 3),
        ("I;16", 0x8000, "PNG", [128] * 3),
        ("I;16", 300, "TIFF", [1] * 3),
        ("I;16B", 0x8000, "TIFF", [128] * 3),
        ("RGB", (1, 2, 3), "GIF", [1, 2, 3]),
    ],
)
def test_modes_show_their_colours(mode: str, colour: Any, kind: str, expected: list[int]) -> None:
    assert _one(mode, colour, kind) == expected


def test_cmyk_jpeg_is_not_inverted() -> None:
    found = _one("CMYK", (0, 255, 255, 0), "JPEG", quality=100)
    assert np.abs(np.array(found) - [255, 0, 0]).max() <= LOSSY


def test_lab_and_ycbcr_become_rgb() -> None:
    grey = _one("LAB", (128, 128, 128), "TIFF")
    assert max(grey) - min(grey) <= 3
    found = _one("YCbCr", (76, 85, 255), "TIFF")
    assert np.abs(np.array(found) - [255, 0, 0]).max() <= LOSSY


@pytest.mark.parametrize(("transparent", "expected"), [(0, [255] * 3), (b"\x33\xff", [255, 204, 204])])
def test_palette_transparency_is_laid_on_white(transparent: Any, expected: list[int]) -> None:
    image = Image.new("P", (2, 1), 0)
    image.putpalette([255, 0, 0, 0, 0, 255])
    image.putpixel((1, 0), 1)
    pixels = decoded(encoded(image, "PNG", transparency=transparent))
    assert pixels.tolist() == [[expected, [0, 0, 255]]]


def test_opaque_palette_keeps_its_colours() -> None:
    image = scene().quantize(64)
    assert (decoded(encoded(image, "PNG")) == np.asarray(image.convert("RGB"))).all()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (png(2, 1, 16, 0, b"\0" + struct.pack(">2H", 0x1234, 0x8080), chunk(b"tRNS", b"\x12\x34")), [255, 128]),
        (png(4, 1, 2, 0, b"\0\x1b", chunk(b"tRNS", b"\0\1")), [0, 255, 170, 255]),
        (png(2, 1, 4, 0, b"\0\x2f", chunk(b"tRNS", b"\0\2")), [255, 255]),
        (png(2, 1, 16, 4, b"\0" + struct.pack(">4H", 0, 0, 0x8000, 0xFFFF)), [255, 128]),
    ],
)
def test_transparent_grey_png_of_any_depth(content: bytes, expected: list[int]) -> None:
    assert decoded(content)[0, :, 0].tolist() == expected


def test_16_bit_colour_png_with_a_transparent_colour() -> None:
    rows = b"\0" + struct.pack(">6H", 0x1234, 0x5678, 0x9ABC, 0x1000, 0x2000, 0x3000)
    content = png(2, 1, 16, 2, rows, chunk(b"tRNS", struct.pack(">3H", 0x1234, 0x5678, 0x9ABC)))
    assert decoded(content).tolist() == [[[255, 255, 255], [16, 32, 48]]]


def test_16_bit_samples_are_scaled_not_clipped() -> None:
    values = [0x0000, 0x00FF, 0x0100, 0x7F80, 0x8000, 0xFF00, 0xFFFF]
    grey = decoded(png(7, 1, 16, 0, b"\0" + struct.pack(">7H", *values)))
    assert grey[0].tolist() == [[value >> 8] * 3 for value in values]
    colours = [(0x0000, 0x00FF, 0x0100), (0x7F80, 0x8000, 0xFFFF)]
    pixels = decoded(png(2, 1, 16, 2, b"\0" + struct.pack(">6H", *(value for colour in colours for value in colour))))
    assert pixels.tolist() == [[[value >> 8 for value in colour] for colour in colours]]


def test_16_bit_colour_with_alpha_is_laid_on_white() -> None:
    rows = b"\0" + struct.pack(">8H", 0xFFFF, 0, 0, 0x3333, 0x1000, 0x2000, 0x3000, 0xFFFF)
    assert decoded(png(2, 1, 16, 6, rows)).tolist() == [[[255, 204, 204], [16, 32, 48]]]


def test_tiff_of_12_bits_and_of_white_as_zero() -> None:
    assert decoded(grey_tiff(b"\xff\xf8\x00", 2, 12, 1))[0, :, 0].tolist() == [255, 128]
    assert decoded(grey_tiff(struct.pack("<2H", 0, 0xFFFF), 2, 16, 0))[0, :, 0].tolist() == [255, 0]


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_half_a_picture_is_refused_with_the_remedy(kind: str) -> None:
    content = encoded(Image.fromarray(noise(200, 200)), kind)
    for length in (len(content) // 2, len(content) * 9 // 10, len(content) - 400):
        with pytest.raises(BadRequest, match=r"cut off.*send the whole file"):
            decoded(content[:length])


def test_a_png_with_a_wrong_checksum_is_refused() -> None:
    content = bytearray(encoded(Image.fromarray(noise(30, 30)), "PNG"))
    content[content.index(b"IDAT") + 1000] ^= 1
    with pytest.raises(BadRequest, match="wrong checksum"):
        decoded(bytes(content))


@pytest.mark.parametrize(("depth", "colour", "bits"), [(8, 2, 24), (1, 0, 1), (8, 6, 32), (16, 0, 16), (16, 2, 48)])
def test_a_png_whose_rows_run_out_is_refused(depth: int, colour: int, bits: int) -> None:
    row = b"\0" + b"\xaa" * ((11 * bits + 7) // 8)
    assert decoded(png(11, 9, depth, colour, row * 9)).shape == (9, 11, 3)
    for rows in (b"", row, row * 8, (row * 9)[:-1]):
        with pytest.raises(BadRequest, match="cut off"):
            decoded(png(11, 9, depth, colour, rows))


def test_a_black_bottom_is_no_missing_row() -> None:
    black = b"\0" * (1 + 33)
    assert (decoded(png(11, 9, 8, 2, black * 9)) == 0).all()
    assert (decoded(encoded(Image.new("P", (2000, 1500), 0), "PNG")) == 0).all()


@pytest.mark.parametrize(("width", "height"), [(1, 1), (2, 1), (1, 5), (5, 3), (8, 8), (9, 17)])
def test_interlaced_png_is_whole_or_refused(width: int, height: int) -> None:
    passes = [(0, 8, 0, 8), (4, 8, 0, 8), (0, 4, 4, 8), (2, 4, 0, 4), (0, 2, 2, 4), (1, 2, 0, 2), (0, 1, 1, 2)]
    pixels = noise(height, width)
    parts = [pixels[top::down, left::right] for left, right, top, down in passes]
    rows = b"".join(b"\0" + row.tobytes() for part in parts if part.size for row in part)
    assert (decoded(png(width, height, 8, 2, rows, interlaced=True)) == pixels).all()
    with pytest.raises(BadRequest, match="cut off"):
        decoded(png(width, height, 8, 2, rows[:-1], interlaced=True))


@pytest.mark.parametrize("mode", ["I", "F"])
def test_32_bit_samples_are_refused_rather_than_guessed(mode: str) -> None:
    with pytest.raises(BadRequest, match="save 8 or 16 bits"):
        decoded(encoded(Image.new(mode, (2, 2), 1), "TIFF"))


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF"])
def test_the_first_frame_stands_for_an_animation(kind: str) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in [(250, 0, 0), (0, 250, 0), (0, 0, 250)]]
    options = {"lossless": True} if kind == "WEBP" else {}
    pixels = decoded(encoded(frames[0], kind, save_all=True, append_images=frames[1:], **options))
    assert (pixels == [250, 0, 0]).all()


def test_transparent_gif_is_laid_on_white() -> None:
    image = Image.new("P", (2, 2), 1)
    image.putpalette([255, 0, 0, 0, 0, 255])
    assert (decoded(encoded(image, "GIF", transparency=1)) == 255).all()


# Where the corners of a picture stored as (top left, top right, bottom left, bottom right) = "abcd" must be shown.
UPRIGHT = {1: "abcd", 2: "badc", 3: "dcba", 4: "cdab", 5: "acbd", 6: "cadb", 7: "dbca", 8: "bdac"}


@pytest.mark.parametrize(("orientation", "shown"), UPRIGHT.items())
def test_the_corners_of_a_turned_jpeg_are_where_exif_says(orientation: int, shown: str) -> None:
    colours = {"a": (250, 0, 0), "b": (0, 250, 0), "c": (0, 0, 250), "d": (250, 250, 0)}
    image = Image.new("RGB", (64, 32))
    for corner, at in zip("abcd", [(0, 0), (32, 0), (0, 16), (32, 16)], strict=True):
        image.paste(colours[corner], (*at, at[0] + 32, at[1] + 16))
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    pixels = decoded(encoded(image, "JPEG", exif=exif, quality=95, subsampling=0)).astype(int)
    assert pixels.shape[:2] == ((32, 64) if orientation < 5 else (64, 32))
    for corner, at in zip(shown, [(2, 2), (2, -3), (-3, 2), (-3, -3)], strict=True):
        assert np.abs(pixels[at] - colours[corner]).max() <= LOSSY, corner


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["PNG", "WEBP", "TIFF", "JPEG"])
def test_pictures_stand_upright(orientation: int, kind: str) -> None:
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    content = encoded(scene(), kind, exif=exif, **({"lossless": True} if kind == "WEBP" else {}))
    with Image.open(io.BytesIO(content)) as image:
        image.load()
        expected = np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
    assert expected.shape == ((24, 40, 3) if orientation < 5 else (40, 24, 3))
    assert (decoded(content) == expected).all()


def test_broken_exif_does_not_break_the_picture() -> None:
    pixels = decoded(encoded(scene(), "PNG", exif=b"Exif\0\0II*\0\xff\xff\xff\x7f\1\2\3"))
    assert (pixels == np.asarray(scene())).all()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "WEBP"])
def test_one_pixel_is_a_picture(kind: str) -> None:
    assert decoded(encoded(Image.new("RGB", (1, 1)), kind)).shape == (1, 1, 3)


def test_sides_below_the_least_are_refused() -> None:
    with pytest.raises(BadRequest, match="3 x 5 pixels"):
        decoded(encoded(Image.new("RGB", (3, 5)), "PNG"), min_side=4)


def test_bands_join_without_a_seam() -> None:
    pixels = noise(700, 900)  # 2.4 bands
    assert (decoded(encoded(Image.fromarray(pixels), "PNG")) == pixels).all()
    column = noise(300_000, 1)
    assert (decoded(encoded(Image.fromarray(column), "PNG")) == column).all()


def test_a_bomb_is_refused_by_its_header() -> None:
    content = png(20_000, 20_000, 8, 2, b"")  # the pixels are never looked for
    started = time.monotonic()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(TooLarge, match=r"20000 x 20000 pixels; the most is 64000000"):
        decoded(content)
    assert time.monotonic() - started < 0.5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024, "kilobytes; decoded it is 1.2 GB"


def test_a_webp_bomb_is_refused_by_its_header() -> None:
    frames = [Image.new("RGBA", (8, 8), (value, 0, 0, 9)) for value in (1, 2)]
    content = bytearray(encoded(frames[0], "WEBP", save_all=True, append_images=frames[1:]))
    content[24:30] = (16_000 - 1).to_bytes(3, "little") * 2
    with pytest.raises(TooLarge, match=r"(16000 x 16000|256000000) pixels"):
        decoded(bytes(content))


def test_the_limit_itself_is_allowed() -> None:
    content = encoded(Image.new("RGB", (10, 10)), "PNG")
    assert decoded(content, max_pixels=100).shape == (10, 10, 3)
    with pytest.raises(TooLarge, match="10 x 10"):
        decoded(content, max_pixels=99)


CUT = [
    ("JPEG", {"quality": 90}),
    ("JPEG", {"quality": 90, "progressive": True}),
    ("PNG", {}),
    ("GIF", {}),
    ("BMP", {}),
    ("WEBP", {"lossless": True}),
    ("TIFF", {}),
    ("TIFF", {"compression": "tiff_lzw"}),
]


@pytest.mark.parametrize(("kind", "options"), CUT)
def test_a_cut_off_picture_is_whole_or_refused(kind: str, options: dict[str, Any]) -> None:
    content = encoded(Image.fromarray(noise(30, 41)), kind, **options)
    whole = decoded(content)
    refused = 0
    for length in range(1, len(content), max(1, len(content) // 150)):
        try:
            assert (decoded(content[:length]) == whole).all()
        except BadRequest:
            refused += 1
    assert refused > 100


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "BMP"])
def test_a_cut_off_picture_is_refused_even_where_pillow_was_told_to_overlook_it(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    content = encoded(Image.fromarray(noise(60, 60)), kind)
    decoded(content)
    with pytest.raises(BadRequest, match="cut off"):
        decoded(content[: len(content) // 2])


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"", "zero bytes"),
        (b'<svg xmlns="http://www.w3.org/2000/svg"/>', "SVG"),
        (b'\xef\xbb\xbf<?xml version="1.0"?>\n<!-- a -->\n<svg/>', "SVG"),
        (b"%PDF-1.7\n", "PDF"),
        (b"\n <!DOCTYPE html><html></html>", "HTML page"),
        (b"<!-- x --><html><body>", "HTML page"),
        (b'<?xml version="1.0"?><feed/>', "XML"),
        (b"\0\0\0\x18ftypheic\0\0\0\0", "HEIC"),
        (b"\0\0\0\x18ftypisom\0\0\0\0", "video"),
        (b"\x1f\x8b\x08", "gzip"),
        (b"hello", "no picture of a known format"),
        (b"\0" * 64, "no picture of a known format"),
    ],
)
def test_what_is_no_picture_is_named(content: bytes, name: str) -> None:
    with pytest.raises(BadRequest, match=name) as caught:
        decoded(content)
    assert "JPEG, PNG" in caught.value.message


@pytest.mark.parametrize("kind", ["ICO", "PPM", "TGA", "PCX", "JPEG2000", "EPS"])
def test_formats_off_the_list_are_refused(kind: str) -> None:
    with pytest.raises(BadRequest, match="send JPEG"):
        decoded(encoded(Image.new("RGB", (32, 32)), kind))


def test_a_stop_ends_decoding() -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(Unavailable):
        decode(encoded(scene(), "PNG"), MediaOptions(), stop)


def test_a_jpeg_of_very_many_scans_ends_at_the_time_limit() -> None:
    whole = encoded(Image.new("RGB", (2000, 2000)), "JPEG", progressive=True)
    at = whole.rindex(b"\xff\xda")  # the last scan, 40 bytes, sent over and over: minutes of work
    content = whole[:at] + whole[at:-2] * 3000 + b"\xff\xd9"
    started = time.monotonic()
    with pytest.raises(BadRequest, match="longer than"):
        decoded(content, decode_timeout_s=0.2)
    assert time.monotonic() - started < 4
