"""Workloads that have a name. Sizes are modest, so that two cores can serve them; every field can be set anew."""

from __future__ import annotations

from collections.abc import Mapping

from easerve.bench.workloads.base import Workload
from easerve.bench.workloads.drawn import Drawn
from easerve.bench.workloads.multi_turn import MultiTurn
from easerve.bench.workloads.random_mm import RandomMultimodal
from easerve.bench.workloads.repeated import Repeated
from easerve.bench.workloads.spoken import Spoken

NAMED: Mapping[str, Workload] = {
    "image-heavy": Drawn(images=2, size=(224, 224)),
    "many-small-images": Drawn(images=10, size=(112, 112)),
    "single-large-image": Drawn(images=1, size=(896, 896)),
    "single-small-image": Drawn(images=1, size=(56, 56)),
    "video": Drawn(images=16, size=(224, 224)),  # a video's frames as pictures
    "audio": Spoken(),
    "mixed": Drawn(images=2, size=(224, 224), text_share=1 / 3),
    "repeated-media": Repeated(),
    "multi-turn": MultiTurn(),
    "text-only": Drawn(images=0),
    "random-mm": RandomMultimodal(),
}
