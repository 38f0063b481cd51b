"""An EAServe server's `timing` of each request, as stages that follow one another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean

from easerve.bench.record import Record

BEFORE_TOKENS = ("fetch", "decode_media", "encode_queue", "encode", "transfer", "prefill_queue", "prefill")
AFTER_FIRST = ("hand_over", "decode")
STAGES = (*BEFORE_TOKENS, *AFTER_FIRST)


def stages(record: Record) -> Iterator[tuple[str, float]]:
    """(stage, milliseconds) in the order of a request's life; nothing without timing.

    Decode is what remains after the first token; the KV's way to another worker is a part of it that is shown apart.
    """
    timing = record.timing
    if timing is None or timing.get("first_token") is None:
        return
    for stage in BEFORE_TOKENS:
        yield stage, float(timing.get(stage) or 0.0)
    after = max(0.0, float(timing["total"]) - float(timing["first_token"]))
    hand_over = min(after, float(timing.get("hand_over") or 0.0))
    yield "hand_over", hand_over
    yield "decode", after - hand_over


def mean_stages(records: Sequence[Record]) -> dict[str, float]:
    """Mean milliseconds of each stage over the requests that have timing; empty without any."""
    found = [dict(stages(record)) for record in records if record.error is None]
    found = [one for one in found if one]
    return {stage: fmean(one[stage] for one in found) for stage in STAGES} if found else {}
