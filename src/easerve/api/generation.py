"""One HTTP request's way through the pipeline: its prompts, their answers token by token, and the way out.

A request with several prompts is several requests to the pipeline; their tokens are merged. Whoever makes a Generation
closes it, and closing gives back everything: the pipeline's work, and what the pipeline has not taken over.
"""

from __future__ import annotations

import asyncio
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing

from easerve.api.backend import Backend
from easerve.api.choices import Choice, Delta
from easerve.api.exchange import Exchange
from easerve.api.pictures import PixelBuffers
from easerve.api.prompts import Prompt, chat_prompt, completion_prompts, copied_times
from easerve.api.run import Run
from easerve.api.sampling import sampling_params
from easerve.api.schema import ChatRequest, CommonFields, CompletionRequest
from easerve.api.streams import merge
from easerve.api.template import OFF_LOOP_TEXT
from easerve.errors import BadRequest
from easerve.pipeline.door import Place
from easerve.pipeline.timing import RequestTimes
from easerve.request import Request


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
        self.places: list[Place] = []

    @property
    @abstractmethod
    def prompt_count(self) -> int:
        """How many prompts it has: so many requests are made of it."""

    @abstractmethod
    async def prompts(self) -> list[Prompt]:
        """The request's prompts. Raises BadRequest and TooLarge."""

    async def start(self) -> None:
        """Everything up to the pipeline's door."""
        self._check_choices()
        for _ in range(self.prompt_count):
            self.places.append(self.backend.pipeline.admit())
        prompts = await self.prompts()
        for index, (prompt, place) in enumerate(zip(prompts, self.places, strict=True)):
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
            times = copied_times(self.times)
            self.runs.append(Run(self.backend, request, times, choices, self.buffers, place, prompt.sources))

    def _check_choices(self) -> None:
        limit, prompts = self.backend.options.max_choices, self.prompt_count
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
            for place in self.places:
                exits.callback(place.leave)
            exits.callback(self.buffers.release)
            for run in self.runs:
                exits.push_async_callback(run.aclose)


class ChatGeneration(Generation):
    prefix = "chatcmpl"

    def __init__(self, backend: Backend, fields: ChatRequest, exchange: Exchange) -> None:
        super().__init__(backend, fields, exchange)
        self._chat = fields

    @property
    def prompt_count(self) -> int:
        return 1

    async def prompts(self) -> list[Prompt]:
        return [await chat_prompt(self._chat, self.backend, self.times, self.buffers)]


class CompletionGeneration(Generation):
    prefix = "cmpl"

    def __init__(self, backend: Backend, fields: CompletionRequest, exchange: Exchange) -> None:
        super().__init__(backend, fields, exchange)
        self._completion = fields

    @property
    def prompt_count(self) -> int:
        return len(self._completion.prompt)

    async def prompts(self) -> list[Prompt]:
        if sum(map(len, self._completion.prompt)) > OFF_LOOP_TEXT:
            return await asyncio.to_thread(completion_prompts, self._completion, self.backend)
        return completion_prompts(self._completion, self.backend)
