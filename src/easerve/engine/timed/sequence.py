"""A sequence as numbers of tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from easerve.engine.base import NewSequence
from easerve.policy.prefix import BlockKeys


@dataclass(eq=False, slots=True)
class TimedSequence:
    """`length` is prompt and output together; the keys and values of the first `computed` exist. Times are seconds.

    With `imported` they came with the sequence, as many as `computed` says at the start.
    """

    id: str
    prompt_length: int
    length: int
    max_tokens: int  # of output, those it came with included
    stop_after: Literal["prefill", "decode"] = "decode"
    imported: bool = False
    prefix: BlockKeys | None = None
    computed: int = 0
    blocks: list[int] = field(default_factory=list)
    transfer: float = 0.0  # took until its media or its keys and values were here
    added: float = 0.0
    first_scheduled: float | None = None
    cached: int = 0  # tokens that were computed already then
    reported: bool = False  # a token of it has come out of this engine

    @classmethod
    def of(cls, new: NewSequence, now: float) -> TimedSequence:
        return cls(
            id=new.id,
            prompt_length=len(new.prompt),
            length=len(new.prompt) + len(new.produced),
            max_tokens=new.sampling.max_tokens,
            stop_after=new.stop_after,
            imported=new.kv is not None,
            computed=0 if new.kv is None else new.kv.tokens,
            added=now,
        )

    @property
    def uncomputed(self) -> int:
        return self.length - self.computed

    @property
    def produced(self) -> int:
        """Output tokens so far."""
        return self.length - self.prompt_length
