"""What answers to chat and to completions share: their frame, their usage and timing, and how a stream ends."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from easerve.api.choices import Delta
from easerve.api.generation import Generation
from easerve.api.timing import timing_object

Json = dict[str, Any]


async def collect(deltas: AsyncIterator[Delta], count: int) -> list[Delta]:
    """All that came for each of `count` answers, joined."""
    wholes = [Delta(index) for index in range(count)]
    texts: list[list[str]] = [[] for _ in wholes]
    async for delta in deltas:
        whole = wholes[delta.index]
        texts[delta.index].append(delta.text)
        whole.scores += delta.scores
        if delta.finish_reason:
            whole.finish_reason, whole.stop_reason = delta.finish_reason, delta.stop_reason
    for whole, pieces in zip(wholes, texts, strict=True):
        whole.text = "".join(pieces)
    return wholes


def usage(generation: Generation) -> Json:
    """Token counts; pictures count as the positions they fill, and cached are those that no worker had to prefill."""
    prompt = sum(len(run.request.prompt) for run in generation.runs)
    pictures = sum(item.tokens for run in generation.runs for item in run.request.media)
    cached = sum(run.times.prefill.cached for run in generation.runs if run.times.prefill)
    answers = sum(choice.tokens for run in generation.runs for choice in run.choices)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": answers,
        "total_tokens": prompt + answers,
        "prompt_tokens_details": {"cached_tokens": cached, "image_tokens": pictures},
    }


def timing(generation: Generation, now: float) -> Json | list[Json]:
    """One object, or one per prompt where there are several."""
    objects = [timing_object(run.times, now) for run in generation.runs]
    return objects[0] if len(objects) == 1 else objects


class Format(ABC):
    """Writes one request's answer."""

    object: str
    chunk_object: str

    def __init__(self, generation: Generation) -> None:
        self._generation = generation
        self._created = int(time.time())
        self._ended = 0  # answers whose end is in the stream

    def whole(self, answers: Sequence[Delta], now: float) -> Json:
        """The answer of a request that does not stream. `now` is the loop's time."""
        body = self._frame(self.object, [self._choice(answer) for answer in answers])
        body["usage"] = usage(self._generation)
        return self._timed(body, now)

    def chunks(self, delta: Delta, now: float) -> Iterator[Json]:
        """The chunks that one token is worth; after the last token those that end the stream."""
        if delta.empty:
            return
        self._ended += delta.finish_reason is not None
        last = self._ended == self._generation.choice_count
        for choice in self._pieces(delta):
            chunk = self._chunk([choice])
            if last and choice["finish_reason"] and not self._usage_asked:
                chunk = self._timed(chunk, now)
            yield chunk
        if last and self._usage_asked:
            yield self._timed({**self._chunk([]), "usage": usage(self._generation)}, now)

    def opening(self) -> Iterator[Json]:
        """Chunks before the first token."""
        return iter(())

    @property
    def _usage_asked(self) -> bool:
        options = self._generation.fields.stream_options
        return options is not None and options.include_usage

    def _chunk(self, choices: list[Json]) -> Json:
        chunk = self._frame(self.chunk_object, choices)
        if self._usage_asked:
            chunk["usage"] = None
        return chunk

    def _frame(self, kind: str, choices: list[Json]) -> Json:
        generation = self._generation
        return {
            "id": generation.id,
            "object": kind,
            "created": self._created,
            "model": generation.model,
            "choices": choices,
        }

    def _timed(self, body: Json, now: float) -> Json:
        if self._generation.fields.include_timing:
            body["timing"] = timing(self._generation, now)
        return body

    @abstractmethod
    def _choice(self, answer: Delta) -> Json:
        """A whole answer."""

    @abstractmethod
    def _pieces(self, delta: Delta) -> Iterator[Json]:
        """The stream's choices for one delta; the one with a finish reason comes last."""
