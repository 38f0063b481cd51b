"""One request to the pipeline, from its first token to its last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from easerve.api.backend import Backend
from easerve.api.choices import Choice, Delta
from easerve.api.pictures import PixelBuffers, Source, load_again
from easerve.errors import EAServeError
from easerve.pipeline.door import Place
from easerve.pipeline.timing import RequestTimes
from easerve.request import Request, TensorRef, TokenOutput


class Run:
    """What the front end holds for it changes owner in the very step that enters the pipeline."""

    def __init__(
        self,
        backend: Backend,
        request: Request,
        times: RequestTimes,
        choices: Sequence[Choice],
        buffers: PixelBuffers,
        place: Place,
        sources: Sequence[Source],
    ) -> None:
        self.request = request
        self.times = times
        self.choices = choices
        self._backend = backend
        self._buffers = buffers
        self._place = place
        self._sources = sources
        self._outputs: AsyncGenerator[TokenOutput, str | None] | None = None
        self._ended: str | None = None  # a sequence that is not wanted any more, though it goes on

    async def next(self) -> TokenOutput:
        """The next token of any of its sequences. Raises the pipeline's errors."""
        if self._outputs is None:
            self._outputs = self._backend.pipeline.generate(self.request, self.times, self._place, self._reload)
            self._buffers.hand_over()  # nothing can come between this and the generator's first step
        ended, self._ended = self._ended, None
        try:
            return await self._outputs.asend(ended)
        except StopAsyncIteration:
            raise EAServeError("the pipeline ended before the answer did") from None

    async def _reload(self, index: int) -> TensorRef:
        return await load_again(self._sources[index], self.request.media[index].key, self._backend)

    async def aclose(self) -> None:
        if self._outputs is not None:
            await self._outputs.aclose()

    async def deltas(self) -> AsyncGenerator[Delta, None]:
        """What each token adds, until all choices have finished. The pipeline is closed before the last one."""
        try:
            while True:
                output = await self.next()
                choice = self.choices[int(output.sequence_id.rpartition("/")[2])]
                self._measure(choice)
                delta = choice.feed(output)
                if choice.finished and output.finish_reason is None:  # at a stop string, of which engines know nothing
                    self._ended = output.sequence_id
                if all(one.finished for one in self.choices):
                    break
                yield delta
        finally:
            await self.aclose()
        yield delta

    def _measure(self, choice: Choice) -> None:
        metrics = self._backend.metrics
        now = asyncio.get_running_loop().time()
        if all(one.last_token is None for one in self.choices):
            metrics.time_to_first_token.observe(now - self.times.received)
            metrics.prompt_tokens.inc(len(self.request.prompt))
        if choice.last_token is not None:
            metrics.inter_token_latency.observe(now - choice.last_token)
        choice.last_token = now
        metrics.generation_tokens.inc()
