"""One HTTP request's way through the pipeline: its prompts, their answers token by token, and the way out.

A request with several prompts is several requests to the pipeline; their tokens are merged. Whoever makes a Generation
closes it, and closing gives back everything: the pipeline's work, and buffers the pipeline has not taken over.
"""

from __future__ import annotations

import asyncio
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing

from easerve.api.backend import Backend
from easerve.api.choices import Choice, Delta
from easerve.api.exchange import Exchange
from easerve.api.prompts import OFF_LOOP_TEXT, PixelBuffers, Prompt, chat_prompt, completion_prompts, copied_times
from easerve.api.sampling import sampling_params
from easerve.api.schema import ChatRequest, CommonFields, CompletionRequest
from easerve.api.streams import merge
from easerve.errors import BadRequest, EAServeError
from easerve.pipeline.timing import RequestTimes
from easerve.request import Request, TokenOutput


class Run:
    """One request to the pipeline. Buffers change owner in the very step that enters the pipeline."""

    def __init__(
        self, backend: Backend, request: Request, times: RequestTimes, choices: Sequence[Choice], buffers: PixelBuffers
    ) -> None:
        self.request = request
        self.times = times
        self.choices = choices
        self._backend = backend
        self._buffers = buffers
        self._outputs: AsyncGenerator[TokenOutput, str | None] | None = None
        self._ended: str | None = None  # a sequence that is not wanted any more, though it goes on

    async def next(self) -> TokenOutput:
        """The next token of any of its sequences. Raises the pipeline's errors."""
        if self._outputs is None:
            self._outputs = self._backend.pipeline.generate(self.request, self.times)
            self._buffers.hand_over()  # nothing can come between this and the generator's first step
        ended, self._ended = self._ended, None
        try:
            return await self._outputs.asend(ended)
        except StopAsyncIteration:
            raise EAServeError("the pipeline ended before the answer did") from None

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


class Generation(ABC):
    """Base of the two kinds of request."""

    prefix: str  # of ids

    def __init__(self, backend: Backend, fields: CommonFields, exchange: Exchange) -> None:
        self.backend = backend
        self.fields = fields
        self.model = backend.model.check_name(fields.model)
        self.id = f"{self.prefix}-{uuid.uuid4().hex}"  # ours, not the client's: two requests may carry one x-request-id
        self.runs: list[Run] = []
        self.times = RequestTimes(exchange.received)
        self.buffers = PixelBuffers(backend.buffers)

    @abstractmethod
    async def prompts(self) -> list[Prompt]:
        """The request's prompts. Raises BadRequest and TooLarge."""

    async def start(self) -> None:
        """Everything up to the pipeline's door."""
        self._check_choices(1)
        self.backend.pipeline.check_admission()
        prompts = await self.prompts()
        self._check_choices(len(prompts))
        for index, prompt in enumerate(prompts):
            sampling = sampling_params(self.fields, self.backend.model, prompt.length)
            request = Request(
                id=self.id if len(prompts) == 1 else f"{self.id}-{index}",
                prompt=prompt.token_ids,
                media=prompt.media,
                sampling=sampling,
                n=self.fields.n,
            )
            first = index * self.fields.n
            choices = [Choice(first + k, self.fields, self.backend.model.codec) for k in range(self.fields.n)]
            self.runs.append(Run(self.backend, request, copied_times(self.times), choices, self.buffers))

    def _check_choices(self, prompts: int) -> None:
        limit = self.backend.options.max_choices
        if prompts * self.fields.n > limit:
            raise BadRequest(
                f"{prompts} prompts with n = {self.fields.n} ask for {prompts * self.fields.n} answers; the most is "
                f"{limit}",
                param="n",
            )

    async def deltas(self) -> AsyncGenerator[Delta, None]:
        """What each token adds to which answer. Raises the pipeline's errors."""
        async with aclosing(merge([run.deltas() for run in self.runs])) as merged:
            async for delta in merged:
                yield delta

    @property
    def choice_count(self) -> int:
        return len(self.runs) * self.fields.n

    async def aclose(self) -> None:
        async with AsyncExitStack() as exits:
            exits.callback(self.buffers.release)
            for run in self.runs:
                exits.push_async_callback(run.aclose)


class ChatGeneration(Generation):
    prefix = "chatcmpl"

    def __init__(self, backend: Backend, fields: ChatRequest, exchange: Exchange) -> None:
        super().__init__(backend, fields, exchange)
        self._chat = fields

    async def prompts(self) -> list[Prompt]:
        return [await chat_prompt(self._chat, self.backend, self.times, self.buffers)]


class CompletionGeneration(Generation):
    prefix = "cmpl"

    def __init__(self, backend: Backend, fields: CompletionRequest, exchange: Exchange) -> None:
        super().__init__(backend, fields, exchange)
        self._completion = fields

    async def prompts(self) -> list[Prompt]:
        self._check_choices(len(self._completion.prompt))
        if sum(map(len, self._completion.prompt)) > OFF_LOOP_TEXT:
            return await asyncio.to_thread(completion_prompts, self._completion, self.backend)
        return completion_prompts(self._completion, self.backend)
