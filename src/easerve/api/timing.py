"""The `timing` object of an answer: where its milliseconds went, and which workers they were spent on."""

from __future__ import annotations

from typing import Any

from easerve.pipeline.timing import RequestTimes


def timing_object(times: RequestTimes, now: float) -> dict[str, Any]:
    """Milliseconds, or null for what the request did not reach; `now` is the loop's time.

    Items are encoded side by side, so `encode_queue`, `encode` and `encode_batch` are those of the slowest.
    """
    slowest = max(times.items, key=lambda item: item.queue + item.encode, default=None)
    prefill = times.prefill
    worker = prefill.worker if prefill else None
    return {
        "queue": _ms(times.queue),
        "fetch": _ms(times.fetch),
        "decode_media": _ms(times.decode_media),
        "encode_queue": _ms(slowest.queue if slowest else None),
        "encode": _ms(slowest.encode if slowest else None),
        "transfer": _ms(prefill.transfer if prefill else None),
        "prefill_queue": _ms(prefill.queue if prefill else None),
        "prefill": _ms(prefill.prefill if prefill else None),
        "first_token": _ms(times.ttft),
        "per_token": _ms(times.tpot),
        "total": _ms(now - times.received),
        "encode_batch": slowest.batch if slowest else None,
        "workers": {
            "encode": list(dict.fromkeys(item.worker for item in times.items)),
            "prefill": worker,
            "decode": worker,
        },
    }


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)
