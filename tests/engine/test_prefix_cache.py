"""The prefix cache: whoever starts behind another's keys and values must find those of its own beginning there."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from easerve.engine.base import NewSequence
from easerve.engine.scheduling import BlockPool, Chunk, Scheduler
from easerve.engine.torch.sequence import Sequence
from easerve.policy.prefix import BlockKeys, Medium
from easerve.request import SamplingParams
from tests.engine.helpers import GREEDY, WORDS, Parts, drive, mixed

BLOCK = 4
LARGEST = 7  # blocks of the longest that is drawn

Beginning = tuple[tuple[int, ...], tuple[str, ...]]  # tokens, and keys of the media among them


class Memory:
    """A KV pool that keeps what each slot's keys and values depend on."""

    def __init__(self) -> None:
        self._slots: dict[int, Beginning] = {}

    def compute(self, chunk: Chunk[Sequence], media: list[Medium]) -> None:
        """Raises AssertionError if what the chunk attends to is not the sequence's own beginning."""
        sequence = chunk.sequence
        for index in range(chunk.end):
            slot = sequence.blocks[index // BLOCK] * BLOCK + index % BLOCK
            own = tuple(sequence.tokens[: index + 1]), tuple(one.key for one in media if one.offset <= index)
            if index < chunk.start:
                assert self._slots[slot] == own, f"token {index} of {sequence.id} is another's"
            else:
                self._slots[slot] = own


def entered(number: int, prompt: list[int], media: list[Medium], most: int) -> Sequence:
    new = NewSequence(str(number), prompt, SamplingParams(max_tokens=most))
    made = Sequence.of(new, torch.zeros(1, len(prompt), dtype=torch.long), len(prompt))
    made.prefix = BlockKeys(made.tokens, media, BLOCK)
    return made


@dataclass(frozen=True)
class Drawn:
    """A sequence, the step in which it comes, and the steps after which it is aborted."""

    tokens: list[int]
    picture: tuple[int, int, str] | None  # offset, tokens, key
    most: int  # of output
    arrival: int
    lives: int

    def prompt(self, name: str) -> tuple[list[int], list[Medium]]:
        """A picture without a key is like no other."""
        if self.picture is None:
            return list(self.tokens), []
        offset, length, key = min(self.picture[0], len(self.tokens)), self.picture[1], self.picture[2]
        return [*self.tokens[:offset], *[9] * length, *self.tokens[offset:]], [Medium(offset, length, key)]


DRAWN = st.builds(
    Drawn,
    tokens=st.lists(st.integers(0, 1), min_size=1, max_size=14),  # few kinds, so that many begin alike
    picture=st.none() | st.tuples(st.integers(0, 9), st.integers(1, 6), st.sampled_from(["", "a", "b"])),
    most=st.integers(1, 6),
    arrival=st.integers(0, 12),
    lives=st.just(1000) | st.integers(0, 8),
)


@given(drawn=st.lists(DRAWN, min_size=2, max_size=14), spare=st.integers(0, 8), budget=st.integers(2, 30))
@settings(max_examples=400, deadline=None, derandomize=True)
def test_nobody_attends_to_what_is_not_its_own_beginning(drawn: list[Drawn], spare: int, budget: int) -> None:
    """Through chunks, preemptions, aborts and blocks that change hands; and everyone ends, and nothing is left lent."""
    scheduler, memory = Scheduler[Sequence](BlockPool(LARGEST + spare), BLOCK, budget, 5), Memory()
    media: dict[str, list[Medium]] = {}
    step = 0
    while step <= max(one.arrival for one in drawn) or scheduler.has_work():
        for number, one in enumerate(drawn):
            if one.arrival == step:
                prompt, own = one.prompt(str(number))
                media[str(number)] = [replace(medium, key=medium.key or f"{number}'s own") for medium in own]
                scheduler.add(entered(number, prompt, own, one.most))
            if one.arrival + one.lives == step:
                scheduler.remove(str(number))
        compute(scheduler, memory, media, token=step % 2)
        step += 1
        assert step < 1000, "someone never ends"
    assert scheduler.pool.used == 0 and scheduler.pool.free == LARGEST + spare


def compute(scheduler: Scheduler[Sequence], memory: Memory, media: dict[str, list[Medium]], token: int) -> None:
    """One step, in which every sequence that is due one gets the same token."""
    for chunk in scheduler.schedule(0.0).chunks:
        assert chunk.count > 0, "a token came of nothing"
        sequence, samples = chunk.sequence, chunk.samples
        memory.compute(chunk, media[sequence.id])
        scheduler.advance(chunk)
        if samples:
            sequence.tokens.append(token)
            if sequence.produced >= sequence.sampling.max_tokens:
                scheduler.remove(sequence.id)


def test_a_second_of_the_same_computes_its_last_block_only() -> None:
    scheduler = Scheduler[Sequence](BlockPool(20), BLOCK, 64, 8)
    picture = [Medium(2, 9, "a")]
    for number, (prompt, media, begins_at) in enumerate((
        ([1, 1, *[9] * 9, 2, 3, 4], picture, 0),
        ([1, 1, *[9] * 9, 2, 3, 4], picture, 12),
        ([1, 1, *[9] * 9, 2, 3, 4, 5], picture, 12),
        ([1, 1, *[9] * 9, 3, 3, 3, 3], picture, 8),
        ([1, 1, *[9] * 9, 2, 3, 4], [Medium(2, 9, "b")], 0),
        ([1, 1, *[9] * 9, 2, 3, 4], [Medium(2, 9, "")], 0),
        ([1, 1, *[9] * 9, 2, 3, 4], [Medium(2, 9, "")], 0),
    )):  # fmt: skip
        scheduler.add(entered(number, prompt, media, 1))
        (chunk,) = scheduler.schedule(0.0).chunks
        assert chunk.start == begins_at, f"sequence {number}"
        assert chunk.end == len(prompt)
        scheduler.advance(chunk)
        assert scheduler.token(chunk.sequence, 0.0).cached == begins_at  # type: ignore[union-attr]
        scheduler.remove(str(number))
    assert scheduler.stats().cached_tokens == 12 + 12 + 8


def test_the_longest_unused_goes_first_and_a_beginning_after_its_end() -> None:
    pool = BlockPool(4)
    lent = pool.take(3) or []
    for block, key in zip(lent, (b"1", b"2", b"3"), strict=True):
        pool.name(block, key)
    pool.give_back(lent)
    assert pool.used == 0 and pool.free == 4
    assert pool.take(2) is not None, "the one without a key, then the end"
    assert pool.share([b"1", b"2", b"3"]) == lent[:2]
    assert pool.take(1) is None
    pool.disown(lent[:1])
    assert pool.share([b"1"]) == []


def keyed(new: NewSequence, name: str, key: str = "") -> NewSequence:
    """As a worker gets it: embeddings with the content keys of their items."""
    media = [(offset, replace(one, key=key or f"{one.values.shape[0]}")) for offset, one in new.media]
    return replace(new, id=name, media=media)


@pytest.mark.parametrize("sizes", [{}, {"max_batched_tokens": 16}, {"kv_cache_tokens": 192, "max_sequences": 3}])
def test_answers_are_those_of_an_engine_without(parts: Parts, sizes: dict[str, int]) -> None:
    """Also with small chunks, and with preemptions; twice each, so that the second finds the first's."""
    asked = [one for one in mixed(parts) if len(one.prompt) < 100]
    wanted = drive(parts.engine(**sizes), asked).tokens
    engine = parts.engine(**sizes, prefix_cache=True)
    for turn in range(2):
        found = drive(engine, [keyed(one, f"{one.id} {turn}") for one in asked]).tokens
        assert found == {f"{name} {turn}": tokens for name, tokens in wanted.items()}
    assert engine.stats().cached_tokens > 0
    assert engine.stats().kv_blocks_used == 0


def test_a_conversation_goes_on_behind_its_own_answer(qwen: Parts) -> None:
    """What was generated is in the cache as what was prefilled is."""
    sampling = replace_tokens(GREEDY, 40)
    engine = qwen.engine(prefix_cache=True)
    first = keyed(replace(qwen.sequence("first", 20, [(70, 90)]), sampling=sampling), "first")
    answer = drive(engine, [first]).tokens["first"]
    second = replace(first, id="second", prompt=[*first.prompt, *answer, *WORDS[:5]])
    found = drive(engine, [second])
    times = found.outputs["second"][0].times
    assert times is not None and times.cached == (len(first.prompt) + len(answer) - 1) // 16 * 16
    assert found.tokens["second"] == drive(qwen.engine(), [second]).tokens["second"]


def test_what_cannot_be_trusted_is_shared_with_nobody(qwen: Parts) -> None:
    """An embedding that is no number fails its own request; the same item, sound, is then prefilled anew."""
    sound = keyed(qwen.sequence("sound", 40, [(70, 90)]), "sound", key="item")
    offset, embedding = sound.media[0]
    broken = replace(sound, id="broken", media=[(offset, replace(embedding, values=embedding.values * torch.nan))])
    engine = qwen.engine(prefix_cache=True, max_batched_tokens=16)
    assert "broken" in drive(engine, [broken]).failures
    assert drive(engine, [sound]).tokens["sound"] == drive(qwen.engine(), [sound]).tokens["sound"]
    assert engine.stats().kv_blocks_used == 0


def replace_tokens(sampling: SamplingParams, most: int) -> SamplingParams:
    return SamplingParams(max_tokens=most, temperature=sampling.temperature, ignore_eos=True)
