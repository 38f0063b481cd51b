"""Every message between the front end and its workers, and their encoding (msgpack, tagged by type).

Tensors never travel in messages; `TensorRef` names where they lie.
"""

from __future__ import annotations

from typing import Any

import msgspec

from easerve.errors import EAServeError, by_name
from easerve.pipeline.stages import SequenceJob
from easerve.request import EmbeddingRef, KVRef, LaidPicture, MediaItem, TokenOutput


class Message(msgspec.Struct, tag=True):
    """Base of all messages."""


# Front end to worker


class EncodeBatch(Message):
    """Encode these items together. Answered by one `Encoded` with the same number."""

    batch: int
    items: list[MediaItem]


class StartSequence(Message):
    """Prefill and decode. Answered by `Tokens`, then by `HandOver` if the job asks for that, and by `SequenceFailure`
    if it does not finish."""

    job: SequenceJob


class CancelSequence(Message):
    """Forget a sequence; nothing is answered."""

    sequence_id: str


class LoadPicture(Message):
    """Fetch, decode and lay down a picture. Answered by one `PictureLoaded` with the same number."""

    number: int
    url: str
    param: str  # the request's field it came in, which errors name
    salt: bytes  # of the content key


class CancelPicture(Message):
    """Forget a picture; what is laid down of it is released, unless it has been answered."""

    number: int


class Stop(Message):
    """End the process."""


# Worker to front end


class Progress(Message):
    """A line for the person who waits for the start."""

    text: str


class Ready(Message):
    """Loaded; work may be sent. `load_seconds` from the start of its threads on, imports included."""

    pid: int
    load_seconds: float
    resident_bytes: int
    max_tokens_per_sequence: int = 0  # of a generating worker


class GaveUp(Message):
    """The worker cannot load, or cannot go on, for this reason, and exits."""

    reason: str


class Failure(Message, omit_defaults=True):
    """An error on its way to the front end, by class name."""

    kind: str
    message: str
    param: str | None = None
    code: str | None = None
    retry_after: float | None = None

    def error(self) -> EAServeError:
        return by_name(self.kind, self.message, param=self.param, code=self.code, retry_after=self.retry_after)


class Encoded(Message):
    """One result per item of batch `batch`, in order; `seconds` is what encoding the batch took."""

    batch: int
    results: list[EmbeddingRef | Failure]
    seconds: float


class Tokens(Message):
    """The outputs of one engine step."""

    outputs: list[TokenOutput]


class HandOver(Message):
    """A prefilled sequence leaves its worker; the front end owns the KV buffer."""

    sequence_id: str
    kv: KVRef


class SequenceFailure(Message):
    """A sequence ended in an error."""

    sequence_id: str
    failure: Failure


class PictureLoaded(Message):
    """The front end owns the picture's buffer."""

    number: int
    picture: LaidPicture | Failure


class Heartbeat(Message):
    """Sent twice a second by a living worker: what it holds and has done since its start."""

    resident_bytes: int
    encode_seconds: float = 0.0  # spent encoding
    generate_seconds: float = 0.0  # spent in engine steps
    sequences_running: int = 0
    sequences_waiting: int = 0
    kv_blocks_total: int = 0
    kv_blocks_used: int = 0
    preemptions: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0  # found in the prefix cache
    items_encoded: int = 0
    buffers: int = 0  # transfer buffers it put that nobody has released
    tensors_opened: int = 0
    transfer_bytes: int = 0  # put and opened
    encode_units: int = 0  # SMs or cores that the latest encode batch had to itself; 0: the device was not partitioned
    batches_apart: int = 0  # encode batches that had some to themselves
    partition_switches: int = 0  # moves of a stage to another part of the device


ToWorker = EncodeBatch | StartSequence | CancelSequence | LoadPicture | CancelPicture | Stop
FromWorker = Progress | Ready | GaveUp | Encoded | Tokens | HandOver | SequenceFailure | PictureLoaded | Heartbeat

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
