"""The JSON of chat completions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from easerve.api.choices import Delta, ScoredToken
from easerve.api.formats.base import Format, Json


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
