"""The JSON a client reads: whole answers and stream chunks, for chat and for completions."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from easerve.api.choices import Delta, ScoredToken
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
    """Token counts; pictures count as the positions they fill."""
    prompt = sum(len(run.request.prompt) for run in generation.runs)
    pictures = sum(item.tokens for run in generation.runs for item in run.request.media)
    answers = sum(choice.tokens for run in generation.runs for choice in run.choices)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": answers,
        "total_tokens": prompt + answers,
        "prompt_tokens_details": {"image_tokens": pictures},
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


class ChatFormat(Format):
    object = "chat.completion"
    chunk_object = "chat.completion.chunk"

    def opening(self) -> Iterator[Json]:
        for index in range(self._generation.choice_count):
            yield self._chunk([_piece(index, {"role": "assistant", "content": ""})])

    def _choice(self, answer: Delta) -> Json:
        return {
            "index": answer.index,
            "message": {"role": "assistant", "content": answer.text},
            "logprobs": _chat_logprobs(answer.scores),
            "finish_reason": answer.finish_reason,
            "stop_reason": answer.stop_reason,
        }

    def _pieces(self, delta: Delta) -> Iterator[Json]:
        if delta.text or delta.scores:
            yield _piece(delta.index, {"content": delta.text}, logprobs=_chat_logprobs(delta.scores))
        if delta.finish_reason:
            yield _piece(delta.index, {}, finish_reason=delta.finish_reason, stop_reason=delta.stop_reason)


class CompletionFormat(Format):
    object = "text_completion"
    chunk_object = "text_completion"

    def _choice(self, answer: Delta) -> Json:
        return {
            "index": answer.index,
            "text": answer.text,
            "logprobs": _completion_logprobs(answer.scores),
            "finish_reason": answer.finish_reason,
            "stop_reason": answer.stop_reason,
        }

    def _pieces(self, delta: Delta) -> Iterator[Json]:
        yield self._choice(delta)


def _piece(
    index: int,
    delta: Json,
    *,
    logprobs: Json | None = None,
    finish_reason: str | None = None,
    stop_reason: str | int | None = None,
) -> Json:
    piece: Json = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish_reason}
    if stop_reason is not None:
        piece["stop_reason"] = stop_reason
    return piece


def _chat_logprobs(scores: Sequence[ScoredToken]) -> Json | None:
    if not scores:
        return None
    return {
        "content": [
            {
                **_chat_token(score.text, score.logprob),
                "top_logprobs": [_chat_token(text, value) for text, value in score.top],
            }
            for score in scores
        ],
        "refusal": None,
    }


def _chat_token(text: str, logprob: float) -> Json:
    """A token with its bytes, or null where it is but a part of a character."""
    return {"token": text, "logprob": logprob, "bytes": None if "\ufffd" in text else list(text.encode())}


def _completion_logprobs(scores: Sequence[ScoredToken]) -> Json | None:
    if not scores:
        return None
    return {
        "tokens": [score.text for score in scores],
        "token_logprobs": [score.logprob for score in scores],
        "top_logprobs": [{score.text: score.logprob, **dict(score.top)} for score in scores],
        "text_offset": [score.offset for score in scores],
    }
