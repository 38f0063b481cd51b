"""Prefill by new tokens and context, decode by sequences and context, through an engine's own steps."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count
from statistics import median

from easerve.costs.profile_file import DecodeTime, PrefillTime
from easerve.engine.base import LanguageModel, NewSequence
from easerve.profile.plan import Plan
from easerve.profile.timing import Seconds, Stopwatch
from easerve.request import SamplingParams

_TOKENS = range(1, 256)  # that prompts are drawn from: text in every vocabulary here


class Generating:
    """An engine that nothing else uses. `budget` is how many tokens one of its steps takes, `pool` how many its KV pool
    holds."""

    def __init__(self, engine: LanguageModel, budget: int, pool: int, plan: Plan, watch: Stopwatch) -> None:
        self._engine, self._budget, self._pool = engine, budget, pool
        self._plan, self._watch = plan, watch
        self._longest = engine.max_tokens_per_sequence - 1
        self._numbers = count()
        self._random = random.Random(0)

    def prefill_times(self) -> Iterator[PrefillTime]:
        """The last step of a prompt: what steps of a whole budget computed before it is its context."""
        pace = 0.0  # seconds a token
        for context in self._contexts():
            for new in (one for one in self._plan.new if one <= self._budget and context + one <= self._longest):
                if self._watch.too_long(pace * (context + new), self._plan.patience):
                    break
                runs = [self._prompt(context + new) for _ in range(1 + self._watch.repeats)]
                pace = sum(runs[-1]) / (context + new)
                yield PrefillTime(new, context, median(steps[-1] for steps in runs[1:]))

    def _contexts(self) -> Iterator[int]:
        """None, a budget, twice that, and so on."""
        context = 0
        while context < self._longest:
            yield context
            context = max(self._budget, 2 * context)

    def decode_times(self) -> Iterator[DecodeTime]:
        """Steps of sequences that are all past their prompt."""
        for context in self._plan.contexts:
            for sequences in self._plan.sequences:
                steps = self._decode(sequences, context)
                if not steps:
                    break
                yield DecodeTime(sequences, context, median(steps))

    def _prompt(self, length: int) -> list[Seconds]:
        self._add(length, tokens=1)
        steps = []
        while self._engine.has_work():
            steps.append(self._watch.once(self._engine.step))
        return steps

    def _decode(self, sequences: int, context: int) -> list[Seconds]:
        """Nothing when they do not fit, or prefilling them takes longer than patience."""
        tokens = (
            2 + self._watch.repeats + -(-sequences * (context + 1) // self._budget)
        )  # some wait while others prefill
        if context + tokens > self._longest or sequences * (context + tokens) > self._pool:
            return []
        names = [self._add(context, tokens) for _ in range(sequences)]
        spent, steps = 0.0, []
        while self._engine.stats().pending_tokens and spent < self._plan.patience:
            spent += self._watch.once(self._engine.step)
        if not self._engine.stats().pending_tokens:
            steps = [self._watch.once(self._engine.step) for _ in range(1 + self._watch.repeats)]
        for name in names:
            self._engine.abort(name)
        return steps[1:]

    def _add(self, length: int, tokens: int) -> str:
        name = f"profile-{next(self._numbers)}"
        prompt = self._random.choices(_TOKENS, k=length)
        sampling = SamplingParams(temperature=0.0, max_tokens=tokens, ignore_eos=True)
        self._engine.add(NewSequence(name, prompt, sampling))
        return name
