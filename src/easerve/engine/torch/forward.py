"""What a step computes: one forward over its chunks, and a token for each sequence that is due one.

Changes nothing of a sequence, so that what failed can be tried again.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from easerve.engine.scheduling import Chunk
from easerve.engine.torch import sampler
from easerve.engine.torch.batch import assemble
from easerve.engine.torch.kv_cache import KVCache
from easerve.engine.torch.sequence import Sequence
from easerve.models.base import LanguagePart
from easerve.request import TokenLogprobs


@dataclass(frozen=True)
class Sampled:
    """A sequence's next token; None where its logits are no finite numbers."""

    sequence: Sequence
    token: int | None
    logprobs: TokenLogprobs | None = None


def compute(chunks: list[Chunk[Sequence]], part: LanguagePart, cache: KVCache, eos: tuple[int, ...]) -> list[Sampled]:
    """One entry per chunk that samples. `chunks` in packed order, their earlier keys and values in the pool."""
    inputs = assemble(chunks, part, cache)
    hidden = part.forward(inputs.embeds, inputs.positions, deepstack=inputs.deepstack, paged=inputs.paged)
    sampling = [chunk.sequence for chunk in chunks if chunk.samples]
    return _sample(part.logits(hidden[inputs.sample_rows]), sampling, eos) if sampling else []


def _sample(logits: torch.Tensor, sequences: list[Sequence], eos: tuple[int, ...]) -> list[Sampled]:
    unsound: list[Sampled] = []
    sound = torch.isfinite(logits).all(-1)
    if not bool(sound.all()):
        good = sound.tolist()
        unsound = [Sampled(one, None) for one, fine in zip(sequences, good, strict=True) if not fine]
        sequences = [one for one, fine in zip(sequences, good, strict=True) if fine]
        logits = logits[sound]
    tokens = sampler.sample(logits, sequences, eos)
    logprobs = sampler.logprobs(logits, sequences, tokens)
    return unsound + [Sampled(*each) for each in zip(sequences, tokens, logprobs, strict=True)]
