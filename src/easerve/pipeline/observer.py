"""What the pipeline tells of its work, for metrics. Everything is ignored here; `observe` counts it."""

from __future__ import annotations

from typing import Literal

from easerve.pipeline.timing import ItemTimes, RequestTimes
from easerve.request import PrefillTimes

Where = Literal["local", "remote"]


class Observer:
    """Called on the event loop; must not block. Seconds, bytes and tokens."""

    def batch_encoded(self, worker: str, items: int, tokens: int, seconds: float) -> None:
        """A batch came back from an encode worker."""

    def item_encoded(self, times: ItemTimes) -> None:
        """An item of a request has its embedding, wherever it came from."""

    def prefill_routed(self, where: Where) -> None:
        """A request with media goes to the prefill worker beside its encoder, or to the remote pool."""

    def first_token(self, stage: str, times: PrefillTimes) -> None:
        """The first token that a prefill or decode worker made of a sequence."""

    def redone(self, stage: str) -> None:
        """Work was lost with a worker, or on its way, and is done again."""

    def handed_over(self, nbytes: int, seconds: float) -> None:
        """KV moved from a prefill to a decode worker; `seconds` from one to the first token of the other."""

    def finished(self, times: RequestTimes) -> None:
        """A request ended with all its tokens."""
