"""Whose draws a sampled sequence gets, so that it goes on elsewhere as it would have gone on here.

vLLM's first model runner, the only one on CPUs, gives each request a generator that begins with it: what is resumed
would draw anew. There the torch engine draws, whose draws belong to the request's seed and the output position; vLLM is
left with one token to choose from. Its second model runner, which needs a GPU, counts positions itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from vllm import SamplingParams as VllmSamplingParams
from vllm.config import VllmConfig
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor, process_dict_updates

from easerve.engine.base import NewSequence
from easerve.engine.torch import sampler
from easerve.engine.torch.sequence import Sequence
from easerve.request import SamplingParams

_SEEDS = 2**63
_SPREAD = 0x9E3779B97F4A7C15  # so that seeds side by side do not meet; the step of SplitMix64
_OURS = "easerve"  # among the arguments that vLLM carries through to processors

Draws = Callable[[VllmSamplingParams, NewSequence], None]  # settles, in place, how a sequence is drawn


def prepare(config: VllmConfig) -> Draws:
    """To be called before vLLM starts with `config`."""
    if config.use_v2_model_runner:
        return _by_position
    if config.speculative_config is not None:  # lets no processor in
        return _by_stream
    given = config.model_config.logits_processors or []
    config.model_config.logits_processors = [*given, DrawnBefore]
    return _by_us


def _by_position(made: VllmSamplingParams, sequence: NewSequence) -> None:
    made.seed = sequence.sampling.seed % _SEEDS


def _by_stream(made: VllmSamplingParams, sequence: NewSequence) -> None:
    """It begins anew with each request vLLM is given: what goes on must not repeat its beginning."""
    done = len(sequence.produced)
    made.seed = (sequence.sampling.seed * _SPREAD + done if done else sequence.sampling.seed) % _SEEDS


def _by_us(made: VllmSamplingParams, sequence: NewSequence) -> None:
    """What restricts the choice is ours to apply, and vLLM has checked it by now; penalties stay vLLM's."""
    if made.temperature > 0:
        asked = sequence.sampling
        own = SamplingParams(
            temperature=asked.temperature, top_p=asked.top_p, top_k=asked.top_k, min_p=asked.min_p, seed=asked.seed
        )
        made.temperature, made.top_p, made.top_k, made.min_p = 1.0, 1.0, 0, 0.0
        made.extra_args = {_OURS: (own, len(sequence.produced))}


@dataclass(frozen=True)
class _Drawn:
    """What the torch engine's sampler asks of a sequence that vLLM has penalised already. `output` grows."""

    sampling: SamplingParams
    before: int  # output tokens it came with
    output: list[int]

    @property
    def produced(self) -> int:
        return self.before + len(self.output)


class DrawnBefore(LogitsProcessor):  # type: ignore[misc]
    """Draws from the logits of a step, after penalties, and leaves each drawn row the token that it got."""

    def __init__(self, config: VllmConfig, device: torch.device, is_pin_memory: bool) -> None:
        self._drawn: dict[int, _Drawn] = {}  # by row

    def is_argmax_invariant(self) -> bool:
        """In vLLM's sense: greedy rows, which it passes over, are chosen before."""
        return True

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        process_dict_updates(self._drawn, batch_update, _drawn)

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        if self._drawn:
            rows, drawn = list(self._drawn), cast("list[Sequence]", list(self._drawn.values()))
            tokens = sampler.sample(logits[rows], drawn, eos=())
            logits[rows] = float("-inf")
            logits[rows, tokens] = 0.0
        return logits


def _drawn(params: VllmSamplingParams, prompt: list[int] | None, output: list[int]) -> _Drawn | None:
    given: tuple[SamplingParams, int] | None = (params.extra_args or {}).get(_OURS)
    return None if given is None else _Drawn(given[0], given[1], output)
