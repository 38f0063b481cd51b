"""Clips of sound with content of their own: noise drawn from a seeded generator, so that no two are alike.

As with pictures, `sketch_clip` stands in where only sizes matter.
"""

from __future__ import annotations

import io
import wave
from random import Random

from easerve.client import data_uri

RATE = 16_000  # samples a second, one channel: what speech encoders take
_SAMPLE = 2  # bytes


def clip(seconds: float, rng: Random) -> str:
    """A WAV file as a data URI."""
    name = _name(rng)
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(_SAMPLE)
        sound.setframerate(RATE)
        sound.writeframes(Random(name).randbytes(_SAMPLE * round(seconds * RATE)))
    return data_uri(file.getvalue(), "audio/wav")


def sketch_clip(seconds: float, rng: Random) -> str:
    """What can be told of such a clip without drawing it: `sketch:SAMPLES:` and a name of its content.

    Takes from the generator what the clip would.
    """
    return f"sketch:{round(seconds * RATE)}:{_name(rng).hex()}"


def _name(rng: Random) -> bytes:
    return rng.randbytes(16)
