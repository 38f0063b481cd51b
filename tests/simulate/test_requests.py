"""A simulation gets the requests that the benchmark would send: same seed, same sizes, same repetitions."""

from __future__ import annotations

import base64
import io
import wave
from itertools import islice
from random import Random
from typing import Any

import pytest
from PIL import Image

from easerve.bench.clips import RATE, clip
from easerve.bench.drawing import DRAWN, SKETCHED
from easerve.bench.pictures import picture
from easerve.bench.request import Request, user_message
from easerve.bench.workloads import NAMED
from easerve.builtin import model_path
from easerve.errors import BadRequest
from easerve.simulate.requests import sizes
from easerve.simulate.text import TEMPLATE_TOKENS, by_tokenizer


def seen(request: Request) -> list[Any]:
    """What a request holds, in order; pictures and clips by their size and content."""
    found: list[Any] = [request.output_tokens]
    for message in request.messages:
        content = message["content"]
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if part["type"] == "text":
                found.append(part["text"])
            else:
                url = part[part["type"]]["url"]
                file = io.BytesIO(base64.b64decode(url.partition(",")[2]))
                found.append((*_extent(file, part["type"]), url))
    return found


def _extent(file: io.BytesIO, kind: str) -> tuple[int, int]:
    """Width and height; of a clip, its samples in one row."""
    if kind == "image_url":
        with Image.open(file) as image:
            return image.size
    with wave.open(file) as sound:
        assert (sound.getframerate(), sound.getnchannels()) == (RATE, 1)
        return sound.getnframes(), 1


@pytest.mark.parametrize("name", sorted(set(NAMED) - {"random-mm", "single-large-image"}))
def test_sketches_stand_for_the_media_of_the_same_seed(name: str) -> None:
    drawn = list(islice(NAMED[name].requests(Random(5), DRAWN), 12))
    sketched = list(islice(NAMED[name].requests(Random(5), SKETCHED), 12))
    keys: dict[str, str] = {}
    for real, stand_in in zip(drawn, sketched, strict=True):
        output, *parts = seen(real)
        found = sizes(stand_in)
        assert found.output_tokens == output
        pictures = [part for part in parts if isinstance(part, tuple)]
        assert [(one.width, one.height) for one in found.media] == [part[:2] for part in pictures]
        for one, part in zip(found.media, pictures, strict=True):
            assert keys.setdefault(one.key, part[2]) == part[2]
        words = sum(len(part.split()) for part in parts if isinstance(part, str))
        assert found.text_tokens == words + TEMPLATE_TOKENS * len(real.messages)
    assert len(set(keys.values())) == len(keys)


def test_the_users_own_pictures_are_measured_by_their_header() -> None:
    url = picture((60, 40), "smooth", Random(0))
    found = sizes(Request([user_message("what is this ?", [url, url])], 7))
    assert [(one.width, one.height) for one in found.media] == [(60, 40)] * 2
    assert found.media[0].key == found.media[1].key
    assert found.text_tokens == 4 + TEMPLATE_TOKENS


def test_the_users_own_sound_is_measured_by_its_header() -> None:
    found = sizes(Request([user_message("what is said ?", clips=[clip(2.5, Random(0))])], 7))
    assert [(one.modality, one.width) for one in found.media] == [("audio", 2.5 * RATE)]
    with pytest.raises(BadRequest, match="WAV"):
        sizes(Request([user_message("hello", clips=["data:audio/mpeg;base64,AAAA"])], 5))


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (Request([user_message("hello")], None), "how long answers are"),
        (Request([user_message("hello", ["http://a.test/b.png"])], 5), "fetches nothing"),
        (Request([{"role": "user", "content": [{"type": "input_audio"}]}], 5), "none of them"),
    ],
)
def test_what_has_no_size_is_refused(request_: Request, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        sizes(request_)


def test_a_model_at_hand_counts_its_own_tokens() -> None:
    """The estimate is short of it by the two marks around a picture and the few words that are not one token."""
    counted = by_tokenizer(model_path())
    for request in islice(NAMED["mixed"].requests(Random(5), SKETCHED), 9):
        more = counted(request.messages) - sizes(request).text_tokens
        assert 2 * request.media <= more <= 2 * request.media + 3
