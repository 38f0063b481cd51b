"""The `timing` object of an answer: where its milliseconds went, and which workers they were spent on."""

from __future__ import annotations

from collections import Counter
from typing import Any

from easerve.pipeline.timing import RequestTimes


def timing_object(times: RequestTimes, now: float) -> dict[str, Any]:
    """Milliseconds, or null for what the request did not reach; `now` is the loop's time.

    Items are encoded side by side, so `encode_queue`, `encode` and `encode_batch` are those of the slowest. `queue` is
    all waiting for workers together; `hand_over` is KV on its way from a prefill to a decode worker.
    """
    slowest = max(times.items, key=lambda item: item.queue + item.encode, default=None)
    prefill = times.prefill
    waits = [slowest.queue] if slowest else []
    waits += [prefill.queue] if prefill else []
    return {
        "queue": _ms(sum(waits)),
        "fetch": _ms(times.fetch),
        "decode_media": _ms(times.decode_media),
        "encode_queue": _ms(slowest.queue if slowest else None),
        "encode": _ms(slowest.encode if slowest else None),
        "transfer": _ms(prefill.transfer if prefill else None),
        "prefill_queue": _ms(prefill.queue if prefill else None),
        "prefill": _ms(prefill.prefill if prefill else None),
        "hand_over": _ms(times.hand_over),
        "first_token": _ms(times.ttft),
        "per_token": _ms(times.tpot),
        "total": _ms(now - times.received),
        "encode_batch": slowest.batch if slowest else None,
        "embeddings": dict(Counter(item.source for item in times.items)),
        "workers": {
            "encode": list(dict.fromkeys(item.worker for item in times.items)),
            "prefill": prefill.worker if prefill else None,
            "decode": times.decode_worker or None,
        },
    }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
