"""The plain data a request is made of, in every ring and on the wire (all are msgspec structs).

Times are seconds, sizes bytes, token counts integers. Nothing here does anything.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Modality = Literal["image", "video", "audio"]
FinishReason = Literal["stop", "length"]


class TensorRef(msgspec.Struct, frozen=True):
    """Where a tensor lies: enough for another process to open it and to check what it gets."""

    name: str  # of the buffer, unique on this host for this server's life
    shape: tuple[int, ...]
    dtype: str  # numpy or torch name without a prefix: "uint8", "bfloat16"
    nbytes: int
    via: str = "shm"  # the transfer backend that published it


class LaidPicture(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A picture fetched, decoded and laid down where workers can read it. Whoever gets it owns the buffer."""

    key: str  # content key, as in MediaItem
    height: int  # decoded pixels
    width: int
    pixels: TensorRef  # (height, width, 3) uint8 RGB
    fetch_s: float  # seconds, waits included
    decode_s: float  # likewise; hashing and laying down included


class MediaItem(msgspec.Struct, frozen=True, kw_only=True):
    """One picture of a request, decoded: the unit of encode, cache, batching and failure."""

    key: str  # content key: decoded bytes + processor settings + model identity + revision
    modality: Modality
    height: int  # decoded pixels, before the family's own resizing
    width: int
    tokens: int  # language-model positions it fills
    offset: int  # index of the first of them in the prompt
    pixels: TensorRef  # (height, width, 3) uint8 RGB


class EmbeddingRef(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """An encoded item as it travels: values (tokens, width), and what the family adds."""

    key: str
    tokens: int
    grid: tuple[int, ...] = ()  # family-specific; for Qwen (t, h, w) in patches
    tensors: dict[str, TensorRef]  # "values" (tokens, width); "deepstack" (levels, tokens, width)
    worker: str = ""  # that made it; filled in by the front end

    @property
    def nbytes(self) -> int:
        return sum(ref.nbytes for ref in self.tensors.values())


class KVRef(msgspec.Struct, frozen=True, kw_only=True):
    """The keys and values of a prefilled prompt on their way to a decode worker."""

    tokens: int  # covered, from the first on
    next_position: int  # rope position of the token after them
    tensor: TensorRef  # (layers, 2, tokens, kv_heads, head_dim)


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How to choose tokens. Names and meanings as in OpenAI's API and vLLM's extensions."""

    max_tokens: int = 16
    min_tokens: int = 0
    temperature: float = 1.0  # 0 is greedy
    top_p: float = 1.0
    top_k: int = 0  # 0: off
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int = 0  # always set by the front end, so that redone work draws the same tokens
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    logprobs: int | None = None  # None: none; k: the chosen token's and the k most likely


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A validated request: token ids with media placeholders already expanded."""

    id: str
    prompt: tuple[int, ...]
    media: tuple[MediaItem, ...] = ()
    sampling: SamplingParams
    n: int = 1  # answers wanted; media are encoded once for all


class PrefillTimes(msgspec.Struct, frozen=True):
    """What the language-model worker knows of a request when its first token appears. Seconds."""

    queue: float
    transfer: float
    prefill: float
    worker: str = ""
    cached: int = 0  # prompt tokens that the prefix cache had


class TokenLogprobs(msgspec.Struct, frozen=True):
    """Log-probability of the chosen token and of the k most likely, before any penalty or temperature."""

    chosen: float
    top: tuple[tuple[int, float], ...] = ()  # (token id, logprob), most likely first


class TokenOutput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One generated token of one sequence."""

    sequence_id: str
    token_id: int
    finish_reason: FinishReason | None = None
    stop_token: int | None = None  # set when finish_reason is "stop": the eos or stop id that ended it
    logprobs: TokenLogprobs | None = None
    times: PrefillTimes | None = None  # with the first token only
