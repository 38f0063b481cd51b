"""Where sequences decode: by what each worker has still to bring, and by how fast it has turned out to be."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from easerve.pipeline.timing import RequestTimes
from easerve.request import Request, SamplingParams
from easerve.simulate.clock import run_virtually

from .doubles import FakeGenerator, World


def text(name: str, tokens: int) -> Request:
    """A request without media whose answer has so many tokens. All prompts are alike, and so prefilled as fast."""
    return Request(id=name, prompt=(1, *range(400)), sampling=SamplingParams(max_tokens=tokens))


def share(worker: FakeGenerator, prefix: str) -> int:
    return sum(job.sequence_id.startswith(prefix) for job in worker.started)


@settings(max_examples=40, deadline=None)
@given(ratio=st.floats(1.0, 8.0), burst=st.integers(1, 80))
def test_a_burst_is_shared_between_decode_workers_as_their_learnt_speeds_are(ratio: float, burst: int) -> None:
    async def scenario() -> World:
        world = World(generators=2, apart=True)
        slow, fast = world.decoders
        slow.delay, fast.delay = 0.01 * ratio, 0.01
        await asyncio.gather(*(world.run(text(f"warm {i}", 20)) for i in range(2)))
        await asyncio.gather(*(world.run(text(f"burst {i}", 20)) for i in range(burst)))
        world.assert_clean()
        return world

    slow, fast = run_virtually(scenario()).decoders
    assert share(slow, "warm") == share(fast, "warm") == 1
    assert abs(share(fast, "burst") - burst * ratio / (1 + ratio)) <= 1


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(30, 400), min_size=2, max_size=20))
def test_workers_that_prefill_and_decode_are_chosen_by_what_they_are_decoding_too(lengths: list[int]) -> None:
    """Each comes when those before it have a first token but no last, so that nothing is left to prefill."""

    async def scenario() -> None:
        world = World(generators=2, delay=1.0)
        left = dict(enumerate(lengths))

        async def follow(index: int) -> None:
            async for _ in world.pipeline.generate(text(str(index), lengths[index]), RequestTimes(0.0)):
                left[index] -= 1

        tasks = []
        for index in left:
            to_come = [sum(left[int(name.partition("/")[0])] for name in one.running) for one in world.generators]
            tasks.append(asyncio.create_task(follow(index)))
            await asyncio.sleep(1.37)  # never in the very moment of a token
            [chosen] = (k for k, one in enumerate(world.generators) if f"{index}/0" in one.running)
            assert to_come[chosen] == min(to_come)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        world.assert_clean()

    run_virtually(scenario())


def test_what_is_still_to_come_is_counted_down_and_learnt() -> None:
    async def scenario() -> tuple[list[float], list[float]]:
        world = World(apart=True, delay=0.01)
        decode = world.pipeline.pools.decode
        seen: list[list[float]] = []
        for limit in (10, 1000):
            request = Request(id="a", prompt=(1, *range(10)), sampling=SamplingParams(max_tokens=limit))
            outputs = world.pipeline.generate(request, RequestTimes(0.0))
            seen.append([])
            async for _ in outputs:
                await asyncio.sleep(0)  # the first token comes just before the KV
                seen[-1] += [load.pending_tokens for load in decode.loads().values()]
        world.assert_clean()
        return seen[0], seen[1]

    limited, learnt = run_virtually(scenario())
    assert limited == [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]
    assert learnt == [*[10] * 9, 0], "an answer is expected to be as long as those before, not as the limit"
