"""Prompts go to the worker that has their beginning in its prefix cache, as long as that is sooner."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easerve.pipeline.pool import Pool
from easerve.pipeline.stages import SequenceJob, Sink
from easerve.policy.beginnings import BLOCK, Beginnings
from easerve.policy.placement import LeastPending
from easerve.policy.prefix import BlockKeys, Medium
from easerve.request import PrefillTimes, SamplingParams, TokenOutput

LONG = 10 * BLOCK
Words = st.lists(st.sampled_from("abc"), max_size=8)  # of a block each


def blocks(words: Sequence[str]) -> BlockKeys:
    """A prompt in which each word fills a block."""
    return BlockKeys([ord(word) for word in words for _ in range(BLOCK)], [], BLOCK)


@given(earlier=st.lists(Words, max_size=6), prompt=Words)
def test_what_is_known_is_the_longest_common_beginning(earlier: list[list[str]], prompt: list[str]) -> None:
    seen = Beginnings(most=1000)
    for words in earlier:
        seen.add(blocks(words))
    common = max((_common(words, prompt) for words in earlier), default=0)
    assert seen.known_tokens(blocks(prompt)) == common * BLOCK


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


@given(st.lists(Words, max_size=20), st.integers(0, 12))
def test_memory_is_bounded_and_the_latest_are_kept(prompts: list[list[str]], most: int) -> None:
    seen = Beginnings(most)
    for words in prompts:
        seen.add(blocks(words))
        assert seen.known_tokens(blocks(words)) == min(len(words), most) * BLOCK


class Worker:
    """Keeps what it is given."""

    decodes = True

    def __init__(self, name: str) -> None:
        self.name = name
        self.ids: list[str] = []

    def start(self, job: SequenceJob, sink: Sink) -> None:
        self.ids.append(job.sequence_id)

    def cancel(self, sequence_id: str) -> None:
        raise AssertionError("nothing is cancelled")


class Prefills:
    """A pool of two workers, and prompts about pictures."""

    def __init__(self, remembered: int) -> None:
        self.workers = [Worker("a"), Worker("b")]
        self.pool = Pool("prefill", LeastPending(), remembered)
        for worker in self.workers:
            self.pool.add_worker(worker)

    async def ask(self, name: str, picture: str, done: bool = True) -> str:
        """The worker that gets a prompt that begins with the picture."""
        tokens = [9] * LONG + [sum(map(ord, name))] * 40
        prompt = BlockKeys(tokens, [Medium(0, LONG, picture)], BLOCK)
        stage = await self.pool.choose(len(tokens), prompt=prompt)
        job = SequenceJob(sequence_id=name, prompt=tuple(tokens), sampling=SamplingParams(max_tokens=1))
        assignment = self.pool.start(stage, job, lambda event: None, prompt)
        if done:
            assignment.token(_first(name), produced=1, now=1.0)
            assignment.end()
        return stage.name


def _first(name: str) -> TokenOutput:
    return TokenOutput(sequence_id=name, token_id=0, finish_reason="stop", times=PrefillTimes(0.0, 0.0, 0.1))


async def test_a_picture_goes_where_it_was() -> None:
    pool = Prefills(remembered=1000)
    first = await pool.ask("keeps a", "one", done=False)
    other = await pool.ask("the other's", "two", done=False)
    assert {first, other} == {"a", "b"}
    for turn in range(4):
        assert await pool.ask(f"{turn} one", "one") == first
        assert await pool.ask(f"{turn} two", "two") == other


async def test_but_not_behind_more_work_than_it_saves() -> None:
    pool = Prefills(remembered=1000)
    home = await pool.ask("first", "one")
    asked = [await pool.ask(f"question {number}", "one", done=False) for number in range(12)]
    saved, each = LONG, 40 + 1  # tokens: the picture's, and those of a question and its answer
    assert [name == home for name in asked[:9]] == [number * each <= saved for number in range(9)]


@pytest.mark.parametrize("picture", ["one", ""])
async def test_without_memory_or_key_it_is_as_if_every_prompt_were_new(picture: str) -> None:
    pool = Prefills(remembered=0 if picture else 1000)
    asked = [await pool.ask(f"question {number}", picture, done=False) for number in range(6)]
    assert asked == ["a", "b"] * 3


async def test_a_worker_is_not_called_slow_for_what_its_cache_had() -> None:
    """A prefill of a few tokens takes as long as a step, however few they are."""
    pool = Prefills(remembered=1000)
    stage = pool.workers[0]
    for cached in (0, LONG, LONG):
        job = SequenceJob(sequence_id="x", prompt=(1,) * (LONG + 10), sampling=SamplingParams(max_tokens=1))
        assignment = pool.pool.start(stage, job, lambda event: None)
        first = TokenOutput(sequence_id="x", token_id=0, times=PrefillTimes(0.0, 0.0, 0.1, cached=cached))
        assignment.token(first, produced=1, now=1.0)
        assignment.end()
    assert pool.pool.loads()["a"].tokens_per_second == pytest.approx((LONG + 10) / 0.1)
