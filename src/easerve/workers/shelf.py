"""Embeddings and KV on their way between workers, as tensors here and as references in messages.

A worker that prefills beside its own encoder finds what it has just made on the shelf itself: nothing is moved.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

import torch
from msgspec.structs import replace

from easerve.engine.base import KVState
from easerve.errors import TransferError
from easerve.models.base import Embedding
from easerve.request import EmbeddingRef, KVRef, MediaItem, TensorRef
from easerve.transfer.choose import Transfers
from easerve.transfer.tensors import open_tensor, put_tensor
from easerve.transfer.together import put_all
from easerve.workers.messages import Heartbeat


class Shelf:
    """Publishes and opens. `keep` bytes of the newest embeddings stay at hand; used by several threads."""

    def __init__(self, transfer: Transfers, device: str, keep: int) -> None:
        self._transfer = transfer
        self._device = device
        self._keep = keep
        self._at_hand: OrderedDict[str, torch.Tensor] = OrderedDict()  # by the buffer's name
        self._at_hand_bytes = 0
        self._lock = threading.Lock()

    def report(self, beat: Heartbeat) -> Heartbeat:
        """The heartbeat with what was moved and what is still out."""
        transfer = self._transfer
        moved = transfer.bytes_put + transfer.bytes_opened
        return replace(beat, buffers=transfer.buffers, tensors_opened=transfer.opens, transfer_bytes=moved)

    def publish(self, item: MediaItem, made: Embedding) -> EmbeddingRef:
        """All tensors of an embedding, or none and TransferError."""
        tensors = {"values": made.values}
        if made.deepstack is not None:
            tensors["deepstack"] = made.deepstack
        refs = put_all(self._transfer, tensors, put_tensor)
        for name, ref in refs.items():
            self._put_at_hand(ref, tensors[name])
        return EmbeddingRef(key=item.key, tokens=made.values.shape[0], grid=made.grid, tensors=refs)

    def open(self, item: MediaItem, ref: EmbeddingRef) -> Embedding:
        """Raises TransferError if it is gone, or is not the item's."""
        if ref.key != item.key or ref.tokens != item.tokens:
            raise TransferError(
                f"item {item.key[:12]}, {item.tokens} tokens, came with embedding {ref.key[:12]}, {ref.tokens} tokens"
            )
        tensors = {name: self._open(one) for name, one in ref.tensors.items()}
        if tensors["values"].shape[0] != item.tokens:
            raise TransferError(f"the embedding of item {item.key[:12]} is not {item.tokens} tokens long")
        return Embedding(tensors["values"], ref.grid, tensors.get("deepstack"), ref.key)

    def publish_kv(self, kv: KVState) -> KVRef:
        tensor = put_tensor(self._transfer, kv.keys_values)
        return KVRef(tokens=kv.tokens, next_position=kv.next_position, tensor=tensor)

    def open_kv(self, ref: KVRef) -> KVState:
        """Raises TransferError if it is gone, or not as long as announced."""
        kv = KVState(self._open(ref.tensor), ref.next_position)
        if kv.tokens != ref.tokens:
            raise TransferError(f"the KV in buffer {ref.tensor.name} is of {kv.tokens} tokens, announced: {ref.tokens}")
        return kv

    def _open(self, ref: TensorRef) -> torch.Tensor:
        with self._lock:
            at_hand = self._at_hand.get(ref.name)
        return open_tensor(self._transfer, ref).to(self._device) if at_hand is None else at_hand

    def _put_at_hand(self, ref: TensorRef, tensor: torch.Tensor) -> None:
        if ref.nbytes > self._keep:
            return
        with self._lock:
            self._at_hand[ref.name] = tensor
            self._at_hand_bytes += tensor.nbytes
            while self._at_hand_bytes > self._keep:
                self._at_hand_bytes -= self._at_hand.popitem(last=False)[1].nbytes
