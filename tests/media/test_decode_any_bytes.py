"""Whatever bytes come in, decoding answers with pixels or with one of our errors, soon."""

from __future__ import annotations

import random
import time
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image

from easerve.errors import BadRequest, EAServeError
from easerve.media.decode import Pixels
from tests.media.pictures import decoded, encoded, noise, png, scene

MOST_S = 2.0  # generous for a busy machine; a small picture takes a millisecond
MANY = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])

VALID = {
    "jpeg": encoded(scene(), "JPEG"),
    "progressive jpeg": encoded(scene(), "JPEG", progressive=True),
    "cmyk jpeg": encoded(scene().convert("CMYK"), "JPEG"),
    "png": encoded(scene(), "PNG"),
    "palette png": encoded(scene().quantize(16), "PNG", transparency=3),
    "apng": encoded(scene(), "PNG", save_all=True, append_images=[Image.new("RGB", (40, 24))]),
    "16-bit png": png(2, 2, 16, 2, (b"\0" + bytes(range(12))) * 2),
    "gif": encoded(scene(), "GIF", save_all=True, append_images=[Image.new("RGB", (40, 24))]),
    "webp": encoded(scene(), "WEBP"),
    "lossless webp": encoded(scene(), "WEBP", lossless=True),
    "animated webp": encoded(scene().convert("RGBA"), "WEBP", save_all=True, append_images=[scene().rotate(90)]),
    "mpo": encoded(scene(), "MPO", save_all=True, append_images=[scene()]),
    "bmp": encoded(scene(), "BMP"),
    "tiff": encoded(scene(), "TIFF"),
    "lzw tiff": encoded(scene(), "TIFF", compression="tiff_lzw"),
    "cmyk tiff": encoded(scene().convert("CMYK"), "TIFF"),
    "grey tiff": encoded(Image.fromarray(noise(8, 8)[..., 0]), "TIFF"),
    "avif": encoded(scene(), "AVIF") if "AVIF" in Image.SAVE else encoded(scene(), "PNG"),
}
MAGIC = [content[:size] for content in VALID.values() for size in (4, 12, 40)]


def pixels_or_our_error(content: bytes) -> Pixels | None:
    started = time.monotonic()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow remarks on broken tags
            pixels = decoded(content, max_pixels=1_000_000)
    except EAServeError as error:
        assert error.status in {400, 413}, "the fault is the sender's"
        assert "; " in error.message, "no remedy is named"
        assert len(error.message) < 400
        assert error.message.isprintable()
        return None
    finally:
        assert time.monotonic() - started < MOST_S
    assert pixels.dtype == np.uint8
    assert pixels.shape[2] == 3
    assert pixels.flags.c_contiguous
    return pixels


@MANY
@given(st.binary(max_size=300))
def test_random_bytes_are_refused(content: bytes) -> None:
    assert pixels_or_our_error(content) is None


@MANY
@given(st.sampled_from(MAGIC), st.binary(max_size=400))
def test_random_bytes_after_the_beginning_of_a_picture_do_no_harm(magic: bytes, content: bytes) -> None:
    pixels_or_our_error(magic + content)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A valid picture with a few bits flipped, or bytes set, cut out, inserted or repeated."""
    content = bytearray(VALID[draw(st.sampled_from(sorted(VALID)))])
    for _ in range(draw(st.integers(1, 4))):
        if not content:
            break
        at = draw(st.integers(0, len(content) - 1))
        match draw(st.sampled_from(["flip", "set", "cut", "insert", "repeat", "end"])):
            case "flip":
                content[at] ^= 1 << draw(st.integers(0, 7))
            case "set":
                content[at] = draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
            case "cut":
                del content[at : at + draw(st.integers(1, 30))]
            case "insert":
                content[at:at] = draw(st.binary(min_size=1, max_size=30))
            case "repeat":
                content[at:at] = content[at : at + draw(st.integers(1, 200))]
            case _:
                del content[at:]
    return bytes(content)


@settings(MANY, max_examples=1000)
@given(damaged())
def test_damaged_pictures_do_no_harm(content: bytes) -> None:
    pixels_or_our_error(content)


@pytest.mark.parametrize("name", sorted(VALID))
def test_every_byte_of_a_header_may_be_wrong(name: str) -> None:
    chance = random.Random(name)
    content = VALID[name]
    for at in range(min(len(content), 120)):
        for value in (0, 0xFF, chance.randrange(256)):
            pixels_or_our_error(content[:at] + bytes([value]) + content[at + 1 :])


@MANY
@given(st.integers(0, 10**6), st.binary(min_size=1, max_size=3))
def test_a_png_whose_pixels_were_touched_is_never_shown_wrong(place: int, other: bytes) -> None:
    """Checksums tell; what follows the pixels does not matter."""
    content = bytearray(VALID["png"])
    start = content.index(b"IDAT")
    at = start + place % (content.index(b"IEND") - start - 4)
    content[at : at + len(other)] = other
    pixels = pixels_or_our_error(bytes(content))
    assert pixels is None or (pixels == np.asarray(scene())).all()


@MANY
@given(hnp.arrays(np.uint8, st.tuples(st.integers(1, 40), st.integers(1, 40), st.just(3))))
def test_png_comes_back_exactly(pixels: Pixels) -> None:
    assert (decoded(encoded(Image.fromarray(pixels), "PNG")) == pixels).all()


@MANY
@given(st.text(max_size=50))
def test_text_is_refused_with_a_one_line_message(text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        decoded(text.encode(errors="surrogatepass"))
    assert "\n" not in caught.value.message
