"""Turns a step's chunks into the tensors of one forward: inputs, positions, and where keys and values lie."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from easerve.engine.torch.attention import PagedBatch, PrefillRows
from easerve.engine.torch.kv_cache import KVCache
from easerve.engine.torch.scheduler import Chunk
from easerve.engine.torch.sequence import Sequence
from easerve.models.base import LanguagePart


@dataclass(frozen=True)
class StepInputs:
    """Arguments of `LanguagePart.forward`, and the rows whose logits are wanted (of the chunks that sample)."""

    embeds: torch.Tensor
    positions: torch.Tensor
    deepstack: tuple[torch.Tensor, torch.Tensor] | None
    paged: PagedBatch
    sample_rows: torch.Tensor


def assemble(chunks: list[Chunk], part: LanguagePart, cache: KVCache) -> StepInputs:
    """`chunks` in packed order; chunks of one token that continue a sequence must come first."""
    device = part.device
    ids = [token for chunk in chunks for token in _tokens(chunk)]
    embeds = part.embed(torch.tensor(ids, device=device))
    deepstack = _place_media(chunks, embeds)
    positions = torch.cat([chunk.sequence.positions_of(*_range(chunk)) for chunk in chunks], dim=1).to(device)
    ends = torch.tensor([chunk.count for chunk in chunks]).cumsum(0)
    sampling = torch.tensor([chunk.samples for chunk in chunks])
    return StepInputs(embeds, positions, deepstack, _paged(chunks, cache, device), (ends - 1)[sampling].to(device))


def is_decode(chunk: Chunk) -> bool:
    """One token on top of what is computed; its attention can be batched with others'."""
    return chunk.count == 1 and chunk.sequence.computed > 0


def _range(chunk: Chunk) -> tuple[int, int]:
    return chunk.sequence.computed, chunk.sequence.computed + chunk.count


def _tokens(chunk: Chunk) -> list[int]:
    start, end = _range(chunk)
    return chunk.sequence.tokens[start:end]


def _place_media(chunks: list[Chunk], embeds: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Overwrite placeholder rows with embeddings, in place; returns the rows' deepstack levels where there are any."""
    mask = torch.zeros(embeds.shape[0], dtype=torch.bool, device=embeds.device)
    levels: list[torch.Tensor] = []
    row = 0
    for chunk in chunks:
        start, end = _range(chunk)
        for offset, embedding in chunk.sequence.media:
            first, last = max(start, offset), min(end, offset + embedding.values.shape[0])
            if first >= last:
                continue
            rows = slice(row + first - start, row + last - start)
            embeds[rows] = embedding.values[first - offset : last - offset].to(embeds.dtype)
            if embedding.deepstack is not None:
                mask[rows] = True
                levels.append(embedding.deepstack[:, first - offset : last - offset].to(embeds.dtype))
        row += chunk.count
    return (mask, torch.cat(levels, dim=1)) if levels else None


def _paged(chunks: list[Chunk], cache: KVCache, device: torch.device) -> PagedBatch:
    decoding = [chunk.sequence for chunk in chunks if is_decode(chunk)]
    slots = torch.cat([_slots(chunk.sequence, cache.block_size, *_range(chunk)) for chunk in chunks])
    decode_slots, decode_mask = _decode_context(decoding, cache.block_size)
    prefills, row = [], len(decoding)
    for chunk in chunks[len(decoding) :]:
        prefills.append(_prefill_rows(chunk, row, cache.block_size, device))
        row += chunk.count
    return PagedBatch(
        cache=cache,
        slots=slots.to(device),
        decode_rows=len(decoding),
        decode_slots=None if decode_slots is None else decode_slots.to(device),
        decode_mask=None if decode_mask is None else decode_mask.to(device),
        prefills=tuple(prefills),
    )


def _slots(sequence: Sequence, block_size: int, start: int, end: int) -> torch.Tensor:
    """Pool slots of the sequence's tokens `start` to `end`."""
    index = torch.arange(start, end)
    blocks = torch.tensor(sequence.blocks)
    return blocks[index // block_size] * block_size + index % block_size


def _decode_context(sequences: list[Sequence], block_size: int) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Slots of all tokens of each sequence, its newest included, padded to the longest; and what is not padding."""
    if not sequences:
        return None, None
    lengths = torch.tensor([sequence.computed + 1 for sequence in sequences])
    longest = int(lengths.max())
    blocks = torch.zeros(len(sequences), -(-longest // block_size), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        blocks[row, : len(sequence.blocks)] = torch.tensor(sequence.blocks[: blocks.shape[1]])
    slots = (blocks[:, :, None] * block_size + torch.arange(block_size)).flatten(1)[:, :longest]
    if int(lengths.min()) == longest:
        return slots, None
    return slots, (torch.arange(longest) < lengths[:, None])[:, None, None]


def _prefill_rows(chunk: Chunk, row: int, block_size: int, device: torch.device) -> PrefillRows:
    start, end = _range(chunk)
    if start == 0:
        return PrefillRows(row, row + chunk.count, None, None)
    mask = torch.arange(end) <= torch.arange(start, end)[:, None]
    return PrefillRows(row, row + chunk.count, _slots(chunk.sequence, block_size, 0, end).to(device), mask.to(device))
