"""Turns a step's chunks into the tensors of one forward: inputs, positions, and where keys and values lie.

The packed order is decode rows first, then prefill chunks; indices are worked out in plain lists, since a decode step
has few of them and each small tensor costs more than the arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from easerve.engine.scheduling import Chunk
from easerve.engine.torch.attention import DecodeRows, PagedBatch, PrefillRows
from easerve.engine.torch.kv_cache import KVCache
from easerve.engine.torch.sequence import Sequence
from easerve.models.base import LanguagePart

CPU_SPAN = 64  # rows of a prompt that attend together: fewer cost more calls, more compute more that the mask hides


@dataclass(frozen=True)
class StepInputs:
    """Arguments of `LanguagePart.forward`, and the rows whose logits are wanted (of the chunks that sample)."""

    embeds: torch.Tensor  # (tokens, width)
    positions: torch.Tensor  # (rows, tokens) int64
    deepstack: tuple[torch.Tensor, torch.Tensor] | None
    paged: PagedBatch
    sample_rows: torch.Tensor


def in_packed_order(chunks: list[Chunk[Sequence]]) -> list[Chunk[Sequence]]:
    """Decode rows first; otherwise as scheduled."""
    return sorted(chunks, key=_is_decode, reverse=True)


def assemble(chunks: list[Chunk[Sequence]], part: LanguagePart, cache: KVCache) -> StepInputs:
    """`chunks` in packed order."""
    device = part.device
    decoding = [chunk.sequence for chunk in chunks if _is_decode(chunk)]
    prefilling = chunks[len(decoding) :]
    ids, slots, sample_rows = [], [], []
    for chunk in chunks:
        ids += chunk.sequence.tokens[chunk.start : chunk.end]
        slots += cache.slots(chunk.sequence.blocks, chunk.start, chunk.end)
        if chunk.samples:
            sample_rows.append(len(ids) - 1)
    embeds = part.embed(torch.tensor(ids, device=device))
    return StepInputs(
        embeds=embeds,
        positions=_positions(decoding, prefilling).to(device),
        deepstack=_place_media(chunks, embeds),
        paged=PagedBatch(
            cache=cache,
            slots=torch.tensor(slots, device=device),
            decode=_decode_rows(decoding, cache.block_size, device) if decoding else None,
            prefills=_prefill_rows(prefilling, len(decoding), cache, device),
        ),
        sample_rows=torch.tensor(sample_rows, dtype=torch.long, device=device),
    )


def _is_decode(chunk: Chunk[Sequence]) -> bool:
    """One token on top of what is in the pool; its attention can be batched with others'."""
    return chunk.count == 1 and chunk.start > 0


def _positions(decoding: list[Sequence], prefilling: list[Chunk[Sequence]]) -> torch.Tensor:
    parts = []
    if decoding:
        parts.append(torch.tensor([one.position_of(one.computed) for one in decoding]).T)
    parts += [chunk.sequence.positions_of(chunk.start, chunk.end) for chunk in prefilling]
    return torch.cat(parts, dim=1)


def _place_media(chunks: list[Chunk[Sequence]], embeds: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Overwrite placeholder rows with embeddings, in place; returns the rows' deepstack levels where there are any."""
    mask = torch.zeros(embeds.shape[0], dtype=torch.bool, device=embeds.device)
    levels: list[torch.Tensor] = []
    row = 0
    for chunk in chunks:
        for offset, embedding in chunk.sequence.media:
            first, last = max(chunk.start, offset), min(chunk.end, offset + embedding.values.shape[0])
            if first >= last:
                continue
            rows = slice(row + first - chunk.start, row + last - chunk.start)
            embeds[rows] = embedding.values[first - offset : last - offset].to(embeds)
            if embedding.deepstack is not None:
                mask[rows] = True
                levels.append(embedding.deepstack[:, first - offset : last - offset].to(embeds))
        row += chunk.count
    return (mask, torch.cat(levels, dim=1)) if levels else None


def _decode_rows(sequences: list[Sequence], block_size: int, device: torch.device) -> DecodeRows:
    """Padding repeats a sequence's newest token: what another sequence left in the pool, which may be no number at
    all, never enters the arithmetic."""
    longest = max(one.computed for one in sequences) + 1
    width = -(-longest // block_size)
    table = [one.blocks[:width] + [0] * (width - len(one.blocks)) for one in sequences]
    blocks = torch.tensor(table, device=device)
    newest = torch.tensor([[one.computed] for one in sequences], device=device)
    index = torch.arange(longest, device=device)
    own = torch.minimum(index, newest)
    slots = blocks.gather(1, own // block_size) * block_size + own % block_size
    padded = any(one.computed + 1 < longest for one in sequences)
    return DecodeRows(len(sequences), slots.flatten(), (index <= newest)[:, None, None] if padded else None)


def _prefill_rows(
    chunks: list[Chunk[Sequence]], row: int, cache: KVCache, device: torch.device
) -> tuple[PrefillRows, ...]:
    """`row`: where the first chunk begins in the packed batch."""
    found: list[PrefillRows] = []
    for chunk in chunks:
        if chunk.start > 0:
            slots = torch.tensor(cache.slots(chunk.sequence.blocks, 0, chunk.end), device=device)
            found.append(PrefillRows(row, row + chunk.count, row, slots, _causal(chunk.start, chunk.end, device)))
        else:
            found += _first_rows(row, chunk.count, device)
        row += chunk.count
    return tuple(found)


def _first_rows(row: int, count: int, device: torch.device) -> Iterator[PrefillRows]:
    """Of a sequence's first chunk."""
    span = CPU_SPAN if device.type == "cpu" else count
    for start in range(0, count, span):
        end = min(count, start + span)
        mask = _causal(start, end, device) if start > 0 else None
        yield PrefillRows(row + start, row + end, row, None, mask)


def _causal(start: int, end: int, device: torch.device) -> torch.Tensor:
    """(end - start, end) bool: tokens `start` to `end`, each with itself and all before it."""
    return torch.arange(end, device=device) <= torch.arange(start, end, device=device)[:, None]
