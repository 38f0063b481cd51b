"""A small tokenizer, and stand-ins for what the HTTP layer is given, which count what they are asked."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from easerve.api.app import create_app
from easerve.api.options import ApiOptions
from easerve.api.service import ServedModel, load_served_model
from easerve.errors import BadRequest, EAServeError, NoRoom
from easerve.pipeline.door import Place
from easerve.pipeline.media import Reload
from easerve.pipeline.timing import ItemTimes, RequestTimes
from easerve.policy.admission import Admission
from easerve.request import LaidPicture, PrefillTimes, Request, TensorRef, TokenLogprobs, TokenOutput

SPECIAL = ["<|end|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|image_pad|>", "<|vision_end|>"]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% for part in message.content %}"
    "{% if part.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part.text }}{% endif %}"
    "{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CORPUS = ["the red circle is left of the blue square", "how many shapes are there ? two", "hello world, hello there"]


def make_tokenizer(folder: Path, *, template: str | None = TEMPLATE, bos: bool = False) -> Path:
    """Byte-level BPE with a chat template, as files in `folder`."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=360, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=SPECIAL
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    config: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>"}
    if template:
        config["chat_template"] = template
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "config.json").write_text("{}")
    return folder


@dataclass
class Rules:
    """A family of models: one token per 28 x 28 pixels."""

    folder: Path
    image_token_id: int = SPECIAL.index("<|image_pad|>")
    context_length: int = 512

    def image_tokens(self, height: int, width: int) -> int:
        if min(height, width) < 4:
            raise BadRequest(f"a picture of {height}x{width} is too small")
        return max(1, height // 28) * max(1, width // 28)

    def fingerprint(self) -> bytes:
        return b"rules"


@dataclass
class Buffers:
    """Counts buffers laid down and not yet released."""

    live: set[str] = field(default_factory=set)
    puts: int = 0

    def put(self, shape: tuple[int, ...]) -> TensorRef:
        self.puts += 1
        name = f"b{self.puts}"
        self.live.add(name)
        return TensorRef(name, shape, "uint8", math.prod(shape))

    def release(self, ref: TensorRef) -> None:
        self.live.remove(ref.name)  # a second release is an error here: it means two owners


@dataclass
class Media:
    """Pictures by "HEIGHTxWIDTH" URLs, equal for equal heights and widths; "broken" is a bad one."""

    buffers: Buffers
    salt: bytes
    delay: float = 0.0
    calls: int = 0
    full: int = 0  # so many calls to come find no room

    async def load_all(self, sources: Sequence[tuple[str, str]]) -> list[LaidPicture]:
        self.calls += 1
        await asyncio.sleep(self.delay)
        if self.full:
            self.full -= 1
            raise NoRoom("no shared memory", param=sources[0][1])
        for url, param in sources:
            if url == "broken":
                raise BadRequest("the picture is broken", param=param, code="invalid_image")
        return [self._lay(url) for url, _ in sources]

    def _lay(self, url: str) -> LaidPicture:
        height, width = map(int, url.split("x"))
        key = hashlib.sha256(self.salt + url.encode()).hexdigest()
        pixels = self.buffers.put((height, width, 3))
        return LaidPicture(key=key, height=height, width=width, pixels=pixels, fetch_s=0.002, decode_s=0.003)


Script = Callable[[Request, int], list[int]]  # (request, index of the answer) -> token ids


@dataclass
class FakePipeline:
    """Plays a script of tokens, sequences in turn; owns pixel buffers as the real one does."""

    buffers: Buffers
    script: Script
    delay: float = 0.0  # seconds before each token
    error: EAServeError | Exception | None = None
    error_at: int = 0  # tokens given out before `error`
    stop_token: int | None = SPECIAL.index("<|im_end|>")  # appended to the script; None: ends by length
    requests: list[Request] = field(default_factory=list)
    running: int = 0
    tokens_given: int = 0
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    closed_at: float = 0.0
    health: EAServeError | None = None
    admission: Admission = field(default_factory=lambda: Admission(1000))
    rooms_made: int = 0
    reload_first: bool = False  # pictures are asked for once more before anything is generated
    reloaded: list[TensorRef] = field(default_factory=list)

    def admit(self) -> Place:
        return Place(self.admission)

    def make_room(self) -> None:
        self.rooms_made += 1

    async def check_health(self) -> None:
        if self.health:
            raise self.health

    async def generate(
        self, request: Request, times: RequestTimes, place: Place, reload: Reload
    ) -> AsyncGenerator[TokenOutput, None]:
        self.requests.append(request)
        self.running += 1
        try:
            if self.reload_first:
                self.reloaded = [await reload(index) for index in range(len(request.media))]
            times.items += [ItemTimes(0.001, 0.010 * (k + 1), 2, f"encode-{k}") for k in range(len(request.media))]
            async for output in self._outputs(request, times):
                yield output
        finally:
            for item in request.media:
                self.buffers.release(item.pixels)
            place.leave()
            self.running -= 1
            self.closed_at = asyncio.get_running_loop().time()
            self.closed.set()

    async def _outputs(self, request: Request, times: RequestTimes) -> AsyncGenerator[TokenOutput, None]:
        scripts = [self._tokens(request, index) for index in range(request.n)]
        given = 0
        for step in range(max(map(len, scripts))):
            for index, script in enumerate(scripts):
                if step >= len(script):
                    continue
                await asyncio.sleep(self.delay)
                if self.error is not None and given == self.error_at:
                    raise self.error
                given += 1
                self.tokens_given += 1
                self._stamp(times)
                yield self._output(request, index, script, step)

    def _tokens(self, request: Request, index: int) -> list[int]:
        tokens = self.script(request, index)
        room = request.sampling.max_tokens
        return tokens[:room] if self.stop_token is None else [*tokens, self.stop_token][:room]

    def _stamp(self, times: RequestTimes) -> None:
        now = asyncio.get_running_loop().time()
        if times.first_token is None:
            times.first_token = now
            times.prefill = PrefillTimes(0.001, 0.002, 0.003, "generate-0")
            times.decode_worker = "generate-0"
        times.last_token = now
        times.output_tokens += 1

    def _output(self, request: Request, index: int, script: list[int], step: int) -> TokenOutput:
        token = script[step]
        last = step == len(script) - 1
        stopped = last and token == self.stop_token
        count = request.sampling.logprobs
        logprobs = None
        if count is not None:
            logprobs = TokenLogprobs(-0.5, tuple((token + k, -0.5 - k) for k in range(count)))
        return TokenOutput(
            sequence_id=f"{request.id}/{index}",
            token_id=token,
            finish_reason=("stop" if stopped else "length") if last else None,
            stop_token=token if stopped else None,
            logprobs=logprobs,
        )


@dataclass
class Site:
    """An application with its parts."""

    app: FastAPI
    model: ServedModel
    pipeline: FakePipeline
    buffers: Buffers
    media: Media

    def client(self) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url="http://test")

    def says(self, text: str) -> None:
        """Every answer is `text` from now on."""
        ids = self.model.codec.encode(text)
        self.pipeline.script = lambda request, index: ids


def make_site(folder: Path, *, options: ApiOptions | None = None, rules: Rules | None = None, **pipeline: Any) -> Site:
    """A site on the tokenizer in `folder`; its pipeline says "the red circle"."""
    rules = rules or Rules(folder)
    model = load_served_model(rules, "tiny")
    ids = model.codec.encode("the red circle")
    buffers = Buffers()
    media = Media(buffers, model.salt)
    fake = FakePipeline(buffers, **{"script": lambda request, index: ids, **pipeline})
    app = create_app(model=model, pipeline=fake, media=media, buffers=buffers, options=options)
    return Site(app, model, fake, buffers, media)


def user(*parts: Any) -> list[dict[str, Any]]:
    """One user message: strings are texts, tuples (height, width) pictures."""
    content = [
        {"type": "text", "text": part}
        if isinstance(part, str)
        else {"type": "image_url", "image_url": {"url": "x".join(map(str, part))}}
        for part in parts
    ]
    return [{"role": "user", "content": content}]


async def until(condition: Callable[[], bool], seconds: float = 5.0) -> None:
    """Wait for something that has no event."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.002)
