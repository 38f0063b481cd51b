"""One answer in the making: tokens in, text out, and when it is over."""

from __future__ import annotations

from dataclasses import dataclass, field

from easerve.api.detokenize import Detokenizer, StopStrings
from easerve.api.schema import CommonFields
from easerve.api.text import TextCodec
from easerve.request import FinishReason, TokenLogprobs, TokenOutput

LEAST_LOGPROB = -9999.0  # what OpenAI shows for a probability of nothing; JSON has no infinity


@dataclass(frozen=True)
class ScoredToken:
    """A token of the answer with its log-probability and the likeliest ones at its place."""

    text: str
    logprob: float
    top: tuple[tuple[str, float], ...]
    offset: int  # characters of the answer before it


@dataclass
class Delta:
    """What one token (or, collected, all of them) added to the answer with this index."""

    index: int
    text: str = ""
    scores: list[ScoredToken] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    stop_reason: str | int | None = None  # the stop string or stop token id that ended it

    @property
    def empty(self) -> bool:
        return not (self.text or self.scores or self.finish_reason)


class Choice:
    """The state of one answer."""

    def __init__(self, index: int, fields: CommonFields, codec: TextCodec) -> None:
        self.index = index
        self.tokens = 0
        self.finished = False
        self.last_token: float | None = None  # loop time
        self._codec = codec
        self._include_stop = fields.include_stop_str_in_output
        self._min_tokens = fields.min_tokens
        self._stop_ids = frozenset(fields.stop_token_ids or ())
        self._detokenizer = Detokenizer(codec, skip_special_tokens=fields.skip_special_tokens)
        self._stops = StopStrings(fields.stop or (), include=self._include_stop)
        self._characters = 0

    def feed(self, output: TokenOutput) -> Delta:
        """Take a token. Once the choice has finished, tokens that still come add nothing."""
        delta = Delta(self.index)
        if self.finished:
            return delta
        self.tokens += 1
        if output.stop_token is None or self._include_stop:
            self._score(output, delta)
            self._add(self._detokenizer.push(output.token_id), delta)
        if output.finish_reason is not None and self._stops.found is None:
            self._add(self._detokenizer.flush(), delta)
        if self._stops.found is not None:
            self._finish(delta, "stop", self._stops.found)
        elif output.finish_reason is not None:
            delta.text += self._stops.flush()
            named = output.stop_token if output.stop_token in self._stop_ids else None
            self._finish(delta, output.finish_reason, named)
        return delta

    def _add(self, text: str, delta: Delta) -> None:
        self._characters += len(text)
        delta.text += text if self.tokens < self._min_tokens else self._stops.push(text)

    def _finish(self, delta: Delta, reason: FinishReason, named: str | int | None) -> None:
        self.finished = True
        delta.finish_reason = reason
        delta.stop_reason = named

    def _score(self, output: TokenOutput, delta: Delta) -> None:
        logprobs = output.logprobs
        if logprobs is not None:
            delta.scores.append(self._scored(output.token_id, logprobs))

    def _scored(self, token_id: int, logprobs: TokenLogprobs) -> ScoredToken:
        return ScoredToken(
            text=self._codec.token(token_id),
            logprob=max(logprobs.chosen, LEAST_LOGPROB),
            top=tuple((self._codec.token(number), max(value, LEAST_LOGPROB)) for number, value in logprobs.top),
            offset=self._characters,
        )
