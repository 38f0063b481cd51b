"""The timed engine keeps step with the torch engine: the same sequences are served, and end, in the same steps."""

from __future__ import annotations

from random import Random

import pytest

from easerve.engine.base import Event, NewSequence, Prefilled
from easerve.engine.timed.batching import ContinuousBatching, StepEnd
from easerve.engine.timed.sequence import TimedSequence
from easerve.engine.torch.options import EngineOptions
from easerve.errors import BadRequest
from easerve.request import SamplingParams
from tests.engine.helpers import WORDS, Parts

ARRIVING = 50  # steps before which sequences are added


def drawn(rng: Random, number: int, handed: list[NewSequence]) -> NewSequence:
    """New, resumed, to be handed over, or handed over by another engine."""
    if handed and rng.random() < 0.3:
        return handed.pop()
    sampling = SamplingParams(max_tokens=rng.randint(1, 20), temperature=0.0, ignore_eos=True)
    produced = WORDS[: rng.randint(0, sampling.max_tokens - 1)] if rng.random() < 0.3 else []
    return NewSequence(
        f"{number}",
        [rng.choice(WORDS) for _ in range(rng.randint(1, 60))],
        sampling,
        produced=produced,
        stop_after=rng.choice(("prefill", "decode")),
    )


def of_torch(events: list[Event]) -> set[tuple[str, object]]:
    return {(event.sequence_id, getattr(event, "finish_reason", "prefilled")) for event in events}


def of_timed(step: StepEnd) -> set[tuple[str, object]]:
    return {(output.sequence_id, output.finish_reason) for output in step.outputs} | {
        (sequence.id, "prefilled") for sequence in step.prefilled
    }


@pytest.mark.parametrize("seed", range(4))
def test_steps_are_those_of_the_torch_engine(qwen: Parts, seed: int) -> None:
    rng = Random(seed)
    sizes = {"kv_cache_tokens": rng.choice((96, 160, 400)), "max_batched_tokens": rng.choice((16, 40, 200))}
    options = EngineOptions(**sizes, max_sequences=rng.choice((2, 5)))
    torch_engine = qwen.engine(**sizes, max_sequences=options.max_sequences)
    engine = ContinuousBatching(options, sizes["kv_cache_tokens"])
    handed: list[NewSequence] = []
    known: dict[str, NewSequence] = {}
    step = 0
    while step < ARRIVING or engine.has_work():
        step += 1
        for number in range(rng.choice((0, 0, 0, 0, 1, 3)) if step < ARRIVING else 0):
            new = drawn(rng, 10 * step + number, handed)
            engine.add(TimedSequence.of(new, now=float(step)))
            torch_engine.add(new)
            known[new.id] = new
        if known and rng.random() < 0.1:
            gone = rng.choice(sorted(known))
            engine.abort(gone)
            torch_engine.abort(gone)
        assert engine.has_work() == torch_engine.has_work()
        if not engine.has_work():
            continue
        engine.begin(float(step))
        events = torch_engine.step()
        assert of_timed(engine.end(step + 1.0)) == of_torch(events), f"step {step}"
        assert engine.stats() == torch_engine.stats()
        outputs = {event.sequence_id: event for event in events if not isinstance(event, Prefilled)}
        for event in events:
            if isinstance(event, Prefilled):
                before = known[event.sequence_id]
                token = outputs[event.sequence_id].token_id  # type: ignore[union-attr]
                produced = [*before.produced, token]
                handed.append(NewSequence(before.id, before.prompt, before.sampling, [], produced, event.kv))
    assert not torch_engine.has_work()
    assert len(known) > 20


def test_preemptions_happened_in_what_was_compared() -> None:
    """Or the comparison above would say little."""
    engine = ContinuousBatching(EngineOptions(max_sequences=5, max_batched_tokens=200), 96)
    for number in range(5):
        engine.add(TimedSequence(f"{number}", prompt_length=17, length=17, max_tokens=30))
    steps = 0
    while engine.has_work():
        engine.begin(0.0)
        engine.end(0.0)
        steps += 1
    assert engine.stats().preemptions > 0
    assert engine.stats().output_tokens == 150
    assert engine.stats().kv_blocks_used == 0


def test_what_can_never_fit_is_refused() -> None:
    engine = ContinuousBatching(EngineOptions(), 100)
    with pytest.raises(BadRequest, match="exceeds the 96 that fit"):
        engine.add(TimedSequence("long", prompt_length=96, length=96, max_tokens=1))
