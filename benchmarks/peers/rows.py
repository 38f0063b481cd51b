"""What is measured against whom: loads, objectives, and the ratios that are wanted of our server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from contenders import AGGREGATED, SPLIT

from easerve.bench.objectives import EVERY, Objectives
from easerve.bench.plan import Climb, Closed, Load, Rates

OBJECTIVES = Objectives(ttft=2.0, tpot=0.05)
AT_ONCE = 16  # requests in flight where throughput is what counts
GOODPUT, THROUGHPUT, TTFT, E2E_P99 = "goodput, req/s", "throughput, req/s", "TTFT mean, ms", "E2E P99, ms"


@dataclass(frozen=True)
class Wanted:
    """Ours over the peer's, of one metric of one group of requests."""

    peer: str
    metric: str
    bound: Literal["at least", "at most"]
    ratio: float
    group: str = EVERY

    def reached(self, found: float) -> bool:
        return found >= self.ratio if self.bound == "at least" else found <= self.ratio


@dataclass(frozen=True)
class Row:
    """A load, and what ours is to reach under it. A knee is searched with runs of so many `seconds`."""

    about: str
    workload: str
    load: Load
    wanted: Sequence[Wanted]
    ours: str = "easerve-e-pd"
    engine: str = "torch"  # ours
    seconds: float | None = None

    @property
    def peers(self) -> list[str]:
        """In the order they are named in."""
        return list(dict.fromkeys(one.peer for one in self.wanted))


ROWS: Mapping[str, Row] = {
    "image-heavy": Row(
        "2 pictures of 224x224, 64 words in, 32 tokens out, 5 req/s, where vLLM aggregated breaks",
        "image-heavy",
        Rates((5.0,)),
        (Wanted(AGGREGATED, GOODPUT, "at least", 5.5), Wanted(SPLIT, GOODPUT, "at least", 1.1)),
    ),
    "image-heavy-3": Row(
        "the same below saturation, 3 req/s",
        "image-heavy",
        Rates((3.0,)),
        (Wanted(SPLIT, TTFT, "at most", 0.7),),
    ),
    "many-small-images": Row(
        "10 pictures of 112x112, 4 req/s",
        "many-small-images",
        Rates((4.0,)),
        (Wanted(SPLIT, GOODPUT, "at least", 1.2),),
        ours="easerve-e-pd-10",
    ),
    "single-small-image": Row(
        "1 picture of 56x56, each server at its knee",
        "single-small-image",
        Climb(bisections=2),
        (Wanted(SPLIT, GOODPUT, "at least", 2.0),),
        ours="easerve-shared-prefill",
        seconds=20.0,
    ),
    "mixed": Row(
        "4 image req/s and 2 text req/s together, the text's latency",
        "mixed",
        Rates((6.0,)),
        (
            Wanted(AGGREGATED, E2E_P99, "at most", 0.12, "text"),
            Wanted(SPLIT, E2E_P99, "at most", 0.8, "text"),
        ),
        ours="easerve-half-local-prefill",
    ),
    "repeated-media": Row(
        f"1 picture of 50 (Zipf 1.1), {AT_ONCE} requests in flight",
        "repeated-media",
        Closed(AT_ONCE),
        (Wanted(SPLIT, THROUGHPUT, "at least", 1.5),),
        ours="easerve-shared-prefill",
    ),
    "text-only": Row(
        f"64 words in, 32 tokens out, {AT_ONCE} requests in flight; our vLLM engine",
        "text-only",
        Closed(AT_ONCE),
        (Wanted(AGGREGATED, THROUGHPUT, "at least", 0.95),),
        ours="easerve-aggregated",
        engine="vllm",
    ),
}
