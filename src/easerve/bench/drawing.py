"""What becomes of a workload's media: drawn for a server, or only sketched where sizes are all that matters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from easerve.bench.clips import clip, sketch_clip
from easerve.bench.pictures import Look, Size, picture, sketch


@dataclass(frozen=True)
class Draw:
    """Each gives a URL, and takes the same from the generator whatever it makes: a picture of a size and look, a clip
    of so many seconds."""

    picture: Callable[[Size, Look, Random], str]
    clip: Callable[[float, Random], str]


DRAWN = Draw(picture, clip)
SKETCHED = Draw(sketch, sketch_clip)
