"""The encode desk and the shelf: one bad item fails alone, and nothing is taken for what it is not."""

from __future__ import annotations

import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from msgspec.structs import replace

from easerve.engine.base import KVState
from easerve.errors import TransferError
from easerve.models.base import Embedding
from easerve.request import EmbeddingRef, MediaItem
from easerve.transfer.arrays import ArrayStore
from easerve.transfer.choose import Transfers, make_transfer
from easerve.workers.encoding import EncodeDesk
from easerve.workers.messages import EncodeBatch, Encoded, Failure, Message
from easerve.workers.shelf import Shelf

TOKENS, WIDTH = 3, 8
BAD = 255


class PickyEncoder:
    """An embedding holds the brightness of its picture; a batch with one that is BAD fails as a whole."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    def encode(self, pictures: Sequence[np.ndarray]) -> list[Embedding]:
        self.batches.append(len(pictures))
        if any(picture.max() == BAD for picture in pictures):
            raise ValueError("too bright")
        return [Embedding(torch.full((TOKENS, WIDTH), float(picture.max())), (1, 2, 2)) for picture in pictures]


class Worker:
    """An encode desk over shared memory in a folder."""

    def __init__(self, folder: Path) -> None:
        self.transfer: Transfers = make_transfer("shm", folder, "worker")
        self.pictures = ArrayStore(self.transfer)
        self.shelf = Shelf(self.transfer, "cpu", keep=0)
        self.encoder = PickyEncoder()
        self.sent: list[Message] = []
        self.desk = EncodeDesk(self.encoder, self.pictures, self.shelf, self.sent.append)

    def item(self, brightness: int) -> MediaItem:
        pixels = self.pictures.put(np.full((4, 4, 3), brightness, np.uint8))
        return MediaItem(
            key=f"key {brightness}", modality="image", height=4, width=4, tokens=TOKENS, offset=0, pixels=pixels
        )

    def encode(self, items: list[MediaItem]) -> list[EmbeddingRef | Failure]:
        self.desk.take(EncodeBatch(len(self.sent), items))
        self.desk.work()
        answer = self.sent[-1]
        assert isinstance(answer, Encoded) and answer.batch == len(self.sent) - 1
        return answer.results

    def embedded(self, brightness: int = 1) -> tuple[MediaItem, EmbeddingRef]:
        item = self.item(brightness)
        [made] = self.encode([item])
        assert isinstance(made, EmbeddingRef)
        return item, made


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    worker = Worker(tmp_path)
    yield worker
    worker.transfer.close()


@contextmanager
def no_file_longer_than(nbytes: int) -> Iterator[None]:
    """To a writer this looks as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_when_a_batch_fails_each_item_is_encoded_alone_and_the_bad_one_fails_alone(worker: Worker) -> None:
    items = [worker.item(brightness) for brightness in (10, BAD, 20)]
    first, bad, last = worker.encode(items)
    assert worker.encoder.batches == [3, 1, 1, 1]
    assert isinstance(bad, Failure) and "ValueError" in bad.message
    for item, made, brightness in ((items[0], first, 10), (items[2], last, 20)):
        assert isinstance(made, EmbeddingRef)
        assert torch.equal(worker.shelf.open(item, made).values, torch.full((TOKENS, WIDTH), float(brightness)))


def test_an_item_whose_pixels_are_gone_fails_alone(worker: Worker) -> None:
    items = [worker.item(brightness) for brightness in (10, 20)]
    worker.transfer.release(items[0].pixels)
    gone, made = worker.encode(items)
    assert isinstance(gone, Failure) and gone.kind == "TransferError"
    assert isinstance(made, EmbeddingRef)


def test_without_room_for_an_embedding_its_item_says_so_and_the_desk_goes_on(worker: Worker) -> None:
    items = [worker.item(brightness) for brightness in (10, 20)]
    with no_file_longer_than(64):
        results = worker.encode(items)
    assert [result.kind for result in results if isinstance(result, Failure)] == ["NoRoom"] * 2
    assert worker.transfer.buffers == 2, "only the pixels lie there"
    assert all(isinstance(result, EmbeddingRef) for result in worker.encode(items))


@pytest.mark.parametrize(
    "change",
    [
        {"key": "key 2"},
        {"tokens": TOKENS + 1},
        {"dtype": "float64"},
        {"dtype": "no such"},
        {"shape": (TOKENS, WIDTH + 1)},
        {"shape": (TOKENS - 1, WIDTH), "nbytes": (TOKENS - 1) * WIDTH * 4},
    ],
    ids=" ".join,
)
def test_an_embedding_of_another_key_length_or_dtype_is_refused(worker: Worker, change: dict[str, Any]) -> None:
    item, made = worker.embedded()
    of_tensor = {name: value for name, value in change.items() if name in ("dtype", "shape", "nbytes")}
    wrong = replace(
        made,
        tensors={"values": replace(made.tensors["values"], **of_tensor)},
        **{name: value for name, value in change.items() if name not in of_tensor},
    )
    with pytest.raises(TransferError):
        worker.shelf.open(item, wrong)
    assert worker.shelf.open(item, made).values.shape == (TOKENS, WIDTH)


def test_an_embedding_is_refused_by_an_item_of_another_length(worker: Worker) -> None:
    """All agree with each other, but not with the prompt."""
    item, made = worker.embedded()
    with pytest.raises(TransferError, match="4 tokens, came with"):
        worker.shelf.open(replace(item, tokens=TOKENS + 1), made)
    with pytest.raises(TransferError, match="not 4 tokens long"):
        worker.shelf.open(replace(item, tokens=TOKENS + 1), replace(made, tokens=TOKENS + 1))


def test_kv_of_another_length_than_announced_is_refused(worker: Worker) -> None:
    ref = worker.shelf.publish_kv(KVState(torch.zeros(1, 2, 5, 1, 4), 5))
    assert worker.shelf.open_kv(ref).tokens == 5
    with pytest.raises(TransferError, match="of 5 tokens, announced: 6"):
        worker.shelf.open_kv(replace(ref, tokens=6))
