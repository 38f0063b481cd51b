"""The content key: the same for the same pixels and settings however they came, another for anything else."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image

from easerve.media import content_key
from easerve.media.decode import Pixels
from tests.media.pictures import decoded, encoded, noise

pictures = hnp.arrays(np.uint8, st.tuples(st.integers(1, 12), st.integers(1, 12), st.just(3)))
salts = st.binary(max_size=20)


@given(pictures, salts)
def test_equal_pixels_and_salt_have_equal_keys(pixels: Pixels, salt: bytes) -> None:
    key = content_key(pixels, salt)
    assert key == content_key(pixels.copy(), bytes(salt))
    assert len(key) == 64


@given(pictures, salts, st.data())
def test_any_changed_byte_changes_the_key(pixels: Pixels, salt: bytes, data: st.DataObject) -> None:
    other = pixels.copy()
    other.reshape(-1)[data.draw(st.integers(0, other.size - 1))] ^= data.draw(st.integers(1, 255))
    assert content_key(other, salt) != content_key(pixels, salt)


@given(pictures, salts, salts)
def test_keys_are_equal_exactly_where_salts_are(pixels: Pixels, salt: bytes, other: bytes) -> None:
    assert (content_key(pixels, salt) == content_key(pixels, other)) == (salt == other)


@given(pictures, salts)
def test_bytes_cannot_move_between_pixels_and_salt(pixels: Pixels, salt: bytes) -> None:
    for shorter, longer in pairwise([pixels[:rows] for rows in range(1, len(pixels) + 1)]):
        moved = longer[len(shorter) :].tobytes()
        assert content_key(shorter, moved + salt) != content_key(longer, salt)


@given(st.integers(1, 12), st.integers(1, 12), st.binary(max_size=4))
def test_another_shape_of_the_same_bytes_has_another_key(height: int, width: int, salt: bytes) -> None:
    content = noise(height, width)
    keys = {
        shape: content_key(content.reshape(shape), salt)
        for shape in {
            (height, width, 3),
            (width, height, 3),
            (1, height * width, 3),
            (height * width, 1, 3),
            (height * width, 3),
            (height * width * 3,),
        }
    }
    assert len(set(keys.values())) == len(keys)


def test_memory_layout_does_not_matter() -> None:
    pixels = noise(7, 9)
    for same in (np.asfortranarray(pixels), noise(7, 18)[:, ::2] * 0 + pixels, pixels[::-1][::-1]):
        assert content_key(same, b"salt") == content_key(pixels, b"salt")
    assert content_key(pixels.view(np.int8), b"salt") != content_key(pixels, b"salt")
    assert content_key(pixels[:, ::-1], b"salt") != content_key(pixels, b"salt")


def test_the_file_a_picture_came_in_does_not_matter() -> None:
    image = Image.fromarray(noise(9, 11))
    files = [encoded(image, "PNG"), encoded(image, "BMP"), encoded(image, "WEBP", lossless=True)]
    assert len({content_key(decoded(file), b"") for file in files}) == 1
