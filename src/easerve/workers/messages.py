"""Every message between the front end and its workers, and their encoding (msgpack, tagged by type).

Tensors never travel in messages; `TensorRef` names where they lie.
"""

from __future__ import annotations

from typing import Any

import msgspec

from easerve.request import EmbeddingRef, MediaItem, SamplingParams, TokenOutput


class Message(msgspec.Struct, tag=True):
    """Base of all messages."""


# Front end to worker


class EncodeBatch(Message):
    """Encode these items together. Answered by one `Encoded` with the same number."""

    batch: int
    items: list[MediaItem]


class StartSequence(Message):
    """Prefill and decode. Answered by `Tokens`, and by `Failed` if it does not finish."""

    sequence_id: str
    prompt: list[int]
    sampling: SamplingParams
    media: list[tuple[MediaItem, EmbeddingRef]]


class CancelSequence(Message):
    """Forget a sequence; nothing is answered."""

    sequence_id: str


class Stop(Message):
    """End the process."""


# Worker to front end


class Progress(Message):
    """A line for the person who waits for the start."""

    text: str


class Ready(Message):
    """Loaded; work may be sent. Memory in bytes, times in seconds."""

    pid: int
    stages: list[str]
    load_seconds: float
    resident_bytes: int
    max_tokens_per_sequence: int = 0  # of a generating worker


class StartFailed(Message):
    """The worker could not load, for this reason, and exits."""

    reason: str


class Failure(Message):
    """An error on its way to the front end, by class name (`errors.by_name`)."""

    kind: str
    message: str


class Encoded(Message):
    """One result per item of batch `batch`, in order; `seconds` is what encoding the batch took."""

    batch: int
    results: list[EmbeddingRef | Failure]
    seconds: float


class Tokens(Message):
    """The outputs of one engine step."""

    outputs: list[TokenOutput]


class SequenceFailure(Message):
    """A sequence ended in an error."""

    sequence_id: str
    failure: Failure


class Heartbeat(Message):
    """Sent every second by a living worker: what it holds and has done."""

    resident_bytes: int
    busy_seconds: float  # of its stage, since start
    sequences_running: int = 0
    sequences_waiting: int = 0
    kv_blocks_total: int = 0
    kv_blocks_used: int = 0
    preemptions: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    items_encoded: int = 0


ToWorker = EncodeBatch | StartSequence | CancelSequence | Stop
FromWorker = Progress | Ready | StartFailed | Encoded | Tokens | SequenceFailure | Heartbeat

_encoder = msgspec.msgpack.Encoder()
_to_worker: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ToWorker)
_from_worker: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(FromWorker)


def pack(message: Message) -> bytes:
    return _encoder.encode(message)


def unpack_at_worker(data: bytes) -> ToWorker:
    """Raises msgspec.ValidationError for anything that is not a message to a worker."""
    message: ToWorker = _to_worker.decode(data)
    return message


def unpack_at_front_end(data: bytes) -> FromWorker:
    """Raises msgspec.ValidationError for anything that is not a message from a worker."""
    message: FromWorker = _from_worker.decode(data)
    return message
