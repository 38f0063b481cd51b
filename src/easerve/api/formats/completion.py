"""The JSON of completions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from easerve.api.choices import Delta, ScoredToken
from easerve.api.formats.base import Format, Json


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


def _completion_logprobs(scores: Sequence[ScoredToken]) -> Json | None:
    if not scores:
        return None
    return {
        "tokens": [score.text for score in scores],
        "token_logprobs": [score.logprob for score in scores],
        "top_logprobs": [{score.text: score.logprob, **dict(score.top)} for score in scores],
        "text_offset": [score.offset for score in scores],
    }
