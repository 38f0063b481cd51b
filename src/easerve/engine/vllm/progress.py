"""A sequence on its way through vLLM, and its outputs as the events of our protocol."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from vllm.v1.engine import EngineCoreEventType, EngineCoreOutput, FinishReason

from easerve.engine.base import NewSequence
from easerve.request import FinishReason as OurReason
from easerve.request import PrefillTimes, TokenLogprobs, TokenOutput


@dataclass(eq=False)
class Progress:
    """`tokens` are those produced here, over all tries; a try is a request of vLLM's, with an id of its own."""

    sequence: NewSequence
    number: int  # unique in this engine
    tries: int = 0
    tokens: list[int] = field(default_factory=list)
    added: float = field(default_factory=time.monotonic)  # seconds, as the next
    scheduled: float | None = None
    cached: int = 0  # prompt tokens that vLLM's prefix cache had

    @property
    def request_id(self) -> str:
        return f"{self.number}.{self.tries}"

    def rest(self) -> NewSequence:
        """What is to be generated still, as if all so far had come from elsewhere."""
        return replace(self.sequence, produced=self.sequence.produced + self.tokens)

    @property
    def produced(self) -> int:
        """Output tokens so far."""
        return len(self.sequence.produced) + len(self.tokens)

    def ends_early(self, most_tokens: int) -> bool:
        """It stops after prefill, and neither its own limit nor that of tokens in all is what ends it."""
        return (
            self.sequence.stop_after == "prefill"
            and self.produced < self.sequence.sampling.max_tokens
            and len(self.sequence.prompt) + self.produced < most_tokens
        )


def preemptions(output: EngineCoreOutput) -> int:
    return sum(event.type == EngineCoreEventType.PREEMPTED for event in output.events or ())


def note_schedule(progress: Progress, output: EngineCoreOutput) -> None:
    """vLLM reads the clock that we read."""
    for event in output.events or ():
        if event.type == EngineCoreEventType.SCHEDULED and progress.scheduled is None:
            progress.scheduled = event.timestamp


def token_outputs(progress: Progress, output: EngineCoreOutput, most_tokens: int) -> Iterator[TokenOutput]:
    """The tokens of one output, counted in; `most_tokens` fit, prompt included."""
    last = len(output.new_token_ids) - 1
    for index, token in enumerate(output.new_token_ids):
        progress.tokens.append(token)
        reason = _reason(progress, output, most_tokens) if index == last else None
        yield TokenOutput(
            sequence_id=progress.sequence.id,
            token_id=token,
            finish_reason=reason,
            stop_token=token if reason == "stop" else None,
            logprobs=_logprobs(output.new_logprobs, index, progress.sequence.sampling.logprobs),
            times=_first_times(progress),
        )


def _reason(progress: Progress, output: EngineCoreOutput, most_tokens: int) -> OurReason | None:
    if output.finish_reason == FinishReason.STOP:
        return "stop"
    if output.finish_reason == FinishReason.LENGTH and not progress.ends_early(most_tokens):
        return "length"
    return None


def _first_times(progress: Progress) -> PrefillTimes | None:
    """With the first token that this engine made only. Transfer is the worker's to know."""
    if len(progress.tokens) != 1:
        return None
    began = progress.added if progress.scheduled is None else progress.scheduled
    return PrefillTimes(
        queue=began - progress.added, transfer=0.0, prefill=time.monotonic() - began, cached=progress.cached
    )


def _logprobs(lists: Any, index: int, most: int | None) -> TokenLogprobs | None:
    """vLLM's rows are the chosen token, then the most likely ones in order."""
    if lists is None or most is None:
        return None
    ids, values = lists.logprob_token_ids[index].tolist(), lists.logprobs[index].tolist()
    return TokenLogprobs(values[0], tuple(zip(ids[1 : most + 1], values[1 : most + 1], strict=True)))
