"""The scheduler alone, without a model: budget, order, ownership of blocks, progress, and what it counts."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from easerve.engine.base import KVState, NewSequence
from easerve.engine.scheduling import BlockPool, Plan, Scheduler
from easerve.engine.torch.sequence import Sequence
from easerve.errors import EAServeError
from easerve.request import PrefillTimes, SamplingParams

BLOCK = 4


def make(number: int, prompt: int, output: int, imported: bool = False) -> Sequence:
    """An imported one comes with its prompt's keys and values, and its first token."""
    kv = KVState(torch.zeros(1, 2, prompt, 1, 1), prompt) if imported else None
    new = NewSequence(str(number), [0] * prompt, SamplingParams(max_tokens=output), produced=[0] * imported, kv=kv)
    return Sequence.of(new, torch.zeros(1, prompt, dtype=torch.long), prompt)


def step(scheduler: Scheduler[Sequence], now: float = 0.0) -> Plan[Sequence]:
    """One that computes all it schedules."""
    plan = scheduler.schedule(now)
    for chunk in plan.chunks:
        samples = chunk.samples
        scheduler.advance(chunk)
        if samples:
            chunk.sequence.tokens.append(0)
    return plan


def check(plan: Plan[Sequence], scheduler: Scheduler[Sequence], budget: int) -> None:
    chunks = plan.chunks
    assert chunks, "a step without work"
    assert sum(chunk.count for chunk in chunks) <= budget
    assert len({chunk.sequence.id for chunk in chunks}) == len(chunks)
    owned = [block for one in scheduler.running for block in one.blocks]
    assert len(owned) == len(set(owned)) == scheduler.pool.used
    for chunk in chunks:
        assert chunk.sequence in scheduler.running
        assert len(chunk.sequence.blocks) * BLOCK >= chunk.end
    for one in plan.displaced:
        assert one.sequence in scheduler.waiting
        assert one.sequence.computed >= one.sequence.prompt_length
        assert len(one.blocks) == -(-one.sequence.computed // BLOCK), "not all that it had"
    ages = [int(one.id) for one in (*scheduler.running, *scheduler.waiting)]
    assert ages == sorted(ages), "someone overtook"


@given(
    lengths=st.lists(
        st.tuples(st.integers(1, 30), st.integers(2, 15), st.booleans(), st.integers(0, 9)), min_size=1, max_size=12
    ),
    spare=st.integers(0, 6),
    budget=st.integers(1, 40),
    places=st.integers(1, 6),
)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_everyone_finishes_within_budget_in_order(
    lengths: list[tuple[int, int, bool, int]], spare: int, budget: int, places: int
) -> None:
    blocks = max(-(-(prompt + output) // BLOCK) for prompt, output, *_ in lengths) + spare
    scheduler = Scheduler(BlockPool(blocks), BLOCK, budget, places)
    arrivals = sorted((step, number) for number, (*_, step) in enumerate(lengths))
    sequences = [make(age, *lengths[number][:3]) for age, (_, number) in enumerate(arrivals)]
    began: dict[str, int] = {}
    told: dict[str, PrefillTimes] = {}
    left, queued, now, displacements = list(sequences), 0, 0, 0
    while left:
        while queued < len(arrivals) and arrivals[queued][0] <= now:
            sequences[queued].added = now
            scheduler.add(sequences[queued])
            queued += 1
        now += 1
        if not scheduler.has_work():
            continue
        assert all(one.uncomputed == 1 and one.computed for one in scheduler.running[:-1]), "two prefill at once"
        plan = scheduler.schedule(now)
        check(plan, scheduler, budget)
        displacements += len(plan.displaced)
        for chunk in plan.chunks:
            samples, one = chunk.samples, chunk.sequence
            began.setdefault(one.id, now)
            scheduler.advance(chunk)
            if samples:
                one.tokens.append(0)
                if (times := scheduler.token(one, now + 0.5)) is not None:
                    assert one.id not in told
                    told[one.id] = times
                    assert times.queue == began[one.id] - one.added
                    assert times.prefill == now + 0.5 - began[one.id]
            if one.produced == one.sampling.max_tokens:
                scheduler.remove(one.id)
                left.remove(one)
        assert now < 20_000, "no progress"
    assert told.keys() == {one.id for one in sequences}
    stats = scheduler.stats()
    assert stats.output_tokens == sum(output - imported for _, output, imported, _ in lengths)
    assert stats.preemptions >= displacements
    computed_once = sum(prompt for prompt, _, imported, _ in lengths if not imported)
    assert stats.prompt_tokens == computed_once if stats.preemptions == 0 else stats.prompt_tokens >= computed_once
    assert (stats.running, stats.waiting, stats.kv_blocks_used, stats.pending_tokens) == (0, 0, 0, 0)


def test_the_youngest_gives_way_and_the_oldest_never_does() -> None:
    scheduler = Scheduler(BlockPool(4), BLOCK, 64, 8)
    sequences = [make(number, 6, 20) for number in range(2)]
    for one in sequences:
        scheduler.add(one)
    for _ in range(4):
        step(scheduler)
    assert scheduler.stats().preemptions == 1
    assert scheduler.running == sequences[:1]
    assert list(scheduler.waiting) == sequences[1:]
    assert sequences[1].blocks == []
    assert sequences[1].produced > 0  # what it said stays said


def test_displaced_once_and_named_once_with_the_blocks_it_had() -> None:
    scheduler = Scheduler(BlockPool(4), BLOCK, 64, 8)
    old, young = make(0, 6, 20), make(1, 6, 20, imported=True)
    for one in (old, young):
        scheduler.add(one)
    had, displaced = young.blocks, []
    for _ in range(4):
        displaced += step(scheduler).displaced
        had = young.blocks or had
    [only] = displaced
    assert (only.sequence, only.blocks) == (young, had)
    assert young.uncomputed == 1, "nothing is computed twice"


def test_a_sequence_waits_until_all_of_it_has_room() -> None:
    """Otherwise its first chunk would take blocks only to be displaced by those who decode."""
    scheduler = Scheduler(BlockPool(5), BLOCK, 8, 8)
    old, new = make(0, 8, 9), make(1, 16, 2)
    scheduler.add(old)
    scheduler.add(new)
    for _ in range(4):
        assert [chunk.sequence for chunk in step(scheduler).chunks] == [old]
    scheduler.remove("0")
    assert [chunk.sequence for chunk in scheduler.schedule(0.0).chunks] == [new]


def test_an_id_belongs_to_one_sequence_until_it_is_removed() -> None:
    scheduler = Scheduler(BlockPool(4), BLOCK, 64, 8)
    scheduler.add(make(0, 6, 20))
    with pytest.raises(EAServeError, match="'0' is in the engine already"):
        scheduler.add(make(0, 6, 20))
    step(scheduler)
    scheduler.remove("0")
    scheduler.remove("0")
    assert scheduler.pool.used == 0
    scheduler.add(make(0, 6, 20))
    assert scheduler.stats().waiting == 1


class PoolAgainstModel(RuleBasedStateMachine):
    """The pool and a plain set of free blocks: all or none, nothing twice, nothing lost."""

    loans = Bundle("loans")

    @initialize(blocks=st.integers(1, 12))
    def start(self, blocks: int) -> None:
        self.pool = BlockPool(blocks)
        self.free = set(range(blocks))

    @rule(target=loans, count=st.integers(0, 13))
    def take(self, count: int) -> list[int]:
        taken = self.pool.take(count)
        if count > len(self.free):
            assert taken is None
            return []
        assert taken is not None
        assert len(set(taken)) == len(taken) == count
        assert set(taken) <= self.free
        self.free -= set(taken)
        return taken

    @rule(loan=consumes(loans))
    def give_back(self, loan: list[int]) -> None:
        self.pool.give_back(loan)
        self.free |= set(loan)

    @invariant()
    def counts_agree(self) -> None:
        assert (self.pool.free, self.pool.used) == (len(self.free), self.pool.total - len(self.free))


PoolAgainstModel.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None, derandomize=True)
TestPool = PoolAgainstModel.TestCase


def test_a_block_given_back_twice_is_noticed() -> None:
    pool = BlockPool(2)
    taken = pool.take(1)
    assert taken is not None
    pool.give_back(taken)
    with pytest.raises(AssertionError, match="twice"):
        pool.give_back(taken)
